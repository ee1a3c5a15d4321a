//! What a page says, for every rendering: built once from a result, drawn by the backends
//! [`terminal`](crate::terminal), [`html`](crate::html) and [`markdown`](crate::markdown).

use std::borrow::Cow;

use walwright_figures::scaling::Scaling;

use crate::svg::curves::Curves;
use crate::svg::forest::Forest;
use crate::svg::heat::Heat;
use crate::svg::overlay::Overlay;
use crate::svg::{Course, Ink, Mark, Timeline};
use crate::{format, words};

/// A page: a verdict, the figures that matter most, and sections.
#[derive(Debug, Default)]
pub struct Document {
    /// What it is a page of: `run report`.
    pub(crate) kind: &'static str,
    pub(crate) label: Option<String>,
    /// When it was, as a person reads it.
    pub(crate) date: Option<String>,
    pub(crate) id: String,
    pub(crate) title: String,
    pub(crate) deck: Vec<String>,
    /// Why what is reported is not whole: a word and a sentence.
    pub(crate) state: Option<(&'static str, String)>,
    /// What came out, in words that need no statistics.
    pub(crate) verdict: Option<String>,
    /// Whether that is to the better; `None` where it is neither.
    pub(crate) is_better: Option<bool>,
    /// The figures that matter most.
    pub(crate) figures: Vec<Figure>,
    /// Why there are none.
    pub(crate) no_figures: Option<String>,
    /// Figures beside them.
    pub(crate) beside: Vec<Figure>,
    /// Whether a mark was met, and the sentence about it.
    pub(crate) pass: Option<(bool, String)>,
    pub(crate) warnings: Vec<Warning>,
    pub(crate) sections: Vec<Section>,
    /// Where the page comes from: its last line.
    pub(crate) origin: String,
}

/// A warning and what to do about it.
#[derive(Debug, Clone)]
pub(crate) struct Warning {
    pub(crate) text: String,
    pub(crate) hint: Option<String>,
}

impl Warning {
    /// A warning of nothing but a sentence.
    pub(crate) fn saying(text: &str) -> Warning {
        Warning { text: words::sentence(text), hint: None }
    }

    /// A warning of a record, in sentences.
    pub(crate) fn of(warning: &walwright_record::Warning) -> Warning {
        Warning {
            text: words::sentence(&warning.text),
            hint: warning.hint.as_deref().map(words::sentence),
        }
    }
}

/// A figure with its name: one value or several, each with what it is of.
#[derive(Debug, Default, Clone)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) parts: Vec<Part>,
    pub(crate) note: Option<String>,
    /// The first figure of a page.
    pub(crate) lead: bool,
    /// Whether the parts stand apart, each under its own label, as percentiles do.
    pub(crate) spread: bool,
}

/// A value of a figure.
#[derive(Debug, Default, Clone)]
pub(crate) struct Part {
    /// `None` where it is not known.
    pub(crate) value: Option<String>,
    /// What it is of: `per transaction`.
    pub(crate) label: String,
    pub(crate) ink: Option<Ink>,
}

impl Figure {
    /// A figure of one value; `None` where it is not observable.
    pub(crate) fn new(name: impl Into<String>, value: Option<String>) -> Figure {
        Figure {
            name: name.into(),
            parts: vec![Part { value, ..Part::default() }],
            ..Figure::default()
        }
    }

    /// A figure of several values, those that are known.
    pub(crate) fn of(name: &str, parts: Vec<Part>) -> Figure {
        Figure { name: name.to_owned(), parts, ..Figure::default() }
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Figure {
        self.note = Some(note.into()).filter(|note: &String| !note.is_empty());
        self
    }
}

impl Part {
    /// A value and what it is of.
    pub(crate) fn new(value: impl Into<String>, label: impl Into<String>) -> Part {
        Part { value: Some(value.into()), label: label.into(), ink: None }
    }

