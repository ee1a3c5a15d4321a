//! Why a file of results cannot be read.

use thiserror::Error;

use crate::Format;

/// Why a file of results cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ResultsError {
    /// The file could not be read.
    #[error("{file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// No format fits the file.
    #[error(
        "{file} has no format known here (its first line: '{line}'); known are {}: name one with --client-log-format, or write CSV with the columns time, operation, latency_ms, status",
        Format::names()
    )]
    Unknown {
        /// The file.
        file: String,
        /// Its first line, shortened.
        line: String,
    },
    /// The file holds nothing.
    #[error("{file} is empty: the test may have ended before its tool wrote results")]
    Empty {
        /// The file.
        file: String,
    },
    /// A line does not fit the format.
    #[error("{file}:{line}: {problem}; it was read as {format}, --client-log-format names another")]
    Line {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// What does not fit, and what would.
        problem: String,
        /// As what it was read.
        format: Format,
    },
    /// The file as a whole does not fit the format.
    #[error("{file}: {problem}; it was read as {format}, --client-log-format names another")]
    Whole {
        /// The file.
        file: String,
        /// What does not fit, and what would.
        problem: String,
        /// As what it was read.
        format: Format,
    },
}
