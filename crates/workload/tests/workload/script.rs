//! Scripts as users write them: control flow, pipelines, mistakes.

use walwright_workload::Workload;
use walwright_workload::script::{
    ClientStart, Command, Definition, EvalError, Gset, GsetKind, Piece, Program, Rng, ScriptSource,
    SleepAmount, Value, parse_definition,
};

fn source(text: &str) -> ScriptSource {
    ScriptSource { name: "a.sql".into(), text: text.into(), weight: 1 }
}

fn compile(text: &str) -> Program {
    Program::compile(&[source(text)], &[]).unwrap_or_else(|error| panic!("{error}"))
}

fn fault(text: &str) -> String {
    let error = Program::compile(&[source(text)], &[]).unwrap_err();
    error.to_string()
}

const START: ClientStart = ClientStart { client_id: 3, scale: 10, random_seed: 1, default_seed: 2 };

/// The labels of the statements that run when `n` has this value.
fn path(program: &Program, n: i64) -> Vec<String> {
    let script = &program.scripts[0];
    let mut variables = program.variables(&START);
    let mut rng = Rng::from_seed(1);
    let mut labels = Vec::new();
    let mut at = 0;
    variables.set(program.slot("n").unwrap(), Value::Int(n));
    while let Some(command) = script.commands.get(at) {
        at += 1;
        match command {
            Command::Sql(id) => labels.push(script.statements[id.index()].label.clone()),
            Command::JumpIfFalse { condition, target } => {
                if !condition.eval_condition(&variables, &mut rng).unwrap() {
                    at = *target;
                }
            }
            Command::Jump { target } => at = *target,
            Command::Set { .. } => {}
            other => panic!("no {other:?} here"),
        }
    }
    labels
}

#[test]
fn conditionals_become_jumps() {
    let text = "\\if :n < 10\n  SELECT 1;\n  \\if :n < 5\n    SELECT 2;\n  \\else\n    SELECT 3;\n  \\endif\n\
                \\elif :n < 20\n  SELECT 4;\n\\elif :n < 30\n\\else\n  SELECT 5;\n\\endif\nSELECT 6;";
    let definitions = [parse_definition("n=0").unwrap()];
    let program = Program::compile(&[source(text)], &definitions).unwrap();
    for (n, expected) in [
        (1, vec!["SELECT 1", "SELECT 2", "SELECT 6"]),
        (7, vec!["SELECT 1", "SELECT 3", "SELECT 6"]),
        (15, vec!["SELECT 4", "SELECT 6"]),
        (25, vec!["SELECT 6"]),
        (35, vec!["SELECT 5", "SELECT 6"]),
    ] {
        assert_eq!(path(&program, n), expected, "n = {n}");
    }
}

#[test]
fn a_condition_alone_at_the_end_jumps_past_the_last_command() {
    let program = compile("\\set n 1\n\\if :n\n\\endif");
    let script = &program.scripts[0];
    assert!(matches!(&script.commands[1], Command::JumpIfFalse { target: 2, .. }));
    assert_eq!(script.commands.len(), 2);
}

#[test]
fn statements_keep_their_parameters_in_order() {
    let program = compile("\\set a 1\n\\set b 2\nSELECT :b, :a, :b::int, a::text;");
    let statement = &program.scripts[0].statements[0];
    assert_eq!(statement.text_extended, "SELECT $1, $2, $3::int, a::text;");
    let names: Vec<_> = statement.params.iter().map(|slot| program.name(*slot)).collect();
    assert_eq!(names, ["b", "a", "b"]);
    assert_eq!(statement.text_simple.len(), 7);
    assert_eq!(statement.text_simple[0], Piece::Text("SELECT ".into()));
    assert_eq!((statement.line, statement.label.as_str()), (3, "SELECT :b, :a, :b::int, a::text"));
    assert!(statement.is_extended());
}

