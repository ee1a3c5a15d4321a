//! The model's choices: what to measure next, what is best so far, what can be left out.

use rand::RngExt;

use super::{LEAST_SIGMA, Searcher};
use crate::acquisition::{crashed_score, expected_improvement, feasibility};
use crate::random::generator;
use crate::{Configuration, Observation, Outcome, Process, Purpose};

/// Random configurations measured first, after a screening and without one.
const SCREENED: u32 = 3;
const UNSCREENED: u32 = 8;
/// Random configurations looked at for each choice.
const RANDOM: usize = 300;
/// Changes looked at of each of the best.
const LOCAL: usize = 80;
/// Steps of the final climb.
const REFINE: usize = 80;
/// Choices after which the best so far is measured again,
const AGAIN_EVERY: u32 = 5;
/// unless it is known to this share of the noise of one measurement.
const SURE: f64 = 0.4;
/// Expected improvement, as a share of the smallest effect worth anything, below which
/// the model is shown what it knows least instead.
const WORTH: f64 = 0.1;
/// Choices of which one is a step from the best in one dimension,
const PROBE_EVERY: u32 = 3;
/// of at most this share of the range.
const PROBE_REACH: f64 = 0.35;
/// What a value that is no default takes from the worth of a configuration.
const SIMPLE: f64 = 0.97;
/// How far below the best a score counts, in units of the distance of the middle one.
const DEPTH: f64 = 2.5;
/// Standard deviations of the model's doubt by which a value must be of use to be kept.
const CLEAR: f64 = 0.5;

/// A process over the measurements and what is known of feasibility.
pub(super) struct Model {
    pub process: Process,
    /// Features and probability of being feasible, of each measurement.
    known: Vec<(Vec<f64>, f64)>,
}

impl Model {
    /// Probability that a configuration with these features is feasible.
    pub fn feasible(&self, features: &[f64]) -> f64 {
        feasibility(self.known.iter().map(|(row, p)| (self.process.correlation(row, features), *p)))
    }
}

impl Searcher {
    /// Queues the model's next choice; `false` when the budget is used or nothing more is
    /// to be gained.
    pub(super) fn search_on(&mut self) -> bool {
        let searched = self
            .trials
            .iter()
            .filter(|trial| matches!(trial.purpose, Purpose::Search | Purpose::Again));
        let searched = searched.count() as u32;
        if searched >= self.budget.search {
            return false;
        }
        let mut rng = generator(self.options.seed, u64::from(self.next_id()));
        // A screening knows two levels only; without one the model knows nothing.
        let most = if self.screening.is_some() { SCREENED } else { UNSCREENED };
        let blind = (self.budget.search / 4).clamp(1, most);
        if searched < blind {
            let next = self.space.sample(&self.reference, &self.active, &mut rng);
            self.plan(Purpose::Search, next);
            return true;
        }
        let Some(model) = self.model() else {
            let next = self.space.sample(&self.reference, &self.active, &mut rng);
            self.plan(Purpose::Search, next);
            return true;
        };
        self.hyper = Some(model.process.hyper().rounded());
        let ranked = self.ranked(&model);
        let Some((incumbent, best)) = ranked.first().cloned() else { return false };
        let noise = model.process.noise();
        let known = model.process.predict(&self.space.features(&incumbent, &self.active));
        let unsure = known.deviation > self.options.smallest_effect.max(SURE * noise);
        if unsure && searched % AGAIN_EVERY == AGAIN_EVERY - 1 {
            self.plan(Purpose::Again, incumbent);
            return true;
        }
        if searched % PROBE_EVERY == PROBE_EVERY - 1 {
            let probe = self.probe(&model, &incumbent, &mut rng);
            self.plan(Purpose::Search, probe);
            return true;
        }
        let home = self.space.home();
        let worth = |configuration: &Configuration| {
            let features = self.space.features(configuration, &self.active);
            let expected = expected_improvement(model.process.predict(&features), best);
            // Of two that promise the same, the one with more defaults needs less proof.
            let changes = self.space.changes(configuration, &home).count() as i32;
            expected * model.feasible(&features) * SIMPLE.powi(changes)
        };
        let candidates = self.candidates(&ranked, &mut rng);
        let scored = candidates.iter().map(|candidate| (worth(candidate), candidate.clone()));
        let Some(mut chosen) = scored.max_by(|a, b| a.0.total_cmp(&b.0)) else { return false };
        for step in 0..REFINE {
            let reach = 0.15 * (1.0 - step as f64 / REFINE as f64) + 0.02;
            let near = self.changed(&chosen.1, 1 + step % 2, reach, &mut rng);
            let value = worth(&near);
            if value > chosen.0 {
                chosen = (value, near);
            }
        }
        let scale = self.options.smallest_effect.max(0.25 * noise);
        if chosen.0 < WORTH * scale {
            // A model that sees nothing more to gain may be sure of itself too soon: it is
            // better shown what it knows least.
            let doubt = |candidate: &Configuration| {
                let features = self.space.features(candidate, &self.active);
                model.process.predict(&features).deviation * model.feasible(&features)
            };
            let unknown = candidates.into_iter().map(|candidate| (doubt(&candidate), candidate));
            if let Some(unknown) = unknown.max_by(|a, b| a.0.total_cmp(&b.0)) {
                chosen = unknown;
            }
        }
        self.plan(Purpose::Search, chosen.1);
        true
    }

