//! Workload directories as users write them.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use walwright_workload::generate::TableLoad;
use walwright_workload::script::{ClientStart, Command, Rng, Value};
use walwright_workload::workload::{Done, Origin, SqlStep};
use walwright_workload::{Settings, Workload, WorkloadError};

/// A directory that holds these files.
fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    directory
}

const ORDERS: &str = r#"
name = "orders"
title = "Orders of a small shop"
description = "An order and its lines per transaction."

[defaults]
scale = 2
clients = 4
protocol = "extended"

[options.lines]
description = "lines of an order"
default = 3
min = 1
max = 10

[sql]
before_load = ["sql/schema.sql"]
after_load = ["sql/keys.sql"]

[[table]]
name = "customer"
rows = "1000 * :scale"
column = [
    { name = "id", expr = ":row" },
    { name = "name", text = "customer {{:row}} of {{1000 * :scale}}", pad = 30 },
    { name = "tier", choice = { gold = 1, silver = "3 * :lines", "tab\there" = 0 } },
    { name = "ref", uuid = "v7" },
    { name = "note", letters = "random(5, 9)", null_fraction = 0.5 },
    { name = "since", timestamp = { from = 2020-01-01, to = 2020-12-31T23:59:59Z } },
    { name = "gone", null = true },
]

[[script]]
file = "order.sql"
weight = 9

[[script]]
file = "read.sql"

[[check]]
name = "no order without customer"
sql = "SELECT count(*) = 0 FROM orders WHERE customer > 1000 * :scale"
"#;

const ORDER_SQL: &str = "\\set id random(1, 1000 * :scale)\nBEGIN;\n\
    INSERT INTO orders (customer) VALUES (:id) RETURNING id AS order_id \\gset\n\
    INSERT INTO line SELECT :order_id, n FROM generate_series(1, :lines::int) n;\nEND;\n";

fn orders() -> tempfile::TempDir {
    directory(&[
        ("workload.toml", ORDERS),
        (
            "sql/schema.sql",
            "CREATE TABLE customer (id int, name char(30), tier text, ref uuid, note text, since timestamptz, gone int);\n\
             \\set lines_too :lines * 2\n\\if :scale > 5\nCREATE TABLE big ();\n\\else\nCREATE TABLE small (n int DEFAULT :lines_too);\n\\endif\n",
        ),
        ("sql/keys.sql", "ALTER TABLE customer ADD PRIMARY KEY (id);\n"),
        ("order.sql", ORDER_SQL),
        ("read.sql", "\\set id random(1, 10)\nSELECT name FROM customer WHERE id = :id;\n"),
    ])
}

fn text(load: &TableLoad, chunks: usize) -> String {
    let mut out = Vec::new();
    for mut chunk in load.chunks(chunks) {
        let mut rows = chunk.remaining();
        while rows > 0 {
            rows -= chunk.fill(&mut out, 500).unwrap();
        }
        assert_eq!(chunk.fill(&mut out, 500), Ok(0));
    }
    String::from_utf8(out).unwrap()
}

#[test]
fn a_directory_becomes_a_plan() {
    let directory = orders();
    let workload = Workload::load_dir(directory.path()).unwrap();
    assert_eq!(workload.origin, Origin::Directory(directory.path().to_owned()));
    assert_eq!(workload.defaults.scale, 2);
    let weights: Vec<_> = workload.scripts.iter().map(|script| script.weight).collect();
    assert_eq!(weights, [9, 1]);

    let plan = workload.plan(&Settings::of(&workload)).unwrap();
    assert_eq!(plan.total_rows(), 2000);
    assert_eq!(
        plan.before_load[1],
        SqlStep {
            sql: "CREATE TABLE small (n int DEFAULT 6);".into(),
            file: directory.path().join("sql/schema.sql").display().to_string(),
            line: 6,
        }
    );
    assert_eq!(
        plan.checks[0].sql(None, Done::default()),
        "SELECT count(*) = 0 FROM orders WHERE customer > 1000 * 2"
    );
    assert_eq!(plan.options["lines"], "3");
    let order = &plan.program.scripts[0];
    assert_eq!(order.statements[2].params.len(), 2);
}