#[test]
fn scripts_share_their_variables() {
    let sources = [source("\\set x 5\nSELECT 1;"), source("SELECT :x;")];
    let program = Program::compile(&sources, &[]).unwrap();
    assert_eq!(program.scripts[1].statements[0].params, [program.slot("x").unwrap()]);
    assert_eq!(program.slot_count(), 1);
}

#[test]
fn automatic_variables_and_definitions_have_values_at_the_start() {
    let definitions = [parse_definition("scale=99").unwrap(), parse_definition("who=me").unwrap()];
    let sources = [source(
        "SELECT :client_id, :scale, :random_seed, :default_seed, :who, :later;\n\\set later 1",
    )];
    let program = Program::compile(&sources, &definitions).unwrap();
    let variables = program.variables(&START);
    let value = |name: &str| variables.get(program.slot(name).unwrap()).cloned();
    assert_eq!(value("client_id"), Some(Value::Int(3)));
    assert_eq!(value("scale"), Some(Value::Text("99".into())));
    assert_eq!(value("random_seed"), Some(Value::Int(1)));
    assert_eq!(value("default_seed"), Some(Value::Int(2)));
    assert_eq!(value("who"), Some(Value::Text("me".into())));
    assert_eq!(value("later"), None);
}

#[test]
fn results_become_variables() {
    let program = compile(
        "SELECT 1 AS a, 2 AS b \\gset x_\nSELECT :x_a;\nSELECT 3 AS c;\n\\aset\nSELECT :anything;",
    );
    let script = &program.scripts[0];
    let gset = |prefix: &str, kind| Some(Gset { prefix: prefix.into(), kind });
    assert_eq!(script.statements[0].gset, gset("x_", GsetKind::Gset));
    assert_eq!(script.statements[2].gset, gset("", GsetKind::Aset));
    assert!(program.slot("x_a").is_some());
    // A column that no script reads needs no place.
    assert_eq!(program.slot("x_b"), None);
    // With a prefix only names that begin with it can come from the result.
    let error = fault("SELECT 1 AS a \\gset x_\nSELECT :a;");
    assert!(error.starts_with("a.sql:2:8: undefined variable \"a\""), "{error}");
}

#[test]
fn sleeps_have_units() {
    let program =
        compile("\\set n 7\n\\sleep 10 ms\n\\sleep 5us\n\\sleep 2\n\\sleep :n MS\n\\sleep 3 s");
    let mut variables = program.variables(&START);
    variables.set(program.slot("n").unwrap(), Value::Int(7));
    let sleeps = program.scripts[0].commands.iter().filter_map(|command| match command {
        Command::Sleep(sleep) => Some(*sleep),
        _ => None,
    });
    let sleeps: Vec<_> = sleeps.collect();
    let micros: Vec<_> =
        sleeps.iter().map(|sleep| sleep.duration(&variables).unwrap().as_micros()).collect();
    assert_eq!(micros, [10_000, 5, 2_000_000, 7_000, 3_000_000]);
    assert!(matches!(sleeps[3].amount, SleepAmount::Variable(_)));
    variables.set(program.slot("n").unwrap(), Value::Int(-1));
    assert_eq!(sleeps[3].duration(&variables), Err(EvalError::Sleep));
}

#[test]
fn pipelines_pair_up() {
    let program = compile("\\startpipeline\nSELECT 1;\n\\syncpipeline\nSELECT 2;\n\\endpipeline");
    assert!(matches!(program.scripts[0].commands[0], Command::StartPipeline));
    assert!(matches!(program.scripts[0].commands[2], Command::SyncPipeline));
    assert!(matches!(program.scripts[0].commands[4], Command::EndPipeline));
    for (text, expected) in [
        ("\\startpipeline\nSELECT 1;", "a.sql:1:2: \\startpipeline without \\endpipeline"),
        ("\\startpipeline\n\\startpipeline", "a.sql:2:2: \\startpipeline inside a pipeline"),
        ("\\endpipeline", "a.sql:1:2: \\endpipeline without \\startpipeline"),
        ("\\syncpipeline", "a.sql:1:2: \\syncpipeline without \\startpipeline"),
        (
            "\\startpipeline\nSELECT 1 \\gset\n\\endpipeline",
            "a.sql:2:11: \\gset is not allowed in a pipeline",
        ),
    ] {
        assert!(fault(text).starts_with(expected), "{}", fault(text));
    }
    // Whether this pairs up is known only at run time.
    compile("\\set n 1\n\\if :n\n\\startpipeline\n\\endif\nSELECT 1;\n\\endpipeline");
}

