//! Values as PostgreSQL reads them (`parse_int`, `parse_real`, `parse_bool` and
//! `convert_to_base_unit` of `guc.c`).

use std::fmt;
use std::time::Duration;

use thiserror::Error;

use crate::{Kind, Parameter};

/// A value that was read. Numbers are in the parameter's own unit.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `on` or `off`.
    Bool(bool),
    /// A number and its unit.
    Number(f64, Option<Unit>),
    /// A word of an enum, or text.
    Text(String),
}

/// A unit of numbers: bytes or time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Unit {
    /// So many bytes.
    Bytes(f64),
    /// So many microseconds.
    Micros(f64),
}

/// Why a value is none.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum ValueError {
    /// Not of the type.
    #[error("'{text}' is not {expected}")]
    Type {
        /// What was written.
        text: String,
        /// What was expected.
        expected: String,
    },
    /// A unit that does not fit.
    #[error("'{unit}' is no unit for it; {expected}")]
    Unit {
        /// What was written.
        unit: String,
        /// What was expected.
        expected: &'static str,
    },
    /// Outside the range.
    #[error("{text} is outside {low} .. {high}")]
    Range {
        /// What was written.
        text: String,
        /// Lowest allowed, in the parameter's unit.
        low: String,
        /// Highest.
        high: String,
    },
}

impl Unit {
    /// The unit PostgreSQL writes so, with a count before it: `8kB`, `ms`.
    pub fn named(text: &str) -> Option<Unit> {
        let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (count, name) = text.split_at(split);
        let count: f64 = if count.is_empty() { 1.0 } else { count.parse().ok()? };
        Some(match name {
            "B" => Unit::Bytes(count),
            "kB" => Unit::Bytes(count * 1024.0),
            "MB" => Unit::Bytes(count * 1024.0 * 1024.0),
            "GB" => Unit::Bytes(count * 1024.0 * 1024.0 * 1024.0),
            "TB" => Unit::Bytes(count * 1024.0 * 1024.0 * 1024.0 * 1024.0),
            "us" => Unit::Micros(count),
            "ms" => Unit::Micros(count * 1e3),
            "s" => Unit::Micros(count * 1e6),
            "min" => Unit::Micros(count * 60e6),
            "h" => Unit::Micros(count * 3600e6),
            "d" => Unit::Micros(count * 86_400e6),
            _ => return None,
        })
    }
}

impl Value {
    /// Reads a value of `parameter`.
    pub(crate) fn read(parameter: &Parameter, text: &str) -> Result<Value, ValueError> {
        match parameter.kind {
            Kind::Bool => boolean(text)
                .map(Value::Bool)
                .ok_or_else(|| wrong(text, "a truth value: on or off")),
            Kind::Enum => word(parameter, text),
            Kind::String => Ok(Value::Text(text.to_owned())),
            Kind::List => list(parameter, text),
            Kind::Integer | Kind::Real => number(parameter, text),
        }
    }

