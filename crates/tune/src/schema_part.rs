//! A part of the schema that is searched.

use serde::{Deserialize, Serialize};
use walwright_catalog::{Entry, Scope};
use walwright_search::{Configuration as Point, Dimension};

/// The parameter of the catalogue that is searched for each table.
pub(super) const SEARCHED: &str = "table.fillfactor";
/// Its default.
pub(super) const FULL: &str = "100";
pub(super) const DROPPED: &str = "dropped";
/// An index that is there, and one that is left out.
pub(super) const KEPT: &str = "kept";

/// A part of the schema that a tune may change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemaPart {
    /// What the search calls it.
    pub name: String,
    /// `schema.name` of the table or index, as a configuration names it.
    pub object: String,
    /// The same as SQL takes it.
    pub sql: String,
    /// What may be changed.
    pub kind: SchemaKind,
}

impl SchemaPart {
    /// What gives it this value in data that were restored. A table is rewritten whatever
    /// its fill factor is, so that what rewriting does is in every measurement alike.
    pub(super) fn statements(&self, value: &str) -> Vec<String> {
        match &self.kind {
            SchemaKind::Fillfactor { .. } => self.fill(value),
            SchemaKind::Index { .. } if value == DROPPED => {
                vec![format!("DROP INDEX {}", self.sql)]
            }
            SchemaKind::Index { .. } => Vec::new(),
        }
    }

    /// The rewritten table is vacuumed, since rewriting leaves no visibility map.
    fn fill(&self, value: &str) -> Vec<String> {
        let sql = &self.sql;
        vec![
            format!("ALTER TABLE {sql} SET (fillfactor = {value})"),
            format!("VACUUM (FULL) {sql}"),
            format!("VACUUM (ANALYZE) {sql}"),
        ]
    }

    /// The change for a server that is in use, and its undoing.
    pub(super) fn change(&self, value: &str) -> SchemaChange {
        let (statements, undo) = match &self.kind {
            SchemaKind::Fillfactor { was } => {
                let mut undo = self.fill(was.as_deref().unwrap_or(FULL));
                if was.is_none() {
                    undo[0] = format!("ALTER TABLE {} RESET (fillfactor)", self.sql);
                }
                (self.fill(value), undo)
            }
            SchemaKind::Index { definition } => {
                (vec![format!("DROP INDEX CONCURRENTLY {}", self.sql)], vec![definition.clone()])
            }
        };
        let (name, value) = (self.name.clone(), value.to_owned());
        SchemaChange { name, value, statements, undo }
    }

    /// Its line of a `config.env`; `None` where the file has no way to say it.
    pub(super) fn entry(&self, value: &str) -> Option<Entry> {
        let names_itself = self.object.matches('.').count() == 1 && !self.object.contains('=');
        match self.kind {
            SchemaKind::Fillfactor { .. } if names_itself => {
                Entry::new(SEARCHED, value, Some(Scope::Object(self.object.clone()))).ok()
            }
            _ => None,
        }
    }
}

/// What of a part of the schema may be changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SchemaKind {
    /// How full inserts make the pages of a table.
    Fillfactor {
        /// What is set; `None` for the default.
        was: Option<String>,
    },
    /// Whether an index is there.
    Index {
        /// What makes it (`pg_get_indexdef`).
        definition: String,
    },
}

/// A change of the schema: statements, each sent alone, and those that undo it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SchemaChange {
    /// The parameter of the search.
    pub name: String,
    /// Its value.
    pub value: String,
    /// What makes it so.
    pub statements: Vec<String>,
    /// What brings back the schema as it was.
    pub undo: Vec<String>,
}

/// What a point has otherwise than the schema as it was.
pub(super) fn changes<'a>(
    parts: &'a [SchemaPart],
    dimensions: &'a [Dimension],
    point: &'a Point,
) -> impl Iterator<Item = (&'a SchemaPart, &'a str)> {
    parts.iter().filter_map(move |part| {
        let home = &dimensions.iter().find(|dimension| dimension.name == part.name)?.home;
        let value = point.get(&part.name).filter(|value| *value != home)?;
        Some((part, value.as_str()))
    })
}
