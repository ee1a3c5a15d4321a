//! Whether faithful mode does to the server what pgbench does.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::Parser;
use serde_json::json;
use walwright_bench::{Bed, Blocks, Measured, Options, Pgbench, Ratio, Report, Walwright};

/// Faithful tpcb against pgbench -M prepared on one server: throughput at 1 and 16
/// clients beside the difference of pgbench with itself, and what one transaction
/// does there: calls of each statement, WAL bytes, HOT ratio, sums of balances.
#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

/// What one transaction did to the server.
#[derive(Debug, Clone, Copy)]
struct Work {
    statements: [f64; 7],
    wal_bytes: f64,
    hot_ratio: f64,
}

/// Beginnings of the seven statements, as pg_stat_statements keeps them.
const STATEMENTS: [&str; 7] = [
    "BEGIN%",
    "UPDATE pgbench_accounts%",
    "SELECT abalance%",
    "UPDATE pgbench_tellers%",
    "UPDATE pgbench_branches%",
    "INSERT INTO pgbench_history%",
    "END%",
];

fn main() -> anyhow::Result<ExitCode> {
    let Cli { options } = Cli::parse();
    let bed = Bed::start(options.scale, &[])?;
    let walwright = Walwright::find()?;
    let mut report = Report::new(&format!(
        "tpcb, scale {}, prepared, unix socket, one driver thread, {} blocks of {} s",
        options.scale, options.blocks, options.seconds
    ));
    for clients in [1, 16] {
        throughput(&bed, &walwright, clients, &options, &mut report)?;
    }
    same_work(&bed, &walwright, options.length(), &mut report)?;
    Ok(report.print(options.json))
}

fn throughput(
    bed: &Bed,
    walwright: &Walwright,
    clients: u32,
    options: &Options,
    report: &mut Report,
) -> anyhow::Result<()> {
    let length = options.length();
    let mut blocks = Blocks::new();
    let pgbench = || {
        bed.settle()?;
        Pgbench::tpcb(clients).run(bed, length)
    };
    let first = blocks.add("pgbench", pgbench);
    let again = blocks.add("pgbench again", pgbench);
    let ours = blocks.add("walwright", || {
        bed.settle()?;
        walwright.tpcb(bed, clients, length, &["--no-probe"])
    });
    blocks.run(options.blocks)?;
    let rate = |m: &Measured| m.throughput;
    let noise = blocks.ratio(again, first, rate)?;
    let ratio = blocks.ratio(ours, first, rate)?;
    report.figure(
        &format!("{clients} clients: pgbench / pgbench"),
        format!("{noise}, median {:.0}/s", blocks.median(first, rate)),
        noise.json(),
    );
    report.bar(
        &format!("{clients} clients: walwright / pgbench"),
        format!("{ratio}, median {:.0}/s", blocks.median(ours, rate)),
        ratio.json(),
        "equal within the noise",
        equal_within_noise(ratio, noise),
    );
    Ok(())
}

/// Whether the difference is no larger than what pgbench shows against itself, or
/// its interval covers no difference at all.
fn equal_within_noise(ratio: Ratio, noise: Ratio) -> bool {
    let floor = (noise.low - 1.0).abs().max((noise.high - 1.0).abs());
    (ratio.center - 1.0).abs() <= floor || (ratio.low <= 1.0 && 1.0 <= ratio.high)
}

fn same_work(
    bed: &Bed,
    walwright: &Walwright,
    length: Duration,
    report: &mut Report,
) -> anyhow::Result<()> {
    let theirs = work(bed, || Pgbench::tpcb(16).run(bed, length).map(drop))?;
    let ours = work(bed, || walwright.tpcb(bed, 16, length, &["--no-probe"]).map(drop))?;
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
    .map(|sql| bed.number(sql))
    .collect::<Result<_, _>>()?;
    let equal = sums.iter().all(|sum| *sum == sums[0]);
    report.bar("sums of balances and deltas", format!("{sums:?}"), json!(sums), "all equal", equal);
    Ok(())
}

/// Runs `load` on freshly loaded tables and reads what it did.
fn work(bed: &Bed, load: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Work> {
    bed.reload()?;
    bed.execute("SELECT pg_stat_statements_reset(); SELECT pg_stat_reset()")?;
    let lsn = "SELECT pg_current_wal_lsn() - '0/0'";
    let wal = bed.number(lsn)?;
    load()?;
    let wal = bed.number(lsn)? - wal;
    let transactions = bed.number("SELECT count(*) FROM pgbench_history")?;
    let mut statements = [0.0; 7];
    for (calls, like) in statements.iter_mut().zip(STATEMENTS) {
        *calls = bed
            .number(&format!(
                "SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE query ILIKE '{like}'"
            ))
            .context("counting calls")?
            / transactions;
    }
    bed.execute("SELECT pg_stat_force_next_flush()")?;
    let hot_ratio = bed.number(
        "SELECT sum(n_tup_hot_upd)::float8 / sum(n_tup_upd) FROM pg_stat_user_tables
         WHERE relname LIKE 'pgbench%'",
    )?;
    Ok(Work { statements, wal_bytes: wal / transactions, hot_ratio })
}
