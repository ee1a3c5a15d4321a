//! The live view of a tune: how far it is, the best so far, and what each measurement showed.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::prelude::{Color, Frame, Line, Modifier, Span, Style};
use ratatui::symbols::Marker;
use ratatui::widgets::{Axis, Block, Chart, Dataset, Gauge, GraphType, Paragraph, Wrap};
use walwright_figures::compare::FigureUnit;
use walwright_report::terminal::printable;
use walwright_report::{format, metric_value};
use walwright_run::{Observe, Progress};
use walwright_server::Stop;
use walwright_store::Lab;
use walwright_tune::{
    Objective, Phase, TuneEvent, TuneObserver, TuneState, effect, page_path, shown,
};

use super::watch::{message, named};
use crate::show::lines::stage;
use crate::show::messages::Messages;
use crate::show::screen::{self, Guard, Paint, View, cut};

/// The phases in order, with what they are called.
const PHASES: [(Phase, &str); 7] = [
    (Phase::Baseline, "baseline"),
    (Phase::Probe, "probe"),
    (Phase::Search, "search"),
    (Phase::ClientOptions, "client"),
    (Phase::Confirm, "confirm"),
    (Phase::Crash, "crash"),
    (Phase::Promote, "promote"),
];

/// Takes events for the drawing thread.
struct Live {
    lab: Lab,
    state: Arc<Mutex<State>>,
}

impl Observe<TuneEvent<'_>> for Live {
    fn event(&self, event: TuneEvent<'_>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let TuneEvent::SoFar(of) = &event
            && state.course.is_none()
        {
            state.messages.push(&format!("page: {}", page_path(&self.lab, &of.id).display()));
        }
        state.update(&event);
    }
}

/// Starts the view on standard error's terminal.
pub fn start(lab: &Lab, stop: Stop, colour: bool) -> io::Result<(Arc<TuneObserver>, Guard)> {
    let state = Arc::new(Mutex::new(State::new()));
    let guard = screen::show(Arc::clone(&state), stop, Paint { colour })?;
    Ok((Arc::new(Live { lab: lab.clone(), state }), guard))
}

/// Everything the view shows.
struct State {
    started: Instant,
    id: String,
    course: Option<Course>,
    /// The stage in words.
    stage: String,
    /// Measurements of the search.
    runs: u32,
    /// What was left when.
    left: Option<(Duration, Instant)>,
    /// What is measured.
    measuring: String,
    /// What that is at.
    doing: String,
    messages: Messages,
}

/// What was measured so far.
struct Course {
    phase: Phase,
    /// The stage of the search, from 1, and of how many.
    part: Option<(usize, usize)>,
    objective: Objective,
    /// The values of the search by their number, and of the confirmation after them; `None`
    /// where one did not run.
    values: Vec<Option<f64>>,
    /// How many of these are of the search.
    searched: usize,
    baseline: Option<f64>,
    /// What is best and by how much, in words.
    best: String,
}

impl Course {
    fn of(state: &TuneState, objective: Objective) -> Course {
        let confirmed = state.confirmation.made.iter().map(|made| made.value);
        Course {
            phase: state.phase,
            part: state.searcher.as_ref().map(|searcher| {
                let (_, now, of) = searcher.stage();
                (now, of)
            }),
            values: state.made.iter().map(|made| made.value).chain(confirmed).collect(),
            searched: state.made.len(),
            baseline: state.baseline_value(),
            best: best(state, &objective),
            objective,
        }
    }

    fn unit(&self) -> FigureUnit {
        self.objective.metric.kind().unit
    }

    /// The best value of the search up to each measurement.
    fn best_so_far(&self) -> Vec<(f64, f64)> {
        let more = self.objective.is_more_better();
        let mut best: Option<f64> = None;
        let values = self.values[..self.searched].iter().enumerate();
        values
            .filter_map(|(index, value)| {
                best = match (best, *value) {
                    (Some(a), Some(b)) => Some(if more { a.max(b) } else { a.min(b) }),
                    (a, b) => a.or(b),
                };
                Some((index as f64 + 1.0, best?))
            })
            .collect()
    }
}

