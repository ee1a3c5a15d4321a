//! Arguments of `walwright run`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use walwright_figures::limit::Limit;
use walwright_record::{LoadLevel, LoadStage};
use walwright_server::Secret;
use walwright_workload::Workload;
use walwright_workload::script::parse_script_argument;

use super::{duration, limit, seconds_or_time, some_time};

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
  walwright run --dsn postgres://me@db/app --file my.sql    your server; nothing is created or changed
                                                     there but what the script does
Durations are written 500us, 20ms, 30s, 2m or 1h; -T 5 is seconds, as pgbench's.")]
pub struct RunArgs {
    /// A built-in workload (see `walwright workload list`) or a workload directory. The default
    /// is tpcb.
    #[arg(short, long, value_name = "NAME|DIR", help_heading = "What is run")]
    pub workload: Option<String>,
    /// A pgbench script; `@N` gives its weight. May be repeated.
    ///
    /// With --workload it runs on the tables and data of that workload, in place of its scripts.
    #[arg(short, long, value_name = "SCRIPT[@WEIGHT]", help_heading = "What is run")]
    pub file: Vec<String>,
    /// A built-in script of pgbench on its tables: tpcb-like, simple-update or select-only, or
    /// the beginning of such a name; `@N` gives its weight. May be repeated, and with --file.
    #[arg(short, long, value_name = "NAME[@WEIGHT]", value_parser = builtin_script, conflicts_with = "workload", help_heading = "What is run")]
    pub builtin: Vec<String>,
    /// Scale factor: how much data. The default is the workload's own.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "What is run")]
    pub scale: Option<u32>,
    /// An option of the workload, such as partial_index=off.
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = pair, help_heading = "What is run")]
    pub option: Vec<(String, String)>,
    /// A script variable, as pgbench -D.
    #[arg(short = 'D', long = "define", value_name = "NAME=VALUE", value_parser = pair, help_heading = "What is run")]
    pub define: Vec<(String, String)>,

    /// Leave out the VACUUM before the run.
    ///
    /// Without it, workloads on pgbench's tables vacuum branches and tellers before the run as
    /// pgbench does, on an embedded cluster and with --init. Other tables of a server of yours
    /// are never vacuumed, with this or without.
    #[arg(short, long, help_heading = "What is run")]
    pub no_vacuum: bool,

    /// Connections that copy the initial data. The default is half the processors, at most 8.
    #[arg(long, value_name = "N", help_heading = "What is run")]
    pub load_jobs: Option<usize>,

    /// Connection string of a server of yours: a URI or keywords. PG* variables and .pgpass count too; --dsn '' takes all from them.
    #[arg(long, value_name = "DSN", conflicts_with_all = ["pg", "pg_bin", "set", "keep", "tcp", "flush_latency"], help_heading = "Where it is run")]
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
    /// Reach the embedded cluster by TCP on 127.0.0.1 (with a password) instead of its unix socket.
    #[arg(long, help_heading = "Where it is run")]
    pub tcp: bool,
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
    /// Driver threads. The default is one for every 64 clients, at most one a processor.
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256), help_heading = "How it is run")]
    pub threads: Option<u32>,
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
    /// Open loop: this many transactions are due each second, over all clients.
    #[arg(short = 'R', long, value_name = "PER_SECOND", value_parser = rate, help_heading = "How it is run")]
    pub rate: Option<f64>,
    /// Levels of load one after the other: LENGTH:RATE in an open loop, as 30s:100,1m:500, or
    /// LENGTH:CLIENTSc in a closed one, as 30s:4c,1m:16c. They are the whole run, without warm-up,
    /// and each has figures of its own.
    #[arg(long, value_name = "LENGTH:LEVEL,…", value_delimiter = ',', value_parser = stage, conflicts_with_all = ["duration", "transactions", "rate", "warmup", "ramp"], help_heading = "How it is run")]
    pub stages: Vec<LoadStage>,
    /// Open loop: gaps between due times.
    #[arg(long, value_enum, default_value_t = Gaps::Poisson, help_heading = "How it is run")]
    pub gaps: Gaps,
    /// Open loop: skip a transaction that is later than this; count those that end later.
    #[arg(short = 'L', long, value_name = "TIME", value_parser = duration, requires = "rate", help_heading = "How it is run")]
    pub latency_limit: Option<Duration>,
    /// Closed loop: mean time a client waits between transactions (exponential).
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "rate", help_heading = "How it is run")]
    pub think: Option<Duration>,
    /// Start the clients evenly over this time.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "0s", help_heading = "How it is run")]
    pub ramp: Duration,
    /// Protocol. The default is the workload's own, mostly prepared.
    #[arg(short = 'M', long, value_enum, help_heading = "How it is run")]
    pub protocol: Option<Protocol>,
    /// Lean mode: binary parameters and a whole transaction in one round trip where the script allows.
    ///
    /// It changes the server's work too, so its figures do not compare with pgbench's. Without it, the same messages are sent as pgbench sends.
    #[arg(long, help_heading = "How it is run")]
    pub lean: bool,
    /// Tries a transaction has on serialization failure (40001) and deadlock (40P01); 0: without limit.
    #[arg(long, default_value_t = 1, value_name = "N", help_heading = "How it is run")]
    pub max_tries: u32,
    /// Open a new connection for each transaction. Opening it is timed apart and is no part of a
    /// latency, as in pgbench; with --rate, where latency counts from the due time, it is.
    #[arg(short = 'C', long, help_heading = "How it is run")]
    pub connect: bool,
    /// What follows an SQL error, a lost connection or an error of the script. Serialization
    /// failures and deadlocks (see --max-tries) are counted and end nothing.
    #[arg(long, value_enum, default_value_t = OnError::Continue, value_name = "WHAT", help_heading = "How it is run")]
    pub on_error: OnError,
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

/// How the warm-up ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarmUp {
    /// Found on the series.
    Auto,
    /// After this time.
    Fixed(Duration),
}

/// Gaps between due times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Gaps {
    /// Exponential, as of many independent users.
    Poisson,
    /// All the same.
    Even,
}

/// What follows an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnError {
    /// The transaction counts as failed, and the client goes on.
    Continue,
    /// The client ends, as pgbench's do.
    StopClient,
    /// The run ends.
    Stop,
}

/// Wire protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// Simple query: text with values in it.
    Simple,
    /// Parse, Bind and Execute each time.
    Extended,
    /// Parse once, Bind and Execute each time.
    Prepared,
}

/// A number of transactions a second.
pub(super) fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate),
        _ => Err(format!("'{text}' is not a number of transactions a second above 0")),
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

/// A built-in script, which must be one.
fn builtin_script(text: &str) -> Result<String, String> {
    let script = parse_script_argument(text).map_err(|error| error.to_string())?;
    Workload::from_builtin_scripts(&[script], &[]).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

pub(super) fn warm_up(text: &str) -> Result<WarmUp, String> {
    if text == "auto" { Ok(WarmUp::Auto) } else { duration(text).map(WarmUp::Fixed) }
}

pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(format!("'{text}' is not NAME=VALUE")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_need_a_name() {
        assert_eq!(pair("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(pair("=b").is_err());
        assert!(pair("a").is_err());
    }
}
