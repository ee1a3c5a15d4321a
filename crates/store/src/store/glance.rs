//! What a list says of runs without reading their records.

use std::collections::BTreeMap;

use rusqlite::params;
use walwright_record::RunId;

use super::{Store, StoreError};

impl Store {
    /// How many warnings each run has that has some.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn warning_counts(&self) -> Result<BTreeMap<String, u32>, StoreError> {
        self.query(|c| {
            let mut statement =
                c.prepare("SELECT run_id, count(*) FROM warning GROUP BY run_id")?;
            let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect()
        })
    }

    /// What a person noted of each run that has notes, in the order of their moments.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn notes(&self) -> Result<BTreeMap<String, Vec<String>>, StoreError> {
        self.query(|c| {
            let mut statement = c.prepare(
                "SELECT run_id, text FROM event WHERE kind = 'note' ORDER BY run_id, at_us",
            )?;
            let mut rows = statement.query([])?;
            let mut notes: BTreeMap<String, Vec<String>> = BTreeMap::new();
            while let Some(row) = rows.next()? {
                notes.entry(row.get(0)?).or_default().push(row.get(1)?);
            }
            Ok(notes)
        })
    }

    /// Transactions a second in about `points` intervals of a run, which lie evenly over it.
    /// One that cannot be read is left out.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn course(&self, id: &RunId, points: u32) -> Result<Vec<f64>, StoreError> {
        let bodies: Vec<String> = self.query(|c| {
            let all: u32 =
                c.query_row("SELECT count(*) FROM interval WHERE run_id = ?1", [&id.0], |row| {
                    row.get(0)
                })?;
            let step = all.div_ceil(points.max(1)).max(1);
            let mut statement = c.prepare_cached(
                "SELECT body FROM (SELECT body, row_number() OVER (ORDER BY start_us) AS place
                                   FROM interval WHERE run_id = ?1)
                 WHERE place % ?2 = 0 ORDER BY place",
            )?;
            let rows = statement.query_map(params![id.0, step], |row| row.get(0))?;
            rows.collect::<rusqlite::Result<_>>()
        })?;
        Ok(bodies.iter().filter_map(|body| per_second(body)).collect())
    }
}

fn per_second(body: &str) -> Option<f64> {
    let interval: walwright_record::LoadInterval = super::sound::read(body).ok()?;
    let length = interval.length.as_secs_f64();
    let transactions: f64 = interval.scripts.iter().map(|of| of.transactions as f64).sum();
    (length > 0.0).then(|| transactions / length)
}
