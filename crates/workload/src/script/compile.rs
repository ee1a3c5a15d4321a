//! From the text of scripts to a [`Program`].
//!
//! Two passes. The first reads every script: commands, expressions, the raw
//! text of statements. Only then is it known which names any script may set,
//! so the second pass decides what each `:name` is, and fails where a name is
//! used that nothing sets.

use std::sync::Arc;

use super::batch::{alike, gathered};
use super::error::{Fault, Located, ScriptError, locate};
use super::names::{Names, Reads, is_valid_name};
use super::program::{AUTOMATIC, Command, Gset, Piece, Program, Script, Statement, StatementId};
use super::reader::{Draft, DraftBatch};
use super::request_reader::Expressions;
use super::sql_scanner::{Context, SqlText};
use super::token::CommandReader;
use super::value::Value;
use super::{Expr, expr_parser};

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
        Program::read(sources, definitions, Draft::read)
    }

    /// The same of files of requests; see the [module](self).
    ///
    /// # Errors
    /// As [`Program::compile`].
    pub fn compile_requests(
        sources: &[ScriptSource],
        definitions: &[Definition],
    ) -> Result<Program, ScriptError> {
        Program::read(sources, definitions, Draft::read_requests)
    }

    fn read(
        sources: &[ScriptSource],
        definitions: &[Definition],
        draft: impl Fn(&str, &mut Names, &[Definition]) -> Result<Draft, Located>,
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
            let draft = draft(&source.text, &mut names, definitions)
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
            let script = finish(draft, source, &mut names)
                .map_err(|(at, fault)| ScriptError::at(&source.name, &source.text, at, fault))?;
            scripts.push(script);
        }
        definition_slots.extend(names.literal_starts());
        Ok(Program { scripts, names: names.by_slot, definitions: definition_slots })
    }
}

/// The second pass over a script.
fn finish(draft: Draft, source: &ScriptSource, names: &mut Names) -> Result<Script, Located> {
    for (offset, name) in &draft.reads {
        names.plain.insert(name.clone());
        if !names.may_be_set(name) {
            return Err((*offset, names.undefined(name)));
        }
    }
    let mut statements = Vec::new();
    for (sql, gset) in draft.statements {
        statements.push(finish_statement(sql, gset, &source.text, names)?);
    }
    for request in draft.requests {
        let line = locate(&source.text, request.offset).0.line;
        statements.push(request.finish(&source.text, label, line, &mut InRequest { names })?);
    }
    let mut commands = draft.commands;
    if let Some(batch) = &draft.batch
        && batch.batch.form.gathers()
    {
        gather(batch, &mut commands, &mut statements)?;
    }
    Ok(Script {
        name: source.name.clone(),
        weight: source.weight,
        commands,
        statements,
        batch: draft.batch.map(|of| of.batch),
        source: Arc::from(source.text.as_str()),
        offsets: draft.offsets,
    })
}

/// What stands in double braces in a request.
struct InRequest<'n> {
    names: &'n mut Names,
}

impl Expressions for InRequest<'_> {
    fn compile(&mut self, text: &str, at: usize) -> Result<Expr, Located> {
        let inside = |(offset, fault): Located| (at + offset, fault);
        let tokens = CommandReader::new(text, 0).tokens().map_err(inside)?;
        let mut reads = Vec::new();
        let mut resolve = Reads { names: self.names, reads: &mut reads };
        let expr = expr_parser::parse(&tokens, &mut resolve).map_err(inside)?;
        for (offset, name) in reads {
            self.names.plain.insert(name.clone());
            if !self.names.may_be_set(&name) {
                return Err((at + offset, self.names.undefined(&name)));
            }
        }
        Ok(expr)
    }

    fn names(&mut self) -> &mut Names {
        self.names
    }
}

/// Makes the INSERTs of a batch the rows of the statement behind them.
fn gather(
    of: &DraftBatch,
    commands: &mut [Command],
    statements: &mut Vec<Statement>,
) -> Result<(), Located> {
    let rows = of.statements.clone();
    let one = &statements[rows.start];
    if let Some(other) = statements[rows.clone()].iter().find(|other| !alike(one, other)) {
        let fault = Fault::new("the INSERTs of a batch are not the same");
        return Err((other.offset, fault.hint("only the variables in them may differ")));
    }
    let sent = gathered(one, of.batch.form, of.batch.rows).map_err(|fault| (one.offset, fault))?;
    for command in commands.iter_mut() {
        let Command::Sql(id) = command else { continue };
        if rows.contains(&id.index()) {
            let values = statements[id.index()].params.clone();
            *command = Command::Row { values, statement: StatementId(rows.start as u32) };
        } else if id.index() >= rows.end {
            *id = StatementId((id.index() - rows.len()) as u32);
        }
    }
    statements[rows.end] = sent;
    statements.drain(rows);
    Ok(())
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
        let as_written = &sql.text[reference.range.clone()];
        if reference.context == Context::Comment {
            literal.push_str(as_written);
            extended.push_str(as_written);
            continue;
        }
        let slot = names.slot(name);
        if !literal.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut literal)));
        }
        let quoted = reference.context == Context::Quoted;
        pieces.push(match names.texts.contains(name) && !quoted {
            true => Piece::Quoted(slot),
            false => Piece::Variable(slot),
        });
        if quoted && !names.is_meant(name) {
            names.doubtful.insert(name.to_owned());
            extended.push_str(as_written);
            continue;
        }
        params.push(slot);
        extended.push_str(&format!("${}", params.len()));
        if quoted {
            quoted_variable = quoted_variable.or(Some(reference.offset));
        } else {
            names.plain.insert(name.to_owned());
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
        gathered: None,
        request: None,
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
