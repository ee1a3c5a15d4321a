//! A document on a terminal: a summary that fits a screen of 80 by 40, or all of it.

use super::bars;
use super::forest::forest;
use super::printable::one_line;
use super::scaling;
use super::style::{Ansi, Style, columns, laid_out};
use crate::document::{
    Action, Block, Cell, Chart, ColumnKind, Document, Figure, Folded, Part, Reach, Section, Table,
    Tone, Warning,
};
use crate::{format, words};

/// Lines of a screen, less those of the prompt and the path of the report.
const LINES: usize = 37;
/// Width of the names at the left.
const NAMES: usize = 13;
/// Width of the names before an item of a section.
const ITEM_NAMES: usize = 10;
/// Columns of a bar behind a row of a table: at most, and fewer tell nothing.
const BAR: usize = 20;
const SHORT_BAR: usize = 6;
/// Findings in a summary.
const BRIEF: usize = 3;

impl Document {
    /// The summary as text, at most 37 lines long at 80 columns or more, each ending in a
    /// newline. With `all` warnings it has as many more as these take.
    pub fn summary(&self, style: &Style, all: bool) -> String {
        let mut page = Page { style, lines: Vec::new() };
        page.head(self);
        self.sections
            .iter()
            .filter(|section| section.reach == Reach::Everywhere)
            .for_each(|section| page.brief(section));
        page.warnings(&self.warnings, (!all).then_some(LINES));
        style.finish(&page.lines)
    }

    /// All of it that a terminal can show.
    pub fn terminal(&self, style: &Style) -> String {
        let mut page = Page { style, lines: Vec::new() };
        page.head(self);
        for section in self.sections.iter().filter(|section| section.reach > Reach::Page) {
            let before = page.lines.len();
            if !section.title.is_empty() {
                page.gap();
                page.heading(&section.title);
            }
            let begun = page.lines.len();
            page.blocks(&section.blocks, 0);
            // Pictures alone, which a terminal does not show.
            if page.lines.len() == begun {
                page.lines.truncate(before);
            }
        }
        page.warnings(&self.warnings, None);
        if !self.origin.is_empty() {
            page.gap();
            page.text(&self.origin, 0, Some(Ansi::Faint));
        }
        style.finish(&page.lines)
    }
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

    fn heading(&mut self, text: &str) {
        let lines = self.style.wrap(text, 0);
        self.lines.extend(lines.iter().map(|line| self.style.paint(Ansi::Bold, line)));
    }

    fn text(&mut self, text: &str, indent: usize, ansi: Option<Ansi>) {
        self.lines.extend(self.style.indented(text, indent, ansi));
    }

    fn head(&mut self, of: &Document) {
        if let Some((word, text)) = &of.state {
            self.text(&format!("{word}. {text}"), 0, Some(Ansi::Red));
        }
        if let Some(verdict) = &of.verdict {
            let ansi = match of.is_better {
                Some(true) => Ansi::Green,
                Some(false) => Ansi::Red,
                None => Ansi::Bold,
            };
            self.text(verdict, 0, Some(ansi));
            self.gap();
        }
        let title = one_line(&of.title);
        let room = self.style.width.saturating_sub(title.chars().count() + of.id.chars().count());
        let space = if room >= 2 { " ".repeat(room) } else { "  ".to_owned() };
        let (title, id) =
            (self.style.paint(Ansi::Bold, &title), self.style.paint(Ansi::Faint, &of.id));
        match of.id.is_empty() {
            true if of.title.is_empty() => {}
            true => self.lines.push(title),
            false => self.lines.push(format!("{title}{space}{id}")),
        }
        of.deck.iter().for_each(|deck| self.text(deck, 0, Some(Ansi::Faint)));
        if !of.figures.is_empty() || of.no_figures.is_some() || of.pass.is_some() {
            self.gap();
        }
        of.figures.iter().for_each(|figure| self.figure(figure));
        if let Some(missing) = &of.no_figures {
            self.figure(&Figure::of("Load", vec![Part::new(missing, "")]));
        }
        if let Some((passed, text)) = &of.pass {
            let (word, ansi) = if *passed { ("PASS", Ansi::Green) } else { ("FAIL", Ansi::Red) };
            let lines = self.style.wrap(text, NAMES);
            self.named(&self.style.paint_bold(ansi, word), word.len(), &lines);
        }
        if !of.beside.is_empty() {
            self.gap();
        }
        of.beside.iter().for_each(|figure| self.figure(figure));
    }

