//! How often an experiment claims an effect where there is none.

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use walwright_bench::{Report, Walwright};
use walwright_figures::compare::{Better, FigureUnit};
use walwright_figures::experiment::{Arm, Judged, Look, Looks, MetricKind, blocks_to_prove, judge};
use walwright_stats::{Confidence, Verdict};

/// Null experiments: every arm is the baseline once more. Simulated ones go through the same
/// judging as real ones, with blocks that differ, noise of 5 % that has tails, and a
/// drift; real ones change a setting that does nothing.
#[derive(Parser)]
struct Cli {
    /// Simulated experiments of each kind.
    #[arg(long, default_value_t = 1_000)]
    simulated: u64,
    /// Real experiments: `walwright experiment` with an arm that changes nothing that matters.
    #[arg(long, default_value_t = 0)]
    real: u64,
    /// Blocks of the real ones.
    #[arg(long, default_value_t = 6)]
    blocks: usize,
    /// Seconds measured of each of their runs.
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// Figures as JSON on standard output.
    #[arg(long)]
    json: bool,
}

/// Null experiments that may claim an effect.
const FALSE_CLAIMS: f64 = 0.05;
/// Noise of a run: the standard deviation of its logarithm.
const NOISE: f64 = 0.05;
/// How far blocks differ from each other.
const BLOCKS: f64 = 0.1;
/// Slow drift from the first run to the last.
const DRIFT: f64 = 0.2;

/// What one experiment claimed of any of its arms.
#[derive(Clone, Copy, PartialEq)]
enum Claim {
    None,
    Screened,
    Proven,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let mut report = Report::new("null experiments: effects claimed where there is none");
    for (blocks, arms) in [(3, 1), (4, 6), (6, 1), (8, 4), (12, 8)] {
        let claims: Vec<Claim> =
            (0..cli.simulated).map(|seed| at_end(seed, blocks, arms)).collect();
        tell(&mut report, &format!("simulated, {blocks} blocks, {arms} arms"), &claims);
    }
    for (blocks, arms) in [(16, 1), (20, 4)] {
        let claims: Vec<Claim> =
            (0..cli.simulated).map(|seed| with_looks(seed, blocks, arms)).collect();
        let name = format!("simulated, up to {blocks} blocks with looks, {arms} arms");
        tell(&mut report, &name, &claims);
    }
    if cli.real > 0 {
        let walwright = Walwright::find()?;
        let claims = (0..cli.real)
            .map(|number| real(&walwright, &cli, number))
            .collect::<anyhow::Result<Vec<Claim>>>()?;
        tell(&mut report, &format!("real, {} blocks of {} s", cli.blocks, cli.seconds), &claims);
    }
    Ok(report.print(cli.json))
}

fn tell(report: &mut Report, name: &str, claims: &[Claim]) {
    let all = claims.len() as f64;
    let share = |of: &dyn Fn(Claim) -> bool| claims.iter().filter(|c| of(**c)).count() as f64 / all;
    let (any, proven) = (share(&|c| c != Claim::None), share(&|c| c == Claim::Proven));
    // Few experiments may exceed the bar by chance: by two standard errors of the share.
    let slack = 2.0 * (FALSE_CLAIMS * (1.0 - FALSE_CLAIMS) / all).sqrt();
    report.bar(
        name,
        format!("{:.1} % of {} claimed, {:.1} % proven", any * 100.0, claims.len(), proven * 100.0),
        json!({ "experiments": claims.len(), "claimed": any, "proven": proven }),
        "<= 5 %",
        any <= FALSE_CLAIMS + slack,
    );
}

/// Values of the baseline, its repeat and the arms in every block.
struct Simulated {
    baseline: Vec<Option<f64>>,
    again: Vec<Option<f64>>,
    arms: Vec<Arm>,
}

