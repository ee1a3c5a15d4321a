//! A forest plot: the effect of every arm with its interval, on one axis.

use std::fmt::Write;

use super::label::shortened;
use super::scale::{Scale, round_step};
use super::{escape, line, put, px, rect, text};
use crate::compare::words::percent;

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 250.0;
const RIGHT: f64 = WIDTH - 190.0;
const TOP: f64 = 12.0;
const ROW: f64 = 34.0;
const AXIS: f64 = 40.0;
/// Letters of a name.
const LETTERS: usize = 36;

/// One arm. Changes are relative.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) center: f64,
    pub(crate) interval: Option<(f64, f64)>,
    /// The change in each block.
    pub(crate) blocks: Vec<f64>,
    /// Whether it is claimed to be better or worse.
    pub(crate) is_better: Option<bool>,
    /// Whether it is the baseline against itself.
    pub(crate) is_baseline: bool,
    /// Beside the row.
    pub(crate) note: String,
}

/// Effects beside each other.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Forest {
    /// What it shows, for who does not see it.
    pub(crate) name: String,
    pub(crate) rows: Vec<Row>,
    /// The noise floor.
    pub(crate) floor: Option<f64>,
}

/// The plot; `None` without rows.
pub(crate) fn forest(of: &Forest) -> Option<String> {
    let Forest { name, rows, floor } = of;
    let (mut low, mut high) = (0.0_f64, 0.0_f64);
    let mut reach = |value: f64| (low, high) = (low.min(value), high.max(value));
    for row in rows {
        reach(row.center);
        if let Some((from, to)) = row.interval {
            // An interval of two blocks may have no end worth drawing.
            reach(from.max(-1.0));
            reach(to.min(10.0));
        }
        row.blocks.iter().for_each(|change| reach(*change));
    }
    if let Some(floor) = *floor {
        reach(floor.min(1.0));
        reach(-floor.min(1.0));
    }
    if rows.is_empty() || high <= low {
        return None;
    }
    let margin = 0.04 * (high - low);
    let x = Scale::linear(low - margin, high + margin, LEFT, RIGHT);
    let bottom = TOP + ROW * rows.len() as f64;
    let height = bottom + AXIS;
    let mut out =
        format!(r#"<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{}">"#, escape(name));
    if let Some(floor) = *floor {
        rect(&mut out, (x.at(-floor), TOP), (x.at(floor), bottom), "band");
    }
    let step = round_step((high - low) / 6.0);
    for tick in x.ticks(6, 1.0) {
        let class = if tick == 0.0 { "zero" } else { "grid" };
        line(&mut out, (x.at(tick), TOP), (x.at(tick), bottom), class);
        text(&mut out, x.at(tick), bottom + 16.0, "tick centred", &label(tick, step));
    }
    for (place, row) in rows.iter().enumerate() {
        draw(&mut out, row, TOP + ROW * (place as f64 + 0.5), &x);
    }
    let mut caption = "change against the baseline; bars are intervals".to_owned();
    if rows.iter().any(|row| !row.blocks.is_empty()) {
        caption.push_str(", small marks single blocks");
    }
    if floor.is_some() {
        caption.push_str(", the grey band is noise");
    }
    text(&mut out, f64::midpoint(LEFT, RIGHT), height - 4.0, "tick centred quiet", &caption);
    out.push_str("</svg>");
    Some(out)
}

fn label(tick: f64, step: f64) -> String {
    if tick == 0.0 {
        return "0".to_owned();
    }
    let decimals = if step >= 0.01 { 0 } else { 1 };
    let sign = if tick < 0.0 { "−" } else { "+" };
    format!("{sign}{:.decimals$} %", tick.abs() * 100.0)
}

fn draw(out: &mut String, row: &Row, y: f64, x: &Scale) {
    let title = match row.interval {
        Some((low, high)) => {
            format!("{}: {} ({} to {})", row.name, percent(row.center), percent(low), percent(high))
        }
        None => format!("{}: {}", row.name, percent(row.center)),
    };
    let class = match row.is_better {
        Some(true) => "good",
        Some(false) => "bad",
        None => "",
    };
    put!(out, r#"<g class="arm {}"><title>{}</title>"#, class, escape(&title));
    text(out, LEFT - 14.0, y + 4.0, "name from-right", &shortened(&row.name, LETTERS));
    for change in &row.blocks {
        line(out, (x.at(*change), y + 7.0), (x.at(*change), y + 12.0), "block");
    }
    if let Some((low, high)) = row.interval {
        line(out, (x.at(low), y), (x.at(high), y), "whisker");
        for end in [low, high] {
            line(out, (x.at(end), y - 4.0), (x.at(end), y + 4.0), "whisker");
        }
    }
    put!(out, r#"<circle cx="{}" cy="{}" r="4.5" class="effect"/>"#, px(x.at(row.center)), px(y));
    text(out, RIGHT + 14.0, y + 4.0, "name", &row.note);
    out.push_str("</g>");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, center: f64, interval: Option<(f64, f64)>) -> Row {
        let blocks = vec![center - 0.01, center + 0.01];
        Row {
            name: name.to_owned(),
            center,
            interval,
            blocks,
            is_better: Some(true),
            is_baseline: false,
            note: String::new(),
        }
    }

    fn plot(rows: &[Row], floor: Option<f64>) -> Option<String> {
        forest(&Forest { name: "effects".to_owned(), rows: rows.to_vec(), floor })
    }

    #[test]
    fn every_arm_has_its_row_and_zero_is_always_there() {
        let rows = [row("a<b", 0.2, Some((0.1, 0.3))), row("c", 0.05, None)];
        let svg = plot(&rows, Some(0.02)).unwrap();
        assert_eq!(svg.matches("class=\"effect\"").count(), 2);
        assert_eq!(svg.matches("class=\"zero\"").count(), 1);
        assert_eq!(svg.matches("class=\"band\"").count(), 1);
        assert_eq!(svg.matches("class=\"block\"").count(), 4);
        assert!(svg.contains("a&lt;b") && !svg.contains("a<b"));
    }

    #[test]
    fn an_interval_without_end_does_not_flatten_the_others() {
        let rows = [row("wild", 0.2, Some((-0.99, 1e9))), row("tame", 0.05, Some((0.04, 0.06)))];
        let svg = plot(&rows, None).unwrap();
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert_eq!(plot(&[], None), None);
    }
}