    /// A name and its values; the note is said after them, faint.
    fn figure(&mut self, of: &Figure) {
        let (lines, width) = if let [Part { value, label, .. }] = of.parts.as_slice() {
            let value = value.as_deref().unwrap_or(format::NOT_OBSERVABLE);
            let note = of.note.as_ref().map(|note| format!("  {note}")).unwrap_or_default();
            let space = if label.is_empty() { "" } else { " " };
            let lines = self.style.wrap(&format!("{value}{space}{label}{note}"), NAMES);
            let painted = lines.iter().enumerate().map(|(place, line)| {
                match line.strip_prefix(value).filter(|_| place == 0) {
                    Some(rest) => format!(
                        "{}{}",
                        self.style.paint(Ansi::Bold, value),
                        self.style.paint(Ansi::Faint, rest)
                    ),
                    None if place > 0 => self.style.paint(Ansi::Faint, line),
                    None => line.clone(),
                }
            });
            (painted.collect(), of.name.chars().count())
        } else if of.parts.is_empty() {
            let unknown = self.style.paint(Ansi::Faint, format::NOT_OBSERVABLE);
            (vec![unknown], of.name.chars().count())
        } else {
            let apart = |part: &Part| Some(format!("{} {}", part.label, part.value.as_ref()?));
            let (pieces, between): (Vec<String>, _) = match of.spread {
                true => (of.parts.iter().filter_map(apart).collect(), "  "),
                false => (of.parts.iter().map(Part::text).collect(), ", "),
            };
            (self.style.join(&pieces, between, NAMES), of.name.chars().count())
        };
        self.named(&one_line(&of.name), width, &lines);
    }

    /// Lines behind a name that is `width` columns wide.
    fn named(&mut self, name: &str, width: usize, lines: &[String]) {
        let pad = " ".repeat(NAMES.saturating_sub(width).max(1));
        for (place, line) in lines.iter().enumerate() {
            self.lines.push(match place {
                0 => format!("{name}{pad}{line}"),
                _ => format!("{}{line}", " ".repeat(NAMES)),
            });
        }
    }

    /// Of a section what a summary has room for: headings of what is folded, sketches of
    /// charts, the table that it begins with, and what is missing.
    fn brief(&mut self, of: &Section) {
        let begins_with_table = matches!(of.blocks.first(), Some(Block::Table(_)));
        let mut told = 0;
        let mut begun = false;
        for block in &of.blocks {
            match block {
                Block::Folded(folded) if folded.tone == Tone::Bad && told < BRIEF => {
                    if !begun {
                        self.gap();
                    }
                    let mark = self.style.paint_bold(Ansi::Red, "●");
                    let lines = self.style.wrap(&headline(folded), 2);
                    self.hanging(&mark, &lines, 2);
                    told += 1;
                }
                Block::Missing(text) => {
                    self.gap();
                    let text = format!("{}: {}", of.title, words::small(text));
                    self.text(&text, 0, Some(Ansi::Faint));
                }
                Block::Chart(Chart::Shares(shares)) => {
                    self.gap();
                    self.heading(&of.title);
                    self.lines.extend(bars::bars(shares, self.style));
                }
                Block::Table(table) if begins_with_table => {
                    self.gap();
                    self.heading(&of.title);
                    self.table(table);
                }
                _ => continue,
            }
            begun = true;
        }
    }

    /// Lines that hang behind a mark of one column.
    fn hanging(&mut self, mark: &str, lines: &[String], indent: usize) {
        for (place, line) in lines.iter().enumerate() {
            self.lines.push(match place {
                0 => format!("{:>width$}{mark} {line}", "", width = indent - 2),
                _ => format!("{:indent$}{line}", ""),
            });
        }
    }

