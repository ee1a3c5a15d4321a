//! The statements of a promoted schema, with what proves and what undoes them: the file
//! beside `config.env`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use walwright_search::{Effect, Line};

use super::schema_part::{SchemaChange, SchemaKind};
use super::{Objective, TuneState, words};

/// Where the statements that belong to a configuration are written: beside it.
pub(super) fn path(configuration: &Path) -> PathBuf {
    configuration.with_extension("schema.sql")
}

/// The file's text; `None` where nothing of the schema is changed.
pub(super) fn text(state: &TuneState, objective: &Objective) -> Option<String> {
    let changes = state.schema_changes();
    if changes.is_empty() {
        return None;
    }
    let mut out = String::new();
    let load = state.plan.workload_in_words();
    put(&mut out, &comment(&format!("Schema that tune {} proved for {load}.", state.id)));
    put(&mut out, "-- Each statement is sent alone, outside of a transaction: psql -f does so.\n");
    for change in changes {
        put(&mut out, "\n");
        put(&mut out, &comment(&told(state, &change, objective)));
        for warning in warnings(state, &change) {
            put(&mut out, &comment(&warning));
        }
        for sql in &change.statements {
            put(&mut out, &format!("{sql};\n"));
        }
        put(&mut out, "-- Undo:\n");
        for sql in &change.undo {
            put(&mut out, &comment(&format!("{sql};")));
        }
    }
    Some(out)
}

/// A change of the schema and its effect, in a sentence.
pub(super) fn told(state: &TuneState, change: &SchemaChange, objective: &Objective) -> String {
    let (name, value) = (&change.name, &change.value);
    let Some(line) = line(state, name) else { return format!("{name}: {value}") };
    let effect = words::of_figure(&line.without.inverted(), objective);
    let proof = match &effect {
        Effect::NotMeasured => "part of the whole, its own effect was not measured".to_owned(),
        effect => {
            let by = words::by_what(effect, line.together);
            format!("{} {}{by}", objective.name(), words::effect(effect))
        }
    };
    format!("{name}: {value} instead of {}: {proof}", line.home)
}

fn line<'a>(state: &'a TuneState, name: &str) -> Option<&'a Line> {
    state.conclusion()?.lines.iter().find(|line| line.name == name)
}

/// What a person should know before sending it.
fn warnings(state: &TuneState, change: &SchemaChange) -> Vec<String> {
    let part = state.schema.iter().find(|part| part.name == change.name);
    let warning = match part.map(|part| &part.kind) {
        Some(SchemaKind::Fillfactor { .. }) => {
            "VACUUM (FULL) locks the table while it rewrites it; without it only new pages have the free space."
        }
        Some(SchemaKind::Index { .. }) => {
            "This load never scanned it; make sure that nothing else does: reports, other applications, deletes of rows that a foreign key points at."
        }
        None => return Vec::new(),
    };
    vec![warning.to_owned()]
}

/// A text as comments: no line of it is a statement.
fn comment(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        // Writing to a String does not fail.
        let _ = writeln!(out, "-- {line}");
    }
    out
}

fn put(out: &mut String, text: &str) {
    out.push_str(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_line_break_makes_no_statement() {
        assert_eq!(comment("one\nDROP TABLE t;"), "-- one\n-- DROP TABLE t;\n");
        assert_eq!(path(Path::new("a/config.env")), Path::new("a/config.schema.sql"));
    }
}
