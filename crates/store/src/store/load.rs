//! Reading records back.

use std::collections::BTreeMap;

use rusqlite::{Params, Row as SqlRow};
use serde::de::DeserializeOwned;
use walwright_record::{
    Event, LatencyHistogram, LoadInterval, Phase, PhaseName, Record, RunHeader, RunId, RunState,
    Sample, Source, SparseHistogram, Timestamp, Warning, Window,
};

use super::{Store, StoreError, sound};

/// Statements of the scripts of a run, all told.
const MOST_STATEMENTS: usize = 2_000;
const MOST_SCRIPTS: u16 = 1_000;

const HEADER: &str = "SELECT id, started_us, ended_us, state, walwright_version, command, label, workload, target, error FROM run";

pub(super) fn headers(store: &Store) -> Result<Vec<RunHeader>, StoreError> {
    store.query(|c| {
        let mut statement = c.prepare(&format!("{HEADER} ORDER BY started_us, id"))?;
        let rows = statement.query_map([], |row| Ok(header(row).unwrap_or_else(|_| torn(row))))?;
        rows.collect()
    })
}

/// What can be told of a run whose first page is damaged.
fn torn(row: &SqlRow<'_>) -> RunHeader {
    let bytes = |place: usize| row.get_ref(place).ok().and_then(|value| value.as_bytes().ok());
    let text =
        |place: usize| String::from_utf8_lossy(bytes(place).unwrap_or_default()).into_owned();
    RunHeader {
        id: RunId(text(0)),
        started: Timestamp::default(),
        ended: None,
        state: RunState::Failed,
        walwright_version: text(4),
        command: text(5),
        label: None,
        workload: text(7),
        target: text(8),
        error: Some(RunHeader::DAMAGED.to_owned()),
    }
}

fn header(row: &SqlRow<'_>) -> rusqlite::Result<RunHeader> {
    let state: String = row.get(3)?;
    Ok(RunHeader {
        id: RunId(row.get(0)?),
        started: moment(1, row.get(1)?)?,
        ended: row.get::<_, Option<i64>>(2)?.map(|at| moment(2, at)).transpose()?,
        // A state that a later version invents means at least: not complete.
        state: RunState::from_name(&state).unwrap_or(RunState::Interrupted),
        walwright_version: row.get(4)?,
        command: row.get(5)?,
        label: row.get(6)?,
        workload: row.get(7)?,
        target: row.get(8)?,
        error: row.get(9)?,
    })
}

/// A moment in a column.
fn moment(column: usize, micros: i64) -> rusqlite::Result<Timestamp> {
    sound::moment(micros).map_err(|why| {
        rusqlite::Error::FromSqlConversionFailure(
            column,
            rusqlite::types::Type::Integer,
            why.into(),
        )
    })
}

/// The first page of one run.
pub(super) fn header_of(store: &Store, id: &RunId) -> Result<RunHeader, StoreError> {
    let header = store.query(|c| {
        let mut statement = c.prepare(&format!("{HEADER} WHERE id = ?1"))?;
        let mut rows = statement.query_map([&id.0], |row| Ok(header(row)))?;
        rows.next().transpose()
    })?;
    let header = header.ok_or_else(|| crate::named_runs::RUNS.no_such(&id.0))?;
    header.map_err(|why| Reader { store, id }.damaged("its first page", why))
}

pub(super) fn record(store: &Store, id: &RunId) -> Result<Record, StoreError> {
    let reader = Reader { store, id };
    let mut record = Record::new(header_of(store, id)?);
    reader.facts(&mut record)?;
    record.phases = reader.phases()?;
    record.events = reader.events()?;
    record.warnings = reader.warnings()?;
    record.samples = reader.samples()?;
    record.intervals = reader.newer_intervals(None)?;
    if let Some(window) = record.window() {
        record.statement_latency = reader.statement_latency(window)?;
    }
    Ok(record)
}

pub(super) struct Reader<'a> {
    pub(super) store: &'a Store,
    pub(super) id: &'a RunId,
}

