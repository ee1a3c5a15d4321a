//! The processes that descend from this one, and how they are ended.
//!
//! A process group is not enough: `setsid` and a daemon's double fork leave it. Where this
//! process is the reaper of its descendants (prctl(2), `PR_SET_CHILD_SUBREAPER`), whatever
//! loses its parent becomes its child, so that nothing leaves the tree.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::{Pid, getpid};
use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

/// Time a command has to end by itself after an interrupt: tools write their results then.
const AFTER_INTERRUPT: Duration = Duration::from_secs(5);
/// Time it has after being told to terminate.
const AFTER_TERMINATE: Duration = Duration::from_secs(2);
/// Time after which what is not gone is killed once more: what was just being started.
const AFTER_KILL: Duration = Duration::from_millis(100);
/// Longest wait for the kernel to end what was killed.
const UNKILLABLE: Duration = Duration::from_secs(10);
/// Time between looks where nothing tells of an end.
const POLL: Duration = Duration::from_millis(20);
/// Names told at most.
const TOLD: usize = 10;

/// How hard a command is being asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Force {
    None,
    Interrupt,
    Terminate,
    Kill,
}

impl Force {
    /// The longest it takes from an interrupt to the signal nobody can ignore.
    pub const PATIENCE: Duration = AFTER_INTERRUPT.saturating_add(AFTER_TERMINATE);

    pub fn more(self) -> Force {
        match self {
            Force::None => Force::Interrupt,
            Force::Interrupt => Force::Terminate,
            Force::Terminate | Force::Kill => Force::Kill,
        }
    }

    pub fn signal(self) -> Signal {
        match self {
            Force::None | Force::Interrupt => Signal::SIGINT,
            Force::Terminate => Signal::SIGTERM,
            Force::Kill => Signal::SIGKILL,
        }
    }

    /// Until more is needed.
    pub fn patience(self) -> Duration {
        match self {
            Force::None | Force::Interrupt => AFTER_INTERRUPT,
            Force::Terminate => AFTER_TERMINATE,
            Force::Kill => AFTER_KILL,
        }
    }
}

/// A process: its start names it for good, since PIDs are used again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Process {
    pid: i32,
    /// In clock ticks since boot.
    start: u64,
    parent: i32,
    group: i32,
    name: String,
    /// Dead, and not waited for.
    zombie: bool,
}

impl Process {
    fn read(pid: i32) -> Option<Process> {
        Process::parse(pid, &String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/stat")).ok()?))
    }

    /// proc_pid_stat(5): the name is in parentheses and may itself hold some; state, parent
    /// and process group follow it, and the start is field 22.
    fn parse(pid: i32, stat: &str) -> Option<Process> {
        let (before, after) = stat.rsplit_once(')')?;
        let (_, name) = before.split_once('(')?;
        let fields: Vec<&str> = after.split_ascii_whitespace().collect();
        Some(Process {
            pid,
            start: fields.get(19)?.parse().ok()?,
            parent: fields.get(1)?.parse().ok()?,
            group: fields.get(2)?.parse().ok()?,
            name: name.to_owned(),
            zombie: matches!(*fields.first()?, "Z" | "X"),
        })
    }

    /// Sends a signal to this process and to none that got its PID since.
    fn send(&self, signal: Signal) {
        let Some(pid) = rustix::process::Pid::from_raw(self.pid) else { return };
        let still = || Process::read(self.pid).is_some_and(|now| now.start == self.start);
        // One that is gone needs no signal.
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(fd) if still() => {
                let signal = match signal {
                    Signal::SIGINT => rustix::process::Signal::INT,
                    Signal::SIGTERM => rustix::process::Signal::TERM,
                    _ => rustix::process::Signal::KILL,
                };
                let _ = pidfd_send_signal(fd, signal);
            }
            // Linux has pidfds from 5.3.
            Err(rustix::io::Errno::NOSYS) if still() => {
                let _ = kill(Pid::from_raw(self.pid), signal);
            }
            _ => {}
        }
    }
}

/// All processes of the machine that can be seen.
fn processes() -> Vec<Process> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Process::read(entry.file_name().to_str()?.parse().ok()?))
        .collect()
}

/// The processes of `all` that descend from the process `root`, but from none of `except`.
fn below(root: i32, all: &[Process], except: &BTreeSet<Process>) -> Vec<Process> {
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        for child in all.iter().filter(|process| process.parent == parent) {
            let known = except.iter().any(|e| (e.pid, e.start) == (child.pid, child.start));
            // What dies while the list is read may seem to be its own ancestor.
            if !known && !found.iter().any(|one| one.pid == child.pid) {
                parents.push(child.pid);
                found.push(child.clone());
            }
        }
    }
    found
}

/// The living descendants of this process.
pub(super) fn descendants() -> Vec<Process> {
    let mut found = below(getpid().as_raw(), &processes(), &BTreeSet::new());
    found.retain(|process| !process.zombie);
    found
}