#[test]
fn generated_columns_keep_their_promises() {
    let directory = orders();
    let workload = Workload::load_dir(directory.path()).unwrap();
    let plan = workload.plan(&Settings::of(&workload)).unwrap();
    let rows = text(&plan.tables[0], 1);
    let rows: Vec<Vec<&str>> = rows.lines().map(|row| row.split('\t').collect()).collect();
    assert_eq!(rows.len(), 2000);
    let (mut nulls, mut gold) = (0, 0);
    let mut refs = HashSet::new();
    for (index, row) in rows.iter().enumerate() {
        assert_eq!(row[0], (index + 1).to_string());
        assert_eq!(row[1].len(), 30);
        assert_eq!(row[1].trim_end(), format!("customer {} of 2000", index + 1));
        assert!(matches!(row[2], "gold" | "silver"), "{}", row[2]);
        gold += usize::from(row[2] == "gold");
        assert!(refs.insert(row[3]));
        if row[4] == "\\N" {
            nulls += 1;
        } else {
            assert!(
                (5..=9).contains(&row[4].len()) && row[4].bytes().all(|b| b.is_ascii_lowercase())
            );
        }
        assert!(row[5].starts_with("2020-") && row[5].ends_with("+00"), "{}", row[5]);
        assert_eq!(row[6], "\\N");
    }
    assert!((900..1100).contains(&nulls), "{nulls} of 2000 with a null fraction of 0.5");
    assert!((140..260).contains(&gold), "{gold} of 2000 with a weight of 1 in 10");
}

#[test]
fn data_do_not_depend_on_the_number_of_chunks_but_on_the_seed() {
    let directory = orders();
    let workload = Workload::load_dir(directory.path()).unwrap();
    let load = |seed| {
        let settings = Settings { seed, ..Settings::of(&workload) };
        workload.plan(&settings).unwrap().tables.remove(0)
    };
    let one = text(&load(7), 1);
    for chunks in [2, 3, 7, 1999, 5000] {
        assert_eq!(text(&load(7), chunks), one);
    }
    assert_ne!(text(&load(8), 1), one);
}

#[test]
fn an_exported_workload_loads_as_the_same() {
    let target = tempfile::tempdir().unwrap();
    for name in walwright_workload::workload::builtin_names() {
        let workload = Workload::builtin(name).unwrap();
        let copy_dir = target.path().join(name);
        workload.export(&copy_dir).unwrap();
        let copy = Workload::load_dir(&copy_dir).unwrap();
        let (plan, copied) = (
            workload.plan(&Settings::of(&workload)).unwrap(),
            copy.plan(&Settings::of(&copy)).unwrap(),
        );
        let sql = |steps: &[SqlStep]| steps.iter().map(|step| step.sql.clone()).collect::<Vec<_>>();
        assert_eq!(sql(&plan.before_load), sql(&copied.before_load));
        assert_eq!(sql(&plan.after_load), sql(&copied.after_load));
        assert_eq!(plan.checks, copied.checks);
        assert!(workload.files().eq(copy.files()));
        assert!(matches!(workload.export(&copy_dir), Err(WorkloadError::Exists(_))));
    }
}

#[test]
fn script_files_alone_are_a_workload() {
    let directory = directory(&[("a/x.sql", "SELECT :answer;"), ("b/x.sql", "SELECT 2;")]);
    let paths = [(directory.path().join("a/x.sql"), 3), (directory.path().join("b/x.sql"), 1)];
    let workload = Workload::from_scripts(&paths).unwrap();
    let mut settings = Settings::of(&workload);
    let error = workload.plan(&settings).unwrap_err().to_string();
    assert!(error.contains("x.sql:1:8: undefined variable \"answer\""), "{error}");

    settings.definitions.push(walwright_workload::script::parse_definition("answer=42").unwrap());
    let plan = workload.plan(&settings).unwrap();
    assert_eq!(plan.program.scripts.len(), 2);
    assert!(plan.tables.is_empty() && plan.truncate_statement().is_none());

    let files: Vec<&str> = workload.files().map(|(name, _)| name).collect();
    assert_eq!(files, ["workload.toml", "x.sql", "2-x.sql"]);

    let missing = Workload::from_scripts(&[(PathBuf::from("no/such.sql"), 1)]).unwrap_err();
    assert!(missing.to_string().starts_with("cannot read no/such.sql"), "{missing}");
}

