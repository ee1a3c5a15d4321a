//! `walwright journal`: what can be typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `walwright journal`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  walwright journal                                  all entries, newest last
  walwright journal show latest
  walwright journal add                              asks for an entry in your editor
  walwright journal add --question 'Does lz4 spare WAL?' --change 'wal_compression=off->lz4' \\
      --run latest --result '38 % less WAL, throughput within noise' --decision 'keep lz4'
  walwright journal export --html -o journal.html
  walwright journal trend                            where throughput of a workload moved")]
pub struct JournalArgs {
    /// What to do; without, the entries are listed.
    #[command(subcommand)]
    pub command: Option<JournalCommand>,
}

/// What can be done with the journal.
#[derive(Debug, Subcommand)]
pub enum JournalCommand {
    /// List the entries, newest last.
    List,
    /// Show one entry.
    Show {
        /// An entry: `latest`, its name, or the beginning or end of the name.
        #[arg(default_value = "latest")]
        name: String,
    },
    /// Add an entry of your own. Without a question your editor ($VISUAL, $EDITOR) is opened.
    Add(Box<AddArgs>),
    /// Write entries as Markdown or as one HTML page.
    Export(ExportJournalArgs),
    /// Show how throughput went over the runs of a workload, and where its level changed.
    Trend {
        /// Only this workload.
        #[arg(short, long, value_name = "NAME")]
        workload: Option<String>,
        /// All complete runs of the lab, not only those that entries rest on.
        #[arg(long)]
        all_runs: bool,
    },
}

/// `walwright journal add`.
#[derive(Debug, Args)]
pub struct AddArgs {
    /// What was to be found out, as one sentence.
    #[arg(long, value_name = "TEXT")]
    pub question: Option<String>,
    /// What was changed: NAME=TO or NAME=FROM->TO. May be repeated.
    #[arg(long, value_name = "CHANGE")]
    pub change: Vec<String>,
    /// What it was changed against.
    #[arg(long, value_name = "TEXT", requires = "question")]
    pub baseline: Option<String>,
    /// A run it rests on: `latest`, a name, or part of one. May be repeated.
    #[arg(long, value_name = "RUN", requires = "question")]
    pub run: Vec<String>,
    /// The workload. The default is that of the runs.
    #[arg(long, value_name = "NAME", requires = "question")]
    pub workload: Option<String>,
    /// What came out.
    #[arg(long, value_name = "TEXT", requires = "question")]
    pub result: Option<String>,
    /// What is done about it.
    #[arg(long, value_name = "TEXT", requires = "question")]
    pub decision: Option<String>,
    /// What to ask next.
    #[arg(long, value_name = "TEXT", requires = "question")]
    pub next: Option<String>,
    /// Anything else.
    #[arg(long, value_name = "TEXT", requires = "question")]
    pub notes: Option<String>,
    /// What the outcome can lose: S nothing, D committed data, X the cluster (it can corrupt), E
    /// nothing, but other programs may feel it, T nothing, but cost is moved in time.
    #[arg(long, value_name = "CLASS", value_parser = ["S", "D", "X", "E", "T"], requires = "question")]
    pub class: Option<String>,
    /// The earlier entry that this one corrects.
    #[arg(long, value_name = "ENTRY")]
    pub corrects: Option<String>,
}

/// `walwright journal export`.
#[derive(Debug, Args)]
pub struct ExportJournalArgs {
    /// Only these entries.
    pub entries: Vec<String>,
    /// As Markdown. This is the default, unless the file is called .html.
    #[arg(long, conflicts_with = "html")]
    pub markdown: bool,
    /// As one HTML page with its plots.
    #[arg(long)]
    pub html: bool,
    /// Where to write it; plots of Markdown go into a directory beside. The default is
    /// standard output.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
