//! Several of the workload's transactions in one commit, where that changes nothing but
//! the commit.
//!
//! A row that was updated stays locked until the commit, so a batch of updates locks for
//! longer, in an order that deadlocks: it is another workload. Scripts that only insert
//! and read have no such locks, and their batch is the same work with fewer commits.

use std::path::Path;

use walwright_record::{Record, ScriptFacts, redact};
use walwright_store::{private, write_private};

use super::{Objective, TuneError};

/// Transactions in one commit.
pub(super) const BATCH: u32 = 10;
/// Writes the batched scripts of a workload below `folder` and gives them as a bench takes
/// them: `path@weight`.
///
/// # Errors
/// In the inner result, why there are none for this load; in the outer one that they
/// cannot be written.
pub(super) fn scripts(
    record: &Record,
    objective: &Objective,
    folder: &Path,
) -> Result<Result<Vec<String>, String>, TuneError> {
    if objective.metric.speaks_of_transactions() {
        return Ok(Err(format!(
            "{} is of whole transactions, and one of a batch is another",
            objective.name()
        )));
    }
    let facts = record.workload.as_ref().map(|workload| &workload.scripts[..]).unwrap_or_default();
    if facts.is_empty() {
        return Ok(Err("the baseline's record holds no scripts".to_owned()));
    }
    let inserts = |script: &ScriptFacts| {
        statements(&script.text).iter().any(|sql| words(sql).first().is_some_and(|w| w == "insert"))
    };
    let mut batched = Vec::new();
    for script in facts {
        match batch(script) {
            Ok(text) => batched.push((script.weight, text)),
            Err(why) => return Ok(Err(why)),
        }
    }
    if !facts.iter().any(inserts) {
        return Ok(Err("it writes nothing, so there is no commit to share".to_owned()));
    }
    let directory = folder.join("batch");
    private::create_dir_all(&directory).map_err(TuneError::file("create", &directory))?;
    let mut files = Vec::new();
    for (place, (weight, text)) in batched.into_iter().enumerate() {
        let path = directory.join(format!("{}.sql", place + 1));
        write_private(&path, text.as_bytes()).map_err(TuneError::file("write", &path))?;
        files.push(format!("{}@{weight}", path.display()));
    }
    Ok(Ok(files))
}

/// A script that does its work [`BATCH`] times in one transaction.
fn batch(script: &ScriptFacts) -> Result<String, String> {
    if script.text.contains(redact::HIDDEN) {
        return Err(format!("{}: it holds a secret, which records leave out", script.name));
    }
    let mut body: Vec<&str> = Vec::new();
    for line in script.text.lines() {
        if !is_block_end(line) {
            body.push(line);
        }
    }
    for statement in statements(&body.join("\n")) {
        let words: Vec<String> = words(&statement);
        let first = words.first().map(String::as_str).unwrap_or_default();
        let has = |word: &str| words.iter().any(|w| w == word);
        let why = match first {
            "insert" if has("conflict") => "may update rows that other clients wait for",
            "insert" => continue,
            "select" if has("for") || has("into") => "locks or writes what it reads",
            "select" => continue,
            _ => "is not an insert or a plain read, and locks would be held for longer",
        };
        return Err(format!("{}: {first} {why}", script.name));
    }
    match script.batch.as_ref().map(|batch| batch.rows) {
        None => {}
        // Its own form of the same.
        Some(1) => return Ok(with_batch(&script.text, &format!("\\batch {BATCH} transaction"))),
        Some(rows) => {
            return Err(format!("{}: it sends {rows} rows together already", script.name));
        }
    }
    if script.text.contains("pipeline") {
        return Err(format!("{}: it is a pipeline already", script.name));
    }
    let mut body = body.join("\n");
    let last = body.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    if !last.trim_end().ends_with(';') && !last.trim_start().starts_with('\\') {
        return Err(format!("{}: its last statement has no semicolon", script.name));
    }
    body.push('\n');
    Ok(format!("BEGIN;\n{}END;\n", body.repeat(BATCH as usize)))
}

/// A script with another `\batch` in place of its own.
fn with_batch(text: &str, batch: &str) -> String {
    let is_batch = |line: &str| line.trim_start().to_ascii_lowercase().starts_with("\\batch ");
    let lines = text.lines().map(|line| if is_batch(line) { batch } else { line });
    lines.map(|line| format!("{line}\n")).collect()
}

