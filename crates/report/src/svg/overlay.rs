//! Runs laid over each other: throughput over time, latency over percentiles.

use std::fmt::Write;

use super::scale::{Scale, round_top, time_ticks};
use super::thin::{Point, averaged};
use super::{Ink, Unit, axis, escape, line, put, px, text};
use crate::format;

const WIDTH: f64 = 490.0;
const HEIGHT: f64 = 268.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = WIDTH - 14.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = HEIGHT - 40.0;
/// Points of a line, at most: more are noise on paper of this size.
const POINTS: usize = 150;

/// One run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Curve {
    /// For the pointer.
    pub(crate) name: String,
    pub(crate) ink: Ink,
    /// (abscissa, value), ascending.
    pub(crate) points: Vec<(f64, f64)>,
}

/// Work a second over seconds since the window began.
pub(crate) fn throughput(curves: &[Curve]) -> Option<String> {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let end = points().map(|(at, _)| *at).fold(0.0, f64::max);
    let most = points().map(|(_, value)| *value).fold(0.0, f64::max);
    if most <= 0.0 {
        return None;
    }
    let x = Scale::linear(0.0, end, LEFT, RIGHT);
    let y = Scale::linear(0.0, round_top(most * 1.04, 5, 1.0), BOTTOM, TOP);
    let mut out = open("Throughput of all runs over time");
    axis::vertical(&mut out, &y, Unit::PerSecond, LEFT, RIGHT, 5);
    for tick in time_ticks(0.0, end, 6) {
        line(&mut out, (x.at(tick), BOTTOM), (x.at(tick), BOTTOM + 4.0), "base");
        text(&mut out, x.at(tick), BOTTOM + 16.0, "tick centred", &format::clock(tick));
    }
    for curve in curves {
        let points: Vec<Point> =
            curve.points.iter().map(|(at, value)| Point { at: *at, value: Some(*value) }).collect();
        let thinned = averaged(&points, POINTS);
        let places = thinned.iter().filter_map(|p| Some((x.at(p.at), y.at(p.value?))));
        path(&mut out, curve, places);
    }
    caption(&mut out, "time in the measured window");
    Some(out)
}

/// Latency over the percentile, each nine with equal room. `points` are (percent,
/// seconds).
pub(crate) fn latency(curves: &[Curve]) -> Option<String> {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let deepest = points().map(|(p, _)| *p).filter(|p| *p < 100.0).fold(0.0, f64::max);
    let low = points().map(|(_, s)| *s).fold(f64::INFINITY, f64::min);
    let high = points().map(|(_, s)| *s).fold(0.0, f64::max);
    if high <= 0.0 || low <= 0.0 {
        return None;
    }
    let nines = |percent: f64| -(1.0 - percent / 100.0).log10();
    let end = (nines(deepest) - 1e-6).ceil().max(1.0);
    let x = Scale::linear(0.0, end, LEFT, RIGHT);
    let y = Scale::log(low / 1.2, high * 1.2, BOTTOM, TOP);
    let mut out = open("Latency of all runs by percentile");
    axis::vertical(&mut out, &y, Unit::Seconds, LEFT, RIGHT, 6);
    let names = ["0", "90", "99", "99.9", "99.99", "99.999", "99.9999", "99.99999"];
    for (i, name) in names.iter().enumerate().take(end as usize + 1) {
        let at = x.at(i as f64);
        line(&mut out, (at, TOP), (at, BOTTOM), "grid faint");
        text(&mut out, at, BOTTOM + 16.0, "tick centred", name);
    }
    for curve in curves.iter().filter(|curve| !curve.points.is_empty()) {
        let step = curve.points.len().div_ceil(4 * POINTS).max(1);
        let last = curve.points.len() - 1;
        let places = curve
            .points
            .iter()
            .enumerate()
            // The tail is the point of the plot: its last points all stay.
            .filter(|(i, _)| i % step == 0 || *i + POINTS > last)
            .map(|(_, (percent, seconds))| {
                let at = if *percent >= 100.0 { end } else { nines(*percent).max(0.0) };
                (x.at(at), y.at(*seconds))
            });
        path(&mut out, curve, places);
    }
    caption(&mut out, "percentile (%), each nine equally wide");
    Some(out)
}

fn open(name: &str) -> String {
    format!(r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{name}">"#)
}

fn path(out: &mut String, curve: &Curve, places: impl Iterator<Item = (f64, f64)>) {
    let mut d = String::new();
    for (i, (x, y)) in places.enumerate() {
        put!(d, "{}{} {}", if i == 0 { 'M' } else { 'L' }, px(x), px(y));
    }
    if !d.is_empty() {
        put!(
            out,
            r#"<path class="line {}" d="{d}"><title>{}</title></path>"#,
            curve.ink.class(),
            escape(&curve.name)
        );
    }
}

fn caption(out: &mut String, words: &str) {
    text(out, f64::midpoint(LEFT, RIGHT), HEIGHT - 4.0, "tick centred quiet", words);
    out.push_str("</svg>");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(name: &str, points: Vec<(f64, f64)>) -> Curve {
        Curve { name: name.to_owned(), ink: Ink::Main, points }
    }

    #[test]
    fn every_run_has_its_line_and_its_name() {
        let runs = [
            curve("a<b", (0..600).map(|s| (f64::from(s), 500.0)).collect()),
            curve("c", vec![(0.5, 400.0), (1.5, 450.0)]),
        ];
        let svg = throughput(&runs).unwrap();
        assert_eq!(svg.matches("class=\"line").count(), 2);
        assert!(svg.contains("a&lt;b") && !svg.contains("a<b"));
    }

    #[test]
    fn the_tail_is_drawn_whole() {
        let points: Vec<(f64, f64)> =
            (1..=5_000).map(|n| (f64::from(n) / 50.0, f64::from(n) * 1e-6)).collect();
        let svg = latency(&[curve("a", points)]).unwrap();
        assert!(svg.contains(">99.9<"));
        let drawn = svg.matches('L').count();
        assert!((150..=1_000).contains(&drawn), "{drawn}");
    }

    #[test]
    fn nothing_known_is_no_picture() {
        assert_eq!(throughput(&[]), None);
        assert_eq!(latency(&[curve("a", Vec::new())]), None);
    }
}
