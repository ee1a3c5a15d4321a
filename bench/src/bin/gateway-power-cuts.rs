//! What a power cut takes of what the gateway's clients were told: nothing.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Parser, ValueEnum};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::task::block_in_place;
use tokio_postgres::{Client, NoTls};
use walwright_bench::ledger::{self, Audit, Book};
use walwright_bench::survival::{Rules, judge};
use walwright_bench::{GatewayProcess, GatewaySettings, ReadsWait, Report};
use walwright_server::{
    Cluster, ClusterSpec, Installs, Major, Places, PowerCut, RunningCluster, sweep,
};

/// Cycles of load through the gateway, of killing the server and the gateway at a random moment
/// with all or a random part of the unflushed writes lost, of recovery, and of an audit: what
/// was acknowledged is there exactly once, what was refused is not, what is unknown is there at
/// most once, and nothing that was told is gone.
#[derive(Parser)]
struct Cli {
    /// Cycles.
    #[arg(long, default_value_t = 1000)]
    cycles: u64,
    /// Clients.
    #[arg(long, default_value_t = 14)]
    clients: i64,
    /// Least time of a flush, in microseconds: the longer, the more is not flushed.
    #[arg(long, default_value_t = 0)]
    flush_us: u64,
    /// Counts are kept in this file, and a run goes on from there.
    #[arg(long)]
    counts: Option<PathBuf>,
    #[command(flatten)]
    rules: Rules<Check>,
}

/// What is broken so that losses must be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Check {
    /// Answers to writes leave before their barrier.
    EarlyAnswers,
    /// Answers to reads leave before it.
    EarlyReads,
    /// The server flushes nothing.
    NoFsync,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Counts {
    cycles: u64,
    /// Servers that did not come back.
    broken: u64,
    pages_lost: u64,
    audit: Audit,
    words: Vec<String>,
}

impl Counts {
    fn read(path: Option<&Path>) -> anyhow::Result<Counts> {
        match path {
            Some(path) if path.exists() => Ok(serde_json::from_slice(&std::fs::read(path)?)?),
            _ => Ok(Counts::default()),
        }
    }

    fn write(&self, path: Option<&Path>) -> anyhow::Result<()> {
        let Some(path) = path else { return Ok(()) };
        let next = path.with_extension("next");
        std::fs::write(&next, serde_json::to_vec_pretty(self)?)?;
        std::fs::rename(next, path).context("keeping the counts")
    }
}

fn main() -> anyhow::Result<ExitCode> {
    GatewayProcess::become_one()?;
    let cli = Cli::parse();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(run(&cli))
}

async fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    let mut counts = Counts::read(cli.counts.as_deref())?;
    let (begun, first) = (Instant::now(), counts.cycles);
    let mut server = None;
    while counts.cycles < cli.cycles {
        let seed = cli.rules.seed.wrapping_mul(1 << 32).wrapping_add(counts.cycles);
        let running = match server.take() {
            Some(running) => running,
            None => fresh(cli).await?,
        };
        let (cluster, words) = (running.cluster().clone(), counts.words.len());
        match survive(cli, seed, running, &cluster, &mut counts).await {
            Ok(running) => server = Some(running),
            Err(error) => {
                counts.broken += 1;
                counts.words.push(format!("the server is not as it was: {error:#}"));
            }
        }
        for line in &counts.words[words..] {
            eprintln!("cycle {}: {line}", counts.cycles);
        }
        counts.words.truncate(100);
        counts.cycles += 1;
        counts.write(cli.counts.as_deref())?;
        if counts.cycles.is_multiple_of(50) {
            let each = begun.elapsed().as_secs_f64() / (counts.cycles - first) as f64;
            eprintln!("{} of {} cycles, {each:.2} s each", counts.cycles, cli.cycles);
        }
    }
    Ok(report(cli, &counts))
}

/// One cycle: the server after it, of whose books nothing that is wrong is left out.
async fn survive(
    cli: &Cli,
    seed: u64,
    running: RunningCluster,
    cluster: &Cluster,
    counts: &mut Counts,
) -> anyhow::Result<RunningCluster> {
    let books = cycle(cli, seed, running, counts).await?;
    let running = block_in_place(|| cluster.start_watched())?;
    let direct = connect(running.socket_dir(), running.port()).await?;
    let (audit, words) = ledger::audit(&direct, &books).await?;
    counts.audit.add(&audit);
    counts.words.extend(words);
    Ok(running)
}

