//! The gateway against the server itself, and against PgBouncer where it is installed.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use serde_json::json;
use walwright_bench::{Blocks, Measured, Options, Report, Testbed, Walwright, local_dsn};
use walwright_server::{PgBouncer, PoolerProgram};

/// Loads of the lean driver on unix sockets: directly, through the gateway, and through
/// PgBouncer. All three take turns on one server.
#[derive(Parser)]
struct Cli {
    /// Loads by a part of their name. The default is all.
    only: Vec<String>,
    /// A WAL flush at least, such as 2ms; as the storage does it where it is not given.
    #[arg(long, value_name = "TIME", value_parser = walwright_workload::parse_duration)]
    flush_latency: Option<Duration>,
    /// PgBouncer's program. Without it nothing is compared with PgBouncer.
    #[arg(long, value_name = "FILE")]
    pgbouncer: Option<PathBuf>,
    #[command(flatten)]
    options: Options,
}

/// A load and what the gateway must reach in it.
struct Load {
    name: &'static str,
    script: &'static str,
    clients: u32,
    /// Times the direct throughput, as the storage flushes and with 2 ms.
    direct: [Option<f64>; 2],
    /// Times PgBouncer's.
    pgbouncer: Option<f64>,
    /// Whether its latency is compared below its peak, in an open loop.
    open: bool,
}

const TABLES: &str = "
CREATE TABLE event (id bigserial PRIMARY KEY, kind int, at timestamptz DEFAULT now(), body text);
CREATE INDEX ON event (kind);
CREATE TABLE hot (id int PRIMARY KEY, n bigint);
INSERT INTO hot VALUES (1, 0);
";

const INSERT: &str = "\\set kind random(1, 1000)\n\
                      INSERT INTO event (kind, body) VALUES (:kind, 'something that happened');\n";
const HOT_ROW: &str = "UPDATE hot SET n = n + 1 WHERE id = 1;\n";
const SELECT: &str = "\\set aid random(1, 100000 * :scale)\n\
                      SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n";
const ONE_BRANCH: &str = "\\set aid random(1, 100000 * :scale)
\\set tid random(1, 10)
\\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = 1;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, 1, :aid, :delta, CURRENT_TIMESTAMP);
END;
";
const TPCB: &str = "";

const fn load(
    name: &'static str,
    script: &'static str,
    clients: u32,
    direct: [Option<f64>; 2],
    pgbouncer: Option<f64>,
) -> Load {
    Load { name, script, clients, direct, pgbouncer, open: false }
}

const fn open(load: Load) -> Load {
    Load { open: true, ..load }
}

const LOADS: [Load; 8] = [
    open(load("insert, 64 clients", INSERT, 64, [Some(2.0), Some(2.0)], Some(3.0))),
    load("insert, 400 clients", INSERT, 400, [Some(2.5), Some(2.5)], Some(3.0)),
    load("hot row, 64 clients", HOT_ROW, 64, [Some(10.0), Some(50.0)], None),
    load("one branch, 32 clients", ONE_BRANCH, 32, [None, Some(5.0)], None),
    load("tpcb, 16 clients", TPCB, 16, [Some(1.0), Some(1.0)], None),
    open(load("tpcb, 64 clients", TPCB, 64, [Some(1.0), Some(1.0)], None)),
    load("select, 64 clients", SELECT, 64, [Some(1.0), Some(1.0)], Some(1.5)),
    load("insert, one client", INSERT, 1, [None, None], Some(1.0)),
];

/// What stands between load and server.
type Between = Option<PoolerProgram>;

/// How long clients are at work before they are measured.
const WARM_UP: Duration = Duration::from_secs(1);
/// Part of its peak at which the gateway's latency is compared.
const BELOW_PEAK: f64 = 0.7;
/// Part of a rate that has to be served for it to count as reached.
const REACHED: f64 = 0.98;

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let settings = [("max_connections", "500"), ("max_wal_size", "4GB")];
    let testbed = Testbed::with_flushes(cli.options.scale, &settings, cli.flush_latency)?;
    testbed.execute(TABLES)?;
    let walwright = Walwright::find()?;
    let pgbouncer = match &cli.pgbouncer {
        Some(program) => Some(PgBouncer::find(Some(program))?),
        None => None,
    };
    let beside = pgbouncer
        .as_ref()
        .map_or_else(String::new, |pgbouncer| format!(", PgBouncer {}", pgbouncer.version()));
    let title = match cli.flush_latency {
        Some(time) => format!("WAL flushes of {time:?} at least"),
        None => "WAL flushes as the storage does them".to_owned(),
    };
    let mut report = Report::new(&format!(
        "lean driver, unix sockets, scale {}, {title}{beside}, {} blocks of {} s",
        cli.options.scale, cli.options.blocks, cli.options.seconds
    ));
    let bench = Bench { cli, testbed, walwright, pgbouncer };
    let wanted = |load: &&Load| {
        let only = &bench.cli.only;
        only.is_empty() || only.iter().any(|of| load.name.contains(of))
    };
    for load in LOADS.iter().filter(wanted) {
        bench.measure(load, &mut report)?;
    }
    Ok(report.print(bench.cli.options.json))
}

struct Bench {
    cli: Cli,
    testbed: Testbed,
    walwright: Walwright,
    pgbouncer: Option<PgBouncer>,
}

