//! The view on the terminal.

use std::collections::VecDeque;
use std::time::Duration;

use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::prelude::{Color, Frame, Line, Modifier, Span, Style};
use ratatui::widgets::{Paragraph, Wrap};
use walwright_record::Timestamp;
use walwright_report::format;
use walwright_report::terminal::printable;
use walwright_watch::{FindingOf, History, Slot, Value, metric};

use super::table::Table;
use super::{Monitor, Subject};
use crate::show::screen::{Paint, cut};

/// Lines of the panels of rates and waits, with their title.
const RATES: u16 = 7;
/// Letters of a figure's name and of its value.
const NAME: usize = 12;
const VALUE: usize = 11;
/// How old a figure may be that is shown as that of a stretch.
const STALE: Duration = Duration::from_secs(20);
/// What a bar and a plot are made of.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// What the keys do, in lines that 80 columns hold.
const HELP: &[&str] = &[
    "Time",
    "  Space            stop at this stretch; once more returns to now",
    "  [ ]  or  ← →     a stretch back, or on",
    "  { }              ten minutes back, at most to the oldest, or on",
    "  End              return to now",
    "Panel",
    "  Tab              next panel: statements, tables, findings, events",
    "  < >              order by the next column, or the one before",
    "  r                the smallest first",
    "  /                keep the lines with a text; Enter ends it, Esc drops it",
    "  ↑ ↓ PgUp PgDn    scroll; Home: to the first line",
    "Columns",
    "  busy             seconds of executions a second: sessions it kept busy",
    "  vacuum           dead rows over those at which autovacuum comes",
    "Figures",
    "  waits            sessions in a transaction by what they wait for",
    "  checkpoint       WAL since the last one began over max_wal_size",
    "  open             sessions idle in a transaction",
    "Counters are read each ten seconds, statements and tables each minute.",
    "q, Ctrl-C: end. What was seen is kept. Any key leaves this help.",
];

pub(super) fn draw(view: &Monitor, frame: &mut Frame<'_>, stopping: bool, paint: Paint) {
    let findings = if frame.area().height < 30 { 4 } else { 8 };
    let findings = if view.subject == Subject::Findings { 0 } else { findings };
    let rows = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(RATES),
        Constraint::Fill(1),
        Constraint::Length(findings),
        Constraint::Length(1),
    ])
    .split(frame.area());
    draw_title(view, frame, rows[0], paint);
    draw_keys(view, frame, rows[4], stopping, paint);
    if view.shows_help {
        let lines: Vec<Line<'_>> = HELP.iter().map(|line| Line::raw(*line)).collect();
        let height = rows[4].y - rows[1].y;
        frame.render_widget(Paragraph::new(lines), Rect { height, ..rows[1] });
        return;
    }
    let Some((history, place)) = view.shown() else {
        let text = match view.server {
            None => "connecting",
            Some(_) => "the first figures come in ten seconds",
        };
        frame.render_widget(Paragraph::new(text), rows[1]);
        return;
    };
    let halves = Layout::horizontal([Constraint::Percentage(58), Constraint::Percentage(42)])
        .spacing(2)
        .split(rows[1]);
    frame.render_widget(
        Paragraph::new(rates(history, place, usize::from(halves[0].width), paint)),
        halves[0],
    );
    frame.render_widget(
        Paragraph::new(waits(&history.slots[place], usize::from(halves[1].width), paint)),
        halves[1],
    );
    draw_panel(view, frame, rows[2], paint);
    if findings > 0 {
        draw_findings(history, place, frame, rows[3], paint);
    }
}

