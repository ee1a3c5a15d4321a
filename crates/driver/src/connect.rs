//! Opening connections off the threads that drive the load: it blocks, and
//! with password hashing it takes milliseconds of CPU.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::client::Failure;
use crate::endpoint::Dialer;
use crate::shared::{Attempt, Inbox, News, Shared};
use crate::tally::CONNECTION;

/// Threads that connect, at most.
const THREADS: usize = 8;

/// A connection that is wanted.
pub(crate) struct Wanted {
    /// The worker that is to get it.
    pub(crate) inbox: Arc<Inbox>,
    /// The client's index there.
    pub(crate) client: u32,
    /// Its number over all workers, from 1.
    pub(crate) number: u32,
}

/// Threads that open connections.
pub(crate) struct ConnectPool {
    wanted: Sender<Wanted>,
    threads: Vec<JoinHandle<()>>,
    closed: Arc<AtomicBool>,
}

impl ConnectPool {
    /// Starts the threads. Each attempt is reported to its worker, and what
    /// became of it to `report`.
    pub(crate) fn start(
        dialer: &Dialer,
        clients: u32,
        shared: &Arc<Shared>,
        report: &(impl Fn(Attempt) + Clone + Send + 'static),
    ) -> std::io::Result<Self> {
        let (wanted, queue) = channel();
        let queue = Arc::new(Mutex::new(queue));
        let closed = Arc::new(AtomicBool::new(false));
        let mut pool = ConnectPool { wanted, threads: Vec::new(), closed };
        for _ in 0..THREADS.min(clients as usize) {
            let (dialer, queue, shared, report, closed) = (
                dialer.clone(),
                Arc::clone(&queue),
                Arc::clone(shared),
                report.clone(),
                Arc::clone(&pool.closed),
            );
            let thread = std::thread::Builder::new()
                .name("connect".into())
                .spawn(move || serve(&dialer, &queue, &shared, &closed, &report))?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Where workers ask for connections.
    pub(crate) fn wanted(&self) -> Sender<Wanted> {
        self.wanted.clone()
    }

    /// Ends the threads once no worker asks any more. Attempts that wait are dropped.
    pub(crate) fn close(self) {
        self.closed.store(true, Ordering::Release);
        drop(self.wanted);
        for thread in self.threads {
            // A panic there has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

fn serve(
    dialer: &Dialer,
    queue: &Mutex<Receiver<Wanted>>,
    shared: &Shared,
    closed: &AtomicBool,
    report: &impl Fn(Attempt),
) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Wanted { inbox, client, number }) = next else { return };
        if closed.load(Ordering::Acquire) {
            continue;
        }
        let result = match dialer.dial() {
            Ok(link) => {
                shared.connected.fetch_add(1, Ordering::Relaxed);
                inbox.send(News::Connected { client, link });
                Ok(())
            }
            Err(error) => {
                let kind = error.server_error().map_or(CONNECTION, |fields| &fields.code);
                let failure = Failure { kind: kind.to_owned(), message: error.to_string() };
                inbox.send(News::Refused { client, failure });
                Err(error)
            }
        };
        report(Attempt { number, result });
    }
}
