//! What a run tells while it goes on, for whoever shows it.

use std::time::Duration;

use walwright_record::{Event, LoadInterval, PhaseName, Sample, Warning};

/// One thing worth showing.
#[derive(Debug)]
pub enum Progress<'a> {
    /// A new stage began.
    Phase(PhaseName),
    /// A step inside a stage, in words: "fetching PostgreSQL 18.6".
    Step(&'a str),
    /// Rows loaded so far.
    Rows {
        /// Done.
        done: u64,
        /// To do.
        total: u64,
    },
    /// Clients connected so far.
    Connected {
        /// Done.
        done: u32,
        /// To do.
        total: u32,
    },
    /// A second of load.
    Interval {
        /// What the driver saw.
        interval: &'a LoadInterval,
        /// Length of the settled load so far.
        measured: Duration,
        /// Length that is wanted.
        wanted: Duration,
        /// How much longer the load is given to settle, where all that is wanted is
        /// measured and it has not.
        until: Option<Duration>,
    },
    /// Commits of a server under someone else's load, since the last such event.
    Commits {
        /// Commits a second.
        per_second: f64,
    },
    /// How long someone else's load has been watched.
    Watched {
        /// So far.
        elapsed: Duration,
        /// In all, where that is known.
        wanted: Option<Duration>,
    },
    /// A sample of server or host.
    Sample(&'a Sample),
    /// Something happened.
    Event(&'a Event),
    /// A warning.
    Warning(&'a Warning),
}

/// Shows what goes on, event by event. Called from several threads.
pub trait Observe<E>: Send + Sync {
    /// Takes one event. Must return quickly: what is measured waits.
    fn event(&self, event: E);
}

/// Shows a run.
pub type Observer = dyn for<'a> Observe<Progress<'a>>;

/// Shows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl<E> Observe<E> for Silent {
    fn event(&self, _: E) {}
}