fn draw_title(view: &Monitor, frame: &mut Frame<'_>, area: Rect, paint: Paint) {
    let width = usize::from(area.width);
    let when = match (&view.past, view.shown()) {
        (None, Some((history, place))) => format!("now {}", time(history.slots[place].end)),
        (Some(_), Some((history, place))) => {
            let end = history.slots[place].end;
            let ago = format::length(Timestamp::now().since(end));
            format!("at {}, {ago} ago", format::moment(end))
        }
        _ => String::new(),
    };
    let mut server = format!("watch {}", view.server.as_deref().unwrap_or_default());
    if let Some(address) = view.metrics {
        server += &format!("   metrics http://{address}/metrics");
    }
    let room = width.saturating_sub(when.chars().count() + 2);
    let server = cut(&printable(&server), room);
    let gap = width.saturating_sub(server.chars().count() + when.chars().count());
    let style = match view.past {
        Some(_) => paint.fg(Color::Yellow).add_modifier(Modifier::REVERSED),
        None => Style::default(),
    };
    let line = Line::from(vec![
        paint.title(&server),
        Span::raw(" ".repeat(gap)),
        Span::styled(when, style),
    ]);
    frame.render_widget(Paragraph::new(line), area);
}

fn draw_keys(view: &Monitor, frame: &mut Frame<'_>, area: Rect, stopping: bool, paint: Paint) {
    let (text, style) = if stopping {
        ("stopping; once more leaves at once".to_owned(), paint.faint())
    } else if let Some(trouble) = &view.trouble {
        (trouble.clone(), paint.fg(Color::Red))
    } else if view.is_typing {
        (format!("/{}▏  Enter keeps it, Esc drops it", view.filter), Style::default())
    } else if view.past.is_some() {
        (
            "[ ] a stretch   { } ten minutes   Space or End: now   ? help   q end".into(),
            paint.faint(),
        )
    } else {
        let text = "? help   / filter   < > order   Tab panel   Space stop   [ ] time   q end";
        (text.to_owned(), paint.faint())
    };
    frame.render_widget(Paragraph::new(Span::styled(printable(&text).into_owned(), style)), area);
}

/// `13:40:10 UTC` of a moment.
fn time(at: Timestamp) -> String {
    format::moment(at).split_once(' ').map_or_else(String::new, |(_, time)| time.to_owned())
}

/// The mean of a figure in a stretch.
fn mean(slot: &Slot, name: &str) -> Option<f64> {
    slot.figure(name).and_then(Value::mean)
}

/// The mean of a figure in the last stretch up to one in which it was read: readings come as often
/// as stretches end, so that now and then there are two in one and none in the next.
fn known(slots: &VecDeque<Slot>, place: usize, name: &str) -> Option<f64> {
    let end = slots[place].end;
    let near = slots.range(..=place).rev().take_while(|of| end.since(of.end) <= STALE);
    near.filter_map(|slot| mean(slot, name)).next()
}

fn rates(history: &History, place: usize, width: usize, paint: Paint) -> Vec<Line<'static>> {
    let slot = &history.slots[place];
    let mut lines = vec![Line::from(Span::styled("rates", bold()))];
    if mean(slot, metric::UP.name).is_some_and(|up| up < 0.5) {
        let style = paint.fg(Color::Red);
        lines.push(Line::styled("the server does not answer", style));
    }
    let shown = [
        ("commits", metric::COMMITS.name, format::rate as fn(f64) -> String),
        ("WAL", metric::WAL_BYTES.name, format::byte_rate),
        ("flushes", metric::WAL_FLUSHES.name, format::rate),
        ("a flush", metric::WAL_FLUSH_SECONDS.name, format::seconds),
        ("checkpoint", metric::CHECKPOINT_PRESSURE_RATIO.name, format::percent),
    ];
    for (name, figure, write) in shown {
        let value = known(&history.slots, place, figure);
        let value = value.map_or_else(|| "unknown".to_owned(), write);
        let room = width.saturating_sub(NAME + VALUE + 1);
        let plot = plot(&history.slots, place, figure, room);
        lines.push(Line::from(vec![
            Span::raw(format!("{name:<NAME$}{value:>VALUE$} ")),
            Span::styled(plot, paint.fg(Color::Cyan)),
        ]));
    }
    lines.push(Line::raw(cut(&sessions(slot), width)));
    lines
}

