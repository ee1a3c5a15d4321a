//! Whether experiments find effects that are known to be there.

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use serde_json::{Value, json};
use walwright_bench::{Report, Walwright};

/// Experiments with effects everybody knows: commits that do not wait for their flush, an
/// index that nobody needs, a WAL that forces checkpoints. Each is found, and its interval
/// covers the effect that a longer experiment measured.
#[derive(Parser)]
struct Cli {
    /// Effects by a part of their name. The default is all.
    only: Vec<String>,
    /// Blocks of the experiment.
    #[arg(long, default_value_t = 8)]
    blocks: usize,
    /// Blocks of the reference.
    #[arg(long, default_value_t = 20)]
    reference_blocks: usize,
    /// Seconds measured of each run.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Figures as JSON on standard output.
    #[arg(long)]
    json: bool,
}

/// An effect and the plan that shows it.
struct Known {
    name: &'static str,
    /// Workload, load and arm. `{seconds}` is the length of a window.
    plan: &'static str,
    /// Whether throughput rises.
    rises: bool,
}

const KNOWN: [Known; 3] = [
    Known {
        name: "synchronous_commit = off",
        plan: "consent = [\"synchronous_commit\"]\n\
               [workload]\nname = \"simple-update\"\nscale = 10\n\
               [load]\nclients = 4\nduration = \"{seconds}s\"\nwarmup = \"3s\"\n\
               [server]\nflush_latency = \"1ms\"\n\
               [[arm]]\nname = \"asynchronous\"\nsettings = { synchronous_commit = \"off\" }\n",
        rises: true,
    },
    Known {
        name: "dropped index",
        plan: "[workload]\nname = \"simple-update\"\nscale = 10\n\
               [load]\nclients = 8\nduration = \"{seconds}s\"\nwarmup = \"3s\"\n\
               [server]\nddl = [\"CREATE INDEX extra_a ON pgbench_accounts (abalance)\", \
               \"CREATE INDEX extra_b ON pgbench_accounts (abalance, filler)\"]\n\
               [[arm]]\nname = \"no extra indexes\"\nddl = [\"DROP INDEX extra_a\", \"DROP INDEX extra_b\"]\n",
        rises: true,
    },
    Known {
        name: "max_wal_size = 64MB",
        // Few enough pages, and warm-up enough, that the large WAL has its page images of
        // them behind it: until then both sides write one with nearly every update.
        plan: "[workload]\nname = \"simple-update\"\nscale = 10\n\
               [load]\nclients = 8\nduration = \"{seconds}s\"\nwarmup = \"8s\"\n\
               [server]\nsettings = { max_wal_size = \"8GB\", min_wal_size = \"1GB\" }\n\
               [[arm]]\nname = \"64MB\"\nsettings = { max_wal_size = \"64MB\", min_wal_size = \"64MB\" }\n",
        rises: false,
    },
];

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let walwright = Walwright::find()?;
    let mut report = Report::new("known effects: found, and covered by their intervals");
    for known in &KNOWN {
        if !cli.only.is_empty() && !cli.only.iter().any(|part| known.name.contains(part.as_str())) {
            continue;
        }
        let seen = effect(&walwright, known, cli.blocks, cli.seconds, 1)?;
        let reference = effect(&walwright, known, cli.reference_blocks, cli.seconds, 2)?;
        tell(&mut report, known, &seen, &reference);
    }
    Ok(report.print(cli.json))
}

/// An effect as an experiment measured it.
struct Seen {
    center: f64,
    low: f64,
    high: f64,
    verdict: String,
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:+.1} % ({:+.1} to {:+.1} %)",
            self.center * 100.0,
            self.low * 100.0,
            self.high * 100.0
        )
    }
}

fn effect(
    walwright: &Walwright,
    known: &Known,
    blocks: usize,
    seconds: u64,
    seed: u64,
) -> anyhow::Result<Seen> {
    let directory = tempfile::tempdir()?;
    let plan = directory.path().join("plan.toml");
    let body = known.plan.replace("{seconds}", &seconds.to_string());
    let head = format!("name = \"{}\"\nblocks = {blocks}\nseed = {seed}\n", known.name);
    std::fs::write(&plan, format!("{head}{body}"))?;
    let plan = plan.display().to_string();
    let outcome = walwright.printed_json(&["experiment", "--quiet", &plan])?;
    let arm = outcome.pointer("/judged/arms/0").context("an outcome without arms")?;
    let number = |pointer: &str| {
        arm.pointer(pointer)
            .and_then(Value::as_f64)
            .with_context(|| format!("{}: no number at {pointer}:\n{arm:#}", known.name))
    };
    let seen = Seen {
        center: number("/effect/change/center")?,
        low: number("/effect/change/interval/low")?,
        high: number("/effect/change/interval/high")?,
        verdict: arm["verdict"].as_str().unwrap_or("none").to_owned(),
    };
    eprintln!("{}: {blocks} blocks: {seen}, {}", known.name, seen.verdict);
    Ok(seen)
}

fn tell(report: &mut Report, known: &Known, seen: &Seen, reference: &Seen) {
    let value = |of: &Seen| json!({ "change": of.center, "low": of.low, "high": of.high, "verdict": of.verdict });
    let found = seen.verdict == "proven" && (seen.center > 0.0) == known.rises;
    report.bar(
        &format!("{}: found", known.name),
        format!("{seen}, {}", seen.verdict),
        value(seen),
        "proven",
        found,
    );
    let covers = seen.low <= reference.center && reference.center <= seen.high;
    report.bar(
        &format!("{}: reference covered", known.name),
        reference.to_string(),
        value(reference),
        "inside the interval",
        covers,
    );
}
