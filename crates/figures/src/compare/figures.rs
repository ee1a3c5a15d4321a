//! The figures of a run that are compared, and their changes.

use std::collections::BTreeMap;

use serde::Serialize;
use walwright_record::{Record, RunHeader, RunId, RunState, Source, Timestamp};
use walwright_stats::{Estimate, Interval, holm};

use super::compared_figure::{ComparedFigure, Section};
use super::effect::{Basis, effect};
use super::group::{GroupValue, RunGroup};
use crate::figure_unit::{Better, FigureUnit};
use crate::time_split::EVENTS;
use crate::{ProcessRole, Summary, TimeSplit, WaitClass, difference, work_counted};

/// What a figure is, whatever run it is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FigureKind {
    /// A short stable name.
    pub key: String,
    /// What a person calls it.
    pub name: String,
    /// Where it belongs.
    pub section: Section,
    /// Its unit.
    pub unit: FigureUnit,
    /// Which way is better, where one is.
    pub better: Option<Better>,
}

/// Every figure that runs are compared by, in the order they are shown.
pub fn figure_kinds() -> Vec<FigureKind> {
    let record = Record::new(RunHeader {
        id: RunId(String::new()),
        started: Timestamp(0),
        ended: None,
        state: RunState::Complete,
        walwright_version: String::new(),
        command: String::new(),
        label: None,
        workload: String::new(),
        target: String::new(),
        error: None,
    });
    let kind = |figure: Figure| FigureKind {
        key: figure.key,
        name: figure.name,
        section: figure.section,
        unit: figure.unit,
        better: figure.better,
    };
    figures(&record, &crate::summary(&record)).0.into_iter().map(kind).collect()
}

/// The figures of one run by their keys; what is not known of it is absent.
pub fn run_figures(record: &Record, summary: &Summary) -> BTreeMap<String, f64> {
    let known = figures(record, summary).0.into_iter();
    known.filter_map(|figure| Some((figure.key, figure.value.filter(|v| v.is_finite())?))).collect()
}

/// A figure of one run.
struct Figure {
    key: String,
    name: String,
    section: Section,
    unit: FigureUnit,
    better: Option<Better>,
    value: Option<f64>,
    interval: Option<Interval>,
}

/// The same figures of every run, in the same order.
struct Figures(Vec<Figure>);

impl Figures {
    fn push(
        &mut self,
        section: Section,
        (key, name): (&str, &str),
        unit: FigureUnit,
        better: Option<Better>,
        value: Option<f64>,
    ) {
        self.0.push(Figure {
            key: key.to_owned(),
            name: name.to_owned(),
            section,
            unit,
            better,
            value,
            interval: None,
        });
    }

    fn estimated(
        &mut self,
        section: Section,
        names: (&str, &str),
        unit: FigureUnit,
        better: Option<Better>,
        value: Option<&Estimate>,
    ) {
        self.push(section, names, unit, better, value.map(|estimate| estimate.center));
        if let Some(last) = self.0.last_mut() {
            last.interval = value.and_then(|estimate| estimate.interval);
        }
    }
}

/// The figures of all groups with their changes.
pub(super) fn compared(
    groups: &[RunGroup],
    summaries: &[Vec<Summary>],
    bases: &[Basis],
) -> Vec<ComparedFigure> {
    let of_runs: Vec<Vec<Figures>> = groups
        .iter()
        .zip(summaries)
        .map(|(group, summaries)| {
            group.runs.iter().zip(summaries).map(|(run, summary)| figures(run, summary)).collect()
        })
        .collect();
    let count = of_runs[0][0].0.len();
    (0..count)
        .map(|place| {
            let values: Vec<GroupValue> = of_runs
                .iter()
                .map(|runs| {
                    GroupValue::of(runs.iter().map(|figures| figures.0[place].value).collect())
                })
                .collect();
            let within = |group: usize| of_runs[group][0].0[place].interval;
            let mut effects: Vec<_> = bases
                .iter()
                .enumerate()
                .map(|(other, basis)| {
                    let intervals = [within(0), within(other + 1)];
                    effect(&values[0], &values[other + 1], intervals, *basis)
                })
                .collect();
            let tested: Vec<f64> =
                effects.iter().flatten().filter_map(|effect| effect.p_value).collect();
            let corrected = holm(&tested);
            let with_test = effects.iter_mut().flatten().filter(|e| e.p_value.is_some());
            for (effect, corrected) in with_test.zip(corrected) {
                effect.corrected_p = Some(corrected);
            }
            let figure = &of_runs[0][0].0[place];
            ComparedFigure {
                key: figure.key.clone(),
                name: figure.name.clone(),
                section: figure.section,
                unit: figure.unit,
                better: figure.better,
                values,
                effects,
            }
        })
        .collect()
}

