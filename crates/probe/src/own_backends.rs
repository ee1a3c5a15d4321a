//! The backends that serve the probe itself.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Process ids of the backends that serve the probe, for the host sampler to
/// keep apart from the server's own work.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnBackends(Arc<Mutex<BTreeSet<u32>>>);

impl OwnBackends {
    pub(crate) fn insert(&self, pid: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(pid);
    }

    pub(crate) fn remove(&self, pid: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&pid);
    }

    pub(crate) fn snapshot(&self) -> BTreeSet<u32> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
