//! What the kernel counted of the server's client backends, laid beside samples of them.
//!
//! Samples of wait events tell why a session sleeps. They do not tell how long it runs or
//! waits for a processor: the sampler runs on a processor that a session would have had, and
//! a backend that has been woken shows the wait it was woken from until it runs. The
//! scheduler counts both times of every process exactly (`/proc/PID/schedstat`,
//! Documentation/scheduler/sched-stats.rst). Every backend is at each moment running, waiting
//! for a processor, or asleep, so what the kernel leaves for sleep is shared among the waits.
//!
//! What the samples of waits hold beyond that is waiting for a processor after a wait. It
//! happens once for each sleep, however long that was, so it is taken from waits by their
//! number: those for the client are as many as its messages, the others what is left of the
//! times that the backends went to sleep. Where these are not known it is taken in proportion
//! to length.

use serde::Serialize;
use walwright_record::{LoadFacts, Record, Row, Sample, Source, Window};
use walwright_stats::Estimate;

use crate::cpu::{CLIENT_BACKENDS, EXITED_PROCESSES};
use crate::window::intervals_inside;
use crate::{Difference, StatementUses, WaitClass, difference, statement_uses};

/// Part of the backends' CPU that may have been used by processes which ended between two
/// looks, and was so counted without its role and its waits.
const UNSEEN: f64 = 0.1;
/// Sessions of others in a transaction, as a part of ours, from which the kernel's figures,
/// which are of all client backends, say nothing of ours.
const OTHERS: f64 = 0.05;

/// What samples of sessions in a wait are multiplied by to fit what the kernel leaves for
/// sleep.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SleepScale {
    /// Waiting for the client, idle sessions among them.
    pub client: f64,
    /// In any other wait.
    pub other: f64,
}

impl SleepScale {
    /// The samples as they are.
    pub(crate) const ONE: SleepScale = SleepScale { client: 1.0, other: 1.0 };

    /// That of a class; samples without a wait stay as they are.
    pub fn of(self, class: WaitClass) -> f64 {
        match class {
            WaitClass::Cpu | WaitClass::RunQueue => 1.0,
            WaitClass::Client => self.client,
            _ => self.other,
        }
    }

    /// The same, of so much less.
    pub(crate) fn times(self, factor: f64) -> SleepScale {
        SleepScale { client: self.client * factor, other: self.other * factor }
    }
}

/// Where the client backends were, on average over the window, by the kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ProcessorAccount {
    /// Backends on a processor.
    pub(crate) running: f64,
    /// Backends that were ready to run and waited for a processor.
    pub(crate) waiting: f64,
    /// What the samples of sleeping sessions are multiplied by.
    pub(crate) scale: SleepScale,
    /// Backends that slept while no wait event said so.
    pub(crate) unexplained: f64,
}

impl ProcessorAccount {
    /// Reads it; the error says why only samples are left, as the end of a sentence.
    /// `without_wait` are sessions that were sampled active without a wait; statements are read
    /// where they are wanted and not given.
    pub(crate) fn of(
        record: &Record,
        window: Window,
        ticks: &[&Sample],
        ours: bool,
        without_wait: &Estimate,
        statements: Option<&StatementUses>,
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
        let mut seen = Seen::of(ticks, ours);
        // A pool may hold more sessions than it has ever needed at once.
        if !record.load.as_ref().is_some_and(LoadFacts::asks_http) {
            seen.resting = 0.0;
        }
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
            scale: seen.scale_to(explained, sleeps(record, window, &processes, statements)),
            unexplained: asleep - explained,
        })
    }
}

/// Times a second that backends went to sleep to wait for the client, and for anything else.
fn sleeps(
    record: &Record,
    window: Window,
    processes: &Difference,
    statements: Option<&StatementUses>,
) -> Option<[f64; 2]> {
    let is_backend = |row: &Row| row.text("process_group") == Some(CLIENT_BACKENDS);
    let all = processes.sum_where("voluntary_switches", is_backend).ok()?;
    let all = all / processes.length().as_secs_f64();
    let (messages, transactions) = match &record.load {
        // Of an application's sessions the clients know nothing.
        Some(load) if !load.asks_http() => messages(record, window)?,
        _ => {
            let read;
            let statements = match statements {
                Some(statements) => statements,
                None => {
                    read = statement_uses(record, window).ok()?;
                    &read
                }
            };
            let calls: f64 = statements.toplevel().map(|of| of.calls).sum();
            (calls / statements.seconds, statements.work.count / statements.seconds)
        }
    };
    // An answer may be there before the session sleeps, so fewer sleeps are for the client than
    // there are messages; of what else a transaction waits for, it sleeps once at least.
    let other = (all - messages).max(transactions).min(all);
    Some([all - other, other]).filter(|_| all > 0.0)
}

