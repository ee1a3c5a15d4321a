//! Where SQL statements end: the rules of psql's scanner.
//!
//! pgbench reads scripts with psql's scanner (`psqlscan.l`): a statement ends
//! at a semicolon outside quotes, comments, parentheses and the body of a
//! SQL-standard function, or at a backslash. Space and `--` comments before a
//! statement are dropped, everything inside is kept; `\;` is a semicolon that
//! does not end the statement and `\:` is a colon that starts no variable.

use std::ops::Range;

use super::error::{Fault, Located};
use super::token::{is_name_part, is_name_start};

/// The text of one statement, still with `:name` in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SqlText {
    pub text: String,
    /// Everything in the text that looks like a variable, in order.
    pub references: Vec<Reference>,
    /// Where the first word stands in the source.
    pub offset: usize,
    /// Whether `\;` joins several statements.
    pub compound: bool,
}

impl SqlText {
    /// SQL that stands in no script, for a command at `offset`.
    pub(crate) fn plain(text: &str, offset: usize) -> Self {
        SqlText { text: text.to_owned(), references: Vec::new(), offset, compound: false }
    }
}

/// Something that looks like a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    /// The bytes of the text, colon included.
    pub range: Range<usize>,
    /// Where it stands in the source.
    pub offset: usize,
    pub context: Context,
}

/// What surrounds a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Context {
    Sql,
    /// A string, a quoted identifier or a dollar-quoted body: a `$1` put here
    /// would not be a parameter.
    Quoted,
    Comment,
}

/// Why scanning stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Semicolon,
    /// Behind the backslash of a command.
    Backslash,
    EndOfInput,
}

/// A scanned statement (`None` where there was only space and comments), why
/// scanning stopped, and where to go on.
pub(crate) type Scanned = (Option<SqlText>, Stop, usize);

/// Scans from `at` to the end of the next statement.
pub(crate) fn scan(source: &str, at: usize) -> Result<Scanned, Located> {
    let mut scanner = Scanner {
        source,
        at,
        out: String::new(),
        marks: Vec::new(),
        regions: Vec::new(),
        escaped_colons: Vec::new(),
        parens: 0,
        body: FunctionBody::default(),
        compound: false,
    };
    let end = scanner.run()?;
    let next = scanner.at;
    Ok((scanner.finish(), end, next))
}

struct Scanner<'a> {
    source: &'a str,
    at: usize,
    out: String,
    /// (length of `out`, offset in the source) at each emission.
    marks: Vec<(usize, usize)>,
    regions: Vec<(Range<usize>, Context)>,
    escaped_colons: Vec<usize>,
    parens: u32,
    body: FunctionBody,
    compound: bool,
}

