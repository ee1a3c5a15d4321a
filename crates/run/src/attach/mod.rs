//! A record of load that is not ours: sample while others work, and let what their
//! clients measured join the record.
//!
//! [`record`] looks for a time or while a command runs; [`add_results`] adds files of
//! client-side results to a record afterwards. The server's owner notices nothing but the
//! probe's two sessions and one that waits: nothing is written there.

mod add;
mod child;
mod error;
mod guard;
mod logs;
mod observe;
mod plan;
mod tree;
mod watch;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use walwright_figures::Summary;
use walwright_record::{
    PhaseName, Record, RunHeader, RunId, RunState, Timestamp, Warning, WarningCode, Window,
};
use walwright_server::{ConnectParams, Secret};

pub use add::add_results;
pub use error::RecordError;
pub use guard::{guard_command, ignores_hangup};
pub use plan::{CommandPlan, LogChoice, RecordPlan, Until};

use self::watch::CommandEnded;
use crate::lifetime::Interruption;
use crate::notes::{Ending, Notes};
use crate::recorder::Recorder;
use crate::{Observer, Progress};
use walwright_server::Stop;
use walwright_store::Lab;

/// What is left of it besides the record.
#[derive(Debug)]
pub struct Recorded {
    /// The record.
    pub id: RunId,
    /// How it ended.
    pub state: RunState,
    /// The command's exit code; `None` without a command, or when it was killed with
    /// its guard.
    pub code: Option<i32>,
    /// What could not be done once the load was over, such as reading a log of its
    /// clients. The record holds all else.
    pub error: Option<RecordError>,
    /// The record itself.
    pub record: Record,
    /// Its figures.
    pub summary: Summary,
}

/// Samples someone else's load and keeps the record.
///
/// # Errors
/// Whatever kept sampling from beginning; then there is no record, since it would
/// hold nothing.
pub async fn record(
    lab: &Lab,
    plan: RecordPlan,
    stop: Stop,
    observer: Arc<dyn Observer>,
) -> Result<Recorded, RecordError> {
    if let Until::CommandEnds(command) = &plan.until {
        child::find_program(command)?;
    }
    let params = ConnectParams::resolve(plan.dsn.as_ref().map(Secret::expose))?;
    let header = header(&plan, &params);
    let store = lab.store()?;
    let (recorder, thread) = Recorder::start(store.begin(&header)?);
    let notes = Notes { recorder, observer };
    let lab = lab.directory().to_owned();
    let session = Session { lab, plan, params, notes, stop };

    let ended = session.go(&header.id).await;
    let (state, why) = match &ended {
        Ok(ended) if ended.stopped => (RunState::Interrupted, Some(STOPPED.to_owned())),
        Ok(Ended { interrupted: Some(interrupted), .. }) => {
            (RunState::Interrupted, Some(interrupted.what.to_owned()))
        }
        Ok(ended) if ended.guard_killed => (RunState::Interrupted, Some(KILLED.to_owned())),
        Ok(_) => (RunState::Complete, None),
        Err(error) if error.is_interruption() => (RunState::Interrupted, Some(error.to_string())),
        Err(error) => (RunState::Failed, Some(error.to_string())),
    };
    let ending = Ending { at: Timestamp::now(), state, error: why };
    let whole = match ended {
        Ok(ended) => Ok((ended, session.notes.whole(&store, &header.id, &ending).await)),
        Err(error) => Err(error),
    };
    session.notes.finish(ending);
    // The last sender goes with the session, so that the writer's thread ends.
    drop(session);
    let written = tokio::task::spawn_blocking(move || thread.finish())
        .await
        .map_err(|_| RecordError::Internal("writing the record"))?;
    match whole {
        Err(error) => {
            if let Err(kept) = store.delete(&header.id) {
                tracing::warn!(error = %kept, "the record of nothing stays");
            }
            Err(error)
        }
        Ok((ended, whole)) => {
            written?;
            let (record, summary) = whole?;
            let Ended { code, error, .. } = ended;
            Ok(Recorded { id: header.id, state, code, error, record, summary })
        }
    }
}

/// The longest a recorded command and what it started have to end once they are asked to;
/// then they are killed.
pub const COMMAND_PATIENCE: std::time::Duration = tree::Force::PATIENCE;

/// How long all may take that comes before the first sample. Each query has a limit of its
/// own; a server that takes nearly that for each would keep whoever waits for minutes.
const TO_BEGIN: Duration = Duration::from_secs(60);

