//! Scripts made ready for the wire: what each statement sends, and how far a
//! client may run ahead of the server in lean mode.

use std::cell::Cell;

use walwright_wire::{
    BindTemplate, Connection, Format, Piece as WirePiece, Template, Values, WireError,
    parse_message,
};
use walwright_workload::script::{BatchForm, Piece, Program, Slot, Statement, Variables};

use crate::plan::{Mode, Protocol};

/// A statement as it goes over the wire. Sync is left to whoever sends it.
#[derive(Debug, Clone)]
pub(crate) struct WireStatement {
    /// Its number over all scripts, from 0.
    pub(crate) number: usize,
    /// The name it is prepared under; empty where it is not.
    pub(crate) name: String,
    /// The Parse that names it; only with prepared statements.
    pub(crate) parse: Vec<u8>,
    /// One execution with all values as text.
    pub(crate) text: Template,
    /// One execution with integers in binary form; only in lean mode.
    pub(crate) binary: Option<Template>,
    /// What it does to the session around it.
    pub(crate) effect: Effect,
    /// Whether its rows go to a coalescer, and nothing to the client's own connection.
    pub(crate) coalesced: bool,
}

/// What a statement does to its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Opens a transaction block.
    Opens,
    /// Ends it.
    Ends,
    /// Forgets all prepared statements.
    Forgets,
    /// None of these.
    None,
}

/// The statements of all scripts, by script and statement.
pub(crate) type WireScripts = Vec<Vec<WireStatement>>;

/// The formats of a statement's parameters, by statement over all scripts.
pub(crate) type ParameterFormats = Vec<Vec<Format>>;

/// Asks the server what types the parameters have. A statement it cannot
/// describe (its table may be made by the script) keeps text parameters.
pub(crate) fn learn_formats(
    program: &Program,
    connection: &mut Connection,
) -> Result<ParameterFormats, WireError> {
    let mut formats = Vec::new();
    for statement in program.scripts.iter().flat_map(|script| &script.statements) {
        let types = match connection.parameter_types(&statement.text_extended) {
            Ok(types) => types,
            Err(WireError::Server(error)) if !error.is_fatal() => Vec::new(),
            Err(error) => return Err(error),
        };
        let mut of_statement: Vec<Format> = types.into_iter().map(Format::of_type).collect();
        of_statement.resize(statement.params.len(), Format::Text);
        formats.push(of_statement);
    }
    Ok(formats)
}

/// Makes every statement ready. `formats` are needed in lean mode only.
pub(crate) fn compile(
    program: &Program,
    protocol: Protocol,
    mode: Mode,
    formats: &ParameterFormats,
) -> WireScripts {
    let mut number = 0;
    let mut compile_statement = |statement: &Statement| {
        // The names pgbench gives.
        let name =
            if protocol == Protocol::Prepared { format!("P_{number}") } else { String::new() };
        let parse = parse_message(&name, &statement.text_extended);
        let bind = |format_of: &dyn Fn(usize) -> Format, describe| {
            let parameters: Vec<(u32, Format)> =
                (0..statement.params.len()).map(|i| (i as u32, format_of(i))).collect();
            Template::bind_execute(&BindTemplate {
                statement: &name,
                parameters: &parameters,
                describe,
            })
        };
        // A result that is kept must be described, for the names of its columns.
        let describe = mode == Mode::Faithful || statement.gset.is_some();
        let all_text = bind(&|_| Format::Text, describe);
        let text = match protocol {
            Protocol::Simple => simple_query(statement),
            Protocol::Extended => all_text.after(&parse),
            Protocol::Prepared => all_text,
        };
        let binary = match formats.get(number) {
            Some(formats)
                if mode == Mode::Lean && formats.iter().any(|format| *format != Format::Text) =>
            {
                Some(bind(&|i| formats.get(i).copied().unwrap_or(Format::Text), describe))
            }
            _ => None,
        };
        let effect = effect(&statement.text_extended);
        let form = statement.gathered.as_ref().map(|of| of.form);
        let coalesced = form == Some(BatchForm::Coalesce);
        let wire = WireStatement { number, name, parse, text, binary, effect, coalesced };
        number += 1;
        wire
    };
    program
        .scripts
        .iter()
        .map(|script| script.statements.iter().map(&mut compile_statement).collect())
        .collect()
}

