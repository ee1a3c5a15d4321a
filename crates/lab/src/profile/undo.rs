//! Undoing a set of changes, however far it went.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use tokio_postgres::Client;
use walwright_catalog::{is_secret, parameter};
use walwright_server::ConnectParams;

use super::apply::{alter_system, auto_conf, read_kernel, reload, told, write_kernel};
use super::auto_conf::{AutoConf, edited};
use super::check::same;
use super::queue::{is_switch, switch_of};
use super::restart::{Restart, reconnect, restarted};
use super::server::text;
use super::statements;
use crate::ledger::{
    Change, ChangeSet, Intent, Ledger, LedgerError, Outcome, ServerIdentity, State,
};
use crate::whole_file::replace;

const AUTO: &str = "postgresql.auto.conf";

/// Settings whose values are lists of quoted names. A literal of the whole would be
/// taken for one name (`GUC_LIST_QUOTE`).
const LISTS: [&str; 7] = [
    "local_preload_libraries",
    "search_path",
    "session_preload_libraries",
    "shared_preload_libraries",
    "temp_tablespaces",
    "unix_socket_directories",
    "oauth_validator_libraries",
];

/// What undoing came to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Undone {
    /// Names whose old value is there again.
    pub restored: Vec<String>,
    /// What to know: values somebody else has changed since, and the like.
    pub notes: Vec<String>,
    /// Names whose old value waits for a restart.
    pub waiting: Vec<String>,
    /// Whether the server was restarted for that.
    pub restarted: bool,
}

/// Why a set was not undone.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// Another process is at it.
    #[error("process {pid} is at change set {id}: wait for it, or end it first")]
    InProgress {
        /// The set.
        id: u64,
        /// The process.
        pid: u32,
    },
    /// It is undone already.
    #[error("change set {0} is undone already")]
    Already(u64),
    /// Something failed; the set stays as it is in the ledger.
    #[error("change set {id} could not be undone: {why}")]
    Failed {
        /// The set.
        id: u64,
        /// Why.
        why: String,
    },
}

/// Undoes a set of the ledger: one that was done, or one that was cut short at any point.
/// A value that is neither the old nor the new one is somebody else's and stays.
///
/// # Errors
/// When it may not or cannot be undone.
pub async fn undo_changes(
    ledger: &Ledger,
    set: &ChangeSet,
    params: Option<&ConnectParams>,
    restart: &mut Restart,
) -> Result<Undone, UndoError> {
    if set.is_in_progress() {
        return Err(UndoError::InProgress { id: set.id, pid: set.pid() });
    }
    if matches!(set.state, State::Undone { .. }) {
        return Err(UndoError::Already(set.id));
    }
    let undone = restore(ledger, set, params, restart)
        .await
        .map_err(|why| UndoError::Failed { id: set.id, why })?;
    ledger.end(set.id, Outcome::Undone { why: "rolled back".to_owned() })?;
    Ok(undone)
}

/// Brings back what was, in the reverse order of the changes.
pub(super) async fn restore(
    ledger: &Ledger,
    set: &ChangeSet,
    params: Option<&ConnectParams>,
    restart: &mut Restart,
) -> Result<Undone, String> {
    let intent = &set.intent;
    let mut undone = Undone::default();
    if intent.changes.iter().any(|change| matches!(change, Change::Setting { .. })) {
        settings(intent, params, restart, &mut undone).await?;
    }
    // After the settings: with some of those no server runs that could be asked.
    statements::undo(ledger, set, params, &mut undone).await?;
    kernel(&intent.changes, set.state == State::Done, &mut undone)?;
    undone.restored.dedup();
    Ok(undone)
}

