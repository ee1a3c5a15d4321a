//! Which statement the backends' processor time goes to.
//!
//! Two instruments tell, each blind in its own way. Sessions that are seen active without a wait
//! name their statement (`pg_stat_activity.query_id`): that covers parsing, planning and commit,
//! but is a sample. `pg_stat_statements` clocks every execution exactly, but nothing around it,
//! and waits are in its times. The shares are those of the samples where enough were seen, and
//! of the executions, less what they waited, where not; each is checked against the other.
//!
//! A session that is seen at work is not weighted by what it ran since it was seen last: a tick
//! lasts longer than most statements, so that its run time is that of others as well.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use walwright_record::{Record, Source, Window};

use crate::sight::HiddenSessions;
use crate::{StatementUse, StatementUses, WaitClass};

/// Sessions seen at work from which samples tell shares: their standard error is then five
/// points at most.
const ENOUGH: f64 = 100.0;
/// Share that both instruments give to different statements within which they agree, beside
/// what the samples err by.
const ALIKE: f64 = 0.15;

/// Times of `pg_stat_statements` in which an execution reads or writes, in milliseconds.
const IO_TIMES: [&str; 8] = [
    "blk_read_time",
    "blk_write_time",
    "shared_blk_read_time",
    "shared_blk_write_time",
    "local_blk_read_time",
    "local_blk_write_time",
    "temp_blk_read_time",
    "temp_blk_write_time",
];

/// Where shares of the CPU come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuSource {
    /// Sessions seen active without a wait, by their statement.
    Samples,
    /// Execution times without I/O and sampled waits.
    Executions,
}

/// How the CPU of client backends is divided among statements.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StatementCpu {
    /// Where the shares come from.
    pub source: CpuSource,
    /// Sessions seen at work in a known statement.
    pub seen: f64,
    /// Whether samples and executions give the same shares; `None` where samples are too few.
    pub agrees: Option<bool>,
    /// CPU of executions a transaction by `pg_stat_statements`: without I/O and sampled waits,
    /// with the wait for a processor.
    #[serde(with = "crate::seconds")]
    pub executed: Duration,
    /// CPU of client backends a transaction, by the kernel; `None` where it is not counted.
    #[serde(with = "crate::seconds::option")]
    pub counted: Option<Duration>,
    /// Shares by `queryid`, adding up to 1.
    #[serde(skip)]
    shares: BTreeMap<String, f64>,
}

impl StatementCpu {
    /// Divides it; `None` where no statement ran, and where most sessions are hidden: the role's
    /// own statements are then nearly all that there is to see.
    pub(crate) fn of(record: &Record, window: Window, uses: &StatementUses) -> Option<Self> {
        let hidden = HiddenSessions::of(record, window).filter(|_| record.load.is_none());
        if hidden.is_some_and(|hidden| hidden.are_many()) {
            return None;
        }
        let seen = Seen::of(record, window);
        let mut executed = BTreeMap::new();
        for statement in uses.toplevel() {
            *executed.entry(statement.query_id.clone()).or_insert(0.0) +=
                seen.working(statement, uses.seconds);
        }
        let seconds: f64 = executed.values().sum();
        let executed = normalised(executed);
        let sampled = normalised(seen.at_work.clone());
        let is_sampled = seen.count >= ENOUGH;
        let shares = if is_sampled { &sampled } else { &executed };
        if shares.is_empty() {
            return None;
        }
        Some(StatementCpu {
            source: if is_sampled { CpuSource::Samples } else { CpuSource::Executions },
            seen: seen.count,
            agrees: (is_sampled && !executed.is_empty())
                .then(|| apart(&sampled, &executed) <= ALIKE + 1.0 / seen.count.sqrt()),
            executed: crate::seconds::duration(seconds / uses.work.count).unwrap_or_default(),
            counted: None,
            shares: shares.clone(),
        })
    }

    /// Share of a statement, 0 to 1.
    pub fn share(&self, query_id: &str) -> f64 {
        self.shares.get(query_id).copied().unwrap_or(0.0)
    }
}

/// What the ticks show of statements.
#[derive(Debug, Default)]
struct Seen {
    /// Sessions at work.
    count: f64,
    /// The same by statement.
    at_work: BTreeMap<String, f64>,
    /// Sessions in a mean tick that wait inside an execution, and those that commit.
    waiting: BTreeMap<String, f64>,
    committing: BTreeMap<String, f64>,
    reading: BTreeMap<String, f64>,
}

impl Seen {
    fn of(record: &Record, window: Window) -> Seen {
        let mut seen = Seen::default();
        let ticks = || record.samples(Source::Waits).iter().filter(|t| window.contains(t.at));
        let per_tick = 1.0 / ticks().count().max(1) as f64;
        for row in ticks().flat_map(|tick| &tick.rows) {
            let (Some(class), Some(sessions)) = (WaitClass::of(row), row.number("sessions")) else {
                continue;
            };
            let id = row.0.get("query_id").map(ToString::to_string).unwrap_or_default();
            if id.is_empty() || row.number("query_id").is_none() {
                continue;
            }
            let (of, sessions) = match class {
                WaitClass::Cpu => {
                    seen.count += sessions;
                    (&mut seen.at_work, sessions)
                }
                WaitClass::Io => (&mut seen.reading, sessions * per_tick),
                WaitClass::Lock | WaitClass::Lwlock | WaitClass::Other => {
                    (&mut seen.waiting, sessions * per_tick)
                }
                WaitClass::Flush | WaitClass::FlushQueue | WaitClass::Replication => {
                    (&mut seen.committing, sessions * per_tick)
                }
                WaitClass::Client | WaitClass::RunQueue => continue,
            };
            *of.entry(id).or_default() += sessions;
        }
        seen
    }

