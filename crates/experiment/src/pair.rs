//! The plan of two sides against each other.

use super::plan_tables::{ArmTable, ServerTable, WorkloadTable, typed};
use super::{Design, LoadOptions, Metrics, PlanError, PlanFile};

/// What names an option of the load, before its own name.
const OF_LOAD: &str = "load.";

/// What one side has and the other has not.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Side {
    /// Settings of the server.
    pub settings: Vec<(String, String)>,
    /// Options of the load.
    pub load: LoadOptions,
}

impl Side {
    /// From names and values as they are typed: settings, and options of the load, which are
    /// called `load.clients` and so on, as a plan has them under `[load]`.
    ///
    /// # Errors
    /// When there is no such option, or it has no such value.
    pub fn of(typed: &[(String, String)]) -> Result<Side, PlanError> {
        let mut side = Side::default();
        let mut load = toml::Table::new();
        for (name, value) in typed {
            let Some(option) = name.strip_prefix(OF_LOAD) else {
                side.settings.push((name.clone(), value.clone()));
                continue;
            };
            // A number or a truth value; all else is text, whose quotes nobody types.
            let bare = toml::from_str::<toml::Table>(&format!("value = {value}"));
            let bare = bare.ok().and_then(|mut table| table.remove("value"));
            load.insert(option.to_owned(), bare.unwrap_or_else(|| value.clone().into()));
        }
        let wrong = |error: toml::de::Error| PlanError::value("", "load", error.message());
        side.load = load.try_into().map_err(wrong)?;
        Ok(side)
    }

    fn words(&self) -> String {
        let settings = self.settings.iter().map(|(name, value)| format!("{name} = {value}"));
        settings.chain(self.load.words()).collect::<Vec<_>>().join(", ")
    }
}

/// Two sides to compare, and what is run to do it.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// A, the baseline.
    pub a: Side,
    /// B.
    pub b: Side,
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
        let judged = if self.load.rate.is_some() { "latency_mean" } else { "throughput" };
        let beside = ["throughput", "latency_mean", "latency_p99", "wal_bytes"];
        let metrics = [judged].into_iter().chain(beside.into_iter().filter(|of| *of != judged));
        let arm = |name: &str, side: &Side| ArmTable {
            name: name.to_owned(),
            settings: typed(&side.settings),
            load: side.load.clone(),
            ..ArmTable::default()
        };
        PlanFile {
            application: None,
            study: None,
            journal: Default::default(),
            files: std::collections::BTreeMap::new(),
            parameters: Default::default(),
            name: Some(format!("A: {}; B: {}", self.a.words(), self.b.words())),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pooler;

    #[test]
    fn a_side_has_settings_and_options_of_the_load() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let typed = [
            pair("work_mem", "1MB"),
            pair("load.pooler", "gateway"),
            pair("load.threads", "2"),
            pair("load.lean", "true"),
            pair("load.think", "5ms"),
        ];
        let side = Side::of(&typed).unwrap();
        assert_eq!(side.settings, typed[..1]);
        assert_eq!((side.load.threads, side.load.lean), (Some(2), Some(true)));
        assert_eq!(side.load.pooler, Some(Pooler::Gateway));
        assert_eq!(
            side.words(),
            "work_mem = 1MB, threads = 2, lean = true, think = 5ms, pooler = gateway"
        );
        let wrong =
            |name: &str, value: &str| Side::of(&[pair(name, value)]).unwrap_err().to_string();
        assert!(wrong("load.pooler", "pgpool").contains("'pgpool' is no pooler"));
        assert!(wrong("load.client", "4").contains("client"));
    }
}
