//! The terminal view of a server that is watched: what goes on now, or went on at any moment that
//! is kept.

mod draw;
mod table;

use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ratatui::crossterm::event::KeyCode;
use ratatui::prelude::Frame;
use walwright_record::Timestamp;
use walwright_report::format;
use walwright_server::Stop;
use walwright_watch::{Entry, FindingOf, History, Listener, Ring, Told};

use crate::show::screen::{self, Guard, Paint, View};
use table::{Sort, Table};

/// How far one key goes through time.
const FAR: Duration = Duration::from_secs(600);
/// Lines that one key goes down or up.
const PAGE: usize = 10;

/// Whether there is a terminal to show it on and to read keys from, and nobody reads lines.
pub fn is_possible() -> bool {
    io::stdout().is_terminal() && io::stderr().is_terminal() && io::stdin().is_terminal()
}

/// Starts the view.
pub fn start(ring: Ring, stop: Stop, colour: bool) -> io::Result<(Listener, Guard)> {
    let view = Arc::new(Mutex::new(Monitor::new(ring)));
    let guard = screen::show(Arc::clone(&view), stop, Paint { colour })?;
    let listener: Listener = Arc::new(move |told| {
        view.lock().unwrap_or_else(PoisonError::into_inner).take(told);
    });
    Ok((listener, guard))
}

/// What the large panel shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    Statements,
    Tables,
    Findings,
    Events,
}

impl Subject {
    const ALL: [Subject; 4] =
        [Subject::Statements, Subject::Tables, Subject::Findings, Subject::Events];

    fn name(self) -> &'static str {
        match self {
            Subject::Statements => "statements",
            Subject::Tables => "tables",
            Subject::Findings => "findings",
            Subject::Events => "events",
        }
    }

    fn next(self, by: usize) -> Subject {
        let place = Subject::ALL.iter().position(|of| *of == self).unwrap_or_default();
        Subject::ALL[(place + by) % Subject::ALL.len()]
    }
}

/// What is shown, and how.
struct Monitor {
    ring: Ring,
    server: Option<String>,
    metrics: Option<SocketAddr>,
    live: History,
    /// A part of the ring and the stretch that is looked at; `None` now.
    past: Option<(History, usize)>,
    subject: Subject,
    sorts: [Sort; 2],
    filter: String,
    is_typing: bool,
    shows_help: bool,
    /// Lines that are scrolled over.
    first: usize,
    /// What could not be done.
    trouble: Option<String>,
    has_changed: bool,
}

impl Monitor {
    fn new(ring: Ring) -> Monitor {
        Monitor {
            ring,
            server: None,
            metrics: None,
            live: History::default(),
            past: None,
            subject: Subject::Statements,
            sorts: [Sort::default(), Sort { column: 4, is_reversed: false }],
            filter: String::new(),
            is_typing: false,
            shows_help: false,
            first: 0,
            trouble: None,
            has_changed: true,
        }
    }

    fn take(&mut self, told: Told) {
        match told {
            Told::Begun { server, metrics } => {
                (self.server, self.metrics) = (Some(server), metrics);
            }
            Told::Slot(slot) => self.live.take(Entry::Slot(slot)),
            Told::Event(event) => self.live.take(Entry::Event(event)),
            Told::Findings(seen) => self.live.take(Entry::Findings(seen)),
        }
        self.has_changed = true;
    }

    /// What is looked at: a history and the place of the stretch in it.
    fn shown(&self) -> Option<(&History, usize)> {
        match &self.past {
            Some((history, place)) => Some((history, *place)),
            None => self.live.slots.len().checked_sub(1).map(|last| (&self.live, last)),
        }
    }

    /// The table of the large panel, as it is wanted; `None` where it shows texts.
    fn table(&self) -> Option<Table> {
        let (history, place) = self.shown()?;
        let mut table = match self.subject {
            Subject::Statements => Table::statements(history, place),
            Subject::Tables => Table::tables(history, place),
            Subject::Findings | Subject::Events => return None,
        };
        table.arrange(&self.filter, *self.sort());
        Some(table)
    }

    /// The texts of the large panel, each with a title: findings as they are ranked, events the
    /// newest first.
    fn texts(&self) -> Vec<(String, Vec<String>)> {
        let Some((history, place)) = self.shown() else { return Vec::new() };
        let mut texts: Vec<(String, Vec<String>)> = match self.subject {
            Subject::Findings => {
                let findings = history.seen(place).map_or(&[][..], |seen| &seen.findings);
                let whole = |of: &FindingOf| {
                    let action = of.action.as_ref().map(|action| format!("To do: {action}"));
                    let lines = std::iter::once(of.cause.clone()).chain(action).collect();
                    (draw::title_of(of), lines)
                };
                findings.iter().map(whole).collect()
            }
            Subject::Events => history
                .events(place)
                .map(|of| {
                    let title = format!("{}  {}", format::moment(of.at), of.kind.words());
                    (title, vec![of.text.clone()])
                })
                .collect(),
            Subject::Statements | Subject::Tables => Vec::new(),
        };
        texts.retain(|(title, lines)| {
            std::iter::once(title).chain(lines).any(|text| table::holds(text, &self.filter))
        });
        texts
    }

    /// Scrolls to a line, or to the last where there are not so many.
    fn scroll_to(&mut self, line: usize) {
        let lines = self.table().map_or_else(|| self.texts().len(), |table| table.rows.len());
        self.first = line.min(lines.saturating_sub(1));
    }

