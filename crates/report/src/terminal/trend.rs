//! The trend of a workload's runs on a terminal: a small plot, and where it moved.

use walwright_figures::Trend;

use super::Style;
use super::printable::one_line;
use super::style::Ansi;
use crate::format;
use crate::journal::{interval_of, signed};

/// Lines of the plot.
const HEIGHT: usize = 8;
/// Columns of the figures left of the plot.
const AXIS: usize = 10;

/// The history of one workload.
pub fn trend(of: &Trend, style: &Style) -> String {
    let mut lines = vec![style.paint(Ansi::Bold, &one_line(&of.workload))];
    let (first, last) = (of.points.first(), of.points.last());
    let (Some(first), Some(last)) = (first, last) else { return style.finish(&lines) };
    let about = format!(
        "{} from {} to {}, transactions a second",
        format::counted(of.points.len() as u64, "run"),
        format::moment(first.started),
        format::moment(last.started)
    );
    lines.extend(style.wrap(&about, 0).iter().map(|line| style.paint(Ansi::Faint, line)));
    lines.extend(plot(of, style));
    for shift in &of.shifts {
        let point = &of.points[shift.at];
        let change = match &shift.change {
            Some(change) => format!(
                "{} ({})",
                signed(change.center),
                interval_of(change.interval.map(|i| [i.low, i.high]))
            ),
            None => "no ratio".to_owned(),
        };
        let text = format!(
            "from run {} on: {} → {}, {change}, p = {:.3}",
            point.run,
            format::rate(shift.before),
            format::rate(shift.after),
            shift.p_value
        );
        lines.extend(hanging("●", &text, style));
        if let (Some(entry), Some(question)) = (&point.entry, &point.question) {
            lines.extend(hanging(" ", &format!("{entry}: {question}"), style));
        }
    }
    if of.shifts.is_empty() {
        let text = if of.points.len() < of.fewest {
            format!("A change of level shows from {} runs on.", of.fewest)
        } else {
            "No change of level shows.".to_owned()
        };
        lines.push(text);
    }
    style.finish(&lines)
}

fn hanging(mark: &str, text: &str, style: &Style) -> Vec<String> {
    let wrapped = style.wrap(text, 2).into_iter().enumerate();
    wrapped.map(|(i, line)| format!("{} {line}", if i == 0 { mark } else { " " })).collect()
}

/// Dots over the runs in order, the mean of each stretch as a line, from zero so that
/// heights compare. More runs than columns share one, as their mean.
fn plot(of: &Trend, style: &Style) -> Vec<String> {
    let values: Vec<f64> = of.points.iter().map(|point| point.throughput).collect();
    let most = values.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return Vec::new();
    }
    let columns = style.width.saturating_sub(AXIS + 2).clamp(1, values.len());
    let edges: Vec<usize> =
        std::iter::once(0).chain(of.shifts.iter().map(|s| s.at)).chain([values.len()]).collect();
    let level = |run: usize| -> f64 {
        let stretch = edges.windows(2).find(|e| (e[0]..e[1]).contains(&run));
        let part = stretch.map_or(&values[..], |e| &values[e[0]..e[1]]);
        walwright_stats::mean(part).unwrap_or(0.0)
    };
    let row = |value: f64| ((value / most) * (HEIGHT as f64 - 1.0)).round() as usize;
    let (dot, dash) = if style.unicode { ('●', '─') } else { ('o', '-') };
    // The heights of level and dot in each column.
    let heights: Vec<(usize, usize)> = (0..columns)
        .map(|c| {
            let (from, to) = (c * values.len() / columns, (c + 1) * values.len() / columns);
            let mean = walwright_stats::mean(&values[from..to.max(from + 1)]).unwrap_or(0.0);
            (row(level(from)), row(mean))
        })
        .collect();
    let (corner, side) = if style.unicode { ('└', '│') } else { ('+', '|') };
    let figure = |height: usize| match height {
        0 => "0".to_owned(),
        h if h == HEIGHT - 1 => format::rate(most),
        _ => String::new(),
    };
    (0..HEIGHT)
        .rev()
        .map(|height| {
            let edge = if height == 0 { corner } else { side };
            let drawn = |(level, at): &(usize, usize)| match height {
                h if h == *at => dot,
                h if h == *level => dash,
                _ => ' ',
            };
            let dots: String = heights.iter().map(drawn).collect();
            format!("{:>AXIS$} {edge}{dots}", figure(height)).trim_end().to_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use walwright_figures::TrendPoint;
    use walwright_record::journal::EntryId;
    use walwright_record::{RunId, Timestamp};

    use super::*;

    fn history(series: &[f64]) -> Trend {
        let point = |(i, throughput): (usize, &f64)| TrendPoint {
            run: RunId(format!("run-{i}")),
            started: Timestamp(i as i64),
            throughput: *throughput,
            entry: Some(EntryId(format!("entry-{i}"))),
            question: Some("wider WAL?".to_owned()),
        };
        walwright_figures::trend("tpcb".to_owned(), series.iter().enumerate().map(point).collect())
    }

    #[test]
    fn a_shift_is_drawn_and_named_with_the_entry_that_brought_it() {
        let mut series = vec![500.0, 505.0, 498.0, 502.0, 501.0, 499.0];
        series.extend([760.0, 774.0, 770.0, 779.0, 775.0, 773.0]);
        let style = Style { width: 80, colour: false, unicode: true };
        let text = trend(&history(&series), &style);
        assert!(text.contains("● from run run-6 on: 501/s → 772/s, +54"), "{text}");
        assert!(text.contains("entry-6: wider WAL?"), "{text}");
        let dots = text.lines().filter(|line| line.contains('│')).map(|l| l.matches('●').count());
        assert_eq!(dots.sum::<usize>(), 12, "{text}");
    }

    #[test]
    fn few_runs_claim_nothing_and_many_share_columns() {
        let style = Style { width: 60, colour: false, unicode: false };
        let text = trend(&history(&[5.0, 9.0]), &style);
        assert!(text.contains("from 6 runs on"), "{text}");
        let long: Vec<f64> = (0..500).map(|i| 100.0 + f64::from(i % 3)).collect();
        let text = trend(&history(&long), &style);
        assert!(text.lines().all(|line| line.len() <= 60), "{text}");
        assert!(text.contains("No change of level shows."), "{text}");
    }
}
