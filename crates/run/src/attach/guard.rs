//! The process between walwright and the command that makes the load.
//!
//! A load test is seldom one process: a shell starts a script that starts a tool, and some
//! of it may be a daemon. So the command gets a process group of its own, and a guard that
//! becomes the parent of whatever the command leaves behind. It ends all of it when it is
//! told to, when the command has ended, or when walwright dies, by whatever means (prctl(2),
//! PR_SET_PDEATHSIG). The guard is walwright itself, started anew with a hidden command.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::prctl::{set_child_subreaper, set_pdeathsig};
use nix::sys::signal::Signal;
use nix::sys::wait::{Id, WaitPidFlag, waitid, waitpid};
use nix::unistd::{Pid, getppid};
use tokio::signal::unix::{Signal as Listener, SignalKind, signal};
use tokio::time::Instant;

use super::tree::{self, Force};

/// Time what a command leaves behind has to end by itself.
const AFTER_ITS_END: Duration = Duration::from_secs(1);
/// What a shell says of a program that could not be started.
const NOT_STARTED: i32 = 126;
/// What a shell adds to the number of the signal that ended a program.
const BY_SIGNAL: i32 = 128;

/// Runs a command to its end and gives its exit code, as a shell would. An interrupt
/// asks the command and all its descendants to end, with more force as time passes; the
/// signal to terminate, which also comes when the process `parent` dies, ends them soon.
/// What the command leaves behind when it ends is ended too, and named in the file `report`.
///
/// # Errors
/// When the machine lacks something to start with.
pub fn guard_command(parent: u32, report: &Path, words: &[OsString]) -> io::Result<i32> {
    set_pdeathsig(Signal::SIGTERM)?;
    if getppid() != Pid::from_raw(parent.cast_signed()) {
        // It died before the line above took effect.
        return Ok(NOT_STARTED);
    }
    // Whatever of the command loses its parent becomes a child of this process.
    set_child_subreaper(true)?;
    let Some((program, arguments)) = words.split_first() else { return Ok(NOT_STARTED) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut some_ended = signal(SignalKind::child())?;
        // Listening would end the ignoring, for the command too.
        let mut hangup = if ignores_hangup() { None } else { Some(signal(SignalKind::hangup())?) };
        let hung_up = async |signal: &mut Option<Listener>| match signal {
            Some(signal) => signal.recv().await,
            None => std::future::pending().await,
        };
        let mut command = Command::new(program);
        command.args(arguments).process_group(0);
        // A process outside the terminal's foreground group is stopped when it reads.
        if io::stdin().is_terminal() {
            command.stdin(Stdio::null());
        }
        let mut child = command.spawn()?;
        let group = child.id().cast_signed();
        let mut status = None;
        let mut force = Force::None;
        let mut next: Option<Instant> = None;
        let mut killed: Option<std::time::Instant> = None;
        while !reap(&mut child, &mut status)? {
            if status.is_some() && next.is_none() {
                next = Some(Instant::now() + AFTER_ITS_END);
            }
            let due = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let (wanted, is_due) = tokio::select! {
                _ = some_ended.recv() => continue,
                _ = interrupt.recv() => (Force::Interrupt, false),
                _ = hung_up(&mut hangup) => (Force::Interrupt, false),
                _ = terminate.recv() => (Force::Terminate, false),
                // A shell has what it puts in the background ignore interrupts.
                () = due => (force.more().max(Force::Terminate), true),
            };
            if wanted <= force && !is_due {
                continue;
            }
            if killed.is_some_and(tree::is_unkillable) {
                break;
            }
            let left = tree::descendants();
            if force == Force::None && is_due {
                tell(report, &tree::named(&left));
            }
            force = wanted;
            if force == Force::Kill {
                killed.get_or_insert_with(std::time::Instant::now);
            }
            tree::send(&left, Some(group), force.signal());
            next = Some(Instant::now() + force.patience());
        }
        Ok(status.map_or(BY_SIGNAL + Signal::SIGKILL as i32, code))
    })
}

/// Waits for what has ended of `child`, whose `status` is kept, and of what it left behind.
/// Whether nothing is left.
fn reap(child: &mut Child, status: &mut Option<ExitStatus>) -> io::Result<bool> {
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    loop {
        match waitid(Id::All, look).map(|found| found.pid()) {
            Ok(None) => return Ok(false),
            Ok(Some(pid)) if pid.as_raw() == child.id().cast_signed() => {
                *status = child.try_wait()?;
            }
            Ok(Some(pid)) => {
                let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
            }
            Err(Errno::EINTR) => {}
            Err(Errno::ECHILD) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Tells whoever started the guard what the command left behind.
fn tell(report: &Path, left: &str) {
    // It ends with or without being told of.
    let _ =
        File::options().write(true).open(report).and_then(|mut to| to.write_all(left.as_bytes()));
}

/// Whether SIGHUP is ignored, as `nohup` has it, by the mask of ignored signals in
/// `/proc/self/status`.
pub fn ignores_hangup() -> bool {
    const HANGUP_BIT: u64 = 1;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    mask.is_some_and(|mask| mask & HANGUP_BIT != 0)
}

fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|n| BY_SIGNAL + n)).unwrap_or(NOT_STARTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_a_shell() {
        assert_eq!(code(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(code(ExitStatus::from_raw(9)), 137);
    }
}
