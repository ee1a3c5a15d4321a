//! Connections to servers, opened by threads of their own so that no event loop waits.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use mio::Waker;
use walwright_wire::{CancelKey, ConnectOptions, Connector, Stream, WireError};

use crate::{ClientId, SessionKind};

/// What a connection is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// Statements of clients.
    Session(usize, SessionKind),
    /// Flushes.
    Barrier,
    /// The verifier of a client's user.
    Verifier(ClientId, String),
}

/// Which life of which server answers: two connections with the same are to one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity(Vec<Option<String>>);

/// A connection that was opened.
#[derive(Debug)]
pub struct Opened {
    /// The stream, not blocking.
    pub stream: Stream,
    /// Settings as the server reported them.
    pub parameters: Vec<(String, String)>,
    /// What cancels on it.
    pub key: Option<CancelKey>,
    /// Which server it is.
    pub identity: Identity,
    /// `synchronous_commit` as it is for this user and database.
    pub level: String,
    /// The verifier that was looked for, if there is one.
    pub verifier: Option<String>,
}

/// What became of an attempt.
#[derive(Debug)]
pub struct Dialled {
    /// What the connection was for.
    pub purpose: Purpose,
    /// The life of the server that it was opened for.
    pub life: u64,
    /// The connection, or why there is none.
    pub result: Result<Opened, WireError>,
}

/// What tells one server, and one life of it, from another.
const IDENTITY: &str = "SELECT s.system_identifier, c.timeline_id, pg_postmaster_start_time(), \
                        inet_server_addr(), inet_server_port() \
                        FROM pg_control_system() s, pg_control_checkpoint() c";

/// The verifier of a user who may log in now. Every name in it is qualified: nobody's
/// search_path leads elsewhere.
const VERIFIER: &str = "SELECT rolpassword FROM pg_catalog.pg_authid WHERE rolcanlogin AND \
                        (rolvaliduntil IS NULL OR rolvaliduntil OPERATOR(pg_catalog.>) \
                        pg_catalog.now()) AND rolname OPERATOR(pg_catalog.=)";

/// Name under which the barrier statement is prepared.
pub const BARRIER_NAME: &str = "ww_barrier";

/// Opens a connection; the result goes to `done`.
pub fn dial(
    purpose: Purpose,
    life: u64,
    options: ConnectOptions,
    done: Sender<Dialled>,
    waker: Arc<Waker>,
) {
    std::thread::spawn(move || {
        let result = open(&purpose, options);
        let dialled = Dialled { purpose, life, result };
        // A worker that has ended wants no connection.
        if done.send(dialled).is_ok() {
            let _ = waker.wake();
        }
    });
}

fn open(purpose: &Purpose, mut options: ConnectOptions) -> Result<Opened, WireError> {
    let mut set = |name: &str, value: &str| {
        options.parameters.push((name.to_owned(), value.to_owned()));
    };
    match purpose {
        Purpose::Session(_, SessionKind::Relaxed) => set("synchronous_commit", "off"),
        Purpose::Session(_, SessionKind::Synchronous) => {}
        // Otherwise a backslash in a name would end the text that holds it.
        Purpose::Verifier(..) => set("standard_conforming_strings", "on"),
        Purpose::Barrier => {
            set("default_transaction_read_only", "off");
            set("statement_timeout", "0");
            // The strictest that any client can ask for; without standbys it is a local flush.
            set("synchronous_commit", "remote_apply");
        }
    }
    let mut connection = Connector::new(options)?.connect()?;
    let identity = connection.query(IDENTITY)?.into_iter().next().unwrap_or_default();
    let level = connection.query("SHOW synchronous_commit")?;
    let level = level.into_iter().flatten().flatten().next().unwrap_or_default();
    let mut verifier = None;
    if let Purpose::Verifier(_, user) = purpose {
        let found = connection.query(&format!("{VERIFIER} '{}'", user.replace('\'', "''")))?;
        verifier = found.into_iter().flatten().flatten().next();
    }
    if *purpose == Purpose::Barrier {
        let version = connection.query("SHOW server_version_num")?;
        let version = version.into_iter().flatten().flatten().next();
        let version: u32 = version.and_then(|text| text.parse().ok()).unwrap_or_default();
        let standbys = connection.query("SHOW synchronous_standby_names")?;
        let standbys = standbys.into_iter().flatten().flatten().any(|names| !names.is_empty());
        let flush = barrier_statement(version, standbys);
        connection.query(&format!("PREPARE {BARRIER_NAME} AS {flush}"))?;
    }
    let parameters =
        connection.parameters().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let key = connection.cancel_key();
    let (stream, _) = connection.into_nonblocking()?;
    Ok(Opened { stream, parameters, key, identity: Identity(identity), level, verifier })
}

/// What flushes the WAL. From 17 a message that belongs to no transaction can be flushed; before,
/// and where standbys have to confirm, a transaction that wrote one commits.
fn barrier_statement(version: u32, standbys: bool) -> &'static str {
    if version >= 170_000 && !standbys {
        "SELECT pg_logical_emit_message(false, 'walwright', '', true)"
    } else {
        "SELECT pg_logical_emit_message(true, 'walwright', '')"
    }
}