    fn warning(&self, of: &Warning, indent: usize) -> Vec<String> {
        let text = self.style.wrap(&of.text, indent + 2);
        let mark = self.style.paint_bold(Ansi::Yellow, "!");
        let mut lines: Vec<String> = text
            .iter()
            .enumerate()
            .map(|(place, line)| match place {
                0 => format!("{:indent$}{mark} {line}", ""),
                _ => format!("{:indent$}  {line}", ""),
            })
            .collect();
        if let Some(hint) = &of.hint {
            lines.extend(self.style.indented(&format!("→ {hint}"), indent + 4, Some(Ansi::Faint)));
        }
        lines
    }

    /// Warnings, as many as there is room for; the last line says how many there was not.
    fn warnings(&mut self, of: &[Warning], most: Option<usize>) {
        if !of.is_empty() {
            self.gap();
        }
        for (place, warning) in of.iter().enumerate() {
            let lines = self.warning(warning, 0);
            // One line is kept for saying that there are more.
            let after = usize::from(place + 1 < of.len());
            let room = most.map(|most| most.saturating_sub(self.lines.len() + after));
            if room.is_some_and(|room| lines.len() > room) {
                let left = format::counted((of.len() - place) as u64, "warning");
                let text = format!("{left} more in the report; --all shows them here");
                self.lines.push(self.style.paint(Ansi::Yellow, &text));
                return;
            }
            self.lines.extend(lines);
        }
    }

    fn blocks(&mut self, blocks: &[Block], indent: usize) {
        blocks.iter().for_each(|block| self.block(block, indent));
    }

    fn block(&mut self, of: &Block, indent: usize) {
        match of {
            Block::Text(text) | Block::Lede(text) => self.text(text, indent, None),
            Block::Muted(text) | Block::Missing(text) => {
                self.text(text, indent, Some(Ansi::Faint));
            }
            Block::Warning(warning) => {
                let lines = self.warning(warning, indent);
                self.lines.extend(lines);
            }
            Block::Heading(text) => {
                self.gap();
                self.heading(text);
            }
            Block::Fields(fields) => {
                let longest = fields.iter().map(|field| field.name.chars().count()).max();
                let names = (longest.unwrap_or_default() + 2).max(ITEM_NAMES);
                for field in fields {
                    let note = field.note.as_ref().map(|note| format!(" ({note})"));
                    let text = format!("{}{}", field.value, note.unwrap_or_default());
                    self.behind(&field.name, names, &text, indent, None);
                }
            }
            Block::Table(table) => self.table(table),
            Block::Chart(Chart::Shares(shares)) => {
                self.lines.extend(bars::bars(shares, self.style));
            }
            Block::Chart(Chart::Forest(of)) => {
                let lines = forest(of, self.style);
                if !lines.is_empty() {
                    self.gap();
                }
                self.lines.extend(lines);
            }
            Block::Chart(Chart::Heat(of)) => self.table(&of.table()),
            Block::Chart(Chart::ScalingThroughput(of)) => {
                self.lines.extend(scaling::plot(of, self.style));
            }
            // Other charts need a page.
            Block::Chart(_) | Block::Aside(_) => {}
            Block::List(items) => {
                for item in items {
                    let lines = self.style.wrap(item, indent + 2);
                    self.hanging("–", &lines, indent + 2);
                }
            }
            Block::Code(code) => {
                for line in code.lines() {
                    let line = self.style.paint(Ansi::Green, &one_line(line));
                    self.lines.push(format!("{:indent$}{line}", ""));
                }
            }
            Block::Action(Action { text, command, conditions }) => {
                self.behind("→", ITEM_NAMES, text, indent, None);
                for (text, ansi) in [(command, Ansi::Green), (conditions, Ansi::Faint)] {
                    if let Some(text) = text {
                        self.behind("", ITEM_NAMES, text, indent, Some(ansi));
                    }
                }
            }
            Block::Folded(folded) => self.folded(folded),
            Block::Columns(columns) => {
                columns.iter().for_each(|column| self.blocks(column, indent));
            }
            Block::Faces(of) => {
                of.faces.iter().take(1).for_each(|(_, face)| self.blocks(face, indent));
            }
        }
    }

