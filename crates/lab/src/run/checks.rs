//! What must be true before and after the load.

use std::time::{Duration, Instant};

use tokio_postgres::error::{ErrorPosition, SqlState};
use tokio_postgres::{Client, SimpleQueryMessage};
use walwright_record::{Warning, WarningCode};
use walwright_wire::{Connector, WireError};
use walwright_workload::{Plan, WorkloadError};

use super::error::remedy;
use super::load_data::{self, failed};
use super::target::Target;
use super::wire_options::connect_options;
use super::{Context, RunError, blocking};

/// Connections the tool itself uses beside the clients: control, two of the probe, side measure.
const OWN_CONNECTIONS: u32 = 4;
/// Bytes of a guest's tables that checks may read.
const MOST_CHECKED: i64 = 1 << 30;
/// Time a server gets for crash recovery before the checks are given up.
const RECOVERY: Duration = Duration::from_secs(10);
/// Pause between attempts to connect to it.
const RETRY: Duration = Duration::from_millis(100);

/// Whether the server has room for the clients.
pub(super) async fn enough_connections(
    clients: u32,
    client: &Client,
    target: &Target,
) -> Result<(), RunError> {
    const SQL: &str = "SELECT current_setting('max_connections')::int
        - current_setting('superuser_reserved_connections')::int
        - (SELECT count(*) FROM pg_stat_activity
           WHERE backend_type = 'client backend' AND pid <> pg_backend_pid())::int";
    let free: i32 =
        client.query_one(SQL, &[]).await.map_err(failed("reading max_connections"))?.get(0);
    let needed = clients + OWN_CONNECTIONS;
    let allowed = u32::try_from(free).unwrap_or(0);
    if needed <= allowed || behind_pooler(target).await {
        return Ok(());
    }
    Err(RunError::TooManyClients {
        wanted: clients,
        needed,
        allowed,
        target: target.address.clone(),
    })
}

/// Whether something between the server and us lends its connections: then the number
/// of clients is its affair. It gives clients keys of its own, so the process in the
/// key is not the one that answers.
async fn behind_pooler(target: &Target) -> bool {
    let options = connect_options(&target.params);
    let ask = move || {
        let mut connection = Connector::new(options)?.connect()?;
        let told = connection.backend_process();
        let rows = connection.query("SELECT pg_backend_pid()")?;
        let answers = rows.first().and_then(|row| row.first()?.as_ref()?.parse().ok());
        connection.close();
        Ok::<_, WireError>(told.is_some() && told != answers)
    };
    matches!(blocking(ask).await, Ok(Ok(true)))
}

/// Whether a guest's tables are there, so that the answer is a sentence and not
/// an error a client sees.
pub(super) async fn tables_exist(
    context: &Context,
    client: &Client,
    target: &Target,
) -> Result<(), RunError> {
    for table in &context.job.tables {
        let name = table.table();
        let found = client
            .query_one(
                "SELECT to_regclass($1) IS NOT NULL, obj_description(to_regclass($1), 'pg_class')",
                &[&name],
            )
            .await
            .map_err(failed("looking for the workload's tables"))?;
        if found.get::<_, Option<&str>>(1) == Some(load_data::UNFINISHED) {
            return Err(RunError::HalfLoaded {
                workload: context.workload.name.clone(),
                target: target.address.clone(),
            });
        }
        if !found.get::<_, bool>(0) {
            return Err(RunError::NotLoaded {
                workload: context.workload.name.clone(),
                table: name.to_owned(),
                target: target.address.clone(),
            });
        }
    }
    Ok(())
}

/// Whether the server flushes by the calls that can be lengthened, where that is asked.
pub(super) async fn flushes_can_be_lengthened(
    client: &Client,
    target: &Target,
) -> Result<(), RunError> {
    if target.flush_latency.is_none() {
        return Ok(());
    }
    const SQL: &str = "SELECT current_setting('wal_sync_method'), current_setting('fsync')::bool";
    let row = client.query_one(SQL, &[]).await.map_err(failed("reading wal_sync_method"))?;
    let (method, on): (&str, bool) = (row.get(0), row.get(1));
    if on && ["fdatasync", "fsync", "fsync_writethrough"].contains(&method) {
        return Ok(());
    }
    let value = if on { format!("wal_sync_method = {method}") } else { "fsync = off".to_owned() };
    Err(RunError::FlushLatency { value })
}