fn sessions(slot: &Slot) -> String {
    let of = |state: &str| mean(slot, &format!("{}|{state}", metric::SESSIONS.name));
    let Some(active) = of("active") else { return "sessions         unknown".to_owned() };
    let open =
        of("idle_in_transaction").unwrap_or(0.0) + of("idle_in_transaction_aborted").unwrap_or(0.0);
    let [active, open, idle] = [active, open, of("idle").unwrap_or(0.0)].map(format::number);
    format!("sessions    {active} active, {open} open, {idle} idle")
}

/// A figure in the stretches up to one, a column each, from zero to its largest.
fn plot(slots: &VecDeque<Slot>, place: usize, figure: &str, width: usize) -> String {
    let first = (place + 1).saturating_sub(width);
    let values: Vec<Option<f64>> =
        (first..=place).map(|place| known(slots, place, figure)).collect();
    let most = values.iter().flatten().copied().fold(0.0, f64::max);
    let column = |value: &Option<f64>| match value {
        Some(value) if most > 0.0 => {
            LEVELS[((value / most).clamp(0.0, 1.0) * (LEVELS.len() - 1) as f64).round() as usize]
        }
        Some(_) => LEVELS[0],
        None => ' ',
    };
    values.iter().map(column).collect()
}

fn waits(slot: &Slot, width: usize, paint: Paint) -> Vec<Line<'static>> {
    let mut lines = vec![Line::from(Span::styled("waits, sessions", bold()))];
    let mut classes: Vec<(&str, f64)> = slot
        .labelled(metric::WAIT_SECONDS.name)
        .filter_map(|(class, value)| Some((class, value.mean()?)))
        .filter(|(_, sessions)| *sessions > 0.0)
        .collect();
    classes.sort_by(|a, b| b.1.total_cmp(&a.1));
    let most = classes.first().map_or(0.0, |(_, sessions)| *sessions);
    let longest = slot.figure(metric::LOCK_WAIT_LONGEST_SECONDS.name).map_or(0.0, |v| v.max);
    let oldest = slot.figure(metric::OLDEST_TRANSACTION_SECONDS.name).map_or(0.0, |v| v.max);
    let room = width.saturating_sub(NAME + 6 + 1);
    for (class, sessions) in classes.iter().take(usize::from(RATES) - 2) {
        let bar = "█".repeat((sessions / most * room as f64).round() as usize);
        let colour = match *class {
            "cpu" => Color::Green,
            "lock" => Color::Red,
            _ => Color::Blue,
        };
        let class = class.replace('_', " ");
        let sessions = format::number(*sessions);
        lines.push(Line::from(vec![
            Span::raw(format!("{class:<NAME$}{sessions:>6} ")),
            Span::styled(bar, paint.fg(colour)),
        ]));
    }
    if classes.is_empty() {
        lines.push(Line::styled("nobody waits", paint.faint()));
    }
    lines.truncate(usize::from(RATES) - 1);
    let length = |seconds: f64| format::length(Duration::from_secs_f64(seconds.max(0.0)));
    let text = match longest > 0.0 {
        true => format!("longest wait for a lock {}", length(longest)),
        false => format!("oldest transaction {}", length(oldest)),
    };
    lines.push(Line::raw(cut(&text, width)));
    lines
}

fn bold() -> Style {
    Style::default().add_modifier(Modifier::BOLD)
}

fn draw_panel(view: &Monitor, frame: &mut Frame<'_>, area: Rect, paint: Paint) {
    let mut title: Vec<Span<'_>> = Vec::new();
    for subject in Subject::ALL {
        let style = if subject == view.subject { bold() } else { paint.faint() };
        title.push(Span::styled(subject.name(), style));
        title.push(Span::raw("  "));
    }
    if !view.filter.is_empty() {
        let text = format!("with \"{}\"; / Esc drops it", printable(&view.filter));
        title.push(Span::styled(text, paint.fg(Color::Yellow)));
    }
    let rows = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).split(area);
    frame.render_widget(Paragraph::new(Line::from(title)), rows[0]);
    match view.table() {
        Some(table) => draw_table(&table, view, frame, rows[1], paint),
        None => draw_texts(view, frame, rows[1]),
    }
}

