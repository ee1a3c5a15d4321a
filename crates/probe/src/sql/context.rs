//! What all sampling tasks share.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::session::Session;
use crate::clock::Clock;
use crate::cost::Cost;
use crate::observation::{Sink, emit_event};
use crate::{Connector, ProbeError};

/// First and longest pause between attempts to connect again.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Process ids of the backends that serve the probe, for the host sampler to
/// keep apart from the server's own work.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnBackends(Arc<Mutex<BTreeSet<u32>>>);

impl OwnBackends {
    fn insert(&self, pid: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(pid);
    }

    fn remove(&self, pid: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&pid);
    }

    pub(crate) fn snapshot(&self) -> BTreeSet<u32> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Shared by the tasks of the SQL thread.
pub(crate) struct Context {
    pub(crate) connector: Connector,
    pub(crate) clock: Clock,
    pub(crate) sink: Sink,
    pub(crate) cost: Arc<Cost>,
    pub(crate) stop: watch::Receiver<bool>,
    /// Whether the server's processes are this machine's.
    pub(crate) local: bool,
    /// Processors of the server's machine, where it is this one.
    pub(crate) processors: Option<u32>,
    pub(crate) own_backends: OwnBackends,
}

/// Which connection was lost.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Lost {
    Waits,
    Counters,
}

impl Context {
    /// Processors that budgets are shares of. Where the server's machine is not
    /// this one, costs are answer times, which say less; the budget is then that
    /// of a machine large enough that only a slow answer slows the probe down.
    pub(crate) fn budget_processors(&self) -> f64 {
        const REMOTE: f64 = 16.0;
        self.processors.map_or(REMOTE, f64::from)
    }

    /// Opens a connection and makes it known as the probe's own.
    pub(crate) async fn open(&self) -> Result<Session, ProbeError> {
        let session = Session::open(&self.connector, self.local, &self.cost).await?;
        self.own_backends.insert(session.backend_pid);
        Ok(session)
    }

    /// Waits for the stop; at once if it has come.
    pub(crate) async fn stopped(&self) {
        let mut stop = self.stop.clone();
        // An error means that the handle is gone, which is a stop too.
        let _ = stop.wait_for(|stop| *stop).await;
    }

    /// What `work` gives, or `None` if the probe is stopped before.
    pub(crate) async fn unless_stopped<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.stopped() => None,
            done = work => Some(done),
        }
    }

    /// Sleeps until `moment`; false if the probe was stopped.
    pub(crate) async fn sleep_until(&self, moment: Instant) -> bool {
        self.unless_stopped(tokio::time::sleep_until(moment.into())).await.is_some()
    }

    /// Replaces a lost connection, trying until it works; false once stopped.
    pub(crate) async fn reopen(&self, session: &mut Session, which: Lost) -> bool {
        self.own_backends.remove(session.backend_pid);
        let what = match which {
            Lost::Waits => "wait events",
            Lost::Counters => "counters",
        };
        let since = Instant::now();
        emit_event(
            &self.sink,
            self.clock.now(),
            "probe_lost",
            format!("the probe's connection for {what} was lost; it tries to connect again"),
        );
        let mut pause = BACKOFF.0;
        loop {
            let Some(opened) = self.unless_stopped(self.open()).await else { return false };
            match opened {
                Ok(opened) => {
                    *session = opened;
                    self.cost.reconnected();
                    emit_event(
                        &self.sink,
                        self.clock.now(),
                        "probe_back",
                        format!(
                            "the probe's connection for {what} is back after {:.1} s",
                            since.elapsed().as_secs_f64()
                        ),
                    );
                    return true;
                }
                Err(error) => tracing::debug!(%error, what, "cannot connect again yet"),
            }
            if !self.sleep_until(Instant::now() + pause).await {
                return false;
            }
            pause = (pause * 2).min(BACKOFF.1);
        }
    }
}
