//! Runs laid over each other: throughput over time, latency over percentiles.

use std::fmt::Write;

use super::scale::{Scale, round_top, time_ticks};
use super::thin::{Point, averaged};
use super::{Ink, Unit, axis, escape, line, put, px, rect, text};
use crate::compare::words::percent;
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

/// Runs in one plot, the baseline's first.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Overlay {
    pub(crate) curves: Vec<Curve>,
    /// How many of them are of the baseline.
    pub(crate) baseline: usize,
    /// The baseline's measured window, in seconds of load.
    pub(crate) window: (f64, f64),
    /// Whether they are drawn as changes against the baseline.
    pub(crate) is_relative: bool,
}

/// Share of the baseline's points that lie in the band of its noise.
const BAND: f64 = 0.95;

impl Overlay {
    /// Work a second over seconds of load. The band is where most of the baseline's points of
    /// the measured window lie; changes are against the mean of these.
    pub(crate) fn throughput(&self) -> Option<String> {
        let drawn = |curve: &Curve| -> Vec<(f64, f64)> {
            let known = curve.points.iter();
            let known: Vec<Point> =
                known.map(|(at, value)| Point { at: *at, value: Some(*value) }).collect();
            averaged(&known, POINTS).iter().filter_map(|p| Some((p.at, p.value?))).collect()
        };
        let mut lines: Vec<Vec<(f64, f64)>> = self.curves.iter().map(drawn).collect();
        let (begin, stop) = self.window;
        let measured = |points: &[(f64, f64)]| -> Vec<f64> {
            let inside = points.iter().filter(|(at, _)| (begin..=stop).contains(at));
            inside.map(|(_, value)| *value).collect()
        };
        let noise: Vec<f64> = lines[..self.baseline].iter().flat_map(|of| measured(of)).collect();
        let mut band = [(1.0 - BAND) / 2.0, (1.0 + BAND) / 2.0]
            .map(|q| walwright_stats::quantile(&noise, q).unwrap_or(0.0));
        let end = lines.iter().flatten().map(|(at, _)| *at).fold(0.0, f64::max);
        let most = lines.iter().flatten().map(|(_, value)| *value).fold(0.0, f64::max);
        if most <= 0.0 || noise.is_empty() {
            return None;
        }
        let x = Scale::linear(0.0, end, LEFT, RIGHT);
        let mut out = open(match self.is_relative {
            true => "Throughput of all runs over time, against the baseline",
            false => "Throughput of all runs over time",
        });
        let y = if self.is_relative {
            let mean = noise.iter().sum::<f64>() / noise.len() as f64;
            if mean <= 0.0 {
                return None;
            }
            let change = |value: &mut f64| *value = *value / mean - 1.0;
            lines.iter_mut().flatten().for_each(|(_, value)| change(value));
            band.iter_mut().for_each(change);
            // The rise to full load would leave no room for what is compared.
            changes(&mut out, lines.iter().flat_map(|of| measured(of)).chain(band))
        } else {
            let y = Scale::linear(0.0, round_top(most * 1.04, 5, 1.0), BOTTOM, TOP);
            axis::vertical(&mut out, &y, Unit::PerSecond, LEFT, RIGHT, 5);
            y
        };
        for tick in time_ticks(0.0, end, 6) {
            line(&mut out, (x.at(tick), BOTTOM), (x.at(tick), BOTTOM + 4.0), "base");
            text(&mut out, x.at(tick), BOTTOM + 16.0, "tick centred", &format::clock(tick));
        }
        let ends = (x.at(begin.max(0.0)), x.at(stop.min(end)));
        if self.baseline > 0 {
            let [low, high] = band;
            rect(&mut out, (ends.0, y.at(high)), (ends.1, y.at(low)), "band");
        }
        for (curve, points) in self.curves.iter().zip(&lines) {
            path(&mut out, curve, points.iter().map(|(at, value)| (x.at(*at), y.at(*value))));
        }
        for at in [ends.0, ends.1] {
            line(&mut out, (at, TOP), (at, BOTTOM), "edge");
        }
        caption(&mut out, "time since the load began; the thin lines edge the measured window");
        Some(out)
    }

