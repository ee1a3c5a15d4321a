//! The timeline: which plots, in which order, from the series of a record.

use std::time::Duration;

use walwright_figures::latency_map::latency_map;
use walwright_figures::{Series, Summary, Timeline as Plots};
use walwright_record::{Event, PhaseName, Record, Source, Timestamp, Window};

use super::cpu_panel;
use crate::document::{Block, Chart, Reach, Section};
use crate::svg::{
    Ink, Marks, Note, NoteKind, Panel, Point, Rule, Span, SpanKind, TimeFrame, Timeline, Track,
    Unit, mean,
};
use crate::{format, words};

/// Longest pause in a checkpoint's writes that still counts as one checkpoint:
/// the checkpointer sleeps between batches when it is ahead of its schedule.
const PAUSE: f64 = 5.0;
/// A latency axis is logarithmic when its largest value is this many times its smallest.
const LOGARITHMIC: f64 = 12.0;

/// Columns of the map of latencies, at most.
const COLUMNS: usize = 366;

/// The timeline, and a sentence for each plot that cannot be drawn.
pub(super) fn timeline(record: &Record, summary: &Summary) -> Section {
    let plots = &walwright_figures::timeline(record);
    let mut blocks = Vec::new();
    let missing = match Axis::of(record, plots) {
        None => vec!["The run ended before there was anything to plot.".to_owned()],
        Some(axis) => {
            let panels = panels(record, summary, plots, &axis);
            if !panels.is_empty() {
                let (frame, origin) = (axis.frame(record, plots), axis.from);
                let map = latency_map(record, COLUMNS);
                let timeline = Timeline { frame, panels, origin, map };
                blocks.extend([
                    Block::Lede(LEDE.to_owned()),
                    Block::Chart(Chart::Timeline(timeline)),
                ]);
            }
            missing(record, plots)
        }
    };
    blocks.extend(missing.into_iter().map(Block::Missing));
    Section::new("timeline", "Timeline", Reach::Page, blocks)
}

/// When the clock of a run's timeline begins; `None` where it has none.
pub fn begins(record: &Record) -> Option<Timestamp> {
    let axis = Axis::of(record, &walwright_figures::timeline(record))?;
    Some(record.header.started.plus(Duration::try_from_secs_f64(axis.from).ok()?))
}

/// How to read it.
const LEDE: &str = "One time axis for all plots. Grey stretches are left out of every figure; \
     the thin black lines edge the measured window. Amber marks checkpoints: the tint while the \
     checkpointer writes for one, the dashed line where it completes. Figures beside the plots \
     are of the measured window; point at a plot, or focus it and use the arrow keys, to read \
     any moment.";

/// The stretch a timeline shows, in seconds since the run began; its clock starts at `from`.
pub(super) struct Axis {
    from: f64,
    to: f64,
    window: Option<(f64, f64)>,
}

impl Axis {
    /// From the first sign of load to the last thing seen. Loading data is left
    /// out: it can take an hour and has no plot. A record without phases of a
    /// load is shown whole.
    fn of(record: &Record, plots: &Plots) -> Option<Axis> {
        let begun =
            [PhaseName::Connect, PhaseName::WarmUp, PhaseName::Measure].map(PhaseName::name);
        let phase = plots.phases.iter().find(|p| begun.contains(&p.label.as_str()));
        let first = plots.throughput.iter().filter_map(|s| s.points.first()).map(|p| p.0);
        let from = phase.map(|p| p.from).into_iter().chain(first).fold(f64::INFINITY, f64::min);
        let from = if from.is_finite() { from } else { 0.0 };
        let seconds = |window: Window| {
            let at = |t: walwright_record::Timestamp| t.seconds_from(record.header.started) - from;
            (at(window.start), at(window.end))
        };
        let window = record.window().map(seconds);
        (plots.length > from).then_some(Axis { from, to: plots.length, window })
    }

    fn frame(&self, record: &Record, plots: &Plots) -> TimeFrame {
        let length = self.to - self.from;
        let spans = plots.phases.iter().filter_map(|phase| {
            let from = (phase.from - self.from).max(0.0);
            let to = (phase.to - self.from).min(length);
            let measured = phase.label == PhaseName::Measure.name();
            let (kind, name) = if measured {
                let window = record.window().map(|w| w.length()).unwrap_or_default();
                (SpanKind::Measured, format!("measured window, {}", format::length(window)))
            } else {
                (SpanKind::LeftOut, phase.label.clone())
            };
            (to > from).then_some(Span { from, to, kind, name })
        });
        TimeFrame { from: 0.0, to: length, spans: spans.collect(), notes: self.notes(plots) }
    }

