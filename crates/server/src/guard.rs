//! The thread that starts a postmaster and waits for it.
//!
//! The kernel delivers a parent-death signal when the *thread* that forked the
//! child ends (prctl(2), PR_SET_PDEATHSIG). So each server has a thread of its
//! own that lives exactly as long as the server, and when walwright dies, by
//! whatever means, the server is told to stop.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;
use tokio::sync::watch;

/// How a server's postmaster ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerExit {
    /// The exit code, when it exited.
    pub code: Option<i32>,
    /// The signal, when a signal ended it.
    pub signal: Option<i32>,
}

impl From<ExitStatus> for ServerExit {
    fn from(status: ExitStatus) -> Self {
        Self { code: status.code(), signal: status.signal() }
    }
}

impl std::fmt::Display for ServerExit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exited with code {code}"),
            (None, Some(number)) => match Signal::try_from(number) {
                Ok(signal) => write!(f, "was killed by {signal}"),
                Err(_) => write!(f, "was killed by signal {number}"),
            },
            (None, None) => f.write_str("ended"),
        }
    }
}

/// Has the kernel send `signal` to the child when the thread that spawns it
/// ends, which is at the latest when this process ends.
pub(crate) fn die_with_parent(command: &mut Command, signal: Signal) {
    let parent = std::process::id();
    // SAFETY: the closure runs between fork and exec and calls only prctl and
    // getppid, which are async-signal-safe; it touches no memory of the parent
    // besides two copied integers and does not allocate.
    unsafe {
        command.pre_exec(move || {
            // Runs after the change of user, which would clear it.
            if libc::prctl(libc::PR_SET_PDEATHSIG, signal as libc::c_ulong) == -1 {
                return Err(io::Error::last_os_error());
            }
            // The parent may have died before the line above took effect.
            if libc::getppid().cast_unsigned() != parent {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        });
    }
}

/// A running child and the thread that watches it.
#[derive(Debug)]
pub(crate) struct Guard {
    pid: u32,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Set once the child is about to be reaped. A signal is sent only while
    /// this is unset and the lock is held, so it never reaches a stranger who
    /// got the same pid.
    exit: Mutex<Option<ServerExit>>,
    ended: Condvar,
    watch: watch::Sender<Option<ServerExit>>,
}

impl Guard {
    /// Starts `command` in a session of its own, away from the terminal's
    /// signals, from a thread that stays until the child has ended. When that
    /// thread or this process dies, the child gets `death_signal`. It and its children run on
    /// `processors` alone where they are given.
    pub(crate) fn spawn(
        mut command: Command,
        death_signal: Signal,
        processors: Option<CpuSet>,
    ) -> io::Result<Self> {
        // SAFETY: the closure runs between fork and exec and calls only
        // setsid, which is async-signal-safe; it touches no memory.
        unsafe { command.pre_exec(|| nix::unistd::setsid().map(drop).map_err(io::Error::from)) };
        die_with_parent(&mut command, death_signal);
        let shared = Arc::new(Shared {
            exit: Mutex::new(None),
            ended: Condvar::new(),
            watch: watch::Sender::new(None),
        });
        let (started, has_started) = std::sync::mpsc::sync_channel(1);
        let theirs = Arc::clone(&shared);
        // A child runs where the thread may that forks it.
        let mut spawn = move || {
            processors.map_or(Ok(()), |of| sched_setaffinity(Pid::from_raw(0), &of))?;
            command.spawn()
        };
        std::thread::Builder::new().name("postmaster-guard".to_owned()).spawn(
            move || match spawn() {
                Ok(mut child) => {
                    let pid = child.id();
                    // The receiver waits below until this arrives.
                    let _ = started.send(Ok(pid));
                    let pid = Pid::from_raw(pid.cast_signed());
                    while let Err(nix::Error::EINTR) =
                        waitid(Id::Pid(pid), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT)
                    {
                    }
                    let mut exit = theirs.lock();
                    let status = child
                        .wait()
                        .map_or(ServerExit { code: None, signal: None }, ServerExit::from);
                    *exit = Some(status);
                    drop(exit);
                    theirs.ended.notify_all();
                    theirs.watch.send_replace(Some(status));
                }
                Err(error) => {
                    let _ = started.send(Err(error));
                }
            },
        )?;
        let pid =
            has_started.recv().map_err(|_| io::Error::other("the guard thread ended early"))??;
        Ok(Self { pid, shared })
    }

    /// The child's process id.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Sends a signal, unless the child has ended. A child that was stopped runs again to
    /// act on it.
    pub(crate) fn signal(&self, signal: Signal) {
        let exit = self.shared.lock();
        if exit.is_none() {
            for sent in [signal, Signal::SIGCONT] {
                // It may be a zombie by now, which is no failure.
                let _ = kill(Pid::from_raw(self.pid.cast_signed()), sent);
            }
        }
    }

    /// How the child ended, if it has.
    pub(crate) fn exit(&self) -> Option<ServerExit> {
        *self.shared.lock()
    }

    /// Waits until the child has ended, `timeout` at most.
    pub(crate) fn wait(&self, timeout: Duration) -> Option<ServerExit> {
        let deadline = Instant::now() + timeout;
        let mut exit = self.shared.lock();
        while exit.is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            exit = self
                .shared
                .ended
                .wait_timeout(exit, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        *exit
    }

    /// A channel that changes once, when the child has ended.
    pub(crate) fn watch(&self) -> watch::Receiver<Option<ServerExit>> {
        self.shared.watch.subscribe()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<ServerExit>> {
        self.exit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_child_is_seen_by_every_means() {
        let mut command = Command::new("sleep");
        command.arg("60");
        let guard = Guard::spawn(command, Signal::SIGKILL, None).expect("spawn");
        let watch = guard.watch();
        assert_eq!(guard.exit(), None);
        assert_eq!(guard.wait(Duration::from_millis(1)), None);
        guard.signal(Signal::SIGTERM);
        let exit = guard.wait(Duration::from_secs(20)).expect("ended");
        assert_eq!(exit.signal, Some(15));
        assert_eq!(exit.to_string(), "was killed by SIGTERM");
        assert_eq!(guard.exit(), Some(exit));
        guard.signal(Signal::SIGTERM);
        let deadline = Instant::now() + Duration::from_secs(20);
        while watch.borrow().is_none() {
            assert!(Instant::now() < deadline, "the channel never changed");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_child_that_was_stopped_acts_on_a_signal() {
        let mut command = Command::new("sleep");
        command.arg("60");
        let guard = Guard::spawn(command, Signal::SIGKILL, None).expect("spawn");
        let pid = Pid::from_raw(guard.pid().cast_signed());
        kill(pid, Signal::SIGSTOP).expect("sent");
        let stopped = waitid(Id::Pid(pid), WaitPidFlag::WSTOPPED | WaitPidFlag::WNOWAIT);
        stopped.expect("stopped");
        guard.signal(Signal::SIGTERM);
        let exit = guard.wait(Duration::from_secs(20)).expect("ended");
        assert_eq!(exit.signal, Some(15));
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let error = Guard::spawn(Command::new("/nonexistent"), Signal::SIGKILL, None);
        assert_eq!(error.map(|_| ()).map_err(|e| e.kind()), Err(io::ErrorKind::NotFound));
    }
}