    /// Latency over the percentile, each nine with equal room. Points are (percent, seconds);
    /// changes are against the baseline's latency at the same percentile.
    pub(crate) fn latency(&self) -> Option<String> {
        if !self.is_relative {
            return latency(&self.curves);
        }
        let baseline = self.curves[..self.baseline].iter();
        let known: Vec<&Curve> = baseline.filter(|of| !of.points.is_empty()).collect();
        let of_baseline = |percent: f64| {
            let sum: f64 = known.iter().filter_map(|of| latency_at(&of.points, percent)).sum();
            sum / known.len() as f64
        };
        let changed = |curve: &Curve| {
            let points = curve.points.iter().filter(|(percent, _)| *percent < 100.0);
            let points = points.filter_map(|(percent, seconds)| {
                let of = of_baseline(*percent);
                (of > 0.0).then(|| (*percent, seconds / of - 1.0))
            });
            Curve { points: points.collect(), ..curve.clone() }
        };
        let curves: Vec<Curve> = self.curves.iter().map(changed).collect();
        let values: Vec<f64> =
            curves.iter().flat_map(|curve| &curve.points).map(|point| point.1).collect();
        let mut out = open("Latency of all runs by percentile, against the baseline");
        let y = changes(&mut out, values.iter().copied());
        (!known.is_empty()).then(|| by_percentile(out, &curves, &y))
    }
}

/// The latency under which `percent` of all stayed, between the points that are known.
fn latency_at(points: &[(f64, f64)], percent: f64) -> Option<f64> {
    let place = points.partition_point(|(below, _)| *below < percent);
    let (after, before) = (points.get(place).or(points.last())?, place.checked_sub(1));
    let Some((from, low)) = before.map(|at| points[at]) else { return Some(after.1) };
    let share = if after.0 > from { (percent - from) / (after.0 - from) } else { 1.0 };
    Some(low + (after.1 - low) * share.clamp(0.0, 1.0))
}