    /// The value before its label.
    pub(crate) fn text(&self) -> String {
        let value = self.value.as_deref().unwrap_or(format::NOT_OBSERVABLE);
        format!("{value} {}", self.label).trim_end().to_owned()
    }
}

/// Where a section is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    /// On the HTML page.
    Page,
    /// In Markdown too.
    Paper,
    /// In the summary on a terminal too.
    Everywhere,
}

/// A part of a page under a heading.
#[derive(Debug)]
pub(crate) struct Section {
    /// Its anchor.
    pub(crate) id: Cow<'static, str>,
    pub(crate) title: String,
    pub(crate) reach: Reach,
    pub(crate) blocks: Vec<Block>,
}

impl Section {
    pub(crate) fn new(
        id: impl Into<Cow<'static, str>>,
        title: impl Into<String>,
        reach: Reach,
        blocks: Vec<Block>,
    ) -> Section {
        Section { id: id.into(), title: title.into(), reach, blocks }
    }
}

/// A piece of a section.
#[derive(Debug)]
pub(crate) enum Block {
    /// How to read what follows.
    Lede(String),
    Text(String),
    /// Text of less weight.
    Muted(String),
    /// Why something is not there.
    Missing(String),
    Warning(Warning),
    Heading(String),
    Fields(Vec<Field>),
    Table(Table),
    Chart(Chart),
    List(Vec<String>),
    /// Text as it was typed.
    Code(String),
    Action(Action),
    Folded(Folded),
    /// What only a page has room for.
    Aside(Vec<Block>),
    /// Pieces side by side, where there is room.
    Columns(Vec<Vec<Block>>),
    /// The same under several names, of which a page shows one at a time.
    Faces(Faces),
}

/// Pieces that take turns. What has no turns, such as a terminal, shows the first.
#[derive(Debug)]
pub(crate) struct Faces {
    /// What is chosen, which the address keeps.
    pub(crate) name: &'static str,
    pub(crate) faces: Vec<(&'static str, Vec<Block>)>,
}

/// What folds away under its heading.
#[derive(Debug)]
pub(crate) struct Folded {
    pub(crate) title: String,
    /// A code to search for.
    pub(crate) label: Option<String>,
    pub(crate) note: Option<String>,
    pub(crate) tone: Tone,
    pub(crate) blocks: Vec<Block>,
    /// Unfolded to begin with.
    pub(crate) open: bool,
}

/// How much something matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Bad,
    Warn,
    Plain,
}

/// What to do, the command for it, and its conditions.
#[derive(Debug, PartialEq, Clone)]
pub(crate) struct Action {
    pub(crate) text: String,
    pub(crate) command: Option<String>,
    pub(crate) conditions: Option<String>,
}

/// A name and what is known of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) value: String,
    pub(crate) note: Option<String>,
    /// Whether the value is code.
    pub(crate) code: bool,
    /// Where on the page the value leads.
    pub(crate) link: Option<String>,
}

impl Field {
    pub(crate) fn new(name: impl Into<String>, value: impl Into<String>) -> Field {
        Field { name: name.into(), value: value.into(), ..Field::default() }
    }

    pub(crate) fn code(name: impl Into<String>, value: impl Into<String>) -> Field {
        Field { code: true, ..Field::new(name, value) }
    }

    /// A field that may not be known.
    pub(crate) fn known(name: impl Into<String>, value: Option<String>) -> Field {
        Field::new(name, value.unwrap_or_else(|| format::NOT_OBSERVABLE.to_owned()))
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Field {
        self.note = Some(note.into()).filter(|note: &String| !note.is_empty());
        self
    }
}

/// Rows under heads.
#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

/// A column: what it holds, and how.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) head: String,
    pub(crate) kind: ColumnKind,
    /// Percent of the table that it takes on a page.
    pub(crate) width: Option<u8>,
    /// Where the rows are ordered by it, on a site.
    pub(crate) link: Option<String>,
}

/// What a column's cells are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    Text,
    Number,
    Code,
    Muted,
}