    /// The number, in the parameter's unit.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Number(number, _) => Some(*number),
            _ => None,
        }
    }

    /// The number of bytes it means; `None` where it is none or negative.
    pub fn bytes(&self) -> Option<f64> {
        match self {
            Value::Number(number, Some(Unit::Bytes(size))) if *number >= 0.0 => Some(number * size),
            _ => None,
        }
    }

    /// The time it means; `None` where it is none or negative.
    pub fn duration(&self) -> Option<Duration> {
        match self {
            Value::Number(number, Some(Unit::Micros(size))) => {
                Duration::try_from_secs_f64(number * size / 1e6).ok()
            }
            _ => None,
        }
    }

    /// Whether it is `on`.
    pub fn is_on(&self) -> bool {
        matches!(self, Value::Bool(true)) || self.text() == Some("on")
    }

    /// Whether it is `off`.
    pub fn is_off(&self) -> bool {
        matches!(self, Value::Bool(false)) || self.text() == Some("off")
    }

    /// The word or text.
    pub fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl fmt::Display for Value {
    /// As a person writes it: the largest unit that leaves a whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const BYTES: [(&str, f64); 5] = [
            ("TB", 1_099_511_627_776.0),
            ("GB", 1_073_741_824.0),
            ("MB", 1_048_576.0),
            ("kB", 1024.0),
            ("B", 1.0),
        ];
        /// From here on a float holds whole numbers alone, and not all of them.
        const WHOLE: f64 = 9_007_199_254_740_992.0;
        /// What a whole number of 64 bits and a sign becomes as a float, at most.
        const LARGEST: f64 = 9_223_372_036_854_775_808.0;
        const MICROS: [(&str, f64); 6] =
            [("d", 86_400e6), ("h", 3600e6), ("min", 60e6), ("s", 1e6), ("ms", 1e3), ("us", 1.0)];
        match self {
            Value::Bool(on) => f.write_str(if *on { "on" } else { "off" }),
            Value::Text(text) => f.write_str(text),
            // Of larger numbers a float would print other digits than the whole number it
            // stands for; the largest there are, 2^63 - 1, would become one too many.
            Value::Number(number, None) if number.abs() >= WHOLE && number.abs() <= LARGEST => {
                write!(f, "{}", *number as i64)
            }
            Value::Number(number, None) => write!(f, "{number}"),
            // -1 and 0 mean something of their own more often than a size.
            Value::Number(number, Some(_)) if *number <= 0.0 => write!(f, "{number}"),
            Value::Number(number, Some(unit)) => {
                let (total, units) = match unit {
                    Unit::Bytes(size) => (number * size, &BYTES[..]),
                    Unit::Micros(size) => (number * size, &MICROS[..]),
                };
                let fits =
                    |(_, size): &&(&str, f64)| total >= *size && (total / size).fract() == 0.0;
                match units.iter().find(fits) {
                    Some((name, size)) => write!(f, "{}{name}", total / size),
                    None => write!(f, "{total}{}", units[units.len() - 1].0),
                }
            }
        }
    }
}

fn wrong(text: &str, expected: impl Into<String>) -> ValueError {
    ValueError::Type { text: text.to_owned(), expected: expected.into() }
}

/// Any beginning of true, false, yes, no, on or off that is theirs alone, or 1 or 0.
fn boolean(text: &str) -> Option<bool> {
    let text = text.to_ascii_lowercase();
    let begins = |word: &str, least: usize| text.len() >= least && word.starts_with(&text);
    if begins("true", 1) || begins("yes", 1) || begins("on", 2) || text == "1" {
        Some(true)
    } else if begins("false", 1) || begins("no", 1) || begins("off", 2) || text == "0" {
        Some(false)
    } else {
        None
    }
}

/// A word of an enum. Where it knows on and off, it takes their other spellings too.
fn word(parameter: &Parameter, text: &str) -> Result<Value, ValueError> {
    let known = |word: &str| parameter.values.iter().find(|v| v.eq_ignore_ascii_case(word));
    let spelled = known(text).or_else(|| known(if boolean(text)? { "on" } else { "off" }));
    spelled
        .map(|word| Value::Text(word.clone()))
        .ok_or_else(|| wrong(text, format!("one of {}", parameter.values.join(", "))))
}

/// Whole numbers, as many as the parameter has, kept with one blank between them.
fn list(parameter: &Parameter, text: &str) -> Result<Value, ValueError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let whole = |word: &&str| word.bytes().all(|b| b.is_ascii_digit()) && word.len() < 20;
    let enough = parameter.numbers.is_none_or(|numbers| words.len() == numbers);
    match words.iter().all(whole) && !words.is_empty() && enough {
        true => Ok(Value::Text(words.join(" "))),
        false => {
            let count = parameter.numbers.map_or_else(String::new, |n| format!("{n} "));
            Err(wrong(text, format!("{count}whole numbers with blanks between them")))
        }
    }
}

/// A unit as tools other than PostgreSQL spell it (`mdadm`, `mkfs.xfs`, `fio`): a letter,
/// in either case but for `b`, which is a block of the file system (usually 4 kB): `B` is
/// a byte, as PostgreSQL has it.
fn tool_unit(text: &str) -> Option<Unit> {
    if text == "b" {
        return Some(Unit::Bytes(4096.0));
    }
    let bytes = match text.to_ascii_lowercase().as_str() {
        "k" | "kb" | "kib" => 1024.0,
        "m" | "mb" | "mib" => 1_048_576.0,
        "g" | "gb" | "gib" => 1_073_741_824.0,
        "t" | "tb" | "tib" => 1_099_511_627_776.0,
        _ => return None,
    };
    Some(Unit::Bytes(bytes))
}

