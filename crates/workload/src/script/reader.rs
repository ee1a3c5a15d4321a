//! The first pass over a script: its commands, with the text of statements
//! still raw.

use super::control::ControlFlow;
use super::error::{Fault, Located, closest};
use super::expr_parser;
use super::names::{Names, Reads, is_valid_name};
use super::program::{
    Command, Gset, GsetKind, MAX_SLEEP, Sleep, SleepAmount, StatementId, TimeUnit,
};
use super::sql_scanner::{self, SqlText, Stop};
use super::token::CommandReader;

/// A script after the first pass.
pub(super) struct Draft {
    pub(super) commands: Vec<Command>,
    pub(super) offsets: Vec<usize>,
    pub(super) statements: Vec<(SqlText, Option<Gset>)>,
    /// Variables that expressions read, with their places.
    pub(super) reads: Vec<(usize, String)>,
}

impl Draft {
    /// Reads the commands of a script.
    pub(super) fn read(text: &str, names: &mut Names) -> Result<Draft, Located> {
        let mut reader = Reader {
            text,
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
        let Reader { draft, control, .. } = reader;
        control.finish()?;
        Ok(draft)
    }
}

struct Reader<'a, 'n> {
    text: &'a str,
    names: &'n mut Names,
    draft: Draft,
    control: ControlFlow,
}

/// The target of a jump until its branch ends: past the last command.
const UNSET: usize = usize::MAX;

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
