//! The whole: listeners, workers, and their end.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use mio::Waker;
use rand::random;
use thiserror::Error;

use crate::census::Census;
use crate::control::Control;
use crate::handover::{Accepting, Handover};
use crate::metrics;
use crate::options::Server;
use crate::worker::{Order, Shared, Worker};
use crate::{Exposures, Listen, Options, Predecessor, Socket, Sockets};

/// Why a gateway cannot start.
#[derive(Debug, Error)]
pub enum GatewayError {
    /// It cannot listen.
    #[error("cannot listen on {place}: {source}")]
    Listen {
        /// Address or path.
        place: Listen,
        /// What the system said.
        source: io::Error,
    },
    /// It cannot serve metrics.
    #[error("cannot serve metrics at {place}: {source}")]
    Metrics {
        /// Address.
        place: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Gateways do not hand over to each other.
    #[error("cannot hand over from one gateway to the next: {0}")]
    Handover(io::Error),
    /// The system refuses what an event loop needs.
    #[error("cannot start a worker: {0}")]
    Worker(#[from] io::Error),
}

/// A gateway that runs until it is dropped, or has [drained](Gateway::drain).
#[derive(Debug)]
pub struct Gateway {
    accepting: Arc<Accepting>,
    handover: Option<Handover>,
    /// Whether the gateway that was there before has ended.
    before_is_gone: Arc<AtomicBool>,
    exposures: Vec<Exposures>,
    places: Vec<Listen>,
    /// Whether its unix sockets go when it ends: not where another has taken them over.
    removes_sockets: bool,
    /// Workers, each of which says whether it ended as it was told to.
    threads: Vec<JoinHandle<bool>>,
    control: Control,
    /// Dropped when what is beside the workers is to end.
    ends: Option<Sender<()>>,
    keeper: Option<JoinHandle<()>>,
    metrics: Option<SocketAddr>,
}

/// How a worker is told something.
#[derive(Debug, Clone)]
pub struct Handle {
    pub(crate) orders: Sender<Order>,
    pub(crate) waker: Arc<Waker>,
}

impl Handle {
    /// Tells it; whether there is anybody to tell: not where it has ended.
    pub fn tell(&self, order: Order) -> bool {
        let told = self.orders.send(order).is_ok();
        if told {
            let _ = self.waker.wake();
        }
        told
    }
}

impl Gateway {
    /// Listens where the options say and starts the workers.
    ///
    /// # Errors
    /// When an address is taken, or the system refuses.
    pub fn start(options: Options) -> Result<Gateway, GatewayError> {
        let sockets = Sockets::bind(&options)?;
        Gateway::start_on(sockets, options)
    }

    /// The same on sockets that listen already.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn start_on(sockets: Sockets, options: Options) -> Result<Gateway, GatewayError> {
        Gateway::start_after(None, sockets, options)
    }

    /// The same on sockets of a gateway that is there, which it takes over from.
    ///
    /// # Errors
    /// When the system or the gateway that is there refuses.
    pub fn start_after(
        predecessor: Option<Predecessor>,
        sockets: Sockets,
        options: Options,
    ) -> Result<Gateway, GatewayError> {
        let places = sockets.clients.iter().map(Socket::place).collect::<Result<_, _>>()?;
        let options = Arc::new(options);
        let of_workers = Arc::new(OnceLock::new());
        let control = Control::new(of_workers.clone(), options.clone());
        let shared = Shared {
            census: Arc::new(Census::default()),
            upstreams: upstreams(&options),
            workers: of_workers,
            control: control.clone(),
            redefined: Arc::default(),
            verifiers: Arc::default(),
            secret: random(),
        };
        let (mut workers, mut threads) = (Vec::new(), Vec::new());
        for number in 0..options.workers.max(1) {
            let (mut worker, handle) = Worker::new(number, options.clone(), shared.clone())?;
            workers.push(handle);
            let name = format!("gateway-{number}");
            threads.push(std::thread::Builder::new().name(name).spawn(move || {
                let run = worker.run();
                if let Err(error) = &run {
                    tracing::error!("a worker ended: {error}");
                }
                run.is_ok()
            })?);
        }
        // Nobody else fills it.
        let _ = shared.workers.set(workers.clone());
        let exposures: Vec<Exposures> =
            shared.upstreams.iter().map(|(_, exposures)| exposures.clone()).collect();
        // Of whoever was there before, even if it was killed, something may not be flushed yet.
        exposures.iter().for_each(Exposures::share);
        if let Some(predecessor) = &predecessor {
            predecessor.take().map_err(GatewayError::Handover)?;
        }
        let removes_sockets = sockets.removes;
        let serves = |listener| metrics::serve(listener, control.clone());
        let metrics = sockets.try_clone()?.metrics.map(serves).transpose()?;
        let accepting = Arc::new(Accepting::start(sockets, workers)?);
        let before_is_gone = Arc::new(AtomicBool::new(predecessor.is_none()));
        match predecessor {
            Some(predecessor) => {
                let (covers, gone) = (control.clone(), before_is_gone.clone());
                let gone = move || gone.store(true, Ordering::SeqCst);
                let before = predecessor.follow(move || covers.cover_others(), gone);
                control.follow(before.map_err(GatewayError::Handover)?);
            }
            None => control.cover_others(),
        }
        let (ends, ended) = channel();
        let keeps = control.clone();
        let keeper = std::thread::Builder::new()
            .name("gateway-stats".to_owned())
            .spawn(move || keeps.keep_moments(&ended))?;
        Ok(Gateway {
            accepting,
            handover: None,
            before_is_gone,
            exposures,
            places,
            removes_sockets,
            threads,
            control,
            ends: Some(ends),
            keeper: Some(keeper),
            metrics,
        })
    }

    /// Where it listens, with the port that the system chose.
    pub fn places(&self) -> impl Iterator<Item = &Listen> {
        self.places.iter()
    }

    /// Where it serves metrics, with the port that the system chose.
    pub fn metrics(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// Takes no connections any more and lets each client go as soon as it has nothing under
    /// way. `keeps_sockets` where another process goes on with the same sockets.
    pub fn drain(&mut self, keeps_sockets: bool) {
        self.removes_sockets &= !keeps_sockets;
        self.accepting.end(keeps_sockets);
        self.control.drain();
    }

    /// Waits at a path for a gateway that takes over.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn hand_over_at(&mut self, path: &Path) -> Result<(), GatewayError> {
        let (accepting, control) = (self.accepting.clone(), self.control.clone());
        let handover = Handover::at(path, accepting, control, self.exposures.clone());
        self.handover = Some(handover.map_err(GatewayError::Handover)?);
        Ok(())
    }

    /// Whether another gateway has taken over. This one serves the clients that it has until
    /// they leave.
    pub fn is_taken_over(&self) -> bool {
        self.accepting.is_taken()
    }

    /// Tells, at any time and from any thread, whether every worker says in time how it is.
    pub fn pulse(&self) -> impl Fn() -> bool + Send + 'static {
        let control = self.control.clone();
        move || control.reports(false).is_ok()
    }

