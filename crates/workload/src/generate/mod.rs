//! The initial data of a table, as COPY text.
//!
//! Every row has its own random generator, seeded from the seed of the run,
//! the table and the row number. So the data do not depend on the number of
//! chunks, and chunks can be made in parallel in any order.

mod column;
mod copy_text;
mod spec;
mod timestamp;
mod uuid;

use std::sync::Arc;

pub(crate) use spec::TableSpec;

use crate::script::{EvalError, Rng, Slot, Value, Variables};

/// A row that cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("table {table}, column {column}, row {row}: {source}")]
pub struct GenerateError {
    /// The table.
    pub table: String,
    /// The column, or the variable of the row.
    pub column: String,
    /// The number of the row, from 1.
    pub row: u64,
    /// Why its expression has no value.
    pub source: EvalError,
}

/// The initial data of one table.
#[derive(Debug, Clone)]
pub struct TableLoad {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    spec: TableSpec,
    rows: u64,
    variables: Variables,
    row_slot: Option<Slot>,
    seed: u64,
}

impl TableLoad {
    pub(crate) fn new(
        spec: TableSpec,
        rows: u64,
        variables: Variables,
        row_slot: Option<Slot>,
        seed: u64,
    ) -> Self {
        TableLoad { shared: Arc::new(Shared { spec, rows, variables, row_slot, seed }) }
    }

    /// The table, as it stands in SQL.
    pub fn table(&self) -> &str {
        &self.shared.spec.table
    }

    /// How many rows it gets.
    pub fn rows(&self) -> u64 {
        self.shared.rows
    }

    /// The COPY statement that takes the text of the chunks.
    ///
    /// `freeze` writes rows that are already frozen. The server allows it only
    /// when the table was created or emptied in the same transaction, so all
    /// rows must come through one connection: load with one chunk and
    /// `freeze`, or with several and a VACUUM afterwards.
    pub fn copy_statement(&self, freeze: bool) -> String {
        let columns: Vec<String> = self
            .shared
            .spec
            .columns
            .iter()
            .map(|column| format!("\"{}\"", column.name.replace('"', "\"\"")))
            .collect();
        let options = if freeze { " WITH (FREEZE)" } else { "" };
        format!("COPY {} ({}) FROM STDIN{options}", self.table(), columns.join(", "))
    }

    /// The rows in `count` parts of nearly equal size, in order; fewer when
    /// there are fewer rows. Together they are the same rows for any `count`.
    pub fn chunks(&self, count: usize) -> Vec<Chunk> {
        let rows = self.shared.rows;
        let count = (count as u64).clamp(1, rows.max(1));
        (0..count)
            .map(|index| {
                // u128: the product of two u64 may not fit one.
                let bound =
                    |index: u64| (u128::from(rows) * u128::from(index) / u128::from(count)) as u64;
                Chunk {
                    shared: Arc::clone(&self.shared),
                    variables: self.shared.variables.clone(),
                    next: bound(index),
                    end: bound(index + 1),
                }
            })
            .filter(|chunk| chunk.remaining() > 0)
            .collect()
    }
}

/// Some of the rows of a table, made on demand. It can move to another thread.
#[derive(Debug, Clone)]
pub struct Chunk {
    shared: Arc<Shared>,
    variables: Variables,
    /// Rows before this one are made; row numbers start at 1, this at 0.
    next: u64,
    end: u64,
}

impl Chunk {
    /// Rows still to be made.
    pub fn remaining(&self) -> u64 {
        self.end - self.next
    }

    /// Appends whole rows to `buf` until at least `max_bytes` were added or no
    /// row is left; returns how many rows, 0 when the chunk is done.
    ///
    /// # Errors
    /// When an expression has no value, such as a division by zero. The rows
    /// before are in `buf`; nothing of the failed row is.
    pub fn fill(&mut self, buf: &mut Vec<u8>, max_bytes: usize) -> Result<u64, GenerateError> {
        let start = buf.len();
        let first = self.next;
        while self.next < self.end && (buf.len() - start < max_bytes || self.next == first) {
            let row_start = buf.len();
            let row = self.next + 1;
            if let Err((column, source)) = self.row(row, buf) {
                buf.truncate(row_start);
                let table = self.shared.spec.table.clone();
                return Err(GenerateError { table, column, row, source });
            }
            self.next += 1;
        }
        Ok(self.next - first)
    }

    /// Writes one row; an error comes with the name of its column or variable.
    fn row(&mut self, row: u64, buf: &mut Vec<u8>) -> Result<(), (String, EvalError)> {
        let shared = &*self.shared;
        if let Some(slot) = shared.row_slot {
            self.variables.set(slot, Value::Int(row as i64));
        }
        let mut rng = row_rng(shared.seed, row);
        for (name, slot, expr) in &shared.spec.variables {
            let value = expr.eval(&self.variables, &mut rng);
            self.variables.set(*slot, value.map_err(|error| (name.clone(), error))?);
        }
        let start = buf.len();
        for (index, column) in shared.spec.columns.iter().enumerate() {
            if index > 0 {
                buf.push(b'\t');
            }
            column
                .write(row, &self.variables, &mut rng, start, buf)
                .map_err(|error| (column.name.clone(), error))?;
        }
        buf.push(b'\n');
        Ok(())
    }
}

/// The generator of a row. The multiplier differs from the step that the
/// seeding itself adds, so that neighbouring rows share no state.
fn row_rng(seed: u64, row: u64) -> Rng {
    Rng::from_seed(seed ^ row.wrapping_mul(0xD1B5_4A32_D192_ED03))
}
