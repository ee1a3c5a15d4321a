//! The first pass over a script: its commands, with the text of statements
//! still raw.

use super::batch::{Batch, BatchForm};
use super::compile::Definition;
use super::control::ControlFlow;
use super::error::{Fault, Located, closest};
use super::expr_parser;
use super::names::{Names, Reads, is_valid_name};
use super::program::{
    Command, Gset, GsetKind, MAX_SLEEP, Sleep, SleepAmount, StatementId, TimeUnit,
};
use super::request::{Capture, CaptureFrom};
use super::request_reader::{self, DraftRequest, Next};
use super::sql_scanner::{self, SqlText, Stop};
use super::template::TemplateReader;
use super::text::TextValue;
use super::token::CommandReader;

/// A script after the first pass.
pub(super) struct Draft {
    pub(super) commands: Vec<Command>,
    pub(super) offsets: Vec<usize>,
    pub(super) statements: Vec<(SqlText, Option<Gset>)>,
    /// What stands in place of statements in a file of requests.
    pub(super) requests: Vec<DraftRequest>,
    /// Variables that expressions read, with their places.
    pub(super) reads: Vec<(usize, String)>,
    pub(super) batch: Option<DraftBatch>,
}

/// The `\batch` of a script.
pub(super) struct DraftBatch {
    pub(super) batch: Batch,
    /// Where it begins in the source.
    pub(super) offset: usize,
    /// Its first statement and the one after its last.
    pub(super) statements: std::ops::Range<usize>,
    /// Where its loop begins.
    first: usize,
    /// `\if`s around it.
    depth: usize,
    ended: bool,
}

impl Draft {
    /// Reads the commands of a script.
    pub(super) fn read(
        text: &str,
        names: &mut Names,
        definitions: &[Definition],
    ) -> Result<Draft, Located> {
        let mut reader = Reader::new(text, names, definitions);
        let mut at = 0;
        loop {
            let (sql, end, next) = sql_scanner::scan(text, at)?;
            at = next;
            if let Some(sql) = sql {
                reader.statement(sql);
            }
            match end {
                Stop::Semicolon => {}
                Stop::Backslash => at = reader.backslash(at)?,
                Stop::EndOfInput => break,
            }
        }
        reader.finish()
    }

    /// The same of a file of requests.
    pub(super) fn read_requests(
        text: &str,
        names: &mut Names,
        definitions: &[Definition],
    ) -> Result<Draft, Located> {
        let mut reader = Reader::new(text, names, definitions);
        reader.of_requests = true;
        let mut at = 0;
        loop {
            at = match request_reader::next(text, at)? {
                Next::Backslash(at) => reader.backslash(at)?,
                Next::Request(request, at) => {
                    reader.request(request);
                    at
                }
                Next::End => break,
            };
        }
        reader.finish()
    }
}

struct Reader<'a, 'n> {
    text: &'a str,
    /// Whether requests stand in it, and no SQL.
    of_requests: bool,
    names: &'n mut Names,
    definitions: &'n [Definition],
    draft: Draft,
    control: ControlFlow,
}

/// The target of a jump until its branch ends: past the last command.
const UNSET: usize = usize::MAX;

const COMMANDS: &[&str] = &[
    "set",
    "text",
    "uuid",
    "uuids",
    "batch",
    "endbatch",
    "if",
    "elif",
    "else",
    "endif",
    "sleep",
    "gset",
    "aset",
    "startpipeline",
    "syncpipeline",
    "endpipeline",
    "capture",
];

/// Commands that speak of statements.
const OF_SQL: [&str; 7] =
    ["batch", "endbatch", "gset", "aset", "startpipeline", "syncpipeline", "endpipeline"];

impl<'a, 'n> Reader<'a, 'n> {
    fn new(text: &'a str, names: &'n mut Names, definitions: &'n [Definition]) -> Self {
        let draft = Draft {
            commands: Vec::new(),
            offsets: Vec::new(),
            statements: Vec::new(),
            requests: Vec::new(),
            reads: Vec::new(),
            batch: None,
        };
        let control = ControlFlow::default();
        Reader { text, of_requests: false, names, definitions, draft, control }
    }

    fn finish(self) -> Result<Draft, Located> {
        self.control.finish()?;
        if let Some(DraftBatch { ended: false, offset, .. }) = self.draft.batch {
            return Err((offset, Fault::new("\\batch without \\endbatch")));
        }
        Ok(self.draft)
    }

    fn request(&mut self, request: DraftRequest) {
        let offset = request.offset;
        let id = StatementId(self.draft.requests.len() as u32);
        self.draft.requests.push(request);
        self.push(Command::Sql(id), offset);
    }

