//! What documents are found by.

use std::fmt;
use std::str::FromStr;

use bytes::{BufMut, BytesMut};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

type Failure = Box<dyn std::error::Error + Sync + Send>;

/// A UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(u128);

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |shift: u32, bits: u32| (self.0 >> shift) & ((1 << bits) - 1);
        let (a, b, c, d) = (part(96, 32), part(80, 16), part(64, 16), part(48, 16));
        write!(f, "{a:08x}-{b:04x}-{c:04x}-{d:04x}-{:012x}", part(0, 48))
    }
}

impl FromStr for Uuid {
    type Err = ();

    /// Only the usual form, so that a document has one address.
    fn from_str(text: &str) -> Result<Self, ()> {
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        let id = u128::from_str_radix(&digits, 16).map(Self).map_err(|_| ())?;
        if id.to_string() == text { Ok(id) } else { Err(()) }
    }
}

impl ToSql for Uuid {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Failure> {
        out.put_u128(self.0);
        Ok(IsNull::No)
    }

    accepts!(UUID);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Uuid {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Failure> {
        Ok(Self(u128::from_be_bytes(raw.try_into()?)))
    }

    accepts!(UUID);
}

/// A natural key: a number, or a text. A text that is the decimal form of a number is that
/// number, since an address cannot tell them apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Key {
    /// A number, as the workload's documents have.
    Number(u64),
    /// A text.
    Text(String),
}

impl Key {
    /// What aliases know it by: a number in the form of a UUID, as the workload writes it; of a
    /// text a hash, in the form of version 8, which no number has.
    #[must_use]
    pub fn referential(&self) -> Uuid {
        let text = match self {
            Self::Number(number) => return Uuid(u128::from(*number)),
            Self::Text(text) => text,
        };
        if let Ok(number) = text.parse::<u64>()
            && number.to_string() == *text
        {
            return Uuid(u128::from(number));
        }
        let hash = digest(&SHA256, text.as_bytes());
        let first = hash.as_ref().iter().take(16).fold(0, |all, byte| all << 8 | u128::from(*byte));
        Uuid(first & !(0xF << 76) & !(3 << 62) | 8 << 76 | 2 << 62)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(key: &str) -> Uuid {
        Key::Text(key.to_owned()).referential()
    }

    #[test]
    fn a_number_is_what_the_workload_writes() {
        let id = Key::Number(1000).referential();
        assert_eq!(id.to_string(), "00000000-0000-0000-0000-0000000003e8");
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!(text("1000"), id);
        for other in ["01000", "+1000", " 1000", "1000.0"] {
            assert_ne!(text(other), id, "{other}");
        }
    }

    #[test]
    fn a_text_is_a_hash_that_no_number_can_be() {
        // sha256("") = e3b0c442 98fc1c14 9afbf4c8 996fb924 …
        assert_eq!(text("").to_string(), "e3b0c442-98fc-8c14-9afb-f4c8996fb924");
    }

    #[test]
    fn a_document_has_one_address() {
        let upper = "00000000-0000-0000-0000-0000000003E8";
        for wrong in ["", "3e8", "0000000000000000000000000000003e8", upper, "x"] {
            assert_eq!(wrong.parse::<Uuid>(), Err(()), "{wrong}");
        }
    }
}
