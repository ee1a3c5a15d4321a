//! Compiled scripts: what the driver executes.

use super::Expr;

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
}

impl Program {
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
    pub(crate) lines: Vec<u32>,
}

impl Script {
    /// The line in the source of the command at `index`, counted from 1.
    pub fn line(&self, index: usize) -> u32 {
        self.lines.get(index).copied().unwrap_or(0)
    }
}

/// One step of a script.
#[derive(Debug, Clone)]
pub enum Command {
    /// Send a statement.
    Sql(StatementId),
    /// `\set`: evaluate and store.
    Set {
        /// Where the value goes.
        slot: Slot,
        /// What is evaluated.
        expr: Expr,
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
}

/// A part of a statement for the simple protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text to send as it stands.
    Text(String),
    /// A variable whose value is inserted as text.
    Variable(Slot),
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
