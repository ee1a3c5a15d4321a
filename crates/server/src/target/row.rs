//! A row of an answer, read with care: a server may send anything.

use std::error::Error;
use std::marker::PhantomData;

use tokio_postgres::types::{FromSql, Kind, Type};

use super::query_error::{QueryError, deepest};
use super::text::readable;

/// A row of an answer.
#[derive(Debug, Clone)]
pub struct Row(pub(super) tokio_postgres::Row);

impl Row {
    /// The value of the column at `place`, counted from 0.
    ///
    /// # Errors
    /// When the server sent another type, a null where none may be, or no such column.
    pub fn get<T: FromColumn>(&self, place: usize) -> Result<T, QueryError> {
        T::from_column(&self.0, place)
            .map_err(|why| QueryError::Malformed { column: place + 1, why: deepest(&*why) })
    }

    /// The value of the column called `name`.
    ///
    /// # Errors
    /// As [`get`](Row::get).
    pub fn named<T: FromColumn>(&self, name: &str) -> Result<T, QueryError> {
        let place = self.0.columns().iter().position(|column| column.name() == name);
        self.get(place.unwrap_or(self.0.len()))
    }

    /// Name, type and bytes of each column; `None` for a null.
    pub fn columns(&self) -> impl Iterator<Item = (&str, &Type, Option<&[u8]>)> {
        self.0.columns().iter().enumerate().map(|(place, column)| {
            let bytes = self.0.try_get::<_, Raw<'_>>(place).ok().and_then(|raw| raw.0);
            (column.name(), column.type_(), bytes)
        })
    }

    /// Bytes of its values.
    pub fn bytes(&self) -> usize {
        self.0.raw_size_bytes()
    }
}

/// The bytes of a value as they came.
struct Raw<'a>(Option<&'a [u8]>);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Unfit> {
        Ok(Raw(Some(raw)))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Unfit> {
        Ok(Raw(None))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

type Unfit = Box<dyn Error + Sync + Send>;

/// What a column of an answer can be read as. Text is read whatever its encoding
/// ([`readable`]).
pub trait FromColumn: Sized {
    /// Reads it.
    ///
    /// # Errors
    /// When it is something else.
    fn from_column(row: &tokio_postgres::Row, place: usize) -> Result<Self, Unfit>;
}

macro_rules! as_it_comes {
    ($($of:ty),*) => {$(
        impl FromColumn for $of {
            fn from_column(row: &tokio_postgres::Row, place: usize) -> Result<Self, Unfit> {
                Ok(row.try_get(place)?)
            }
        }
        impl FromColumn for Option<$of> {
            fn from_column(row: &tokio_postgres::Row, place: usize) -> Result<Self, Unfit> {
                Ok(row.try_get(place)?)
            }
        }
    )*};
}

as_it_comes!(bool, i16, i32, i64, u32, f32, f64);

macro_rules! read_by_us {
    ($($of:ty as $by:ty),*) => {$(
        impl FromColumn for $of {
            fn from_column(row: &tokio_postgres::Row, place: usize) -> Result<Self, Unfit> {
                Ok(row.try_get::<_, $by>(place)?.0)
            }
        }
        impl FromColumn for Option<$of> {
            fn from_column(row: &tokio_postgres::Row, place: usize) -> Result<Self, Unfit> {
                Ok(row.try_get::<_, Option<$by>>(place)?.map(|read| read.0))
            }
        }
    )*};
}

read_by_us!(
    String as Text,
    Vec<String> as List<Text, String>,
    Vec<i16> as List<i16, i16>,
    Vec<i32> as List<i32, i32>,
    Vec<i64> as List<i64, i64>,
    Vec<u32> as List<u32, u32>
);

/// Text in any encoding, also as the bytes of a `bytea`.
struct Text(String);

impl<'a> FromSql<'a> for Text {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Unfit> {
        Ok(Text(readable(raw)))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::BYTEA || <&str as FromSql>::accepts(ty)
    }
}

impl From<Text> for String {
    fn from(text: Text) -> String {
        text.0
    }
}

/// An array of one dimension. Its elements are counted as they are read: no room is made
/// for a number that the server only names.
struct List<E, T>(Vec<T>, PhantomData<E>);

impl<'a, E: FromSql<'a> + Into<T>, T> FromSql<'a> for List<E, T> {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Unfit> {
        let Kind::Array(of) = ty.kind() else { return Err("it is no array".into()) };
        let elements =
            elements(raw).ok_or("it is a damaged array, or one of several dimensions")?;
        let read = |element: Option<&'a [u8]>| Ok(E::from_sql_nullable(of, element)?.into());
        Ok(List(elements.into_iter().map(read).collect::<Result<_, Unfit>>()?, PhantomData))
    }

    fn accepts(ty: &Type) -> bool {
        matches!(ty.kind(), Kind::Array(of) if E::accepts(of))
    }
}

/// The elements of an array of no or one dimension, as `array_send` of PostgreSQL writes
/// it: the number of dimensions, a flag for nulls, the type, for each dimension its length
/// and lower bound, then for each element its length, -1 for a null, and its bytes.
fn elements(raw: &[u8]) -> Option<Vec<Option<&[u8]>>> {
    let mut rest = raw;
    let mut number = || {
        let (bytes, after) = rest.split_first_chunk::<4>()?;
        rest = after;
        Some(i32::from_be_bytes(*bytes))
    };
    let dimensions = number()?;
    let (_nulls, _of) = (number()?, number()?);
    let count = match dimensions {
        0 => 0,
        1 => {
            let count = number()?;
            number()?;
            count
        }
        _ => return None,
    };
    let mut elements = Vec::new();
    for _ in 0..count {
        let (bytes, after) = rest.split_first_chunk::<4>()?;
        rest = after;
        elements.push(match usize::try_from(i32::from_be_bytes(*bytes)) {
            Ok(length) => {
                let (element, after) = rest.split_at_checked(length)?;
                rest = after;
                Some(element)
            }
            Err(_) => None,
        });
    }
    Some(elements)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio_postgres::types::ToSql;
    use tokio_postgres::types::private::BytesMut;

    use super::*;

    proptest! {
        #[test]
        fn a_list_comes_back_as_it_was_sent(sent in prop::collection::vec(".{0,9}", 0..9)) {
            let mut raw = BytesMut::new();
            sent.to_sql(&Type::TEXT_ARRAY, &mut raw).unwrap();
            let read = List::<Text, String>::from_sql(&Type::TEXT_ARRAY, &raw).unwrap();
            prop_assert_eq!(read.0, sent);
        }

        #[test]
        fn no_bytes_bring_it_down(raw in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = List::<i32, i32>::from_sql(&Type::INT4_ARRAY, &raw);
        }
    }

    #[test]
    fn no_room_is_made_for_what_is_only_announced() {
        let raw = [[0, 0, 0, 1], [0; 4], [0, 0, 0, 23], [0x7f, 0xff, 0xff, 0xff], [0; 4]].concat();
        assert!(elements(&raw).is_none());
    }
}
