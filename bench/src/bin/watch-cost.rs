//! What watching takes over a day: store, memory, and processor time.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Parser;
use serde_json::json;
use walwright_bench::Report;
use walwright_record::{Row, Sample, Source, Timestamp};
use walwright_server::{Cluster, ClusterSpec, ConnectParams, Installs, Major, Stop};
use walwright_watch::{
    AlertTo, Entry, Gatherer, Keep, Listener, Rates, RingWriter, Told, WatchPlan, watch,
};

/// A day of readings put through the figures and the ring as fast as it goes: 200 tables and 1,000
/// statements that all change each minute. Then the same on a real server for a while, with
/// samplers, diagnoses each minute, ring and all.
#[derive(Parser)]
struct Cli {
    /// Hours simulated.
    #[arg(long, default_value_t = 24)]
    hours: u32,
    /// Seconds of the real server.
    #[arg(long, default_value_t = 240)]
    seconds: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

const TABLES: i64 = 200;
const STATEMENTS: i64 = 1_000;

fn main() -> anyhow::Result<ExitCode> {
    let Cli { hours, seconds, json } = Cli::parse();
    let directory = tempfile::tempdir()?;
    let begun = Timestamp(1_795_132_800_000_000);
    let mut writer = RingWriter::open(directory.path(), Keep::default(), begun)?;
    let mut gatherer = Gatherer::new(Duration::from_secs(1));
    let (clock, spent) = (Instant::now(), cpu()?);
    let mut memory = BTreeMap::new();
    for second in 0..u64::from(hours) * 3600 {
        let at = begun.plus(Duration::from_secs(second));
        gatherer.take(&waits(at, second));
        if second % 60 == 0 {
            gatherer.take(&statements(at, second));
            gatherer.take(&tables(at, second));
        }
        if second % 10 == 0 {
            for sample in counters(at, second) {
                gatherer.take(&sample);
            }
            if let Some(slot) = gatherer.close(at) {
                writer.append(Entry::Slot(slot))?;
            }
        }
        if second % 3600 == 3599 {
            memory.insert(second / 3600, resident()?);
        }
    }
    let took = cpu()? - spent;
    let share = took.as_secs_f64() / (f64::from(hours) * 3600.0);
    let stored = writer.ring().bytes()?;
    let (first, last) = (memory.values().next(), memory.values().next_back());
    let largest = memory.values().copied().max().unwrap_or_default();
    let grown = last.zip(first).map_or(0.0, |(last, first)| *last as f64 / *first as f64 - 1.0);
    let mut report = Report::new(&format!(
        "{hours} simulated hours, {TABLES} tables, {STATEMENTS} statements, all busy; {:.0} s",
        clock.elapsed().as_secs_f64()
    ));
    report.bar(
        "processor time of figures and ring",
        format!("{:.3} % of a processor", share * 100.0),
        json!({ "share": share }),
        "<= 0.1 %",
        share <= 0.001,
    );
    report.bar(
        "store",
        format!("{:.0} MB", stored as f64 / 1e6),
        json!({ "bytes": stored }),
        "<= 200 MB",
        stored <= 200_000_000,
    );
    report.bar(
        "memory",
        format!("{:.0} MB, {:+.0} % from the first hour", largest as f64 / 1e6, grown * 100.0),
        json!({ "bytes": largest, "grown": grown }),
        "<= 60 MB, flat",
        largest <= 60_000_000 && grown < 0.1,
    );
    let real = real(Duration::from_secs(seconds))?;
    let whole = real.here + real.server;
    report.bar(
        &format!("all of it on a real server, {seconds} s, diagnosed each minute"),
        format!(
            "{:.3} % of a processor: {:.3} % here, {:.3} % in the server",
            whole * 100.0,
            real.here * 100.0,
            real.server * 100.0
        ),
        json!({ "here": real.here, "server": real.server }),
        "<= 0.3 %",
        whole <= 0.003,
    );
    report.bar(
        "memory of that",
        format!("{:.0} MB", real.resident as f64 / 1e6),
        json!({ "bytes": real.resident }),
        "<= 60 MB",
        real.resident <= 60_000_000,
    );
    Ok(report.print(json))
}

/// Shares of a processor, and memory.
struct Real {
    here: f64,
    server: f64,
    resident: u64,
}

/// Watches a server whose tables and statements are all busy.
fn real(length: Duration) -> anyhow::Result<Real> {
    let installs = Installs::open(None)?;
    let install = installs.ensure(Major::V18, &mut |_| {})?;
    let mut spec = ClusterSpec::new(installs.places(), install);
    spec.settings = vec![("shared_preload_libraries".into(), "pg_stat_statements".into())];
    let server = Cluster::create(spec)?.start()?;
    let params = server.connect_params("postgres");
    let directory = tempfile::tempdir()?;
    let load = Stop::new();
    let (begun, ready) = std::sync::mpsc::channel();
    let loading = std::thread::spawn({
        let (params, load) = (params.clone(), load.clone());
        move || -> anyhow::Result<Duration> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(keep_busy(&params, &load, &begun))?;
            thread_cpu()
        }
    });
    let Ok(making) = ready.recv() else {
        return match loading.join() {
            Ok(Err(error)) => Err(error),
            _ => Err(anyhow::anyhow!("the load ended before it began")),
        };
    };
    let counted = Arc::new(Mutex::new(0.0));
    let listener: Listener = Arc::new({
        let counted = Arc::clone(&counted);
        move |told| {
            if let Told::Slot(slot) = told
                && let Some(cost) = slot.figure("watch_cpu_seconds|server")
            {
                *counted.lock().unwrap_or_else(PoisonError::into_inner) += cost.sum;
            }
        }
    });
    let plan = WatchPlan {
        ring: directory.path().join("ring"),
        params,
        keep: Keep::default(),
        rates: Rates::watching(),
        slot: Duration::from_secs(10),
        diagnose: Duration::from_secs(60),
        metrics: None,
        alerts: AlertTo::default(),
        command: "watch-cost".to_owned(),
    };
    let spent = cpu()?;
    let stop = Stop::new();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let resident = runtime.block_on(async {
        let watching = tokio::spawn(watch(plan, stop.clone(), listener));
        tokio::time::sleep(length).await;
        let resident = resident();
        stop.request();
        watching.await??;
        walwright_server::all_left().await;
        resident
    })?;
    let all = cpu()? - spent;
    load.request();
    let of_load = loading.join().map_err(|_| anyhow::anyhow!("the load panicked"))??;
    server.stop()?;
    let server = *counted.lock().unwrap_or_else(PoisonError::into_inner);
    let seconds = length.as_secs_f64();
    let here = all.saturating_sub(of_load.saturating_sub(making)).as_secs_f64() / seconds;
    Ok(Real { here, server: server / seconds, resident })
}

