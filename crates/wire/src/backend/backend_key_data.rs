//! What a client needs to cancel a query.

use crate::read::{Malformed, Reader};

/// BackendKeyData ('K').
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendKeyData {
    /// Process of the backend.
    pub process: u32,
    /// Secret key: 4 bytes in protocol 3.0, up to 256 from 3.2.
    pub key: Vec<u8>,
}

impl BackendKeyData {
    /// Parses a body.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body, "BackendKeyData");
        let process = reader.u32()?;
        let key = reader.rest().to_vec();
        if !(4..=256).contains(&key.len()) {
            return Err(reader.malformed("its key is not 4 to 256 bytes long"));
        }
        Ok(BackendKeyData { process, key })
    }
}
