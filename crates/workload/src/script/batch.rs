//! `\batch`: a block that inserts one row, run for many rows, which are sent in one of several
//! forms. What is sent follows from the block's own INSERT, so that every form writes the same
//! rows.

use std::str::FromStr;

use super::error::Fault;
use super::program::{MAX_PARAMETERS, Piece, Statement};

/// How the rows of a batch reach the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BatchForm {
    /// One row, sent as the script has it; a transaction of the load is one row.
    Single,
    /// As [`BatchForm::Single`], through a gateway between clients and server.
    Gateway,
    /// As many INSERTs between BEGIN and COMMIT as there are rows.
    Transaction,
    /// One INSERT with a list of VALUES as long as the batch.
    Values,
    /// One INSERT that takes an array for each column.
    Unnest,
    /// One COPY FROM STDIN.
    Copy,
    /// One row, given to a write coalescer in front of the server; a transaction of the load is
    /// one row, from when it is given until it is acknowledged.
    Coalesce,
}

impl BatchForm {
    /// Every form.
    pub const ALL: [BatchForm; 7] = [
        BatchForm::Single,
        BatchForm::Gateway,
        BatchForm::Transaction,
        BatchForm::Values,
        BatchForm::Unnest,
        BatchForm::Copy,
        BatchForm::Coalesce,
    ];

    /// Its name in a script.
    pub fn name(self) -> &'static str {
        match self {
            BatchForm::Single => "single",
            BatchForm::Gateway => "gateway",
            BatchForm::Transaction => "transaction",
            BatchForm::Values => "values",
            BatchForm::Unnest => "unnest",
            BatchForm::Copy => "copy",
            BatchForm::Coalesce => "coalesce",
        }
    }

    /// Whether its rows are kept until all of them are there, and then sent in one statement.
    pub fn gathers(self) -> bool {
        !matches!(self, BatchForm::Single | BatchForm::Gateway | BatchForm::Transaction)
    }

    /// Whether it is one row at a time, however many a batch has.
    pub fn is_single(self) -> bool {
        matches!(self, BatchForm::Single | BatchForm::Gateway | BatchForm::Coalesce)
    }
}

impl FromStr for BatchForm {
    type Err = ();

    fn from_str(text: &str) -> Result<BatchForm, ()> {
        BatchForm::ALL.into_iter().find(|form| form.name() == text).ok_or(())
    }
}

/// What the transactions of a script write where it has a `\batch`: rows are their unit of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// How they are sent.
    pub form: BatchForm,
    /// Rows a transaction.
    pub rows: u32,
}

/// A statement whose values are the rows gathered before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gathered {
    /// In which form they travel.
    pub form: BatchForm,
    /// How many.
    pub rows: u32,
    /// Values in each.
    pub columns: u32,
    /// Where they go: the table as the script has it, and its columns.
    pub table: String,
    /// The columns' names.
    pub names: Vec<String>,
}

/// An INSERT of one row, taken apart.
struct OneRow<'a> {
    /// Table and columns: `events (user_id, type)`.
    target: &'a str,
    /// The values between their parentheses.
    values: &'a str,
    /// What follows them, without the semicolon.
    tail: &'a str,
    /// `$1`, `$2`, …
    parameters: usize,
}

/// The statement that sends `rows` rows of a one-row INSERT, as `form` has it.
pub(super) fn gathered(one: &Statement, form: BatchForm, rows: u32) -> Result<Statement, Fault> {
    let parts = OneRow::parse(one)?;
    let text = match form {
        BatchForm::Values => parts.values_list(rows)?,
        BatchForm::Unnest => parts.unnest(),
        _ => parts.copy()?,
    };
    let (table, names) = parts.names();
    Ok(Statement {
        text_simple: vec![Piece::Text(text.clone())],
        text_extended: text,
        params: Vec::new(),
        gset: None,
        label: format!("{} ({} × {rows} rows)", one.label, form.name()),
        gathered: Some(Gathered { form, rows, columns: parts.parameters as u32, table, names }),
        request: None,
        ..one.clone()
    })
}

/// Whether two INSERTs of a batch are the same but for the variables in them.
pub(super) fn alike(one: &Statement, other: &Statement) -> bool {
    one.text_extended == other.text_extended
}

const SHAPE: &str = "a batch sends the rows of a statement such as INSERT INTO t (a, b) VALUES (:a, CAST(:b AS jsonb));";