    fn push(&mut self, command: Command, offset: usize) {
        self.draft.commands.push(command);
        self.draft.offsets.push(offset);
    }

    fn statement(&mut self, sql: SqlText) {
        let offset = sql.offset;
        let id = StatementId(self.draft.statements.len() as u32);
        self.draft.statements.push((sql, None));
        self.push(Command::Sql(id), offset);
    }

    /// Reads the command whose backslash ends at `at`; returns where SQL goes on.
    fn backslash(&mut self, at: usize) -> Result<usize, Located> {
        let mut words = CommandReader::new(self.text, at);
        let Some((offset, word)) = words.word() else {
            return Ok(words.finish());
        };
        let word = &*word.to_ascii_lowercase();
        let in_batch = self.draft.batch.as_ref().is_some_and(|batch| !batch.ended);
        if in_batch && matches!(word, "sleep" | "gset" | "aset" | "startpipeline") {
            let fault = Fault::new(format!("\\{word} is not possible in a batch"));
            return Err((offset, fault.hint("put it before \\batch or behind \\endbatch")));
        }
        if self.of_requests && OF_SQL.contains(&word) {
            let fault = Fault::new(format!("\\{word} is a command of SQL scripts"));
            return Err((offset, fault.hint("here \\capture keeps a part of an answer")));
        }
        match word {
            "capture" => self.capture(&mut words, offset)?,
            "set" => {
                let name = name_of(
                    &mut words,
                    offset,
                    "\\set needs a name and an expression",
                    "for example \\set aid random(1, 100000 * :scale)",
                )?;
                let expr = self.expression(&mut words)?;
                let slot = self.names.define(name);
                self.push(Command::Set { slot, expr }, offset);
            }
            "text" => {
                let name = name_of(
                    &mut words,
                    offset,
                    "\\text needs a name and a text",
                    "for example \\text payload {\"page\": {{random(1, 5000)}}}",
                )?;
                let text = self.template(&mut words)?;
                let slot = self.names.define_text(name);
                self.push(Command::SetText { slot, text }, offset);
            }
            "uuid" => {
                let name = name_of(
                    &mut words,
                    offset,
                    "\\uuid needs a name and an expression",
                    "for example \\uuid user_id random(1, 10000)",
                )?;
                let text = TextValue::Uuid(self.expression(&mut words)?);
                let slot = self.names.define_text(name);
                self.push(Command::SetText { slot, text }, offset);
            }
            "uuids" => {
                let (example, usage) = (
                    "for example \\uuids users 5 random(1, 10000)",
                    "\\uuids needs a name, how many, and an expression for each",
                );
                let name = name_of(&mut words, offset, usage, example)?;
                let (at, count) =
                    words.word().ok_or_else(|| (offset, Fault::new(usage).hint(example)))?;
                let count = self.expression_in(count, at)?;
                let (at, rest) = words.line();
                let (number, consecutive) = match rest.trim_end().strip_suffix("..") {
                    Some(first) => (self.expression_in(first, at)?, true),
                    None => (self.expression_in(rest, at)?, false),
                };
                let slot = self.names.define_text(name);
                let text = TextValue::Uuids { count, number, consecutive };
                self.push(Command::SetText { slot, text }, offset);
            }
            "batch" => self.batch(&mut words, offset)?,
            "endbatch" => {
                no_arguments(&mut words, word)?;
                self.end_of_batch(offset)?;
            }
            "if" => {
                let condition = self.expression(&mut words)?;
                self.control.begin(offset, self.draft.commands.len());
                self.push(Command::JumpIfFalse { condition, target: UNSET }, offset);
            }
            "elif" => {
                self.push(Command::Jump { target: UNSET }, offset);
                let condition = self.expression(&mut words)?;
                self.control.elif(offset, &mut self.draft.commands)?;
                self.push(Command::JumpIfFalse { condition, target: UNSET }, offset);
            }
            "else" => {
                no_arguments(&mut words, word)?;
                self.push(Command::Jump { target: UNSET }, offset);
                self.control.otherwise(offset, &mut self.draft.commands)?;
            }
            "endif" => {
                no_arguments(&mut words, word)?;
                self.control.end(offset, &mut self.draft.commands)?;
            }
            "sleep" => {
                let sleep = self.sleep(&mut words, offset)?;
                self.push(Command::Sleep(sleep), offset);
            }
            "gset" => self.gset(&mut words, offset, GsetKind::Gset)?,
            "aset" => self.gset(&mut words, offset, GsetKind::Aset)?,
            "startpipeline" => {
                no_arguments(&mut words, word)?;
                self.control.start_pipeline(offset)?;
                self.push(Command::StartPipeline, offset);
            }
            "syncpipeline" => {
                no_arguments(&mut words, word)?;
                self.control.sync_pipeline(offset)?;
                self.push(Command::SyncPipeline, offset);
            }
            "endpipeline" => {
                no_arguments(&mut words, word)?;
                self.control.end_pipeline(offset)?;
                self.push(Command::EndPipeline, offset);
            }
            "shell" | "setshell" => {
                let fault = Fault::new(format!("\\{word} is not supported"));
                return Err((offset, fault.hint(
                    "it would measure the start of a program on the client; compute the value with \\set or query it with \\gset",
                )));
            }
            _ => {
                let fault = Fault::new(format!("unknown command \\{word}"));
                return Err((
                    offset,
                    match closest(word, COMMANDS.iter().copied()) {
                        Some(near) => fault.hint(format!("did you mean \\{near}?")),
                        None => fault.hint(format!("the commands are \\{}", COMMANDS.join(", \\"))),
                    },
                ));
            }
        }
        Ok(words.finish())
    }

