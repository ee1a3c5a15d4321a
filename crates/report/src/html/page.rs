//! What the template is given: everything already written as a person reads it.
//! Fields named `svg`, `ribbon`, `footer`, `histogram` and `curve` are markup made
//! by `svg`; all others are text and are escaped by the template engine.

use serde::Serialize;

use crate::svg;

/// The whole page.
#[derive(Debug, Default, Serialize)]
pub(super) struct Page {
    pub(super) title: String,
    pub(super) deck: String,
    pub(super) id: String,
    pub(super) label: Option<String>,
    /// Version that wrote the record.
    pub(super) version: String,
    pub(super) started: String,
    pub(super) state: Option<State>,
    pub(super) headline: Vec<Figure>,
    pub(super) headline_missing: String,
    pub(super) beside: Vec<Figure>,
    pub(super) verdict: Option<Verdict>,
    pub(super) warnings_title: String,
    pub(super) warnings: Vec<WarningRow>,
    pub(super) findings: Option<Findings>,
    pub(super) time: Option<Time>,
    pub(super) time_missing: String,
    pub(super) timeline: Option<TimelineView>,
    pub(super) timeline_missing: Vec<String>,
    pub(super) latency: Latency,
    pub(super) failures: Vec<Failure>,
    pub(super) statements: Vec<StatementList>,
    pub(super) statements_missing: String,
    pub(super) wal: Vec<Fact>,
    pub(super) checkpoints: Vec<Fact>,
    pub(super) settings: Vec<SettingRow>,
    pub(super) settings_missing: String,
    pub(super) server: Vec<Fact>,
    pub(super) host: Vec<Fact>,
    pub(super) cpu: Vec<Fact>,
    pub(super) kernel: Vec<Vec<Fact>>,
    pub(super) tables: Vec<TableRow>,
    pub(super) not_observable: Vec<String>,
    pub(super) load: Vec<Fact>,
    pub(super) instrument: Vec<Fact>,
    pub(super) command: String,
    pub(super) scripts: Vec<Script>,
    pub(super) events: Vec<EventRow>,
}

/// Why the run is not complete.
#[derive(Debug, Serialize)]
pub(super) struct State {
    pub(super) name: String,
    pub(super) text: String,
}

/// A headline figure.
#[derive(Debug, Default, Serialize)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) note: Option<String>,
    pub(super) ink: Option<&'static str>,
    pub(super) lead: bool,
    pub(super) unknown: bool,
}

/// The workload's pass mark.
#[derive(Debug, Serialize)]
pub(super) struct Verdict {
    pub(super) pass: bool,
    pub(super) text: String,
}

/// A warning.
#[derive(Debug, Serialize)]
pub(super) struct WarningRow {
    pub(super) text: String,
    pub(super) hint: Option<String>,
}

/// What is diagnosed.
#[derive(Debug, Serialize)]
pub(super) struct Findings {
    /// Flushes against the disk's ceiling, and what the disk under the data did.
    pub(super) storage: Option<String>,
    pub(super) verdict: String,
    pub(super) told: Vec<FindingView>,
    pub(super) not_observable: Vec<String>,
}

/// One finding.
#[derive(Debug, Serialize)]
pub(super) struct FindingView {
    pub(super) id: String,
    pub(super) kind: &'static str,
    pub(super) title: String,
    pub(super) cause: String,
    pub(super) impact: Option<String>,
    pub(super) gain: Option<String>,
    pub(super) evidence: Vec<String>,
    pub(super) notes: Vec<String>,
    pub(super) actions: Vec<ActionView>,
}

/// What to do.
#[derive(Debug, Serialize)]
pub(super) struct ActionView {
    pub(super) text: String,
    pub(super) command: Option<String>,
    pub(super) conditions: Option<String>,
}

/// Where the time went.
#[derive(Debug, Serialize)]
pub(super) struct Time {
    pub(super) lede: String,
    pub(super) rows: Vec<TimeRow>,
    pub(super) notes: Vec<String>,
}

