//! The live view of a run: throughput, latency, where sessions wait, WAL, progress.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::prelude::{Color, Frame, Line, Modifier, Span, Style};
use ratatui::symbols::Marker;
use ratatui::widgets::{Axis, Block, Chart, Dataset, Gauge, GraphType, Paragraph};
use walwright_figures::WaitClass;
use walwright_record::PhaseName;
use walwright_report::format;
use walwright_run::{Observe, Observer, Progress};
use walwright_server::Stop;

use super::lines::load_text;
use super::screen::{self, Guard, Paint, View};
use super::state::{Second, State};

/// The stages in order, for the progress line.
const STAGES: [PhaseName; 7] = [
    PhaseName::Prepare,
    PhaseName::Load,
    PhaseName::Probe,
    PhaseName::Connect,
    PhaseName::WarmUp,
    PhaseName::Measure,
    PhaseName::Collect,
];

/// Takes events for the drawing thread.
struct Live {
    state: Arc<Mutex<State>>,
}

impl Observe<Progress<'_>> for Live {
    fn event(&self, progress: Progress<'_>) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).update(&progress);
    }
}

/// Starts the view on standard error's terminal.
pub fn start(stop: Stop, colour: bool) -> io::Result<(Arc<Observer>, Guard)> {
    let state = Arc::new(Mutex::new(State::new()));
    let guard = screen::show(Arc::clone(&state), stop, Paint { colour })?;
    Ok((Arc::new(Live { state }), guard))
}

impl View for State {
    fn draw(&self, frame: &mut Frame<'_>, stopping: bool, paint: Paint) {
        draw(frame, self, stopping, paint);
    }
}

fn draw(frame: &mut Frame<'_>, state: &State, stopping: bool, paint: Paint) {
    let area = frame.area();
    let rows = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Fill(1),
        Constraint::Length(if area.height < 24 { 2 } else { 4 }),
        Constraint::Length(1),
    ])
    .split(area);
    frame.render_widget(
        Paragraph::new(vec![stages(state, area.width, paint), figures(state, area.width, paint)]),
        rows[0],
    );
    draw_progress(frame, rows[1], state, paint);
    draw_throughput(frame, rows[2], state, paint);
    // Where the load is someone else's, nobody measures latency.
    if state.seconds.iter().any(|second| second.percentiles.is_some()) {
        let halves = Layout::horizontal([Constraint::Percentage(50); 2]).split(rows[3]);
        draw_latency(frame, halves[0], state, paint);
        draw_waits(frame, halves[1], state, paint);
    } else {
        draw_waits(frame, rows[3], state, paint);
    }
    state.messages.draw(frame, rows[4], paint);
    screen::draw_keys(frame, rows[5], stopping, "the record is kept", paint);
}

/// The stages of a run, or the one it is at where there is no room for all.
fn stages(state: &State, width: u16, paint: Paint) -> Line<'static> {
    let bold = Style::default().add_modifier(Modifier::BOLD);
    let clock = Span::styled(format::clock(state.started.elapsed().as_secs_f64()), paint.faint());
    let now = STAGES.iter().position(|stage| Some(*stage) == state.phase);
    let mut spans = vec![Span::styled("walwright  ", bold)];
    for (place, stage) in STAGES.iter().enumerate() {
        let (mark, style) = match now {
            Some(now) if place < now => ("+ ", paint.fg(Color::Green)),
            Some(now) if place == now => ("> ", bold),
            _ => ("  ", paint.faint()),
        };
        spans.push(Span::styled(format!("{mark}{}   ", stage.name()), style));
    }
    spans.push(clock.clone());
    let all = Line::from(spans);
    if all.width() <= usize::from(width) {
        return all;
    }
    let stage = now.map_or_else(String::new, |now| {
        format!("{} of {}: {}   ", now + 1, STAGES.len(), STAGES[now].name())
    });
    Line::from(vec![Span::styled("walwright  ", bold), Span::styled(stage, bold), clock])
}

/// The last second in figures, the less important ones only where there is room.
fn figures(state: &State, width: u16, paint: Paint) -> Line<'static> {
    let Some(second) = state.seconds.back() else {
        return Line::from(state.step.clone());
    };
    let bold = Style::default().add_modifier(Modifier::BOLD);
    let mut spans = vec![Span::styled(format::rate(second.rate), bold)];
    let mut parts = Vec::new();
    if state.failures > 0 {
        let text = format!("{} failed", format::count(state.failures));
        parts.push(Span::styled(text, paint.fg(Color::Red)));
    }
    if let Some([p50, p95, p99]) = second.percentiles {
        let [p50, p95, p99] = [p50, p95, p99].map(format::latency);
        parts.push(Span::raw(format!("p50 {p50}  p95 {p95}  p99 {p99}")));
    }
    if let Some(lag) = second.lag {
        parts.push(Span::raw(format!("lag p99 {}", format::latency(lag))));
    }
    parts.push(match state.wal_rate {
        Some(rate) => Span::raw(format!("WAL {}", format::byte_rate(rate))),
        None => Span::styled("WAL not observed yet", paint.faint()),
    });
    parts.push(match state.observed {
        true => Span::raw("commits"),
        false => Span::raw(format!("{} clients", second.clients)),
    });
    let mut used = spans[0].width();
    for part in parts {
        used += 3 + part.width();
        if used > usize::from(width) {
            break;
        }
        spans.extend([Span::raw("   "), part]);
    }
    Line::from(spans)
}

