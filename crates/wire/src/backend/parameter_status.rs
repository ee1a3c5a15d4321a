//! A setting the server reports on its own.

use crate::read::{Malformed, Reader, text};

/// ParameterStatus ('S').
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterStatus {
    /// Name of the setting, such as `server_version`.
    pub name: String,
    /// Its value now.
    pub value: String,
}

impl ParameterStatus {
    /// Parses a body.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body, "ParameterStatus");
        let (name, value) = (text(reader.cstr()?), text(reader.cstr()?));
        reader.end()?;
        Ok(ParameterStatus { name, value })
    }
}
