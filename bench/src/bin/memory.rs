//! Whether the tool's memory stays small: many clients, long runs.

use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::bail;
use clap::Parser;
use serde_json::json;
use walwright_bench::{Report, Walwright, resident_bytes};

/// Resident memory of walwright over a run of its own, embedded server and probe
/// included: peak, and growth from the first half of the load to the second.
#[derive(Parser)]
struct Cli {
    /// Client connections.
    #[arg(long, default_value_t = 2000)]
    clients: u32,
    /// Length of the measured window.
    #[arg(long, default_value = "10m")]
    duration: String,
    /// Scale of the tables.
    #[arg(long, default_value_t = 10)]
    scale: u32,
    /// Figures as JSON on standard output.
    #[arg(long)]
    json: bool,
}

/// Peak resident memory that is promised.
const PEAK: f64 = 150e6;
/// Growth between the halves of the load that still counts as flat.
const GROWTH: f64 = 0.10;

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let walwright = Walwright::find()?;
    let mut command = walwright.command();
    command.args(["--json", "run", "--plain", "--warmup", "5s", "--duration", &cli.duration]);
    command.args(["--clients", &cli.clients.to_string(), "--scale", &cli.scale.to_string()]);
    let samples = watch(&mut command)?;

    let peak = samples.iter().map(|s| s.1).fold(0.0, f64::max);
    let load = under_load(&samples);
    let (first, second) = load.split_at(load.len() / 2);
    let highest = |part: &[(f64, f64)]| part.iter().map(|s| s.1).fold(0.0, f64::max);
    let growth = highest(second) / highest(first) - 1.0;
    let mut report = Report::new(&format!(
        "walwright run --clients {} --duration {} --scale {}, resident memory of walwright",
        cli.clients, cli.duration, cli.scale
    ));
    report.bar(
        "peak over the whole run",
        format!("{:.0} MB", peak / 1e6),
        json!(peak),
        "< 150 MB",
        peak < PEAK,
    );
    report.bar(
        "growth, second half of the load over the first",
        format!("{:.1} %", growth * 100.0),
        json!(growth),
        "flat: < 10 %",
        growth < GROWTH,
    );
    Ok(report.print(cli.json))
}

/// Runs the command, passing on what it says; (seconds, bytes) each second.
fn watch(command: &mut Command) -> anyhow::Result<Vec<(f64, f64)>> {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::inherit()).spawn()?;
    let begun = std::time::Instant::now();
    let mut samples = Vec::new();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if let Ok(bytes) = resident_bytes(child.id()) {
            samples.push((begun.elapsed().as_secs_f64(), bytes));
        }
        std::thread::sleep(Duration::from_secs(1));
    };
    if !status.success() {
        bail!("the run ended with {status}");
    }
    if samples.len() < 10 {
        bail!("the run was too short to judge");
    }
    Ok(samples)
}

/// Leaves out the first fifth (load of the data, connecting) and the last seconds
/// (summary and report).
fn under_load(samples: &[(f64, f64)]) -> &[(f64, f64)] {
    let end = samples.len() - (samples.len() / 10).min(10);
    &samples[samples.len() / 5..end]
}
