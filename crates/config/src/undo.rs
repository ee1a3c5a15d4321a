//! Undoing a set of changes, however far it went.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use walwright_catalog::{holds_password, is_secret, parameter};
use walwright_server::{Client, ConnectFailure};
use walwright_store::ledger::{
    Change, ChangeSet, Intent, Ledger, LedgerError, Outcome, ServerIdentity, State,
};
use walwright_store::{OPEN, replace};

use super::alter_system::{alter_system, auto_conf, reload};
use super::auto_conf::{self, AutoConf, edited, elements, is_list};
use super::check::same;
use super::hold::{Hold, HoldError};
use super::kernel_file::{read_kernel, write_kernel};
use super::query::{text, told};
use super::queue::{is_switch, switch_of};
use super::restart::Restart;
use super::server::is_the_server;
use super::statements;
use super::undone::Undone;

const AUTO: &str = "postgresql.auto.conf";

/// How long is waited for a server that is between two states.
const BETWEEN: Duration = Duration::from_secs(15);
/// How often it is asked.
const POLL: Duration = Duration::from_millis(100);

/// Has a superuser's session leave its statements out of log, activity and statistics.
const QUIET: &str = "SET log_statement = none; SET log_min_duration_statement = -1;
    SET log_min_duration_sample = -1; SET log_transaction_sample_rate = 0;
    SET log_min_error_statement = panic; SET debug_print_parse = off;
    SET debug_print_rewritten = off; SET debug_print_plan = off; SET track_activities = off;
    SET pg_stat_statements.track = none";
/// And as before.
const LOUD: &str = "RESET log_statement; RESET log_min_duration_statement;
    RESET log_min_duration_sample; RESET log_transaction_sample_rate;
    RESET log_min_error_statement; RESET debug_print_parse;
    RESET debug_print_rewritten; RESET debug_print_plan; RESET track_activities;
    RESET pg_stat_statements.track";
/// Libraries that write down no statement that these settings leave out.
const KNOWN: [&str; 3] = ["pg_stat_statements", "auto_explain", "pg_prewarm"];

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
    /// A later set changed the same, and stands.
    #[error(
        "change set {later} changed {name} after change set {id}: undo that one first, with walwright config rollback {later}"
    )]
    BuiltOn {
        /// The set.
        id: u64,
        /// The later one.
        later: u64,
        /// What both changed.
        name: String,
    },
    /// Another process works on its server.
    #[error("change set {id} cannot be undone now: {why}")]
    Held {
        /// The set.
        id: u64,
        /// Who.
        why: HoldError,
    },
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
/// A value that is neither the old nor the new one is someone else's and stays.
///
/// # Errors
/// When it may not or cannot be undone.
pub async fn undo_changes(
    ledger: &Ledger,
    set: &ChangeSet,
    mut hold: Option<&mut Hold>,
    restart: &mut Restart,
) -> Result<Undone, UndoError> {
    if set.is_in_progress() {
        return Err(UndoError::InProgress { id: set.id, pid: set.pid() });
    }
    if matches!(set.state, State::Undone { .. }) {
        return Err(UndoError::Already(set.id));
    }
    let id = set.id;
    if let Some(hold) = &mut hold {
        match hold.ensure().await {
            // A server that does not run is seen to below.
            Ok(()) | Err(HoldError::Connect(_) | HoldError::Query(_)) => {}
            Err(why) => return Err(UndoError::Held { id, why }),
        }
    }
    // Another process of this lab may have undone it, or a part of it, until now.
    let now = ledger.set(id)?;
    let set = now.as_ref().unwrap_or(set);
    if matches!(set.state, State::Undone { .. }) {
        return Err(UndoError::Already(id));
    }
    built_on(ledger, set)?;
    let undone =
        restore(ledger, set, hold, restart).await.map_err(|why| UndoError::Failed { id, why })?;
    let left = undone.left.clone();
    ledger.end(id, Outcome::Undone { why: "rolled back".to_owned(), left })?;
    Ok(undone)
}

/// Refuses to undo what a later set was built on: what that has set would be taken for
/// someone else's.
fn built_on(ledger: &Ledger, set: &ChangeSet) -> Result<(), UndoError> {
    let stands = |other: &ChangeSet| !matches!(other.state, State::Undone { .. });
    for later in ledger.sets()?.iter().rev().filter(|other| other.id > set.id && stands(other)) {
        let one_server = match (&set.intent.server, &later.intent.server) {
            (Some(one), Some(other)) => is_same_server(one, other),
            _ => false,
        };
        let both = |change: &&Change| {
            later.intent.changes.iter().any(|other| match (*change, other) {
                (Change::Setting { name: one, .. }, Change::Setting { name: other, .. }) => {
                    one_server && one == other
                }
                (Change::Kernel { path: one, .. }, Change::Kernel { path: other, .. }) => {
                    one == other
                }
                _ => false,
            })
        };
        if let Some(change) = set.intent.changes.iter().find(both) {
            let (id, later, name) = (set.id, later.id, change.name().to_owned());
            return Err(UndoError::BuiltOn { id, later, name });
        }
    }
    Ok(())
}

