//! What the document service can do, with its load generator and its server on the same machine.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Parser;
use serde_json::{Value, json};
use walwright_bench::{Blocks, DocumentService, Measured, Options, Report, Walwright};

/// Requests a second of `walwright documents serve` on an embedded server, asked by walwright's
/// own clients: GET of documents by their ids, and POST of new documents with five references each.
#[derive(Parser)]
struct Cli {
    /// Connections.
    #[arg(long, default_value_t = 50)]
    clients: u32,
    /// Sessions of the service with its server.
    #[arg(long, default_value_t = 10)]
    pool_size: u16,
    #[command(flatten)]
    options: Options,
}

/// Requests, and how many a second there must be.
struct Asked {
    name: &'static str,
    requests: &'static str,
    bar: Option<f64>,
}

/// Any of the 10,000 documents of a scale. Their ids are in the order of time, so the number of a
/// document is its id.
const GET: Asked = Asked {
    name: "GET by id",
    requests: "\
\\set number random(1, 10000 * :scale)
\\set resource :number % 8
\\uuid id :number
GET /data/resource-:resource/:id
",
    bar: Some(12_000.0),
};

/// An identity of 2^40 is new, most likely.
const POST: Asked = Asked {
    name: "POST, new, five references",
    requests: "\
\\set identity random(1000000000, 1000000000000)
\\set first random(1, 4000 * :scale)
POST /data/resource-1
Content-Type: application/json

{\"identity\": :identity, \"references\": [{{:first}}, {{:first + 1}}, {{:first + 2}}, {{:first + 3}}, {{:first + 4}}], \"body\": {\"name\": \"document :identity\", \"note\": \"{{letters(400)}}\"}}
",
    bar: Some(2_000.0),
};

/// Of few documents, each referring to what it referred to.
const POST_AGAIN: Asked = Asked {
    name: "POST, again, five references",
    requests: "\
\\set resource random(0, 7)
\\set identity 500000000 + 8 * random(1, 1000) + :resource
\\set first 1 + (hash(:identity) & 2047)
POST /data/resource-:resource
Content-Type: application/json

{\"identity\": :identity, \"references\": [{{:first}}, {{:first + 1}}, {{:first + 2}}, {{:first + 3}}, {{:first + 4}}], \"body\": {\"name\": \"document :identity\", \"note\": \"{{letters(400)}}\"}}
",
    bar: None,
};

fn main() -> anyhow::Result<ExitCode> {
    let Cli { clients, pool_size, options } = Cli::parse();
    let walwright = Walwright::find()?;
    let (scale, pool) = (options.scale.to_string(), pool_size.to_string());
    let service = DocumentService::start(&walwright, &["--scale", &scale, "--pool-size", &pool])?;
    let directory = tempfile::tempdir()?;
    let mut report = Report::new(&format!(
        "walwright documents serve, {clients} connections, a pool of {pool_size}, {} blocks of {} s",
        options.blocks, options.seconds
    ));
    let all = [GET, POST, POST_AGAIN];
    let files: Vec<_> =
        (0..all.len()).map(|n| directory.path().join(format!("{n}.http"))).collect();
    let mut blocks = Blocks::new();
    for (asked, file) in all.iter().zip(&files) {
        std::fs::write(file, asked.requests)?;
        blocks.add(asked.name, || {
            ask(&service, &walwright, file, options.scale, clients, options.length())
        });
    }
    blocks.run(options.blocks)?;
    for (contender, Asked { name, bar, .. }) in all.iter().enumerate() {
        let rate = blocks.mean(contender, |m| m.throughput).context("no block was run")?;
        let (low, high) = (rate.low(), rate.high());
        let shown = match low.zip(high) {
            Some((low, high)) => format!("{:.0}/s ({low:.0} to {high:.0})", rate.center),
            None => format!("{:.0}/s", rate.center),
        };
        let value = json!({ "rate": rate.center, "low": low, "high": high });
        match bar {
            Some(bar) => {
                report.bar(name, shown, value, &format!(">= {bar:.0}/s"), rate.center >= *bar);
            }
            None => report.figure(name, shown, value),
        }
    }
    Ok(report.print(options.json))
}

fn ask(
    service: &DocumentService,
    walwright: &Walwright,
    requests: &Path,
    scale: u32,
    clients: u32,
    length: Duration,
) -> anyhow::Result<Measured> {
    let server = format!("http://{}", service.address());
    let (clients, length) = (clients.to_string(), format!("{}s", length.as_secs()));
    let (requests, scale) =
        (requests.to_str().context("a path of letters")?, format!("scale={scale}"));
    let what = ["--http", &server, "--requests", requests, "-D", &scale];
    let (value, _) = walwright
        .json(&[&what[..], &["-c", &clients, "-T", &length, "--warmup", "1s"]].concat())?;
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
