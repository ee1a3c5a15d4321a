//! Whether what a search recommends keeps what it is told to keep beside its objective, on
//! simulated surfaces whose truth is known.

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use serde_json::json;
use walwright_bench::{
    Family, Kind, Report, SimulatedBench, Surface, mean_and_half, on_all_processors,
};
use walwright_search::{
    Configuration, Dimension, Domain, Options, Outcome, Searcher, Start, Trial, WORTH,
};
use walwright_stats::Moments;

/// The search of `walwright tune` for an objective beside which something is to be kept, such
/// as less WAL at equal throughput: whether its recommendation keeps it, and what it gains.
///
/// The value that gains most also costs some of what is to be kept: a word all of it, a number
/// by how far it goes. The objective is known to 2 %, as WAL of a transaction is; what is to be
/// kept is as noisy as throughput. A recommendation that loses more than may be lost would be
/// refused by a confirmation, so it gains nothing.
///
/// Contenders: the search itself; `ignoring it`, the same search that is told of the objective
/// alone; `best observed`, the highest score that it measured of what seemed to keep it then.
#[derive(Parser)]
struct Cli {
    /// Searches on each kind of surface at each noise.
    #[arg(long, default_value_t = 40)]
    seeds: u64,
    /// Measurements of each search.
    #[arg(long, default_value_t = 40)]
    runs: u32,
    /// Noise of what is to be kept, in percent.
    #[arg(long, value_delimiter = ',', default_value = "5,10")]
    noise: Vec<f64>,
    /// The surfaces on which the constants of the search were chosen.
    #[arg(long)]
    training: bool,
    /// Figures as JSON on standard output.
    #[arg(long)]
    json: bool,
}

const CONTENDERS: [&str; 3] = ["walwright", "ignoring it", "best observed"];
/// Those whose best value stands alone, so that the best that keeps is known.
const KINDS: [Kind; 3] = [Kind::FewOfMany, Kind::Cliff, Kind::SpecialValues];
/// Share that may be lost of what is to be kept.
const ALLOWED_LOSS: f64 = 0.03;
/// Noise of the objective.
const OBJECTIVE_NOISE: f64 = 0.02;
/// Positions that are tried of a number to find the best.
const GRID: usize = 200;

/// A surface whose most telling dimension costs what is to be kept.
struct Dear {
    surface: Surface,
    /// The dimension, its value that gains most, and what that costs, as a logarithm.
    dimension: Dimension,
    top: String,
    cost: f64,
}

impl Dear {
    fn new(family: Family, kind: Kind, number: u64) -> anyhow::Result<Dear> {
        let surface = Surface::new(family, kind, number);
        let gain = |(dimension, value): &(&Dimension, String)| {
            let mut changed = surface.baseline.clone();
            changed.insert(dimension.name.clone(), value.clone());
            surface.truth(&changed).unwrap_or(f64::NEG_INFINITY)
        };
        let values = surface.space.dimensions.iter().flat_map(|d| values(d).map(move |v| (d, v)));
        let (dimension, top) = values
            .max_by(|a, b| gain(a).total_cmp(&gain(b)))
            .map(|(dimension, value)| (dimension.clone(), value))
            .context("a surface has dimensions")?;
        // 10 to 26 %.
        let cost = [0.1, 0.15, 0.2, 0.3][(number % 4) as usize];
        Ok(Dear { surface, dimension, top, cost })
    }

    /// What is to be kept, against the baseline, as a logarithm.
    fn kept(&self, configuration: &Configuration) -> f64 {
        let value = &configuration[&self.dimension.name];
        let position = |value: &str| self.dimension.position(value);
        let home = position(&self.dimension.home);
        let share = match (position(value), position(&self.top), home) {
            (Some(at), Some(top), Some(home)) if top != home => (at - home) / (top - home),
            _ => f64::from(u8::from(*value == self.top)),
        };
        -self.cost * share.max(0.0)
    }

    fn keeps(&self, configuration: &Configuration) -> bool {
        self.kept(configuration) >= (-ALLOWED_LOSS).ln_1p()
    }

    /// The highest score of what keeps: terms of a surface share no dimension.
    fn best(&self) -> f64 {
        let surface = &self.surface;
        let mut best = surface.baseline.clone();
        for dimension in &surface.space.dimensions {
            for value in values(dimension) {
                let mut changed = best.clone();
                changed.insert(dimension.name.clone(), value);
                let better = surface.truth(&changed) > surface.truth(&best);
                if better && self.keeps(&changed) {
                    best = changed;
                }
            }
        }
        surface.truth(&best).unwrap_or(f64::NEG_INFINITY)
    }

    /// True regret in percent of what is recommended, that of the baseline where it would be
    /// refused.
    fn regret(&self, recommended: &Configuration) -> f64 {
        let of = if self.keeps(recommended) { recommended } else { &self.surface.baseline };
        let truth = self.surface.truth(of).unwrap_or(f64::NEG_INFINITY);
        100.0 * -(truth - self.best()).exp_m1()
    }
}

