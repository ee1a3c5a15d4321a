//! The steps of the protocol at which a connection is cut.

use clap::ValueEnum;
use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;

/// Who says a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The client.
    Client,
    /// The server.
    Server,
}

/// A message, by what it does for a writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Step {
    /// The client's first message.
    Startup,
    /// A statement is prepared.
    Parse,
    /// Its parameters are asked for.
    Describe,
    /// Its parameters are given.
    Bind,
    /// It is executed.
    Execute,
    /// The end of what belongs together, at which a statement of its own is committed.
    Sync,
    /// `BEGIN`.
    Begin,
    /// Rows of a COPY.
    CopyData,
    /// Their end.
    CopyDone,
    /// `COMMIT`.
    Commit,
    /// Another simple query: a savepoint, a setting.
    Query,
    /// Whatever is said of who the client is.
    Authentication,
    /// A statement is prepared.
    ParseComplete,
    /// Its parameters are these.
    ParameterDescription,
    /// Its parameters were taken.
    BindComplete,
    /// A row of an answer.
    DataRow,
    /// The server waits for rows.
    CopyInResponse,
    /// A statement is done.
    CommandComplete,
    /// A COMMIT is done.
    Committed,
    /// The server waits for the next.
    ReadyForQuery,
    /// The server refuses.
    ErrorResponse,
}

impl Step {
    /// What a message is, where a connection is cut at such ones. `startup` says that the
    /// client's first message has not come yet, which has no type.
    pub(super) fn of(side: Side, startup: bool, message: &[u8]) -> Option<Step> {
        if startup {
            return Some(Step::Startup);
        }
        let body = message.get(5..).unwrap_or_default();
        match (side, message.first()?) {
            (Side::Client, b'P') => Some(Step::Parse),
            (Side::Client, b'D') => Some(Step::Describe),
            (Side::Client, b'B') => Some(Step::Bind),
            (Side::Client, b'E') => Some(Step::Execute),
            (Side::Client, b'S') => Some(Step::Sync),
            (Side::Client, b'd') => Some(Step::CopyData),
            (Side::Client, b'c') => Some(Step::CopyDone),
            (Side::Client, b'Q') if body.starts_with(b"BEGIN") => Some(Step::Begin),
            (Side::Client, b'Q') if body.starts_with(b"COMMIT") => Some(Step::Commit),
            (Side::Client, b'Q') => Some(Step::Query),
            (Side::Server, b'R') => Some(Step::Authentication),
            (Side::Server, b'1') => Some(Step::ParseComplete),
            (Side::Server, b't') => Some(Step::ParameterDescription),
            (Side::Server, b'2') => Some(Step::BindComplete),
            (Side::Server, b'D') => Some(Step::DataRow),
            (Side::Server, b'G') => Some(Step::CopyInResponse),
            (Side::Server, b'C') if body.starts_with(b"COMMIT") => Some(Step::Committed),
            (Side::Server, b'C') => Some(Step::CommandComplete),
            (Side::Server, b'Z') => Some(Step::ReadyForQuery),
            (Side::Server, b'E') => Some(Step::ErrorResponse),
            _ => None,
        }
    }

    /// One of all, at random.
    pub fn draw(random: &mut Xoshiro256PlusPlus) -> Step {
        let all = Step::value_variants();
        all[random.random_range(0..all.len())]
    }
}

/// How much of the message at which a connection is cut gets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Nothing.
    Before,
    /// A part.
    Within,
    /// All of it, and nothing behind it.
    After,
}

impl When {
    /// One of all, at random.
    pub fn draw(random: &mut Xoshiro256PlusPlus) -> When {
        [When::Before, When::Within, When::After][random.random_range(0..3)]
    }

    /// How many bytes of a message get through.
    pub(super) fn of(self, length: usize) -> usize {
        match self {
            When::Before => 0,
            When::Within => length / 2,
            When::After => length,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_known_by_what_they_do() {
        let of = |side, bytes: &[u8]| Step::of(side, false, bytes);
        assert_eq!(of(Side::Client, b"Q\0\0\0\x0bCOMMIT\0"), Some(Step::Commit));
        assert_eq!(of(Side::Client, b"Q\0\0\0\x0dROLLBACK\0"), Some(Step::Query));
        assert_eq!(of(Side::Server, b"C\0\0\0\x0bCOMMIT\0"), Some(Step::Committed));
        assert_eq!(of(Side::Server, b"C\0\0\0\x0bCOPY 17\0"), Some(Step::CommandComplete));
        assert_eq!(of(Side::Server, b"S\0\0\0\x08a\0b\0"), None);
        assert_eq!(Step::of(Side::Client, true, b"\0\0\0\x08"), Some(Step::Startup));
    }
}
