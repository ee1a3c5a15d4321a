//! The command line: what can be typed, and what `--help` teaches.

mod ab;
mod config;
mod cost;
mod documents;
mod experiment;
mod gateway;
mod ingest;
mod journal;
mod load;
mod observe;
mod pool_wait;
mod prove;
mod run;
mod runs;
mod serve;
mod storage;
mod tune;
mod values;
mod view;
mod visit;
mod watch;

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use walwright_server::Secret;

pub use ab::AbArgs;
pub use config::{
    ApplyArgs, CheckArgs, ConfigCommand, ConfigExportArgs, ExplainArgs, ImportArgs, ListArgs,
    RollbackArgs,
};
pub use cost::CostArgs;
pub use documents::{
    DocumentsCommand, IsolationChoice, LocksChoice, ResetChoice, ServeDocumentsArgs, ShapeChoice,
};
pub use experiment::{ExperimentArgs, ExperimentCommand, NewExperimentArgs};
pub use gateway::{
    AuthChoice, GatewayArgs, GatewayCheckArgs, GatewayCommand, GatewayImportArgs, GatewayRunArgs,
    LogFormat, TopArgs,
};
pub use ingest::{ConflictChoice, DurabilityChoice, FormatChoice, IngestArgs};
pub use journal::{AddArgs, ExportJournalArgs, JournalArgs, JournalCommand};
pub use observe::{CompareArgs, ComparisonFormat, GuardArgs, RecordArgs};
use pool_wait::{PoolWait, pool_wait, pool_wait_at_address};
pub use prove::ProveArgs;
pub use run::{PowerCutLoses, RunArgs};
pub use runs::{
    DeleteArgs, ExportArgs, LabelArgs, Moment, NoteArgs, RunFilter, RunsArgs, RunsCommand, ShowArgs,
};
pub use serve::ServeArgs;
pub use storage::{MeasureArgs, StorageArgs, StorageCommand};
pub use tune::{NewTuneArgs, PromoteArgs, TuneArgs, TuneCommand};
use values::{duration, limit, memory, percent, seconds_or_time, some_time};
pub use view::ViewArgs;
pub use visit::VisitArgs;
pub use watch::{WatchArgs, WatchCommand, WatchReportArgs};

/// Shown under `walwright --help`.
const EXAMPLES: &str = "\
Start here:
  walwright run                        a measured run on a fresh PostgreSQL 18, from nothing
  walwright run --file my.sql          your own pgbench script
  walwright runs show                  the summary of the last run again

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 the run was interrupted, or its server lost
or restarted, 4 a check failed (of the workload, or config check),
a pass mark was missed, a quarter or more of the transactions failed, or what --fail-if says
holds, 5 done, but on a server of yours something that others changed meanwhile was left as they
made it.";

