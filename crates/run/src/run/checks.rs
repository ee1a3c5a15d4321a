//! What must be true before and after the load.

use std::time::{Duration, Instant};

use tokio_postgres::SimpleQueryMessage;
use walwright_record::{Warning, WarningCode};
use walwright_server::{Client, Row};
use walwright_wire::{Connector, WireError};
use walwright_workload::WorkloadError;
use walwright_workload::workload::{Done, Origin};

use super::context::{Context, blocking};
use super::drive::load_options;
use super::error::{failed, remedy};
use super::tables::{self, Found};
use super::target::Target;
use super::{RunError, load_data};

/// Connections the tool itself uses beside the clients: control, one for the workload's
/// checks, two of the probe, side measure.
const OWN_CONNECTIONS: u32 = 5;
/// Bytes of an attached server's tables that checks may read.
const MOST_CHECKED: i64 = 1 << 30;
/// SQLSTATE of a statement that cannot be read.
const SYNTAX_ERROR: &str = "42601";
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
    // A limit of -1 is none; superusers are bound by that of the server alone.
    const SQL: &str = "WITH sessions AS (
            SELECT usename, datname FROM pg_stat_activity
            WHERE backend_type = 'client backend' AND pid <> pg_backend_pid())
        SELECT current_setting('max_connections')::int
                - CASE WHEN r.rolsuper THEN 0
                       ELSE current_setting('superuser_reserved_connections')::int END
                - (SELECT count(*) FROM sessions)::int,
            CASE WHEN r.rolconnlimit >= 0 AND NOT r.rolsuper THEN r.rolconnlimit
                - (SELECT count(*) FROM sessions WHERE usename = r.rolname)::int END,
            CASE WHEN d.datconnlimit >= 0 AND NOT r.rolsuper THEN d.datconnlimit
                - (SELECT count(*) FROM sessions s WHERE s.datname = d.datname)::int END
        FROM pg_roles r, pg_database d
        WHERE r.rolname = current_user AND d.datname = current_database()";
    const LIMITS: [&str; 3] = [
        "max_connections",
        "the CONNECTION LIMIT of this role",
        "the CONNECTION LIMIT of this database",
    ];
    let read = |row: Row| (0..LIMITS.len()).map(|place| row.get::<Option<i32>>(place)).collect();
    let row = client.query_one(SQL, &[]).await;
    let left: Vec<Option<i32>> =
        row.and_then(read).map_err(failed("reading the limits on connections"))?;
    let fewest = left.into_iter().zip(LIMITS).filter_map(|(left, limit)| Some((left?, limit)));
    let Some((free, limit)) = fewest.min_by_key(|(left, _)| *left) else { return Ok(()) };
    let needed = clients + OWN_CONNECTIONS;
    let allowed = u32::try_from(free).unwrap_or(0);
    if needed <= allowed || behind_pooler(target).await {
        return Ok(());
    }
    Err(RunError::TooManyClients {
        wanted: clients,
        needed,
        allowed,
        limit,
        target: target.address.clone(),
    })
}

/// Whether something between the server and us lends its connections: then the number
/// of clients is its affair. It gives clients keys of its own, so the process in the
/// key is not the one that answers.
async fn behind_pooler(target: &Target) -> bool {
    let options = load_options(target.statements().params());
    let ask = move || {
        let mut connection = Connector::new(options)?.connect()?;
        let told = connection.backend_process();
        let rows = connection.query("SELECT pg_catalog.pg_backend_pid()")?;
        let answers = rows.first().and_then(|row| row.first()?.as_ref()?.parse().ok());
        Ok::<_, WireError>(told.is_some() && told != answers)
    };
    matches!(blocking(ask).await, Ok(Ok(true)))
}

/// Whether the workload's tables are there on an attached server, so that the answer is a
/// sentence and not an error a client sees; and whether a built-in workload may use them.
pub(super) async fn tables_are_there(
    context: &Context,
    found: &[Found],
    target: &Target,
) -> Result<(), RunError> {
    for table in &context.job.tables {
        let name = table.table();
        let Some(found) = found.iter().find(|found| found.name == name) else {
            return Err(RunError::NotLoaded {
                workload: context.workload.name.clone(),
                table: name.to_owned(),
                target: target.address.clone(),
            });
        };
        if found.comment.as_deref() == Some(load_data::UNFINISHED) {
            return Err(RunError::HalfLoaded {
                workload: context.workload.name.clone(),
                target: target.address.clone(),
            });
        }
    }
    match context.workload.origin {
        Origin::Builtin => tables::are_plain(found),
        Origin::Directory(_) | Origin::Scripts | Origin::Requests => Ok(()),
    }
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
    let row = client.query_one(SQL, &[]).await;
    let read = row.and_then(|row| Ok((row.get::<String>(0)?, row.get::<bool>(1)?)));
    let (method, on) = read.map_err(failed("reading wal_sync_method"))?;
    if on && ["fdatasync", "fsync", "fsync_writethrough"].contains(&method.as_str()) {
        return Ok(());
    }
    let value = if on { format!("wal_sync_method = {method}") } else { "fsync = off".to_owned() };
    Err(RunError::FlushLatency { value })
}

