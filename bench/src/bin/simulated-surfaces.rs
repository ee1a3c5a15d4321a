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
use walwright_bench::{Family, Kind, Report, SimulatedBench, Surface};
use walwright_search::{
    Conclusion, Configuration, Effect, Options, Outcome, Searcher, Start, WORTH,
};
use walwright_stats::{Confidence, Moments, t_quantile};
use walwright_tune::{Confirmation, Confirming, Questions};

/// The search of `walwright tune` and others, at equal budget on simulated surfaces: the true
/// regret of what each recommends, and how often it claims a gain where there is none.
///
/// Contenders: the search itself; `best observed`, the highest score of the measurements
/// that it made; `random`, the highest of random configurations.
///
/// Every search has a surface of its own, drawn from its seed. The constants of the search
/// were chosen on the training surfaces (`--training`); the figures to quote are those of
/// the others, which are measured unless told otherwise.
#[derive(Parser)]
struct Cli {
    /// Kinds of surfaces by a part of their name. The default is all.
    only: Vec<String>,
    /// Searches of each contender on each kind of surface at each noise.
    #[arg(long, default_value_t = 40)]
    seeds: u64,
    /// Measurements of each search.
    #[arg(long, default_value_t = 60)]
    runs: u32,
    /// Noise of one measurement, in percent.
    #[arg(long, value_delimiter = ',', default_value = "2,5,10")]
    noise: Vec<f64>,
    /// Searches on flat surfaces, where each says only yes or no, for each of the others.
    #[arg(long, default_value_t = 5)]
    flat: u64,
    /// The surfaces on which the constants of the search were chosen.
    #[arg(long)]
    training: bool,
    /// Figures as JSON on standard output.
    #[arg(long)]
    json: bool,
}

impl Cli {
    fn family(&self) -> Family {
        if self.training { Family::Training } else { Family::HeldOut }
    }
}

const CONTENDERS: [&str; 3] = ["walwright", "best observed", "random"];
/// Settings that must carry
const FEW: usize = 6;
/// this share of the gain of a profile.
const CARRIED: f64 = 0.95;
/// Pairs of baseline and recommendation by which a gain is confirmed, beyond the budget: at
/// first, and at most where these leave it open.
const PAIRS: (u32, u32) = (5, 40);

/// One search of all contenders.
struct Job {
    kind: Kind,
    noise: usize,
    seed: u64,
}

/// What a job showed.
struct Done {
    kind: Kind,
    noise: usize,
    /// True regret in percent, by contender.
    regret: [f64; CONTENDERS.len()],
    /// Whether a gain is proposed, to be confirmed.
    proposed: bool,
    /// What is told in the end.
    ending: Ending,
    /// Pairs of the confirmation; 0 where nothing was proposed.
    pairs: usize,
    /// Share of the true gain that the first few lines of the profile carry, and how many
    /// lines it has; `None` where none is proposed.
    profile: Option<(f64, usize)>,
    /// Intervals of single lines, and how many of them cover the truth.
    intervals: (usize, usize),
}

/// What is told in the end.
#[derive(Clone, Copy, PartialEq)]
enum Ending {
    /// The confirmation found the gain again, in measurements of its own: only that is claimed.
    Claimed,
    /// A gain that is worth a change is excluded: configuration does not limit.
    Excluded,
    /// Neither.
    Open,
}

/// What the search itself showed.
struct Searched {
    end: Conclusion,
    /// The one with the highest score of all that it measured.
    observed: Configuration,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let mut jobs = Vec::new();
    for kind in Kind::chosen(&cli.only)? {
        let seeds = if kind == Kind::Flat { cli.seeds * cli.flat } else { cli.seeds };
        for noise in 0..cli.noise.len() {
            jobs.extend((0..seeds).map(|seed| Job { kind, noise, seed }));
        }
    }
    anyhow::ensure!(!jobs.is_empty(), "nothing to search: --seeds, --flat or --noise is zero");
    let done = on_all_processors(&jobs, |job| one(&cli, job))?;
    Ok(report(&cli, &done).print(cli.json))
}