/// Looks for statements that the server cannot read, so that a mistake in a script
/// is told at once, with its place, and not by every transaction of a load.
///
/// Only syntax is judged: what a statement names may be made by one before it.
pub(super) async fn statements(context: &Context, client: &Client) -> Result<(), RunError> {
    match fault(&context.job, client, SqlState::SYNTAX_ERROR.code()).await {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// The error of a load in which nothing succeeds, with its place in a script where
/// the server finds the same fault without running anything.
pub(super) async fn explained(
    context: &Context,
    client: &Client,
    kind: String,
    text: String,
) -> RunError {
    let found = fault(&context.job, client, &kind).await;
    found.unwrap_or(RunError::NothingSucceeds { kind, text })
}

/// The first statement that the server refuses to prepare with this SQLSTATE.
async fn fault(job: &Plan, client: &Client, sqlstate: &str) -> Option<RunError> {
    for script in &job.program.scripts {
        for statement in script.statements.iter().filter(|statement| statement.is_extended()) {
            let Err(error) = client.prepare(&statement.text_extended).await else { continue };
            let Some(said) = error.as_db_error() else { continue };
            if said.code().code() != sqlstate {
                continue;
            }
            let position = match said.position() {
                Some(ErrorPosition::Original(position)) => Some(*position),
                _ => None,
            };
            let mut text = format!("{} ({sqlstate})", said.message());
            if let Some(hint) = remedy(sqlstate) {
                text = format!("{text}; {hint}");
            }
            let error = script.server_fault(statement, position, text);
            return Some(RunError::Workload(WorkloadError::Script(error)));
        }
    }
    None
}

/// The values that the checks after the run compare with; none where the checks are
/// left out, because they would read more of someone's server than a guest should.
pub(super) async fn before(
    context: &Context,
    client: &Client,
) -> Result<Vec<Option<String>>, RunError> {
    let job = &context.job;
    if !context.plan.initialises() && !job.checks.is_empty() {
        let bytes = table_bytes(job, client).await?;
        if bytes > MOST_CHECKED {
            let text =
                format!("left out: the checks would read {:.1} GB of tables", bytes as f64 / 1e9);
            context.notes.event("check", text);
            return Ok(Vec::new());
        }
    }
    let mut values = Vec::with_capacity(job.checks.len());
    for check in &job.checks {
        values.push(match &check.before {
            Some(sql) => first_value(client, &check.name, sql).await?,
            None => None,
        });
    }
    Ok(values)
}

/// Runs the checks; one that does not hold is a doubt on the record.
pub(super) async fn after(
    context: &Context,
    target: &Target,
    client: Client,
    before: Vec<Option<String>>,
) -> Result<(), RunError> {
    let client = if client.is_closed() { reconnected(target).await? } else { client };
    let client = &client;
    for (check, before) in context.job.checks.iter().zip(before) {
        let holds = first_value(client, &check.name, &check.sql(before.as_deref())).await?;
        if holds.as_deref() == Some("t") {
            context.notes.event("check", format!("holds: {}", check.name));
        } else {
            context.notes.warn(
                Warning::new(
                    WarningCode::CheckFailed,
                    format!("a check of the workload does not hold: {}", check.name),
                )
                .hint(
                    "the data after the run are not what its transactions should have made of them",
                ),
            );
        }
    }
    Ok(())
}

/// A new connection to a server that broke the first one, perhaps because it
/// restarts after the crash of one of its processes.
async fn reconnected(target: &Target) -> Result<Client, RunError> {
    let deadline = Instant::now() + RECOVERY;
    loop {
        match walwright_server::connect(&target.params).await {
            Ok(client) => return Ok(client),
            Err(error) if Instant::now() > deadline || target.death().is_some() => {
                return Err(error.into());
            }
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    }
}

/// Size of the workload's tables.
async fn table_bytes(job: &Plan, client: &Client) -> Result<i64, RunError> {
    let names: Vec<&str> = job.tables.iter().map(|table| table.table()).collect();
    const SQL: &str = "SELECT coalesce(sum(pg_table_size(to_regclass(name))), 0)::int8
        FROM unnest($1::text[]) name";
    let row = client.query_one(SQL, &[&names]).await;
    Ok(row.map_err(failed("reading the size of the workload's tables"))?.get(0))
}

async fn first_value(client: &Client, name: &str, sql: &str) -> Result<Option<String>, RunError> {
    let messages = client.simple_query(sql).await.map_err(failed(&format!("check '{name}'")))?;
    Ok(messages
        .iter()
        .find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row.get(0).map(str::to_owned)),
            _ => None,
        })
        .flatten())
}
