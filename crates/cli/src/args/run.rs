//! Arguments of `walwright run`.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use walwright_driver::HttpServer;
use walwright_figures::limit::Limit;
use walwright_record::{LoadLevel, LoadStage};
use walwright_run::{MemorySize, WarmUp};
use walwright_server::Secret;

use super::load::{LoadArgs, WorkloadArgs, pair, rate, warm_up};
use super::{PoolWait, duration, limit, pool_wait, seconds_or_time, some_time};

/// What a power cut takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PowerCutLoses {
    /// All that was not flushed.
    All,
    /// Random pages of it.
    Random,
}

/// What has no meaning beside a power cut, whose load is its own and leaves no record.
const NOT_WITH_POWER_CUTS: [&str; 46] = [
    "http",
    "pool_wait",
    "requests",
    "timeout",
    "workload",
    "file",
    "builtin",
    "scale",
    "option",
    "define",
    "no_vacuum",
    "load_jobs",
    "dsn",
    "init",
    "replace",
    "tcp",
    "processors",
    "memory",
    "keep",
    "repeats",
    "duration",
    "transactions",
    "warmup",
    "stages",
    "rate",
    "gaps",
    "latency_limit",
    "think",
    "threads",
    "ramp",
    "protocol",
    "lean",
    "max_tries",
    "connect",
    "on_error",
    "gateway",
    "pooler",
    "waits",
    "storage_dir",
    "no_probe",
    "metrics",
    "label",
    "progress",
    "report_per_command",
    "fail_if",
    "all",
];

/// What has no meaning where an application is asked.
const NOT_WITH_HTTP: [&str; 22] = [
    "workload",
    "file",
    "builtin",
    "scale",
    "option",
    "no_vacuum",
    "load_jobs",
    "init",
    "replace",
    "pg",
    "pg_bin",
    "set",
    "keep",
    "tcp",
    "flush_latency",
    "processors",
    "memory",
    "protocol",
    "lean",
    "max_tries",
    "gateway",
    "pooler",
];

/// `walwright run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  walwright run --clients 64 --duration 2m           more clients, longer
  walwright run --clients 1,2,4,8,16,32 -T 30s       a sweep: where throughput peaks, and why there
  walwright run --fail-if 'p99 > 20ms'               exit code 4 when a limit is passed
  walwright run --rate 5000                          open loop: 5,000 transactions are due each second
  walwright run --stages 30s:100,1m:500              stages: 100 a second for 30 s, then 500 for a minute
  walwright run --lean                               one round trip a transaction, binary parameters
  walwright run --file a.sql@3 --file b.sql          your pgbench scripts, weighted 3 to 1
  walwright run --set shared_buffers=1GB --pg 16     another version and setting
  walwright run --power-cut-after 30s --set fsync=off       what a power cut would lose
  walwright run --http http://127.0.0.1:8090 --requests my.http    an application, by HTTP
  walwright run --dsn postgres://me@db/app --file my.sql    your server; nothing is created or changed
                                                     there but what the script does
Durations are written 500us, 20ms, 30s, 2m or 1h; -T 5 is seconds, as pgbench's.")]
pub struct RunArgs {
    /// What is run.
    #[command(flatten)]
    pub workload: WorkloadArgs,
    /// A file of requests for --http; `@N` gives its weight. May be repeated.
    ///
    /// A request is a method and a path, then header fields, an empty line and a body. Between
    /// requests stand \set, \if, \sleep and the like as in scripts; `\capture NAME json /id`,
    /// `header Location` or `status` keeps a part of the answer. `:name` and `{{expression}}` are
    /// values, encoded as their place wants it. One pass through a file is a transaction; a status
    /// of 400 or more fails it.
    #[arg(long, value_name = "FILE[@WEIGHT]", requires = "http", help_heading = "What is run")]
    pub requests: Vec<String>,
    /// Connections that copy the initial data. The default is half the processors, at most 8.
    #[arg(long, value_name = "N", help_heading = "What is run")]
    pub load_jobs: Option<usize>,

