//! `\gset` and `\aset`: a result becomes variables.

use std::collections::HashMap;
use std::rc::Rc;

use walwright_wire::Malformed;
use walwright_wire::backend::{DataRow, RowDescription};
use walwright_workload::script::{Gset, GsetKind, Program, Slot, Value, Variables};

/// Which variable each column of a result goes to, if any.
type Columns = Rc<[Option<Slot>]>;

/// By statement, the description of its last result and what became of it, so
/// that names are looked up once.
#[derive(Debug, Default)]
pub(crate) struct ColumnCache(HashMap<usize, (Box<[u8]>, Columns)>);

impl ColumnCache {
    fn resolve(
        &mut self,
        statement: usize,
        description: &[u8],
        prefix: &str,
        program: &Program,
    ) -> Result<Columns, Malformed> {
        if let Some((known, columns)) = self.0.get(&statement)
            && **known == *description
        {
            return Ok(Rc::clone(columns));
        }
        let columns: Columns = RowDescription::parse(description)?
            .columns
            .iter()
            .map(|column| program.slot(&format!("{prefix}{}", column.name)))
            .collect();
        self.0.insert(statement, (Box::from(description), Rc::clone(&columns)));
        Ok(columns)
    }
}

/// A result on its way into variables.
#[derive(Debug)]
pub(crate) struct Capture {
    /// Number of the statement over all scripts.
    statement: usize,
    gset: Gset,
    /// Of the result that is coming in: its columns, rows so far, last row.
    columns: Columns,
    rows: u64,
    last: Vec<(Slot, Value)>,
    /// What complete results gave.
    kept: Vec<(Slot, Value)>,
    /// Rows of the last complete result.
    kept_rows: u64,
}

impl Capture {
    pub(crate) fn new(statement: usize, gset: Gset) -> Self {
        Capture {
            statement,
            gset,
            columns: Rc::new([]),
            rows: 0,
            last: Vec::new(),
            kept: Vec::new(),
            kept_rows: 0,
        }
    }

    /// RowDescription: a result begins.
    pub(crate) fn describe(
        &mut self,
        body: &[u8],
        program: &Program,
        cache: &mut ColumnCache,
    ) -> Result<(), Malformed> {
        self.columns = cache.resolve(self.statement, body, &self.gset.prefix, program)?;
        Ok(())
    }

    /// DataRow.
    pub(crate) fn row(&mut self, body: &[u8]) -> Result<(), Malformed> {
        let row = DataRow::parse(body)?;
        self.rows += 1;
        self.last.clear();
        for (slot, value) in self.columns.iter().zip(row.columns) {
            let Some(slot) = slot else { continue };
            let value = match value {
                Some(text) => Value::Text(String::from_utf8_lossy(text).into()),
                None => Value::Null,
            };
            self.last.push((*slot, value));
        }
        Ok(())
    }

    /// CommandComplete: a result is complete. Of several, the last decides for
    /// `\gset`; `\aset` keeps what each of them gave.
    pub(crate) fn complete(&mut self) {
        let last = std::mem::take(&mut self.last);
        match self.gset.kind {
            GsetKind::Gset => self.kept = last,
            GsetKind::Aset => self.kept.extend(last),
        }
        self.kept_rows = std::mem::take(&mut self.rows);
        self.columns = Rc::new([]);
    }

    /// Sets the variables.
    ///
    /// # Errors
    /// With the number of rows, when `\gset` did not get exactly one.
    pub(crate) fn apply(self, variables: &mut Variables) -> Result<(), u64> {
        if self.gset.kind == GsetKind::Gset && self.kept_rows != 1 {
            return Err(self.kept_rows);
        }
        for (slot, value) in self.kept {
            variables.set(slot, value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use walwright_workload::script::ScriptSource;

    use super::*;

    fn program(kind: &str) -> Program {
        let text = format!("SELECT 1 AS a, 2 AS b \\{kind} p_\nSELECT :p_a, :p_b;");
        let source = ScriptSource { name: "test".into(), text, weight: 1 };
        Program::compile(&[source], &[]).unwrap()
    }

    fn description(names: &[&str]) -> Vec<u8> {
        let mut body = (names.len() as u16).to_be_bytes().to_vec();
        for name in names {
            body.extend(name.as_bytes());
            body.extend([0; 19]);
        }
        body
    }

    fn row(values: &[Option<&str>]) -> Vec<u8> {
        let mut body = (values.len() as u16).to_be_bytes().to_vec();
        for value in values {
            match value {
                Some(text) => {
                    body.extend((text.len() as u32).to_be_bytes());
                    body.extend(text.as_bytes());
                }
                None => body.extend([0xff; 4]),
            }
        }
        body
    }

    /// The names of a result's columns, and its rows.
    type Results<'a> = &'a [(&'a [&'a str], &'a [&'a [Option<&'a str>]])];

    /// Feeds results and applies them.
    fn captured(kind: &str, results: Results<'_>) -> Result<(Option<Value>, Option<Value>), u64> {
        let program = program(kind);
        let gset = program.scripts[0].statements[0].gset.clone().unwrap();
        let mut capture = Capture::new(0, gset);
        let mut cache = ColumnCache::default();
        for (names, rows) in results {
            capture.describe(&description(names), &program, &mut cache).unwrap();
            for values in *rows {
                capture.row(&row(values)).unwrap();
            }
            capture.complete();
        }
        let mut variables = Variables::new(program.slot_count());
        capture.apply(&mut variables)?;
        let value = |name| variables.get(program.slot(name).unwrap()).cloned();
        Ok((value("p_a"), value("p_b")))
    }

    #[test]
    fn gset_takes_the_only_row_and_nulls() {
        let results = captured("gset", &[(&["a", "x", "b"], &[&[Some("5"), Some("6"), None]])]);
        assert_eq!(results, Ok((Some("5".into()), Some(Value::Null))));
    }

    #[test]
    fn gset_wants_exactly_one_row_of_the_last_result() {
        assert_eq!(captured("gset", &[(&["a"], &[])]), Err(0));
        assert_eq!(captured("gset", &[(&["a"], &[&[Some("1")], &[Some("2")]])]), Err(2));
        assert_eq!(captured("gset", &[(&["a"], &[&[Some("1")]]), (&["b"], &[])]), Err(0));
        let last = captured("gset", &[(&["a"], &[]), (&["b"], &[&[Some("3")]])]);
        assert_eq!(last, Ok((None, Some("3".into()))));
    }

    #[test]
    fn aset_keeps_the_last_row_of_each_result_and_minds_no_gaps() {
        let results = captured(
            "aset",
            &[(&["a"], &[&[Some("1")], &[Some("2")]]), (&["b"], &[&[Some("3")]]), (&["a"], &[])],
        );
        assert_eq!(results, Ok((Some("2".into()), Some("3".into()))));
    }
}
