//! pgbench's script language.
//!
//! A script is text with SQL statements and backslash commands. It is compiled
//! once to a [`Script`]: a flat list of [`Command`]s with a program counter,
//! whose variables are numbered [`Slot`]s. All scripts of a run are compiled
//! together to one [`Program`], because pgbench gives each client a single set
//! of variables that its scripts share.
//!
//! ```
//! use walwright_workload::script::{ClientStart, Command, Program, RunSeeds, ScriptSource};
//!
//! let source = ScriptSource {
//!     name: "pay.sql".into(),
//!     text: "\\set id random(1, 10 * :scale)\nUPDATE account SET n = n + 1 WHERE id = :id;".into(),
//!     weight: 1,
//! };
//! let program = Program::compile(&[source], &[])?;
//! let script = &program.scripts[0];
//! assert_eq!(script.statements[0].text_extended, "UPDATE account SET n = n + 1 WHERE id = $1;");
//!
//! let seeds = RunSeeds::new(42, 1);
//! let mut rng = seeds.client(0).unwrap().clone();
//! let mut variables = program.variables(&ClientStart {
//!     client_id: 0,
//!     scale: 10,
//!     random_seed: seeds.random_seed(),
//!     default_seed: seeds.default_seed(),
//! });
//! if let Command::Set { slot, expr } = &script.commands[0] {
//!     let value = expr.eval(&variables, &mut rng)?;
//!     variables.set(*slot, value);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where it differs from pgbench
//!
//! * A name that nothing can set is an error before the run. pgbench leaves
//!   `:name` in the text (simple protocol) or sends NULL (extended). Inside
//!   quotes and comments such a name stays as it is, so that
//!   `to_char(t, 'HH24:MI:SS')` works with every protocol.
//! * `\:` is a colon that starts no variable.
//! * A NULL variable is a NULL parameter; pgbench sends the text `NULL`.
//! * A statement has up to 65,535 variables, not 255.
//! * `\shell` and `\setshell` are refused.
//!
//! # Files of requests
//!
//! [`Program::compile_requests`] reads files with the same commands, in which requests of HTTP
//! stand in place of SQL:
//!
//! ```text
//! # a comment
//! \set n random(1, 1000)
//! POST /data/person
//! Content-Type: application/json
//!
//! {"identity": :n, "body": {"name": "person :n", "size": {{random(1, 9)}}}}
//! \capture person header Location
//! GET :person
//! ```
//!
//! A request is a method and a path, then header fields, an empty line, and a body, which ends
//! before the next request, command or comment. `:name` and `{{…}}` (as of `\text`) are values,
//! written so that they stay where they stand: encoded in addresses and forms; in JSON as
//! numbers or quoted texts, inside quotes escaped. At the beginning of a path a value is a whole
//! address. Inside quotes, and as `true`, `false` or `null` of JSON, a name that nothing sets
//! stays as it is. `\capture NAME` keeps of the answer to the request before it
//! `header FIELD`, `json POINTER` (RFC 6901) or `status`.
//!
//! # What it has beside
//!
//! * `\text NAME TEXT` sets a variable to the rest of the line, in which `{{…}}` is an
//!   expression; `\uuid NAME EXPRESSION` to a number as the last digits of a UUID.
//! * `\batch ROWS FORM` … `\endbatch`: the block, which holds an INSERT of one row, is run for
//!   so many rows, and those are sent in one of the [`BatchForm`]s. Either is a word, or an
//!   option or definition by name; `:row` counts rows from 1. A script has one batch at most. In an array a value
//!   is text unless the INSERT casts it.

mod argument;
mod batch;
mod compile;
mod control;
mod error;
mod eval;
mod expr;
mod expr_parser;
mod format;
mod names;
mod numeric;
mod program;
mod reader;
mod request;
mod request_reader;
mod rng;
mod sql_scanner;
mod template;
mod text;
mod token;
mod value;

pub use argument::{ArgumentError, parse_definition, parse_script_argument};
pub use batch::{Batch, BatchForm, Gathered};
pub use compile::{Definition, ScriptSource};
pub(crate) use error::Fault;
pub use error::{Position, ScriptError, closest};
pub use eval::EvalError;
pub use expr::Expr;
pub(crate) use format::{write_int, write_uuid};
pub(crate) use names::{Scope, is_valid_name};
pub(crate) use program::AUTOMATIC;
pub use program::{
    ClientStart, Command, Gset, GsetKind, Piece, Program, Script, Sleep, SleepAmount, Slot,
    Statement, StatementId, TimeUnit,
};
pub use request::{Capture, CaptureFrom, Request, RequestText};
pub use rng::{Rng, RunSeeds};
pub use template::Template;
pub(crate) use template::{TemplateReader, with_texts};
pub use text::TextValue;
pub(crate) use text::{integer, room, write_letters};
pub use value::{Value, ValueType, Variables};
