//! What a record of someone else's load is asked to hold.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use walwright_http::PageAddress;
use walwright_probe::LoadParts;
use walwright_results::Format;

use super::Printing;
use super::pool_wait::PoolWaitPlan;
use crate::{ProbePlan, ServerAddress};

/// Everything a person can choose about it.
#[derive(Debug, Clone)]
pub struct RecordPlan {
    /// How the server is reached; all of it comes from the environment where it is not said.
    pub server: Option<ServerAddress>,
    /// How long to look.
    pub until: Until,
    /// Load that is left out of the figures at the beginning.
    pub warm_up: Duration,
    /// Files of client-side results to join when the load has ended.
    pub logs: Vec<LogChoice>,
    /// Other processes of this machine that have a part in the load.
    pub parts: LoadParts,
    /// Where the application tells how long requests wait for its pool.
    pub pool_wait: Option<PoolWaitPlan>,
    /// Whether the command is a load tool whose results are what it is for: that none can be read
    /// is told.
    pub expects_results: bool,
    /// Where a gateway before the server shows metrics; one of this machine is looked for where
    /// this is not said.
    pub gateway_metrics: Option<PageAddress>,
    /// What is sampled.
    pub probe: ProbePlan,
    /// The user's own words.
    pub label: Option<String>,
    /// The command line, without secrets.
    pub command_line: String,
}

/// When a record ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Until {
    /// After this time.
    Elapsed(Duration),
    /// When a command does, which is started when sampling has begun.
    CommandEnds(CommandPlan),
    /// When standard input does, which is one of the files of client-side results.
    InputEnds,
}

/// A command that makes the load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandPlan {
    /// Program and arguments.
    pub words: Vec<OsString>,
    /// Program and first arguments of the guard, a process that starts the command and
    /// ends it when walwright ends: see [`guard_command`](crate::guard_command). The PID
    /// of walwright, the file that hears of what is left, and the words of the command follow.
    pub guard: Vec<OsString>,
    /// Variables of its environment beside walwright's own.
    pub environment: Vec<(String, String)>,
    /// Whether walwright's own PGHOST, PGPASSWORD, … are in it.
    pub inherits_server: bool,
    /// Where what it prints goes.
    pub printing: Printing,
}

impl CommandPlan {
    /// These words, started by this guard, with what walwright has around it.
    pub fn of(words: Vec<OsString>, guard: Vec<OsString>) -> CommandPlan {
        CommandPlan {
            words,
            guard,
            environment: Vec::new(),
            inherits_server: true,
            printing: Printing::Through,
        }
    }

    /// The guard of the program that this is: `walwright guard`.
    ///
    /// # Errors
    /// When its file cannot be found.
    pub fn own_guard() -> io::Result<Vec<OsString>> {
        Ok(vec![std::env::current_exe()?.into_os_string(), "guard".into()])
    }
}

/// Files of client-side results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogChoice {
    /// A file; `*` in its name stands for any letters, and `-` is standard input.
    pub path: PathBuf,
    /// Its format; recognised where not given.
    pub format: Option<Format>,
}
