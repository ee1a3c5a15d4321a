//! One simulated client: its connection, its variables, and where it stands.

use walwright_wire::backend::TransactionStatus;
use walwright_wire::{CancelKey, Scanner, Stream};
use walwright_workload::script::{Rng, Variables};

use crate::capture::Capture;
use crate::clock::Moment;
use crate::response::Response;

/// One simulated client.
pub(crate) struct Client {
    /// Its place among the clients of its thread.
    pub(crate) index: u32,
    /// Its place among all clients.
    pub(crate) number: u32,
    /// Its connection; `None` while there is none.
    pub(crate) link: Option<Link>,
    pub(crate) state: State,
    /// Status of the server's transaction block at the last ReadyForQuery.
    pub(crate) status: TransactionStatus,
    /// ReadyForQuery messages, or answers of HTTP, that the server still owes.
    pub(crate) owed: u32,
    pub(crate) variables: Variables,
    /// Source of the script's random numbers.
    pub(crate) rng: Rng,
    pub(crate) transaction: Transaction,
    /// Which statements the connection has prepared, by number.
    pub(crate) prepared: Vec<bool>,
    /// Statements whose ParseComplete is still to come, the next one last.
    pub(crate) parsing: Vec<usize>,
    pub(crate) burst: Burst,
    /// Why the transaction fails, once that is known.
    pub(crate) failure: Option<Failure>,
    /// Why the server ends the connection, told when nothing was asked of it.
    pub(crate) farewell: Option<Failure>,
    /// The result that is to become variables.
    pub(crate) capture: Option<Box<Capture>>,
    /// What the server is to copy, where it has not asked for it yet.
    pub(crate) to_copy: Option<Vec<u8>>,
    /// Rows it has given to a coalescer; only the answer to the last counts.
    pub(crate) written: u64,
    /// Between `\startpipeline` and `\endpipeline`.
    pub(crate) in_pipeline: bool,
    /// Only the timer with this number counts.
    pub(crate) timer: u32,
    /// Attempts to connect that failed in a row.
    pub(crate) attempts: u32,
    /// Whether its first transaction may have begun.
    pub(crate) started: bool,
    /// Transactions it has begun.
    pub(crate) begun: u64,
}

/// What a client waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// A connection.
    Offline,
    /// The connection of the transaction that is to begin, asked for at this moment.
    Opening(Moment),
    /// The start of the load.
    Connected,
    /// A transaction to be due (open loop).
    Idle,
    /// A timer, then it begins a transaction.
    Paused,
    /// A timer, then it goes on with its script.
    Sleeping,
    /// The server.
    Waiting(Waiting),
    /// Nothing: the load is over for it.
    Finished,
}

/// What the server is busy with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Parsing statements; the script stands still.
    Preparing,
    /// Executing statements.
    Executing,
    /// Rolling back a transaction that failed.
    RollingBack,
}

/// A connection and what is under way on it.
pub(crate) struct Link {
    pub(crate) stream: Stream,
    pub(crate) reading: Reading,
    /// What cancels its statement, where the server gave that.
    pub(crate) key: Option<CancelKey>,
    /// Bytes the socket has not taken yet.
    pub(crate) unsent: Vec<u8>,
}

/// What understands the bytes that come.
pub(crate) enum Reading {
    /// Messages of PostgreSQL.
    Postgres(Scanner),
    /// Answers of HTTP.
    Http(Box<Response>),
}

/// Where a client stands in its transaction.
#[derive(Debug, Clone)]
pub(crate) struct Transaction {
    /// Index of its script.
    pub(crate) script: usize,
    /// Index of the next command.
    pub(crate) pc: usize,
    /// Where its latency counts from: when it was due, or began.
    pub(crate) from: Moment,
    /// Tries, the current one included.
    pub(crate) tries: u32,
    /// State of the random numbers when it began, for another try.
    pub(crate) rng: Rng,
    /// Whether it ever waited for the server.
    pub(crate) waited: bool,
}

/// The statements that were sent together.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Burst {
    /// How many, and how many Parses with them. Where it is one, the time of
    /// the round trip is the latency of that statement; else it is nobody's.
    pub(crate) parts: u32,
    /// Index of the last one in its script.
    pub(crate) last: usize,
    /// When they were sent.
    pub(crate) sent: Moment,
    /// Whether a transaction block is open after them.
    pub(crate) in_block: bool,
    /// Syncs, and then Parses, that are put together and not sent.
    pub(crate) unsent_syncs: u32,
    pub(crate) unsent_parses: usize,
    /// Whether the server has statements of a pipeline and no Sync behind them.
    pub(crate) unsynced: bool,
}

/// Why a transaction fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// SQLSTATE, `HTTP` and a status, `connection`, `timeout` or `script`.
    pub(crate) kind: String,
    /// For people.
    pub(crate) message: String,
}

impl Failure {
    /// Whether another try may succeed: serialization_failure and
    /// deadlock_detected, as pgbench.
    pub(crate) fn is_retryable(&self) -> bool {
        matches!(self.kind.as_str(), "40001" | "40P01")
    }
}

impl Client {
    pub(crate) fn new(
        index: u32,
        number: u32,
        variables: Variables,
        rng: Rng,
        statements: usize,
    ) -> Self {
        Client {
            index,
            number,
            link: None,
            state: State::Offline,
            status: TransactionStatus::Idle,
            owed: 0,
            variables,
            transaction: Transaction {
                script: 0,
                pc: 0,
                from: Moment::default(),
                tries: 0,
                rng: rng.clone(),
                waited: false,
            },
            rng,
            prepared: vec![false; statements],
            parsing: Vec::new(),
            burst: Burst::default(),
            failure: None,
            farewell: None,
            capture: None,
            to_copy: None,
            written: 0,
            in_pipeline: false,
            timer: 0,
            attempts: 0,
            started: false,
            begun: 0,
        }
    }

    /// Whether a transaction is under way.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.state, State::Opening(_) | State::Sleeping | State::Waiting(_))
    }

    /// Says goodbye to the server, where there is one to hear it.
    pub(crate) fn goodbye(&mut self) {
        if let Some(mut link) = self.link.take()
            && link.unsent.is_empty()
            && matches!(link.reading, Reading::Postgres(_))
        {
            link.stream.terminate();
        }
    }

    /// Forgets what belongs to the connection, which is gone.
    pub(crate) fn unlink(&mut self) {
        self.link = None;
        self.status = TransactionStatus::Idle;
        self.owed = 0;
        self.prepared.fill(false);
        self.reset_transaction();
    }

    /// Forgets what belongs to the try that ended.
    pub(crate) fn reset_transaction(&mut self) {
        self.parsing.clear();
        self.burst = Burst::default();
        self.capture = None;
        self.to_copy = None;
        // An answer that is still to come is nobody's.
        self.written = self.written.wrapping_add(1);
        self.in_pipeline = false;
    }
}