    fn sort(&self) -> &Sort {
        &self.sorts[usize::from(self.subject == Subject::Tables)]
    }

    /// Orders by the next column, or the one before.
    fn sort_by(&mut self, forward: bool) {
        let columns = match self.subject {
            Subject::Statements => table::STATEMENTS.len(),
            Subject::Tables => table::TABLES.len(),
            Subject::Findings | Subject::Events => return,
        };
        let sort = &mut self.sorts[usize::from(self.subject == Subject::Tables)];
        let by = if forward { 1 } else { columns - 1 };
        *sort = Sort { column: (sort.column + by) % columns, is_reversed: false };
    }

    /// Goes to the last stretch that begins at a moment or before, or stays where none is kept.
    fn back_to(&mut self, moment: Timestamp) {
        if let Some((history, place)) = &mut self.past
            && let Some(found) = history.slots.iter().rposition(|slot| slot.start <= moment)
        {
            *place = found;
            return;
        }
        match History::at_or_before(&self.ring, moment) {
            Ok(Some(found)) => self.past = Some(found),
            Ok(None) => self.trouble = Some("nothing earlier is kept".to_owned()),
            Err(error) => self.trouble = Some(error.to_string()),
        }
    }

    /// Goes far back from a stretch, or to the oldest that is kept.
    fn far_back(&mut self, from: Timestamp) {
        self.back_to(from.minus(FAR));
        if self.trouble.is_none() {
            return;
        }
        match History::at_or_after(&self.ring, Timestamp(i64::MIN)) {
            Ok(Some((history, place))) if history.slots[place].start < from => {
                (self.past, self.trouble) = (Some((history, place)), None);
            }
            Ok(_) => {}
            Err(error) => self.trouble = Some(error.to_string()),
        }
    }

    /// Goes to the first stretch that begins at a moment or after; where there is none, to now.
    fn on_to(&mut self, moment: Timestamp) {
        let Some((history, place)) = &mut self.past else { return };
        if let Some(found) = history.slots.iter().position(|slot| slot.start >= moment) {
            *place = found;
            return;
        }
        match History::at_or_after(&self.ring, moment) {
            Ok(found) => self.past = found,
            Err(error) => self.trouble = Some(error.to_string()),
        }
    }

    fn travel(&mut self, by: Step) {
        let Some(start) = self.shown().map(|(history, place)| history.slots[place].start) else {
            self.trouble = Some("there is nothing to look at yet".to_owned());
            return;
        };
        let near = Duration::from_micros(1);
        match by {
            Step::Pause => self.back_to(start),
            Step::Back => self.back_to(start.minus(near)),
            Step::FarBack => self.far_back(start),
            Step::On => self.on_to(start.plus(near)),
            Step::FarOn => self.on_to(start.plus(FAR)),
            Step::Now => self.past = None,
        }
    }

    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char(letter) => self.filter.push(letter),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => (self.is_typing, self.filter) = (false, String::new()),
            _ => {}
        }
        self.first = 0;
    }
}

/// A step through time.
#[derive(Debug, Clone, Copy)]
enum Step {
    Pause,
    Back,
    FarBack,
    On,
    FarOn,
    Now,
}

impl View for Monitor {
    fn draw(&self, frame: &mut Frame<'_>, stopping: bool, paint: Paint) {
        draw::draw(self, frame, stopping, paint);
    }

    fn key(&mut self, key: KeyCode) -> bool {
        self.has_changed = true;
        self.trouble = None;
        if self.shows_help {
            self.shows_help = false;
            return true;
        }
        if self.is_typing {
            self.type_filter(key);
            return true;
        }
        match key {
            KeyCode::Char('?' | 'h') => self.shows_help = true,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Tab => (self.subject, self.first) = (self.subject.next(1), 0),
            KeyCode::BackTab => (self.subject, self.first) = (self.subject.next(3), 0),
            KeyCode::Char('>' | '.') => self.sort_by(true),
            KeyCode::Char('<' | ',') => self.sort_by(false),
            KeyCode::Char('r' | 'R') => {
                let sort = &mut self.sorts[usize::from(self.subject == Subject::Tables)];
                sort.is_reversed = !sort.is_reversed;
            }
            KeyCode::Char(' ') if self.past.is_some() => self.travel(Step::Now),
            KeyCode::Char(' ') => self.travel(Step::Pause),
            KeyCode::Left | KeyCode::Char('[') => self.travel(Step::Back),
            KeyCode::Right | KeyCode::Char(']') => self.travel(Step::On),
            KeyCode::Char('{') => self.travel(Step::FarBack),
            KeyCode::Char('}') => self.travel(Step::FarOn),
            KeyCode::End => self.travel(Step::Now),
            KeyCode::Down | KeyCode::Char('j') => self.scroll_to(self.first + 1),
            KeyCode::Up | KeyCode::Char('k') => self.first = self.first.saturating_sub(1),
            KeyCode::PageDown => self.scroll_to(self.first + PAGE),
            KeyCode::PageUp => self.first = self.first.saturating_sub(PAGE),
            KeyCode::Home => self.first = 0,
            KeyCode::Esc if !self.filter.is_empty() => self.filter.clear(),
            KeyCode::Esc if self.past.is_some() => self.travel(Step::Now),
            _ => return false,
        }
        true
    }

    fn has_changed(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }
}

#[cfg(test)]
mod tests;
