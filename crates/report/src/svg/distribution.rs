//! The distribution of latencies: a histogram and the percentile curve of HdrHistogram.

use std::fmt::Write;

use super::scale::Scale;
use super::unit::log_tick;
use super::{Ink, Unit, axis, escape, label, line, put, px, rect, text};
use crate::format;

const WIDTH: f64 = 490.0;
const HEIGHT: f64 = 268.0;
const LEFT: f64 = 56.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = HEIGHT - 40.0;

/// A percentile worth marking.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Mark {
    /// `p50`, `p99.9`, `max`.
    pub(crate) name: String,
    pub(crate) ink: Ink,
    /// Seconds.
    pub(crate) value: f64,
    /// In percent, 0 to 100.
    pub(crate) percent: f64,
}

/// Bars over a logarithmic axis of latency. `buckets` are (seconds, count),
/// ascending; bars are `per_decade` to a power of ten, so equal widths mean equal ratios.
pub(crate) fn histogram(buckets: &[(f64, u64)], marks: &[Mark], per_decade: u32) -> Option<String> {
    let total: u64 = buckets.iter().map(|(_, n)| n).sum();
    let (first, last) = (buckets.first()?.0, buckets.last()?.0);
    let place = |seconds: f64| (seconds.log10() * f64::from(per_decade)).floor() as i64;
    let edge = |place: i64| 10f64.powf(place as f64 / f64::from(per_decade));
    let (low, high) = (place(first.max(1e-9)), place(last.max(1e-9)) + 1);
    let mut bars = vec![0_u64; usize::try_from(high - low).ok()?.min(2000)];
    for (seconds, n) in buckets {
        let at = usize::try_from(place(seconds.max(1e-9)) - low).unwrap_or(0);
        if let Some(bar) = bars.get_mut(at) {
            *bar += n;
        }
    }
    let most = bars.iter().copied().max()? as f64 / total as f64;
    let right = WIDTH - 12.0;
    let x = Scale::log(edge(low - 1), edge(high + 1), LEFT, right);
    let y = Scale::linear(0.0, most * 1.06, BOTTOM, TOP);
    let mut out = open("Histogram of latency: share of all in each bar");
    axis::vertical(&mut out, &y, Unit::Share, LEFT, right, 4);
    horizontal(&mut out, &x);
    for (i, n) in bars.iter().enumerate().filter(|(_, n)| **n > 0) {
        let at = low + i as i64;
        let (from, to) = (x.at(edge(at)), x.at(edge(at + 1)));
        let share = *n as f64 / total as f64;
        // A bar too low to see is still there: the tail is the point of the plot.
        let height = (BOTTOM - y.at(share)).max(1.0);
        let to = if to - from > 3.0 { to - 0.8 } else { to };
        rect(&mut out, (from, BOTTOM - height), (to, BOTTOM), "bar i-main");
    }
    markers(&mut out, marks, &x);
    text(
        &mut out,
        f64::midpoint(LEFT, right),
        HEIGHT - 4.0,
        "tick centred quiet",
        "latency, log scale",
    );
    out.push_str("</svg>");
    Some(out)
}

/// Percentile lines with names above the plot, moved apart where they would touch.
fn markers(out: &mut String, marks: &[Mark], x: &Scale) {
    let shown: Vec<&Mark> = marks.iter().filter(|m| x.holds(m.value)).collect();
    let wanted: Vec<f64> = shown.iter().map(|m| x.at(m.value)).collect();
    let places = label::spread(&wanted, 36.0, LEFT, WIDTH - 16.0);
    for ((mark, at), name) in shown.iter().zip(&wanted).zip(places) {
        let class = format!("marker {}", mark.ink.class());
        put!(
            out,
            r#"<path class="{class}" d="M{} {}V{}L{} {}"/>"#,
            px(*at),
            px(BOTTOM),
            px(TOP - 4.0),
            px(name),
            px(TOP - 14.0)
        );
        put!(
            out,
            r#"<text x="{}" y="{}" class="name centred"><title>{}</title>{}</text>"#,
            px(name),
            px(TOP - 18.0),
            escape(&format::seconds(mark.value)),
            escape(&mark.name)
        );
    }
}

