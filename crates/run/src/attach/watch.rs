//! Looking on: until the time is over, the command has ended, or the user has seen enough.

use std::time::Duration;

use walwright_record::{Timestamp, Warning, WarningCode};
use walwright_results::Results;

use super::RecordError;
use super::child::{Child, CommandEnd, shown};
use super::input::{Input, is_input};
use super::plan::Until;
use super::session::Session;
use crate::Progress;

/// Time between reports of how long it has been.
const TICK: Duration = Duration::from_secs(1);

/// What looking on came to.
pub(super) struct Watched {
    /// Whether the user stopped it.
    pub stopped: bool,
    child: Option<Child>,
    input: Option<Input>,
    program: String,
}

/// How the command ended, if there was one.
#[derive(Default)]
pub(super) struct CommandEnded {
    /// Its exit code; `None` without one, and where it is not known.
    pub code: Option<i32>,
    /// Whether its guard was killed, and it was ended for that.
    pub guard_killed: bool,
    /// What a load tool that is known here printed.
    pub printed: Option<Results>,
    /// What was piped to walwright.
    pub input: Option<Input>,
}

/// Starts the command, if there is one, and looks on.
pub(super) async fn watch(session: &Session, begun: Timestamp) -> Result<Watched, RecordError> {
    let (mut child, wanted, program) = match &session.plan.until {
        Until::Elapsed(time) => (None, Some(*time), String::new()),
        Until::CommandEnds(command) => (Some(Child::start(command)?), None, shown(command)),
        Until::InputEnds => (None, None, String::new()),
    };
    let piped = session.plan.logs.iter().any(|log| is_input(&log.path));
    let mut input = piped.then(|| Input::begin(&session.lab)).transpose()?;
    if child.is_some() {
        session.notes.event("command", format!("'{program}' was started"));
    }
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let stopped =
        until_over(session, begun, child.as_mut(), input.as_mut(), wanted, &mut ticks).await;
    if stopped && let Some(child) = &mut child {
        child.end();
    }
    Ok(Watched { stopped, child, input, program })
}

/// Whether the user stopped it.
async fn until_over(
    session: &Session,
    begun: Timestamp,
    child: Option<&mut Child>,
    input: Option<&mut Input>,
    wanted: Option<Duration>,
    ticks: &mut tokio::time::Interval,
) -> bool {
    let end = async {
        match (child, wanted, input) {
            (Some(child), _, _) => {
                child.ended().await;
            }
            (None, Some(time), _) => tokio::time::sleep(time).await,
            (None, None, Some(input)) => input.ended().await,
            (None, None, None) => std::future::pending().await,
        }
    };
    tokio::pin!(end);
    loop {
        tokio::select! {
            () = &mut end => break false,
            () = session.stop.requested() => break true,
            _ = ticks.tick() => {
                let elapsed = Timestamp::now().since(begun);
                session.notes.observer.event(Progress::Watched { elapsed, wanted });
                // A record that cannot be written is no record.
                if session.notes.recorder.failed() {
                    break true;
                }
            }
        }
    }
}

impl Watched {
    /// Waits for the end of a command that was told to end, and keeps how it ended.
    pub async fn finish(&mut self, session: &Session) -> CommandEnded {
        let input = self.input.take();
        let Some(child) = self.child.as_mut() else {
            return CommandEnded { input, ..CommandEnded::default() };
        };
        let CommandEnd { code, left, printed } = child.ended().await;
        let program = &self.program;
        let text = match code {
            Some(0) => format!("'{program}' ended"),
            Some(code) if code > 128 => {
                format!("'{program}' was ended by signal {}", code - 128)
            }
            Some(code) => format!("'{program}' ended with exit code {code}"),
            None => format!("the process that guards '{program}' was killed"),
        };
        session.notes.event("command", text.clone());
        if !left.is_empty() {
            session.notes.event("command", format!("what it left behind was ended: {left}"));
        }
        if code != Some(0) && !self.stopped {
            session.notes.warn(
                Warning::new(WarningCode::Failures, format!("the load may be incomplete: {text}"))
                    .hint("check its output before you use these figures"),
            );
        } else if !left.is_empty() && !self.stopped {
            let text = format!(
                "the load may be incomplete: '{program}' left {left} behind, which were ended"
            );
            session.notes.warn(
                Warning::new(WarningCode::Failures, text)
                    .hint("make the command wait for what it starts in the background"),
            );
        }
        CommandEnded { code, guard_killed: code.is_none(), printed, input }
    }
}
