//! What a server says of a user's password.
//!
//! The session that asks is the gateway's own: nothing that the client said reaches it but the
//! name, and that as a value. Its `search_path` has `pg_catalog` alone, so no object of somebody
//! else's stands in for one that a question means.

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

/// Asks a server for the password or verifier of a user, as it stores it.
///
/// # Errors
/// When it cannot be asked.
pub fn look_up(
    server: &Server,
    user: &str,
    question: &Question,
) -> Result<Option<String>, WireError> {
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
    let name = format!("'{}'", user.replace('\'', "''"));
    let Some(query) = &question.query else {
        return first(&mut connection, &format!("{VERIFIER} {name}"));
    };
    // Prepared, so that the name is a value wherever the question puts it.
    connection.query(&format!("PREPARE walwright_auth AS {query}"))?;
    let rows = connection.query(&format!("EXECUTE walwright_auth({name})"))?;
    // The name comes first, then the password.
    let found = rows.into_iter().next().and_then(|row| row.into_iter().take(2).next_back());
    let expired = first(&mut connection, &format!("{EXPIRED} {name}"))?;
    if expired.as_deref() == Some("t") {
        tracing::warn!(user, "a password is no longer valid");
        return Ok(None);
    }
    Ok(found.flatten())
}

fn first(connection: &mut Connection, sql: &str) -> Result<Option<String>, WireError> {
    Ok(connection.query(sql)?.into_iter().flatten().flatten().next())
}
