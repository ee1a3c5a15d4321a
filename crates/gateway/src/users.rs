//! Who may come in, and how the gateway logs in for them.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use walwright_wire::{ScramKeys, Secret};

use crate::rules::Rules;
use crate::scram::{ScramError, Verifier};

/// How clients prove who they are.
#[derive(Debug, Clone)]
pub enum Authentication {
    /// Not at all: whoever reaches the gateway is let in under the name it gives. For tests.
    Trust,
    /// By SCRAM-SHA-256, against verifiers.
    Scram(Arc<Users>),
    /// As rules say.
    Rules(Arc<Rules>, Arc<Users>),
}

impl Authentication {
    /// The users that are known, where anybody has to prove anything.
    pub fn users(&self) -> Option<&Arc<Users>> {
        match self {
            Authentication::Trust => None,
            Authentication::Scram(users) | Authentication::Rules(_, users) => Some(users),
        }
    }
}

/// Where verifiers come from.
#[derive(Debug, Default)]
pub struct Users {
    /// Names with what is known of their passwords.
    pub known: HashMap<String, Stored>,
    /// Whether the server is asked for those that are not among them, as the user of its
    /// connection string.
    pub ask_server: bool,
    /// What it is asked.
    pub question: Question,
}

impl Users {
    /// Rounds of the verifiers that are known, which one that is [made up](Verifier::made_up)
    /// shares.
    pub fn rounds(&self) -> Option<NonZeroU32> {
        let rounds = self.known.values().filter_map(|stored| match stored {
            Stored::Verifier(verifier) => Some(verifier.iterations),
            Stored::Password(_) | Stored::Md5 => None,
        });
        rounds.min()
    }
}

/// What a server is asked for the verifier of a user, and who asks.
#[derive(Debug, Clone, Default)]
pub struct Question {
    /// A statement with `$1` for the name, which gives the password or verifier in its second
    /// column, or its only one. Without it `pg_authid` is read.
    pub query: Option<String>,
    /// Who asks; otherwise the user of the server's connection string.
    pub user: Option<String>,
    /// The password of that user, where it is not that of the connection string.
    pub password: Option<Secret>,
    /// The database; otherwise that of the connection string.
    pub dbname: Option<String>,
}

/// What is known of a password.
#[derive(Debug, Clone)]
pub enum Stored {
    /// The password itself: the gateway can log in with it wherever it is right.
    Password(Secret),
    /// A verifier: the gateway can log in where the same is stored, once the client has.
    Verifier(Verifier),
    /// An MD5 hash, which lets nobody in.
    Md5,
}

impl Stored {
    /// Reads what a server or a file stores of a password; `None` for an empty text, which is no
    /// password: nobody can prove to have it.
    ///
    /// # Errors
    /// When it begins as a verifier and is none.
    pub fn parse(text: String) -> Result<Option<Stored>, ScramError> {
        Ok(if text.is_empty() {
            None
        } else if text.starts_with("SCRAM-SHA-256$") {
            Some(Stored::Verifier(Verifier::parse(&text)?))
        } else if text.strip_prefix("md5").is_some_and(is_hash) {
            Some(Stored::Md5)
        } else {
            Some(Stored::Password(Secret::new(text)))
        })
    }
}

/// Verifiers of passwords, each made once: that takes thousands of hashes, and a salt that
/// changed from login to login would tell names that somebody has from
/// [made-up](Verifier::made_up) ones.
#[derive(Debug, Default)]
pub struct Verifiers(HashMap<String, (Secret, Verifier)>);

impl Verifiers {
    /// The verifier to hold a user's proof against, if what is stored gives one.
    pub fn of(&mut self, user: &str, stored: &Stored) -> Option<Verifier> {
        let password = match stored {
            Stored::Password(password) => password,
            Stored::Verifier(verifier) => return Some(verifier.clone()),
            Stored::Md5 => return None,
        };
        let known = self.0.get(user).filter(|(of, _)| of.expose() == password.expose());
        if let Some((_, verifier)) = known {
            return Some(verifier.clone());
        }
        let verifier = Verifier::of_password(password.expose()).ok()?;
        self.0.insert(user.to_owned(), (password.clone(), verifier.clone()));
        Some(verifier)
    }
}

/// What the gateway logs in with at the server, for one user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credential {
    /// A password.
    Password(Secret),
    /// The keys of a client that proved itself.
    Keys(ScramKeys),
}

/// Lines of a userlist, as PgBouncer has it: `"name" "password or verifier"`. Those with an empty
/// password are left out.
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
        let stored = Stored::parse(password).map_err(|_| wrong("its SCRAM verifier is damaged"))?;
        users.extend(stored.map(|stored| (name, stored)));
    }
    Ok(users)
}

/// Whether a text is 32 hexadecimal digits.
fn is_hash(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
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
        let users = parse_userlist(
            "; people\n\"a\" \"secret\"\n\"b \"\"x\"\"\" \"pw\" ignored\n\"c\" \"\"\n",
        );
        let users = users.unwrap();
        assert_eq!(users.len(), 2);
        assert!(matches!(&users["a"], Stored::Password(p) if p.expose() == "secret"));
        assert!(users.contains_key("b \"x\""));
        assert!(!format!("{users:?}").contains("secret"));
        for (bad, line) in [("a b", 1), ("\n\"a\"", 2), ("\"a\" \"SCRAM-SHA-256$x\"", 1)] {
            assert_eq!(parse_userlist(bad).unwrap_err().0, line, "{bad}");
        }
        let md5 = format!("\"a\" \"md5{}\"", "0".repeat(32));
        let users = parse_userlist(&md5).unwrap();
        assert!(matches!(users["a"], Stored::Md5));
        assert!(Verifiers::default().of("a", &users["a"]).is_none());
    }

    #[test]
    fn a_password_has_one_salt_as_long_as_it_is_the_same() {
        let mut verifiers = Verifiers::default();
        let mut salt = |user: &str, password: &str| {
            verifiers.of(user, &Stored::Password(Secret::new(password))).unwrap().salt
        };
        let first = salt("a", "x");
        assert_eq!(salt("a", "x"), first);
        assert_ne!(salt("b", "x"), first);
        assert_ne!(salt("a", "y"), first);
    }
}
