//! Arguments of `walwright runs`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::RunName;

/// `walwright runs`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  walwright runs list                    every run of the lab
  walwright runs show                    the summary of the last one
  walwright runs export --series load    its throughput and latency second by second, as CSV
  walwright runs delete 20261121-0121    a run by the beginning or end of its name")]
pub struct RunsArgs {
    /// What to do with them; they are listed without it.
    #[command(subcommand)]
    pub command: Option<RunsCommand>,
}

/// What there is to do with recorded runs.
#[derive(Debug, Subcommand)]
pub enum RunsCommand {
    /// List the runs of the lab.
    List,
    /// Show the summary of a run, or the curve of a sweep.
    Show(RunName),
    /// Export a run: the whole as JSON, or one series as CSV.
    Export(ExportArgs),
    /// Delete runs and their reports.
    #[command(alias = "rm")]
    Delete(DeleteArgs),
}

/// `walwright runs export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Which run.
    #[command(flatten)]
    pub run: RunName,
    /// One series as CSV: `load`, or a source such as wal, io, waits, statements, disk.
    #[arg(long, value_name = "NAME")]
    pub series: Option<String>,
    /// List the series of the run.
    #[arg(long, conflicts_with = "series")]
    pub list: bool,
    /// Where to write it. The default is standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `walwright runs delete`.
#[derive(Debug, Args)]
pub struct DeleteArgs {
    /// Runs to delete.
    #[arg(required = true)]
    pub runs: Vec<String>,
}
