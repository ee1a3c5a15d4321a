//! The figures behind a timeline, for the script of the page: what it draws when a reader zooms,
//! and what is copied from it.

use serde::Serialize;
use walwright_figures::latency_map::{LOWEST, LatencyMap, ROWS_PER_DECADE};

use super::panel::{LEFT, RIGHT, WIDTH};
use super::timeline::{NoteKind, SpanKind, Timeline};
use super::{Marks, Panel, Point, Unit};

/// The figures behind the timeline of a document, at their whole resolution.
///
/// Times are seconds of the timeline's axis, kept as whole hundredths; values keep three digits
/// and more.
#[derive(Debug, Clone, Serialize)]
pub struct Series {
    from: f64,
    to: f64,
    left: f64,
    right: f64,
    width: f64,
    /// Edges of the measured window.
    window: Option<(f64, f64)>,
    spans: Vec<SpanFigures>,
    notes: Vec<NoteFigures>,
    /// Times that tracks refer to, each as its distance to the one before, in hundredths.
    times: Vec<Vec<i64>>,
    panels: Vec<PanelFigures>,
    map: Option<MapFigures>,
}

#[derive(Debug, Clone, Serialize)]
struct SpanFigures {
    from: f64,
    to: f64,
    measured: bool,
    name: String,
}

#[derive(Debug, Clone, Serialize)]
struct NoteFigures {
    kind: &'static str,
    from: Option<f64>,
    to: Option<f64>,
    text: String,
}

#[derive(Debug, Clone, Serialize)]
struct PanelFigures {
    id: &'static str,
    title: String,
    about: String,
    /// How values are written: `rate`, `seconds`, `bytes`, `share`, `count`.
    unit: &'static str,
    /// What is counted.
    of: &'static str,
    /// `lines`, `log`, `stack`.
    marks: &'static str,
    height: f64,
    rules: Vec<RuleFigures>,
    tracks: Vec<TrackFigures>,
}

#[derive(Debug, Clone, Serialize)]
struct RuleFigures {
    from: f64,
    to: f64,
    value: f64,
    band: Option<(f64, f64)>,
    name: String,
}

#[derive(Debug, Clone, Serialize)]
struct TrackFigures {
    name: String,
    ink: &'static str,
    dashed: bool,
    typical: Option<f64>,
    /// Which of the times.
    t: usize,
    /// The power of ten that values are counted in.
    e: i32,
    v: Vec<Option<i64>>,
}

#[derive(Debug, Clone, Serialize)]
struct MapFigures {
    from: f64,
    column: f64,
    lowest: f64,
    per_decade: u32,
    /// The row of the first count and the counts from there up, of each column.
    columns: Vec<(u32, Vec<u64>)>,
}

impl Series {
    pub(crate) fn of(timeline: &Timeline) -> Series {
        let frame = &timeline.frame;
        let mut times = Vec::new();
        let panels =
            timeline.panels.iter().map(|panel| figures(panel, frame.from, frame.to, &mut times));
        let panels = panels.collect();
        let spans = || frame.spans.iter();
        let measured = spans().find(|span| span.kind == SpanKind::Measured);
        Series {
            from: rounded(frame.from),
            to: rounded(frame.to),
            left: LEFT,
            right: WIDTH - RIGHT,
            width: WIDTH,
            window: measured.map(|span| (rounded(span.from), rounded(span.to))),
            spans: spans()
                .map(|span| SpanFigures {
                    from: rounded(span.from),
                    to: rounded(span.to),
                    measured: span.kind == SpanKind::Measured,
                    name: span.name.clone(),
                })
                .collect(),
            notes: frame
                .notes
                .iter()
                .map(|note| NoteFigures {
                    kind: note.kind.name(),
                    from: note.from.map(rounded),
                    to: note.to.map(rounded),
                    text: note.text.clone(),
                })
                .collect(),
            times,
            panels,
            map: timeline.map.as_ref().map(|map| map_figures(map, timeline.origin)),
        }
    }

    /// Where the axis ends, in seconds.
    pub fn end(&self) -> f64 {
        self.to
    }

