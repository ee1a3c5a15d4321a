//! What load to put on a server.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use walwright_record::{ClientRules, LoadLevel, LoadStage};
use walwright_workload::script::{Program, ScriptError};
pub use walwright_workload::workload::Protocol;

use crate::endpoint::Endpoint;

/// Whether the wire carries what pgbench would send.
///
/// The mode changes what the *server* has to do, so every figure says which.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// The same messages as pgbench: text parameters, Describe, one Sync and
    /// one round trip a statement.
    #[default]
    Faithful,
    /// Binary integers, no Describe, and a transaction block in one round trip
    /// where no `\gset` stands in the way. Statements that share a round trip
    /// have no latency of their own. Needs [`Protocol::Prepared`].
    Lean,
}

/// When transactions begin.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrival {
    /// Each client begins its next transaction when the last has ended, after
    /// thinking if it does.
    Closed {
        /// Pause between transactions.
        think: Option<ThinkTime>,
    },
    /// Transactions are due at times that do not depend on the server. A
    /// transaction that finds no free client waits, and its latency counts
    /// from when it was due.
    Open {
        /// Transactions due per second, over all clients.
        rate: f64,
        /// How due times follow each other.
        gaps: Gaps,
    },
}

/// How the due times of an open loop follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gaps {
    /// A Poisson process: exponential gaps, as pgbench's `--rate`.
    #[default]
    Poisson,
    /// All gaps alike.
    Even,
}

/// A client's pause between transactions in a closed loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkTime {
    /// Always the same.
    Fixed(Duration),
    /// Uniform between the two.
    Uniform(Duration, Duration),
    /// Exponential with this mean.
    Exponential(Duration),
}

/// All that a load is made of.
#[derive(Debug, Clone)]
pub struct LoadPlan {
    /// The scripts and their weights.
    pub program: Arc<Program>,
    /// Value of `:scale`.
    pub scale: i64,
    /// Connections, from 1.
    pub clients: u32,
    /// Threads that drive them, from 1; no more than clients are used.
    pub threads: u32,
    /// How statements travel.
    pub protocol: Protocol,
    /// Faithful to pgbench, or lean.
    pub mode: Mode,
    /// When transactions begin.
    pub arrival: Arrival,
    /// Levels of load one after the other, from the first transaction on; the last goes on.
    /// None: the same throughout. In an open loop `arrival` has their mean rate.
    pub stages: Vec<LoadStage>,
    /// Transactions that end later than this count as late; in an open loop
    /// those that could only begin later than this are skipped, as with
    /// pgbench's `--latency-limit`.
    pub latency_limit: Option<Duration>,
    /// Clients begin one after the other, spread evenly over this time.
    pub ramp: Duration,
    /// Tries a transaction gets when it fails with SQLSTATE 40001 or 40P01,
    /// the first included; 0 is without limit.
    pub max_tries: u32,
    /// What ends a client early, and whether each transaction has a connection of its own. That
    /// is opened when the transaction is to begin: latency counts from then in an open loop, as
    /// always from when it was due, and in a closed one from when the connection is open, as
    /// pgbench's does. [`LoadOutcome`](crate::LoadOutcome) has the time of opening.
    pub rules: ClientRules,
    /// Seed of all random numbers. With the same seed, clients and script a
    /// client draws the numbers it draws under `pgbench --random-seed`.
    pub seed: u64,
    /// Who answers.
    pub endpoint: Endpoint,
    /// Length of a [`LoadInterval`](walwright_record::LoadInterval).
    pub interval: Duration,
    /// Whether latencies of single statements are kept.
    pub statement_histograms: bool,
    /// How long transactions in flight may take to end after
    /// [`Load::stop`](crate::Load::stop) before their connections are cut.
    pub drain: Duration,
}