#[test]
fn other_scripts_can_run_on_the_data_of_a_workload() {
    let files = directory(&[("mine.sql", "SELECT bid FROM pgbench_branches LIMIT 1;")]);
    let workload = Workload::builtin("tpcb").unwrap();
    let workload = workload.with_scripts(&[(files.path().join("mine.sql"), 2)]).unwrap();
    let copy_dir = files.path().join("copy");
    workload.export(&copy_dir).unwrap();
    let copy = Workload::load_dir(&copy_dir).unwrap();
    assert_eq!(copy.scripts.len(), 1);
    assert_eq!(copy.scripts[0].weight, 2);
    assert!(copy.plan(&Settings::of(&copy)).unwrap().checks.is_empty());
    assert_eq!(copy.plan(&Settings::of(&copy)).unwrap().total_rows(), 1_000_110);
}

/// Loads ORDERS with one piece replaced and returns the error.
fn broken(from: &str, to: &str) -> String {
    assert!(ORDERS.contains(from), "{from}");
    let directory = orders();
    std::fs::write(directory.path().join("workload.toml"), ORDERS.replacen(from, to, 1)).unwrap();
    let error = Workload::load_dir(directory.path()).unwrap_err().to_string();
    // The same on every machine.
    error.replace(&directory.path().display().to_string(), "DIR")
}

#[test]
fn every_mistake_in_the_manifest_names_file_and_key() {
    for (from, to, expected) in [
        (
            "clients = 4",
            "client = 4",
            vec!["DIR/workload.toml: ", "unknown field `client`", "`clients`"],
        ),
        (
            "\"extended\"",
            "\"binary\"",
            vec!["unknown variant `binary`", "`simple`, `extended`, `prepared`"],
        ),
        ("clients = 4", "clients = 0", vec!["defaults, clients: it must be at least 1"]),
        ("name = \"orders\"\n", "", vec!["missing field `name`"]),
        (
            "rows = \"1000 * :scale\"",
            "rows = \"1000 * :scala\"",
            vec!["table \"customer\", rows:1:8: undefined variable \"scala\"", ":scale"],
        ),
        (
            "rows = \"1000 * :scale\"",
            "rows = \"0 - :scale\"",
            vec!["table \"customer\", rows (scale 2)", "not a number of rows"],
        ),
        ("rows = \"1000 * :scale\"", "rows = 1.5", vec!["whole number", "expression as a string"]),
        (
            "{ name = \"id\", expr = \":row\" }",
            "{ name = \"id\" }",
            vec!["column \"id\": it has no generator; add one of expr, text"],
        ),
        (
            "expr = \":row\"",
            "expr = \":row\", text = \"x\"",
            vec!["column \"id\": it has more than one generator"],
        ),
        ("expr = \":row\"", "expr = \":row +\"", vec!["column \"id\", expr:1:7: syntax error"]),
        (
            "{{:row}}",
            "{{randm(1)}}",
            vec!["column \"name\", text:1:1: unknown function \"randm\"", "random"],
        ),
        ("gold = 1", "gold = \"x\"", vec!["weight of \"gold\"", "write :x"]),
        (
            "null_fraction = 0.5",
            "null_fraction = 2.0",
            vec!["null_fraction: 2 is not a number from 0 to 1"],
        ),
        ("from = 2020-01-01,", "from = 2021-01-01,", vec!["to is earlier than from"]),
        (", to = 2020-12-31T23:59:59Z", "", vec!["either every", "or to"]),
        (
            "\"order.sql\"",
            "\"../order.sql\"",
            vec!["script, file: \"../order.sql\" is not the name of a file inside"],
        ),
        ("\"order.sql\"", "\"none.sql\"", vec!["cannot read DIR/none.sql"]),
        (
            "min = 1\n",
            "min = 4\n",
            vec!["options, lines: default: \"3\" is not a whole number from 4 to 10"],
        ),
        (
            "sql = \"SELECT",
            "sql = \"\\\\\\\\if true",
            vec!["check \"no order without customer\", sql"],
        ),
    ] {
        let error = broken(from, to);
        for part in expected {
            assert!(error.contains(part), "{to}: {part:?} is not in\n{error}");
        }
    }
}

#[test]
fn a_directory_without_a_manifest_is_no_workload() {
    let error = Workload::load_dir(Path::new("no/such/dir")).unwrap_err().to_string();
    assert!(error.contains("no/such/dir/workload.toml"), "{error}");
}

#[test]
fn an_expression_that_fails_names_the_row() {
    let directory = orders();
    let manifest = ORDERS.replace("expr = \":row\"", "expr = \"1 / (:row - 5)\"");
    std::fs::write(directory.path().join("workload.toml"), manifest).unwrap();
    let workload = Workload::load_dir(directory.path()).unwrap();
    let plan = workload.plan(&Settings::of(&workload)).unwrap();
    let mut out = Vec::new();
    let error = plan.tables[0].chunks(1)[0].fill(&mut out, usize::MAX).unwrap_err();
    assert_eq!(error.to_string(), "table customer, column id, row 5: division by zero");
    assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 4);
}