    fn expression(&mut self, words: &mut CommandReader<'a>) -> Result<super::Expr, Located> {
        let tokens = words.tokens()?;
        let mut reads = Reads { names: self.names, reads: &mut self.draft.reads };
        expr_parser::parse(&tokens, &mut reads)
    }

    /// The expression that is `text`, which stands at `at`.
    fn expression_in(&mut self, text: &str, at: usize) -> Result<super::Expr, Located> {
        let inside = |(offset, fault): Located| (at + offset, fault);
        let tokens = CommandReader::new(text, 0).tokens().map_err(inside)?;
        let known = self.draft.reads.len();
        let mut reads = Reads { names: self.names, reads: &mut self.draft.reads };
        let expr = expr_parser::parse(&tokens, &mut reads).map_err(inside)?;
        self.draft.reads[known..].iter_mut().for_each(|(offset, _)| *offset += at);
        Ok(expr)
    }

    /// The rest of the line, which is a template.
    fn template(&mut self, words: &mut CommandReader<'a>) -> Result<TextValue, Located> {
        let (at, text) = words.line();
        let reader = TemplateReader::new(
            |expr: &str, at| self.expression_in(expr, at),
            |at, fault| (at, fault),
            |text, out| out.extend_from_slice(text),
        );
        Ok(TextValue::Template(reader.read(text, at)?))
    }

    /// `\batch ROWS FORM`.
    fn batch(&mut self, words: &mut CommandReader<'a>, offset: usize) -> Result<(), Located> {
        let example =
            "for example \\batch 100 copy, or \\batch :rows :pattern with options of these names";
        if self.draft.batch.is_some() {
            return Err((offset, Fault::new("a script has one \\batch")));
        }
        let (Some((rows_at, rows)), Some((form_at, form))) = (words.word(), words.word()) else {
            let fault = Fault::new("\\batch needs a number of rows and a form");
            return Err((offset, fault.hint(example)));
        };
        no_arguments(words, "batch")?;
        let rows = match self.chosen(rows_at, rows)?.parse::<u32>() {
            Ok(rows) if rows > 0 => rows,
            _ => {
                let fault = Fault::new(format!("\"{rows}\" is not a number of rows"));
                return Err((rows_at, fault.hint("it is a whole number from 1 on")));
            }
        };
        let form: BatchForm = self.chosen(form_at, form)?.parse().map_err(|()| {
            let forms: Vec<&str> = BatchForm::ALL.iter().map(|form| form.name()).collect();
            let fault = Fault::new(format!("\"{form}\" is not a form of a batch"));
            (form_at, fault.hint(format!("the forms are {}", forms.join(", "))))
        })?;
        let rows = if form.is_single() { 1 } else { rows };
        if form == BatchForm::Transaction {
            self.statement(SqlText::plain("BEGIN;", offset));
        }
        if !form.is_single() {
            self.set("row", "0", offset)?;
        }
        let first = self.draft.commands.len();
        self.set("row", if form.is_single() { "1" } else { ":row + 1" }, offset)?;
        let begin = self.draft.statements.len();
        self.draft.batch = Some(DraftBatch {
            batch: Batch { form, rows },
            offset,
            statements: begin..begin,
            first,
            depth: self.control.depth(),
            ended: false,
        });
        Ok(())
    }