    /// All of them, as JSON.
    pub fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What is at `seconds` of the axis or later, as JSON: what a page that shows the rest lacks.
    pub fn since(&self, seconds: f64) -> String {
        let mut late = self.clone();
        let mut skipped = Vec::new();
        for times in &mut late.times {
            let mut at = 0;
            let first = times
                .iter()
                .position(|step| {
                    at += step;
                    at as f64 >= seconds * 100.0
                })
                .unwrap_or(times.len());
            times.drain(..first);
            if let Some(step) = times.first_mut() {
                *step = at;
            }
            skipped.push(first);
        }
        for track in late.panels.iter_mut().flat_map(|panel| &mut panel.tracks) {
            track.v.drain(..skipped[track.t].min(track.v.len()));
        }
        if let Some(map) = &mut late.map {
            let first = ((seconds - map.from) / map.column).floor().max(0.0) as usize;
            let first = first.min(map.columns.len());
            map.columns.drain(..first);
            map.from += first as f64 * map.column;
        }
        late.json()
    }
}

fn figures(panel: &Panel, from: f64, to: f64, times: &mut Vec<Vec<i64>>) -> PanelFigures {
    let (unit, of) = match panel.unit {
        Unit::PerSecond => ("rate", ""),
        Unit::Seconds => ("seconds", ""),
        Unit::BytesPerSecond => ("bytes", ""),
        Unit::Share => ("share", ""),
        Unit::Count(of) => ("count", of),
    };
    let tracks = panel.tracks.iter().map(|track| {
        let seen: Vec<&Point> =
            track.points.iter().filter(|point| from <= point.at && point.at <= to).collect();
        let mut before = 0;
        let own: Vec<i64> = seen
            .iter()
            .map(|point| {
                let at = (point.at * 100.0).round() as i64;
                let step = at - before;
                before = at;
                step
            })
            .collect();
        let t = times.iter().position(|known| *known == own).unwrap_or_else(|| {
            times.push(own);
            times.len() - 1
        });
        let e = exponent(&seen, panel.unit);
        let scale = 10_f64.powi(-e);
        let whole = |value: f64| (value * scale).round() as i64;
        TrackFigures {
            name: track.name.clone(),
            ink: track.ink.class(),
            dashed: track.dashed,
            typical: track.typical,
            t,
            e,
            v: seen.iter().map(|point| point.value.map(whole)).collect(),
        }
    });
    PanelFigures {
        id: panel.id,
        title: panel.title.clone(),
        about: panel.about.clone(),
        unit,
        of,
        marks: match panel.marks {
            Marks::Lines => "lines",
            Marks::LogLines => "log",
            Marks::Stack => "stack",
        },
        height: panel.plot_height(),
        rules: panel
            .rules
            .iter()
            .map(|rule| RuleFigures {
                from: rounded(rule.from),
                to: rounded(rule.to),
                value: rule.value,
                band: rule.band,
                name: rule.name.clone(),
            })
            .collect(),
        tracks: tracks.collect(),
    }
}

/// The power of ten in which the smaller values have three digits: a quarter of them may have
/// fewer. Whole parts stay, but those of bytes.
fn exponent(of: &[&Point], unit: Unit) -> i32 {
    let mut sizes: Vec<f64> =
        of.iter().filter_map(|p| p.value).map(f64::abs).filter(|v| *v > 0.0).collect();
    sizes.sort_by(f64::total_cmp);
    let Some(size) = sizes.get(sizes.len() / 4) else { return 0 };
    let largest = sizes.last().copied().unwrap_or(*size);
    // What a number of a script holds whole.
    let least = (largest.log10() - 15.0).ceil() as i32;
    let most = if unit == Unit::BytesPerSecond { 12 } else { 0 };
    (size.log10().floor() as i32 - 2).min(most).max(least).clamp(-12, 12)
}

fn map_figures(map: &LatencyMap, origin: f64) -> MapFigures {
    MapFigures {
        from: rounded(map.from - origin),
        column: map.column,
        lowest: LOWEST,
        per_decade: ROWS_PER_DECADE,
        columns: map.columns.iter().map(|of| (of.first, of.counts.clone())).collect(),
    }
}

/// To a hundredth of a second.
fn rounded(seconds: f64) -> f64 {
    (seconds * 100.0).round() / 100.0
}

impl NoteKind {
    /// The word for it, in the script and in classes.
    pub(crate) fn name(self) -> &'static str {
        match self {
            NoteKind::Checkpoint => "checkpoint",
            NoteKind::Vacuum => "vacuum",
            NoteKind::Setting => "setting",
            NoteKind::Fault => "fault",
            NoteKind::Note => "note",
            NoteKind::Other => "event",
        }
    }
}
