//! The tag a command ends with.

use crate::read::{Malformed, Reader};

/// CommandComplete ('C').
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandComplete<'a> {
    /// The tag, such as `UPDATE 1`.
    pub tag: &'a str,
}

impl<'a> CommandComplete<'a> {
    /// Parses a body.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body, "CommandComplete");
        let tag = reader.cstr()?;
        reader.end()?;
        let tag = std::str::from_utf8(tag).map_err(|_| reader.malformed("its tag is not UTF-8"))?;
        Ok(CommandComplete { tag })
    }

    /// Rows inserted, updated, deleted or selected, where the tag says so.
    pub fn rows(&self) -> Option<u64> {
        self.tag.rsplit_once(' ')?.1.parse().ok()
    }
}
