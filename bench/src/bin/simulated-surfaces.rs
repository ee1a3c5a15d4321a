//! Whether the search finds what there is to find, and claims nothing where there is
//! nothing: on simulated surfaces whose truth is known.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;
use clap::Parser;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::json;
use walwright_bench::{Report, SimulatedBench, Surface, surfaces};
use walwright_search::{Configuration, Domain, Options, Outcome, Searcher, Start};
use walwright_stats::{Confidence, Moments, t_quantile};

/// The search of `walwright tune`, its parts, and other searches, at equal budget on simulated
/// surfaces: the true regret of what each recommends, and how often it claims a gain where
/// there is none.
///
/// Contenders: the search itself; `best observed`, the same search that spends all its
/// measurements on searching and recommends the highest; `random`, which recommends the highest of random configurations;
/// `tpe`, a tree-structured Parzen estimator (crate tpe), which does too.
#[derive(Parser)]
struct Cli {
    /// Searches of each contender on each surface at each noise.
    #[arg(long, default_value_t = 20)]
    seeds: u64,
    /// Measurements of each search.
    #[arg(long, default_value_t = 60)]
    runs: u32,
    /// Noise of one measurement, in percent.
    #[arg(long, value_delimiter = ',', default_value = "2,5,10")]
    noise: Vec<f64>,
    /// Searches on the flat surface, where each says only yes or no, for each of the others.
    #[arg(long, default_value_t = 5)]
    flat: u64,
    /// Figures as JSON on standard output.
    #[arg(long)]
    json: bool,
}

const CONTENDERS: [&str; 4] = ["walwright", "best observed", "random", "tpe"];

/// One search of all contenders.
struct Job {
    surface: usize,
    noise: usize,
    seed: u64,
}

/// What a job showed.
struct Done {
    surface: usize,
    noise: usize,
    /// True regret in percent, by contender.
    regret: [f64; CONTENDERS.len()],
    claimed: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let surfaces = surfaces();
    let mut jobs = Vec::new();
    for (index, surface) in surfaces.iter().enumerate() {
        let seeds = if surface.is_flat { cli.seeds * cli.flat } else { cli.seeds };
        for noise in 0..cli.noise.len() {
            jobs.extend((0..seeds).map(|seed| Job { surface: index, noise, seed }));
        }
    }
    let done = all(&cli, &surfaces, &jobs)?;
    Ok(report(&cli, &surfaces, &done).print(cli.json))
}

/// Does the jobs on all processors.
fn all(cli: &Cli, surfaces: &[Surface], jobs: &[Job]) -> anyhow::Result<Vec<Done>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = one(cli, &surfaces[job.surface], job);
                    done.lock().unwrap_or_else(|e| e.into_inner()).push(result);
                }
            });
        }
    });
    done.into_inner().unwrap_or_else(|e| e.into_inner()).into_iter().collect()
}

fn one(cli: &Cli, surface: &Surface, job: &Job) -> anyhow::Result<Done> {
    let sigma = cli.noise[job.noise] / 100.0;
    let bench = |contender: u64| SimulatedBench::new(sigma, job.seed * 31 + contender);
    let (recommended, claimed) = search(cli, surface, job.seed, bench(0))?;
    let observed = match surface.is_flat {
        true => surface.baseline.clone(),
        false => best_observed(cli, surface, job.seed, bench(3))?,
    };
    let others = [random(cli, surface, job.seed, bench(1)), tpe(cli, surface, job.seed, bench(2))?];
    let regret = |configuration: &Configuration| {
        let truth = surface.truth(configuration).unwrap_or(f64::NEG_INFINITY);
        100.0 * -(truth - surface.best).exp_m1()
    };
    let [random, tpe] = others;
    Ok(Done {
        surface: job.surface,
        noise: job.noise,
        regret: [regret(&recommended), regret(&observed), regret(&random), regret(&tpe)],
        claimed,
    })
}