    /// `\endbatch`: back to the first row, until all are there.
    fn end_of_batch(&mut self, offset: usize) -> Result<(), Located> {
        let end = self.draft.statements.len();
        let depth = self.control.depth();
        let Some(of) = self.draft.batch.as_mut().filter(|batch| !batch.ended) else {
            return Err((offset, Fault::new("\\endbatch without a \\batch before it")));
        };
        if of.depth != depth {
            return Err((
                offset,
                Fault::new("\\batch and \\endbatch do not stand in the same \\if"),
            ));
        }
        if of.statements.start == end {
            return Err((of.offset, Fault::new("this batch sends nothing")));
        }
        of.ended = true;
        of.statements.end = end;
        let (Batch { form, rows }, first) = (of.batch, of.first);
        if !form.is_single() {
            let condition = self.own_expression(&format!(":row >= {rows}"), offset)?;
            self.push(Command::JumpIfFalse { condition, target: first }, offset);
        }
        match form {
            BatchForm::Transaction => self.statement(SqlText::plain("COMMIT;", offset)),
            // Its text follows from those of the block, once all names are known.
            form if form.gathers() => self.statement(SqlText::plain("", offset)),
            _ => {}
        }
        Ok(())
    }

    /// The value of a word that may name an option or a definition.
    fn chosen(&self, offset: usize, word: &'a str) -> Result<String, Located> {
        let Some(name) = word.strip_prefix(':') else { return Ok(word.to_owned()) };
        let found = self.definitions.iter().rev().find(|definition| definition.name == name);
        found.map(|definition| definition.value.clone()).ok_or_else(|| {
            let fault = Fault::new(format!("\"{name}\" is no option and not defined"));
            (
                offset,
                fault.hint(format!(
                    "a batch is known before the run: define it with -D {name}=value"
                )),
            )
        })
    }

    fn set(&mut self, name: &str, expression: &str, offset: usize) -> Result<(), Located> {
        let expr = self.own_expression(expression, offset)?;
        let slot = self.names.define(name);
        self.push(Command::Set { slot, expr }, offset);
        Ok(())
    }

    /// An expression that stands in no script.
    fn own_expression(&mut self, text: &str, offset: usize) -> Result<super::Expr, Located> {
        let here = |(_, fault): Located| (offset, fault);
        let tokens = CommandReader::new(text, 0).tokens().map_err(here)?;
        let mut reads = Reads { names: self.names, reads: &mut Vec::new() };
        expr_parser::parse(&tokens, &mut reads).map_err(here)
    }

    fn gset(
        &mut self,
        words: &mut CommandReader<'a>,
        offset: usize,
        kind: GsetKind,
    ) -> Result<(), Located> {
        let command = if kind == GsetKind::Gset { "gset" } else { "aset" };
        let (prefix_at, prefix) = words.word().unwrap_or((offset, ""));
        no_arguments(words, command)?;
        if !prefix.is_empty() && !is_valid_name(prefix) {
            let fault = Fault::new(format!("\"{prefix}\" cannot begin a variable name"));
            return Err((prefix_at, fault.hint(name_hint(prefix))));
        }
        self.control.gset(offset, command)?;
        let statement = match self.draft.commands.last() {
            Some(Command::Sql(id)) => self.draft.statements.get_mut(id.index()),
            _ => None,
        };
        match statement {
            Some((_, gset @ None)) => {
                *gset = Some(Gset { prefix: prefix.to_owned(), kind });
            }
            _ => {
                let fault = Fault::new(format!("\\{command} must follow a SQL statement"));
                return Err((
                    offset,
                    fault.hint(format!(
                        "write it in place of the semicolon: SELECT 1 AS one \\{command}"
                    )),
                ));
            }
        }
        self.names.gset_prefixes.push(prefix.to_owned());
        Ok(())
    }

