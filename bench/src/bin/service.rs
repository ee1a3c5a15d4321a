//! What the document service can do, with its load generator and its server on the same machine.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::Parser;
use serde_json::{Value, json};
use walwright_bench::{Blocks, DocumentService, Measured, Options, Report, Walwright, local_dsn};
use walwright_server::{Cluster, ClusterSpec, Installs, Major, Places, sweep};
use walwright_stats::mean;

/// Requests a second of `walwright documents serve`, asked by walwright's own clients: GET of
/// documents by their ids, and POST of new documents with five references each. Then whether the
/// latency of posts closes: from one, eight and as many connections, what share of it no line
/// names, or lines name twice.
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
\\set resource case when :number % 20 < 8 then 0 when :number % 20 < 13 then 1 when :number % 20 < 15 then 2 else :number % 20 - 12 end
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

/// Share of a latency that may be in no line, or in two.
const OPEN: f64 = 0.05;

fn main() -> anyhow::Result<ExitCode> {
    let Cli { clients, pool_size, options } = Cli::parse();
    let walwright = Walwright::find()?;
    let places = Places::open(None)?;
    sweep(&places)?;
    let install = Installs::within(places.clone()).ensure(Major::V18, &mut |_| {})?;
    let server = Cluster::create(ClusterSpec::new(&places, install))?.start()?;
    let dsn = local_dsn(server.socket_dir(), server.port());
    let (scale, pool) = (options.scale.to_string(), pool_size.to_string());
    let own = ["--dsn", &dsn, "--create", "--scale", &scale, "--pool-size", &pool];
    let service = DocumentService::start(&walwright, &own)?;
    let asking = Asking { service: &service, walwright: &walwright, options: &options };
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
        blocks.add(asked.name, || asking.rate(file, clients));
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
    let post = files.get(1).context("the file of posts")?;
    for clients in [1, 8, clients] {
        let mut open = Vec::new();
        for block in 0..options.blocks {
            let [unnamed, twice] = asking.closure(post, clients, &dsn)?;
            eprintln!(
                "closing {} of {}, {clients} connections: {:.1} % in no line, {:.1} % in two",
                block + 1,
                options.blocks,
                unnamed * 100.0,
                twice * 100.0
            );
            open.push(unnamed + twice);
        }
        let mean = mean(&open).context("no block was run")?;
        let most = open.iter().copied().fold(0.0, f64::max);
        report.bar(
            &format!("POST, {clients} connections: latency in no line, or in two"),
            format!("{:.1} % (at most {:.1} %)", mean * 100.0, most * 100.0),
            json!({ "mean": mean, "most": most }),
            "<= 5 %",
            mean <= OPEN,
        );
    }
    Ok(report.print(options.json))
}

/// What asks the service.
struct Asking<'a> {
    service: &'a DocumentService,
    walwright: &'a Walwright,
    options: &'a Options,
}

impl Asking<'_> {
    /// What a run of these requests is summed up to.
    fn run(&self, requests: &Path, clients: u32, more: &[&str]) -> anyhow::Result<Value> {
        let server = format!("http://{}", self.service.address());
        let (clients, length) = (clients.to_string(), format!("{}s", self.options.seconds));
        let requests = requests.to_str().context("a path of letters")?;
        let scale = format!("scale={}", self.options.scale);
        let load = ["-D", &scale, "-c", &clients, "-T", &length, "--warmup", "1s"];
        let what = ["--http", &server, "--requests", requests];
        let (mut value, _) = self.walwright.json(&[&what[..], &load, more].concat())?;
        let summary = value["summary"].take();
        ensure!(summary["load"]["failed"] == 0, "requests failed: {summary:#}");
        Ok(summary)
    }

    fn rate(&self, requests: &Path, clients: u32) -> anyhow::Result<Measured> {
        let summary = self.run(requests, clients, &[])?;
        Ok(Measured {
            throughput: number(&summary, "/load/throughput/center")?,
            cpu_us: number(&summary, "/cpu/driver_per_transaction")? * 1e6,
            latency: None,
        })
    }

    /// Shares of the latency that no line names, and that lines name twice.
    fn closure(&self, requests: &Path, clients: u32, dsn: &str) -> anyhow::Result<[f64; 2]> {
        let seen = ["--dsn", dsn, "--pool-wait", "walwright_documents_pool_wait_seconds"];
        let summary = self.run(requests, clients, &seen)?;
        for line in ["pool_wait", "cpu"] {
            number(&summary, &format!("/time/application/{line}"))?;
        }
        let twice = number(&summary, "/time/overdrawn")? / number(&summary, "/time/latency")?;
        Ok([number(&summary, "/time/residual_share")?, twice])
    }
}

fn number(summary: &Value, pointer: &str) -> anyhow::Result<f64> {
    let found = summary.pointer(pointer).and_then(Value::as_f64);
    found.with_context(|| format!("no number at {pointer}:\n{summary:#}"))
}