/// A performance lab for write-heavy PostgreSQL.
///
/// walwright drives a workload against a server, shows where the time of a commit
/// goes, and keeps the record.
#[derive(Debug, Parser)]
#[command(name = "walwright", version, after_help = EXAMPLES, max_term_width = 100)]
pub struct Cli {
    /// Directory of all that is kept: records, reports, experiments, tunes, the journal, the ledger
    /// of changes. The default is ~/.local/share/walwright.
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
    /// Watch a server for days: metrics, findings as events, alerts.
    Watch(Box<WatchArgs>),
    /// Compare runs: what changed, by how much, and what it may be due to.
    Compare(CompareArgs),
    /// Experiments: run, list, show, delete. Arms against a baseline, in blocks of runs.
    Experiment(Box<ExperimentArgs>),
    /// Compare two settings: interleaved pairs of runs, and which is faster.
    Ab(Box<AbArgs>),
    /// Prove a finding: try what it advises beside the run as it was.
    Prove(Box<ProveArgs>),
    /// Look for a better configuration and prove it, or say that configuration does not limit.
    Tune(Box<TuneArgs>),
    /// Recorded runs: list, show, export, delete.
    Runs(Box<RunsArgs>),
    /// Say what holds a run back: causes, what each costs, what fixing it gains, what to type.
    Diagnose(DiagnoseArgs),
    /// Predict throughput and latency of a run with other clients, processors, flushes, rates.
    ///
    /// A queueing model of the run is solved again with what is asked. Nothing is run.
    WhatIf(WhatIfArgs),
    /// Tell what a measured rate costs, by a price file of yours, and what a change saves.
    Cost(CostArgs),
    /// Show where commit time goes: flushes, waits, WAL, what commit_delay could do.
    Commit(RunName),
    /// Write the HTML report of a run again.
    Report(ReportArgs),
    /// Review settings: of a configuration file, a server, or a run.
    ///
    /// Each setting that bears on writes: its value, what it should be on this machine and
    /// under this load, why, and what a change takes and can lose.
    Review(ReviewArgs),
    /// Configurations of every layer: the catalogue, profiles checked, converted, applied, undone.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Measure what the disks under WAL and data can do: flushes, group commit, rates.
    ///
    /// Later runs on the same file system are told how near they came to it.
    Storage(StorageArgs),
    /// Stand between applications and a server: durable commits without the wait.
    Gateway(Box<GatewayArgs>),
    /// Write rows from files, a pipe or HTTP into tables: durable, many at a time.
    Ingest(Box<IngestArgs>),
    /// Show the lab in a browser: runs, live and after, experiments, tunes, the journal.
    Serve(ServeArgs),
    /// An example application: JSON documents over HTTP, to be measured and tuned.
    #[command(subcommand)]
    Documents(Box<DocumentsCommand>),
    /// The journal: experiments and decisions with their results, in order.
    Journal(JournalArgs),
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
    /// An older spelling of `runs list`.
    #[command(hide = true)]
    List(RunFilter),
    /// An older spelling of `runs show`.
    #[command(hide = true)]
    Show(ShowArgs),
    /// An older spelling of `runs export`.
    #[command(hide = true)]
    Export(ExportArgs),
    /// An older spelling of `runs delete`.
    #[command(hide = true, alias = "rm")]
    Delete(DeleteArgs),
    /// An older spelling of `tune promote`.
    #[command(hide = true)]
    Promote(PromoteArgs),
    /// Start a command and end it when the process that wants it ends.
    #[command(hide = true)]
    Guard(GuardArgs),
}

/// Names a run.
#[derive(Debug, Args)]
pub struct RunName {
    /// A run: `latest`, its name, the beginning or end of it, or its label.
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
    /// A run: `latest`, its name, the beginning or end of it, or its label.
    #[arg(default_value = "latest")]
    pub run: String,
    /// Teach one diagnosis, D1 to D59: what it is, how it is derived, what would disprove it.
    #[arg(long, value_name = "ID", conflicts_with = "run")]
    pub explain: Option<walwright_diagnose::DiagnosisId>,
}

/// `walwright what-if`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  walwright what-if                              the last run with fewer and more clients
  walwright what-if --clients 64                 with 64, and where the latency would go
  walwright what-if --flush-latency 100us,2ms    on other storage
  walwright what-if --processors 2,4,8 --clients 16,64
  walwright what-if before --rate 500            an open loop of 500 a second")]
pub struct WhatIfArgs {
    /// A run: `latest`, its name, the beginning or end of it, or its label.
    #[arg(default_value = "latest")]
    pub run: String,
    /// Clients; several with commas between, as everywhere here: each combination is predicted.
    #[arg(short, long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub clients: Vec<u32>,
    /// Processors of the machine that server and load share.
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4_096))]
    pub processors: Vec<u32>,
    /// Time of one WAL flush.
    #[arg(long, value_name = "TIME", value_delimiter = ',', value_parser = some_time)]
    pub flush_latency: Vec<Duration>,
    /// Transactions begun each second, whether or not others have ended.
    #[arg(short = 'R', long, value_name = "PER_SECOND", value_delimiter = ',', value_parser = load::rate, conflicts_with = "think")]
    pub rate: Vec<f64>,
    /// From the end of a client's transaction to the beginning of its next.
    #[arg(long, value_name = "TIME", value_delimiter = ',', value_parser = duration)]
    pub think: Vec<Duration>,
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
  walwright review postgresql.conf --output better.conf
  walwright review --dsn postgres://me@db/app        a server of yours; nothing is changed there

