//! One measurement of a tune: from a point of the search to what it showed.

use std::time::Duration;

use walwright_experiment::{Bench, Configuration, ExperimentError, Measured};
use walwright_record::RunId;
use walwright_search::{Configuration as Point, Searcher};

use super::conduct::Conductor;
use super::layer::Layer;
use super::made::Made;
use super::plan::OPTION_BLOCKS;
use super::state::Phase;
use super::{TuneError, TuneEvent, schema, words};

/// Tries a measurement has: a machine hiccups, but a server that cannot start never will.
const TRIES: u32 = 2;

/// A measurement: what it gave, or why it gave nothing.
pub(super) type Tried = Result<Measured, String>;

impl Conductor {
    pub(super) fn conclusion(&self) -> Option<&walwright_search::Conclusion> {
        self.state.searcher.as_ref().and_then(Searcher::conclusion)
    }

    /// What the search recommends; the baseline before the end.
    pub(super) fn found(&self) -> Point {
        let baseline = self.state.searcher.as_ref().map(|s| s.baseline().clone());
        self.conclusion().map(|end| end.configuration.clone()).or(baseline).unwrap_or_default()
    }

    /// What a measurement of a point has: settings and values of the kernel that are no
    /// default, settings that the baseline sets otherwise, and the schema's statements.
    pub(super) fn configuration(&self, point: &Point) -> Configuration {
        let Some(searcher) = &self.state.searcher else { return Configuration::default() };
        let set = |name: &str| self.state.plan.settings.contains_key(name);
        let mut configuration = Configuration {
            ddl: schema::statements(&self.state.schema, point),
            ..Configuration::default()
        };
        for dimension in &searcher.space().dimensions {
            let Some(value) = point.get(&dimension.name) else { continue };
            let (name, differs) = (dimension.name.clone(), *value != dimension.home);
            match Layer::of(&name) {
                Layer::Setting if differs || set(&name) => {
                    configuration.settings.insert(name, value.clone());
                }
                Layer::Kernel if differs => {
                    configuration.kernel.insert(name, value.clone());
                }
                _ => {}
            }
        }
        configuration
    }

    /// The baseline as the search measures it.
    pub(super) fn baseline_configuration(&self) -> Configuration {
        let baseline = self.state.searcher.as_ref().map(|s| s.baseline().clone());
        self.configuration(&baseline.unwrap_or_default())
    }

    /// The record of the run that was diagnosed, as long as it is kept.
    pub(super) fn diagnosed(&self) -> Option<walwright_record::Record> {
        let first = || self.state.made.first()?.run.as_ref();
        self.record(self.state.diagnosed_run.as_ref().or_else(first)?)
    }

    /// The record of a run, as long as it is kept.
    pub(super) fn record(&self, run: &RunId) -> Option<walwright_record::Record> {
        self.lab.store().ok()?.load(run).ok()
    }

    /// What differs from the baseline, in words.
    pub(super) fn changes(&self, point: &Point) -> Vec<String> {
        let Some(searcher) = &self.state.searcher else { return Vec::new() };
        let changes = searcher.space().changes(point, searcher.baseline());
        changes.map(|(dimension, value)| format!("{} = {value}", dimension.name)).collect()
    }

    pub(super) fn label(&self, what: &str) -> Option<String> {
        Some(format!("tune {}: {what}", self.state.id))
    }

    pub(super) async fn measure(
        &self,
        configuration: &Configuration,
        seed: u64,
        what: &str,
    ) -> Result<Tried, TuneError> {
        self.measure_on(&self.bench, configuration, seed, self.label(what)).await
    }

    /// One measurement. What is wrong with the configuration is a result; what is wrong
    /// with the lab, or a wish to stop, is an error.
    pub(super) async fn measure_on(
        &self,
        bench: &Bench,
        configuration: &Configuration,
        seed: u64,
        label: Option<String>,
    ) -> Result<Tried, TuneError> {
        let mut reason = String::new();
        for _ in 0..TRIES {
            let measured =
                bench.measure(configuration, seed, label.clone(), &self.stop, &self.observer);
            match measured.await {
                Ok(measured) => return Ok(Ok(measured)),
                Err(_) if self.stop.is_requested() => return Err(TuneError::Stopped),
                Err(ExperimentError::RunFailed { reason: why, .. }) => reason = why,
                Err(ExperimentError::Kernel(why)) => return Ok(Err(words::reason(&why))),
                // A full disk says nothing of a configuration.
                Err(error) if error.is_of_the_lab() => return Err(error.into()),
                Err(ExperimentError::Run(error)) => reason = error.to_string(),
                Err(ExperimentError::Server(why)) => reason = why,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Err(words::reason(&reason)))
    }

    pub(super) fn made(&self, tried: &Tried) -> Made {
        match tried {
            Ok(measured) => Made {
                run: Some(measured.run.clone()),
                value: self.objective.value(&measured.figures),
                throughput: measured.figures.get("throughput").copied(),
                checkpoints: measured.figures.get("checkpoints").copied(),
                crashed: None,
                seconds: measured.elapsed.as_secs_f64(),
            },
            Err(reason) => Made {
                run: None,
                value: None,
                throughput: None,
                checkpoints: None,
                crashed: Some(reason.clone()),
                seconds: 0.0,
            },
        }
    }

    pub(super) fn measuring(&self, why: &str, changes: &[String]) {
        self.watcher.event(TuneEvent::Measuring {
            run: (self.state.phase <= Phase::Search)
                .then(|| (self.state.made.len() as u32 + 1, self.state.plan.runs())),
            why,
            changes,
        });
    }

    pub(super) fn measured(&self, value: Option<f64>, crashed: Option<&String>) {
        self.watcher.event(TuneEvent::Measured {
            value,
            change: None,
            crashed: crashed.map(String::as_str),
            left: self.left(),
        });
        self.watcher.event(TuneEvent::SoFar(&self.state));
    }

    /// About how long the rest takes: by the measurements so far.
    pub(super) fn left(&self) -> Duration {
        let plan = &self.state.plan;
        let per_run = self
            .state
            .mean_seconds()
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .unwrap_or(plan.per_run());
        let beyond = plan.confirm_window.0.saturating_sub(plan.window.0);
        let searching = plan.runs().saturating_sub(self.state.made.len() as u32);
        let (confirming, _) = self.confirming();
        let searching = if self.conclusion().is_some() { 0 } else { searching };
        let client_options = match &self.state.client_options[..] {
            _ if self.state.phase > Phase::ClientOptions => 0,
            [] => plan.client_option_runs(),
            client_options => {
                let made: usize =
                    client_options.iter().map(|client_option| client_option.scores.len()).sum();
                (client_options.len() as u32 * OPTION_BLOCKS).saturating_sub(made as u32)
            }
        };
        per_run * (searching + client_options) + (per_run + beyond) * confirming
    }
}
