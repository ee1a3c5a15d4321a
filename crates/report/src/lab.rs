//! The pages of a lab: lists of what is in it, each with a way to its page.

use std::time::Duration;

use walwright_experiment::Listed;
use walwright_figures::experiment::Ending;
use walwright_record::{Headline, RunHeader, RunId, RunState};
use walwright_tune::TuneState;

use crate::document::{Block, Cell, Column, ColumnKind, Document, Reach, Section, Table, Tick};
use crate::{format, words};

/// Nothing but a sentence under a title.
pub fn notice(title: &str, said: &str) -> Document {
    Document {
        kind: "lab",
        title: title.to_owned(),
        deck: vec![words::sentence(said)],
        ..Document::default()
    }
}

/// A run in a list.
#[derive(Debug)]
pub struct RunRow<'a> {
    /// Its first page.
    pub run: &'a RunHeader,
    /// What it measured.
    pub headline: Option<&'a Headline>,
    /// Its throughput over time, drawn small.
    pub course: Vec<f64>,
    /// Its warnings.
    pub warnings: u32,
    /// What a person noted of it, in the order of their moments.
    pub notes: &'a [String],
}

/// A column that a list of runs can be ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunOrder {
    /// When it began.
    Begun,
    /// How it stands.
    State,
    /// Its workload.
    Workload,
    /// Where it ran.
    Target,
    /// Its label.
    Label,
    /// Transactions a second.
    Throughput,
    /// Median latency.
    P50,
    /// 99th percentile of the latency.
    P99,
    /// The number of its warnings.
    Warnings,
}

impl RunOrder {
    /// Every one, as the columns stand.
    pub const ALL: [RunOrder; 9] = [
        RunOrder::Begun,
        RunOrder::State,
        RunOrder::Workload,
        RunOrder::Target,
        RunOrder::Throughput,
        RunOrder::P50,
        RunOrder::P99,
        RunOrder::Warnings,
        RunOrder::Label,
    ];

    /// As an address has it, and the head of its column.
    pub fn words(self) -> (&'static str, &'static str) {
        match self {
            RunOrder::Begun => ("begun", "run"),
            RunOrder::State => ("state", "state"),
            RunOrder::Workload => ("workload", "workload"),
            RunOrder::Target => ("target", "target"),
            RunOrder::Label => ("label", "label"),
            RunOrder::Throughput => ("throughput", "per second"),
            RunOrder::P50 => ("p50", "p50"),
            RunOrder::P99 => ("p99", "p99"),
            RunOrder::Warnings => ("warnings", "warnings"),
        }
    }

    fn column(self) -> Column {
        let kind = match self {
            RunOrder::Throughput | RunOrder::P50 | RunOrder::P99 | RunOrder::Warnings => {
                ColumnKind::Number
            }
            _ => ColumnKind::Text,
        };
        Column { kind, ..Column::text(self.words().1) }
    }
}

/// The id of the form, above a list of runs, that takes those that are ticked, each as `run`.
pub const COMPARED: &str = "compared";

/// Runs as a page. `order` gives the address at which they are ordered by a column, `said`
/// how many there are.
pub fn run_list(rows: &[RunRow<'_>], said: &str, order: impl Fn(RunOrder) -> String) -> Document {
    let mut columns: Vec<Column> = RunOrder::ALL
        .into_iter()
        .map(|by| Column { link: Some(order(by)), ..by.column() })
        .collect();
    columns.insert(4, Column::text("throughput over time"));
    columns.push(Column::text("notes"));
    let latency = |seconds: f64| format::latency(Duration::from_secs_f64(seconds));
    let row = |row: &RunRow<'_>| {
        let RunRow { run, headline, course, warnings, notes } = row;
        let number = |value: Option<String>| Cell::from(value.unwrap_or_default());
        let state = Cell {
            is_better: (run.state == RunState::Failed).then_some(false),
            ..Cell::from(run.state.name())
        };
        let tick = (run.state != RunState::Running).then(|| Tick {
            form: COMPARED,
            name: "run",
            value: run.id.0.clone(),
            said: format!("Compare {}", run.id),
        });
        vec![
            Cell { tick, ..linked(&run.id.0, format!("/runs/{}", run.id)) },
            state,
            Cell::from(run.workload.clone()),
            Cell::from(run.target.clone()),
            Cell { course: course.clone(), ..Cell::default() },
            number(headline.map(|of| format::number(of.throughput))),
            number(headline.map(|of| latency(of.p50))),
            number(headline.map(|of| latency(of.p99))),
            number((*warnings > 0).then(|| warnings.to_string())),
            Cell::from(run.label.clone().unwrap_or_default()),
            noted(notes),
        ]
    };
    let table = Table { columns, rows: rows.iter().map(row).collect() };
    list("Runs", said.to_owned(), table)
}

