//! Width, colours and letters of a terminal.

use super::printable::one_line;

/// How a terminal is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Columns.
    pub width: usize,
    /// Whether ANSI colours are used.
    pub colour: bool,
    /// Whether letters beyond ASCII are used.
    pub unicode: bool,
}

/// Narrower than this a summary cannot be laid out; a terminal wraps it then.
const NARROWEST: usize = 60;
/// Wider than this text is hard to read.
const WIDEST: usize = 100;

/// ANSI attributes; the terminal's own palette decides what they look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ansi {
    Bold,
    Faint,
    Red,
    Green,
    Yellow,
    Blue,
    Magenta,
    Cyan,
}

impl Ansi {
    pub(super) const ALL: [Ansi; 8] = [
        Ansi::Bold,
        Ansi::Faint,
        Ansi::Red,
        Ansi::Green,
        Ansi::Yellow,
        Ansi::Blue,
        Ansi::Magenta,
        Ansi::Cyan,
    ];

    pub(super) fn code(self) -> &'static str {
        match self {
            Ansi::Bold => "1",
            Ansi::Faint => "2",
            Ansi::Red => "31",
            Ansi::Green => "32",
            Ansi::Yellow => "33",
            Ansi::Blue => "34",
            Ansi::Magenta => "35",
            Ansi::Cyan => "36",
        }
    }
}

impl Style {
    /// The style for a terminal of `width` columns. Letters beyond ASCII are used
    /// unless the locale names another character set than UTF-8 or the terminal
    /// calls itself dumb. No locale at all is common in containers, whose
    /// terminals do understand UTF-8.
    pub fn for_terminal(width: usize, colour: bool) -> Style {
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
        let dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
        let unicode = !dumb && locale.is_none_or(|l| understands_unicode(&l));
        Style { width: width.clamp(NARROWEST, WIDEST), colour, unicode }
    }

    pub(crate) fn paint(&self, ansi: Ansi, text: &str) -> String {
        self.sequence(ansi.code(), text)
    }

    pub(crate) fn paint_bold(&self, ansi: Ansi, text: &str) -> String {
        self.sequence(&format!("1;{}", ansi.code()), text)
    }

    fn sequence(&self, code: &str, text: &str) -> String {
        if self.colour && !text.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    /// Breaks text between words into lines that fit after `indent` columns.
    /// At least one line, also of nothing.
    pub(crate) fn wrap(&self, text: &str, indent: usize) -> Vec<String> {
        let text = one_line(text);
        self.fill(words(&text).into_iter(), " ", indent)
    }

    /// Text wrapped and painted, each line behind `indent` blanks.
    pub(super) fn indented(&self, text: &str, indent: usize, ansi: Option<Ansi>) -> Vec<String> {
        let painted = |line: String| match ansi {
            Some(ansi) => self.paint(ansi, &line),
            None => line,
        };
        let lines = self.wrap(text, indent).into_iter();
        lines.map(|line| format!("{:indent$}{}", "", painted(line))).collect()
    }

    /// Puts pieces in a row, broken only between them.
    pub(super) fn join(&self, pieces: &[String], between: &str, indent: usize) -> Vec<String> {
        let pieces: Vec<String> = pieces.iter().map(|p| one_line(p)).collect();
        self.fill(pieces.iter().map(String::as_str), between, indent)
    }

    fn fill<'a>(
        &self,
        pieces: impl Iterator<Item = &'a str>,
        between: &str,
        indent: usize,
    ) -> Vec<String> {
        fill(pieces, between, self.width.saturating_sub(indent).max(20))
    }

    /// The lines as one text, in letters the terminal has.
    pub(crate) fn finish(&self, lines: &[String]) -> String {
        let mut text = lines.join("\n");
        text.push('\n');
        if self.unicode { text } else { ascii(&text) }
    }
}

/// Puts pieces into lines of `room` columns; one that is wider has a line of its own.
fn fill<'a>(pieces: impl Iterator<Item = &'a str>, between: &str, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for piece in pieces {
        match lines.last_mut() {
            Some(line) if columns(line) + columns(between) + columns(piece) <= room => {
                line.push_str(between);
                line.push_str(piece);
            }
            Some(line) => {
                line.push_str(between.trim_end());
                line.truncate(line.trim_end().len());
                lines.push(piece.trim_start().to_owned());
            }
            None => lines.push(piece.to_owned()),
        }
    }
    lines
}

/// Rows as lines that fit `room` columns together: the widest columns are broken between
/// words, as far as their longest word allows. `right` says which columns end alike.
pub(super) fn laid_out(rows: &[Vec<String>], right: &[bool], room: usize) -> Vec<Vec<String>> {
    const BETWEEN: usize = 2;
    let each = |measure: &dyn Fn(&str) -> usize| -> Vec<usize> {
        let widest = |place: usize| {
            let cells = rows.iter().filter_map(|row| row.get(place));
            cells.map(|cell| measure(cell)).max().unwrap_or_default()
        };
        (0..right.len()).map(widest).collect()
    };
    let least = each(&|cell| words(cell).iter().map(|word| columns(word)).max().unwrap_or(0));
    let mut widths = each(&columns);
    let room = room.saturating_sub(BETWEEN * right.len().saturating_sub(1));
    while widths.iter().sum::<usize>() > room {
        let spare = |place: &usize| widths[*place] > least[*place];
        let widest = (0..widths.len()).filter(spare).max_by_key(|place| widths[*place]);
        let Some(place) = widest else { break };
        widths[place] -= 1;
    }
    let lines_of = |row: &Vec<String>| {
        let cells: Vec<Vec<String>> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| fill(words(cell).into_iter(), " ", *width))
            .collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or_default();
        let line = |number: usize| {
            let parts = cells.iter().zip(&widths).zip(right).map(|((cell, width), right)| {
                let text = cell.get(number).map_or("", String::as_str);
                let pad = " ".repeat(width.saturating_sub(columns(text)));
                if *right { format!("{pad}{text}") } else { format!("{text}{pad}") }
            });
            parts.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        (0..height).map(line).collect()
    };
    rows.iter().map(lines_of).collect()
}