    /// How options are read once more for RELOAD.
    pub fn on_reload(&self, reread: impl Fn() -> Result<Options, String> + Send + Sync + 'static) {
        self.control.on_reload(Box::new(reread));
    }

    /// Reads its options once more and goes on by them, as RELOAD does.
    ///
    /// # Errors
    /// With what is wrong with them; then nothing changes.
    pub fn reload(&self) -> Result<(), String> {
        self.control.reload()
    }

    /// Whether all clients are gone after it was told to drain, another took over, or it was told
    /// to end.
    pub fn has_drained(&self) -> bool {
        // Who takes over learns from this one that the one before it has gone too.
        let waits = self.is_taken_over() && !self.before_is_gone.load(Ordering::SeqCst);
        self.threads.iter().all(JoinHandle::is_finished) && !waits
    }
}

/// Each server once, however many databases it has.
fn upstreams(options: &Options) -> Vec<(Arc<Server>, Exposures)> {
    let mut found: Vec<(Arc<Server>, Exposures)> = Vec::new();
    for database in &options.databases {
        if !found.iter().any(|(server, _)| server.is_same(&database.server)) {
            found.push((database.server.clone(), Exposures::default()));
        }
    }
    found
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let mut drained = self.has_drained();
        self.accepting.end(self.is_taken_over());
        self.control.close();
        self.ends = None;
        let removes = self.removes_sockets && !self.is_taken_over();
        for place in self.places.iter().filter(|_| removes) {
            if let Listen::Unix(path) = place {
                // Whoever removed it already did the same.
                let _ = std::fs::remove_file(path);
            }
        }
        self.control.end();
        for thread in self.threads.drain(..) {
            // Of one that failed or panicked nobody knows what it left.
            drained &= matches!(thread.join(), Ok(true));
        }
        if let Some(keeper) = self.keeper.take() {
            // If it panicked, it has said so.
            let _ = keeper.join();
        }
        if let Some(handover) = self.handover.take() {
            handover.end(drained);
        }
    }
}
