//! What `what-if` predicts of runs that are then made.

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use serde_json::{Value, json};
use walwright_bench::{Report, Walwright, on_processors};

/// Median error of a predicted throughput.
const MEDIAN: f64 = 0.15;
/// Predictions whose interval holds what was measured, of all.
const INSIDE: f64 = 0.8;

/// Runs with other clients, other flushes and fewer processors, and what `what-if` predicts of
/// each from some of the others.
///
/// Each run is made on a new embedded server. The runs are made in one order, first to last;
/// nothing is fitted between them.
#[derive(Parser)]
struct Cli {
    /// Workloads.
    #[arg(long, value_delimiter = ',', default_value = "tpcb,events")]
    workloads: Vec<String>,
    /// Seconds measured of each run.
    #[arg(long, default_value_t = 8)]
    seconds: u64,
    /// Keep the runs in this lab.
    #[arg(long, value_name = "DIR")]
    lab: Option<std::path::PathBuf>,
    /// Run nothing: predict the runs of --lab once more.
    #[arg(long, requires = "lab")]
    again: bool,
    /// Figures as JSON on standard output.
    #[arg(long)]
    json: bool,
}

/// What a run differs in.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Condition {
    clients: u32,
    /// A WAL flush at least, in microseconds; `None` as the storage does it.
    flush_us: Option<u32>,
    processors: u32,
}

/// A run that was made.
struct Made {
    condition: Condition,
    label: String,
    rate: f64,
    latency: f64,
    /// One flush as the server timed it.
    flush: Option<f64>,
}

const fn of(clients: u32, flush_us: Option<u32>, processors: u32) -> Condition {
    Condition { clients, flush_us, processors }
}

/// Every dimension alone, and some together.
const CONDITIONS: [Condition; 15] = [
    of(1, None, 2),
    of(4, None, 2),
    of(16, None, 2),
    of(64, None, 2),
    of(128, None, 2),
    of(16, Some(500), 2),
    of(1, Some(1_000), 2),
    of(4, Some(1_000), 2),
    of(16, Some(1_000), 2),
    of(64, Some(1_000), 2),
    of(16, Some(2_000), 2),
    of(16, Some(5_000), 2),
    of(64, Some(5_000), 2),
    of(16, None, 1),
    of(16, Some(2_000), 1),
];

/// Conditions that others are predicted from.
const BASES: [Condition; 3] = [of(16, None, 2), of(4, Some(1_000), 2), of(16, Some(2_000), 2)];

impl Condition {
    fn label(self, workload: &str) -> String {
        let flush = self.flush_us.map_or("native".to_owned(), |us| format!("{us}us"));
        format!("{workload}-{}-{flush}-{}", self.clients, self.processors)
    }

    fn make(self, walwright: &Walwright, workload: &str, seconds: u64) -> anyhow::Result<()> {
        let (label, clients) = (self.label(workload), self.clients.to_string());
        let length = format!("{seconds}s");
        let flush = self.flush_us.map(|us| format!("{us}us"));
        let mut arguments = vec!["-w", workload, "-c", &clients, "--label", &label];
        arguments.extend(["--warmup", "3s", "--duration", &length, "--scale", "10"]);
        if let Some(flush) = &flush {
            arguments.extend(["--flush-latency", flush]);
        }
        eprintln!("{label}");
        on_processors(self.processors as usize, || walwright.json(&arguments)).map(|_| ())
    }
}

impl Made {
    fn read(walwright: &Walwright, condition: Condition, workload: &str) -> anyhow::Result<Made> {
        let label = condition.label(workload);
        let shown = walwright.printed_json(&["runs", "show", &label])?;
        let number = |pointer: &str| shown.pointer(pointer).and_then(Value::as_f64);
        let need = |pointer: &str| number(pointer).with_context(|| format!("{label}: {pointer}"));
        Ok(Made {
            rate: need("/summary/load/throughput/center")?,
            latency: need("/summary/load/latency/mean")?,
            flush: number("/summary/wal/mean_flush"),
            condition,
            label,
        })
    }

    /// What is predicted of another run from this one.
    fn predict(&self, walwright: &Walwright, other: &Made) -> anyhow::Result<Value> {
        let (from, to) = (self.condition, other.condition);
        let mut arguments = vec!["what-if".to_owned(), self.label.clone()];
        let mut ask = |option: &str, value: String| {
            arguments.extend([option.to_owned(), value]);
        };
        ask("--clients", to.clients.to_string());
        if from.processors != to.processors {
            ask("--processors", to.processors.to_string());
        }
        if from.flush_us != to.flush_us {
            // What storage is asked about is what it does by itself.
            let idle = f64::from(to.flush_us.unwrap_or(0)) * 1e-6;
            let seconds = if to.flush_us.is_some() { Some(idle) } else { other.flush };
            let seconds = seconds.context("the server timed no flush")?;
            ask("--flush-latency", format!("{:.0}us", seconds * 1e6));
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut printed = walwright.printed_json(&arguments)?;
        Ok(printed[0].take())
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let mut walwright = Walwright::find()?;
    if let Some(lab) = &cli.lab {
        walwright = walwright.in_lab(lab.clone());
    }
    let mut report = Report::new("what-if against runs: throughput predicted of measured");
    let (mut errors, mut inside) = (Vec::new(), 0);
    for workload in &cli.workloads {
        if !cli.again {
            for condition in CONDITIONS {
                condition.make(&walwright, workload, cli.seconds)?;
            }
        }
        let made = CONDITIONS.map(|condition| Made::read(&walwright, condition, workload));
        let made: Vec<Made> = made.into_iter().collect::<anyhow::Result<_>>()?;
        for base in made.iter().filter(|made| BASES.contains(&made.condition)) {
            for other in made.iter().filter(|other| other.label != base.label) {
                let predicted = base.predict(&walwright, other)?;
                let number = |pointer: &str| predicted.pointer(pointer).and_then(Value::as_f64);
                let rate = number("/throughput/center").context("no throughput predicted")?;
                let latency = number("/latency/center").context("no latency predicted")?;
                let ends =
                    number("/throughput/interval/low").zip(number("/throughput/interval/high"));
                let holds = ends.is_some_and(|(low, high)| low <= other.rate && other.rate <= high);
                let error = rate / other.rate - 1.0;
                errors.push(error.abs());
                inside += usize::from(holds);
                report.figure(
                    &format!("{} from {}", other.label, base.label),
                    format!(
                        "{rate:.0}/s of {:.0}/s ({:+.0} %{}), latency {:.2} ms of {:.2} ms",
                        other.rate,
                        100.0 * error,
                        if holds { "" } else { ", outside" },
                        latency * 1e3,
                        other.latency * 1e3
                    ),
                    json!({ "predicted": rate, "measured": other.rate, "inside": holds }),
                );
            }
        }
    }
    let count = errors.len();
    errors.sort_by(f64::total_cmp);
    let (median, ninth) = (errors[count / 2], errors[count * 9 / 10]);
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    report.bar("median error", percent(median), json!(median), "<= 15 %", median <= MEDIAN);
    report.figure("90th percentile of the error", percent(ninth), json!(ninth));
    let share = inside as f64 / count as f64;
    let shown = format!("{inside} of {count}");
    report.bar("inside their interval", shown, json!(share), ">= 80 %", share >= INSIDE);
    Ok(report.print(cli.json))
}
