//! Versions of PostgreSQL: the majors we can install, and the version of any
//! server we talk to.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A major version that walwright can install and run by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Major {
    /// PostgreSQL 14
    V14,
    /// PostgreSQL 15
    V15,
    /// PostgreSQL 16
    V16,
    /// PostgreSQL 17
    V17,
    /// PostgreSQL 18, the default
    #[default]
    V18,
}

impl Major {
    /// Every major we install, oldest first.
    pub const ALL: [Major; 5] = [Self::V14, Self::V15, Self::V16, Self::V17, Self::V18];

    /// The number people write: 14 to 18.
    pub fn number(self) -> u32 {
        match self {
            Self::V14 => 14,
            Self::V15 => 15,
            Self::V16 => 16,
            Self::V17 => 17,
            Self::V18 => 18,
        }
    }
}

impl fmt::Display for Major {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.number())
    }
}

/// A text that names no major version we install.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a PostgreSQL version that can be installed: give one of 14, 15, 16, 17, 18")]
pub struct UnknownMajor(pub String);

impl FromStr for Major {
    type Err = UnknownMajor;

    fn from_str(text: &str) -> Result<Self, UnknownMajor> {
        let number: Option<u32> = text.trim().parse().ok();
        Self::ALL
            .into_iter()
            .find(|major| Some(major.number()) == number)
            .ok_or_else(|| UnknownMajor(text.to_owned()))
    }
}

/// The version of a server as `server_version_num` writes it: 180006 is 18.6.
///
/// Valid for PostgreSQL 10 and later, where the number is major × 10000 + minor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PgVersion(u32);

impl PgVersion {
    /// The oldest server walwright works with.
    pub const OLDEST_SUPPORTED: PgVersion = PgVersion(140_000);

    /// From the text of `server_version` or of `postgres --version`: "18.6",
    /// "17devel", "16.4 (Debian 16.4-1)", "postgres (PostgreSQL) 14.23".
    ///
    /// `None` when no version number is in the text.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.split_once("(PostgreSQL)").map_or(text, |(_, after)| after).trim_start();
        let mut parts = text.splitn(2, '.');
        let major = leading_number(parts.next()?)?;
        let minor = parts.next().and_then(leading_number).unwrap_or(0);
        if major < 10 {
            // Before 10 a major version had two parts: 9.6.24 is 90624.
            return Some(Self(major.checked_mul(10_000)? + minor.min(99) * 100));
        }
        Some(Self(major.checked_mul(10_000)?.checked_add(minor)?))
    }

    /// The major version: 18 of 18.6.
    pub fn major(self) -> u32 {
        self.0 / 10_000
    }

    /// The minor version: 6 of 18.6.
    pub fn minor(self) -> u32 {
        self.0 % 10_000
    }
}

impl fmt::Display for PgVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.major() < 10 {
            write!(f, "{}.{}", self.major(), self.minor() / 100)
        } else {
            write!(f, "{}.{}", self.major(), self.minor())
        }
    }
}

fn leading_number(text: &str) -> Option<u32> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_every_usual_text() {
        for (text, num, shown) in [
            ("18.6", 180_006, "18.6"),
            ("17devel", 170_000, "17.0"),
            ("18beta1", 180_000, "18.0"),
            ("16.4 (Debian 16.4-1.pgdg120+1)", 160_004, "16.4"),
            ("postgres (PostgreSQL) 14.23", 140_023, "14.23"),
            ("postgres (PostgreSQL) 15.6 (Ubuntu 15.6-1)\n", 150_006, "15.6"),
            ("9.6.24", 90_600, "9.6"),
        ] {
            let version = PgVersion::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(version.0, num, "{text}");
            assert_eq!(version.to_string(), shown);
        }
        assert_eq!(PgVersion::parse("EDB"), None);
        assert_eq!(PgVersion::parse("99999999999"), None);
    }

    #[test]
    fn majors_are_read_and_refused() {
        assert_eq!("18".parse(), Ok(Major::V18));
        assert_eq!(" 14 ".parse(), Ok(Major::V14));
        assert!("13".parse::<Major>().is_err());
        assert!("18.6".parse::<Major>().is_err());
    }
}