fn number(parameter: &Parameter, text: &str) -> Result<Value, ValueError> {
    let base = parameter.unit.as_deref().and_then(Unit::named);
    let trimmed = text.trim();
    let (digits, unit) = split_unit(trimmed);
    let parsed = parse_number(digits).ok_or_else(|| wrong(text, "a number"))?;
    let mut value = if unit.is_empty() {
        parsed
    } else {
        let expected = match base {
            None => "it has none",
            Some(Unit::Bytes(_)) => "known are B, kB, MB, GB and TB",
            Some(Unit::Micros(_)) => "known are us, ms, s, min, h and d",
        };
        let refused = || ValueError::Unit { unit: unit.to_owned(), expected };
        // Here a unit has no count before it.
        let given = match parameter.is_setting() {
            true => Unit::named(unit),
            false => tool_unit(unit).or_else(|| Unit::named(unit)),
        };
        let given = given.ok_or_else(refused)?;
        match (base, given) {
            (Some(Unit::Bytes(base)), Unit::Bytes(given))
            | (Some(Unit::Micros(base)), Unit::Micros(given)) => parsed * given / base,
            _ => return Err(refused()),
        }
    };
    if parameter.kind == Kind::Integer {
        value = value.round_ties_even();
    }
    if let Some([low, high]) = &parameter.bounds
        && let (Ok(least), Ok(most)) = (low.parse::<f64>(), high.parse::<f64>())
        && !(least..=most).contains(&value)
    {
        return Err(ValueError::Range {
            text: trimmed.to_owned(),
            low: low.clone(),
            high: high.clone(),
        });
    }
    Ok(Value::Number(value, base))
}

/// A number and the letters after it. Hexadecimal digits belong to the number.
fn split_unit(text: &str) -> (&str, &str) {
    let unsigned = text.trim_start_matches(['+', '-']);
    let hex = unsigned.starts_with("0x") || unsigned.starts_with("0X");
    if hex {
        return (text, "");
    }
    // An exponent's e is followed by a digit or sign; no unit begins with e.
    let end = text
        .char_indices()
        .find(|(at, c)| {
            let exponent = matches!(c, 'e' | 'E')
                && text[*at + 1..]
                    .starts_with(|n: char| n.is_ascii_digit() || n == '+' || n == '-');
            c.is_ascii_alphabetic() && !exponent
        })
        .map_or(text.len(), |(at, _)| at);
    (text[..end].trim_end(), text[end..].trim())
}

