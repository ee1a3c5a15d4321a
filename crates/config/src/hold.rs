//! The right to change a server, which one process at a time has.
//!
//! It is an advisory lock on the server itself, so that it holds among all labs, machines
//! and people. Such a lock belongs to one database; whether another one has it shows in
//! `pg_locks`, which tells of all. It is taken first and looked for then, so that of two
//! that come at once each may see the other and both go, and never do both stay.
//!
//! The session that holds it also makes the changes to settings: none can be made when it
//! is gone, and of a process that was killed it holds on until the server is done with what
//! that had begun.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use walwright_server::{
    Client, ConnectError, ConnectFailure, ConnectParams, QueryError, SessionSettings,
};

use super::query::text;
use super::restart::Restart;

/// First key of the lock: "walw".
const CLASS: u32 = 0x7761_6c77;
/// Second key of the session that holds the server.
const SERVER: u32 = 1;
/// Second key of sessions that run statements for it, which may outlive it.
const STATEMENTS: u32 = 2;

/// How long a process that was killed may still have a session.
const DYING: Duration = Duration::from_secs(2);
/// How long another one may have the server that came to it in a restart of ours.
const SLIPPED_IN: Duration = Duration::from_secs(30);
/// How long the server may take to accept connections after a restart.
const READY: Duration = Duration::from_secs(120);
/// How often it is asked.
const POLL: Duration = Duration::from_millis(100);
/// How often it is asked whether it shuts down.
const WATCH: Duration = Duration::from_millis(300);

const STARTED: &str = "SELECT pg_catalog.pg_postmaster_start_time()::pg_catalog.text";

/// Why a server cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum HoldError {
    /// No connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Something in between shares its sessions among clients.
    #[error(
        "{0}: something between here and the server (a pooler) gives sessions of its own, and no lock on the server can be held through it: name the server itself"
    )]
    NotDirect(String),
    /// Another one has it.
    #[error(
        "another walwright works on it: {0}. Wait until that has ended, or end it, and undo what it leaves with walwright config rollback in its lab"
    )]
    Taken(String),
    /// The server refuses to tell.
    #[error("the lock on the server: {0}")]
    Query(#[from] QueryError),
}

/// A server that this process alone changes, as long as it holds it.
#[derive(Debug)]
pub struct Hold {
    params: ConnectParams,
    session: Option<Client>,
}

impl Hold {
    /// For a server that is not held yet; it is when the first change is made.
    pub fn of(params: &ConnectParams) -> Hold {
        Hold { params: params.clone(), session: None }
    }

    /// Takes a server.
    ///
    /// # Errors
    /// When it cannot be reached, or another process has it.
    pub async fn take(params: &ConnectParams) -> Result<Hold, HoldError> {
        let mut hold = Hold::of(params);
        hold.ensure().await?;
        Ok(hold)
    }

    /// How it is reached.
    pub fn params(&self) -> &ConnectParams {
        &self.params
    }

    /// Takes it, unless it is held.
    pub async fn ensure(&mut self) -> Result<(), HoldError> {
        if self.still().await.is_ok() {
            return Ok(());
        }
        self.session = None;
        let name = format!("walwright changes, process {}", std::process::id());
        let named = self.params.clone().with_application_name(&name);
        // It has nothing to do while a run goes on.
        let settings = SessionSettings { all: "-c idle_session_timeout=0", superuser: "" };
        let session = walwright_server::connect_with(&named, settings).await?;
        if !session.is_direct() {
            return Err(HoldError::NotDirect(self.params.address()));
        }
        let deadline = Instant::now() + DYING;
        while let Some(who) = locked(&session).await? {
            if Instant::now() > deadline {
                return Err(HoldError::Taken(who));
            }
            tokio::time::sleep(pause()).await;
        }
        self.session = Some(session);
        Ok(())
    }

    /// Whether it has been held since it was taken last; if not, why.
    pub async fn still(&self) -> Result<(), String> {
        let lost = |why: String| {
            format!(
                "the session that holds the server for this process is gone ({why}), and others may have changed it since"
            )
        };
        let Some(session) = &self.session else { return Err(lost("it was let go".to_owned())) };
        let asked = session.query_one("SELECT pg_catalog.pg_backend_pid()", &[]).await;
        asked.map(drop).map_err(|error| lost(error.to_string()))
    }

