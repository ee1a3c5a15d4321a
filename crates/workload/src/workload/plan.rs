//! From a workload and the choices for a run to what is to be done.

use std::collections::BTreeMap;

use super::load::MANIFEST_FILE;
use super::options::find;
use super::{Origin, Workload};
use crate::error::WorkloadError;
use crate::generate::{TableLoad, TableSpec};
use crate::manifest::NumberEntry;
use crate::script::{
    ClientStart, Command, Definition, EvalError, Piece, Program, Rng, Scope, Script, ScriptError,
    ScriptSource, Slot, Statement, Value, Variables, with_texts,
};

/// What is chosen for a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The scale of the data; at least 1.
    pub scale: u32,
    /// Options by name, as given; options not named have their defaults.
    pub options: BTreeMap<String, String>,
    /// Variables for the scripts (`-D`).
    pub definitions: Vec<Definition>,
    /// The seed of the initial data.
    pub seed: u64,
}

impl Settings {
    /// The defaults of a workload, with a fixed seed.
    pub fn of(workload: &Workload) -> Self {
        Settings {
            scale: workload.defaults.scale,
            options: BTreeMap::new(),
            definitions: Vec::new(),
            seed: 0,
        }
    }
}

/// Everything a run does with a workload, in this order: [`before_load`],
/// load the [`tables`], [`after_load`]; then for each run [`before_run`], the
/// first half of the [`checks`], the [`program`], the other half.
///
/// [`before_load`]: Plan::before_load
/// [`tables`]: Plan::tables
/// [`after_load`]: Plan::after_load
/// [`before_run`]: Plan::before_run
/// [`checks`]: Plan::checks
/// [`program`]: Plan::program
#[derive(Debug, Clone)]
pub struct Plan {
    /// The scale it was made for.
    pub scale: u32,
    /// Every option with its value.
    pub options: BTreeMap<String, String>,
    /// Creates the schema. Each step is sent alone, outside a transaction.
    pub before_load: Vec<SqlStep>,
    /// The initial data, in the order to load it.
    pub tables: Vec<TableLoad>,
    /// Keys, indexes, VACUUM. Each step is sent alone.
    pub after_load: Vec<SqlStep>,
    /// Before every run. Each step is sent alone.
    pub before_run: Vec<SqlStep>,
    /// The scripts.
    pub program: Program,
    /// What must be true after a run.
    pub checks: Vec<Check>,
}

impl Plan {
    /// Empties every table of the load in one statement. Sent first in the
    /// transaction that copies, it allows COPY with FREEZE. `None` when the
    /// workload loads nothing.
    pub fn truncate_statement(&self) -> Option<String> {
        let names: Vec<&str> = self.tables.iter().map(TableLoad::table).collect();
        (!names.is_empty()).then(|| format!("TRUNCATE TABLE {}", names.join(", ")))
    }

    /// Rows of all tables together.
    pub fn total_rows(&self) -> u64 {
        self.tables.iter().map(TableLoad::rows).sum()
    }
}

/// A literal that reads the same whether or not strings keep backslashes
/// (`standard_conforming_strings`).
fn literal(value: &str) -> String {
    let quoted = value.replace('\'', "''");
    match quoted.contains('\\') {
        true => format!(" E'{}'", quoted.replace('\\', "\\\\")),
        false => format!("'{quoted}'"),
    }
}

/// One statement to be sent alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlStep {
    /// The statement.
    pub sql: String,
    /// The file it stands in.
    pub file: String,
    /// The line there, from 1.
    pub line: u32,
}

/// A statement about the data that must hold after a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What must be true, as a sentence.
    pub name: String,
    /// A query for one value before the run, for [`Check::sql`].
    pub before: Option<String>,
    sql: Vec<SqlPart>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum SqlPart {
    Text(String),
    Before,
    Written,
    Unknown,
}

/// What a load came to, for the checks after it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Done {
    /// Rows that were acknowledged to a client, where the scripts have a `\batch`; else
    /// transactions.
    pub written: u64,
    /// The same of transactions of which no client knows how they ended.
    pub unknown: u64,
}

