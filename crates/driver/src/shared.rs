//! What the threads of a load tell each other.

use std::io;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use walwright_record::{LatencyHistogram, Timestamp};
use walwright_wire::{CancelKey, WireError};

use crate::client::{Failure, Link};
use crate::clock::{Clock, Moment};
use crate::connection_totals::ConnectionTotals;
use crate::outcome::ErrorSamples;
use crate::system::Waker;
use crate::tail::Tail;
use crate::tally::{Part, Spares};

/// What became of an attempt.
pub(crate) struct Attempt {
    /// Number of the client over all workers, from 1.
    pub(crate) number: u32,
    pub(crate) result: Result<(), WireError>,
}

/// What all threads see.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// Connections that are open.
    pub(crate) connected: AtomicU32,
    /// Counts to be used again.
    pub(crate) spares: Arc<Spares>,
    order: AtomicU8,
    phase: AtomicU8,
    /// End of the window in microseconds as in [`Timestamp`]; 0 while it goes on.
    window_end: AtomicI64,
}

/// How far a load has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoadPhase {
    /// Clients are being connected; no transaction has begun.
    Connecting,
    /// Transactions run.
    Running,
    /// All is over; [`Load::join`](crate::Load::join) will not wait long.
    Ended,
}

/// What the threads are to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Order {
    /// Go on.
    Run,
    /// Begin no more transactions but those that were due in the window, and let what is
    /// in flight end.
    Stop,
    /// End at once.
    Abort,
}

impl Shared {
    /// What is to be done now.
    #[inline]
    pub(crate) fn order(&self) -> Order {
        match self.order.load(Ordering::Acquire) {
            0 => Order::Run,
            1 => Order::Stop,
            _ => Order::Abort,
        }
    }

    pub(crate) fn phase(&self) -> LoadPhase {
        match self.phase.load(Ordering::Acquire) {
            0 => LoadPhase::Connecting,
            1 => LoadPhase::Running,
            _ => LoadPhase::Ended,
        }
    }

    pub(crate) fn enter(&self, phase: LoadPhase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// Sets where the window ends, which the first call decides.
    pub(crate) fn end_window(&self, end: Timestamp) {
        let _ = self.window_end.compare_exchange(0, end.0, Ordering::AcqRel, Ordering::Acquire);
    }

    /// Where the window ends, once that is known.
    pub(crate) fn window_end(&self) -> Option<Timestamp> {
        Some(Timestamp(self.window_end.load(Ordering::Acquire))).filter(|end| end.0 != 0)
    }

    /// Gives an order; a weaker one than before is without effect.
    pub(crate) fn give(&self, order: Order) {
        self.order.fetch_max(order as u8, Ordering::AcqRel);
    }
}

/// News for a worker.
pub(crate) enum News {
    /// A client has its connection.
    Connected {
        /// Its index among the worker's clients.
        client: u32,
        link: Link,
    },
    /// A client could not be connected anew.
    Refused {
        /// Its index among the worker's clients.
        client: u32,
        failure: Failure,
    },
    /// A coalescer has answered a row.
    Written {
        /// The client's index among the worker's clients.
        client: u32,
        /// Which of its rows.
        number: u64,
        /// Why it is not known to be written, if so.
        failure: Option<Failure>,
    },
    /// The load begins; the clock's moment zero is now.
    Begin(Clock),
}

/// Where a worker gets its news, and is woken for them.
pub(crate) struct Inbox {
    news: Mutex<Vec<News>>,
    pub(crate) waker: Waker,
}

impl Inbox {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Inbox { news: Mutex::new(Vec::new()), waker: Waker::new()? })
    }

    pub(crate) fn send(&self, news: News) {
        self.lock().push(news);
        self.waker.wake();
    }

    /// All news since the last time.
    pub(crate) fn take(&self) -> Vec<News> {
        self.waker.clear();
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<News>> {
        // A list of news is whole even where a thread ended in a panic.
        self.news.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// What the coordinator hears of workers and connections.
pub(crate) enum Report {
    /// An attempt to connect is over.
    Attempt(Attempt),
    /// A worker has closed an interval.
    Part {
        /// Number of the worker.
        worker: usize,
        part: Box<Part>,
    },
    /// A transaction failed in a way that ends the load.
    Error {
        /// The kind of failure.
        kind: String,
    },
    /// A worker has ended.
    Done {
        /// Number of the worker.
        worker: usize,
        ending: Box<Ending>,
    },
}

/// What a worker has to say at its end.
#[derive(Default)]
pub(crate) struct Ending {
    /// When it began no more transactions.
    pub(crate) stopped: Moment,
    pub(crate) totals: ConnectionTotals,
    pub(crate) errors: ErrorSamples,
    /// CPU time in user and in kernel mode since the load began.
    pub(crate) cpu: (Duration, Duration),
    /// What cancels the statements that its clients left running.
    pub(crate) running: Vec<CancelKey>,
    /// How long it took to open the connections of single transactions.
    pub(crate) connection_time: LatencyHistogram,
    /// What was under way when the window ended.
    pub(crate) tail: Option<Tail>,
    /// Why it could not go on, if so.
    pub(crate) failure: Option<io::Error>,
}