    /// The session that holds it.
    pub(super) fn session(&self) -> Result<&Client, String> {
        self.session.as_ref().ok_or_else(|| "the server is not held by this process".to_owned())
    }

    /// Takes it as soon as it accepts connections, and no other has it that came to it
    /// while it was restarted.
    pub async fn reconnect(&mut self) -> Result<(), HoldError> {
        let begun = Instant::now();
        loop {
            let (error, limit) = match self.ensure().await {
                Ok(()) => return Ok(()),
                // The server may go away again while it is asked.
                Err(error @ (HoldError::Connect(_) | HoldError::Query(_))) => (error, READY),
                Err(error @ HoldError::Taken(_)) => (error, SLIPPED_IN),
                Err(error) => return Err(error),
            };
            if begun.elapsed() > limit {
                return Err(error);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Restarts the server, and takes it again when it accepts connections. It is held
    /// until it shuts down.
    ///
    /// # Errors
    /// With what failed.
    pub async fn restart(&mut self, restart: &mut Restart) -> Result<(), String> {
        let before = text(self.session()?, STARTED).await;
        let kept = Arc::new(Mutex::new(self.session.take()));
        let watch = tokio::spawn(until_it_shuts_down(self.params.clone(), Arc::clone(&kept)));
        let restarted = restart.now().await;
        watch.abort();
        self.session = kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        restarted?;
        self.reconnect().await.map_err(|error| error.to_string())?;
        match text(self.session()?, STARTED).await {
            after if after.is_some() && after != before => Ok(()),
            _ => Err("the restart command ended well, but the server was not restarted".to_owned()),
        }
    }
}

/// Lets a session go when its server waits for its clients to leave (a smart shutdown).
async fn until_it_shuts_down(params: ConnectParams, kept: Arc<Mutex<Option<Client>>>) {
    loop {
        tokio::time::sleep(WATCH).await;
        match walwright_server::connect(&params).await {
            Err(error) if error.failure() == ConnectFailure::NotReady => break,
            _ => {}
        }
    }
    drop(kept.lock().unwrap_or_else(PoisonError::into_inner).take());
}

/// Takes the lock, unless another session has it, of which it says whose it is.
async fn locked(session: &Client) -> Result<Option<String>, QueryError> {
    let take = format!("SELECT pg_catalog.pg_try_advisory_lock({CLASS}, {SERVER})");
    let taken: bool = session.query_one(&take, &[]).await?.get(0)?;
    // Also sessions with statements of a process that was killed.
    let others = format!(
        "SELECT l.pid, a.usename::text, a.datname::text, a.application_name::text,
                pg_catalog.host(a.client_addr), a.backend_start::text
           FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
          WHERE l.locktype = 'advisory' AND l.classid = {CLASS} AND l.objsubid = 2
                AND l.granted AND l.pid <> pg_catalog.pg_backend_pid()
          ORDER BY l.objid LIMIT 1"
    );
    let other = session.query_opt(&others, &[]).await?;
    let who = match other {
        None if taken => return Ok(None),
        // It was let go between the two.
        None => "a session that has just ended".to_owned(),
        Some(row) => {
            let part = |column: usize, before: &str| -> Result<String, QueryError> {
                let value = row.get::<Option<String>>(column)?.filter(|value| !value.is_empty());
                Ok(value.map_or_else(String::new, |value| format!("{before}{value}")))
            };
            format!(
                "session {}{}{}{}{}{}",
                row.get::<i32>(0)?,
                part(1, " of role ")?,
                part(2, " in database ")?,
                part(3, ", which calls itself ")?,
                part(4, ", from ")?,
                part(5, ", since ")?
            )
        }
    };
    if taken {
        let back = format!("SELECT pg_catalog.pg_advisory_unlock({CLASS}, {SERVER})");
        session.query_one(&back, &[]).await?;
    }
    Ok(Some(who))
}

/// Marks a session that runs statements for the one that holds the server.
pub(super) async fn mark(session: &Client) -> Result<(), QueryError> {
    let mark = format!("SELECT pg_catalog.pg_advisory_lock_shared({CLASS}, {STATEMENTS})");
    session.query_one(&mark, &[]).await.map(drop)
}

/// A while that is another one in each process, so that two do not meet for ever.
fn pause() -> Duration {
    POLL + Duration::from_millis(u64::from(std::process::id() % 97))
}