impl Check {
    /// The query that returns one boolean: whether the check holds. `before`
    /// is the text of the value that the query in [`Check::before`] returned,
    /// `None` for NULL or when there is no such query.
    pub fn sql(&self, before: Option<&str>, done: Done) -> String {
        let mut sql = String::new();
        for part in &self.sql {
            match part {
                SqlPart::Text(text) => sql.push_str(text),
                SqlPart::Written => sql.push_str(&done.written.to_string()),
                SqlPart::Unknown => sql.push_str(&done.unknown.to_string()),
                SqlPart::Before => match before {
                    Some(value) => sql.push_str(&literal(value)),
                    None => sql.push_str("NULL"),
                },
            }
        }
        sql
    }
}

impl Workload {
    /// Works out what a run does.
    ///
    /// # Errors
    /// Unknown options and bad values; faults in SQL files, scripts and
    /// expressions; a scale that is 0 or makes a row count impossible.
    pub fn plan(&self, settings: &Settings) -> Result<Plan, WorkloadError> {
        if settings.scale == 0 {
            return Err(WorkloadError::Scale { scale: 0, message: "it must be at least 1".into() });
        }
        let options = self.option_values(&settings.options)?;
        let context = Context {
            workload: self,
            scale: i64::from(settings.scale),
            definitions: options
                .iter()
                .map(|(name, value)| Definition { name: name.clone(), value: value.clone() })
                .chain(settings.definitions.iter().cloned())
                .collect(),
        };
        Ok(Plan {
            scale: settings.scale,
            before_load: context.steps(&self.manifest.sql.before_load)?,
            tables: context.tables(settings.seed)?,
            after_load: context.steps(&self.manifest.sql.after_load)?,
            before_run: context.steps(&self.manifest.sql.before_run)?,
            program: match self.origin {
                Origin::Requests => Program::compile_requests(&self.scripts, &context.definitions)?,
                _ => Program::compile(&context.scripts(), &context.definitions)?,
            },
            checks: context.checks()?,
            options,
        })
    }

    fn option_values(
        &self,
        chosen: &BTreeMap<String, String>,
    ) -> Result<BTreeMap<String, String>, WorkloadError> {
        let mut values: BTreeMap<String, String> = self
            .options
            .iter()
            .map(|option| (option.name.clone(), option.default.clone()))
            .collect();
        for (name, value) in chosen {
            let option = find(&self.name, &self.options, name)?;
            let value = option.parse(value).map_err(|message| WorkloadError::Option {
                workload: self.name.clone(),
                option: name.clone(),
                message,
            })?;
            values.insert(name.clone(), value);
        }
        Ok(values)
    }
}

/// The variables of checks that tell what the load came to.
pub(super) const WRITTEN: &str = "written";
pub(super) const UNKNOWN: &str = "unknown";

/// What SQL files, row counts and columns are evaluated with.
struct Context<'w> {
    workload: &'w Workload,
    scale: i64,
    definitions: Vec<Definition>,
}

