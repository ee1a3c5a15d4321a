//! The store of a lab: one SQLite file that holds every record.
//!
//! A run is written as it goes, by one writer that commits with every call. The
//! file is in WAL mode, so others read while it is written and a killed process
//! loses at most what it had not handed to the writer.

mod follow;
mod glance;
mod load;
mod remark;
mod schema;
mod sound;
mod writer;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};
use thiserror::Error;
use walwright_record::{Headline, Probes, Record, RunHeader, RunId, RunState, Timestamp};

use crate::{FindError, NamedRuns, private};

pub use follow::Following;
pub use writer::RunWriter;

/// Name of the file inside the lab directory.
const FILE: &str = "walwright.db";

/// Why the store refuses.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// SQLite says no.
    #[error("the record file {path}: {said}{}", remedy(said))]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        said: rusqlite::Error,
    },
    /// The lab directory cannot be made or entered.
    #[error("the lab directory {path} cannot be used: {source}; name another with --lab")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is from a newer walwright.
    #[error(
        "the record file {path} has format {found}, newer than the {known} this walwright reads; use the walwright that wrote it, or a newer one"
    )]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest format known here.
        known: i64,
    },
    /// The file is SQLite, but not ours.
    #[error("{path} is an SQLite file, but not one of walwright's; name another lab directory")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// No run of that name, or several.
    #[error(transparent)]
    Find(#[from] FindError),
    /// The thread that writes a record ended before its end.
    #[error("the record of this run is not whole: its writer ended early; run again")]
    WriterEnded,
    /// A run that is still being written cannot be deleted or added to.
    #[error("run {id} is still being written by process {pid}; stop it first")]
    InUse {
        /// The run.
        id: RunId,
        /// The process that writes it.
        pid: u32,
    },
    /// Something stored cannot be read back.
    #[error("run {id}: {what} cannot be read back: {why}")]
    Damaged {
        /// The run.
        id: RunId,
        /// What part of it.
        what: String,
        /// Why not.
        why: String,
    },
}

/// The records of one lab.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    connection: Connection,
}

impl Store {
    /// Opens the store in `lab`, making directory and file where they are not there, which
    /// nobody else may read then.
    ///
    /// Runs whose process has died are marked interrupted.
    ///
    /// # Errors
    /// When the directory cannot be made, or the file is not a store this version reads.
    pub fn open(lab: &Path) -> Result<Store, StoreError> {
        let path = lab.join(FILE);
        // SQLite gives the files that it keeps beside this one its mode.
        private::create_dir_all(lab)
            .and_then(|()| private::is_ours(lab))
            .and_then(|()| make_private(&path))
            .map_err(|source| StoreError::Directory { path: lab.to_owned(), source })?;
        let connection = connect(&path, OpenFlags::default())?;
        let store = Store { path, connection };
        schema::prepare(&store)?;
        store.mark_dead_runs()?;
        Ok(store)
    }

    /// Opens the store in `lab` if there is one.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_existing(lab: &Path) -> Result<Option<Store>, StoreError> {
        if lab.join(FILE).exists() { Store::open(lab).map(Some) } else { Ok(None) }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Begins a record. The writer keeps its own connection.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn begin(&self, header: &RunHeader) -> Result<RunWriter, StoreError> {
        RunWriter::begin(&self.path, header)
    }

    /// Opens the record of a run that has ended, to add to it what becomes known later.
    /// Its state and its end stay as they are.
    ///
    /// # Errors
    /// When there is none, or it is still being written.
    pub fn amend(&self, id: &RunId) -> Result<RunWriter, StoreError> {
        self.ended(id)?;
        RunWriter::amend(&self.path, id)
    }

