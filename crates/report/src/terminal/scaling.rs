//! A sweep over clients as a plot of letters.

use walwright_figures::scaling::Scaling;

use super::style::{Ansi, Style};
use crate::format;

/// Rows of the plot.
const ROWS: usize = 12;
/// Columns of the plot, at most.
const COLUMNS: usize = 64;
/// Columns left of the plot, for its ticks.
const MARGIN: usize = 10;

/// Throughput over clients, both axes as on the page: runs and the fitted curve.
pub(super) fn plot(of: &Scaling, style: &Style) -> Vec<String> {
    let mut lines = Vec::new();
    let (Some(first), Some(last)) = (of.loads.first(), of.loads.last()) else { return lines };
    if first.clients == last.clients {
        return lines;
    }
    let columns = COLUMNS.min(style.width.saturating_sub(MARGIN + 2));
    let (least, most) = (f64::from(first.clients), f64::from(last.clients));
    let curve = || of.fit.iter().flat_map(|fit| &fit.band);
    let top = of
        .points
        .iter()
        .map(|p| p.throughput.center)
        .chain(curve().map(|b| b.throughput))
        .fold(0.0, f64::max);
    let column = |clients: f64| {
        let share = (clients / least).ln() / (most / least).ln();
        (share * (columns - 1) as f64).round() as usize
    };
    let row = |rate: f64| (rate / top * (ROWS - 1) as f64).round() as usize;
    let (dot, small) = if style.unicode { ('●', '·') } else { ('o', '.') };
    let mut grid = vec![vec![' '; columns]; ROWS];
    let mut put = |clients: f64, rate: f64, letter: char| {
        if let Some(cell) = grid.get_mut(row(rate)).and_then(|r| r.get_mut(column(clients))) {
            *cell = letter;
        }
    };
    curve().for_each(|b| put(b.clients, b.throughput, small));
    of.points.iter().for_each(|p| put(f64::from(p.clients), p.throughput.center, dot));
    lines.push(String::new());
    let (side, corner, floor) = if style.unicode { ("│", "└", "─") } else { ("|", "+", "-") };
    for (place, cells) in grid.iter().enumerate().rev() {
        let labelled = place == ROWS - 1 || place == ROWS / 2;
        let rate = top * place as f64 / (ROWS - 1) as f64;
        let tick = if labelled { format::rate(rate) } else { String::new() };
        let cells: String = cells.iter().collect();
        let tick = style.paint(Ansi::Faint, &format!("{tick:>MARGIN$} {side}"));
        lines.push(format!("{tick}{}", cells.trim_end()));
    }
    let base = format!("{:>MARGIN$} {corner}{}", "0", floor.repeat(columns));
    lines.push(style.paint(Ansi::Faint, &base));
    let mut ticks = vec![' '; columns + 4];
    let mut free = 0;
    for load in &of.loads {
        let at = column(f64::from(load.clients));
        let name = load.clients.to_string();
        if at >= free {
            for (place, letter) in name.chars().enumerate() {
                if let Some(cell) = ticks.get_mut(at + place) {
                    *cell = letter;
                }
            }
            free = at + name.len() + 1;
        }
    }
    let ticks: String = ticks.into_iter().collect();
    let axis = format!("{:>MARGIN$}  {}", "clients", ticks.trim_end());
    lines.push(style.paint(Ansi::Faint, &axis));
    lines
}
