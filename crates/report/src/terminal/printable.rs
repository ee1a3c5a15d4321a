//! Text from outside on a terminal: what would act on it is shown instead.
//!
//! A server, a file or a script may hold letters that move the cursor, rename the window,
//! send keys or turn the order of letters around. Whatever this tool prints passes through
//! here.

use std::borrow::Cow;
use std::fmt::Write;

use super::style::Ansi;

/// Whether a terminal acts on this letter or does not show it: controls (C0, DEL and C1), what
/// sets the direction of writing, and what takes no room. Ends of lines and tabs are no such.
fn acts(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}' => true,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' => true,
        c => c.is_control(),
    }
}

/// The text with all that would act on a terminal written as `\x1b` or `\u202e`. Ends of
/// lines and tabs stay.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        let code = u32::from(c);
        // Writing to a string cannot fail.
        let _ = match (acts(c), code) {
            (false, _) => out.write_char(c),
            (true, ..=0xff) => write!(out, "\\x{code:02x}"),
            (true, _) => write!(out, "\\u{code:04x}"),
        };
    }
    Cow::Owned(out)
}

/// The same on one line.
pub(crate) fn one_line(text: &str) -> String {
    printable(text).replace(['\n', '\t'], " ")
}

/// A text that [`Style`](super::Style) painted: its colours stay, and all else is as
/// [`printable`] has it.
pub fn printable_painted(text: &str) -> String {
    const BEGINS: &str = "\x1b[";
    let mut out = String::with_capacity(text.len());
    let mut pieces = text.split(BEGINS);
    out.push_str(&printable(pieces.next().unwrap_or_default()));
    for piece in pieces {
        match piece.split_once('m') {
            Some((code, rest)) if is_paint(code) => {
                let _ = write!(out, "{BEGINS}{code}m{}", printable(rest));
            }
            _ => {
                out.push_str(&printable(BEGINS));
                out.push_str(&printable(piece));
            }
        }
    }
    out
}

/// Whether a style paints so.
fn is_paint(code: &str) -> bool {
    let code = code.strip_prefix("1;").unwrap_or(code);
    code == "0" || Ansi::ALL.iter().any(|ansi| ansi.code() == code)
}

/// JSON with the letters that would act on a terminal escaped, as JSON allows for every
/// letter; they can only stand within strings.
pub fn printable_json(text: &str) -> Cow<'_, str> {
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if acts(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_is_shown() {
        assert_eq!(printable("caf\u{e9} 5 µs\n\tname"), "café 5 µs\n\tname");
        assert_eq!(
            printable("\x1b]0;title\x07\r\u{9b}31m\x7f"),
            r"\x1b]0;title\x07\x0d\x9b31m\x7f"
        );
        assert_eq!(
            printable("a\u{202e}b\u{200b}c\u{2066}\u{feff}"),
            r"a\u202eb\u200bc\u2066\ufeff"
        );
        assert_eq!(one_line("a\nb\tc\x1b"), r"a b c\x1b");
    }

    #[test]
    fn paint_stays_and_other_sequences_do_not() {
        let painted = "\x1b[1;31mred\x1b[0m \x1b[2mfaint\x1b[0m";
        assert_eq!(printable_painted(painted), painted);
        assert_eq!(printable_painted("\x1b[8mhidden\x1b[2J"), r"\x1b[8mhidden\x1b[2J");
        assert_eq!(printable_painted("\x1b[1;8mx\x1b\x1b[0m"), "\\x1b[1;8mx\\x1b\x1b[0m");
        assert_eq!(printable_painted("\x1b]0;m\x1b["), r"\x1b]0;m\x1b[");
    }

    #[test]
    fn json_says_the_same_in_letters_that_do_nothing() {
        let value = serde_json::json!({ "a\u{9b}": "b\x7f\u{202e}\u{e0041}\x1b\n" });
        let text = value.to_string();
        let shown = printable_json(&text);
        assert!(!shown.contains(acts), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
