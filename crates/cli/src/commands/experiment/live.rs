//! The live view of an experiment: blocks that fill, effects whose intervals shrink, what
//! remains.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::prelude::{Color, Frame, Line, Modifier, Span, Style};
use ratatui::widgets::{Gauge, Paragraph, Wrap};
use walwright_experiment::{ExperimentEvent, ExperimentObserver, page_path};
use walwright_figures::experiment::{Outcome, Outlook, Prospect};
use walwright_report::terminal::printable;
use walwright_report::{arm_verdict, change, experiment_verdict, format, metric_value};
use walwright_run::{Observe, Progress};
use walwright_server::Stop;
use walwright_stats::{Estimate, Interval};
use walwright_store::Lab;

use super::watch::{about, message, remarks};
use crate::show::lines::stage;
use crate::show::messages::Messages;
use crate::show::screen::{self, Guard, Paint, View, cut};

/// Columns of an effect with its interval.
const EFFECT: usize = 25;
/// Columns of what may be said of an arm.
const VERDICT: usize = 22;
/// Columns from which there is room for that.
const WIDE: usize = 105;
/// An interval is drawn up to so many times the largest effect: after two blocks it is so wide
/// that nothing else could be seen beside it.
const MOST_WIDE: f64 = 4.0;

/// Takes events for the drawing thread.
struct Live {
    lab: Lab,
    state: Arc<Mutex<State>>,
}

impl Observe<ExperimentEvent<'_>> for Live {
    fn event(&self, event: ExperimentEvent<'_>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let ExperimentEvent::SoFar(of) = &event
            && state.outcome.is_none()
        {
            state.messages.push(&format!("page: {}", page_path(&self.lab, &of.id).display()));
        }
        state.update(&event);
    }
}

/// Starts the view on standard error's terminal.
pub fn start(lab: &Lab, stop: Stop, colour: bool) -> io::Result<(Arc<ExperimentObserver>, Guard)> {
    let state = Arc::new(Mutex::new(State::new()));
    let guard = screen::show(Arc::clone(&state), stop, Paint { colour })?;
    Ok((Arc::new(Live { lab: lab.clone(), state }), guard))
}

/// A run that goes on.
struct Current {
    /// Its block, from 1.
    block: usize,
    blocks: usize,
    /// What the experiment calls its arm.
    arm: String,
}

/// Everything the view shows.
struct State {
    started: Instant,
    outcome: Option<Outcome>,
    current: Option<Current>,
    /// Runs done and planned.
    runs: (usize, usize),
    /// What was left when, by the runs done until then.
    left: Option<(Duration, Instant)>,
    /// What it is at, in few words.
    doing: String,
    messages: Messages,
}

/// One row of the table: the baseline, its repeat or an arm.
struct Row<'a> {
    name: &'a str,
    /// Whether its run of each block that has begun is done.
    done: Vec<bool>,
    /// Whether no run of it is to come.
    given_up: bool,
    change: Option<&'a Estimate>,
    outlook: Option<&'a Outlook>,
    /// Whether the change is to the better, where its interval leaves out zero.
    better: Option<bool>,
    /// The effect in figures.
    effect: String,
    verdict: &'a str,
}

impl State {
    fn new() -> State {
        State {
            started: Instant::now(),
            outcome: None,
            current: None,
            runs: (0, 0),
            left: None,
            doing: String::new(),
            messages: Messages::default(),
        }
    }

    fn update(&mut self, event: &ExperimentEvent<'_>) {
        match event {
            ExperimentEvent::Estimate(of) => {
                self.runs = (of.done, of.runs);
                self.left = Some((of.left, Instant::now()));
                remarks(of).iter().for_each(|remark| self.messages.push(remark));
            }
            ExperimentEvent::SoFar(outcome) => self.outcome = Some((*outcome).clone()),
            ExperimentEvent::Loading { arm } => self.doing = format!("loading data of {arm}"),
            ExperimentEvent::Begins { run, of, block, blocks, arm } => {
                self.runs = (run - 1, *of);
                let arm = (*arm).to_owned();
                self.current = Some(Current { block: *block, blocks: *blocks, arm });
                self.doing.clear();
            }
            ExperimentEvent::Run(progress) => self.progress(progress),
            ExperimentEvent::Done { left, .. } => {
                self.ended();
                self.left = Some((*left, Instant::now()));
            }
            ExperimentEvent::GivenUp { .. } => self.ended(),
            _ => {}
        }
        if let Some(text) = message(event) {
            self.messages.push(&text);
        }
    }