    /// What happened, in time order.
    fn notes(&self, plots: &Plots) -> Vec<Note> {
        let others = plots.marks.iter().filter_map(|mark| {
            let at = mark.at - self.from;
            let kind = note_kind(&mark.kind)?;
            Some(Note { kind, from: None, to: Some(at), text: words::sentence(&mark.text) })
        });
        let mut notes = self.checkpoints(plots);
        notes.extend(others.filter(|note| note.to.is_some_and(|at| at >= 0.0)));
        notes.sort_by(|a, b| a.to.unwrap_or(self.to).total_cmp(&b.to.unwrap_or(self.to)));
        notes
    }

    /// Completions, each with the stretch of writing that led to it where it shows.
    fn checkpoints(&self, plots: &Plots) -> Vec<Note> {
        let writes = plots.wal.iter().find(|s| s.name == "checkpoint_bytes");
        let writing: Vec<f64> = writes
            .into_iter()
            .flat_map(|s| &s.points)
            .filter(|(_, value)| value.is_some_and(|v| v > 0.0))
            .map(|(at, _)| at - self.from)
            .collect();
        let mut before = f64::NEG_INFINITY;
        let marks = plots.marks.iter().filter(|m| m.kind == "checkpoint");
        marks
            .map(|mark| {
                let to = mark.at - self.from;
                let from = writing
                    .iter()
                    .rev()
                    .filter(|at| **at <= to && **at > before)
                    .try_fold(to, |from, at| if from - at <= PAUSE { Ok(*at) } else { Err(from) })
                    .unwrap_or_else(|from| from);
                before = to;
                Note {
                    kind: NoteKind::Checkpoint,
                    from: (from < to).then_some(from),
                    to: Some(to),
                    text: mark.text.clone(),
                }
            })
            .collect()
    }

    pub(super) fn points(&self, series: &Series) -> Vec<Point> {
        let moved =
            series.points.iter().map(|(at, value)| Point { at: at - self.from, value: *value });
        moved.collect()
    }

    /// The mean over the measured window, or over everything where there is none.
    /// For rates and levels only: percentiles have no mean.
    pub(super) fn mean(&self, points: &[Point]) -> Option<f64> {
        let (from, to) = self.window.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
        mean(points.iter().filter(|p| from <= p.at && p.at < to).filter_map(|p| p.value))
    }

    /// A track whose label shows its mean.
    pub(super) fn track(&self, series: &Series, name: &str, ink: Ink) -> Track {
        let points = self.points(series);
        Track { name: name.to_owned(), ink, typical: self.mean(&points), points, dashed: false }
    }

    /// A track whose label shows a figure of the measured window as the tables have it; what
    /// they do not have is no figure of it here either.
    pub(super) fn track_of(
        &self,
        series: &Series,
        name: &str,
        ink: Ink,
        figure: Option<f64>,
    ) -> Track {
        let track = self.track(series, name, ink);
        Track { typical: self.window.map_or(track.typical, |_| figure), ..track }
    }

    /// A horizontal rule over the measured window.
    fn over_window(&self, value: f64, band: Option<(f64, f64)>) -> Option<Rule> {
        let (from, to) = self.window?;
        Some(Rule { from, to, value, band, name: String::new() })
    }
}

/// What an event of a record is about; `None` for a checkpoint's own, which are drawn as one.
fn note_kind(event: &str) -> Option<NoteKind> {
    Some(match event {
        "checkpoint" | "checkpoint_start" => return None,
        "autovacuum" | "vacuum" => NoteKind::Vacuum,
        "setting" => NoteKind::Setting,
        "note" => NoteKind::Note,
        "checkpoint_failure"
        | "error"
        | "fault"
        | "interrupt"
        | "probe_lost"
        | "server_lost"
        | Event::SERVER_RESTART => NoteKind::Fault,
        _ => NoteKind::Other,
    })
}

fn panels(record: &Record, summary: &Summary, plots: &Plots, axis: &Axis) -> Vec<Panel> {
    let all = [
        throughput(summary, plots, axis),
        latency(summary, plots, axis),
        lag(summary, plots, axis),
        waits(plots, axis),
        wal(summary, plots, axis),
        flushes(summary, plots, axis),
        simple(
            axis,
            &plots.flush_time,
            "flush_time",
            "Time of a WAL flush",
            "mean of each second",
            Unit::Seconds,
        )
        .map(|mut panel| {
            let mean = summary.wal.as_ref().and_then(|w| w.mean_flush);
            panel.tracks[0].typical = mean.map(|d| d.as_secs_f64());
            panel
        }),
        simple(
            axis,
            &plots.disk_busy,
            "disk_busy",
            "Disk busy",
            "share of time with a request under way",
            Unit::Share,
        ),
        simple(
            axis,
            &plots.disk_latency,
            "disk_latency",
            "Disk latency",
            "mean of each second",
            Unit::Seconds,
        )
        // A mean of means would weigh a quiet second like a busy one.
        .map(|mut panel| {
            panel.tracks.iter_mut().for_each(|t| t.typical = None);
            panel
        }),
        cpu_panel::cpu(record, summary, plots, axis),
    ];
    all.into_iter().flatten().collect()
}

