//! The language against pgbench itself: what PostgreSQL 18.6's pgbench printed
//! for the same expressions and seeds is in `golden/`.

use walwright_workload::script::{
    ClientStart, Command, Definition, Piece, Program, RunSeeds, ScriptSource, Statement, Value,
    Variables, parse_definition,
};

fn compile(text: &str, definitions: &[Definition]) -> Result<Program, String> {
    let source = ScriptSource { name: "golden.sql".into(), text: text.into(), weight: 1 };
    Program::compile(&[source], definitions).map_err(|error| error.to_string())
}

fn start(seeds: &RunSeeds, client_id: u32) -> ClientStart {
    ClientStart {
        client_id,
        scale: 1,
        random_seed: seeds.random_seed(),
        default_seed: seeds.default_seed(),
    }
}

fn lines(golden: &str) -> impl Iterator<Item = (&str, &str)> {
    golden
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once('\t').expect("a tab in each golden line"))
}

/// A value as `debug()` prints it.
fn shown(value: &Value) -> String {
    let mut text = Vec::new();
    value.write_text(&mut text);
    match value {
        Value::Null => "null".into(),
        _ => format!("{} {}", value.value_type(), String::from_utf8(text).unwrap()),
    }
}

/// Evaluates `\set x EXPRESSION`; an error of the compiler comes without the
/// place and the line.
fn evaluate(
    expression: &str,
    definitions: &[Definition],
    seeds: &RunSeeds,
) -> Result<String, String> {
    let program = compile(&format!("\\set x debug({expression})"), definitions)?;
    let Command::Set { expr, .. } = &program.scripts[0].commands[0] else {
        panic!("\\set compiles to Set");
    };
    let variables = program.variables(&start(seeds, 0));
    let mut rng = seeds.client(0).unwrap().clone();
    let value = expr.eval(&variables, &mut rng);
    value.map(|value| shown(&value)).map_err(|error| error.to_string())
}

#[test]
fn expressions_have_the_values_of_pgbench() {
    let definitions: Vec<Definition> = [
        "d_int=41",
        "d_plus=+7",
        "d_space= 12",
        "d_float=2.50",
        "d_exp=1e3",
        "d_true=true",
        "d_t=t",
        "d_no=no",
        "d_on=on",
        "d_off=OFF",
        "d_of=of",
        "d_o=o",
        "d_null=Null",
        "d_text=hello",
        "d_big=99999999999999999999",
        "d_hex=0x10",
        "d_inf=inf",
    ]
    .into_iter()
    .map(|definition| parse_definition(definition).unwrap())
    .collect();
    let seeds = RunSeeds::new(42, 1);
    let mut wrong = Vec::new();
    let mut count = 0;
    for (expression, expected) in lines(include_str!("golden/expressions.tsv")) {
        count += 1;
        let found = evaluate(expression, &definitions, &seeds);
        let agrees = match (expected.strip_prefix("error: "), &found) {
            (None, Ok(found)) => found == expected,
            // pgbench names the command when it refuses at parse time.
            (Some(error), Err(found)) if error.contains("in command") => {
                found.starts_with("golden.sql:1:")
            }
            (Some(error), Err(found)) => {
                let start: Vec<&str> = error.split(' ').take(3).collect();
                found.starts_with(&start.join(" "))
                    || (error.contains("malformed") || error.contains("type bigint"))
                        && found.contains("holds text that is not a number")
            }
            _ => false,
        };
        if !agrees {
            wrong.push(format!("{expression}\n  pgbench: {expected}\n  here:    {found:?}"));
        }
    }
    assert!(count > 800, "only {count} golden expressions");
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn clients_draw_the_numbers_of_pgbench_from_the_same_seed() {
    const CLIENTS: usize = 3;
    let program = compile(include_str!("golden/random.sql"), &[]).unwrap();
    let script = &program.scripts[0];
    let seeds = RunSeeds::new(42, CLIENTS);
    let mut clients: Vec<_> = (0..CLIENTS)
        .map(|id| {
            let variables = program.variables(&start(&seeds, id as u32));
            (variables, seeds.client(id).unwrap().clone())
        })
        .collect();
    let mut place = 0;
    for (command, expected) in lines(include_str!("golden/random.tsv")) {
        let index = place % script.commands.len();
        let client = place / script.commands.len() % CLIENTS;
        assert_eq!(command, (index + 1).to_string());
        let Command::Set { slot, expr } = &script.commands[index] else {
            panic!("the script has only \\set");
        };
        let (variables, rng) = &mut clients[client];
        let value = expr.eval(variables, rng).unwrap();
        assert_eq!(shown(&value), format!("int {expected}"), "value {place}, command {command}");
        variables.set(*slot, value);
        place += 1;
    }
    assert_eq!(place, 25 * CLIENTS * script.commands.len());
}

/// Runs a script without a server; `results` are the columns that its \gset
/// and \aset statements find. Returns the statements it sends.
fn sent(
    script: &str,
    results: &[(&str, i64)],
    text: fn(&Statement, &Variables) -> String,
) -> Vec<String> {
    let program = compile(script, &[]).unwrap();
    let script = &program.scripts[0];
    let seeds = RunSeeds::new(1, 1);
    let mut variables = program.variables(&start(&seeds, 0));
    let mut rng = seeds.client(0).unwrap().clone();
    let mut sent = Vec::new();
    let mut at = 0;
    while let Some(command) = script.commands.get(at) {
        at += 1;
        match command {
            Command::Sql(id) => {
                let statement = &script.statements[id.index()];
                sent.push(text(statement, &variables));
                if let Some(gset) = &statement.gset {
                    for (name, value) in results {
                        let slot = program.slot(name).filter(|_| name.starts_with(&gset.prefix));
                        if let Some(slot) = slot {
                            variables.set(slot, Value::Int(*value));
                        }
                    }
                }
            }
            Command::Set { slot, expr } => {
                let value = expr.eval(&variables, &mut rng).unwrap();
                variables.set(*slot, value);
            }
            Command::JumpIfFalse { condition, target } => {
                if !condition.eval_condition(&variables, &mut rng).unwrap() {
                    at = *target;
                }
            }
            Command::Jump { target } => at = *target,
            other => panic!("the script has no {other:?}"),
        }
    }
    sent
}

fn simple_text(statement: &Statement, variables: &Variables) -> String {
    let mut sql = Vec::new();
    for piece in &statement.text_simple {
        match piece {
            Piece::Text(text) => sql.extend_from_slice(text.as_bytes()),
            Piece::Variable(slot) | Piece::Quoted(slot) => {
                variables.get(*slot).unwrap().write_text(&mut sql)
            }
        }
    }
    String::from_utf8(sql).unwrap()
}

fn logged(golden: &str) -> Vec<String> {
    golden.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The golden files hold what the server logged for `pgbench -n -t 1 -f
/// statements.sql` (simple and prepared) and `-f quoted.sql` (simple).
#[test]
fn the_server_sees_the_statements_that_pgbench_sends() {
    let results = [("r_f", 2), ("r_g", 4), ("p_n", 5)];
    let script = include_str!("golden/statements.sql");
    assert_eq!(
        sent(script, &results, simple_text),
        logged(include_str!("golden/statements.simple.jsonl"))
    );
    assert_eq!(
        sent(script, &results, |statement, _| statement.text_extended.clone()),
        logged(include_str!("golden/statements.prepared.jsonl"))
    );
    assert_eq!(
        sent(include_str!("golden/quoted.sql"), &[("i", 1), ("j", 2)], simple_text),
        logged(include_str!("golden/quoted.simple.jsonl"))
    );
}
