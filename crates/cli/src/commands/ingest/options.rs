//! What was typed, as the coalescer takes it.

use walwright_coalesce::{
    Capacity, Conflict, DeadLetters, Durability, Flush, Idempotency, Lanes, Options, Retry,
    TableOptions,
};
use walwright_ingest::{Mapping, Server};

use crate::args::{ConflictChoice, DurabilityChoice, IngestArgs};
use crate::output::{say, usage};

/// The tables of our own.
pub const LANES: &str = "walwright_lanes";
const DEAD_LETTERS: &str = "walwright_dead_letters";

/// What does not go together.
pub fn check(args: &IngestArgs) -> anyhow::Result<()> {
    if args.on_conflict == ConflictChoice::Update && args.key.is_empty() {
        return Err(usage("--on-conflict update needs --key, the columns of a unique index"));
    }
    if args.table.len() > 1 && args.http.is_none() {
        return Err(usage("a file goes to one table; several --table are for --http"));
    }
    let asks = args.http_token_file.is_some() || args.http_client_ca.is_some();
    if args.http.is_some_and(|address| !address.ip().is_loopback()) && !asks {
        return Err(usage(
            "whoever reaches that address could write: give --http-token-file or --http-client-ca, \
             or listen on 127.0.0.1",
        ));
    }
    Ok(())
}

/// How fields go to columns.
pub fn mapping(args: &IngestArgs) -> Mapping {
    Mapping {
        renamed: args.map.clone(),
        ignore_unknown: args.ignore_unknown,
        columns: args.columns.clone(),
    }
}

/// How rows are written; `source` names what they come from, where a later run may go on.
pub async fn options(
    args: &IngestArgs,
    server: &Server,
    source: Option<String>,
) -> anyhow::Result<Options> {
    let key = || args.key.clone();
    Ok(Options {
        connections: usize::from(args.connections),
        flush: Flush { rows: args.batch_rows as usize, age: args.age, ..Flush::default() },
        capacity: Capacity { rows: args.waiting_rows as usize, ..Capacity::default() },
        durability: match args.durability {
            None => Durability::Session,
            Some(DurabilityChoice::RemoteApply) => Durability::RemoteApply,
            Some(DurabilityChoice::On) => Durability::On,
            Some(DurabilityChoice::RemoteWrite) => Durability::RemoteWrite,
            Some(DurabilityChoice::Local) => Durability::Local,
            Some(DurabilityChoice::Off) => Durability::Off,
        },
        idempotency: idempotency(args, server, source).await?,
        retry: Retry { within: args.retry_for, ..Retry::default() },
        dead_letters: match args.dead_letters {
            false => DeadLetters::None,
            true => DeadLetters::Table {
                name: DEAD_LETTERS.to_owned(),
                create: args.create_tables || args.embedded,
            },
        },
        table: TableOptions {
            conflict: match args.on_conflict {
                ConflictChoice::Error => Conflict::Error,
                ConflictChoice::Ignore => Conflict::Ignore(key()),
                ConflictChoice::Update => Conflict::Update(key()),
            },
            order: args.order_by.clone(),
        },
        ..Options::default()
    })
}

async fn idempotency(
    args: &IngestArgs,
    server: &Server,
    source: Option<String>,
) -> anyhow::Result<Idempotency> {
    // A server of our own is for this.
    let create = args.create_tables || args.embedded;
    let lanes = Lanes { table: LANES.to_owned(), create, source };
    if lanes.source.is_some() || create || has_lanes(server).await? {
        return Ok(Idempotency::Lanes(lanes));
    }
    if !args.key.is_empty() {
        return Ok(Idempotency::Key(args.key.clone()));
    }
    say("note: if the connection is lost at a COMMIT, nobody will know whether its rows are \
         written; --create-tables or --key lets them be written again, and none twice");
    Ok(Idempotency::None)
}

async fn has_lanes(server: &Server) -> anyhow::Result<bool> {
    let client = server.connect().await?;
    let asked = client.query_one("SELECT to_regclass($1) IS NOT NULL", &[&LANES]).await;
    Ok(asked.map_err(walwright_ingest::IngestError::from)?.get(0))
}
