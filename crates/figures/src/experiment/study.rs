//! A study: cells of a grid, each beside the control of its row, in the tables that load tests
//! are reported in, and who was the limit in each.

use std::collections::BTreeMap;

use serde::Serialize;
use walwright_record::{Record, Source};
use walwright_stats::{Confidence, Moments, Verdict, t_quantile};

use super::{Judged, JudgedArm, MetricKind};
use crate::compare::{Better, FigureUnit};
use crate::time_split::pool_waited;
use crate::{ProcessRole, Summary, WorkUnit, busiest_thread, difference};

/// Part of a processor that the busiest thread of a load generator uses from which it keeps its
/// connections waiting: requests that come at random queue before a server is fully busy.
const BUSY_THREAD: f64 = 0.8;
/// Share of the processors' time from which none is free.
const FULL: f64 = 0.9;

/// Wait for a session of the application's pool, in seconds of a request.
pub const POOL_WAIT: &str = "pool_wait";
/// Time that sessions of the server work for a request, in seconds.
pub const SERVER_TIME: &str = "server_time";
/// What is left of a request's latency: application, load generator and what is between them.
pub const OUTSIDE_TIME: &str = "outside_time";
/// Part of a processor that the busiest thread of the load generator uses.
const GENERATOR_THREAD: &str = "generator_thread";
/// Answers that are successes, in the whole test.
const SUCCEEDED: &str = "succeeded";
/// Bytes that clients received a second.
const RECEIVED: &str = "received";
/// Columns of `pg_stat_database` that are told by the second, and what people call them.
const DATABASE: [(&str, &str); 9] = [
    ("xact_commit", "commits"),
    ("xact_rollback", "rollbacks"),
    ("blks_read", "disk blocks read"),
    ("blks_hit", "blocks hit"),
    ("tup_returned", "tuples returned"),
    ("tup_fetched", "tuples fetched"),
    ("tup_inserted", "tuples inserted"),
    ("tup_updated", "tuples updated"),
    ("tup_deleted", "tuples deleted"),
];

/// What a study tells, with its cells in the rows of its grid.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Study {
    /// The parameter whose values are compared; `None` where each arm stands beside the
    /// baseline.
    pub compared: Option<String>,
    /// The rows: cells with one control.
    pub groups: Vec<StudyGroup>,
}

/// Cells that are compared with one of them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StudyGroup {
    /// What they have in common, such as `25 connections`; empty where there is one group.
    pub name: String,
    /// The cells: the control, then the others; the control's repeat is the last, if there is one.
    pub cells: Vec<StudyCell>,
    /// Every figure of the tables in the order of [`study_kinds`]: all cells but control and
    /// repeat against the control. The repeat is the noise floor.
    pub figures: Vec<Judged>,
}

/// A cell: a combination of parameters, or an arm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StudyCell {
    /// The arm.
    pub name: String,
    /// The value of the compared parameter, or the arm's name.
    pub label: String,
    /// Whether it is the control, run once more in each block.
    pub is_repeat: bool,
    /// Means over the blocks by key.
    pub figures: BTreeMap<String, MeanOfBlocks>,
    /// What limited throughput, in most of its runs.
    pub limit: Option<StudyLimit>,
}

/// A mean over blocks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MeanOfBlocks {
    /// The arithmetic mean, as others report theirs.
    pub mean: f64,
    /// Half of its interval's width; `None` with one block.
    pub half_width: Option<f64>,
}

/// What keeps a load from doing more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StudyLimit {
    /// The load generator: a thread of it has no time left, or it takes most of full processors.
    Generator,
    /// The application, or what is between it and the others.
    Application,
    /// Requests wait for a session while the server has room.
    PoolQueue,
    /// The server.
    Database,
}

impl StudyLimit {
    /// In a word or two.
    pub fn name(self) -> &'static str {
        match self {
            StudyLimit::Generator => "generator",
            StudyLimit::Application => "application",
            StudyLimit::PoolQueue => "pool queue",
            StudyLimit::Database => "database",
        }
    }

    /// The limit of a run with these figures, from where a request spends its time and who
    /// has no processor left. `None` where too little is known.
    ///
    /// Where these programs fill the processors, who uses most of them is the limit, and waiting
    /// for the pool is only where that wait shows. Otherwise it is the largest part of the latency.
    fn of(figures: &BTreeMap<String, f64>) -> Option<StudyLimit> {
        let known = |key: &str| figures.get(key).copied();
        if known(GENERATOR_THREAD).is_some_and(|busy| busy > BUSY_THREAD) {
            return Some(StudyLimit::Generator);
        }
        let own =
            ["cpu_generator", "cpu_application", "cpu_server"].map(|key| known(key).unwrap_or(0.0));
        let is_ours = own.iter().sum::<f64>() > known("cpu_other").unwrap_or(0.0);
        let parts = if is_ours && known("busy").is_some_and(|busy| busy >= FULL) {
            [
                (StudyLimit::Generator, known("cpu_generator")),
                (StudyLimit::Application, known("cpu_application")),
                (StudyLimit::PoolQueue, None),
                (StudyLimit::Database, known("cpu_server")),
            ]
        } else {
            [
                (StudyLimit::Generator, None),
                (StudyLimit::Application, known(OUTSIDE_TIME)),
                (StudyLimit::PoolQueue, known(POOL_WAIT)),
                (StudyLimit::Database, Some(known(SERVER_TIME)?)),
            ]
        };
        let known = parts.into_iter().filter_map(|(limit, size)| Some((limit, size?)));
        known.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(limit, _)| limit)
    }

    /// That of most runs; `None` where none is known.
    pub fn of_most<'a>(
        runs: impl Iterator<Item = &'a BTreeMap<String, f64>>,
    ) -> Option<StudyLimit> {
        let mut counts: BTreeMap<StudyLimit, usize> = BTreeMap::new();
        runs.filter_map(StudyLimit::of).for_each(|limit| *counts.entry(limit).or_default() += 1);
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(limit, _)| limit)
    }
}

