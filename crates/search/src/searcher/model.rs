//! The model's choices: what to measure next, what is best so far, what can be left out.

use rand::RngExt;

use super::Searcher;
use crate::acquisition::{crashed_score, knowledge_gradient, normal_cdf, probability_of_running};
use crate::random::generator;
use crate::{
    Configuration, Dimension, Hyper, Look, Observation, Prediction, Process, Purpose, Trial,
};

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
/// Probability of running from which a configuration may be recommended.
const RUNS: f64 = 0.5;
/// Probability of losing no more than may be lost that is likely enough,
const KEEPS: f64 = 0.85;
/// and by how much it may fall where it is less: drawn processes hardly ever give it alike to two.
const FALLS: f64 = 0.02;
/// Times what may be lost: how much is lost beyond that is no matter.
const LOST: f64 = 3.0;
/// Power of that probability by which a gain counts: the probability that is highest of many is
/// so by luck too, and what is refused in the end gained nothing.
const CAUTION: i32 = 8;
/// Processes that are drawn to judge it.
const DRAWN: usize = 8;

/// A process over the measurements, what is known of running, and of what is to be kept.
#[derive(Clone)]
pub(super) struct Model {
    pub process: Process,
    /// Features of each measurement, and whether it ran.
    ran: Vec<(Vec<f64>, bool)>,
    /// What is to be kept beside the score.
    beside: Option<Beside>,
}

/// What is to be kept beside the score, by processes that are equally likely: the most likely one
/// alone may take all of it for noise, and be sure that nothing costs anything.
#[derive(Clone)]
struct Beside {
    drawn: Vec<Process>,
    /// The score that is expected of the baseline,
    score: f64,
    /// its features,
    baseline: Vec<f64>,
    /// and the least change from it of what is to be kept, as a logarithm.
    least: f64,
}

impl Beside {
    /// Probability that no more is lost than may be.
    fn probability(&self, features: &[f64]) -> f64 {
        let by = |process: &Process| {
            let change = process.difference(features, &self.baseline);
            normal_cdf(Prediction { mean: change.mean - self.least, ..change }.deviations())
        };
        self.drawn.iter().map(by).sum::<f64>() / self.drawn.len() as f64
    }
}

impl Model {
    /// Probability that a configuration with these features runs and keeps what is to be kept.
    fn feasible(&self, features: &[f64]) -> f64 {
        self.runs(features) * self.keeps(features)
    }

    /// Probability that it runs.
    fn runs(&self, features: &[f64]) -> f64 {
        let of = |(row, ran): &(Vec<f64>, bool)| {
            (self.process.alike(row, features), f64::from(u8::from(*ran)))
        };
        probability_of_running(self.ran.iter().map(of))
    }

    /// Probability that it keeps what is to be kept: 1 where nothing is.
    fn keeps(&self, features: &[f64]) -> f64 {
        self.beside.as_ref().map_or(1.0, |beside| beside.probability(features))
    }

    /// The same where the edge lies half-way between what was measured on its two sides; `None`
    /// without an edge.
    fn half_way(&self) -> Option<Model> {
        Some(Model { process: self.process.half_way()?, ..self.clone() })
    }

    /// Whether one with these features likely runs.
    fn likely_runs(&self, features: &[f64]) -> bool {
        self.runs(features) >= RUNS
    }

