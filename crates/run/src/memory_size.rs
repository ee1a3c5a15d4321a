//! An amount of memory as files and command lines have it.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// An amount of memory in bytes: `512MB`, `4GB`, `1.5TB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MemorySize(pub u64);

/// Units, the smallest first; they count by 1024.
const UNITS: [(&str, u64); 3] = [("MB", 1 << 20), ("GB", 1 << 30), ("TB", 1 << 40)];

impl FromStr for MemorySize {
    type Err = String;

    fn from_str(text: &str) -> Result<MemorySize, String> {
        let wrong = || format!("'{text}' is not an amount of memory: write 64GB or 512MB");
        let split = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
        let (number, unit) = text.split_at(split);
        let number: f64 = number.trim().parse().map_err(|_| wrong())?;
        let unit = unit.strip_suffix('B').unwrap_or(unit);
        let named = UNITS.iter().find(|(name, _)| name.strip_suffix('B') == Some(unit));
        let bytes = number * named.ok_or_else(wrong)?.1 as f64;
        let sane = UNITS[0].1 as f64..1e18;
        if sane.contains(&bytes) { Ok(MemorySize(bytes as u64)) } else { Err(wrong()) }
    }
}

impl fmt::Display for MemorySize {
    /// In the largest unit that leaves a whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = |(_, unit): &(&str, u64)| self.0.is_multiple_of(*unit) && self.0 >= *unit;
        match UNITS.into_iter().rev().find(whole) {
            Some((name, unit)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{}MB", self.0 as f64 / UNITS[0].1 as f64),
        }
    }
}

impl TryFrom<String> for MemorySize {
    type Error = String;

    fn try_from(text: String) -> Result<MemorySize, String> {
        text.parse()
    }
}

impl From<MemorySize> for String {
    fn from(size: MemorySize) -> String {
        size.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_has_a_unit() {
        let of = |text: &str| text.parse::<MemorySize>().map(|size| size.0);
        assert_eq!(of("1.5GB"), Ok(1_610_612_736));
        assert_eq!(of("512M"), Ok(536_870_912));
        for wrong in ["", "64", "GB", "-1GB", "1e30TB", "5 parsecs", "0MB", "5kB", "5B"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
        for text in ["512MB", "1GB", "1536MB", "2TB"] {
            assert_eq!(text.parse::<MemorySize>().unwrap().to_string(), text);
        }
    }
}
