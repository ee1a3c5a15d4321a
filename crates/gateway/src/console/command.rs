//! What can be asked of the console.

use super::Wrong;
use super::show::Show;

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Rows about something.
    Show(Show),
    /// A database, or all.
    Pause(Option<String>),
    /// A database, or all.
    Resume(Option<String>),
    /// Options are read once more.
    Reload,
    /// A database, or all.
    Reconnect(Option<String>),
    /// A database, or all.
    Kill(Option<String>),
    /// A client by its number.
    KillClient(u64),
    /// A database, or all.
    WaitClose(Option<String>),
    /// A database.
    Disable(String),
    /// A database.
    Enable(String),
    /// The gateway ends.
    Shutdown(Shutdown),
    /// What drivers send of themselves.
    Ignored,
}

/// How the gateway ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// Now.
    AtOnce,
    /// When no transaction is under way.
    WaitForServers,
    /// When the last client has left.
    WaitForClients,
}

/// Settings that drivers set without being told to.
const HARMLESS: [&str; 8] = [
    "application_name",
    "client_encoding",
    "client_min_messages",
    "datestyle",
    "extra_float_digits",
    "standard_conforming_strings",
    "statement_timeout",
    "timezone",
];

impl Command {
    /// Reads a command; `None` where there is none.
    ///
    /// # Errors
    /// With what is wrong with it, and what is not there by its name.
    pub fn parse(sql: &str) -> Result<Option<Command>, Wrong> {
        let sql = sql.trim().trim_end_matches(';').trim();
        let words = words(sql)?;
        let Some((first, rest)) = words.split_first() else { return Ok(None) };
        let first = first.to_ascii_uppercase();
        let unknown =
            || Wrong::new("42601", format!("invalid command '{sql}'")).hint("use SHOW HELP");
        let optional = || match rest {
            [] => Ok(None),
            [name] => Ok(Some(name.clone())),
            _ => Err(unknown()),
        };
        let required = || match rest {
            [name] => Ok(name.clone()),
            _ => Err(Wrong::new("42601", format!("{first} takes the name of one database"))),
        };
        Ok(Some(match first.as_str() {
            "SHOW" => match rest {
                [] => Command::Show(Show::Help),
                [what] => Command::Show(Show::by_name(what)?),
                _ => return Err(unknown()),
            },
            "PAUSE" => Command::Pause(optional()?),
            "RESUME" => Command::Resume(optional()?),
            "RELOAD" if rest.is_empty() => Command::Reload,
            "RECONNECT" => Command::Reconnect(optional()?),
            "KILL" => Command::Kill(optional()?),
            "KILL_CLIENT" => {
                let id = rest.first().filter(|_| rest.len() == 1).and_then(|id| id.parse().ok());
                let what = "KILL_CLIENT takes the id of a client, as SHOW CLIENTS has it";
                Command::KillClient(id.ok_or_else(|| Wrong::new("42601", what))?)
            }
            "WAIT_CLOSE" => Command::WaitClose(optional()?),
            "DISABLE" => Command::Disable(required()?),
            "ENABLE" => Command::Enable(required()?),
            "SHUTDOWN" => Command::Shutdown(match rest {
                [] => Shutdown::AtOnce,
                [how] if how.eq_ignore_ascii_case("WAIT_FOR_SERVERS") => Shutdown::WaitForServers,
                [how] if how.eq_ignore_ascii_case("WAIT_FOR_CLIENTS") => Shutdown::WaitForClients,
                _ => return Err(unknown()),
            }),
            "SET" => {
                let name = rest.first().map(|name| name.split('=').next().unwrap_or_default());
                let name = name.unwrap_or_default().to_ascii_lowercase();
                if HARMLESS.contains(&name.as_str()) {
                    return Ok(Some(Command::Ignored));
                }
                let what = "SET is not supported: options do not change while the gateway runs";
                return Err(
                    Wrong::new("0A000", what).hint("change them where they come from, then RELOAD")
                );
            }
            "SUSPEND" => {
                let what = "SUSPEND is not supported";
                return Err(Wrong::new("0A000", what).hint("PAUSE makes clients wait"));
            }
            _ => return Err(unknown()),
        }))
    }
}

/// Words between white space; one in double quotes is taken as it is.
fn words(sql: &str) -> Result<Vec<String>, Wrong> {
    let mut words = Vec::new();
    let mut rest = sql.trim_start();
    while !rest.is_empty() {
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut word = String::new();
            let mut pieces = quoted;
            rest = loop {
                let Some((piece, after)) = pieces.split_once('"') else {
                    return Err(Wrong::new("42601", "a quoted name has no end"));
                };
                word.push_str(piece);
                match after.strip_prefix('"') {
                    Some(more) => {
                        word.push('"');
                        pieces = more;
                    }
                    None => break after.trim_start(),
                }
            };
            words.push(word);
        } else {
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            words.push(rest[..end].to_owned());
            rest = rest[end..].trim_start();
        }
    }
    Ok(words)
}

/// What SHOW HELP says.
pub fn help() -> String {
    let shows: Vec<&str> = Show::ALL.iter().map(|show| show.name()).collect();
    format!(
        "\n\tSHOW {}\n\tRELOAD\n\tPAUSE [<db>]\n\tRESUME [<db>]\n\tDISABLE <db>\n\tENABLE <db>\n\t\
         RECONNECT [<db>]\n\tKILL [<db>]\n\tKILL_CLIENT <client_id>\n\tSHUTDOWN\n\t\
         SHUTDOWN WAIT_FOR_SERVERS|WAIT_FOR_CLIENTS\n\tWAIT_CLOSE [<db>]",
        shows.join("|")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(sql: &str) -> Result<Option<Command>, &'static str> {
        Command::parse(sql).map_err(|wrong| wrong.code)
    }

    #[test]
    fn commands_are_read_as_pgbouncer_reads_them() {
        assert_eq!(parsed(" show  pools ; "), Ok(Some(Command::Show(Show::Pools))));
        assert_eq!(parsed("PAUSE"), Ok(Some(Command::Pause(None))));
        let quoted = Command::Kill(Some("a \"b".to_owned()));
        assert_eq!(parsed("kill \"a \"\"b\""), Ok(Some(quoted)));
        assert_eq!(parsed("kill_client 258"), Ok(Some(Command::KillClient(258))));
        let waits = Command::Shutdown(Shutdown::WaitForClients);
        assert_eq!(parsed("shutdown wait_for_clients"), Ok(Some(waits)));
        assert_eq!(parsed(";"), Ok(None));
        assert_eq!(parsed("SET extra_float_digits = 3"), Ok(Some(Command::Ignored)));
        assert_eq!(parsed("SET client_encoding='UTF8'"), Ok(Some(Command::Ignored)));
    }

    #[test]
    fn what_is_not_there_is_refused_by_its_name() {
        for (sql, code) in [
            ("SET default_pool_size = 3", "0A000"),
            ("SUSPEND", "0A000"),
            ("SHOW FDS", "0A000"),
            ("SHOW PEERS", "0A000"),
            ("SHOW nothing", "42601"),
            ("SELECT 1", "42601"),
            ("DISABLE", "42601"),
            ("KILL \"a", "42601"),
            ("KILL_CLIENT x", "42601"),
        ] {
            assert_eq!(parsed(sql), Err(code), "{sql}");
        }
    }
}
