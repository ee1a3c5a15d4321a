//! What watching costs.

use std::process::ExitCode;

use clap::Parser;
use serde_json::json;
use walwright_bench::{Blocks, Measured, Options, Pgbench, Recording, Report, Testbed, Walwright};

/// Throughput of tpcb with the probe at its default rates against throughput without
/// it, on a saturated machine.
#[derive(Parser)]
struct Cli {
    /// Client connections.
    #[arg(long, default_value_t = 16)]
    clients: u32,
    /// The load is pgbench's, and `walwright record` watches it from beside.
    #[arg(long)]
    record: bool,
    #[command(flatten)]
    options: Options,
}

fn main() -> anyhow::Result<ExitCode> {
    let Cli { clients, record, options } = Cli::parse();
    let testbed = Testbed::start(options.scale, &[])?;
    let walwright = Walwright::find()?;
    let length = options.length();
    let run = |is_watched: bool| {
        testbed.settle()?;
        if !record {
            let extra: &[&str] = if is_watched { &[] } else { &["--no-probe"] };
            return walwright.tpcb(&testbed, clients, length, extra);
        }
        // Begun before the load: reading the schema and the settings costs too.
        let recording =
            is_watched.then(|| walwright.record_beside(&testbed, length)).transpose()?;
        let measured = Pgbench::tpcb(clients).run(&testbed, length)?;
        recording.map(Recording::finish).transpose()?;
        Ok(measured)
    };
    let mut blocks = Blocks::new();
    let without = blocks.add("without the probe", || run(false));
    let again = blocks.add("without, again", || run(false));
    let with = blocks.add("with the probe", || run(true));
    blocks.run(options.blocks)?;

    let rate = |m: &Measured| m.throughput;
    let noise = blocks.ratio(again, without, rate)?;
    // Both series without the probe are the same thing, so their mean is the baseline.
    let first = blocks.ratio(with, without, rate)?;
    let second = blocks.ratio(with, again, rate)?;
    let ratio = (first.center * second.center).sqrt();
    let (low, high) = ((first.low * second.low).sqrt(), (first.high * second.high).sqrt());
    let mut report = Report::new(&format!(
        "{}, scale {}, {clients} clients, {} blocks of {} s",
        if record { "pgbench's tpcb, recorded" } else { "tpcb" },
        options.scale,
        options.blocks,
        options.seconds
    ));
    report.figure("without / without", noise.to_string(), noise.json());
    report.at_most(
        "throughput lost to the probe",
        format!(
            "{:.2} % ({:.2} to {:.2} %)",
            (1.0 - ratio) * 100.0,
            (1.0 - high) * 100.0,
            (1.0 - low) * 100.0
        ),
        json!({ "ratio": ratio, "low": low, "high": high }),
        "<= 1 %",
        1.0,
        ((1.0 - high) * 100.0, (1.0 - low) * 100.0),
    );
    Ok(report.print(options.json))
}
