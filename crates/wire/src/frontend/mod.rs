//! Messages a client sends, one file a message or a family of them.
//!
//! Each message is a struct of borrowed parts with `write`, which appends its
//! bytes to a buffer. Strings go out with a NUL at their end, so a NUL inside
//! would end them early: what comes from people passes [`Startup::check`] or
//! must be checked by the caller.

mod bind;
mod close;
mod copy;
mod describe;
mod execute;
mod parse;
mod password;
mod query;
mod startup;
mod sync;

pub use bind::{Bind, FORMAT_BINARY, FORMAT_TEXT};
pub use close::Close;
pub use copy::CopyFail;
pub use describe::Describe;
pub use execute::Execute;
pub use parse::Parse;
pub use password::{Password, SaslInitialResponse, SaslResponse};
pub use query::Query;
pub use startup::{CancelRequest, SslRequest, Startup};
pub use sync::{FLUSH, SYNC, TERMINATE};

use crate::TagSet;

/// Every type byte a client may send.
pub const TAGS: TagSet = TagSet::of(b"BCDEFHPQSXcdfp");

/// What Describe and Close act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Object {
    /// A prepared statement.
    Statement,
    /// A portal: a statement bound to parameters.
    Portal,
}

impl Object {
    fn byte(self) -> u8 {
        match self {
            Object::Statement => b'S',
            Object::Portal => b'P',
        }
    }
}

/// Appends a message: its type, a length, and what `body` appends.
///
/// Lengths above what PostgreSQL takes (1 GiB) are written cut off; the server
/// answers those with an error.
pub(crate) fn message(out: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    with_length(out, body);
}

/// Appends a length that counts itself, and what `body` appends.
pub(crate) fn with_length(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

pub(crate) fn cstr(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// A count in 16 bits; the protocol's limit is 65,535 of anything.
pub(crate) fn count(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&(count as u16).to_be_bytes());
}

#[cfg(test)]
mod tests;