/// What is best so far and by how much it changes the figure, as far as a tune knows.
fn best(state: &TuneState, objective: &Objective) -> String {
    let told = |gain| effect(&shown(gain, objective));
    let pairs = state.confirmation.pairs();
    if pairs > 0 {
        let made = format::counted(pairs as u64, "pair");
        return match state.is_confirmed() {
            true => format!("confirmed over {made}: {}", told(&state.confirmed())),
            false => format!("confirmation so far, over {made}: {}", told(&state.confirmed())),
        };
    }
    if let Some(end) = state.conclusion() {
        let blocks = format::counted(end.blocks as u64, "block");
        return format!("found: {} over {blocks}, not confirmed yet", told(&end.gain));
    }
    match state.best_so_far() {
        Some(best) => {
            let often = match best.measured {
                1 => "measured once".to_owned(),
                2 => "measured twice".to_owned(),
                often => format!("measured {often} times"),
            };
            format!("best so far: {}, {often}{}", told(&best.gain), named(&best.changes))
        }
        None => "nothing measured beside the baseline yet".to_owned(),
    }
}

impl State {
    fn new() -> State {
        State {
            started: Instant::now(),
            id: String::new(),
            course: None,
            stage: String::new(),
            runs: 0,
            left: None,
            measuring: String::new(),
            doing: String::new(),
            messages: Messages::default(),
        }
    }

    fn update(&mut self, event: &TuneEvent<'_>) {
        match event {
            TuneEvent::Begins { id, runs, left, .. } => {
                self.id = (*id).to_owned();
                self.runs = *runs;
                self.left = Some((*left, Instant::now()));
            }
            TuneEvent::SoFar(state) => {
                if let Ok(objective) = state.plan.objective() {
                    self.course = Some(Course::of(state, objective));
                }
            }
            TuneEvent::Stage(text) => {
                self.stage = (*text).to_owned();
                self.measuring.clear();
                self.doing.clear();
            }
            TuneEvent::Measuring { why, changes, .. } => {
                self.measuring = format!("{why}{}", named(changes));
                self.doing.clear();
            }
            TuneEvent::Run(Progress::Warning(warning)) => {
                self.messages.push(&warning.to_string());
            }
            // Checks that hold after each of so many runs would drown the rest.
            TuneEvent::Run(Progress::Event(_)) => {}
            TuneEvent::Run(progress) => {
                if let Some(now) = stage(progress) {
                    self.doing = printable(&now).into_owned();
                }
            }
            TuneEvent::Measured { crashed, left, .. } => {
                self.left = Some((*left, Instant::now()));
                if let Some(why) = crashed {
                    self.messages.push(&format!("{} did not run: {why}", self.measuring));
                }
            }
            _ => {}
        }
        if let Some(text) = message(event) {
            self.messages.push(&text);
        }
    }

    /// Measurements of the search that are made.
    fn made(&self) -> u32 {
        self.course.as_ref().map_or(0, |course| course.searched as u32)
    }

    fn draw_title(&self, frame: &mut Frame<'_>, area: Rect, paint: Paint) {
        let clock = format::clock(self.started.elapsed().as_secs_f64());
        let objective = self.course.as_ref().map_or("", |course| &course.objective.text);
        let title = format!("walwright  tune {}: {objective}", self.id);
        let title = cut(&title, usize::from(area.width).saturating_sub(clock.len() + 2));
        let first = Line::from(vec![
            paint.title(&title),
            Span::styled(format!("  {clock}"), paint.faint()),
        ]);
        let lines = vec![first, self.phases(usize::from(area.width), paint)];
        frame.render_widget(Paragraph::new(lines), area);
    }

