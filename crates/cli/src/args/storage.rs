//! `walwright storage`: what can be typed.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::{memory, some_time};

/// `walwright storage`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  walwright storage                                  the disk that embedded clusters lie on
  walwright storage --wal-dir /wal/tmp --data-dir /data/tmp --for 5s --size 20GB
  walwright storage show latest                      the last measurement again
  walwright storage list                             what was measured in this lab

It writes to files of its own, flushes them, and removes them. Measure while nothing else runs:
about 45 patterns of the time given with --for each, and the time to write the data file.
Every later run on the same file system is told how near it came to this ceiling."
)]
pub struct StorageArgs {
    /// What else to do than to measure.
    #[command(subcommand)]
    pub command: Option<StorageCommand>,
    /// A measurement.
    #[command(flatten)]
    pub measure: MeasureArgs,
}

/// A measurement.
#[derive(Debug, Args)]
pub struct MeasureArgs {
    /// Directory on the disk of the WAL. The default is where embedded clusters lie.
    #[arg(long, value_name = "DIR")]
    pub wal_dir: Option<PathBuf>,
    /// Directory on the disk of the data. The default is that of the WAL.
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Time given to each pattern. Disks that lend speed for a while need minutes.
    #[arg(long = "for", value_name = "TIME", default_value = "1s", value_parser = some_time)]
    pub each: Duration,
    /// Size of the data file, such as 20GB: more than the caches below hold. The default is
    /// 1 GB, or a quarter of what is free.
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    pub size: Option<u64>,
    /// No progress, only the result.
    #[arg(short, long)]
    pub quiet: bool,
}

/// What else there is.
#[derive(Debug, Subcommand)]
pub enum StorageCommand {
    /// List the measurements that are kept.
    List,
    /// Show a measurement again.
    Show {
        /// A measurement: `latest`, its name, or the beginning or end of the name.
        #[arg(default_value = "latest")]
        name: String,
        /// Write the page with plots to this file.
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
    },
}
