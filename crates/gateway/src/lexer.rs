//! Where the statements of a text begin and end, by PostgreSQL's lexical rules (`scan.l`).
//!
//! One pass. The server reads a text by settings and in an encoding that are not known here:
//! where it might read something else, the text is said to be illegible, as one is in which
//! something does not close.

/// A statement of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statement<'a> {
    /// All of it, with comments before and in it, without the semicolon.
    pub text: &'a [u8],
    /// Its first two words, after parentheses; empty where something else stands there.
    pub words: [&'a [u8]; 2],
    /// What follows each of those, and begins with what stands there instead.
    pub behind: [&'a [u8]; 2],
    /// Whether it is certain how the server reads it; else it is all the rest of its text.
    pub legible: bool,
}

/// The statements of a text; blanks and comments alone are none.
pub fn statements(sql: &[u8]) -> Statements<'_> {
    Statements { rest: sql }
}

/// See [`statements`].
#[derive(Debug, Clone)]
pub struct Statements<'a> {
    rest: &'a [u8],
}

/// What a part of a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    /// Blanks or a comment.
    Blank,
    Word,
    Parenthesis,
    Semicolon,
    Other,
}

impl<'a> Iterator for Statements<'a> {
    type Item = Statement<'a>;

    fn next(&mut self) -> Option<Statement<'a>> {
        let sql = std::mem::take(&mut self.rest);
        let (mut words, mut ends) = ([&sql[..0]; 2], [usize::MAX; 2]);
        let (mut from, mut at, mut tokens) = (0, 0, 0);
        let mut legible = true;
        while at < sql.len() {
            let Some((token, end)) = token(sql, at) else {
                (legible, at) = (false, sql.len());
                break;
            };
            match token {
                Token::Blank => {}
                Token::Parenthesis if tokens == 0 => {}
                Token::Semicolon if tokens == 0 => from = end,
                Token::Semicolon => {
                    self.rest = &sql[end..];
                    break;
                }
                _ => {
                    if tokens < words.len() {
                        words[tokens] = if token == Token::Word { &sql[at..end] } else { b"" };
                        ends[tokens] = if token == Token::Word { end } else { at };
                    }
                    tokens += 1;
                }
            }
            at = end;
        }
        let behind = ends.map(|end| &sql[end.min(at)..at]);
        (tokens > 0 || !legible).then_some(Statement {
            text: &sql[from..at],
            words,
            behind,
            legible,
        })
    }
}

/// What stands at a place, and where it ends; `None` where that is not certain.
fn token(sql: &[u8], at: usize) -> Option<(Token, usize)> {
    let while_any = |from: usize, any: fn(u8) -> bool| {
        let rest = &sql[from..];
        from + rest.iter().position(|&byte| !any(byte)).unwrap_or(rest.len())
    };
    let is_digit = |byte: u8| byte.is_ascii_digit();
    Some(match sql[at..] {
        [byte, ..] if is_blank(byte) => (Token::Blank, at + 1),
        // Within what looks like an operator too.
        [b'-', b'-', ..] => (Token::Blank, line_end(sql, at + 2)),
        [b'/', b'*', ..] => (Token::Blank, comment_end(sql, at + 2)?),
        [b';', ..] => (Token::Semicolon, at + 1),
        [b'(', ..] => (Token::Parenthesis, at + 1),
        // Two quotes that stand for one part two strings here, which is the same.
        [b'\'', ..] => (Token::Other, string_end(sql, at + 1)?),
        [b'e' | b'E', b'\'', ..] => (Token::Other, escaped_end(sql, at + 2)?),
        [b'"', ..] => (Token::Other, at + 2 + find(&sql[at + 1..], b'"')?),
        // A name that may be any.
        [b'u' | b'U', b'&', b'"', ..] => return None,
        [b'$', b'0'..=b'9', ..] => (Token::Other, while_any(at + 1, is_digit)),
        [b'$', ..] => {
            let end = while_any(at + 1, |byte| is_word(byte) && byte != b'$');
            if sql.get(end) == Some(&b'$') {
                (Token::Other, dollar_end(sql, at, end + 1)?)
            } else if halves(sql, end) {
                return None;
            } else {
                (Token::Other, at + 1)
            }
        }
        [b'0'..=b'9', ..] => {
            let end = while_any(at, is_digit);
            // An exponent is no word, so that what follows it may begin one.
            let exponent = match sql[end..] {
                [b'e' | b'E', b'+' | b'-', b'0'..=b'9', ..] => while_any(end + 2, is_digit),
                [b'e' | b'E', b'0'..=b'9', ..] => while_any(end + 1, is_digit),
                _ => end,
            };
            (Token::Other, exponent)
        }
        [byte, ..] if is_word(byte) => {
            let end = while_any(at, is_word);
            if halves(sql, end) {
                return None;
            }
            (Token::Word, end)
        }
        _ => (Token::Other, at + 1),
    })
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0b' | b'\x0c')
}

