//! Making a set of changes: noted first, made, read back; undone when anything fails.

use walwright_catalog::{DurabilityClass, holds_password, is_secret, parameter};
use walwright_server::{ConnectParams, Stop};
use walwright_store::ledger::{Change, ChangeSet, Intent, Ledger, LedgerError, Outcome};

use super::alter_system::{alter_system, auto_conf, reload};
use super::check::holds;
use super::hold::{Hold, HoldError};
use super::kernel_file::{is_kept, write_kernel};
use super::queue::{is_only_noted, scheduler_first};
use super::restart::Restart;
use super::undone::Undone;
use super::{statements, undo};

/// What a set of changes came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Made {
    /// The set in the ledger.
    pub id: u64,
    /// Names that were set and wait for a restart.
    pub waiting: Vec<String>,
}

/// Why a set of changes was not made.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The ledger; what was before is there.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The server cannot be reached, or another process works on it; nothing was changed.
    #[error(transparent)]
    Hold(#[from] HoldError),
    /// What is never changed; nothing was.
    #[error("{0}; nothing was changed")]
    Refused(String),
    /// An earlier set on the same server or machine has no end.
    #[error("change set {id} ({purpose}) {state}")]
    Unfinished {
        /// Its number.
        id: u64,
        /// What it was for.
        purpose: String,
        /// Whether it was cut short or is in progress, and what to do.
        state: String,
    },
    /// Something failed, and what was before is there again.
    #[error("{what}; all changes were undone (change set {id}){}", noted(notes))]
    Undone {
        /// The set.
        id: u64,
        /// What failed.
        what: String,
        /// What to know of the undoing.
        notes: Vec<String>,
    },
    /// Something failed, and undoing it failed too.
    #[error(
        "{what}; undoing it failed too: {why}. fix that, then run `walwright config rollback {id}`"
    )]
    Stuck {
        /// The set.
        id: u64,
        /// What failed.
        what: String,
        /// Why it could not be undone.
        why: String,
    },
}

/// Makes changes. They are noted in the ledger before the first, and read back after the
/// last. When one fails, or `stop` asks, all are undone.
///
/// # Errors
/// When nothing was changed, or what was changed has been undone, or could not be.
pub async fn make_changes(
    ledger: &Ledger,
    mut hold: Option<&mut Hold>,
    intent: Intent,
    restart: &mut Restart,
    stop: &Stop,
) -> Result<Made, ApplyError> {
    refused(&intent)?;
    // The server is taken before anything is noted.
    if let Some(hold) = hold.as_deref_mut().filter(|_| needs_server(&intent)) {
        hold.ensure().await?;
    }
    unfinished(ledger, &intent)?;
    let set = ledger.begin(scheduler_first(intent))?;
    let id = set.id;
    let executed = execute(ledger, &set, hold.as_deref_mut(), restart, stop).await;
    let (what, not_noted) = match executed.map(|waiting| (waiting, ledger.end(id, Outcome::Done))) {
        Ok((waiting, Ok(()))) => return Ok(Made { id, waiting }),
        Ok((_, Err(error))) => (error.to_string(), Some(error)),
        Err(what) => (what, None),
    };
    match unmake(ledger, set, hold, restart).await {
        Ok(Undone { notes, left, .. }) => {
            ledger.end(id, Outcome::Undone { why: what.clone(), left })?;
            Err(match not_noted {
                Some(error) => ApplyError::Ledger(error),
                None => ApplyError::Undone { id, what, notes },
            })
        }
        Err(why) => Err(ApplyError::Stuck { id, what, why }),
    }
}

/// Undoes what was made of a set.
async fn unmake(
    ledger: &Ledger,
    set: ChangeSet,
    hold: Option<&mut Hold>,
    restart: &mut Restart,
) -> Result<Undone, String> {
    // How far its statements came was noted meanwhile. Settings and files can be read back.
    let (set, unknown) = match ledger.set(set.id) {
        Ok(Some(noted)) => (noted, None),
        Ok(None) => (set, Some("the ledger of changes does not hold the set".to_owned())),
        Err(error) => (set, Some(error.to_string())),
    };
    let undone = undo::restore(ledger, &set, hold, restart).await?;
    match unknown.filter(|_| statements::has_statements(&set)) {
        Some(why) => Err(format!("it is unknown which statements were run: {why}")),
        None => Ok(undone),
    }
}

/// Notes as the end of a sentence.
fn noted(notes: &[String]) -> String {
    notes.iter().map(|note| format!("; {note}")).collect()
}

/// Refuses what can corrupt, whoever asks, and what the ledger must not hold.
fn refused(intent: &Intent) -> Result<(), ApplyError> {
    for change in &intent.changes {
        let name = change.name();
        if is_secret(name) {
            return Err(ApplyError::Refused(format!("{name} may hold a password")));
        }
        if let Change::Setting { before: Some(before), .. } = change
            && holds_password(before)
        {
            let why = format!("{name} holds a password, which the ledger of changes would keep");
            return Err(ApplyError::Refused(why));
        }
        let value = match change {
            Change::Setting { after, .. } => after.as_deref(),
            Change::Kernel { after, .. } => Some(after.as_str()),
            // Its consent is whoever makes the set's to see to.
            Change::Statement { .. } => None,
        };
        let Some((parameter, value)) = parameter(name).zip(value) else { continue };
        if parameter.class_of(value) == DurabilityClass::X {
            let loss = parameter.weakness(value).unwrap_or_default();
            return Err(ApplyError::Refused(format!("{name} = {value} is of class X: {loss}")));
        }
    }
    Ok(())
}

