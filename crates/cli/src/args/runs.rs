//! Arguments of `walwright runs`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use walwright_record::{RunHeader, RunState, Timestamp};

use super::RunName;
pub use super::values::Moment;
use super::values::{moment, one_line, since};

/// `walwright runs`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  walwright runs list                    every run of the lab
  walwright runs list --since 2d --state complete --workload tpcb
  walwright runs show                    the summary of the last one
  walwright runs export --series load    its throughput and latency second by second, as CSV
  walwright runs label latest before     call the last run 'before'
  walwright runs note latest 'deployed'  a note on the timeline of the run that goes on
  walwright runs delete 20261121-0121    a run by the beginning or end of its name")]
pub struct RunsArgs {
    /// What to do with them; they are listed without it.
    #[command(subcommand)]
    pub command: Option<RunsCommand>,
}

/// What there is to do with recorded runs.
#[derive(Debug, Subcommand)]
pub enum RunsCommand {
    /// List the runs of the lab.
    List(RunFilter),
    /// Show the summary of a run, or the curve of a sweep.
    Show(ShowArgs),
    /// Export a run: the whole as JSON, or one series as CSV.
    Export(ExportArgs),
    /// Give a run another label.
    Label(LabelArgs),
    /// Write a note on a run's timeline, also while it goes on.
    Note(NoteArgs),
    /// Delete runs and their reports.
    #[command(alias = "rm")]
    Delete(DeleteArgs),
}

/// `walwright runs show`.
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// Which run.
    #[command(flatten)]
    pub run: RunName,
    /// Show all warnings, however many.
    #[arg(long)]
    pub all: bool,
}

/// `walwright runs label`.
#[derive(Debug, Args)]
pub struct LabelArgs {
    /// Which run: `latest`, its name, the beginning or end of it, or its label.
    #[arg(value_name = "RUN")]
    pub run: String,
    /// The label; '' takes it away.
    #[arg(value_name = "TEXT", value_parser = one_line::<200>)]
    pub label: String,
}

/// `walwright runs note`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  walwright runs note latest 'turned the cache off'              now, in the run that goes on
  walwright runs note before 'the deployment began' --at 33s     33 s into the plots of a run")]
pub struct NoteArgs {
    /// Which run: `latest`, its name, the beginning or end of it, or its label.
    #[arg(value_name = "RUN")]
    pub run: String,
    /// What it says.
    #[arg(value_name = "TEXT", value_parser = one_line::<1000>)]
    pub text: String,
    /// Where it stands: so long after the beginning of the timeline, as plots count, or a time in
    /// UTC. The default is now, where the run goes on.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub at: Option<Moment>,
}

/// `walwright runs export`.
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

/// Which runs: those that all of these fit.
#[derive(Debug, Default, Args)]
pub struct RunFilter {
    /// With this label.
    #[arg(short, long, value_name = "TEXT")]
    pub label: Option<String>,
    /// Of this workload.
    #[arg(short, long, value_name = "NAME")]
    pub workload: Option<String>,
    /// Begun since: this long ago, as 2h or 3d, or at a time in UTC, as 2026-11-23 or
    /// 2026-11-23T14:30.
    #[arg(long, value_name = "WHEN", value_parser = since)]
    pub since: Option<Timestamp>,
    /// In this state.
    #[arg(long, value_enum)]
    pub state: Option<State>,
}

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum State {
    /// Its process lives and writes.
    Running,
    /// Ended as planned.
    Complete,
    /// Stopped, or its process died.
    Interrupted,
    /// Could not go on.
    Failed,
}

impl RunFilter {
    /// Whether it leaves out any run at all.
    pub fn is_set(&self) -> bool {
        let RunFilter { label, workload, since, state } = self;
        label.is_some() || workload.is_some() || since.is_some() || state.is_some()
    }

    /// Whether a run is one of those.
    pub fn fits(&self, run: &RunHeader) -> bool {
        let state = |state: State| match state {
            State::Running => RunState::Running,
            State::Complete => RunState::Complete,
            State::Interrupted => RunState::Interrupted,
            State::Failed => RunState::Failed,
        };
        let labelled =
            |label: &String| run.label.as_ref() == Some(label) || run.own_label() == label;
        self.label.as_ref().is_none_or(labelled)
            && self.workload.as_ref().is_none_or(|workload| run.workload == *workload)
            && self.since.is_none_or(|since| run.started >= since)
            && self.state.is_none_or(|wanted| run.state == state(wanted))
    }
}

/// `walwright runs delete`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  walwright runs delete 20261121-0121                 one run, by the beginning or end of its name
  walwright runs delete label:before --yes            all runs with this label
  walwright runs delete --state failed --since 7d     name the failed runs of a week
  walwright runs delete --state failed --since 7d --yes    and delete them")]
pub struct DeleteArgs {
    /// Runs to delete: each an id, its beginning or end, label:TEXT, or the name of a sweep,
    /// experiment or tune.
    #[arg(required_unless_present_any = ["label", "workload", "since", "state"])]
    pub runs: Vec<String>,
    /// Of these runs, or of all where none is named.
    #[command(flatten)]
    pub filter: RunFilter,
    /// Delete also what a filter found, or more than one run.
    #[arg(long)]
    pub yes: bool,
}
