//! Statements as the rules read them: what each did inside the window, column by
//! column, and what kind of statement it is.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use walwright_record::{Record, Scalar, Source, Window};

use crate::counters::RowDifference;
use crate::{Blind, Work, difference, work_between};

/// All statements of `pg_stat_statements` that ran inside the window.
#[derive(Debug, Clone)]
pub struct StatementUses {
    /// The work done between the same two samples.
    pub work: Work,
    /// Length between the two samples, in seconds.
    pub seconds: f64,
    /// The statements by execution time, descending; those that functions or
    /// foreign-key checks ran ([`StatementUse::toplevel`] is false) among them.
    pub all: Vec<StatementUse>,
}

/// One statement.
#[derive(Debug, Clone)]
pub struct StatementUse {
    /// `queryid` as text.
    pub query_id: String,
    /// Normalised text; `None` where this role may not see it.
    pub text: Option<String>,
    /// Whether a client sent it; a nested statement's cost is in the one that ran it too.
    pub toplevel: bool,
    /// Executions inside the window.
    pub calls: f64,
    row: RowDifference,
    plain: OnceLock<String>,
}

impl StatementUse {
    /// How far a counter went inside the window; `None` where this server does not
    /// count it or this role may not see it.
    pub fn sum(&self, column: &str) -> Option<f64> {
        self.row.delta(column)
    }

    /// The same, a call.
    pub fn per_call(&self, column: &str) -> Option<f64> {
        Some(self.sum(column)? / self.calls)
    }

    /// Execution time inside the window, in seconds.
    pub fn seconds(&self) -> f64 {
        self.sum("total_exec_time").unwrap_or(0.0) / 1e3
    }

    /// The text in lower case with comments and surplus space gone; empty where
    /// the text is hidden.
    pub fn plain(&self) -> &str {
        // Many rules ask, each of a thousand statements.
        self.plain.get_or_init(|| plain(self.text.as_deref().unwrap_or_default()))
    }

    /// The first word of the statement in lower case: `insert`, `update`, `discard`, …;
    /// of a `WITH` query the word that changes data, or `select`.
    pub fn verb(&self) -> String {
        verb(self.plain()).to_owned()
    }

    /// The table that an INSERT, UPDATE, DELETE, MERGE or COPY names, as written.
    pub fn target(&self) -> Option<String> {
        target(self.plain())
    }

    /// The text cut to one line for display.
    pub fn short(&self) -> String {
        const MOST: usize = 72;
        let Some(text) = &self.text else { return format!("statement {}", self.query_id) };
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        match line.char_indices().nth(MOST) {
            Some((cut, _)) => format!("{}…", &line[..cut]),
            None => line,
        }
    }
}

impl StatementUses {
    /// The statements that clients sent.
    pub fn toplevel(&self) -> impl Iterator<Item = &StatementUse> {
        self.all.iter().filter(|s| s.toplevel)
    }

    /// Sum of a counter over statements that clients sent; `None` where no
    /// statement has it.
    pub fn sum(&self, column: &str) -> Option<f64> {
        self.toplevel().filter_map(|s| s.sum(column)).reduce(|a, b| a + b)
    }
}

/// Reads the statements that ran inside the window.
///
/// # Errors
/// When the extension was not sampled, was reset, or no work was counted.
pub fn statement_uses(record: &Record, window: Window) -> Result<StatementUses, Blind> {
    let difference = difference(record, Source::Statements, window)?;
    let work = work_between(record, difference.from, difference.to)?;
    // Texts are costly for the server and may arrive after the window.
    let texts: BTreeMap<String, &str> = record
        .samples(Source::Statements)
        .iter()
        .flat_map(|sample| &sample.rows)
        .filter_map(|row| Some((row.key(Source::Statements), row.text("query")?)))
        .collect();
    let seconds = difference.length().as_secs_f64();
    let mut all: Vec<StatementUse> = difference
        .rows
        .into_iter()
        .filter_map(|row| {
            let calls = row.delta("calls").filter(|calls| *calls > 0.0)?;
            Some(StatementUse {
                query_id: row.last.0.get("queryid").map(ToString::to_string).unwrap_or_default(),
                text: texts.get(&row.last.key(Source::Statements)).map(|t| (*t).to_owned()),
                toplevel: row.last.0.get("toplevel") != Some(&Scalar::Bool(false)),
                calls,
                row,
                plain: OnceLock::new(),
            })
        })
        .collect();
    all.sort_by(|a, b| b.seconds().total_cmp(&a.seconds()));
    Ok(StatementUses { work, seconds, all })
}

fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find("/*") {
        out.push_str(&rest[..start]);
        rest = rest[start..].split_once("*/").map_or("", |(_, after)| after);
    }
    out.push_str(rest);
    let lines: Vec<&str> =
        out.lines().map(|line| line.split_once("--").map_or(line, |(code, _)| code)).collect();
    lines.join(" ").split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase()
}

fn verb(plain: &str) -> &str {
    let is_word = |c: char| c.is_ascii_alphabetic();
    let first = plain.split(|c| !is_word(c)).find(|w| !w.is_empty()).unwrap_or_default();
    if first != "with" {
        return first;
    }
    plain
        .split(|c: char| !is_word(c) && c != '_')
        .find(|w| matches!(*w, "insert" | "update" | "delete" | "merge"))
        .unwrap_or("select")
}

fn target(plain: &str) -> Option<String> {
    let after = match verb(plain) {
        "insert" | "merge" => plain.split_once(" into ")?.1,
        "update" => plain.split_once("update ")?.1,
        "delete" => plain.split_once(" from ")?.1,
        "copy" => plain.strip_prefix("copy ")?,
        _ => return None,
    };
    let after = after.strip_prefix("only ").unwrap_or(after);
    let name: String = after.chars().take_while(|c| !" (;".contains(*c)).collect();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_tell_their_verb_and_table() {
        for (text, word, table) in [
            ("INSERT INTO app.events (a) VALUES ($1)", "insert", Some("app.events")),
            ("/* who */ update only t SET a = $1", "update", Some("t")),
            ("DELETE FROM t WHERE a = $1", "delete", Some("t")),
            ("WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x", "insert", Some("t")),
            ("WITH x AS (SELECT updated_at FROM u) SELECT * FROM x", "select", None),
            ("-- note\nDISCARD ALL", "discard", None),
            ("copy t (a) from stdin", "copy", Some("t")),
            ("", "", None),
        ] {
            let text = plain(text);
            assert_eq!((verb(&text), target(&text).as_deref()), (word, table), "{text}");
        }
    }
}