    /// Text behind a faint name, all names being `names` columns wide.
    fn behind(&mut self, name: &str, names: usize, text: &str, indent: usize, ansi: Option<Ansi>) {
        let lines = text.lines().flat_map(|line| self.style.wrap(line, indent + names));
        for (place, line) in lines.enumerate() {
            let name = if place == 0 { one_line(name) } else { String::new() };
            let name = self.style.paint(Ansi::Faint, &format!("{:indent$}{name:<names$}", ""));
            let line = match ansi {
                Some(ansi) => self.style.paint(ansi, &line),
                None => line,
            };
            self.lines.push(format!("{name}{line}"));
        }
    }

    fn folded(&mut self, of: &Folded) {
        self.gap();
        let ansi = match of.tone {
            Tone::Bad => Ansi::Red,
            Tone::Warn => Ansi::Yellow,
            Tone::Plain => Ansi::Bold,
        };
        for line in self.style.wrap(&headline(of), 0) {
            let (title, aside) = line.split_at(line.find(ASIDE).unwrap_or(line.len()));
            let title = self.style.paint_bold(ansi, title);
            self.lines.push(format!("{title}{}", self.style.paint(Ansi::Faint, aside)));
        }
        self.blocks(&of.blocks, 2);
    }

    fn table(&mut self, of: &Table) {
        let head = of.columns.iter().map(|column| one_line(&column.head));
        let cell = |cell: &Cell| {
            let text = one_line(cell.short.as_ref().unwrap_or(&cell.text));
            match cell.is_better {
                Some(true) => self.style.paint(Ansi::Green, &text),
                Some(false) => self.style.paint(Ansi::Red, &text),
                None => text,
            }
        };
        let rows = of.rows.iter().map(|row| row.iter().map(cell).collect());
        let rows: Vec<Vec<String>> = [head.collect()].into_iter().chain(rows).collect();
        let right: Vec<bool> =
            of.columns.iter().map(|column| column.kind == ColumnKind::Number).collect();
        let room = self.style.width.saturating_sub(2);
        let mut laid_out = laid_out(&rows, &right, room);
        self.add_bars(of, &mut laid_out);
        for (place, lines) in laid_out.into_iter().enumerate() {
            self.lines.extend(lines.into_iter().map(|line| match place {
                0 => self.style.paint(Ansi::Faint, &format!("  {line}")),
                _ => format!("  {line}"),
            }));
        }
    }

    /// Draws the bars of a table's cells behind its rows, where there is room.
    fn add_bars(&self, of: &Table, rows: &mut [Vec<String>]) {
        let longest = rows.iter().flatten().map(|line| columns(line)).max().unwrap_or_default();
        let room = self.style.width.saturating_sub(longest + 4).min(BAR);
        for (row, lines) in of.rows.iter().zip(rows.iter_mut().skip(1)) {
            let Some((percent, _)) = row.iter().find_map(|cell| cell.bar) else { continue };
            let bar = bars::bar(percent / 100.0 * room as f64, self.style.unicode);
            if let Some(line) = lines.first_mut().filter(|_| room >= SHORT_BAR) {
                let pad = " ".repeat(longest.saturating_sub(columns(line)));
                *line = format!("{line}{pad}  {}", self.style.paint(Ansi::Blue, &bar));
            }
        }
    }
}

/// What stands between a heading and what is said beside it.
const ASIDE: &str = " – ";

/// The heading of what folds: what it means, then what it costs and its code.
fn headline(of: &Folded) -> String {
    let note = of.note.as_ref().map(|note| format!("{ASIDE}{note}")).unwrap_or_default();
    let label = of.label.as_ref().map(|label| format!(" [{label}]")).unwrap_or_default();
    format!("{}{note}{label}", of.title)
}
