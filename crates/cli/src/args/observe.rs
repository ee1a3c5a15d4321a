//! Arguments of the commands that look at loads and runs which are there already.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use walwright_figures::limit::Limit;
use walwright_http::PageAddress;
use walwright_server::Secret;

use super::{PoolWait, duration, pool_wait_at_address, some_time};

/// `walwright record`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  walwright record --dsn postgres://me@db/app --for 2m       look on while others work
  walwright record --dsn … -- pgbench -c 16 -T 60 -P 1 app   as long as the command runs
  pgbench -c 16 -T 60 -P 1 app 2>&1 | walwright record --dsn … --client-log -
  walwright record --dsn … --app server.js --client-log run_stats_history.csv -- locust --headless …
  walwright record --add-to latest --client-log k6.csv       results that came later
Nothing is created or changed on the server. What a well-known load tool prints is read, and the
log that pgbench -l writes. Throughput is in server transactions (commits) a second, unless
results of the clients join. The exit code is the command's own, or 3 when stopped.")]
pub struct RecordArgs {
    /// Connection string of the server: a URI or keywords. PG* variables and .pgpass count too.
    #[arg(long, value_name = "DSN", help_heading = "What is watched")]
    pub dsn: Option<Secret>,
    /// Length of the record, where no command and no pipe gives it.
    #[arg(long = "for", value_name = "TIME", value_parser = some_time, required_unless_present_any = ["command", "add_to", "client_log"], conflicts_with = "command", help_heading = "What is watched")]
    pub time: Option<Duration>,
    /// Load at the beginning that is left out of the figures.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "0s", help_heading = "What is watched")]
    pub warmup: Duration,
    /// The command that makes the load, after `--`. It is ended when walwright is.
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,

    /// What the clients measured, read when the load has ended; `*` in the name stands for any
    /// letters, `-` is standard input. May be repeated.
    ///
    /// Recognised are logs of pgbench (-l, --aggregate-interval), k6 and JMeter CSV, BenchBase
    /// raw and results CSV, Locust _stats.csv, _stats_history.csv and _failures.csv, JSON of k6,
    /// autocannon, oha and BenchBase, what pgbench, sysbench, HammerDB, BenchBase, k6, oha, wrk,
    /// autocannon, Locust and JMeter print, and CSV with the columns time, operation, latency_ms
    /// (or _us, _s) and status.
    #[arg(long, value_name = "FILE", help_heading = "What the clients say")]
    pub client_log: Vec<PathBuf>,
    /// Format of these files, where it is not recognised: pgbench, pgbench-lag (made with --rate),
    /// pgbench-retries (with --max-tries), pgbench-aggregate, pgbench-summary, sysbench-summary,
    /// hammerdb, benchbase, benchbase-summary, benchbase-raw, benchbase-results, locust-stats,
    /// locust-history, locust-failures, locust-text, k6-csv, k6-summary, k6-text, autocannon,
    /// autocannon-table, oha, oha-json, wrk, jmeter, jmeter-summary or csv.
    #[arg(
        long,
        value_name = "FORMAT",
        requires = "client_log",
        help_heading = "What the clients say"
    )]
    pub client_log_format: Option<String>,
    /// Add the files to a run that was recorded before, instead of recording. They replace what
    /// it has of its clients where they tell more.
    #[arg(long, value_name = "RUN", requires = "client_log", conflicts_with_all = ["time", "command", "dsn"], help_heading = "What the clients say")]
    pub add_to: Option<String>,

    /// The application: name of its program or script, or PID. May be repeated.
    #[arg(long, value_name = "NAME|PID", help_heading = "Who is who on this machine")]
    pub app: Vec<String>,
    /// What generates the load. A command given here and well-known tools are recognised.
    #[arg(long, value_name = "NAME|PID", help_heading = "Who is who on this machine")]
    pub generator: Vec<String>,
    /// The pooler. Well-known ones are recognised.
    #[arg(long, value_name = "NAME|PID", help_heading = "Who is who on this machine")]
    pub pooler: Vec<String>,
    /// Where walwright's gateway before the server shows metrics, for how long it kept answers back:
    /// http://HOST:PORT/metrics. One that runs here is found by its command line.
    #[arg(long, value_name = "URL", help_heading = "Who is who on this machine")]
    pub gateway_metrics: Option<PageAddress>,
    /// Histogram or summary, in seconds, of how long requests wait for a session of the
    /// application's pool, and the page of metrics that has it.
    #[arg(long, value_name = "URL#NAME", value_parser = pool_wait_at_address, help_heading = "Who is who on this machine")]
    pub pool_wait: Option<PoolWait>,

    /// Ticks of wait events a second, 1 to 100.
    #[arg(long, default_value_t = 10, value_name = "HZ", value_parser = clap::value_parser!(u32).range(1..=100), help_heading = "What is seen")]
    pub waits: u32,
    /// Your own words for this record.
    #[arg(short, long, value_name = "TEXT", help_heading = "What is seen")]
    pub label: Option<String>,
    /// Show all warnings in the summary, however many.
    #[arg(long, help_heading = "What is seen")]
    pub all: bool,
    /// Plain lines instead of the live view. With a command they are always plain.
    #[arg(long, help_heading = "What is seen")]
    pub plain: bool,
    /// Only the result.
    #[arg(short, long, help_heading = "What is seen")]
    pub quiet: bool,
}

/// `walwright guard`.
#[derive(Debug, Args)]
pub struct GuardArgs {
    /// The process that wants the command.
    pub parent: u32,
    /// The file that says what the command left behind.
    pub report: PathBuf,
    /// The command.
    #[arg(last = true, required = true)]
    pub command: Vec<OsString>,
}

/// `walwright compare`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  walwright compare RUN1 RUN2                    one against one: the effect, which proves nothing
  walwright compare A1,A2,A3 B1,B2,B3            groups: intervals and tests
  walwright compare label:before label:after     all complete runs with these labels
  walwright compare A B --fail-if 'change(tps) < -5%'    exit code 4 when throughput fell by more
Runs that took turns in time (A1 B1 A2 B2 …) are compared pair by pair.")]
pub struct CompareArgs {
    /// The baseline: a run, several with commas between, a label (or label:TEXT), or the name of
    /// a sweep, experiment or tune, which mean all their complete runs.
    pub base: String,
    /// What is compared with it, each likewise.
    #[arg(required = true)]
    pub others: Vec<String>,
    /// Write a page with plots that lay the runs over each other.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// How it is printed.
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<ComparisonFormat>,
    /// Fail with exit code 4 when this holds for a run that is compared, as 'p99 > 20ms', or of
    /// its change against the baseline, as 'change(p99) > 5%'. May be repeated.
    #[arg(long, value_name = "LIMIT")]
    pub fail_if: Vec<Limit>,
    /// Tell every figure, also those that hardly differ.
    #[arg(long)]
    pub all: bool,
}

/// How a comparison is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ComparisonFormat {
    /// For a terminal.
    Text,
    /// For a ticket or a chat.
    Markdown,
    /// Every figure, one line for each group.
    Csv,
    /// The whole, as --json.
    Json,
}
