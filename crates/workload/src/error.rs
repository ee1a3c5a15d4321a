//! What can be wrong with a workload.

use std::path::PathBuf;

use crate::script::ScriptError;

/// A workload that cannot be loaded, planned or exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// There is no built-in workload of this name.
    #[error("there is no workload \"{name}\"{}; the built-in workloads are {known}, and a directory with a workload.toml works too", .near.as_ref().map_or(String::new(), |near| format!(" (did you mean {near}?)")))]
    Unknown {
        /// The name asked for.
        name: String,
        /// The closest built-in name.
        near: Option<String>,
        /// All built-in names.
        known: String,
    },
    /// There is no built-in script of this name, or several names begin so.
    #[error("\"{name}\" is not one built-in script; they are {known}")]
    UnknownScript {
        /// The name asked for.
        name: String,
        /// All names.
        known: String,
    },
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The target of an export already holds a workload.
    #[error("{0} already exists; export to a new directory so that nothing is overwritten")]
    Exists(PathBuf),
    /// `workload.toml` is not valid TOML, or a key is unknown or has the wrong
    /// type. The text of the parser names line, column and what is expected.
    #[error("{file}: {message}")]
    Toml {
        /// The file.
        file: String,
        /// The parser's text.
        message: String,
    },
    /// A value in `workload.toml` makes no sense.
    #[error("{file}: {key}: {message}")]
    Value {
        /// The file.
        file: String,
        /// The key, as a path from the top.
        key: String,
        /// What is wrong and what is allowed.
        message: String,
    },
    /// A script, a SQL file or an expression has a fault.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// An option that the workload does not have, or a value it cannot take.
    #[error("workload {workload}: option {option}: {message}")]
    Option {
        /// The workload.
        workload: String,
        /// The option.
        option: String,
        /// What is wrong and what is allowed.
        message: String,
    },
    /// The scale is out of range.
    #[error("a scale of {scale} is not possible: {message}")]
    Scale {
        /// The scale.
        scale: u32,
        /// Why.
        message: String,
    },
}

impl WorkloadError {
    /// Whether a name or value that was asked for is none, whatever files there are.
    pub fn is_usage(&self) -> bool {
        matches!(self, WorkloadError::Unknown { .. } | WorkloadError::Option { .. })
    }
}
