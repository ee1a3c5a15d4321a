//! Writing a record as the run goes.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, params};
use serde::Serialize;
use walwright_record::{
    ClientFacts, CpuProbe, Event, Headline, HostFacts, InstrumentFacts, LoadFacts, LoadInterval,
    PhaseName, RunHeader, RunId, RunState, Sample, SchemaFacts, Setting, SparseHistogram,
    StorageMeasurement, StorageProbe, TargetFacts, Timestamp, UnderWay, Warning, WarningCode,
    WorkloadFacts, redact,
};

use super::{StoreError, connect};

/// Writes one run; each call is durable against the death of this process.
///
/// Nothing is flushed to disk while the run goes on, because such a flush would
/// compete with the flushes under test: in WAL mode with `synchronous = NORMAL`
/// SQLite flushes only at its checkpoints, and those wait for
/// [`finish`](Self::finish). Dropped without [`finish`](Self::finish), the run reads as
/// interrupted with all that was written until then.
#[derive(Debug)]
pub struct RunWriter {
    id: RunId,
    path: PathBuf,
    connection: Connection,
}

impl RunWriter {
    pub(super) fn begin(path: &Path, header: &RunHeader) -> Result<RunWriter, StoreError> {
        let connection = connect(path, OpenFlags::default())?;
        let writer = RunWriter { id: header.id.clone(), path: path.to_owned(), connection };
        writer.execute(|c| {
            c.pragma_update(None, "synchronous", "NORMAL")?;
            c.pragma_update(None, "wal_autocheckpoint", 0)
        })?;
        let pid = std::process::id();
        writer.execute(|c| {
            c.execute(
                "INSERT INTO run (id, started_us, ended_us, state, walwright_version, command,
                                  label, workload, target, error, owner_pid, owner_started)
                 VALUES (?1, ?2, NULL, 'running', ?3, ?4, ?5, ?6, ?7, NULL, ?8, ?9)",
                params![
                    header.id.0,
                    header.started.0,
                    header.walwright_version,
                    header.command,
                    header.label,
                    header.workload,
                    header.target,
                    pid,
                    process_started(pid),
                ],
            )
        })?;
        Ok(writer)
    }

    /// Opens the record of a run that has ended, to add to it.
    pub(super) fn amend(path: &Path, id: &RunId) -> Result<RunWriter, StoreError> {
        let connection = connect(path, OpenFlags::default())?;
        Ok(RunWriter { id: id.clone(), path: path.to_owned(), connection })
    }

    /// The run.
    pub fn id(&self) -> &RunId {
        &self.id
    }

    /// Stores what is known of the server.
    ///
    /// # Errors
    /// When the file cannot be written; likewise for the other methods.
    pub fn target(&mut self, facts: &TargetFacts) -> Result<(), StoreError> {
        let address = facts.address.clone();
        let id = &self.id.0;
        self.execute(|c| {
            c.execute("UPDATE run SET target = ?2 WHERE id = ?1", params![id, address])
        })?;
        self.fact("target", facts)
    }

    /// Stores the server's settings.
    pub fn settings(&mut self, settings: &[Setting]) -> Result<(), StoreError> {
        self.fact("settings", &settings)
    }

    /// Stores the schema as it was when the load began.
    pub fn schema(&mut self, facts: &SchemaFacts) -> Result<(), StoreError> {
        self.fact("schema", facts)
    }

    /// Stores the schema as it was when the load had ended.
    pub fn schema_end(&mut self, facts: &SchemaFacts) -> Result<(), StoreError> {
        self.fact("schema_end", facts)
    }

    /// Stores what is known of the machine.
    pub fn host(&mut self, facts: &HostFacts) -> Result<(), StoreError> {
        self.fact("host", facts)
    }

    /// Stores the workload, its scripts without secrets.
    pub fn workload(&mut self, facts: &WorkloadFacts) -> Result<(), StoreError> {
        let mut facts = facts.clone();
        for script in &mut facts.scripts {
            if let Cow::Owned(text) = redact::sql(&script.text) {
                script.text = text;
                for label in &mut script.statements {
                    *label = redact::sql(label).into_owned();
                }
            }
        }
        self.fact("workload", &facts)
    }

    /// Stores how it is driven.
    pub fn load(&mut self, facts: &LoadFacts) -> Result<(), StoreError> {
        self.fact("load", facts)
    }

    /// Stores what the clients of someone else's load said of it, without secrets in the
    /// addresses that they name.
    pub fn client(&mut self, facts: &ClientFacts) -> Result<(), StoreError> {
        let mut facts = facts.clone();
        let told = |text: &mut String| *text = redact::text(text).into_owned();
        facts.operations.iter_mut().for_each(told);
        for log in &mut facts.logs {
            log.totals.iter_mut().for_each(|totals| told(&mut totals.name));
            log.notes.iter_mut().for_each(told);
        }
        self.fact("client", &facts)
    }

    /// Takes out what the clients of someone else's load said of it, with its intervals and
    /// the warnings about it, before other files say more.
    pub fn forget_client(&mut self) -> Result<(), StoreError> {
        let id = &self.id.0;
        self.together(|writer| {
            writer.execute(|c| {
                c.execute("DELETE FROM fact WHERE run_id = ?1 AND name = 'client'", [id])?;
                c.execute("DELETE FROM interval WHERE run_id = ?1", [id])?;
                c.execute("DELETE FROM histogram WHERE run_id = ?1", [id])?;
                let code = json(&WarningCode::ClientLog).trim_matches('"').to_owned();
                c.execute(
                    "DELETE FROM warning WHERE run_id = ?1 AND json_extract(body, '$.code') = ?2",
                    params![id, code],
                )?;
                Ok(())
            })
        })
    }

    /// Stores what the instrument knows of itself.
    pub fn instrument(&mut self, facts: &InstrumentFacts) -> Result<(), StoreError> {
        self.fact("instrument", facts)
    }

    /// Stores the flush latency measured before the run.
    pub fn storage(&mut self, probe: &StorageProbe) -> Result<(), StoreError> {
        self.fact("storage", probe)
    }

    /// Stores what the disk under the WAL is known to be able to do.
    pub fn storage_measured(&mut self, of: &StorageMeasurement) -> Result<(), StoreError> {
        self.fact("storage_measured", of)
    }

    /// Stores the processor speed measured before the run.
    pub fn cpu(&mut self, probe: &CpuProbe) -> Result<(), StoreError> {
        self.fact("cpu", probe)
    }

    /// Stores how long it took to open the connections of single transactions.
    pub fn connection_time(&mut self, of: &SparseHistogram) -> Result<(), StoreError> {
        self.fact("connection_time", of)
    }

    /// Stores what was under way when the measured window ended.
    pub fn under_way(&mut self, of: &UnderWay) -> Result<(), StoreError> {
        self.fact("under_way", of)
    }

    /// Stores what a list of runs says of this one.
    pub fn headline(&mut self, headline: &Headline) -> Result<(), StoreError> {
        self.fact("headline", headline)
    }

    /// Stores a figure measured beside the load.
    pub fn side_measure(&mut self, name: &str, seconds: f64) -> Result<(), StoreError> {
        self.fact(&format!("side:{name}"), &seconds)
    }

    /// Begins a phase and ends the one before. A phase that begins again is moved.
    pub fn phase(&mut self, name: PhaseName, start: Timestamp) -> Result<(), StoreError> {
        let id = &self.id.0;
        self.execute(|c| {
            c.execute(
                "UPDATE phase SET end_us = ?2 WHERE run_id = ?1 AND end_us IS NULL",
                params![id, start.0],
            )?;
            c.execute(
                "INSERT OR REPLACE INTO phase (run_id, name, start_us, end_us)
                 VALUES (?1, ?2, ?3, NULL)",
                params![id, json_name(&name), start.0],
            )?;
            Ok(())
        })
    }

    /// Sets where a phase that has ended began and ended, for one whose bounds are
    /// known only afterwards: the warm-up is found on the finished series.
    pub fn set_phase(
        &mut self,
        name: PhaseName,
        start: Timestamp,
        end: Timestamp,
    ) -> Result<(), StoreError> {
        let id = &self.id.0;
        self.execute(|c| {
            c.execute(
                "INSERT OR REPLACE INTO phase (run_id, name, start_us, end_us)
                 VALUES (?1, ?2, ?3, ?4)",
                params![id, json_name(&name), start.0, end.0],
            )?;
            Ok(())
        })
    }

    /// Stores an event, without secrets that its text may quote.
    pub fn event(&mut self, event: &Event) -> Result<(), StoreError> {
        let id = &self.id.0;
        self.execute(|c| {
            c.execute(
                "INSERT INTO event (run_id, at_us, kind, text) VALUES (?1, ?2, ?3, ?4)",
                params![id, event.at.0, event.kind, redact::text(&event.text)],
            )?;
            Ok(())
        })
    }

    /// Stores a warning, without secrets that its text may quote.
    pub fn warning(&mut self, warning: &Warning) -> Result<(), StoreError> {
        let told = Warning {
            code: warning.code,
            text: redact::text(&warning.text).into_owned(),
            hint: warning.hint.as_deref().map(|hint| redact::text(hint).into_owned()),
        };
        let (id, body) = (&self.id.0, json(&told));
        self.execute(|c| {
            c.execute("INSERT INTO warning (run_id, body) VALUES (?1, ?2)", params![id, body])?;
            Ok(())
        })
    }

    /// Stores samples in one transaction: apart, each would cost as much as all of them.
    pub fn samples(&mut self, samples: &[Sample]) -> Result<(), StoreError> {
        self.together(|writer| samples.iter().try_for_each(|sample| writer.sample(sample)))
    }

    fn sample(&self, sample: &Sample) -> Result<(), StoreError> {
        let (id, body) = (&self.id.0, json(&sample.rows));
        self.execute(|c| {
            c.prepare_cached(
                "INSERT OR REPLACE INTO sample (run_id, source, at_us, body)
                 VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![id, sample.source.name(), sample.at.0, body])?;
            Ok(())
        })
    }

    /// Stores an interval of the load.
    pub fn interval(&mut self, interval: &LoadInterval) -> Result<(), StoreError> {
        self.together(|writer| writer.interval_parts(interval))
    }

    /// Does `writes` in one transaction.
    fn together(
        &self,
        writes: impl FnOnce(&Self) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.execute(|c| c.execute_batch("BEGIN IMMEDIATE"))?;
        let written = writes(self);
        let written = written.and_then(|()| self.execute(|c| c.execute_batch("COMMIT")));
        if written.is_err() {
            // Where SQLite has rolled back itself there is nothing left to roll back.
            let _ = self.execute(|c| c.execute_batch("ROLLBACK"));
        }
        written
    }

    fn interval_parts(&self, interval: &LoadInterval) -> Result<(), StoreError> {
        let (body, start) = (json(interval), interval.start.0);
        self.execute(|c| {
            c.prepare_cached("INSERT INTO interval (run_id, start_us, body) VALUES (?1, ?2, ?3)")?
                .execute(params![self.id.0, start, body])
        })?;
        self.histogram(start, -1, -1, &interval.lag)?;
        for (number, script) in (0_i64..).zip(&interval.scripts) {
            self.histogram(start, number, -1, &script.latency)?;
            for (place, statement) in (0_i64..).zip(&script.statements) {
                self.histogram(start, number, place, statement)?;
            }
        }
        Ok(())
    }

    fn histogram(
        &self,
        start: i64,
        script: i64,
        statement: i64,
        histogram: &SparseHistogram,
    ) -> Result<(), StoreError> {
        if histogram.is_empty() {
            return Ok(());
        }
        let body = histogram.to_bytes().map_err(|why| StoreError::Damaged {
            id: self.id.clone(),
            what: "a histogram".to_owned(),
            why: why.to_string(),
        })?;
        let id = &self.id.0;
        self.execute(|c| {
            c.prepare_cached(
                "INSERT INTO histogram (run_id, start_us, script, statement, body)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![id, start, script, statement, body])?;
            Ok(())
        })
    }

    /// Ends the record, with why it failed without secrets.
    pub fn finish(
        &mut self,
        state: RunState,
        ended: Timestamp,
        error: Option<&str>,
    ) -> Result<(), StoreError> {
        let id = &self.id.0;
        self.execute(|c| {
            c.execute(
                "UPDATE phase SET end_us = ?2 WHERE run_id = ?1 AND end_us IS NULL",
                params![id, ended.0],
            )?;
            c.execute(
                "UPDATE run SET state = ?2, ended_us = ?3, error = ?4 WHERE id = ?1",
                params![id, state.name(), ended.0, error.map(redact::text)],
            )?;
            // Readers may hold the checkpoint up; the next one then does it.
            c.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
        })
    }

    fn fact<T: Serialize>(&self, name: &str, body: &T) -> Result<(), StoreError> {
        let (id, body) = (&self.id.0, json(body));
        self.execute(|c| {
            c.execute(
                "INSERT OR REPLACE INTO fact (run_id, name, body) VALUES (?1, ?2, ?3)",
                params![id, name, body],
            )?;
            Ok(())
        })
    }

    fn execute<T>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        work(&self.connection).map_err(|said| StoreError::Sqlite { path: self.path.clone(), said })
    }
}

/// The stored name of a unit variant.
pub(super) fn json_name(value: &PhaseName) -> String {
    json(value).trim_matches('"').to_owned()
}

fn json<T: Serialize>(value: &T) -> String {
    // Our types have string keys and finite numbers, which serde_json always writes.
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

/// When the process `pid` started, in clock ticks since boot (`/proc/PID/stat`,
/// field 22), or `None` if there is none. PIDs are reused; start times are not.
pub(super) fn process_started(pid: u32) -> Option<i64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command name, field 2, may hold spaces and parentheses.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}
