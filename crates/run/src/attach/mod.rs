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
mod session;
mod tree;
mod watch;

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

use self::session::Session;
use self::watch::CommandEnded;
use crate::lifecycle::{self, Filled};
use crate::lifetime::Interruption;
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
    observer: Arc<Observer>,
) -> Result<Recorded, RecordError> {
    if let Until::CommandEnds(command) = &plan.until {
        child::find_program(command)?;
    }
    let params = ConnectParams::resolve(plan.dsn.as_ref().map(Secret::expose))?;
    let header = header(&plan, &params);
    let directory = lab.directory().to_owned();
    let fill = async |notes| {
        let session = Session { lab: directory, plan, params, notes, stop };
        let ended = go(&session, &header.id).await;
        let (state, why) = match &ended {
            Ok(ended) if ended.stopped => (RunState::Interrupted, Some(STOPPED.to_owned())),
            Ok(Ended { interrupted: Some(interrupted), .. }) => {
                (RunState::Interrupted, Some(interrupted.what.to_owned()))
            }
            Ok(ended) if ended.guard_killed => (RunState::Interrupted, Some(KILLED.to_owned())),
            Ok(_) => (RunState::Complete, None),
            Err(error) if error.is_interruption() => {
                (RunState::Interrupted, Some(error.to_string()))
            }
            Err(error) => (RunState::Failed, Some(error.to_string())),
        };
        let is_worth_keeping = ended.is_ok();
        Filled { result: (state, ended), state, why, is_worth_keeping }
    };
    let ((state, ended), whole) = lifecycle::filled(lab, &header, observer, fill).await?;
    let Ended { code, error, .. } = ended?;
    let (record, summary) = whole.ok_or(RecordError::Internal("the record"))?;
    Ok(Recorded { id: header.id, state, code, error, record, summary })
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

async fn go(session: &Session, id: &RunId) -> Result<Ended, RecordError> {
    for text in session.params.warnings() {
        session.notes.warn(Warning::new(WarningCode::NotObservable, text.clone()));
    }
    session.notes.phase(PhaseName::Prepare);
    let beginning = async {
        let ready = observe::prepare(session).await?;
        let begun = Timestamp::now();
        Ok::<_, RecordError>((begun, ready.begin(session).await?))
    };
    let (begun, observation) = tokio::select! {
        begun = tokio::time::timeout(TO_BEGIN, beginning) => {
            begun.map_err(|_| RecordError::Slow { limit: TO_BEGIN })??
        }
        () = session.stop.requested() => return Err(RecordError::Stopped),
    };
    session.notes.phase_at(PhaseName::Measure, begun);
    let mut watched = watch::watch(session, begun).await?;
    let interrupted = observation.end(session).await;
    // The last samples lie inside.
    let ended = Timestamp::now();
    session.notes.phase_at(PhaseName::Collect, ended);
    let CommandEnded { code, guard_killed } = watched.finish(session).await;
    let recorded = Window { start: begun, end: ended };
    let error = join_logs(session, id, recorded).await.err();
    Ok(Ended { stopped: watched.stopped, interrupted, guard_killed, code, error })
}

/// Lets the clients' logs join, and sets the window.
async fn join_logs(session: &Session, id: &RunId, recorded: Window) -> Result<(), RecordError> {
    let joined = if session.plan.logs.is_empty() {
        Ok(None)
    } else {
        session.notes.observer.event(Progress::Step("reading the logs of the clients"));
        let choices = session.plan.logs.clone();
        tokio::task::spawn_blocking(move || logs::read(&choices, Some(recorded.start), recorded))
            .await
            .map_err(|_| RecordError::Internal("reading the logs of the clients"))?
            .map(Some)
    };
    let covered = joined.as_ref().ok().and_then(|joined| joined.as_ref()?.covered);
    let window = covered.unwrap_or(recorded);
    let start = window.start.plus(session.plan.warm_up).min(window.end);
    let warmed = !session.plan.warm_up.is_zero();
    session.notes.recorder.write(move |writer| {
        if warmed {
            writer.set_phase(PhaseName::WarmUp, window.start, start)?;
        }
        writer.set_phase(PhaseName::Measure, start, window.end)
    });
    match joined {
        Ok(None) => Ok(()),
        Ok(Some(joined)) => {
            for warning in logs::warnings(&joined) {
                session.notes.observer.event(Progress::Warning(&warning));
            }
            session.notes.recorder.write(move |writer| logs::write(&joined, writer));
            Ok(())
        }
        Err(error) => {
            let warning = Warning::new(
                WarningCode::ClientLog,
                format!("what the clients measured is not in the record: {error}"),
            )
            .hint(format!("walwright record --add-to {id} --client-log FILE adds it"));
            session.notes.warn(warning);
            Err(error)
        }
    }
}