/// Makes the tables, and runs each statement every few seconds.
async fn keep_busy(
    params: &ConnectParams,
    stop: &Stop,
    begun: &std::sync::mpsc::Sender<Duration>,
) -> anyhow::Result<()> {
    let client = walwright_server::connect_for_workload(params).await?;
    client.batch_execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements").await?;
    for table in 0..TABLES {
        let create = format!("CREATE TABLE t{table} (id int, a int, b int, c int, d int, e int)");
        client.batch_execute(&create).await?;
    }
    let columns = ["a", "b", "c", "d", "e"];
    let statements: Vec<String> = (0..STATEMENTS)
        .map(|n| {
            let (table, column) = (n % TABLES, columns[(n / TABLES) as usize]);
            format!("INSERT INTO t{table} (id, {column}) VALUES (1, 2)")
        })
        .collect();
    // Whoever waits has gone where that fails.
    let _ = begun.send(thread_cpu()?);
    while !stop.is_requested() {
        for statement in &statements {
            client.batch_execute(statement).await?;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    Ok(())
}

fn row(columns: &[(&str, f64)]) -> Row {
    let mut row = Row::new();
    for (name, value) in columns {
        row.set(name, *value);
    }
    row
}

/// Something that looks like chance and is the same each time.
fn hash(of: u64) -> f64 {
    (of.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64
}

fn counters(at: Timestamp, second: u64) -> Vec<Sample> {
    let n = second as f64;
    let sample = |source, row| Sample { at, source, rows: vec![row] };
    vec![
        sample(
            Source::Database,
            row(&[
                ("xact_commit", 500.0 * n + hash(second) / 1e5),
                ("xact_rollback", n),
                ("temp_bytes", 10.0 * n),
                ("deadlocks", 0.0),
                ("datfrozenxid_age", n),
            ]),
        ),
        sample(
            Source::Wal,
            row(&[
                ("wal_bytes", 1e6 * n + hash(second)),
                ("wal_records", 9e3 * n),
                ("wal_fpi", 100.0 * n),
                ("wal_buffers_full", 0.0),
                ("wal_sync", 400.0 * n),
                ("wal_sync_time", 300.0 * n),
                ("wal_lsn", 1e6 * n),
            ]),
        ),
        sample(
            Source::Checkpointer,
            row(&[("num_timed", (n / 300.0).floor()), ("num_requested", 0.0), ("write_time", n)]),
        ),
        sample(
            Source::Sessions,
            row(&[("active", hash(second) % 30.0), ("idle", 20.0), ("idle_in_transaction", 1.0)]),
        ),
        sample(Source::ProbeCost, row(&[("cpu_seconds", n / 1e3), ("commits", 2.0 * n)])),
    ]
}

fn waits(at: Timestamp, second: u64) -> Sample {
    let kinds = [("IO", "WalSync"), ("LWLock", "WALWrite"), ("Lock", "tuple"), ("", "")];
    let rows = kinds.iter().zip(0_u64..).map(|((kind, event), place)| {
        let mut row = row(&[("sessions", hash(second + place) % 9.0)]);
        row.set("backend_type", "client backend").set("state", "active");
        row.set("wait_event_type", *kind).set("wait_event", *event);
        row
    });
    Sample { at, source: Source::Waits, rows: rows.collect() }
}

fn statements(at: Timestamp, second: u64) -> Sample {
    let rows =
        (0..STATEMENTS).map(|id| {
            let n = second as f64 * (1.0 + hash(id as u64) / 1e6);
            let mut row = row(&[
                ("calls", n.floor()),
                ("total_exec_time", n * 1.37),
                ("wal_bytes", (n * 211.0).floor()),
                ("rows", (n * 3.0).floor()),
            ]);
            let key = id.wrapping_mul(0x5851_f42d_4c95_7f2d);
            row.set("queryid", key).set("userid", 10_i64).set("dbid", 5_i64).set("toplevel", true);
            if second == 0 {
                row.set("query", format!(
                "INSERT INTO measurement_{id} (device, at, value, unit) VALUES ($1, $2, $3, $4)"
            ));
            }
            row
        });
    Sample { at, source: Source::Statements, rows: rows.collect() }
}

fn tables(at: Timestamp, second: u64) -> Sample {
    let rows = (0..TABLES).map(|id| {
        let n = (second as f64 * (1.0 + hash(id as u64) / 1e6)).floor();
        let mut row = row(&[
            ("n_tup_ins", n * 10.0),
            ("n_tup_upd", n * 3.0),
            ("n_tup_del", n),
            ("n_dead_tup", hash(second + id as u64) % 1e4),
            ("reltuples", 1e6),
            ("relation_bytes", n * 8192.0),
        ]);
        row.set("relid", 16_384 + id).set("schemaname", "public");
        row.set("relname", format!("measurement_{id}"));
        row
    });
    Sample { at, source: Source::Tables, rows: rows.collect() }
}

/// Processor time of this process.
fn cpu() -> anyhow::Result<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Ok(Duration::new(time.tv_sec.try_into()?, time.tv_nsec.try_into()?))
}

/// That of the calling thread.
fn thread_cpu() -> anyhow::Result<Duration> {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Ok(Duration::new(time.tv_sec.try_into()?, time.tv_nsec.try_into()?))
}

fn resident() -> anyhow::Result<u64> {
    let text = std::fs::read_to_string(Path::new("/proc/self/statm"))?;
    let pages: u64 = text.split_whitespace().nth(1).unwrap_or("0").parse()?;
    Ok(pages * rustix::param::page_size() as u64)
}
