//! Whether faithful mode does to the server what pgbench does.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use serde_json::json;
use walwright_bench::{
    Blocks, Measured, Options, Pgbench, Ratio, Report, Testbed, Walwright, apart, together,
};

/// Faithful tpcb against pgbench -M prepared on one server: throughput at 1 and 16
/// clients beside the difference of pgbench with itself, and what one transaction
/// does there: commits, calls of each statement, WAL bytes, HOT ratio, sums of balances.
///
/// Throughput of 16 clients is compared with the server and the load generator on
/// processors of their own, since what walwright leaves of a shared one goes to the
/// server; how much that is, a comparison on shared ones shows. One client and its
/// server run in turns, on one processor.
#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

/// What one transaction did to the server.
#[derive(Debug, Clone, Copy)]
struct Work {
    transactions: f64,
    commits: f64,
    statements: [f64; 5],
    wal_bytes: f64,
    hot_ratio: f64,
}

/// Beginnings of the statements, as pg_stat_statements keeps them. BEGIN and END are
/// counted there once for each time they are prepared, not executed.
const STATEMENTS: [&str; 5] = [
    "UPDATE pgbench_accounts%",
    "SELECT abalance%",
    "UPDATE pgbench_tellers%",
    "UPDATE pgbench_branches%",
    "INSERT INTO pgbench_history%",
];

fn main() -> anyhow::Result<ExitCode> {
    let Cli { options } = Cli::parse();
    let testbed = Testbed::start(options.scale, &[])?;
    let walwright = Walwright::find()?;
    let mut report = Report::new(&format!(
        "tpcb, scale {}, prepared, unix socket, one driver thread, {} blocks of {} s",
        options.scale, options.blocks, options.seconds
    ));
    let shared =
        [16, 1].map(|clients| Ok((clients, throughput(&testbed, &walwright, clients, &options)?)));
    let shared = shared.into_iter().collect::<anyhow::Result<Vec<_>>>()?;
    same_work(&testbed, &walwright, options.length(), &mut report)?;
    for (clients, place, name) in [
        (16, apart as fn(&Testbed) -> anyhow::Result<()>, "processors of their own"),
        (1, together, "one processor"),
    ] {
        place(&testbed)?;
        let found = throughput(&testbed, &walwright, clients, &options)?;
        report.figure(
            &format!("{clients} clients, {name}: pgbench / pgbench"),
            format!("{}, median {:.0}/s", found.noise, found.theirs),
            found.noise.json(),
        );
        report.bar(
            &format!("{clients} clients, {name}: walwright / pgbench"),
            format!("{}, median {:.0}/s", found.ratio, found.ours),
            found.ratio.json(),
            "equal within the noise",
            equal_within_noise(found.ratio, found.noise),
        );
        if let Some(outside) = found.outside {
            report.figure(
                &format!("{clients} clients, {name}: time outside the load generator"),
                format!("{outside}"),
                outside.json(),
            );
        }
    }
    for (clients, found) in shared {
        report.figure(
            &format!("{clients} clients, shared processors: pgbench / pgbench"),
            format!("{}, median {:.0}/s", found.noise, found.theirs),
            found.noise.json(),
        );
        report.figure(
            &format!("{clients} clients, shared processors: walwright / pgbench"),
            format!("{}, median {:.0}/s", found.ratio, found.ours),
            found.ratio.json(),
        );
    }
    Ok(report.print(options.json))
}

/// pgbench against itself, walwright against pgbench, and medians a second.
struct Throughput {
    noise: Ratio,
    ratio: Ratio,
    /// Of one client: walwright against pgbench in the time of a transaction that the load
    /// generator does not work in.
    outside: Option<Ratio>,
    theirs: f64,
    ours: f64,
}

fn throughput(
    testbed: &Testbed,
    walwright: &Walwright,
    clients: u32,
    options: &Options,
) -> anyhow::Result<Throughput> {
    let length = options.length();
    let mut blocks = Blocks::new();
    let pgbench = || {
        testbed.settle()?;
        Pgbench::tpcb(clients).run(testbed, length)
    };
    let first = blocks.add("pgbench", pgbench);
    let again = blocks.add("pgbench again", pgbench);
    let ours = blocks.add("walwright", || {
        testbed.settle()?;
        walwright.tpcb(testbed, clients, length, &["--no-probe"])
    });
    blocks.run(options.blocks)?;
    let rate = |m: &Measured| m.throughput;
    let outside = |m: &Measured| 1e6 / m.throughput - m.cpu_us;
    Ok(Throughput {
        noise: blocks.ratio(again, first, rate)?,
        outside: (clients == 1).then(|| blocks.ratio(ours, first, outside)).transpose()?,
        ratio: blocks.ratio(ours, first, rate)?,
        theirs: blocks.median(first, rate),
        ours: blocks.median(ours, rate),
    })
}