fn draw_table(table: &Table, view: &Monitor, frame: &mut Frame<'_>, area: Rect, paint: Paint) {
    let width = usize::from(area.width);
    let before: usize = table.columns.iter().map(|of| of.width + 1).sum::<usize>() - 1;
    let rest = width.saturating_sub(before);
    let sort = view.sort();
    let mut head = Vec::new();
    for (place, column) in table.columns.iter().enumerate() {
        let is_last = place + 1 == table.columns.len();
        let name = match (place == sort.column, sort.is_reversed) {
            (true, false) => format!("▼{}", column.head),
            (true, true) => format!("▲{}", column.head),
            (false, _) => column.head.to_owned(),
        };
        let width = column.width;
        let text = if is_last { format!("{name:<rest$}") } else { format!("{name:>width$} ") };
        let style = if place == sort.column { bold() } else { paint.faint() };
        head.push(Span::styled(text, style));
    }
    let mut lines = vec![Line::from(head)];
    let room = usize::from(area.height).saturating_sub(1);
    for row in table.rows.iter().skip(view.first).take(room) {
        let mut text = String::new();
        for (cell, column) in row.iter().zip(table.columns) {
            text += &match column.width {
                0 => cut(&printable(cell.text()), rest),
                width => format!("{:>width$} ", cell.text()),
            };
        }
        lines.push(Line::raw(text));
    }
    if table.rows.is_empty() {
        let text = match (view.filter.is_empty(), view.subject) {
            (false, _) => "nothing has that text",
            (true, Subject::Statements) => {
                "not read yet, or not observable: pg_stat_statements is read each minute"
            }
            (true, _) => "none was written since the last reading; they are read each minute",
        };
        lines.push(Line::styled(text, paint.faint()));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn draw_texts(view: &Monitor, frame: &mut Frame<'_>, area: Rect) {
    let lines: Vec<Line<'_>> = view
        .texts()
        .into_iter()
        .skip(view.first)
        .flat_map(|(title, lines)| {
            let title = Line::styled(printable(&title).into_owned(), bold());
            let lines = lines.into_iter().map(|of| Line::raw(printable(&of).into_owned()));
            std::iter::once(title).chain(lines)
        })
        .collect();
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: true }), area);
}

fn draw_findings(history: &History, place: usize, frame: &mut Frame<'_>, area: Rect, paint: Paint) {
    let mut lines = Vec::new();
    match history.seen(place) {
        None => {
            lines.push(Line::from(paint.title("findings")));
            lines.push(Line::styled("no diagnosis yet", paint.faint()));
        }
        Some(seen) => {
            let text = format!("findings, by the diagnosis of {}", time(seen.window.end));
            lines.push(Line::styled(text, bold()));
            if seen.findings.is_empty() {
                lines.push(Line::raw(printable(&seen.verdict).into_owned()));
            }
            let width = usize::from(area.width);
            let titles = seen.findings.iter().map(title_of);
            lines.extend(titles.map(|text| Line::raw(cut(&printable(&text), width))));
        }
    }
    frame.render_widget(Paragraph::new(lines), area);
}

/// A finding in one line, with what it costs.
pub(super) fn title_of(of: &FindingOf) -> String {
    let about = of.subject.as_ref().map(|subject| format!(" ({subject})")).unwrap_or_default();
    let cost = of.cost.map(|cost| format!(": {} of the latency", format::percent(cost)));
    format!("{} {}{about}{}", of.id, of.title, cost.unwrap_or_default())
}
