//! Which ways of proving one's identity a server may ask for: libpq's `require_auth`.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A way of authentication, by libpq's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuthMethod {
    /// The password in clear text.
    Password,
    Md5,
    Gss,
    Sspi,
    ScramSha256,
    OAuth,
    /// The server asks for nothing (`trust`, `peer`, `cert`).
    None,
}

/// Methods by the name they have in `require_auth`.
const METHODS: [(&str, AuthMethod); 7] = [
    ("password", AuthMethod::Password),
    ("md5", AuthMethod::Md5),
    ("gss", AuthMethod::Gss),
    ("sspi", AuthMethod::Sspi),
    ("scram-sha-256", AuthMethod::ScramSha256),
    ("oauth", AuthMethod::OAuth),
    ("none", AuthMethod::None),
];

/// The ways of authentication a server may ask for; a server that asks for
/// another is left before it learns anything. Without a requirement every way is
/// allowed, but for a password in clear text on a connection that is not encrypted.
///
/// Parses libpq's lists: `scram-sha-256,md5` allows these, `!password,!md5` all
/// but these.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequireAuth {
    /// As given.
    text: String,
    methods: Vec<AuthMethod>,
    /// Whether `methods` are those that are refused.
    negated: bool,
}

impl RequireAuth {
    /// Whether a server may ask for this.
    pub(crate) fn allows(&self, method: AuthMethod) -> bool {
        self.methods.is_empty() || self.methods.contains(&method) != self.negated
    }

    /// Whether a server may ask for nothing at all.
    pub(crate) fn is_anything(&self) -> bool {
        self.methods.is_empty()
    }

    /// Whether this method was named as one that is allowed.
    pub(crate) fn names(&self, method: AuthMethod) -> bool {
        !self.negated && self.methods.contains(&method)
    }
}

impl fmt::Display for RequireAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A list of methods that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RequireAuthError {
    /// A name no method has.
    #[error("{0:?} is no authentication method")]
    Unknown(String),
    /// Both allowed and refused methods.
    #[error("the list names methods both with and without \"!\"")]
    Mixed,
    /// A method named twice.
    #[error("the list names {0:?} more than once")]
    Twice(String),
}

impl FromStr for RequireAuth {
    type Err = RequireAuthError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut wanted = RequireAuth { text: text.to_owned(), ..RequireAuth::default() };
        for (at, item) in text.split(',').map(str::trim).enumerate() {
            let (name, negated) = match item.strip_prefix('!') {
                Some(name) => (name, true),
                None => (item, false),
            };
            let Some((_, method)) = METHODS.into_iter().find(|(known, _)| *known == name) else {
                return Err(RequireAuthError::Unknown(item.to_owned()));
            };
            if at > 0 && negated != wanted.negated {
                return Err(RequireAuthError::Mixed);
            }
            if wanted.methods.contains(&method) {
                return Err(RequireAuthError::Twice(name.to_owned()));
            }
            wanted.negated = negated;
            wanted.methods.push(method);
        }
        Ok(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> RequireAuth {
        text.parse().expect("a list")
    }

    #[test]
    fn lists_allow_or_refuse() {
        let nothing = RequireAuth::default();
        assert!(nothing.allows(AuthMethod::None) && !nothing.names(AuthMethod::Password));
        let two = of("scram-sha-256,md5");
        assert!(two.allows(AuthMethod::Md5) && two.allows(AuthMethod::ScramSha256));
        assert!(!two.allows(AuthMethod::Password) && !two.allows(AuthMethod::None));
        let but = of("!password,!md5");
        assert!(but.allows(AuthMethod::None) && but.allows(AuthMethod::ScramSha256));
        assert!(!but.allows(AuthMethod::Password) && !but.names(AuthMethod::Password));
        assert!(of("password").names(AuthMethod::Password));
        assert_eq!(two.to_string(), "scram-sha-256,md5");
    }

    #[test]
    fn lists_that_make_no_sense_are_refused() {
        for (text, error) in [
            ("", RequireAuthError::Unknown("".into())),
            ("scram", RequireAuthError::Unknown("scram".into())),
            ("md5,", RequireAuthError::Unknown("".into())),
            ("md5,!none", RequireAuthError::Mixed),
            ("!none,md5", RequireAuthError::Mixed),
            ("md5,md5", RequireAuthError::Twice("md5".into())),
        ] {
            assert_eq!(text.parse::<RequireAuth>(), Err(error), "{text}");
        }
    }
}
