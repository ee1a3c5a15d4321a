//! Words and expression tokens of backslash commands.

use super::error::{Fault, Located};

/// A token of an expression with the byte offset where it starts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Token<'a> {
    pub kind: TokenKind<'a>,
    pub offset: usize,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum TokenKind<'a> {
    Int(i64),
    /// 2^63, which is valid only behind a unary minus.
    MaxIntPlusOne,
    Double(f64),
    Variable(&'a str),
    /// `'text'`, to compare a variable with; no quote stands in it.
    Text(&'a str),
    /// A function name or keyword.
    Word(&'a str),
    /// An operator or punctuation.
    Symbol(&'static str),
    End,
}

/// Longer symbols first, so that `<=` is not read as `<`.
const SYMBOLS: &[&str] = &[
    "<>", "!=", "<=", ">=", "<<", ">>", "+", "-", "*", "/", "%", "(", ")", ",", "=", "<", ">", "|",
    "&", "#", "~",
];

pub(crate) fn is_name_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

pub(crate) fn is_name_part(byte: u8) -> bool {
    is_name_start(byte) || byte.is_ascii_digit()
}

/// Reads the rest of a backslash command: up to the end of the line, where a
/// backslash before the newline continues the command on the next line.
pub(crate) struct CommandReader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> CommandReader<'a> {
    pub(crate) fn new(text: &'a str, at: usize) -> Self {
        CommandReader { text, at }
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    /// Length of a line continuation at the current place, 0 if none.
    fn continuation(&self, ahead: usize) -> usize {
        match (self.byte(ahead), self.byte(ahead + 1), self.byte(ahead + 2)) {
            (Some(b'\\'), Some(b'\n'), _) => 2,
            (Some(b'\\'), Some(b'\r'), Some(b'\n')) => 3,
            _ => 0,
        }
    }

    fn skip_space(&mut self) {
        loop {
            match self.byte(0) {
                Some(b' ' | b'\t' | b'\r' | 0x0b | 0x0c) => self.at += 1,
                _ => match self.continuation(0) {
                    0 => return,
                    length => self.at += length,
                },
            }
        }
    }

    /// The next word and its offset, or `None` at the end of the command.
    pub(crate) fn word(&mut self) -> Option<(usize, &'a str)> {
        self.skip_space();
        let start = self.at;
        while let Some(byte) = self.byte(0) {
            let space = matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c | b'\n');
            if space || self.continuation(0) > 0 {
                break;
            }
            self.at += 1;
        }
        (self.at > start).then(|| (start, &self.text[start..self.at]))
    }

    /// The rest of the line, without the space around it, and its offset. Nothing continues it.
    pub(crate) fn line(&mut self) -> (usize, &'a str) {
        self.skip_space();
        let start = self.at;
        let rest = &self.text[start..];
        let line = rest.split('\n').next().unwrap_or(rest);
        self.at += line.len();
        (start, line.trim_end())
    }

    /// Moves past the end of the command.
    pub(crate) fn finish(mut self) -> usize {
        loop {
            match self.byte(0) {
                None => return self.at,
                Some(b'\n') => return self.at + 1,
                Some(_) => self.at += self.continuation(0).max(1),
            }
        }
    }

    /// All tokens up to the end of the command, with an `End` last.
    pub(crate) fn tokens(&mut self) -> Result<Vec<Token<'a>>, Located> {
        let mut tokens = Vec::new();
        loop {
            self.skip_space();
            let offset = self.at;
            let kind = self.token()?;
            tokens.push(Token { kind, offset });
            if kind == TokenKind::End {
                return Ok(tokens);
            }
        }
    }

    fn token(&mut self) -> Result<TokenKind<'a>, Located> {
        let start = self.at;
        let Some(first) = self.byte(0) else {
            return Ok(TokenKind::End);
        };
        if first == b'\n' {
            return Ok(TokenKind::End);
        }
        let after_dot = first == b'.' && self.byte(1).is_some_and(|b| b.is_ascii_digit());
        if first.is_ascii_digit() || after_dot {
            return self.number();
        }
        if first == b':' && self.byte(1).is_some_and(is_name_part) {
            self.at += 1;
            return Ok(TokenKind::Variable(self.name()));
        }
        if is_name_start(first) {
            return Ok(TokenKind::Word(self.name()));
        }
        if first == b'\'' {
            let line = self.text[start + 1..].split('\n').next().unwrap_or_default();
            let Some((text, _)) = line.split_once('\'') else {
                return Err((start, Fault::new("the text has no closing quote")));
            };
            self.at += text.len() + 2;
            return Ok(TokenKind::Text(text));
        }
        let rest = &self.text[start..];
        if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            self.at += symbol.len();
            return Ok(TokenKind::Symbol(symbol));
        }
        let character = rest.chars().next().unwrap_or(' ');
        let fault = Fault::new(format!("unexpected character {character:?} in an expression"));
        Err((
            start,
            match character {
                '\'' | '"' => fault.hint(
                    "expressions have numbers, booleans and NULL but no strings; \
                     put text in the SQL itself or define it with -D name=value",
                ),
                ':' => fault.hint("a variable is a colon and a name, as in :scale"),
                _ => fault,
            },
        ))
    }

    fn name(&mut self) -> &'a str {
        let start = self.at;
        while self.byte(0).is_some_and(is_name_part) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    fn digits(&mut self) {
        while self.byte(0).is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }

    fn number(&mut self) -> Result<TokenKind<'a>, Located> {
        let start = self.at;
        self.digits();
        let mut is_double = false;
        if self.byte(0) == Some(b'.') {
            is_double = true;
            self.at += 1;
            self.digits();
        }
        if matches!(self.byte(0), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(self.byte(1), Some(b'+' | b'-')));
            if self.byte(1 + sign).is_some_and(|byte| byte.is_ascii_digit()) {
                is_double = true;
                self.at += 1 + sign;
                self.digits();
            }
        }
        let text = &self.text[start..self.at];
        if is_double {
            return match text.parse::<f64>() {
                Ok(value) if value.is_finite() => Ok(TokenKind::Double(value)),
                _ => Err((start, Fault::new("double constant overflow"))),
            };
        }
        match text.parse() {
            Ok(value) => Ok(TokenKind::Int(value)),
            Err(_) if text.trim_start_matches('0') == "9223372036854775808" => {
                Ok(TokenKind::MaxIntPlusOne)
            }
            Err(_) => Err((
                start,
                Fault::new("bigint constant overflow")
                    .hint("integers go up to 9223372036854775807; write 1.0e19 for a double"),
            )),
        }
    }
}