/// Whether a byte belongs to a word; digits and `$` do not begin one.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || !byte.is_ascii()
}

fn find(text: &[u8], of: u8) -> Option<usize> {
    text.iter().position(|&byte| byte == of)
}

/// Whether the byte at a place may be the second half of a letter: in the encodings of East Asia
/// it may be ASCII.
fn halves(sql: &[u8], at: usize) -> bool {
    at > 0
        && !sql[at - 1].is_ascii()
        && sql.get(at).is_some_and(|byte| b"@[\\]^`{|}~".contains(byte))
}

/// Where a line ends: PostgreSQL takes either byte for that.
fn line_end(sql: &[u8], at: usize) -> usize {
    let ends = |byte: &u8| matches!(byte, b'\n' | b'\r');
    sql[at..].iter().position(ends).map_or(sql.len(), |length| at + length)
}

/// The end of a comment that has begun; they nest.
fn comment_end(sql: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 1;
    while depth > 0 {
        at += match sql.get(at..)? {
            [b'/', b'*', ..] => {
                depth += 1;
                2
            }
            [b'*', b'/', ..] => {
                depth -= 1;
                2
            }
            [_, ..] => 1,
            [] => return None,
        };
    }
    Some(at)
}

/// The end of a plain string that has begun. With `standard_conforming_strings` off a backslash
/// hides the quote behind it.
fn string_end(sql: &[u8], at: usize) -> Option<usize> {
    let length = find(&sql[at..], b'\'')?;
    let before = &sql[at..at + length];
    let backslashes = before.iter().rev().take_while(|byte| **byte == b'\\').count();
    let hides = backslashes % 2 == 1 || backslashes > 0 && halves(sql, at + length - backslashes);
    (!hides).then_some(at + length + 1)
}

/// The end of an `E'…'` that has begun.
fn escaped_end(sql: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *sql.get(at..)? {
            [b'\\', next, ..] => {
                if halves(sql, at) && (next == b'\\' || next == b'\'') {
                    return None;
                }
                at += 2;
            }
            [b'\'', b'\'', ..] => at += 2,
            [b'\'', ..] => {
                // On another line it goes on, with its escapes.
                let (mut next, mut lines) = (at + 1, false);
                loop {
                    match sql[next..] {
                        [b'-', b'-', ..] => next = line_end(sql, next + 2),
                        [byte, ..] if is_blank(byte) => {
                            lines |= matches!(byte, b'\n' | b'\r');
                            next += 1;
                        }
                        _ => break,
                    }
                }
                if !lines || sql.get(next) != Some(&b'\'') {
                    return Some(at + 1);
                }
                at = next + 1;
            }
            [_, _, ..] => at += 1,
            _ => return None,
        }
    }
}

