//! Statements of a set of changes: run on the server, and undone by the statement that
//! their author gave.
//!
//! What a statement did cannot be read back as a setting can. So each is run in a
//! transaction whose number is noted first: after a crash the server says whether that
//! committed. A statement that refuses to be in one (`VACUUM`, `CREATE INDEX
//! CONCURRENTLY`) runs alone; of one that was cut short, or has left something behind when it
//! was refused, the undoing is tried and may fail.

use std::time::Duration;

use tokio_postgres::error::SqlState;
use walwright_server::{Client, QueryError};
use walwright_store::ledger::{Change, ChangeSet, Ledger, Step};

use super::hold::{Hold, mark};
use super::query::{text, told};
use super::server::is_the_server;
use super::undone::Undone;

/// How long a statement that its client no longer waits for may go on.
const ENDING: Duration = Duration::from_secs(60);
/// How often it is looked at.
const POLL: Duration = Duration::from_millis(100);

/// Runs the statements of a set, in their order.
pub(super) async fn make(
    ledger: &Ledger,
    set: &ChangeSet,
    hold: &Hold,
    go_on: impl Fn() -> Result<(), String>,
) -> Result<(), String> {
    if !has_statements(set) {
        return Ok(());
    }
    let (own, client) = connected(hold).await?;
    for (place, change) in set.intent.changes.iter().enumerate() {
        let Change::Statement { sql, .. } = change else { continue };
        go_on()?;
        hold.still().await?;
        let noted = Noted { ledger, set: set.id, place };
        let ran =
            run(&own, &client, sql, |transaction| noted.is(Step::Making { transaction })).await;
        match ran {
            Ok(()) => noted.is(Step::Made)?,
            Err(Failed::Refused(why)) => {
                noted.is(Step::Undone)?;
                return Err(format!("{sql}: {why}"));
            }
            // Nothing is noted, so that undoing it is tried.
            Err(Failed::Partly(why) | Failed::Lost(why)) => return Err(format!("{sql}: {why}")),
        }
    }
    Ok(())
}

/// Undoes the statements of a set that were run, the last first.
pub(super) async fn undo(
    ledger: &Ledger,
    set: &ChangeSet,
    hold: Option<&mut Hold>,
    undone: &mut Undone,
) -> Result<(), String> {
    if !has_statements(set) {
        return Ok(());
    }
    let hold = hold.ok_or("it changed the schema of a server: name it with --dsn")?;
    hold.ensure().await.map_err(|error| error.to_string())?;
    let hold = &*hold;
    let (own, client) = connected(hold).await?;
    is_the_server(&set.intent, &own, hold.params()).await?;
    for (place, change) in set.intent.changes.iter().enumerate().rev() {
        let Change::Statement { sql, undo, database } = change else { continue };
        hold.still().await?;
        let found = standing(&own, set.steps.get(&place)).await?;
        if found == Standing::NotThere {
            continue;
        }
        let here = text(&own, "SELECT pg_catalog.current_database()::text").await;
        if here.as_ref() != Some(database) {
            return Err(format!("{sql} was run in the database {database}: name that one"));
        }
        let noted = Noted { ledger, set: set.id, place };
        let ran =
            run(&own, &client, undo, |transaction| noted.is(Step::Undoing { transaction })).await;
        match ran {
            Ok(()) => {
                noted.is(Step::Undone)?;
                undone.restored.push(sql.clone());
            }
            Err(Failed::Refused(why) | Failed::Partly(why)) if found == Standing::Unknown => {
                noted.is(Step::Undone)?;
                undone.notes.push(format!(
                    "{sql} was cut short, and nobody can tell whether it came to pass; undoing it ({undo}) was refused: {why}"
                ));
                undone.left.push(sql.clone());
            }
            Err(Failed::Refused(why) | Failed::Partly(why)) => {
                noted.is(Step::Made)?;
                return Err(format!("{undo}: {why}"));
            }
            Err(Failed::Lost(why)) => return Err(format!("{undo}: {why}")),
        }
    }
    Ok(())
}

pub(super) fn has_statements(set: &ChangeSet) -> bool {
    set.intent.changes.iter().any(|change| matches!(change, Change::Statement { .. }))
}

/// A session of our own, and one for the statements, whose names stand for what role and
/// database say.
async fn connected(hold: &Hold) -> Result<(Client, Client), String> {
    let failed = |error: &dyn std::fmt::Display| error.to_string();
    let own = walwright_server::connect(hold.params()).await.map_err(|error| failed(&error))?;
    let client = walwright_server::connect_for_definitions(hold.params()).await;
    let client = client.map_err(|error| failed(&error))?;
    mark(&client).await.map_err(|error| failed(&error))?;
    Ok((own, client))
}

