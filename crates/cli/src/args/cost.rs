//! Arguments of `walwright cost`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{load, some_time};

/// `walwright cost`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  walwright cost --example > prices.toml             a price file, to be filled in
  walwright cost --prices prices.toml                a million transactions of the last run
  walwright cost before after --prices prices.toml   and what the change saves
  walwright cost 20261120-101500-1a2b --prices prices.toml     each arm of an experiment
  walwright cost latest --prices prices.toml --instance db.example.xlarge --rate 800
  walwright run --processors 4 -l held; walwright cost before held --prices prices.toml …
                                                     whether an instance with 4 would do
The rate is what the runs measured on their machine, the prices are yours. That a cheaper instance
of the file would do is told only by runs whose server might use no more processors than it has.")]
pub struct CostArgs {
    /// Runs: `latest`, a name, a label, or an experiment, whose arms are told apart. The first is
    /// what the others are held against.
    #[arg(default_value = "latest", value_name = "RUN|LABEL|EXPERIMENT")]
    pub runs: Vec<String>,
    /// The price file.
    #[arg(long, value_name = "FILE", required_unless_present = "example")]
    pub prices: Option<PathBuf>,
    /// Print a commented price file and end.
    #[arg(long)]
    pub example: bool,
    /// The instance, by its SkuId, where the file has several.
    #[arg(long, value_name = "SKU")]
    pub instance: Option<String>,
    /// Transactions a second of the monthly cost. The default is all that is used of the measured
    /// rate.
    #[arg(short = 'R', long, value_name = "PER_SECOND", value_parser = load::rate)]
    pub rate: Option<f64>,
    /// Part of the measured rate that a server is to do, above 0 and at most 1. Of a rate that was
    /// offered all is used.
    #[arg(long, value_name = "PART", default_value = "0.7", value_parser = part)]
    pub utilisation: f64,
    /// Refuse runs whose p99 is above this.
    #[arg(long, value_name = "TIME", value_parser = some_time)]
    pub p99: Option<Duration>,
    /// Write the page to a file as well.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

fn part(text: &str) -> Result<f64, String> {
    let part: f64 = text.parse().map_err(|_| format!("{text} is no number"))?;
    if part > 0.0 && part <= 1.0 { Ok(part) } else { Err("is above 0 and at most 1".to_owned()) }
}
