//! CPU of the load generator a `tpcb` transaction, against pgbench's.

use std::process::ExitCode;

use clap::Parser;
use serde_json::json;
use walwright_bench::{Blocks, Measured, Options, PIPELINED, Pgbench, Report, Testbed, Walwright};

/// CPU of the load generator a tpcb transaction on a unix socket, against pgbench
/// with prepared statements and against pgbench with its script in a pipeline.
#[derive(Parser)]
struct Cli {
    /// Client connections.
    #[arg(long, default_value_t = 16)]
    clients: u32,
    #[command(flatten)]
    options: Options,
}

fn main() -> anyhow::Result<ExitCode> {
    let Cli { clients, options } = Cli::parse();
    let testbed = Testbed::start(options.scale, &[])?;
    let walwright = Walwright::find()?;
    let directory = tempfile::tempdir()?;
    let script = directory.path().join("pipelined.sql");
    std::fs::write(&script, PIPELINED)?;

    let length = options.length();
    let settled = |run: &dyn Fn() -> anyhow::Result<Measured>| {
        testbed.settle()?;
        run()
    };
    let mut blocks = Blocks::new();
    let prepared = blocks
        .add("pgbench prepared", || settled(&|| Pgbench::tpcb(clients).run(&testbed, length)));
    let pipelined = blocks.add("pgbench pipelined", || {
        settled(&|| Pgbench::pipelined(clients, &script).run(&testbed, length))
    });
    let faithful = blocks.add("walwright faithful", || {
        settled(&|| walwright.tpcb(&testbed, clients, length, &["--no-probe"]))
    });
    let lean = blocks.add("walwright lean", || {
        settled(&|| walwright.tpcb(&testbed, clients, length, &["--no-probe", "--lean"]))
    });
    blocks.run(options.blocks)?;

    let cpu = |m: &Measured| m.cpu_us;
    let rate = |m: &Measured| m.throughput;
    let mut report = Report::new(&format!(
        "tpcb, scale {}, {clients} clients, unix socket, {} blocks of {} s",
        options.scale, options.blocks, options.seconds
    ));
    for contender in [prepared, pipelined, faithful, lean] {
        let name = blocks.name(contender).to_owned();
        let (us, per_second) = (blocks.median(contender, cpu), blocks.median(contender, rate));
        report.figure(
            &name,
            format!("{us:.1} us of CPU a transaction, {per_second:.0}/s (medians)"),
            json!({ "cpu_us": us, "throughput": per_second }),
        );
    }
    let ratio = blocks.ratio(faithful, prepared, cpu)?;
    report.bar(
        "CPU, faithful / pgbench prepared",
        ratio.to_string(),
        ratio.json(),
        "<= 0.75",
        ratio.center <= 0.75,
    );
    let ratio = blocks.ratio(lean, pipelined, cpu)?;
    report.bar(
        "CPU, lean / pgbench pipelined",
        ratio.to_string(),
        ratio.json(),
        "<= 0.6",
        ratio.center <= 0.6,
    );
    let ratio = blocks.ratio(lean, pipelined, rate)?;
    report.bar(
        "throughput, lean / pgbench pipelined",
        ratio.to_string(),
        ratio.json(),
        ">= 1.0",
        ratio.center >= 1.0,
    );
    Ok(report.print(options.json))
}
