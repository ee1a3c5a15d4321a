//! The plan of two settings against each other.

use super::plan_tables::{ArmTable, ServerTable, WorkloadTable, typed};
use super::{Design, LoadOptions, Metrics, PlanFile};

/// Two groups of settings to compare, and what is run to do it.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// Settings of A, the baseline.
    pub a: Vec<(String, String)>,
    /// Settings of B.
    pub b: Vec<(String, String)>,
    /// What is run.
    pub workload: WorkloadTable,
    /// How it is driven.
    pub load: LoadOptions,
    /// What both run on.
    pub server: ServerTable,
    /// Pairs; where not given, the fewest that can prove a difference.
    pub pairs: Option<usize>,
    /// Seed of the order of runs and of the load.
    pub seed: u64,
    /// Settings that may lower durability, by name.
    pub consent: Vec<String>,
}

impl Pair {
    /// The experiment that compares them: throughput, or in an open loop, where that is given,
    /// the mean latency.
    pub fn plan(self) -> PlanFile {
        let named = |settings: &[(String, String)]| {
            let settings = settings.iter().map(|(name, value)| format!("{name} = {value}"));
            settings.collect::<Vec<_>>().join(", ")
        };
        let judged = if self.load.rate.is_some() { "latency_mean" } else { "throughput" };
        let beside = ["throughput", "latency_mean", "latency_p99", "wal_bytes"];
        let metrics = [judged].into_iter().chain(beside.into_iter().filter(|of| *of != judged));
        let arm = |name: &str, settings: &[(String, String)]| ArmTable {
            name: name.to_owned(),
            settings: typed(settings),
            ..ArmTable::default()
        };
        PlanFile {
            name: Some(format!("A: {}; B: {}", named(&self.a), named(&self.b))),
            question: None,
            design: Design::Pair,
            blocks: self.pairs,
            seed: self.seed,
            metric: Metrics::Several(metrics.map(str::to_owned).collect()),
            cost: None,
            smallest_effect: None,
            consent: self.consent,
            workload: self.workload,
            load: self.load,
            server: self.server,
            prediction: None,
            arms: vec![arm("A", &self.a), arm("B", &self.b)],
        }
    }
}