/// Brings back what was, in the reverse order of the changes.
pub(super) async fn restore(
    ledger: &Ledger,
    set: &ChangeSet,
    mut hold: Option<&mut Hold>,
    restart: &mut Restart,
) -> Result<Undone, String> {
    let intent = &set.intent;
    let mut undone = Undone::default();
    if intent.changes.iter().any(|change| matches!(change, Change::Setting { .. })) {
        settings(intent, hold.as_deref_mut(), restart, &mut undone).await?;
    }
    // After the settings: with some of those no server runs that could be asked.
    statements::undo(ledger, set, hold, &mut undone).await?;
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
            undone.left.push(name.clone());
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

/// Brings settings back, also of a server that does not start with what was set.
async fn settings(
    intent: &Intent,
    hold: Option<&mut Hold>,
    restart: &mut Restart,
    undone: &mut Undone,
) -> Result<(), String> {
    let hold = hold.ok_or("it changed settings of a server: name it with --dsn")?;
    if let Err(error) = reach(intent, hold).await {
        let mut at_rest = Undone::default();
        if !matches!(error, HoldError::Connect(_)) || !edit_at_rest(intent, &mut at_rest)? {
            return Err(error.to_string());
        }
        if restart.can() {
            restart.now().await?;
            hold.reconnect().await.map_err(|error| error.to_string())?;
            undone.restarted = true;
        } else if reach(intent, hold).await.is_err() {
            // It may have begun to start just before, with the file as it was then.
            at_rest.notes.push(
                "the server does not run; its old settings are in postgresql.auto.conf again: start it"
                    .to_owned(),
            );
            *undone = at_rest;
            return Ok(());
        }
        undone.restored = at_rest.restored;
    }
    is_the_server(intent, hold.session()?, hold.params()).await?;
    let client = hold.session()?;
    let auto = auto_conf(client).await.ok_or_else(|| match client.is_closed() {
        true => "the server broke off or did not answer when asked for postgresql.auto.conf",
        false => "postgresql.auto.conf cannot be read: it takes a superuser or EXECUTE on pg_read_file(text)",
    })?;
    let mut restarts = Vec::new();
    for change in intent.changes.iter().rev() {
        let Change::Setting { name, before, restart: takes_restart, .. } = change else { continue };
        if is_to_go_back(change, &auto, undone) {
            alter_system(hold.session()?, as_it_stood(name, intent), before.as_deref()).await?;
            undone.restored.push(name.clone());
        } else if !auto.holds(name, before.as_deref()) {
            // Someone else's, and so is its restart.
            continue;
        }
        // Also where the file was right: whoever wrote it may not have come to the restart.
        if *takes_restart {
            restarts.push(name.as_str());
        }
    }
    undone.file = in_order(hold.session()?, intent, &undone.left).await?;
    reload(hold.session()?).await?;
    if !restarts.is_empty() {
        undone.waiting = waiting(hold.session()?, &restarts).await?;
    }
    if !undone.waiting.is_empty() && restart.can() {
        hold.restart(restart).await?;
        undone.waiting.clear();
        undone.restarted = true;
    }
    Ok(())
}

/// Takes the server; waits a while where it starts or stops.
async fn reach(intent: &Intent, hold: &mut Hold) -> Result<(), HoldError> {
    let directory = intent.server.as_ref().and_then(|server| server.data_directory.as_ref());
    let deadline = tokio::time::Instant::now() + BETWEEN;
    loop {
        let (error, failure) = match hold.ensure().await {
            Err(error @ HoldError::Query(_)) => (error, ConnectFailure::NotReady),
            Err(HoldError::Connect(error)) => {
                let failure = error.failure();
                (HoldError::Connect(error), failure)
            }
            done => return done,
        };
        let soon = match failure {
            ConnectFailure::NotReady => true,
            ConnectFailure::Refused | ConnectFailure::NoSocket => {
                directory.is_some_and(|directory| is_served(directory))
            }
            _ => false,
        };
        if !soon || tokio::time::Instant::now() > deadline {
            return Err(error);
        }
        tokio::time::sleep(POLL).await;
    }
}

/// The name of a setting as the file had it: names of any case are the same to the server.
fn as_it_stood<'a>(name: &'a str, intent: &'a Intent) -> &'a str {
    let stood = intent.order.iter().find(|stood| stood.eq_ignore_ascii_case(name));
    stood.map_or(name, String::as_str)
}

/// Whether the file holds what the change put there.
fn is_to_go_back(change: &Change, auto: &AutoConf, undone: &mut Undone) -> bool {
    let Change::Setting { name, before, after, .. } = change else { return false };
    if auto.holds(name, before.as_deref()) {
        return false;
    }
    if !auto.holds(name, after.as_deref()) {
        let of_before = shown(name, before.as_deref());
        undone.notes.push(format!(
            "{name} {} postgresql.auto.conf, neither what it was before ({of_before}) nor what was set ({}): someone has changed it since, and it is left as it is",
            match auto.get(name) {
                Some(_) => format!("is {} in", shown(name, auto.get(name))),
                None => "is no longer in".to_owned(),
            },
            shown(name, after.as_deref())
        ));
        undone.left.push(name.clone());
        return false;
    }
    true
}

/// A value for people, unless it may be secret.
fn shown<'a>(name: &str, value: Option<&'a str>) -> &'a str {
    match value {
        None => "not set",
        Some(value) if is_secret(name) || holds_password(value) => "a value that is not shown",
        Some(value) => value,
    }
}