/// Latency over percentile, the percentile axis stretched towards 100 % so that
/// each nine has equal room, as HdrHistogram plots it. `curve` is (percent, seconds), ascending.
pub(crate) fn percentile_curve(curve: &[(f64, f64)], marks: &[Mark]) -> Option<String> {
    let deepest = curve.iter().map(|(p, _)| *p).filter(|p| *p < 100.0).fold(0.0, f64::max);
    let last = *curve.last()?;
    // Nines: 90 % is one, 99 % two.
    let nines = |percent: f64| -(1.0 - percent / 100.0).log10();
    let end = (nines(deepest) - 1e-6).ceil().max(1.0);
    let right = WIDTH - 44.0;
    let x = Scale::linear(0.0, end, LEFT, right);
    let low = curve.iter().map(|(_, s)| *s).fold(f64::INFINITY, f64::min);
    let y = Scale::log(low / 1.3, last.1 * 1.3, BOTTOM, TOP - 14.0);
    let mut out = open("Latency by percentile");
    axis::vertical(&mut out, &y, Unit::Seconds, LEFT, right, 6);
    let names = ["0", "90", "99", "99.9", "99.99", "99.999", "99.9999", "99.99999"];
    for (i, name) in names.iter().enumerate().take(end as usize + 1) {
        let at = x.at(i as f64);
        line(&mut out, (at, TOP - 14.0), (at, BOTTOM), "grid faint");
        text(&mut out, at, BOTTOM + 16.0, "tick centred", name);
    }
    let mut path = String::new();
    for (i, (percent, seconds)) in curve.iter().enumerate() {
        let at = if *percent >= 100.0 { end } else { nines(*percent) };
        put!(path, "{}{} {}", if i == 0 { 'M' } else { 'L' }, px(x.at(at)), px(y.at(*seconds)));
    }
    put!(out, r#"<path class="line i-main" d="{path}"/>"#);
    let at = |mark: &Mark| x.at(if mark.percent >= 100.0 { end } else { nines(mark.percent) });
    // Below a rising curve, right of the point, nothing else is drawn; the last
    // point has room only above.
    let wanted: Vec<f64> = marks.iter().map(|m| y.at(m.value) + 13.0).collect();
    let places = label::spread(&wanted, 13.0, TOP, BOTTOM - 4.0);
    for (mark, below) in marks.iter().zip(places) {
        let (cx, cy) = (at(mark), y.at(mark.value));
        let class = mark.ink.class();
        put!(out, r#"<circle cx="{}" cy="{}" r="3.4" class="dot {class}"/>"#, px(cx), px(cy));
        let name = format!("{} {}", mark.name, format::seconds(mark.value));
        if mark.percent < 100.0 {
            text(&mut out, cx + 7.0, below, "name halo", &name);
        } else {
            text(&mut out, cx, cy - 8.0, "name halo from-right", &name);
        }
    }
    text(
        &mut out,
        f64::midpoint(LEFT, right),
        HEIGHT - 4.0,
        "tick centred quiet",
        "percentile (%), each nine equally wide",
    );
    out.push_str("</svg>");
    Some(out)
}

fn horizontal(out: &mut String, x: &Scale) {
    for tick in x.ticks(7, 1.0) {
        let at = x.at(tick);
        line(out, (at, BOTTOM), (at, BOTTOM + 4.0), "base");
        text(out, at, BOTTOM + 16.0, "tick centred", &log_tick(tick, Unit::Seconds));
    }
}

fn open(name: &str) -> String {
    format!(r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{name}">"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks() -> Vec<Mark> {
        let mark =
            |name: &str, value, percent| Mark { name: name.into(), ink: Ink::P50, value, percent };
        vec![mark("p50", 1e-3, 50.0), mark("p99", 1.1e-3, 99.0), mark("max", 0.4, 100.0)]
    }

    #[test]
    fn every_count_is_in_a_bar_and_none_is_invisible() {
        let buckets = [(0.9e-3, 10), (1e-3, 100_000), (1.05e-3, 5), (0.4, 1)];
        let svg = histogram(&buckets, &marks(), 20).unwrap();
        assert_eq!(svg.matches("bar i-main").count(), 3);
        assert!(svg.contains(r#"height="1""#), "one in a hundred thousand is drawn: {svg}");
        assert_eq!(svg.matches("class=\"marker").count(), 3);
    }

    #[test]
    fn each_nine_is_equally_wide() {
        let curve = [(0.0, 1e-3), (90.0, 2e-3), (99.0, 3e-3), (99.9, 4e-3), (100.0, 9e-3)];
        let svg = percentile_curve(&curve, &marks()).unwrap();
        assert!(svg.contains(">99.9<") && !svg.contains(">99.99<"));
        let d = svg.split("line i-main\" d=\"").nth(1).unwrap().split('"').next().unwrap();
        let xs: Vec<f64> =
            d.split(['M', 'L']).filter_map(|p| p.split(' ').next()?.parse().ok()).collect();
        assert!(((xs[1] - xs[0]) - (xs[2] - xs[1])).abs() < 0.2, "{xs:?}");
    }

    #[test]
    fn nothing_measured_is_no_picture() {
        assert_eq!(histogram(&[], &[], 20), None);
        assert_eq!(percentile_curve(&[], &[]), None);
    }
}
