//! What a server says of a user's password.
//!
//! The session that asks is the gateway's own: nothing that the client said reaches it but the
//! name, and that as a value. Its `search_path` has `pg_catalog` alone, so no object of somebody
//! else's stands in for one that a question means.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use walwright_wire::{ConnectOptions, Connection, WireError};

use crate::dial::{reach, set};
use crate::options::Server;
use crate::users::Question;

/// The verifier of a user who may log in now.
const VERIFIER: &str = "SELECT rolpassword FROM pg_catalog.pg_authid WHERE rolcanlogin AND \
                        (rolvaliduntil IS NULL OR rolvaliduntil OPERATOR(pg_catalog.>) \
                        pg_catalog.now()) AND rolname OPERATOR(pg_catalog.=)";

/// Whether a role's password is no longer valid, which a question of somebody's own may not ask.
const EXPIRED: &str = "SELECT rolvaliduntil OPERATOR(pg_catalog.<=) pg_catalog.now() FROM \
                       pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=)";

/// What a server says a new password is hashed with, where it has a setting for that (16).
const ROUNDS: &str = "SELECT pg_catalog.current_setting('scram_iterations', true)";

/// How long one connection asks before others are let in.
const LONGEST: Duration = Duration::from_millis(100);

/// What a server says of users.
#[derive(Debug)]
pub struct Answers {
    /// Of the first of the names that were asked for, at least one: the password or verifier as it
    /// is stored, or why it could not be asked.
    pub stored: Vec<Result<Option<String>, WireError>>,
    /// Rounds of a new verifier, where the server tells them.
    pub rounds: Option<NonZeroU32>,
}

/// Asks a server for the passwords or verifiers of users, as it stores them.
///
/// # Errors
/// When it cannot be asked.
pub fn look_up<'n>(
    server: &Server,
    users: impl IntoIterator<Item = &'n str>,
    question: &Question,
) -> Result<Answers, WireError> {
    let adjust = |options: &mut ConnectOptions| {
        set(options, "search_path", "pg_catalog");
        // Otherwise a backslash in a name would end the text that holds it.
        set(options, "standard_conforming_strings", "on");
        set(options, "statement_timeout", "10s");
        if let Some(user) = &question.user {
            options.user.clone_from(user);
        }
        if question.password.is_some() {
            options.password.clone_from(&question.password);
        }
        if let Some(dbname) = &question.dbname {
            options.dbname.clone_from(dbname);
        }
    };
    let mut connection = reach(server, adjust)?.into_connection();
    let rounds = first(&mut connection, ROUNDS)?.and_then(|rounds| rounds.parse().ok());
    if let Some(query) = &question.query {
        // Prepared, so that the name is a value wherever the question puts it.
        connection.query(&format!("PREPARE walwright_auth AS {query}"))?;
    }
    let (mut stored, begun) = (Vec::new(), Instant::now());
    for user in users {
        if !stored.is_empty() && begun.elapsed() > LONGEST {
            break;
        }
        let answer = ask(&mut connection, user, question.query.is_some());
        if let Err(error) = answer {
            // An error that is about the name leaves the connection for the others.
            let is_of_name = matches!(&error, WireError::Server(said) if !said.is_fatal());
            if !is_of_name && stored.is_empty() {
                return Err(error);
            }
            if !is_of_name {
                break;
            }
            stored.push(Err(error));
            continue;
        }
        stored.push(answer);
    }
    Ok(Answers { stored, rounds })
}

fn ask(
    connection: &mut Connection,
    user: &str,
    prepared: bool,
) -> Result<Option<String>, WireError> {
    let name = format!("'{}'", user.replace('\'', "''"));
    if !prepared {
        return first(connection, &format!("{VERIFIER} {name}"));
    }
    let rows = connection.query(&format!("EXECUTE walwright_auth({name})"))?;
    // The name comes first, then the password.
    let found = rows.into_iter().next().and_then(|row| row.into_iter().take(2).next_back());
    let expired = first(connection, &format!("{EXPIRED} {name}"))?;
    if expired.as_deref() == Some("t") {
        tracing::warn!(user, "a password is no longer valid");
        return Ok(None);
    }
    Ok(found.flatten())
}

fn first(connection: &mut Connection, sql: &str) -> Result<Option<String>, WireError> {
    Ok(connection.query(sql)?.into_iter().flatten().flatten().next())
}