impl MeanOfBlocks {
    /// The mean of what is known; `None` where nothing is.
    pub fn of(values: &[Option<f64>], confidence: Confidence) -> Option<MeanOfBlocks> {
        let moments: Moments = values.iter().copied().flatten().collect();
        let count = values.iter().flatten().count() as f64;
        let deviation = moments.standard_deviation().zip(t_quantile(confidence, count - 1.0));
        let half_width = deviation.map(|(deviation, t)| t * deviation / count.sqrt());
        Some(MeanOfBlocks { mean: moments.mean()?, half_width })
    }
}

/// Whether a figure is of the clients or of the server's counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StudyTable {
    /// Requests, latency, throughput in bytes, successes.
    Client,
    /// `pg_stat_database`, a second.
    Database,
}

/// The figures of a study's tables, in their order.
pub fn study_kinds() -> Vec<(StudyTable, MetricKind)> {
    let kind = |key: &str, name: &str, unit, better| MetricKind {
        key: key.to_owned(),
        name: name.to_owned(),
        unit,
        better,
        expression: None,
    };
    let client = [
        kind("throughput", "requests", FigureUnit::PerSecond, Better::Higher),
        kind("latency_mean", "latency", FigureUnit::Seconds, Better::Lower),
        kind(RECEIVED, "throughput, a second", FigureUnit::Bytes, Better::Higher),
        kind(SUCCEEDED, "2xx", FigureUnit::Count, Better::Higher),
    ];
    let database = DATABASE
        .map(|(column, name)| kind(&a_second(column), name, FigureUnit::PerSecond, Better::Higher));
    let of = |table| move |kind| (table, kind);
    let client = client.into_iter().map(of(StudyTable::Client));
    client.chain(database.into_iter().map(of(StudyTable::Database))).collect()
}

fn a_second(column: &str) -> String {
    format!("{column}_a_second")
}

/// What a study tells of one run beside `figures`, which others compare too. What is not known
/// is absent.
pub fn study_figures(
    record: &Record,
    summary: &Summary,
    figures: &BTreeMap<String, f64>,
) -> BTreeMap<String, f64> {
    let mut told = BTreeMap::new();
    let Some(window) = record.window() else { return told };
    if let Ok(counted) = difference(record, Source::Database, window) {
        let seconds = counted.length().as_secs_f64();
        for (column, _) in DATABASE {
            let rate = counted.sum(column).map(|count| count / seconds);
            told.extend(rate.ok().map(|rate| (a_second(column), rate)));
        }
    }
    let logs = || record.client.iter().flat_map(|client| &client.logs);
    let succeeded: Option<u64> = logs().map(|log| log.succeeded).sum();
    let succeeded = match &record.client {
        Some(_) => succeeded,
        None => summary.load.as_ref().map(|load| load.transactions),
    };
    told.extend(succeeded.map(|count| (SUCCEEDED.to_owned(), count as f64)));
    let received: Option<f64> = logs().flat_map(|log| &log.totals).map(|of| of.received).sum();
    let received = received.filter(|received| *received > 0.0);
    told.extend(received.map(|received| (RECEIVED.to_owned(), received)));
    let generators = summary.cpu.iter().flat_map(|cpu| &cpu.groups);
    let generators = generators.filter(|of| ProcessRole::of(&of.group) == ProcessRole::Generator);
    let busiest = generators.filter_map(|group| busiest_thread(record, window, group));
    let busiest = busiest.max_by(f64::total_cmp);
    told.extend(busiest.map(|busy| (GENERATOR_THREAD.to_owned(), busy)));

    let Some(rate) = figures.get("throughput").copied().filter(|rate| *rate > 0.0) else {
        return told;
    };
    let commits = summary.server_load.as_ref().and_then(|of| of.commits_per_second.as_ref());
    let commits = commits.map(|commits| commits.center / rate);
    told.extend(commits.map(|commits| ("commits_each".to_owned(), commits)));
    // Seconds that requests wait a second are how many wait, and those over requests a second
    // what one waits: Little's law.
    let waited = pool_waited(record, window)
        .map(|(waited, counted)| waited / counted.length().as_secs_f64() / rate);
    told.extend(waited.map(|waited| (POOL_WAIT.to_owned(), waited)));
    let server = summary.time.as_ref().and_then(|time| match time.unit {
        WorkUnit::Transaction | WorkUnit::Request => Some(time.on_server.center),
        WorkUnit::Commit => Some(time.on_server.center * commits?),
    });
    told.extend(server.map(|server| (SERVER_TIME.to_owned(), server)));
    let latency = figures.get("latency_mean").copied();
    let outside = latency.zip(server).map(|(all, server)| all - server - waited.unwrap_or(0.0));
    told.extend(outside.map(|outside| (OUTSIDE_TIME.to_owned(), outside.max(0.0))));
    told
}