#[test]
fn what_only_the_simple_protocol_carries_is_found() {
    let extended = |text: &str| compile(text).check_extended().map_err(|error| error.to_string());
    assert_eq!(extended("\\set a 1\nSELECT :a, '10:mm';"), Ok(()));
    let quoted = extended("\\set a 1\nSELECT ':a';").unwrap_err();
    assert!(
        quoted.starts_with("a.sql:2:9: a variable inside quotes needs the simple protocol"),
        "{quoted}"
    );
    let compound = extended("SELECT 1 \\; SELECT 2;").unwrap_err();
    assert!(
        compound.starts_with("a.sql:1:1: statements joined by \\; need the simple"),
        "{compound}"
    );
}

#[test]
fn a_colon_can_be_written_plainly() {
    let program = compile("SELECT '{1,2,3}'::int[]\\:x, \\:y;");
    let statement = &program.scripts[0].statements[0];
    assert_eq!(statement.text_extended, "SELECT '{1,2,3}'::int[]:x, :y;");
    assert!(statement.params.is_empty());
}

#[test]
fn evaluation_errors_name_place_and_variable() {
    let program = compile("SELECT 1 AS one \\gset\n\\set x 1 / :zero");
    let error = program.explain(0, 1, EvalError::Undefined(program.slot("zero").unwrap()));
    let text = error.to_string();
    assert!(text.starts_with("a.sql:2:2: variable \"zero\" is used before anything has set it\n  2 | \\set x 1 / :zero\n"), "{text}");
    assert!(text.contains("-D zero=value"), "{text}");
}

#[test]
fn scripts_are_chosen_by_weight() {
    let mut sources = vec![source("SELECT 1;"), source("SELECT 2;"), source("SELECT 3;")];
    sources[0].weight = 3;
    sources[1].weight = 0;
    let program = Program::compile(&sources, &[]).unwrap();
    let mut rng = Rng::from_seed(5);
    let mut counts = [0; 3];
    for _ in 0..40_000 {
        counts[program.choose(&mut rng)] += 1;
    }
    assert_eq!(counts[1], 0);
    // Four standard deviations of a binomial count are 350.
    assert!((29_650..=30_350).contains(&counts[0]), "{counts:?}");
}