impl<'a> OneRow<'a> {
    fn parse(one: &'a Statement) -> Result<Self, Fault> {
        let fault = |what: &str| Fault::new(what).hint(SHAPE);
        let sql = one.text_extended.trim_end().trim_end_matches(';').trim_end();
        let words: Vec<(usize, &str)> = top_level_words(sql);
        let [(_, insert), (into_at, into), ..] = words[..] else {
            return Err(fault("this is not an INSERT"));
        };
        if !insert.eq_ignore_ascii_case("insert") || !into.eq_ignore_ascii_case("into") {
            return Err(fault("this is not an INSERT"));
        }
        let values_at = words.iter().find(|(_, word)| word.eq_ignore_ascii_case("values"));
        let Some((values_at, _)) = values_at else {
            return Err(fault("this INSERT has no VALUES"));
        };
        let target = sql[into_at + into.len()..*values_at].trim();
        let after = &sql[values_at + "values".len()..];
        let open = after.len() - after.trim_start().len();
        let close = closing(after, open).ok_or_else(|| fault("VALUES has no row behind it"))?;
        let tail = &after[close + 1..];
        if tail.trim_start().starts_with(',') {
            return Err(fault("this INSERT has several rows already"));
        }
        if !target.ends_with(')') {
            return Err(fault("this INSERT does not name its columns"));
        }
        if one.params.is_empty() {
            return Err(fault("this INSERT has no variables, so all rows would be the same"));
        }
        let values = &after[open + 1..close];
        Ok(OneRow { target, values, tail, parameters: one.params.len() })
    }

    /// The table, and the names of its columns.
    fn names(&self) -> (String, Vec<String>) {
        let (table, columns) = self.target.split_once('(').unwrap_or((self.target, ""));
        let columns = between_commas(columns.trim_end_matches(')'));
        let bare = |name: &&str| match name.trim().strip_prefix('"') {
            Some(quoted) => quoted.trim_end_matches('"').replace("\"\"", "\""),
            None => name.trim().to_lowercase(),
        };
        (table.trim().to_owned(), columns.iter().map(bare).collect())
    }

    fn values_list(&self, rows: u32) -> Result<String, Fault> {
        let parameters = self.parameters * rows as usize;
        if parameters > MAX_PARAMETERS {
            let fault = Fault::new(format!(
                "{rows} rows of {} values are {parameters}; a message carries at most {MAX_PARAMETERS}",
                self.parameters
            ));
            return Err(fault.hint("take fewer rows, or the form unnest or copy"));
        }
        let mut text = format!("INSERT INTO {} VALUES ", self.target);
        for row in 0..rows as usize {
            text.push_str(if row == 0 { "(" } else { ", (" });
            let place = |number: usize| format!("${}", number + row * self.parameters);
            text.push_str(&with_parameters(self.values, &place));
            text.push(')');
        }
        text.push_str(self.tail);
        text.push(';');
        Ok(text)
    }

    /// An array for each value. Functions are those of the catalog, whatever the search path.
    fn unnest(&self) -> String {
        let types = parameter_types(self.values, self.parameters);
        let arrays: Vec<String> = types
            .iter()
            .enumerate()
            .map(|(place, of)| format!("pg_catalog.unnest(CAST(${} AS {of}[]))", place + 1))
            .collect();
        let columns: Vec<String> = (1..=self.parameters).map(|n| format!("v{n}")).collect();
        format!(
            "INSERT INTO {} SELECT {} FROM ROWS FROM ({}) AS r({}){};",
            self.target,
            with_parameters(self.values, &|number| format!("r.v{number}")),
            arrays.join(", "),
            columns.join(", "),
            self.tail
        )
    }

