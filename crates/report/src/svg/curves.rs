//! Lines over a few chosen abscissas that double from one to the next, such as sizes and
//! numbers of requests under way.

use std::fmt::Write;

use super::overlay::Curve;
use super::scale::{Scale, round_top};
use super::{Unit, axis, escape, label, line, put, px, text};

const WIDTH: f64 = 490.0;
const HEIGHT: f64 = 268.0;
const LEFT: f64 = 62.0;
/// Names of the lines stand right of the plot.
const RIGHT: f64 = WIDTH - 104.0;
const TOP: f64 = 14.0;
const BOTTOM: f64 = HEIGHT - 40.0;

/// How the values of a plot spread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vertical {
    /// From zero.
    Even(Unit),
    /// By factors.
    Log(Unit),
}

/// Curves in one plot.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Curves {
    pub(crate) title: String,
    pub(crate) curves: Vec<Curve>,
    /// The abscissas with what is written below them.
    pub(crate) ticks: Vec<(f64, String)>,
    pub(crate) vertical: Vertical,
    pub(crate) caption: String,
}

impl Curves {
    /// The plot; `None` where there is nothing to draw.
    pub(crate) fn svg(&self) -> Option<String> {
        plot(&self.title, &self.curves, &self.ticks, self.vertical, &self.caption)
    }
}

fn plot(
    title: &str,
    curves: &[Curve],
    ticks: &[(f64, String)],
    vertical: Vertical,
    caption: &str,
) -> Option<String> {
    let values = || curves.iter().flat_map(|curve| &curve.points).map(|(_, value)| *value);
    let (low, high) = values().fold((f64::INFINITY, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
    let (first, last) = (ticks.first()?.0, ticks.last()?.0);
    if high <= 0.0 || low <= 0.0 {
        return None;
    }
    let x = Scale::log(first, last, LEFT + 8.0, RIGHT - 8.0);
    let (y, unit) = match vertical {
        Vertical::Even(unit) => {
            (Scale::linear(0.0, round_top(high * 1.04, 5, 1.0), BOTTOM, TOP), unit)
        }
        Vertical::Log(unit) => (Scale::log(low / 1.3, high * 1.3, BOTTOM, TOP), unit),
    };
    let mut out = format!(
        r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{}">"#,
        escape(title)
    );
    axis::vertical(&mut out, &y, unit, LEFT, RIGHT, 6);
    for (at, name) in ticks {
        line(&mut out, (x.at(*at), BOTTOM), (x.at(*at), BOTTOM + 4.0), "base");
        text(&mut out, x.at(*at), BOTTOM + 16.0, "tick centred", name);
    }
    let ends: Vec<f64> = curves
        .iter()
        .map(|curve| curve.points.last().map_or(BOTTOM, |(_, value)| y.at(*value) + 4.0))
        .collect();
    let places = label::spread(&ends, 14.0, TOP + 4.0, BOTTOM);
    for (curve, place) in curves.iter().zip(places).filter(|(curve, _)| !curve.points.is_empty()) {
        let class = curve.ink.class();
        let mut path = String::new();
        for (i, (at, value)) in curve.points.iter().enumerate() {
            let step = if i == 0 { 'M' } else { 'L' };
            put!(path, "{step}{} {}", px(x.at(*at)), px(y.at(*value)));
        }
        put!(out, r#"<path class="line {class}" d="{path}"/>"#);
        for (at, value) in &curve.points {
            put!(
                out,
                r#"<circle cx="{}" cy="{}" r="3" class="dot {class}"><title>{}: {}</title></circle>"#,
                px(x.at(*at)),
                px(y.at(*value)),
                escape(&curve.name),
                escape(&unit.value(*value))
            );
        }
        text(&mut out, RIGHT + 8.0, place, "name", &label::shortened(&curve.name, 17));
    }
    text(&mut out, f64::midpoint(LEFT, RIGHT), HEIGHT - 4.0, "tick centred quiet", caption);
    out.push_str("</svg>");
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::Ink;

    #[test]
    fn every_point_is_drawn_and_every_line_named() {
        let curve = |name: &str, ink, values: [f64; 3]| Curve {
            name: name.to_owned(),
            ink,
            points: [8.0, 16.0, 32.0].into_iter().zip(values).collect(),
        };
        let curves = [
            curve("p50", Ink::P50, [1e-3, 2e-3, 4e-3]),
            curve("p99", Ink::P99, [2e-3, 4e-3, 9e-3]),
        ];
        let ticks = [8.0, 16.0, 32.0].map(|kb| (kb, format!("{kb} kB")));
        for vertical in [Vertical::Log(Unit::Seconds), Vertical::Even(Unit::Seconds)] {
            let svg = plot("latency", &curves, &ticks, vertical, "size").unwrap();
            assert_eq!(svg.matches("<circle").count(), 6);
            assert!(svg.contains(">p50</text>") && svg.contains(">32 kB</text>"), "{svg}");
        }
        assert_eq!(plot("none", &[], &ticks, Vertical::Log(Unit::Seconds), "size"), None);
    }
}