/// The first words of a run's notes, which unfold to all of them.
fn noted(notes: &[String]) -> Cell {
    /// Letters that a list shows of them.
    const SHOWN: usize = 40;
    let all = notes.join(" · ");
    Cell { short: words::cut(&all, SHOWN), ..Cell::from(all) }
}

/// Experiments as a page.
pub fn experiment_list(all: &[Listed]) -> Document {
    let heads = ["experiment", "begun", "state", "runs", "name"];
    let row = |one: &Listed| {
        let done = format!("{} of {}", one.done, one.planned);
        let share = one.done as f64 / one.planned.max(1) as f64;
        vec![
            linked(&one.header.id, format!("/experiments/{}", one.header.id)),
            Cell::from(format::moment(one.header.begun)),
            Cell::from(ending(one.header.ending)),
            Cell { bar: Some((100.0 * share.min(1.0), crate::svg::Ink::Main)), ..Cell::from(done) },
            Cell::from(one.header.name.clone()),
        ]
    };
    let table =
        Table { columns: heads.map(Column::text).into(), rows: all.iter().map(row).collect() };
    list("Experiments", format::counted(all.len() as u64, "experiment"), table)
}

/// How an experiment stands, in a word or two.
pub fn ending(of: Ending) -> &'static str {
    match of {
        Ending::Unfinished => "unfinished",
        Ending::AllBlocks => "complete",
        Ending::Clear => "ended early: clear",
        Ending::Hopeless => "ended early: will stay open",
        Ending::NoArmLeft => "ended early: no arm left",
    }
}

/// Tunes as a page.
pub fn tune_list(all: &[TuneState]) -> Document {
    let heads = ["tune", "begun", "state", "objective", "workload"];
    let row = |of: &TuneState| {
        vec![
            linked(&of.id, format!("/tunes/{}", of.id)),
            Cell::from(format::moment(of.begun)),
            Cell::from(crate::tune_stage(of)),
            Cell::from(of.plan.objective.clone()),
            Cell::from(of.plan.workload.clone().unwrap_or_default()),
        ]
    };
    let table =
        Table { columns: heads.map(Column::text).into(), rows: all.iter().map(row).collect() };
    list("Tunes", format::counted(all.len() as u64, "tune"), table)
}

fn linked(text: &str, link: String) -> Cell {
    Cell { link: Some(link), ..Cell::from(text) }
}

fn list(title: &str, said: String, table: Table) -> Document {
    let blocks = match table.rows.is_empty() {
        true => vec![Block::Missing("There are none.".to_owned())],
        false => vec![Block::Table(table)],
    };
    Document {
        kind: "lab",
        title: title.to_owned(),
        deck: vec![words::sentence(&said)],
        sections: vec![Section::new("list", "", Reach::Paper, blocks)],
        ..Document::default()
    }
}

/// A command that was started from a page.
#[derive(Debug)]
pub struct JobRow<'a> {
    /// Where its page is.
    pub link: String,
    /// Its words.
    pub command: &'a str,
    /// When it was started.
    pub begun: walwright_record::Timestamp,
    /// How it stands, in words.
    pub state: String,
    /// Whether it has failed.
    pub failed: bool,
}

/// Commands that were started from a page, as a page.
pub fn job_list(all: &[JobRow<'_>]) -> Document {
    let row = |job: &JobRow<'_>| {
        vec![
            linked(job.command, job.link.clone()),
            Cell::from(format::moment(job.begun)),
            Cell { is_better: job.failed.then_some(false), ..Cell::from(job.state.clone()) },
        ]
    };
    let heads = ["command", "begun", "state"];
    let table =
        Table { columns: heads.map(Column::text).into(), rows: all.iter().map(row).collect() };
    list("Started here", "Commands that were started from these pages".to_owned(), table)
}

/// One of them: `lines` are the last that it said, `runs` those that it has made.
pub fn job(of: &JobRow<'_>, lines: &[String], runs: &[RunId]) -> Document {
    let mut sections = Vec::new();
    if !runs.is_empty() {
        let rows = runs.iter().map(|run| vec![linked(&run.0, format!("/runs/{run}"))]);
        let table = Table { columns: vec![Column::text("run")], rows: rows.collect() };
        sections.push(Section::new("runs", "Its runs", Reach::Paper, vec![Block::Table(table)]));
    }
    let said = match lines.is_empty() {
        true => Block::Missing("It has said nothing yet.".to_owned()),
        false => Block::Code(lines.join("\n")),
    };
    sections.push(Section::new("said", "What it says", Reach::Paper, vec![said]));
    Document {
        kind: "command",
        date: Some(format::moment(of.begun)),
        title: of.command.to_owned(),
        verdict: Some(of.state.clone()),
        is_better: of.failed.then_some(false),
        sections,
        ..Document::default()
    }
}