#[test]
fn mistakes_are_found_where_they_are() {
    for (text, expected) in [
        ("", "a.sql: the script has no commands"),
        ("-- nothing\n", "a.sql: the script has no commands"),
        ("\\set", "a.sql:1:2: \\set needs a name and an expression"),
        ("\\set x", "a.sql:1:7: syntax error: the end of the line where a value is expected"),
        ("\\set 1x 2", "a.sql:1:6: \"1x\" is not a variable name"),
        (
            "\\set :x 2",
            "a.sql:1:6: \":x\" is not a variable name\n  1 | \\set :x 2\n           ^\n  write the name without a colon: x",
        ),
        ("\\set x 1 -- one", "a.sql:1:13: unknown function \"one\""),
        ("\\set x 1 +", "a.sql:1:11: syntax error"),
        ("\\set x (1", "a.sql:1:10: syntax error: the end of the line where \")\" is expected"),
        (
            "\\set x 1 2",
            "a.sql:1:10: syntax error: \"2\" where an operator or the end of the line is expected",
        ),
        ("\\set x 1 < 2 < 3", "a.sql:1:14: comparisons do not chain"),
        ("\\set x 'text'", "a.sql:1:8: syntax error: 'text' where a value is expected"),
        ("\\set x :a = 'text", "a.sql:1:13: the text has no closing quote"),
        ("\\set x 1 = 'text'", "a.sql:1:12: only a variable is compared with a text"),
        ("\\uuids x 5", "a.sql:1:11: syntax error: the end of the line where a value is expected"),
        ("\\uuids x", "a.sql:1:2: \\uuids needs a name, how many, and an expression for each"),
        ("\\uuids x 1+ 5", "a.sql:1:12: syntax error"),
        ("\\text x {{letters(1 +)}}", "a.sql:1:22: syntax error"),
        (
            "\\set x scale",
            "a.sql:1:8: unknown function \"scale\"\n  1 | \\set x scale\n             ^\n  if it is a variable, write :scale",
        ),
        ("\\set x abs(1, 2)", "a.sql:1:8: abs() takes 1 argument, not 2"),
        ("\\set x hash()", "a.sql:1:8: hash() takes 1 to 2 arguments, not 0"),
        ("\\set x \\\n  1 + \\\n  randm(2)", "a.sql:3:3: unknown function \"randm\""),
        ("\\set x 9223372036854775808", "a.sql:1:8: bigint constant overflow"),
        ("\\set x 1 - 9223372036854775808", "a.sql:1:12: bigint constant overflow"),
        (
            "\\set y :scal",
            "a.sql:1:8: undefined variable \"scal\"\n  1 | \\set y :scal\n             ^\n  did you mean :scale?",
        ),
        ("SELECT 1;\nSELECT :nope;", "a.sql:2:8: undefined variable \"nope\""),
        (
            "\\sett x 1",
            "a.sql:1:2: unknown command \\sett\n  1 | \\sett x 1\n       ^\n  did you mean \\set?",
        ),
        ("\\shell ls", "a.sql:1:2: \\shell is not supported"),
        ("\\setshell x ls", "a.sql:1:2: \\setshell is not supported"),
        ("\\sleep", "a.sql:1:2: \\sleep needs an amount"),
        ("\\sleep ten", "a.sql:1:8: invalid sleep time \"ten\""),
        ("\\sleep -1 ms", "a.sql:1:8: invalid sleep time \"-1\""),
        ("\\sleep 1 year", "a.sql:1:10: unknown time unit \"year\""),
        ("\\sleep 1 ms now", "a.sql:1:13: unexpected \"now\" after \\sleep"),
        ("\\if true", "a.sql:1:2: \\if without \\endif"),
        ("\\endif", "a.sql:1:2: \\endif without an \\if before it"),
        ("\\else", "a.sql:1:2: \\else without an \\if before it"),
        ("\\elif true", "a.sql:1:2: \\elif without an \\if before it"),
        ("\\if true\n\\else\n\\else\n\\endif", "a.sql:3:2: \\else after \\else"),
        ("\\if true\n\\else\n\\elif true\n\\endif", "a.sql:3:2: \\elif after \\else"),
        ("\\if true\n\\endif x", "a.sql:2:8: unexpected \"x\" after \\endif"),
        ("\\gset", "a.sql:1:2: \\gset must follow a SQL statement"),
        ("SELECT 1 \\gset\n\\gset", "a.sql:2:2: \\gset must follow a SQL statement"),
        ("SELECT 1 \\gset 1x", "a.sql:1:16: \"1x\" cannot begin a variable name"),
        ("SELECT 'open", "a.sql:1:8: unterminated quoted string"),
        ("SELECT 1;\0", "a.sql:1:10: a zero byte stands in the script"),
    ] {
        let found = fault(text);
        assert!(found.starts_with(expected), "{text:?}\nexpected {expected}\nfound    {found}");
    }
    let deep = format!("\\set x {}1{}", "(".repeat(5000), ")".repeat(5000));
    assert!(fault(&deep).contains("nested or chained more than 250 deep"));
    let long = format!("\\set x 1{}", " + 1".repeat(5000));
    assert!(fault(&long).contains("nested or chained more than 250 deep"));
}

