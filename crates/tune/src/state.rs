//! All that is known of a tune.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use walwright_record::{RunId, Timestamp};
use walwright_run::CrashAudit;
use walwright_search::{Conclusion, Configuration, Effect, Searcher};
use walwright_stats::{Confidence, Estimate, Method, t_quantile};

use super::confirm::{Kept, Questions};
use super::made::Made;
use super::plan::OPTION_BLOCKS;
use super::schema_part::{SchemaChange, SchemaKind, SchemaPart, changes};
use super::{ClientOption, Confirmation, Dropped, TunePlan};

/// Layout of the state. Since 2 a search may hold more than settings; since 3 a confirmation
/// goes on by as many pairs as its spread asks for; since 4 servers may be reached by TCP and
/// flush slowly; since 5 a search knows what is to be kept beside its objective. Earlier ones are
/// read as what they were.
pub(super) const FORMAT: u32 = 5;
/// Since when searches are told what is to be kept beside the objective.
const KEPT_BESIDE: u32 = 5;
/// Since when a confirmation is looked at twice, in wider intervals.
const TWO_LOOKS: u32 = 3;

/// Where a tune stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The baseline is run and diagnosed.
    Baseline,
    /// Each value is written and read back.
    Probe,
    /// The search asks.
    Search,
    /// Client options outside the configuration are measured.
    #[serde(alias = "levers")]
    ClientOptions,
    /// The winner runs again on fresh data.
    Confirm,
    /// Its server is killed.
    Crash,
    /// Its configuration and the account of it are written.
    Promote,
    /// Done.
    Done,
}

/// What the diagnosis of the baseline said.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// The verdict, one or two sentences.
    pub verdict: String,
    /// Titles of the problems, most costly first.
    pub problems: Vec<String>,
    /// Share of processors busy, 0 to 1.
    pub busy: Option<f64>,
}

/// The best that was measured so far.
#[derive(Debug, Clone, PartialEq)]
pub struct BestSoFar {
    /// What differs from the baseline.
    pub changes: Vec<String>,
    /// Its gain in score over the baseline.
    pub gain: Effect,
    /// How often it was measured.
    pub measured: usize,
}

/// A tune.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TuneState {
    /// Layout.
    pub format: u32,
    /// Its name in the lab.
    pub id: String,
    /// When it began.
    pub begun: Timestamp,
    /// Version of walwright that began it.
    pub walwright_version: String,
    /// What it was asked to do.
    pub plan: TunePlan,
    /// Where it stands.
    pub phase: Phase,
    /// Memory and processors of the machine, in words.
    pub machine: String,
    /// `server_version` of the server.
    pub server_version: Option<String>,
    /// What holds the baseline back.
    pub cause: Cause,
    /// Values that rules or the diagnosis would try, by parameter.
    pub hints: BTreeMap<String, String>,
    /// What the diagnosis would change, by parameter.
    pub diagnosed: BTreeMap<String, String>,
    /// Parameters that are not searched, and why.
    pub dropped: Vec<Dropped>,
    /// The search; `None` before the probe is done.
    pub searcher: Option<Searcher>,
    /// The measurements of the search, by trial.
    pub made: Vec<Made>,
    /// The run of the baseline that was diagnosed.
    #[serde(default)]
    pub diagnosed_run: Option<RunId>,
    /// The parts of the schema that are searched.
    #[serde(default)]
    pub schema: Vec<SchemaPart>,
    /// What lies outside the configuration.
    #[serde(alias = "levers")]
    pub client_options: Vec<ClientOption>,
    /// Client options that this load does not have, and why.
    #[serde(default, alias = "levers_left_out")]
    pub client_options_left_out: Vec<Dropped>,
    /// The winner on fresh data.
    pub confirmation: Confirmation,
    /// What holds the winner back, once it was confirmed.
    #[serde(default)]
    pub next_cause: Option<Cause>,
    /// Its server killed.
    pub crash: Option<CrashAudit>,
    /// Where the promoted configuration was written.
    pub promoted: Option<String>,
    /// Where the statements of the promoted schema were written.
    #[serde(default)]
    pub promoted_schema: Option<String>,
    /// Why there is nothing to promote, where a gain was confirmed all the same.
    #[serde(default)]
    pub not_promoted: Option<String>,
    /// The journal's entry.
    pub entry: Option<String>,
}

