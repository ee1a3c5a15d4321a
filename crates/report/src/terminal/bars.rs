//! Where the time went, as a list of bars.

use std::time::Duration;

use walwright_figures::{TimeSplit, WaitClass};

use super::style::{Ansi, Style};
use crate::format;

/// Parts below this share are summed into one line: a screen is short.
const SMALL: f64 = 0.01;
/// Columns before the bar: name, share and time.
const BEFORE: usize = 2 + 22 + 9 + 11;
/// A bar needs no more columns than this.
const LONGEST: usize = 36;

struct Row {
    name: String,
    share: f64,
    seconds: f64,
    ansi: Ansi,
}

/// One line a part: name, share, time a transaction, bar.
pub(super) fn bars(split: &TimeSplit, style: &Style) -> Vec<String> {
    let whole = split.latency.map_or(split.on_server.center, |l| l.as_secs_f64());
    let mut rows = Vec::new();
    if let Some(queue) = split.queue.filter(|q| *q > Duration::ZERO) {
        let seconds = queue.as_secs_f64();
        rows.push(Row {
            name: "waiting to begin".into(),
            share: seconds / whole,
            seconds,
            ansi: Ansi::Faint,
        });
    }
    rows.extend(split.parts.iter().map(|part| Row {
        name: part.class.label().to_owned(),
        share: part.share.center,
        seconds: part.per_transaction.center,
        ansi: ansi(part.class),
    }));
    if let (Some(residual), Some(share)) = (&split.residual, split.residual_share) {
        let seconds = residual.center;
        rows.push(Row { name: "outside, network".into(), share, seconds, ansi: Ansi::Faint });
    }
    let (mut shown, small): (Vec<Row>, Vec<Row>) =
        rows.into_iter().partition(|r| r.share.abs() >= SMALL);
    if !small.is_empty() {
        let sum = |of: fn(&Row) -> f64| small.iter().map(of).sum();
        let names: Vec<&str> = small.iter().map(|r| r.name.as_str()).collect();
        let joined = names.join(", ");
        let name =
            if joined.chars().count() <= 21 { joined } else { format!("{} smaller", small.len()) };
        shown.push(Row {
            name,
            share: sum(|r| r.share),
            seconds: sum(|r| r.seconds),
            ansi: Ansi::Faint,
        });
    }
    let largest = shown.iter().map(|r| r.share).fold(0.0, f64::max);
    let room = style.width.saturating_sub(BEFORE).min(LONGEST);
    shown.iter().map(|row| line(row, largest, room, style)).collect()
}

fn line(row: &Row, largest: f64, room: usize, style: &Style) -> String {
    let length = if largest > 0.0 { (row.share / largest).max(0.0) * room as f64 } else { 0.0 };
    let text = format!(
        "  {:<22}{:>8} {:>10}",
        row.name,
        format::percent(row.share),
        format::seconds(row.seconds)
    );
    let bar = style.paint(row.ansi, &bar(length, style.unicode));
    format!("{text} {bar}").trim_end().to_owned()
}

/// A bar of `length` columns; Unicode has eighths of a column.
pub(super) fn bar(length: f64, unicode: bool) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if !unicode {
        return "#".repeat(length.round() as usize);
    }
    let eighths = (length * 8.0).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

fn ansi(class: WaitClass) -> Ansi {
    match class {
        WaitClass::Cpu => Ansi::Green,
        WaitClass::Flush => Ansi::Blue,
        WaitClass::FlushQueue => Ansi::Cyan,
        WaitClass::Io => Ansi::Magenta,
        WaitClass::Lock => Ansi::Red,
        WaitClass::Lwlock => Ansi::Yellow,
        WaitClass::Replication | WaitClass::Client | WaitClass::Other => Ansi::Faint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_eighths_or_are_ascii() {
        assert_eq!(bar(2.5, true), "██▌");
        assert_eq!(bar(2.4, false), "##");
        assert_eq!(bar(0.0, true), "");
    }
}
