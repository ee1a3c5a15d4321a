//! The command line: what can be typed, and what `--help` teaches.

mod experiment;
mod observe;
mod prove;

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};

pub use experiment::{ExperimentArgs, ExperimentCommand};
pub use observe::{CompareArgs, GuardArgs, RecordArgs};
pub use prove::ProveArgs;

/// Shown under `walwright --help`.
const EXAMPLES: &str = "\
Start here:
  walwright run                        a measured run on a fresh PostgreSQL 18, from nothing
  walwright run --file my.sql          your own pgbench script
  walwright show latest                the summary of the last run again

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the run was interrupted or lost its server,
4 a check of the workload failed.";

/// A performance lab for write-heavy PostgreSQL.
///
/// walwright drives a workload against a server, shows where the time of a commit
/// goes, and keeps the record.
#[derive(Debug, Parser)]
#[command(name = "walwright", version, after_help = EXAMPLES, max_term_width = 100)]
pub struct Cli {
    /// Directory of records and reports. The default is ~/.local/share/walwright.
    #[arg(
        long,
        env = "WALWRIGHT_LAB",
        global = true,
        value_name = "DIR",
        // An empty variable is as good as none.
        value_parser = OsStringValueParser::new().map(PathBuf::from),
        help_heading = "Everywhere"
    )]
    pub lab: Option<PathBuf>,

    /// Print results as JSON on standard output; progress stays on standard error.
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub json: bool,

    /// When to use colours. NO_COLOR in the environment switches them off too.
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, value_name = "WHEN", help_heading = "Everywhere")]
    pub color: Colour,

    /// Say more about what is done: -v steps, -vv details.
    #[arg(short, long, global = true, action = clap::ArgAction::Count, help_heading = "Everywhere")]
    pub verbose: u8,

    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// When output is coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a workload: prepare a server, load data, drive load, measure, record, report.
    Run(Box<RunArgs>),
    /// Record a load that others make: sample a server for a time, or while a command runs.
    Record(Box<RecordArgs>),
    /// Compare runs: what changed, by how much, and what it may be due to.
    Compare(CompareArgs),
    /// Do an experiment: arms against a baseline, in blocks of runs from the same data.
    Experiment(Box<ExperimentArgs>),
    /// Prove a finding: try what it advises beside the run as it was.
    Prove(Box<ProveArgs>),
    /// List the runs of the lab.
    #[command(visible_alias = "list")]
    Runs,
    /// Show the summary of a run again.
    Show(RunName),
    /// Say what holds a run back: causes, what each costs, what fixing it can gain, what to type.
    Diagnose(DiagnoseArgs),
    /// Show a commit's way on one page: flushes, waits, WAL, what commit_delay could do.
    Commit(RunName),
    /// Write the HTML report of a run again.
    Report(ReportArgs),
    /// Review settings: of a configuration file, a server, or a run.
    ///
    /// Each setting that bears on writes: its value, what it should be on this machine and
    /// under this load, why, and what a change takes and can lose.
    Review(ReviewArgs),
    /// Export a run: the whole as JSON, or one series as CSV.
    Export(ExportArgs),
    /// Delete runs and their reports.
    #[command(visible_alias = "rm")]
    Delete(DeleteArgs),
    /// PostgreSQL installs: list, install, check what this machine lacks.
    #[command(subcommand)]
    Pg(PgCommand),
    /// Workloads: list, show, copy one to edit it.
    #[command(subcommand)]
    Workload(WorkloadCommand),
    /// Measure how many transactions a second the load driver itself can do here.
    ///
    /// Every statement is answered at once by a server inside this process, so what is left is
    /// the driver. A run warns when it comes near this ceiling; the figures are kept in the lab.
    Calibrate(CalibrateArgs),
    /// Print a completion script for a shell.
    ///
    /// For bash: walwright completion bash > ~/.local/share/bash-completion/completions/walwright
    Completion {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Start a command and end it when the process that wants it ends.
    #[command(hide = true)]
    Guard(GuardArgs),
}

/// Names a run.
#[derive(Debug, Args)]
pub struct RunName {
    /// A run: `latest`, its name, or the beginning or end of the name.
    #[arg(default_value = "latest")]
    pub run: String,
}

/// `walwright diagnose`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  walwright diagnose                     the last run
  walwright diagnose 20261121-0121       a run by the beginning or end of its name
  walwright diagnose --explain D34       what a diagnosis is and how it is derived")]
