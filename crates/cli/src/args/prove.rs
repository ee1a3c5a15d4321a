//! Arguments of `walwright prove`.

use std::time::Duration;

use clap::Args;

use super::{ViewArgs, VisitArgs, seconds_or_time};

/// `walwright prove`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  walwright diagnose latest                  the findings of a run and what they advise
  walwright prove latest                     what can be proven of the run
  walwright prove latest D34                 try what D34 advises, beside the run as it was
  walwright prove latest D34 --plan          print the plan of that experiment instead
  walwright prove latest D3 --blocks 3       a first look: three blocks screen
The run is repeated as its command line says, so it must have been made by `walwright run`. One made
on a server of yours needs --dsn and --maintenance again.")]
pub struct ProveArgs {
    /// A run: its name, the beginning or end of it, or `latest`, the last that `walwright run` or
    /// `record` made.
    pub run: String,
    /// The finding: D1 to D59. Without it, what can be proven of the run is listed.
    pub finding: Option<walwright_diagnose::DiagnosisId>,
    /// Which one where there are several: part of what it is about (a table, a statement).
    #[arg(long, value_name = "TEXT")]
    pub subject: Option<String>,
    /// The action by its number. The default is the first that can be executed.
    #[arg(long, value_name = "N")]
    pub action: Option<usize>,
    /// Blocks. The default is the fewest that can prove.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=200))]
    pub blocks: Option<u32>,
    /// Length of the measured windows. The default is that of the run.
    #[arg(short = 'T', long, value_name = "TIME", value_parser = seconds_or_time)]
    pub duration: Option<Duration>,
    /// Allow what may lose committed data (a setting by name, or `unlogged`) or changes the kernel (a
    /// value by name, or `kernel`). May be repeated.
    #[arg(long, value_name = "NAME")]
    pub consent: Vec<String>,
    /// End at a planned look when it is clear.
    #[arg(long)]
    pub stop_when_clear: bool,
    /// Print the plan instead of doing it.
    #[arg(long)]
    pub plan: bool,
    /// The server of yours that the run was made on.
    #[command(flatten)]
    pub visit: VisitArgs,
    /// How it is shown.
    #[command(flatten)]
    pub view: ViewArgs,
}