#[test]
fn rows_have_variables_and_share_texts_with_scripts() {
    let directory = orders();
    let write = |file: &str, text: &str| std::fs::write(directory.path().join(file), text).unwrap();
    let texts = "[texts]\ngreeting = '''\n\
        {{if :half > 2}}dear{{else}}hello{{endif}}\n {{:half}}'''\n";
    let variable = r#"variable = [{ name = "half", expr = ":row / 2" }]"#;
    let manifest = ORDERS
        .replace("[sql]", &format!("{texts}\n[sql]"))
        .replace("column = [", &format!("{variable}\ncolumn = ["))
        .replace("customer {{:row}} of {{1000 * :scale}}", "{{text greeting}}");
    write("workload.toml", &manifest);
    write("read.sql", "\\set half 3\n\\text words {{text greeting}}!\nSELECT :words;\n");
    let workload = Workload::load_dir(directory.path()).unwrap();
    let plan = workload.plan(&Settings::of(&workload)).unwrap();
    let rows = text(&plan.tables[0], 2);
    let name = |row: usize| rows.lines().nth(row - 1).unwrap().split('\t').nth(1).unwrap().trim();
    assert_eq!([name(5), name(6)], ["hello 2", "dear 3"]);
    let start = ClientStart { client_id: 0, scale: 1, random_seed: 0, default_seed: 0 };
    let mut variables = plan.program.variables(&start);
    let mut words = None;
    for command in &plan.program.scripts[1].commands {
        let rng = &mut Rng::from_seed(0);
        match command {
            Command::Set { slot, expr } => {
                let value = expr.eval(&variables, rng).unwrap();
                variables.set(*slot, value);
            }
            Command::SetText { text, .. } => words = Some(text.eval(&variables, rng).unwrap()),
            _ => {}
        }
    }
    assert_eq!(words, Some(Value::from("dear 3!")));

    for (from, to, expected) in [
        ("{{text greeting}}", "{{text greting}}", "there is no text \"greting\""),
        ("{{else}}", "{{or}}", "column \"name\", text:1:"),
        (":row / 2", ":row /", "variable \"half\", expr:1:7"),
        ("\"half\"", "\"2\"", "variable \"2\": its name is none"),
    ] {
        write("workload.toml", &manifest.replace(from, to));
        let error = Workload::load_dir(directory.path()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    write("workload.toml", &manifest.replace(":row / 2", "1 / (:row - 3)"));
    let workload = Workload::load_dir(directory.path()).unwrap();
    let plan = workload.plan(&Settings::of(&workload)).unwrap();
    let error = plan.tables[0].chunks(1)[0].fill(&mut Vec::new(), usize::MAX).unwrap_err();
    assert_eq!(error.to_string(), "table customer, column half, row 3: division by zero");
}

#[test]
fn a_row_is_no_longer_than_memory() {
    for (from, to) in [
        ("letters = \"random(5, 9)\", null_fraction = 0.5", "letters = \"2147483647\""),
        ("letters = \"random(5, 9)\", null_fraction = 0.5", "text = \"x\", pad = 4294967295"),
        ("customer {{:row}} of", "{{letters(20000000)}}{{letters(20000000)}}"),
    ] {
        let directory = orders();
        std::fs::write(directory.path().join("workload.toml"), ORDERS.replace(from, to)).unwrap();
        let workload = Workload::load_dir(directory.path()).unwrap();
        let plan = workload.plan(&Settings::of(&workload)).unwrap();
        let mut out = Vec::new();
        let error = plan.tables[0].chunks(1)[0].fill(&mut out, usize::MAX).unwrap_err().to_string();
        assert!(
            error.starts_with("table customer, column n")
                && error.ends_with("row 1: it is longer than 32 MiB"),
            "{error}"
        );
        assert!(out.is_empty());
    }
}

#[test]
fn a_file_without_end_is_refused() {
    let error = Workload::from_scripts(&[(PathBuf::from("/dev/zero"), 1)]).unwrap_err();
    let said = std::error::Error::source(&error).map_or_else(String::new, ToString::to_string);
    assert!(error.to_string().contains("/dev/zero") && said.contains("64 MiB"), "{error}: {said}");
}