impl Scanner<'_> {
    fn byte(&self, ahead: usize) -> Option<u8> {
        self.source.as_bytes().get(self.at + ahead).copied()
    }

    fn emit(&mut self, length: usize) {
        let end = (self.at + length).min(self.source.len());
        self.marks.push((self.out.len(), self.at));
        self.out.push_str(&self.source[self.at..end]);
        self.at = end;
    }

    fn emit_region(&mut self, end: usize, context: Context) {
        let start = self.out.len();
        self.emit(end - self.at);
        self.regions.push((start..self.out.len(), context));
    }

    fn run(&mut self) -> Result<Stop, Located> {
        while let Some(byte) = self.byte(0) {
            let next = self.byte(1);
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' | 0x0c => {
                    if self.out.is_empty() {
                        self.at += 1;
                    } else {
                        self.emit(1);
                    }
                }
                b'-' if next == Some(b'-') => {
                    let end = self.line_end(self.at);
                    if self.out.is_empty() {
                        self.at = end;
                    } else {
                        self.emit_region(end, Context::Comment);
                    }
                }
                b'/' if next == Some(b'*') => self.block_comment()?,
                b'\'' => self.string(0, false)?,
                b'e' | b'E' if next == Some(b'\'') => self.string(1, true)?,
                b'b' | b'B' | b'x' | b'X' | b'n' | b'N' if next == Some(b'\'') => {
                    self.string(1, false)?;
                }
                b'u' | b'U' if next == Some(b'&') && self.byte(2) == Some(b'\'') => {
                    self.string(2, false)?;
                }
                b'u' | b'U' if next == Some(b'&') && self.byte(2) == Some(b'"') => {
                    self.quoted_identifier(2)?;
                }
                b'"' => self.quoted_identifier(0)?,
                b'$' => self.dollar()?,
                b'(' => {
                    self.parens += 1;
                    self.emit(1);
                }
                b')' => {
                    self.parens = self.parens.saturating_sub(1);
                    self.emit(1);
                }
                b';' => {
                    self.emit(1);
                    if self.parens == 0 && self.body.depth == 0 {
                        return Ok(Stop::Semicolon);
                    }
                }
                b'\\' if next == Some(b';') => {
                    self.at += 1;
                    self.emit(1);
                    self.compound = true;
                    self.body = FunctionBody::default();
                }
                b'\\' if next == Some(b':') => {
                    self.at += 1;
                    self.escaped_colons.push(self.out.len());
                    self.emit(1);
                }
                b'\\' => {
                    self.at += 1;
                    return Ok(Stop::Backslash);
                }
                0 => {
                    let fault = Fault::new("a zero byte stands in the script")
                        .hint("SQL text cannot hold one; is this a script at all?");
                    return Err((self.at, fault));
                }
                _ if is_name_start(byte) => self.identifier(),
                _ if byte.is_ascii_digit() => {
                    let length = self.count(0, |b| b.is_ascii_digit());
                    self.emit(length);
                }
                _ => self.emit(1),
            }
        }
        Ok(Stop::EndOfInput)
    }

    fn count(&self, from: usize, accept: impl Fn(u8) -> bool) -> usize {
        self.source.as_bytes()[self.at + from..].iter().take_while(|byte| accept(**byte)).count()
    }

    fn line_end(&self, from: usize) -> usize {
        self.source[from..].find(['\n', '\r']).map_or(self.source.len(), |length| from + length)
    }

    /// A C comment; they nest.
    fn block_comment(&mut self) -> Result<(), Located> {
        let bytes = self.source.as_bytes();
        let mut depth = 0u32;
        let mut end = self.at;
        loop {
            match bytes.get(end..end + 2) {
                Some(b"/*") => {
                    depth += 1;
                    end += 2;
                }
                Some(b"*/") => {
                    depth -= 1;
                    end += 2;
                    if depth == 0 {
                        break;
                    }
                }
                Some(_) => end += 1,
                None => return Err(self.unterminated("comment", "*/")),
            }
        }
        self.emit_region(end, Context::Comment);
        Ok(())
    }

    /// A string whose quote is `prefix` bytes ahead.
    fn string(&mut self, prefix: usize, escapes: bool) -> Result<(), Located> {
        let bytes = self.source.as_bytes();
        let mut end = self.at + prefix + 1;
        loop {
            match bytes.get(end) {
                None => return Err(self.unterminated("quoted string", "'")),
                Some(b'\\') if escapes => end += 2,
                Some(b'\'') if bytes.get(end + 1) == Some(&b'\'') => end += 2,
                Some(b'\'') => match self.continued(end + 1) {
                    Some(inside) => end = inside,
                    None => break,
                },
                Some(_) => end += 1,
            }
        }
        self.emit_region(end + 1, Context::Quoted);
        Ok(())
    }

    /// A string goes on in the next line when only space with a newline stands
    /// between two quotes; returns the offset behind the second.
    fn continued(&self, mut at: usize) -> Option<usize> {
        let bytes = self.source.as_bytes();
        let mut newline = false;
        loop {
            match bytes.get(at)? {
                b'\n' | b'\r' => newline = true,
                b' ' | b'\t' | 0x0c => {}
                b'-' if bytes.get(at + 1) == Some(&b'-') => {
                    at = self.line_end(at);
                    continue;
                }
                b'\'' if newline => return Some(at + 1),
                _ => return None,
            }
            at += 1;
        }
    }

    fn quoted_identifier(&mut self, prefix: usize) -> Result<(), Located> {
        let bytes = self.source.as_bytes();
        let mut end = self.at + prefix + 1;
        loop {
            match bytes.get(end) {
                None => return Err(self.unterminated("quoted identifier", "\"")),
                Some(b'"') if bytes.get(end + 1) == Some(&b'"') => end += 2,
                Some(b'"') => break,
                Some(_) => end += 1,
            }
        }
        self.emit_region(end + 1, Context::Quoted);
        Ok(())
    }

    /// `$tag$ … $tag$`, or a lone dollar sign.
    fn dollar(&mut self) -> Result<(), Located> {
        let tag =
            if self.byte(1).is_some_and(is_name_start) { self.count(1, is_name_part) } else { 0 };
        if self.byte(1 + tag) != Some(b'$') {
            self.emit(1);
            return Ok(());
        }
        let delimiter = &self.source[self.at..self.at + tag + 2];
        let body = self.at + delimiter.len();
        match self.source[body..].find(delimiter) {
            Some(length) => {
                self.emit_region(body + length + delimiter.len(), Context::Quoted);
                Ok(())
            }
            None => Err(self.unterminated("dollar-quoted string", delimiter)),
        }
    }

    fn unterminated(&self, what: &str, delimiter: &str) -> Located {
        let fault = Fault::new(format!("unterminated {what}"))
            .hint(format!("it starts here and no closing {delimiter} follows"));
        (self.at, fault)
    }

    fn identifier(&mut self) {
        let length = self.count(0, |byte| is_name_part(byte) || byte == b'$');
        let word = &self.source[self.at..self.at + length];
        self.body.word(word, self.parens > 0);
        self.emit(length);
    }

    fn source_offset(&self, position: usize) -> usize {
        let index = self.marks.partition_point(|(start, _)| *start <= position);
        match index.checked_sub(1).and_then(|index| self.marks.get(index)) {
            Some((start, offset)) => offset + (position - start),
            None => 0,
        }
    }

    fn finish(self) -> Option<SqlText> {
        if self.out.is_empty() {
            return None;
        }
        let mut references = Vec::new();
        let bytes = self.out.as_bytes();
        let mut at = 0;
        while let Some(colon) = self.out[at..].find(':').map(|length| at + length) {
            at = colon + 1;
            if self.escaped_colons.contains(&colon) {
                continue;
            }
            if !bytes.get(at).copied().is_some_and(is_name_start) {
                // A cast: none of a run of colons starts a variable.
                at += bytes[at..].iter().take_while(|byte| **byte == b':').count();
                continue;
            }
            at += bytes[at..].iter().take_while(|byte| is_name_part(**byte)).count();
            let region = self.regions.iter().find(|(range, _)| range.contains(&colon));
            references.push(Reference {
                range: colon..at,
                offset: self.source_offset(colon),
                context: region.map_or(Context::Sql, |(_, context)| *context),
            });
        }
        Some(SqlText {
            references,
            offset: self.source_offset(0),
            compound: self.compound,
            text: self.out,
        })
    }
}

