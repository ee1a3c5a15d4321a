//! Bind: makes a portal of a statement and parameter values.

use super::{count, cstr, message};

/// Format code of text.
pub const FORMAT_TEXT: i16 = 0;
/// Format code of a type's binary form.
pub const FORMAT_BINARY: i16 = 1;

/// Bind ('B').
#[derive(Debug, Clone, Copy)]
pub struct Bind<'a> {
    /// Portal to make; empty is the unnamed one.
    pub portal: &'a str,
    /// Statement to use; empty is the unnamed one.
    pub statement: &'a str,
    /// Format codes of the parameters: none (all text), one for all, or one each.
    pub formats: &'a [i16],
    /// The values; `None` is null.
    pub values: &'a [Option<&'a [u8]>],
    /// Format codes of the result columns, as `formats`.
    pub results: &'a [i16],
}

impl Bind<'_> {
    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) {
        message(out, b'B', |out| {
            cstr(out, self.portal);
            cstr(out, self.statement);
            format_codes(out, self.formats);
            count(out, self.values.len());
            for value in self.values {
                match value {
                    None => out.extend_from_slice(&(-1_i32).to_be_bytes()),
                    Some(value) => {
                        out.extend_from_slice(&(value.len() as u32).to_be_bytes());
                        out.extend_from_slice(value);
                    }
                }
            }
            format_codes(out, self.results);
        });
    }
}

/// A count and as many format codes.
pub(crate) fn format_codes(out: &mut Vec<u8>, codes: &[i16]) {
    count(out, codes.len());
    for code in codes {
        out.extend_from_slice(&code.to_be_bytes());
    }
}