/// The processes whose parent this is.
pub(super) fn children_of(parent: i32) -> Vec<u32> {
    let of = processes().into_iter().filter(|process| process.parent == parent);
    of.map(|process| process.pid.cast_unsigned()).collect()
}

/// The children of this process, to be told from those that come later.
pub(super) fn children() -> BTreeSet<Process> {
    let own = getpid().as_raw();
    processes().into_iter().filter(|process| process.parent == own).collect()
}

/// Sends a signal to processes: to those of `group` at once, as a terminal does, so that
/// none is started in between.
pub(super) fn send(to: &[Process], group: Option<i32>, signal: Signal) {
    // A group with a living member is still the one it was.
    if let Some(group) = group.filter(|group| to.iter().any(|one| one.group == *group)) {
        let _ = killpg(Pid::from_raw(group), signal);
    }
    for process in to.iter().filter(|process| Some(process.group) != group) {
        process.send(signal);
    }
}

/// Processes for a person.
pub(super) fn named(processes: &[Process]) -> String {
    let told = processes.iter().take(TOLD).map(|one| {
        let name: String = one.name.chars().filter(|c| !c.is_control()).collect();
        format!("{name} (PID {})", one.pid)
    });
    let mut text = told.collect::<Vec<_>>().join(", ");
    if processes.len() > TOLD {
        text.push_str(&format!(" and {} more", processes.len() - TOLD));
    }
    text
}

/// Ends the descendants of this process other than `except` and theirs, which became its
/// own when whoever watched them died. Names them; empty where there were none.
///
/// Blocks until they are gone: up to some seconds.
pub(super) fn end_strays(except: &BTreeSet<Process>) -> String {
    let began = Instant::now();
    let mut force = Force::Terminate;
    let mut due = began;
    let mut named_once = String::new();
    loop {
        let found = below(getpid().as_raw(), &processes(), except);
        let (dead, living): (Vec<_>, Vec<_>) = found.into_iter().partition(|one| one.zombie);
        for one in dead.iter().filter(|one| one.parent == getpid().as_raw()) {
            // Others of this process's children are waited for elsewhere.
            let _: Result<_, Errno> = waitpid(Pid::from_raw(one.pid), Some(WaitPidFlag::WNOHANG));
        }
        let now = Instant::now();
        if living.is_empty() || now > began + Force::PATIENCE + UNKILLABLE {
            return named_once;
        }
        if now >= due {
            if named_once.is_empty() {
                named_once = named(&living);
            } else {
                force = force.more();
            }
            send(&living, None, force.signal());
            due = now + force.patience();
        }
        std::thread::sleep(POLL);
    }
}

/// Whether what was killed at `since` is given up: a process that waits for a dead disk
/// ends when the disk answers.
pub(super) fn is_unkillable(since: Instant) -> bool {
    since.elapsed() > UNKILLABLE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32) -> Process {
        let name = format!("p{pid}");
        Process { pid, start: 1, parent, group: pid, name, zombie: false }
    }

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
    fn a_tree_is_all_that_descends_and_nothing_of_what_is_left_out() {
        let all = [process(2, 1), process(3, 2), process(4, 3), process(5, 9), process(6, 2)];
        let pids = |except: &[Process]| {
            let mut pids: Vec<i32> = below(2, &all, &except.iter().cloned().collect())
                .iter()
                .map(|process| process.pid)
                .collect();
            pids.sort_unstable();
            pids
        };
        assert_eq!(pids(&[]), [3, 4, 6]);
        assert_eq!(pids(&[process(3, 2)]), [6]);
        // Another one with its PID is not the one left out.
        assert_eq!(pids(&[Process { start: 2, ..process(3, 2) }]), [3, 4, 6]);
        // A list read while processes end may hold a circle.
        assert_eq!(below(2, &[process(2, 2)], &BTreeSet::new()).len(), 1);
    }

    #[test]
    fn a_name_with_parentheses_is_read_as_it_is() {
        let mut fields = ["0"; 22];
        (fields[0], fields[1], fields[2], fields[19]) = ("S", "7", "8", "99");
        let stat = format!("12 (a) (b)) {}", fields.join(" "));
        let read = Process::parse(12, &stat).unwrap();
        assert_eq!((read.name.as_str(), read.parent, read.group, read.start), ("a) (b)", 7, 8, 99));
        assert_eq!(Process::parse(12, "12 (sh"), None);
    }

    #[test]
    fn a_signal_reaches_the_process_it_is_meant_for_and_no_other() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let own = children();
        let sleep = own.iter().find(|one| one.pid == child.id().cast_signed()).unwrap();
        Process { start: sleep.start + 1, ..sleep.clone() }.send(Signal::SIGKILL);
        assert_eq!(child.try_wait().unwrap(), None);
        assert!(named(std::slice::from_ref(sleep)).starts_with("sleep (PID "));
        sleep.send(Signal::SIGTERM);
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap()), Some(15));
    }
}