/// Follows `CREATE [OR REPLACE] FUNCTION|PROCEDURE … BEGIN ATOMIC … END`,
/// whose inner semicolons do not end the statement.
#[derive(Default)]
struct FunctionBody {
    words: u32,
    /// How far the statement matches the beginning of such a command.
    progress: Progress,
    depth: u32,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Progress {
    #[default]
    Start,
    Create,
    CreateOr,
    CreateOrReplace,
    Function,
    Other,
}

impl FunctionBody {
    fn word(&mut self, word: &str, in_parens: bool) {
        let is = |keyword: &str| word.eq_ignore_ascii_case(keyword);
        self.words += 1;
        let routine = is("function") || is("procedure");
        self.progress = match self.progress {
            Progress::Start if is("create") => Progress::Create,
            Progress::Create if is("or") => Progress::CreateOr,
            Progress::CreateOr if is("replace") => Progress::CreateOrReplace,
            Progress::Create | Progress::CreateOrReplace if routine => Progress::Function,
            Progress::Function => Progress::Function,
            _ => Progress::Other,
        };
        if self.progress != Progress::Function || in_parens {
            return;
        }
        if is("begin") || (is("case") && self.depth > 0) {
            self.depth += 1;
        } else if is("end") {
            self.depth = self.depth.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<String> {
        let mut at = 0;
        let mut found = Vec::new();
        loop {
            let (sql, end, next) = scan(source, at).unwrap();
            found.extend(sql.map(|sql| sql.text));
            at = next;
            if end == Stop::EndOfInput {
                return found;
            }
            assert_eq!(end, Stop::Semicolon);
        }
    }

    fn names(source: &str) -> Vec<(&str, Context)> {
        let (sql, ..) = scan(source, 0).unwrap();
        let references = sql.unwrap().references;
        references
            .into_iter()
            .map(|r| (&source[r.offset..r.offset + r.range.len()], r.context))
            .collect()
    }

    #[test]
    fn semicolons_end_statements_only_outside_quotes() {
        assert_eq!(texts("BEGIN;\nEND;"), ["BEGIN;", "END;"]);
        assert_eq!(texts("SELECT ';', \";\", $$;$$, $a$;$$;$a$, /* ; */ 1;").len(), 1);
        assert_eq!(texts("SELECT e'\\';', 'it''s;' ;").len(), 1);
        assert_eq!(texts("SELECT 'a\\'; SELECT 2;").len(), 2);
        assert_eq!(texts("CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2);").len(), 1);
        assert_eq!(texts("SELECT a$b$c; SELECT $1; SELECT 2$x$;$x$").len(), 3);
        assert_eq!(texts("SELECT e'a'\n  'b\\';';").len(), 1);
        assert_eq!(texts("SELECT /* /* ; */ ; */ 1;").len(), 1);
    }

    #[test]
    fn a_function_body_is_one_statement() {
        let function = "CREATE OR REPLACE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; \
                        SELECT CASE WHEN true THEN 1 END; END;";
        assert_eq!(texts(&format!("{function} SELECT 2;")), [function, "SELECT 2;"]);
        assert_eq!(texts("BEGIN; SELECT 1; END;").len(), 3);
    }

    #[test]
    fn comments_stay_unless_they_come_first() {
        assert_eq!(texts("-- first\nSELECT 1 -- one;\n + 2;-- last"), ["SELECT 1 -- one;\n + 2;"]);
        assert_eq!(texts("SELECT 4 /* kept */;"), ["SELECT 4 /* kept */;"]);
    }

    #[test]
    fn an_escaped_semicolon_joins_statements() {
        let (sql, ..) = scan("SELECT 1 \\; SELECT 2;", 0).unwrap();
        let sql = sql.unwrap();
        assert_eq!(sql.text, "SELECT 1 ; SELECT 2;");
        assert!(sql.compound);
    }

    #[test]
    fn variables_are_names_after_one_colon() {
        assert_eq!(
            names("SELECT :a, :b::int, x::text, y:::z, :1, ':q', /* :c */ \":i\", $$:d$$, \\:e;"),
            [
                (":a", Context::Sql),
                (":b", Context::Sql),
                (":q", Context::Quoted),
                (":c", Context::Comment),
                (":i", Context::Quoted),
                (":d", Context::Quoted),
            ]
        );
    }

    #[test]
    fn what_is_not_closed_is_an_error_where_it_starts() {
        for (source, offset, what) in [
            ("SELECT 'abc", 7, "quoted string"),
            ("SELECT \"abc", 7, "quoted identifier"),
            ("SELECT $x$ abc $y$", 7, "dollar-quoted string"),
            ("/* abc", 0, "comment"),
            ("SELECT e'\\", 7, "quoted string"),
        ] {
            let (at, fault) = scan(source, 0).unwrap_err();
            assert_eq!((at, fault.message), (offset, format!("unterminated {what}")));
        }
    }
}
