//! Parts of a whole, as a list of bars.

use super::style::{Ansi, Style};
use crate::document::Share;
use crate::format;
use crate::svg::Ink;

/// Parts below this share are summed into one line: a screen is short.
const SMALL: f64 = 0.01;
/// Columns before the bar: name, share and time.
const BEFORE: usize = 2 + 22 + 9 + 11;
/// A bar needs no more columns than this.
const LONGEST: usize = 36;

/// One line a part: name, share, time a transaction, bar.
pub(super) fn bars(of: &[Share], style: &Style) -> Vec<String> {
    let (mut shown, small): (Vec<Share>, Vec<Share>) =
        of.iter().cloned().partition(|part| part.share.abs() >= SMALL);
    if !small.is_empty() {
        let sum = |of: fn(&Share) -> f64| small.iter().map(of).sum();
        let names: Vec<&str> = small.iter().map(|part| part.name.as_str()).collect();
        let joined = names.join(", ");
        let name =
            if joined.chars().count() <= 21 { joined } else { format!("{} smaller", small.len()) };
        let (share, seconds) = (sum(|part| part.share), sum(|part| part.seconds));
        shown.push(Share { name, share, seconds, ink: Ink::Outside });
    }
    let largest = shown.iter().map(|part| part.share).fold(0.0, f64::max);
    let room = style.width.saturating_sub(BEFORE).min(LONGEST);
    shown.iter().map(|part| line(part, largest, room, style)).collect()
}

fn line(row: &Share, largest: f64, room: usize, style: &Style) -> String {
    let length = if largest > 0.0 { (row.share / largest).max(0.0) * room as f64 } else { 0.0 };
    let text = format!(
        "  {:<22}{:>8} {:>10}",
        row.name,
        format::percent(row.share),
        format::seconds(row.seconds)
    );
    let bar = style.paint(ansi(row.ink), &bar(length, style.unicode));
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

fn ansi(ink: Ink) -> Ansi {
    match ink {
        Ink::Cpu => Ansi::Green,
        Ink::Flush => Ansi::Blue,
        Ink::FlushQueue => Ansi::Cyan,
        Ink::Io => Ansi::Magenta,
        Ink::Lock => Ansi::Red,
        Ink::LwLock | Ink::RunQueue => Ansi::Yellow,
        _ => Ansi::Faint,
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