    /// The best with one dimension moved, one that the model holds for important rather
    /// than one that it does not. A smooth model looks away from the brink of a cliff and
    /// past special values; a step at a time finds them.
    fn probe(
        &self,
        model: &Model,
        incumbent: &Configuration,
        rng: &mut impl RngExt,
    ) -> Configuration {
        let mut scales = model.process.hyper().log_scales.iter();
        let relevance: Vec<f64> = self
            .active
            .iter()
            .filter_map(|index| self.space.dimensions.get(*index))
            .map(|dimension| {
                let own = scales.by_ref().take(dimension.features(&dimension.home).len());
                own.map(|log| (-log).exp()).fold(0.0, f64::max)
            })
            .collect();
        let mut luck = rng.random::<f64>() * relevance.iter().sum::<f64>();
        let chosen = relevance.iter().position(|weight| {
            luck -= weight;
            luck <= 0.0
        });
        let index = self.active[chosen.unwrap_or(0)];
        let mut probe = incumbent.clone();
        if let Some(dimension) = self.space.dimensions.get(index) {
            let value = incumbent.get(&dimension.name).unwrap_or(&dimension.home);
            probe.insert(dimension.name.clone(), dimension.near(value, PROBE_REACH, rng));
        }
        probe
    }

    /// Configurations that may be worth measuring: anywhere, near the best, and the best
    /// with something taken back.
    fn candidates(
        &self,
        ranked: &[(Configuration, f64)],
        rng: &mut impl RngExt,
    ) -> Vec<Configuration> {
        let mut candidates: Vec<Configuration> =
            (0..RANDOM).map(|_| self.space.sample(&self.reference, &self.active, rng)).collect();
        for (best, _) in ranked.iter().take(3) {
            for i in 0..LOCAL {
                candidates.push(self.changed(best, 1 + i % 3, 0.3, rng));
            }
            for dimension in self.active.iter().filter_map(|i| self.space.dimensions.get(*i)) {
                for back in [Some(&dimension.home), self.baseline.get(&dimension.name)] {
                    let Some(value) = back else { continue };
                    let mut without = best.clone();
                    without.insert(dimension.name.clone(), value.clone());
                    candidates.push(without);
                }
            }
        }
        candidates
    }

    /// A configuration with some active dimensions moved a little.
    fn changed(
        &self,
        from: &Configuration,
        count: usize,
        reach: f64,
        rng: &mut impl RngExt,
    ) -> Configuration {
        let mut changed = from.clone();
        for _ in 0..count {
            let index = self.active[rng.random_range(0..self.active.len())];
            if let Some(dimension) = self.space.dimensions.get(index) {
                let value = from.get(&dimension.name).unwrap_or(&dimension.home);
                changed.insert(dimension.name.clone(), dimension.near(value, reach, rng));
            }
        }
        changed
    }

