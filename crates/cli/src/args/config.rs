//! Arguments of `walwright config`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use walwright_catalog::{DurabilityClass, Format};
use walwright_server::Secret;

use super::{PromoteArgs, memory};

/// `walwright config`.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
A profile is a config.env file: KEY=value lines with comments, for every layer from the
kernel to the load. Key names follow a rule: VM_SWAPPINESS, PG_MAX_WAL_SIZE,
WAL_READ_AHEAD_KB. config explain shows the key of each parameter.

Examples:
  walwright config import --dsn postgres://me@db/app -o config.env
  walwright config check config.env --dsn postgres://me@db/app
  walwright config apply config.env --dsn postgres://me@db/app --yes
  walwright config rollback --dsn postgres://me@db/app")]
pub enum ConfigCommand {
    /// List the parameters of the catalogue: what they are, where they live, what they can lose.
    List(ListArgs),
    /// Teach one parameter: what it does, when it does nothing, its range, its value here.
    Explain(ExplainArgs),
    /// Compare a server and its machine with a profile, or with good practice.
    Check(CheckArgs),
    /// Make a profile of a postgresql.conf, a postgresql.auto.conf or a server.
    Import(ImportArgs),
    /// Write a profile in the form another tool takes.
    Export(ConfigExportArgs),
    /// Apply a profile: noted first, read back, undone when anything fails.
    Apply(ApplyArgs),
    /// Undo what apply or an experiment has changed, also after a crash.
    Rollback(RollbackArgs),
    /// Write the configuration that a tune proved, as config.env.
    Promote(PromoteArgs),
}

/// `walwright config list`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  walwright config list                      every parameter
  walwright config list --layer commit       those of one layer; part of its name is enough
  walwright config list --class D            those that may lose committed data
Classes: S safe, D may lose committed data, X can corrupt the cluster (never applied),
E changes the environment, T moves cost in time.")]
pub struct ListArgs {
    /// Part of the name of a layer: memory, network, block, wal, schema, load.
    #[arg(long, value_name = "LAYER")]
    pub layer: Option<String>,
    /// What a change can lose: S, D, X, E or T.
    #[arg(long, value_name = "CLASS", value_parser = class)]
    pub class: Option<DurabilityClass>,
}

/// `walwright config explain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  walwright config explain commit_delay
  walwright config explain WAL_READ_AHEAD_KB       a key of config.env is as good as a name
  walwright config explain max_wal_size --dsn postgres://me@db/app")]
pub struct ExplainArgs {
    /// A parameter: its name, the end of its name, or its key.
    pub name: String,
    /// Connection string of a server, to show the value there.
    #[arg(long, value_name = "DSN")]
    pub dsn: Option<Secret>,
    /// Major version that default and apply are told for.
    #[arg(long, value_name = "MAJOR", default_value_t = 18, value_parser = clap::value_parser!(u32).range(14..=18))]
    pub pg: u32,
}

/// `walwright config check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  walwright config check                                    this machine against good practice
  walwright config check --dsn postgres://me@db/app         a server, and its machine if it is this one
  walwright config check config.env --dsn … --wal-disk 100GB
Nothing is changed. What this machine does not have is \"not present\"; what this role cannot read
is \"not observable\". The exit code is 4 where something drifts or contradicts.")]
pub struct CheckArgs {
    /// A profile. Without one, good practice is the measure.
    #[arg(value_name = "PROFILE")]
    pub profile: Option<PathBuf>,
    /// Connection string of the server: a URI or keywords. Only read from.
    #[arg(long, value_name = "DSN")]
    pub dsn: Option<Secret>,
    /// Room on the disk of the WAL, where the server is elsewhere: 100GB.
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    pub wal_disk: Option<u64>,
    /// Show also what agrees.
    #[arg(long)]
    pub all: bool,
    /// Read /proc and /sys below this directory: a tree recorded elsewhere.
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,
}

/// `walwright config import`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  walwright config import other-team.env -o config.env         what the catalogue knows of it
  walwright config import /etc/postgresql/18/main/postgresql.conf -o config.env
  walwright config import /var/lib/postgresql/18/main/postgresql.auto.conf
  walwright config import --dsn postgres://me@db/app           settings that are not defaults
