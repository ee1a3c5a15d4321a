//! The last messages of a live view.

use std::collections::VecDeque;

use ratatui::layout::Rect;
use ratatui::prelude::{Frame, Line};
use ratatui::widgets::{Block, Paragraph};
use walwright_report::terminal::printable;

use super::screen::Paint;

/// Most that are kept.
const KEPT: usize = 50;

/// Messages, latest last.
#[derive(Debug, Default)]
pub struct Messages(VecDeque<String>);

impl Messages {
    /// Adds one. What a server says must not act on the terminal it is shown on.
    pub fn push(&mut self, text: &str) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(printable(text).into_owned());
    }

    /// Draws as many of the last ones as there is room for, below a title.
    pub fn draw(&self, frame: &mut Frame<'_>, area: Rect, paint: Paint) {
        let room = usize::from(area.height.saturating_sub(1));
        let last = self.0.iter().rev().take(room).rev();
        let lines: Vec<Line<'_>> = last.map(|text| Line::raw(text.as_str())).collect();
        let block = Block::default().title(paint.title("events and warnings"));
        frame.render_widget(Paragraph::new(lines).block(block), area);
    }
}
