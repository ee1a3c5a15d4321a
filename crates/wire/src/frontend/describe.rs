//! Describe: asks for parameter types and result columns.

use super::{Object, cstr, message};

/// Describe ('D'). A statement answers with ParameterDescription and then, as
/// a portal does, with RowDescription or NoData.
#[derive(Debug, Clone, Copy)]
pub struct Describe<'a> {
    /// What kind.
    pub object: Object,
    /// Which one; empty is the unnamed one.
    pub name: &'a str,
}

impl Describe<'_> {
    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) {
        message(out, b'D', |out| {
            out.push(self.object.byte());
            cstr(out, self.name);
        });
    }
}
