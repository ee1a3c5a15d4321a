//! Rows that go together, and how they are laid out for each path.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::sync::oneshot;

use crate::error::WriteError;
use crate::row::{EncodedRow, FieldsOf, Format};
use crate::table::{Table, Whole};

/// Answers a row's writer.
pub(crate) type Answer = Result<(), WriteError>;

/// A row that waits.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) table: Arc<Table>,
    /// Where its fields stand in the batch's buffer.
    pub(crate) fields: Range<usize>,
    /// What it was made of, in the source that [`Lanes::source`](crate::Lanes::source) names.
    pub(crate) position: Option<Range<u64>>,
    pub(crate) since: Instant,
    pub(crate) writer: oneshot::Sender<Answer>,
}

/// Rows in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) rows: Vec<Pending>,
    buffer: BytesMut,
}

impl Batch {
    /// Adds a row.
    pub(crate) fn push(
        &mut self,
        table: Arc<Table>,
        fields: &[u8],
        position: Option<Range<u64>>,
        since: Instant,
        writer: oneshot::Sender<Answer>,
    ) {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(fields);
        let fields = start..self.buffer.len();
        self.rows.push(Pending { table, fields, position, since, writer });
    }

    /// The bytes of all fields.
    pub(crate) fn bytes(&self) -> usize {
        self.buffer.len()
    }

    /// A number of what is in it.
    pub(crate) fn hashed(&self) -> i64 {
        let mut hasher = DefaultHasher::new();
        self.buffer.hash(&mut hasher);
        hasher.finish().cast_signed()
    }

    pub(crate) fn fields(&self, row: usize) -> FieldsOf<'_> {
        FieldsOf(&self.buffer[self.rows[row].fields.clone()])
    }

    /// The rows by their number, each table's together, sorted by the columns of its order and
    /// otherwise as they came.
    pub(crate) fn by_table(&self) -> Vec<(Arc<Table>, Vec<usize>)> {
        let mut tables: Vec<(Arc<Table>, Vec<usize>)> = Vec::new();
        for (at, row) in self.rows.iter().enumerate() {
            // One after the other is of the same table, mostly.
            match tables.iter_mut().rev().find(|(table, _)| Arc::ptr_eq(table, &row.table)) {
                Some((_, rows)) => rows.push(at),
                None => tables.push((Arc::clone(&row.table), vec![at])),
            }
        }
        // In one order for all connections, against deadlocks.
        tables.sort_by(|(one, _), (other, _)| one.name.cmp(&other.name));
        for (table, rows) in &mut tables {
            if !table.order.is_empty() {
                rows.sort_by_cached_key(|row| {
                    let fields = self.fields(*row).collect::<Vec<_>>();
                    table.order.iter().map(|at| fields[*at]).collect::<Vec<_>>()
                });
            }
        }
        tables
    }

    /// A row as it can be given back.
    pub(crate) fn encoded(&self, row: usize) -> EncodedRow {
        let table = &self.rows[row].table;
        EncodedRow {
            table: table.name.clone(),
            columns: table.columns.iter().map(|column| column.name.clone()).collect(),
            format: table.format,
            fields: self.fields(row).map(|field| field.map(<[u8]>::to_vec)).collect(),
        }
    }

    /// The rows as COPY reads them.
    pub(crate) fn copy_data(&self, table: &Table, rows: &[usize]) -> Bytes {
        match table.format {
            Format::Binary => self.copy_binary(table, rows),
            Format::Text => self.copy_text(rows),
        }
    }

    /// <https://www.postgresql.org/docs/current/sql-copy.html>, "Binary Format".
    fn copy_binary(&self, table: &Table, rows: &[usize]) -> Bytes {
        let columns = i16::try_from(table.columns.len()).unwrap_or(i16::MAX);
        let mut data = BytesMut::with_capacity(self.buffer.len() + rows.len() * 2 + 32);
        data.extend_from_slice(b"PGCOPY\n\xff\r\n\0");
        data.put_i32(0);
        data.put_i32(0);
        for row in rows {
            data.put_i16(columns);
            data.extend_from_slice(&self.buffer[self.rows[*row].fields.clone()]);
        }
        data.put_i16(-1);
        data.freeze()
    }

    /// The same page, "Text Format".
    fn copy_text(&self, rows: &[usize]) -> Bytes {
        let mut data = BytesMut::with_capacity(self.buffer.len() + 32);
        for row in rows {
            for (at, field) in self.fields(*row).enumerate() {
                if at > 0 {
                    data.put_u8(b'\t');
                }
                let Some(field) = field else {
                    data.extend_from_slice(b"\\N");
                    continue;
                };
                for byte in field {
                    match byte {
                        b'\\' => data.extend_from_slice(b"\\\\"),
                        b'\n' => data.extend_from_slice(b"\\n"),
                        b'\r' => data.extend_from_slice(b"\\r"),
                        b'\t' => data.extend_from_slice(b"\\t"),
                        byte => data.put_u8(*byte),
                    }
                }
            }
            data.put_u8(b'\n');
        }
        data.freeze()
    }

    /// The parameters of `unnest`.
    pub(crate) fn arrays(&self, table: &Table, rows: &[usize]) -> Vec<Bytes> {
        if let Some(whole) = &table.whole {
            return vec![self.array_of_rows(whole, rows)];
        }
        const TEXT: u32 = 25;
        let mut arrays = table
            .columns
            .iter()
            .map(|column| {
                let oid = match table.format {
                    Format::Binary => column.oid,
                    Format::Text => TEXT,
                };
                array_header(oid, rows.len())
            })
            .collect::<Vec<_>>();
        for row in rows {
            for (array, field) in arrays.iter_mut().zip(self.fields(*row)) {
                put_field(array, field);
            }
        }
        arrays.into_iter().map(BytesMut::freeze).collect()
    }

    /// The rows as an array of the table's row type, as `record_recv` reads it.
    fn array_of_rows(&self, whole: &Whole, rows: &[usize]) -> Bytes {
        let mut array = array_header(whole.row_oid, rows.len());
        for row in rows {
            let fields = self.fields(*row).collect::<Vec<_>>();
            let start = array.len();
            array.put_i32(0);
            array.put_i32(i32::try_from(whole.columns.len()).unwrap_or(i32::MAX));
            for (oid, at) in &whole.columns {
                array.put_u32(*oid);
                put_field(&mut array, at.and_then(|at| fields[at]));
            }
            let length = i32::try_from(array.len() - start - 4).unwrap_or(i32::MAX);
            array[start..start + 4].copy_from_slice(&length.to_be_bytes());
        }
        array.freeze()
    }
}

