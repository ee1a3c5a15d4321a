//! What can be chosen.

use std::path::PathBuf;
use std::time::Duration;

/// How a coalescer works. The defaults suit a service that writes events.
#[derive(Clone, Debug)]
pub struct Options {
    /// Connections, each of which writes one batch at a time; 2. One is used as long as it
    /// keeps up: a further one takes rows when a batch is full or has waited for [`Flush::age`].
    pub connections: usize,
    /// When a batch goes although another is on its way.
    pub flush: Flush,
    /// How much may wait or be on its way; who writes more waits for room.
    pub capacity: Capacity,
    /// What an acknowledgement means.
    pub durability: Durability,
    /// How a batch whose outcome was lost with its connection is written again without being
    /// written twice.
    pub idempotency: Idempotency,
    /// How long what may pass is tried again.
    pub retry: Retry,
    /// After how long without an answer a statement is cancelled and its connection given up; 60 s.
    pub batch_timeout: Duration,
    /// Where rows go that the server refuses, before their writers are told.
    pub dead_letters: DeadLetters,
    /// How the rows of the first table are written.
    pub table: TableOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connections: 2,
            flush: Flush::default(),
            capacity: Capacity::default(),
            durability: Durability::Session,
            idempotency: Idempotency::None,
            retry: Retry::default(),
            batch_timeout: Duration::from_secs(60),
            dead_letters: DeadLetters::None,
            table: TableOptions::default(),
        }
    }
}

/// When a batch goes although another is on its way. With none on its way a row goes at once.
#[derive(Clone, Copy, Debug)]
pub struct Flush {
    /// As soon as it has so many rows, and never with more; 5,000.
    pub rows: usize,
    /// As soon as its rows have so many bytes; 4 MiB.
    pub bytes: usize,
    /// When its oldest row has waited for so long, if a connection is free; 5 ms.
    pub age: Duration,
}

impl Default for Flush {
    fn default() -> Self {
        Self { rows: 5_000, bytes: 4 << 20, age: Duration::from_millis(5) }
    }
}

/// How much may wait or be on its way in all.
#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    /// Rows; 100,000.
    pub rows: usize,
    /// Bytes of their fields; 64 MiB.
    pub bytes: usize,
}

impl Default for Capacity {
    fn default() -> Self {
        Self { rows: 100_000, bytes: 64 << 20 }
    }
}

/// What an acknowledgement means: `synchronous_commit` of the sessions that write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// As the role, the database and the server have it; where that is `off`, `on` instead.
    Session,
    /// Visible on the synchronous standbys.
    RemoteApply,
    /// Flushed here and on the synchronous standbys.
    On,
    /// Flushed here, written on the synchronous standbys.
    RemoteWrite,
    /// Flushed here.
    Local,
    /// Not flushed: a crash of the server loses rows that were acknowledged.
    Off,
}

/// How a batch is written again whose connection was lost at its COMMIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Idempotency {
    /// It is not: its rows are answered with [`WriteError::Unknown`](crate::WriteError::Unknown).
    None,
    /// Columns of a unique index, of every table that is written: a row whose key is there is
    /// taken for written.
    Key(Vec<String>),
    /// A table with one row for each connection, updated in the transaction of each batch; see
    /// [`LANES`](crate::LANES).
    Lanes(Lanes),
}

/// The table of [`Idempotency::Lanes`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lanes {
    /// Its name, with its schema where the search path does not find it.
    pub table: String,
    /// Whether it is created where it is missing.
    pub create: bool,
    /// What the rows' positions are positions in, e.g. a file's name; who connects later with
    /// the same source learns which were written
    /// ([`positions_done`](crate::Coalescer::positions_done)), and ends who wrote it before.
    pub source: Option<String>,
}

/// How what may pass (a restart, a deadlock, a full disk) is tried again.
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    /// For so long after the first failure; 30 s.
    pub within: Duration,
    /// The first pause, which doubles with each; 20 ms, shortened at random by up to a half.
    pub first: Duration,
    /// The longest pause; 2 s.
    pub longest: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            within: Duration::from_secs(30),
            first: Duration::from_millis(20),
            longest: Duration::from_secs(2),
        }
    }
}

/// Where rows go that the server refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeadLetters {
    /// Nowhere: the writer is told, and has the row.
    None,
    /// A table, written in the same transaction as the row's neighbours; see
    /// [`DEAD_LETTERS`](crate::DEAD_LETTERS).
    Table {
        /// Its name.
        name: String,
        /// Whether it is created where it is missing.
        create: bool,
    },
    /// A file of JSON lines, flushed to its disk before the writer is told.
    File(PathBuf),
}

/// How the rows of one table are written.
#[derive(Clone, Debug, Default)]
pub struct TableOptions {
    /// What becomes of a row whose key is there.
    pub conflict: Conflict,
    /// Columns whose equal values keep their order: such rows go through one connection, and
    /// every batch is sorted by them, against deadlocks. Empty: no order.
    pub order: Vec<String>,
}

/// What becomes of a row whose key is in the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Conflict {
    /// It is refused.
    #[default]
    Error,
    /// It is taken for written, and the table stays as it is. Without columns: any unique index.
    Ignore(Vec<String>),
    /// The columns that are not of the key are overwritten; the last of a batch wins.
    Update(Vec<String>),
}
