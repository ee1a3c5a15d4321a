//! The time axis that all panels share: phases, checkpoints, ticks.

use serde::Serialize;

use super::panel::{Hover, LEFT, Panel, RIGHT, WIDTH};
use super::scale::{Scale, time_ticks};
use super::{line, put, px, rect, text};
use crate::format;
use std::fmt::Write;

/// What a stretch of the time axis is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SpanKind {
    /// The measured window.
    Measured,
    /// Anything else: ramp, warm-up, collecting.
    LeftOut,
}

/// A named stretch of the time axis, in seconds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Span {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) kind: SpanKind,
    pub(crate) name: String,
}

/// A checkpoint on the time axis, in seconds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Checkpoint {
    /// When it began, where that is known.
    pub(crate) from: Option<f64>,
    /// When it completed; `None` for one still under way at the end.
    pub(crate) to: Option<f64>,
    pub(crate) text: String,
}

/// What all panels have in common.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct TimeFrame {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) spans: Vec<Span>,
    pub(crate) checkpoints: Vec<Checkpoint>,
}

/// Panels one above the other on one time axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Timeline {
    pub(crate) frame: TimeFrame,
    pub(crate) panels: Vec<Panel>,
}

/// What the script needs to show values under the pointer: the time axis in
/// seconds and in places, and the values of each panel.
#[derive(Debug, Serialize)]
pub(crate) struct HoverSheet {
    from: f64,
    to: f64,
    left: f64,
    right: f64,
    width: f64,
    panels: Vec<Hover>,
}

impl Timeline {
    /// Values for the script.
    pub(crate) fn hover(&self) -> HoverSheet {
        HoverSheet {
            from: self.frame.from,
            to: self.frame.to,
            left: LEFT,
            right: WIDTH - RIGHT,
            width: WIDTH,
            panels: self.panels.iter().map(|p| p.hover(&self.frame)).collect(),
        }
    }
}

/// Height of the strip with phases and ticks above the panels.
const RIBBON: f64 = 56.0;

impl TimeFrame {
    /// Seconds to places.
    pub(crate) fn scale(&self) -> Scale {
        Scale::linear(self.from, self.to, LEFT, WIDTH - RIGHT)
    }

    pub(crate) fn ticks(&self) -> Vec<f64> {
        time_ticks(self.from, self.to, 10)
    }

    /// Shades what is left out and tints checkpoints, between two heights: drawn
    /// before the data.
    pub(crate) fn backdrop(&self, out: &mut String, top: f64, bottom: f64) {
        let x = self.scale();
        for span in self.spans.iter().filter(|s| s.kind == SpanKind::LeftOut) {
            rect(out, (x.at(span.from), top), (x.at(span.to), bottom), "left-out");
        }
        for checkpoint in self.visible_checkpoints() {
            if let Some(from) = checkpoint.from {
                let to = checkpoint.to.unwrap_or(self.to);
                rect(out, (x.at(from), top), (x.at(to), bottom), "cp-span");
            }
        }
    }

    /// Lines where checkpoints complete and at the edges of the measured window:
    /// drawn over the data.
    pub(crate) fn foreground(&self, out: &mut String, top: f64, bottom: f64) {
        let x = self.scale();
        for at in self.visible_checkpoints().filter_map(|c| c.to) {
            line(out, (x.at(at), top), (x.at(at), bottom), "cp-end");
        }
        for span in self.spans.iter().filter(|s| s.kind == SpanKind::Measured) {
            for edge in [span.from, span.to] {
                line(out, (x.at(edge), top), (x.at(edge), bottom), "edge");
            }
        }
    }

    fn visible_checkpoints(&self) -> impl Iterator<Item = &Checkpoint> {
        self.checkpoints.iter().filter(|checkpoint| {
            let from = checkpoint.from.or(checkpoint.to);
            let to = checkpoint.to.unwrap_or(self.to);
            to >= self.from && from.is_some_and(|from| from <= self.to)
        })
    }

