//! The wish that a run end early.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Asks a run to stop; clones share the wish. A run that is asked ends its load,
/// keeps its record and stops its server.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    requested: AtomicBool,
    notify: Notify,
}

impl Stop {
    /// No wish yet.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Asks.
    pub fn request(&self) {
        self.shared.requested.store(true, Ordering::Release);
        self.shared.notify.notify_waiters();
    }

    /// Whether it was asked.
    pub fn is_requested(&self) -> bool {
        self.shared.requested.load(Ordering::Acquire)
    }

    /// Returns when it is asked.
    pub async fn requested(&self) {
        loop {
            let notified = self.shared.notify.notified();
            if self.is_requested() {
                return;
            }
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wish_reaches_those_who_wait_and_those_who_come_later() {
        let stop = Stop::new();
        let waiting = tokio::spawn({
            let stop = stop.clone();
            async move { stop.requested().await }
        });
        tokio::task::yield_now().await;
        stop.request();
        waiting.await.unwrap();
        stop.requested().await;
        assert!(stop.is_requested());
    }
}
