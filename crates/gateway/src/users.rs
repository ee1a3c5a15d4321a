//! Who may come in, and how the gateway logs in for them.

use std::collections::HashMap;
use std::sync::Arc;

use walwright_wire::{ScramKeys, Secret};

use crate::scram::{ScramError, Verifier};

/// How clients prove who they are.
#[derive(Debug, Clone)]
pub enum Authentication {
    /// Not at all: whoever reaches the gateway is let in under the name it gives. For tests.
    Trust,
    /// By SCRAM-SHA-256, against verifiers.
    Scram(Arc<Users>),
}

/// Where verifiers come from.
#[derive(Debug, Default)]
pub struct Users {
    /// Names with what is known of their passwords.
    pub known: HashMap<String, Stored>,
    /// Whether the server is asked for those that are not among them, as the user of its
    /// connection string.
    pub ask_server: bool,
}

/// What is known of a password.
#[derive(Debug, Clone)]
pub enum Stored {
    /// The password itself: the gateway can log in with it wherever it is right.
    Password(Secret),
    /// A verifier: the gateway can log in where the same is stored, once the client has.
    Verifier(Verifier),
}

impl Stored {
    /// The verifier to hold a client's proof against.
    ///
    /// # Errors
    /// When none can be made.
    pub fn verifier(&self) -> Result<Verifier, ScramError> {
        match self {
            Stored::Password(password) => Verifier::of_password(password.expose()),
            Stored::Verifier(verifier) => Ok(verifier.clone()),
        }
    }
}

/// What the gateway logs in with at the server, for one user.
#[derive(Debug, Clone)]
pub enum Credential {
    /// A password.
    Password(Secret),
    /// The keys of a client that proved itself.
    Keys(ScramKeys),
}

/// Lines of a userlist, as PgBouncer has it: `"name" "password or verifier"`.
///
/// # Errors
/// With the number of the line and what is wrong with it.
pub fn parse_userlist(text: &str) -> Result<HashMap<String, Stored>, (usize, &'static str)> {
    let mut users = HashMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(';') || line.starts_with('#') {
            continue;
        }
        let wrong = |what| (number + 1, what);
        let (name, rest) = quoted(line).ok_or_else(|| wrong("it has no name in quotes"))?;
        let (password, _) =
            quoted(rest.trim_start()).ok_or_else(|| wrong("it has no password in quotes"))?;
        let stored = if password.starts_with("SCRAM-SHA-256$") {
            let verifier = Verifier::parse(&password);
            Stored::Verifier(verifier.map_err(|_| wrong("its SCRAM verifier is damaged"))?)
        } else if password.starts_with("md5") && password.len() == 35 {
            return Err(wrong("MD5 hashes cannot be used for SCRAM; store the SCRAM verifier"));
        } else {
            Stored::Password(Secret::new(password))
        };
        users.insert(name, stored);
    }
    Ok(users)
}

/// A text in double quotes, where two of them are one, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut rest = text.strip_prefix('"')?;
    let mut found = String::new();
    loop {
        let end = rest.find('"')?;
        found.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(more) => {
                found.push('"');
                rest = more;
            }
            None => return Some((found, rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_userlist_is_read_as_pgbouncer_reads_it() {
        let users = parse_userlist("; people\n\"a\" \"secret\"\n\"b \"\"x\"\"\" \"pw\" ignored\n");
        let users = users.unwrap();
        assert_eq!(users.len(), 2);
        assert!(matches!(&users["a"], Stored::Password(p) if p.expose() == "secret"));
        assert!(users.contains_key("b \"x\""));
        assert!(!format!("{users:?}").contains("secret"));
        for (bad, line) in [("a b", 1), ("\n\"a\"", 2), ("\"a\" \"SCRAM-SHA-256$x\"", 1)] {
            assert_eq!(parse_userlist(bad).unwrap_err().0, line, "{bad}");
        }
        let md5 = format!("\"a\" \"md5{}\"", "0".repeat(32));
        assert!(parse_userlist(&md5).unwrap_err().1.contains("MD5"));
    }
}