impl TuneState {
    /// A tune that has not begun.
    pub(super) fn new(plan: TunePlan) -> TuneState {
        let begun = Timestamp::now();
        let entropy = (begun.0 as u32).rotate_left(11) ^ std::process::id();
        TuneState {
            format: FORMAT,
            id: RunId::new(begun, entropy).0,
            begun,
            walwright_version: env!("CARGO_PKG_VERSION").to_owned(),
            plan,
            phase: Phase::Baseline,
            machine: String::new(),
            server_version: None,
            cause: Cause::default(),
            hints: BTreeMap::new(),
            diagnosed: BTreeMap::new(),
            dropped: Vec::new(),
            searcher: None,
            made: Vec::new(),
            diagnosed_run: None,
            schema: Vec::new(),
            client_options: Vec::new(),
            client_options_left_out: Vec::new(),
            confirmation: Confirmation::default(),
            next_cause: None,
            crash: None,
            promoted: None,
            promoted_schema: None,
            not_promoted: None,
            entry: None,
        }
    }

    /// The same with what is to be kept beside the objective told to a search that began before it
    /// was asked for that.
    pub(super) fn told_what_is_kept(mut self) -> TuneState {
        if let Some(searcher) = &mut self.searcher
            && self.format < KEPT_BESIDE
            && let Ok(objective) = self.plan.objective()
        {
            let outcomes = self.made.iter().map(|made| objective.outcome(made));
            searcher.keep_beside(objective.allowed_loss, outcomes);
            // An earlier version could no longer read it.
            if self.format >= TWO_LOOKS {
                self.format = FORMAT;
            }
        }
        self
    }

    /// What the search recommends to change of the schema.
    pub fn schema_changes(&self) -> Vec<SchemaChange> {
        let Some(searcher) = &self.searcher else { return Vec::new() };
        let Some(end) = searcher.conclusion() else { return Vec::new() };
        let dimensions = &searcher.space().dimensions;
        changes(&self.schema, dimensions, &end.configuration)
            .map(|(part, value)| part.change(value))
            .collect()
    }

    /// Mean length of a measurement in seconds, once one was made.
    pub(super) fn mean_seconds(&self) -> Option<f64> {
        let seconds: Vec<f64> =
            self.made.iter().filter(|m| m.crashed.is_none()).map(|m| m.seconds).collect();
        walwright_stats::mean(&seconds)
    }

    /// Measurements of the confirmation that are to come, at least and at most.
    pub(super) fn confirming(&self) -> (u32, u32) {
        let (asked, of) = (self.questions(), &self.confirmation);
        let not_proposed = self.conclusion().is_some_and(|end| !end.is_proposed);
        if not_proposed || self.phase > Phase::Confirm || of.failure().is_some() {
            return (0, 0);
        }
        let least = of.wanted(&asked);
        let is_sized = of.pairs() >= asked.planned as usize
            && (least == asked.planned || of.needed(&asked).is_some());
        let most = if is_sized { least } else { asked.most };
        let made = of.made.len() as u32;
        ((2 * least).saturating_sub(made), (2 * most).saturating_sub(made))
    }

    /// About how long the rest takes: by the measurements so far.
    pub fn time_left(&self) -> Duration {
        let plan = &self.plan;
        let per_run = self
            .mean_seconds()
            .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
            .unwrap_or(plan.per_run());
        let beyond = plan.confirm_window.0.saturating_sub(plan.window.0);
        let searching = plan.runs().saturating_sub(self.made.len() as u32);
        let (confirming, _) = self.confirming();
        let searching = if self.conclusion().is_some() { 0 } else { searching };
        let client_options = match &self.client_options[..] {
            _ if self.phase > Phase::ClientOptions => 0,
            [] => plan.client_option_runs(),
            client_options => {
                let made: usize =
                    client_options.iter().map(|client_option| client_option.scores.len()).sum();
                (client_options.len() as u32 * OPTION_BLOCKS).saturating_sub(made as u32)
            }
        };
        per_run * (searching + client_options) + (per_run + beyond) * confirming
    }

    /// The winner against the baseline on fresh data.
    pub fn confirmed(&self) -> walwright_search::Effect {
        self.confirmation.effect(&self.questions())
    }

    /// Its throughput on fresh data against the baseline's.
    pub fn confirmed_throughput(&self) -> walwright_search::Effect {
        self.confirmation.throughput(&self.questions())
    }

    /// Whether throughput is kept; `None` where it need not be, or is not known.
    pub fn keeps_throughput(&self) -> Option<Kept> {
        self.confirmation.keeps_throughput(&self.questions())
    }