/// One kind of wait.
#[derive(Debug, Serialize)]
pub(super) struct TimeRow {
    pub(super) name: String,
    pub(super) ink: &'static str,
    /// Share of the bar, 0 to 100.
    pub(super) weight: f64,
    /// Text inside the bar, where there is room.
    pub(super) inside: String,
    pub(super) share: String,
    pub(super) interval: String,
    pub(super) sessions: String,
    pub(super) per_transaction: String,
    pub(super) events: String,
}

/// The timeline, drawn.
#[derive(Debug, Serialize)]
pub(super) struct TimelineView {
    pub(super) ribbon: String,
    pub(super) panels: Vec<PanelView>,
    pub(super) footer: String,
    pub(super) hover: svg::HoverSheet,
}

/// A panel, drawn.
#[derive(Debug, Serialize)]
pub(super) struct PanelView {
    pub(super) title: String,
    pub(super) about: String,
    pub(super) svg: String,
}

/// The distribution of latencies.
#[derive(Debug, Default, Serialize)]
pub(super) struct Latency {
    pub(super) lede: String,
    pub(super) histogram: Option<String>,
    pub(super) curve: Option<String>,
    pub(super) missing: String,
    pub(super) tables: Vec<Table>,
}

/// A plain table: the first column is a name, the others are figures.
#[derive(Debug, Serialize)]
pub(super) struct Table {
    pub(super) title: String,
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
    /// Whether the names are code.
    pub(super) code: bool,
}

/// Failed transactions of one kind.
#[derive(Debug, Serialize)]
pub(super) struct Failure {
    pub(super) code: String,
    pub(super) meaning: String,
    pub(super) count: String,
    pub(super) share: String,
}

/// Statements in one order.
#[derive(Debug, Serialize)]
pub(super) struct StatementList {
    pub(super) title: String,
    pub(super) share_of: String,
    pub(super) ink: &'static str,
    pub(super) rows: Vec<StatementRow>,
}

/// A statement of pg_stat_statements.
#[derive(Debug, Serialize)]
pub(super) struct StatementRow {
    pub(super) text: String,
    /// The beginning of a text too long for a table; the whole unfolds.
    pub(super) short: Option<String>,
    pub(super) share: String,
    /// Length of its bar in percent of the cell.
    pub(super) width: f64,
    pub(super) calls: String,
    pub(super) per_transaction: String,
    pub(super) mean: String,
    /// Execution time a transaction.
    pub(super) time: String,
    pub(super) wal: String,
    pub(super) rows: String,
}

/// A name and what is known of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct Fact {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) note: Option<String>,
    /// Whether the value is code.
    pub(super) code: bool,
}

impl Fact {
    pub(super) fn new(name: impl Into<String>, value: impl Into<String>) -> Fact {
        Fact { name: name.into(), value: value.into(), note: None, code: false }
    }

    pub(super) fn code(name: impl Into<String>, value: impl Into<String>) -> Fact {
        Fact { code: true, ..Fact::new(name, value) }
    }

    /// A fact that may not be known.
    pub(super) fn known(name: impl Into<String>, value: Option<String>) -> Fact {
        Fact::new(name, value.unwrap_or_else(|| crate::format::NOT_OBSERVABLE.to_owned()))
    }

    pub(super) fn note(mut self, note: impl Into<String>) -> Fact {
        self.note = Some(note.into());
        self
    }
}

/// A setting that differs from its default.
#[derive(Debug, Serialize)]
pub(super) struct SettingRow {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) default: String,
    pub(super) source: String,
    pub(super) pending: bool,
}

/// A table of the database.
#[derive(Debug, Serialize)]
pub(super) struct TableRow {
    pub(super) name: String,
    pub(super) rows: String,
    pub(super) bytes: String,
    pub(super) details: Vec<String>,
}

/// A script of the workload.
#[derive(Debug, Serialize)]
pub(super) struct Script {
    pub(super) name: String,
    pub(super) weight: u32,
    pub(super) text: String,
}

/// An event of the run.
#[derive(Debug, Serialize)]
pub(super) struct EventRow {
    pub(super) at: String,
    pub(super) kind: String,
    pub(super) text: String,
}
