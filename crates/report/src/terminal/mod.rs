//! The summary of a run that fits a screen of 80 by 40.

mod bars;
mod commit;
mod compare;
mod diagnosis;
mod experiment;
pub(crate) mod printable;
mod scaling;
mod server;
mod storage;
pub(crate) mod style;

use walwright_diagnose::Diagnosis;
use walwright_figures::{DataDiskUse, LoadSummary, Summary};
use walwright_record::Record;

use crate::{format, words};
pub use commit::commit;
pub use compare::comparison;
pub use diagnosis::{diagnosis, explanation};
pub use experiment::experiment;
pub use printable::{printable, printable_json, printable_painted};
pub use scaling::{scaling, scaling_styled};
pub use storage::{storage, storage_list};
use style::Ansi;
pub use style::{Style, fit};

/// Lines of a screen, less those of the prompt and the path of the report.
const LINES: usize = 37;
/// Width of the names at the left.
const NAMES: usize = 13;

/// The summary as text, at most 37 lines long at 80 columns or more, each ending
/// in a newline. `width` is that of the terminal in columns; colours are ANSI
/// sequences. Whether bars are drawn in Unicode follows the environment
/// ([`Style::for_terminal`]).
pub fn summary(
    record: &Record,
    summary: &Summary,
    diagnosis: &Diagnosis,
    width: usize,
    colour: bool,
) -> String {
    styled(record, summary, diagnosis, &Style::for_terminal(width, colour))
}

/// The summary in a given style.
pub fn styled(record: &Record, summary: &Summary, diagnosis: &Diagnosis, style: &Style) -> String {
    let mut page = Page { style, lines: Vec::new() };
    page.header(record);
    match &summary.load {
        Some(load) => page.load(load),
        None => {
            page.server_load(summary);
            page.field("Load", &words::no_load(record), None);
        }
    }
    page.client_totals(summary);
    page.side_measures(record);
    page.time(summary);
    page.server(record, summary);
    page.findings(summary, diagnosis);
    page.warnings(summary);
    style.finish(&page.lines)
}

/// Lines in the making.
struct Page<'a> {
    style: &'a Style,
    lines: Vec<String>,
}

