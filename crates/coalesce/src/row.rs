//! Rows as they are given, and as they wait.

use bytes::{BufMut, BytesMut};
use postgres_types::{IsNull, Kind, ToSql, Type};

use crate::error::WriteError;

/// How the fields of a row are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// PostgreSQL's binary representation of each type.
    Binary,
    /// Text that the type's input function reads, as in CSV or JSON.
    Text,
}

/// What can be written as a row of a table: its fields, in the order of the columns that were
/// named when the table was.
pub trait Encode: Send {
    /// How [`encode`](Self::encode) writes fields; [`Format::Binary`] unless said otherwise.
    const FORMAT: Format = Format::Binary;

    /// Puts one field for each column.
    ///
    /// # Errors
    /// Where a value does not fit its column.
    fn encode(&self, fields: &mut Fields<'_>) -> Result<(), WriteError>;
}

/// A row whose type knows its columns; [`row!`](crate::row) implements it for a struct.
pub trait Row: Encode {
    /// The columns' names, in the order in which [`Encode::encode`] puts them.
    const COLUMNS: &'static [&'static str];
}

/// Implements [`Row`](crate::Row) for a struct: its fields as columns of the same name, or of the
/// one after `as`. Columns that are left out take their default.
///
/// ```
/// struct Event {
///     id: i64,
///     kind: String,
/// }
/// walwright_coalesce::row!(Event { id, kind as "type" });
/// ```
#[macro_export]
macro_rules! row {
    ($type:ty { $($field:ident $(as $column:literal)?),+ $(,)? }) => {
        impl $crate::Encode for $type {
            fn encode(&self, fields: &mut $crate::Fields<'_>) -> Result<(), $crate::WriteError> {
                $(fields.put(&self.$field)?;)+
                Ok(())
            }
        }
        impl $crate::Row for $type {
            const COLUMNS: &'static [&'static str] =
                &[$($crate::row!(@column $field $($column)?)),+];
        }
    };
    (@column $field:ident $column:literal) => { $column };
    (@column $field:ident) => { stringify!($field) };
}

/// A row made at run time: values of any type that `postgres-types` can write.
pub struct Values(pub Vec<Box<dyn ToSql + Sync + Send>>);

impl Encode for Values {
    fn encode(&self, fields: &mut Fields<'_>) -> Result<(), WriteError> {
        self.0.iter().try_for_each(|value| fields.put(value.as_ref()))
    }
}

/// A row of text, as a file or a message brings it; the server's input functions read it.
/// `None` is NULL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextRow(pub Vec<Option<String>>);

impl Encode for TextRow {
    const FORMAT: Format = Format::Text;

    fn encode(&self, fields: &mut Fields<'_>) -> Result<(), WriteError> {
        self.0.iter().try_for_each(|field| fields.put_text(field.as_deref()))
    }
}

/// A row as it waits: what [`close`](crate::Coalescer::close) returns of rows that could not be
/// written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedRow {
    /// The table as it was named.
    pub table: String,
    /// The columns, in the order of [`fields`](Self::fields).
    pub columns: Vec<String>,
    /// How the fields are written.
    pub format: Format,
    /// Each field's bytes, or `None` for NULL.
    pub fields: Vec<Option<Vec<u8>>>,
}

/// Where a row puts its fields, one for each column.
pub struct Fields<'a> {
    columns: &'a [Column],
    at: usize,
    buffer: &'a mut BytesMut,
}

/// A column of a table that rows are written to.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// The type that encodes, with domains taken off.
    pub(crate) base: Type,
    /// The column's type by its name in SQL, without a length.
    pub(crate) type_name: String,
    /// The array of that type, for `unnest`.
    pub(crate) array_name: Option<String>,
    /// The type's own object identifier.
    pub(crate) oid: u32,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(columns: &'a [Column], buffer: &'a mut BytesMut) -> Self {
        Self { columns, at: 0, buffer }
    }

    fn column(&mut self) -> Result<&'a Column, WriteError> {
        let column = self.columns.get(self.at).ok_or_else(|| {
            WriteError::Row(format!(
                "the row has more than the {} fields that were named: {}",
                self.columns.len(),
                names(self.columns)
            ))
        })?;
        self.at += 1;
        Ok(column)
    }

    /// Puts the next column's value.
    ///
    /// # Errors
    /// Where there is no such column, or the value's type is not the column's.
    pub fn put(&mut self, value: &(dyn ToSql + Sync)) -> Result<(), WriteError> {
        let column = self.column()?;
        let start = self.buffer.len();
        self.buffer.put_i32(-1);
        let is_null = value.to_sql_checked(&column.base, self.buffer).map_err(|error| {
            WriteError::Row(format!("column {} ({}): {error}", column.name, column.type_name))
        })?;
        self.end(start, matches!(is_null, IsNull::Yes))
    }

    /// Puts the next column's value as text, NULL for `None`.
    ///
    /// # Errors
    /// Where there is no such column.
    pub fn put_text(&mut self, text: Option<&str>) -> Result<(), WriteError> {
        self.put_raw(text.map(str::as_bytes))
    }

    /// Puts the next column's value as it was encoded before.
    ///
    /// # Errors
    /// Where there is no such column.
    pub fn put_raw(&mut self, bytes: Option<&[u8]>) -> Result<(), WriteError> {
        self.column()?;
        let start = self.buffer.len();
        self.buffer.put_i32(-1);
        self.buffer.extend_from_slice(bytes.unwrap_or_default());
        self.end(start, bytes.is_none())
    }

    fn end(&mut self, start: usize, is_null: bool) -> Result<(), WriteError> {
        if is_null {
            self.buffer.truncate(start + 4);
            return Ok(());
        }
        let length = i32::try_from(self.buffer.len() - start - 4)
            .map_err(|_| WriteError::Row("a field is larger than 2 GiB".into()))?;
        self.buffer[start..start + 4].copy_from_slice(&length.to_be_bytes());
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<(), WriteError> {
        if self.at == self.columns.len() {
            return Ok(());
        }
        Err(WriteError::Row(format!(
            "the row has {} fields, and {} were named: {}",
            self.at,
            self.columns.len(),
            names(self.columns)
        )))
    }
}

fn names(columns: &[Column]) -> String {
    columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Reads fields as [`Fields`] wrote them.
#[derive(Clone)]
pub(crate) struct FieldsOf<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for FieldsOf<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        let (length, rest) = self.0.split_first_chunk::<4>()?;
        match usize::try_from(i32::from_be_bytes(*length)) {
            Err(_) => {
                self.0 = rest;
                Some(None)
            }
            Ok(length) => {
                let (field, rest) = rest.split_at(length);
                self.0 = rest;
                Some(Some(field))
            }
        }
    }
}

/// The type that encodes a domain's values.
pub(crate) fn base_of(of: &Type) -> Type {
    let mut base = of;
    while let Kind::Domain(inner) = base.kind() {
        base = inner;
    }
    base.clone()
}
