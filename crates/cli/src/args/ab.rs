//! Arguments of `walwright ab`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use walwright_run::WarmUp;

use super::load::{LoadArgs, WorkloadArgs, pair, warm_up};
use super::{ViewArgs, VisitArgs, seconds_or_time, some_time};

/// `walwright ab`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  walwright ab --set work_mem=1MB --set work_mem=64MB        A is the first, B the second
  walwright ab --set commit_delay=0 --set commit_delay=500 -c 32 -T 30s --pairs 10
  walwright ab --a jit=off --a work_mem=1MB --b jit=on       several settings on a side
  walwright ab --set load.pooler=none --set load.pooler=gateway -c 64
  walwright ab --set jit=off --set jit=on --dsn postgres://me@db/app --maintenance
load.NAME is an option of the load, as a plan has it under [load]; all else are server settings.
Each pair runs A twice and B once, in random order, each from the same restored data: A against
itself tells what is noise. With --rate mean latency is judged, else throughput. It is an
experiment: `walwright experiment list|show|resume` has it.")]
pub struct AbArgs {
    /// A setting to compare, or an option of the load as load.NAME: the first is A's, the second
    /// B's.
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, conflicts_with_all = ["a", "b"], required_unless_present_any = ["a", "b"], help_heading = "What is compared")]
    pub set: Vec<(String, String)>,
    /// A setting of A. May be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, requires = "b", help_heading = "What is compared")]
    pub a: Vec<(String, String)>,
    /// A setting of B. May be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, requires = "a", help_heading = "What is compared")]
    pub b: Vec<(String, String)>,
    /// Pairs. The default is the fewest that can prove a difference.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=200), help_heading = "What is compared")]
    pub pairs: Option<u32>,
    /// End at a planned look when it is clear.
    #[arg(long, help_heading = "What is compared")]
    pub stop_when_clear: bool,
    /// Allow a setting that may lose committed data, by name. May be repeated.
    #[arg(long, value_name = "NAME", help_heading = "What is compared")]
    pub consent: Vec<String>,
    /// Begin anew though the same comparison is unfinished.
    #[arg(long, help_heading = "What is compared")]
    pub new: bool,
    /// Print the plan of the experiment instead of doing it.
    #[arg(long, help_heading = "What is compared")]
    pub plan: bool,
    /// How it is shown.
    #[command(flatten)]
    pub view: ViewArgs,

    /// What is run.
    #[command(flatten)]
    pub workload: WorkloadArgs,
    /// Major version of the PostgreSQL to fetch and start: 14 to 18.
    #[arg(long, value_name = "MAJOR", conflicts_with = "dsn", help_heading = "What is run")]
    pub pg: Option<String>,
    /// Directory of PostgreSQL binaries to use instead.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["pg", "dsn"], help_heading = "What is run")]
    pub pg_bin: Option<PathBuf>,
    /// Make every flush take at least this long, so that a fast disk shows what network storage
    /// does.
    #[arg(long, value_name = "TIME", value_parser = some_time, conflicts_with = "dsn", help_heading = "What is run")]
    pub flush_latency: Option<Duration>,
    /// Reach the embedded cluster by TCP on 127.0.0.1 instead of its unix socket.
    #[arg(long, conflicts_with = "dsn", help_heading = "What is run")]
    pub tcp: bool,

    /// Client connections. The default is the workload's own.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=5000), help_heading = "How it is run")]
    pub clients: Option<u32>,
    /// Length of each measured window.
    #[arg(short = 'T', long, default_value = "30s", value_name = "TIME", value_parser = seconds_or_time, help_heading = "How it is run")]
    pub duration: Duration,
    /// Load before each window: a fixed time, or `auto` to find it on the throughput series.
    #[arg(long, default_value = "5s", value_name = "TIME|auto", value_parser = warm_up, help_heading = "How it is run")]
    pub warmup: WarmUp,
    /// How it is driven. In an open loop mean latency is judged.
    #[command(flatten)]
    pub load: LoadArgs,
    /// Seed of the order of runs and of the random numbers.
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "How it is run")]
    pub seed: u64,

    /// A server of yours to run on.
    #[command(flatten)]
    pub visit: VisitArgs,
}
