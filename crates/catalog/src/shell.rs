//! Words as a shell has them. One line of a file of shell assignments is read without a
//! shell: quotes and escapes are taken out, and what only a shell could work out is refused.

use thiserror::Error;

/// What a line holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ShellLine {
    /// Nothing, or a comment.
    Blank,
    /// `KEY=value`.
    Assignment {
        /// Key.
        key: String,
        /// Value, without quotes and escapes.
        value: String,
        /// The comment behind it, with its `#`.
        comment: Option<String>,
    },
}

/// Why a line is none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum ShellError {
    #[error("it is no assignment: write KEY=value")]
    NoAssignment,
    #[error("there is a blank beside the equals sign: write KEY=value")]
    BlankBeside,
    #[error("a quote is not closed on its line")]
    Quote,
    #[error("it needs a shell ({0}): write the value itself")]
    NeedsShell(&'static str),
    #[error("\"{0}\" is left over after the value: put the value in quotes")]
    LeftOver(String),
    #[error("it holds a control character")]
    Control,
}

/// Reads one line, without its line feed.
pub(crate) fn parse(line: &str) -> Result<ShellLine, ShellError> {
    let line = line.strip_suffix('\r').unwrap_or(line);
    let rest = line.trim_start_matches([' ', '\t']);
    if rest.is_empty() || rest.starts_with('#') {
        return Ok(ShellLine::Blank);
    }
    if rest.chars().any(|c| c.is_control() && c != '\t') {
        return Err(ShellError::Control);
    }
    let exported = rest.strip_prefix("export").filter(|after| after.starts_with([' ', '\t']));
    let rest = exported.map_or(rest, |after| after.trim_start_matches([' ', '\t']));
    let end = rest
        .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .ok_or(ShellError::NoAssignment)?;
    let (key, rest) = rest.split_at(end);
    if key.is_empty() || key.starts_with(|c: char| c.is_ascii_digit()) {
        return Err(ShellError::NoAssignment);
    }
    let Some(text) = rest.strip_prefix('=') else {
        let beside = rest.trim_start().starts_with('=');
        return Err(if beside { ShellError::BlankBeside } else { ShellError::NoAssignment });
    };
    let (value, rest) = word(text)?;
    let after = rest.trim_start_matches([' ', '\t']);
    if after.is_empty() {
        return Ok(ShellLine::Assignment { key: key.to_owned(), value, comment: None });
    }
    // A # begins a comment only after a blank; word() has taken any other.
    if !after.starts_with('#') {
        if value.is_empty() && !text.starts_with(['"', '\'']) {
            return Err(ShellError::BlankBeside);
        }
        return Err(ShellError::LeftOver(after.chars().take(40).collect()));
    }
    let comment = Some(after.trim_end().to_owned());
    Ok(ShellLine::Assignment { key: key.to_owned(), value, comment })
}

/// The value and what follows it.
fn word(text: &str) -> Result<(String, &str), ShellError> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            ' ' | '\t' => return Ok((value, &text[at..])),
            '\'' => loop {
                match chars.next() {
                    None => return Err(ShellError::Quote),
                    Some((_, '\'')) => break,
                    Some((_, inside)) => value.push(inside),
                }
            },
            '"' => loop {
                match chars.next() {
                    None => return Err(ShellError::Quote),
                    Some((_, '"')) => break,
                    Some((_, '\\')) => match chars.next() {
                        None => return Err(ShellError::Quote),
                        Some((_, escaped @ ('"' | '\\' | '$' | '`'))) => value.push(escaped),
                        Some((_, other)) => value.extend(['\\', other]),
                    },
                    Some((_, '$')) => return Err(ShellError::NeedsShell("a variable")),
                    Some((_, '`')) => return Err(ShellError::NeedsShell("a command")),
                    Some((_, inside)) => value.push(inside),
                }
            },
            '\\' => match chars.next() {
                None => return Err(ShellError::NeedsShell("a line that goes on")),
                Some((_, escaped)) => value.push(escaped),
            },
            '$' => return Err(ShellError::NeedsShell("a variable")),
            '`' => return Err(ShellError::NeedsShell("a command")),
            // In an assignment a shell looks for it also behind a colon.
            '~' if at == 0 || text[..at].ends_with(':') => {
                return Err(ShellError::NeedsShell("a home directory"));
            }
            '(' | ')' => return Err(ShellError::NeedsShell("a list")),
            '|' | '&' | ';' | '<' | '>' => return Err(ShellError::NeedsShell("a command")),
            plain => value.push(plain),
        }
    }
    Ok((value, ""))
}