    /// What a recommendation of these features is worth: its expected score or, where something
    /// is to be kept, its gain by how sure it is not to be refused.
    pub(super) fn worth(&self, features: &[f64]) -> f64 {
        let expected = self.process.predict(features).mean;
        match &self.beside {
            None => expected,
            Some(beside) if expected <= beside.score => expected - beside.score,
            Some(beside) => (expected - beside.score) * beside.probability(features).powi(CAUTION),
        }
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

    /// The configuration that is worth most of all that likely run, also of those that were not
    /// measured; `None` while nothing has run.
    pub(super) fn expected_best(
        &self,
        model: &Model,
        ranked: &[(Configuration, f64)],
    ) -> Option<Configuration> {
        let mut rng = generator(self.options.seed ^ 0xC11B, u64::from(self.next_id()));
        let worth = |configuration: &Configuration| {
            let features = self.space.features(configuration);
            match model.likely_runs(&features) {
                true => model.worth(&features),
                false => f64::NEG_INFINITY,
            }
        };
        ranked
            .iter()
            .take(TOP)
            .map(|(start, value)| self.climbed(*value, start.clone(), CLIMB, 0.3, &mut rng, worth))
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, best)| best)
    }

    /// The model of everything that was measured; `None` while that is too little.
    pub(super) fn model(&self) -> Option<Model> {
        let penalty = crashed_score(self.worst_score());
        let score = |trial: &Trial| Some(trial.score().unwrap_or(penalty));
        let process = self.process(score, Trial::score, 0.0, self.hyper.as_ref())?;
        let ran =
            |trial: &Trial| (self.space.features(&trial.configuration), trial.score().is_some());
        let beside = self.beside(&process);
        Some(Model { process, ran: self.trials.iter().map(ran).collect(), beside })
    }

    /// The model of what is to be kept; `None` where nothing is, or too little was measured.
    fn beside(&self, of_score: &Process) -> Option<Beside> {
        let least = (-self.options.allowed_loss?).ln_1p();
        let process = self.process(Trial::kept, Trial::kept, -LOST * least, None)?;
        let mut rng = generator(self.options.seed ^ 0x4E97, u64::from(self.next_id()));
        let drawn = process.drawn(DRAWN, &mut rng);
        let baseline = self.space.features(&self.baseline);
        let score = of_score.predict(&baseline).mean;
        (!drawn.is_empty()).then_some(Beside { drawn, score, baseline, least })
    }

    /// A process of what `of` says of each measurement, whose noise and level the baseline shows
    /// by `shown`, and of which nothing is cut that lies less than `below` under that level;
    /// `earlier` is a fit to fewer measurements.
    fn process(
        &self,
        of: impl Fn(&Trial) -> Option<f64>,
        shown: impl Fn(&Trial) -> Option<f64> + Copy,
        below: f64,
        earlier: Option<&Hyper>,
    ) -> Option<Process> {
        let observation = |trial: &Trial| {
            let features = self.space.features(&trial.configuration);
            Some(Observation { features, block: trial.block, score: of(trial)? })
        };
        let mut observations: Vec<Observation> =
            self.trials.iter().filter_map(observation).collect();
        let noise = self.noise_of(shown);
        // How bad the bad ones are is no matter: left as they are, a few collapses would be
        // all that the model explains. But what lies about the baseline counts as it is: late
        // in a search most scores are near the best, and a floor set by those alone would
        // take away the very gain that lines are told apart by.
        let scores: Vec<f64> = observations.iter().map(|o| o.score).collect();
        if let (Some(middle), Some(best)) =
            (walwright_stats::median(&scores), scores.iter().copied().reduce(f64::max))
        {
            let sigma = noise.map_or(0.0, |noise| noise.variance.sqrt());
            let depth = (DEPTH * (best - middle)).max(6.0 * sigma);
            let above = self.baseline_mean(shown).map_or(0.0, |baseline| best - baseline);
            let floor = best - depth.max(2.0 * above).max(above + below);
            for observation in &mut observations {
                observation.score = observation.score.max(floor);
            }
        }
        let mut rng = generator(self.options.seed ^ 0x5EED, u64::from(self.next_id()));
        Process::fit(&observations, &self.space.scales(), noise, earlier, &mut rng)
    }

    /// Configurations that ran, each once, and what a recommendation of them is worth, the most
    /// first.
    pub(super) fn ranked(&self, model: &Model) -> Vec<(Configuration, f64)> {
        let mut ranked: Vec<(Configuration, f64)> = Vec::new();
        for trial in &self.trials {
            let seen = ranked.iter().any(|(known, _)| *known == trial.configuration);
            if seen || trial.score().is_none() {
                continue;
            }
            let features = self.space.features(&trial.configuration);
            ranked.push((trial.configuration.clone(), model.worth(&features)));
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

    /// Whether the model lets one configuration stand for another: it likely runs, if the other
    /// does, and keeps what is to be kept likely enough, or about as likely as the other.
    pub(super) fn may_stand_for(
        &self,
        model: &Model,
        one: &Configuration,
        other: &Configuration,
    ) -> bool {
        let [one, other] = [one, other].map(|of| self.space.features(of));
        let runs = model.likely_runs(&one) || !model.likely_runs(&other);
        runs && model.keeps(&one) >= (model.keeps(&other) - FALLS).min(KEEPS)
    }

    /// A configuration without what is of no use: values go back to their default one by
    /// one, the one least missed first, as long as `may_go` says of the loss against the
    /// whole that the result is as good, and the model lets it stand for the whole.
    pub(super) fn simplified(
        &self,
        model: &Model,
        whole: &Configuration,
        may_go: impl Fn(Prediction) -> bool,
    ) -> Configuration {
        let home = self.space.home();
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
                .filter(|(_, without)| self.may_stand_for(model, without, whole))
                .min_by(|a, b| a.0.deviations().total_cmp(&b.0.deviations()));
            match cheapest {
                Some((lost, without)) if may_go(lost) && without != self.baseline => {
                    simple = without;
                }
                _ => return simple,
            }
        }
    }
}