fn one(cli: &Cli, job: &Job) -> anyhow::Result<Done> {
    let surface = &Surface::new(cli.family(), job.kind, job.seed);
    let sigma = cli.noise[job.noise] / 100.0;
    let seed = |what: u64| cli.family().seed(job.kind, job.seed, 1 + what);
    let bench = |contender: u64| SimulatedBench::new(sigma, seed(8 + contender));
    let Searched { end, observed } = search(cli, surface, seed(0), bench(0))?;
    let random = random(cli, surface, seed(1), bench(1));
    let asked = Questions { planned: PAIRS.0, most: PAIRS.1, worth: WORTH, allowed_loss: None };
    let (ending, pairs) = match end.is_proposed {
        true => confirmed(surface, &end, &asked, SimulatedBench::new(sigma, seed(12))),
        false if excluded(&end.gain) => (Ending::Excluded, 0),
        false => (Ending::Open, 0),
    };
    let truth =
        |configuration: &Configuration| surface.truth(configuration).unwrap_or(f64::NEG_INFINITY);
    let regret =
        |configuration: &Configuration| 100.0 * -(truth(configuration) - surface.best).exp_m1();
    Ok(Done {
        kind: job.kind,
        noise: job.noise,
        regret: [&end.configuration, &observed, &random].map(regret),
        proposed: end.is_proposed,
        ending,
        pairs,
        profile: end.is_proposed.then(|| profile(surface, &end)),
        intervals: intervals(surface, &end),
    })
}

/// Whether a gain that is worth a change is excluded, and nothing worse found either, which says
/// nothing of what else there is.
fn excluded(gain: &Effect) -> bool {
    !gain.is_loss() && gain.excludes(WORTH)
}

/// Whether the gain shows again in pairs of baseline and recommendation, as a tune confirms
/// it, and how many pairs that took.
fn confirmed(
    surface: &Surface,
    end: &Conclusion,
    asked: &Questions,
    mut bench: SimulatedBench,
) -> (Ending, usize) {
    let mut confirmation = Confirmation::default();
    while let Some((is_winner, pair)) = confirmation.next(confirmation.wanted(asked)) {
        let configuration = if is_winner { &end.configuration } else { &surface.baseline };
        let score = bench.measure(surface, configuration);
        confirmation.made.push(Confirming {
            is_winner,
            pair,
            run: None,
            score,
            value: None,
            throughput: None,
            checkpoints: None,
            crashed: None,
        });
    }
    let effect = confirmation.effect(asked);
    let ending = match confirmation.open(asked) {
        _ if effect.is_gain() => Ending::Claimed,
        _ if effect.is_loss() => Ending::Open,
        None if confirmation.failure().is_none() => Ending::Excluded,
        _ => Ending::Open,
    };
    (ending, confirmation.pairs())
}

/// Share of the true gain that the first few lines carry, in the order in which they are
/// told, and how many lines there are.
fn profile(surface: &Surface, end: &Conclusion) -> (f64, usize) {
    let truth = |configuration: &Configuration| surface.truth(configuration).unwrap_or(0.0);
    let changed = |line: &&walwright_search::Line| {
        end.configuration.get(&line.name) != surface.baseline.get(&line.name)
    };
    let lines: Vec<_> = end.lines.iter().filter(changed).collect();
    let mut few = surface.baseline.clone();
    for line in lines.iter().take(FEW) {
        few.insert(line.name.clone(), end.configuration[&line.name].clone());
    }
    let gain = truth(&end.configuration) - truth(&surface.baseline);
    ((truth(&few) - truth(&surface.baseline)) / gain, lines.len())
}

/// The intervals of lines that went back alone, and how many of them cover the truth.
fn intervals(surface: &Surface, end: &Conclusion) -> (usize, usize) {
    let (mut all, mut covering) = (0, 0);
    for line in end.lines.iter().filter(|line| line.together == 0) {
        let mut without = end.winner.clone();
        without.insert(line.name.clone(), line.home.clone());
        let truths = surface.truth(&without).zip(surface.truth(&end.winner));
        let interval = line.without.estimate().and_then(|estimate| estimate.interval);
        if let (Some((without, with)), Some(interval)) = (truths, interval) {
            all += 1;
            covering += usize::from(interval.contains((without - with).exp_m1()));
        }
    }
    (all, covering)
}

