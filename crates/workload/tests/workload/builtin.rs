//! The built-in workloads: what they send and what they load.

use std::collections::BTreeMap;

use walwright_workload::script::{Command, Piece};
use walwright_workload::workload::{Done, Protocol, builtin_names};
use walwright_workload::{Plan, Settings, Workload};

fn plan(name: &str, scale: u32, options: &[(&str, &str)]) -> Plan {
    let workload = Workload::builtin(name).unwrap();
    let options = options.iter().map(|(name, value)| (name.to_string(), value.to_string()));
    let settings =
        Settings { scale, options: options.collect::<BTreeMap<_, _>>(), ..Settings::of(&workload) };
    workload.plan(&settings).unwrap()
}

fn statements(plan: &Plan) -> Vec<&str> {
    let script = &plan.program.scripts[0];
    let ids = script.commands.iter().filter_map(|command| match command {
        Command::Sql(id) => Some(*id),
        _ => None,
    });
    ids.map(|id| script.statements[id.index()].text_extended.as_str()).collect()
}

fn rows(plan: &Plan, table: &str) -> Vec<String> {
    let load = plan.tables.iter().find(|load| load.table() == table).unwrap();
    let mut text = Vec::new();
    for mut chunk in load.chunks(3) {
        while chunk.fill(&mut text, 1000).unwrap() > 0 {}
    }
    let text = String::from_utf8(text).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn sql(steps: &[walwright_workload::workload::SqlStep]) -> Vec<&str> {
    steps.iter().map(|step| step.sql.as_str()).collect()
}

#[test]
fn all_built_in_workloads_load_and_speak_every_protocol() {
    let names: Vec<_> = builtin_names().collect();
    assert_eq!(
        names,
        ["tpcb", "simple-update", "select-only", "autocommit", "events", "documents", "tpcc"]
    );
    for name in names {
        let workload = Workload::builtin(name).unwrap();
        assert_eq!(workload.name, name);
        assert_eq!(workload.defaults.protocol, Protocol::Prepared);
        let plan = workload.plan(&Settings::of(&workload)).unwrap();
        plan.program.check_extended().unwrap();
    }
}

#[test]
fn tpcb_sends_what_pgbench_prepares() {
    // The texts that pgbench -M prepared sends, as pg_stat_statements shows them.
    assert_eq!(
        statements(&plan("tpcb", 1, &[])),
        [
            "BEGIN;",
            "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2;",
            "SELECT abalance FROM pgbench_accounts WHERE aid = $1;",
            "UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2;",
            "UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2;",
            "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP);",
            "END;",
        ]
    );
    assert_eq!(statements(&plan("simple-update", 1, &[])).len(), 5);
    assert_eq!(statements(&plan("select-only", 1, &[])).len(), 1);
}

#[test]
fn tpcb_loads_the_rows_of_pgbench() {
    let plan = plan("tpcb", 2, &[]);
    let tables: Vec<_> = plan.tables.iter().map(|load| (load.table(), load.rows())).collect();
    assert_eq!(
        tables,
        [
            ("pgbench_branches", 2),
            ("pgbench_tellers", 20),
            ("pgbench_accounts", 200_000),
            ("pgbench_history", 0),
        ]
    );
    assert_eq!(rows(&plan, "pgbench_branches"), ["1\t0\t\\N", "2\t0\t\\N"]);
    let tellers = rows(&plan, "pgbench_tellers");
    assert_eq!((tellers[9].as_str(), tellers[10].as_str()), ("10\t1\t0\t\\N", "11\t2\t0\t\\N"));
    let accounts = rows(&plan, "pgbench_accounts");
    assert_eq!(accounts.len(), 200_000);
    assert_eq!(accounts[0], "1\t1\t0\t");
    assert_eq!(accounts[99_999], "100000\t1\t0\t");
    assert_eq!(accounts[100_000], "100001\t2\t0\t");
    assert!(rows(&plan, "pgbench_history").is_empty());
    assert_eq!(
        plan.tables[2].copy_statement(true),
        "COPY pgbench_accounts (\"aid\", \"bid\", \"abalance\", \"filler\") FROM STDIN WITH (FREEZE)"
    );
    assert_eq!(
        plan.truncate_statement().unwrap(),
        "TRUNCATE TABLE pgbench_branches, pgbench_tellers, pgbench_accounts, pgbench_history"
    );
}

#[test]
fn account_numbers_are_64_bit_from_scale_20000() {
    let accounts = |scale| {
        let plan = plan("tpcb", scale, &[]);
        let create = sql(&plan.before_load)
            .into_iter()
            .find(|sql| sql.starts_with("create table pgbench_accounts"))
            .unwrap();
        create.contains("aid bigint")
    };
    assert!(!accounts(19_999));
    assert!(accounts(20_000));
}

#[test]
fn tpcb_vacuums_and_truncates_before_each_run() {
    assert_eq!(
        sql(&plan("tpcb", 1, &[]).before_run),
        ["vacuum pgbench_branches;", "vacuum pgbench_tellers;", "truncate pgbench_history;"]
    );
}

#[test]
fn the_balance_checks_start_from_what_was_there() {
    let plan = plan("tpcb", 1, &[]);
    // Tables that were used before hold balances and history.
    assert!(plan.checks.iter().all(|check| check.before.is_some()));
    let check = plan.checks.iter().find(|check| check.name.contains("history")).unwrap();
    assert!(check.before.as_ref().unwrap().contains("FROM pgbench_history"));
    assert!(check.sql(Some("-17"), Done::default()).contains("CAST('-17' AS bigint)"));
    assert!(check.sql(Some("a'b"), Done::default()).contains("CAST('a''b' AS bigint)"));
}

#[test]
fn the_partial_index_of_events_is_an_option() {
    let has_index = |value| {
        let plan = plan("events", 1, &[("partial_index", value)]);
        sql(&plan.after_load).iter().any(|sql| sql.starts_with("create index"))
    };
    assert!(has_index("true"));
    assert!(!has_index("off"));
    let workload = Workload::builtin("events").unwrap();
    let wrong = |name: &str, value: &str| {
        let settings = Settings {
            options: BTreeMap::from([(name.to_owned(), value.to_owned())]),
            ..Settings::of(&workload)
        };
        workload.plan(&settings).unwrap_err().to_string()
    };
    assert_eq!(
        wrong("partial_index", "perhaps"),
        "workload events: option partial_index: \"perhaps\" is neither true nor false"
    );
    assert!(wrong("partial_indx", "true").contains("did you mean partial_index?"));
    assert!(wrong("critical_percent", "101").contains("from 0 to 100"));
}

#[test]
fn events_have_the_share_of_critical_ones_that_is_asked_for() {
    let share = |percent: &str| {
        let rows = rows(&plan("events", 1, &[("critical_percent", percent)]), "events");
        assert_eq!(rows.len(), 100_000);
        let critical = rows.iter().filter(|row| row.split('\t').nth(2) == Some("critical"));
        critical.count() as f64 / rows.len() as f64
    };
    assert_eq!(share("0"), 0.0);
    assert_eq!(share("100"), 1.0);
    // Four standard deviations of a binomial share are 0.005.
    assert!((share("20") - 0.2).abs() < 0.005);
}

#[test]
fn the_autocommit_probe_has_its_pass_mark_and_its_round_trip() {
    let workload = Workload::builtin("autocommit").unwrap();
    let mark = workload.pass_mark.as_ref().unwrap();
    assert_eq!(mark.mean_latency, std::time::Duration::from_micros(500));
    assert_eq!(mark.clients, Some(1));
    assert_eq!(workload.side.as_ref().unwrap().sql, "");
    let plan = workload.plan(&Settings::of(&workload)).unwrap();
    let statement = &plan.program.scripts[0].statements[0];
    assert!(matches!(&statement.text_simple[0], Piece::Text(text) if text.starts_with("INSERT")));
    assert_eq!(statement.params.len(), 2);
}

#[test]
fn an_unknown_name_lists_the_known_ones() {
    let error = Workload::find("tpbc").unwrap_err().to_string();
    assert!(error.contains("did you mean tpcb?"), "{error}");
    assert!(error.contains("simple-update"), "{error}");
}

/// The command words of the script of events, and the statements it sends.
fn events(pattern: &str, rows: &str) -> (Plan, Vec<String>) {
    let plan = plan("events", 1, &[("pattern", pattern), ("rows", rows)]);
    let sent = statements(&plan).into_iter().map(str::to_owned).collect();
    (plan, sent)
}

#[test]
fn events_are_sent_in_every_pattern() {
    let one = "INSERT INTO events (user_id, type, payload) VALUES (CAST($1 AS uuid), $2, CAST($3 AS jsonb));";
    for pattern in ["single", "gateway"] {
        let (plan, sent) = events(pattern, "3");
        assert_eq!(sent, [one, one], "{pattern}");
        assert_eq!(plan.program.scripts[0].batch.unwrap().rows, 1);
        assert_eq!(plan.program.wants_gateway(), pattern == "gateway");
    }
    let (plan, sent) = events("transaction", "3");
    assert_eq!(sent, ["BEGIN;", one, one, "COMMIT;"]);
    assert_eq!(plan.program.scripts[0].batch.unwrap().rows, 3);
    let (plan, sent) = events("values", "2");
    assert_eq!(
        sent,
        ["INSERT INTO events (user_id, type, payload) VALUES \
          (CAST($1 AS uuid), $2, CAST($3 AS jsonb)), (CAST($4 AS uuid), $5, CAST($6 AS jsonb));"]
    );
    // Both kinds of event are rows of the one statement.
    let rows = |command: &&Command| matches!(command, Command::Row { .. });
    assert_eq!(plan.program.scripts[0].commands.iter().filter(rows).count(), 2);
    assert_eq!(
        events("unnest", "2").1,
        [
            "INSERT INTO events (user_id, type, payload) SELECT CAST(r.v1 AS uuid), r.v2, CAST(r.v3 AS jsonb) \
          FROM ROWS FROM (pg_catalog.unnest(CAST($1 AS uuid[])), pg_catalog.unnest(CAST($2 AS text[])), \
          pg_catalog.unnest(CAST($3 AS jsonb[]))) AS r(v1, v2, v3);"
        ]
    );
    assert_eq!(events("copy", "2").1, ["COPY events (user_id, type, payload) FROM STDIN;"]);
    let (plan, _) = events("coalesce", "2");
    let gathered = plan.program.scripts[0].statements[0].gathered.clone().unwrap();
    assert_eq!((gathered.table.as_str(), gathered.rows), ("events", 1));
    assert_eq!(gathered.names, ["user_id", "type", "payload"]);
    let workload = Workload::builtin("events").unwrap();
    let options =
        [("pattern".to_owned(), "values".to_owned()), ("rows".to_owned(), "100000".to_owned())];
    let settings = Settings { options: options.into(), ..Settings::of(&workload) };
    let many = workload.plan(&settings).unwrap_err().to_string();
    assert!(many.contains("at most 65535") && many.contains("fewer rows"), "{many}");
}

#[test]
fn documents_of_each_type_have_a_shape_and_a_text_of_their_own() {
    let plan = plan("documents", 1, &[("document_bytes", "300")]);
    let rows = rows(&plan, "document");
    assert_eq!(rows.len(), 10_000);
    let mut shapes: BTreeMap<String, (usize, Vec<String>)> = BTreeMap::new();
    let (mut letters, mut lists) = (0, Vec::new());
    for (number, row) in (1..).zip(&rows) {
        let columns: Vec<&str> = row.split('\t').collect();
        let body: serde_json::Value = serde_json::from_str(columns[4]).expect("JSON");
        assert_eq!(body["number"], number);
        letters += body["remarks"].as_str().unwrap().len();
        lists.extend(body["items"].as_array().map(Vec::len));
        let keys: Vec<String> = body.as_object().unwrap().keys().cloned().collect();
        let (count, shape) =
            shapes.entry(columns[3].to_owned()).or_insert_with(|| (0, keys.clone()));
        *count += 1;
        assert_eq!(*shape, keys, "{row}");
    }
    let counts: Vec<usize> = shapes.values().map(|(count, _)| *count).collect();
    assert_eq!(counts, [4000, 2500, 1000, 500, 500, 500, 500, 500]);
    let distinct: std::collections::BTreeSet<_> = shapes.values().map(|(_, keys)| keys).collect();
    assert_eq!(distinct.len(), 8, "{shapes:?}");
    let mean = letters as f64 / rows.len() as f64;
    assert!((240.0..330.0).contains(&mean), "{mean}");
    assert!(lists.iter().min() < lists.iter().max(), "{lists:?}");
}