impl Page<'_> {
    fn gap(&mut self) {
        self.lines.push(String::new());
    }

    fn header(&mut self, record: &Record) {
        if let Some((word, text)) = words::state(record) {
            self.text(&format!("{word}. {text}"), 0, Ansi::Red);
        }
        let (title, id) = (printable::one_line(&words::title(record)), &record.header.id.0);
        let room = self.style.width.saturating_sub(title.chars().count() + id.chars().count());
        let space = if room >= 2 { " ".repeat(room) } else { "  ".to_owned() };
        self.lines.push(format!(
            "{}{space}{}",
            self.style.paint(Ansi::Bold, &title),
            self.style.paint(Ansi::Faint, id)
        ));
        self.text(&words::deck(record), 0, Ansi::Faint);
        self.gap();
    }

    fn load(&mut self, load: &LoadSummary) {
        match &load.throughput {
            Some(_) if load.transactions == 0 => {
                let note = format!("no {} ended well in the window", load.unit.name());
                self.field("Throughput", "0/s", Some(&note));
            }
            Some(throughput) => {
                let unit = load.unit.name();
                let note = match throughput.interval {
                    Some(_) => format!("{unit}s, 95 % interval within this run"),
                    None if !load.stages.is_empty() => format!("{unit}s, the mean of all stages"),
                    None => format!("{unit}s; too short for an interval"),
                };
                let figure = format::estimate(throughput, "/s");
                self.field("Throughput", &figure, Some(&note));
            }
            None => self.field("Throughput", "no whole interval in the window", None),
        }
        if let Some(open) = &load.open_loop {
            let lag = open.lag.as_ref().map(|l| format!(", lag p99 {}", format::latency(l.p99)));
            let skipped =
                (open.skipped > 0).then(|| format!(", {} skipped", format::count(open.skipped)));
            let note = format!(
                "reached {}{}{}",
                format::rate(open.reached),
                lag.unwrap_or_default(),
                skipped.unwrap_or_default()
            );
            self.field("Offered", &format::rate(open.offered), Some(&note));
        }
        match &load.latency {
            Some(latency) => {
                let figures: Vec<String> = words::percentiles(latency)
                    .into_iter()
                    .filter_map(|(name, value)| Some(format!("{name} {}", value?)))
                    .collect();
                self.wrapped("Latency", &figures, "  ");
            }
            None => match load.mean_latency {
                Some(mean) => self.field("Latency", &words::mean_only(mean), None),
                None => {
                    let none = format!("no {} ended well", load.unit.name());
                    self.field("Latency", &none, None);
                }
            },
        }
        let states: Vec<String> = load
            .failures
            .iter()
            .map(|(code, n)| format!("{code} {} {}", words::sqlstate(code), format::count(*n)))
            .collect();
        let note = (!states.is_empty()).then(|| states.join(", "));
        self.field("Failed", &words::failed_of(load), note.as_deref());
        if load.retried > 0 {
            let states: Vec<String> = load
                .retries
                .iter()
                .map(|(code, n)| format!("{code} {}", format::count(*n)))
                .collect();
            self.field("Retried", &format::count(load.retried), Some(&states.join(", ")));
        }
        if let Some(mark) = &load.pass_mark {
            let (word, ansi) =
                if mark.passed { ("PASS", Ansi::Green) } else { ("FAIL", Ansi::Red) };
            let lines = self.style.wrap(&words::pass_mark(mark), NAMES);
            self.named(&self.style.paint_bold(ansi, word), word.len(), &lines);
        }
    }

    /// Someone else's load as the server counts it.
    fn server_load(&mut self, summary: &Summary) {
        let Some(load) = &summary.server_load else { return };
        if let Some(rate) = &load.commits_per_second {
            let figure = format::estimate(rate, "/s");
            self.field("Throughput", &figure, Some(&words::commits_note(load)));
        }
    }

    fn client_totals(&mut self, summary: &Summary) {
        for line in summary.client.iter().flat_map(words::client_totals) {
            self.field("Clients", &line, None);
        }
    }

    fn side_measures(&mut self, record: &Record) {
        for (name, seconds) in &record.side_measures {
            let name = words::side_measure(name);
            let figure = format!("{} {}", format::seconds(*seconds), words::SIDE_MEASURE);
            if name.chars().count() < NAMES {
                self.wrapped(&name, &[figure], ", ");
            } else {
                self.wrapped("Beside", &[name.to_lowercase(), figure], ": ");
            }
        }
    }

    fn time(&mut self, summary: &Summary) {
        if summary.window.is_none() {
            return;
        }
        self.gap();
        let Some(split) = &summary.time else {
            let why = summary.not_observable.iter().find(|n| n.figure == "time of a transaction");
            let why = why.map(|n| format!(", {}", n.why)).unwrap_or_default();
            self.text(
                &format!("Where the time went: {}{why}.", format::NOT_OBSERVABLE),
                0,
                Ansi::Faint,
            );
            return;
        };
        if let Some(unseen) = split.unseen() {
            self.text(&format!("Where the time went: {unseen}."), 0, Ansi::Faint);
            return;
        }
        let unit = split.unit.name();
        let heading = match split.latency {
            Some(latency) => format!("Where the {} of a {unit} went", format::latency(latency)),
            None => format!(
                "Where the {} of a {unit} on the server went",
                format::seconds(split.on_server.center)
            ),
        };
        self.lines.push(self.style.paint(Ansi::Bold, &heading));
        self.lines.extend(bars::bars(split, self.style));
    }

    fn server(&mut self, record: &Record, summary: &Summary) {
        let mut lists = Vec::new();
        // Without a window there is nothing these figures could be of.
        if summary.window.is_some() {
            lists.push(("WAL", server::wal(summary)));
            lists.push(("Checkpoints", server::checkpoints(summary)));
            lists.push(("CPU", server::cpu(summary)));
        }
        if let Some(probe) = &record.storage {
            lists.push(("Storage", server::storage(probe)));
        }
        if let Some(used) = &summary.storage {
            lists.push(("Disk", words::storage_figures(used)));
        }
        // Without a measurement the rates alone say little.
        let measured = |used: &&DataDiskUse| used.writes.least_share.is_some();
        if let Some(used) = summary.data_disk.as_ref().filter(measured) {
            lists.push(("Data disk", words::data_disk_figures(used)));
        }
        if !lists.is_empty() {
            self.gap();
        }
        for (name, figures) in lists {
            self.list(name, &figures);
        }
    }

    /// The first findings; without a window there is nothing to find.
    fn findings(&mut self, summary: &Summary, found: &Diagnosis) {
        if summary.window.is_some() {
            self.gap();
            self.lines.extend(diagnosis::brief(found, self.style));
        }
    }

    /// Warnings, as many as the screen has room for; the last line says how many it had not.
    fn warnings(&mut self, summary: &Summary) {
        if summary.warnings.is_empty() {
            return;
        }
        self.gap();
        let all = summary.warnings.len();
        for (i, warning) in summary.warnings.iter().enumerate() {
            let mut lines = self.style.wrap(&words::sentence(&warning.text), 2);
            let hint = warning.hint.as_deref().map(words::sentence);
            let hints = hint.map(|h| self.style.wrap(&format!("→ {h}"), 4)).unwrap_or_default();
            // One line is kept for saying that there are more.
            let room = LINES.saturating_sub(self.lines.len() + usize::from(i + 1 < all));
            if lines.len() + hints.len() > room {
                let text =
                    format!("{} more in the report", format::counted((all - i) as u64, "warning"));
                self.lines.push(self.style.paint(Ansi::Yellow, &text));
                return;
            }
            let first = lines.remove(0);
            self.lines.push(format!("{} {first}", self.style.paint_bold(Ansi::Yellow, "!")));
            self.lines.extend(lines.iter().map(|l| format!("  {l}")));
            self.lines
                .extend(hints.iter().map(|l| format!("    {}", self.style.paint(Ansi::Faint, l))));
        }
    }

    /// A name and its figure; the note is said after it, faint.
    fn field(&mut self, name: &str, figure: &str, note: Option<&str>) {
        let note = note.map(|n| format!("  {n}")).unwrap_or_default();
        let lines = self.style.wrap(&format!("{figure}{note}"), NAMES);
        let painted = lines.iter().enumerate().map(|(i, line)| match line.strip_prefix(figure) {
            Some(rest) if i == 0 => {
                format!(
                    "{}{}",
                    self.style.paint(Ansi::Bold, figure),
                    self.style.paint(Ansi::Faint, rest)
                )
            }
            _ if i > 0 => self.style.paint(Ansi::Faint, line),
            _ => line.clone(),
        });
        let painted: Vec<String> = painted.collect();
        self.named(name, name.chars().count(), &painted);
    }

    /// Figures in a row, broken between them; nothing known is said so.
    fn list(&mut self, name: &str, figures: &[String]) {
        if figures.is_empty() {
            let unknown = self.style.paint(Ansi::Faint, format::NOT_OBSERVABLE);
            self.named(name, name.len(), &[unknown]);
        } else {
            self.wrapped(name, figures, ", ");
        }
    }

    fn wrapped(&mut self, name: &str, figures: &[String], between: &str) {
        let lines = self.style.join(figures, between, NAMES);
        self.named(name, name.chars().count(), &lines);
    }

    fn named(&mut self, name: &str, shown: usize, lines: &[String]) {
        let pad = " ".repeat(NAMES.saturating_sub(shown));
        for (i, line) in lines.iter().enumerate() {
            self.lines.push(if i == 0 {
                format!("{name}{pad}{line}")
            } else {
                format!("{}{line}", " ".repeat(NAMES))
            });
        }
    }

    fn text(&mut self, text: &str, indent: usize, ansi: Ansi) {
        self.lines.extend(self.style.indented(text, indent, Some(ansi)));
    }
}