impl Simulated {
    fn new(seed: u64, blocks: usize, arms: usize) -> Simulated {
        let mut rng = StdRng::seed_from_u64(seed);
        let places = arms + 2;
        let mut values = vec![Vec::with_capacity(blocks); places];
        for block in 0..blocks {
            let level = BLOCKS * normal(&mut rng);
            // In random order a drift falls on each place alike.
            let mut order: Vec<usize> = (0..places).collect();
            for last in (1..places).rev() {
                order.swap(last, rng.random_range(0..=last));
            }
            for (turn, place) in order.into_iter().enumerate() {
                let time = (block * places + turn) as f64 / (blocks * places) as f64;
                let noise = NOISE * tailed(&mut rng);
                values[place].push(Some(5_000.0 * (level + DRIFT * time + noise).exp()));
            }
        }
        let mut values = values.into_iter();
        let mut next = || values.next().unwrap_or_default();
        let (baseline, again) = (next(), next());
        let arms =
            (0..arms).map(|arm| Arm { name: format!("arm {arm}"), values: next() }).collect();
        Simulated { baseline, again, arms }
    }

    fn judged(&self, blocks: usize, confidence: Confidence) -> Judged {
        let arms: Vec<Arm> = self
            .arms
            .iter()
            .map(|arm| Arm { name: arm.name.clone(), values: arm.values[..blocks].to_vec() })
            .collect();
        let throughput = MetricKind {
            key: "throughput".to_owned(),
            name: "throughput".to_owned(),
            unit: FigureUnit::PerSecond,
            better: Better::Higher,
            expression: None,
        };
        let (base, again) = (&self.baseline[..blocks], &self.again[..blocks]);
        judge(throughput, base, again, &arms, confidence, 1)
    }
}

fn at_end(seed: u64, blocks: usize, arms: usize) -> Claim {
    claim(&Simulated::new(seed, blocks, arms).judged(blocks, Confidence::P95))
}

/// Ends at the first look that is clear, as `--stop-when-clear` does.
fn with_looks(seed: u64, blocks: usize, arms: usize) -> Claim {
    let simulated = Simulated::new(seed, blocks, arms);
    let looks = Looks::spending(blocks, arms, Confidence::P95);
    let mut last = Claim::None;
    for after in &looks.after {
        let judged = simulated.judged(*after, looks.confidence);
        last = claim(&judged);
        if looks.look(*after, &judged, 0.02) != Some(Look::Open) {
            break;
        }
    }
    last
}

fn claim(judged: &Judged) -> Claim {
    let has = |verdict| judged.arms.iter().any(|arm| arm.verdict == Some(verdict));
    match (has(Verdict::Proven), has(Verdict::Screened)) {
        (true, _) => Claim::Proven,
        (false, true) => Claim::Screened,
        _ => Claim::None,
    }
}

/// A standard normal deviate, by Box and Muller.
fn normal(rng: &mut StdRng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (std::f64::consts::TAU * rng.random::<f64>()).cos()
}

/// Noise as runs have it: mostly small, one in ten three times as wide and downwards.
fn tailed(rng: &mut StdRng) -> f64 {
    match rng.random::<f64>() {
        share if share < 0.1 => -3.0 * normal(rng).abs(),
        _ => normal(rng),
    }
}

/// One real experiment whose arm sets a name that nothing reads.
fn real(walwright: &Walwright, cli: &Cli, number: u64) -> anyhow::Result<Claim> {
    let directory = tempfile::tempdir()?;
    let plan = directory.path().join("plan.toml");
    let (blocks, seconds) = (cli.blocks.max(blocks_to_prove(1, Confidence::P95)), cli.seconds);
    std::fs::write(
        &plan,
        format!(
            "name = \"null {number}\"\nblocks = {blocks}\nseed = {number}\n\
             [workload]\nscale = 10\n[load]\nclients = 8\nduration = \"{seconds}s\"\nwarmup = \"2s\"\n\
             [[arm]]\nname = \"the same\"\nsettings = {{ cluster_name = \"null{number}\" }}\n"
        ),
    )?;
    let plan = plan.display().to_string();
    let outcome = walwright.printed_json(&["experiment", "--quiet", &plan])?;
    let arm = outcome.pointer("/judged/arms/0").context("an outcome without arms")?;
    let center = arm.pointer("/effect/change/center").and_then(Value::as_f64).unwrap_or(f64::NAN);
    eprintln!("null {number}: {:+.1} %, {}", center * 100.0, arm["verdict"]);
    Ok(match arm["verdict"].as_str() {
        Some("proven") => Claim::Proven,
        Some("screened") => Claim::Screened,
        _ => Claim::None,
    })
}
