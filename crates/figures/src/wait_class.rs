//! What a session is doing, from its state and wait event.

use serde::Serialize;
use walwright_record::Row;

/// Where a session spends its time, in the terms a commit is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitClass {
    /// On a processor. Where the kernel's count is not at hand: active without a wait, so
    /// on a processor or in the queue for one.
    Cpu,
    /// Ready to run and waiting for a processor: the kernel's count, never a sample.
    RunQueue,
    /// Writing or flushing WAL itself.
    Flush,
    /// Waiting while another session writes or flushes WAL, or for `commit_delay`.
    FlushQueue,
    /// Waiting for a standby's confirmation.
    Replication,
    /// Reading or writing data, or waiting for another session's read.
    Io,
    /// Waiting for a heavyweight lock: rows, relations, transactions.
    Lock,
    /// Waiting for a lightweight lock other than the WAL's.
    Lwlock,
    /// Inside a transaction, waiting for the client's next message or for the
    /// client to take the answer.
    Client,
    /// Any other wait.
    Other,
}

impl WaitClass {
    /// Every class, in the order they are shown.
    pub const ALL: [WaitClass; 10] = [
        WaitClass::Cpu,
        WaitClass::RunQueue,
        WaitClass::Flush,
        WaitClass::FlushQueue,
        WaitClass::Replication,
        WaitClass::Io,
        WaitClass::Lock,
        WaitClass::Lwlock,
        WaitClass::Client,
        WaitClass::Other,
    ];

    /// For display.
    pub fn label(self) -> &'static str {
        match self {
            WaitClass::Cpu => "CPU",
            WaitClass::RunQueue => "waiting for a processor",
            WaitClass::Flush => "WAL flush",
            WaitClass::FlushQueue => "WAL flush queue",
            WaitClass::Replication => "replication",
            WaitClass::Io => "data I/O",
            WaitClass::Lock => "lock",
            WaitClass::Lwlock => "LWLock",
            WaitClass::Client => "client",
            WaitClass::Other => "other",
        }
    }

    /// The class of one row of a tick; `None` for sessions outside a transaction
    /// and for processes that serve no client.
    ///
    /// Event names are compared in lower case, since 17 changed their case.
    pub fn of(row: &Row) -> Option<WaitClass> {
        if row.text("backend_type") != Some("client backend") {
            return None;
        }
        let state = row.text("state")?;
        let active = state == "active" || state == "fastpath function call";
        if !active && !state.starts_with("idle in transaction") {
            return None;
        }
        let kind = row.text("wait_event_type").unwrap_or_default();
        let event = row.text("wait_event").unwrap_or_default();
        let is = |name: &str| event.eq_ignore_ascii_case(name);
        Some(match kind {
            // A session that is idle in a transaction waits for its client even in
            // the moment before the wait is announced.
            _ if !active => WaitClass::Client,
            "" => WaitClass::Cpu,
            "IO" if is("walsync") || is("walwrite") => WaitClass::Flush,
            "LWLock" if is("walwrite") => WaitClass::FlushQueue,
            "Timeout" if is("commitdelay") => WaitClass::FlushQueue,
            "IPC" if is("syncrep") => WaitClass::Replication,
            "IPC" if is("bufferio") => WaitClass::Io,
            "IO" => WaitClass::Io,
            "Lock" => WaitClass::Lock,
            "LWLock" => WaitClass::Lwlock,
            "Client" => WaitClass::Client,
            _ => WaitClass::Other,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use walwright_testing::{named, wait};

    #[test]
    fn names_of_both_cases_mean_the_same() {
        for event in ["WALSync", "WalSync", "walsync"] {
            assert_eq!(WaitClass::of(&wait("active", "IO", event, 1.0)), Some(WaitClass::Flush));
        }
        assert_eq!(
            WaitClass::of(&wait("active", "LWLock", "WALWrite", 1.0)),
            Some(WaitClass::FlushQueue)
        );
        assert_eq!(WaitClass::of(&wait("active", "IO", "WalWrite", 1.0)), Some(WaitClass::Flush));
    }

    #[test]
    fn idle_and_background_sessions_are_left_out() {
        assert_eq!(WaitClass::of(&wait("idle", "Client", "clientread", 1.0)), None);
        let writer = named([("backend_type", "walwriter"), ("state", "active")], []);
        assert_eq!(WaitClass::of(&writer), None);
    }

    #[test]
    fn sessions_in_a_transaction_are_on_cpu_or_with_the_client() {
        assert_eq!(WaitClass::of(&wait("active", "", "", 1.0)), Some(WaitClass::Cpu));
        assert_eq!(
            WaitClass::of(&wait("idle in transaction", "Client", "clientread", 1.0)),
            Some(WaitClass::Client)
        );
        assert_eq!(
            WaitClass::of(&wait("idle in transaction (aborted)", "", "", 1.0)),
            Some(WaitClass::Client)
        );
        assert_eq!(
            WaitClass::of(&wait("fastpath function call", "", "", 1.0)),
            Some(WaitClass::Cpu)
        );
        assert_eq!(
            WaitClass::of(&wait("active", "Lock", "transactionid", 1.0)),
            Some(WaitClass::Lock)
        );
    }
}
