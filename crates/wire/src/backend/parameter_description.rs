//! The types a statement's parameters have.

use crate::read::{Malformed, Reader};

/// ParameterDescription ('t').
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParameterDescription {
    /// OIDs of the types, in the order of `$1`, `$2`.
    pub types: Vec<u32>,
}

impl ParameterDescription {
    /// Parses a body.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body, "ParameterDescription");
        let types = (0..reader.u16()?).map(|_| reader.u32()).collect::<Result<Vec<_>, _>>()?;
        reader.end()?;
        Ok(ParameterDescription { types })
    }
}
