//! One line of a configuration file, as `guc-file.l` reads it.

use thiserror::Error;

/// What a line holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// Nothing, or a comment.
    Empty,
    /// `name = value`. The name is as written.
    Setting {
        /// Name.
        name: String,
        /// Value, with quotes and escapes taken out.
        value: String,
    },
    /// `include 'file'`.
    Include(String),
    /// `include_if_exists 'file'`.
    IncludeIfExists(String),
    /// `include_dir 'directory'`.
    IncludeDirectory(String),
}

/// Why a line is none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SyntaxError {
    /// No name where one is expected.
    #[error("a name is expected at \"{0}\"")]
    Name(String),
    /// No value after a name.
    #[error("{0} has no value")]
    Value(String),
    /// A quote that is not closed on its line.
    #[error("the quote of {0} is not closed")]
    Quote(String),
    /// Something after the value.
    #[error(
        "\"{0}\" is left over after the value; a value with other signs than letters, digits and -._:/ needs quotes"
    )]
    LeftOver(String),
}

/// Reads one line, without its line feed.
///
/// # Errors
/// When it is not what the server would take.
pub fn parse_line(line: &str) -> Result<Line, SyntaxError> {
    let rest = blank(line);
    if is_end(rest) {
        return Ok(Line::Empty);
    }
    let (name, rest) = name(rest).ok_or_else(|| SyntaxError::Name(shown(rest)))?;
    let rest = blank(rest);
    let rest = blank(rest.strip_prefix('=').unwrap_or(rest));
    let (value, rest) = value(name, rest)?;
    let rest = blank(rest);
    if !is_end(rest) {
        return Err(SyntaxError::LeftOver(shown(rest)));
    }
    Ok(match name.to_ascii_lowercase().as_str() {
        "include" => Line::Include(value),
        "include_if_exists" => Line::IncludeIfExists(value),
        "include_dir" => Line::IncludeDirectory(value),
        _ => Line::Setting { name: name.to_owned(), value },
    })
}

fn blank(text: &str) -> &str {
    text.trim_start_matches([' ', '\t', '\r'])
}

fn is_end(text: &str) -> bool {
    text.is_empty() || text.starts_with('#')
}

/// A part short enough for a message.
fn shown(text: &str) -> String {
    text.trim_end().chars().take(40).collect()
}

/// `LETTER` of the grammar: everything beyond ASCII counts.
fn letter(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || !c.is_ascii()
}

/// An identifier, or two with a dot between.
fn name(text: &str) -> Option<(&str, &str)> {
    let first = identifier(text)?;
    let rest = &text[first..];
    let second = rest.strip_prefix('.').and_then(identifier).map_or(0, |length| length + 1);
    Some(text.split_at(first + second))
}

fn identifier(text: &str) -> Option<usize> {
    if !text.starts_with(letter) {
        return None;
    }
    Some(text.find(|c: char| !letter(c) && !c.is_ascii_digit() && c != '$').unwrap_or(text.len()))
}

fn value<'a>(name: &str, text: &'a str) -> Result<(String, &'a str), SyntaxError> {
    if let Some(quoted) = text.strip_prefix('\'') {
        return quoted_value(quoted).ok_or_else(|| SyntaxError::Quote(name.to_owned()));
    }
    let first = text.chars().next().filter(|_| !is_end(text));
    let length = match first {
        None => return Err(SyntaxError::Value(name.to_owned())),
        Some(c) if letter(c) => {
            let of_word = |c: char| letter(c) || c.is_ascii_digit() || "-._:/".contains(c);
            text.find(|c: char| !of_word(c)).unwrap_or(text.len())
        }
        Some(_) => number(text).ok_or_else(|| SyntaxError::LeftOver(shown(text)))?,
    };
    let (value, rest) = text.split_at(length);
    Ok((value.to_owned(), rest))
}

