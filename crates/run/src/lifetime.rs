//! Whether the server under a load is, in the end, the one it was in the beginning.

use std::time::{Duration, Instant};

use walwright_probe::{Restart, ServerStart, server_start};
use walwright_record::{Event, Timestamp};
use walwright_server::{Client, ConnectParams};

use crate::notes::Notes;

/// How long a server may take to recover before it is not asked any more.
const RECOVERY: Duration = Duration::from_secs(10);
/// Time between attempts to reach it.
const RETRY: Duration = Duration::from_millis(100);
/// How long it may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the server was when the load began.
#[derive(Debug, Clone)]
pub(crate) struct Lifetime {
    before: Option<ServerStart>,
}

/// What happened to a server under a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interruption {
    /// In words.
    pub(crate) what: &'static str,
    at: Timestamp,
}

impl Interruption {
    /// All connections of ours were lost, and why cannot be seen.
    pub(crate) fn all_lost(at: Timestamp) -> Interruption {
        Interruption {
            what: "the server ended all of walwright's sessions at once: it recovered from a crash, or someone ended them",
            at,
        }
    }

    /// The server could not be asked what happened.
    fn gone(at: Timestamp) -> Interruption {
        Interruption {
            what: "the server broke its connections under the load and could not be reached again",
            at,
        }
    }

    /// The same, known to have begun by this moment.
    pub(crate) fn by(self, at: Option<Timestamp>) -> Interruption {
        Interruption { at: at.map_or(self.at, |at| at.min(self.at)), ..self }
    }

    /// The server told clients of a crash.
    pub(crate) fn told(at: Timestamp) -> Interruption {
        Interruption::of(Restart::Recovered, at)
    }

    fn of(restart: Restart, at: Timestamp) -> Interruption {
        let what = match restart {
            Restart::Restarted => "the server was restarted under the load",
            Restart::Recovered => {
                "one of the server's processes crashed under the load, and it recovered"
            }
        };
        Interruption { what, at }
    }

    /// Puts it on the timeline.
    pub(crate) fn note(&self, notes: &Notes) {
        let kind = Event::SERVER_RESTART.to_owned();
        notes.happened(Event { at: self.at, kind, text: self.what.to_owned() });
    }
}

impl Lifetime {
    /// Looks at the server before the load.
    pub(crate) async fn begin(client: &Client) -> Lifetime {
        Lifetime { before: ask(client).await }
    }

    /// What has happened to it since; `None` where nothing has, or nothing can be said, as
    /// of one that stands still.
    /// `client` is the connection it was looked at by. One that still stands is proof only
    /// without a pooler between, so the server is asked in any case.
    pub(crate) async fn end(
        &self,
        client: &Client,
        params: &ConnectParams,
    ) -> Option<Interruption> {
        let before = self.before.as_ref()?;
        let now = match client.is_closed() {
            false => ask(client).await?,
            true => match ask_anew(params).await {
                Some(now) => now,
                None => return Some(Interruption::gone(Timestamp::now())),
            },
        };
        now.since(before).map(|(restart, at)| Interruption::of(restart, at))
    }

    /// Whether a crash that the server recovered from would have been seen.
    pub(crate) fn shows_crashes(&self) -> bool {
        self.before.as_ref().is_some_and(ServerStart::shows_crashes)
    }
}

async fn ask(client: &Client) -> Option<ServerStart> {
    tokio::time::timeout(PATIENCE, server_start(client)).await.ok()?.ok()
}

/// Asks by a new connection, which a server that recovers refuses for a while.
async fn ask_anew(params: &ConnectParams) -> Option<ServerStart> {
    let deadline = Instant::now() + RECOVERY;
    loop {
        if let Ok(Ok(client)) =
            tokio::time::timeout(PATIENCE, walwright_server::connect(params)).await
            && let Some(start) = ask(&client).await
        {
            return Some(start);
        }
        if Instant::now() > deadline {
            return None;
        }
        tokio::time::sleep(RETRY).await;
    }
}