/// Brings back what files of the kernel held. `done` says that what was asked for was
/// read back: of a set without an end, the kernel may have kept another value.
fn kernel(changes: &[Change], done: bool, undone: &mut Undone) -> Result<(), String> {
    let mut back: Vec<&Change> = changes.iter().rev().collect();
    back.sort_by_key(|change| !is_switch(change));
    // All are looked at before the first is written, which may set others anew.
    let mut ours = Vec::new();
    for change in back {
        let Change::Kernel { name, path, before, after, .. } = change else { continue };
        let Some(now) = held(name, path)? else {
            undone.notes.push(format!("{name}: {} is gone", path.display()));
            continue;
        };
        // What goes with the scheduler is ours while that is: no value of it tells.
        let switch = switch_of(change, changes);
        if is_ours(switch.unwrap_or(change), done)? {
            ours.push(change);
        } else if now != *before {
            let why = match switch {
                Some(_) => {
                    "it goes with the scheduler, which is no longer the one that was set".to_owned()
                }
                None => format!("neither what it was ({before}) nor what it was set to ({after})"),
            };
            undone.notes.push(format!("{name} is {now}, {why}: left as it is"));
        }
    }
    for change in ours {
        let Change::Kernel { name, path, before, restore, .. } = change else { continue };
        if held(name, path)?.is_none_or(|now| now == *before) {
            continue;
        }
        match restore {
            Some((other, value)) => write_kernel("", other, value)?,
            None => write_kernel(name, path, before)?,
        }
        undone.restored.push(name.clone());
    }
    Ok(())
}

/// Whether a file of the kernel holds what it did before or what the set put there.
fn is_ours(change: &Change, done: bool) -> Result<bool, String> {
    let Change::Kernel { name, path, before, after, .. } = change else { return Ok(false) };
    let Some(now) = held(name, path)? else { return Ok(false) };
    let is_as_set = || parameter(name).map_or(now == *after, |known| same(known, after, &now));
    Ok(!done || now == *before || is_as_set())
}

