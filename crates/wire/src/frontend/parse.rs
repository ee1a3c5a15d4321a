//! Parse: makes a prepared statement.

use super::{count, cstr, message};

/// Parse ('P').
#[derive(Debug, Clone, Copy)]
pub struct Parse<'a> {
    /// Name of the statement; empty is the unnamed one.
    pub statement: &'a str,
    /// SQL with `$1`, `$2` for parameters.
    pub sql: &'a str,
    /// OIDs of the first parameters' types; 0 or left out lets the server infer.
    pub types: &'a [u32],
}

impl Parse<'_> {
    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) {
        message(out, b'P', |out| {
            cstr(out, self.statement);
            cstr(out, self.sql);
            count(out, self.types.len());
            for oid in self.types {
                out.extend_from_slice(&oid.to_be_bytes());
            }
        });
    }
}
