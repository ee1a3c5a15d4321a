//! What was seen in a stretch of time, in figures that can be put together.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use walwright_record::{Name, Timestamp};

/// One figure over a stretch: of a counter what it counted, of a gauge what readings showed.
///
/// Stretches are put together by adding and by taking the larger, so that what a day counted and
/// its worst moment are exact however coarsely the day is kept.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(from = "[f64; 3]", into = "[f64; 3]")]
pub struct Value {
    /// Of a counter: how far it went. Of a gauge: the sum of its readings.
    pub sum: f64,
    /// Of a counter: its largest rate a second. Of a gauge: its largest reading.
    pub max: f64,
    /// Of a counter: seconds that were seen. Of a gauge: readings.
    pub count: f64,
}

impl From<[f64; 3]> for Value {
    fn from([sum, max, count]: [f64; 3]) -> Self {
        Value { sum, max, count }
    }
}

impl From<Value> for [f64; 3] {
    fn from(Value { sum, max, count }: Value) -> Self {
        [sum, max, count]
    }
}

impl Value {
    /// A counter that went so far in so many seconds.
    pub fn counted(by: f64, seconds: f64) -> Value {
        let rate = if seconds > 0.0 { by / seconds } else { 0.0 };
        Value { sum: by, max: rate, count: seconds }
    }

    /// One reading of a gauge.
    pub fn read(value: f64) -> Value {
        Value { sum: value, max: value, count: 1.0 }
    }

    /// Of a counter its rate a second, of a gauge its mean; `None` where nothing was seen.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }

    pub(crate) fn add(&mut self, other: Value) {
        let empty = self.count == 0.0;
        self.sum += other.sum;
        self.max = if empty { other.max } else { self.max.max(other.max) };
        self.count += other.count;
    }
}

/// What a statement did.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(from = "[f64; 4]", into = "[f64; 4]")]
pub struct StatementCounts {
    /// Executions.
    pub calls: f64,
    /// Their time.
    pub seconds: f64,
    /// WAL that they wrote, in bytes.
    pub wal_bytes: f64,
    /// Rows.
    pub rows: f64,
}

impl From<[f64; 4]> for StatementCounts {
    fn from([calls, seconds, wal_bytes, rows]: [f64; 4]) -> Self {
        StatementCounts { calls, seconds, wal_bytes, rows }
    }
}

impl From<StatementCounts> for [f64; 4] {
    fn from(of: StatementCounts) -> Self {
        [of.calls, of.seconds, of.wal_bytes, of.rows]
    }
}

impl StatementCounts {
    /// Adds what another stretch counted.
    pub fn add(&mut self, other: StatementCounts) {
        self.calls += other.calls;
        self.seconds += other.seconds;
        self.wal_bytes += other.wal_bytes;
        self.rows += other.rows;
    }
}

/// What became of a table.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(from = "[f64; 6]", into = "[f64; 6]")]
pub struct TableCounts {
    /// Rows inserted.
    pub inserted: f64,
    /// Rows updated.
    pub updated: f64,
    /// Rows deleted.
    pub deleted: f64,
    /// Most dead rows.
    pub dead: f64,
    /// Largest size in bytes, without indexes.
    pub bytes: f64,
    /// Most dead rows over those at which autovacuum comes.
    pub debt: f64,
}

impl From<[f64; 6]> for TableCounts {
    fn from([inserted, updated, deleted, dead, bytes, debt]: [f64; 6]) -> Self {
        TableCounts { inserted, updated, deleted, dead, bytes, debt }
    }
}

impl From<TableCounts> for [f64; 6] {
    fn from(of: TableCounts) -> Self {
        [of.inserted, of.updated, of.deleted, of.dead, of.bytes, of.debt]
    }
}

impl TableCounts {
    /// Adds what another stretch showed.
    pub fn add(&mut self, other: TableCounts) {
        self.inserted += other.inserted;
        self.updated += other.updated;
        self.deleted += other.deleted;
        self.dead = self.dead.max(other.dead);
        self.bytes = self.bytes.max(other.bytes);
        self.debt = self.debt.max(other.debt);
    }
}

/// A stretch of time and what was seen in it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Slot {
    /// Its first moment.
    pub start: Timestamp,
    /// The first moment after it.
    pub end: Timestamp,
    /// Figures by name; one that has a label has it behind a bar: `wait_seconds|lock`.
    pub figures: BTreeMap<Name, Value>,
    /// Statements that ran, by `queryid`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub statements: BTreeMap<i64, StatementCounts>,
    /// Tables that were written or vacuumed, by `relid`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tables: BTreeMap<i64, TableCounts>,
    /// Texts of statements, as far as they were not told before in the same file.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub texts: BTreeMap<i64, String>,
    /// Names of tables, likewise.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub table_names: BTreeMap<i64, String>,
}

impl Slot {
    /// One in which nothing was seen yet.
    pub fn new(start: Timestamp, end: Timestamp) -> Slot {
        Slot { start, end, ..Slot::default() }
    }

    /// Its length.
    pub fn length(&self) -> Duration {
        self.end.since(self.start)
    }

    /// Adds to a figure.
    pub fn add(&mut self, name: &str, value: Value) {
        self.figures.entry(Name::new(name)).or_default().add(value);
    }

    /// A figure.
    pub fn figure(&self, name: &str) -> Option<&Value> {
        self.figures.get(name)
    }

    /// The figures of one name that have labels, each with its label.
    pub fn labelled<'s>(&'s self, name: &'s str) -> impl Iterator<Item = (&'s str, &'s Value)> {
        self.figures.iter().filter_map(move |(key, value)| {
            Some((key.strip_prefix(name)?.strip_prefix('|')?, value))
        })
    }

    /// Puts another stretch beside this one; they become one.
    pub fn merge(&mut self, other: Slot) {
        self.start = self.start.min(other.start);
        self.end = self.end.max(other.end);
        for (name, value) in other.figures {
            self.figures.entry(name).or_default().add(value);
        }
        for (id, counts) in other.statements {
            self.statements.entry(id).or_default().add(counts);
        }
        for (id, counts) in other.tables {
            self.tables.entry(id).or_default().add(counts);
        }
        self.texts.extend(other.texts);
        self.table_names.extend(other.table_names);
    }
}
