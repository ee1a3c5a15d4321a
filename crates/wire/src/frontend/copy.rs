//! Declining to copy.

use super::{cstr, message};

/// CopyFail ('f'): the client has no data for a COPY FROM STDIN.
#[derive(Debug, Clone, Copy)]
pub struct CopyFail<'a> {
    /// Why; the server repeats it in its error.
    pub reason: &'a str,
}

impl CopyFail<'_> {
    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) {
        message(out, b'f', |out| cstr(out, self.reason));
    }
}