/// Text whose lines of more than `width` columns are broken between words. What is broken
/// off stands below the beginning of its line; every other line stays as it is.
pub fn fit(text: &str, width: usize) -> String {
    let style = Style { width, colour: false, unicode: true };
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let body = line.trim_end_matches('\n');
        if columns(body) <= width {
            out.push_str(line);
            continue;
        }
        let rest = body.trim_start_matches(' ');
        let indent = (body.len() - rest.len()).min(width / 2);
        let lines = style.fill(words(rest).into_iter(), " ", indent);
        let lines: Vec<String> = lines.iter().map(|l| format!("{:indent$}{l}", "")).collect();
        out.push_str(&lines.join("\n"));
        out.push_str(&line[body.len()..]);
    }
    out
}

/// Words, a number and its unit being one.
fn words(text: &str) -> Vec<&str> {
    const UNITS: [&str; 10] = ["%", "s", "ms", "µs", "min", "h", "B", "kB", "MB", "GB"];
    let mut words = Vec::new();
    let mut start = 0;
    for (at, _) in text.match_indices(' ') {
        let next = text[at + 1..].split(' ').next().unwrap_or_default();
        let unit = UNITS.contains(&next.trim_end_matches([',', '.', ';', ')', ']']));
        let number = text[start..at].ends_with(|c: char| c.is_ascii_digit());
        if !(unit && number) {
            words.push(&text[start..at]);
            start = at + 1;
        }
    }
    words.push(&text[start..]);
    words
}

fn understands_unicode(locale: &str) -> bool {
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Columns a text takes, its colours left out.
pub(super) fn columns(text: &str) -> usize {
    let mut painted = text.split("\x1b[");
    let first = painted.next().unwrap_or_default().chars().count();
    let after = |rest: &str| rest.split_once('m').map_or(0, |(_, shown)| shown.chars().count());
    first + painted.map(after).sum::<usize>()
}

/// The nearest ASCII for what our own texts use, `?` for anything else.
fn ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            'µ' => out.push('u'),
            '±' => out.push_str("+/-"),
            '−' | '–' => out.push('-'),
            '…' => out.push_str("..."),
            '→' => out.push_str("->"),
            '×' => out.push('x'),
            'λ' => out.push_str("lambda"),
            'σ' => out.push_str("sigma"),
            'κ' => out.push_str("kappa"),
            c if c.is_ascii() => out.push(c),
            _ => out.push('?'),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Style = Style { width: 30, colour: false, unicode: true };

    #[test]
    fn lines_break_between_words_and_between_figures() {
        assert_eq!(
            PLAIN.wrap("aaaa bbbb cccc dddd eeee ffff", 5),
            ["aaaa bbbb cccc dddd eeee", "ffff"]
        );
        let figures = ["p50 1.2 ms", "p95 3.4 ms", "p99 5 ms"].map(str::to_owned);
        assert_eq!(PLAIN.join(&figures, ", ", 5), ["p50 1.2 ms, p95 3.4 ms,", "p99 5 ms"]);
        assert_eq!(PLAIN.wrap("", 5), [""]);
        assert_eq!(words("for 2 min, 5 in 10 s."), ["for", "2 min,", "5", "in", "10 s."]);
    }

    #[test]
    fn only_lines_that_are_too_long_are_broken_and_never_inside_a_word() {
        let text = "a  b\n  pairs of runs would settle it, 158 pairs\nend";
        assert_eq!(fit(text, 30), "a  b\n  pairs of runs would settle\n  it, 158 pairs\nend");
        let painted = "\x1b[1mexactly thirty columns of text\x1b[0m\n";
        assert_eq!(fit(painted, 30), painted);
    }

    #[test]
    fn escapes_from_outside_do_not_reach_the_terminal() {
        assert_eq!(PLAIN.wrap("a\x1b[31mb\nc", 0), [r"a\x1b[31mb c"]);
    }

    #[test]
    fn ascii_has_a_letter_for_all_of_ours() {
        assert_eq!(ascii("5 ± 1 µs − … → é"), "5 +/- 1 us - ... -> ?");
        let style = Style { unicode: false, ..PLAIN };
        assert_eq!(style.finish(&["±".to_owned()]), "+/-\n");
    }

    #[test]
    fn a_locale_of_another_character_set_is_believed() {
        assert!(understands_unicode("en_GB.UTF-8") && understands_unicode("C.utf8"));
        assert!(!understands_unicode("C") && !understands_unicode("de_DE.ISO-8859-1"));
    }
}
