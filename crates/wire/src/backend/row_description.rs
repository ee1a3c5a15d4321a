//! The columns of a result.

use crate::read::{Malformed, Reader, text};

/// RowDescription ('T').
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowDescription {
    /// The columns, in order.
    pub columns: Vec<Column>,
}

/// One column of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// OID of its table, 0 if it is no table's column.
    pub table: u32,
    /// Number of the column in that table, or 0.
    pub attribute: i16,
    /// OID of its type.
    pub type_oid: u32,
    /// `pg_type.typlen`; negative for types of variable length.
    pub type_length: i16,
    /// `pg_attribute.atttypmod`.
    pub type_modifier: i32,
    /// Format code: 0 text, 1 binary.
    pub format: i16,
}

impl RowDescription {
    /// Parses a body.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body, "RowDescription");
        let columns = (0..reader.u16()?)
            .map(|_| {
                Ok(Column {
                    name: text(reader.cstr()?),
                    table: reader.u32()?,
                    attribute: reader.i16()?,
                    type_oid: reader.u32()?,
                    type_length: reader.i16()?,
                    type_modifier: reader.i32()?,
                    format: reader.i16()?,
                })
            })
            .collect::<Result<Vec<_>, Malformed>>()?;
        reader.end()?;
        Ok(RowDescription { columns })
    }
}
