//! The attached server in a maintenance window: changed for the length of one run, and
//! brought back after it.
//!
//! Settings go in by `ALTER SYSTEM`, statements are run; both are noted in the ledger of
//! changes before, read back, and undone when the run has ended, however it ended. What a
//! killed process left is undone when its work goes on, or by `walwright config rollback`.
//! The data stay as they are, unless the workload's tables are filled before every run.

use std::fmt;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::unistd::{AccessFlags, access};
use tokio::sync::Mutex;
use walwright_catalog::{Entry, Profile};
use walwright_config::{
    ApplyError, ApplyPlan, Hold, HoldError, NotApplied, Restart, ServerView, UndoError,
    is_same_server, make_changes, undo_changes, unfinished,
};
use walwright_run::{Observer, RunError, RunPlan, ServerAddress, TargetPlan, Window, fill};
use walwright_server::{ConnectParams, Stop};
use walwright_store::Lab;
use walwright_store::ledger::{
    Change, ChangeSet, Intent, Ledger, LedgerError, ServerIdentity, State,
};

use super::maintenance::{Maintenance, OnServer};
use super::permission::Permission;
use super::{Configuration, ExperimentError};

/// What the purpose of a run's set in the ledger ends with.
const PURPOSE: &str = "on an attached server";

/// A server that one bench works on.
pub struct AttachedServer {
    maintenance: Maintenance,
    params: ConnectParams,
    identity: ServerIdentity,
    /// Whether it runs on this machine.
    local: bool,
    ledger: Ledger,
    /// Tells its sets in the ledger from all others.
    purpose: String,
    /// Whether some run needs a restart. Then all have one: a server that has just started
    /// has cold caches, and no arm may have them alone.
    restarts: AtomicBool,
    /// Whether the server has been restarted since the last run.
    fresh: AtomicBool,
    /// Held as long as this process works on the server: two would change each other's
    /// settings.
    hold: Mutex<Hold>,
}

impl fmt::Debug for AttachedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttachedServer").field("identity", &self.identity).finish_non_exhaustive()
    }
}

impl AttachedServer {
    /// Reaches the server, for the bench called `name`. Changes nothing there.
    ///
    /// # Errors
    /// When it cannot be reached, another process works on it, or it is no server whose
    /// settings can be changed.
    pub async fn visit(
        lab: &Lab,
        maintenance: &Maintenance,
        name: &str,
    ) -> Result<(AttachedServer, ServerView), ExperimentError> {
        let params =
            ConnectParams::resolve(Some(maintenance.dsn.expose())).map_err(RunError::from)?;
        let hold = Hold::take(&params).await.map_err(not_held)?;
        let client = walwright_server::connect(&params).await.map_err(RunError::from)?;
        let view = ServerView::of(&client, &params).await.map_err(RunError::from)?;
        let standby = client.query_one("SELECT pg_catalog.pg_is_in_recovery()", &[]).await;
        if standby.and_then(|row| row.get(0)).unwrap_or(false) {
            let why = "it is a standby, on which nothing can be written: name its primary";
            return Err(refused(why));
        }
        let attached = AttachedServer {
            maintenance: maintenance.clone(),
            params,
            identity: view.identity.clone(),
            local: view.scope.local,
            ledger: Ledger::of(lab),
            purpose: purpose(name),
            restarts: AtomicBool::new(false),
            fresh: AtomicBool::new(false),
            hold: Mutex::new(hold),
        };
        Ok((attached, view))
    }

    /// Which server it is.
    pub(crate) fn identity(&self) -> &ServerIdentity {
        &self.identity
    }

    /// It as a state on disk keeps it.
    pub fn kept(&self) -> OnServer {
        OnServer { identity: self.identity.clone(), filled: self.maintenance.init }
    }

    /// How it is reached.
    pub fn params(&self) -> &ConnectParams {
        &self.params
    }

    /// Whether there is a way to restart it.
    pub fn can_restart(&self) -> bool {
        self.maintenance.restart_command.is_some()
    }

    /// Has every run begin with a restart, as some need one.
    pub fn restart_before_runs(&self) {
        self.restarts.store(true, Ordering::Release);
    }

    /// Where a run is made.
    pub(super) fn target(&self) -> TargetPlan {
        TargetPlan::Attached {
            server: ServerAddress::Dsn(self.maintenance.dsn.clone()),
            init: false,
            replace: Vec::new(),
            window: Some(Window { filled: self.maintenance.init }),
        }
    }