/// The search itself.
fn search(
    cli: &Cli,
    surface: &Surface,
    seed: u64,
    mut bench: SimulatedBench,
) -> anyhow::Result<Searched> {
    let home = Start { name: "defaults".to_owned(), configuration: surface.space.home() };
    let options =
        Options { runs: cli.runs, seed, worth: WORTH, allowed_loss: None, starts: vec![home] };
    let mut searcher = Searcher::new(surface.space.clone(), &surface.baseline, options)?;
    while let Some(ask) = searcher.ask() {
        let score = bench.measure(surface, &ask.configuration);
        searcher.tell(ask.trial, score.map_or(Outcome::Crashed, Outcome::score))?;
    }
    let end = searcher.conclusion().context("a search that asks for nothing has concluded")?;
    let scores = searcher.trials().iter().filter_map(|trial| Some((trial.score()?, trial)));
    let (_, highest) =
        scores.max_by(|a, b| a.0.total_cmp(&b.0)).context("something was measured")?;
    Ok(Searched { end: end.clone(), observed: highest.configuration.clone() })
}

/// Of the baseline and random configurations the one with the highest score.
fn random(cli: &Cli, surface: &Surface, seed: u64, mut bench: SimulatedBench) -> Configuration {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut best = (f64::NEG_INFINITY, surface.baseline.clone());
    for run in 0..cli.runs {
        let configuration =
            if run == 0 { surface.baseline.clone() } else { surface.space.sample(&mut rng) };
        let score = bench.measure(surface, &configuration);
        if let Some(score) = score.filter(|score| *score > best.0) {
            best = (score, configuration);
        }
    }
    best.1
}

/// A list of figures with the half widths of their intervals, as a row shows it.
fn shown(means: &[(f64, f64)]) -> String {
    let each: Vec<String> =
        means.iter().map(|(mean, half)| format!("{mean:5.1} ± {half:.1}")).collect();
    each.join(" | ")
}

fn report(cli: &Cli, done: &[Done]) -> Report {
    let mut report = Report::new(&format!(
        "True regret in percent after {} measurements on {} surfaces, mean of {} searches ± 95 % interval: {}",
        cli.runs,
        if cli.training { "training" } else { "held-out" },
        cli.seeds,
        CONTENDERS.join(" | ")
    ));
    for (noise, percent) in cli.noise.iter().enumerate() {
        let hilly: Vec<&Done> =
            done.iter().filter(|d| d.noise == noise && d.kind != Kind::Flat).collect();
        if !hilly.is_empty() {
            regrets(&mut report, cli, *percent, &hilly);
        }
        let flat: Vec<&Done> =
            done.iter().filter(|d| d.noise == noise && d.kind == Kind::Flat).collect();
        if flat.is_empty() {
            continue;
        }
        endings(&mut report, &format!("{percent} % noise, flat"), &flat);
        let (share, shown) = counted(&flat, |d| d.ending == Ending::Claimed);
        let name =
            format!("{percent} % noise, flat: gains claimed, since the confirmation found them");
        report.bar(&name, shown, json!(share), "at most 5 %", share <= 0.05);
    }
    report
}

/// The regret of each contender and stage, by kind and of all, and how such searches end.
fn regrets(report: &mut Report, cli: &Cli, percent: f64, hilly: &[&Done]) {
    // Of kinds that were chosen, all of them are not all.
    let whole = if cli.only.is_empty() { "all" } else { "chosen" };
    let searched = |kind: &Kind| hilly.iter().any(|d| d.kind == *kind);
    let hills = || Kind::ALL.into_iter().filter(searched).map(Some).chain([None]);
    let name = |kind: Option<Kind>| {
        format!("{percent} % noise, {}", kind.map_or(whole, |kind| kind.name()))
    };
    let of = |kind: Option<Kind>| hilly.iter().filter(move |d| kind.is_none_or(|k| d.kind == k));
    for kind in hills() {
        let means: Vec<(f64, f64)> =
            (0..CONTENDERS.len()).map(|c| mean_and_half(of(kind).map(|d| d.regret[c]))).collect();
        let value: Vec<_> = CONTENDERS
            .iter()
            .zip(&means)
            .map(|(name, (mean, half))| json!({ "contender": name, "regret": mean, "half_width": half }))
            .collect();
        report.figure(&name(kind), shown(&means), json!(value));
    }
    let what = name(None);
    bars(report, &what, percent, hilly);
    endings(report, &what, hilly);
}