/// A number as `strtod` and, for whole ones, `strtol` with base 0 read it.
fn parse_number(text: &str) -> Option<f64> {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if let Some(hex) = unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
        return u64::from_str_radix(hex, 16).ok().map(|n| sign * n as f64);
    }
    let octal = unsigned.len() > 1 && unsigned.starts_with('0');
    if octal && unsigned.bytes().all(|b| b.is_ascii_digit()) {
        return u64::from_str_radix(unsigned, 8).ok().map(|n| sign * n as f64);
    }
    if !unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    unsigned.parse::<f64>().ok().filter(|n| n.is_finite()).map(|n| sign * n)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{parameter, parameters};

    fn read(name: &str, text: &str) -> Result<Value, ValueError> {
        parameter(name).unwrap().read(text)
    }

    #[test]
    fn units_are_those_of_the_server() {
        assert_eq!(read("shared_buffers", "16384").unwrap().to_string(), "128MB");
        assert_eq!(read("shared_buffers", "0.5GB").unwrap().to_string(), "512MB");
        assert_eq!(read("max_wal_size", "2 GB").unwrap().bytes(), Some(2_147_483_648.0));
        assert_eq!(
            read("checkpoint_timeout", "5min").unwrap().duration(),
            Some(Duration::from_secs(300))
        );
        assert_eq!(read("autovacuum_vacuum_cost_delay", "0.5ms").unwrap().number(), Some(0.5));
        assert_eq!(read("wal_buffers", "-1").unwrap().to_string(), "-1");
        assert_eq!(read("max_connections", "0x10").unwrap().number(), Some(16.0));
        assert_eq!(read("random_page_cost", "1.1e0").unwrap().number(), Some(1.1));
        assert!(matches!(read("shared_buffers", "1kb"), Err(ValueError::Unit { .. })));
        assert!(matches!(read("shared_buffers", "5s"), Err(ValueError::Unit { .. })));
        assert!(matches!(read("max_connections", "5MB"), Err(ValueError::Unit { .. })));
        assert!(matches!(read("checkpoint_timeout", "1s"), Err(ValueError::Range { .. })));
    }

    #[test]
    fn units_of_other_places_are_those_of_their_tools() {
        assert_eq!(read("array.chunk", "64K").unwrap().to_string(), "64kB");
        assert_eq!(read("array.chunk", "64").unwrap().to_string(), "64kB");
        assert_eq!(read("xfs.log_sunit", "1b").unwrap().to_string(), "4kB");
        assert_eq!(read("probe.size", "10G").unwrap().bytes(), Some(10_737_418_240.0));
        assert!(matches!(read("array.chunk", "64ms"), Err(ValueError::Unit { .. })));
        assert!(matches!(read("vm.swappiness", "500"), Err(ValueError::Range { .. })));
        assert_eq!(
            read("kernel.sem", "250\t32000  100 128").unwrap().text(),
            Some("250 32000 100 128")
        );
        for text in ["4096 many 1", "4096", "4096 87380", "4096 87380 16777216 1", ""] {
            assert!(read("net.ipv4.tcp_rmem", text).is_err(), "{text}");
        }
        let error = read("kernel.sem", "250").unwrap_err().to_string();
        assert_eq!(error, "'250' is not 4 whole numbers with blanks between them");
    }

    /// What `number` of a parameter's unit is printed as.
    fn printed(parameter: &Parameter, number: f64) -> String {
        Value::Number(number, parameter.unit.as_deref().and_then(Unit::named)).to_string()
    }

    #[test]
    fn what_is_printed_of_any_place_reads_as_the_same() {
        assert_eq!(read("vm.dirty_bytes", "268435457B").unwrap().bytes(), Some(268_435_457.0));
        assert_eq!(read("xfs.log_sunit", "1b").unwrap().bytes(), Some(4096.0));
        let most = "9223372036854775807";
        assert_eq!(read("fs.file-max", most).unwrap().to_string(), most);
        for parameter in parameters() {
            let plain = parameter.bounds.iter().flatten().map(String::as_str);
            for text in plain.chain(parameter.default(18)) {
                let value = parameter.read(text).unwrap();
                let again = parameter.read(&value.to_string());
                assert_eq!(again, Ok(value), "{} = {text}", parameter.name);
            }
            let Some([low, high]) = &parameter.bounds else { continue };
            let (low, high): (f64, f64) = (low.parse().unwrap(), high.parse().unwrap());
            for number in [2305.0, 268_435_457.0, 1025.0] {
                let number: f64 = number;
                if (low..=high).contains(&number) {
                    let text = printed(parameter, number);
                    let again = parameter.read(&text).unwrap();
                    assert_eq!(again.number(), Some(number), "{} = {text}", parameter.name);
                }
            }
        }
    }

    #[test]
    fn words_are_those_of_the_server() {
        assert!(read("fsync", "OF").unwrap().is_off());
        assert!(read("fsync", "t").unwrap().is_on());
        assert!(read("fsync", "o").is_err());
        assert!(read("synchronous_commit", "no").unwrap().is_off());
        assert_eq!(read("synchronous_commit", "LOCAL").unwrap().text(), Some("local"));
        assert!(read("synchronous_commit", "sometimes").is_err());
    }

    proptest! {
        #[test]
        fn no_text_brings_it_down(text in ".{0,40}") {
            for parameter in parameters() {
                if let Ok(value) = parameter.read(&text) {
                    let _ = (value.to_string(), value.bytes(), value.duration());
                }
            }
        }

        #[test]
        fn what_is_printed_reads_as_the_same(pages in 16_u32..1_073_741_823) {
            let value = read("shared_buffers", &pages.to_string()).unwrap();
            prop_assert_eq!(read("shared_buffers", &value.to_string()).unwrap(), value);
        }
    }
}