/// A scale of changes that shows no change too, with its gridlines.
fn changes(out: &mut String, values: impl Iterator<Item = f64>) -> Scale {
    let (low, high) = values.fold((0.0_f64, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
    // Of runs that hardly differ the rounding is not to fill the plot.
    let room = ((high - low) * 0.06).max(0.002);
    let y = Scale::linear(low - room, high + room, BOTTOM, TOP);
    for value in y.ticks(5, 0.01) {
        let class = if value == 0.0 { "base" } else { "grid" };
        line(out, (LEFT, y.at(value)), (RIGHT, y.at(value)), class);
        let said = if value == 0.0 { "0 %".to_owned() } else { percent(value) };
        text(out, LEFT - 8.0, y.at(value) + 3.8, "tick from-right", &said);
    }
    y
}

fn latency(curves: &[Curve]) -> Option<String> {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let low = points().map(|(_, s)| *s).fold(f64::INFINITY, f64::min);
    let high = points().map(|(_, s)| *s).fold(0.0, f64::max);
    if high <= 0.0 || low <= 0.0 {
        return None;
    }
    let y = Scale::log(low / 1.2, high * 1.2, BOTTOM, TOP);
    let mut out = open("Latency of all runs by percentile");
    axis::vertical(&mut out, &y, Unit::Seconds, LEFT, RIGHT, 6);
    Some(by_percentile(out, curves, &y))
}

/// Lines over the percentile, each nine with equal room.
fn by_percentile(mut out: String, curves: &[Curve], y: &Scale) -> String {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let deepest = points().map(|(p, _)| *p).filter(|p| *p < 100.0).fold(0.0, f64::max);
    let nines = |percent: f64| -(1.0 - percent / 100.0).log10();
    let end = (nines(deepest) - 1e-6).ceil().max(1.0);
    let x = Scale::linear(0.0, end, LEFT, RIGHT);
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
            .map(|(_, (percent, value))| {
                let at = if *percent >= 100.0 { end } else { nines(*percent).max(0.0) };
                (x.at(at), y.at(*value))
            });
        path(&mut out, curve, places);
    }
    caption(&mut out, "percentile (%), each nine equally wide");
    out
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

    fn overlay(curves: Vec<Curve>) -> Overlay {
        Overlay { curves, baseline: 1, window: (60.0, 600.0), is_relative: false }
    }

    /// The ends of the line of a run, top of the picture first.
    fn heights(svg: &str, name: &str) -> (f64, f64) {
        let end = svg.find(&format!("<title>{name}</title>")).unwrap();
        let begin = svg[..end].rfind("d=\"M").unwrap() + 4;
        let places = svg[begin..end].split('"').next().unwrap();
        let heights = places.split('L').map(|at| at.split(' ').nth(1).unwrap().parse().unwrap());
        heights.fold((f64::INFINITY, 0.0), |(low, high), y: f64| (low.min(y), high.max(y)))
    }

    #[test]
    fn every_run_has_its_line_and_its_name() {
        let runs = vec![
            curve("a<b", (0..600).map(|s| (f64::from(s), 500.0)).collect()),
            curve("c", vec![(0.5, 400.0), (1.5, 450.0)]),
        ];
        let svg = overlay(runs).throughput().unwrap();
        assert_eq!(svg.matches("class=\"line").count(), 2);
        assert!(svg.contains("a&lt;b") && !svg.contains("a<b"));
        assert_eq!(svg.matches("class=\"edge\"").count(), 2);
        assert_eq!(svg.matches("class=\"band\"").count(), 1);
    }

    #[test]
    fn changes_are_against_the_baseline_and_leave_room_for_what_is_compared() {
        let rate = |factor: f64| -> Vec<(f64, f64)> {
            let at = |s: u32| if s < 60 { f64::from(s) } else { 500.0 + f64::from(s % 2) };
            (0..600).map(|s| (f64::from(s), factor * at(s))).collect()
        };
        let runs = vec![curve("a", rate(1.0)), curve("b", rate(1.1)), curve("c", rate(0.95))];
        let svg = Overlay { is_relative: true, ..overlay(runs) }.throughput().unwrap();
        assert!(svg.contains("+10.0 %") && svg.contains("−5.0 %"), "{svg}");
        // The rise from nothing is far below the plot: it does not stretch the scale.
        assert!(!svg.contains("−10.0 %"), "{svg}");
        assert!(heights(&svg, "b").0 < heights(&svg, "a").0);
        let latency =
            |factor: f64| (1..=999).map(move |n| (f64::from(n) / 10.0, factor * f64::from(n)));
        let runs = vec![curve("a", latency(1.0).collect()), curve("b", latency(1.5).collect())];
        let svg = Overlay { is_relative: true, ..overlay(runs) }.latency().unwrap();
        let (low, high) = heights(&svg, "b");
        assert!((high - low).abs() < 0.2, "half as much again at every percentile: {low} {high}");
        assert!(svg.contains("+40.0 %"), "{svg}");
    }

    #[test]
    fn the_tail_is_drawn_whole() {
        let points: Vec<(f64, f64)> =
            (1..=5_000).map(|n| (f64::from(n) / 50.0, f64::from(n) * 1e-6)).collect();
        let svg = overlay(vec![curve("a", points)]).latency().unwrap();
        assert!(svg.contains(">99.9<"));
        let drawn = svg.matches('L').count();
        assert!((150..=1_000).contains(&drawn), "{drawn}");
    }

    #[test]
    fn nothing_known_is_no_picture() {
        for is_relative in [false, true] {
            let nothing = Overlay { is_relative, ..overlay(vec![curve("a", Vec::new())]) };
            assert_eq!(nothing.throughput(), None);
            assert_eq!(nothing.latency(), None);
        }
    }
}