fn simple_query(statement: &Statement) -> Template {
    // The workload numbers parameters in the order of their pieces.
    let mut parameter = 0;
    let pieces: Vec<WirePiece<'_>> = statement
        .text_simple
        .iter()
        .map(|piece| match piece {
            Piece::Text(sql) => WirePiece::Sql(sql),
            Piece::Variable(_) => {
                parameter += 1;
                WirePiece::Value(parameter - 1)
            }
            Piece::Quoted(_) => {
                parameter += 1;
                WirePiece::Quoted(parameter - 1)
            }
        })
        .collect();
    Template::query(&pieces)
}

/// What a statement does to its transaction block, from its first words.
/// Where in doubt it is "ends", which costs a round trip and is never wrong.
pub(crate) fn effect(sql: &str) -> Effect {
    let mut words = Words(sql);
    let first = words.next().unwrap_or_default();
    let second = words.next().unwrap_or_default();
    let is = |word: &str, what: &str| word.eq_ignore_ascii_case(what);
    if is(first, "BEGIN") || (is(first, "START") && is(second, "TRANSACTION")) {
        return Effect::Opens;
    }
    let third = || words.clone().next().unwrap_or_default();
    if ["DISCARD", "DEALLOCATE"].iter().any(|forgets| is(first, forgets))
        && (is(second, "ALL") || is(second, "PREPARE") && is(third(), "ALL"))
    {
        return Effect::Forgets;
    }
    let ends = ["END", "COMMIT", "ROLLBACK", "ABORT"].iter().any(|end| is(first, end))
        || (is(first, "PREPARE") && is(second, "TRANSACTION"));
    // ROLLBACK TO and ROLLBACK TRANSACTION TO go back to a savepoint.
    let to_savepoint = is(first, "ROLLBACK")
        && (is(second, "TO")
            || (["WORK", "TRANSACTION"].iter().any(|filler| is(second, filler))
                && words.next().is_some_and(|third| is(third, "TO"))));
    if ends && !to_savepoint { Effect::Ends } else { Effect::None }
}

/// The words at the start of SQL, without comments.
#[derive(Clone)]
struct Words<'a>(&'a str);

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        loop {
            self.0 = self.0.trim_start();
            if self.0.starts_with("--") {
                self.0 = self.0.split_once('\n').map_or("", |(_, rest)| rest);
            } else if self.0.starts_with("/*") {
                self.0 = after_comment(self.0);
            } else {
                break;
            }
        }
        let end = self.0.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        (!word.is_empty()).then_some(word)
    }
}

/// What follows a comment, which may contain others.
fn after_comment(sql: &str) -> &str {
    let bytes = sql.as_bytes();
    let mut depth = 0;
    let mut at = 0;
    while at < bytes.len() {
        match bytes.get(at..at + 2) {
            Some(b"/*") => depth += 1,
            Some(b"*/") => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return sql.get(at..).unwrap_or_default();
        }
    }
    ""
}

/// A client's variables as the values of one statement's parameters.
pub(crate) struct Bound<'a> {
    variables: &'a Variables,
    parameters: &'a [Slot],
    /// The first variable that was needed and has no value.
    undefined: Cell<Option<Slot>>,
}

impl<'a> Bound<'a> {
    #[inline]
    pub(crate) fn new(variables: &'a Variables, parameters: &'a [Slot]) -> Self {
        Bound { variables, parameters, undefined: Cell::new(None) }
    }

    /// The variable that was needed and has no value, if there is one.
    #[inline]
    pub(crate) fn undefined(&self) -> Option<Slot> {
        self.undefined.get()
    }
}

impl Values for Bound<'_> {
    #[inline]
    fn write_text(&self, parameter: u32, out: &mut Vec<u8>) -> bool {
        let Some(slot) = self.parameters.get(parameter as usize) else { return false };
        match self.variables.get(*slot) {
            Some(value) if value.is_null() => false,
            Some(value) => {
                value.write_text(out);
                true
            }
            None => {
                self.undefined.set(self.undefined.get().or(Some(*slot)));
                false
            }
        }
    }

    #[inline]
    fn integer(&self, parameter: u32) -> Option<i64> {
        self.variables.get(*self.parameters.get(parameter as usize)?)?.as_int()
    }
}

#[cfg(test)]
mod tests {
    use walwright_workload::script::ScriptSource;

    use super::*;

