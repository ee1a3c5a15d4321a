//! A load that was driven in stages, stage by stage.

use std::time::Duration;

use serde::Serialize;
use walwright_record::{LoadLevel, Record, Window};

use crate::Latency;
use crate::latency::latencies;
use crate::window::{failures, intervals_inside, transactions};

/// One stage, from the intervals inside it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StageSummary {
    /// How much load it was.
    pub level: LoadLevel,
    /// Its length as far as the load came.
    #[serde(with = "crate::seconds")]
    pub length: Duration,
    /// Transactions that ended well.
    pub transactions: u64,
    /// Transactions that failed for good.
    pub failed: u64,
    /// Transactions a second.
    pub throughput: f64,
    /// Their latency; of the last stage also of what was under way at its end.
    pub latency: Option<Latency>,
}

/// The stages of a load that the window reaches; it begins with the first.
pub fn stages(record: &Record, window: Window) -> Vec<StageSummary> {
    let planned = record.load.iter().flat_map(|load| &load.stages);
    let mut start = window.start;
    let mut found = Vec::new();
    for stage in planned {
        let end = start.plus(stage.length).min(window.end);
        let inside = Window { start, end };
        start = end;
        let length: Duration = intervals_inside(record, inside).map(|i| i.length).sum();
        if length.is_zero() {
            continue;
        }
        let count: u64 = intervals_inside(record, inside).map(transactions).sum();
        found.push(StageSummary {
            level: stage.level,
            length,
            transactions: count,
            failed: intervals_inside(record, inside).map(failures).sum(),
            throughput: count as f64 / length.as_secs_f64(),
            latency: Latency::of(&latencies(record, inside)),
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use walwright_record::LoadStage;
    use walwright_testing::Build;

    use super::*;

    #[test]
    fn each_second_counts_in_its_stage_and_a_stage_cut_short_is_shorter() {
        let mut build = Build::new();
        build.open_loop(100.0);
        build.load(0, 10, 100).load(10, 15, 500).measure(0.0, 15.0);
        let stage = |seconds, rate| LoadStage {
            length: Duration::from_secs(seconds),
            level: LoadLevel::Rate(rate),
        };
        let load = build.record.load.as_mut().unwrap();
        load.stages = vec![stage(10, 100.0), stage(20, 500.0), stage(5, 1.0)];
        let window = build.record.window().unwrap();
        let found = stages(&build.record, window);
        let of = |stage: &StageSummary| (stage.length.as_secs(), stage.transactions);
        assert_eq!(found.iter().map(of).collect::<Vec<_>>(), [(10, 1000), (5, 2500)]);
        assert_eq!((found[0].throughput, found[1].throughput), (100.0, 500.0));
        assert_eq!(found[1].latency.as_ref().unwrap().count, 2500);
        let summary = crate::load_summary(&build.record, window).unwrap();
        assert_eq!((summary.steadiness, summary.precision), (None, None));
        assert_eq!(summary.throughput.unwrap().interval, None);
        assert_eq!(summary.stages, found);
    }
}
