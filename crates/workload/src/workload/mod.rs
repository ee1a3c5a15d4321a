//! Workloads: what they are, where they come from, what a run does with one.
//!
//! # Writing one
//!
//! A workload is a directory with a `workload.toml`, SQL files and scripts.
//! The quickest start is to export a built-in one and edit it
//! ([`Workload::export`]). Nothing else is needed: no code, no registration.
//!
//! ```text
//! shop/
//!   workload.toml
//!   schema.sql        creates the tables
//!   keys.sql          primary keys and indexes, after the data are in
//!   order.sql         a script: one transaction
//!   look.sql          another
//! ```
//!
//! ```toml
//! name = "shop"                      # short, for the command line
//! title = "Orders of a small shop"   # one line, for people
//! description = "…"                  # optional
//!
//! [defaults]                         # all optional
//! scale = 10                         # 1 when absent
//! scale_sql = "SELECT count(*) FROM shop"   # scale of tables that are there already
//! clients = 16                       # 1 when absent
//! protocol = "prepared"              # or "extended", "simple"
//!
//! [sql]                              # lists of files, all optional
//! before_load = ["schema.sql"]
//! after_load = ["keys.sql"]
//! before_run = []                    # before each run: VACUUM, TRUNCATE
//!
//! [[table]]
//! name = "customer"
//! rows = "1000 * :scale"             # an expression, or a number
//! column = [
//!     { name = "id", expr = ":row" },
//!     { name = "tier", choice = { gold = 5, silver = 95 } },
//! ]
//!
//! [[script]]
//! file = "order.sql"
//! weight = 9                         # 1 when absent
//!
//! [[script]]
//! file = "look.sql"
//! ```
//!
//! An unknown key is an error, so a typing mistake does not go unnoticed.
//!
//! ## Scripts and SQL files
//!
//! Both are written in pgbench's language ([`crate::script`]): SQL statements
//! that end with a semicolon, variables as `:name`, `\set`, `\if` and the rest.
//! A script is one transaction of the load (unless it says otherwise with BEGIN
//! and COMMIT, each statement commits alone). A SQL file runs once; its
//! statements are sent one by one, outside a transaction block, so VACUUM works
//! there. SQL files may use `\set` and `\if` but not `\sleep`, `\gset` or
//! pipelines. `:scale` and the options (below) are variables in both:
//!
//! ```sql
//! \if :scale >= 20000
//! create table account (id bigint not null, balance int);
//! \else
//! create table account (id int not null, balance int);
//! \endif
//! ```
//!
//! ## Tables and columns
//!
//! The data of each `[[table]]` are generated and copied in the order of the
//! file. The tables must exist after `before_load`. A table with `rows = 0`
//! needs no columns; it is emptied with the others before the load. `name` is
//! put into SQL as it stands, so write quotes or a schema if the table needs
//! them.
//!
//! A column has a name and exactly one of these:
//!
//! | key | value |
//! |---|---|
//! | `expr = ":row % 10"` | a number, boolean or NULL: any expression of the script language; `:row` counts rows from 1 |
//! | `text = "user-{{:row}}"` | text; what stands in double braces is an expression, or one of the words [below](#texts). JSON is text: `'{"n": {{random(1, 9)}}}'` |
//! | `choice = { a = 1, b = "2 * :scale" }` | one of these texts, by weight; a weight is a number or an expression |
//! | `uuid = "v4"`, `uuid = "v7"` | a UUID, random or ordered by row |
//! | `uuid = "random(1, 100)"` | the number as the last digits of a UUID, to refer to it: in SQL `lpad(to_hex(n), 32, '0')::uuid` |
//! | `timestamp = { from = 2025-01-01, every = "10 ms" }` | evenly spaced from row to row |
//! | `timestamp = { from = 2025-01-01, to = 2025-12-31 }` | uniform between two times (UTC unless an offset is given) |
//! | `letters = "random(5, 20)"` | that many random lower-case letters |
//! | `null = true` | NULL |
//!
//! and may have `null_fraction = 0.1` (that share of rows is NULL) and
//! `pad = 84` (blank-padded to so many characters).
//!
//! Before the columns, a table's `variable = [{ name = "half", expr = ":row / 2" }]` have values
//! for each row, in their order; columns and later variables use them as `:half`.
//!
//! Data follow from the seed alone, whatever the number of parallel loaders.
//!
//! ## Texts
//!
//! In a column's `text` and in a script's `\text` double braces hold an expression,
//! `letters(N)` for so many random letters, or a word: `{{if EXPRESSION}}`,
//! `{{elif EXPRESSION}}`, `{{else}}`, `{{endif}}` choose, and what stands from
//! `{{repeat EXPRESSION}}` to `{{endrepeat}}` is written so many times, anew each time.
//!
//! What several places share has a name, and `{{text NAME}}` stands for it, in columns and
//! anywhere in scripts:
//!
//! ```toml
//! [texts]
//! tier = "case when :id % 20 = 0 then 1 else 0 end"
//! order = '''
//! {"id": {{:id}}, {{if :tier = 1}}"gift": true, {{endif}}
//!  "lines": [{{random(1, 9)}}{{repeat random(0, 4)}}, {{random(1, 9)}}{{endrepeat}}]}
//! '''
//! ```
//!
//! ## Options
//!
//! What should be selectable without editing files:
//!
//! ```toml
//! [options.partial_index]
//! description = "whether the partial index exists"
//! default = true                     # so it is a boolean
//!
//! [options.lines]
//! description = "lines of an order"
//! default = 3                        # a whole number, here with bounds
//! min = 1
//! max = 100
//!
//! [options.method]
//! description = "how a line is written"
//! default = "insert"                 # a text, here one of two
//! allowed = ["insert", "merge"]
//! ```
//!
//! Each is a variable of its name in SQL files, scripts, row counts and
//! columns: `\if :partial_index`.
//!
//! ## Checks
//!
//! What must hold after a run, as a query that returns one boolean. With
//! `before`, a query for one value runs before the load starts and its result
//! is `:before` in the check:
//!
//! ```toml
//! [[check]]
//! name = "history adds up to what the accounts gained"
//! before = "SELECT sum(balance) FROM account"
//! sql = "SELECT (SELECT sum(balance) FROM account) - CAST(:before AS bigint) = (SELECT sum(delta) FROM history)"
//! ```
//!
//! `:written` is how many rows were acknowledged to clients where scripts have a `\batch`, else
//! how many transactions; `:unknown` how many more there may be, since no client knows how
//! their transactions ended.
//!
//! ## Pass mark and side measurement
//!
//! ```toml
//! [pass_mark]                        # optional: how fast is good enough
//! description = "a connection alone should insert in 0.5 ms"
//! mean_latency = "0.5 ms"
//! clients = 1                        # holds for this many clients; any when absent
//!
//! [side]                             # optional: a query beside the load
//! name = "empty query"
//! sql = ""
//! every = "50 ms"
//! ```

