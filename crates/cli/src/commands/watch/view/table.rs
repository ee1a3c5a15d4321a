//! Tables of the view: rows that are ordered by any column and filtered.

use std::cmp::Ordering;

use walwright_report::format;
use walwright_watch::{History, one_line};

/// A column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Column {
    /// What stands above it.
    pub head: &'static str,
    /// Letters it takes; the last column takes what is left.
    pub width: usize,
}

/// What a cell shows, and what it is ordered by.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// A figure.
    Figure(f64, String),
    /// Words.
    Text(String),
}

impl Cell {
    /// What is shown.
    pub fn text(&self) -> &str {
        match self {
            Cell::Figure(_, text) | Cell::Text(text) => text,
        }
    }

    /// The larger figure first, words as in a dictionary.
    fn order(&self, other: &Cell) -> Ordering {
        match (self, other) {
            (Cell::Figure(a, _), Cell::Figure(b, _)) => b.total_cmp(a),
            (a, b) => a.text().cmp(b.text()),
        }
    }
}

/// What a table is ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sort {
    /// The column.
    pub column: usize,
    /// Whether the smallest come first.
    pub is_reversed: bool,
}

/// Rows under columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// The columns.
    pub columns: &'static [Column],
    /// The rows.
    pub rows: Vec<Vec<Cell>>,
}

/// Of statements.
pub const STATEMENTS: &[Column] = &[
    Column { head: "WAL/s", width: 10 },
    Column { head: "share", width: 7 },
    Column { head: "calls/s", width: 9 },
    Column { head: "busy", width: 6 },
    Column { head: "each", width: 8 },
    Column { head: "statement", width: 0 },
];

/// Of tables.
pub const TABLES: &[Column] = &[
    Column { head: "inserts/s", width: 9 },
    Column { head: "updates/s", width: 9 },
    Column { head: "deletes/s", width: 9 },
    Column { head: "dead rows", width: 9 },
    Column { head: "vacuum", width: 7 },
    Column { head: "size", width: 8 },
    Column { head: "table", width: 0 },
];

impl Table {
    /// The statements of the last reading up to a stretch.
    pub fn statements(history: &History, place: usize) -> Table {
        let mut rows = Vec::new();
        if let Some((read, over)) = history.statements(place) {
            let seconds = over.as_secs_f64().max(1e-9);
            let all: f64 = read.values().map(|of| of.wal_bytes).sum();
            for (id, of) in read {
                let share = if all > 0.0 { of.wal_bytes / all } else { 0.0 };
                let busy = of.seconds / seconds;
                let each = of.seconds / of.calls.max(1.0);
                let text = history.texts.get(id);
                rows.push(vec![
                    Cell::Figure(of.wal_bytes, format::byte_rate(of.wal_bytes / seconds)),
                    Cell::Figure(share, format::percent(share)),
                    Cell::Figure(of.calls, format::about(of.calls / seconds)),
                    Cell::Figure(busy, format::number(busy)),
                    Cell::Figure(each, format::seconds(each)),
                    Cell::Text(text.map_or_else(|| format!("statement {id}"), |t| one_line(t))),
                ]);
            }
        }
        Table { columns: STATEMENTS, rows }
    }

    /// The tables of the last reading up to a stretch.
    pub fn tables(history: &History, place: usize) -> Table {
        let mut rows = Vec::new();
        if let Some((read, over)) = history.tables(place) {
            let seconds = over.as_secs_f64().max(1e-9);
            for (id, of) in read {
                let rate = |n: f64| Cell::Figure(n, format::about(n / seconds));
                let name = history.table_names.get(id).cloned();
                rows.push(vec![
                    rate(of.inserted),
                    rate(of.updated),
                    rate(of.deleted),
                    Cell::Figure(of.dead, format::about(of.dead)),
                    Cell::Figure(of.debt, format::percent(of.debt)),
                    Cell::Figure(of.bytes, format::bytes(of.bytes)),
                    Cell::Text(name.unwrap_or_else(|| format!("table {id}"))),
                ]);
            }
        }
        Table { columns: TABLES, rows }
    }

    /// Leaves the rows that hold what is looked for, in the order that is wanted.
    pub fn arrange(&mut self, filter: &str, sort: Sort) {
        self.rows.retain(|row| row.iter().any(|cell| holds(cell.text(), filter)));
        self.rows.sort_by(|a, b| {
            let order = a[sort.column].order(&b[sort.column]);
            if sort.is_reversed { order.reverse() } else { order }
        });
    }
}

/// Whether a text holds another, in letters of any case.
pub fn holds(text: &str, part: &str) -> bool {
    part.is_empty() || text.to_lowercase().contains(&part.to_lowercase())
}