    /// The phases done and to come, or the one it is in where there is no room for all.
    fn phases(&self, width: usize, paint: Paint) -> Line<'static> {
        let bold = Style::default().add_modifier(Modifier::BOLD);
        let Some(course) = &self.course else { return Line::default() };
        let part = match (course.phase, course.part) {
            (Phase::Search, Some((now, of))) => format!(" {now}/{of}"),
            _ => String::new(),
        };
        let spans = PHASES.iter().map(|(phase, name)| match phase.cmp(&course.phase) {
            std::cmp::Ordering::Less => {
                Span::styled(format!("+ {name}   "), paint.fg(Color::Green))
            }
            std::cmp::Ordering::Equal => Span::styled(format!("> {name}{part}   "), bold),
            std::cmp::Ordering::Greater => Span::styled(format!("  {name}   "), paint.faint()),
        });
        let all = Line::from(spans.collect::<Vec<_>>());
        if all.width() <= width + 3 {
            return all;
        }
        let now = PHASES.iter().position(|(phase, _)| *phase == course.phase);
        let text = now.map_or_else(String::new, |now| {
            format!("{} of {}: {}{part}", now + 1, PHASES.len(), PHASES[now].1)
        });
        Line::styled(text, bold)
    }

    fn draw_budget(&self, frame: &mut Frame<'_>, area: Rect, paint: Paint) {
        if self.runs == 0 {
            return;
        }
        let made = self.made();
        let left = self.left.map(|(left, when)| left.saturating_sub(when.elapsed()));
        let left = left.filter(|left| !left.is_zero());
        let left = left.map(|left| format!("; about {} left", format::length(left)));
        let gauge = Gauge::default()
            .ratio(f64::from(made.min(self.runs)) / f64::from(self.runs))
            .label(format!(
                "{made} of {} measurements of the search{}",
                self.runs,
                left.unwrap_or_default()
            ))
            .gauge_style(paint.fg(Color::Blue));
        frame.render_widget(gauge, area);
    }

    /// What runs now, and what it is at.
    fn now(&self) -> String {
        let what = if self.measuring.is_empty() { &self.stage } else { &self.measuring };
        match self.doing.is_empty() {
            true => what.clone(),
            false => format!("{what}: {}", self.doing),
        }
    }

    fn draw_values(&self, frame: &mut Frame<'_>, area: Rect, paint: Paint) {
        let Some(course) = &self.course else { return };
        let name = course.objective.name();
        let better = if course.objective.is_more_better() { "more" } else { "less" };
        let title = format!("{name} by measurement, {better} is better; lines: best, baseline");
        let points: Vec<(f64, f64)> = course
            .values
            .iter()
            .enumerate()
            .filter_map(|(index, value)| Some((index as f64 + 1.0, (*value)?)))
            .collect();
        let Some((low, high)) = ends(&points) else {
            return;
        };
        let last = f64::from(self.runs).max(course.values.len() as f64).max(2.0);
        let best = course.best_so_far();
        let baseline: Vec<(f64, f64)> =
            course.baseline.map_or_else(Vec::new, |value| vec![(1.0, value), (last, value)]);
        let line = |data, style| {
            Dataset::default()
                .marker(Marker::Braille)
                .graph_type(GraphType::Line)
                .style(style)
                .data(data)
        };
        let dots =
            Dataset::default().marker(Marker::Dot).style(paint.fg(Color::Cyan)).data(&points);
        let numbers = ["1".to_owned(), format!("{:.0}", (last / 2.0).ceil()), format!("{last:.0}")];
        let values = [low, high].map(|value| metric_value(course.unit(), value));
        let chart = Chart::new(vec![
            line(&baseline, paint.faint()),
            line(&best, paint.fg(Color::Green)),
            dots,
        ])
        .block(Block::default().title(paint.title(&title)))
        .x_axis(Axis::default().bounds([1.0, last]).labels(numbers).style(paint.faint()))
        .y_axis(Axis::default().bounds([low, high]).labels(values).style(paint.faint()));
        frame.render_widget(chart, area);
    }
}

