//! Errors in scripts: where, what, and what to do.

use std::fmt;

use strsim::damerau_levenshtein;

/// A place in a script, both counted from 1; the column counts characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Line.
    pub line: u32,
    /// Character in the line.
    pub column: u32,
}

/// A script that cannot be run, with the place of the fault.
///
/// Its text names file, line and column, then shows the line with a caret
/// under the fault, then says what to do where that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptError {
    /// File name, or the name of a built-in script.
    pub script: String,
    /// Where in the script, when the fault has a place.
    pub position: Option<Position>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The line at fault.
    pub excerpt: Option<String>,
}

impl ScriptError {
    /// An error about a script as a whole.
    pub(crate) fn whole(script: &str, message: impl Into<String>) -> Self {
        ScriptError {
            script: script.to_owned(),
            position: None,
            message: message.into(),
            hint: None,
            excerpt: None,
        }
    }

    /// An error at a byte offset of `text`.
    pub(crate) fn at(script: &str, text: &str, offset: usize, fault: Fault) -> Self {
        let (position, line) = locate(text, offset);
        ScriptError {
            script: script.to_owned(),
            position: Some(position),
            message: fault.message,
            hint: fault.hint,
            excerpt: Some(line.to_owned()),
        }
    }
}

impl std::error::Error for ScriptError {}

/// Width at which a long line is cut around the fault.
const EXCERPT_WIDTH: usize = 100;

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.script)?;
        if let Some(position) = self.position {
            write!(f, ":{}:{}", position.line, position.column)?;
        }
        write!(f, ": {}", self.message)?;
        if let (Some(excerpt), Some(position)) = (&self.excerpt, self.position) {
            let column = position.column as usize - 1;
            let from = column.saturating_sub(EXCERPT_WIDTH / 2);
            // A tab is one character here, so the caret keeps its place.
            let shown: String = excerpt
                .chars()
                .skip(from)
                .take(EXCERPT_WIDTH)
                .map(|c| if c.is_control() { ' ' } else { c })
                .collect();
            let number = position.line.to_string();
            write!(f, "\n  {number} | {shown}")?;
            let indent = number.len() + 5 + (column - from);
            write!(f, "\n{:indent$}^", "")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n  {hint}")?;
        }
        Ok(())
    }
}

/// What is wrong, before the place in the file is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub message: String,
    pub hint: Option<String>,
}

impl Fault {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Fault { message: message.into(), hint: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// A fault at a byte offset of the script.
pub(crate) type Located = (usize, Fault);

/// Line, column and text of the line at a byte offset.
pub(crate) fn locate(text: &str, offset: usize) -> (Position, &str) {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    let before = &text[..offset];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = text[line_start..].split(['\n', '\r']).next().unwrap_or("");
    let position = Position {
        line: before.matches('\n').count() as u32 + 1,
        column: text[line_start..offset].chars().count() as u32 + 1,
    };
    (position, line)
}

/// The candidate that `word` was probably meant to be, if one is close: a third of its letters
/// left out, added, wrong or swapped, without regard to case.
pub fn closest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    // Long words are not typing mistakes, and the work grows with them.
    if length > 64 {
        return None;
    }
    let (word, limit) = (word.to_lowercase(), (length / 3).max(1));
    candidates
        .into_iter()
        .map(|candidate| (damerau_levenshtein(&word, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_the_place_and_the_line() {
        let text = "SELECT 1;\n\\set aid randm(1, 10)\n";
        let offset = text.find("randm").unwrap();
        let fault = Fault::new("unknown function \"randm\"").hint("did you mean random?");
        let error = ScriptError::at("a.sql", text, offset, fault);
        assert_eq!(
            error.to_string(),
            "a.sql:2:10: unknown function \"randm\"\n  2 | \\set aid randm(1, 10)\n               ^\n  did you mean random?"
        );
    }

    #[test]
    fn columns_count_characters_not_bytes() {
        let text = "SELECT 'häß', :x";
        let (position, _) = locate(text, text.find(":x").unwrap());
        assert_eq!(position.column, 15);
    }

    #[test]
    fn a_close_name_is_suggested_and_a_far_one_is_not() {
        let names = ["random", "random_zipfian", "hash"];
        assert_eq!(closest("randm", names), Some("random"));
        assert_eq!(closest("HSAH", names), Some("hash"));
        assert_eq!(closest("hsh", names), Some("hash"));
        assert_eq!(closest("nothing", names), None);
    }
}