/// Values of a dimension from one end to the other, and those that stand for themselves.
fn values(dimension: &Dimension) -> impl Iterator<Item = String> {
    let special = match &dimension.domain {
        Domain::Range(range) => range.special.iter().map(f64::to_string).collect(),
        Domain::Words(_) => Vec::new(),
    };
    (0..=GRID).map(|at| dimension.at(at as f64 / GRID as f64)).chain(special)
}

/// What a search recommends, and the highest score of what seemed to keep.
fn searched(
    cli: &Cli,
    dear: &Dear,
    allowed_loss: Option<f64>,
    noise: f64,
    seed: impl Fn(u64) -> u64,
) -> anyhow::Result<[Configuration; 2]> {
    let surface = &dear.surface;
    let home = Start { name: "defaults".to_owned(), configuration: surface.space.home() };
    let options =
        Options { runs: cli.runs, seed: seed(0), worth: WORTH, allowed_loss, starts: vec![home] };
    let mut searcher = Searcher::new(surface.space.clone(), &surface.baseline, options)?;
    let mut bench = SimulatedBench::new(OBJECTIVE_NOISE, seed(1));
    let mut beside = SimulatedBench::new(noise, seed(2));
    while let Some(ask) = searcher.ask() {
        let kept = dear.kept(&ask.configuration) + beside.seen();
        let outcome = match bench.measure(surface, &ask.configuration) {
            Some(score) => Outcome::Measured { score, kept: Some(kept) },
            None => Outcome::Crashed,
        };
        searcher.tell(ask.trial, outcome)?;
    }
    let end = searcher.conclusion().context("a search that asks for nothing has concluded")?;
    let of_baseline: Moments = searcher
        .trials()
        .iter()
        .filter(|trial| trial.configuration == *searcher.baseline())
        .filter_map(Trial::kept)
        .collect();
    let least = of_baseline.mean().context("the baseline ran")? + (-ALLOWED_LOSS).ln_1p();
    let observed = searcher
        .trials()
        .iter()
        .filter(|trial| trial.kept().is_some_and(|kept| kept >= least))
        .max_by(|a, b| a.score().unwrap_or(f64::MIN).total_cmp(&b.score().unwrap_or(f64::MIN)))
        .map_or(searcher.baseline(), |trial| &trial.configuration);
    Ok([end.configuration.clone(), observed.clone()])
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    anyhow::ensure!(cli.seeds > 0, "--seeds 0 searches nothing: take 1 or more");
    let family = if cli.training { Family::Training } else { Family::HeldOut };
    let mut report = Report::new(&format!(
        "Recommendations that keep what is to be kept, and true regret in percent (the baseline's where they do not), after {} measurements on {} surfaces: {}",
        cli.runs,
        if cli.training { "training" } else { "held-out" },
        CONTENDERS.join(" | ")
    ));
    let surfaces: Vec<(Kind, u64)> =
        KINDS.iter().flat_map(|kind| (0..cli.seeds).map(|number| (*kind, number))).collect();
    for percent in &cli.noise {
        let all = on_all_processors(&surfaces, |(kind, number)| {
            one(&cli, family, *kind, *number, percent / 100.0)
        })?;
        tell(&mut report, *percent, &all);
    }
    Ok(report.print(cli.json))
}

/// What became of one search of each contender.
#[derive(Clone, Copy)]
struct Told {
    keeps: bool,
    /// True regret in percent.
    regret: f64,
}

fn one(
    cli: &Cli,
    family: Family,
    kind: Kind,
    number: u64,
    noise: f64,
) -> anyhow::Result<[Told; CONTENDERS.len()]> {
    let dear = Dear::new(family, kind, number)?;
    let seed = |what: u64| family.seed(kind, number, 40 + what);
    let [own, observed] = searched(cli, &dear, Some(ALLOWED_LOSS), noise, seed)?;
    let [ignoring, _] = searched(cli, &dear, None, noise, seed)?;
    Ok([own, ignoring, observed]
        .map(|one| Told { keeps: dear.keeps(&one), regret: dear.regret(&one) }))
}

fn tell(report: &mut Report, percent: f64, all: &[[Told; CONTENDERS.len()]]) {
    let searches = all.len();
    let kept: Vec<usize> = (0..CONTENDERS.len())
        .map(|contender| all.iter().filter(|told| told[contender].keeps).count())
        .collect();
    let shown: Vec<String> = kept.iter().map(usize::to_string).collect();
    report.figure(
        &format!("{percent} % noise: recommendations that keep, of {searches}"),
        shown.join(" | "),
        json!(kept),
    );
    let means: Vec<(f64, f64)> = (0..CONTENDERS.len())
        .map(|contender| mean_and_half(all.iter().map(|told| told[contender].regret)))
        .collect();
    let shown: Vec<String> =
        means.iter().map(|(mean, half)| format!("{mean:.1} ± {half:.1}")).collect();
    report.figure(&format!("{percent} % noise: regret"), shown.join(" | "), json!(means));
    for (other, name) in CONTENDERS.iter().enumerate().skip(1) {
        let less = all.iter().map(|told| told[other].regret - told[0].regret);
        let (less, half) = mean_and_half(less);
        report.bar(
            &format!("{percent} % noise: regret below {name} by"),
            format!("{less:.1} ± {half:.1} points"),
            json!({ "less": less, "half_width": half }),
            "interval above 0",
            less - half > 0.0,
        );
    }
}