fn panel(
    id: &'static str,
    title: &str,
    about: &str,
    unit: Unit,
    tracks: Vec<Track>,
) -> Option<Panel> {
    (!tracks.is_empty()).then(|| Panel {
        id,
        title: title.to_owned(),
        about: about.to_owned(),
        unit,
        marks: Marks::Lines,
        tracks,
        rules: Vec::new(),
        height: 72.0,
    })
}

fn throughput(summary: &Summary, plots: &Plots, axis: &Axis) -> Option<Panel> {
    let tracks = plots.throughput.iter().map(|series| match series.name.as_str() {
        "failures" => axis.track(series, "failed", Ink::Alarm),
        "due" => Track { dashed: true, ..axis.track(series, "due", Ink::Quiet) },
        _ => axis.track(series, "transactions", Ink::Main),
    });
    let mut panel = panel(
        "throughput",
        "Throughput",
        "transactions per second; dashed the mean of the measured window, tinted its 95 % interval",
        Unit::PerSecond,
        tracks.collect(),
    )?;
    panel.height = 106.0;
    if let Some(estimate) = summary.load.as_ref().and_then(|l| l.throughput.as_ref()) {
        panel.tracks[0].typical = Some(estimate.center);
        let band = estimate.interval.map(|i| (i.low, i.high));
        panel.rules.extend(axis.over_window(estimate.center, band));
    }
    Some(panel)
}

fn latency(summary: &Summary, plots: &Plots, axis: &Axis) -> Option<Panel> {
    let whole = summary.load.as_ref().and_then(|l| l.latency.as_ref());
    let tracks: Vec<Track> = plots
        .latency
        .iter()
        .map(|series| {
            let (name, ink, typical) = match series.name.as_str() {
                "latency_p50" => ("p50", Ink::P50, whole.map(|l| l.p50)),
                "latency_p95" => ("p95", Ink::P95, whole.map(|l| l.p95)),
                "latency_p99" => ("p99", Ink::P99, whole.map(|l| l.p99)),
                "latency_max" => ("longest", Ink::Max, whole.map(|l| l.max)),
                _ => (series.label.as_str(), Ink::Other, None),
            };
            let typical = typical.map(|d| d.as_secs_f64());
            Track { typical, ..axis.track(series, name, ink) }
        })
        .collect();
    let about = "percentiles of each second; beside, those of the whole window";
    let mut panel = panel("latency", "Latency", about, Unit::Seconds, tracks)?;
    panel.height = 128.0;
    spread_latency(&mut panel);
    Some(panel)
}

fn lag(summary: &Summary, plots: &Plots, axis: &Axis) -> Option<Panel> {
    let whole = summary.load.as_ref().and_then(|l| l.open_loop.as_ref()?.lag.as_ref());
    let tracks: Vec<Track> = plots
        .lag
        .iter()
        .map(|series| {
            let (name, ink, typical) = match series.name.as_str() {
                "lag_p50" => ("p50", Ink::P50, whole.map(|l| l.p50)),
                _ => ("p99", Ink::P99, whole.map(|l| l.p99)),
            };
            Track { typical: typical.map(|d| d.as_secs_f64()), ..axis.track(series, name, ink) }
        })
        .collect();
    let about = "how late transactions began after they were due";
    let mut panel = panel("lag", "Lag", about, Unit::Seconds, tracks)?;
    spread_latency(&mut panel);
    Some(panel)
}

/// Chooses between a linear and a logarithmic axis.
fn spread_latency(panel: &mut Panel) {
    let values =
        || panel.tracks.iter().flat_map(|t| &t.points).filter_map(|p| p.value).filter(|v| *v > 0.0);
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max));
    if high > low * LOGARITHMIC {
        panel.marks = Marks::LogLines;
        panel.about.push_str("; log scale");
    }
}

fn waits(plots: &Plots, axis: &Axis) -> Option<Panel> {
    let tracks = plots.waits.iter().map(|series| {
        let ink = match series.name.as_str() {
            "wait_cpu" => Ink::Cpu,
            "wait_run_queue" => Ink::RunQueue,
            "wait_flush" => Ink::Flush,
            "wait_flush_queue" => Ink::FlushQueue,
            "wait_replication" => Ink::Replication,
            "wait_io" => Ink::Io,
            "wait_lock" => Ink::Lock,
            "wait_lwlock" => Ink::LwLock,
            "wait_client" => Ink::Client,
            _ => Ink::Other,
        };
        axis.track(series, &series.label, ink)
    });
    let about = "sessions in a transaction as sampled, mean of each second";
    let mut panel =
        panel("waits", "What sessions do", about, Unit::Count("sessions"), tracks.collect())?;
    panel.marks = Marks::Stack;
    panel.height = 140.0;
    Some(panel)
}

