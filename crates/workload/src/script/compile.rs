//! From the text of scripts to a [`Program`].
//!
//! Two passes. The first reads every script: commands, expressions, the raw
//! text of statements. Only then is it known which names any script may set,
//! so the second pass decides what each `:name` is, and fails where a name is
//! used that nothing sets.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::control::ControlFlow;
use super::error::{Fault, Located, ScriptError, closest, locate};
use super::expr_parser::{self, Resolve};
use super::program::{
    AUTOMATIC, Command, Gset, GsetKind, MAX_SLEEP, Piece, Program, Script, Sleep, SleepAmount,
    Slot, Statement, StatementId, TimeUnit,
};
use super::sql_scanner::{self, Context, SqlText, Stop};
use super::token::{CommandReader, is_name_part, is_name_start};
use super::value::Value;

/// The text of a script, before it is compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptSource {
    /// The file name, for messages.
    pub name: String,
    /// The text.
    pub text: String,
    /// How often it is chosen, relative to the other scripts.
    pub weight: u32,
}

/// A variable defined from outside, as with pgbench's `-D name=value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// The name, without colon.
    pub name: String,
    /// The value. It is text; an expression reads it as a number, boolean or
    /// NULL.
    pub value: String,
}

impl Program {
    /// Compiles scripts that run together.
    ///
    /// # Errors
    /// At the first fault: bad syntax, a name that nothing sets, a script
    /// without commands, weights that are all zero, no script at all.
    pub fn compile(
        sources: &[ScriptSource],
        definitions: &[Definition],
    ) -> Result<Program, ScriptError> {
        let mut names = Names::default();
        let mut definition_slots = Vec::new();
        for definition in definitions {
            if !is_valid_name(&definition.name) {
                let message = format!("\"{}\" is not a variable name", definition.name);
                return Err(ScriptError {
                    hint: Some("a name has letters, digits and underscores and does not start with a digit".into()),
                    ..ScriptError::whole("-D", message)
                });
            }
            let slot = names.define(&definition.name);
            definition_slots.push((slot, Value::Text(definition.value.as_str().into())));
        }
        for name in AUTOMATIC {
            names.settable.insert(name.to_owned());
        }

        let mut drafts = Vec::new();
        for source in sources {
            let draft = Draft::read(source, &mut names)
                .map_err(|(at, fault)| ScriptError::at(&source.name, &source.text, at, fault))?;
            if draft.commands.is_empty() {
                return Err(ScriptError::whole(&source.name, "the script has no commands"));
            }
            drafts.push(draft);
        }
        if drafts.is_empty() {
            return Err(ScriptError::whole("workload", "there is no script to run"));
        }
        if sources.iter().all(|source| source.weight == 0) {
            return Err(ScriptError::whole(
                "workload",
                "the weights of all scripts are zero; give at least one script a weight above 0",
            ));
        }

        let mut scripts = Vec::new();
        for (source, draft) in sources.iter().zip(drafts) {
            let script = draft
                .finish(source, &mut names)
                .map_err(|(at, fault)| ScriptError::at(&source.name, &source.text, at, fault))?;
            scripts.push(script);
        }
        Ok(Program { scripts, names: names.by_slot, definitions: definition_slots })
    }
}

/// Expressions outside scripts (row counts, columns) that share variables.
pub(crate) struct Scope {
    names: Names,
}