    /// Checks that every run of a configuration can be made, before the first of any. Gives
    /// whether each restarts the server for its changes.
    ///
    /// # Errors
    /// With the first thing that stands in the way.
    pub async fn check(&self, whole: &Configuration) -> Result<bool, ExperimentError> {
        let shapes_data = !whole.options.is_empty() || !whole.define.is_empty();
        if shapes_data && !self.maintenance.init {
            return Err(refused(
                "options and variables of the workload shape its data, which are there already: --init fills its tables before every run",
            ));
        }
        if !self.local && !whole.kernel.is_empty() {
            return Err(refused("values of the kernel: the server is not on this machine"));
        }
        let intent = self.intent(whole).await?;
        unfinished(&self.ledger, &intent).map_err(|error| refused(&error.to_string()))?;
        self.unchanged()?;
        if let Some(change) = intent.changes.iter().find(|change| takes_restart(change)) {
            if !self.can_restart() {
                return Err(refused(&format!(
                    "{} takes a restart of the server: give a command that restarts it with --restart-command, or leave it out",
                    change.name()
                )));
            }
            self.restart_before_runs();
        }
        let restarts = intent.changes.iter().any(takes_restart);
        let names = intent.changes.iter().filter(|c| matches!(c, Change::Setting { .. }));
        let names: Vec<&str> = names.map(Change::name).collect();
        if names.is_empty() {
            return Ok(restarts);
        }
        let permission = Permission::of(&self.params, &names).await?;
        match names.into_iter().find_map(|name| permission.missing(name)) {
            Some(why) => Err(refused(&why)),
            None => Ok(restarts),
        }
    }

    /// Refuses to build on what a killed run of another bench has changed.
    fn unchanged(&self) -> Result<(), ExperimentError> {
        let sets = self.ledger.sets().map_err(|error| refused(&error.to_string()))?;
        let another = sets.iter().find(|set| {
            let here =
                set.intent.server.as_ref().map(|server| is_same_server(server, &self.identity));
            set.state == State::Done
                && set.intent.purpose.ends_with(PURPOSE)
                && set.intent.purpose != self.purpose
                && here == Some(true)
        });
        match another {
            None => Ok(()),
            Some(set) => Err(refused(&format!(
                "{} was killed and left changes: resume it, or undo them with `walwright config rollback {}`",
                set.intent.purpose, set.id
            ))),
        }
    }

    /// What a run of this configuration changes on the server, as it is now.
    async fn intent(&self, whole: &Configuration) -> Result<Intent, ExperimentError> {
        let view = self.view().await?;
        let plan = ApplyPlan::of(&profile(whole)?, Some(&view), None);
        if let Some(NotApplied { title, value, why }) =
            plan.refused.iter().chain(&plan.by_hand).chain(&plan.skipped).next()
        {
            return Err(refused(&format!("{title} = {value}: {why}")));
        }
        let mut intent = plan.intent(&self.purpose, Some(&view), "/".as_ref());
        for sql in &whole.ddl {
            let undo = whole.undo.get(sql).ok_or_else(|| {
                refused(&format!(
                    "the data of an attached server are not restored, so a statement needs its undo: write {{ sql = \"{}\", undo = \"…\" }}",
                    sql.trim()
                ))
            })?;
            intent.changes.push(Change::Statement {
                sql: sql.clone(),
                undo: undo.clone(),
                database: self.params.dbname().to_owned(),
            });
        }
        Ok(intent)
    }

    /// Fills the workload's tables, where that is agreed to.
    ///
    /// # Errors
    /// When that fails.
    pub(super) async fn fill(
        &self,
        plan: &RunPlan,
        stop: &Stop,
        observer: &Arc<Observer>,
    ) -> Result<(), ExperimentError> {
        match self.maintenance.init {
            true => {
                self.hold.lock().await.ensure().await.map_err(not_held)?;
                let replace = &self.maintenance.replace;
                Ok(fill(plan, &self.params, replace, stop, observer).await?)
            }
            false => Ok(()),
        }
    }