/// Whether a line is the beginning or the end of the script's own transaction.
fn is_block_end(line: &str) -> bool {
    let bare = line.trim().trim_end_matches(';').trim_end().to_ascii_lowercase();
    matches!(&*bare, "begin" | "start transaction" | "end" | "commit") && line.contains(';')
}

/// The statements of a script, without comments, commands and quoted texts: enough to know
/// what kind each is. What quotes hold is no keyword.
fn statements(text: &str) -> Vec<String> {
    let mut plain = String::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with('\\')) {
        let mut quoted = false;
        let mut letters = line.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '\'' => quoted = !quoted,
                '-' if !quoted && letters.peek() == Some(&'-') => break,
                // `\gset` ends a statement as a semicolon does.
                '\\' if !quoted => {
                    plain.push(';');
                    break;
                }
                letter if !quoted => plain.push(letter),
                _ => {}
            }
        }
        plain.push('\n');
    }
    plain.split(';').map(str::trim).filter(|one| !one.is_empty()).map(str::to_owned).collect()
}

fn words(statement: &str) -> Vec<String> {
    statement
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use walwright_record::BatchFacts;
    use walwright_workload::script::{Command, Program, ScriptSource};

    use super::*;

    fn script(text: &str) -> ScriptFacts {
        ScriptFacts {
            name: "s.sql".to_owned(),
            weight: 1,
            text: text.to_owned(),
            statements: Vec::new(),
            batch: None,
        }
    }

    fn sent(text: &str) -> Vec<String> {
        let source = ScriptSource { name: "s".to_owned(), text: text.to_owned(), weight: 1 };
        let program = Program::compile(&[source], &[]).unwrap();
        let script = &program.scripts[0];
        let sql = |command: &Command| match command {
            Command::Sql(id) => Some(script.statements[id.index()].text_extended.clone()),
            _ => None,
        };
        script.commands.iter().filter_map(sql).collect()
    }

    #[test]
    fn inserts_are_done_ten_times_in_one_transaction() {
        let one =
            "\\set a random(1, 9)\n-- update nothing\nINSERT INTO t VALUES (:a, 'for; update');\n";
        let ten = sent(&batch(&script(one)).unwrap());
        assert_eq!(ten.len(), 12);
        assert_eq!((ten[0].as_str(), ten[11].as_str()), ("BEGIN;", "END;"));
        assert!(ten[1..11].iter().all(|sql| sql.starts_with("INSERT INTO t")));
        let own = "BEGIN;\nINSERT INTO t VALUES (1);\nSELECT 1;\nCOMMIT;\n";
        assert_eq!(sent(&batch(&script(own)).unwrap()).len(), 22);
    }

    #[test]
    fn each_builtin_is_batched_or_says_why_not() {
        use walwright_workload::workload::{Workload, builtin_names};
        let batched: Vec<&str> = builtin_names()
            .filter(|name| {
                let workload = Workload::builtin(name).unwrap();
                workload.scripts.iter().all(|s| batch(&script(&s.text)).is_ok())
            })
            .collect();
        assert_eq!(batched, ["select-only", "autocommit", "events"]);
        let why = |text: &str| batch(&script(text)).unwrap_err();
        assert!(why("UPDATE t SET n = 1;").contains("s.sql: update is not an insert"));
        assert!(why("SELECT 1 FROM t FOR UPDATE;").contains("locks"));
        assert!(why("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING;").contains("other clients"));
        assert!(why("INSERT INTO t VALUES (1)").contains("semicolon"));
        assert!(why("BEGIN; INSERT INTO t VALUES (1);").contains("begin is not"));
    }

    #[test]
    fn rows_that_are_sent_alone_are_sent_in_transactions() {
        let text =
            "\\batch :rows :pattern\n\\set a 1\nINSERT INTO t (a) VALUES (:a);\n\\endbatch\n";
        let of = |rows| {
            let facts = BatchFacts { form: "single".to_owned(), rows };
            batch(&ScriptFacts { batch: Some(facts), ..script(text) })
        };
        let batched = of(1).unwrap();
        let source = ScriptSource { name: "b".to_owned(), text: batched, weight: 1 };
        let program = Program::compile(&[source], &[]).unwrap();
        assert_eq!(program.scripts[0].batch.unwrap().rows, BATCH);
        assert!(of(100).unwrap_err().contains("100 rows together already"));
    }
}
