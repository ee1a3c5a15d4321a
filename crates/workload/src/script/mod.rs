//! pgbench's script language.
//!
//! A script is text with SQL statements and backslash commands. It is compiled
//! once to a [`Script`]: a flat list of [`Command`]s with a program counter,
//! whose variables are numbered [`Slot`]s. All scripts of a run are compiled
//! together to one [`Program`], because pgbench gives each client a single set
//! of variables that its scripts share.

mod eval;
mod expr;
mod format;
mod numeric;
mod program;
mod rng;
mod value;

pub use eval::EvalError;
pub use expr::Expr;
pub use program::{
    Command, Gset, GsetKind, Piece, Program, Script, Sleep, SleepAmount, Slot, Statement,
    StatementId, TimeUnit,
};
pub use rng::Rng;
pub use value::{Value, Variables};
