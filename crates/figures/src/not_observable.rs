//! What a record cannot show, said in words.

use std::fmt;

use serde::Serialize;
use walwright_record::{Source, Timestamp, quoted_identifier};

/// Why a figure is not there. A figure that is not there is not zero.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Blind {
    /// The record has no measured window.
    NoWindow,
    /// The source has no samples inside the window.
    NotSampled {
        /// The source.
        source: Source,
    },
    /// Too few samples inside the window; a difference needs two.
    TooFewSamples {
        /// The source.
        source: Source,
        /// Samples there are.
        have: usize,
        /// Samples needed.
        need: usize,
    },
    /// Statistics were reset or started anew inside the window.
    Reset {
        /// The source.
        source: Source,
        /// First sample after the reset.
        at: Timestamp,
    },
    /// The server of this version or role does not show the column.
    NoColumn {
        /// The source.
        source: Source,
        /// The column or columns.
        column: String,
    },
    /// The server does not time these operations, so its zeros mean nothing.
    TimingOff {
        /// The setting that would.
        setting: String,
    },
    /// The server was asked for something that hides the figure.
    Hidden {
        /// What and why.
        why: String,
    },
    /// No transactions or commits were counted over the stretch.
    NoWork,
    /// Sessions that did the work belong to roles whose activity this role may not see.
    HiddenSessions {
        /// The most of them at a time.
        sessions: u64,
        /// The role that may not see them.
        role: String,
    },
}

impl fmt::Display for Blind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Blind::NoWindow => f.write_str("the run has no measured window"),
            Blind::NotSampled { source } => {
                write!(f, "no samples of {} inside the window", source.name())
            }
            Blind::TooFewSamples { source, have, need } => {
                let source = source.name();
                write!(f, "only {have} samples of {source} inside the window, {need} are needed")
            }
            Blind::Reset { source, .. } => {
                write!(f, "the statistics of {} were reset inside the window", source.name())
            }
            Blind::NoColumn { source, column } => {
                write!(f, "{} does not show {column} here", source.name())
            }
            Blind::TimingOff { setting } => write!(f, "{setting} is off"),
            Blind::Hidden { why } => f.write_str(why),
            Blind::NoWork => f.write_str("no transactions were counted"),
            Blind::HiddenSessions { sessions, role } => {
                let role = quoted_identifier(role);
                write!(
                    f,
                    "up to {sessions} sessions belong to roles whose activity this role may not \
                     see: GRANT pg_monitor TO {role}"
                )
            }
        }
    }
}

/// A figure that is not there, and why.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NotObservable {
    /// The figure, as a person calls it.
    pub figure: String,
    /// Why it is not there.
    pub why: Blind,
}

/// Collects what could not be said while a summary is made.
#[derive(Debug, Default)]
pub struct Gaps(pub(crate) Vec<NotObservable>);

impl Gaps {
    /// The value, or `None` with the reason noted.
    pub fn note<T>(&mut self, figure: &str, result: Result<T, Blind>) -> Option<T> {
        result.map_err(|why| self.0.push(NotObservable { figure: figure.to_owned(), why })).ok()
    }
}
