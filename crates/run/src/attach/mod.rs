//! A record of load that is not ours: sample while others work, and let what their
//! clients measured join the record.
//!
//! [`record`] looks for a time or while a command runs; [`add_results`] adds files of
//! client-side results to a record afterwards. The server's owner notices nothing but the
//! probe's two sessions and one that waits: nothing is written there.

mod add;
mod capture;
pub(crate) mod child;
mod error;
mod gateway_metrics;
mod guard;
mod input;
mod logs;
mod metrics_reader;
mod observe;
mod plan;
mod pool_wait;
mod printing;
mod session;
mod tree;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use walwright_figures::Summary;
use walwright_record::{
    PhaseName, Record, RunHeader, RunId, RunState, Timestamp, Warning, WarningCode, Window,
};
use walwright_results::{Joined, Results, join};
use walwright_server::ConnectParams;

pub use add::add_results;
pub use error::RecordError;
pub use gateway_metrics::GatewayChoice;
pub(crate) use gateway_metrics::GatewayMetrics;
pub use guard::{guard_command, ignores_hangup};
pub use plan::{CommandPlan, LogChoice, RecordPlan, Until};
pub(crate) use pool_wait::PoolWait;
pub use pool_wait::PoolWaitPlan;
pub use printing::Printing;

use self::input::Input;
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
    let params = match &plan.server {
        Some(server) => server.params()?,
        None => ConnectParams::resolve(None)?,
    };
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
            Until::Elapsed(_) | Until::InputEnds => "observed load".to_owned(),
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
    let pool_wait = session.plan.pool_wait.as_ref();
    let pool_wait = pool_wait.map(|plan| PoolWait::begin(plan, &session.notes));
    let gateway = GatewayMetrics::begin(session.gateway(), &session.notes);
    let watched = watch::watch(session, begun).await;
    if let Some(pool_wait) = pool_wait {
        pool_wait.end().await;
    }
    gateway.end().await;
    let mut watched = watched?;
    let interrupted = observation.end(session).await;
    // The last samples lie inside.
    let ended = Timestamp::now();
    session.notes.phase_at(PhaseName::Collect, ended);
    let CommandEnded { code, guard_killed, printed, input } = watched.finish(session).await;
    let recorded = Window { start: begun, end: ended };
    let error = join_logs(session, id, recorded, printed, input).await.err();
    Ok(Ended { stopped: watched.stopped, interrupted, guard_killed, code, error })
}

/// Lets join what the clients measured, and sets the window: the files that were named,
/// otherwise the logs that the command's pgbench wrote, otherwise what its tool printed.
async fn join_logs(
    session: &Session,
    id: &RunId,
    recorded: Window,
    printed: Option<Results>,
    input: Option<Input>,
) -> Result<(), RecordError> {
    let (joined, error) = match of_files(session, recorded, input).await {
        Ok(joined) => (joined, None),
        Err(error) => {
            let text = format!("what the clients measured is not in the record: {error}");
            let warning = Warning::new(WarningCode::ClientLog, text);
            // A study's files go when its run ends.
            let warning = match session.plan.expects_results {
                true => warning,
                false => warning
                    .hint(format!("walwright record --add-to {id} --client-log FILE adds it")),
            };
            session.notes.warn(warning);
            (None, Some(error))
        }
    };
    // What was printed is that much at least, whatever became of the files.
    let joined = joined.or_else(|| of_printed(session, printed?, recorded));
    if joined.is_none() && error.is_none() && session.plan.expects_results {
        let text = "the load tool printed no results that are known here, so what is told of the \
                    load is what the server committed";
        session.notes.warn(
            Warning::new(WarningCode::ClientLog, text)
                .hint("`walwright record --help` lists the tools and formats that are read"),
        );
    }
    let covered = joined.as_ref().and_then(|joined| joined.covered);
    let window = covered.unwrap_or(recorded);
    let start = window.start.plus(session.plan.warm_up).min(window.end);
    let warmed = !session.plan.warm_up.is_zero();
    session.notes.recorder.write(move |writer| {
        if warmed {
            writer.set_phase(PhaseName::WarmUp, window.start, start)?;
        }
        writer.set_phase(PhaseName::Measure, start, window.end)
    });
    if let Some(joined) = joined {
        for warning in logs::warnings(&joined) {
            session.notes.observer.event(Progress::Warning(&warning));
        }
        session.notes.recorder.write(move |writer| logs::write(&joined, writer));
    }
    error.map_or(Ok(()), Err)
}

/// What the files hold that were named or that the command's pgbench wrote; `None` without any.
async fn of_files(
    session: &Session,
    recorded: Window,
    input: Option<Input>,
) -> Result<Option<Joined>, RecordError> {
    let named = session.plan.logs.clone();
    if !named.is_empty() {
        session.notes.observer.event(Progress::Step("reading the logs of the clients"));
        return read_logs(named, recorded, input).await.map(Some);
    }
    let Until::CommandEnds(command) = &session.plan.until else { return Ok(None) };
    let found = logs::of_pgbench(&command.words, recorded);
    if found.is_empty() {
        return Ok(None);
    }
    session.notes.observer.event(Progress::Step("reading the logs that pgbench wrote"));
    match read_logs(found, recorded, None).await {
        Ok(joined) => Ok(Some(joined)),
        // Nobody asked for them, so what they lack is no failure.
        Err(error) => {
            let text = format!("the log that pgbench wrote is left out: {error}");
            session.notes.warn(Warning::new(WarningCode::ClientLog, text));
            Ok(None)
        }
    }
}

async fn read_logs(
    choices: Vec<LogChoice>,
    recorded: Window,
    input: Option<Input>,
) -> Result<Joined, RecordError> {
    tokio::task::spawn_blocking(move || logs::read(&choices, Some(recorded.start), input, recorded))
        .await
        .map_err(|_| RecordError::Internal("reading the logs of the clients"))?
}

/// What a tool printed: where its reports do not lie in the record, its totals.
fn of_printed(session: &Session, printed: Results, recorded: Window) -> Option<Joined> {
    let totals = printed.clone().totals_only();
    match join(vec![printed], recorded) {
        Ok(joined) => Some(joined),
        Err(error) => totals.and_then(|totals| join(vec![totals], recorded).ok()).or_else(|| {
            let text = format!("what the command printed is left out: {error}");
            session.notes.warn(Warning::new(WarningCode::ClientLog, text));
            None
        }),
    }
}
