//! A record read once for all rules: figures, latency breakdown, statements, and the
//! arithmetic from seconds to impact and gain.

use std::time::Duration;

use walwright_figures::queueing::{Calibration, Uncalibrated, processors};
use walwright_figures::window::{driven_between, failures};
use walwright_figures::{
    Blind, ClientSessions, Difference, GroupCpu, LatencyBreakdown, StatementUses, Summary, TIME,
    TimeSplit, WaitClass, Work, difference, statement_uses, summary_with, work_between,
    work_counted,
};
use walwright_record::{Record, Row, Schedule, Setting, Source, Window};
use walwright_stats::{
    Confidence, Estimate, EstimateWarning, Method, Resampling, mean, tick_means,
};

use crate::{
    Action, Change, DiagnosisId, DurabilityClass, Finding, Gain, Impact, Kind, Needs, Per, Relief,
};

/// Groups that the ticks of a run are merged to before they are resampled.
const GROUPS: usize = 300;

/// Times its own CPU that work is said to wait for a processor at most: beyond, the
/// machine is so full that proportions say little.
const MOST_WAIT: f64 = 5.0;

/// The version that a record without one is taken to be of.
const NEWEST: u32 = 18;

/// What executing statements costs a transaction, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Execution {
    /// CPU of the backends, no more than the executions last.
    pub cpu: f64,
    /// The same with their part of what is around executions: parsing, and commits.
    pub cpu_around: f64,
    /// Time, with the wait for a processor.
    pub time: f64,
}

/// What the rules read: the record and what was computed from it once.
#[derive(Debug)]
pub struct Reading<'r> {
    /// The record.
    pub record: &'r Record,
    /// The measured window.
    pub window: Window,
    /// The figures of the window.
    pub summary: Summary,
    /// The client's latency, line by line; `None` without samples of wait events.
    pub latency_breakdown: Option<LatencyBreakdown>,
    /// The statements that ran, or why they are not known.
    pub statements: Result<StatementUses, Blind>,
    /// The queueing model of the run, or why there is none.
    pub calibration: Result<Calibration, Uncalibrated>,
}

impl<'r> Reading<'r> {
    /// Reads a record; `None` for one without a measured window.
    pub fn new(record: &'r Record) -> Option<Reading<'r>> {
        let statements = statement_uses(record, record.window()?);
        let summary = summary_with(record, Some(&statements));
        Reading::of(record, summary, statements)
    }

    /// The same, where the record's figures are known already.
    pub fn with(record: &'r Record, summary: Summary) -> Option<Reading<'r>> {
        let statements = statement_uses(record, record.window()?);
        Reading::of(record, summary, statements)
    }

    fn of(
        record: &'r Record,
        summary: Summary,
        statements: Result<StatementUses, Blind>,
    ) -> Option<Reading<'r>> {
        let window = record.window()?;
        Some(Reading {
            record,
            window,
            latency_breakdown: LatencyBreakdown::close(record, window, &summary),
            statements,
            calibration: Calibration::of(record, window, &summary),
            summary,
        })
    }

    /// Why it is not known where the time of a transaction went; `None` where it is.
    pub fn blind_to_time(&self) -> Option<&Blind> {
        let missing = self.summary.not_observable.iter();
        missing.filter(|n| n.figure == TIME).map(|n| &n.why).next()
    }

    /// A setting of the server by name.
    pub fn setting(&self, name: &str) -> Option<&'r Setting> {
        self.record.setting(name)
    }

    /// Whether a setting has this value.
    pub fn is_set(&self, name: &str, value: &str) -> bool {
        self.setting(name).is_some_and(|s| s.value.eq_ignore_ascii_case(value))
    }