/// Whether a shell takes the character for itself, outside quotes and anywhere in a word.
fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_./:,@%+=-".contains(c)
}

/// A word of a command as a shell reads it back: bare where it can be, else in single
/// quotes, in which nothing has a meaning.
pub fn shell_word(word: &str) -> String {
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The value of an assignment as a shell reads it back: bare where it can be, else in double
/// quotes, as configuration files have them.
pub(crate) fn quote(value: &str) -> String {
    if value.chars().all(is_plain) {
        return value.to_owned();
    }
    let mut quoted = String::with_capacity(value.len() + 2);
    quoted.push('"');
    for c in value.chars() {
        if ['"', '\\', '$', '`'].contains(&c) {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(line: &str) -> Result<String, ShellError> {
        match parse(line)? {
            ShellLine::Assignment { value, .. } => Ok(value),
            ShellLine::Blank => Ok("(blank)".to_owned()),
        }
    }

    #[test]
    fn words_are_quoted_as_a_shell_needs_them() {
        assert_eq!(shell_word("a.sql@3"), "a.sql@3");
        assert_eq!(shell_word("two words"), "'two words'");
        assert_eq!(shell_word("it's"), r"'it'\''s'");
    }

    #[test]
    fn lines_are_read_as_a_shell_reads_them() {
        for (line, expected) in [
            ("A=1", "1"),
            ("  export A=1\r", "1"),
            ("A='it'\\''s'", "it's"),
            ("A=4096\\ 87380", "4096 87380"),
            ("A=", ""),
            ("A=b#c", "b#c"),
            ("A=b # c", "b"),
            ("A=*", "*"),
            ("# A=1", "(blank)"),
        ] {
            assert_eq!(value(line).as_deref(), Ok(expected), "{line}");
        }
        assert_eq!(value(r#"A="a \"b\" \\ \x""#).as_deref(), Ok(r#"a "b" \ \x"#));
        let ShellLine::Assignment { comment, .. } = parse("A='x'  # why ").unwrap() else {
            panic!("an assignment")
        };
        assert_eq!(comment.as_deref(), Some("# why"));
    }

    #[test]
    fn what_only_a_shell_could_know_is_refused() {
        for (line, error) in [
            ("A=$B", ShellError::NeedsShell("a variable")),
            ("A=\"$(nproc)\"", ShellError::NeedsShell("a variable")),
            ("A=`nproc`", ShellError::NeedsShell("a command")),
            ("A=(1 2)", ShellError::NeedsShell("a list")),
            ("A=~/data", ShellError::NeedsShell("a home directory")),
            ("A=/bin:~me/bin", ShellError::NeedsShell("a home directory")),
            ("A=1; rm x", ShellError::NeedsShell("a command")),
            ("A = 1", ShellError::BlankBeside),
            ("A= 1", ShellError::BlankBeside),
            ("A=1 2", ShellError::LeftOver("2".to_owned())),
            ("A='x", ShellError::Quote),
            ("source other.env", ShellError::NoAssignment),
            ("1A=2", ShellError::NoAssignment),
            ("A=\u{1b}[31m", ShellError::Control),
        ] {
            assert_eq!(parse(line), Err(error), "{line}");
        }
        assert_eq!(value("A='$HOME'").as_deref(), Ok("$HOME"));
        assert_eq!(value("A='~/data'").as_deref(), Ok("~/data"));
        assert_eq!(value("A=data~").as_deref(), Ok("data~"));
    }

    proptest! {
        #[test]
        fn no_line_brings_it_down(line in "\\PC{0,60}") {
            let _ = parse(&line);
        }

        #[test]
        fn a_value_comes_back(value in "\\PC{0,40}", behind in prop::bool::ANY) {
            let line = format!("KEY={}{}", quote(&value), if behind { " # why" } else { "" });
            let comment = behind.then(|| "# why".to_owned());
            let key = "KEY".to_owned();
            prop_assert_eq!(parse(&line), Ok(ShellLine::Assignment { key, value, comment }));
        }
    }
}