impl Bench {
    fn measure(&self, load: &Load, report: &mut Report) -> anyhow::Result<()> {
        let directory = tempfile::tempdir()?;
        let script = directory.path().join("load.sql");
        std::fs::write(&script, load.script)?;
        let gateway = Some(PoolerProgram::Gateway(self.walwright.program().to_owned()));
        let theirs = self.pgbouncer.clone().map(PoolerProgram::PgBouncer);
        let run = |between: &Between, rate: Option<f64>| self.run(load, &script, between, rate);
        let mut blocks = Blocks::new();
        let direct = blocks.add("direct", || run(&None, None));
        let ours = blocks.add("gateway", || run(&gateway, None));
        let theirs = theirs.map(|theirs| {
            let theirs = Some(theirs);
            blocks.add("pgbouncer", move || run(&theirs, None))
        });
        blocks.run(self.cli.options.blocks)?;
        let rate = |m: &Measured| m.throughput;
        let p50 = |m: &Measured| m.latency.map_or(f64::NAN, |latency| latency.p50 * 1e6);
        let shown = [Some(direct), Some(ours), theirs].into_iter().flatten().map(|of| {
            let (rate, p50) = (blocks.median(of, rate), blocks.median(of, p50));
            format!("{} {rate:.0}/s, p50 {p50:.0} us", blocks.name(of))
        });
        let shown = shown.collect::<Vec<_>>().join("; ");
        report.figure(load.name, shown.clone(), json!(shown));
        let mut bar = |name: &str, against: usize, bar: Option<f64>| -> anyhow::Result<()> {
            let ratio = blocks.ratio(ours, against, rate)?;
            let name = format!("{}, gateway / {name}", load.name);
            match bar {
                Some(bar) => {
                    let met = ratio.center >= bar;
                    report.bar(&name, ratio.to_string(), ratio.json(), &format!(">= {bar}"), met);
                }
                None => report.figure(&name, ratio.to_string(), ratio.json()),
            }
            Ok(())
        };
        bar("direct", direct, load.direct[usize::from(self.cli.flush_latency.is_some())])?;
        if let Some(theirs) = theirs {
            bar("PgBouncer", theirs, load.pgbouncer)?;
        }
        if load.clients == 1
            && let Some(theirs) = theirs
        {
            let adds = |of| blocks.median(of, p50) - blocks.median(direct, p50);
            let (ours, theirs) = (adds(ours), adds(theirs));
            let name = format!("{}, added to p50", load.name);
            let shown = format!("{ours:.0} us, PgBouncer {theirs:.0} us");
            report.bar(&name, shown, json!(ours), "<= PgBouncer", ours <= theirs);
        }
        if load.open {
            let peak = blocks.median(ours, rate);
            let (gateway, below) = (gateway.clone(), peak * BELOW_PEAK);
            self.tail(load, &script, &gateway, below, report)?;
        }
        Ok(())
    }

    /// p99 of transactions that are due at a rate.
    fn tail(
        &self,
        load: &Load,
        script: &Path,
        gateway: &Between,
        rate: f64,
        report: &mut Report,
    ) -> anyhow::Result<()> {
        let mut blocks = Blocks::new();
        let direct = blocks.add("direct", || self.run(load, script, &None, Some(rate)));
        let ours = blocks.add("gateway", || self.run(load, script, gateway, Some(rate)));
        blocks.run(self.cli.options.blocks)?;
        let p99 = |m: &Measured| m.latency.map_or(f64::NAN, |latency| latency.p99 * 1e3);
        let of = |of| (blocks.median(of, p99), blocks.median(of, |m| m.throughput));
        let ((direct, served), (ours, _)) = (of(direct), of(ours));
        let name = format!("{}, p99 at {rate:.0}/s", load.name);
        if served < REACHED * rate {
            let shown = format!("{ours:.1} ms; direct serves {served:.0}/s of them");
            report.figure(&name, shown, json!(ours));
        } else {
            let shown = format!("{ours:.1} ms, direct {direct:.1} ms");
            report.bar(&name, shown, json!(ours), "<= direct", ours <= direct);
        }
        Ok(())
    }

    fn run(
        &self,
        load: &Load,
        script: &Path,
        between: &Between,
        rate: Option<f64>,
    ) -> anyhow::Result<Measured> {
        self.testbed.settle()?;
        let pooler = match between {
            Some(program) => Some(self.testbed.pooler(program.clone(), load.clients)?),
            None => None,
        };
        let dsn = match &pooler {
            Some(pooler) => {
                let params = pooler.connect_params();
                let socket = params.socket_path().context("not on a unix socket")?;
                let directory = socket.parent().context("a socket without a directory")?;
                local_dsn(directory, params.port())
            }
            None => self.testbed.dsn(),
        };
        let scale = self.testbed.scale();
        let (file, scale) = (script.display().to_string(), format!("scale={scale}"));
        let rate = rate.map(|rate| format!("{rate:.0}"));
        let mut what = vec!["--no-probe", "--lean", "--threads", "1", "-D", &scale];
        match load.script {
            TPCB => what.extend(["--workload", "tpcb", "--scale", &scale["scale=".len()..]]),
            _ => what.extend(["--file", &file]),
        }
        what.extend(rate.iter().flat_map(|rate| ["--rate", rate]));
        self.walwright.load(&dsn, load.clients, self.cli.options.length(), WARM_UP, &what)
    }
}
