//! Finds the rows that the server refuses: by halves, in one transaction that keeps the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join;

use crate::batch::Batch;
use crate::engine::Engine;
use crate::error::Refusal;
use crate::failure::{Failure, Which};
use crate::lane::Record;
use crate::options::Idempotency;
use crate::positions::Positions;
use crate::session::{Manner, Session};
use crate::table::Table;

/// Writes the rows that the server takes, and puts those that it refuses into `refused`, which
/// holds what an earlier attempt found.
pub(crate) async fn write(
    engine: &Engine,
    session: &mut Session,
    batch: &Batch,
    record: Option<&Record>,
    manner: Manner,
    refused: &mut BTreeMap<usize, Refusal>,
) -> Result<(), Failure> {
    let written = write_in_transaction(engine, session, batch, record, manner, refused).await;
    session.end(written).await
}

async fn write_in_transaction(
    engine: &Engine,
    session: &mut Session,
    batch: &Batch,
    record: Option<&Record>,
    manner: Manner,
    refused: &mut BTreeMap<usize, Refusal>,
) -> Result<(), Failure> {
    session.begin(record).await?;
    if engine.options.idempotency != Idempotency::None && record.is_none() {
        // An earlier attempt that the server is still at ends first.
        run(session, &format!("SELECT pg_advisory_xact_lock({})", batch.hashed())).await?;
    }
    // The attempt before is rolled back, with all that no file has kept.
    let in_file = engine.dead_letters.is_file();
    refused.retain(|_, refusal| in_file && refusal.dead_letter);
    // What is deferred would only show at COMMIT, and not say which row it was.
    run(session, "SET CONSTRAINTS ALL IMMEDIATE").await?;
    let mut found = Vec::new();
    // Not the rows' doing, and nothing to keep: their writers have them.
    let mut tables = Vec::new();
    for (table, mut rows) in batch.by_table() {
        rows.retain(|row| !refused.contains_key(row));
        let whole = rows.clone();
        run(session, "SAVEPOINT walwright_table").await?;
        match take_apart(session, &table, batch, rows, manner, &mut found).await {
            Err(Failure::Statement(refusal)) => {
                run(session, "ROLLBACK TO SAVEPOINT walwright_table").await?;
                tables.extend(whole.into_iter().map(|row| (row, refusal.clone())));
            }
            halved => halved?,
        }
    }
    found.retain(|(row, _)| !tables.iter().any(|(of, _)| of == row));
    // By a key rows are found written; dead letters have none, and are looked for.
    let may_be_kept = manner.again && record.is_none();
    engine.dead_letters.keep(session, batch, &found, may_be_kept).await?;
    for (_, refusal) in &mut found {
        refusal.dead_letter = engine.keeps_dead_letters();
    }
    // Before the COMMIT: where its answer is lost, the batch may be found written all the same.
    refused.extend(found);
    refused.extend(tables);
    if let Some(record) = record {
        record.take_back(&session.client, &not_kept(batch, refused)).await?;
    }
    session.commit().await
}

/// The positions of rows that are refused and kept nowhere.
fn not_kept(batch: &Batch, refused: &BTreeMap<usize, Refusal>) -> Positions {
    let mut positions = Positions::default();
    let lost = refused.iter().filter(|(_, refusal)| !refusal.dead_letter);
    lost.filter_map(|(row, _)| batch.rows[*row].position.as_ref()).for_each(|at| positions.add(at));
    positions
}

/// Rows of a part at most: what is written again for the sake of a refused row.
const PART: usize = 256;

/// Writes `rows` that may have some among them that are refused.
async fn take_apart(
    session: &mut Session,
    table: &Arc<Table>,
    batch: &Batch,
    rows: Vec<usize>,
    manner: Manner,
    found: &mut Vec<(usize, Refusal)>,
) -> Result<(), Failure> {
    // In their order: the first part is on top.
    let mut parts = vec![rows];
    let mut point = "SAVEPOINT walwright";
    while let Some(mut part) = parts.pop() {
        if part.is_empty() {
            continue;
        }
        if part.len() > PART {
            parts.push(part.split_off(PART));
        }
        // With the part behind it, which waits for no answer of its own.
        let client = Arc::clone(&session.client);
        let put = session.put(table, batch, &part, manner, false);
        let (set, written) = join(client.batch_execute(point), put).await;
        set.map_err(|error| Failure::of(&error, false))?;
        let (refusal, which) = match written {
            Ok(()) => {
                point = "RELEASE SAVEPOINT walwright; SAVEPOINT walwright";
                continue;
            }
            Err(Failure::Row { refusal, which }) => (refusal, which),
            Err(failure) => return Err(failure),
        };
        point = "ROLLBACK TO SAVEPOINT walwright";
        if part.len() == 1 {
            found.push((part[0], refusal));
            continue;
        }
        match which {
            Which::Exactly(at) if at < part.len() => {
                found.push((part.remove(at), refusal));
                parts.push(part);
            }
            // What is before it was good, and it is alone between two parts.
            Which::Near(at) if at < part.len() => {
                let behind = part.split_off(at + 1);
                let named = part.split_off(at);
                parts.extend([behind, named, part]);
            }
            _ => {
                let behind = part.split_off(part.len() / 2);
                parts.extend([behind, part]);
            }
        }
    }
    match point {
        "SAVEPOINT walwright" => Ok(()),
        "ROLLBACK TO SAVEPOINT walwright" => {
            run(session, "ROLLBACK TO SAVEPOINT walwright; RELEASE SAVEPOINT walwright").await
        }
        _ => run(session, "RELEASE SAVEPOINT walwright").await,
    }
}

async fn run(session: &Session, sql: &str) -> Result<(), Failure> {
    session.client.batch_execute(sql).await.map_err(|error| Failure::of(&error, false))
}
