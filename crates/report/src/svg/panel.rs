//! One small plot of the timeline: lines or a stack over the shared time axis.

use std::fmt::Write;

use super::scale::{Scale, round_top};
use super::thin::{Point, averaged, keep_extremes, mean};
use super::timeline::TimeFrame;
use super::{Ink, Unit, axis, escape, label, line, put, px, rect, text};

/// Width of every plot, in units of its view box.
pub(crate) const WIDTH: f64 = 1000.0;
/// Room for ticks at the left.
pub(crate) const LEFT: f64 = 64.0;
/// Room for labels and values at the right.
pub(crate) const RIGHT: f64 = 204.0;
/// Height of a label with its distance to the next.
const LABEL: f64 = 16.0;
/// Letters of a name that fit beside its value.
const NAME: usize = 18;
/// Places across that a drawing tells apart: two units each. A page of an hour is small for it,
/// and its script draws what a reader zooms into from the figures.
pub(crate) const BINS: usize = 366;

/// One named series.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Track {
    pub(crate) name: String,
    pub(crate) ink: Ink,
    pub(crate) points: Vec<Point>,
    /// Broken line, for what was asked for rather than seen.
    pub(crate) dashed: bool,
    /// What the label shows while nothing is pointed at: the figure of the measured window.
    pub(crate) typical: Option<f64>,
}

/// A level across the panel: a mean with its interval, a capacity.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rule {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) value: f64,
    /// Interval around it, drawn as a band.
    pub(crate) band: Option<(f64, f64)>,
    /// Written at the rule, where it is not empty.
    pub(crate) name: String,
}

/// How the tracks are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marks {
    /// Each a line, from zero.
    Lines,
    /// Each a line, on a logarithmic axis.
    LogLines,
    /// Areas on top of each other, the first at the bottom.
    Stack,
}

/// A plot of the timeline.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Panel {
    pub(crate) id: &'static str,
    pub(crate) title: String,
    /// What is shown and in what unit, in a few words beside the title.
    pub(crate) about: String,
    pub(crate) unit: Unit,
    pub(crate) marks: Marks,
    pub(crate) tracks: Vec<Track>,
    pub(crate) rules: Vec<Rule>,
    /// Height of the plot; grows where labels need more.
    pub(crate) height: f64,
}

impl Panel {
    /// Height of the plot itself.
    pub(crate) fn plot_height(&self) -> f64 {
        self.height.max(self.tracks.len() as f64 * LABEL + 4.0)
    }

