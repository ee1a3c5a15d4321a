//! What the kernel counted of the server's client backends, laid beside samples of them.
//!
//! Samples of wait events tell why a session sleeps. They do not tell how long it runs or
//! waits for a processor: the sampler runs on a processor that a session would have had, and
//! a backend that has been woken shows the wait it was woken from until it runs. The
//! scheduler counts both times of every process exactly (`/proc/PID/schedstat`,
//! Documentation/scheduler/sched-stats.rst). Every backend is at each moment running, waiting
//! for a processor, or asleep, so what the kernel leaves for sleep is shared among the waits
//! in the proportions that were sampled.

use walwright_record::{Record, Row, Sample, Source, Window};
use walwright_stats::Estimate;

use crate::cpu::{CLIENT_BACKENDS, EXITED_PROCESSES};
use crate::{Difference, WaitClass, difference};

/// Part of the backends' CPU that may have been used by processes which ended between two
/// looks, and was so counted without its role and its waits.
const UNSEEN: f64 = 0.1;
/// Sessions of others in a transaction, as a part of ours, from which the kernel's figures,
/// which are of all client backends, say nothing of ours.
const OTHERS: f64 = 0.05;

/// Where the client backends were, on average over the window, by the kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ProcessorAccount {
    /// Backends on a processor.
    pub(crate) running: f64,
    /// Backends that were ready to run and waited for a processor.
    pub(crate) waiting: f64,
    /// What the samples of sleeping sessions, idle ones among them, are multiplied by.
    pub(crate) sleep_scale: f64,
    /// Backends that slept while no wait event said so.
    pub(crate) unexplained: f64,
}

impl ProcessorAccount {
    /// Reads it; the error says why only samples are left, as the end of a sentence.
    /// `without_wait` are sessions that were sampled active without a wait.
    pub(crate) fn of(
        record: &Record,
        window: Window,
        ticks: &[&Sample],
        ours: bool,
        without_wait: &Estimate,
    ) -> Result<ProcessorAccount, &'static str> {
        let processes = difference(record, Source::Processes, window)
            .map_err(|_| "the server's processes cannot be seen from here")?;
        let seconds = processes.length().as_secs_f64();
        let running = cpu_of(&processes, CLIENT_BACKENDS)
            .ok_or("the server's processes cannot be seen from here")?;
        let is_backend = |row: &Row| row.text("process_group") == Some(CLIENT_BACKENDS);
        let waiting = processes
            .sum_where("run_delay_seconds", is_backend)
            .map_err(|_| "this kernel does not count it")?;
        let exited = cpu_of(&processes, EXITED_PROCESSES).unwrap_or(0.0);
        if exited > UNSEEN * (running + exited) {
            return Err("most sessions end before they are seen");
        }
        let seen = Seen::of(ticks, ours);
        if ours && seen.others > OTHERS * seen.ours {
            return Err("other clients use this server");
        }
        let (running, waiting) = (running / seconds, waiting / seconds);
        let asleep = seen.asleep + seen.without_wait - running - waiting;
        if asleep < 0.0 {
            return Err("sessions come and go between two looks");
        }
        // More sessions active than the kernel saw run or wait to: some slept and said nothing.
        // Within the precision of the samples it is their noise.
        let silent = running + waiting < without_wait.low().unwrap_or(without_wait.center);
        let explained = if silent { asleep.min(seen.asleep) } else { asleep };
        Ok(ProcessorAccount {
            running,
            waiting,
            sleep_scale: if seen.asleep > 0.0 { explained / seen.asleep } else { 1.0 },
            unexplained: asleep - explained,
        })
    }
}

/// CPU seconds of a group.
fn cpu_of(processes: &Difference, group: &str) -> Option<f64> {
    let of = |row: &Row| row.text("process_group") == Some(group);
    let user = processes.sum_where("user_seconds", of).ok()?;
    Some(user + processes.sum_where("system_seconds", of).ok()?)
}

/// Client backends by what the ticks show of them, on average.
#[derive(Default)]
struct Seen {
    /// In a wait, or idle.
    asleep: f64,
    /// Active without a wait.
    without_wait: f64,
    /// Of our load, in a transaction.
    ours: f64,
    /// Of others, in a transaction.
    others: f64,
}

impl Seen {
    fn of(ticks: &[&Sample], ours: bool) -> Seen {
        let mut seen = Seen::default();
        for row in ticks.iter().flat_map(|tick| &tick.rows) {
            let is_client = row.text("backend_type") == Some("client backend");
            let Some(sessions) = row.number("sessions").filter(|_| is_client) else { continue };
            let class = WaitClass::of(row);
            match class {
                Some(WaitClass::Cpu) => seen.without_wait += sessions,
                _ => seen.asleep += sessions,
            }
            match !ours || row.flag("ours") == Some(true) {
                _ if class.is_none() => (),
                true => seen.ours += sessions,
                false => seen.others += sessions,
            }
        }
        let per_tick = 1.0 / ticks.len().max(1) as f64;
        for sum in [&mut seen.asleep, &mut seen.without_wait, &mut seen.ours, &mut seen.others] {
            *sum *= per_tick;
        }
        seen
    }
}
