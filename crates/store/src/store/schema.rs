//! The tables of the store.

use super::{Store, StoreError};

/// Marks the file as ours (`PRAGMA application_id`): "WALW".
const APPLICATION_ID: i64 = 0x5741_4c57;
/// The format written here (`PRAGMA user_version`).
const FORMAT: i64 = 1;

const TABLES: &str = "
CREATE TABLE run (
    id TEXT PRIMARY KEY,
    started_us INTEGER NOT NULL,
    ended_us INTEGER,
    state TEXT NOT NULL,
    walwright_version TEXT NOT NULL,
    command TEXT NOT NULL,
    label TEXT,
    workload TEXT NOT NULL,
    target TEXT NOT NULL,
    error TEXT,
    owner_pid INTEGER NOT NULL,
    owner_started INTEGER
) STRICT;

-- What does not change during a run, as JSON by name: target, settings, host, …
CREATE TABLE fact (
    run_id TEXT NOT NULL REFERENCES run ON DELETE CASCADE,
    name TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE phase (
    run_id TEXT NOT NULL REFERENCES run ON DELETE CASCADE,
    name TEXT NOT NULL,
    start_us INTEGER NOT NULL,
    end_us INTEGER,
    PRIMARY KEY (run_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE event (
    run_id TEXT NOT NULL REFERENCES run ON DELETE CASCADE,
    at_us INTEGER NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL
) STRICT;
CREATE INDEX event_run ON event (run_id, at_us);

CREATE TABLE warning (
    run_id TEXT NOT NULL REFERENCES run ON DELETE CASCADE,
    body TEXT NOT NULL
) STRICT;
CREATE INDEX warning_run ON warning (run_id);

-- One observation of one source; body is the JSON of its rows.
CREATE TABLE sample (
    run_id TEXT NOT NULL REFERENCES run ON DELETE CASCADE,
    source TEXT NOT NULL,
    at_us INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run_id, source, at_us)
) STRICT, WITHOUT ROWID;

-- One second of the load; body is its JSON without histograms.
CREATE TABLE interval (
    run_id TEXT NOT NULL REFERENCES run ON DELETE CASCADE,
    start_us INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run_id, start_us)
) STRICT, WITHOUT ROWID;

-- Its histograms (HdrHistogram V2, deflated). script -1: lag; statement -1: whole transactions.
CREATE TABLE histogram (
    run_id TEXT NOT NULL REFERENCES run ON DELETE CASCADE,
    start_us INTEGER NOT NULL,
    script INTEGER NOT NULL,
    statement INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (run_id, start_us, script, statement)
) STRICT, WITHOUT ROWID;
";

/// Makes the tables in a new file; checks the format of an existing one.
pub(super) fn prepare(store: &Store) -> Result<(), StoreError> {
    let pragma = |name: &str| {
        store.query(|c| c.query_row(&format!("PRAGMA {name}"), [], |r| r.get::<_, i64>(0)))
    };
    if pragma("user_version")? == 0 {
        create(store)?;
    }
    if pragma("application_id")? != APPLICATION_ID {
        return Err(StoreError::Foreign { path: store.path.clone() });
    }
    let found = pragma("user_version")?;
    if found > FORMAT {
        return Err(StoreError::TooNew { path: store.path.clone(), found, known: FORMAT });
    }
    Ok(())
}

fn create(store: &Store) -> Result<(), StoreError> {
    store.query(|c| {
        // Must come before the first table; both survive in the file.
        c.execute_batch("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL;")?;
        c.execute_batch("BEGIN IMMEDIATE")?;
        let made = (|| {
            let tables: i64 =
                c.query_row("SELECT count(*) FROM sqlite_schema", [], |r| r.get(0))?;
            // Another process may have been first; a file with tables and no
            // version is not ours, which the caller finds by its application id.
            if tables == 0 {
                c.execute_batch(TABLES)?;
                c.pragma_update(None, "application_id", APPLICATION_ID)?;
                c.pragma_update(None, "user_version", FORMAT)?;
            }
            Ok(())
        })();
        c.execute_batch(if made.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
        made
    })
}