/// The share of searches of which that holds, and in words.
fn counted(of: &[&Done], which: impl Fn(&Done) -> bool) -> (f64, String) {
    let (count, searches) = (of.iter().filter(|d| which(d)).count(), of.len());
    let share = count as f64 / searches.max(1) as f64;
    (share, format!("{count} of {searches} ({:.1} %)", 100.0 * share))
}

/// How searches end.
fn endings(report: &mut Report, name: &str, of: &[&Done]) {
    let mut tell = |what: &str, which: &dyn Fn(&Done) -> bool| {
        let (share, shown) = counted(of, which);
        report.figure(&format!("{name}: {what}"), shown, json!(share));
    };
    tell("gains proposed for confirmation", &|d| d.proposed);
    tell("gains claimed", &|d| d.ending == Ending::Claimed);
    tell("gains worth a change excluded", &|d| d.ending == Ending::Excluded);
    tell("ends open", &|d| d.ending == Ending::Open);
    let pairs: Vec<f64> = of.iter().filter(|d| d.proposed).map(|d| d.pairs as f64).collect();
    let mean = walwright_stats::mean(&pairs);
    let shown = mean.map_or("none".to_owned(), |mean| format!("{mean:.1}"));
    report.figure(&format!("{name}: pairs of a confirmation in the mean"), shown, json!(mean));
}

/// What must hold at one noise.
fn bars(report: &mut Report, what: &str, percent: f64, hilly: &[&Done]) {
    for (other, name) in CONTENDERS.iter().enumerate().skip(1) {
        let (less, half) = mean_and_half(hilly.iter().map(|d| d.regret[other] - d.regret[0]));
        let figure = format!("{what}: below {name} by");
        let shown = format!("{less:.1} ± {half:.1} points");
        let value = json!({ "less": less, "half_width": half });
        if percent >= 10.0 {
            report.bar(&figure, shown, value, "interval above 0", less - half > 0.0);
        } else {
            report.figure(&figure, shown, value);
        }
    }
    let all: usize = hilly.iter().map(|d| d.intervals.0).sum();
    let covering: usize = hilly.iter().map(|d| d.intervals.1).sum();
    report.figure(
        &format!("{what}: intervals of single lines that cover the truth"),
        format!("{covering} of {all} ({:.1} %)", 100.0 * covering as f64 / all.max(1) as f64),
        json!({ "covering": covering, "all": all }),
    );
    let profiles: Vec<(f64, usize)> = hilly.iter().filter_map(|d| d.profile).collect();
    let carried = profiles.iter().filter(|(share, _)| *share >= CARRIED).count();
    let (lines, half) = mean_and_half(profiles.iter().map(|(_, lines)| *lines as f64));
    let share = carried as f64 / profiles.len().max(1) as f64;
    report.bar(
        &format!("{what}: profiles whose first {FEW} lines carry 95 % of the true gain"),
        format!("{carried} of {} ({lines:.1} ± {half:.1} lines)", profiles.len()),
        json!({ "carried": carried, "profiles": profiles.len(), "lines": lines }),
        "at least 95 %",
        share >= 0.95,
    );
}

/// Does the jobs on all processors; results come in the order in which they were done.
fn on_all_processors<J: Sync, D: Send>(
    jobs: &[J],
    one: impl Fn(&J) -> anyhow::Result<D> + Sync,
) -> anyhow::Result<Vec<D>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = one(job);
                    done.lock().unwrap_or_else(|e| e.into_inner()).push(result);
                }
            });
        }
    });
    done.into_inner().unwrap_or_else(|e| e.into_inner()).into_iter().collect()
}

/// Mean with the half width of its 95 % interval.
fn mean_and_half(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let moments: Moments = values.collect();
    let count = moments.count() as f64;
    let half = moments
        .standard_deviation()
        .zip(t_quantile(Confidence::P95, count - 1.0))
        .map_or(f64::INFINITY, |(deviation, t)| t * deviation / count.sqrt());
    (moments.mean().unwrap_or(f64::NAN), half)
}
