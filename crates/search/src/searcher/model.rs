//! The model's choices: what to measure next, what is best so far, what can be left out.

use rand::RngExt;

use super::Searcher;
use crate::acquisition::{crashed_score, feasibility, knowledge_gradient};
use crate::random::generator;
use crate::trial::FEASIBLE;
use crate::{Configuration, Dimension, Look, Observation, Prediction, Process, Purpose};

/// Random configurations measured first, after a screening and without one.
const SCREENED: u32 = 3;
const UNSCREENED: u32 = 8;
/// Random configurations looked at for each choice.
const RANDOM: usize = 300;
/// Of the best so far, those whose neighbourhood is looked at,
const TOP: usize = 3;
/// by so many changes of each,
const LOCAL: usize = 80;
/// and those that may be measured again.
const KNOWN: usize = 20;
/// The most promising of all, of which one may turn out to be the best.
const RIVALS: usize = 120;
/// Steps of a climb from the best that was looked at.
const REFINE: usize = 80;
/// Steps of a climb to the highest expectation.
const CLIMB: usize = 400;
/// What a value that is no default takes from the worth of a measurement.
const SIMPLE: f64 = 0.97;
/// How far below the best a score counts, in units of the distance of the middle one.
const DEPTH: f64 = 2.5;

/// A process over the measurements and what is known of feasibility.
pub(super) struct Model {
    pub process: Process,
    /// Features and probability of being feasible, of each measurement.
    known: Vec<(Vec<f64>, f64)>,
}

impl Model {
    /// Probability that a configuration with these features is feasible.
    pub fn feasible(&self, features: &[f64]) -> f64 {
        feasibility(self.known.iter().map(|(row, p)| (self.process.alike(row, features), *p)))
    }

    /// The same where the edge lies half-way between what was measured on its two sides; `None`
    /// without an edge.
    fn half_way(&self) -> Option<Model> {
        Some(Model { process: self.process.half_way()?, known: self.known.clone() })
    }

    /// Whether one with these features may be recommended.
    fn is_feasible(&self, features: &[f64]) -> bool {
        self.feasible(features) >= FEASIBLE
    }
}

