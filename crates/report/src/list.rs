//! What there is of something, a row each.

use std::ops::Range;

use crate::document::{Block, Cell, Column, ColumnKind, Document, Reach, Section, Table};

/// Rows under heads, and what is to be said below them.
#[derive(Debug, Default)]
pub struct List {
    title: String,
    table: Table,
    notes: Vec<String>,
}

impl List {
    /// No rows yet.
    pub fn new<const N: usize>(heads: [&str; N]) -> List {
        let columns = heads.map(Column::text).into();
        List { table: Table { columns, rows: Vec::new() }, ..List::default() }
    }

    /// The same under a title.
    #[must_use]
    pub fn titled(self, title: impl Into<String>) -> List {
        List { title: title.into(), ..self }
    }

    /// The same with these columns as numbers, which end alike.
    #[must_use]
    pub fn numbers(mut self, columns: Range<usize>) -> List {
        let of = self.table.columns.get_mut(columns).unwrap_or_default();
        of.iter_mut().for_each(|column| column.kind = ColumnKind::Number);
        self
    }

    /// Adds a row, which may have fewer cells than there are heads.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.table.rows.push(cells.into_iter().map(|text| Cell::from(text.into())).collect());
    }

    /// Adds a sentence below the rows.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Several as one document, each a section under its title.
    pub fn together(
        title: impl Into<String>,
        deck: Vec<String>,
        verdict: impl Into<String>,
        lists: impl IntoIterator<Item = List>,
    ) -> Document {
        let section = |(place, list): (usize, List)| {
            let notes = list.notes.into_iter().map(Block::Text);
            let table = (!list.table.rows.is_empty()).then_some(Block::Table(list.table));
            let blocks = table.into_iter().chain(notes).collect();
            Section::new(format!("part-{}", place + 1), list.title, Reach::Paper, blocks)
        };
        Document {
            kind: "report",
            title: title.into(),
            deck,
            verdict: Some(verdict.into()),
            sections: lists.into_iter().enumerate().map(section).collect(),
            ..Document::default()
        }
    }

    /// It as a document.
    pub fn document(self) -> Document {
        let notes = self.notes.into_iter().map(Block::Text);
        let blocks = [Block::Table(self.table)].into_iter().chain(notes).collect();
        Document {
            kind: "list",
            title: self.title,
            sections: vec![Section::new("list", "", Reach::Paper, blocks)],
            ..Document::default()
        }
    }
}