    /// The plot.
    pub(crate) fn svg(&self, frame: &TimeFrame) -> String {
        let (top, bottom) = (6.0, 6.0 + self.plot_height());
        let mut out = format!(
            r#"<svg viewBox="0 0 {WIDTH} {}" role="img" aria-label="{}" data-panel="{}">"#,
            px(bottom + 6.0),
            escape(&format!("{}: {}", self.title, self.about)),
            self.id
        );
        let right = WIDTH - RIGHT;
        frame.backdrop(&mut out, top, bottom);
        let x = frame.scale();
        for tick in frame.ticks() {
            line(&mut out, (x.at(tick), top), (x.at(tick), bottom), "grid faint");
        }
        let y = self.vertical(frame, top, bottom);
        axis::vertical(&mut out, &y, self.unit, LEFT, right, 4);
        let ends = match self.marks {
            Marks::Stack => self.stack(&mut out, &x, &y, frame),
            Marks::Lines | Marks::LogLines => self.lines(&mut out, &x, &y, frame),
        };
        frame.foreground(&mut out, top, bottom);
        self.rules(&mut out, &x, &y);
        self.labels(&mut out, &ends, top, bottom);
        put!(out, r#"<line class="cross" x1="0" x2="0" y1="{}" y2="{}"/>"#, px(top), px(bottom));
        out.push_str("</svg>");
        out
    }

    fn vertical(&self, frame: &TimeFrame, top: f64, bottom: f64) -> Scale {
        let rules = self.rules.iter().map(|r| r.value);
        if self.marks == Marks::LogLines {
            let values = || self.values(frame).chain(rules.clone()).filter(|v| *v > 0.0);
            let low = values().fold(f64::INFINITY, f64::min);
            let high = values().fold(0.0, f64::max);
            let low = if low.is_finite() { low } else { 1e-3 };
            return Scale::log(low / 1.25, high * 1.25, bottom, top);
        }
        let most = match self.marks {
            Marks::Stack => self.stacked(frame).last().map_or(0.0, |upper| highest(upper)),
            _ => self.values(frame).fold(0.0, f64::max),
        };
        let most = rules.fold(most, f64::max);
        Scale::linear(0.0, round_top(most, 4, self.unit.axis(most).size), bottom, top)
    }

    fn values<'a>(&'a self, frame: &'a TimeFrame) -> impl Iterator<Item = f64> + 'a {
        let points = self.tracks.iter().flat_map(|t| &t.points);
        points.filter(|p| frame.from <= p.at && p.at <= frame.to).filter_map(|p| p.value)
    }

    /// Draws each track as a line and returns where its label wants to stand.
    fn lines(&self, out: &mut String, x: &Scale, y: &Scale, frame: &TimeFrame) -> Vec<f64> {
        let draw = |track: &Track| {
            let points = keep_extremes(&visible(&track.points, frame), BINS);
            let dashed = if track.dashed { " dashed" } else { "" };
            let path = path(&points, x, y);
            format!(r#"<path class="line {}{dashed}" d="{path}"/>"#, track.ink.class())
        };
        // The first track is the most important: it is drawn last, above the others.
        let drawn: Vec<String> = self.tracks.iter().rev().map(draw).collect();
        out.push_str(&drawn.concat());
        self.tracks.iter().map(|t| y.at(ending(&t.points, frame).unwrap_or(0.0))).collect()
    }

    /// The upper edge of each area of the stack, first the lowest.
    fn stacked(&self, frame: &TimeFrame) -> Vec<Vec<Point>> {
        let mut edges: Vec<Vec<Point>> = Vec::new();
        for track in &self.tracks {
            let own = averaged(&visible(&track.points, frame), BINS);
            let edge = match edges.last() {
                None => own,
                Some(below) => below
                    .iter()
                    .zip(&own)
                    .map(|(b, o)| Point {
                        at: b.at,
                        value: b.value.zip(o.value).map(|(b, o)| b + o),
                    })
                    .collect(),
            };
            edges.push(edge);
        }
        edges
    }

    fn stack(&self, out: &mut String, x: &Scale, y: &Scale, frame: &TimeFrame) -> Vec<f64> {
        let edges = self.stacked(frame);
        let mut wanted = Vec::new();
        let mut below: Option<&Vec<Point>> = None;
        for (track, edge) in self.tracks.iter().zip(&edges) {
            let mut path = Path::default();
            for run in known(edge) {
                for (i, at) in run.clone().enumerate() {
                    let to = (x.at(edge[at].at), y.at(edge[at].value.unwrap_or(0.0)));
                    if i == 0 { path.start(to) } else { path.line(to) }
                }
                for at in run.rev() {
                    let floor = below.and_then(|b| b.get(at)).and_then(|p| p.value).unwrap_or(0.0);
                    path.line((x.at(edge[at].at), y.at(floor)));
                }
                path.close();
            }
            let path = path.d;
            put!(out, r#"<path class="area {}" d="{path}"/>"#, track.ink.class());
            let top = ending(edge, frame).unwrap_or(0.0);
            let floor = below.and_then(|b| ending(b, frame)).unwrap_or(0.0);
            wanted.push(f64::midpoint(y.at(top), y.at(floor)));
            below = Some(edge);
        }
        wanted
    }

    fn rules(&self, out: &mut String, x: &Scale, y: &Scale) {
        for rule in &self.rules {
            let (from, to) = (x.at(rule.from), x.at(rule.to));
            if let Some((low, high)) = rule.band {
                rect(out, (from, y.at(high)), (to, y.at(low)), "band");
            }
            line(out, (from, y.at(rule.value)), (to, y.at(rule.value)), "rule");
            if !rule.name.is_empty() {
                text(out, to - 4.0, y.at(rule.value) - 4.0, "note from-right", &rule.name);
            }
        }
    }

    fn labels(&self, out: &mut String, wanted: &[f64], top: f64, bottom: f64) {
        let places = label::spread(wanted, LABEL, top + 6.0, bottom - 2.0);
        let left = WIDTH - RIGHT + 12.0;
        for (track, y) in self.tracks.iter().zip(places) {
            let dashed = if track.dashed { " dashed" } else { "" };
            let class = track.ink.class();
            match self.marks {
                Marks::Stack => {
                    rect(out, (left, y - 5.0), (left + 10.0, y + 5.0), &format!("area {class}"))
                }
                _ => line(out, (left, y), (left + 10.0, y), &format!("line {class}{dashed}")),
            }
            text(out, left + 16.0, y + 3.8, "name", &label::shortened(&track.name, NAME));
            let typical = track.typical.map_or_else(String::new, |v| self.unit.value(v));
            text(out, WIDTH - 2.0, y + 3.8, "value from-right", &typical);
        }
    }
}

/// Points on the time axis.
fn visible(points: &[Point], frame: &TimeFrame) -> Vec<Point> {
    points.iter().copied().filter(|p| frame.from <= p.at && p.at <= frame.to).collect()
}

/// Where a line ends, smoothed over its last tenth so that a last outlier does not move its label.
fn ending(points: &[Point], frame: &TimeFrame) -> Option<f64> {
    let points = visible(points, frame);
    let last = &points[points.len() - points.len().div_ceil(10)..];
    mean(last.iter().filter_map(|p| p.value)).or_else(|| points.iter().rev().find_map(|p| p.value))
}

fn highest(points: &[Point]) -> f64 {
    points.iter().filter_map(|p| p.value).fold(0.0, f64::max)
}

/// Stretches of known values, as ranges of indices.
fn known(points: &[Point]) -> Vec<std::ops::Range<usize>> {
    let mut runs = Vec::new();
    let mut start = None;
    for (i, point) in points.iter().enumerate() {
        match (point.value, start) {
            (Some(_), None) => start = Some(i),
            (None, Some(from)) => {
                runs.push(from..i);
                start = None;
            }
            _ => {}
        }
    }
    runs.extend(start.map(|from| from..points.len()));
    runs
}

/// A line through known values. A lone value between gaps is a dot.
fn path(points: &[Point], x: &Scale, y: &Scale) -> String {
    let mut path = Path::default();
    for run in known(points) {
        let alone = run.len() == 1;
        for (i, at) in run.enumerate() {
            let to = (x.at(points[at].at), y.at(points[at].value.unwrap_or(0.0)));
            if i == 0 { path.start(to) } else { path.line(to) }
        }
        if alone {
            path.d.push_str("h0");
        }
    }
    path.d
}

/// The data of a path in the making: each step from the place before, in tenths, which is
/// shorter than places are.
#[derive(Default)]
struct Path {
    d: String,
    /// In tenths, as rounded: what is lost in one step is not lost in the next.
    at: (i64, i64),
    /// Whether a line was begun.
    drawing: bool,
}

impl Path {
    fn start(&mut self, to: (f64, f64)) {
        self.at = tenths(to);
        self.drawing = false;
        put!(self.d, "M{} {}", px(to.0), px(to.1));
    }

    fn line(&mut self, to: (f64, f64)) {
        let to = tenths(to);
        if !self.drawing {
            self.d.push('l');
            self.drawing = true;
        }
        self.step(to.0 - self.at.0);
        self.step(to.1 - self.at.1);
        self.at = to;
    }

    /// A number, divided from the one before by its sign or a space.
    fn step(&mut self, tenths: i64) {
        let (whole, rest) = (tenths.abs() / 10, tenths.abs() % 10);
        if tenths < 0 {
            self.d.push('-');
        } else if !self.d.ends_with('l') {
            self.d.push(' ');
        }
        match (whole, rest) {
            (whole, 0) => put!(self.d, "{whole}"),
            (0, rest) => put!(self.d, ".{rest}"),
            (whole, rest) => put!(self.d, "{whole}.{rest}"),
        }
    }

    fn close(&mut self) {
        self.d.push('z');
    }
}

fn tenths((x, y): (f64, f64)) -> (i64, i64) {
    ((x * 10.0).round() as i64, (y * 10.0).round() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(name: &str, ink: Ink, values: &[Option<f64>]) -> Track {
        let points = values
            .iter()
            .enumerate()
            .map(|(i, value)| Point { at: i as f64, value: *value })
            .collect();
        Track { name: name.into(), ink, points, dashed: false, typical: Some(1.0) }
    }

    fn panel(marks: Marks, tracks: Vec<Track>) -> Panel {
        Panel {
            id: "test",
            title: "Waits".into(),
            about: "sessions".into(),
            unit: Unit::Count("sessions"),
            marks,
            tracks,
            rules: Vec::new(),
            height: 100.0,
        }
    }

    fn frame() -> TimeFrame {
        TimeFrame { from: 0.0, to: 4.0, ..TimeFrame::default() }
    }

    #[test]
    fn a_gap_breaks_the_line_and_is_not_zero() {
        let values = [Some(1.0), Some(2.0), None, Some(4.0), None];
        let svg = panel(Marks::Lines, vec![track("a", Ink::Main, &values)]).svg(&frame());
        let d = svg.split("d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!(d, "M64 81l183-25M613 6h0");
    }

    #[test]
    fn areas_stand_on_each_other() {
        let tracks = vec![
            track("a", Ink::Cpu, &[Some(1.0), Some(1.0)]),
            track("b", Ink::Lock, &[Some(3.0), Some(1.0)]),
        ];
        let svg = panel(Marks::Stack, tracks).svg(&frame());
        let d = svg.split("d=\"").nth(2).unwrap().split('"').next().unwrap();
        // Up to 4 of 4 sessions first, then down to 2; the floor is the first area.
        assert_eq!(d, "M64 6l183 50 0 25-183 0z");
    }

    #[test]
    fn names_from_outside_are_escaped() {
        let svg = panel(Marks::Lines, vec![track("<b>", Ink::Main, &[Some(1.0)])]).svg(&frame());
        assert!(svg.contains("&lt;b&gt;") && !svg.contains("<b>"));
    }

    #[test]
    fn nothing_known_still_draws_axes() {
        for marks in [Marks::Lines, Marks::LogLines, Marks::Stack] {
            let svg = panel(marks, vec![track("a", Ink::Main, &[None, None])]).svg(&frame());
            assert!(svg.starts_with("<svg") && svg.ends_with("</svg>"));
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            panel(marks, Vec::new()).svg(&TimeFrame::default());
        }
    }
}
