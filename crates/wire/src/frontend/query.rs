//! Query: the simple protocol.

use super::{cstr, message};

/// Query ('Q').
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// One or several statements.
    pub sql: &'a str,
}

impl Query<'_> {
    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) {
        message(out, b'Q', |out| cstr(out, self.sql));
    }
}
