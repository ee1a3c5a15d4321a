//! A forest plot in letters: an interval a line, zero and the noise floor as verticals.

use super::printable::one_line;
use super::style::{Ansi, Style};
use crate::compare::words::percent;
use crate::svg::forest::Forest;

/// Most columns of an arm's name.
const NAMES: usize = 26;

/// The plot as lines; none where nothing has an effect.
pub(super) fn forest(of: &Forest, style: &Style) -> Vec<String> {
    let longest = of.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let names = longest.clamp(8, NAMES);
    let room = style.width.saturating_sub(names + 5).clamp(30, 64);
    let Some(plot) = Plot::over(of, room) else { return Vec::new() };
    let name = |name: &str| {
        let letters: Vec<char> = one_line(name).chars().collect();
        match letters.len() > names {
            true => format!("{}…", letters[..names - 1].iter().collect::<String>()),
            false => format!("{:names$}", letters.iter().collect::<String>()),
        }
    };
    let row = |row: &crate::svg::forest::Row| {
        let ansi = match row.is_better {
            Some(true) => Ansi::Green,
            Some(false) => Ansi::Red,
            None => Ansi::Faint,
        };
        let drawn = plot.row(row.center, row.interval, style.unicode);
        format!("  {} {}", name(&row.name), style.paint(ansi, drawn.trim_end()))
    };
    let axis = style.paint(Ansi::Faint, plot.axis().trim_end());
    let axis = format!("  {} {axis}", " ".repeat(names));
    of.rows.iter().map(row).chain([axis]).collect()
}

/// Relative changes laid out over columns.
struct Plot {
    low: f64,
    high: f64,
    floor: Option<f64>,
    columns: usize,
}

impl Plot {
    /// Wide enough for every interval, zero and the noise floor.
    fn over(of: &Forest, columns: usize) -> Option<Plot> {
        let floor = of.floor;
        let (mut low, mut high, mut any) = (0.0_f64, 0.0_f64, false);
        for row in of.rows.iter().filter(|row| !row.is_baseline) {
            let (from, to) = row.interval.unwrap_or((row.center, row.center));
            (low, high, any) = (low.min(from), high.max(to), true);
        }
        if let Some(floor) = floor {
            (low, high) = (low.min(-floor), high.max(floor));
        }
        let (low, high) = (low.max(-1.0), high.min(100.0));
        (any && high > low).then_some(Plot { low, high, floor, columns })
    }

    fn column(&self, change: f64) -> usize {
        let share = (change.clamp(self.low, self.high) - self.low) / (self.high - self.low);
        (share * (self.columns - 1) as f64).round() as usize
    }

    fn row(&self, center: f64, interval: Option<(f64, f64)>, unicode: bool) -> String {
        let [end_low, dash, end_high, dot, zero, floor] = if unicode {
            ['├', '─', '┤', '●', '│', '┊']
        } else {
            ['|', '-', '|', 'o', '|', ':']
        };
        let mut row = vec![' '; self.columns];
        if let Some(at) = self.floor {
            for side in [-at, at] {
                row[self.column(side)] = floor;
            }
        }
        row[self.column(0.0)] = zero;
        if let Some((low, high)) = interval {
            let (from, to) = (self.column(low), self.column(high));
            row[from..=to].fill(dash);
            row[from] = end_low;
            row[to] = end_high;
        }
        row[self.column(center)] = dot;
        row.into_iter().collect()
    }

    /// The ends and zero, as far as there is room between them.
    fn axis(&self) -> String {
        let mut row = vec![' '; self.columns + 10];
        let mut put = |text: &str, at: usize| {
            let letters: Vec<char> = text.chars().collect();
            let from = at.saturating_sub(letters.len() / 2);
            let to = from + letters.len();
            let free = row.get(from.saturating_sub(1)..(to + 1).min(row.len()));
            if to <= row.len() && free.is_some_and(|free| free.iter().all(|c| *c == ' ')) {
                row[from..to].copy_from_slice(&letters);
            }
        };
        put("0", self.column(0.0));
        put(&percent(self.low), self.column(self.low));
        put(&percent(self.high), self.column(self.high));
        row.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_zero_floor_interval_and_center_in_their_places() {
        let plot = Plot { low: -0.1, high: 0.1, floor: Some(0.02), columns: 21 };
        let row = plot.row(0.05, Some((0.03, 0.07)), true);
        assert_eq!(row, "        ┊ │ ┊├─●─┤   ");
        assert_eq!(plot.row(-0.5, None, false), "o       : | :        ");
        assert_eq!(plot.axis().trim_end(), "−10.0 %   0      +10.0 %");
    }
}
