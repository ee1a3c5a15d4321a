//! `\batch`: every form writes exactly the rows that are counted.

use std::sync::Arc;

use walwright_driver::{Mode, Protocol};
use walwright_workload::script::{BatchForm, Definition, Program, ScriptSource};

use crate::common::{Server, number, plan, query, run};

/// Rows in one transaction.
const ROWS: i64 = 7;

fn program(text: &str, form: BatchForm) -> Arc<Program> {
    let define = |name: &str, value: String| Definition { name: name.to_owned(), value };
    let definitions = [define("rows", ROWS.to_string()), define("form", form.name().to_owned())];
    let source = ScriptSource { name: "batch".into(), text: text.to_owned(), weight: 1 };
    Arc::new(Program::compile(&[source], &definitions).expect("a script"))
}

/// What is hard to write: quotes, backslashes, braces, commas; and NULL in every other row.
const SCRIPT: &str = "\
\\batch :rows :form\n\
\\set n :row\n\
\\set even case when :row % 2 = 0 then :row else null end\n\
\\uuid user_id 1000 + :row\n\
\\text payload {\"row\": {{:row}}, \"text\": \"it's \\\\, {a,b} \\\"quoted\\\"\"}\n\
INSERT INTO t (n, even, user_id, payload) VALUES (CAST(:n AS int), CAST(:even AS int), CAST(:user_id AS uuid), CAST(:payload AS jsonb));\n\
\\endbatch\n";

/// Rows that are as the script has them.
const RIGHT: &str = "SELECT count(*) FROM t WHERE payload ->> 'row' = n::text \
    AND payload ->> 'text' = 'it''s \\, {a,b} \"quoted\"' \
    AND user_id = lpad(to_hex(1000 + n), 32, '0')::uuid \
    AND even IS NOT DISTINCT FROM CASE WHEN n % 2 = 0 THEN n END";

#[test]
fn every_form_writes_the_rows_that_are_counted() {
    let server = Server::shared();
    let ways = [
        (Protocol::Simple, Mode::Faithful),
        (Protocol::Extended, Mode::Faithful),
        (Protocol::Prepared, Mode::Faithful),
        (Protocol::Prepared, Mode::Lean),
    ];
    for form in BatchForm::ALL {
        for (protocol, mode) in ways {
            let case = format!("{} {protocol:?} {mode:?}", form.name());
            let database = server.database();
            query(
                &database,
                "CREATE TABLE t (n int, even int, user_id uuid, payload jsonb, x xid8 DEFAULT pg_current_xact_id())",
            );
            let mut plan = plan(program(SCRIPT, form), database.clone());
            (plan.protocol, plan.mode, plan.clients, plan.threads) = (protocol, mode, 3, 2);
            let parameters = [BatchForm::Values, BatchForm::Unnest].contains(&form);
            if protocol == Protocol::Simple && parameters {
                let refused = plan.check().unwrap_err().to_string();
                assert!(refused.contains("prepared or the extended protocol"), "{refused}");
                continue;
            }
            let ran = run(plan, 100);
            assert_eq!(ran.outcome.failures(), 0, "{case}: {:?}", ran.outcome.errors);
            let done = ran.outcome.transactions() as i64;
            let rows = if form.is_single() { 1 } else { ROWS };
            assert!(done > 0, "{case}");
            assert_eq!(number(&database, "SELECT count(*) FROM t"), rows * done, "{case}");
            assert_eq!(number(&database, RIGHT), rows * done, "{case}");
            // Each transaction of the load is one of the server; a coalescer's rows share them.
            let commits = number(&database, "SELECT count(DISTINCT x) FROM t");
            assert!(commits == done || form == BatchForm::Coalesce && commits < done, "{case}");
        }
    }
}

#[test]
fn a_batch_that_fails_leaves_nothing_and_the_connection_goes_on() {
    let server = Server::shared();
    // The last row of every third batch is refused.
    let script = "\
        \\set bad random(1, 3)\n\
        \\batch :rows :form\n\
        \\set n case when :bad = 1 and :row = 7 then -1 else :row end\n\
        INSERT INTO t (n) VALUES (:n);\n\
        \\endbatch\n";
    let forms = BatchForm::ALL.into_iter().filter(|form| !form.is_single());
    for form in forms {
        let script = match form {
            BatchForm::Unnest => &script.replace("(:n)", "(CAST(:n AS int))"),
            _ => script,
        };
        for mode in [Mode::Faithful, Mode::Lean] {
            let case = format!("{} {mode:?}", form.name());
            let database = server.database();
            query(&database, "CREATE TABLE t (n int CHECK (n > 0))");
            let mut plan = plan(program(script, form), database.clone());
            (plan.mode, plan.clients) = (mode, 2);
            let ran = run(plan, 100);
            let done = ran.outcome.transactions() as i64;
            let failed = ran.outcome.scripts[0].failures.get("23514").copied().unwrap_or(0);
            assert_eq!(failed, ran.outcome.failures(), "{case}: {:?}", ran.outcome.errors);
            assert!(done > 0 && failed > 0, "{case}");
            assert_eq!(number(&database, "SELECT count(*) FROM t"), ROWS * done, "{case}");
            assert_eq!(ran.outcome.connections_lost, 0, "{case}");
        }
    }
}

#[test]
fn a_row_that_the_coalescer_is_refused_fails_alone() {
    let server = Server::shared();
    let database = server.database();
    query(&database, "CREATE TABLE t (n int CHECK (n > 0))");
    let script = "\\batch :rows :form\n\\set n random(0, 9)\n\
        INSERT INTO t (n) VALUES (:n);\n\\endbatch\n";
    let mut plan = plan(program(script, BatchForm::Coalesce), database.clone());
    plan.clients = 8;
    let ran = run(plan, 500);
    let done = ran.outcome.transactions() as i64;
    let refused = ran.outcome.scripts[0].failures.get("23514").copied().unwrap_or(0);
    assert!(done > 0 && refused > 0, "{:?}", ran.outcome.errors);
    assert_eq!(refused, ran.outcome.failures(), "{:?}", ran.outcome.errors);
    assert_eq!(number(&database, "SELECT count(*) FROM t"), done);
}