    /// The model of everything that bears on the active dimensions; `None` while there is
    /// too little.
    pub(super) fn model(&self) -> Option<Model> {
        let penalty = crashed_score(self.worst_score());
        let mut observations = Vec::new();
        let mut known = Vec::new();
        for trial in &self.trials {
            let screened = matches!(trial.purpose, Purpose::Screen { .. });
            if !screened && !self.differs_only_in_active(&trial.configuration) {
                continue;
            }
            let features = self.space.features(&trial.configuration, &self.active);
            let (score, feasible) = match trial.outcome {
                Outcome::Measured { score, feasible } => (score, feasible),
                Outcome::Crashed => (penalty, 0.0),
            };
            known.push((features.clone(), feasible));
            observations.push(Observation { features, block: trial.block, score });
        }
        // How bad the bad ones are is no matter: left as they are, a few collapses would be
        // all that the model explains.
        let scores: Vec<f64> = observations.iter().map(|o: &Observation| o.score).collect();
        if let (Some(middle), Some(best)) =
            (walwright_stats::median(&scores), scores.iter().copied().reduce(f64::max))
        {
            let noise = self.sigma().unwrap_or(0.0);
            let floor = best - (DEPTH * (best - middle)).max(6.0 * noise);
            for observation in &mut observations {
                observation.score = observation.score.max(floor);
            }
        }
        let sigma = self.sigma().map(|sigma| sigma.max(LEAST_SIGMA));
        let mut rng = generator(self.options.seed ^ 0x5EED, u64::from(self.next_id()));
        let process = Process::fit(&observations, sigma, self.hyper.as_ref(), &mut rng)?;
        Some(Model { process, known })
    }

    pub(super) fn differs_only_in_active(&self, configuration: &Configuration) -> bool {
        self.space
            .dimensions
            .iter()
            .enumerate()
            .filter(|(index, _)| !self.active.contains(index))
            .all(|(_, d)| configuration.get(&d.name) == self.reference.get(&d.name))
    }

    /// Configurations that ran and keep the constraints, each once, best expected score
    /// first.
    pub(super) fn ranked(&self, model: &Model) -> Vec<(Configuration, f64)> {
        let mut ranked: Vec<(Configuration, f64)> = Vec::new();
        for trial in &self.trials {
            let Outcome::Measured { feasible, .. } = trial.outcome else { continue };
            let seen = ranked.iter().any(|(known, _)| *known == trial.configuration);
            if seen || feasible < 0.5 || !self.differs_only_in_active(&trial.configuration) {
                continue;
            }
            let features = self.space.features(&trial.configuration, &self.active);
            ranked.push((trial.configuration.clone(), model.process.predict(&features).mean));
        }
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
        ranked
    }

    /// A configuration without what the model sees no clear use in: values go back to
    /// their default one by one, the most useless first, as long as the model does not
    /// clearly hold the result for worse.
    pub(super) fn simplified(&self, model: &Model, whole: &Configuration) -> Configuration {
        let of_whole = self.space.features(whole, &self.active);
        let mut simple = whole.clone();
        loop {
            let home = self.space.home();
            let cheapest = self
                .space
                .changes(&simple, &home)
                .map(|(dimension, _)| {
                    let mut without = simple.clone();
                    without.insert(dimension.name.clone(), dimension.home.clone());
                    let features = self.space.features(&without, &self.active);
                    let lost = model.process.difference(&of_whole, &features);
                    (lost.mean / lost.deviation.max(f64::MIN_POSITIVE), without)
                })
                .min_by(|a, b| a.0.total_cmp(&b.0));
            match cheapest {
                Some((doubt, without)) if doubt < CLEAR && without != self.baseline => {
                    simple = without;
                }
                _ => return simple,
            }
        }
    }
}
