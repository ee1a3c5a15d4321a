//! What a server wants to see before it cancels.

use std::fmt;

use crate::backend::BackendKeyData;

/// What a server wants to see before it cancels a query.
#[derive(Clone, PartialEq, Eq)]
pub struct CancelKey(pub(crate) BackendKeyData);

impl CancelKey {
    pub(crate) fn new(key: BackendKeyData) -> Self {
        CancelKey(key)
    }
}

impl fmt::Debug for CancelKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelKey").field("process", &self.0.process).finish_non_exhaustive()
    }
}
