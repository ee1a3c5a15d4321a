//! Whether rows can be written, as far as the server says.

use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::connect::Server;

/// How long what is known counts: whoever asks more often costs the server no session more.
const LASTS: Duration = Duration::from_secs(1);
/// Longest that the server may take to let somebody in.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is known of a server.
pub(super) struct Health {
    server: Server,
    known: Mutex<Option<(Instant, Option<String>)>>,
}

impl Health {
    pub(super) fn of(server: Server) -> Self {
        Self { server, known: Mutex::new(None) }
    }

    /// Why no rows can be written, as a sentence. All who ask at once wait for one answer.
    pub(super) async fn trouble(&self) -> Option<String> {
        let mut known = self.known.lock().await;
        if let Some((_, trouble)) = known.as_ref().filter(|(at, _)| at.elapsed() < LASTS) {
            return trouble.clone();
        }
        let trouble = match tokio::time::timeout(PATIENCE, self.server.connect()).await {
            Ok(Ok(_)) => None,
            Ok(Err(error)) => Some(format!("no rows can be written: {error}")),
            Err(_) => Some(format!(
                "no rows can be written: {} lets nobody in within {} s",
                self.server.place(),
                PATIENCE.as_secs()
            )),
        };
        *known = Some((Instant::now(), trouble.clone()));
        trouble
    }
}
