//! Arguments of `walwright watch`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use walwright_server::Secret;
use walwright_watch::Webhook;

use super::some_time;

/// `walwright watch`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  walwright watch --dsn postgres://me@db/app                 a view; elsewhere than on a terminal
                                                             a line each ten seconds, and events
  walwright watch --dsn … --metrics 127.0.0.1:9187           for Prometheus, as a service
  walwright watch --dsn … --webhook https://…                tell of findings that appear or go
  walwright watch --dsn … --on-finding 'mail -s db me'       or by a command: JSON on its input
  walwright watch report --last 24h                          what was normal, what changed, when
  walwright watch rules > walwright.rules.yml                alerts for Prometheus
  walwright watch dashboard > walwright.json                 a dashboard for Grafana
Nothing is changed on the server. Sampling takes 0.2 % of a processor at most, diagnosing some more.
What is seen is kept in the lab for a week, the coarser the older."
)]
pub struct WatchArgs {
    /// What to do with what was watched; without it a server is watched.
    #[command(subcommand)]
    pub command: Option<WatchCommand>,
    /// Connection string of the server: a URI or keywords. PG* variables and .pgpass count too.
    #[arg(long, value_name = "DSN", help_heading = "What is watched")]
    pub dsn: Option<Secret>,
    /// Time between diagnoses, 30s at least; a finding appears when it was found twice.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = between_diagnoses, help_heading = "What is watched")]
    pub diagnose_every: Duration,
    /// Stop after this time. Without it, a signal stops.
    #[arg(long = "for", value_name = "TIME", value_parser = some_time, help_heading = "What is watched")]
    pub time: Option<Duration>,

    /// Plain lines instead of the view.
    #[arg(long, help_heading = "Who is told")]
    pub plain: bool,
    /// Address and port at which metrics for Prometheus (/metrics) and /healthz are served.
    #[arg(long, value_name = "ADDRESS", help_heading = "Who is told")]
    pub metrics: Option<SocketAddr>,
    /// URL that is sent each finding that appears or is gone, and each loss of the server, as JSON
    /// by POST. It is tried a few times, and holds up nothing.
    #[arg(
        long,
        value_name = "URL",
        env = "WALWRIGHT_WEBHOOK",
        hide_env_values = true,
        help_heading = "Who is told"
    )]
    pub webhook: Option<Webhook>,
    /// Certificates, as PEM, of who may sign the webhook's, besides those whom the system trusts.
    #[arg(long, value_name = "FILE", help_heading = "Who is told")]
    pub webhook_ca: Option<PathBuf>,
    /// Command of the shell that is run for the same, with the JSON on its standard input.
    #[arg(long, value_name = "COMMAND", help_heading = "Who is told")]
    pub on_finding: Option<String>,

    /// How long what was seen is kept: two hours as it was, a day in minutes, then in stretches of
    /// ten minutes.
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = some_time, help_heading = "What is kept")]
    pub keep: Duration,
}

/// What there is to do with what was watched.
#[derive(Debug, Subcommand)]
pub enum WatchCommand {
    /// Write the report of a day: what was normal, what changed, when.
    Report(WatchReportArgs),
    /// Print alert rules for Prometheus, as YAML.
    Rules,
    /// Print a dashboard for Grafana, as JSON.
    Dashboard,
}

/// `walwright watch report`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  walwright watch report                          the last 24 hours of the server watched last
  walwright watch report --last 2h --output day.html
  walwright watch report --server db1 --markdown  of several servers, by a part of the name")]
pub struct WatchReportArgs {
    /// How much of it, up to now.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = some_time)]
    pub last: Duration,
    /// The server, by a part of its name, where several were watched.
    #[arg(long, value_name = "NAME")]
    pub server: Option<String>,
    /// Write an HTML page there.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print Markdown, for a ticket or a chat.
    #[arg(long, conflicts_with = "output")]
    pub markdown: bool,
}

/// A diagnosis needs some readings of each view.
fn between_diagnoses(text: &str) -> Result<Duration, String> {
    let time = some_time(text)?;
    match time < Duration::from_secs(30) {
        true => Err("a diagnosis needs 30s of readings at least".to_owned()),
        false => Ok(time),
    }
}