impl Scope {
    /// A scope whose expressions may use these names.
    pub(crate) fn new<'n>(known: impl IntoIterator<Item = &'n str>) -> Self {
        let mut names = Names::default();
        for name in known {
            names.settable.insert(name.to_owned());
        }
        Scope { names }
    }

    /// Compiles an expression; `place` says where it was written.
    pub(crate) fn compile(&mut self, place: &str, text: &str) -> Result<super::Expr, ScriptError> {
        // An expression in a file of its own lines may span them freely.
        let text = text.replace(['\n', '\r'], " ");
        let error = |(at, fault): Located| ScriptError::at(place, &text, at, fault);
        let tokens = CommandReader::new(&text, 0).tokens().map_err(error)?;
        let mut reads = Vec::new();
        let mut resolve = Reads { names: &mut self.names, reads: &mut reads };
        let expr = expr_parser::parse(&tokens, &mut resolve).map_err(error)?;
        for (offset, name) in reads {
            if !self.names.may_be_set(&name) {
                let mut known: Vec<&str> = self.names.settable.iter().map(String::as_str).collect();
                known.sort_unstable();
                let fault = Fault::new(format!("undefined variable \"{name}\""))
                    .hint(format!("the variables here are :{}", known.join(", :")));
                return Err(error((offset, fault)));
            }
        }
        Ok(expr)
    }

    /// The slot of a name that a compiled expression uses.
    pub(crate) fn slot(&self, name: &str) -> Option<Slot> {
        self.names.slots.get(name).copied()
    }

    /// How many slots the compiled expressions use.
    pub(crate) fn slot_count(&self) -> usize {
        self.names.by_slot.len()
    }
}

/// The names of variables: their slots, and which of them something may set.
#[derive(Default)]
struct Names {
    by_slot: Vec<String>,
    slots: HashMap<String, Slot>,
    settable: HashSet<String>,
    gset_prefixes: Vec<String>,
}

impl Names {
    fn slot(&mut self, name: &str) -> Slot {
        if let Some(slot) = self.slots.get(name) {
            return *slot;
        }
        let slot = Slot(self.by_slot.len() as u32);
        self.by_slot.push(name.to_owned());
        self.slots.insert(name.to_owned(), slot);
        slot
    }

    fn define(&mut self, name: &str) -> Slot {
        self.settable.insert(name.to_owned());
        self.slot(name)
    }

    /// Whether a `\set`, `-D`, a `\gset` or the run itself may set the name.
    fn may_be_set(&self, name: &str) -> bool {
        self.settable.contains(name)
            || self.gset_prefixes.iter().any(|prefix| name.starts_with(prefix.as_str()))
    }

    fn undefined(&self, name: &str) -> Fault {
        let fault = Fault::new(format!("undefined variable \"{name}\""));
        let mut known: Vec<&str> = self.settable.iter().map(String::as_str).collect();
        known.sort_unstable();
        match closest(name, known) {
            Some(near) => fault.hint(format!("did you mean :{near}?")),
            None => fault.hint(format!(
                "no \\set or \\gset sets it; define it with -D {name}=value, or write \\:{name} for a plain colon"
            )),
        }
    }
}

/// A script after the first pass.
struct Draft {
    commands: Vec<Command>,
    offsets: Vec<usize>,
    statements: Vec<(SqlText, Option<Gset>)>,
    /// Variables that expressions read, with their places.
    reads: Vec<(usize, String)>,
}

impl Draft {
    fn read(source: &ScriptSource, names: &mut Names) -> Result<Draft, Located> {
        let mut reader = Reader {
            text: &source.text,
            names,
            draft: Draft {
                commands: Vec::new(),
                offsets: Vec::new(),
                statements: Vec::new(),
                reads: Vec::new(),
            },
            control: ControlFlow::default(),
        };
        let mut at = 0;
        loop {
            let (sql, end, next) = sql_scanner::scan(&source.text, at)?;
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
        let Reader { draft, control, .. } = reader;
        control.finish()?;
        Ok(draft)
    }

    fn finish(self, source: &ScriptSource, names: &mut Names) -> Result<Script, Located> {
        for (offset, name) in &self.reads {
            if !names.may_be_set(name) {
                return Err((*offset, names.undefined(name)));
            }
        }
        let mut statements = Vec::new();
        for (sql, gset) in self.statements {
            statements.push(finish_statement(sql, gset, &source.text, names)?);
        }
        Ok(Script {
            name: source.name.clone(),
            weight: source.weight,
            commands: self.commands,
            statements,
            source: Arc::from(source.text.as_str()),
            offsets: self.offsets,
        })
    }
}

fn finish_statement(
    sql: SqlText,
    gset: Option<Gset>,
    source: &str,
    names: &mut Names,
) -> Result<Statement, Located> {
    let mut pieces = Vec::new();
    let mut params = Vec::new();
    let mut extended = String::new();
    let mut quoted_variable = None;
    let mut literal = String::new();
    let mut copied = 0;
    for reference in &sql.references {
        let name = &sql.text[reference.range.start + 1..reference.range.end];
        if !names.may_be_set(name) {
            if reference.context == Context::Sql {
                return Err((reference.offset, names.undefined(name)));
            }
            // In quotes and comments a colon is mostly just a colon.
            continue;
        }
        let before = &sql.text[copied..reference.range.start];
        literal.push_str(before);
        extended.push_str(before);
        copied = reference.range.end;
        if reference.context == Context::Comment {
            let text = &sql.text[reference.range.clone()];
            literal.push_str(text);
            extended.push_str(text);
            continue;
        }
        let slot = names.slot(name);
        if !literal.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut literal)));
        }
        pieces.push(Piece::Variable(slot));
        params.push(slot);
        extended.push_str(&format!("${}", params.len()));
        if reference.context == Context::Quoted {
            quoted_variable = quoted_variable.or(Some(reference.offset));
        }
    }
    literal.push_str(&sql.text[copied..]);
    extended.push_str(&sql.text[copied..]);
    if !literal.is_empty() {
        pieces.push(Piece::Text(literal));
    }
    Ok(Statement {
        text_simple: pieces,
        text_extended: extended,
        params,
        gset,
        label: label(&sql.text),
        line: locate(source, sql.offset).0.line,
        compound: sql.compound,
        offset: sql.offset,
        quoted_variable,
    })
}