Exits with 4 when a value keeps the server from starting, or can lose data.")]
pub struct ReviewArgs {
    /// A configuration file, or a run: `latest`, its name, the beginning or end of it, or its label.
    #[arg(value_name = "FILE|RUN", conflicts_with = "dsn")]
    pub subject: Option<String>,
    /// Connection string of a server of yours: a URI or keywords.
    #[arg(long, value_name = "DSN")]
    pub dsn: Option<Secret>,
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
    /// Write the file with what is advised. Comments and order stay; each line changed says so.
    #[arg(short, long, value_name = "FILE", conflicts_with = "dsn")]
    pub output: Option<PathBuf>,
    /// Replace that file if it exists.
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Show also what is fine.
    #[arg(long)]
    pub all: bool,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn no_debug_text_holds_a_password() {
        for typed in [
            "run",
            "record --for=9s",
            "review",
            "experiment plan.toml",
            "prove latest D1",
            "ab --set jit=off --set jit=on",
            "tune",
            "config explain commit_delay",
            "config check",
            "config import",
            "config apply config.env",
            "config rollback",
            "ingest --table=events",
        ] {
            let words: Vec<&str> = ["walwright"].into_iter().chain(typed.split(' ')).collect();
            let server = [&words[..], &["--dsn=postgres://me:hush@db/app"]].concat();
            // Where the server can be restarted, that may take a password too.
            let restart = [&server[..], &["--restart-command=PGPASSWORD=hush restart"]].concat();
            let cli = Cli::try_parse_from(restart).or_else(|_| Cli::try_parse_from(server));
            let cli = cli.unwrap_or_else(|error| panic!("{typed}: {error}"));
            let shown = format!("{cli:?}");
            assert!(shown.contains("hidden") && !shown.contains("hush"), "{shown}");
            if let Some(Command::Run(args)) = cli.command {
                let plan = format!("{:?}", crate::commands::run::plan(*args));
                assert!(plan.contains("hidden") && !plan.contains("hush"), "{plan}");
            }
        }
    }

    /// Each flag that takes a time, with the words before it.
    fn times(command: &clap::Command, before: &[String], found: &mut Vec<(Vec<String>, String)>) {
        for arg in command.get_arguments() {
            let names = arg.get_value_names().unwrap_or_default();
            let is_time =
                names.iter().any(|n| ["TIME", "SECS", "LENGTH"].iter().any(|t| n.contains(t)));
            if let Some(long) = arg.get_long().filter(|_| is_time) {
                found.push((before.to_vec(), long.to_owned()));
            }
        }
        for inner in command.get_subcommands() {
            let words = [before, &[inner.get_name().to_owned()]].concat();
            times(inner, &words, found);
        }
    }

    #[test]
    fn a_time_without_a_unit_is_refused_but_where_pgbench_has_seconds() {
        use clap::CommandFactory;
        let mut found = Vec::new();
        times(&Cli::command(), &["walwright".to_owned()], &mut found);
        let longs: Vec<&str> = found.iter().map(|(_, long)| long.as_str()).collect();
        for long in ["flush-latency", "think", "ramp", "warmup", "latency-limit", "stages", "for"] {
            assert!(longs.contains(&long), "{long} is not in {longs:?}");
        }
        for (words, long) in &found {
            let value = if long == "stages" { "30:100" } else { "2" };
            let typed = [words.as_slice(), &[format!("--{long}={value}")]].concat();
            let error = Cli::try_parse_from(&typed).err();
            let refused =
                error.is_some_and(|error| error.kind() == clap::error::ErrorKind::ValueValidation);
            // -T and -P are pgbench's.
            let seconds = ["duration", "progress"].contains(&long.as_str());
            assert_eq!(refused, !seconds, "{typed:?}");
        }
    }
}