impl Searcher {
    /// Queues the model's next choice; `false` when the budget is used.
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
        // A screening says little of what lies between its few levels; without one the model
        // knows nothing.
        let most = if self.screening.is_some() { SCREENED } else { UNSCREENED };
        let blind = (self.budget.search / 4).clamp(1, most);
        let model = if searched < blind { None } else { self.model() };
        let next = match &model {
            None => self.space.sample(&mut rng),
            Some(model) => {
                self.hyper = Some(model.process.hyper().rounded());
                self.most_telling(model, &mut rng)
            }
        };
        let known = self.trials.iter().any(|trial| trial.configuration == next);
        self.plan(if known { Purpose::Again } else { Purpose::Search }, next);
        true
    }

    /// The configuration whose measurement is expected to tell most about which is best.
    fn most_telling(&self, model: &Model, rng: &mut impl RngExt) -> Configuration {
        let look =
            |configuration: &Configuration| model.process.look(&self.space.features(configuration));
        let ranked = self.ranked(model);
        let expected_best = self.expected_best(model, &ranked);
        let mut looked: Vec<(Look, Configuration)> = self
            .candidates(&ranked, rng)
            .into_iter()
            .chain(expected_best.clone())
            .map(|configuration| (look(&configuration), configuration))
            .collect();
        let promise = |look: &Look| look.prediction.mean + look.prediction.deviation;
        looked.sort_by(|a, b| promise(&b.0).total_cmp(&promise(&a.0)));
        let rivals: Vec<&Look> = looked.iter().take(RIVALS).map(|(look, _)| look).collect();
        let worth = |look: &Look, configuration: &Configuration| {
            let mut lines: Vec<(f64, f64)> = rivals
                .iter()
                .copied()
                .chain([look])
                .map(|rival| (rival.prediction.mean, model.process.moved(rival, look)))
                .collect();
            knowledge_gradient(&mut lines) * self.ease(model, configuration)
        };
        let best = looked
            .iter()
            .map(|(look, configuration)| (worth(look, configuration), configuration))
            .max_by(|a, b| a.0.total_cmp(&b.0));
        let Some((value, best)) = best else { return self.space.sample(rng) };
        let worth = |configuration: &Configuration| worth(&look(configuration), configuration);
        let (value, best) = self.climbed(value, best.clone(), REFINE, 0.15, rng, worth);
        let nearer = expected_best.and_then(|best| self.nearer_to_edge(model, &ranked, &best));
        match nearer {
            Some((gain, nearer)) if gain > value => nearer,
            _ => best,
        }
    }

    /// What is taken from the worth of a measurement: what may not run tells less, and of two that
    /// tell the same, the one with more defaults needs less proof.
    fn ease(&self, model: &Model, configuration: &Configuration) -> f64 {
        let is_changed = |d: &&Dimension| configuration.get(&d.name) != Some(&d.home);
        let changes = self.space.dimensions.iter().filter(is_changed).count() as i32;
        model.feasible(&self.space.features(configuration)) * SIMPLE.powi(changes)
    }

    /// What is best if the edge lies half-way between what was measured on its two sides, where
    /// that is nearer to it than `best`, which is expected to be so far; and by how much its
    /// measurement is expected to raise that: it lies before the edge as often as not.
    fn nearer_to_edge(
        &self,
        model: &Model,
        ranked: &[(Configuration, f64)],
        best: &Configuration,
    ) -> Option<(f64, Configuration)> {
        let half_way = model.half_way()?;
        let nearer = self.expected_best(&half_way, ranked)?;
        let gain = self.ahead(&half_way, &nearer, best).mean;
        let is_nearer = gain > self.ahead(model, &nearer, best).mean;
        is_nearer.then(|| (0.5 * gain * self.ease(&half_way, &nearer), nearer))
    }

    /// Configurations that may be worth measuring: anywhere, near the best, the best with
    /// something taken back, and what was measured before.
    fn candidates(
        &self,
        ranked: &[(Configuration, f64)],
        rng: &mut impl RngExt,
    ) -> Vec<Configuration> {
        let mut candidates: Vec<Configuration> =
            (0..RANDOM).map(|_| self.space.sample(rng)).collect();
        for (best, _) in ranked.iter().take(TOP) {
            for i in 0..LOCAL {
                candidates.push(self.changed(best, 1 + i % 3, 0.3, rng));
            }
            for dimension in &self.space.dimensions {
                for back in [Some(&dimension.home), self.baseline.get(&dimension.name)] {
                    let Some(value) = back else { continue };
                    let mut without = best.clone();
                    without.insert(dimension.name.clone(), value.clone());
                    candidates.push(without);
                }
            }
        }
        candidates.extend(ranked.iter().take(KNOWN).map(|(known, _)| known.clone()));
        candidates
    }

    /// A configuration with some dimensions moved a little.
    fn changed(
        &self,
        from: &Configuration,
        count: usize,
        reach: f64,
        rng: &mut impl RngExt,
    ) -> Configuration {
        let mut changed = from.clone();
        for _ in 0..count {
            let index = rng.random_range(0..self.space.dimensions.len());
            if let Some(dimension) = self.space.dimensions.get(index) {
                let value = from.get(&dimension.name).unwrap_or(&dimension.home);
                changed.insert(dimension.name.clone(), dimension.near(value, reach, rng));
            }
        }
        changed
    }

    /// The highest `worth` and where random steps that become smaller lead to it.
    fn climbed(
        &self,
        value: f64,
        from: Configuration,
        steps: usize,
        reach: f64,
        rng: &mut impl RngExt,
        worth: impl Fn(&Configuration) -> f64,
    ) -> (f64, Configuration) {
        let mut at = (value, from);
        for step in 0..steps {
            let reach = reach * (1.0 - step as f64 / steps as f64) + 0.02;
            let near = self.changed(&at.1, 1 + step % 2, reach, rng);
            let value = worth(&near);
            if value > at.0 {
                at = (value, near);
            }
        }
        at
    }

    /// The configuration with the highest expected score of all, also of those that were
    /// not measured; `None` while nothing has run.
    pub(super) fn expected_best(
        &self,
        model: &Model,
        ranked: &[(Configuration, f64)],
    ) -> Option<Configuration> {
        let mut rng = generator(self.options.seed ^ 0xC11B, u64::from(self.next_id()));
        let expected = |configuration: &Configuration| {
            let features = self.space.features(configuration);
            match model.is_feasible(&features) {
                true => model.process.predict(&features).mean,
                false => f64::NEG_INFINITY,
            }
        };
        ranked
            .iter()
            .take(TOP)
            .map(|(start, mean)| self.climbed(*mean, start.clone(), CLIMB, 0.3, &mut rng, expected))
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, best)| best)
    }

    /// The model of everything that was measured; `None` while that is too little.
    pub(super) fn model(&self) -> Option<Model> {
        let penalty = crashed_score(self.worst_score());
        let mut observations = Vec::new();
        let mut known = Vec::new();
        for trial in &self.trials {
            let features = self.space.features(&trial.configuration);
            known.push((features.clone(), trial.feasible()));
            let score = trial.score().unwrap_or(penalty);
            observations.push(Observation { features, block: trial.block, score });
        }
        // How bad the bad ones are is no matter: left as they are, a few collapses would be
        // all that the model explains. But what lies about the baseline counts as it is: late
        // in a search most scores are near the best, and a floor set by those alone would
        // take away the very gain that lines are told apart by.
        let scores: Vec<f64> = observations.iter().map(|o: &Observation| o.score).collect();
        if let (Some(middle), Some(best)) =
            (walwright_stats::median(&scores), scores.iter().copied().reduce(f64::max))
        {
            let noise = self.sigma().unwrap_or(0.0);
            let depth = (DEPTH * (best - middle)).max(6.0 * noise);
            let above = self.baseline_score().map_or(0.0, |baseline| best - baseline);
            let floor = best - depth.max(2.0 * above);
            for observation in &mut observations {
                observation.score = observation.score.max(floor);
            }
        }
        let mut rng = generator(self.options.seed ^ 0x5EED, u64::from(self.next_id()));
        let process = Process::fit(
            &observations,
            &self.space.scales(),
            self.noise(),
            self.hyper.as_ref(),
            &mut rng,
        )?;
        Some(Model { process, known })
    }

    /// Configurations that ran and keep the constraints, each once, best expected score
    /// first.
    pub(super) fn ranked(&self, model: &Model) -> Vec<(Configuration, f64)> {
        let mut ranked: Vec<(Configuration, f64)> = Vec::new();
        for trial in &self.trials {
            let seen = ranked.iter().any(|(known, _)| *known == trial.configuration);
            if seen || !trial.is_feasible() {
                continue;
            }
            let features = self.space.features(&trial.configuration);
            ranked.push((trial.configuration.clone(), model.process.predict(&features).mean));
        }
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
        ranked
    }

    /// The best so far of what was measured: by the model's expectation where there is one.
    pub fn best(&self) -> Configuration {
        let by_model = self.model().and_then(|model| self.ranked(&model).into_iter().next());
        by_model.map_or_else(|| self.best_by_mean(), |(best, _)| best)
    }

    /// By how much the model expects one configuration to score above another.
    pub(super) fn ahead(&self, model: &Model, a: &Configuration, b: &Configuration) -> Prediction {
        model.process.difference(&self.space.features(a), &self.space.features(b))
    }

    /// A configuration without what is of no use: values go back to their default one by
    /// one, the one least missed first, as long as `may_go` says of the loss against the
    /// whole that the result is as good, and the result is feasible, where the whole is.
    pub(super) fn simplified(
        &self,
        model: &Model,
        whole: &Configuration,
        may_go: impl Fn(Prediction) -> bool,
    ) -> Configuration {
        let home = self.space.home();
        let is_feasible = |of: &Configuration| model.is_feasible(&self.space.features(of));
        let must_be = is_feasible(whole);
        let mut simple = whole.clone();
        loop {
            let cheapest = self
                .space
                .changes(&simple, &home)
                .map(|(dimension, _)| {
                    let mut without = simple.clone();
                    without.insert(dimension.name.clone(), dimension.home.clone());
                    (self.ahead(model, whole, &without), without)
                })
                .filter(|(_, without)| !must_be || is_feasible(without))
                .min_by(|a, b| a.0.doubts().total_cmp(&b.0.doubts()));
            match cheapest {
                Some((lost, without)) if may_go(lost) && without != self.baseline => {
                    simple = without;
                }
                _ => return simple,
            }
        }
    }
}
