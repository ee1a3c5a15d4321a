//! The gateway against the server itself, and against PgBouncer where it is installed.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::Parser;
use serde_json::json;
use walwright_bench::{Blocks, Options, Pgbench, Report, Serving, Testbed, Walwright};

/// Loads of pgbench with prepared statements on unix sockets: directly, through the gateway,
/// and through PgBouncer. All three take turns on one server.
#[derive(Parser)]
struct Cli {
    /// Loads by a part of their name. The default is all.
    only: Vec<String>,
    /// A WAL flush at least, such as 2ms; as the storage does it where it is not given.
    #[arg(long, value_name = "TIME")]
    flush_latency: Option<String>,
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
    Load { name, script, clients, direct, pgbouncer }
}

const LOADS: [Load; 8] = [
    load("insert, 64 clients", INSERT, 64, [Some(2.0), Some(2.0)], Some(3.0)),
    load("insert, 400 clients", INSERT, 400, [Some(2.5), Some(2.5)], Some(3.0)),
    load("hot row, 64 clients", HOT_ROW, 64, [Some(10.0), Some(50.0)], None),
    load("one branch, 32 clients", ONE_BRANCH, 32, [None, Some(5.0)], None),
    load("tpcb, 16 clients", TPCB, 16, [Some(1.0), Some(1.0)], None),
    load("tpcb, 64 clients", TPCB, 64, [Some(1.0), Some(1.0)], None),
    load("select, 64 clients", SELECT, 64, [Some(1.0), Some(1.0)], Some(1.5)),
    // Not slower than through PgBouncer.
    load("insert, one client", INSERT, 1, [None, None], Some(1.0)),
];

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let flush: Option<Duration> = cli
        .flush_latency
        .as_deref()
        .map(walwright_workload::parse_duration)
        .transpose()
        .map_err(|why| anyhow::anyhow!("--flush-latency: {why}"))?;
    let settings = [("max_connections", "500"), ("max_wal_size", "4GB")];
    let testbed = Testbed::with_flushes(cli.options.scale, &settings, flush)?;
    testbed.execute(TABLES)?;
    let walwright = Walwright::find()?;
    let gateway = Serving::start(|directory, port| {
        let mut command = walwright.command();
        let socket = directory.join(format!(".s.PGSQL.{port}"));
        command.args(["gateway", "--auth", "trust", "--server", &testbed.dsn(), "--listen"]);
        command.arg(socket);
        command
    })?;
    let pgbouncer = cli.pgbouncer.as_deref().map(|program| pgbouncer(program, &testbed));
    let pgbouncer = pgbouncer.transpose()?;
    let title = match &cli.flush_latency {
        Some(time) => format!("WAL flushes of {time} at least"),
        None => "WAL flushes as the storage does them".to_owned(),
    };
    let mut report = Report::new(&format!(
        "pgbench -M prepared, unix sockets, scale {}, {title}, {} blocks of {} s",
        cli.options.scale, cli.options.blocks, cli.options.seconds
    ));
    let wanted =
        |load: &&Load| cli.only.is_empty() || cli.only.iter().any(|of| load.name.contains(of));
    for load in LOADS.iter().filter(wanted) {
        measure(load, &cli, &testbed, &gateway, pgbouncer.as_ref(), &mut report)?;
    }
    Ok(report.print(cli.options.json))
}

fn measure(
    load: &Load,
    cli: &Cli,
    testbed: &Testbed,
    gateway: &Serving,
    pgbouncer: Option<&Serving>,
    report: &mut Report,
) -> anyhow::Result<()> {
    let directory = tempfile::tempdir()?;
    let script = directory.path().join("load.sql");
    std::fs::write(&script, load.script)?;
    let script = Some(script).filter(|_| !load.script.is_empty());
    let run = |through: Option<(PathBuf, u16)>| {
        testbed.settle()?;
        let pgbench = Pgbench { script: script.clone(), through, ..Pgbench::tpcb(load.clients) };
        pgbench.run(testbed, cli.options.length())
    };
    let mut blocks = Blocks::new();
    let direct = blocks.add("direct", || run(None));
    let ours = blocks.add("gateway", || run(Some(gateway.place())));
    let theirs = pgbouncer.map(|serving| blocks.add("pgbouncer", || run(Some(serving.place()))));
    blocks.run(cli.options.blocks)?;
    let rate = |m: &walwright_bench::Measured| m.throughput;
    let shown = [Some(direct), Some(ours), theirs];
    let shown: Vec<String> = shown
        .into_iter()
        .flatten()
        .map(|of| format!("{} {:.0}/s", blocks.name(of), blocks.median(of, rate)))
        .collect();
    let rates = shown.join(", ");
    report.figure(load.name, rates.clone(), json!(rates));
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
    bar("direct", direct, load.direct[usize::from(cli.flush_latency.is_some())])?;
    if let Some(theirs) = theirs {
        bar("PgBouncer", theirs, load.pgbouncer)?;
    }
    Ok(())
}

/// PgBouncer in transaction mode, with prepared statements where it has them.
fn pgbouncer(program: &Path, testbed: &Testbed) -> anyhow::Result<Serving> {
    let (server, port) = (testbed.server().socket_dir().to_owned(), testbed.server().port());
    Serving::start(|directory, listen| {
        let ini = directory.join("pgbouncer.ini");
        let users = directory.join("userlist.txt");
        let text = format!(
            "[databases]\npostgres = host={} port={port} user=postgres\n[pgbouncer]\n\
             unix_socket_dir = {}\nlisten_port = {listen}\nauth_type = trust\nauth_file = {}\n\
             pool_mode = transaction\ndefault_pool_size = 20\nmax_client_conn = 1000\n\
             max_prepared_statements = 200\nlogfile = {}\nuser = nobody\n",
            server.display(),
            directory.display(),
            users.display(),
            directory.join("log").display(),
        );
        // What could not be written it will say itself.
        let _ = std::fs::write(&ini, text);
        let _ = std::fs::write(&users, "\"postgres\" \"\"\n");
        // It does not run as root, so it becomes somebody who may write there.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        let _ = std::fs::set_permissions(directory, open);
        let mut command = Command::new(program);
        command.arg(ini);
        command
    })
}