impl StudyGroup {
    /// One figure of all cells but control and repeat.
    pub fn judged(&self, key: &str) -> Option<&Judged> {
        self.figures.iter().find(|judged| judged.metric.key == key)
    }
}

/// Whether what was measured of an arm is no more than what its control differs from itself.
pub fn is_noise(arm: &JudgedArm) -> bool {
    arm.effect.is_some() && arm.verdict == Some(Verdict::WithinNoise)
}

#[cfg(test)]
mod tests {
    use walwright_testing::{Build, row};

    use super::*;

    fn limit(figures: &[(&str, f64)]) -> Option<StudyLimit> {
        StudyLimit::of(&figures.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect())
    }

    #[test]
    fn the_limit_is_where_requests_spend_their_time_unless_processors_are_full() {
        let parts = |pool, server, outside| {
            vec![("busy", 0.5), (POOL_WAIT, pool), (SERVER_TIME, server), (OUTSIDE_TIME, outside)]
        };
        assert_eq!(limit(&parts(3.0, 2.0, 1.0)), Some(StudyLimit::PoolQueue));
        assert_eq!(limit(&parts(1.0, 2.0, 1.0)), Some(StudyLimit::Database));
        assert_eq!(limit(&parts(1.0, 2.0, 3.0)), Some(StudyLimit::Application));
        let full = |server| {
            [
                &parts(3.0, 2.0, 1.0)[1..],
                &[("busy", 0.97), ("cpu_server", server)],
                &[("cpu_application", 0.9)],
            ]
            .concat()
        };
        assert_eq!(limit(&full(1.0)), Some(StudyLimit::Database));
        assert_eq!(limit(&full(0.5)), Some(StudyLimit::Application));
        let beside = [&full(1.0)[..], &[("cpu_other", 6.0)]].concat();
        assert_eq!(limit(&beside), Some(StudyLimit::PoolQueue), "others fill the processors");
        let busy = [&full(1.0)[..], &[(GENERATOR_THREAD, 0.95)]].concat();
        assert_eq!(limit(&busy), Some(StudyLimit::Generator));
        // Without the server's time the largest of what is known says nothing.
        assert_eq!(limit(&[("busy", 0.5), (POOL_WAIT, 1.0)]), None);
    }

    #[test]
    fn a_mean_has_an_interval_from_the_second_block_on() {
        let one = MeanOfBlocks::of(&[Some(3.0), None], Confidence::P95).unwrap();
        assert_eq!((one.mean, one.half_width), (3.0, None));
        let three = MeanOfBlocks::of(&[Some(1.0), Some(2.0), Some(3.0)], Confidence::P95).unwrap();
        assert!((three.half_width.unwrap() - 4.303 / 3.0_f64.sqrt()).abs() < 1e-3);
        assert_eq!(MeanOfBlocks::of(&[None], Confidence::P95), None);
    }

    #[test]
    fn counters_are_told_by_the_second_and_waits_by_the_request() {
        let mut build = Build::new();
        build.measure(0.0, 30.0);
        for s in 0..30 {
            let t = f64::from(s);
            build.sample(t, Source::Database, [row([("blks_hit", 7.0 * t), ("xact_commit", t)])]);
            build.sample(t, Source::Application, [row([("pool_wait_seconds", 4.0 * t)])]);
        }
        let summary = crate::summary(&build.record);
        let figures = BTreeMap::from([("throughput".to_owned(), 200.0)]);
        let told = study_figures(&build.record, &summary, &figures);
        assert!((told["blks_hit_a_second"] - 7.0).abs() < 1e-9);
        assert!((told[POOL_WAIT] - 0.02).abs() < 1e-9);
        assert!(!told.contains_key("blks_read_a_second") && !told.contains_key(SUCCEEDED));
    }
}
