//! Vertical axes: gridlines, ticks, and the unit at the top.

use std::fmt::Write;

use super::scale::{Scale, Spread};
use super::unit::{Unit, log_tick, tick};
use super::{line, put, px, text};

/// Draws the vertical axis of a plot between the places `left` and `right`.
pub(crate) fn vertical(
    out: &mut String,
    scale: &Scale,
    unit: Unit,
    left: f64,
    right: f64,
    wanted: usize,
) {
    let axis = unit.axis(scale.to());
    let ticks = scale.ticks(wanted, axis.size);
    let step = ticks.get(1).zip(ticks.first()).map_or(axis.size, |(b, a)| b - a);
    for value in &ticks {
        let y = scale.at(*value);
        let class = if *value == 0.0 { "base" } else { "grid" };
        line(out, (left, y), (right, y), class);
        let label = match scale.spread() {
            Spread::Linear => tick(*value, step, axis),
            Spread::Log => log_tick(*value, unit),
        };
        text(out, left - 8.0, y + 3.8, "tick from-right", &label);
    }
    if scale.spread() == Spread::Linear {
        // The unit stands on the axis itself, turned, so that a copied plot keeps it.
        let middle = f64::midpoint(scale.at(0.0), scale.at(scale.to()));
        put!(
            out,
            r#"<text transform="translate(10 {}) rotate(-90)" class="tick centred quiet">{}</text>"#,
            px(middle),
            super::escape(axis.name)
        );
    }
}
