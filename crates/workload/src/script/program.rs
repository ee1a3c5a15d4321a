//! Compiled scripts: what the driver executes.

use std::sync::Arc;
use std::time::Duration;

use super::batch::{Batch, BatchForm, Gathered};
use super::error::{Fault, ScriptError, locate};
use super::request::Request;
use super::text::TextValue;
use super::{EvalError, Expr, Rng, Value, Variables};

/// The number of a variable: its index in [`Variables`](super::Variables).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot(pub(crate) u32);

impl Slot {
    /// The index in the variables of a client.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The number of a statement: its index in [`Script::statements`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StatementId(pub(crate) u32);

impl StatementId {
    /// The index in [`Script::statements`].
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// All scripts of a run, compiled together, and the variables they share.
#[derive(Debug, Clone)]
pub struct Program {
    /// The scripts, in the order they were given.
    pub scripts: Vec<Script>,
    pub(crate) names: Vec<String>,
    pub(crate) definitions: Vec<(Slot, Value)>,
}

/// What differs between the clients of a run, or is known only when it starts:
/// the values of the automatic variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientStart {
    /// `client_id`: the number of the client, from 0.
    pub client_id: u32,
    /// `scale`: the scale of the data.
    pub scale: i64,
    /// `random_seed`: the seed of the run.
    pub random_seed: u64,
    /// `default_seed`: the seed of `hash` and `permute` without one.
    pub default_seed: i64,
}

/// The variables that a run sets by itself.
pub(crate) const AUTOMATIC: [&str; 4] = ["client_id", "default_seed", "random_seed", "scale"];

impl Program {
    /// The variables of a client at the start of a run: the automatic ones,
    /// then those defined with `-D`, which win.
    pub fn variables(&self, start: &ClientStart) -> Variables {
        let mut variables = Variables::new(self.slot_count());
        let automatic =
            [i64::from(start.client_id), start.default_seed, start.random_seed as i64, start.scale];
        for (name, value) in AUTOMATIC.into_iter().zip(automatic) {
            if let Some(slot) = self.slot(name) {
                variables.set(slot, Value::Int(value));
            }
        }
        for (slot, value) in &self.definitions {
            variables.set(*slot, value.clone());
        }
        variables
    }

    /// Chooses a script by weight, as pgbench does.
    ///
    /// A program has at least one script with a weight above zero.
    #[inline]
    pub fn choose(&self, rng: &mut Rng) -> usize {
        if self.scripts.len() == 1 {
            return 0;
        }
        let total: u64 = self.scripts.iter().map(|script| u64::from(script.weight)).sum();
        let mut place = rng.range_u64(0, total.saturating_sub(1));
        for (index, script) in self.scripts.iter().enumerate() {
            match place.checked_sub(u64::from(script.weight)) {
                Some(rest) => place = rest,
                None => return index,
            }
        }
        self.scripts.len() - 1
    }

    /// Checks that every statement can go through the extended protocol.
    ///
    /// # Errors
    /// At the first statement that cannot: one with a variable inside quotes,
    /// several statements joined by `\\;`, or too many variables.
    pub fn check_extended(&self) -> Result<(), ScriptError> {
        for script in &self.scripts {
            for statement in &script.statements {
                if let Some((offset, fault)) = statement.extended_fault() {
                    return Err(ScriptError::at(&script.name, &script.source, offset, fault));
                }
            }
        }
        Ok(())
    }

