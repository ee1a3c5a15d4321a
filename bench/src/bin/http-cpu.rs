//! CPU of the load generator a request of HTTP, against oha's.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Parser;
use serde_json::{Value, json};
use walwright_bench::{
    Blocks, DocumentService, Measured, Options, Report, Walwright, run_measured,
};

/// CPU of the load generator a request to `walwright documents serve`, against oha's: GET of a
/// document, and POST of one that is there.
#[derive(Parser)]
struct Cli {
    /// Connections.
    #[arg(long, default_value_t = 50)]
    clients: u32,
    /// The program (`cargo install oha`).
    #[arg(long, default_value = "oha")]
    oha: PathBuf,
    #[command(flatten)]
    options: Options,
}

/// What is asked: a method, a path and a body.
struct Asked {
    method: &'static str,
    path: String,
    body: &'static str,
}

const DOCUMENT: &str =
    r#"{"identity": 1000001, "references": [], "body": {"name": "a document", "size": 7}}"#;

fn main() -> anyhow::Result<ExitCode> {
    let Cli { clients, oha, options } = Cli::parse();
    let walwright = Walwright::find()?;
    let service = DocumentService::start(
        &walwright,
        &["--scale", "1", "--pool-size", "10", "--set", "synchronous_commit=off"],
    )?;
    let posted = service.ask("POST", "/data/resource-0", DOCUMENT)?;
    let line = posted.lines().find_map(|line| line.strip_prefix("location: "));
    let path = line.context("the service gave no address")?.trim().to_owned();
    let get = Asked { method: "GET", path, body: "" };
    let post = Asked { method: "POST", path: "/data/resource-0".to_owned(), body: DOCUMENT };
    let directory = tempfile::tempdir()?;

    let mut report = Report::new(&format!(
        "walwright documents serve, {clients} connections, {} blocks of {} s",
        options.blocks, options.seconds
    ));
    for asked in [get, post] {
        let method = asked.method;
        let file = directory.path().join(format!("{method}.http"));
        let Asked { path, body, .. } = &asked;
        std::fs::write(
            &file,
            format!("{method} {path}\nContent-Type: application/json\n\n{body}\n"),
        )?;
        let mut blocks = Blocks::new();
        let ours = blocks.add(&format!("{method}, walwright"), || {
            by_walwright(&service, &walwright, &file, clients, options.length())
        });
        let theirs = blocks.add(&format!("{method}, oha"), || {
            by_oha(&service, &oha, &asked, clients, options.length())
        });
        blocks.run(options.blocks)?;
        for contender in [ours, theirs] {
            let us = blocks.median(contender, |m| m.cpu_us);
            let rate = blocks.median(contender, |m| m.throughput);
            report.figure(
                blocks.name(contender),
                format!("{us:.1} us of CPU a request, {rate:.0}/s (medians)"),
                json!({ "cpu_us": us, "throughput": rate }),
            );
        }
        let ratio = blocks.ratio(ours, theirs, |m| m.cpu_us)?;
        report.bar(
            &format!("CPU a request, walwright / oha, {method}"),
            ratio.to_string(),
            ratio.json(),
            "<= 0.7",
            ratio.center <= 0.7,
        );
    }
    Ok(report.print(options.json))
}

fn by_walwright(
    service: &DocumentService,
    walwright: &Walwright,
    requests: &Path,
    clients: u32,
    length: Duration,
) -> anyhow::Result<Measured> {
    let (server, clients) = (format!("http://{}", service.address()), clients.to_string());
    let requests = requests.to_str().context("a path of letters")?;
    let length = format!("{}s", length.as_secs());
    let (value, _) = walwright.json(&[
        "--http",
        &server,
        "--requests",
        requests,
        "-c",
        &clients,
        "-T",
        &length,
        "--warmup",
        "1s",
    ])?;
    let summary = &value["summary"];
    ensure!(summary["load"]["failed"] == 0, "requests failed: {summary:#}");
    let number = |pointer: &str| {
        let found = summary.pointer(pointer).and_then(Value::as_f64);
        found.with_context(|| format!("no number at {pointer}:\n{summary:#}"))
    };
    Ok(Measured {
        throughput: number("/load/throughput/center")?,
        cpu_us: number("/cpu/driver_per_transaction")? * 1e6,
        latency: None,
    })
}

/// CPU is that of the whole program, nearly all of which is its load.
fn by_oha(
    service: &DocumentService,
    oha: &Path,
    asked: &Asked,
    clients: u32,
    length: Duration,
) -> anyhow::Result<Measured> {
    let mut command = Command::new(oha);
    command.args(["--no-tui", "--output-format", "json", "-w"]);
    command.args(["-c", &clients.to_string(), "-z", &format!("{}s", length.as_secs())]);
    command.args(["-m", asked.method, "-T", "application/json"]);
    if !asked.body.is_empty() {
        command.args(["-d", asked.body]);
    }
    command.arg(format!("http://{}{}", service.address(), asked.path));
    let (printed, usage) = run_measured(&mut command)?;
    let value: Value = serde_json::from_str(&printed).context("oha printed no JSON")?;
    let statuses = value["statusCodeDistribution"].as_object().context("no statuses")?;
    ensure!(statuses.keys().all(|of| of.starts_with('2')), "requests failed: {statuses:?}");
    let requests: u64 = statuses.values().filter_map(Value::as_u64).sum();
    Ok(Measured {
        throughput: value["summary"]["requestsPerSec"].as_f64().context("no rate")?,
        cpu_us: usage.cpu.as_secs_f64() * 1e6 / requests.max(1) as f64,
        latency: None,
    })
}
