//! The rows that are written, and their tables.

use tokio_postgres::{Client, Error};
use walwright_coalesce::{DEAD_LETTERS, LANES};

/// Rows of one producer.
const TOKENS: i64 = 1 << 32;

/// The tables: what a write twice leaves in `event` shows, since nothing there is unique.
pub const TABLES: &str = "
CREATE TABLE event (
    token bigint NOT NULL, kind text NOT NULL CHECK (kind <> ''), body text,
    at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ON event (token);
CREATE INDEX ON event (kind, at);
CREATE TABLE keyed (LIKE event INCLUDING DEFAULTS INCLUDING CONSTRAINTS);
CREATE UNIQUE INDEX ON keyed (token);
CREATE INDEX ON keyed (kind, at);";

/// Empties the tables, which are made where they are missing.
///
/// # Errors
/// When the server refuses.
pub async fn empty(server: &Client) -> Result<(), Error> {
    let there = server.query_one("SELECT to_regclass('event') IS NOT NULL", &[]).await?;
    if !there.get::<_, bool>(0) {
        server.batch_execute(&format!("{TABLES} {LANES}; {DEAD_LETTERS}")).await?;
    }
    server.batch_execute("TRUNCATE event, keyed, walwright_lanes, walwright_dead_letters").await
}

/// A row of the load.
#[derive(Debug, Clone)]
pub struct Event {
    /// What no other row has.
    pub token: i64,
    /// Empty in a row that is refused.
    pub kind: String,
    /// Something to carry.
    pub body: String,
}

walwright_coalesce::row!(Event { token, kind, body });

/// The rows of one producer, of which so many of a thousand are refused.
#[derive(Debug, Clone)]
pub struct Rows {
    next: i64,
    bad: u64,
}

impl Rows {
    /// Of the producer with this number.
    pub fn of(producer: i64, bad: u64) -> Rows {
        Rows { next: producer * TOKENS + 1, bad }
    }

    /// Whether a row is refused.
    pub fn is_bad(token: i64, bad: u64) -> bool {
        let mixed = token.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        mixed % 1000 < bad
    }
}

impl Iterator for Rows {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let token = self.next;
        self.next += 1;
        let kind = if Rows::is_bad(token, self.bad) {
            String::new()
        } else {
            format!("kind {}", token % 17)
        };
        Some(Event { token, kind, body: format!("something that happened, number {token}") })
    }
}
