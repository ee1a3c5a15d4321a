//! Files of requests: the same backslash commands, and requests of HTTP in place of SQL.

use std::ops::Range;

use super::Expr;
use super::error::{Fault, Located, closest};
use super::names::Names;
use super::program::{Slot, Statement};
use super::request::{Capture, CaptureFrom, Form, Request, RequestPart, RequestText};
use super::template::letters;
use super::token::{is_name_part, is_name_start};

/// Methods that a request can have.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
/// Header fields that the driver writes, and what decides on them.
const OWN_HEADERS: [(&str, &str); 4] = [
    ("host", "it is the server of --http"),
    ("content-length", "it follows from the body"),
    ("transfer-encoding", "a body is sent with its length"),
    ("connection", "--connect opens one for each transaction"),
];

/// A request after the first pass.
pub(super) struct DraftRequest {
    /// Where it begins in the source.
    pub(super) offset: usize,
    method: String,
    target: Range<usize>,
    headers: Vec<Header>,
    body: Range<usize>,
    pub(super) captures: Vec<Capture>,
}

/// A header field: its name and its value.
struct Header {
    name: Range<usize>,
    value: Range<usize>,
}

/// What follows in a file of requests.
pub(super) enum Next {
    /// A backslash command, whose backslash ends here.
    Backslash(usize),
    /// A request, and where the text goes on.
    Request(DraftRequest, usize),
    /// Nothing.
    End,
}

/// A line of the source without its line break, and where the next one begins.
fn line_at(text: &str, at: usize) -> (&str, usize) {
    let rest = &text[at..];
    let length = rest.find('\n').unwrap_or(rest.len());
    let line = &rest[..length];
    (line.strip_suffix('\r').unwrap_or(line), (at + length + 1).min(text.len()))
}

/// What comes from `at` on.
pub(super) fn next(text: &str, mut at: usize) -> Result<Next, Located> {
    while at < text.len() {
        let (line, next) = line_at(text, at);
        let indent = line.len() - line.trim_start().len();
        if line[indent..].starts_with('\\') {
            return Ok(Next::Backslash(at + indent + 1));
        }
        if !line.trim().is_empty() && !line.starts_with('#') {
            return request(text, at);
        }
        at = next;
    }
    Ok(Next::End)
}

/// The method and the target of a line that begins a request.
fn request_line(line: &str) -> Option<(&str, &str)> {
    let (method, target) = line.trim_end().split_once(' ')?;
    let target = target.trim_start();
    let upper = !method.is_empty() && method.bytes().all(|byte| byte.is_ascii_uppercase());
    let target = target.strip_suffix(" HTTP/1.1").unwrap_or(target).trim_end();
    let begins = ["/", ":", "{{", "http://", "https://"].iter().any(|b| target.starts_with(b));
    (upper && begins).then_some((method, target))
}

fn range_of(text: &str, part: &str) -> Range<usize> {
    let start = part.as_ptr() as usize - text.as_ptr() as usize;
    start..start + part.len()
}

fn request(text: &str, offset: usize) -> Result<Next, Located> {
    let (line, mut at) = line_at(text, offset);
    let Some((method, target)) = request_line(line) else {
        let fault = Fault::new("this is neither a request nor a command");
        return Err((
            offset,
            fault.hint(
                "a request begins with a method and a path, as in GET /data/person/:id, then come header fields, an empty line and the body; a command begins with a backslash, a comment with #",
            ),
        ));
    };
    if !METHODS.contains(&method) {
        let fault = Fault::new(format!("unknown method {method}"));
        return Err((
            offset,
            match closest(method, METHODS) {
                Some(near) => fault.hint(format!("did you mean {near}?")),
                None => fault.hint(format!("the methods are {}", METHODS.join(", "))),
            },
        ));
    }
    let target = range_of(text, target);
    if text[target.clone()].starts_with("http") {
        let fault = Fault::new("a request names a path, not a server");
        return Err((
            target.start,
            fault.hint("--http names the server: leave scheme and host out"),
        ));
    }
    let mut headers = Vec::new();
    let mut has_body = false;
    while at < text.len() {
        let (line, next) = line_at(text, at);
        if line.trim().is_empty() {
            at = next;
            has_body = true;
            break;
        }
        if line.starts_with('#') {
            at = next;
            continue;
        }
        if begins_another(line) {
            break;
        }
        headers.push(header(text, line)?);
        at = next;
    }
    let body = match has_body {
        true => body(text, at),
        false => at..at,
    };
    let next = body.end;
    let trimmed = text[body.clone()].trim_end();
    let body = body.start..body.start + trimmed.len();
    let method = method.to_owned();
    let request = DraftRequest { offset, method, target, headers, body, captures: Vec::new() };
    Ok(Next::Request(request, next))
}