/// Whether the difference is no larger than what pgbench shows against itself, or
/// its interval covers no difference at all.
fn equal_within_noise(ratio: Ratio, noise: Ratio) -> bool {
    let floor = (noise.low - 1.0).abs().max((noise.high - 1.0).abs());
    (ratio.center - 1.0).abs() <= floor || (ratio.low <= 1.0 && 1.0 <= ratio.high)
}

fn same_work(
    testbed: &Testbed,
    walwright: &Walwright,
    length: Duration,
    report: &mut Report,
) -> anyhow::Result<()> {
    let ours = work(testbed, || walwright.tpcb(testbed, 16, length, &["--no-probe"]).map(drop))?;
    // As many transactions again: pages fill as they come, and how full they are decides
    // whether an update can be HOT.
    let pgbench = Pgbench {
        transactions: Some((ours.transactions / 16.0).ceil() as u32),
        ..Pgbench::tpcb(16)
    };
    let theirs = work(testbed, || pgbench.run(testbed, length).map(drop))?;
    let pair = |name: &str, ours: f64, theirs: f64, tolerance: f64, report: &mut Report| {
        let ratio = ours / theirs;
        report.bar(
            name,
            format!("{ours:.4} against {theirs:.4}"),
            json!({ "walwright": ours, "pgbench": theirs }),
            &format!("equal within {:.0} %", tolerance * 100.0),
            (ratio - 1.0).abs() <= tolerance,
        );
    };
    pair("commits a transaction", ours.commits, theirs.commits, 0.01, report);
    for ((name, ours), theirs) in STATEMENTS.iter().zip(ours.statements).zip(theirs.statements) {
        let name = format!("calls a transaction: {}", name.trim_end_matches('%'));
        // A transaction under way at either end of the count makes it differ a little from one.
        pair(&name, ours, theirs, 0.01, report);
    }
    pair("WAL bytes a transaction", ours.wal_bytes, theirs.wal_bytes, 0.05, report);
    pair("HOT ratio of updates", ours.hot_ratio, theirs.hot_ratio, 0.02, report);
    let sums: Vec<f64> = [
        "SELECT sum(abalance) FROM pgbench_accounts",
        "SELECT sum(tbalance) FROM pgbench_tellers",
        "SELECT sum(bbalance) FROM pgbench_branches",
        "SELECT sum(delta) FROM pgbench_history",
    ]
    .iter()
    .map(|sql| testbed.number(sql))
    .collect::<Result<_, _>>()?;
    let equal = sums.iter().all(|sum| *sum == sums[0]);
    report.bar("sums of balances and deltas", format!("{sums:?}"), json!(sums), "all equal", equal);
    Ok(())
}

/// Runs `load` on freshly loaded tables and reads what it did.
///
/// Without full-page images: how many there are follows from the number of transactions
/// since the checkpoint, and not from what one of them does.
fn work(testbed: &Testbed, load: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Work> {
    testbed.reload()?;
    testbed.execute("SELECT pg_stat_statements_reset(); SELECT pg_stat_reset()")?;
    testbed.full_page_writes(false)?;
    let lsn = "SELECT pg_current_wal_lsn() - '0/0'";
    let wal = testbed.number(lsn)?;
    load()?;
    let wal = testbed.number(lsn)? - wal;
    let transactions = testbed.number("SELECT count(*) FROM pgbench_history")?;
    testbed.full_page_writes(true)?;
    testbed.execute("SELECT pg_stat_force_next_flush()")?;
    let commits = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
    let commits = testbed.number(commits)? / transactions;
    let mut statements = [0.0; 5];
    for (calls, like) in statements.iter_mut().zip(STATEMENTS) {
        *calls = testbed
            .number(&format!(
                "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE query ILIKE '{like}'"
            ))
            .context("counting calls")?
            / transactions;
    }
    let hot_ratio = testbed.number(
        "SELECT sum(n_tup_hot_upd)::float8 / sum(n_tup_upd) FROM pg_stat_user_tables
         WHERE relname LIKE 'pgbench%'",
    )?;
    Ok(Work { transactions, commits, statements, wal_bytes: wal / transactions, hot_ratio })
}
