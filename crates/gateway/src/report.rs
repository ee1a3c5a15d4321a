//! What a worker tells when it is asked how it is.

use std::net::SocketAddr;
use std::time::Duration;

use crate::options::PoolMode;
use crate::stats::{BarrierStats, Stats};
use crate::{Pin, SessionKind};

/// What a worker tells when it is asked how it is.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Its pools.
    pub pools: Vec<PoolReport>,
    /// The servers.
    pub servers: Vec<ServerReport>,
    /// Its clients, where they were asked for.
    pub clients: Vec<ClientReport>,
    /// Its sessions, where they were asked for.
    pub sessions: Vec<SessionReport>,
    /// Clients that are not let in yet.
    pub logging_in: usize,
    /// Whether it takes no new clients.
    pub closes: bool,
}

/// A pool of a worker.
#[derive(Debug, Clone)]
pub struct PoolReport {
    /// Database as clients name it.
    pub database: String,
    /// User.
    pub user: String,
    /// When sessions are given back.
    pub mode: PoolMode,
    /// Whether its clients are made to wait.
    pub paused: bool,
    /// What it did.
    pub stats: Stats,
    /// Clients that are not waiting for a session.
    pub active: usize,
    /// Clients that wait for one.
    pub waiting: usize,
    /// Longest that one of them has waited.
    pub longest: Duration,
    /// Clients that keep a session, by reason.
    pub pinned: [usize; Pin::ALL.len()],
    /// Answers that wait for a barrier.
    pub withheld: usize,
    /// Sessions that run something or are kept.
    pub used: usize,
    /// Those on which something is being cancelled.
    pub cancelling: usize,
    /// Sessions that nobody needs.
    pub idle: usize,
    /// Sessions that are being opened.
    pub opening: usize,
    /// Sessions that are closed as soon as nobody needs them.
    pub retiring: usize,
}

impl PoolReport {
    /// Its sessions.
    pub fn sessions(&self) -> usize {
        self.used + self.cancelling + self.idle
    }

    /// Adds the same pool of another worker.
    pub fn add(&mut self, other: &PoolReport) {
        self.stats.add(&other.stats);
        self.paused |= other.paused;
        self.longest = self.longest.max(other.longest);
        for (count, more) in self.pinned.iter_mut().zip(other.pinned) {
            *count += more;
        }
        for (count, more) in [
            (&mut self.active, other.active),
            (&mut self.waiting, other.waiting),
            (&mut self.withheld, other.withheld),
            (&mut self.used, other.used),
            (&mut self.cancelling, other.cancelling),
            (&mut self.idle, other.idle),
            (&mut self.opening, other.opening),
            (&mut self.retiring, other.retiring),
        ] {
            *count += more;
        }
    }
}

/// A server as a worker knows it.
#[derive(Debug, Clone)]
pub struct ServerReport {
    /// Its place among the gateway's servers.
    pub place: usize,
    /// Where it is.
    pub address: String,
    /// Barrier sessions; `None` while it is not known.
    pub barriers: Option<usize>,
    /// Why it could not be reached when that was tried last.
    pub trouble: Option<String>,
    /// How long the barrier that is on its way has been so.
    pub silent: Option<Duration>,
    /// Answers that wait for a barrier.
    pub withheld: usize,
    /// Transactions that a crash could still take back, of all workers together.
    pub exposed: usize,
    /// Whether its barrier sessions are to be opened anew.
    pub retiring: bool,
    /// What its barriers did.
    pub stats: BarrierStats,
}

impl ServerReport {
    /// Adds what another worker knows of it.
    pub fn add(&mut self, other: &ServerReport) {
        self.barriers = match (self.barriers, other.barriers) {
            (Some(these), Some(those)) => Some(these + those),
            (these, those) => these.or(those),
        };
        self.trouble = self.trouble.take().or_else(|| other.trouble.clone());
        self.silent = self.silent.max(other.silent);
        self.withheld += other.withheld;
        self.retiring |= other.retiring;
        self.stats.add(&other.stats);
    }
}

/// A client.
#[derive(Debug, Clone)]
pub struct ClientReport {
    /// Tells it from all others.
    pub id: u64,
    /// Database as it names it.
    pub database: String,
    /// User.
    pub user: String,
    /// What it does.
    pub state: &'static str,
    /// Its address; none on a unix socket.
    pub address: Option<SocketAddr>,
    /// Where it connected to.
    pub local: Option<SocketAddr>,
    /// For how long it has been connected.
    pub age: Duration,
    /// How long ago it sent its last statement.
    pub request: Duration,
    /// For how long it has been waiting.
    pub wait: Duration,
    /// The session that it keeps.
    pub link: Option<u64>,
    /// Version of TLS, where that is on.
    pub tls: String,
    /// The name that it gave for itself.
    pub application_name: String,
    /// Its prepared statements.
    pub prepared: usize,
}

/// A server session.
#[derive(Debug, Clone)]
pub struct SessionReport {
    /// Tells it from all others.
    pub id: u64,
    /// Database as clients name it.
    pub database: String,
    /// User.
    pub user: String,
    /// What it does.
    pub state: &'static str,
    /// How it commits.
    pub kind: SessionKind,
    /// Where it leads.
    pub host: String,
    /// Port there.
    pub port: u16,
    /// For how long it has been connected.
    pub age: Duration,
    /// How long ago something was sent on it.
    pub request: Duration,
    /// Whether it is closed as soon as nobody needs it.
    pub retires: bool,
    /// The client that keeps it.
    pub link: Option<u64>,
    /// The server's process.
    pub process: u32,
    /// Statements that are prepared on it.
    pub prepared: usize,
}

impl SessionReport {
    /// What tells how it commits.
    pub fn application_name(&self) -> &'static str {
        match self.kind {
            SessionKind::Relaxed => "relaxed",
            SessionKind::Synchronous => "synchronous",
        }
    }
}