/// The search itself: what it recommends, and whether it claims a gain.
fn search(
    cli: &Cli,
    surface: &Surface,
    seed: u64,
    mut bench: SimulatedBench,
) -> anyhow::Result<(Configuration, bool)> {
    let mut searcher = searcher(surface, cli.runs, seed)?;
    while measure(&mut searcher, surface, &mut bench)? {}
    let end = searcher.conclusion().context("a search that asks for nothing has concluded")?;
    Ok((end.configuration.clone(), end.is_gain))
}

/// The same search with all its measurements spent on searching: the highest score seen.
fn best_observed(
    cli: &Cli,
    surface: &Surface,
    seed: u64,
    mut bench: SimulatedBench,
) -> anyhow::Result<Configuration> {
    let searching = |runs: u32| {
        let budget = searcher(surface, runs, seed).map(|searcher| searcher.budget());
        budget.is_ok_and(|b| b.runs - b.race - b.ablation >= cli.runs)
    };
    let enough = (cli.runs..).find(|runs| searching(*runs)).unwrap_or(cli.runs);
    let mut searcher = searcher(surface, enough, seed)?;
    for _ in 0..cli.runs {
        if !measure(&mut searcher, surface, &mut bench)? {
            break;
        }
    }
    let seen = searcher.trials().iter();
    let highest = seen
        .filter_map(|trial| Some((trial.score()?, &trial.configuration)))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    Ok(highest.context("something was measured")?.1.clone())
}

fn searcher(surface: &Surface, runs: u32, seed: u64) -> anyhow::Result<Searcher> {
    let home = Start { name: "defaults".to_owned(), configuration: surface.space.home() };
    let options = Options { runs, seed, smallest_effect: 0.01, starts: vec![home] };
    Ok(Searcher::new(surface.space.clone(), &surface.baseline, options)?)
}

/// One measurement; `false` at the end.
fn measure(
    searcher: &mut Searcher,
    surface: &Surface,
    bench: &mut SimulatedBench,
) -> anyhow::Result<bool> {
    let Some(ask) = searcher.ask() else { return Ok(false) };
    let outcome = match bench.measure(surface, &ask.configuration) {
        Some(score) => Outcome::score(score),
        None => Outcome::Crashed,
    };
    searcher.tell(ask.trial, outcome)?;
    Ok(true)
}

/// The configuration with the highest score, of those that `next` gives.
fn highest(
    cli: &Cli,
    surface: &Surface,
    bench: &mut SimulatedBench,
    mut next: impl FnMut() -> Configuration,
    mut told: impl FnMut(Option<f64>),
) -> Configuration {
    let mut best = (f64::NEG_INFINITY, surface.baseline.clone());
    for run in 0..cli.runs {
        let configuration = if run == 0 { surface.baseline.clone() } else { next() };
        let score = bench.measure(surface, &configuration);
        if run > 0 {
            told(score);
        }
        if let Some(score) = score.filter(|score| *score > best.0) {
            best = (score, configuration);
        }
    }
    best.1
}

fn random(cli: &Cli, surface: &Surface, seed: u64, mut bench: SimulatedBench) -> Configuration {
    let mut rng = StdRng::seed_from_u64(seed);
    let all: Vec<usize> = (0..surface.space.dimensions.len()).collect();
    let next = || surface.space.sample(&surface.baseline, &all, &mut rng);
    highest(cli, surface, &mut bench, next, |_| {})
}