    /// The first pages of all runs, oldest first. Of one that cannot be read back its error
    /// says so.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn runs(&self) -> Result<Vec<RunHeader>, StoreError> {
        load::headers(self)
    }

    /// The runs a person means by `name`, as [`NamedRuns::find`] has it.
    ///
    /// # Errors
    /// When nothing or several things fit.
    pub fn named(&self, name: &str) -> Result<NamedRuns, StoreError> {
        Ok(NamedRuns::find(self.runs()?, name)?)
    }

    /// The one run a person means by `name`.
    ///
    /// # Errors
    /// When none or several fit.
    pub fn find(&self, name: &str) -> Result<RunHeader, StoreError> {
        Ok(self.named(name)?.one(name)?)
    }

    /// The whole record of a run.
    ///
    /// # Errors
    /// When there is none, or it is damaged.
    pub fn load(&self, id: &RunId) -> Result<Record, StoreError> {
        load::record(self, id)
    }

    /// The record of a run that may still be written, to be read as it grows.
    ///
    /// # Errors
    /// When there is none, or it is damaged.
    pub fn follow(self, id: &RunId) -> Result<Following, StoreError> {
        Following::begin(self, id)
    }

    /// What a list says of each run that measured something.
    ///
    /// # Errors
    /// When the file is damaged.
    pub fn headlines(&self) -> Result<BTreeMap<String, Headline>, StoreError> {
        let stored = self.query(|c| {
            let mut statement =
                c.prepare("SELECT run_id, body FROM fact WHERE name = 'headline'")?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<rusqlite::Result<Vec<(String, String)>>>()
        })?;
        let read = |text: &str| sound::read::<Headline>(text).ok();
        let sound = |of: &Headline| {
            let times = [of.p50, of.p99].map(Duration::try_from_secs_f64);
            times.iter().all(Result::is_ok) && of.throughput >= 0.0
        };
        let stored = stored.into_iter().filter_map(|(run, body)| Some((run, read(&body)?)));
        Ok(stored.filter(|(_, headline)| sound(headline)).collect())
    }

    /// What the short probes before the newest `most` runs said, leaving out `but`.
    ///
    /// # Errors
    /// When the file is damaged.
    pub fn probes(&self, but: &RunId, most: u32) -> Result<Vec<Probes>, StoreError> {
        let stored = self.query(|c| {
            let mut statement = c.prepare(
                "SELECT (SELECT body FROM fact WHERE run_id = id AND name = 'storage'),
                        (SELECT body FROM fact WHERE run_id = id AND name = 'cpu')
                 FROM run WHERE id <> ?1 ORDER BY started_us DESC LIMIT ?2",
            )?;
            let rows = statement.query_map((&but.0, most), |row| {
                Ok((row.get::<_, Option<String>>(0)?, row.get::<_, Option<String>>(1)?))
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        })?;
        // One that cannot be read says nothing of what is usual.
        let read = |(storage, cpu): (Option<String>, Option<String>)| Probes {
            storage: storage.and_then(|text| sound::read(&text).ok()),
            cpu: cpu.and_then(|text| sound::read(&text).ok()),
        };
        Ok(stored.into_iter().map(read).collect())
    }

    /// Deletes a run and gives its space back to the file system: at once, or,
    /// while another run is being written, once that run is finished, because
    /// shrinking the file flushes to disk.
    ///
    /// # Errors
    /// When there is none, or it is still being written.
    pub fn delete(&self, id: &RunId) -> Result<(), StoreError> {
        self.ended(id)?;
        let quiet = self.runs()?.iter().all(|run| run.state != RunState::Running);
        self.query(|c| {
            c.pragma_update(None, "synchronous", "NORMAL")?;
            c.pragma_update(None, "wal_autocheckpoint", if quiet { 1000 } else { 0 })?;
            c.execute("DELETE FROM run WHERE id = ?1", [&id.0])?;
            free_unused_pages(c)?;
            if quiet {
                c.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
            }
            Ok(())
        })
    }

    /// That a run is there and nobody writes it.
    fn ended(&self, id: &RunId) -> Result<(), StoreError> {
        if self.find(&id.0)?.state != RunState::Running {
            return Ok(());
        }
        let pid = self.query(|c| {
            c.query_row("SELECT owner_pid FROM run WHERE id = ?1", [&id.0], |r| r.get(0))
        })?;
        Err(StoreError::InUse { id: id.clone(), pid })
    }

    fn query<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        work(&self.connection).map_err(|said| StoreError::Sqlite { path: self.path.clone(), said })
    }

    /// Marks runs whose process has died: its PID is gone, or belongs to a process
    /// that started at another time.
    fn mark_dead_runs(&self) -> Result<(), StoreError> {
        let running: Vec<Option<(String, i64, Option<i64>)>> = self.query(|c| {
            let mut statement =
                c.prepare("SELECT id, owner_pid, owner_started FROM run WHERE state = 'running'")?;
            // A damaged row is nobody's; the list of runs says that it is damaged.
            let read =
                |r: &rusqlite::Row<'_>| Some((r.get(0).ok()?, r.get(1).ok()?, r.get(2).ok()?));
            let rows = statement.query_map([], |r| Ok(read(r)))?;
            rows.collect()
        })?;
        for (id, pid, started) in running.into_iter().flatten() {
            let alive = u32::try_from(pid).ok().and_then(writer::process_started);
            if alive.is_some() && alive == started {
                continue;
            }
            let last = self.last_written(&id)?;
            self.query(|c| {
                c.execute(
                    "UPDATE run SET state = 'interrupted', ended_us = ?2,
                            error = 'the walwright process that ran this died'
                     WHERE id = ?1 AND state = 'running'",
                    rusqlite::params![id, last.map(|t| t.0)],
                )
            })?;
        }
        Ok(())
    }

    fn last_written(&self, id: &str) -> Result<Option<Timestamp>, StoreError> {
        self.query(|c| {
            c.query_row(
                "SELECT max(at) FROM (
                     SELECT max(at_us) AS at FROM sample WHERE run_id = ?1
                     UNION ALL SELECT max(start_us) FROM interval WHERE run_id = ?1
                     UNION ALL SELECT max(start_us) FROM phase WHERE run_id = ?1)",
                [id],
                |r| r.get::<_, Option<i64>>(0),
            )
            .optional()
        })
        .map(|at| at.flatten().map(Timestamp))
    }
}