impl Context<'_> {
    fn steps(&self, files: &[String]) -> Result<Vec<SqlStep>, WorkloadError> {
        let mut steps = Vec::new();
        for file in files {
            let text = self.workload.file(file)?;
            steps.extend(self.run_sql_file(file, text)?);
        }
        Ok(steps)
    }

    /// The scripts with the named texts in their places.
    fn scripts(&self) -> Vec<ScriptSource> {
        let texts = &self.workload.manifest.texts;
        let named = |name: &str| texts.get(name).map(String::as_str);
        let scripts = self.workload.scripts.iter();
        scripts
            .map(|script| ScriptSource { text: with_texts(&script.text, named), ..script.clone() })
            .collect()
    }

    /// A SQL file is a script too, so that it can use variables and `\if`.
    fn run_sql_file(&self, file: &str, text: &str) -> Result<Vec<SqlStep>, ScriptError> {
        let source =
            ScriptSource { name: self.workload.shown(file), text: text.to_owned(), weight: 1 };
        let program = Program::compile(&[source], &self.definitions)?;
        let Some(script) = program.scripts.first() else {
            return Ok(Vec::new());
        };
        let mut variables = program.variables(&self.client());
        let mut rng = Rng::from_seed(0);
        let mut steps = Vec::new();
        let mut at = 0;
        while let Some(command) = script.commands.get(at) {
            let explain = |error| program.explain(0, at, error);
            let mut next = at + 1;
            match command {
                Command::Sql(id) => {
                    let statement = &script.statements[id.index()];
                    if statement.gset.is_some() {
                        return Err(not_in_sql_files(script, at, "\\gset and \\aset"));
                    }
                    steps.push(SqlStep {
                        sql: render(statement, &variables).map_err(explain)?,
                        file: script.name.clone(),
                        line: statement.line,
                    });
                }
                Command::Set { slot, expr } => {
                    let value = expr.eval(&variables, &mut rng).map_err(explain)?;
                    variables.set(*slot, value);
                }
                Command::SetText { slot, text } => {
                    let value = text.eval(&variables, &mut rng).map_err(explain)?;
                    variables.set(*slot, value);
                }
                Command::Row { .. } => return Err(not_in_sql_files(script, at, "a batch")),
                Command::JumpIfFalse { condition, target } => {
                    if !condition.eval_condition(&variables, &mut rng).map_err(explain)? {
                        next = *target;
                    }
                }
                Command::Jump { target } => next = *target,
                Command::Sleep(_) => return Err(not_in_sql_files(script, at, "\\sleep")),
                Command::StartPipeline | Command::SyncPipeline | Command::EndPipeline => {
                    return Err(not_in_sql_files(script, at, "a pipeline"));
                }
            }
            at = next;
        }
        Ok(steps)
    }

    fn client(&self) -> ClientStart {
        ClientStart { client_id: 0, scale: self.scale, random_seed: 0, default_seed: 0 }
    }

    fn scope(&self, extra: &[&str]) -> Scope {
        let defined = self.definitions.iter().map(|definition| definition.name.as_str());
        Scope::new(defined.chain(["scale"]).chain(extra.iter().copied()))
    }

    fn variables(&self, scope: &Scope) -> Variables {
        let mut variables = Variables::new(scope.slot_count());
        if let Some(slot) = scope.slot("scale") {
            variables.set(slot, Value::Int(self.scale));
        }
        for definition in &self.definitions {
            if let Some(slot) = scope.slot(&definition.name) {
                variables.set(slot, Value::Text(definition.value.as_str().into()));
            }
        }
        variables
    }

    fn tables(&self, seed: u64) -> Result<Vec<TableLoad>, WorkloadError> {
        let file = self.workload.shown(MANIFEST_FILE);
        let mut tables = Vec::new();
        for (index, entry) in self.workload.manifest.tables.iter().enumerate() {
            let key = format!("table \"{}\"", entry.name);
            let rows = match &entry.rows {
                NumberEntry::Number(count) => *count,
                NumberEntry::Expression(text) => self.rows(&file, &key, text)?,
            };
            let mut scope = self.scope(&["row"]);
            let draft =
                TableSpec::compile(entry, &file, &self.workload.manifest.texts, &mut scope)?;
            let variables = self.variables(&scope);
            let spec = draft.finish(&file, rows, &variables)?;
            let row_slot = scope.slot("row");
            // Tables draw different numbers from the same seed.
            let table_seed =
                seed.wrapping_add((index as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
            tables.push(TableLoad::new(spec, rows, variables, row_slot, table_seed));
        }
        Ok(tables)
    }

    fn rows(&self, file: &str, key: &str, text: &str) -> Result<u64, WorkloadError> {
        let mut scope = self.scope(&[]);
        let expr = scope.compile(&format!("{file}: {key}, rows"), text)?;
        let variables = self.variables(&scope);
        let value = expr.eval(&variables, &mut Rng::from_seed(0));
        let rows = value.map_err(|error| error.to_string()).and_then(|value| {
            let count = value.as_int().and_then(|count| u64::try_from(count).ok());
            count.ok_or_else(|| format!("\"{text}\" gives {value:?}, not a number of rows"))
        });
        rows.map_err(|message| WorkloadError::Value {
            file: file.to_owned(),
            key: format!("{key}, rows (scale {})", self.scale),
            message,
        })
    }

    fn checks(&self) -> Result<Vec<Check>, WorkloadError> {
        let mut checks = Vec::new();
        for entry in &self.workload.manifest.checks {
            let place = format!("{}: check \"{}\"", self.workload.shown(MANIFEST_FILE), entry.name);
            let before = match &entry.before {
                Some(sql) => {
                    let parts = self.check_sql(&format!("{place}, before"), sql, false)?;
                    let check = Check { name: String::new(), before: None, sql: parts };
                    Some(check.sql(None, Done::default()))
                }
                None => None,
            };
            let sql = self.check_sql(&format!("{place}, sql"), &entry.sql, before.is_some())?;
            checks.push(Check { name: entry.name.clone(), before, sql });
        }
        Ok(checks)
    }

    fn check_sql(
        &self,
        place: &str,
        sql: &str,
        has_before: bool,
    ) -> Result<Vec<SqlPart>, ScriptError> {
        let source = ScriptSource { name: place.to_owned(), text: sql.to_owned(), weight: 1 };
        let mut definitions = self.definitions.clone();
        let known = |name: &&str| has_before || *name != "before";
        for name in ["before", WRITTEN, UNKNOWN].into_iter().filter(known) {
            definitions.push(Definition { name: name.into(), value: String::new() });
        }
        let program = Program::compile(&[source], &definitions)?;
        let only = program.scripts.first().filter(|script| script.commands.len() == 1);
        let Some(statement) = only.and_then(|script| script.statements.first()) else {
            return Err(ScriptError::whole(
                place,
                "it must be a single SQL query without backslash commands",
            ));
        };
        let variables = program.variables(&self.client());
        let before = program.slot("before").filter(|_| has_before);
        let (written, unknown) = (program.slot(WRITTEN), program.slot(UNKNOWN));
        let mut parts = Vec::new();
        for piece in &statement.text_simple {
            parts.push(match piece {
                Piece::Text(text) => SqlPart::Text(text.clone()),
                Piece::Variable(slot) if Some(*slot) == before => SqlPart::Before,
                Piece::Variable(slot) if Some(*slot) == written => SqlPart::Written,
                Piece::Variable(slot) if Some(*slot) == unknown => SqlPart::Unknown,
                Piece::Variable(slot) | Piece::Quoted(slot) => {
                    let mut text = Vec::new();
                    if let Some(value) = variables.get(*slot) {
                        value.write_text(&mut text);
                    }
                    SqlPart::Text(String::from_utf8_lossy(&text).into_owned())
                }
            });
        }
        Ok(parts)
    }
}

fn render(statement: &Statement, variables: &Variables) -> Result<String, EvalError> {
    let mut sql = Vec::new();
    for piece in &statement.text_simple {
        match piece {
            Piece::Text(text) => sql.extend_from_slice(text.as_bytes()),
            Piece::Variable(slot) => value(variables, *slot)?.write_text(&mut sql),
            Piece::Quoted(slot) => {
                let mut text = Vec::new();
                value(variables, *slot)?.write_text(&mut text);
                sql.extend_from_slice(literal(&String::from_utf8_lossy(&text)).as_bytes());
            }
        }
    }
    // Every piece is text, so this never replaces anything.
    Ok(String::from_utf8_lossy(&sql).into_owned())
}

fn value(variables: &Variables, slot: Slot) -> Result<&Value, EvalError> {
    variables.get(slot).ok_or(EvalError::Undefined(slot))
}

fn not_in_sql_files(script: &Script, command: usize, what: &str) -> ScriptError {
    ScriptError {
        position: Some(crate::script::Position { line: script.line(command), column: 1 }),
        hint: Some("SQL files may use \\set and \\if; the rest belongs to scripts".into()),
        ..ScriptError::whole(&script.name, format!("{what} is not possible in a SQL file"))
    }
}