/// Which of these settings are in force otherwise than the files say.
async fn waiting(client: &Client, names: &[&str]) -> Result<Vec<String>, String> {
    let query = "SELECT name FROM pg_catalog.pg_settings WHERE pending_restart AND name = ANY ($1)";
    let rows = client.query(query, &[&names]).await.map_err(|error| told(&error))?;
    rows.iter().map(|row| row.get(0)).collect::<Result<_, _>>().map_err(|error| told(&error))
}

/// Puts the settings of the file in the order in which they stood, so that it is again
/// what it was, byte by byte. Begun anew after a crash it goes on. Gives what differs
/// where that cannot be: the order of the lines means nothing to the server.
async fn in_order(
    client: &Client,
    intent: &Intent,
    left: &[String],
) -> Result<Option<String>, String> {
    let Some(auto) = auto_conf(client).await else { return Ok(None) };
    let by_hand = intent.by_hand.then(|| {
        "postgresql.auto.conf had been edited by hand: its settings, their values and their order are as before; its comments, layout and lines that stood twice went with the first ALTER SYSTEM".to_owned()
    });
    let moved = auto.moved(&intent.order, left);
    let mut quiet = false;
    let mut why = None;
    for name in &moved {
        let value = auto.get(name).unwrap_or_default();
        let secret = is_secret(name) || holds_password(value);
        why = match secret && !quiet {
            true => not_quiet(client).await,
            false => None,
        };
        quiet |= secret && why.is_none();
        if why.is_none() && is_list(name) {
            why = not_the_same(client, name, value).await;
        }
        if why.is_none() && alter_system(client, name, Some(value)).await.is_err() {
            if client.is_closed() {
                return Err("the connection to the server is gone".to_owned());
            }
            // The server's words may hold the value.
            why = Some("the server refuses it".to_owned());
        }
        if let Some(why) = &mut why {
            *why = format!("{name} cannot be set once more with the value that it has: {why}");
            break;
        }
    }
    if quiet {
        client.batch_execute(LOUD).await.map_err(|error| told(&error))?;
    }
    Ok(why.map_or(by_hand, |why| {
        Some(format!(
            "the settings in postgresql.auto.conf and their values are as before, and their lines stand in another order ({why})"
        ))
    }))
}

/// Has the server write down nowhere what the session runs; why it cannot be had to.
async fn not_quiet(client: &Client) -> Option<String> {
    let query = "SELECT pg_catalog.concat_ws(',',
        pg_catalog.current_setting('shared_preload_libraries'),
        pg_catalog.current_setting('session_preload_libraries'),
        pg_catalog.current_setting('local_preload_libraries'))";
    let loaded = text(client, query).await.unwrap_or_default();
    let loaded = elements("shared_preload_libraries", &loaded);
    if let Some(other) = loaded.iter().find(|of| !of.is_empty() && !KNOWN.contains(&of.as_str())) {
        return Some(format!("it may be secret, and {other} may write statements down"));
    }
    let refused = client.batch_execute(QUIET).await.err()?;
    Some(format!("it may be secret, and the server might log it ({})", told(&refused)))
}

/// Why a list would not be what it is when its names are set once more.
async fn not_the_same(client: &Client, name: &str, list: &str) -> Option<String> {
    let query = "SELECT pg_catalog.string_agg(pg_catalog.quote_ident(one), ', ' ORDER BY place)
        FROM pg_catalog.unnest($1::pg_catalog.text[]) WITH ORDINALITY names (one, place)";
    let row = client.query_one(query, &[&elements(name, list)]).await;
    let again = row.and_then(|row| row.get::<Option<String>>(0)).ok().flatten();
    (again.as_deref() != Some(list)).then(|| "ALTER SYSTEM would write it otherwise".to_owned())
}

/// Whether two names are of one server.
pub fn is_same_server(one: &ServerIdentity, other: &ServerIdentity) -> bool {
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
            text = edited(&text, as_it_stood(name, intent), before.as_deref());
            undone.restored.push(name.clone());
        }
    }
    text = auto_conf::in_order(&text, &intent.order);
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
    replace(path, OPEN, |file| {
        file.set_permissions(fs::Permissions::from_mode(meta.mode()))?;
        std::os::unix::fs::fchown(&*file, Some(meta.uid()), Some(meta.gid()))?;
        file.write_all(text.as_bytes())
    })
}
