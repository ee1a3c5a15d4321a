//! What watching costs.

use std::process::ExitCode;

use clap::Parser;
use serde_json::json;
use walwright_bench::{Blocks, Measured, Options, Report, Testbed, Walwright};

/// Throughput of tpcb with the probe at its default rates against throughput without
/// it, on a saturated machine.
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
    let length = options.length();
    let run = |extra: &[&str]| {
        testbed.settle()?;
        walwright.tpcb(&testbed, clients, length, extra)
    };
    let mut blocks = Blocks::new();
    let without = blocks.add("without the probe", || run(&["--no-probe"]));
    let again = blocks.add("without, again", || run(&["--no-probe"]));
    let with = blocks.add("with the probe", || run(&[]));
    blocks.run(options.blocks)?;

    let rate = |m: &Measured| m.throughput;
    let noise = blocks.ratio(again, without, rate)?;
    // Both series without the probe are the same thing, so their mean is the baseline.
    let first = blocks.ratio(with, without, rate)?;
    let second = blocks.ratio(with, again, rate)?;
    let ratio = (first.center * second.center).sqrt();
    let (low, high) = ((first.low * second.low).sqrt(), (first.high * second.high).sqrt());
    let mut report = Report::new(&format!(
        "tpcb, scale {}, {clients} clients, {} blocks of {} s",
        options.scale, options.blocks, options.seconds
    ));
    report.figure("without / without", noise.to_string(), noise.json());
    report.bar(
        "throughput lost to the probe",
        format!(
            "{:.2} % ({:.2} to {:.2} %)",
            (1.0 - ratio) * 100.0,
            (1.0 - high) * 100.0,
            (1.0 - low) * 100.0
        ),
        json!({ "ratio": ratio, "low": low, "high": high }),
        "<= 1 %",
        ratio >= 0.99,
    );
    Ok(report.print(options.json))
}
