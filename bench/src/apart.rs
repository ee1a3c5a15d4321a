//! Which processors server and load generator run on.

use anyhow::{Context, bail};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::{Testbed, children, process};

/// Moves the server, this process and whatever it starts from now on to one processor.
///
/// With one client, server and client run in turns, and need no more. On processors of
/// their own each would wait for the other's to wake from idling, which takes longer
/// than the work where processors are virtual, and now this long, now that.
///
/// # Errors
/// When the system refuses.
pub fn together(testbed: &Testbed) -> anyhow::Result<()> {
    let all = sched_getaffinity(None).context("reading the processors of this process")?;
    let last = (0..CpuSet::MAX_CPU).rfind(|cpu| all.is_set(*cpu)).context("no processor")?;
    let postmaster = testbed.server().postmaster_pid();
    for pid in std::iter::once(postmaster).chain(children(postmaster)?) {
        pin(pid, &[last])?;
    }
    let mut own = CpuSet::new();
    own.set(last);
    sched_setaffinity(None, &own).context("moving to a processor")
}

/// Moves the server to all processors but the last, and this process with whatever it
/// starts from now on to the last.
///
/// On shared processors the CPU that one load generator saves goes to the server, which
/// then does more: the comparison would be one of their CPU, not of what they ask for.
///
/// # Errors
/// Where there is one processor only, or the system refuses.
pub fn apart(testbed: &Testbed) -> anyhow::Result<()> {
    let all = sched_getaffinity(None).context("reading the processors of this process")?;
    let mut usable: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu)).collect();
    let last = usable.pop().context("no processor")?;
    if usable.is_empty() {
        bail!("server and load generator need a processor each, and there is one only");
    }
    let postmaster = testbed.server().postmaster_pid();
    for pid in std::iter::once(postmaster).chain(children(postmaster)?) {
        pin(pid, &usable)?;
    }
    let mut own = CpuSet::new();
    own.set(last);
    sched_setaffinity(None, &own).context("moving to a processor")
}

/// Does something that starts processes, on the first so many processors of this one.
///
/// # Errors
/// When the system refuses, or as what is done.
pub fn on_processors<T>(
    count: usize,
    work: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let all = sched_getaffinity(None).context("reading the processors of this process")?;
    let mut own = CpuSet::new();
    let usable = (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu));
    usable.take(count).for_each(|cpu| own.set(cpu));
    sched_setaffinity(None, &own).context("moving to fewer processors")?;
    let done = work();
    sched_setaffinity(None, &all).context("moving back to all processors")?;
    done
}

fn pin(pid: u32, processors: &[usize]) -> anyhow::Result<()> {
    let mut set = CpuSet::new();
    processors.iter().for_each(|cpu| set.set(*cpu));
    sched_setaffinity(Some(process(pid)?), &set).context("moving the server to its processors")
}