/// Where the steps of one statement are noted.
struct Noted<'a> {
    ledger: &'a Ledger,
    set: u64,
    place: usize,
}

impl Noted<'_> {
    fn is(&self, step: Step) -> Result<(), String> {
        self.ledger.step(self.set, self.place, step).map_err(|error| error.to_string())
    }
}

/// Why a statement was not run to its end.
enum Failed {
    /// The server refused it: nothing was done.
    Refused(String),
    /// The server refused it on the way, and something is half done.
    Partly(String),
    /// Nobody knows.
    Lost(String),
}

/// Runs a statement, in a transaction where it may be in one. `note` is told its number
/// before.
async fn run(
    own: &Client,
    client: &Client,
    sql: &str,
    note: impl Fn(Option<String>) -> Result<(), String>,
) -> Result<(), Failed> {
    let lost = |error: QueryError| Failed::Lost(told(&error));
    client.batch_execute("BEGIN").await.map_err(lost)?;
    let number = "SELECT pg_catalog.pg_current_xact_id()::pg_catalog.text";
    let number = client.query_one(number, &[]).await.and_then(|row| row.get(0)).map_err(lost)?;
    note(Some(number)).map_err(Failed::Lost)?;
    let alone = match client.batch_execute(sql).await {
        Ok(()) => return client.batch_execute("COMMIT").await.map_err(failed),
        Err(error) => error,
    };
    client.batch_execute("ROLLBACK").await.map_err(lost)?;
    if alone.code() != Some(&SqlState::ACTIVE_SQL_TRANSACTION) {
        return Err(failed(alone));
    }
    let before = half_done(own).await.map_err(lost)?;
    note(None).map_err(Failed::Lost)?;
    let Err(error) = client.batch_execute(sql).await else { return Ok(()) };
    let why = match failed(error) {
        Failed::Refused(why) => why,
        other => return Err(other),
    };
    let mut left = half_done(own).await.map_err(lost)?;
    left.retain(|name| !before.contains(name));
    match left.as_slice() {
        // An index of that name, for one, is not ours to drop.
        [] => Err(Failed::Refused(why)),
        names => Err(Failed::Partly(format!("{why}; it left {} half done", names.join(", ")))),
    }
}

/// What statements outside of a transaction leave when they fail: indexes that are not
/// valid, and partitions of which the detaching is pending (from version 14).
async fn half_done(client: &Client) -> Result<Vec<String>, QueryError> {
    let query = "
        SELECT indexrelid::pg_catalog.regclass::pg_catalog.text FROM pg_catalog.pg_index
         WHERE NOT (indisvalid AND indisready AND indislive)
         UNION ALL
        SELECT inhrelid::pg_catalog.regclass::pg_catalog.text FROM pg_catalog.pg_inherits i
         WHERE (pg_catalog.to_jsonb(i) ->> 'inhdetachpending')::pg_catalog.bool";
    client.query(query, &[]).await?.iter().map(|row| row.get(0)).collect()
}

fn failed(error: QueryError) -> Failed {
    match error.as_db_error() {
        // A server that is told to stop, or crashes, says so too.
        Some(said) if !said.code().code().starts_with("57P") => Failed::Refused(told(&error)),
        _ => Failed::Lost(told(&error)),
    }
}

/// Whether what a statement did is there.
#[derive(PartialEq, Eq)]
enum Standing {
    NotThere,
    There,
    Unknown,
}

async fn standing(client: &Client, step: Option<&Step>) -> Result<Standing, String> {
    let (transaction, committed, not) = match step {
        None | Some(Step::Undone) => return Ok(Standing::NotThere),
        Some(Step::Made) => return Ok(Standing::There),
        Some(Step::Making { transaction }) => (transaction, Standing::There, Standing::NotThere),
        Some(Step::Undoing { transaction }) => (transaction, Standing::NotThere, Standing::There),
    };
    let Some(transaction) = transaction else { return Ok(Standing::Unknown) };
    // A number: it was read from a server and noted by us.
    if !transaction.chars().all(|c| c.is_ascii_digit()) {
        return Ok(Standing::Unknown);
    }
    let query = format!("SELECT pg_catalog.pg_xact_status('{transaction}')");
    let deadline = tokio::time::Instant::now() + ENDING;
    loop {
        let row = client.query_one(&query, &[]).await;
        let status = row.and_then(|row| row.get::<Option<String>>(0));
        match status.map_err(|error| told(&error))?.as_deref() {
            Some("committed") => return Ok(committed),
            Some("aborted") => return Ok(not),
            Some(_) if tokio::time::Instant::now() < deadline => tokio::time::sleep(POLL).await,
            Some(_) => {
                return Err("a statement that was cut short still runs on the server: end it with pg_terminate_backend".to_owned());
            }
            None => return Ok(Standing::Unknown),
        }
    }
}
