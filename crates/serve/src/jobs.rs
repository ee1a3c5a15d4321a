//! Commands of walwright that were started here.
//!
//! Each is a process of its own under walwright's guard, which ends it with all it started, also
//! where this process dies. What it says is kept, its last lines.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, PipeReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::watch;
use walwright_record::{RunId, Timestamp};
use walwright_store::Lab;

use crate::pages::locked;

/// Lines that are kept of what a command says.
const LINES: usize = 200;
/// Letters of a line.
const LETTERS: usize = 500;
/// Commands that go on at once.
const MOST: usize = 4;
/// Commands that are remembered.
const REMEMBERED: usize = 50;

/// How commands are started.
#[derive(Debug, Clone)]
pub struct Program {
    /// walwright itself.
    pub file: PathBuf,
    /// Words before those of each command: which lab.
    pub words: Vec<OsString>,
}

/// A command that was started here.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) number: u32,
    /// Its words, as a person would type them.
    pub(crate) command: String,
    pub(crate) begun: Timestamp,
    state: Mutex<State>,
    ended: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    lines: VecDeque<String>,
    /// The guard, until it has been waited for.
    guard: Option<Pid>,
    /// The command itself, as far as it was seen.
    process: Option<u32>,
    stopping: bool,
    code: Option<i32>,
}

/// How a job stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Standing {
    pub(crate) lines: Vec<String>,
    pub(crate) ended: bool,
    pub(crate) stopping: bool,
    /// Its exit code; `None` while it goes on, and where it was killed.
    pub(crate) code: Option<i32>,
    pub(crate) process: Option<u32>,
}

impl Job {
    pub(crate) fn standing(&self) -> Standing {
        let mut state = locked(&self.state);
        if let Some(guard) = state.guard
            && state.process.is_none()
        {
            state.process = child_of(guard);
        }
        Standing {
            lines: state.lines.iter().cloned().collect(),
            ended: *self.ended.borrow(),
            stopping: state.stopping,
            code: state.code,
            process: state.process,
        }
    }

    /// The runs that its process has made; none where that cannot be said now.
    pub(crate) fn runs(&self, lab: &Lab, process: Option<u32>) -> Vec<RunId> {
        let store = lab.existing_store().ok().flatten();
        let known = store
            .zip(process)
            .and_then(|(store, process)| store.written_by(process, self.begun).ok());
        known.unwrap_or_default()
    }

    /// Asks it to end as Ctrl-C does. The guard sees to it that it does.
    pub(crate) fn stop(&self) {
        let mut state = locked(&self.state);
        // Until it has been waited for, which takes the lock, its number is not used anew.
        if let Some(guard) = state.guard {
            state.stopping = true;
            let _ = kill(guard, Signal::SIGINT);
        }
    }

    fn heard(&self, line: &str) {
        let mut state = locked(&self.state);
        state.lines.push_back(line.chars().take(LETTERS).collect());
        if state.lines.len() > LINES {
            state.lines.pop_front();
        }
    }
}

/// The first process that a guard has started.
fn child_of(guard: Pid) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{guard}/task/{guard}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

/// All that were started here.
#[derive(Debug)]
pub(crate) struct Jobs {
    program: Program,
    all: Mutex<BTreeMap<u32, Arc<Job>>>,
}

impl Jobs {
    pub(crate) fn new(program: Program) -> Jobs {
        Jobs { program, all: Mutex::default() }
    }

    pub(crate) fn get(&self, number: u32) -> Option<Arc<Job>> {
        locked(&self.all).get(&number).cloned()
    }

    /// The newest first.
    pub(crate) fn list(&self) -> Vec<Arc<Job>> {
        locked(&self.all).values().rev().cloned().collect()
    }

    /// Starts a command of walwright.
    ///
    /// # Errors
    /// When it cannot be started, as a sentence.
    pub(crate) fn start(&self, words: &[String]) -> Result<Arc<Job>, String> {
        let mut all = locked(&self.all);
        let going_on = all.values().filter(|job| !*job.ended.borrow()).count();
        if going_on >= MOST {
            return Err(format!("{going_on} commands go on already: stop one first"));
        }
        let number = all.last_key_value().map_or(1, |(last, _)| last + 1);
        let command = walwright_record::redact::command(
            ["walwright".to_owned()].into_iter().chain(words.iter().cloned()),
        );
        let job = Arc::new(Job {
            number,
            command,
            begun: Timestamp::now(),
            state: Mutex::default(),
            ended: watch::Sender::new(false),
        });
        let mut guarded = Command::new(&self.program.file);
        guarded.arg("guard").arg(std::process::id().to_string()).arg("/dev/null").arg("--");
        guarded.arg(&self.program.file).args(&self.program.words).args(words);
        let (started, has_started) = std::sync::mpsc::sync_channel(1);
        let of = Arc::clone(&job);
        // The kernel tells the guard of the death of the thread that started it, so that thread
        // stays until the guard has ended.
        let thread = std::thread::Builder::new().name("serve-job".to_owned());
        let run = move || attend(guarded, &of, &started);
        thread.spawn(run).map_err(|error| format!("it cannot be started: {error}"))?;
        match has_started.recv() {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(format!("it cannot be started: {error}")),
            Err(_) => return Err("it cannot be started".to_owned()),
        }
        all.insert(number, Arc::clone(&job));
        while all.len() > REMEMBERED {
            let oldest = all.iter().find(|(_, job)| *job.ended.borrow()).map(|(number, _)| *number);
            match oldest {
                Some(number) => all.remove(&number),
                None => break,
            };
        }
        Ok(job)
    }

    /// Asks all to end, and waits until they have.
    pub(crate) async fn end(&self) {
        let all = self.list();
        all.iter().for_each(|job| job.stop());
        for job in all {
            let mut ended = job.ended.subscribe();
            let _ = ended.wait_for(|ended| *ended).await;
        }
    }
}

/// Starts a guard, listens to what is said, and waits for the end.
fn attend(
    mut guarded: Command,
    job: &Job,
    started: &std::sync::mpsc::SyncSender<std::io::Result<()>>,
) {
    let spawned = std::io::pipe().and_then(|(heard, said)| {
        guarded.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said);
        Ok((guarded.spawn()?, heard))
    });
    // It holds the ends that the command writes to, which must close with it.
    drop(guarded);
    let (mut guard, heard) = match spawned {
        Ok(spawned) => spawned,
        Err(error) => {
            let _ = started.send(Err(error));
            return;
        }
    };
    locked(&job.state).guard = Some(Pid::from_raw(guard.id().cast_signed()));
    let _ = started.send(Ok(()));
    listen(heard, job);
    loop {
        let mut state = locked(&job.state);
        match guard.try_wait() {
            Ok(None) => {}
            Ok(Some(status)) => {
                state.guard = None;
                state.code = status.code();
                break;
            }
            Err(_) => {
                state.guard = None;
                break;
            }
        }
        drop(state);
        // All that could speak has ended: the guard is about to.
        std::thread::sleep(Duration::from_millis(20));
    }
    job.ended.send_replace(true);
}

/// Keeps what is said until nobody can say anything any more.
fn listen(heard: PipeReader, job: &Job) {
    let mut reader = BufReader::new(heard);
    let mut line = Vec::new();
    loop {
        line.clear();
        match reader.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => job.heard(String::from_utf8_lossy(&line).trim_end()),
        }
    }
}