    /// The strip above the panels: names of phases, flags of checkpoints, clock.
    pub(crate) fn ribbon(&self) -> String {
        let mut out = open("ribbon", RIBBON);
        let x = self.scale();
        let (top, middle) = (4.0, 22.0);
        for span in &self.spans {
            let (from, to) = (x.at(span.from), x.at(span.to));
            let (bar, name) = match span.kind {
                SpanKind::Measured => ("ph-measured", "ph-name on"),
                SpanKind::LeftOut => ("ph-left-out", "ph-name"),
            };
            rect(&mut out, (from, top), (to, middle - 4.0), bar);
            // A name that does not fit its bar says nothing; the panels' shading does.
            if span.name.chars().count() as f64 * 6.2 + 6.0 < to - from {
                text(&mut out, (from + to) / 2.0, top + 10.6, name, &span.name);
            }
        }
        let mut occupied = f64::NEG_INFINITY;
        for checkpoint in &self.checkpoints {
            let Some(at) = checkpoint.to.filter(|at| self.scale().holds(*at)) else { continue };
            let at = x.at(at);
            put!(
                out,
                r#"<g><title>{}</title><path d="M{} {}h9l-4.5 7z" class="cp-flag"/></g>"#,
                super::escape(&checkpoint.text),
                px(at - 4.5),
                px(middle + 1.0)
            );
            line(&mut out, (at, middle + 8.0), (at, RIBBON), "cp-end");
            if at > occupied {
                text(&mut out, at + 10.0, middle + 8.4, "cp-name", "checkpoint");
                occupied = at + 76.0;
            }
        }
        self.clock(&mut out, RIBBON - 8.0);
        out.push_str("</svg>");
        out
    }

    /// The clock below the panels.
    pub(crate) fn footer(&self) -> String {
        let mut out = open("foot", 22.0);
        self.clock(&mut out, 14.0);
        text(
            &mut out,
            WIDTH - RIGHT + 12.0,
            14.0,
            "tick from-left quiet",
            "minutes:seconds of load",
        );
        out.push_str("</svg>");
        out
    }

    fn clock(&self, out: &mut String, baseline: f64) {
        let x = self.scale();
        for tick in self.ticks() {
            text(out, x.at(tick), baseline, "tick centred", &format::clock(tick));
        }
    }
}

fn open(class: &str, height: f64) -> String {
    format!(r#"<svg class="{class}" viewBox="0 0 {WIDTH} {height}" aria-hidden="true">"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> TimeFrame {
        let span = |from, to, kind, name: &str| Span { from, to, kind, name: name.to_owned() };
        TimeFrame {
            from: 0.0,
            to: 70.0,
            spans: vec![
                span(0.0, 10.0, SpanKind::LeftOut, "warm-up"),
                span(10.0, 70.0, SpanKind::Measured, "measured, 60 s"),
            ],
            checkpoints: vec![
                Checkpoint { from: Some(20.0), to: Some(30.0), text: "timed".into() },
                Checkpoint { from: None, to: Some(500.0), text: "later".into() },
            ],
        }
    }

    #[test]
    fn what_is_left_out_is_shaded_and_the_window_is_edged() {
        let mut out = String::new();
        frame().backdrop(&mut out, 0.0, 100.0);
        frame().foreground(&mut out, 0.0, 100.0);
        assert_eq!(out.matches(r#"class="left-out""#).count(), 1);
        assert_eq!(out.matches(r#"class="edge""#).count(), 2);
        assert_eq!(out.matches("cp-span").count(), 1);
        assert_eq!(out.matches("cp-end").count(), 1, "one outside the axis is not drawn");
    }

    #[test]
    fn the_ribbon_names_phases_and_checkpoints() {
        let ribbon = frame().ribbon();
        assert!(ribbon.contains("measured, 60 s") && ribbon.contains("warm-up"), "{ribbon}");
        assert!(ribbon.contains(">1:00<") && ribbon.contains("timed"), "{ribbon}");
    }
}