/// Every figure of a run; what is not known has no value.
fn figures(record: &Record, summary: &Summary) -> Figures {
    let mut figures = Figures(Vec::new());
    load(&mut figures, summary);
    time(&mut figures, summary);
    work(&mut figures, record, summary);
    machine(&mut figures, summary);
    figures
}

fn load(figures: &mut Figures, summary: &Summary) {
    use FigureUnit::{PerSecond, Seconds, Share};
    let (higher, lower) = (Some(Better::Higher), Some(Better::Lower));
    let load = summary.load.as_ref();
    let server = summary.server_load.as_ref();
    let section = Section::Load;
    let throughput = load.and_then(|load| load.throughput.as_ref());
    figures.estimated(section, ("throughput", "throughput"), PerSecond, higher, throughput);
    let commits = server.and_then(|server| server.commits_per_second.as_ref());
    figures.estimated(section, ("commits", "server commits"), PerSecond, higher, commits);
    let mean = load.and_then(|load| load.mean_latency).map(|mean| mean.as_secs_f64());
    figures.push(section, ("latency_mean", "mean latency"), Seconds, lower, mean);
    let precision = load.and_then(|load| load.precision.as_ref());
    let latency = load.and_then(|load| load.latency.as_ref());
    for (place, (key, name)) in [
        ("latency_p50", "p50"),
        ("latency_p95", "p95"),
        ("latency_p99", "p99"),
        ("latency_p99_9", "p99.9"),
    ]
    .into_iter()
    .enumerate()
    {
        let value = latency.map(|of| [of.p50, of.p95, of.p99, of.p99_9][place].as_secs_f64());
        figures.push(section, (key, name), Seconds, lower, value);
        let interval =
            precision.and_then(|of| [&of.p50, &of.p95, &of.p99, &of.p99_9][place].interval);
        if let Some(last) = figures.0.last_mut() {
            last.interval = interval;
        }
    }
    let failed = load.map(|load| {
        let all = load.failed + load.transactions;
        if all == 0 { 0.0 } else { load.failed as f64 / all as f64 }
    });
    figures.push(section, ("failed", "failed"), Share, lower, failed);
    let rolled = server.and_then(|server| server.rollback_share);
    figures.push(section, ("rolled_back", "rolled back on the server"), Share, lower, rolled);
}

fn time(figures: &mut Figures, summary: &Summary) {
    let split = summary.time.as_ref();
    let lower = Some(Better::Lower);
    for class in WaitClass::ALL {
        // A class that no tick showed is none, where there were ticks.
        let part = split.map(|split| split.part(class).map(|part| &part.per_transaction));
        let key = format!("time_{class:?}").to_ascii_lowercase();
        let names = (key.as_str(), class.label());
        match part {
            Some(Some(estimate)) => {
                figures.estimated(Section::Time, names, FigureUnit::Seconds, lower, Some(estimate));
            }
            Some(None) => {
                figures.push(Section::Time, names, FigureUnit::Seconds, lower, Some(0.0));
            }
            None => figures.push(Section::Time, names, FigureUnit::Seconds, lower, None),
        }
    }
    let queue = split.and_then(|split| split.queue).map(|queue| queue.as_secs_f64());
    let names = ("time_extend", "waiting to extend a relation");
    figures.push(Section::Time, names, FigureUnit::Seconds, lower, split.and_then(extending));
    let names = ("time_queue", "waiting to begin");
    figures.push(Section::Time, names, FigureUnit::Seconds, lower, queue);
    let outside = split.and_then(TimeSplit::outside);
    let names = ("time_outside", "outside, network");
    figures.estimated(Section::Time, names, FigureUnit::Seconds, None, outside.as_ref());
}

/// Time in waits for the lock by which a relation gets new pages, which is a part of that in
/// locks; `None` where other locks are waited for so much that it is not told.
fn extending(split: &TimeSplit) -> Option<f64> {
    let Some(locks) = split.part(WaitClass::Lock) else { return Some(0.0) };
    match locks.events.iter().find(|event| event.event.eq_ignore_ascii_case(EXTEND)) {
        Some(event) => Some(event.per_transaction),
        None => (locks.events.len() < EVENTS).then_some(0.0),
    }
}

/// That wait as the server names it.
const EXTEND: &str = "Lock:extend";