    /// An evaluation error with its place and the name of the variable.
    ///
    /// `command` is the index of the command in the script that failed.
    pub fn explain(&self, script: usize, command: usize, error: EvalError) -> ScriptError {
        let mut fault = Fault::new(error.to_string());
        if let EvalError::Undefined(slot) = error {
            let name = self.name(slot);
            fault = Fault::new(format!("variable \"{name}\" is used before anything has set it"))
                .hint(format!("set it earlier in the script, or define it with -D {name}=value"));
        } else if let EvalError::LineBreak(slot) = error {
            fault = Fault::new(format!(
                "variable \"{}\" holds a line break, which ends a header field",
                self.name(slot)
            ));
        } else if let EvalError::Malformed(slot) = error {
            fault = Fault::new(format!(
                "variable \"{}\" holds text that is not a number, a boolean or null",
                self.name(slot)
            ));
        }
        match self.scripts.get(script) {
            Some(script) => {
                let offset = script.offsets.get(command).copied().unwrap_or(0);
                ScriptError::at(&script.name, &script.source, offset, fault)
            }
            None => ScriptError::whole("script", fault.message),
        }
    }

    /// Whether it asks by HTTP, and not in SQL.
    pub fn asks_http(&self) -> bool {
        let mut statements = self.scripts.iter().flat_map(|script| &script.statements);
        statements.any(|statement| statement.request.is_some())
    }

    /// Whether a script wants a gateway between clients and server.
    pub fn wants_gateway(&self) -> bool {
        let mut batches = self.scripts.iter().filter_map(|script| script.batch);
        batches.any(|batch| batch.form == BatchForm::Gateway)
    }

    /// Checks that every statement can go through the simple protocol.
    ///
    /// # Errors
    /// At the first statement whose rows are parameters.
    pub fn check_simple(&self) -> Result<(), ScriptError> {
        for script in &self.scripts {
            for statement in &script.statements {
                let form = statement.gathered.as_ref().map(|of| of.form);
                if matches!(form, Some(BatchForm::Values | BatchForm::Unnest)) {
                    let fault = Fault::new("the rows of this batch are parameters")
                        .hint("run with the prepared or the extended protocol");
                    let (name, source) = (&script.name, &script.source);
                    return Err(ScriptError::at(name, source, statement.offset, fault));
                }
            }
        }
        Ok(())
    }

    /// How many variables the scripts use.
    pub fn slot_count(&self) -> usize {
        self.names.len()
    }

    /// The slot of a variable, or `None` when no script uses that name.
    ///
    /// For a column of a `\gset` result: look up prefix and column name once
    /// per statement and keep the answer; a column without a slot is ignored.
    pub fn slot(&self, name: &str) -> Option<Slot> {
        let index = self.names.iter().position(|known| known == name)?;
        Some(Slot(index as u32))
    }

    /// The name of a variable, for messages.
    pub fn name(&self, slot: Slot) -> &str {
        self.names.get(slot.index()).map_or("?", String::as_str)
    }
}

/// One compiled script.
#[derive(Debug, Clone)]
pub struct Script {
    /// The file name, or the name of the built-in script.
    pub name: String,
    /// How often it is chosen, relative to the weights of the other scripts.
    pub weight: u32,
    /// The program. Execution starts at 0 and ends past the last command.
    pub commands: Vec<Command>,
    /// The statements that [`Command::Sql`] refers to.
    pub statements: Vec<Statement>,
    /// What a transaction of it writes, where it has a `\batch`.
    pub batch: Option<Batch>,
    pub(crate) source: Arc<str>,
    /// Where each command stands in the source.
    pub(crate) offsets: Vec<usize>,
}

impl Script {
    /// The line in the source of the command at `index`, counted from 1.
    pub fn line(&self, index: usize) -> u32 {
        let offset = self.offsets.get(index).copied().unwrap_or(0);
        locate(&self.source, offset).0.line
    }