fn draw_progress(frame: &mut Frame<'_>, area: Rect, state: &State, paint: Paint) {
    let (ratio, label) = match (state.measured, state.amount, state.watched) {
        (_, _, Some((elapsed, wanted))) => {
            let elapsed = elapsed.as_secs_f64();
            match wanted.map(|wanted| wanted.as_secs_f64()) {
                Some(wanted) => {
                    (elapsed / wanted.max(1e-3), format!("{elapsed:.0} of {wanted:.0} s watched"))
                }
                None => (0.0, format!("{elapsed:.0} s watched, until the command ends")),
            }
        }
        (Some((measured, wanted, until)), _, _) => {
            let ratio = measured.as_secs_f64() / wanted.as_secs_f64().max(1e-3);
            (ratio, load_text(measured, wanted, until))
        }
        (None, Some((done, total)), _) if total > 0 => (
            done as f64 / total as f64,
            format!("{} {} of {}", state.step, format::count(done), format::count(total)),
        ),
        _ => return,
    };
    let gauge = Gauge::default()
        .ratio(ratio.clamp(0.0, 1.0))
        .label(label)
        .gauge_style(paint.fg(Color::Blue));
    frame.render_widget(gauge, area);
}

fn draw_throughput(frame: &mut Frame<'_>, area: Rect, state: &State, paint: Paint) {
    let points = points(state, |second| Some(second.rate));
    let title = if state.observed { "commits a second" } else { "transactions a second" };
    let top = top(&points);
    let labels = vec!["0".to_owned(), format::rate(top)];
    let lines = vec![line(&points, paint.fg(Color::Cyan))];
    frame.render_widget(chart(lines, state, [0.0, top], labels, paint, title), area);
}

fn draw_latency(frame: &mut Frame<'_>, area: Rect, state: &State, paint: Paint) {
    let of = |place: usize| {
        points(state, |second| second.percentiles.map(|p| p[place].as_secs_f64().max(1e-6).log10()))
    };
    let (median, tail) = (of(0), of(2));
    // Whole powers of ten, each with its label.
    let low = median.iter().map(|(_, y)| y.floor()).fold(f64::INFINITY, f64::min);
    let high = tail.iter().map(|(_, y)| y.ceil()).fold(low + 1.0, f64::max);
    let powers = low as i32..=high as i32;
    let label = |power| format::latency(Duration::from_secs_f64(10_f64.powi(power)));
    let lines = vec![line(&tail, paint.fg(Color::Yellow)), line(&median, paint.fg(Color::Green))];
    let title = "latency, log scale: p50 and p99";
    let labels = powers.map(label).collect();
    frame.render_widget(chart(lines, state, [low, high], labels, paint, title), area);
}

fn line(points: &[(f64, f64)], style: Style) -> Dataset<'_> {
    Dataset::default().marker(Marker::Braille).graph_type(GraphType::Line).style(style).data(points)
}

/// A chart over the time of the whole load.
fn chart<'a>(
    lines: Vec<Dataset<'a>>,
    state: &State,
    heights: [f64; 2],
    labels: Vec<String>,
    paint: Paint,
    title: &'a str,
) -> Chart<'a> {
    let span = state.span().as_secs_f64();
    let times = [0.0, span / 2.0, span].map(format::clock);
    Chart::new(lines)
        .block(Block::default().title(paint.title(title)))
        .x_axis(Axis::default().bounds([0.0, span]).labels(times).style(paint.faint()))
        .y_axis(Axis::default().bounds(heights).labels(labels).style(paint.faint()))
}

fn points(state: &State, value: impl Fn(&Second) -> Option<f64>) -> Vec<(f64, f64)> {
    let point = |second: &Second| Some((second.at.as_secs_f64(), value(second)?));
    state.seconds.iter().filter_map(point).collect()
}

/// A round number above all points, so that the axis does not jump each second.
fn top(points: &[(f64, f64)]) -> f64 {
    let highest = points.iter().map(|(_, y)| *y).fold(0.0, f64::max);
    if highest <= 0.0 {
        return 1.0;
    }
    let magnitude = 10_f64.powf(highest.log10().floor());
    let steps = [1.0, 2.0, 3.0, 5.0, 10.0];
    steps.into_iter().map(|s| s * magnitude).find(|edge| *edge >= highest).unwrap_or(highest)
}