/// Longest label, in characters.
const LABEL_WIDTH: usize = 48;

fn label(text: &str) -> String {
    let words: Vec<&str> = text.trim_end_matches(';').split_whitespace().collect();
    let whole = words.join(" ");
    if whole.chars().count() <= LABEL_WIDTH {
        return whole;
    }
    let cut: String = whole.chars().take(LABEL_WIDTH - 1).collect();
    format!("{}…", cut.trim_end())
}

pub(crate) fn is_valid_name(name: &str) -> bool {
    name.bytes().next().is_some_and(is_name_start) && name.bytes().all(is_name_part)
}

struct Reader<'a, 'n> {
    text: &'a str,
    names: &'n mut Names,
    draft: Draft,
    control: ControlFlow,
}

/// Gives slots to the variables of an expression and remembers the reads.
struct Reads<'r> {
    names: &'r mut Names,
    reads: &'r mut Vec<(usize, String)>,
}

impl Resolve for Reads<'_> {
    fn variable(&mut self, name: &str, offset: usize) -> Slot {
        self.reads.push((offset, name.to_owned()));
        self.names.slot(name)
    }
}

const COMMANDS: &[&str] = &[
    "set",
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
];

impl<'a> Reader<'a, '_> {
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
        match word.to_ascii_lowercase().as_str() {
            "set" => {
                let (name_at, name) = words.word().ok_or_else(|| {
                    let fault = Fault::new("\\set needs a name and an expression");
                    (offset, fault.hint("for example \\set aid random(1, 100000 * :scale)"))
                })?;
                if !is_valid_name(name) {
                    let fault = Fault::new(format!("\"{name}\" is not a variable name"));
                    return Err((name_at, fault.hint(name_hint(name))));
                }
                let expr = self.expression(&mut words)?;
                let slot = self.names.define(name);
                self.push(Command::Set { slot, expr }, offset);
            }
            "if" => {
                let condition = self.expression(&mut words)?;
                self.control.begin(offset, self.draft.commands.len());
                self.push(Command::JumpIfFalse { condition, target: 0 }, offset);
            }
            "elif" => {
                self.push(Command::Jump { target: 0 }, offset);
                let condition = self.expression(&mut words)?;
                self.control.elif(offset, &mut self.draft.commands)?;
                self.push(Command::JumpIfFalse { condition, target: 0 }, offset);
            }
            "else" => {
                no_arguments(&mut words, word)?;
                self.push(Command::Jump { target: 0 }, offset);
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

fn name_hint(name: &str) -> String {
    match name.strip_prefix(':') {
        Some(bare) => format!("write the name without a colon: {bare}"),
        None => "a name has letters, digits and underscores and does not start with a digit".into(),
    }
}