pub struct DiagnoseArgs {
    /// A run: `latest`, its name, or the beginning or end of the name.
    #[arg(default_value = "latest")]
    pub run: String,
    /// Teach one diagnosis, D1 to D59: what it is, how it is derived, what would disprove it.
    #[arg(long, value_name = "ID", conflicts_with = "run")]
    pub explain: Option<walwright_diagnose::DiagnosisId>,
}

/// `walwright run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  walwright run --clients 64 --duration 2m           more clients, longer
  walwright run --rate 5000                          open loop: 5,000 transactions are due each second
  walwright run --lean                               one round trip a transaction, binary parameters
  walwright run --file a.sql@3 --file b.sql          your pgbench scripts, weighted 3 to 1
  walwright run --set shared_buffers=1GB --pg 16     another version and setting
  walwright run --dsn postgres://me@db/app --file my.sql    your server; nothing is created or changed
                                                     there but what the script does
Durations are written 500us, 20ms, 30s, 2m or 1h.")]
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
    /// Scale factor: how much data. The default is the workload's own.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "What is run")]
    pub scale: Option<u32>,
    /// An option of the workload, such as partial_index=off.
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = pair, help_heading = "What is run")]
    pub option: Vec<(String, String)>,
    /// A script variable, as pgbench -D.
    #[arg(short = 'D', long = "define", value_name = "NAME=VALUE", value_parser = pair, help_heading = "What is run")]
    pub define: Vec<(String, String)>,

    /// Connections that copy the initial data. The default is half the processors, at most 8.
    #[arg(long, value_name = "N", help_heading = "What is run")]
    pub load_jobs: Option<usize>,

    /// Connection string of a server of yours: a URI or keywords. PG* variables and .pgpass count too; --dsn '' takes all from them.
    #[arg(long, value_name = "DSN", conflicts_with_all = ["pg", "pg_bin", "set", "keep", "tcp", "flush_latency"], help_heading = "Where it is run")]
    pub dsn: Option<String>,
    /// Let the workload create and fill its tables on the server of --dsn, and clean them before the run.
    #[arg(long, requires = "dsn", help_heading = "Where it is run")]
    pub init: bool,
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

    /// Client connections, 1 to 5000. The default is the workload's own.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=5000), help_heading = "How it is run")]
    pub clients: Option<u32>,
    /// Driver threads. The default is one for every 64 clients, at most one a processor.
    #[arg(short = 'j', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256), help_heading = "How it is run")]
    pub threads: Option<u32>,
    /// Length of the measured window.
    #[arg(short = 'T', long, default_value = "60s", value_name = "TIME", value_parser = some_time, help_heading = "How it is run")]
    pub duration: Duration,
    /// Load before the window: a fixed time, or `auto` to find it on the throughput series.
    #[arg(long, default_value = "auto", value_name = "TIME|auto", value_parser = warm_up, help_heading = "How it is run")]
    pub warmup: WarmUp,
    /// Open loop: this many transactions are due each second, over all clients.
    #[arg(short = 'R', long, value_name = "PER_SECOND", value_parser = rate, help_heading = "How it is run")]
    pub rate: Option<f64>,
    /// Open loop: gaps between due times.
    #[arg(long, value_enum, default_value_t = Gaps::Poisson, requires = "rate", help_heading = "How it is run")]
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
    /// Plain lines instead of the live view.
    #[arg(long, help_heading = "What is seen")]
    pub plain: bool,
    /// Only the result.
    #[arg(short, long, help_heading = "What is seen")]
    pub quiet: bool,
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

/// `walwright report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Which run.
    #[command(flatten)]
    pub run: RunName,
    /// Where to write it. The default is the lab's `reports` directory.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// A summary in Markdown instead of the HTML page.
    #[arg(long)]
    pub markdown: bool,
}

/// `walwright review`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  walwright review                                   the settings of the last run, judged by its load
  walwright review /etc/postgresql/18/main/postgresql.conf
  walwright review postgresql.conf --run latest --memory 64GB --processors 16
  walwright review --dsn postgres://me@db/app        a server of yours; nothing is changed there")]