fn tpe(
    cli: &Cli,
    surface: &Surface,
    seed: u64,
    mut bench: SimulatedBench,
) -> anyhow::Result<Configuration> {
    let mut rng = StdRng::seed_from_u64(seed ^ 0x79E);
    let mut best = (f64::NEG_INFINITY, surface.baseline.clone());
    let mut worst: f64 = 0.0;
    let mut numbers = Vec::new();
    for dimension in &surface.space.dimensions {
        let (range, estimator) = match &dimension.domain {
            Domain::Range(_) => (tpe::range(0.0, 1.0)?, tpe::parzen_estimator()),
            Domain::Words(words) => {
                (tpe::categorical_range(words.len())?, tpe::histogram_estimator())
            }
        };
        numbers.push(tpe::TpeOptimizer::new(estimator, range));
    }
    for _ in 0..cli.runs {
        let mut asked = Vec::new();
        let mut configuration = Configuration::new();
        for (optimiser, dimension) in numbers.iter_mut().zip(&surface.space.dimensions) {
            let at = optimiser.ask(&mut rng)?;
            let value = match &dimension.domain {
                Domain::Range(_) => dimension.at(at),
                Domain::Words(words) => words[at as usize].clone(),
            };
            configuration.insert(dimension.name.clone(), value);
            asked.push(at);
        }
        let score = bench.measure(surface, &configuration);
        worst = worst.min(score.unwrap_or(worst));
        // A crash is twice as bad as the worst seen, as in the search itself.
        let cost = -score.unwrap_or(worst - std::f64::consts::LN_2);
        for (optimiser, at) in numbers.iter_mut().zip(asked) {
            optimiser.tell(at, cost)?;
        }
        if let Some(score) = score.filter(|score| *score > best.0) {
            best = (score, configuration);
        }
    }
    Ok(best.1)
}

/// Mean with the half width of its 95 % interval.
fn mean(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let moments: Moments = values.collect();
    let count = moments.count() as f64;
    let half = moments
        .standard_deviation()
        .zip(t_quantile(Confidence::P95, count - 1.0))
        .map_or(f64::INFINITY, |(deviation, t)| t * deviation / count.sqrt());
    (moments.mean().unwrap_or(f64::NAN), half)
}

fn report(cli: &Cli, surfaces: &[Surface], done: &[Done]) -> Report {
    let mut report = Report::new(&format!(
        "True regret in percent after {} measurements, mean of {} searches ± 95 % interval: {}",
        cli.runs,
        cli.seeds,
        CONTENDERS.join(" | ")
    ));
    for (noise, percent) in cli.noise.iter().enumerate() {
        for (index, surface) in surfaces.iter().enumerate().filter(|(_, s)| !s.is_flat) {
            let these = || done.iter().filter(move |d| d.surface == index && d.noise == noise);
            let means: Vec<(f64, f64)> =
                (0..CONTENDERS.len()).map(|c| mean(these().map(|d| d.regret[c]))).collect();
            let shown: Vec<String> =
                means.iter().map(|(mean, half)| format!("{mean:5.1} ± {half:.1}")).collect();
            let value: Vec<_> = CONTENDERS
                .iter()
                .zip(&means)
                .map(|(name, (mean, half))| json!({ "contender": name, "regret": mean, "half_width": half }))
                .collect();
            report.figure(
                &format!("{percent} % noise, {}", surface.name),
                shown.join(" | "),
                json!(value),
            );
        }
        bars(&mut report, *percent, surfaces, done.iter().filter(|d| d.noise == noise).collect());
    }
    report
}

/// What must hold at one noise.
fn bars(report: &mut Report, percent: f64, surfaces: &[Surface], done: Vec<&Done>) {
    let hilly = || done.iter().filter(|d| !surfaces[d.surface].is_flat);
    for (other, name) in CONTENDERS.iter().enumerate().skip(1) {
        let (less, half) = mean(hilly().map(|d| d.regret[other] - d.regret[0]));
        let figure = format!("{percent} % noise, all: below {name} by");
        let shown = format!("{less:.1} ± {half:.1} points");
        let value = json!({ "less": less, "half_width": half });
        if percent >= 10.0 && other < 3 {
            report.bar(&figure, shown, value, "interval above 0", less - half > 0.0);
        } else {
            report.figure(&figure, shown, value);
        }
    }
    let flat: Vec<&&Done> = done.iter().filter(|d| surfaces[d.surface].is_flat).collect();
    let claims = flat.iter().filter(|d| d.claimed).count();
    let share = claims as f64 / flat.len().max(1) as f64;
    report.bar(
        &format!("{percent} % noise, flat: gains claimed"),
        format!("{claims} of {} ({:.1} %)", flat.len(), 100.0 * share),
        json!({ "claims": claims, "searches": flat.len() }),
        "at most 5 %",
        share <= 0.05,
    );
}