#[test]
fn a_program_needs_a_script_with_a_weight() {
    let mut script = source("SELECT 1;");
    script.weight = 0;
    let error = Program::compile(&[script], &[]).unwrap_err().to_string();
    assert!(error.contains("weights of all scripts are zero"), "{error}");
    assert!(Program::compile(&[], &[]).unwrap_err().to_string().contains("no script"));
}

#[test]
fn the_widest_ranges_at_both_ends_of_the_integers_work() {
    const MIN: i64 = i64::MIN;
    const MAX: i64 = i64::MAX;
    for (min, max) in [(MIN, MIN + 8), (MAX - 8, MAX), (1, MAX), (MIN, -2), (-5, MAX - 6)] {
        for call in ["random", "random_gaussian", "random_exponential", "random_zipfian"] {
            let parameter = match call {
                "random" => "",
                // Nearly uniform, so that the ends are reached.
                "random_exponential" => ", 0.0000001",
                _ => ", 2.5",
            };
            let program = compile(&format!("\\set x {call}({min}, {max}{parameter})"));
            let Command::Set { expr, .. } = &program.scripts[0].commands[0] else {
                panic!("\\set compiles to Set");
            };
            let variables = program.variables(&START);
            let mut rng = Rng::from_seed(11);
            for _ in 0..2000 {
                match expr.eval(&variables, &mut rng) {
                    Ok(Value::Int(value)) => {
                        assert!((min..=max).contains(&value), "{call}: {value}")
                    }
                    other => panic!("{call}({min}, {max}): {other:?}"),
                }
            }
        }
    }
}

#[test]
fn a_fault_the_server_finds_is_placed_in_the_script() {
    let text =
        "\\set amount 5\nUPDATE t SET a = :amount,\n  b = '\\:x', c = :amountt WERE d = 1;\n";
    let text = text.replace(":amountt", ":amount");
    let program = compile(&text);
    let script = &program.scripts[0];
    let statement = &script.statements[0];
    let at = statement.text_extended.find("WERE").unwrap() as u32 + 1;
    let error = script.server_fault(statement, Some(at), "syntax error at or near \"WERE\"");
    let place = error.position.unwrap();
    assert_eq!((place.line, place.column), (3, 26), "{error}");
    assert!(error.to_string().starts_with("a.sql:3:26: syntax error"), "{error}");
    let nowhere = script.server_fault(statement, None, "no").position.unwrap();
    assert_eq!((nowhere.line, nowhere.column), (2, 1));
}

#[test]
fn scripts_alone_are_named_after_their_files() {
    let directory = tempfile::tempdir().unwrap();
    let paths: Vec<_> = ["a.sql", "b.sql", "c.sql", "d.sql"]
        .map(|name| directory.path().join(name))
        .into_iter()
        .map(|path| {
            std::fs::write(&path, "SELECT 1;").unwrap();
            (path, 1)
        })
        .collect();
    let name = |count: usize| Workload::from_scripts(&paths[..count]).unwrap().name;
    assert_eq!(name(1), "a.sql");
    assert_eq!(name(2), "a.sql, b.sql");
    assert_eq!(name(4), "a.sql and 3 more");
}