fn wal(summary: &Summary, plots: &Plots, axis: &Axis) -> Option<Panel> {
    let figure = summary.wal.as_ref().and_then(|wal| wal.bytes_per_second);
    let tracks = plots.wal.iter().map(|series| match series.name.as_str() {
        "checkpoint_bytes" => axis.track(series, "checkpointer", Ink::LwLock),
        _ => axis.track_of(series, "WAL", Ink::Main, figure),
    });
    let about = "bytes per second: WAL written, and data written by the checkpointer";
    panel("wal", "WAL and checkpoints", about, Unit::BytesPerSecond, tracks.collect())
}

fn flushes(summary: &Summary, plots: &Plots, axis: &Axis) -> Option<Panel> {
    let figure = summary.wal.as_ref().and_then(|wal| wal.flushes_per_second);
    let track = |series: &Series| axis.track_of(series, &series.label, Ink::Main, figure);
    let tracks = plots.flushes.iter().map(track).collect();
    panel("flushes", "WAL flushes", "per second", Unit::PerSecond, tracks)
}

/// A plot of series that have no colours of their own.
fn simple(
    axis: &Axis,
    series: &[Series],
    id: &'static str,
    title: &str,
    about: &str,
    unit: Unit,
) -> Option<Panel> {
    const INKS: [Ink; 6] = [Ink::Main, Ink::LwLock, Ink::Io, Ink::Second, Ink::Max, Ink::Quiet];
    let tracks =
        series.iter().zip(INKS.iter().cycle()).map(|(s, ink)| axis.track(s, &s.label, *ink));
    panel(id, title, about, unit, tracks.collect())
}

/// A sentence for each plot that has nothing to show.
fn missing(record: &Record, plots: &Plots) -> Vec<String> {
    let mut missing = Vec::new();
    let mut when = |empty: bool, text: &str| {
        if empty {
            missing.push(text.to_owned());
        }
    };
    if record.intervals.is_empty() {
        let ours = !words::is_observed(record);
        when(ours, "Throughput and latency: the run ended before the driver reported an interval.");
        when(!ours, "Throughput and latency: not observable, the load was not walwright's.");
    }
    when(
        plots.waits.is_empty(),
        "Waits of sessions: not observable, no session was seen in a transaction.",
    );
    when(plots.wal.is_empty(), "WAL: not observable, its statistics were not sampled.");
    when(plots.flushes.is_empty(), "WAL flushes: not observable, this server does not count them.");
    when(
        plots.flush_time.is_empty() && !plots.flushes.is_empty(),
        "Time of a WAL flush: not observable, track_wal_io_timing is off.",
    );
    let disk = record.samples(Source::Disk).is_empty();
    when(disk, "Disks: not observable, the host was not sampled.");
    when(plots.cpu.is_empty(), "CPU by process: not observable, the host was not sampled.");
    missing
}

#[cfg(test)]
mod tests {
    use walwright_testing::{Build, named, row};

    use super::*;

    #[test]
    fn the_legend_says_what_the_tables_say() {
        let mut build = Build::new();
        build.load(0, 30, 100).measure(10.0, 30.0);
        // Read at uneven times: the mean of the rates between them is not that of the window.
        let busy = |at: f64| (at - 20.0).max(0.0);
        for at in [0.0, 10.0, 11.0, 20.0, 21.0, 22.0, 23.0, 29.5, 30.0] {
            let counts = [("wal_bytes", 1e6 * busy(at)), ("wal_sync", 50.0 * busy(at))];
            build.sample(at, Source::Wal, [row(counts)]);
            let backends = [("process_group", "server: client backends")];
            let used = [("user_seconds", 0.5 * busy(at)), ("system_seconds", 0.0)];
            build.sample(at, Source::Processes, [named(backends, used)]);
        }
        let summary = walwright_figures::summary(&build.record);
        let plots = walwright_figures::timeline(&build.record);
        let axis = Axis::of(&build.record, &plots).unwrap();
        let panels = panels(&build.record, &summary, &plots, &axis);
        let legend = |id: &str| panels.iter().find(|p| p.id == id).unwrap().tracks[0].typical;
        let wal = summary.wal.as_ref().unwrap();
        assert_eq!(legend("wal"), wal.bytes_per_second);
        assert_eq!(legend("flushes"), wal.flushes_per_second);
        let cpu = summary.cpu.as_ref().unwrap();
        let backends = cpu.group("server: client backends").unwrap();
        assert_eq!(legend("cpu"), Some(backends.processors));
        assert!(
            axis.mean(&panels.iter().find(|p| p.id == "cpu").unwrap().tracks[0].points)
                > Some(1.2 * backends.processors)
        );
    }
}