    /// A number among the settings, in the setting's own unit.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.setting(name)?.value.parse().ok()
    }

    /// A setting that is a size, in bytes; `None` where it is not known, or -1.
    pub fn bytes(&self, name: &str) -> Option<f64> {
        let setting = self.setting(name)?;
        let value: f64 = setting.value.parse().ok().filter(|v| *v >= 0.0)?;
        let unit = match setting.unit.as_deref().unwrap_or("B") {
            "B" => 1.0,
            "kB" => 1024.0,
            "MB" => 1024.0 * 1024.0,
            "GB" => 1024.0 * 1024.0 * 1024.0,
            // `8kB`, `16kB`: blocks.
            blocks => blocks.strip_suffix("kB")?.parse::<f64>().ok()? * 1024.0,
        };
        Some(value * unit)
    }

    /// A setting that is a time, in seconds.
    pub fn seconds(&self, name: &str) -> Option<f64> {
        let setting = self.setting(name)?;
        let value: f64 = setting.value.parse().ok()?;
        let unit = match setting.unit.as_deref()? {
            "us" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "min" => 60.0,
            "h" => 3600.0,
            "d" => 86400.0,
            _ => return None,
        };
        Some(value * unit)
    }

    /// The server's version as a number, 180006, where the record has it.
    pub fn version(&self) -> Option<u32> {
        self.record.target.as_ref().map(|t| t.version_num)
    }

    /// Whether the server runs on the machine that was sampled. If not, nothing
    /// about the host is observable.
    pub fn is_local(&self) -> bool {
        self.record.target.as_ref().is_some_and(|t| t.local)
    }

    /// Processors that the server may use, where they are known.
    pub fn processors(&self) -> Option<f64> {
        processors(self.record)
    }

    /// Memory that the server may use in bytes, where it is known.
    pub fn memory(&self) -> Option<f64> {
        let host = self.record.host.as_ref().filter(|_| self.is_local())?;
        let all = host.memory_bytes?;
        Some(host.cgroup_memory_bytes.map_or(all, |limit| limit.min(all)) as f64)
    }

    /// Mean latency of a transaction, or for a load whose clients are not in the record its time
    /// on the server, in a gateway and waiting for a pool; in seconds.
    pub fn latency(&self) -> Option<f64> {
        let seen = self.summary.load.as_ref().and_then(|l| l.latency.as_ref());
        seen.map(|l| l.mean.as_secs_f64())
            .or_else(|| self.summary.time.as_ref().map(TimeSplit::whole))
            .filter(|latency| *latency > 0.0)
    }

    /// Counters of a source over the window.
    ///
    /// # Errors
    /// As [`difference`].
    pub fn difference(&self, source: Source) -> Result<Difference, Blind> {
        difference(self.record, source, self.window)
    }

    /// The work whose counts moved counters.
    ///
    /// # Errors
    /// As [`work_counted`].
    pub fn work(&self, of: &Difference) -> Result<Work, Blind> {
        work_counted(self.record, of)
    }

    /// Seconds of a transaction that sessions spend as the chosen rows of wait
    /// events say, with an interval from a bootstrap over ticks; `None` without
    /// enough ticks. Sessions in a wait are scaled to what the kernel leaves for sleep;
    /// those without one are as sampled.
    pub fn spent(&self, chosen: impl Fn(&Row) -> bool) -> Option<Estimate> {
        let samples = self.record.samples(Source::Waits);
        let inside = || samples.iter().filter(|s| self.window.contains(s.at));
        let (first, last) = (inside().next()?, inside().next_back()?);
        let scale = self.summary.time.as_ref()?.sleep_scale;
        let work = work_between(self.record, first.at, last.at).ok()?;
        let failed = driven_between(self.record, first.at, last.at, failures).unwrap_or(0.0);
        let rate = (work.count + failed) / last.at.since(first.at).as_secs_f64();
        let clients = ClientSessions::of(self.record, self.window);
        let counts = |row: &Row| clients.contain(row) && chosen(row);
        let ticks: Vec<f64> = inside()
            .map(|tick| {
                let of = tick.rows.iter().filter(|row| counts(row));
                let scaled = |row: &Row| WaitClass::of(row).map_or(scale.client, |c| scale.of(c));
                of.filter_map(|row| Some(row.number("sessions")? * scaled(row))).sum()
            })
            .collect();
        if ticks.iter().all(|sessions| *sessions == 0.0) {
            // Most events are never seen; resampling nothing gives nothing.
            let method = Method::BlockBootstrap;
            let never = Estimate::symmetric(0.0, 0.0, Confidence::P95, method);
            return Some(never.with_warning(EstimateWarning::NoSpread));
        }
        // Neighbouring ticks go together: blocks are resampled anyway, and a long run has
        // more ticks than an interval needs.
        let groups: Vec<Vec<f64>> = ticks
            .chunks(ticks.len().div_ceil(GROUPS))
            .map(|group| vec![group.iter().sum::<f64>() / group.len() as f64])
            .collect();
        let sessions = tick_means(&groups, &Resampling::default())?.pop()?;
        let center = mean(&ticks)?;
        Some(Estimate { center, ..sessions }.map(|n| n / rate))
    }

    /// Seconds of a transaction in these classes; `None` without samples of wait events.
    pub fn in_classes(&self, classes: &[WaitClass]) -> Option<Estimate> {
        self.spent(|row| WaitClass::of(row).is_some_and(|class| classes.contains(&class)))
    }

    /// Seconds of a transaction that its backend waits for a processor, where that is a line
    /// of the latency breakdown; 0 otherwise.
    pub fn in_run_queue(&self) -> f64 {
        let part = self.summary.time.as_ref().and_then(|time| time.part(WaitClass::RunQueue));
        part.map_or(0.0, |part| part.per_transaction.center)
    }

    /// Seconds of a transaction that a gateway withheld its answer until it was durable; 0 where
    /// that is not known.
    pub fn withheld(&self) -> f64 {
        let gateway = self.summary.time.as_ref().and_then(|time| time.gateway);
        gateway.map_or(0.0, |of| of.withheld.as_secs_f64())
    }

    /// Seconds of a transaction in wait events of one type, by their names, in any case.
    pub fn in_events(&self, kind: &str, names: &[&str]) -> Option<Estimate> {
        self.spent(|row| {
            WaitClass::of(row).is_some()
                && row.text("wait_event_type") == Some(kind)
                && row
                    .text("wait_event")
                    .is_some_and(|event| names.iter().any(|n| event.eq_ignore_ascii_case(n)))
        })
    }

    /// Seconds of a transaction that were counted, not sampled. A count is exact;
    /// what it is divided by varies as throughput does, and so does the result.
    pub fn counted(&self, seconds: f64) -> Estimate {
        let throughput = self.summary.load.as_ref().and_then(|l| l.throughput.as_ref());
        let relative = throughput.and_then(Estimate::relative_half_width).unwrap_or(f64::NAN);
        Estimate::symmetric(seconds, seconds * relative, Confidence::P95, Method::BatchMeans)
    }

    /// The unit of work that figures are per.
    pub fn per(&self) -> Per {
        match self.record.intervals.is_empty() {
            true => Per::Commit,
            false => Per::Transaction,
        }
    }

    /// A finding over the measured window.
    pub fn finding(&self, id: DiagnosisId, kind: Kind, cause: impl Into<String>) -> Finding {
        Finding::new(id, kind, self.window, cause)
    }

    /// A cost of so many seconds of a transaction as a share of the latency.
    pub fn impact(&self, per_transaction: Estimate) -> Option<Impact> {
        let latency = self.latency()?;
        let share = |seconds: f64| (seconds / latency).clamp(0.0, 1.0);
        Some(Impact { share: per_transaction.clone().map(share), per_transaction })
    }

    /// What a relief is predicted to gain; `None` where the latency is not known.
    pub fn gain(&self, relief: &Relief) -> Option<Gain> {
        let relief = Relief { queue: self.pool_queue(), ..relief.clone() };
        match &self.calibration {
            // The model's clients have sessions of their own: it knows no gateway.
            Ok(calibration) if self.withheld() == 0.0 => Some(relief.gain(calibration)),
            _ => self.latency().map(|latency| relief.gain_of(latency)),
        }
    }

    /// Seconds that requests wait for a session of the application's pool for each second that one
    /// is held, where that is most of their latency: whoever holds it for shorter shortens the
    /// queue.
    fn pool_queue(&self) -> f64 {
        let told = self.summary.time.as_ref().and_then(|time| time.application?.pool_wait);
        let (Some(wait), Some(latency)) = (told, self.latency()) else { return 0.0 };
        let (wait, held) = (wait.as_secs_f64(), latency - wait.as_secs_f64());
        if held > 0.0 && wait > held { wait / held } else { 0.0 }
    }

    /// The action that sets `name` to `value`, or to the end of its range that is nearest;
    /// `None` where the server does not have the setting, or has it at that value already.
    pub fn set(&self, name: &str, value: &str, text: impl Into<String>) -> Option<Action> {
        let setting = self.setting(name)?;
        let major = self.version().map_or(NEWEST, |version| version / 10_000);
        let value = match walwright_catalog::setting(name) {
            Some(known) => known.nearest_in(major, value)?,
            None => value.to_owned(),
        };
        let same = |a: &str| a.replace(' ', "").eq_ignore_ascii_case(&value.replace(' ', ""));
        if same(&setting.shown) || same(&setting.value) {
            return None;
        }
        let rollback = match setting.source.as_str() {
            "default" => format!("ALTER SYSTEM RESET {name};"),
            _ => format!("ALTER SYSTEM SET {name} = '{}';", setting.shown.replace('\'', "''")),
        };
        Some(Action {
            text: text.into(),
            change: Change::Setting { name: name.to_owned(), value },
            class: DurabilityClass::S,
            needs: Needs::of_context(&setting.context),
            rollback: Some(rollback),
            gain: None,
        })
    }

    /// The advice to save round trips. Of a load that our driver made statement by statement,
    /// lean mode does so: it sends a whole transaction at once.
    pub fn pipelined(&self, text: &str) -> Action {
        let load = self.record.load.as_ref();
        match load.is_some_and(|load| load.mode == "faithful" && load.protocol == "prepared") {
            true => Action::client(text, "--lean"),
            false => Action::advice(text),
        }
    }

    /// Advice to send rows in another form, which the workload may have as an option: then an
    /// experiment can try it. In an open loop its transactions would be other ones at the same
    /// rate.
    pub fn in_form(&self, text: impl Into<String>, form: &str, rows: Option<u32>) -> Action {
        let load = self.record.load.as_ref();
        let closed = load.is_some_and(|load| matches!(load.schedule, Schedule::Closed { .. }));
        let Some((rows_option, form_option)) = self.batch_options().filter(|_| closed) else {
            return Action::advice(text);
        };
        let rows = rows.map(|rows| format!(" --option {rows_option}={rows}")).unwrap_or_default();
        Action::client(text, format!("--option {form_option}={form}{rows}"))
    }

    /// The options of the workload that say how many rows its script sends together, and in
    /// which form.
    fn batch_options(&self) -> Option<(&str, &str)> {
        let workload = self.record.workload.as_ref()?;
        let [script] = &workload.scripts[..] else { return None };
        let mut lines = script.text.lines().map(str::trim_start);
        let batch = lines.find_map(|line| line.strip_prefix("\\batch "))?;
        let mut words = batch.split_whitespace().map(|word| word.strip_prefix(':'));
        let (rows, form) = (words.next()??, words.next()??);
        let known = |name: &str| workload.options.contains_key(name);
        (known(rows) && known(form)).then_some((rows, form))
    }

    /// Seconds of a transaction that what is in its way waits for a processor: the
    /// backends of clients and the load.
    pub(crate) fn run_delay(&self) -> f64 {
        let in_the_way = self.working_groups().filter(|g| {
            g.group == walwright_figures::cpu::CLIENT_BACKENDS || !g.group.starts_with("server: ")
        });
        in_the_way.filter_map(|g| g.run_delay_per_transaction).map(|d| d.as_secs_f64()).sum()
    }

    /// Server, clients, an application. Other processes are no limit: the scheduler would
    /// take from them for the load.
    fn working_groups(&self) -> impl Iterator<Item = &GroupCpu> {
        let groups = self.summary.cpu.iter().flat_map(|cpu| &cpu.groups);
        groups.filter(|g| {
            !g.group.starts_with("other: ")
                && g.group != walwright_figures::cpu::PROBE_BACKENDS
                && g.group != "kernel threads"
        })
    }

    /// The time that work of so much CPU takes: processes that are ready to run wait
    /// for a processor in proportion to what they need of it.
    pub fn with_processor_wait(&self, cpu: f64) -> f64 {
        let time = self.summary.time.as_ref();
        let counted = time.and_then(|t| t.counted_cpu.zip(t.counted_run_delay));
        let waiting = counted.filter(|(used, _)| !used.is_zero());
        cpu * waiting.map_or(1.0, |(used, delay)| {
            1.0 + (delay.as_secs_f64() / used.as_secs_f64()).min(MOST_WAIT)
        })
    }

    /// CPU seconds of a transaction that go with waiting so many seconds in it, at most:
    /// sessions that queue enter and leave their waits, wake each other and look at the
    /// queue. It is what backends used beyond the part of their sampled CPU time that they
    /// did have a processor, shared among all waits.
    pub fn cpu_of_waiting(&self, seconds: f64) -> f64 {
        let Some(time) = &self.summary.time else { return 0.0 };
        let Some((cpu, delay)) = time.counted_cpu.zip(time.counted_run_delay) else { return 0.0 };
        let (cpu, delay) = (cpu.as_secs_f64(), delay.as_secs_f64());
        let waits = time.parts.iter().filter(|part| {
            !matches!(part.class, WaitClass::Cpu | WaitClass::RunQueue | WaitClass::Client)
        });
        let waiting: f64 = waits.map(|part| part.per_transaction.center).sum();
        if cpu <= 0.0 || waiting <= 0.0 {
            return 0.0;
        }
        let in_waits = (cpu - time.sampled_cpu * cpu / (cpu + delay)).max(0.0);
        in_waits * (seconds / waiting).min(1.0)
    }

    /// What statements cost that execute for so many seconds of a transaction: their
    /// time as the server clocked it or, where that is more, their part of the CPU that
    /// backends use and of the time that they wait for it. On a full machine work makes
    /// everybody wait, also those who do not execute.
    pub fn execution(&self, seconds: f64) -> Execution {
        let part = self.part_of_execution(seconds);
        let time = self.summary.time.as_ref();
        let of = |counted: Option<Duration>| counted.map_or(0.0, |c| c.as_secs_f64() * part);
        let cpu = of(time.and_then(|t| t.counted_cpu));
        let delay = of(time.and_then(|t| t.counted_run_delay)).min(MOST_WAIT * cpu);
        // Without the kernel's counts execution is taken to be CPU.
        let known = time.is_some_and(|t| t.counted_cpu.is_some());
        Execution {
            cpu: if known { cpu.min(seconds) } else { seconds },
            cpu_around: if known { cpu } else { seconds },
            time: seconds.max(cpu + delay),
        }
    }

    /// Share of the execution time of all statements.
    fn part_of_execution(&self, seconds: f64) -> f64 {
        let Ok(uses) = &self.statements else { return 0.0 };
        let all: f64 = uses.toplevel().map(walwright_figures::StatementUse::seconds).sum();
        let each = all / uses.work.count;
        if each > 0.0 { (seconds / each).min(1.0) } else { 0.0 }
    }

    /// Length of the window.
    pub fn length(&self) -> Duration {
        self.window.length()
    }
}
