//! What can be chosen.

use std::time::Duration;

/// How the service works.
#[derive(Debug, Clone)]
pub struct Options {
    /// Its sessions with the server.
    pub pool: PoolOptions,
    /// How a document is locked before it is written.
    pub locks: Locks,
    /// How long a transaction does nothing once it has its lock.
    pub idle: Duration,
    /// Isolation of the transactions that write.
    pub isolation: Isolation,
    /// How often a transaction is tried again that met another (40001, 40P01 and what else ends
    /// only one of several).
    pub retries: u32,
    /// Resources that there are; others are not found.
    pub resources: Vec<String>,
    /// What a request may take.
    pub limits: Limits,
}

/// What a request may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Longest body, in bytes.
    pub body: usize,
    /// Longest that a client may take to send it.
    pub body_time: Duration,
}

/// Sessions with the server.
#[derive(Debug, Clone)]
pub struct PoolOptions {
    /// Sessions at most.
    pub size: usize,
    /// Longest that a request waits for one.
    pub wait: Duration,
    /// What is sent when a request has done with one.
    pub reset: Reset,
    /// How statements are sent.
    pub shape: Shape,
    /// Longest that a statement may take.
    pub statement: Duration,
}

/// What a session is sent when a request has done with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    /// Nothing.
    None,
    /// `DISCARD ALL`, which takes prepared statements too.
    DiscardAll,
    /// Resets of all but prepared statements.
    Selective,
}

impl Reset {
    pub(crate) fn sql(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::DiscardAll => Some("DISCARD ALL"),
            Self::Selective => Some(
                "CLOSE ALL; UNLISTEN *; SELECT pg_catalog.pg_advisory_unlock_all(); \
                 DISCARD SEQUENCES; DISCARD TEMP; RESET ALL",
            ),
        }
    }
}

/// How statements are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Prepared once a session.
    Prepared,
    /// Parsed and planned each time.
    Unprepared,
}

/// How a document is locked before it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locks {
    /// `FOR NO KEY UPDATE`.
    NoKeyUpdate,
    /// `FOR KEY SHARE`.
    KeyShare,
    /// `FOR UPDATE NOWAIT`; where another holds it the transaction is tried again.
    UpdateNowait,
    /// Not; the UPDATE is the first that locks.
    None,
}

/// Isolation of the transactions that write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// `READ COMMITTED`.
    ReadCommitted,
    /// `REPEATABLE READ`.
    RepeatableRead,
    /// `SERIALIZABLE`.
    Serializable,
}

impl Isolation {
    pub(crate) fn begin(self) -> &'static str {
        match self {
            Self::ReadCommitted => "BEGIN ISOLATION LEVEL READ COMMITTED",
            Self::RepeatableRead => "BEGIN ISOLATION LEVEL REPEATABLE READ",
            Self::Serializable => "BEGIN ISOLATION LEVEL SERIALIZABLE",
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            pool: PoolOptions::default(),
            locks: Locks::NoKeyUpdate,
            idle: Duration::ZERO,
            isolation: Isolation::ReadCommitted,
            retries: 10,
            // Those of the workload.
            resources: (0..8).map(|n| format!("resource-{n}")).collect(),
            limits: Limits { body: 1 << 20, body_time: Duration::from_secs(30) },
        }
    }
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            size: 10,
            wait: Duration::from_secs(1),
            reset: Reset::None,
            shape: Shape::Prepared,
            statement: Duration::from_secs(10),
        }
    }
}
