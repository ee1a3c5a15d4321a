//! The process between walwright and the command that makes the load.
//!
//! A load test is seldom one process: a shell starts a script that starts a tool. So the
//! command gets a process group of its own, and a guard ends the whole group when it
//! is told to or when walwright dies, by whatever means (prctl(2), PR_SET_PDEATHSIG). The
//! guard is walwright itself, started anew with a hidden command.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::{Pid, getppid};
use tokio::signal::unix::{Signal as Listener, SignalKind, signal};
use tokio::time::Instant;

/// Time a command has to end by itself after an interrupt: tools write their results then.
const AFTER_INTERRUPT: Duration = Duration::from_secs(5);
/// Time it has after being told to terminate.
const AFTER_TERMINATE: Duration = Duration::from_secs(2);
/// What a shell says of a program that could not be started.
const NOT_STARTED: i32 = 126;
/// What a shell adds to the number of the signal that ended a program.
const BY_SIGNAL: i32 = 128;

/// Runs a command to its end and gives its exit code, as a shell would. An interrupt
/// asks the command's process group to end, with more force as time passes; the
/// signal to terminate, which also comes when the process `parent` dies, ends it soon.
///
/// # Errors
/// When the machine lacks something to start with.
pub fn guard_command(parent: u32, words: &[OsString]) -> io::Result<i32> {
    set_pdeathsig(Signal::SIGTERM)?;
    if getppid() != Pid::from_raw(parent.cast_signed()) {
        // It died before the line above took effect.
        return Ok(NOT_STARTED);
    }
    let Some((program, arguments)) = words.split_first() else { return Ok(NOT_STARTED) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        // Listening would end the ignoring, for the command too.
        let mut hangup = if ignores_hangup() { None } else { Some(signal(SignalKind::hangup())?) };
        let hung_up = async |signal: &mut Option<Listener>| match signal {
            Some(signal) => signal.recv().await,
            None => std::future::pending().await,
        };
        let mut command = tokio::process::Command::new(program);
        command.args(arguments).process_group(0);
        // A process outside the terminal's foreground group is stopped when it reads.
        if io::stdin().is_terminal() {
            command.stdin(Stdio::null());
        }
        let mut child = command.spawn()?;
        let group = child.id().map(|pid| Pid::from_raw(pid.cast_signed()));
        let send = |signal: Signal| {
            // A group that is gone needs no signal.
            let _ = group.map(|group| killpg(group, signal));
        };
        let mut force = Force::None;
        let mut next: Option<Instant> = None;
        let status = loop {
            let due = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let wanted = tokio::select! {
                status = child.wait() => break status?,
                _ = interrupt.recv() => Force::Interrupt,
                _ = hung_up(&mut hangup) => Force::Interrupt,
                _ = terminate.recv() => Force::Terminate,
                () = due => force.more(),
            };
            if wanted > force {
                force = wanted;
                send(force.signal());
                next = force.patience().map(|patience| Instant::now() + patience);
            }
        };
        if force > Force::None {
            // What the command started and left behind.
            send(Signal::SIGKILL);
        }
        Ok(code(status))
    })
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

/// How hard the command is being asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Force {
    None,
    Interrupt,
    Terminate,
    Kill,
}

impl Force {
    fn more(self) -> Force {
        match self {
            Force::None => Force::Interrupt,
            Force::Interrupt => Force::Terminate,
            Force::Terminate | Force::Kill => Force::Kill,
        }
    }

    fn signal(self) -> Signal {
        match self {
            Force::None | Force::Interrupt => Signal::SIGINT,
            Force::Terminate => Signal::SIGTERM,
            Force::Kill => Signal::SIGKILL,
        }
    }

    fn patience(self) -> Option<Duration> {
        match self {
            Force::Interrupt => Some(AFTER_INTERRUPT),
            Force::Terminate => Some(AFTER_TERMINATE),
            Force::None | Force::Kill => None,
        }
    }
}

fn code(status: ExitStatus) -> i32 {
    status.code().or_else(|| status.signal().map(|n| BY_SIGNAL + n)).unwrap_or(NOT_STARTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn force_grows_and_ends_with_the_signal_nobody_can_ignore() {
        let steps = [Force::None, Force::Interrupt, Force::Terminate, Force::Kill];
        for pair in steps.windows(2) {
            assert_eq!(pair[0].more(), pair[1]);
            assert!(pair[0] < pair[1]);
        }
        assert_eq!(Force::Kill.signal(), Signal::SIGKILL);
    }

    #[test]
    fn codes_are_those_of_a_shell() {
        assert_eq!(code(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(code(ExitStatus::from_raw(9)), 137);
    }
}