impl Column {
    fn of(head: impl Into<String>, kind: ColumnKind) -> Column {
        Column { head: head.into(), kind, width: None, link: None }
    }

    pub(crate) fn text(head: impl Into<String>) -> Column {
        Column::of(head, ColumnKind::Text)
    }

    pub(crate) fn number(head: impl Into<String>) -> Column {
        Column::of(head, ColumnKind::Number)
    }

    pub(crate) fn code(head: impl Into<String>) -> Column {
        Column::of(head, ColumnKind::Code)
    }

    pub(crate) fn muted(head: impl Into<String>) -> Column {
        Column::of(head, ColumnKind::Muted)
    }

    pub(crate) fn wide(mut self, percent: u8) -> Column {
        self.width = Some(percent);
        self
    }
}

/// A cell of a table.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    pub(crate) text: String,
    /// The beginning of a text too long for a table; the whole unfolds.
    pub(crate) short: Option<String>,
    /// A key to a colour of a chart.
    pub(crate) key: Option<Ink>,
    /// A bar below, in percent of the cell.
    pub(crate) bar: Option<(f64, Ink)>,
    pub(crate) note: Option<String>,
    /// Whether it is to the better, for its colour; `None` where it is neither.
    pub(crate) is_better: Option<bool>,
    /// Where the text leads on a site.
    pub(crate) link: Option<String>,
    /// Values in their order, drawn as small as the text.
    pub(crate) course: Vec<f64>,
    /// The form of a site that it can be ticked for, and the name and value that this sends.
    pub(crate) tick: Option<Tick>,
}

/// What is ticked in a table.
#[derive(Debug, Clone)]
pub(crate) struct Tick {
    /// The id of the form.
    pub(crate) form: &'static str,
    pub(crate) name: &'static str,
    pub(crate) value: String,
    /// What it does, for who does not see it.
    pub(crate) said: String,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Cell {
        Cell { text: text.into(), ..Cell::default() }
    }
}

/// Data of a picture. HTML draws it; a terminal sketches shares and leaves out the rest.
#[derive(Debug)]
pub(crate) enum Chart {
    /// Parts of a whole.
    Shares(Vec<Share>),
    Timeline(Timeline),
    /// What each measurement of a search showed.
    Course(Course),
    /// Lines over chosen abscissas.
    Curves(Curves),
    /// Throughput over clients, and the law fitted to it.
    ScalingThroughput(Box<Scaling>),
    /// Where the latency goes at each number of clients.
    ScalingBreakdown(Box<Scaling>),
    /// A picture that was kept.
    Picture(Picture),
    /// Effects with their intervals.
    Forest(Forest),
    /// Cells in rows and columns; a table where nothing is drawn.
    Heat(Heat),
    /// Parts of several wholes, one above the other on one scale.
    Beside(Vec<Whole>),
    /// Work a second over time, of several runs.
    ThroughputCurves(Overlay),
    /// Latency over percentiles, of several runs.
    LatencyCurves(Overlay),
    /// Counts by latency, and where percentiles lie.
    Histogram {
        buckets: Vec<(f64, u64)>,
        marks: Vec<Mark>,
        per_decade: u32,
    },
    /// The latency under which a share of all stayed.
    Percentiles {
        points: Vec<(f64, f64)>,
        marks: Vec<Mark>,
    },
}

/// A part of a whole.
#[derive(Debug, Clone)]
pub(crate) struct Share {
    pub(crate) name: String,
    pub(crate) share: f64,
    pub(crate) seconds: f64,
    pub(crate) ink: Ink,
}

/// A whole of known size and its parts.
#[derive(Debug, Clone)]
pub(crate) struct Whole {
    pub(crate) name: String,
    pub(crate) parts: Vec<Share>,
}

/// A picture that was made earlier.
#[derive(Debug, Clone)]
pub(crate) struct Picture {
    /// What a file of it would be called.
    pub(crate) name: String,
    pub(crate) title: String,
    /// Its markup.
    pub(crate) svg: String,
}
