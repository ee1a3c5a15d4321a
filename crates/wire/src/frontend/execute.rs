//! Execute: runs a portal.

use super::{cstr, message};

/// Execute ('E').
#[derive(Debug, Clone, Copy)]
pub struct Execute<'a> {
    /// Which portal; empty is the unnamed one.
    pub portal: &'a str,
    /// Most rows to return before PortalSuspended; 0 is all.
    pub row_limit: u32,
}

impl Execute<'_> {
    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) {
        message(out, b'E', |out| {
            cstr(out, self.portal);
            out.extend_from_slice(&self.row_limit.to_be_bytes());
        });
    }
}
