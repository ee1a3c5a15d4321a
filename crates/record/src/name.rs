//! Names of columns, of which a record holds few different ones, each a great many times.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

/// The name of a column. Equal names made by one thread share their text: a record of
/// ten minutes holds a million of them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

thread_local! {
    static KNOWN: RefCell<HashSet<Arc<str>>> = RefCell::default();
}

impl Name {
    /// The name of this text.
    pub fn new(text: &str) -> Name {
        KNOWN.with_borrow_mut(|known| {
            if let Some(name) = known.get(text) {
                return Name(Arc::clone(name));
            }
            let name: Arc<str> = text.into();
            known.insert(Arc::clone(&name));
            Name(name)
        })
    }
}

impl Deref for Name {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a column")
            }

            fn visit_str<E>(self, text: &str) -> Result<Name, E> {
                Ok(Name::new(text))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_share_their_text() {
        let (one, two) = (Name::new("wal_bytes"), Name::new("wal_bytes"));
        assert!(Arc::ptr_eq(&one.0, &two.0));
        let read: Name = serde_json::from_str("\"wal_bytes\"").unwrap();
        assert!(Arc::ptr_eq(&one.0, &read.0));
        assert_eq!(serde_json::to_string(&read).unwrap(), "\"wal_bytes\"");
    }
}