impl LoadPlan {
    /// A closed loop of one client in faithful mode with prepared statements,
    /// one-second intervals and no retries.
    pub fn new(program: Arc<Program>, endpoint: impl Into<Endpoint>) -> Self {
        LoadPlan {
            program,
            scale: 1,
            clients: 1,
            threads: 1,
            protocol: Protocol::default(),
            mode: Mode::default(),
            arrival: Arrival::Closed { think: None },
            stages: Vec::new(),
            latency_limit: None,
            ramp: Duration::ZERO,
            max_tries: 1,
            rules: ClientRules::default(),
            seed: 1,
            endpoint: endpoint.into(),
            interval: Duration::from_secs(1),
            statement_histograms: true,
            drain: Duration::from_secs(10),
        }
    }

    /// Whether the plan can be driven at all.
    ///
    /// # Errors
    /// When a number is out of its range, or the scripts do not go together
    /// with the protocol.
    pub fn check(&self) -> Result<(), PlanError> {
        if self.clients == 0 || self.clients > MAX_CLIENTS {
            return Err(PlanError::Clients(self.clients));
        }
        if self.threads == 0 {
            return Err(PlanError::Threads);
        }
        if self.rules.transactions == Some(0) {
            return Err(PlanError::Transactions);
        }
        if self.interval < MIN_INTERVAL {
            return Err(PlanError::Interval(self.interval));
        }
        if let Arrival::Open { rate, .. } = self.arrival
            && !(rate.is_finite() && (1e-6..=1e9).contains(&rate))
        {
            return Err(PlanError::Rate(rate));
        }
        let open = matches!(self.arrival, Arrival::Open { .. });
        let fits = |stage: &LoadStage| match stage.level {
            LoadLevel::Rate(rate) => open && rate.is_finite() && rate > 0.0,
            LoadLevel::Clients(clients) => !open && (1..=self.clients).contains(&clients),
        };
        if !self.stages.iter().all(fits) {
            return Err(PlanError::Stages);
        }
        if self.program.asks_http() != matches!(self.endpoint, Endpoint::Http(_)) {
            return Err(PlanError::Endpoint);
        }
        let scripts = &self.program.scripts;
        if scripts.iter().map(|script| script.statements.len()).chain([scripts.len()]).max()
            > Some(MOST)
        {
            return Err(PlanError::TooLong);
        }
        if self.mode == Mode::Lean && self.protocol != Protocol::Prepared {
            return Err(PlanError::LeanNeedsPrepared);
        }
        match self.protocol {
            Protocol::Simple => self.program.check_simple()?,
            Protocol::Extended | Protocol::Prepared => self.program.check_extended()?,
        }
        Ok(())
    }
}

/// More connections than this are a typing error, or need another tool.
const MAX_CLIENTS: u32 = 100_000;
/// Scripts, and statements of one; as many as a log entry can tell apart.
const MOST: usize = u16::MAX as usize;
/// Shorter intervals would measure the driver.
const MIN_INTERVAL: Duration = Duration::from_millis(10);

/// A plan that cannot be driven.
#[derive(Debug, Error)]
pub enum PlanError {
    /// No clients, or too many.
    #[error("a load of {0} clients is not possible; choose 1 to {MAX_CLIENTS}")]
    Clients(u32),
    /// No threads.
    #[error("a load needs at least one thread")]
    Threads,
    /// Clients that have nothing to do.
    #[error("a client needs at least one transaction")]
    Transactions,
    /// An interval too short to measure anything.
    #[error("intervals of {0:?} are too short; choose 10 ms or more")]
    Interval(Duration),
    /// A rate that is no rate.
    #[error(
        "a rate of {0} transactions per second is not possible; choose one from 0.000001 to 1000000000"
    )]
    Rate(f64),
    /// A stage of another kind of loop, or without load.
    #[error("stages of an open loop are rates above 0, those of a closed loop 1 client or more")]
    Stages,
    /// More scripts, or statements in one, than are counted apart.
    #[error("a load has at most {MOST} scripts of at most {MOST} statements each")]
    TooLong,
    /// Lean mode with another protocol.
    #[error(
        "lean mode uses prepared statements; choose the prepared protocol or the faithful mode"
    )]
    LeanNeedsPrepared,
    /// Requests for a server, or SQL for an application.
    #[error("SQL scripts go to a PostgreSQL server, and requests to an application")]
    Endpoint,
    /// A script that the protocol cannot carry.
    #[error(transparent)]
    Script(#[from] ScriptError),
}
