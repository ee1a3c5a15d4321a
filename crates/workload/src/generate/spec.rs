//! From the columns in `workload.toml` to generators.

use super::column::{Column, Generator};
use super::copy_text::escape;
use super::template::Template;
use super::timestamp::Timestamps;
use crate::error::WorkloadError;
use crate::manifest::{ColumnEntry, NumberEntry, TableEntry};
use crate::script::{Expr, Rng, Scope, Variables};

/// The generators of a table.
#[derive(Debug)]
pub(crate) struct TableSpec {
    pub table: String,
    pub columns: Vec<Column>,
}

/// A compiled column whose choice weights may still need the variables.
pub(crate) struct Draft {
    table: String,
    columns: Vec<(Column, Vec<(Expr, String)>)>,
}

impl TableSpec {
    /// Compiles the columns; `file` names the manifest in messages.
    pub(crate) fn compile(
        entry: &TableEntry,
        file: &str,
        scope: &mut Scope,
    ) -> Result<Draft, WorkloadError> {
        let mut columns = Vec::new();
        for column in &entry.columns {
            let mut compiler = ColumnCompiler {
                file,
                key: format!("table \"{}\", column \"{}\"", entry.name, column.name),
                scope,
                weights: Vec::new(),
            };
            let compiled = compiler.column(column)?;
            columns.push((compiled, compiler.weights));
        }
        Ok(Draft { table: entry.name.clone(), columns })
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
        Ok(TableSpec { table: self.table, columns })
    }
}

struct ColumnCompiler<'s, 'f> {
    file: &'f str,
    key: String,
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

    fn expr(&mut self, key: &str, text: &str) -> Result<Expr, WorkloadError> {
        let place = format!("{}: {}, {key}", self.file, self.key);
        Ok(self.scope.compile(&place, text)?)
    }

    fn column(&mut self, entry: &ColumnEntry) -> Result<Column, WorkloadError> {
        let mut generators = Vec::new();
        if let Some(text) = &entry.expr {
            generators.push(Generator::Expr(self.expr("expr", text)?));
        }
        if let Some(text) = &entry.text {
            let template = Template::parse(text, |expr| self.expr("text", expr));
            generators.push(Generator::Text(template?));
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