/// Whether a line is no more of the request before it.
fn begins_another(line: &str) -> bool {
    line.starts_with(['\\', '#']) || request_line(line).is_some()
}

/// The lines of a body that may begin at `at`.
fn body(text: &str, mut at: usize) -> Range<usize> {
    // Empty lines before it are none of it.
    let start = loop {
        let (line, next) = line_at(text, at);
        if next == at || !line.trim().is_empty() {
            break at;
        }
        at = next;
    };
    while at < text.len() {
        let (line, next) = line_at(text, at);
        if begins_another(line) {
            break;
        }
        at = next;
    }
    start..at
}

fn header(text: &str, line: &str) -> Result<Header, Located> {
    let at = range_of(text, line).start;
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let parts =
        line.split_once(':').filter(|(name, _)| !name.is_empty() && name.bytes().all(token));
    let Some((name, value)) = parts else {
        let fault = Fault::new("this is no header field");
        return Err((
            at,
            fault.hint("a field is a name, a colon and a value; an empty line stands between the fields and the body"),
        ));
    };
    let own = OWN_HEADERS.iter().find(|(own, _)| name.eq_ignore_ascii_case(own));
    if let Some((_, why)) = own {
        let fault = Fault::new(format!("the driver writes {name} itself"));
        return Err((at, fault.hint(format!("leave it out: {why}"))));
    }
    let value = value.trim();
    if let Some(bad) = value.bytes().find(|b| b.is_ascii_control() && *b != b'\t') {
        let fault = Fault::new(format!("a header field cannot hold the byte 0x{bad:02x}"));
        return Err((at, fault.hint("take it out")));
    }
    Ok(Header { name: range_of(text, name), value: range_of(text, value) })
}

/// What compiles an expression that stands in the source at an offset.
pub(super) trait Expressions {
    fn compile(&mut self, text: &str, at: usize) -> Result<Expr, Located>;
    fn names(&mut self) -> &mut Names;
}

/// What surrounds a value in a body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Json,
    Form,
    Other,
}

impl DraftRequest {
    /// The second pass, when it is known which names anything sets.
    pub(super) fn finish(
        self,
        source: &str,
        label: impl Fn(&str) -> String,
        line: u32,
        with: &mut impl Expressions,
    ) -> Result<Statement, Located> {
        let shown = format!("{} {}", self.method, &source[self.target.clone()]);
        let mut text = Text { source, with };
        let target = text.parts(self.target.clone(), |begins, _| match begins {
            true => Form::Address,
            false => Form::Percent,
        })?;
        let mut headers = RequestText::default();
        let mut kind = None;
        for Header { name, value } in self.headers {
            let name = &source[name];
            if name.eq_ignore_ascii_case("content-type") {
                kind = Some(Kind::of(&source[value.clone()]));
            }
            headers.0.push(RequestPart::Literal(format!("{name}: ")));
            headers.0.extend(text.parts(value, |_, _| Form::Header)?.0);
            headers.0.push(RequestPart::Literal("\r\n".to_owned()));
        }
        let has_body = !self.body.is_empty();
        if has_body && kind.is_none() && source[self.body.clone()].starts_with(['{', '[']) {
            headers.0.push(RequestPart::Literal("Content-Type: application/json\r\n".to_owned()));
            kind = Some(Kind::Json);
        }
        headers.join();
        let body = text.parts(self.body, |_, quoted| match (kind, quoted) {
            (Some(Kind::Json), false) => Form::Json,
            (Some(Kind::Json), true) => Form::JsonText,
            (Some(Kind::Form), _) => Form::Percent,
            _ => Form::Plain,
        })?;
        let kept = self.captures.iter().filter_map(|capture| match &capture.from {
            CaptureFrom::Header(name) => Some(name.clone()),
            CaptureFrom::Json(_) | CaptureFrom::Status => None,
        });
        let request = Request {
            kept_headers: kept.collect(),
            method: self.method,
            target,
            headers,
            body: has_body.then_some(body),
            captures: self.captures,
        };
        Ok(Statement::request(request, label(&shown), line, self.offset))
    }
}