    /// What the confirmation is to settle.
    pub fn questions(&self) -> Questions {
        let objective = self.plan.objective().ok();
        let made = self.confirmation.pairs() as u32;
        let (planned, most) = match self.format < TWO_LOOKS {
            true => {
                let planned = self.plan.planned_pairs().max(made);
                (planned, planned)
            }
            // Earlier tunes went on for longer than their search.
            false => (self.plan.planned_pairs(), self.plan.most_pairs().max(made)),
        };
        let worth = self.plan.worth;
        Questions {
            planned,
            most,
            worth: objective.as_ref().map_or(worth, |objective| objective.score_gain(worth)),
            allowed_loss: objective.and_then(|objective| objective.allowed_loss),
        }
    }

    /// Whether the confirmation has come to its end: before, its intervals are no answer.
    pub fn is_confirmed(&self) -> bool {
        self.phase > Phase::Confirm && self.confirmation.pairs() > 0
    }

    /// Pairs that it takes in all to settle what those made leave open; `None` where their spread
    /// does not tell.
    pub fn pairs_needed(&self) -> Option<u32> {
        let needed = self.confirmation.needed(&self.questions())?;
        (needed as usize > self.confirmation.pairs()).then_some(needed)
    }

    /// Pairs of measurements that confirm the winner.
    pub fn confirming_pairs(&self) -> u32 {
        self.confirmation.wanted(&self.questions())
    }

    /// What the search came to; `None` before its end.
    pub fn conclusion(&self) -> Option<&Conclusion> {
        self.searcher.as_ref()?.conclusion()
    }

    /// Whether every measurement begins by rewriting a table.
    pub fn rewrites_tables(&self) -> bool {
        self.schema.iter().any(|part| matches!(part.kind, SchemaKind::Fillfactor { .. }))
    }

    /// The baseline's settings that were not searched, which stay with whatever was found.
    pub fn kept_of_baseline(&self, end: &Conclusion) -> impl Iterator<Item = (&String, &String)> {
        let settings = self.plan.settings.iter();
        settings.filter(|(name, _)| !end.configuration.contains_key(*name))
    }

    /// The configuration with the best mean score so far, the baseline not counted; `None` before
    /// both were measured.
    ///
    /// Its interval is by the noise of the baseline against itself. It is not wider for there
    /// being many to choose the best of, so it claims nothing.
    pub fn best_so_far(&self) -> Option<BestSoFar> {
        let searcher = self.searcher.as_ref()?;
        let mut scores: BTreeMap<&Configuration, Vec<f64>> = BTreeMap::new();
        for trial in searcher.trials() {
            if let Some(score) = trial.score() {
                scores.entry(&trial.configuration).or_default().push(score);
            }
        }
        let of_baseline = scores.remove(searcher.baseline())?;
        let mean = |scores: &[f64]| walwright_stats::mean(scores).unwrap_or(f64::NEG_INFINITY);
        let (best, of_best) =
            scores.into_iter().max_by(|(_, a), (_, b)| mean(a).total_cmp(&mean(b)))?;
        let gain = mean(&of_best) - mean(&of_baseline);
        let level = Confidence::P95;
        let half = searcher.noise().and_then(|noise| {
            let runs = 1.0 / of_best.len() as f64 + 1.0 / of_baseline.len() as f64;
            Some(t_quantile(level, noise.freedom)? * (noise.variance * runs).sqrt())
        });
        let half = half.unwrap_or(f64::INFINITY);
        let estimate = Estimate::symmetric(gain, half, level, Method::Student);
        let changes = searcher.space().changes(best, searcher.baseline());
        Some(BestSoFar {
            changes: changes.map(|(of, value)| format!("{} = {value}", of.name)).collect(),
            gain: Effect::Measured(estimate.map(f64::exp_m1)),
            measured: of_best.len(),
        })
    }

    /// The baseline's mean value of the objective, from its own measurements.
    pub fn baseline_value(&self) -> Option<f64> {
        let searcher = self.searcher.as_ref()?;
        let logs: Vec<f64> = searcher
            .trials()
            .iter()
            .zip(&self.made)
            .filter(|(trial, _)| trial.configuration == *searcher.baseline())
            .filter_map(|(_, made)| made.value.map(f64::ln))
            .collect();
        walwright_stats::mean(&logs).map(f64::exp)
    }
}
