//! A row of a result.

use crate::read::{Malformed, Reader};

/// DataRow ('D').
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataRow<'a> {
    /// The columns in the format asked for; `None` is null.
    pub columns: Vec<Option<&'a [u8]>>,
}

impl<'a> DataRow<'a> {
    /// Parses a body.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body, "DataRow");
        let columns = (0..reader.u16()?).map(|_| reader.value()).collect::<Result<Vec<_>, _>>()?;
        reader.end()?;
        Ok(DataRow { columns })
    }
}