impl Kind {
    fn of(content_type: &str) -> Kind {
        let content_type = content_type.to_ascii_lowercase();
        match content_type {
            of if of.contains("json") => Kind::Json,
            of if of.contains("x-www-form-urlencoded") => Kind::Form,
            _ => Kind::Other,
        }
    }
}

/// The source with what compiles its expressions.
struct Text<'a, E> {
    source: &'a str,
    with: &'a mut E,
}

impl<E: Expressions> Text<'_, E> {
    /// The parts of a text; `form` says how a value is written that stands at its beginning, and
    /// that stands in double quotes.
    fn parts(
        &mut self,
        range: Range<usize>,
        form: impl Fn(bool, bool) -> Form,
    ) -> Result<RequestText, Located> {
        let (mut parts, mut literal) = (RequestText::default(), String::new());
        let source = &self.source[..range.end];
        let mut at = range.start;
        let mut quoted = false;
        while at < range.end {
            let rest = &source[at..];
            let form = form(at == range.start, quoted);
            let part = if let Some(inside) = rest.strip_prefix("{{")
                && let Some((expr, _)) = inside.split_once("}}")
            {
                let from = at + "{{".len();
                at = from + expr.len() + "}}".len();
                match letters(expr) {
                    Some((skipped, length)) => {
                        RequestPart::Letters(self.with.compile(length, from + skipped)?)
                    }
                    None => RequestPart::Value(self.with.compile(expr, from)?, form),
                }
            } else if let Some(name) = name(rest)
                && let Some(slot) = self.slot(name, at, form, quoted)?
            {
                at += 1 + name.len();
                RequestPart::Variable(slot, form)
            } else {
                // `\:` is a colon that begins no name; `\"` ends no text.
                let taken = match rest.as_bytes() {
                    [b'\\', b':', ..] => {
                        at += 1;
                        1
                    }
                    [b'\\', _, ..] if quoted => {
                        1 + rest[1..].chars().next().map_or(0, char::len_utf8)
                    }
                    [b'"', ..] => {
                        quoted = !quoted;
                        1
                    }
                    _ => rest.chars().next().map_or(1, char::len_utf8),
                };
                literal.push_str(&source[at..at + taken]);
                at += taken;
                continue;
            };
            parts.push_literal(&mut literal);
            parts.0.push(part);
        }
        parts.push_literal(&mut literal);
        Ok(parts)
    }

    /// The variable of a name; `None` where a colon is just a colon.
    fn slot(
        &mut self,
        name: &str,
        at: usize,
        form: Form,
        quoted: bool,
    ) -> Result<Option<Slot>, Located> {
        let json_word = form == Form::Json && ["true", "false", "null"].contains(&name);
        let names = self.with.names();
        if names.may_be_set(name) {
            names.plain.insert(name.to_owned());
            return Ok(Some(names.slot(name)));
        }
        match json_word || quoted {
            true => Ok(None),
            false => Err((at, names.undefined(name))),
        }
    }
}

/// The name behind a colon at the beginning of a text.
fn name(text: &str) -> Option<&str> {
    let after = text.strip_prefix(':')?;
    let length = after.bytes().take_while(|byte| is_name_part(*byte)).count();
    let name = &after[..length];
    name.bytes().next().is_some_and(is_name_start).then_some(name)
}

impl RequestText {
    fn push_literal(&mut self, literal: &mut String) {
        if !literal.is_empty() {
            self.0.push(RequestPart::Literal(std::mem::take(literal)));
        }
    }

    /// Makes one literal of those that stand together.
    fn join(&mut self) {
        let mut joined: Vec<RequestPart> = Vec::new();
        for part in self.0.drain(..) {
            match (joined.last_mut(), part) {
                (Some(RequestPart::Literal(before)), RequestPart::Literal(text)) => {
                    before.push_str(&text);
                }
                (_, part) => joined.push(part),
            }
        }
        self.0 = joined;
    }
}