    fn ended(&mut self) {
        self.current = None;
        self.runs.0 += 1;
        self.doing.clear();
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        match progress {
            Progress::Warning(warning) => {
                let arm = self.current.as_ref().map_or("", |current| &current.arm);
                self.messages.push(&format!("{arm}: {warning}"));
            }
            // Checks that hold after each of so many runs would drown the rest.
            Progress::Event(_) => {}
            progress => {
                if let Some(now) = stage(progress) {
                    self.doing = printable(&now).into_owned();
                }
            }
        }
    }

    /// What it is at: `block 1 of 7, large WAL: measured 12 of 60 s`.
    fn now(&self) -> String {
        match &self.current {
            Some(Current { block, blocks, arm }) => {
                format!("block {block} of {blocks}, {arm}: {}", self.doing)
            }
            None => self.doing.clone(),
        }
    }

    fn rows(&self) -> Vec<Row<'_>> {
        let Some(outcome) = &self.outcome else { return Vec::new() };
        let judged = &outcome.judged;
        let of_baseline = |place: usize, name| Row {
            name,
            done: outcome.baseline_runs.iter().map(|runs| runs[place].is_some()).collect(),
            given_up: false,
            change: None,
            outlook: None,
            better: None,
            effect: String::new(),
            verdict: "",
        };
        let value = judged.baseline.map(|value| metric_value(judged.metric.unit, value));
        let baseline = Row { effect: value.unwrap_or_default(), ..of_baseline(0, "baseline") };
        let mut again = of_baseline(1, "baseline again");
        if let Some(floor) = &judged.floor {
            again.change = Some(&floor.against_itself.change);
            let noise = floor.relative.map(|of| format!("noise up to {}", format::percent(of)));
            again.effect = noise.unwrap_or_default();
        }
        let mut rows = vec![baseline, again];
        let judged = outcome.arms.iter().zip(&judged.arms).zip(&outcome.outlooks);
        rows.extend(judged.map(|((arm, judged), outlook)| {
            let change = judged.effect.as_ref().map(|effect| &effect.change);
            let given_up = arm.failed.is_some();
            Row {
                name: &arm.name,
                done: arm.runs.iter().map(Option::is_some).collect(),
                given_up,
                change,
                outlook: outlook.as_ref().filter(|of| of.blocks < of.planned),
                better: judged.better,
                effect: match change {
                    Some(change) => effect_text(change),
                    None if given_up => "given up".to_owned(),
                    None => String::new(),
                },
                verdict: if change.is_some() { arm_verdict(judged) } else { "" },
            }
        }));
        rows
    }

    /// What remains, and what it will show.
    fn remains(&self) -> String {
        let (done, of) = self.runs;
        if of == 0 {
            return String::new();
        }
        let mut text = format!("{} left", format::counted(of.saturating_sub(done) as u64, "run"));
        if let Some((left, when)) = self.left {
            text.push_str(&format!(", {}", about(left.saturating_sub(when.elapsed()))));
        }
        let Some(outcome) = &self.outcome else { return text };
        let coming = outcome.outlooks.iter().flatten().filter(|of| of.blocks < of.planned);
        let prospects: Vec<Prospect> = coming.map(|of| of.prospect(outcome.negligible)).collect();
        let words = [
            (Prospect::WillShow, "will show"),
            (Prospect::WillBeScreened, "will be visible, but not proven"),
            (Prospect::WillBeNoise, "will not stand out from noise"),
            (Prospect::WillBeNegligible, "will prove too small to matter"),
            (Prospect::WillStayOpen, "will stay undecided"),
        ];
        let told = words.iter().filter_map(|(prospect, words)| {
            let count = prospects.iter().filter(|of| *of == prospect).count();
            (count > 0).then(|| format!("{} {words}", format::counted(count as u64, "arm")))
        });
        let told: Vec<String> = told.collect();
        if !told.is_empty() {
            let blocks = format::counted(outcome.planned as u64, "block");
            text.push_str(&format!("; after {blocks} {}", told.join(", ")));
        }
        text
    }
}