mod builtin;
mod load;
mod options;
mod plan;

use std::path::PathBuf;
use std::time::Duration;

pub use crate::error::WorkloadError;
pub use crate::protocol::Protocol;
pub use load::{MANIFEST_FILE, builtin_names};
pub use options::{OptionKind, WorkloadOption};
pub use plan::{Check, Done, Plan, Settings, SqlStep};

use crate::manifest::Manifest;
use crate::script::ScriptSource;

/// A workload: schema, initial data, weighted scripts, client settings.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Short name, as given on the command line.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// What it is for, in a few sentences; may be empty.
    pub description: String,
    /// Where it comes from.
    pub origin: Origin,
    /// Client settings when none are chosen.
    pub defaults: ClientDefaults,
    /// What can be chosen.
    pub options: Vec<WorkloadOption>,
    /// The scripts with their weights.
    pub scripts: Vec<ScriptSource>,
    /// How fast is good enough, if the workload says so.
    pub pass_mark: Option<PassMark>,
    /// What is measured beside the load, if anything.
    pub side: Option<SideMeasurement>,
    pub(crate) manifest: Manifest,
    pub(crate) files: Vec<(String, String)>,
}

/// Where a workload comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Part of walwright.
    Builtin,
    /// A directory with a `workload.toml`.
    Directory(PathBuf),
    /// Script files alone, without schema or data.
    Scripts,
    /// Files of requests of HTTP, which an application answers.
    Requests,
}

/// Client settings of a workload when none are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientDefaults {
    /// The scale of the data.
    pub scale: u32,
    /// How many clients.
    pub clients: u32,
    /// How statements are sent.
    pub protocol: Protocol,
}

/// A limit that a run should stay under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassMark {
    /// What it means and where it comes from.
    pub description: String,
    /// Largest mean latency of a transaction.
    pub mean_latency: Duration,
    /// The number of clients it is meant for; any number when absent.
    pub clients: Option<u32>,
}

/// A query repeated on a connection of its own beside the load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideMeasurement {
    /// What is measured.
    pub name: String,
    /// What it tells; may be empty.
    pub description: String,
    /// The query; empty for a round trip that runs nothing.
    pub sql: String,
    /// How often it is sent.
    pub every: Duration,
}
