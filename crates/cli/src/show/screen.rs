//! The terminal that a live view has to itself.
//!
//! A thread of its own draws a few times a second and reads the keyboard, so that
//! neither the work nor the terminal waits for the other.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::layout::Rect;
use ratatui::prelude::{Color, CrosstermBackend, Frame, Modifier, Span, Style, Terminal};
use ratatui::widgets::Paragraph;
use walwright_server::Stop;

use crate::output::exit;

/// Time between drawings.
const FRAME: Duration = Duration::from_millis(200);

/// What a live view shows.
pub trait View: Send + 'static {
    /// Draws it as it is now. Work that is `stopping` was asked to end.
    fn draw(&self, frame: &mut Frame<'_>, stopping: bool, paint: Paint);

    /// Takes a key; whether it was meant for the view. One that was not may end it.
    fn key(&mut self, _key: KeyCode) -> bool {
        false
    }

    /// Whether there is something new to draw since this was asked last. A view that is up for
    /// days draws no more often than that.
    fn has_changed(&mut self) -> bool {
        true
    }
}

/// Ends the view and gives the terminal back when dropped.
pub struct Guard {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Shows `view` on standard error's terminal until the guard goes. The keys ask `stop`.
pub fn show(view: Arc<Mutex<impl View>>, stop: Stop, paint: Paint) -> io::Result<Guard> {
    let screen = Screen::open()?;
    let over = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&over);
    let thread = std::thread::spawn(move || draw_until(screen, &*view, &ended, &stop, paint));
    Ok(Guard { over, thread: Some(thread) })
}

/// The terminal in raw mode on its alternate screen; given back when dropped.
struct Screen {
    terminal: Terminal<CrosstermBackend<io::Stderr>>,
}

impl Screen {
    fn open() -> io::Result<Screen> {
        enable_raw_mode()?;
        TAKEN.store(true, Ordering::Release);
        let opened = execute!(io::stderr(), EnterAlternateScreen)
            .and_then(|()| Terminal::new(CrosstermBackend::new(io::stderr())));
        match opened {
            Ok(terminal) => Ok(Screen { terminal }),
            Err(error) => {
                restore();
                Err(error)
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Whether a view has taken the terminal.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// Whether a view has taken the terminal.
pub fn is_taken() -> bool {
    TAKEN.load(Ordering::Acquire)
}

/// Gives the terminal back, if a view has taken it.
pub fn restore() {
    if TAKEN.swap(false, Ordering::AcqRel) {
        let _ = disable_raw_mode();
        let _ = execute!(io::stderr(), LeaveAlternateScreen, Show);
    }
}

fn draw_until(
    mut screen: Screen,
    view: &Mutex<impl View>,
    over: &AtomicBool,
    stop: &Stop,
    paint: Paint,
) {
    // Anything that comes from the terminal, its size too, is a reason to draw.
    let mut is_stale = true;
    while !over.load(Ordering::Relaxed) {
        let stopping = stop.is_requested();
        let mut held = view.lock().unwrap_or_else(PoisonError::into_inner);
        if held.has_changed() || is_stale || stopping {
            let drawn = screen.terminal.draw(|frame| held.draw(frame, stopping, paint));
            if drawn.is_err() {
                // The terminal is gone; the work goes on without a view.
                return;
            }
        }
        drop(held);
        is_stale = event::poll(FRAME).unwrap_or(false);
        if is_stale
            && let Ok(Event::Key(key)) = event::read()
            && key.kind == KeyEventKind::Press
        {
            let control_c =
                key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
            let taken =
                !control_c && view.lock().unwrap_or_else(PoisonError::into_inner).key(key.code);
            let ends = matches!(key.code, KeyCode::Char('q') | KeyCode::Esc);
            let leave = control_c || (ends && !taken);
            if leave && stop.is_requested() {
                // The terminal first: nothing runs after the exit. The server's guard
                // stops the server.
                drop(screen);
                std::process::exit(i32::from(exit::KILLED));
            }
            if leave {
                stop.request();
            }
        }
    }
}

/// Draws what the keys do. `kept` says what is not lost.
pub fn draw_keys(frame: &mut Frame<'_>, area: Rect, stopping: bool, kept: &str, paint: Paint) {
    let text = match stopping {
        true => format!("stopping, {kept}; once more leaves at once"),
        false => format!("q or Ctrl-C stops; {kept}"),
    };
    frame.render_widget(Paragraph::new(Span::styled(text, paint.faint())), area);
}

/// As much of a text as `width` columns hold, with a mark where it goes on.
pub fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept = text.chars().take(width.saturating_sub(1));
    kept.chain(['…']).take(width).collect()
}

/// Colours, or none.
#[derive(Clone, Copy)]
pub struct Paint {
    /// Whether there are colours.
    pub colour: bool,
}

impl Paint {
    /// Letters of a colour.
    pub fn fg(self, colour: Color) -> Style {
        if self.colour { Style::default().fg(colour) } else { Style::default() }
    }

    /// What matters less.
    pub fn faint(self) -> Style {
        Style::default().add_modifier(Modifier::DIM)
    }

    /// A title.
    pub fn title(self, text: &str) -> Span<'_> {
        Span::styled(text, Style::default().add_modifier(Modifier::BOLD))
    }
}