/// Makes the file where there is none.
fn make_private(path: &Path) -> std::io::Result<()> {
    match private::options().write(true).create_new(true).open(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Cuts the unused pages off the file, some at a time, so that a run that is being
/// written waits for the write lock only briefly.
fn free_unused_pages(c: &Connection) -> rusqlite::Result<()> {
    let unused = || c.query_row("PRAGMA freelist_count", [], |r| r.get::<_, i64>(0));
    let mut left = unused()?;
    while left > 0 {
        // Each step frees one page.
        let mut statement = c.prepare("PRAGMA incremental_vacuum(1000)")?;
        let mut steps = statement.query([])?;
        while steps.next()?.is_some() {}
        let now = unused()?;
        if now >= left {
            // A file made without auto_vacuum keeps its pages.
            break;
        }
        left = now;
    }
    Ok(())
}

/// What helps, in words that follow what SQLite said.
fn remedy(said: &rusqlite::Error) -> &'static str {
    match said.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => {
            "; it is not a record file, or a damaged one: move it away, or name another lab with --lab"
        }
        Some(ErrorCode::DatabaseCorrupt) => {
            "; it is damaged: move it away, or restore it from a backup"
        }
        Some(ErrorCode::DiskFull) => "; free some space there, or name another lab with --lab",
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => {
            "; it and its directory must be yours to write: name another lab with --lab, or ask its owner"
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "; another process holds it: try again when that has ended"
        }
        _ => "",
    }
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let fail = |said| StoreError::Sqlite { path: path.to_owned(), said };
    let connection = Connection::open_with_flags(path, flags).map_err(fail)?;
    // Another walwright in the same lab holds the write lock for milliseconds.
    connection.busy_timeout(Duration::from_secs(10)).map_err(fail)?;
    connection.pragma_update(None, "foreign_keys", true).map_err(fail)?;
    Ok(connection)
}