    /// COPY knows no expressions: each value is a variable, with a cast at most.
    fn copy(&self) -> Result<String, Fault> {
        let plain = |value: &str, number: usize| {
            let parameter = format!("${number}");
            let value = value.trim();
            let of_cast = value.strip_prefix("CAST(").or_else(|| value.strip_prefix("cast("));
            match (of_cast, value.strip_prefix(&parameter)) {
                (Some(inside), _) => inside.strip_prefix(&parameter).is_some_and(|rest| {
                    rest.get(..4).is_some_and(|w| w.eq_ignore_ascii_case(" as "))
                }),
                (None, Some(rest)) => rest.is_empty() || rest.starts_with("::"),
                (None, None) => false,
            }
        };
        let values = between_commas(self.values);
        let all_plain = values.len() == self.parameters
            && values.iter().enumerate().all(|(place, value)| plain(value, place + 1));
        if !all_plain || !self.tail.trim().is_empty() {
            let fault = Fault::new(
                "COPY takes values as they are: each must be a variable, with a cast at most, and nothing may follow them",
            );
            return Err(fault.hint("compute the values with \\set, \\text and \\uuid"));
        }
        Ok(format!("COPY {} FROM STDIN;", self.target))
    }
}

/// Where the quoted text, comment-free as statements are here, that begins at `at` ends.
fn after_quoted(sql: &str, at: usize) -> usize {
    let quote = sql.as_bytes()[at];
    let rest = &sql.as_bytes()[at + 1..];
    rest.iter().position(|byte| *byte == quote).map_or(sql.len(), |length| at + length + 2)
}

/// The words outside quotes and parentheses, each with its place.
fn top_level_words(sql: &str) -> Vec<(usize, &str)> {
    let (mut words, mut depth, mut at) = (Vec::new(), 0_u32, 0);
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    while let Some(byte) = sql.as_bytes().get(at).copied() {
        match byte {
            b'\'' | b'"' => at = after_quoted(sql, at),
            _ if is_word(byte) => {
                let length = sql.bytes().skip(at).take_while(|byte| is_word(*byte)).count();
                if depth == 0 {
                    words.push((at, &sql[at..at + length]));
                }
                at += length;
            }
            _ => {
                depth = match byte {
                    b'(' => depth + 1,
                    b')' => depth.saturating_sub(1),
                    _ => depth,
                };
                at += 1;
            }
        }
    }
    words
}