    /// The text it was compiled from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// A fault that a server found in [`Statement::text_extended`], with its place
    /// in the script. `position` counts characters from 1, as the field `P` of an
    /// error message does; without one the place is that of the statement.
    pub fn server_fault(
        &self,
        statement: &Statement,
        position: Option<u32>,
        message: impl Into<String>,
    ) -> ScriptError {
        let inside = position
            .and_then(|position| usize::try_from(position).ok()?.checked_sub(1))
            .and_then(|wanted| statement.offset_in(&self.source, wanted))
            .unwrap_or(statement.offset);
        ScriptError::at(&self.name, &self.source, inside, Fault::new(message))
    }
}

/// One step of a script.
#[derive(Debug, Clone)]
pub enum Command {
    /// Send a statement, or the request that it is in a file of requests.
    Sql(StatementId),
    /// `\set`: evaluate and store.
    Set {
        /// Where the value goes.
        slot: Slot,
        /// What is evaluated.
        expr: Expr,
    },
    /// `\text`, `\uuid`: write a text and store it.
    SetText {
        /// Where the text goes.
        slot: Slot,
        /// What is written.
        text: TextValue,
    },
    /// The INSERT of a `\batch`: keep a row of the statement behind it, which is [`Gathered`].
    Row {
        /// The variables whose values it has.
        values: Vec<Slot>,
        /// That statement.
        statement: StatementId,
    },
    /// Go on at `target` unless the condition is true (`\if`, `\elif`).
    JumpIfFalse {
        /// NULL counts as false, as do 0 and 0.0.
        condition: Expr,
        /// Index in [`Script::commands`]; may be one past the last.
        target: usize,
    },
    /// Go on at `target` (the end of a branch of `\if`).
    Jump {
        /// Index in [`Script::commands`]; may be one past the last.
        target: usize,
    },
    /// `\sleep`.
    Sleep(Sleep),
    /// `\startpipeline`.
    StartPipeline,
    /// `\syncpipeline` (PostgreSQL 17 and later pgbench): a Sync without
    /// leaving the pipeline.
    SyncPipeline,
    /// `\endpipeline`.
    EndPipeline,
}

/// A pause, with its amount still to be read from a variable perhaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sleep {
    /// How many units.
    pub amount: SleepAmount,
    /// Of what length.
    pub unit: TimeUnit,
}

impl Sleep {
    /// How long to pause.
    ///
    /// # Errors
    /// When the variable has no value, or one that is not a whole number from
    /// 0 to 2^31 - 1.
    pub fn duration(&self, variables: &Variables) -> Result<Duration, EvalError> {
        let amount = match self.amount {
            SleepAmount::Constant(amount) => amount,
            SleepAmount::Variable(slot) => {
                let value = variables.get(slot).ok_or(EvalError::Undefined(slot))?;
                let amount = value.as_int().and_then(|amount| u32::try_from(amount).ok());
                amount.filter(|amount| *amount <= MAX_SLEEP).ok_or(EvalError::Sleep)?
            }
        };
        let amount = u64::from(amount);
        Ok(match self.unit {
            TimeUnit::Microseconds => Duration::from_micros(amount),
            TimeUnit::Milliseconds => Duration::from_millis(amount),
            TimeUnit::Seconds => Duration::from_secs(amount),
        })
    }
}

/// The largest amount of a pause, in its unit.
pub(crate) const MAX_SLEEP: u32 = i32::MAX as u32;

/// The amount of a [`Sleep`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SleepAmount {
    /// A number in the script.
    Constant(u32),
    /// The value of a variable when the command runs.
    Variable(Slot),
}

/// The unit of a [`Sleep`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    /// `us`
    Microseconds,
    /// `ms`
    Milliseconds,
    /// `s`, the default.
    Seconds,
}