fn work(figures: &mut Figures, record: &Record, summary: &Summary) {
    use FigureUnit::{Bytes, Count, Seconds, Share};
    let lower = Some(Better::Lower);
    let wal = summary.wal.as_ref();
    let mut push = |key: &str, name: &str, unit, better, value: Option<f64>| {
        figures.push(Section::Work, (key, name), unit, better, value);
    };
    let of_wal = |value: fn(&crate::WalSummary) -> Option<f64>| wal.and_then(value);
    push("wal_bytes", "WAL", Bytes, lower, of_wal(|w| w.bytes_per_transaction));
    push("wal_records", "WAL records", Count, lower, of_wal(|w| w.records_per_transaction));
    push("wal_fpi", "full-page images", Count, lower, of_wal(|w| w.fpi_per_transaction));
    push("flushes", "WAL flushes", Count, lower, of_wal(|w| w.flushes_per_transaction));
    let rate = |of: Option<&Estimate>| of.map(|rate| rate.center).filter(|rate| *rate > 0.0);
    let commits = summary.server_load.as_ref().and_then(|of| of.commits_per_second.as_ref());
    let ended = summary.load.as_ref().and_then(|load| load.throughput.as_ref());
    let commits = rate(commits).zip(rate(ended)).map(|(commits, ended)| commits / ended);
    push("commits_each", "commits", Count, lower, commits);
    push(
        "flush",
        "a WAL flush takes",
        Seconds,
        lower,
        of_wal(|w| Some(w.mean_flush?.as_secs_f64())),
    );
    let full = of_wal(|w| w.buffers_full_per_transaction);
    push("wal_buffers_full", "WAL buffers full", Count, lower, full);
    let cpu = summary.cpu.as_ref();
    let server = cpu.and_then(|cpu| cpu.server_per_transaction).map(|cpu| cpu.as_secs_f64());
    push("server_cpu", "server CPU", Seconds, lower, server);
    let driver = cpu.and_then(|cpu| cpu.driver_per_transaction).map(|cpu| cpu.as_secs_f64());
    push("driver_cpu", "load driver CPU", Seconds, None, driver);
    let statements = summary.statements.as_ref();
    let executed = statements.map(|of| of.time_per_transaction.as_secs_f64());
    push("statement_time", "time in statements", Seconds, lower, executed);
    let rows = summary.rows.as_ref();
    push("rows_inserted", "rows inserted", Count, None, rows.and_then(|rows| rows.inserted));
    push("rows_updated", "rows updated", Count, None, rows.and_then(|rows| rows.updated));
    push("rows_deleted", "rows deleted", Count, None, rows.and_then(|rows| rows.deleted));
    let hot = rows.and_then(|rows| rows.hot_ratio);
    push("hot", "HOT updates", Share, Some(Better::Higher), hot);
    let database = |column: &str| {
        let counted = difference(record, Source::Database, record.window()?).ok()?;
        let work = work_counted(record, &counted).ok()?;
        Some(counted.sum(column).ok()? / work.count)
    };
    push("blocks_read", "blocks read from outside", Count, lower, database("blks_read"));
    push("temp_bytes", "temporary files", Bytes, lower, database("temp_bytes"));
    push("deadlocks", "deadlocks", Count, lower, database("deadlocks"));
}

fn machine(figures: &mut Figures, summary: &Summary) {
    let cpu = summary.cpu.as_ref();
    let mut push = |key: &str, name: &str, unit, value: Option<f64>| {
        figures.push(Section::Machine, (key, name), unit, None, value);
    };
    push("busy", "processors busy", FigureUnit::Share, cpu.and_then(|cpu| cpu.busy));
    push("system", "share of the kernel", FigureUnit::Share, cpu.and_then(|cpu| cpu.system));
    push("steal", "share of the hypervisor", FigureUnit::Share, cpu.and_then(|cpu| cpu.steal));
    for (role, key, name) in [
        (ProcessRole::Server, "cpu_server", "processors: server"),
        (ProcessRole::Application, "cpu_application", "processors: application"),
        (ProcessRole::Generator, "cpu_generator", "processors: generator"),
        (ProcessRole::Pooler, "cpu_pooler", "processors: pooler"),
        (ProcessRole::Walwright, "cpu_walwright", "processors: walwright"),
        (ProcessRole::Other, "cpu_other", "processors: others"),
    ] {
        let groups = cpu.filter(|cpu| !cpu.groups.is_empty()).map(|cpu| {
            let of_role = cpu.groups.iter().filter(|g| ProcessRole::of(&g.group) == role);
            of_role.map(|group| group.processors).sum()
        });
        push(key, name, FigureUnit::Processors, groups);
    }
    let checkpoints = summary.checkpoints.as_ref().map(|seen| seen.completed as f64);
    push("checkpoints", "checkpoints completed", FigureUnit::Count, checkpoints);
}