What walwright does not know or does not accept is told with its line and kept as a comment.
Connection strings and commands that may hold a password are named without their value.")]
pub struct ImportArgs {
    /// A config.env, a postgresql.conf with what it includes, or a postgresql.auto.conf.
    #[arg(value_name = "FILE", required_unless_present = "dsn", conflicts_with = "dsn")]
    pub file: Option<PathBuf>,
    /// Connection string of a server. Only read from.
    #[arg(long, value_name = "DSN")]
    pub dsn: Option<Secret>,
    /// Where to write the profile. The default is standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Exit with 1 where something is left out. Without it that is only said.
    #[arg(long)]
    pub strict: bool,
}

/// `walwright config export`.
#[derive(Debug, Args)]
#[command(after_help = "\
Forms: config-env, postgresql-conf, alter-system, sysctl, udev, storage (mdadm, mkfs and mount
commands), systemd (limits), ansible, cnpg, patroni.
Examples:
  walwright config export config.env --to alter-system
  walwright config export config.env --to udev --wal-device nvme1n1
  walwright config export config.env --to sysctl -o /etc/sysctl.d/90-postgresql.conf
What belongs to a form and cannot be written in it is told on standard error; what belongs to other
layers is left to their own forms.")]
pub struct ConfigExportArgs {
    /// The profile.
    #[arg(value_name = "PROFILE")]
    pub profile: PathBuf,
    /// The form.
    #[arg(long = "to", value_name = "FORM", value_parser = form)]
    pub format: Format,
    /// A block device under the data, for udev rules. May be repeated.
    #[arg(long, value_name = "NAME")]
    pub data_device: Vec<String>,
    /// A block device under the WAL, for udev rules. May be repeated.
    #[arg(long, value_name = "NAME")]
    pub wal_device: Vec<String>,
    /// Where to write it. The default is standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `walwright config apply`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  walwright config apply config.env --dsn …                 show what would change
  walwright config apply config.env --dsn … --yes           change it
  walwright config apply config.env --dsn … --yes --consent synchronous_commit
  walwright config apply config.env --dsn … --yes --restart-command 'systemctl restart postgresql'
Settings go in by ALTER SYSTEM, kernel values by writing them. Each change is noted in the lab
before it is made, and read back after; when one fails, all are undone. What can lose committed
data (class D) needs --yes and --consent with its name; what can corrupt (class X) is refused.
Arrays, file systems, limits and schema are only named: config export prints their commands.")]
pub struct ApplyArgs {
    /// The profile.
    #[arg(value_name = "PROFILE")]
    pub profile: PathBuf,
    /// Connection string of the server. Without one only kernel values are applied.
    #[arg(long, value_name = "DSN")]
    pub dsn: Option<Secret>,
    /// Agree to the changes; without it nothing is changed.
    #[arg(long)]
    pub yes: bool,
    /// Agree besides to a change that may lose committed data, by the name of its parameter. May be
    /// repeated.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub consent: Vec<String>,
    /// Shell command that restarts the server, for settings that take a restart.
    #[arg(long, value_name = "COMMAND", requires = "dsn")]
    pub restart_command: Option<Secret>,
    /// Leave the kernel as it is.
    #[arg(long)]
    pub no_kernel: bool,
    /// Read and write /proc and /sys below this directory.
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    pub root: PathBuf,
}

/// `walwright config rollback`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  walwright config rollback --list                  the changes that were made
  walwright config rollback --dsn …                 undo the last, or one that was cut short
  walwright config rollback 3 --dsn … --restart-command 'systemctl restart postgresql'
A value that someone else has changed since stays as it is, and is named; the exit code is 5 then.")]
pub struct RollbackArgs {
    /// Number of the change set.
    #[arg(value_name = "ID")]
    pub id: Option<u64>,
    /// List the change sets instead.
    #[arg(long, conflicts_with_all = ["id", "dsn", "restart_command"])]
    pub list: bool,
    /// Connection string of the server whose settings were changed.
    #[arg(long, value_name = "DSN")]
    pub dsn: Option<Secret>,
    /// Shell command that restarts the server, for settings that take a restart.
    #[arg(long, value_name = "COMMAND", requires = "dsn")]
    pub restart_command: Option<Secret>,
}

fn class(text: &str) -> Result<DurabilityClass, String> {
    Ok(match text.to_ascii_uppercase().as_str() {
        "S" => DurabilityClass::S,
        "D" => DurabilityClass::D,
        "X" => DurabilityClass::X,
        "E" => DurabilityClass::E,
        "T" => DurabilityClass::T,
        _ => return Err(format!("'{text}' is not a class: S, D, X, E or T")),
    })
}

fn form(text: &str) -> Result<Format, String> {
    text.parse()
}
