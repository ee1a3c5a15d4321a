//! A comparison on a terminal.

use walwright_figures::compare::{Comparison, Section, Verdict};

use super::printable::one_line;
use super::style::{Ansi, Style};
use crate::{compared, format};

/// Width of names at the left.
const NAMES: usize = 27;
/// Width of a value.
const VALUE: usize = 13;
/// Statements listed unless all are wanted.
const STATEMENTS: usize = 6;
/// Differences listed unless all are wanted.
const DIFFERENCES: usize = 20;

/// The comparison as text. `all` tells every figure, also those that hardly differ.
pub fn comparison(of: &Comparison, width: usize, colour: bool, all: bool) -> String {
    styled(of, &Style::for_terminal(width, colour), all)
}

fn styled(of: &Comparison, style: &Style, all: bool) -> String {
    let mut page = Page { of, style, lines: Vec::new() };
    page.groups();
    page.findings();
    for other in 1..of.groups.len() {
        page.table(other, all);
    }
    page.statements(all);
    page.differences(all);
    page.warnings();
    style.finish(&page.lines)
}

struct Page<'a> {
    of: &'a Comparison,
    style: &'a Style,
    lines: Vec<String>,
}

impl Page<'_> {
    fn text(&mut self, text: &str, indent: usize, ansi: Option<Ansi>) {
        self.lines.extend(self.style.indented(text, indent, ansi));
    }

    fn head(&mut self, text: &str) {
        self.lines.push(String::new());
        let bold = self.style.paint(Ansi::Bold, &one_line(text));
        self.lines.push(bold);
    }

    fn groups(&mut self) {
        for (place, group) in self.of.groups.iter().enumerate() {
            let what = if place == 0 { "baseline" } else { "compared" };
            let runs: Vec<&str> = group.runs.iter().map(|run| run.0.as_str()).collect();
            let runs = if runs == [group.name.as_str()] {
                String::new()
            } else {
                format!(": {}", runs.join(", "))
            };
            self.text(&format!("{what} {}{runs}", group.name), 0, None);
        }
        let text = format!(
            "The first {} of each measured window; costs are per {}.",
            format::length(self.of.window),
            self.of.unit.name()
        );
        self.text(&text, 0, Some(Ansi::Faint));
    }

    fn findings(&mut self) {
        self.lines.push(String::new());
        for finding in &self.of.findings {
            let ansi = match (finding.verdict, finding.better) {
                (Verdict::Changed, Some(true)) => Some(Ansi::Green),
                (Verdict::Changed, Some(false)) => Some(Ansi::Red),
                _ => None,
            };
            self.text(&finding.text, 0, ansi);
        }
    }

    fn table(&mut self, other: usize, all: bool) {
        let groups = &self.of.groups;
        self.lines.push(String::new());
        let cut = |name: &str| {
            let letters: Vec<char> = one_line(name).chars().collect();
            // The end of a run's name tells it from its neighbours.
            match letters.len().checked_sub(VALUE - 1) {
                None | Some(0) => letters.into_iter().collect::<String>(),
                Some(more) => format!("…{}", letters[more + 1..].iter().collect::<String>()),
            }
        };
        let head = format!(
            "{:NAMES$}{:>VALUE$}{:>VALUE$}{:>10}",
            "",
            cut(&groups[0].name),
            cut(&groups[other].name),
            "change"
        );
        self.lines.push(self.style.paint(Ansi::Faint, head.trim_end()));
        for section in Section::ALL {
            let figures = compared::figures(self.of, section, all);
            if figures.is_empty() {
                continue;
            }
            let heading = compared::heading(section, self.of.unit);
            self.lines.push(self.style.paint(Ansi::Bold, &heading));
            for figure in figures {
                let value =
                    |group: usize| compared::value(figure.unit, figure.values[group].center);
                let effect = figure.effects[other - 1].as_ref();
                let change = effect.map(|e| compared::percent(e.change.center));
                let change = format!("{:>10}", change.unwrap_or_else(|| "–".to_owned()));
                let change = match effect.and_then(|e| compared::is_better(figure, e)) {
                    Some(true) => self.style.paint(Ansi::Green, &change),
                    Some(false) => self.style.paint(Ansi::Red, &change),
                    None => change,
                };
                let interval = effect.map(compared::interval).unwrap_or_default();
                let name: String = figure.name.chars().take(NAMES - 3).collect();
                let left = format!(
                    "  {:width$}{:>VALUE$}{:>VALUE$}",
                    name,
                    value(0),
                    value(other),
                    width = NAMES - 2
                );
                let faint = self.style.paint(Ansi::Faint, &interval);
                self.lines.push(format!("{left}{change}  {faint}").trim_end().to_owned());
            }
        }
    }

    fn statements(&mut self, all: bool) {
        let most = if all { usize::MAX } else { STATEMENTS };
        if self.of.statements.is_empty() {
            return;
        }
        self.head("Statements, matched by text, the largest change of time first");
        for statement in self.of.statements.iter().take(most) {
            let query: String = one_line(&statement.query).chars().take(200).collect();
            self.text(&query, 2, None);
            for (group, facts) in self.of.groups.iter().enumerate() {
                let [time, calls, mean, wal] =
                    compared::statement(statement.groups[group].as_ref());
                let unit = self.of.unit.name();
                let text = format!(
                    "{}: {time} and {calls} calls per {unit}, {mean} and {wal} of WAL a call",
                    facts.name
                );
                let text = if statement.groups[group].is_none() {
                    format!("{}: –", facts.name)
                } else {
                    text
                };
                self.text(&text, 4, Some(Ansi::Faint));
            }
        }
        self.more(self.of.statements.len(), most, "statement");
    }

    fn differences(&mut self, all: bool) {
        let most = if all { usize::MAX } else { DIFFERENCES };
        self.head("What differs besides, and could explain it");
        if self.of.differences.is_empty() {
            let nothing =
                "nothing that is recorded: settings, schema, data, host and load are alike";
            self.text(nothing, 2, None);
        }
        for difference in self.of.differences.iter().take(most) {
            let values: Vec<&str> = difference
                .values
                .iter()
                .map(|value| value.as_deref().unwrap_or("not known"))
                .collect();
            let arrow = values.join(" → ");
            let text = format!("{} {}: {arrow}", difference.kind.label(), difference.name);
            self.text(&text, 2, None);
        }
        self.more(self.of.differences.len(), most, "difference");
    }

    fn more(&mut self, all: usize, most: usize, what: &str) {
        if all > most {
            let text =
                format!("{} more: --all tells them", format::counted((all - most) as u64, what));
            self.text(&text, 2, Some(Ansi::Faint));
        }
    }

    fn warnings(&mut self) {
        if self.of.warnings.is_empty() {
            return;
        }
        self.lines.push(String::new());
        for warning in &self.of.warnings {
            let lines = self.style.wrap(&crate::words::sentence(warning), 2);
            for (place, line) in lines.iter().enumerate() {
                let mark = if place == 0 {
                    self.style.paint_bold(Ansi::Yellow, "!")
                } else {
                    " ".to_owned()
                };
                self.lines.push(format!("{mark} {line}"));
            }
        }
    }
}
