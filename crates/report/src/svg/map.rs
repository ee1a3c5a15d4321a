//! The map of latencies over time: the darker a cell, the more transactions took so long.

use std::collections::BTreeMap;
use std::fmt::Write;

use walwright_figures::latency_map::{LOWEST, LatencyMap, ROWS_PER_DECADE};

use super::panel::{LEFT, RIGHT, WIDTH};
use super::scale::Scale;
use super::timeline::TimeFrame;
use super::{Unit, axis, line, put, px, text};

/// Height of the plot.
pub(crate) const HEIGHT: f64 = 120.0;
/// Shades told apart.
const SHADES: usize = 6;
/// Rows of the map drawn as one, and columns across: those of the figures are finer.
const TOGETHER: u32 = 2;
const COLUMNS: usize = 183;

/// The picture; `None` where there is nothing on the axis. The axis begins `origin` seconds into
/// the run.
pub(crate) fn map(of: &LatencyMap, origin: f64, frame: &TimeFrame) -> Option<String> {
    let edge = |row: u32| LOWEST * 10_f64.powf(f64::from(row) / f64::from(ROWS_PER_DECADE));
    let used = || of.columns.iter().filter(|column| !column.counts.is_empty());
    let lowest = used().map(|column| column.first).min()?;
    let highest = used().map(|column| column.first + column.counts.len() as u32).max()?;
    let (top, bottom) = (6.0, 6.0 + HEIGHT);
    let x = frame.scale();
    let y = Scale::log(edge(lowest) / 1.1, edge(highest) * 1.1, bottom, top);
    let mut out = format!(
        r#"<svg viewBox="0 0 {WIDTH} {}" role="img" aria-label="Latency map: how many transactions took how long, over time; logarithmic" data-panel="map">"#,
        px(bottom + 6.0)
    );
    frame.backdrop(&mut out, top, bottom);
    axis::vertical(&mut out, &y, Unit::Seconds, LEFT, WIDTH - RIGHT, 4);
    let wide = of.columns.len().div_ceil(COLUMNS).max(1);
    let cells = cells(of, wide);
    let most = cells.iter().map(|cell| cell.count).max()? as f64;
    let mut paths = vec![String::new(); SHADES];
    for cell in &cells {
        let length = of.column * wide as f64;
        let from = of.from - origin + length * cell.column as f64;
        if from + length <= frame.from || from >= frame.to {
            continue;
        }
        let (left, right) = (x.at(from), x.at(from + length));
        let (above, below) = (y.at(edge(cell.row + TOGETHER)), y.at(edge(cell.row)));
        put!(
            paths[shade(cell.count as f64, most)],
            "M{} {}h{}v{}h-{2}z",
            px(left),
            px(above),
            px(right - left),
            px(below - above)
        );
    }
    for (shade, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        put!(out, r#"<path class="shade s{shade}" d="{path}"/>"#);
    }
    frame.foreground(&mut out, top, bottom);
    let left = WIDTH - RIGHT + 12.0;
    for shade in 0..SHADES {
        let at = left + 18.0 * shade as f64;
        put!(out, r#"<path class="shade s{shade}" d="M{} {}h18v10h-18z"/>"#, px(at), px(top + 4.0));
    }
    text(&mut out, left, top + 28.0, "tick", "few");
    text(&mut out, left + 18.0 * SHADES as f64, top + 28.0, "tick from-right", "many");
    text(&mut out, WIDTH - 2.0, top + 46.0, "value from-right", "");
    line(&mut out, (0.0, top), (0.0, bottom), "cross");
    out.push_str("</svg>");
    Some(out)
}

/// Some rows of some columns.
struct MapCell {
    column: usize,
    row: u32,
    count: u64,
}

/// `wide` columns to a cell; the empty ones are left out.
fn cells(of: &LatencyMap, wide: usize) -> Vec<MapCell> {
    let mut cells = Vec::new();
    for (column, together) in of.columns.chunks(wide).enumerate() {
        let mut rows: BTreeMap<u32, u64> = BTreeMap::new();
        for counts in together {
            for (row, count) in (counts.first..).zip(&counts.counts).filter(|(_, n)| **n > 0) {
                *rows.entry(row / TOGETHER * TOGETHER).or_default() += count;
            }
        }
        cells.extend(rows.into_iter().map(|(row, count)| MapCell { column, row, count }));
    }
    cells
}

/// Which shade: the logarithm of the count, so that a lone slow transaction is seen.
fn shade(count: f64, most: f64) -> usize {
    let share = (1.0 + count).ln() / (1.0 + most).ln();
    ((share * SHADES as f64) as usize).min(SHADES - 1)
}

#[cfg(test)]
mod tests {
    use walwright_figures::latency_map::Counts;

    use super::*;

    #[test]
    fn a_lone_slow_transaction_is_seen() {
        let column = |first, counts: Vec<u64>| Counts { first, counts };
        let map_of = LatencyMap {
            from: 2.0,
            column: 1.0,
            columns: vec![column(60, vec![900, 0, 1]), column(0, vec![]), column(60, vec![1000])],
        };
        let frame = TimeFrame { from: 0.0, to: 3.0, ..TimeFrame::default() };
        let svg = map(&map_of, 2.0, &frame).unwrap();
        let drawn = |shade: &str| {
            let path = svg.split(&format!("shade {shade}\" d=\"")).nth(1).unwrap();
            path.split('"').next().unwrap().matches('M').count()
        };
        assert_eq!((drawn("s5"), drawn("s0")), (2, 1));
        assert!(!svg.contains("NaN"));
        let empty = LatencyMap { columns: vec![column(0, vec![])], ..map_of };
        assert_eq!(map(&empty, 2.0, &frame), None);
    }
}
