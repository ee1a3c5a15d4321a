//! From the columns in `workload.toml` to generators.

use std::collections::BTreeMap;

use super::column::{Column, Generator};
use super::copy_text::escape;
use super::timestamp::Timestamps;
use crate::error::WorkloadError;
use crate::manifest::{ColumnEntry, NumberEntry, TableEntry};
use crate::script::{
    Expr, Fault, Rng, Scope, ScriptError, Slot, TemplateReader, Variables, is_valid_name,
    with_texts,
};

/// Named texts of the manifest.
type Texts = BTreeMap<String, String>;

/// The generators of a table.
#[derive(Debug)]
pub(crate) struct TableSpec {
    pub table: String,
    /// What has a value for each row before its columns, in this order.
    pub variables: Vec<(String, Slot, Expr)>,
    pub columns: Vec<Column>,
}

/// A compiled column whose choice weights may still need the variables.
pub(crate) struct Draft {
    table: String,
    variables: Vec<(String, Slot, Expr)>,
    columns: Vec<(Column, Vec<(Expr, String)>)>,
}

impl TableSpec {
    /// Compiles the columns; `file` names the manifest in messages.
    pub(crate) fn compile(
        entry: &TableEntry,
        file: &str,
        texts: &Texts,
        scope: &mut Scope,
    ) -> Result<Draft, WorkloadError> {
        let (mut variables, mut columns) = (Vec::new(), Vec::new());
        let key = |kind: &str, name: &str| format!("table \"{}\", {kind} \"{name}\"", entry.name);
        for variable in &entry.variables {
            let name = &variable.name;
            let key = key("variable", name);
            let mut compiler = ColumnCompiler { file, key, texts, scope, weights: Vec::new() };
            if !is_valid_name(name) {
                return Err(compiler.fault(
                    "its name is none: letters, digits and underscores, the first no digit",
                ));
            }
            let expr = compiler.expr("expr", &variable.expr)?;
            variables.push((name.clone(), scope.define(name), expr));
        }
        for column in &entry.columns {
            let key = key("column", &column.name);
            let mut compiler = ColumnCompiler { file, key, texts, scope, weights: Vec::new() };
            let compiled = compiler.column(column)?;
            columns.push((compiled, compiler.weights));
        }
        Ok(Draft { table: entry.name.clone(), variables, columns })
    }
}

impl Draft {
    /// Checks what depends on the number of rows and on the variables.
    pub(crate) fn finish(
        self,
        file: &str,
        rows: u64,
        variables: &Variables,
    ) -> Result<TableSpec, WorkloadError> {
        let fault = |column: &str, message: String| WorkloadError::Value {
            file: file.to_owned(),
            key: format!("table \"{}\"{column}", self.table),
            message,
        };
        if rows > 0 && self.columns.is_empty() {
            let message = "it has rows but no columns; add column = [{ name = …, expr = … }]";
            return Err(fault("", message.into()));
        }
        if i64::try_from(rows).is_err() {
            return Err(fault("", format!("{rows} rows are too many")));
        }
        let mut columns = Vec::new();
        for (mut column, weights) in self.columns {
            let key = format!(", column \"{}\"", column.name);
            if let Generator::Choice { bounds, .. } = &mut column.generator {
                let mut total = 0u64;
                for ((expr, text), bound) in weights.iter().zip(bounds.iter_mut()) {
                    let value = expr.eval(variables, &mut Rng::from_seed(0));
                    let weight = match value {
                        Ok(value) => value.as_int().and_then(|w| u32::try_from(w).ok()),
                        Err(error) => {
                            return Err(fault(&key, format!("choice: weight \"{text}\": {error}")));
                        }
                    };
                    total += u64::from(weight.ok_or_else(|| {
                        fault(
                            &key,
                            format!(
                                "choice: the weight \"{text}\" is not a whole number from 0 up"
                            ),
                        )
                    })?);
                    *bound = total;
                }
                if total == 0 {
                    return Err(fault(&key, "choice: all weights are zero".into()));
                }
            }
            if let Generator::Timestamp(timestamps) = &column.generator {
                timestamps.check(rows).map_err(|message| fault(&key, message))?;
            }
            columns.push(column);
        }
        Ok(TableSpec { table: self.table, variables: self.variables, columns })
    }
}