fn needs_server(intent: &Intent) -> bool {
    intent.changes.iter().any(|change| !matches!(change, Change::Kernel { .. }))
}

/// Refuses to build on changes of which nobody knows how far they went.
pub fn unfinished(ledger: &Ledger, intent: &Intent) -> Result<(), ApplyError> {
    for set in ledger.sets()? {
        let id = set.id;
        let state = match (set.is_in_progress(), set.is_cut_short()) {
            (true, _) => {
                format!("is in progress in process {}: wait for it, or end it first", set.pid())
            }
            (_, true) => {
                format!("was cut short: undo it first with walwright config rollback {id}")
            }
            _ => continue,
        };
        let touches = |name: &str| intent.changes.iter().any(|change| change.name() == name);
        let shared = match (&set.intent.server, &intent.server) {
            (Some(one), Some(other)) => undo::is_same_server(one, other),
            _ => set.intent.changes.iter().any(|change| touches(change.name())),
        };
        if shared {
            let purpose = set.intent.purpose;
            return Err(ApplyError::Unfinished { id, purpose, state });
        }
    }
    Ok(())
}

async fn execute(
    ledger: &Ledger,
    set: &ChangeSet,
    hold: Option<&mut Hold>,
    restart: &mut Restart,
    stop: &Stop,
) -> Result<Vec<String>, String> {
    let go_on = || if stop.is_requested() { Err("it was interrupted".to_owned()) } else { Ok(()) };
    let written = || set.intent.changes.iter().filter(|change| !is_only_noted(change));
    for change in written() {
        if let Change::Kernel { name, path, after, .. } = change {
            go_on()?;
            write_kernel(name, path, after)?;
        }
    }
    // Once more when all is written: one value may have taken another with it.
    for change in written() {
        if let Change::Kernel { name, path, after, .. } = change {
            is_kept(name, path, after)?;
        }
    }
    if !needs_server(&set.intent) {
        return Ok(Vec::new());
    }
    let hold = hold.ok_or("a server is to be changed, and none is named")?;
    let waiting = settings(set, hold, restart, go_on).await?;
    statements::make(ledger, set, hold, go_on).await?;
    Ok(waiting)
}

/// Sets the settings of a set. Gives those that wait for a restart.
async fn settings(
    set: &ChangeSet,
    hold: &mut Hold,
    restart: &mut Restart,
    go_on: impl Fn() -> Result<(), String>,
) -> Result<Vec<String>, String> {
    let settings: Vec<&Change> =
        set.intent.changes.iter().filter(|c| matches!(c, Change::Setting { .. })).collect();
    if settings.is_empty() {
        return Ok(Vec::new());
    }
    for change in &settings {
        go_on()?;
        if let Change::Setting { name, after, .. } = change {
            alter_system(hold.session()?, name, after.as_deref()).await?;
        }
    }
    go_on()?;
    reload(hold.session()?).await?;
    let written =
        auto_conf(hold.session()?).await.ok_or("postgresql.auto.conf cannot be read back")?;
    for change in &settings {
        if let Change::Setting { name, after, .. } = change
            && !written.holds(name, after.as_deref())
        {
            return Err(format!("postgresql.auto.conf does not hold {name} as it was set"));
        }
    }
    in_force(hold.params(), &settings, false).await?;
    let waits = |change: &&&Change| matches!(change, Change::Setting { restart: true, .. });
    let waiting: Vec<String> =
        settings.iter().filter(waits).map(|change| change.name().to_owned()).collect();
    if waiting.is_empty() || !restart.can() {
        return Ok(waiting);
    }
    go_on()?;
    hold.restart(restart).await?;
    in_force(hold.params(), &settings, true).await?;
    Ok(Vec::new())
}

/// Reads settings back from the server itself, in a new session: some hold from the start
/// of one. Those of a restart, or the others.
async fn in_force(
    params: &ConnectParams,
    settings: &[&Change],
    restarts: bool,
) -> Result<(), String> {
    let shown = walwright_probe::settings(params).await.map_err(|error| error.to_string())?;
    for change in settings {
        let Change::Setting { name, after: Some(after), restart, .. } = change else { continue };
        if *restart != restarts {
            continue;
        }
        let Some(setting) = shown.iter().find(|s| s.name.eq_ignore_ascii_case(name)) else {
            return Err(format!("the server does not show {name}"));
        };
        // What the catalogue does not know is the server's own affair: the file holds it.
        if parameter(name).is_some_and(|parameter| !holds(parameter, after, setting)) {
            return Err(format!(
                "{name} was set to {after}, and the server says {}",
                setting.shown
            ));
        }
    }
    Ok(())
}