    /// Ask an application by HTTP/1.1 in place of a server: http://HOST:PORT. With --dsn the server
    /// behind it is sampled meanwhile.
    #[arg(long, value_name = "URL", value_parser = str::parse::<HttpServer>, requires = "requests", conflicts_with_all = NOT_WITH_HTTP, help_heading = "Where it is run")]
    pub http: Option<HttpServer>,
    /// Histogram or summary, in seconds, of how long requests wait for a session of the
    /// application's pool, at /metrics of --http or another address. It is a line of the latency
    /// breakdown.
    #[arg(long, value_name = "[URL#]NAME", value_parser = pool_wait, requires_all = ["http", "dsn"], help_heading = "What is seen")]
    pub pool_wait: Option<PoolWait>,
    /// Connection string of a server of yours: a URI or keywords. PG* variables and .pgpass count too; --dsn '' takes all from them.
    #[arg(long, value_name = "DSN", conflicts_with_all = ["pg", "pg_bin", "set", "keep", "tcp", "flush_latency", "processors", "memory"], help_heading = "Where it is run")]
    pub dsn: Option<Secret>,
    /// Let the workload create and fill its tables on the server of --dsn, and clean them before the run.
    #[arg(long, requires = "dsn", help_heading = "Where it is run")]
    pub init: bool,
    /// Table that --init may drop though walwright did not make it; may be repeated.
    #[arg(long, value_name = "TABLE", requires = "init", help_heading = "Where it is run")]
    pub replace: Vec<String>,
    /// Major version of the PostgreSQL to fetch and start: 14 to 18.
    #[arg(long, value_name = "MAJOR", default_value = "18", help_heading = "Where it is run")]
    pub pg: String,
    /// Directory of PostgreSQL binaries to use instead.
    #[arg(long, value_name = "DIR", conflicts_with = "pg", help_heading = "Where it is run")]
    pub pg_bin: Option<PathBuf>,
    /// A server setting for the embedded cluster. May be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, help_heading = "Where it is run")]
    pub set: Vec<(String, String)>,
    /// Make every flush of the embedded server take at least this long (0.1 to 10 ms are usual),
    /// so that a fast disk shows what network storage does.
    #[arg(long, value_name = "TIME", value_parser = some_time, help_heading = "Where it is run")]
    pub flush_latency: Option<Duration>,
    /// Hold the embedded server to the first N of the processors, as a smaller machine has, while
    /// the load may use all: `walwright cost` says so whether a smaller instance would do.
    #[arg(long, value_name = "N", help_heading = "Where it is run")]
    pub processors: Option<NonZeroU32>,
    /// Hold the embedded server to so much memory, its page cache included, by a control group
    /// (4GB; as root).
    #[arg(long, value_name = "SIZE", value_parser = str::parse::<MemorySize>, help_heading = "Where it is run")]
    pub memory: Option<MemorySize>,
    /// Reach the embedded cluster by TCP on 127.0.0.1 (with a password) instead of its unix socket.
    #[arg(long, help_heading = "Where it is run")]
    pub tcp: bool,
    /// Cut the embedded server's power after this much load, have it recover, and look for every
    /// acknowledged commit; exit code 4 when one is lost. The load is a ledger of its own, of
    /// --clients (8) that each commit number after number; nothing else of a run is measured.
    #[arg(long, value_name = "TIME", value_parser = some_time, conflicts_with_all = NOT_WITH_POWER_CUTS, help_heading = "Where it is run")]
    pub power_cut_after: Option<Duration>,
    /// What the power cut takes of what was written and not flushed: all, or random pages of 4 kB
    /// by --seed.
    #[arg(
        long,
        value_enum,
        value_name = "WHAT",
        default_value = "all",
        requires = "power_cut_after",
        help_heading = "Where it is run"
    )]
    pub power_cut_loses: PowerCutLoses,
    /// Keep the embedded cluster's directory after the run and say where it is.
    #[arg(long, help_heading = "Where it is run")]
    pub keep: bool,

    /// Client connections, 1 to 5000. The default is the workload's own. Several, such as
    /// 1,2,4,8,16,32, make a sweep: a run at each, from the same data and in random order, and
    /// the curve of throughput over clients fitted.
    #[arg(short, long, value_name = "N[,N…]", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=5000), help_heading = "How it is run")]
    pub clients: Vec<u32>,
    /// Runs at each of the client counts of a sweep.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100), help_heading = "How it is run")]
    pub repeats: u32,
    /// Length of the measured window.
    #[arg(short = 'T', long, default_value = "60s", value_name = "TIME", value_parser = seconds_or_time, help_heading = "How it is run")]
    pub duration: Duration,
    /// Transactions of each client, in place of a length; the run ends when all have done theirs,
    /// and all of it is measured unless --warmup says otherwise.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "duration", help_heading = "How it is run")]
    pub transactions: Option<u64>,
    /// Load before the window: a fixed time, or `auto` to find it on the throughput series.
    #[arg(long, default_value = "auto", value_name = "TIME|auto", value_parser = warm_up, help_heading = "How it is run")]
    pub warmup: WarmUp,
    /// Levels of load one after the other: LENGTH:RATE in an open loop, as 30s:100,1m:500, or
    /// LENGTH:CLIENTSc in a closed one, as 30s:4c,1m:16c. They are the whole run, without warm-up,
    /// and each has figures of its own.
    #[arg(long, value_name = "LENGTH:LEVEL,…", value_delimiter = ',', value_parser = stage, conflicts_with_all = ["duration", "transactions", "rate", "warmup", "ramp"], help_heading = "How it is run")]
    pub stages: Vec<LoadStage>,
    /// How it is driven.
    #[command(flatten)]
    pub load: LoadArgs,
    /// Longest time that an answer of --http may take; then it has failed. The default is 30 s.
    #[arg(long, value_name = "TIME", value_parser = some_time, requires = "http", help_heading = "How it is run")]
    pub timeout: Option<Duration>,
    /// Seed of the random numbers; the same seed gives the same transactions.
    #[arg(long, value_name = "N", help_heading = "How it is run")]
    pub seed: Option<u64>,

    /// Ticks of wait events a second, 1 to 100.
    #[arg(long, default_value_t = 10, value_name = "HZ", value_parser = clap::value_parser!(u32).range(1..=100), help_heading = "What is seen")]
    pub waits: u32,
    /// Directory to measure flush latency in before the run. The default is beside an embedded
    /// cluster; of a server of yours, name one on the disk of its WAL.
    #[arg(long, value_name = "DIR", help_heading = "What is seen")]
    pub storage_dir: Option<PathBuf>,
    /// Sample nothing during the run: no server, no host.
    #[arg(long, help_heading = "What is seen")]
    pub no_probe: bool,
    /// Address and port at which the load and what is seen of the server are served as metrics for
    /// Prometheus (/metrics) while the run goes on.
    #[arg(long, value_name = "ADDRESS", help_heading = "What is seen")]
    pub metrics: Option<SocketAddr>,
    /// Your own words for this run.
    #[arg(short, long, value_name = "TEXT", help_heading = "What is seen")]
    pub label: Option<String>,
    /// Print a line of progress every so many seconds, in place of the live view.
    #[arg(short = 'P', long, value_name = "SECS", value_parser = whole_seconds, conflicts_with = "quiet", help_heading = "What is seen")]
    pub progress: Option<Duration>,
    /// Print the latency of each statement at the end.
    #[arg(short, long, help_heading = "What is seen")]
    pub report_per_command: bool,
    /// Fail with exit code 4 when this holds, as 'p99 > 20ms' or 'tps < 5000'. May be repeated.
    ///
    /// Metrics are pN (any percentile of latency), max, mean, tps, failed_share and lag_pN; one
    /// that the run does not know fails it too.
    #[arg(long, value_name = "LIMIT", value_parser = limit, help_heading = "What is seen")]
    pub fail_if: Vec<Limit>,
    /// Show all warnings in the summary, however many.
    #[arg(long, help_heading = "What is seen")]
    pub all: bool,
    /// Plain lines instead of the live view.
    #[arg(long, help_heading = "What is seen")]
    pub plain: bool,
    /// Only the result.
    #[arg(short, long, help_heading = "What is seen")]
    pub quiet: bool,
}

impl RunArgs {
    /// Whether runs at several client counts, or several at one, are asked for.
    pub fn is_sweep(&self) -> bool {
        self.clients.len() > 1 || self.repeats > 1
    }
}

/// A stage of a load.
fn stage(text: &str) -> Result<LoadStage, String> {
    let wrong = || format!("'{text}' is not a stage: write 30s:100 for a rate, 30s:4c for clients");
    let (length, level) = text.split_once(':').ok_or_else(wrong)?;
    let length = duration(length)?;
    if length.is_zero() || length.subsec_nanos() != 0 {
        return Err(format!("'{text}': a stage lasts whole seconds"));
    }
    let level = match level.strip_suffix('c') {
        Some(clients) => match clients.parse() {
            Ok(clients @ 1..=5000) => LoadLevel::Clients(clients),
            _ => return Err(format!("'{text}': a stage has 1 to 5000 clients")),
        },
        None => LoadLevel::Rate(rate(level)?),
    };
    Ok(LoadStage { length, level })
}

/// Seconds of pgbench's -P.
fn whole_seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<u32>() {
        Ok(seconds) if seconds > 0 => Ok(Duration::from_secs(seconds.into())),
        _ => Err(format!("'{text}' is not a whole number of seconds above 0")),
    }
}