#[test]
fn texts_are_written_from_expressions() {
    let program = compile(
        "\\set n 7\n\\text json   {\"n\": {{:n + 1}}, \"none\": {{null}}}  \n\\uuid id :n\n\
         \\uuids ids :n-5 random(:n, :n)\n\\uuids none 0 1\n\\uuids row 2 :n - 1..\n\\text word {{ letters(:n) }}!\nSELECT :json, :id;",
    );
    let mut variables = program.variables(&START);
    let mut rng = Rng::from_seed(1);
    for command in &program.scripts[0].commands {
        match command {
            Command::Set { slot, expr } => {
                let value = expr.eval(&variables, &mut rng).unwrap();
                variables.set(*slot, value);
            }
            Command::SetText { slot, text } => {
                let value = text.eval(&variables, &mut rng).unwrap();
                variables.set(*slot, value);
            }
            _ => {}
        }
    }
    let value = |name| variables.get(program.slot(name).unwrap()).cloned();
    assert_eq!(value("json"), Some("{\"n\": 8, \"none\": null}".into()));
    assert_eq!(value("id"), Some("00000000-0000-0000-0000-000000000007".into()));
    let two = "{00000000-0000-0000-0000-000000000007,00000000-0000-0000-0000-000000000007}";
    assert_eq!(value("ids"), Some(two.into()));
    let row = "{00000000-0000-0000-0000-000000000006,00000000-0000-0000-0000-000000000007}";
    assert_eq!(value("row"), Some(row.into()));
    assert_eq!(value("none"), Some("{}".into()));
    let Some(Value::Text(word)) = value("word") else { panic!("{:?}", value("word")) };
    assert_eq!(word.len(), 8);
    assert!(word.strip_suffix('!').unwrap().bytes().all(|letter| letter.is_ascii_lowercase()));
    // In the simple protocol they are string constants, where `\\set` gives bare numbers.
    let pieces = &program.scripts[0].statements[0].text_simple;
    assert_eq!(pieces.iter().filter(|piece| matches!(piece, Piece::Quoted(_))).count(), 2);
}

#[test]
fn faults_of_a_batch_have_their_place() {
    let insert = "\\set a 1\nINSERT INTO t (a) VALUES (:a);\n";
    let of = |head: &str, end: &str| fault(&format!("{head}\n{insert}{end}"));
    for (said, expected) in [
        (of("\\batch 3 copy", ""), "a.sql:1:2: \\batch without \\endbatch"),
        (of("\\batch 3", "\\endbatch"), "a.sql:1:2: \\batch needs a number of rows and a form"),
        (of("\\batch 0 copy", "\\endbatch"), "a.sql:1:8: \"0\" is not a number of rows"),
        (of("\\batch 3 copi", "\\endbatch"), "a.sql:1:10: \"copi\" is not a form of a batch"),
        (of("\\batch :n copy", "\\endbatch"), "a.sql:1:8: \"n\" is no option and not defined"),
        (
            of("\\batch 3 copy", "\\sleep 1 ms\n\\endbatch"),
            "a.sql:4:2: \\sleep is not possible in a batch",
        ),
        (of("\\batch 3 copy", "\\endbatch\n\\batch 2 copy"), "a.sql:5:2: a script has one \\batch"),
        (
            of("\\batch 3 copy", "SELECT 1;\n\\endbatch"),
            "a.sql:4:1: the INSERTs of a batch are not the same",
        ),
        (of("", "\\endbatch"), "a.sql:4:2: \\endbatch without a \\batch before it"),
        (
            of("\\if 1\n\\batch 3 copy", "\\endif\n\\endbatch"),
            "a.sql:6:2: \\batch and \\endbatch do not stand in the same \\if",
        ),
        (fault("\\batch 3 copy\n\\endbatch"), "a.sql:1:2: this batch sends nothing"),
        (fault("\\batch 3 values\nDELETE FROM t;\n\\endbatch"), "a.sql:2:1: this is not an INSERT"),
        (fault("\\text a {{:b}}\nSELECT 1;"), "a.sql:1:11: undefined variable \"b\""),
    ] {
        assert!(said.starts_with(expected), "{said}\nis not\n{expected}");
    }
}

#[test]
fn a_variable_is_compared_with_a_text() {
    let text = "\\if :n = '7'\nSELECT 'seven';\n\\elif :n <> 'eight'\nSELECT 'neither';\n\\else\nSELECT 'eight';\n\\endif\n\\set x :n = 'eight'";
    let definition = Definition { name: "n".into(), value: "eight".into() };
    let program = Program::compile(&[source(text)], &[definition]).unwrap();
    assert_eq!(path(&program, 7), ["SELECT 'seven'"]);
    assert_eq!(path(&program, 8), ["SELECT 'neither'"]);
    let Some(Command::Set { expr, .. }) = program.scripts[0].commands.last() else { panic!() };
    let value = expr.eval(&program.variables(&START), &mut Rng::from_seed(1));
    assert_eq!(value.unwrap(), Value::Bool(true));
}