impl View for State {
    fn draw(&self, frame: &mut Frame<'_>, stopping: bool, paint: Paint) {
        let area = frame.area();
        let width = usize::from(area.width);
        let lines = |text: &str| if text.chars().count() > width { 2 } else { 1 };
        let verdict = match &self.outcome {
            Some(outcome) if outcome.blocks > 0 => experiment_verdict(outcome),
            _ => "No block is complete yet.".to_owned(),
        };
        let remains = self.remains();
        let rows = self.rows();
        let air = u16::from(area.height >= 24);
        let fixed = 7 + 2 * air + lines(&verdict) + lines(&remains);
        let room = area.height.saturating_sub(fixed);
        let table = (rows.len() as u16 + 1).min(room);
        let parts = Layout::vertical([
            Constraint::Length(2),
            Constraint::Length(1),
            Constraint::Length(1 + air),
            Constraint::Length(table + air),
            Constraint::Length(lines(&verdict)),
            Constraint::Length(lines(&remains)),
            Constraint::Fill(1),
            Constraint::Length(1),
        ])
        .split(area);
        self.draw_title(frame, parts[0], paint);
        self.draw_runs(frame, parts[1], paint);
        frame.render_widget(Paragraph::new(cut(&self.now(), width)), parts[2]);
        if let Some(outcome) = &self.outcome {
            let places = Places::of(parts[3], &rows, outcome);
            let current = self.current.as_ref();
            draw_table(frame, parts[3], &rows, outcome, current, &places, paint);
        }
        let bold = Style::default().add_modifier(Modifier::BOLD);
        let wrapped =
            |text, style| Paragraph::new(Span::styled(text, style)).wrap(Wrap { trim: true });
        frame.render_widget(wrapped(verdict, bold), parts[4]);
        frame.render_widget(wrapped(remains, Style::default()), parts[5]);
        self.messages.draw(frame, parts[6], paint);
        let kept = "`walwright experiment resume` goes on";
        screen::draw_keys(frame, parts[7], stopping, kept, paint);
    }
}

impl State {
    fn draw_title(&self, frame: &mut Frame<'_>, area: Rect, paint: Paint) {
        let clock = format::clock(self.started.elapsed().as_secs_f64());
        let width = usize::from(area.width);
        let (name, question) = match &self.outcome {
            Some(of) => (of.name.as_str(), of.question.as_deref().unwrap_or_default()),
            None => ("experiment", ""),
        };
        let title = cut(&format!("walwright  {name}"), width.saturating_sub(clock.len() + 2));
        let first = Line::from(vec![
            paint.title(&title),
            Span::styled(format!("  {clock}"), paint.faint()),
        ]);
        let lines = vec![first, Line::raw(cut(question, width))];
        frame.render_widget(Paragraph::new(lines), area);
    }

    fn draw_runs(&self, frame: &mut Frame<'_>, area: Rect, paint: Paint) {
        let (done, of) = self.runs;
        if of == 0 {
            return;
        }
        let gauge = Gauge::default()
            .ratio((done as f64 / of as f64).clamp(0.0, 1.0))
            .label(format!("{done} of {of} runs done"))
            .gauge_style(paint.fg(Color::Blue));
        frame.render_widget(gauge, area);
    }
}

/// An effect in figures: `+4.1 % (−1.0 to +9.2)`.
fn effect_text(of: &Estimate) -> String {
    let bare = |share: f64| change(share).trim_end_matches(" %").to_owned();
    match of.interval {
        Some(ends) => format!("{} ({} to {})", change(of.center), bare(ends.low), bare(ends.high)),
        None => format!("{}, one block", change(of.center)),
    }
}

/// Where the columns of the table are, and what they show.
struct Places {
    name: usize,
    /// The first block shown, from 0, and of how many.
    blocks: (usize, usize),
    bar: usize,
    has_verdict: bool,
    axis: Interval,
}