/// A SQL statement in the forms the three protocols need.
#[derive(Debug, Clone)]
pub struct Statement {
    /// For the simple protocol: literal text and variables to insert as text.
    pub text_simple: Vec<Piece>,
    /// For the extended protocol: each variable replaced by `$1`, `$2`, … in
    /// order of appearance. As in pgbench, a variable used twice is two
    /// parameters.
    pub text_extended: String,
    /// The variables behind `$1`, `$2`, …
    pub params: Vec<Slot>,
    /// What happens to the rows of the result.
    pub gset: Option<Gset>,
    /// The first words, for display.
    pub label: String,
    /// Line of the first word in the source, counted from 1.
    pub line: u32,
    /// Whether it is several statements joined by `\\;`, which only the simple
    /// protocol carries.
    pub compound: bool,
    /// Where its values are the rows gathered before it; then `params` is empty.
    pub gathered: Option<Gathered>,
    /// What is asked by HTTP in its place, in a file of requests.
    pub request: Option<Box<Request>>,
    /// Where the statement stands in the source.
    pub(crate) offset: usize,
    /// Where a variable stands inside quotes, if one does. The simple protocol
    /// puts its value there; a parameter is not possible there.
    pub(crate) quoted_variable: Option<usize>,
}

/// The most parameters that a Bind message can carry.
pub(super) const MAX_PARAMETERS: usize = 65_535;

impl Statement {
    /// One that is a request of HTTP.
    pub(crate) fn request(request: Request, label: String, line: u32, offset: usize) -> Self {
        Statement {
            text_simple: Vec::new(),
            text_extended: String::new(),
            params: Vec::new(),
            gset: None,
            label,
            line,
            compound: false,
            gathered: None,
            request: Some(Box::new(request)),
            offset,
            quoted_variable: None,
        }
    }

    /// Whether the statement can go through the extended protocol; see
    /// [`Program::check_extended`] for the reason when it cannot.
    pub fn is_extended(&self) -> bool {
        self.extended_fault().is_none()
    }

    /// The byte offset in `source` of the character `wanted` of `text_extended`,
    /// counted from 0; `None` where the two texts do not run side by side.
    fn offset_in(&self, source: &str, wanted: usize) -> Option<usize> {
        let from = source.get(self.offset..)?;
        let mut theirs = from.char_indices().peekable();
        let mut ours = self.text_extended.chars().enumerate().peekable();
        loop {
            let (count, letter) = ours.next()?;
            let (offset, mut original) = theirs.next()?;
            if count >= wanted {
                return Some(self.offset + offset);
            }
            if original == '\\' && letter == ':' {
                (_, original) = theirs.next()?;
            }
            if original == ':' && letter == '$' {
                while ours.next_if(|(_, c)| c.is_ascii_digit()).is_some() {}
                while theirs.next_if(|(_, c)| c.is_alphanumeric() || *c == '_').is_some() {}
            } else if original != letter {
                return None;
            }
        }
    }

    fn extended_fault(&self) -> Option<(usize, Fault)> {
        if let Some(offset) = self.quoted_variable {
            let fault = Fault::new("a variable inside quotes needs the simple protocol");
            return Some((
                offset,
                fault.hint("take the quotes away (a parameter needs none), or run with the simple protocol"),
            ));
        }
        if self.compound {
            let fault = Fault::new("statements joined by \\; need the simple protocol");
            return Some((
                self.offset,
                fault.hint("end each with a plain semicolon, or run with the simple protocol"),
            ));
        }
        if self.params.len() > MAX_PARAMETERS {
            let fault = Fault::new(format!(
                "the statement has {} variables; a message carries at most {MAX_PARAMETERS}",
                self.params.len()
            ));
            return Some((self.offset, fault.hint("split the statement")));
        }
        None
    }
}

/// A part of a statement for the simple protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text to send as it stands.
    Text(String),
    /// A variable whose value is inserted as text.
    Variable(Slot),
    /// A variable of `\text` or `\uuid`, whose value is inserted as a string constant.
    Quoted(Slot),
}

/// `\gset` or `\aset` after a statement: columns of its result become
/// variables named prefix + column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gset {
    /// Put before each column name; often empty.
    pub prefix: String,
    /// Which of the two.
    pub kind: GsetKind,
}

/// The two ways to keep a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GsetKind {
    /// `\gset`: the last statement must return exactly one row.
    Gset,
    /// `\aset`: every statement of a compound command stores its last row;
    /// an empty result sets nothing.
    Aset,
}
