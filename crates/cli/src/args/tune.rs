//! Arguments of `walwright tune`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::load::{ClientArgs, WorkloadArgs, pair};
use super::{ViewArgs, VisitArgs, percent, seconds_or_time, some_time};

/// What a new tune is asked for, which one that goes on has been.
const OF_A_NEW_TUNE: [&str; 33] = [
    "objective",
    "workload",
    "file",
    "scale",
    "option",
    "define",
    "builtin",
    "no_vacuum",
    "clients",
    "threads",
    "ramp",
    "protocol",
    "lean",
    "max_tries",
    "connect",
    "on_error",
    "set",
    "pg",
    "pg_bin",
    "flush_latency",
    "tcp",
    "consent",
    "only",
    "client",
    "runs",
    "time",
    "duration",
    "warmup",
    "confirm_duration",
    "confirm_pairs",
    "worth",
    "allow_loss",
    "seed",
];

/// `walwright tune`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  walwright tune                                      tpcb, throughput, 60 measurements of 20 s
  walwright tune --set shared_buffers=16MB --for 2h   from a server set like this, what fits two hours
  walwright tune --objective p99@2500                 99th percentile at 2,500 transactions a second
  walwright tune --objective wal-bytes --allow-loss 5 WAL of a transaction, throughput within 5 %
  walwright tune --objective ':wal_bytes + 1e6 * :latency_p99'    a cost of your own; less is better
  walwright tune --consent synchronous_commit         let it weigh what may lose commits
  walwright tune --consent kernel --consent schema    also search values of the kernel, fill factors, indexes
  walwright tune --flush-latency 2ms --tcp            as on network storage, reached by TCP
  walwright tune --client                             also measure protocol, round trips, batches, pool size and a gateway
  walwright tune resume                               go on with one that was stopped or killed
  walwright tune --dsn postgres://me@db/app --maintenance    your server, from the settings it has,
                                                      which are restored after each run
  walwright tune promote --output config.env          write the configuration that was proven
Durability never falls below the baseline's without --consent; fsync and full_page_writes stay on.
Values of the kernel are restored after each run, also by `tune resume` after a kill; the schema is
changed in restored data alone, and what it came to is written as statements with their undoing.
Two measurements differ by noise alone: take windows long enough that a run repeats within a few
percent (walwright compare tells), and more measurements for more parameters."
)]
pub struct TuneArgs {
    /// What else to do with tunes.
    #[command(subcommand)]
    pub command: Option<TuneCommand>,
    /// What to tune.
    #[command(flatten)]
    pub new: NewTuneArgs,
    /// An older spelling of `tune resume`.
    #[arg(
        long,
        hide = true,
        value_name = "ID",
        num_args = 0..=1,
        default_missing_value = "latest",
        conflicts_with_all = OF_A_NEW_TUNE
    )]
    pub resume: Option<String>,
    /// An older spelling of `tune show`.
    #[arg(long, hide = true, value_name = "ID", num_args = 0..=1, default_missing_value = "latest", conflicts_with = "resume")]
    pub show: Option<String>,
    /// An older spelling of `tune list`.
    #[arg(long, hide = true, conflicts_with_all = ["resume", "show"])]
    pub list: bool,
    /// An older spelling of `tune delete`.
    #[arg(long, hide = true, value_name = "ID", conflicts_with_all = ["resume", "show", "list"])]
    pub delete: Option<String>,
}

/// What else there is to do with tunes.
#[derive(Debug, Subcommand)]
pub enum TuneCommand {
    /// Begin a tune; `run` may be left out.
    Run(Box<NewTuneArgs>),
    /// Go on, as it was begun, with a tune that was stopped or killed.
    Resume {
        /// A tune: `latest`, its name, or the beginning or end of the name.
        #[arg(default_value = "latest")]
        tune: String,
        /// A server of yours that it tunes.
        #[command(flatten)]
        visit: Box<VisitArgs>,
        /// How it is shown.
        #[command(flatten)]
        view: ViewArgs,
    },
    /// List the tunes of the lab.
    List,
    /// Show the result of a tune, finished or not.
    Show {
        /// A tune: `latest`, its name, or the beginning or end of the name.
        #[arg(default_value = "latest")]
        tune: String,
    },
    /// Delete a tune and the data it left; its records and its entry in the journal stay.
    #[command(alias = "rm")]
    Delete {
        /// Its name, or the beginning or end of it.
        tune: String,
    },
    /// Write the configuration that a tune proved, as config.env.
    Promote(PromoteArgs),
}