    /// Seconds of a statement's executions in `length` seconds that were no wait.
    fn working(&self, statement: &StatementUse, length: f64) -> f64 {
        let of = |waits: &BTreeMap<String, f64>| {
            waits.get(&statement.query_id).copied().unwrap_or(0.0) * length
        };
        let timed: f64 = IO_TIMES.iter().filter_map(|column| statement.sum(column)).sum();
        let mut waits = of(&self.waiting) + (timed / 1e3).max(of(&self.reading));
        // A commit is inside the execution of COMMIT alone; that of a statement without a
        // transaction block follows it.
        if matches!(statement.verb().as_str(), "commit" | "end") {
            waits += of(&self.committing);
        }
        (statement.seconds() - waits).max(0.0)
    }
}

fn normalised(mut shares: BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    let all: f64 = shares.values().sum();
    shares.values_mut().for_each(|share| *share /= all);
    shares.retain(|_, share| *share > 0.0);
    shares
}

/// The share that two divisions give to different statements.
fn apart(a: &BTreeMap<String, f64>, b: &BTreeMap<String, f64>) -> f64 {
    let more = |(id, share): (&String, &f64)| (share - b.get(id).unwrap_or(&0.0)).max(0.0);
    a.iter().map(more).sum()
}

#[cfg(test)]
mod tests {
    use walwright_record::{Row, TargetFacts};

    use super::*;
    use crate::{statement_uses, statements};
    use walwright_testing::{Build, embedded, row, second, wait};

    /// Two statements: one executes for 0.2 ms and waits as long for a lock inside, one executes
    /// for 0.1 ms; so many sessions of each are seen at work.
    fn build(at_work: [f64; 2]) -> Build {
        let mut build = Build::new();
        build.load(0, 30, 100);
        let statement = |id: i64, calls: f64, ms: f64| {
            let mut row = row([("calls", calls), ("total_exec_time", calls * ms)]);
            row.set("queryid", id).set("userid", 10_i64).set("dbid", 5_i64).set("toplevel", true);
            row.set("query", "UPDATE t SET a = 1");
            row
        };
        for s in 0..30_u32 {
            let n = 100.0 * f64::from(s);
            let rows = [statement(1, n, 0.4), statement(2, n, 0.1)];
            build.sample(f64::from(s), Source::Statements, rows);
        }
        let seen = |id: i64, kind: &str, event: &str, sessions: f64| -> Row {
            let mut row = wait("active", kind, event, sessions);
            row.set("query_id", id);
            row
        };
        for tick in 0..300_u32 {
            let rows = [
                seen(1, "", "", at_work[0]),
                seen(2, "", "", at_work[1]),
                seen(1, "Lock", "transactionid", 0.02),
            ];
            build.sample(f64::from(tick) / 10.0, Source::Waits, rows);
        }
        build
    }

    fn of(build: &Build) -> StatementCpu {
        let window = Window { start: second(0.0), end: second(30.0) };
        let uses = statement_uses(&build.record, window).unwrap();
        StatementCpu::of(&build.record, window, &uses).unwrap()
    }

    #[test]
    fn executions_tell_shares_without_their_waits_where_samples_are_few() {
        let cpu = of(&build([0.1, 0.1]));
        assert_eq!((cpu.source, cpu.agrees), (CpuSource::Executions, None));
        // 100 a second of 0.4 ms are 0.04 sessions, of which 0.02 wait.
        assert!((cpu.share("1") - 2.0 / 3.0).abs() < 0.01, "{}", cpu.share("1"));
        assert!((cpu.executed.as_secs_f64() - 0.3e-3).abs() < 5e-6, "{:?}", cpu.executed);
    }

    #[test]
    fn a_role_that_sees_its_own_statements_alone_is_told_no_shares() {
        let mut build = build([2.0, 1.0]);
        build.record.load = None;
        build.record.target = Some(TargetFacts { superuser: false, monitor: false, ..embedded() });
        for s in 0..30_u32 {
            let counts = row([("hidden", 4.0), ("client_backends", 1.0)]);
            build.sample(f64::from(s), Source::Sessions, [counts]);
            let commits = row([("xact_commit", 100.0 * f64::from(s))]);
            build.sample(f64::from(s), Source::Database, [commits]);
        }
        let window = Window { start: second(0.0), end: second(30.0) };
        let uses = statement_uses(&build.record, window).unwrap();
        assert_eq!(StatementCpu::of(&build.record, window, &uses), None);
        build.record.target = Some(embedded());
        assert!(StatementCpu::of(&build.record, window, &uses).is_some());
    }

    #[test]
    fn samples_are_checked_against_executions() {
        let alike = of(&build([2.0, 1.0]));
        assert_eq!((alike.source, alike.agrees), (CpuSource::Samples, Some(true)));
        assert!((alike.share("2") - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(of(&build([0.2, 2.0])).agrees, Some(false));
    }

    #[test]
    fn statements_have_their_share() {
        let window = Window { start: second(0.0), end: second(30.0) };
        let seen = statements(&build([2.0, 1.0]).record, window, 10).unwrap();
        let first = seen.by_time[0].cpu_share.unwrap();
        assert!((first - 2.0 / 3.0).abs() < 1e-9);
    }
}
