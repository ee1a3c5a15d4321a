//! What stands between the clients of a load and an embedded server.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What clients connect to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Pooler {
    /// The server itself.
    #[default]
    None,
    /// walwright's gateway before it.
    Gateway,
    /// PgBouncer before it: this program, or the one that is installed.
    PgBouncer(Option<PathBuf>),
}

const GATEWAY: &str = "gateway";
const PGBOUNCER: &str = "pgbouncer";
const NONE: &str = "none";

impl FromStr for Pooler {
    type Err = String;

    fn from_str(text: &str) -> Result<Pooler, String> {
        match text.split_once('=').unwrap_or((text, "")) {
            (NONE, "") => Ok(Pooler::None),
            (GATEWAY, "") => Ok(Pooler::Gateway),
            (PGBOUNCER, "") => Ok(Pooler::PgBouncer(None)),
            (PGBOUNCER, path) => Ok(Pooler::PgBouncer(Some(Path::new(path).to_owned()))),
            _ => Err(format!(
                "'{text}' is no pooler: write {GATEWAY}, {PGBOUNCER}, {PGBOUNCER}=/path/to/it, or {NONE}"
            )),
        }
    }
}

impl fmt::Display for Pooler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pooler::None => f.write_str(NONE),
            Pooler::Gateway => f.write_str(GATEWAY),
            Pooler::PgBouncer(None) => f.write_str(PGBOUNCER),
            Pooler::PgBouncer(Some(path)) => write!(f, "{PGBOUNCER}={}", path.display()),
        }
    }
}

impl TryFrom<String> for Pooler {
    type Error = String;

    fn try_from(text: String) -> Result<Pooler, String> {
        text.parse()
    }
}

impl From<Pooler> for String {
    fn from(of: Pooler) -> String {
        of.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pooler_is_read_as_it_is_written() {
        for text in ["none", "gateway", "pgbouncer", "pgbouncer=/opt/b=c/pgbouncer"] {
            assert_eq!(text.parse::<Pooler>().unwrap().to_string(), text);
        }
        for wrong in ["", "pgpool", "gateway=1", "PgBouncer"] {
            assert!(wrong.parse::<Pooler>().unwrap_err().contains("is no pooler"), "{wrong}");
        }
    }
}
