//! Charts as SVG text: pure functions from typed series to strings.
//!
//! Colours are classes (see [`Ink`]), so that one picture serves light, dark and
//! paper. Everything from outside is escaped here, by [`escape`].

mod axis;
mod course;
pub(crate) mod curves;
mod distribution;
pub(crate) mod forest;
pub(crate) mod heat;
mod label;
mod map;
pub(crate) mod overlay;
mod panel;
mod scale;
pub(crate) mod scaling;
mod series;
mod sparkline;
mod thin;
mod timeline;
mod unit;

use std::fmt::Write;

pub(crate) use course::{Course, CourseMark, Measured};
pub(crate) use distribution::{Mark, histogram, percentile_curve};
pub(crate) use map::map;
pub(crate) use panel::{Marks, Panel, Rule, Track};
pub use series::Series;
pub(crate) use sparkline::sparkline;
pub(crate) use thin::{Point, mean};
pub(crate) use timeline::{Note, NoteKind, Span, SpanKind, TimeFrame, Timeline};
pub(crate) use unit::Unit;

/// A role that has a colour of its own, the same in all charts and tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ink {
    Cpu,
    RunQueue,
    Flush,
    FlushQueue,
    Replication,
    Io,
    Lock,
    LwLock,
    Client,
    Other,
    /// The figure a chart is about.
    Main,
    /// What stands beside it.
    Second,
    P50,
    P95,
    P99,
    P999,
    Max,
    /// Failures.
    Alarm,
    /// Context, such as an offered rate.
    Quiet,
    /// Time that nothing was seen of.
    Outside,
}

impl Ink {
    /// The CSS class that sets its colour.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Ink::Cpu => "i-cpu",
            Ink::RunQueue => "i-run-queue",
            Ink::Flush => "i-flush",
            Ink::FlushQueue => "i-queue",
            Ink::Replication => "i-replication",
            Ink::Io => "i-io",
            Ink::Lock => "i-lock",
            Ink::LwLock => "i-lwlock",
            Ink::Client => "i-client",
            Ink::Other => "i-other",
            Ink::Main => "i-main",
            Ink::Second => "i-second",
            Ink::P50 => "i-p50",
            Ink::P95 => "i-p95",
            Ink::P99 => "i-p99",
            Ink::P999 => "i-p999",
            Ink::Max => "i-max",
            Ink::Alarm => "i-alarm",
            Ink::Quiet => "i-quiet",
            Ink::Outside => "i-outside",
        }
    }
}

/// Text that is safe between tags and in quoted attributes.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // XML allows no other control characters, not even escaped.
            c if c.is_control() && !matches!(c, '\n' | '\t') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Writes to a string, which cannot fail.
macro_rules! put {
    ($out:expr, $($arg:tt)*) => {{ let _ = write!($out, $($arg)*); }};
}
use put;

/// A coordinate: a tenth of a pixel is finer than any screen.
fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}

/// A piece of text in a picture.
fn text(out: &mut String, x: f64, y: f64, class: &str, content: &str) {
    put!(out, r#"<text x="{}" y="{}" class="{class}">{}</text>"#, px(x), px(y), escape(content));
}

/// A straight line.
fn line(out: &mut String, from: (f64, f64), to: (f64, f64), class: &str) {
    put!(
        out,
        r#"<line x1="{}" y1="{}" x2="{}" y2="{}" class="{class}"/>"#,
        px(from.0),
        px(from.1),
        px(to.0),
        px(to.1)
    );
}

/// A rectangle from corner to corner.
fn rect(out: &mut String, from: (f64, f64), to: (f64, f64), class: &str) {
    put!(
        out,
        r#"<rect x="{}" y="{}" width="{}" height="{}" class="{class}"/>"#,
        px(from.0),
        px(from.1),
        px((to.0 - from.0).max(0.0)),
        px((to.1 - from.1).max(0.0))
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_becomes_markup() {
        assert_eq!(
            escape("<script>\"a\" & 'b'\u{0}</script>"),
            "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;\u{fffd}&lt;/script&gt;"
        );
        let mut out = String::new();
        text(&mut out, 1.0, 2.25, "t", "a<b");
        assert_eq!(out, r#"<text x="1" y="2.2" class="t">a&lt;b</text>"#);
    }
}