/// One dimension from 1, with NULLs, as `array_recv` reads it.
fn array_header(element: u32, count: usize) -> BytesMut {
    let mut array = BytesMut::with_capacity(20 + count * 12);
    array.put_i32(1);
    array.put_i32(1);
    array.put_u32(element);
    array.put_i32(i32::try_from(count).unwrap_or(i32::MAX));
    array.put_i32(1);
    array
}

fn put_field(array: &mut BytesMut, field: Option<&[u8]>) {
    match field {
        Some(field) => {
            array.put_i32(i32::try_from(field.len()).unwrap_or(i32::MAX));
            array.extend_from_slice(field);
        }
        None => array.put_i32(-1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn batch(rows: &[Vec<Option<Vec<u8>>>], table: &Arc<Table>) -> Batch {
        let mut batch = Batch::default();
        for row in rows {
            let mut fields = BytesMut::new();
            row.iter().for_each(|field| put_field(&mut fields, field.as_deref()));
            let writer = oneshot::channel().0;
            batch.push(Arc::clone(table), &fields, None, Instant::now(), writer);
        }
        batch
    }

    proptest! {
        /// COPY's text as the server reads it: lines, tabs, and escapes.
        #[test]
        fn copy_text_says_what_was_given(rows in prop::collection::vec(
            prop::collection::vec(prop::option::of("[a\\\\\t\n\rN.ü]{0,6}"), 2), 1..6))
        {
            let table = Arc::new(Table::unknown(Format::Text));
            let given = rows.iter().map(|row| {
                row.iter().map(|field| field.as_ref().map(|text| text.clone().into_bytes())).collect()
            });
            let given = given.collect::<Vec<Vec<Option<Vec<u8>>>>>();
            let data = batch(&given, &table).copy_text(&(0..rows.len()).collect::<Vec<_>>());
            let text = std::str::from_utf8(&data).expect("UTF-8");
            let read = text.split_terminator('\n').map(|line| {
                line.split('\t').map(|field| (field != "\\N").then(|| {
                    let mut unescaped = String::new();
                    let mut rest = field.chars();
                    while let Some(c) = rest.next() {
                        unescaped.push(match c {
                            '\\' => match rest.next() {
                                Some('n') => '\n',
                                Some('r') => '\r',
                                Some('t') => '\t',
                                Some(other) => other,
                                None => panic!("an escape of nothing"),
                            },
                            c => c,
                        });
                    }
                    unescaped
                })).collect::<Vec<_>>()
            });
            prop_assert_eq!(read.collect::<Vec<_>>(), rows);
        }
    }

    #[test]
    fn copy_binary_has_its_header_a_count_for_each_row_and_its_end() {
        let table = Arc::new(Table::unknown(Format::Binary));
        let batch = batch(&[vec![], vec![]], &table);
        let data = batch.copy_binary(&table, &[1]);
        assert_eq!(&data[..], b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\0\xff\xff");
    }
}