struct ColumnCompiler<'s, 'f> {
    file: &'f str,
    key: String,
    texts: &'f Texts,
    scope: &'s mut Scope,
    weights: Vec<(Expr, String)>,
}

const GENERATORS: &str = "expr, text, choice, uuid, timestamp, letters or null";

impl ColumnCompiler<'_, '_> {
    fn fault(&self, message: impl Into<String>) -> WorkloadError {
        WorkloadError::Value {
            file: self.file.to_owned(),
            key: self.key.clone(),
            message: message.into(),
        }
    }

    /// Where the value of a key stands, for messages.
    fn place(&self, key: &str) -> String {
        format!("{}: {}, {key}", self.file, self.key)
    }

    /// A text with the named ones in their places.
    fn whole(&self, text: &str) -> String {
        with_texts(text, |name| self.texts.get(name).map(String::as_str))
    }

    fn expr(&mut self, key: &str, text: &str) -> Result<Expr, WorkloadError> {
        Ok(self.scope.compile(&self.place(key), &self.whole(text))?)
    }

    fn column(&mut self, entry: &ColumnEntry) -> Result<Column, WorkloadError> {
        let mut generators = Vec::new();
        if let Some(text) = &entry.expr {
            generators.push(Generator::Expr(self.expr("expr", text)?));
        }
        if let Some(text) = &entry.text {
            let (text, place) = (self.whole(text), self.place("text"));
            let reader = TemplateReader::new(
                |expr: &str, _| self.scope.compile(&place, expr),
                |at, fault: Fault| ScriptError::at(&place, &text, at, fault),
                escape,
            );
            generators.push(Generator::Text(reader.read(&text, 0)?));
        }
        if let Some(choice) = &entry.choice {
            generators.push(self.choice(choice)?);
        }
        if let Some(kind) = &entry.uuid {
            generators.push(match kind.as_str() {
                "v4" => Generator::UuidV4,
                "v7" => Generator::UuidV7,
                expr => Generator::UuidOf(self.expr("uuid", expr)?),
            });
        }
        if let Some(timestamp) = &entry.timestamp {
            let timestamps =
                Timestamps::from_entry(timestamp).map_err(|message| self.fault(message))?;
            generators.push(Generator::Timestamp(timestamps));
        }
        if let Some(length) = &entry.letters {
            generators.push(Generator::Letters(self.expr("letters", length)?));
        }
        if entry.null == Some(true) {
            generators.push(Generator::Null);
        }
        let generator = match generators.pop() {
            Some(generator) if generators.is_empty() => generator,
            Some(_) => {
                return Err(
                    self.fault(format!("it has more than one generator; keep one of {GENERATORS}"))
                );
            }
            None => {
                return Err(self.fault(format!("it has no generator; add one of {GENERATORS}")));
            }
        };
        let null_fraction = entry.null_fraction.unwrap_or(0.0);
        if !(0.0..=1.0).contains(&null_fraction) {
            return Err(
                self.fault(format!("null_fraction: {null_fraction} is not a number from 0 to 1"))
            );
        }
        Ok(Column {
            name: entry.name.clone(),
            generator,
            null_fraction,
            pad: entry.pad.unwrap_or(0) as usize,
        })
    }

    fn choice(
        &mut self,
        choice: &std::collections::BTreeMap<String, NumberEntry>,
    ) -> Result<Generator, WorkloadError> {
        if choice.is_empty() {
            return Err(self.fault("choice: it needs at least one text with a weight"));
        }
        let mut texts = Vec::new();
        for (text, weight) in choice {
            let weight = match weight {
                NumberEntry::Number(number) => number.to_string(),
                NumberEntry::Expression(expr) => expr.clone(),
            };
            let expr = self.expr(&format!("choice, weight of \"{text}\""), &weight)?;
            self.weights.push((expr, weight));
            let mut escaped = Vec::new();
            escape(text.as_bytes(), &mut escaped);
            texts.push(escaped.into_boxed_slice());
        }
        Ok(Generator::Choice { bounds: vec![0; texts.len()], texts })
    }
}
