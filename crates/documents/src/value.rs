//! JSON on its way to and from the server, which nobody reads in between.

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

type Failure = Box<dyn std::error::Error + Sync + Send>;

/// Version of jsonb's binary form: its text.
const VERSION: u8 = 1;

/// The text of a JSON value.
#[derive(Debug)]
pub(crate) struct Json<'a>(pub(crate) &'a str);

impl ToSql for Json<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Failure> {
        out.put_u8(VERSION);
        out.put_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    accepts!(JSONB);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Json<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Failure> {
        match raw.split_first() {
            Some((&VERSION, text)) => Ok(Self(str::from_utf8(text)?)),
            _ => Err("jsonb of another version".into()),
        }
    }

    accepts!(JSONB);
}
