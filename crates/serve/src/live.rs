//! What goes on, for all who watch it.
//!
//! Each thing watched has one thread of its own, which reads what has come and draws it, once for
//! all viewers, and ends when nobody has watched for a while. It may be a run whose throughput is
//! being measured on the same machine: so the thread rests after each look for as long as keeps
//! its share of a processor within bounds.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::watch;

use crate::answer::{Packed, Refusal};
use crate::pages::locked;

/// Shortest time between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// How long a thread goes on without viewers: a page that is opened anew finds it there.
const UNWATCHED: Duration = Duration::from_secs(3);
/// Most things watched at once.
const MOST: usize = 32;

/// What was seen last.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    /// The page, or why there is none.
    pub(crate) page: Result<Packed, Arc<Refusal>>,
    /// The whole of its series, for a page with a timeline.
    pub(crate) series: Option<Packed>,
    /// What viewers are told.
    pub(crate) told: Bytes,
    /// Rises with each page.
    pub(crate) drawn: u64,
    /// Whether nothing will change any more.
    pub(crate) ended: bool,
}

/// Something that is watched: each look gives what is seen then, where anything changed.
pub(crate) trait Watched: Send + 'static {
    fn look(&mut self) -> Option<Seen>;
}

/// All that is watched.
#[derive(Debug)]
pub(crate) struct Live {
    /// Most of one processor that watching one thing may take.
    share: f64,
    watched: Mutex<HashMap<String, watch::Receiver<Option<Seen>>>>,
}

impl Live {
    pub(crate) fn new(share: f64) -> Live {
        Live { share, watched: Mutex::default() }
    }

    /// Watches what is called `name`; `begin` begins to where nobody does.
    pub(crate) fn watch<W: Watched>(
        &self,
        name: &str,
        begin: impl FnOnce() -> W + Send + 'static,
    ) -> Result<watch::Receiver<Option<Seen>>, Refusal> {
        let mut watched = locked(&self.watched);
        watched.retain(|_, seen| seen.has_changed().is_ok());
        if let Some(seen) = watched.get(name) {
            return Ok(seen.clone());
        }
        if watched.len() >= MOST {
            let status = axum::http::StatusCode::SERVICE_UNAVAILABLE;
            return Err(Refusal::new(status, "too many things are watched at once"));
        }
        let (sender, seen) = watch::channel(None);
        let thread = std::thread::Builder::new().name("serve-live".to_owned());
        let share = self.share;
        let followed = thread.spawn(move || follow(begin(), &sender, share));
        followed.map_err(|error| Refusal::failed(&error))?;
        watched.insert(name.to_owned(), seen.clone());
        Ok(seen)
    }
}

/// Looks until it has ended, or nobody watches. One receiver is the map's.
fn follow(mut watched: impl Watched, sender: &watch::Sender<Option<Seen>>, share: f64) {
    let mut unwatched = Duration::ZERO;
    loop {
        let before = processor_time();
        if let Some(seen) = watched.look() {
            let ended = seen.ended;
            sender.send_replace(Some(seen));
            if ended {
                return;
            }
        }
        let rest = rest_after(processor_time().saturating_sub(before), share);
        unwatched = if sender.receiver_count() > 1 { Duration::ZERO } else { unwatched + rest };
        if unwatched > UNWATCHED {
            return;
        }
        std::thread::sleep(rest);
    }
}

/// How long to rest after a look that took so much of a processor.
fn rest_after(took: Duration, share: f64) -> Duration {
    took.div_f64(share).max(LOOK)
}

/// Processor time of this thread.
fn processor_time() -> Duration {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.map(Duration::from).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_that_takes_long_is_followed_by_a_long_rest() {
        assert_eq!(rest_after(Duration::from_millis(1), 0.005), LOOK);
        assert_eq!(rest_after(Duration::from_millis(50), 0.005), Duration::from_secs(10));
    }
}
