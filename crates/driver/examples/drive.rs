//! Drives a load by hand and prints what it cost.
//!
//! `cargo run --release -p walwright-driver --example drive -- --host /tmp/pg --time 10 --mode lean`

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use walwright_driver::{Arrival, Gaps, Load, LoadPlan, Mode, Protocol, calibrate};
use walwright_record::LatencyHistogram;
use walwright_wire::{ConnectOptions, Host};
use walwright_workload::script::{Program, ScriptSource};

/// pgbench's TPC-B-like script.
const TPCB: &str = "\
\\set aid random(1, 100000 * :scale)
\\set bid random(1, 1 * :scale)
\\set tid random(1, 10 * :scale)
\\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) \
VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
";

#[derive(Parser)]
struct Arguments {
    /// Directory of the server's unix socket.
    #[arg(long)]
    host: PathBuf,
    #[arg(long, default_value_t = 5432)]
    port: u16,
    #[arg(long, default_value = "postgres")]
    user: String,
    #[arg(long, default_value = "postgres")]
    dbname: String,
    /// A script instead of the TPC-B-like one.
    #[arg(long)]
    file: Option<PathBuf>,
    #[arg(long, default_value_t = 16)]
    clients: u32,
    #[arg(long, default_value_t = 1)]
    threads: u32,
    /// Seconds.
    #[arg(long, default_value_t = 10.0)]
    time: f64,
    #[arg(long, value_enum, default_value_t = Ways::Faithful)]
    mode: Ways,
    #[arg(long, value_enum, default_value_t = Protocols::Prepared)]
    protocol: Protocols,
    #[arg(long, default_value_t = 10)]
    scale: i64,
    /// Transactions per second of an open loop.
    #[arg(long)]
    rate: Option<f64>,
    #[arg(long)]
    max_tries: Option<u32>,
    /// Measures the driver alone instead, against a server that answers at once.
    #[arg(long)]
    calibrate: bool,
    /// Prints every interval.
    #[arg(long)]
    verbose: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Ways {
    Faithful,
    Lean,
}

#[derive(Clone, Copy, ValueEnum)]
enum Protocols {
    Simple,
    Extended,
    Prepared,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let text = match &arguments.file {
        Some(path) => std::fs::read_to_string(path)?,
        None => TPCB.into(),
    };
    let source = ScriptSource { name: "script".into(), text, weight: 1 };
    let program = Arc::new(Program::compile(&[source], &[])?);
    let connect = ConnectOptions::new(
        Host::Unix(arguments.host),
        arguments.port,
        arguments.user,
        arguments.dbname,
    );
    let mut plan = LoadPlan::new(program, connect);
    plan.clients = arguments.clients;
    plan.threads = arguments.threads;
    plan.scale = arguments.scale;
    plan.seed = u64::from(std::process::id());
    plan.max_tries = arguments.max_tries.unwrap_or(1);
    plan.mode = match arguments.mode {
        Ways::Faithful => Mode::Faithful,
        Ways::Lean => Mode::Lean,
    };
    plan.protocol = match arguments.protocol {
        Protocols::Simple => Protocol::Simple,
        Protocols::Extended => Protocol::Extended,
        Protocols::Prepared => Protocol::Prepared,
    };
    if let Some(rate) = arguments.rate {
        plan.arrival = Arrival::Open { rate, gaps: Gaps::Poisson };
    }

    if arguments.calibrate {
        println!("{:?}", calibrate(&plan, Duration::from_secs_f64(arguments.time))?);
        return Ok(());
    }
    let load = Load::start(plan)?;
    let mut latency = LatencyHistogram::new();
    let mut lag = LatencyHistogram::new();
    let mut end = None;
    loop {
        let left = end.map(|end: Instant| end.saturating_duration_since(Instant::now()));
        match load.intervals().recv_timeout(left.unwrap_or(Duration::from_millis(1))) {
            Ok(interval) => {
                for script in &interval.scripts {
                    script.latency.add_to(&mut latency);
                }
                interval.lag.add_to(&mut lag);
                if arguments.verbose {
                    let done: u64 = interval.scripts.iter().map(|s| s.transactions).sum();
                    println!(
                        "{:.3} s: {done} transactions, {} clients, {} due, driver CPU {:?}",
                        interval.length.as_secs_f64(),
                        interval.clients,
                        interval.due,
                        interval.driver_cpu
                    );
                }
            }
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => break,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
        }
        match end {
            None if load.phase() != walwright_driver::LoadPhase::Connecting => {
                end = Some(Instant::now() + Duration::from_secs_f64(arguments.time));
            }
            Some(end) if Instant::now() >= end => load.stop(),
            _ => {}
        }
    }
    let outcome = load.join()?;
    let done = outcome.transactions();
    let seconds = outcome.stopped.since(outcome.started).as_secs_f64();
    let micros = |time: Duration| time.as_secs_f64() * 1e6 / done.max(1) as f64;
    println!(
        "{:.0} tps, {done} transactions, {} failed; driver CPU {:.1} us/transaction ({:.1} user, {:.1} system)",
        done as f64 / seconds,
        outcome.failures(),
        micros(outcome.cpu_user + outcome.cpu_system),
        micros(outcome.cpu_user),
        micros(outcome.cpu_system),
    );
    for (name, histogram) in [("latency", &latency), ("lag", &lag)] {
        if let (Some(p50), Some(p99), Some(max)) =
            (histogram.percentile(50.0), histogram.percentile(99.0), histogram.max())
        {
            println!("{name} p50 {p50:?} p99 {p99:?} max {max:?}");
        }
    }
    for (kind, texts) in outcome.errors.iter() {
        println!("{kind}: {}", texts.join(" | "));
    }
    if let Some(lost) = &outcome.server_lost {
        println!("server lost: {}", lost.message);
    }
    println!(
        "due {}, skipped {}, never begun {}, unfinished {}, connections lost {}",
        outcome.due,
        outcome.skipped,
        outcome.never_begun,
        outcome.unfinished,
        outcome.connections_lost
    );
    Ok(())
}
