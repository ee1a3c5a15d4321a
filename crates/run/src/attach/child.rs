//! The command that makes the load, as walwright sees it: through its guard.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader, PipeWriter, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use tokio::sync::oneshot;
use walwright_record::redact;
use walwright_results::Results;

use super::RecordError;
use super::capture::{Capture, Listening};
use super::plan::CommandPlan;
use super::tree::{self, Process};

/// A command under way.
pub(crate) struct Child {
    guard: Arc<Mutex<Guard>>,
    ended: oneshot::Receiver<CommandEnd>,
    /// Once it has ended.
    end: Option<CommandEnd>,
}

/// How a command ended.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct CommandEnd {
    /// Its exit code; `None` where its guard was killed.
    pub code: Option<i32>,
    /// Names of the processes it left behind, which were ended; empty where there were none.
    pub left: String,
    /// What a load tool that is known here printed.
    pub printed: Option<Results>,
}

/// The process that ends the command when it is told to.
struct Guard(Option<Pid>);

impl Guard {
    fn lock(shared: &Mutex<Guard>) -> MutexGuard<'_, Guard> {
        shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Child {
    /// Starts it.
    pub fn start(plan: &CommandPlan) -> Result<Child, RecordError> {
        let program = shown(plan);
        let failed = |source| RecordError::Start { program: program.clone(), source };
        let Some((guard, arguments)) = plan.guard.split_first() else {
            return Err(RecordError::Internal("the guard of the command"));
        };
        let (told, report) = io::pipe().map_err(&failed)?;
        let mut command = Command::new(guard);
        command.args(arguments).arg(std::process::id().to_string());
        // The way to an open file that leaves no second copy of it to the command.
        command.arg(format!("/proc/{}/fd/{}", std::process::id(), report.as_raw_fd()));
        command.arg("--").args(&plan.words);
        let (capture, [out, err]) = Capture::open(&plan.printing).map_err(&failed)?;
        if !plan.inherits_server {
            let of_server = |name: &OsString| name.to_string_lossy().starts_with("PG");
            let names = std::env::vars_os().map(|(name, _)| name).filter(of_server);
            names.for_each(|name| _ = command.env_remove(name));
        }
        command.envs(plan.environment.iter().map(|(name, value)| (name, value)));
        command.stdout(out).stderr(err);
        // What the guard has no time to end when it is killed becomes ours.
        let reaper = Reaper::new().map_err(|errno| failed(errno.into()))?;
        let strangers = tree::children();
        let (started, has_started) = std::sync::mpsc::sync_channel(1);
        let (done, ended) = oneshot::channel();
        // The kernel tells the guard of the death of the thread that started it, so
        // that thread stays until the guard has ended.
        std::thread::Builder::new()
            .name("command-guard".to_owned())
            .spawn(move || {
                let guard = command.spawn();
                // It holds the command's ends of the streams, which must close with it.
                drop(command);
                match guard {
                    Ok(guard) => {
                        let running = Arc::new(Mutex::new(Guard(Some(pid_of(&guard)))));
                        let listening = capture.begin();
                        let _ = started.send(Ok(Arc::clone(&running)));
                        let mut end = until_ended(guard, &running, (told, report), &strangers);
                        drop(reaper);
                        end.printed = listening.ok().and_then(Listening::results);
                        // Nobody may wait any more.
                        let _ = done.send(end);
                    }
                    Err(error) => {
                        let _ = started.send(Err(error));
                    }
                }
            })
            .map_err(&failed)?;
        let guard = has_started
            .recv()
            .map_err(|_| RecordError::Internal("starting the command"))?
            .map_err(&failed)?;
        Ok(Child { guard, ended, end: None })
    }

    /// Waits for the end of it and of all it started.
    pub async fn ended(&mut self) -> CommandEnd {
        if let Some(end) = &self.end {
            return end.clone();
        }
        let end = (&mut self.ended).await.unwrap_or_default();
        self.end.insert(end).clone()
    }

    /// The process that the guard has started, where it has.
    pub fn process(&self) -> Option<u32> {
        let guard = Guard::lock(&self.guard).0?;
        tree::children_of(guard.as_raw()).first().copied()
    }

    /// Asks it to end. The guard sees to it that it does.
    pub fn end(&mut self) {
        // Until it is waited for, which needs the lock, its PID is not used anew.
        if let Some(guard) = Guard::lock(&self.guard).0 {
            let _ = kill(guard, Signal::SIGINT);
        }
    }
}

fn pid_of(child: &std::process::Child) -> Pid {
    Pid::from_raw(child.id().cast_signed())
}

/// Waits for the end of the guard, and, where it was killed, ends what it guarded.
fn until_ended(
    mut guard: std::process::Child,
    running: &Mutex<Guard>,
    (told, report): (PipeReader, PipeWriter),
    strangers: &BTreeSet<Process>,
) -> CommandEnd {
    let end_only = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
    while let Err(nix::Error::EINTR) = waitid(Id::Pid(pid_of(&guard)), end_only) {}
    let code = {
        let mut running = Guard::lock(running);
        running.0 = None;
        guard.wait().ok().and_then(|status| status.code())
    };
    // With the last writer gone, reading ends.
    drop(report);
    let mut said = Vec::new();
    let _ = told.take(LONGEST_REPORT).read_to_end(&mut said);
    let said = String::from_utf8_lossy(&said).into_owned();
    // A guard that ends by itself leaves nothing; beside it others may still be at work.
    let strays = if code.is_none() { tree::end_strays(strangers) } else { String::new() };
    CommandEnd { code, left: if strays.is_empty() { said } else { strays }, printed: None }
}

/// That what a killed guard leaves becomes ours, as long as any guard is there: the flag is the
/// process's.
struct Reaper;

static GUARDS: Mutex<usize> = Mutex::new(0);

impl Reaper {
    fn new() -> nix::Result<Reaper> {
        let mut guards = GUARDS.lock().unwrap_or_else(PoisonError::into_inner);
        set_child_subreaper(true)?;
        *guards += 1;
        Ok(Reaper)
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        let mut guards = GUARDS.lock().unwrap_or_else(PoisonError::into_inner);
        *guards -= 1;
        if *guards == 0 {
            // Others end orphans as well.
            let _ = set_child_subreaper(false);
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.end();
    }
}

/// Bytes read at most of what the guard says, which is a line.
const LONGEST_REPORT: u64 = 4096;

/// The command for a person, without secrets: a mistaken `PGPASSWORD=…` is a program too.
pub(super) fn shown(plan: &CommandPlan) -> String {
    redact::command(plan.words.first().map(|word| word.to_string_lossy()))
}

/// The name of the program that makes the load: behind `env`, what env starts.
pub(super) fn name_of_load(plan: &CommandPlan) -> String {
    let words: Vec<String> = plan.words.iter().map(|w| w.to_string_lossy().into_owned()).collect();
    let name = |word: &String| word.rsplit('/').next().unwrap_or(word).to_owned();
    let by_env = words.first().is_some_and(|word| name(word) == "env");
    let of_env = |word: &&String| by_env && (word.starts_with('-') || word.contains('='));
    let started = words.iter().skip(usize::from(by_env)).find(|word| !of_env(word));
    let name = started.or(words.first()).map(name).unwrap_or_default();
    redact::text(&name).into_owned()
}

/// That the program is there, so that nothing is recorded of a mistyped one.
pub(crate) fn find_program(plan: &CommandPlan) -> Result<PathBuf, RecordError> {
    let program = plan.words.first().map_or(OsStr::new(""), |word| word.as_os_str());
    let missing = || RecordError::NoProgram { program: shown(plan) };
    let executable = |path: &Path| {
        path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if program.to_string_lossy().contains('/') {
        let path = PathBuf::from(program);
        return if executable(&path) { Ok(path) } else { Err(missing()) };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|path| !program.is_empty() && executable(path))
        .ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(program: &str) -> CommandPlan {
        CommandPlan::of(vec![program.into()], Vec::new())
    }

    #[test]
    fn a_load_has_the_name_of_what_makes_it() {
        let name = |words: &[&str]| {
            let words = words.iter().map(Into::into).collect();
            name_of_load(&CommandPlan { words, ..plan("") })
        };
        assert_eq!(name(&["/usr/bin/pgbench", "-T", "60"]), "pgbench");
        assert_eq!(name(&["env", "-i", "PGHOST=/a/b", "bin/pgbench", "-D", "a=1"]), "pgbench");
        assert_eq!(name(&["env"]), "env");
    }

    #[test]
    fn a_program_is_found_as_a_shell_finds_it() {
        assert!(find_program(&plan("sh")).is_ok());
        assert!(find_program(&plan("/bin/sh")).is_ok());
        for (wrong, words) in [
            ("pgbnch-of-nobody", "'pgbnch-of-nobody' in the directories of PATH"),
            ("/proc/version", "'/proc/version'"),
            ("", "''"),
        ] {
            let error = find_program(&plan(wrong)).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
