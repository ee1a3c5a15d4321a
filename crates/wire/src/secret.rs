//! A text that cannot be printed by accident.

use std::fmt;

/// A password, or what may hold one: a connection string, a command that restarts a server.
/// It has no `Display`, its `Debug` hides it, and it cannot be serialized;
/// [`Secret::expose`] is the only way to its text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, to be handed to what connects, authenticates or restarts, and to
    /// nothing else.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_hides_it() {
        let secret = Secret::new("hunter2");
        assert!(!format!("{secret:?} {:#?}", Some(&secret)).contains("hunter2"));
        assert_eq!(secret.expose(), "hunter2");
    }
}