pub struct ReviewArgs {
    /// A configuration file, or a run: `latest`, its name, or the beginning or end of the name.
    #[arg(value_name = "FILE|RUN", conflicts_with = "dsn")]
    pub subject: Option<String>,
    /// Connection string of a server of yours: a URI or keywords.
    #[arg(long, value_name = "DSN")]
    pub dsn: Option<String>,
    /// Judge by the load of this run.
    #[arg(long, value_name = "RUN")]
    pub run: Option<String>,
    /// Major version that a file is for. The default is that of its data directory, else 18.
    #[arg(long, value_name = "MAJOR", value_parser = clap::value_parser!(u32).range(14..=18), conflicts_with = "dsn")]
    pub pg: Option<u32>,
    /// Memory of the server's machine, such as 64GB. The default is this machine's, where the
    /// server is here or only a file is known.
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    pub memory: Option<u64>,
    /// Its processors.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub processors: Option<u32>,
    /// Show also what is fine.
    #[arg(long)]
    pub all: bool,
}

/// `walwright export`.
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

/// `walwright delete`.
#[derive(Debug, Args)]
pub struct DeleteArgs {
    /// Runs to delete.
    #[arg(required = true)]
    pub runs: Vec<String>,
}

/// `walwright pg`.
#[derive(Debug, Subcommand)]
pub enum PgCommand {
    /// List the installs that can be used: fetched, on the system, and what can be fetched.
    List,
    /// Fetch PostgreSQL binaries.
    Install {
        /// Major versions: 14 to 18.
        #[arg(default_value = "18")]
        majors: Vec<String>,
    },
    /// Check this machine: libraries, fetching tools, users, disks. Names the package that brings what is missing.
    Doctor,
}

/// `walwright workload`.
#[derive(Debug, Subcommand)]
pub enum WorkloadCommand {
    /// List the built-in workloads.
    List,
    /// Show what a workload does: schema, data, scripts, checks.
    Show {
        /// A built-in workload or a directory.
        workload: String,
    },
    /// Copy a built-in workload to a directory, to be edited and run with --workload DIR.
    Export {
        /// A built-in workload.
        workload: String,
        /// The new directory.
        directory: PathBuf,
    },
}

/// `walwright calibrate`.
#[derive(Debug, Args)]
pub struct CalibrateArgs {
    /// A built-in workload or a workload directory.
    #[arg(short, long, default_value = "tpcb", value_name = "NAME|DIR")]
    pub workload: String,
}

/// The longest time that can be chosen.
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// Parses `500us`, `20ms`, `30s`, `2m`, `1h`; a bare number means seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let number: f64 = number
        .trim()
        .parse()
        .map_err(|_| format!("'{text}' is not a time: write 30s, 20ms or 2m"))?;
    let seconds = match unit {
        "us" => number / 1e6,
        "ms" => number / 1e3,
        "" | "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(format!("'{unit}' is not a unit of time: us, ms, s, m or h")),
    };
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if time <= LONGEST => Ok(time),
        _ => Err(format!("'{text}' is not a time that can be waited for; a year at most")),
    }
}

/// Parses `64GB`, `512MB`, `1.5TB`, as bytes.
fn memory(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a size of memory: write 64GB or 512MB");
    let split = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(split);
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    let unit: f64 = match unit {
        "MB" | "M" => 1_048_576.0,
        "GB" | "G" => 1_073_741_824.0,
        "TB" | "T" => 1_099_511_627_776.0,
        _ => return Err(wrong()),
    };
    let bytes = number * unit;
    if (1_048_576.0..1e18).contains(&bytes) { Ok(bytes as u64) } else { Err(wrong()) }
}

/// A duration that is not zero.
fn some_time(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("nothing can be measured in no time".to_owned()),
        time => Ok(time),
    }
}

/// A number of transactions a second.
fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate),
        _ => Err(format!("'{text}' is not a number of transactions a second above 0")),
    }
}

fn warm_up(text: &str) -> Result<WarmUp, String> {
    if text == "auto" { Ok(WarmUp::Auto) } else { duration(text).map(WarmUp::Fixed) }
}

fn pair(text: &str) -> Result<(String, String), String> {
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
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("500us"), Ok(Duration::from_micros(500)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("7"), Ok(Duration::from_secs(7)));
        for wrong in ["", "s", "5 weeks", "-1s", "1e999s", "1e12h", "nan"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn memory_has_a_unit() {
        assert_eq!(memory("1.5GB"), Ok(1_610_612_736));
        for wrong in ["", "64", "GB", "-1GB", "1e30TB", "5 parsecs", "0MB"] {
            assert!(memory(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn pairs_need_a_name() {
        assert_eq!(pair("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(pair("=b").is_err());
        assert!(pair("a").is_err());
    }
}