/// Where the parenthesis is closed that opens at `open`.
fn closing(sql: &str, open: usize) -> Option<usize> {
    if sql.as_bytes().get(open) != Some(&b'(') {
        return None;
    }
    let (mut depth, mut at) = (0_u32, open);
    while let Some(byte) = sql.as_bytes().get(at).copied() {
        match byte {
            b'\'' | b'"' => {
                at = after_quoted(sql, at);
                continue;
            }
            b'(' => depth += 1,
            b')' if depth == 1 => return Some(at),
            b')' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    None
}

/// The parts between commas that are in no parentheses and no quotes.
fn between_commas(sql: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut at, mut start) = (Vec::new(), 0_u32, 0, 0);
    while let Some(byte) = sql.as_bytes().get(at).copied() {
        match byte {
            b'\'' | b'"' => {
                at = after_quoted(sql, at);
                continue;
            }
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(&sql[start..at]);
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    parts.push(&sql[start..]);
    parts
}

/// Calls `each` with the text before a parameter and its number; returns what is left.
fn each_parameter<'a>(sql: &'a str, mut each: impl FnMut(&'a str, usize, &'a str)) -> &'a str {
    let (mut at, mut start) = (0, 0);
    while let Some(byte) = sql.as_bytes().get(at).copied() {
        match byte {
            b'\'' | b'"' => at = after_quoted(sql, at),
            b'$' => {
                let digits = sql.bytes().skip(at + 1).take_while(u8::is_ascii_digit).count();
                let end = at + 1 + digits;
                if let Ok(number) = sql[at + 1..end].parse() {
                    each(&sql[start..at], number, &sql[end..]);
                    start = end;
                }
                at = end;
            }
            _ => at += 1,
        }
    }
    &sql[start..]
}

fn with_parameters(sql: &str, place: &dyn Fn(usize) -> String) -> String {
    let mut text = String::new();
    let rest = each_parameter(sql, |before, number, _| {
        text.push_str(before);
        text.push_str(&place(number));
    });
    text + rest
}

/// The types that parameters are cast to where they stand; `text` where they are not.
fn parameter_types(values: &str, parameters: usize) -> Vec<String> {
    let mut types = vec!["text".to_owned(); parameters];
    each_parameter(values, |before, number, after| {
        let cast = before.trim_end().get(before.trim_end().len().saturating_sub(5)..);
        let named = if let Some(rest) = after.strip_prefix("::") {
            let end = rest.find(|c: char| !c.is_alphanumeric() && !"_.".contains(c));
            Some(&rest[..end.unwrap_or(rest.len())])
        } else if cast.is_some_and(|word| word.eq_ignore_ascii_case("cast("))
            && after.get(..4).is_some_and(|word| word.eq_ignore_ascii_case(" as "))
        {
            closing(&format!("({after}"), 0).and_then(|end| after.get(4..end - 1)).map(str::trim)
        } else {
            None
        };
        if let (Some(named), Some(of)) = (named, types.get_mut(number.wrapping_sub(1))) {
            *of = named.to_owned();
        }
    });
    types
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{Program, ScriptSource};

    fn statement(sql: &str) -> Statement {
        let text = format!("\\set a 1\n\\set b 2\n{sql}");
        let source = ScriptSource { name: "test".into(), text, weight: 1 };
        Program::compile(&[source], &[]).unwrap().scripts[0].statements[0].clone()
    }

    fn text(sql: &str, form: BatchForm) -> Result<String, String> {
        gathered(&statement(sql), form, 2).map(|of| of.text_extended).map_err(|fault| fault.message)
    }

    #[test]
    fn every_form_is_made_from_the_insert_of_one_row() {
        let one = "INSERT INTO t (a, b) VALUES (CAST(:a AS jsonb), :b::numeric(9, 2));";
        assert_eq!(
            text(one, BatchForm::Values).unwrap(),
            "INSERT INTO t (a, b) VALUES (CAST($1 AS jsonb), $2::numeric(9, 2)), (CAST($3 AS jsonb), $4::numeric(9, 2));"
        );
        assert_eq!(
            text(one, BatchForm::Unnest).unwrap(),
            "INSERT INTO t (a, b) SELECT CAST(r.v1 AS jsonb), r.v2::numeric(9, 2) FROM ROWS FROM \
             (pg_catalog.unnest(CAST($1 AS jsonb[])), pg_catalog.unnest(CAST($2 AS numeric[]))) AS r(v1, v2);"
        );
        assert_eq!(text(one, BatchForm::Copy).unwrap(), "COPY t (a, b) FROM STDIN;");
        let one = statement("INSERT INTO s.t (A, \"b c\") VALUES (:a, :b);");
        let of = gathered(&one, BatchForm::Coalesce, 1).unwrap().gathered.unwrap();
        assert_eq!((of.table.as_str(), of.names), ("s.t", vec!["a".to_owned(), "b c".to_owned()]));
    }

    #[test]
    fn quotes_and_parentheses_hide_what_looks_like_sql() {
        let one =
            "insert into \"my values\" (a) values (f(:a, '$1 (', :b)) on conflict do nothing;";
        assert_eq!(
            text(one, BatchForm::Values).unwrap(),
            "INSERT INTO \"my values\" (a) VALUES (f($1, '$1 (', $2)), (f($3, '$1 (', $4)) on conflict do nothing;"
        );
        let unnest = text(one, BatchForm::Unnest).unwrap();
        assert!(unnest.contains("SELECT f(r.v1, '$1 (', r.v2) FROM"), "{unnest}");
        assert!(unnest.ends_with("AS r(v1, v2) on conflict do nothing;"), "{unnest}");
        assert!(text(one, BatchForm::Copy).unwrap_err().contains("as they are"));
    }

    #[test]
    fn what_cannot_be_sent_together_says_why() {
        for (sql, why) in [
            ("UPDATE t SET a = :a;", "not an INSERT"),
            ("INSERT INTO t (a) SELECT :a;", "no VALUES"),
            ("INSERT INTO t VALUES (:a);", "does not name its columns"),
            ("INSERT INTO t (a) VALUES (:a), (:b);", "several rows already"),
            ("INSERT INTO t (a) VALUES (1);", "no variables"),
        ] {
            let said = text(sql, BatchForm::Values).unwrap_err();
            assert!(said.contains(why), "{sql}: {said}");
        }
        let many =
            gathered(&statement("INSERT INTO t (a) VALUES (:a);"), BatchForm::Values, 65_536);
        assert!(many.unwrap_err().message.contains("at most 65535"));
        for sql in ["INSERT INTO t (a) VALUES (:a + 1);", "INSERT INTO t (a, b) VALUES (:a, 1);"] {
            assert!(text(sql, BatchForm::Copy).is_err(), "{sql}");
        }
    }
}