/// Messages a second that clients of ours sent and had answered one by one, and transactions;
/// `None` where their scripts, or a pooler between, send several messages together.
fn messages(record: &Record, window: Window) -> Option<(f64, f64)> {
    if record.load.as_ref().is_some_and(|load| load.pooler.is_some()) {
        return None;
    }
    let scripts = &record.workload.as_ref()?.scripts;
    if scripts.iter().any(|script| script.text.contains("\\startpipeline")) {
        return None;
    }
    let (mut sent, mut ended, mut seconds) = (0.0, 0.0, 0.0);
    for interval in intervals_inside(record, window) {
        for (script, done) in scripts.iter().zip(&interval.scripts) {
            sent += script.statements.len() as f64 * done.transactions as f64;
            ended += done.transactions as f64;
        }
        seconds += interval.length.as_secs_f64();
    }
    (seconds > 0.0).then(|| (sent / seconds, ended / seconds))
}

/// CPU seconds of a group.
fn cpu_of(processes: &Difference, group: &str) -> Option<f64> {
    let of = |row: &Row| row.text("process_group") == Some(group);
    let user = processes.sum_where("user_seconds", of).ok()?;
    Some(user + processes.sum_where("system_seconds", of).ok()?)
}

/// Client backends, those of our load where there is one, by what the ticks show of them, on
/// average.
#[derive(Default)]
struct Seen {
    /// In a wait, or idle.
    asleep: f64,
    /// Of them, those that wait for the client.
    client: f64,
    /// Of them, idle in every tick: as many are never woken.
    resting: f64,
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
        let idle = |tick: &&Sample| -> f64 {
            let client = |row: &&Row| row.text("backend_type") == Some("client backend");
            let idle = tick.rows.iter().filter(client).filter(|row| WaitClass::of(row).is_none());
            idle.filter_map(|row| row.number("sessions")).sum()
        };
        seen.resting = ticks.iter().map(idle).reduce(f64::min).unwrap_or(0.0);
        for row in ticks.iter().flat_map(|tick| &tick.rows) {
            let is_client = row.text("backend_type") == Some("client backend");
            let Some(sessions) = row.number("sessions").filter(|_| is_client) else { continue };
            let class = WaitClass::of(row);
            // Others, which are idle or the kernel's figures do not count, are not woken.
            if ours && row.flag("ours") != Some(true) {
                seen.others += if class.is_some() { sessions } else { 0.0 };
                continue;
            }
            seen.ours += if class.is_some() { sessions } else { 0.0 };
            match class {
                Some(WaitClass::Cpu) => seen.without_wait += sessions,
                _ => seen.asleep += sessions,
            }
            if matches!(class, None | Some(WaitClass::Client)) {
                seen.client += sessions;
            }
        }
        let per_tick = 1.0 / ticks.len().max(1) as f64;
        let Seen { asleep, client, without_wait, ours, others, resting: _ } = &mut seen;
        for sum in [asleep, client, without_wait, ours, others] {
            *sum *= per_tick;
        }
        seen
    }

    /// Scales those asleep to what there was of sleep, taking what is too much from waits by
    /// their number a second, for the client and others, where that is known.
    fn scale_to(&self, sleep: f64, sleeps: Option<[f64; 2]>) -> SleepScale {
        // Those that rest are as they were seen.
        let [asleep, client, sleep] =
            [self.asleep, self.client, sleep].map(|of| (of - self.resting).max(0.0));
        if asleep <= 0.0 {
            return SleepScale::ONE;
        }
        let even = sleep / asleep;
        let other = asleep - client;
        let Some([of_client, of_other]) = sleeps.filter(|_| even < 1.0) else {
            return SleepScale { client: even, other: even };
        };
        let delay = (asleep - sleep) / (of_client + of_other);
        // A wait is no shorter than nothing: the rest is the other's.
        let from_other = (of_other * delay).clamp((asleep - sleep - client).max(0.0), other);
        let from_client = asleep - sleep - from_other;
        let kept = |of: f64, less: f64| if of > 0.0 { (1.0 - less / of).max(0.0) } else { 1.0 };
        SleepScale { client: kept(client, from_client), other: kept(other, from_other) }
    }
}