/// The ends of an axis that holds all values with some air; `None` without any.
fn ends(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let values = || points.iter().map(|(_, value)| *value);
    let (low, high) = (values().reduce(f64::min)?, values().reduce(f64::max)?);
    let air = ((high - low) * 0.1).max(high.abs() * 0.02);
    Some((low - air, high + air))
}

impl View for State {
    fn draw(&self, frame: &mut Frame<'_>, stopping: bool, paint: Paint) {
        let area = frame.area();
        let width = usize::from(area.width);
        let best = self.course.as_ref().map_or("", |course| &course.best);
        let lines = if best.chars().count() > width { 2 } else { 1 };
        let parts = Layout::vertical([
            Constraint::Length(2),
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Length(lines),
            Constraint::Fill(1),
            Constraint::Length(if area.height < 24 { 3 } else { 7 }),
            Constraint::Length(1),
        ])
        .split(area);
        self.draw_title(frame, parts[0], paint);
        self.draw_budget(frame, parts[1], paint);
        frame.render_widget(Paragraph::new(cut(&self.now(), width)), parts[2]);
        let bold = Style::default().add_modifier(Modifier::BOLD);
        let best = Paragraph::new(Span::styled(best, bold)).wrap(Wrap { trim: true });
        frame.render_widget(best, parts[3]);
        self.draw_values(frame, parts[4], paint);
        self.messages.draw(frame, parts[5], paint);
        let kept = "`walwright tune resume` goes on";
        screen::draw_keys(frame, parts[6], stopping, kept, paint);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::Parser;
    use ratatui::backend::TestBackend;
    use ratatui::prelude::Terminal;
    use walwright_record::Timestamp;
    use walwright_search::{Dimension, Domain, Options, Outcome, Searcher, Space, Start};
    use walwright_tune::{Budget, Cause, Confirmation, Confirming, Made, TunePlan};

    use super::*;

    /// A tune whose search has made so many measurements of growing values, the third of which did
    /// not run.
    fn course(text: &str, made: usize) -> Course {
        let objective = Objective::parse(text).unwrap();
        let more = objective.is_more_better();
        let value = |index: usize| {
            let wobble = [0.0, 0.12, -0.1, 0.3, -0.2, 0.15, 0.05][index % 7];
            let gain = 1.0 + 0.006 * index as f64 + wobble;
            if more { 2_000.0 * gain } else { 0.02 / gain }
        };
        let values = (0..made).map(|index| (index != 2).then(|| value(index)));
        Course {
            phase: Phase::Search,
            part: Some((3, 4)),
            values: values.collect(),
            searched: made,
            baseline: Some(value(0)),
            best: "best so far: +58.2 % [+44.0 %, +73.8 %], measured twice [max_wal_size = 8192, \
                   commit_delay = 120, wal_buffers = 8192, 2 more]"
                .to_owned(),
            objective,
        }
    }

    fn view(course: Course) -> State {
        let mut state = State::new();
        state.update(&TuneEvent::Begins {
            id: "20261124-0430-0001",
            runs: 60,
            confirming: (6, 12),
            done: 0,
            left: Duration::from_secs(30 * 60 + 1),
            unit: course.unit(),
        });
        state.course = Some(course);
        state.update(&TuneEvent::Said("one measurement varies by 2.1 %"));
        state.update(&TuneEvent::Measuring {
            run: Some((31, 60)),
            why: "search",
            changes: &["max_wal_size = 8192".to_owned()],
        });
        state.update(&TuneEvent::Run(&Progress::Step("restoring the data")));
        // So that the clock does not move while it is drawn.
        state.left = Some((Duration::from_secs(30 * 60), Instant::now() + Duration::from_secs(60)));
        state
    }

    /// What a terminal shows of it.
    fn drawn(state: &State, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| state.draw(frame, false, Paint { colour: false })).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn a_small_terminal_holds_it_all() {
        insta::assert_snapshot!(drawn(&view(course("throughput", 30)), 70, 20));
    }

    #[test]
    fn a_wide_terminal_has_room_for_every_phase() {
        insta::assert_snapshot!(drawn(&view(course("p99@500", 42)), 120, 30));
    }

    #[test]
    fn the_line_of_the_best_goes_the_way_that_is_better() {
        for (text, better) in
            [("throughput", f64::max as fn(f64, f64) -> f64), ("p99@500", f64::min)]
        {
            let course = course(text, 20);
            let line = course.best_so_far();
            assert_eq!(line.len(), 20);
            assert!(line.windows(2).all(|two| better(two[0].1, two[1].1) == two[1].1), "{line:?}");
            assert!(line[19].1 != line[0].1);
        }
    }

    /// A tune of a plan after so many measurements, those of changed configurations all better.
    fn searched(plan: TunePlan, made: u32) -> TuneState {
        let words = Domain::Words(vec!["off".to_owned(), "on".to_owned()]);
        let dimension = |name: &str| Dimension {
            name: name.to_owned(),
            group: "postgresql".to_owned(),
            domain: words.clone(),
            home: "off".to_owned(),
            trial: None,
            restart: false,
        };
        let space = Space { dimensions: ["jit", "wal_compression"].map(dimension).to_vec() };
        let baseline = space.home();
        let on = space.configuration([("jit", "on")]).unwrap();
        let options = Options {
            runs: 20,
            seed: 1,
            worth: 0.05,
            allowed_loss: None,
            starts: vec![Start { name: "diagnosis".to_owned(), configuration: on }],
        };
        let mut searcher = Searcher::new(space, &baseline, options).unwrap();
        let mut values = Vec::new();
        while let Some(ask) = searcher.ask().filter(|ask| ask.trial < made) {
            let changed = ask.configuration != baseline;
            let score = 7.0 + if changed { 0.3 } else { 0.01 * f64::from(ask.trial) };
            searcher.tell(ask.trial, Outcome::score(score)).unwrap();
            values.push(Made {
                run: None,
                value: Some(score.exp()),
                throughput: None,
                checkpoints: None,
                crashed: None,
                seconds: 1.0,
            });
        }
        TuneState {
            format: 5,
            id: "20261124-0430-0001".to_owned(),
            begun: Timestamp(0),
            walwright_version: String::new(),
            plan,
            phase: Phase::Search,
            machine: String::new(),
            server_version: None,
            cause: Cause::default(),
            hints: BTreeMap::new(),
            diagnosed: BTreeMap::new(),
            dropped: Vec::new(),
            searcher: Some(searcher),
            made: values,
            diagnosed_run: None,
            schema: Vec::new(),
            client_options: Vec::new(),
            client_options_left_out: Vec::new(),
            confirmation: Confirmation::default(),
            next_cause: None,
            crash: None,
            promoted: None,
            promoted_schema: None,
            not_promoted: None,
            entry: None,
        }
    }

    #[test]
    fn a_tune_is_told_from_its_beginning_to_its_confirmation() {
        let cli = crate::args::Cli::try_parse_from(["walwright", "tune", "--runs", "8"]).unwrap();
        let Some(crate::args::Command::Tune(args)) = cli.command else { panic!() };
        let (plan, _) = super::super::plan(args.new);
        assert_eq!(plan.budget, Budget::Runs(8));
        let mut state = searched(plan, 4);
        let objective = || Objective::parse("throughput").unwrap();
        let early = Course::of(&state, objective());
        assert_eq!((early.searched, early.values.len()), (4, 4));
        let told = "best so far: +33.6 % [+11.7 %, +60.0 %], measured twice [jit = on]";
        assert_eq!(early.best, told);
        state.confirmation.made = (0..4)
            .map(|number| Confirming {
                is_winner: matches!(number % 4, 1 | 2),
                pair: number / 2,
                run: None,
                score: Some(8.0),
                value: Some(3_000.0),
                throughput: None,
                checkpoints: None,
                crashed: None,
            })
            .collect();
        let late = Course::of(&state, objective());
        assert_eq!((late.searched, late.values.len()), (4, 8));
        assert!(late.best.starts_with("confirmation so far, over 2 pairs"), "{}", late.best);
    }
}
