//! What all sampling tasks share.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::session::Session;
use crate::clock::Clock;
use crate::cost::Cost;
use crate::observation::{Sink, emit_event};
use crate::own_backends::OwnBackends;
use crate::{Connector, ProbeError};

/// The kind of the event that one of the probe's connections was lost.
pub const LOST: &str = "probe_lost";

/// How long a query that is under way at the stop may hold it up.
const TO_ANSWER: Duration = Duration::from_millis(500);

/// First and longest pause between attempts to connect again.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// A connection that was lost sooner is not opened again at once: something is wrong with
/// the server, and trying without a pause would be one thing more.
const SHORT_LIVED: Duration = Duration::from_secs(10);

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

    /// What a query of the probe is answered, or `None` if the probe is stopped before it is
    /// asked, or much before it is answered: one that is given up is cancelled, which is an
    /// error in the server's log.
    pub(crate) async fn answered<T>(&self, query: impl Future<Output = T>) -> Option<T> {
        if *self.stop.borrow() {
            return None;
        }
        let mut query = pin!(query);
        match self.unless_stopped(&mut query).await {
            None => tokio::time::timeout(TO_ANSWER, query).await.ok(),
            answered => answered,
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
            LOST,
            format!("the probe's connection for {what} was lost; it tries to connect again"),
        );
        let mut pause = Duration::ZERO;
        if session.opened.elapsed() < SHORT_LIVED {
            pause = (session.pause * 2).clamp(BACKOFF.0, BACKOFF.1);
        }
        let mut told = false;
        loop {
            if !self.sleep_until(Instant::now() + pause).await {
                return false;
            }
            let Some(opened) = self.unless_stopped(self.open()).await else { return false };
            match opened {
                Ok(opened) => {
                    *session = opened;
                    session.pause = pause;
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
                Err(error) if !told => {
                    told = true;
                    let text = format!("the probe cannot connect again for {what} yet: {error}");
                    emit_event(&self.sink, self.clock.now(), "probe_lost", text);
                }
                Err(_) => {}
            }
            pause = (pause * 2).clamp(BACKOFF.0, BACKOFF.1);
        }
    }
}