/// The end of a string in dollars, of which this is the first tag.
fn dollar_end(sql: &[u8], from: usize, to: usize) -> Option<usize> {
    let tag = &sql[from..to];
    let mut at = to;
    loop {
        at += find(&sql[at..], b'$')?;
        if sql[at..].starts_with(tag) {
            return Some(at + tag.len());
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(sql: &str) -> Vec<(&str, bool)> {
        let text = |statement: Statement| {
            let from = statement.text.as_ptr() as usize - sql.as_ptr() as usize;
            (sql[from..from + statement.text.len()].trim(), statement.legible)
        };
        statements(sql.as_bytes()).map(text).collect()
    }

    #[test]
    fn what_hides_a_semicolon_and_what_does_not() {
        for (sql, count) in [
            ("", 0),
            (" ;; /* ; */ -- ;", 0),
            ("a;b;", 2),
            ("a -- it's\n; b", 2),
            ("--\ra;b", 2),
            ("a /* ' /* ; */ \" */; b", 2),
            ("a /*/ ; */; b", 2),
            ("a @-- ;\n; b", 2),
            ("a */*;*/; b", 2),
            ("a 1--;\r2; b", 2),
            ("a ';'';', \";\"\";\"; b", 2),
            ("a '\\;'; b", 2),
            ("a '\\\\'; b';'", 2),
            ("a E'\\';', e'\\\\'; b", 2),
            ("a E'x'';\\'' -- '\n ';\\'' ; b", 2),
            ("a E'x' ';'; b", 2),
            ("a ae';'; b", 2),
            ("a b';', x';', N';', U&';'; b", 2),
            ("a $$;'$$; b", 2),
            ("a $é_1$;$$;$é$;$é_1$; b", 2),
            ("a x$$;b$$", 2),
            ("a 1$$;$$, $1$$;$$; b", 2),
            ("a $1e2e';'; b", 2),
            ("a 1e5e'\\';'; b", 2),
            ("a $x, $e'\\';'; b", 2),
            ("a é[1]; b", 1),
            ("a é, b[1]; b", 2),
        ] {
            let read = read(sql);
            assert_eq!(read.len(), count, "{sql}: {read:?}");
            let legible = !sql.contains("é[");
            assert!(read.iter().all(|(_, of)| *of == legible), "{sql}: {read:?}");
        }
    }

    #[test]
    fn what_may_be_read_differently_or_does_not_close_is_illegible() {
        for sql in [
            "a 'x\\'; b",
            "a 'é\\\\'; b",
            "a E'é\\'; b",
            "a N'\\\\\\'",
            "a U&\"\\0061\"; b",
            "a $é|$",
            "a '",
            "a \"b;",
            "a E'\\'",
            "a E'b\\",
            "a E'b'\n'c",
            "a /* /* */",
            "a $$ $",
            "a $b$ $$ $c$ $B$",
            "'",
        ] {
            assert_eq!(read(sql), [(sql, false)], "{sql}");
        }
        assert_eq!(read("a; b '; c"), [("a", true), ("b '; c", false)]);
        // Half a letter of another encoding.
        let shift_jis = b"a E'\x95\x5c'; b '\x95'; c".to_vec();
        assert!(!statements(&shift_jis).all(|statement| statement.legible));
    }

    #[test]
    fn the_first_words_are_found_behind_comments_and_parentheses() {
        let words = |sql: &str| {
            let words = statements(sql.as_bytes()).next().unwrap().words;
            words.map(|word| String::from_utf8(word.to_vec()).unwrap())
        };
        for (sql, expected) in [
            ("/* a */ ( ( -- b\r select 1", ["select", ""]),
            ("set/**/local x", ["set", "local"]),
            ("SET\"local\"", ["SET", ""]),
            (";;a", ["a", ""]),
            ("'a' b", ["", "b"]),
            ("é_1$ b", ["é_1$", "b"]),
        ] {
            assert_eq!(words(sql), expected, "{sql}");
        }
    }

    #[test]
    fn a_long_text_is_read_once() {
        let open = ["/*;", "'a'';", "E'\\", "/* */--", "$a$b", "E'a'\n--", "$a", "$$;", "é$"];
        for piece in ["--;", ";", "$", "\"", "'", "(", "-", "/", "--\r;"].iter().chain(&open) {
            let text = piece.repeat(1024 * 1024 / piece.len());
            let bytes: usize =
                statements(text.as_bytes()).map(|statement| statement.text.len()).sum();
            assert!(bytes <= text.len(), "{piece}");
        }
    }

    /// Texts between quotes of each kind and in comments, with what could end them early.
    fn hidden() -> impl Strategy<Value = String> {
        let inside = prop::collection::vec(
            prop::sample::select(vec![
                ";", "'", "\"", "$", "$$", "$a", "--", "/*", "*/", "\\", "\n", "\r", "a", "E", " ",
                "é", "1", "SET x", "(", "U&",
            ]),
            0..8,
        );
        let wrap = |(kind, inside): (usize, Vec<&str>)| {
            let text = inside.concat();
            let doubled = text.replace('é', "e").replace('\\', "\\\\").replace('\'', "''");
            // Comments nest.
            let nested = |piece| match piece {
                "/*" => "/*;'*/",
                "*/" => "*;",
                other => other,
            };
            match kind {
                0 => format!("'{doubled}'"),
                1 => format!("\"{}\"", text.replace('"', "\"\"")),
                2 => format!("E'{}'", doubled.replace("''", "\\'")),
                3 => format!("e'{}'", text.replace(['\\', 'é'], "\\x").replace('\'', "''")),
                4 => format!("$b1${text}$b1$"),
                5 => format!("$${}$$", text.replace('$', "_")),
                6 => format!("/*{}*/", inside.iter().copied().map(nested).collect::<String>()),
                7 => format!("-- {}\r", text.replace(['\n', '\r'], " ")),
                8 => format!("--{}\n", text.replace(['\n', '\r'], " ")),
                _ => format!("N'{}'", text.replace(['\'', '\\'], "")),
            }
        };
        (0..10_usize, inside).prop_map(wrap)
    }

    proptest! {
        #[test]
        fn a_text_has_the_statements_that_it_was_made_of(
            made in prop::collection::vec(
                (
                    prop::collection::vec(hidden(), 0..3),
                    prop::sample::select(vec!["SELECT", "Set", "update", "x$1"]),
                    prop::collection::vec(
                        (
                            prop::sample::select(vec![" ", "\n", ",", "+", "@", "[", "1", " a$ ", "("]),
                            hidden(),
                        ),
                        0..5,
                    ),
                ),
                0..5,
            ),
            last in prop::sample::select(vec!["", ";", " ; ", "-- ;", "/*;*/"]),
        ) {
            let mut pieces = Vec::new();
            let mut words = Vec::new();
            for (before, word, after) in &made {
                // What stands before the first word is a comment.
                let before: String =
                    before.iter().filter(|of| of.starts_with(['-', '/'])).cloned().collect();
                let after: String =
                    after.iter().map(|(between, of)| format!("{between}{of}")).collect();
                pieces.push(format!("{before}{word} {after}"));
                words.push(word.as_bytes());
            }
            let text = pieces.join(";") + last;
            let read: Vec<_> = statements(text.as_bytes()).collect();
            for statement in &read {
                prop_assert!(statement.legible, "{text}");
            }
            let found: Vec<_> = read.iter().map(|statement| statement.words[0]).collect();
            prop_assert_eq!(found, words, "{}", text);
            for (statement, piece) in read.iter().zip(&pieces) {
                prop_assert!(statement.text.starts_with(piece.as_bytes()), "{text}");
            }
        }

        #[test]
        fn any_bytes_are_read(text in prop::collection::vec(
            prop::sample::select(b"aEu&'\"$-/*;\\\n\r (1\xe9\x95".to_vec()),
            0..60,
        )) {
            let mut whole = statements(&text).map(|statement| statement.text.len());
            prop_assert!(whole.by_ref().sum::<usize>() <= text.len());
        }
    }
}