    #[test]
    fn the_effect_of_a_statement_shows_in_its_first_words() {
        for opens in ["BEGIN;", "begin isolation level serializable", "START TRANSACTION"] {
            assert_eq!(effect(opens), Effect::Opens, "{opens}");
        }
        for ends in [
            "END;",
            "COMMIT AND CHAIN",
            "  -- done\n /* a /* b */ c */ commit;",
            "ROLLBACK",
            "rollback work",
            "ABORT",
            "PREPARE TRANSACTION 'x'",
        ] {
            assert_eq!(effect(ends), Effect::Ends, "{ends}");
        }
        for forgets in ["DISCARD ALL;", "deallocate all", "DEALLOCATE PREPARE ALL"] {
            assert_eq!(effect(forgets), Effect::Forgets, "{forgets}");
        }
        for neither in [
            "SELECT 1",
            "DISCARD TEMP",
            "DEALLOCATE p",
            "ROLLBACK TO SAVEPOINT a",
            "rollback transaction to a",
            "PREPARE p AS SELECT 1",
            "ENDLESS",
            "",
            "/* never closed",
        ] {
            assert_eq!(effect(neither), Effect::None, "{neither}");
        }
    }

    fn program(text: &str) -> Program {
        let source = ScriptSource { name: "test".into(), text: text.into(), weight: 1 };
        Program::compile(&[source], &[]).unwrap()
    }

    #[test]
    fn statements_send_what_pgbench_sends() {
        let program = program("\\set a 7\nBEGIN;\nSELECT :a, :a;\nEND;");
        let variables = {
            let mut variables = program.variables(&walwright_workload::script::ClientStart {
                client_id: 0,
                scale: 1,
                random_seed: 1,
                default_seed: 1,
            });
            variables.set(program.slot("a").unwrap(), 7.into());
            variables
        };
        let sent = |protocol| {
            let wire = compile(&program, protocol, Mode::Faithful, &Vec::new());
            let mut out = Vec::new();
            let params = &program.scripts[0].statements[1].params;
            wire[0][1].text.render(&Bound::new(&variables, params), &mut out).unwrap();
            (wire[0][1].parse.clone(), out)
        };
        let (_, simple) = sent(Protocol::Simple);
        assert_eq!(simple, b"Q\0\0\0\x11SELECT 7, 7;\0");
        let (parse, prepared) = sent(Protocol::Prepared);
        assert_eq!(parse, b"P\0\0\0\x19P_1\0SELECT $1, $2;\0\0\0");
        assert!(
            prepared.starts_with(b"B\0\0\0\x1b\0P_1\0\0\0\0\x02\0\0\0\x017\0\0\0\x017\0\x01\0\0D")
        );
        let (_, extended) = sent(Protocol::Extended);
        assert!(extended.starts_with(b"P\0\0\0\x16\0SELECT $1, $2;\0\0\0B"));
    }

    #[test]
    fn lean_statements_use_binary_integers_and_no_describe() {
        let program = program("\\set a 7\nSELECT :a::int8;\nSELECT 1 AS b \\gset\n");
        let formats = vec![vec![Format::Int8], vec![]];
        let wire = compile(&program, Protocol::Prepared, Mode::Lean, &formats);
        let mut variables = Variables::new(program.slot_count());
        variables.set(program.slot("a").unwrap(), 7.into());
        let mut out = Vec::new();
        let bound = Bound::new(&variables, &program.scripts[0].statements[0].params);
        wire[0][0].binary.as_ref().unwrap().render(&bound, &mut out).unwrap();
        assert!(out.windows(12).any(|part| part == b"\0\0\0\x08\0\0\0\0\0\0\0\x07"));
        assert!(!out.contains(&b'D'));
        let mut kept = Vec::new();
        wire[0][1].text.render(&Bound::new(&variables, &[]), &mut kept).unwrap();
        assert!(kept.contains(&b'D'), "a result that is kept is described");
    }

    #[test]
    fn a_variable_without_a_value_is_noticed() {
        let program = program("SELECT :b;\nSELECT 1 AS b \\gset\n");
        let variables = Variables::new(program.slot_count());
        let wire = compile(&program, Protocol::Prepared, Mode::Faithful, &Vec::new());
        let bound = Bound::new(&variables, &program.scripts[0].statements[0].params);
        wire[0][0].text.render(&bound, &mut Vec::new()).unwrap();
        assert_eq!(bound.undefined(), program.slot("b"));
    }
}