/// Looks for statements that the server cannot read, so that a mistake in a script
/// is told at once, with its place, and not by every transaction of a load.
///
/// Only syntax is judged: what a statement names may be made by one before it.
pub(super) async fn statements(context: &Context, target: &Target) -> Result<(), RunError> {
    match fault(context, target, SYNTAX_ERROR).await {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// The error of a load in which nothing succeeds, with its place in a script where
/// the server finds the same fault without running anything.
pub(super) async fn explained(
    context: &Context,
    target: &Target,
    kind: String,
    text: String,
) -> RunError {
    let found = fault(context, target, &kind).await;
    found.unwrap_or(RunError::NothingSucceeds { kind, text })
}

/// The first statement that the server refuses to prepare with this SQLSTATE. Asked in a
/// session like those of the load, by `wire`, which asks nothing else in it.
async fn fault(context: &Context, target: &Target, sqlstate: &str) -> Option<RunError> {
    let options = target.statements().params().wire_options();
    let (job, sqlstate) = (context.job.clone(), sqlstate.to_owned());
    let look = move || {
        let mut connection = Connector::new(options).ok()?.connect().ok()?;
        for script in &job.program.scripts {
            for statement in script.statements.iter().filter(|s| s.is_extended()) {
                let asked = connection.parameter_types(&statement.text_extended);
                let said = match asked {
                    Ok(_) => continue,
                    Err(WireError::Server(said)) if said.code == sqlstate => said,
                    Err(WireError::Server(_)) => continue,
                    Err(_) => return None,
                };
                let mut text = format!("{} ({sqlstate})", said.message);
                if let Some(hint) = remedy(&sqlstate) {
                    text = format!("{text}; {hint}");
                }
                let error = script.server_fault(statement, said.position, text);
                return Some(RunError::Workload(WorkloadError::Script(error)));
            }
        }
        None
    };
    blocking(look).await.ok().flatten()
}

/// The values that the checks after the run compare with; none where the checks are
/// left out, because they would read more of an attached server than is fair.
pub(super) async fn before(
    context: &Context,
    own: &Client,
    client: &Client,
    found: &[Found],
) -> Result<Vec<Option<String>>, RunError> {
    let job = &context.job;
    if !context.plan.initialises() && !job.checks.is_empty() {
        let bytes = table_bytes(found, own).await?;
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

/// Runs the checks; one that does not hold is a warning on the record.
pub(super) async fn after(
    context: &Context,
    target: &Target,
    client: Client,
    before: Vec<Option<String>>,
    done: Done,
) -> Result<(), RunError> {
    let client = if client.is_closed() { reconnected(target).await? } else { client };
    let client = &client;
    for (check, before) in context.job.checks.iter().zip(before) {
        let holds = first_value(client, &check.name, &check.sql(before.as_deref(), done)).await?;
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
        match target.statements().connect().await {
            Ok(client) => return Ok(client),
            Err(error) if Instant::now() > deadline || target.death().is_some() => {
                return Err(error);
            }
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    }
}

/// Size of the workload's tables.
async fn table_bytes(found: &[Found], client: &Client) -> Result<i64, RunError> {
    let oids: Vec<u32> = found.iter().map(|table| table.oid).collect();
    const SQL: &str =
        "SELECT coalesce(sum(pg_table_size(oid)), 0)::int8 FROM unnest($1::oid[]) oid";
    let row = client.query_one(SQL, &[&oids]).await;
    row.and_then(|row| row.get(0)).map_err(failed("reading the size of the workload's tables"))
}

async fn first_value(client: &Client, name: &str, sql: &str) -> Result<Option<String>, RunError> {
    let messages = client.simple_query(sql).await.map_err(failed(&format!("check '{name}'")))?;
    Ok(messages
        .iter()
        .find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row.try_get(0).ok()?.map(str::to_owned)),
            _ => None,
        })
        .flatten())
}