/// Length of a number: whole ones may have a unit, fractions an exponent.
fn number(text: &str) -> Option<usize> {
    let signed = usize::from(text.starts_with(['+', '-']));
    let digits = |from: usize| {
        text[from..].find(|c: char| !c.is_ascii_digit()).map_or(text.len(), |n| from + n)
    };
    if text[signed..].starts_with("0x") {
        let end = text[signed + 2..]
            .find(|c: char| !c.is_ascii_alphanumeric())
            .map_or(text.len(), |n| signed + 2 + n);
        return Some(end);
    }
    let whole = digits(signed);
    if text[whole..].starts_with('.') {
        let mut end = digits(whole + 1);
        if end == whole + 1 && whole == signed {
            return None;
        }
        if text[end..].starts_with(['e', 'E']) {
            let sign = usize::from(text[end + 1..].starts_with(['+', '-']));
            let exponent = digits(end + 1 + sign);
            if exponent > end + 1 + sign {
                end = exponent;
            }
        }
        return Some(end);
    }
    if whole == signed {
        return None;
    }
    let unit = text[whole..].find(|c: char| !c.is_ascii_alphabetic());
    Some(unit.map_or(text.len(), |n| whole + n))
}

/// The inside of a quoted value and what follows (`DeescapeQuotedString`).
fn quoted_value(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = text.chars();
    loop {
        match rest.next()? {
            '\'' => match rest.as_str().strip_prefix('\'') {
                Some(after) => {
                    value.push('\'');
                    rest = after.chars();
                }
                None => return Some((value, rest.as_str())),
            },
            '\\' => value.push(match rest.next()? {
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                digit @ '0'..='7' => {
                    let mut code = digit.to_digit(8).unwrap_or(0);
                    for _ in 0..2 {
                        let Some(next) = rest.as_str().chars().next().and_then(|c| c.to_digit(8))
                        else {
                            break;
                        };
                        code = code * 8 + next;
                        rest.next();
                    }
                    // One byte, as the server has it.
                    char::from((code & 0xff) as u8)
                }
                other => other,
            }),
            other => value.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(name: &str, value: &str) -> Result<Line, SyntaxError> {
        Ok(Line::Setting { name: name.to_owned(), value: value.to_owned() })
    }

    #[test]
    fn lines_are_read_as_the_server_reads_them() {
        assert_eq!(parse_line("  # nothing\r"), Ok(Line::Empty));
        assert_eq!(parse_line("fsync off"), set("fsync", "off"));
        assert_eq!(parse_line("shared_buffers=128MB # quarter"), set("shared_buffers", "128MB"));
        assert_eq!(parse_line("a.b = 'it''s \\'so\\''#x"), set("a.b", "it's 'so'"));
        assert_eq!(parse_line("seq_page_cost = 1.0e-1"), set("seq_page_cost", "1.0e-1"));
        assert_eq!(parse_line("x = -1"), set("x", "-1"));
        assert_eq!(
            parse_line("log_line_prefix = '%m [%p] \\101'"),
            set("log_line_prefix", "%m [%p] A")
        );
        assert_eq!(parse_line("include 'a b.conf'"), Ok(Line::Include("a b.conf".to_owned())));
        assert_eq!(
            parse_line("include_dir=conf.d"),
            Ok(Line::IncludeDirectory("conf.d".to_owned()))
        );
    }

    #[test]
    fn what_the_server_refuses_is_refused() {
        assert!(matches!(parse_line("= 5"), Err(SyntaxError::Name(_))));
        assert!(matches!(parse_line("fsync"), Err(SyntaxError::Value(_))));
        assert!(matches!(parse_line("fsync = # no"), Err(SyntaxError::Value(_))));
        assert!(matches!(parse_line("a = 'open"), Err(SyntaxError::Quote(_))));
        assert!(matches!(parse_line("work_mem = 1.5GB"), Err(SyntaxError::LeftOver(_))));
        assert!(matches!(parse_line("a = b c"), Err(SyntaxError::LeftOver(_))));
        assert!(matches!(parse_line("listen = *"), Err(SyntaxError::LeftOver(_))));
    }

    proptest! {
        #[test]
        fn no_line_brings_it_down(line in "[\\PC'\\\\=#.x0-9 \t-]{0,60}") {
            let _ = parse_line(&line);
        }

        #[test]
        fn a_quoted_value_comes_back_from_one_line(value in "[^\0]{0,30}") {
            let quoted = crate::conf_literal(&value);
            prop_assert!(!quoted.contains(['\n', '\r']));
            prop_assert_eq!(parse_line(&format!("x = {quoted}")), set("x", &value));
        }
    }
}