impl Reader<'_> {
    fn rows<T>(
        &self,
        sql: &str,
        read: impl FnMut(&SqlRow<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        self.rows_of(sql, [&self.id.0], read)
    }

    fn rows_of<T>(
        &self,
        sql: &str,
        of: impl Params,
        read: impl FnMut(&SqlRow<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let read = self.store.query(|c| {
            let mut statement = c.prepare_cached(sql)?;
            let rows = statement.query_map(of, read)?;
            rows.collect()
        });
        // What a column holds is of the run, the rest of the file.
        read.map_err(|error| match error {
            StoreError::Sqlite {
                said:
                    said @ (rusqlite::Error::FromSqlConversionFailure(..)
                    | rusqlite::Error::InvalidColumnType(..)
                    | rusqlite::Error::IntegralValueOutOfRange(..)
                    | rusqlite::Error::Utf8Error(..)),
                ..
            } => self.damaged("a row", said),
            other => other,
        })
    }

    fn damaged(&self, what: &str, why: impl ToString) -> StoreError {
        StoreError::Damaged { id: self.id.clone(), what: what.to_owned(), why: why.to_string() }
    }

    fn json<T: DeserializeOwned>(&self, what: &str, body: &str) -> Result<T, StoreError> {
        sound::read(body).map_err(|why| self.damaged(what, why))
    }

    pub(super) fn facts(&self, record: &mut Record) -> Result<(), StoreError> {
        let facts = self.rows("SELECT name, body FROM fact WHERE run_id = ?1", |r| {
            Ok((r.get::<_, String>(0)?, r.get::<_, String>(1)?))
        })?;
        for (name, body) in &facts {
            match name.as_str() {
                "target" => record.target = Some(self.json(name, body)?),
                "settings" => record.settings = self.json(name, body)?,
                "schema" => record.schema = Some(self.json(name, body)?),
                "schema_end" => record.schema_end = Some(self.json(name, body)?),
                "host" => record.host = Some(self.json(name, body)?),
                "workload" => record.workload = Some(self.json(name, body)?),
                "load" => record.load = Some(self.json(name, body)?),
                "client" => record.client = Some(self.json(name, body)?),
                "instrument" => record.instrument = Some(self.json(name, body)?),
                "storage" => record.storage = Some(self.json(name, body)?),
                "storage_measured" => record.storage_measured = Some(self.json(name, body)?),
                "connection_time" => record.connection_time = Some(self.json(name, body)?),
                "under_way" => record.under_way = Some(self.json(name, body)?),
                "cpu" => record.cpu = Some(self.json(name, body)?),
                other => {
                    if let Some(measure) = other.strip_prefix("side:") {
                        record.side_measures.insert(measure.to_owned(), self.json(name, body)?);
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn phases(&self) -> Result<Vec<Phase>, StoreError> {
        let stored = self.rows(
            "SELECT name, start_us, end_us FROM phase WHERE run_id = ?1 ORDER BY start_us",
            |r| Ok((r.get::<_, String>(0)?, r.get(1)?, r.get::<_, Option<i64>>(2)?)),
        )?;
        stored
            .into_iter()
            .map(|(name, start, end)| {
                let name: PhaseName = self.json("a phase", &format!("\"{name}\""))?;
                let (start, end) =
                    sound::window(start, end).map_err(|why| self.damaged("a phase", why))?;
                Ok(Phase { name, start, end })
            })
            .collect()
    }

    pub(super) fn events(&self) -> Result<Vec<Event>, StoreError> {
        self.rows("SELECT at_us, kind, text FROM event WHERE run_id = ?1 ORDER BY at_us", |r| {
            Ok(Event { at: moment(0, r.get(0)?)?, kind: r.get(1)?, text: r.get(2)? })
        })
    }

    pub(super) fn warnings(&self) -> Result<Vec<Warning>, StoreError> {
        let stored = self
            .rows("SELECT body FROM warning WHERE run_id = ?1 ORDER BY rowid", |r| {
                r.get::<_, String>(0)
            })?;
        stored.iter().map(|body| self.json("a warning", body)).collect()
    }

    fn samples(&self) -> Result<BTreeMap<Source, Vec<Sample>>, StoreError> {
        let stored = self.rows(
            "SELECT source, at_us, body FROM sample WHERE run_id = ?1 ORDER BY source, at_us",
            |r| Ok((r.get::<_, String>(0)?, r.get::<_, i64>(1)?, r.get::<_, String>(2)?)),
        )?;
        let mut samples: BTreeMap<Source, Vec<Sample>> = BTreeMap::new();
        for (name, at, body) in stored {
            // A source that a later minor version added is passed over.
            let Some(source) = Source::from_name(&name) else { continue };
            samples.entry(source).or_default().push(self.sample(source, at, &body)?);
        }
        Ok(samples)
    }

    fn sample(&self, source: Source, at: i64, body: &str) -> Result<Sample, StoreError> {
        // Counters may be any number.
        let rows = serde_json::from_str(body).map_err(|why| self.damaged("a sample", why))?;
        let at = sound::moment(at).map_err(|why| self.damaged("a sample", why))?;
        Ok(Sample { at, source, rows })
    }

    /// The samples of a source after a moment, all of them where there is none.
    pub(super) fn newer_samples(
        &self,
        source: Source,
        after: Option<Timestamp>,
    ) -> Result<Vec<Sample>, StoreError> {
        let stored = self.rows_of(
            "SELECT at_us, body FROM sample WHERE run_id = ?1 AND source = ?2 AND at_us > ?3
             ORDER BY at_us",
            (&self.id.0, source.name(), after.map_or(i64::MIN, |at| at.0)),
            |r| Ok((r.get::<_, i64>(0)?, r.get::<_, String>(1)?)),
        )?;
        stored.iter().map(|(at, body)| self.sample(source, *at, body)).collect()
    }

    /// The intervals that begin after a moment, all of them where there is none.
    pub(super) fn newer_intervals(
        &self,
        after: Option<Timestamp>,
    ) -> Result<Vec<LoadInterval>, StoreError> {
        let of = || (&self.id.0, after.map_or(i64::MIN, |at| at.0));
        let stored = self.rows_of(
            "SELECT body FROM interval WHERE run_id = ?1 AND start_us > ?2 ORDER BY start_us",
            of(),
            |r| r.get::<_, String>(0),
        )?;
        let mut intervals: BTreeMap<i64, LoadInterval> = BTreeMap::new();
        for body in &stored {
            let interval: LoadInterval = self.json("an interval", body)?;
            sound::interval(&interval).map_err(|why| self.damaged("an interval", why))?;
            intervals.insert(interval.start.0, interval);
        }
        let histograms = self.rows_of(
            "SELECT start_us, script, body FROM histogram
             WHERE run_id = ?1 AND start_us > ?2 AND statement = -1 ORDER BY start_us, script",
            of(),
            |r| Ok((r.get::<_, i64>(0)?, r.get::<_, i64>(1)?, r.get::<_, Vec<u8>>(2)?)),
        )?;
        for (start, script, body) in histograms {
            let counts = SparseHistogram::from_bytes(&body)
                .map_err(|why| self.damaged("a histogram", why))?;
            let Some(interval) = intervals.get_mut(&start) else { continue };
            match usize::try_from(script) {
                Err(_) => interval.lag = counts,
                Ok(script) => {
                    if let Some(script) = interval.scripts.get_mut(script) {
                        script.latency = counts;
                    }
                }
            }
        }
        Ok(intervals.into_values().collect())
    }

    /// Merges as it reads: the statements' histograms of a long run do not fit in memory at once.
    fn statement_latency(&self, window: Window) -> Result<Vec<Vec<LatencyHistogram>>, StoreError> {
        let mut total: Vec<Vec<LatencyHistogram>> = Vec::new();
        let mut damage = None;
        self.store.query(|c| {
            let mut statement = c.prepare(
                "SELECT script, statement, body FROM histogram
                 WHERE run_id = ?1 AND script >= 0 AND statement >= 0
                       AND start_us >= ?2 AND start_us < ?3",
            )?;
            let mut rows =
                statement.query(rusqlite::params![self.id.0, window.start.0, window.end.0])?;
            while let Some(row) = rows.next()? {
                let (script, place): (u16, u16) = (row.get(0)?, row.get(1)?);
                let held = total.iter().map(Vec::len).sum::<usize>();
                if usize::from(place) + held > MOST_STATEMENTS || script > MOST_SCRIPTS {
                    damage = Some("it is of a statement that no script has".to_owned());
                    break;
                }
                match LatencyHistogram::from_bytes(row.get_ref(2)?.as_blob()?) {
                    Ok(counts) => slot(&mut total, script.into(), place.into()).merge(&counts),
                    Err(why) => damage = Some(why.to_string()),
                }
            }
            Ok(())
        })?;
        match damage {
            Some(why) => Err(self.damaged("a histogram", why)),
            None => Ok(total),
        }
    }
}

fn slot(
    total: &mut Vec<Vec<LatencyHistogram>>,
    script: usize,
    place: usize,
) -> &mut LatencyHistogram {
    if total.len() <= script {
        total.resize_with(script + 1, Vec::new);
    }
    let statements = &mut total[script];
    if statements.len() <= place {
        statements.resize_with(place + 1, LatencyHistogram::new);
    }
    &mut statements[place]
}
