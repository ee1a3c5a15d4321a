//! What a person says of a run afterwards, or while it goes on.

use rusqlite::params;
use walwright_record::{Event, RunId, RunState, redact};

use super::{Store, StoreError};

impl Store {
    /// Gives a run another label, or none.
    ///
    /// # Errors
    /// When there is no such run, or the file cannot be written.
    pub fn relabel(&self, id: &RunId, label: Option<&str>) -> Result<(), StoreError> {
        self.remark(
            "UPDATE run SET label = ?2 WHERE id = ?1",
            params![self.find(&id.0)?.id.0, label],
        )
    }

    /// Adds an event to a run, also to one that goes on, without secrets that its text may quote.
    ///
    /// # Errors
    /// When there is no such run, or the file cannot be written.
    pub fn add_event(&self, id: &RunId, event: &Event) -> Result<(), StoreError> {
        self.remark(
            "INSERT INTO event (run_id, at_us, kind, text) VALUES (?1, ?2, ?3, ?4)",
            params![self.find(&id.0)?.id.0, event.at.0, event.kind, redact::text(&event.text)],
        )
    }

    /// Writes without a flush while a run goes on: it would compete with those under test.
    fn remark(&self, sql: &str, values: impl rusqlite::Params) -> Result<(), StoreError> {
        let quiet = self.runs()?.iter().all(|run| run.state != RunState::Running);
        self.query(|c| {
            c.pragma_update(None, "synchronous", "NORMAL")?;
            c.pragma_update(None, "wal_autocheckpoint", if quiet { 1000 } else { 0 })?;
            c.execute(sql, values).map(drop)
        })
    }

    /// The runs that a process writes or has written, the oldest first.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn written_by(
        &self,
        process: u32,
        since: walwright_record::Timestamp,
    ) -> Result<Vec<RunId>, StoreError> {
        self.query(|c| {
            let mut statement = c.prepare_cached(
                "SELECT id FROM run WHERE owner_pid = ?1 AND started_us >= ?2
                 ORDER BY started_us, id",
            )?;
            let rows =
                statement.query_map(params![process, since.0], |row| row.get(0).map(RunId))?;
            rows.collect()
        })
    }
}
