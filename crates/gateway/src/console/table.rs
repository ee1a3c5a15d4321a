//! Rows as the console sends them.

use walwright_wire::backend;

use crate::messages;

/// A column: its name and the type of its values.
pub type Column = (&'static str, Type);

/// Types of values, as PgBouncer sends them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// `text`.
    Text,
    /// `int4`.
    Int,
    /// `int8`.
    Big,
    /// `numeric`, always whole.
    Numeric,
}

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// NULL.
    Null,
    /// A text.
    Text(String),
    /// A number.
    Number(u64),
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Number(number)
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Value {
        Value::Number(number as u64)
    }
}

impl From<bool> for Value {
    fn from(is: bool) -> Value {
        Value::Number(u64::from(is))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}

/// Rows.
#[derive(Debug)]
pub struct Table {
    columns: &'static [Column],
    rows: Vec<Vec<Value>>,
}

impl Table {
    /// No rows yet.
    pub fn new(columns: &'static [Column]) -> Table {
        Table { columns, rows: Vec::new() }
    }

    /// Adds a row with a value for each column.
    pub fn push(&mut self, row: Vec<Value>) {
        debug_assert_eq!(row.len(), self.columns.len());
        self.rows.push(row);
    }

    /// Writes a RowDescription.
    pub fn describe(&self, out: &mut Vec<u8>, binary: &[bool]) {
        messages::message(out, backend::ROW_DESCRIPTION, |body| {
            body.extend((self.columns.len() as u16).to_be_bytes());
            for (place, (name, of)) in self.columns.iter().enumerate() {
                let (oid, size): (u32, i16) = match of {
                    Type::Text => (25, -1),
                    Type::Int => (23, 4),
                    Type::Big => (20, 8),
                    Type::Numeric => (1700, -1),
                };
                body.extend(name.bytes());
                body.extend([0; 7]);
                body.extend(oid.to_be_bytes());
                body.extend(size.to_be_bytes());
                body.extend((-1_i32).to_be_bytes());
                body.extend(u16::from(is_binary(binary, place)).to_be_bytes());
            }
        });
    }

    /// Writes a DataRow for each row.
    pub fn rows(&self, out: &mut Vec<u8>, binary: &[bool]) {
        for row in &self.rows {
            messages::message(out, backend::DATA_ROW, |body| {
                body.extend((row.len() as u16).to_be_bytes());
                for (place, (value, (_, of))) in row.iter().zip(self.columns).enumerate() {
                    let bytes = match value {
                        Value::Null => {
                            body.extend((-1_i32).to_be_bytes());
                            continue;
                        }
                        Value::Text(text) => text.clone().into_bytes(),
                        Value::Number(number) if is_binary(binary, place) => of.binary(*number),
                        Value::Number(number) => number.to_string().into_bytes(),
                    };
                    body.extend((bytes.len() as u32).to_be_bytes());
                    body.extend(bytes);
                }
            });
        }
    }
}

fn is_binary(formats: &[bool], place: usize) -> bool {
    match formats {
        [one] => *one,
        _ => formats.get(place).copied().unwrap_or_default(),
    }
}

impl Type {
    fn binary(self, number: u64) -> Vec<u8> {
        match self {
            Type::Text => number.to_string().into_bytes(),
            Type::Int => i32::try_from(number).unwrap_or(i32::MAX).to_be_bytes().to_vec(),
            Type::Big => i64::try_from(number).unwrap_or(i64::MAX).to_be_bytes().to_vec(),
            Type::Numeric => numeric(number),
        }
    }
}

/// A whole number as `numeric_send` writes it: digits to the base of 10,000.
fn numeric(mut number: u64) -> Vec<u8> {
    let mut digits = Vec::new();
    while number > 0 {
        digits.push((number % 10_000) as u16);
        number /= 10_000;
    }
    let weight = (digits.len() as u16).saturating_sub(1);
    let head = [digits.len() as u16, weight, 0, 0];
    head.into_iter().chain(digits.into_iter().rev()).flat_map(u16::to_be_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_binary_as_the_server_writes_them() {
        // As `SELECT numeric_send(…)` shows them.
        assert_eq!(numeric(0), [0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(numeric(7), [0, 1, 0, 0, 0, 0, 0, 0, 0, 7]);
        let expected = [0, 3, 0, 2, 0, 0, 0, 0, 0, 1, 0x09, 0x29, 0x1a, 0x85];
        assert_eq!(numeric(123_456_789), expected);
        assert_eq!(Type::Int.binary(258), [0, 0, 1, 2]);
    }
}