/// `walwright tune run`, which may be left out.
#[derive(Debug, Args)]
pub struct NewTuneArgs {
    /// What is to become better: throughput, pNN@RATE (any latency percentile at an offered rate,
    /// as p99@2500 or p99.95@2500), wal-bytes, the name of a figure, or a cost made of figures.
    #[arg(long, value_name = "WHAT", default_value = "throughput", help_heading = "What is tuned")]
    pub objective: String,
    /// What is run.
    #[command(flatten)]
    pub workload: WorkloadArgs,
    /// Client connections, 1 to 5000. The default is the workload's own.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=5000), help_heading = "How it is run")]
    pub clients: Option<u32>,
    /// What clients do.
    #[command(flatten)]
    pub driven: ClientArgs,
    /// A setting of the baseline, which is PostgreSQL's default otherwise. May be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, conflicts_with = "dsn", help_heading = "What is tuned")]
    pub set: Vec<(String, String)>,
    /// Major version of the PostgreSQL to fetch and start: 14 to 18.
    #[arg(
        long,
        value_name = "MAJOR",
        default_value = "18",
        conflicts_with = "dsn",
        help_heading = "What is tuned"
    )]
    pub pg: String,
    /// Directory of PostgreSQL binaries to use instead.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["pg", "dsn"], help_heading = "What is tuned")]
    pub pg_bin: Option<PathBuf>,
    /// Make every flush of the servers that are tuned take at least this long (0.1 to 10 ms are
    /// usual), also after the crash, so that a fast disk shows what network storage does.
    #[arg(long, value_name = "TIME", value_parser = some_time, conflicts_with = "dsn", help_heading = "What is tuned")]
    pub flush_latency: Option<Duration>,
    /// Reach the servers that are measured by TCP on 127.0.0.1 instead of their unix sockets.
    #[arg(long, conflicts_with = "dsn", help_heading = "What is tuned")]
    pub tcp: bool,

    /// Allow a setting that may lose committed data, by name; values of the kernel, by name or
    /// all that bear on writes as `kernel`; or `schema`. May be repeated.
    #[arg(long, value_name = "NAME", help_heading = "What may be changed")]
    pub consent: Vec<String>,
    /// Search these parameters, or layers (kernel, schema), and no others. May be repeated.
    #[arg(long, value_name = "NAME", help_heading = "What may be changed")]
    pub only: Vec<String>,
    /// Also measure options of the client: protocol, round trips, a gateway between, connections,
    /// several transactions in one commit. They are reported, not promoted, and take up to 28 runs
    /// more.
    #[arg(long, help_heading = "What may be changed")]
    pub client: bool,

    /// Measurements of the search, 8 or more; the confirmation takes 6 to 10 more, or up to twice
    /// --confirm-pairs where these leave open what is asked.
    #[arg(long, default_value_t = 60, value_name = "N", value_parser = clap::value_parser!(u32).range(8..=1000), help_heading = "How long")]
    pub runs: u32,
    /// Instead: as many as fit in this time, the first pairs of the confirmation included.
    #[arg(long = "for", value_name = "TIME", value_parser = some_time, conflicts_with = "runs", help_heading = "How long")]
    pub time: Option<Duration>,
    /// Length of each measured window.
    #[arg(short = 'T', long, default_value = "20s", value_name = "TIME", value_parser = seconds_or_time, help_heading = "How long")]
    pub duration: Duration,
    /// Load before each window. The default is a quarter of it, 1 to 10 s.
    #[arg(long, value_name = "TIME", value_parser = some_time, help_heading = "How long")]
    pub warmup: Option<Duration>,
    /// Length of each window of the confirmation. The default is twice that of a measurement. It
    /// begins with a checkpoint, where the role may request one, and another is requested near its
    /// end unless the server completed one by itself: what fewer checkpoints gain shows as far as
    /// windows are long.
    #[arg(long, value_name = "TIME", value_parser = some_time, help_heading = "How long")]
    pub confirm_duration: Option<Duration>,
    /// Pairs of baseline and winner that the confirmation ends with at the latest. Where three to
    /// five leave open whether there is a gain, or whether throughput is kept, twelve say by their
    /// spread how many settle it. The default is 40, but no more than --runs; with --for it is
    /// the first pairs alone.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(3..=1000), help_heading = "How long")]
    pub confirm_pairs: Option<u32>,
    /// Gain that is worth a change, in percent: where none of this size is left, configuration
    /// does not limit.
    #[arg(long, default_value_t = 100.0 * walwright_search::WORTH, value_name = "PERCENT", value_parser = percent, help_heading = "What is tuned")]
    pub worth: f64,
    /// Loss of throughput that is allowed, in percent, where it is to be kept: with wal-bytes, or a
    /// figure named without a rate. The default is 3.
    #[arg(long, value_name = "PERCENT", value_parser = percent, help_heading = "What is tuned")]
    pub allow_loss: Option<f64>,

    /// Seed of the search and of the load; drawn where not given.
    #[arg(long, value_name = "N", help_heading = "Everything else")]
    pub seed: Option<u64>,
    /// How it is shown.
    #[command(flatten)]
    pub view: ViewArgs,

    /// A server of yours to tune.
    #[command(flatten)]
    pub visit: VisitArgs,
}

/// `walwright tune promote`, and `walwright config promote`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  walwright tune promote                                   what the latest tune proved, into ./config.env
  walwright tune promote 20261121-0721 --output prod.env   of another tune, by the beginning of its name
The file holds each value with what proves it; `walwright config` checks, exports and applies it.")]
pub struct PromoteArgs {
    /// A tune: `latest`, its name, or the beginning or end of the name.
    #[arg(default_value = "latest", value_name = "TUNE")]
    pub tune: String,
    /// Where to write it.
    #[arg(short, long, default_value = "config.env", value_name = "FILE")]
    pub output: PathBuf,
    /// Replace the file where it is there already.
    #[arg(long)]
    pub force: bool,
}