    /// Makes the changes of a run and reads them back. Gives the set in the ledger, if
    /// anything was changed.
    ///
    /// # Errors
    /// When one cannot be made; then what was before is there again, or it is said that it
    /// is not ([`ExperimentError::ServerLeft`]).
    pub async fn set(
        &self,
        whole: &Configuration,
        stop: &Stop,
    ) -> Result<Option<u64>, ExperimentError> {
        self.hold.lock().await.ensure().await.map_err(not_held)?;
        let intent = self.intent(whole).await?;
        let restarts = intent.changes.iter().any(takes_restart);
        let set = self.make(intent, stop).await?;
        let fresh = self.fresh.swap(false, Ordering::AcqRel);
        if self.restarts.load(Ordering::Acquire) && !restarts && !fresh {
            let restarted = self.hold.lock().await.restart(&mut self.restart()).await;
            if let Err(why) = restarted {
                self.bring_back(set).await?;
                return Err(refused(&why));
            }
        }
        Ok(set)
    }

    async fn make(&self, intent: Intent, stop: &Stop) -> Result<Option<u64>, ExperimentError> {
        if intent.changes.is_empty() {
            return Ok(None);
        }
        let (mut hold, mut restart) = (self.hold.lock().await, self.restart());
        let hold = Some(&mut *hold);
        let made = make_changes(&self.ledger, hold, intent, &mut restart, stop).await;
        made.map(|made| Some(made.id)).map_err(not_made)
    }

    /// Writes settings that take no restart, reads them back and brings back what was. Says
    /// why the server does not take them.
    ///
    /// # Errors
    /// When what was there cannot be brought back, or the server cannot be asked.
    pub async fn takes(
        &self,
        settings: &Configuration,
        stop: &Stop,
    ) -> Result<Result<(), String>, ExperimentError> {
        let made = match self.intent(settings).await {
            Ok(intent) => self.make(intent, stop).await,
            Err(error) => Err(error),
        };
        match made {
            Ok(set) => self.bring_back(set).await.map(|_| Ok(())),
            Err(_) if stop.is_requested() => Err(ExperimentError::Stopped),
            Err(ExperimentError::Server(why)) => Ok(Err(why)),
            Err(error) => Err(error),
        }
    }

    /// Whether a value that the server does not start with could be taken out of its files
    /// from here.
    pub fn is_within_reach(&self) -> bool {
        let Some(directory) = &self.identity.data_directory else { return false };
        let file = File::options().append(true).open(directory.join("postgresql.auto.conf"));
        // Files are replaced whole, beside the old one.
        file.is_ok() && access(directory, AccessFlags::W_OK).is_ok()
    }

