//! A storage measurement on a terminal, and the list of those kept.

use walwright_record::StorageMeasurement;

use super::bars::bar;
use super::printable::one_line;
use super::style::{Ansi, Style};
use crate::storage::{self as say, Section};
use crate::{format, words};

/// Columns of the names at the left.
const NAMES: usize = 27;
/// Columns of a figure.
const FIGURE: usize = 10;
/// A bar needs no more columns than this.
const LONGEST: usize = 20;

/// All of a measurement.
pub fn storage(of: &StorageMeasurement, style: &Style) -> String {
    let mut lines = vec![format!(
        "{}  {}",
        style.paint(Ansi::Bold, "What the disks can do"),
        style.paint(Ansi::Faint, &of.id)
    )];
    let mut text = |text: &str, ansi: Option<Ansi>| {
        lines.extend(style.wrap(text, 0).iter().map(|line| match ansi {
            Some(ansi) => style.paint(ansi, line),
            None => line.clone(),
        }));
    };
    text(&format!("WAL in {}", say::place(&of.wal)), Some(Ansi::Faint));
    if of.data != of.wal {
        text(&format!("Data in {}", say::place(&of.data)), Some(Ansi::Faint));
    }
    text(&say::circumstances(of), Some(Ansi::Faint));
    text("", None);
    for sentence in say::gist(of) {
        text(&sentence, None);
    }
    for section in say::sections(of) {
        lines.extend(table(&section, style));
    }
    if !of.warnings.is_empty() {
        lines.push(String::new());
    }
    for warning in &of.warnings {
        let hint = warning.hint.as_ref().map(|hint| format!(" → {}", words::sentence(hint)));
        let said = format!("{}{}", words::sentence(&warning.text), hint.unwrap_or_default());
        for (i, line) in style.wrap(&said, 2).into_iter().enumerate() {
            let mark = if i == 0 { style.paint_bold(Ansi::Yellow, "!") } else { " ".to_owned() };
            lines.push(format!("{mark} {line}"));
        }
    }
    style.finish(&lines)
}

fn table(section: &Section, style: &Style) -> Vec<String> {
    let cells = |name: &str, figures: [&str; 5]| {
        let figures: String = figures.iter().map(|f| format!("{f:>FIGURE$}")).collect();
        format!("  {name:<NAMES$}{figures}")
    };
    let mut lines = vec![String::new(), style.paint(Ansi::Bold, section.heading)];
    let used = 2 + NAMES + 5 * FIGURE;
    let room = style.width.saturating_sub(used + 1).min(LONGEST);
    let head = cells("", ["rate", "p50", "p99", "p99.9", section.extra]);
    lines.push(style.paint(Ansi::Faint, &head));
    let most = section.rows.iter().map(|row| row.weight).fold(0.0, f64::max);
    for row in &section.rows {
        let figures = [&row.rate, &row.p50, &row.p99, &row.p999, &row.extra];
        let text = cells(&one_line(&row.name), figures.map(String::as_str));
        let length = if most > 0.0 { row.weight / most * room as f64 } else { 0.0 };
        let bar = style.paint(Ansi::Blue, &bar(length, style.unicode));
        lines.push(format!("{text} {bar}").trim_end().to_owned());
    }
    lines
}

/// The measurements that are kept, a line each, newest last.
pub fn storage_list(all: &[StorageMeasurement], style: &Style) -> String {
    let mut lines = Vec::new();
    for of in all {
        let base = of.fastest(say::BASE);
        let rate = base.map_or_else(|| "–".to_owned(), |cell| format::rate(cell.per_second));
        let p99 = base.and_then(|cell| cell.latency.p99).map(format::latency);
        lines.push(format!(
            "{}  {rate} flushes one at a time, p99 {}",
            style.paint(Ansi::Bold, &of.id),
            p99.unwrap_or_else(|| "–".to_owned()),
        ));
        let place = style.wrap(&say::place(&of.wal), 2);
        lines.extend(place.iter().map(|line| format!("  {}", style.paint(Ansi::Faint, line))));
    }
    if all.is_empty() {
        lines.push("No disk was measured yet: `walwright storage` does.".to_owned());
    }
    style.finish(&lines)
}