impl Places {
    fn of(area: Rect, rows: &[Row<'_>], outcome: &Outcome) -> Places {
        let width = usize::from(area.width);
        let longest = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
        let name = longest.clamp(8, (width / 4).max(8));
        let shown = outcome.planned.min(if width < WIDE { 10 } else { 20 });
        let shown = shown.max("blocks".len());
        let has_verdict = width >= WIDE;
        let beside = name + shown + EFFECT + 3 + if has_verdict { VERDICT + 1 } else { 0 };
        let begun = rows.iter().map(|row| row.done.len()).max().unwrap_or(0);
        // The block that goes on and the next.
        let first = (begun + 2).min(outcome.planned).saturating_sub(shown);
        Places {
            name,
            blocks: (first, shown),
            bar: width.saturating_sub(beside),
            has_verdict,
            axis: axis(rows, outcome.negligible),
        }
    }

    /// The column of the bar that a change falls in.
    fn column(&self, share: f64) -> usize {
        let (low, span) = (self.axis.low, self.axis.high - self.axis.low);
        let last = self.bar.saturating_sub(1) as f64;
        ((share - low) / span * last).round().clamp(0.0, last) as usize
    }
}

/// The axis that all effects share: from zero to beyond them, at round numbers so that it does
/// not move with each run.
fn axis(rows: &[Row<'_>], negligible: f64) -> Interval {
    let changes = || rows.iter().filter_map(|row| row.change);
    let largest = changes().map(|of| of.center.abs()).fold(negligible.max(0.005), f64::max);
    let most = MOST_WIDE * largest;
    let (mut low, mut high) = (-negligible, negligible);
    for of in changes() {
        let ends = of.interval.unwrap_or(Interval { low: of.center, high: of.center });
        low = low.min(ends.low.max(-most));
        high = high.max(ends.high.min(most));
    }
    Interval { low: -round_up(-low), high: round_up(high) }
}

/// A round share that is no less.
fn round_up(share: f64) -> f64 {
    let share = share.max(0.01);
    let magnitude = 10_f64.powf(share.log10().floor());
    let steps = [1.0, 2.0, 3.0, 5.0, 10.0];
    // 3 % is not exactly three times a hundredth.
    let no_less = |edge: &f64| *edge >= share * (1.0 - 1e-9);
    steps.into_iter().map(|step| step * magnitude).find(no_less).unwrap_or(share)
}

fn draw_table(
    frame: &mut Frame<'_>,
    area: Rect,
    rows: &[Row<'_>],
    outcome: &Outcome,
    current: Option<&Current>,
    places: &Places,
    paint: Paint,
) {
    let mut lines = vec![head(outcome, places, paint)];
    let room = usize::from(area.height.saturating_sub(1));
    // Where not all fit, the one that runs is among those shown.
    let (shown, first) = if rows.len() <= room {
        (rows.len(), 0)
    } else {
        let shown = room.saturating_sub(1);
        let running = current.and_then(|now| rows.iter().position(|row| is_of(row, now)));
        (shown, running.map_or(0, |place| (place + 1).saturating_sub(shown)))
    };
    for row in rows.iter().skip(first).take(shown) {
        let running = current.filter(|now| is_of(row, now)).map(|now| now.block - 1);
        lines.push(line(row, running, outcome.planned, places, paint));
    }
    if shown < rows.len() {
        lines.push(Line::styled(format!("and {} more", rows.len() - shown), paint.faint()));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// Whether a run is one of this row.
fn is_of(row: &Row<'_>, current: &Current) -> bool {
    // The baseline's repeat is told by more words in a line of text.
    current.arm == row.name
        || (row.name == "baseline again" && current.arm == "baseline again (A/A)")
}

/// The line above the table: what its columns hold, and the ends of the axis.
fn head(outcome: &Outcome, places: &Places, paint: Paint) -> Line<'static> {
    let mut axis = vec![' '; places.bar];
    let mut write = |text: &str, from: usize| {
        let room = axis.iter_mut().skip(from);
        room.zip(text.chars()).for_each(|(column, letter)| *column = letter);
    };
    let end = |share: f64| {
        format!("{}{:.0} %", if share < 0.0 { "−" } else { "+" }, (share * 100.0).abs())
    };
    let (low, high) = (end(places.axis.low), end(places.axis.high));
    let zero = places.column(0.0);
    let high_from = places.bar.saturating_sub(high.chars().count());
    write(&low, 0);
    write(&high, high_from);
    if zero > low.chars().count() && zero + 1 < high_from {
        write("0", zero);
    }
    let axis: String = axis.into_iter().collect();
    let metric = cut(&outcome.judged.metric.name, EFFECT);
    let (name, shown) = (places.name, places.blocks.1);
    let text = format!("{:<name$} {:<shown$} {axis} {metric}", "arm", "blocks");
    Line::styled(text, paint.faint())
}

fn line(
    row: &Row<'_>,
    running: Option<usize>,
    planned: usize,
    places: &Places,
    paint: Paint,
) -> Line<'static> {
    let name = places.name;
    let mut spans = vec![Span::raw(format!("{:<name$} ", cut(row.name, name)))];
    let (first, shown) = places.blocks;
    for block in first..first + shown {
        spans.push(match row.done.get(block).copied().unwrap_or(false) {
            _ if block >= planned => Span::raw(" "),
            true => Span::styled("■", paint.fg(Color::Green)),
            false if running == Some(block) => Span::styled("▸", paint.fg(Color::Yellow)),
            false if row.given_up => Span::styled("×", paint.fg(Color::Red)),
            false => Span::styled("·", paint.faint()),
        });
    }
    spans.push(Span::raw(" "));
    let colour = match row.better {
        Some(true) => paint.fg(Color::Green),
        Some(false) => paint.fg(Color::Red),
        None => Style::default(),
    };
    spans.push(Span::styled(bar(row, places), colour));
    let effect = format!(" {:<EFFECT$}", cut(&row.effect, EFFECT));
    spans.push(Span::styled(effect, colour));
    if places.has_verdict {
        spans.push(Span::raw(format!(" {}", row.verdict)));
    }
    Line::from(spans)
}

/// An effect on the axis: its interval now, within it in heavy strokes the interval that the
/// planned blocks will leave, and the effect.
fn bar(row: &Row<'_>, places: &Places) -> String {
    let mut columns = vec![' '; places.bar];
    if places.bar == 0 {
        return String::new();
    }
    columns[places.column(0.0)] = '│';
    let Some(change) = row.change else { return columns.into_iter().collect() };
    let mut draw = |of: Interval, stroke: char| {
        let (from, to) = (places.column(of.low), places.column(of.high));
        columns[from..=to].fill(stroke);
        (from, to)
    };
    if let Some(now) = change.interval {
        let (from, to) = draw(now, '─');
        if let Some(outlook) = row.outlook {
            draw(outlook.then, '━');
        }
        columns[from] = if now.low < places.axis.low { '◂' } else { '├' };
        columns[to] = if now.high > places.axis.high { '▸' } else { '┤' };
    }
    columns[places.column(change.center)] = '●';
    columns.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use ratatui::backend::TestBackend;
    use ratatui::prelude::Terminal;
    use walwright_experiment::Estimate as Cost;
    use walwright_figures::compare::{Better, FigureUnit};
    use walwright_figures::experiment::{
        Arm, ArmOutcome, Ending, Looks, MetricKind, judge, outlook,
    };
    use walwright_record::RunId;
    use walwright_stats::Confidence;

    use super::*;

    const PLANNED: usize = 7;

    /// What an experiment has come to after `blocks` blocks, of arms that are so many times as
    /// fast as the baseline.
    fn so_far(blocks: usize, arms: &[(&str, f64)]) -> Outcome {
        let wobble = [0.4, -0.7, 1.0, -0.2, 0.6, -1.0, 0.1];
        let values = |factor: f64, phase: usize| -> Vec<Option<f64>> {
            let value =
                |block: usize| 1_000.0 * factor * (1.0 + 0.02 * wobble[(block + phase) % 7]);
            (0..blocks).map(|block| Some(value(block))).collect()
        };
        let metric = MetricKind {
            key: "throughput".to_owned(),
            name: "throughput".to_owned(),
            unit: FigureUnit::PerSecond,
            better: Better::Higher,
            expression: None,
        };
        let measured: Vec<Arm> = arms
            .iter()
            .enumerate()
            .map(|(place, (name, factor))| Arm {
                name: (*name).to_owned(),
                values: values(*factor, place + 3),
            })
            .collect();
        let level = Confidence::P95;
        let judged = judge(metric, &values(1.0, 0), &values(1.0, 1), &measured, level, 1);
        let run = Some(RunId("run".to_owned()));
        Outcome {
            id: "20261124-0430-0001".to_owned(),
            name: "WAL size and commit delay".to_owned(),
            question: Some("Does a larger WAL or a commit delay make tpcb faster?".to_owned()),
            design: "one-at-a-time".to_owned(),
            baseline: Vec::new(),
            ending: Ending::Unfinished,
            planned: PLANNED,
            blocks,
            runs: blocks * (arms.len() + 2),
            looks: Looks::at_end(PLANNED, level),
            negligible: 0.02,
            contrasts: None,
            others: Vec::new(),
            outlooks: judged.arms.iter().map(|arm| outlook(arm, &judged, PLANNED)).collect(),
            judged,
            arms: arms
                .iter()
                .map(|(name, _)| ArmOutcome {
                    name: (*name).to_owned(),
                    changes: Vec::new(),
                    runs: vec![run.clone(); blocks],
                    failed: None,
                    time: Vec::new(),
                    reasons: Vec::new(),
                    statements: Vec::new(),
                })
                .collect(),
            baseline_runs: vec![[run.clone(), run.clone()]; blocks],
            prediction: None,
            claims: Vec::new(),
            entry_of_each_arm: false,
            study: None,
            warnings: Vec::new(),
        }
    }

    /// The view of that while the first arm of the next block runs.
    fn after(blocks: usize, arms: &[(&str, f64)]) -> State {
        let mut state = State::new();
        let runs = arms.len() + 2;
        let cost = Cost {
            id: String::new(),
            name: String::new(),
            blocks: PLANNED,
            arms: arms.len(),
            runs: runs * PLANNED,
            done: runs * blocks,
            per_run: Duration::from_secs(60),
            left: Duration::from_secs(90 * 60),
            blocks_to_prove: 8,
            data_sets: 1,
            looks: vec![PLANNED],
            blocks_to_look: None,
            left_out: Vec::new(),
        };
        state.update(&ExperimentEvent::Estimate(&cost));
        state.update(&ExperimentEvent::SoFar(&so_far(blocks, arms)));
        state.update(&ExperimentEvent::Begins {
            run: runs * blocks + 1,
            of: runs * PLANNED,
            block: blocks + 1,
            blocks: PLANNED,
            arm: arms.last().unwrap().0,
        });
        state.update(&ExperimentEvent::Run(&Progress::Step("restoring the data")));
        state
    }

    /// What a terminal shows of it.
    fn drawn(state: &State, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| state.draw(frame, false, Paint { colour: false })).unwrap();
        terminal.backend().to_string()
    }

    const ARMS: [(&str, f64); 3] =
        [("large WAL", 1.2), ("commit delay", 1.0), ("wal_compression = lz4", 0.93)];

    #[test]
    fn a_small_terminal_holds_it_all() {
        insta::assert_snapshot!(drawn(&after(3, &ARMS), 70, 20));
    }

    #[test]
    fn a_wide_terminal_has_room_for_verdicts() {
        insta::assert_snapshot!(drawn(&after(5, &ARMS), 120, 24));
    }

    #[test]
    fn before_the_first_run_there_is_a_grid_to_be_filled() {
        insta::assert_snapshot!(drawn(&after(0, &ARMS), 70, 20));
    }

    #[test]
    fn of_many_arms_the_one_that_runs_is_shown() {
        let names: Vec<String> = (1..=20).map(|number| format!("arm {number}")).collect();
        let arms: Vec<(&str, f64)> = names.iter().map(|name| (name.as_str(), 1.1)).collect();
        let mut state = after(1, &arms);
        let last = drawn(&state, 70, 20);
        assert!(last.contains("arm 20 ") && last.contains("and 13 more"), "{last}");
        assert!(last.contains("▸") && !last.contains("arm 2 "), "{last}");
        state.current = None;
        let first = drawn(&state, 70, 20);
        assert!(first.contains("baseline again") && first.contains("arm 2 "), "{first}");
    }

    #[test]
    fn an_arm_that_is_given_up_has_no_runs_to_come() {
        let mut state = after(2, &ARMS);
        if let Some(outcome) = &mut state.outcome {
            outcome.arms[1].failed = Some("it does not start".to_owned());
        }
        state.update(&ExperimentEvent::GivenUp { arm: "commit delay", why: "it does not start" });
        let shown = drawn(&state, 70, 20);
        assert!(shown.contains("commit delay") && shown.contains("■■×××××"), "{shown}");
        assert!(shown.contains("commit delay is given up: it does not start"), "{shown}");
    }

    #[test]
    fn the_axis_shrinks_with_the_intervals() {
        let axis_after = |blocks| {
            let state = after(blocks, &[("commit delay", 1.01)]);
            axis(&state.rows(), 0.02)
        };
        let (two, seven) = (axis_after(2), axis_after(7));
        assert!(seven.high - seven.low < two.high - two.low, "{two:?} {seven:?}");
        assert!(seven.low <= -0.02 && seven.high >= 0.02, "{seven:?}");
    }
}
