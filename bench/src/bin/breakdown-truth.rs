//! Whether the latency breakdown gives back shares that are known beforehand.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use serde_json::{Value, json};
use walwright_bench::{Report, Walwright};

/// Transactions made of parts whose length is known (computing, sleeping, thinking, a lock)
/// at one to many sessions a processor: the latency breakdown must name each part's share of
/// the latency within three points.
///
/// Each part is timed alone first, computing also beside another on the second processor;
/// what a transaction takes beyond its parts and its round trips it waited for a processor or
/// for the lock.
#[derive(Parser)]
struct Cli {
    /// Loads by a part of their name. The default is all.
    only: Vec<String>,
    /// Seconds measured of each run.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Milliseconds of each part. pg_sleep takes the next whole one: a half is safe from rounding.
    #[arg(long, default_value_t = 8.5)]
    part: f64,
    /// Figures as JSON on standard output.
    #[arg(long)]
    json: bool,
}

/// Points of a share that a line may be off.
const POINTS: f64 = 0.03;
/// Rounds of the loop that are timed first.
const ROUNDS: f64 = 100_000.0;

const SCHEMA: &str = "
CREATE FUNCTION spin(rounds int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE n bigint := 0;
BEGIN
    FOR i IN 1..rounds LOOP n := n + i; END LOOP;
END $$;
";

/// A transaction of known parts.
struct Load {
    name: &'static str,
    script: &'static str,
    /// Lines of the breakdown that the sleep belongs to; none where there is no sleep.
    sleep: Option<&'static str>,
    /// Whether it computes.
    spins: bool,
    /// The line of what is left.
    rest: &'static str,
    sessions: &'static [u32],
}

const LOADS: [Load; 5] = [
    Load {
        name: "compute and sleep",
        script: "BEGIN;\nSELECT spin(:rounds);\nSELECT pg_sleep(:seconds);\nEND;\n",
        sleep: Some("other"),
        spins: true,
        rest: "run_queue",
        sessions: &[1, 2, 4, 16],
    },
    Load {
        name: "compute and think",
        script: "BEGIN;\nSELECT spin(:rounds);\n\\sleep :us us\nEND;\n",
        sleep: Some("client"),
        spins: true,
        rest: "run_queue",
        sessions: &[1, 2, 4, 16],
    },
    Load {
        name: "compute",
        script: "BEGIN;\nSELECT spin(:rounds);\nEND;\n",
        sleep: None,
        spins: true,
        rest: "run_queue",
        sessions: &[1, 4, 16],
    },
    Load {
        name: "sleep under a lock",
        script: "BEGIN;\nSELECT pg_advisory_xact_lock(1);\nSELECT pg_sleep(:seconds);\nEND;\n",
        sleep: Some("other"),
        spins: false,
        rest: "lock",
        sessions: &[1, 2, 8],
    },
    Load {
        name: "compute under a lock",
        script: "BEGIN;\nSELECT pg_advisory_xact_lock(1);\nSELECT spin(:rounds);\nEND;\n",
        sleep: None,
        spins: true,
        rest: "lock",
        sessions: &[2, 8],
    },
];

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let walwright = Walwright::find()?;
    let bench = Bench { walwright: &walwright, cli: &cli };
    let empty = bench.lasts("BEGIN;\nSELECT 1;\nEND;\n", 1, 0.0)?;
    let first = bench.lasts(SPIN, 1, ROUNDS)? - empty;
    let rounds = (ROUNDS * cli.part * 1e-3 / first).round();
    let slept = bench.lasts("BEGIN;\nSELECT pg_sleep(:seconds);\nEND;\n", 1, 0.0)? - empty;
    let thought = bench.lasts("BEGIN;\n\\sleep :us us\nEND;\n", 1, 0.0)? - empty;
    let mut report = Report::new("latency breakdown: known shares, within three points");
    for load in &LOADS {
        if !cli.only.is_empty() && !cli.only.iter().any(|part| load.name.contains(part.as_str())) {
            continue;
        }
        // The speed of a shared machine drifts: each load is calibrated beside its runs.
        let alone = bench.lasts(SPIN, 1, rounds)? - empty;
        let beside = bench.lasts(SPIN, 2, rounds)? - empty;
        let sleep = match load.sleep {
            Some("client") => thought,
            Some(_) => slept,
            None => 0.0,
        };
        for sessions in load.sessions {
            // With one session, or a lock, one loop runs at a time.
            let lone = *sessions == 1 || load.rest == "lock";
            let spin = [alone, if lone { alone } else { beside }];
            let known = Known { rounds, empty, spin, sleep };
            bench.judge(&mut report, load, *sessions, &known)?;
        }
    }
    Ok(report.print(cli.json))
}

