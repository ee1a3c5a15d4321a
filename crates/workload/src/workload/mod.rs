//! Workloads: what they are, where they come from, what a run does with one.

mod builtin;
pub(crate) mod duration;
mod error;
mod load;
pub(crate) mod manifest;
mod options;
mod plan;

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use error::WorkloadError;
pub use load::{MANIFEST_FILE, builtin_names};
pub use options::{OptionKind, WorkloadOption};
pub use plan::{Check, Plan, Settings, SqlStep};

use crate::script::ScriptSource;

/// The protocol that statements are sent with (pgbench's `-M`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// One Query message with the values in the text.
    Simple,
    /// Parse, Bind, Execute each time.
    Extended,
    /// Parsed once per connection.
    #[default]
    Prepared,
}

/// A workload: schema, initial data, weighted scripts, client settings.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Short name, as given on the command line.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// What it is for, in a few sentences; may be empty.
    pub description: String,
    /// Where it comes from.
    pub origin: Origin,
    /// Client settings when none are chosen.
    pub defaults: ClientDefaults,
    /// What can be chosen.
    pub options: Vec<WorkloadOption>,
    /// The scripts with their weights.
    pub scripts: Vec<ScriptSource>,
    /// How fast is good enough, if the workload says so.
    pub pass_mark: Option<PassMark>,
    /// What is measured beside the load, if anything.
    pub side: Option<SideMeasurement>,
    pub(crate) manifest: manifest::Manifest,
    pub(crate) files: Vec<(String, String)>,
}

/// Where a workload comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Part of walwright.
    Builtin,
    /// A directory with a `workload.toml`.
    Directory(PathBuf),
    /// Script files alone, without schema or data.
    Scripts,
}

/// Client settings of a workload when none are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientDefaults {
    /// The scale of the data.
    pub scale: u32,
    /// How many clients.
    pub clients: u32,
    /// How statements are sent.
    pub protocol: Protocol,
}

/// A limit that a run should stay under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassMark {
    /// What it means and where it comes from.
    pub description: String,
    /// Largest mean latency of a transaction.
    pub mean_latency: Duration,
    /// The number of clients it is meant for; any number when absent.
    pub clients: Option<u32>,
}

/// A query repeated on a connection of its own beside the load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideMeasurement {
    /// What is measured.
    pub name: String,
    /// What it tells; may be empty.
    pub description: String,
    /// The query; empty for a round trip that runs nothing.
    pub sql: String,
    /// How often it is sent.
    pub every: Duration,
}