/// A server whose power can be cut, with the tables.
async fn fresh(cli: &Cli) -> anyhow::Result<RunningCluster> {
    let places = Places::open(None)?;
    sweep(&places)?;
    let install = Installs::within(places.clone()).ensure(Major::V18, &mut |_| {})?;
    let mut spec = ClusterSpec::new(&places, install);
    let fsync = if cli.rules.check == Some(Check::NoFsync) { "off" } else { "on" };
    spec.settings = [
        // What is not flushed for a client's sake is not flushed for a while.
        ("wal_writer_delay", "10s"),
        ("fsync", fsync),
        ("shared_buffers", "16MB"),
        ("max_wal_size", "64MB"),
        ("min_wal_size", "32MB"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    spec.flush_latency = (cli.flush_us > 0).then(|| Duration::from_micros(cli.flush_us));
    let running = block_in_place(|| Cluster::create(spec)?.start_watched())?;
    let direct = connect(running.socket_dir(), running.port()).await?;
    ledger::create(&direct).await?;
    if cli.rules.check == Some(Check::EarlyAnswers) {
        direct.batch_execute("ALTER ROLE postgres SET synchronous_commit = off").await?;
    }
    direct.batch_execute("CHECKPOINT").await?;
    Ok(running)
}

/// Load and the end of it; what the clients know.
async fn cycle(
    cli: &Cli,
    seed: u64,
    running: RunningCluster,
    counts: &mut Counts,
) -> anyhow::Result<Vec<Book>> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let direct = connect(running.socket_dir(), running.port()).await?;
    direct.batch_execute("SET synchronous_commit = on").await?;
    ledger::empty(&direct).await?;
    let directory = tempfile::tempdir()?;
    let settings = GatewaySettings {
        workers: random.random_range(1..=2),
        pool_size: random.random_range(2..=8),
        reads: if cli.rules.check == Some(Check::EarlyReads) {
            ReadsWait::Off
        } else {
            ReadsWait::Transaction
        },
        query_wait: 10_000,
    };
    let mut gateway =
        block_in_place(|| GatewayProcess::start(&running, directory.path(), settings))?;
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    for number in 0..cli.clients {
        let (place, port) = gateway.place();
        let mut client = connect(place, port).await?;
        let mut book = Book::new(number, cli.clients);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(random.random());
        let stop = stop.clone();
        tasks.push(tokio::spawn(async move {
            while !stop.load(Ordering::Acquire) && book.step(&mut client, &mut random).await.is_ok()
            {
            }
            book
        }));
    }
    tokio::time::sleep(Duration::from_millis(random.random_range(20..300))).await;
    if random.random_range(0..4) == 0 {
        // It may be cut short.
        tokio::spawn(async move { direct.batch_execute("CHECKPOINT").await.ok() });
        tokio::time::sleep(Duration::from_millis(random.random_range(0..30))).await;
    }
    anyhow::ensure!(!gateway.has_ended(), "the gateway ended");
    let cut = match random.random_range(0..2) {
        0 => PowerCut::All,
        _ => PowerCut::Random { seed },
    };
    let gateway_first: bool = random.random();
    let unflushed = block_in_place(|| {
        if gateway_first {
            gateway.kill();
        }
        let unflushed = running.cut_power(cut);
        gateway.kill();
        unflushed
    })?;
    counts.pages_lost += unflushed.pages_lost;
    stop.store(true, Ordering::Release);
    let mut books = Vec::new();
    for task in tasks {
        books.push(task.await?);
    }
    Ok(books)
}

async fn connect(directory: &Path, port: u16) -> anyhow::Result<Client> {
    let mut config = tokio_postgres::Config::new();
    config.host_path(directory).port(port).user("postgres").dbname("postgres");
    let (client, connection) = config.connect(NoTls).await?;
    // It ends with its client.
    tokio::spawn(async move { connection.await.ok() });
    Ok(client)
}

fn report(cli: &Cli, counts: &Counts) -> ExitCode {
    let Counts { cycles, broken, pages_lost, audit, .. } = counts;
    let mut report = Report::new(&format!("{cycles} power cuts, seed {}", cli.rules.seed));
    let pages = pages_lost.to_string();
    report.figure("pages of 4 kB that were lost unflushed", pages, json!(pages_lost));
    let others = [("servers that did not come back", *broken)];
    judge(&mut report, audit, &others, cli.rules.check.is_some());
    report.print(cli.rules.json)
}