/// A transaction that computes alone.
const SPIN: &str = "BEGIN;\nSELECT spin(:rounds);\nEND;\n";

/// What is known of a transaction: the rounds of its loop, and seconds.
struct Known {
    rounds: f64,
    /// Its round trips.
    empty: f64,
    /// Computing: at least, at most.
    spin: [f64; 2],
    /// Sleeping or thinking.
    sleep: f64,
}

struct Bench<'a> {
    walwright: &'a Walwright,
    cli: &'a Cli,
}

impl Bench<'_> {
    /// Mean seconds of a transaction.
    fn lasts(&self, script: &str, sessions: u32, rounds: f64) -> anyhow::Result<f64> {
        latency(&self.run(script, sessions, rounds)?)
    }

    fn judge(
        &self,
        report: &mut Report,
        load: &Load,
        sessions: u32,
        known: &Known,
    ) -> anyhow::Result<()> {
        let summary = self.run(load.script, sessions, known.rounds)?;
        let latency = latency(&summary)?;
        let number = |pointer: &str| summary.pointer(pointer).and_then(Value::as_f64);
        let share = |class: &str| -> f64 {
            let parts = summary.pointer("/time/parts").and_then(Value::as_array);
            let part = parts.into_iter().flatten().find(|part| part["class"] == class);
            let of_part = part.and_then(|part| part.pointer("/share/center")?.as_f64());
            // The driver's timer waits for a processor too.
            let late = number("/time/driver/run_delay").filter(|_| class == "run_queue");
            of_part.unwrap_or(0.0) + late.unwrap_or(0.0) / latency
        };
        let sleep = known.sleep / latency;
        let spin = if load.spins { known.spin.map(|s| s / latency) } else { [0.0; 2] };
        let most = 1.0 - (known.empty / latency) - sleep;
        let rest = [most - spin[1], most - spin[0]];
        let lines = [
            load.spins.then_some(("cpu", spin)),
            load.sleep.map(|class| (class, [sleep; 2])),
            Some((load.rest, rest)),
        ];
        for (class, truth) in lines.into_iter().flatten() {
            let found = share(class);
            let [low, high] = truth.map(|t| t.max(0.0));
            let off = (low - found).max(found - high).max(0.0);
            report.bar(
                &format!("{}, {sessions} sessions: {class}", load.name),
                format!("{:.1} %", found * 100.0),
                json!({ "found": found, "low": low, "high": high }),
                &format!("{:.1} to {:.1} %, ± 3", low * 100.0, high * 100.0),
                off <= POINTS,
            );
        }
        Ok(())
    }

    /// The summary of a run of a script.
    fn run(&self, script: &str, sessions: u32, rounds: f64) -> anyhow::Result<Value> {
        let directory = tempfile::tempdir()?;
        let script = script
            .replace(":rounds", &rounds.to_string())
            .replace(":seconds", &format!("{}", self.cli.part * 1e-3))
            .replace(":us", &format!("{:.0}", self.cli.part * 1e3));
        write(directory.path(), &script)?;
        let (workload, sessions) = (directory.path().display().to_string(), sessions.to_string());
        let seconds = format!("{}s", self.cli.seconds);
        let arguments =
            ["-w", &workload, "-c", &sessions, "--warmup", "2s", "--duration", &seconds];
        let (printed, _) = self.walwright.json(&arguments)?;
        let summary = &printed["summary"];
        if !summary["time"]["sampled_because"].is_null() {
            eprintln!("by samples alone: {}", summary["time"]["sampled_because"]);
        }
        Ok(summary.clone())
    }
}

/// Mean latency in seconds.
fn latency(summary: &Value) -> anyhow::Result<f64> {
    summary.pointer("/time/latency").and_then(Value::as_f64).context("no latency in the summary")
}

/// Writes a workload directory.
fn write(directory: &Path, script: &str) -> anyhow::Result<()> {
    let manifest = "name = \"parts\"\ntitle = \"parts of known length\"\n\n\
                    [sql]\nbefore_load = [\"schema.sql\"]\n\n[[script]]\nfile = \"script.sql\"\n";
    std::fs::write(directory.join("workload.toml"), manifest)?;
    std::fs::write(directory.join("schema.sql"), SCHEMA)?;
    std::fs::write(directory.join("script.sql"), script)?;
    Ok(())
}