    /// `\capture NAME header FIELD`, `json POINTER` or `status`.
    fn capture(&mut self, words: &mut CommandReader<'a>, offset: usize) -> Result<(), Located> {
        let example = "for example \\capture id json /id, \\capture place header Location, \\capture code status";
        let usage = "\\capture needs a name and a part of an answer";
        if !self.of_requests {
            let fault = Fault::new("\\capture is a command of files of requests");
            return Err((offset, fault.hint("\\gset keeps the result of a statement")));
        }
        let name = name_of(words, offset, usage, example)?;
        let (at, part) = words.word().ok_or_else(|| (offset, Fault::new(usage).hint(example)))?;
        let mut which = |what: &str| {
            let missing = || Fault::new(format!("\\capture … {part} needs {what}")).hint(example);
            words.word().ok_or_else(|| (offset, missing()))
        };
        let from = match part {
            "status" => CaptureFrom::Status,
            "header" => CaptureFrom::Header(which("the name of a header field")?.1.to_owned()),
            "json" => {
                let (at, pointer) = which("a pointer, as /id")?;
                if !pointer.starts_with('/') {
                    let fault = Fault::new(format!("\"{pointer}\" is no JSON pointer"));
                    return Err((
                        at,
                        fault
                            .hint("it is a slash and a name for each step, as /body/name or /0/id"),
                    ));
                }
                CaptureFrom::Json(pointer.to_owned())
            }
            _ => {
                let fault = Fault::new(format!("an answer has no part \"{part}\""));
                return Err((at, fault.hint("the parts are header, json and status")));
            }
        };
        no_arguments(words, "capture")?;
        let is_last = matches!(self.draft.commands.last(), Some(Command::Sql(_)));
        let slot = self.names.define_text(name);
        match self.draft.requests.last_mut().filter(|_| is_last) {
            Some(request) => request.captures.push(Capture { slot, from }),
            None => {
                let fault = Fault::new("\\capture must follow a request");
                return Err((offset, fault.hint("it keeps a part of the answer to that request")));
            }
        }
        Ok(())
    }

    fn sleep(&mut self, words: &mut CommandReader<'a>, offset: usize) -> Result<Sleep, Located> {
        let (amount_at, amount) = words.word().ok_or_else(|| {
            let fault = Fault::new("\\sleep needs an amount");
            (offset, fault.hint("for example \\sleep 10 ms"))
        })?;
        let second = words.word();
        no_arguments(words, "sleep")?;
        if let Some(name) = amount.strip_prefix(':') {
            if !is_valid_name(name) {
                let fault = Fault::new(format!("\"{name}\" is not a variable name"));
                return Err((amount_at, fault.hint(name_hint(name))));
            }
            self.draft.reads.push((amount_at, name.to_owned()));
            let slot = self.names.slot(name);
            return Ok(Sleep { amount: SleepAmount::Variable(slot), unit: unit(second)? });
        }
        let digits = amount.bytes().take_while(u8::is_ascii_digit).count();
        let (number, suffix) = amount.split_at(digits);
        let number = number.parse().ok().filter(|number| *number <= MAX_SLEEP);
        let (Some(number), true) = (number, suffix.is_empty() || second.is_none()) else {
            let fault = Fault::new(format!("invalid sleep time \"{amount}\""));
            return Err((amount_at, fault.hint(
                "it is a whole number from 0 to 2147483647 and a unit (us, ms or s), as in \\sleep 10 ms",
            )));
        };
        let suffix = (!suffix.is_empty()).then_some((amount_at + digits, suffix));
        Ok(Sleep { amount: SleepAmount::Constant(number), unit: unit(suffix.or(second))? })
    }
}

fn unit(word: Option<(usize, &str)>) -> Result<TimeUnit, Located> {
    let Some((offset, word)) = word else {
        return Ok(TimeUnit::Seconds);
    };
    match word.to_ascii_lowercase().as_str() {
        "us" => Ok(TimeUnit::Microseconds),
        "ms" => Ok(TimeUnit::Milliseconds),
        "s" => Ok(TimeUnit::Seconds),
        _ => Err((
            offset,
            Fault::new(format!("unknown time unit \"{word}\"")).hint("the units are us, ms and s"),
        )),
    }
}

fn no_arguments(words: &mut CommandReader<'_>, command: &str) -> Result<(), Located> {
    match words.word() {
        None => Ok(()),
        Some((offset, word)) => Err((
            offset,
            Fault::new(format!("unexpected \"{word}\" after \\{command}"))
                .hint("each backslash command has its own line"),
        )),
    }
}

/// The variable that a command sets.
fn name_of<'a>(
    words: &mut CommandReader<'a>,
    offset: usize,
    missing: &str,
    example: &str,
) -> Result<&'a str, Located> {
    let (name_at, name) =
        words.word().ok_or_else(|| (offset, Fault::new(missing).hint(example)))?;
    if !is_valid_name(name) {
        let fault = Fault::new(format!("\"{name}\" is not a variable name"));
        return Err((name_at, fault.hint(name_hint(name))));
    }
    Ok(name)
}

fn name_hint(name: &str) -> String {
    match name.strip_prefix(':') {
        Some(bare) => format!("write the name without a colon: {bare}"),
        None => "a name has letters, digits and underscores and does not start with a digit".into(),
    }
}
