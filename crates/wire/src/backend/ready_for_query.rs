//! The end of an answer.

use crate::read::{Malformed, Reader};

/// The status in ReadyForQuery ('Z').
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionStatus {
    /// Not in a transaction block.
    Idle,
    /// In a transaction block.
    InTransaction,
    /// In a transaction block that failed and waits for its end.
    Failed,
}

impl TransactionStatus {
    /// Parses a body.
    ///
    /// # Errors
    /// When it is damaged.
    #[inline]
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        match body {
            [b'I'] => Ok(TransactionStatus::Idle),
            [b'T'] => Ok(TransactionStatus::InTransaction),
            [b'E'] => Ok(TransactionStatus::Failed),
            _ => Err(Reader::new(body, "ReadyForQuery").malformed("its status is none of I, T, E")),
        }
    }
}
