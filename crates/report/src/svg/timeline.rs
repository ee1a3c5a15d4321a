//! The time axis that all panels share: phases, checkpoints, ticks.

use walwright_figures::latency_map::LatencyMap;

use super::panel::{LEFT, Panel, RIGHT, WIDTH};
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

/// What a note on the time axis is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoteKind {
    /// A checkpoint, from the first write for it to its completion.
    Checkpoint,
    /// The work of autovacuum.
    Vacuum,
    /// A setting that was changed.
    Setting,
    /// Something broke or was lost.
    Fault,
    /// What a person wrote down.
    Note,
    /// Anything else.
    Other,
}

/// Something that happened, on the time axis, in seconds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Note {
    pub(crate) kind: NoteKind,
    /// When it began, where that is known.
    pub(crate) from: Option<f64>,
    /// When it ended or, of what has no length, was; `None` for what was still under way at the
    /// end.
    pub(crate) to: Option<f64>,
    pub(crate) text: String,
}

/// What all panels have in common.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct TimeFrame {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) spans: Vec<Span>,
    pub(crate) notes: Vec<Note>,
}

/// Panels one above the other on one time axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Timeline {
    pub(crate) frame: TimeFrame,
    pub(crate) panels: Vec<Panel>,
    /// Where the axis begins, in seconds since the run began.
    pub(crate) origin: f64,
    /// How latencies spread over it; drawn after the panel of their percentiles.
    pub(crate) map: Option<LatencyMap>,
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
        for note in self.visible_notes().filter(|note| note.kind == NoteKind::Checkpoint) {
            if let Some(from) = note.from {
                let to = note.to.unwrap_or(self.to);
                rect(out, (x.at(from), top), (x.at(to), bottom), "cp-span");
            }
        }
    }

    /// Lines where checkpoints complete, at what else happened, and at the edges of the measured window:
    /// drawn over the data.
    pub(crate) fn foreground(&self, out: &mut String, top: f64, bottom: f64) {
        let x = self.scale();
        for note in self.visible_notes() {
            // Autovacuum is at work most of the time: its flags are enough.
            let class = match note.kind {
                NoteKind::Checkpoint => "cp-end",
                NoteKind::Setting | NoteKind::Note => "note-line",
                NoteKind::Fault => "note-line fault",
                NoteKind::Vacuum | NoteKind::Other => continue,
            };
            if let Some(at) = note.to {
                line(out, (x.at(at), top), (x.at(at), bottom), class);
            }
        }
        for span in self.spans.iter().filter(|s| s.kind == SpanKind::Measured) {
            for edge in [span.from, span.to] {
                line(out, (x.at(edge), top), (x.at(edge), bottom), "edge");
            }
        }
    }

    fn visible_notes(&self) -> impl Iterator<Item = &Note> {
        self.notes.iter().filter(|note| {
            let from = note.from.or(note.to);
            let to = note.to.unwrap_or(self.to);
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
        for note in &self.notes {
            let Some(at) = note.to.filter(|at| self.scale().holds(*at)) else { continue };
            let at = x.at(at);
            let is_checkpoint = note.kind == NoteKind::Checkpoint;
            put!(
                out,
                r#"<g class="flag {}"><title>{}</title><path d="M{} {}{}"/></g>"#,
                note.kind.name(),
                super::escape(&note.text),
                px(at),
                px(middle + 1.0),
                flag(note.kind)
            );
            if is_checkpoint {
                line(&mut out, (at, middle + 8.0), (at, RIBBON), "cp-end");
                if at > occupied {
                    text(&mut out, at + 10.0, middle + 8.4, "cp-name", "checkpoint");
                    occupied = at + 76.0;
                }
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

/// The shape of a flag, from the middle of its upper edge: kinds differ in more than colour.
fn flag(kind: NoteKind) -> &'static str {
    match kind {
        NoteKind::Checkpoint => "h4.5l-4.5 7l-4.5-7z",
        NoteKind::Vacuum => "a3.5 3.5 0 1 1-.01 0z",
        NoteKind::Setting => "l4 4l-4 4l-4-4z",
        NoteKind::Fault => "m-4 0l8 8m0-8l-8 8",
        NoteKind::Note => "h4v7h-8v-7z",
        NoteKind::Other => "v8",
    }
}

fn open(class: &str, height: f64) -> String {
    format!(r#"<svg class="{class}" viewBox="0 0 {WIDTH} {height}" aria-hidden="true">"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(kind: NoteKind, from: Option<f64>, to: f64, text: &str) -> Note {
        Note { kind, from, to: Some(to), text: text.to_owned() }
    }

    fn frame() -> TimeFrame {
        let span = |from, to, kind, name: &str| Span { from, to, kind, name: name.to_owned() };
        TimeFrame {
            from: 0.0,
            to: 70.0,
            spans: vec![
                span(0.0, 10.0, SpanKind::LeftOut, "warm-up"),
                span(10.0, 70.0, SpanKind::Measured, "measured, 60 s"),
            ],
            notes: vec![
                note(NoteKind::Checkpoint, Some(20.0), 30.0, "timed"),
                note(NoteKind::Vacuum, None, 40.0, "vacuum of <t>"),
                note(NoteKind::Fault, None, 50.0, "the server was lost"),
                note(NoteKind::Checkpoint, None, 500.0, "later"),
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
        assert_eq!(out.matches("note-line").count(), 1, "a fault is, a vacuum is not");
    }

    #[test]
    fn the_ribbon_names_phases_and_checkpoints() {
        let ribbon = frame().ribbon();
        assert!(ribbon.contains("measured, 60 s") && ribbon.contains("warm-up"), "{ribbon}");
        assert!(ribbon.contains(">1:00<") && ribbon.contains("timed"), "{ribbon}");
        assert!(
            ribbon.contains("vacuum of &lt;t&gt;") && ribbon.contains("flag fault"),
            "{ribbon}"
        );
    }
}