fn draw_waits(frame: &mut Frame<'_>, area: Rect, state: &State, paint: Paint) {
    let waits = state.waits();
    let total: f64 = waits.iter().map(|(_, sessions)| sessions).sum();
    let width = usize::from(area.width.saturating_sub(34)).max(4);
    let mut sorted = waits;
    sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut lines: Vec<Line<'_>> = sorted
        .iter()
        .filter(|(_, sessions)| *sessions > 0.0)
        .take(usize::from(area.height.saturating_sub(1)))
        .map(|(class, sessions)| {
            let bar = (sessions / total.max(1e-9) * width as f64).round() as usize;
            Line::from(vec![
                Span::raw(format!("{:<20}{:>6.1}  ", class.label(), sessions)),
                Span::styled("█".repeat(bar), paint.fg(class_colour(*class))),
            ])
        })
        .collect();
    if lines.is_empty() {
        lines.push(Line::styled("not observed yet", paint.faint()));
    }
    frame.render_widget(
        Paragraph::new(lines)
            .block(Block::default().title(paint.title("sessions, by what they wait for"))),
        area,
    );
}

fn class_colour(class: WaitClass) -> Color {
    const COLOURS: [Color; 6] =
        [Color::Green, Color::Red, Color::Yellow, Color::Magenta, Color::Blue, Color::Cyan];
    COLOURS[class as usize % COLOURS.len()]
}

#[cfg(test)]
mod tests {
    use ratatui::backend::TestBackend;
    use ratatui::prelude::Terminal;
    use walwright_record::{
        LatencyHistogram, LoadInterval, PhaseName, ScriptInterval, SparseHistogram, Timestamp,
    };

    use super::*;

    /// What a terminal shows of this.
    fn drawn(state: &State) -> String {
        drawn_at(state, 100, 30)
    }

    fn drawn_at(state: &State, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, state, false, Paint { colour: false })).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn latency_is_drawn_only_where_it_is_measured() {
        let mut state = State::new();
        state.update(&Progress::Commits { per_second: 1_234.0 });
        let observed = drawn(&state);
        assert!(observed.contains("commits a second") && !observed.contains("latency"));
        assert!(!observed.contains(" ms"), "{observed}");
        let percentiles = Some([1, 2, 3].map(Duration::from_millis));
        let second = *state.seconds.back().unwrap();
        state.seconds.push_back(Second { percentiles, ..second });
        assert!(drawn(&state).contains("latency, log scale: p50 and p99"));
    }

    /// A load of a minute of which `seconds` have passed.
    fn under_load(seconds: u64) -> State {
        let mut state = State::new();
        state.update(&Progress::Phase(PhaseName::Measure));
        for second in 1..=seconds {
            let mut latency = LatencyHistogram::new();
            for exponent in 0..100 {
                latency.record(Duration::from_micros(200 + exponent * 80));
            }
            let script = ScriptInterval {
                transactions: 100,
                latency: SparseHistogram::from(&latency),
                ..ScriptInterval::default()
            };
            let interval = LoadInterval {
                start: Timestamp(second as i64 * 1_000_000),
                length: Duration::from_secs(1),
                scripts: vec![script],
                clients: 16,
                ..LoadInterval::default()
            };
            state.update(&Progress::Interval {
                interval: &interval,
                measured: Duration::from_secs(second),
                wanted: Duration::from_secs(60),
                until: None,
            });
        }
        state
    }

    #[test]
    fn the_time_axis_is_that_of_the_whole_load_and_latency_has_powers_of_ten() {
        let state = under_load(20);
        assert_eq!(state.span(), Duration::from_secs(60));
        for (width, height) in [(70, 20), (200, 60)] {
            let shown = drawn_at(&state, width, height);
            for part in ["0:30", "1:00", "1.00 ms", "10.0 ms", "transactions a second"] {
                assert!(shown.contains(part), "{part} at {width}: {shown}");
            }
            assert!(shown.contains("p99 8") && shown.contains("Ctrl-C"), "{shown}");
        }
        let narrow = drawn_at(&state, 70, 20);
        assert!(narrow.contains("6 of 7: measure"), "{narrow}");
    }

    #[test]
    fn the_last_message_is_seen_where_there_is_room_for_one() {
        let mut state = under_load(1);
        for text in ["first", "second", "third"] {
            let event = walwright_record::Event {
                at: Timestamp(0),
                kind: "check".to_owned(),
                text: text.to_owned(),
            };
            state.update(&Progress::Event(&event));
        }
        let narrow = drawn_at(&state, 70, 20);
        assert!(narrow.contains("third") && !narrow.contains("first"), "{narrow}");
        assert!(drawn_at(&state, 200, 60).contains("first"));
    }

    #[test]
    fn a_long_load_keeps_its_beginning() {
        let state = under_load(5_000);
        assert!(state.seconds.len() <= 600);
        assert!(state.seconds[0].at <= Duration::from_secs(16));
        assert_eq!(state.seconds.back().unwrap().at, Duration::from_secs(5_000));
    }

    #[test]
    fn axes_end_at_round_numbers_above_the_data() {
        for (highest, edge) in [(0.0, 1.0), (9.9, 10.0), (5_310.0, 10_000.0), (4_999.0, 5_000.0)] {
            assert_eq!(top(&[(0.0, highest)]), edge);
        }
    }
}
