//! How long it takes from the command to the first measured transaction.

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use serde_json::{Value, json};
use walwright_bench::{Options, Report, Walwright, run_measured};

/// Time from `walwright run` to its first measured transaction, with the binaries
/// cached: cluster, data, probes, connecting and warm-up.
#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

fn main() -> anyhow::Result<ExitCode> {
    let Cli { options } = Cli::parse();
    let walwright = Walwright::find()?;
    run_measured(walwright.command().args(["pg", "install", "18"]))?;
    let (scale, length) = (options.scale.to_string(), format!("{}s", options.seconds));
    let mut seconds = Vec::new();
    let mut phases = Value::Null;
    for _ in 0..options.blocks {
        let (value, _) = walwright.json(&["--scale", &scale, "--duration", &length])?;
        let (printed, _) = run_measured(walwright.command().args(["export", "latest"]))?;
        let run: Value = serde_json::from_str(&printed)?;
        let started = value["run"]["started"].as_i64().context("the run has a start")?;
        phases = run["phases"].clone();
        let measure = phases
            .as_array()
            .and_then(|all| all.iter().find(|phase| phase["name"] == "measure"))
            .and_then(|phase| phase["start"].as_i64())
            .context("the run has a measured window")?;
        let took = (measure - started) as f64 / 1e6;
        eprintln!("{took:.2} s");
        seconds.push(took);
    }
    seconds.sort_by(f64::total_cmp);
    let median = seconds[seconds.len() / 2];
    let mut report = Report::new(&format!(
        "walwright run --scale {}, embedded PostgreSQL 18, binaries cached",
        options.scale
    ));
    for pair in phases.as_array().into_iter().flatten() {
        let (start, end) = (pair["start"].as_i64(), pair["end"].as_i64());
        if let (Some(name), Some(start), Some(end)) = (pair["name"].as_str(), start, end) {
            let took = (end - start) as f64 / 1e6;
            report.figure(&format!("phase {name} (last run)"), format!("{took:.2} s"), json!(took));
        }
    }
    report.bar(
        "to the first measured transaction",
        format!("median {median:.1} s of {} runs", seconds.len()),
        json!({ "median": median, "runs": seconds }),
        "< 15 s",
        median < 15.0,
    );
    Ok(report.print(options.json))
}