/// What a file of the kernel holds; `None` where it is gone.
fn held(name: &str, path: &Path) -> Result<Option<String>, String> {
    match read_kernel(path) {
        Ok(now) => Ok(Some(now)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{name}: cannot read {}: {error}", path.display())),
    }
}

async fn settings(
    intent: &Intent,
    params: Option<&ConnectParams>,
    restart: &mut Restart,
    undone: &mut Undone,
) -> Result<(), String> {
    let params = params.ok_or("it changed settings of a server: name it with --dsn")?;
    let client = match walwright_server::connect(params).await {
        Ok(client) => client,
        Err(error) => {
            // A server that does not start with what was set cannot be asked.
            if !edit_at_rest(intent, undone)? {
                return Err(error.to_string());
            }
            if !restart.can() {
                undone.notes.push(
                    "the server does not run; its old settings are in postgresql.auto.conf again: start it"
                        .to_owned(),
                );
                return Ok(());
            }
            restart.now().await?;
            reconnect(params).await?;
            undone.restarted = true;
            return Ok(());
        }
    };
    is_the_server(intent, &client, params).await?;
    let auto = auto_conf(&client).await.ok_or(
        "postgresql.auto.conf cannot be read: it takes a superuser or EXECUTE on pg_read_file(text)",
    )?;
    let mut restarts = Vec::new();
    for change in intent.changes.iter().rev() {
        let Change::Setting { name, before, restart: takes_restart, .. } = change else { continue };
        if is_to_go_back(change, &auto, undone) {
            alter_system(&client, name, before.as_deref()).await?;
            undone.restored.push(name.clone());
        } else if auto.get(name) != before.as_deref() {
            // Somebody else's, and so is its restart.
            continue;
        }
        // Also where the file was right: whoever wrote it may not have come to the restart.
        if *takes_restart {
            restarts.push(name.as_str());
        }
    }
    in_order(&client, intent).await?;
    reload(&client).await?;
    if !restarts.is_empty() {
        undone.waiting = waiting(&client, &restarts).await?;
    }
    if !undone.waiting.is_empty() && restart.can() {
        restarted(client, params, restart).await?;
        undone.waiting.clear();
        undone.restarted = true;
    }
    Ok(())
}

/// Whether the file holds what the change put there.
fn is_to_go_back(change: &Change, auto: &AutoConf, undone: &mut Undone) -> bool {
    let Change::Setting { name, before, after, .. } = change else { return false };
    let now = auto.get(name);
    if now == before.as_deref() {
        return false;
    }
    if now != after.as_deref() {
        undone.notes.push(format!(
            "{name} has been changed by somebody since: it is left as it is in postgresql.auto.conf"
        ));
        return false;
    }
    true
}

/// Which of these settings are in force otherwise than the files say.
async fn waiting(client: &Client, names: &[&str]) -> Result<Vec<String>, String> {
    let query = "SELECT name FROM pg_catalog.pg_settings WHERE pending_restart AND name = ANY ($1)";
    let rows = client.query(query, &[&names]).await.map_err(|error| told(&error))?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Puts the settings of the file in the order in which they stood, so that it is again
/// what it was, byte by byte. `ALTER SYSTEM` writes what it sets last.
async fn in_order(client: &Client, intent: &Intent) -> Result<(), String> {
    let Some(auto) = auto_conf(client).await else { return Ok(()) };
    let (now, before) = (auto.names(), &intent.order);
    let sorted = |names: &[String]| {
        let mut names = names.to_vec();
        names.sort();
        names
    };
    let same_names = sorted(&now) == sorted(before);
    let Some(first) = now.iter().zip(before).position(|(now, before)| now != before) else {
        return Ok(());
    };
    let moved = &before[first..];
    let is_delicate = |name: &String| is_secret(name) || LISTS.contains(&name.as_str());
    if !same_names || moved.iter().any(is_delicate) {
        return Ok(());
    }
    for name in moved {
        alter_system(client, name, auto.get(name)).await?;
    }
    Ok(())
}

/// Whether two names are of one server.
pub(crate) fn is_same_server(one: &ServerIdentity, other: &ServerIdentity) -> bool {
    match (&one.system_identifier, &other.system_identifier) {
        // A standby has its primary's identifier.
        (Some(a), Some(b)) if a != b => false,
        (Some(_), Some(_)) => match (&one.data_directory, &other.data_directory) {
            (Some(a), Some(b)) => a == b,
            _ => true,
        },
        _ => one.address == other.address,
    }
}

/// Refuses to undo on another server what was done on one.
pub(super) async fn is_the_server(
    intent: &Intent,
    client: &Client,
    params: &ConnectParams,
) -> Result<(), String> {
    let Some(server) = &intent.server else { return Ok(()) };
    let query = "SELECT system_identifier::pg_catalog.text FROM pg_catalog.pg_control_system()";
    let here = text(client, query).await;
    match (&server.system_identifier, here) {
        (Some(there), Some(here)) if *there != here => Err(format!(
            "{} is another server than the one it was made on, {}",
            params.address(),
            server.address
        )),
        _ => Ok(()),
    }
}

/// Edits the file of a server that does not run; whether that could be done.
fn edit_at_rest(intent: &Intent, undone: &mut Undone) -> Result<bool, String> {
    let Some(directory) = intent.server.as_ref().and_then(|s| s.data_directory.as_ref()) else {
        return Ok(false);
    };
    let path = directory.join(AUTO);
    if is_served(directory) {
        return Ok(false);
    }
    let Ok(mut text) = fs::read_to_string(&path) else { return Ok(false) };
    let original = text.clone();
    for change in intent.changes.iter().rev() {
        if let Change::Setting { name, before, .. } = change
            && is_to_go_back(change, &AutoConf::parse(&text), undone)
        {
            text = edited(&text, name, before.as_deref());
            undone.restored.push(name.clone());
        }
    }
    if text != original {
        rewrite(&path, &text)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(true)
}

/// Whether a process that lives holds the data directory.
fn is_served(directory: &Path) -> bool {
    let Ok(text) = fs::read_to_string(directory.join("postmaster.pid")) else { return false };
    let pid = text.lines().next().and_then(|line| line.trim().parse::<u32>().ok());
    pid.is_some_and(|pid| Path::new("/proc").join(pid.to_string()).exists())
}

/// Replaces a file whole, with its owner and mode.
fn rewrite(path: &Path, text: &str) -> io::Result<()> {
    let meta = fs::metadata(path)?;
    replace(path, |file| {
        file.set_permissions(fs::Permissions::from_mode(meta.mode()))?;
        std::os::unix::fs::fchown(&*file, Some(meta.uid()), Some(meta.gid()))?;
        file.write_all(text.as_bytes())
    })
}
