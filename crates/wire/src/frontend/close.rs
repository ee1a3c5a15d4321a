//! Close: drops a statement or portal.

use super::{Object, cstr, message};

/// Close ('C').
#[derive(Debug, Clone, Copy)]
pub struct Close<'a> {
    /// What kind.
    pub object: Object,
    /// Which one; empty is the unnamed one.
    pub name: &'a str,
}

impl Close<'_> {
    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) {
        message(out, b'C', |out| {
            out.push(self.object.byte());
            cstr(out, self.name);
        });
    }
}