/// Why an interrupted record is one.
const STOPPED: &str = "it was stopped before its planned end";

/// The same, where someone killed the process that guards the command.
const KILLED: &str = "the process that guards the command was killed, so the command was ended";

fn header(plan: &RecordPlan, params: &ConnectParams) -> RunHeader {
    let started = Timestamp::now();
    RunHeader {
        id: RunId::new(started, (started.0 as u32).rotate_left(7) ^ std::process::id()),
        started,
        ended: None,
        state: RunState::Running,
        walwright_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: plan.command_line.clone(),
        label: plan.label.clone(),
        workload: match &plan.until {
            Until::Elapsed(_) => "observed load".to_owned(),
            Until::CommandEnds(command) => {
                format!("load of {}", child::name_of_load(command))
            }
        },
        target: params.address(),
        error: None,
    }
}

/// How a record ended that had begun.
struct Ended {
    stopped: bool,
    /// What happened to the server meanwhile.
    interrupted: Option<Interruption>,
    guard_killed: bool,
    code: Option<i32>,
    error: Option<RecordError>,
}

/// What every stage needs.
struct Session {
    lab: PathBuf,
    plan: RecordPlan,
    params: ConnectParams,
    notes: Notes,
    stop: Stop,
}

impl Session {
    async fn go(&self, id: &RunId) -> Result<Ended, RecordError> {
        for text in self.params.warnings() {
            self.notes.warn(Warning::new(WarningCode::NotObservable, text.clone()));
        }
        self.notes.phase(PhaseName::Prepare);
        let beginning = async {
            let ready = observe::prepare(self).await?;
            let begun = Timestamp::now();
            Ok::<_, RecordError>((begun, ready.begin(self).await?))
        };
        let (begun, observation) = tokio::select! {
            begun = tokio::time::timeout(TO_BEGIN, beginning) => {
                begun.map_err(|_| RecordError::Slow { limit: TO_BEGIN })??
            }
            () = self.stop.requested() => return Err(RecordError::Stopped),
        };
        self.notes.phase_at(PhaseName::Measure, begun);
        let mut watched = watch::watch(self, begun).await?;
        let interrupted = observation.end(self).await;
        // The last samples lie inside.
        let ended = Timestamp::now();
        self.notes.phase_at(PhaseName::Collect, ended);
        let CommandEnded { code, guard_killed } = watched.finish(self).await;
        let recorded = Window { start: begun, end: ended };
        let error = self.join_logs(id, recorded).await.err();
        Ok(Ended { stopped: watched.stopped, interrupted, guard_killed, code, error })
    }

    /// Lets the clients' logs join, and sets the window.
    async fn join_logs(&self, id: &RunId, recorded: Window) -> Result<(), RecordError> {
        let joined = if self.plan.logs.is_empty() {
            Ok(None)
        } else {
            self.notes.observer.event(Progress::Step("reading the logs of the clients"));
            let choices = self.plan.logs.clone();
            tokio::task::spawn_blocking(move || {
                logs::read(&choices, Some(recorded.start), recorded)
            })
            .await
            .map_err(|_| RecordError::Internal("reading the logs of the clients"))?
            .map(Some)
        };
        let covered = joined.as_ref().ok().and_then(|joined| joined.as_ref()?.covered);
        let window = covered.unwrap_or(recorded);
        let start = window.start.plus(self.plan.warm_up).min(window.end);
        let warmed = !self.plan.warm_up.is_zero();
        self.notes.recorder.write(move |writer| {
            if warmed {
                writer.set_phase(PhaseName::WarmUp, window.start, start)?;
            }
            writer.set_phase(PhaseName::Measure, start, window.end)
        });
        match joined {
            Ok(None) => Ok(()),
            Ok(Some(joined)) => {
                for warning in logs::warnings(&joined) {
                    self.notes.observer.event(Progress::Warning(&warning));
                }
                self.notes.recorder.write(move |writer| logs::write(&joined, writer));
                Ok(())
            }
            Err(error) => {
                let warning = Warning::new(
                    WarningCode::ClientLog,
                    format!("what the clients measured is not in the record: {error}"),
                )
                .hint(format!("walwright record --add-to {id} --client-log FILE adds it"));
                self.notes.warn(warning);
                Err(error)
            }
        }
    }
}