    /// The server as it is now.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub async fn view(&self) -> Result<ServerView, ExperimentError> {
        let client = walwright_server::connect(&self.params).await.map_err(RunError::from)?;
        Ok(ServerView::of(&client, &self.params).await.map_err(RunError::from)?)
    }

    /// Brings back what was before a set, once the server accepts connections. Gives what
    /// is to be known of it: someone else changed the same, or undid it.
    ///
    /// # Errors
    /// When that fails; the set stays in the ledger.
    pub async fn bring_back(&self, set: Option<u64>) -> Result<Vec<String>, ExperimentError> {
        let Some(id) = set else { return Ok(Vec::new()) };
        let mut hold = self.hold.lock().await;
        let undone = match self.undo(id, &mut hold).await {
            Ok(notes) => Ok(notes),
            // The server may have crashed under the load, and be on its way back.
            Err(_) => match hold.reconnect().await {
                Ok(()) => self.undo(id, &mut hold).await,
                Err(error) => Err(error.to_string()),
            },
        };
        let notes = undone.map_err(|why| ExperimentError::ServerLeft { id, why })?;
        notes.iter().for_each(|note| self.maintenance.remarks.left(note));
        Ok(notes)
    }

    async fn undo(&self, id: u64, hold: &mut Hold) -> Result<Vec<String>, String> {
        let set = self.ledger.set(id).map_err(|error| error.to_string())?;
        let set = set.ok_or("the ledger of changes no longer has it")?;
        if matches!(set.state, State::Undone { .. }) {
            return Ok(vec![undone_meanwhile(id)]);
        }
        let restarts = set.intent.changes.iter().any(takes_restart);
        if restarts && !self.can_restart() {
            return Err("what was set takes a restart to go back: --restart-command".to_owned());
        }
        let mut restart = self.restart();
        let undone = match undo_changes(&self.ledger, &set, Some(hold), &mut restart).await {
            Ok(undone) => undone,
            Err(UndoError::Already(_)) => return Ok(vec![undone_meanwhile(id)]),
            Err(error) => return Err(error.to_string()),
        };
        undone.file.iter().for_each(|differs| self.maintenance.remarks.file(differs));
        self.fresh.store(undone.restarted, Ordering::Release);
        Ok(undone.notes)
    }

    /// Brings back what a killed process of this bench left changed.
    ///
    /// # Errors
    /// When that fails; `walwright config rollback` tries again.
    pub async fn recover(&self) -> Result<(), ExperimentError> {
        let failed = |error: &dyn fmt::Display| refused(&error.to_string());
        let sets = self.ledger.sets().map_err(|error| failed(&error))?;
        for set in sets.iter().rev().filter(|set| set.intent.purpose == self.purpose) {
            if set.state == State::Done || set.is_cut_short() {
                for note in self.bring_back(Some(set.id)).await? {
                    tracing::warn!("{note}");
                }
            }
        }
        // It may have been killed before its restart.
        self.fresh.store(false, Ordering::Release);
        Ok(())
    }

    /// When the server was started; `None` where it cannot be asked.
    pub(super) async fn started(&self) -> Option<String> {
        let client = walwright_server::connect(&self.params).await.ok()?;
        let started = "SELECT pg_catalog.pg_postmaster_start_time()::pg_catalog.text";
        client.query_one(started, &[]).await.ok()?.get(0).ok()?
    }

    /// Waits until the server accepts connections, after a run that failed.
    ///
    /// # Errors
    /// When it does not in time: then the fault is not the configuration's.
    pub(super) async fn wait(&self) -> Result<(), ExperimentError> {
        match self.hold.lock().await.reconnect().await {
            Err(HoldError::Connect(error)) => {
                Err(ExperimentError::ServerGone { why: error.to_string() })
            }
            done => done.map_err(not_held),
        }
    }

    /// Whether nobody else can have changed it since a run began; if not, why.
    pub(super) async fn is_ours(&self) -> Result<(), String> {
        self.hold.lock().await.still().await
    }

    fn restart(&self) -> Restart {
        match &self.maintenance.restart_command {
            Some(command) => Restart::Command(command.clone()),
            None => Restart::Never,
        }
    }
}

/// What the sets of the bench called `name` are for.
fn purpose(name: &str) -> String {
    format!("one run of {name} {PURPOSE}")
}

/// The set of changes that a killed run of the bench called `name` left on someone's
/// server.
///
/// # Errors
/// When the ledger cannot be read.
pub fn left_by(lab: &Lab, name: &str) -> Result<Option<u64>, LedgerError> {
    let purpose = purpose(name);
    let sets = Ledger::of(lab).sets()?;
    let stands = |set: &ChangeSet| set.state == State::Done || set.is_cut_short();
    Ok(sets.iter().find(|set| set.intent.purpose == purpose && stands(set)).map(|set| set.id))
}

fn takes_restart(change: &Change) -> bool {
    matches!(change, Change::Setting { restart: true, .. })
}

fn undone_meanwhile(id: u64) -> String {
    format!("someone has undone its change set {id} meanwhile")
}

fn not_held(error: HoldError) -> ExperimentError {
    match error {
        HoldError::Connect(error) => ExperimentError::Run(error.into()),
        other => ExperimentError::Held(other.to_string()),
    }
}

fn refused(why: &str) -> ExperimentError {
    ExperimentError::Server(why.to_owned())
}

fn not_made(error: ApplyError) -> ExperimentError {
    match error {
        ApplyError::Stuck { id, why, what } => {
            ExperimentError::ServerLeft { id, why: format!("{what}; {why}") }
        }
        ApplyError::Undone { what, notes, .. } => {
            refused(&notes.iter().fold(what, |told, note| format!("{told}; {note}")))
        }
        ApplyError::Ledger(error) => ExperimentError::Ledger(error),
        ApplyError::Hold(error) => not_held(error),
        error @ ApplyError::Unfinished { .. } => ExperimentError::ChangesStand(error.to_string()),
        other => refused(&other.to_string()),
    }
}

/// The settings of a configuration as values of the catalogue.
fn profile(whole: &Configuration) -> Result<Profile, ExperimentError> {
    let mut profile = Profile::default();
    for (name, value) in &whole.settings {
        let entry = Entry::new(name, value, None);
        profile.set(entry.map_err(|error| refused(&error.to_string()))?);
    }
    Ok(profile)
}

#[cfg(test)]
mod tests;
