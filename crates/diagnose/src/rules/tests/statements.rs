//! What statements do that they need not.

use walwright_record::{ScriptFacts, Source, WorkloadFacts};
use walwright_testing::row;

use super::{Case, case, commands, found, problems};
use crate::DiagnosisId::{D7, D10, D17, D18, D20, D21, D29, D30, D31, D43};
use crate::Kind;

/// 8 clients, 1,000 a second, 8 ms: on CPU and in short round trips.
fn plain() -> Case {
    case(8, 1_000)
        .waits(&[("active", "", "", 5.5), ("idle in transaction", "Client", "clientread", 1.0)])
}

#[test]
fn a_stream_of_one_row_inserts() {
    let insert = "INSERT INTO app.event (a, b) VALUES ($1, $2)";
    let of =
        |calls: f64, rows: f64| plain().statement(insert, calls, 0.1, [("rows", rows)]).diagnose();
    let diagnosis = of(20.0, 1.0);
    assert_eq!(problems(&diagnosis), [D7]);
    assert_eq!(found(&diagnosis, D7).subject.as_deref(), Some("app.event"));
    assert!(problems(&of(2.0, 1.0)).is_empty() && problems(&of(20.0, 10.0)).is_empty());
}

#[test]
fn rows_in_a_form_that_the_workload_chooses_can_be_tried() {
    let option = |line: &str| {
        let insert = "INSERT INTO event (a) VALUES ($1)";
        let mut case = plain().statement(insert, 20.0, 0.1, [("rows", 1.0)]);
        let options = [("n", "20"), ("how", "transaction")];
        let text = format!("\\set a 1\n{line}\nINSERT INTO event (a) VALUES (:a);\n\\endbatch\n");
        case.build.record.workload = Some(WorkloadFacts {
            name: "mine".to_owned(),
            scale: 1,
            options: options.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            scripts: vec![ScriptFacts {
                name: "s.sql".to_owned(),
                weight: 1,
                text,
                statements: Vec::new(),
                batch: None,
            }],
            pass_mark: None,
        });
        found(&case.diagnose(), D7).actions[0].command()
    };
    assert_eq!(option("\\batch :n :how").as_deref(), Some("--option how=unnest"));
    assert_eq!(option("\\batch 20 transaction"), None);
}

#[test]
fn a_problem_of_a_load_that_could_not_be_seen_is_told_with_that() {
    let of = |monitor: bool| {
        plain()
            .statement("SELECT a FROM t WHERE id = $1", 1.0, 0.1, [])
            .statement("DISCARD ALL", 1.0, 0.8, [])
            .counts(Source::Database, [("xact_commit", 1.0)])
            .reads(Source::Sessions, [("hidden", 8.0), ("client_backends", 1.0)])
            .with(|record| {
                record.load = None;
                let target = record.target.as_mut().unwrap();
                (target.superuser, target.monitor) = (false, monitor);
            })
            .diagnose()
    };
    let hidden = of(false);
    assert!(!problems(&hidden).is_empty());
    assert!(hidden.verdict.contains("GRANT pg_monitor TO"), "{}", hidden.verdict);
    let seen = of(true);
    assert!(!seen.verdict.contains("GRANT"), "{}", seen.verdict);
}

#[test]
fn resets_at_each_checkout() {
    let of = |calls: f64| {
        plain()
            .statement("SELECT a FROM t WHERE id = $1", 1.0, 0.1, [])
            .statement("DISCARD ALL", calls, 0.8, [])
            .diagnose()
    };
    let diagnosis = of(1.0);
    assert_eq!(problems(&diagnosis), [D10]);
    let throughput = found(&diagnosis, D10).gain.as_ref().unwrap().throughput.clone().unwrap();
    assert!(throughput.center > 0.0 && throughput.high() > Some(throughput.center));
    assert!(problems(&of(0.01)).is_empty());
}

#[test]
fn a_reset_is_charged_with_what_its_message_costs_beside_its_execution() {
    // Single statements, so that no gap inside a transaction tells of a round trip. 0.87 ms of
    // CPU a transaction, of which statements execute for 0.07 ms.
    let rise = |reset: &str| {
        let diagnosis = case(8, 4_000)
            .waits(&[("active", "", "", 7.0)])
            .statement("SELECT a FROM t WHERE id = $1", 1.0, 0.05, [])
            .statement(reset, 1.0, 0.02, [])
            .processes(Source::Processes, &[("server: client backends", 3.48, 1e-3)])
            .busy(0.95, 0.0)
            .diagnose();
        found(&diagnosis, D10).gain.as_ref().unwrap().throughput.clone().unwrap()
    };
    let forgets = rise("DISCARD ALL");
    assert!(forgets.center > 0.2, "{forgets:?}");
    assert!(forgets.high() > Some(1.5 * forgets.center), "{forgets:?}");
    // What keeps the plans of functions cannot cost them.
    let keeps = rise("RESET ALL");
    assert!(keeps.high() < forgets.high(), "{keeps:?}, {forgets:?}");
}

#[test]
fn what_functions_plan_again_after_a_reset_is_told_by_their_pages() {
    // Each page of the plain statement takes 7.5 µs, so the function's 40 explain 0.3 ms.
    let rise = |reset: &str, ms: f64| {
        let seen = |pages: f64, records: f64| {
            [("shared_blks_hit", pages), ("shared_blks_read", 0.0), ("wal_records", records)]
        };
        let diagnosis = plain()
            .statement("SELECT a FROM t WHERE id = $1", 3.0, 0.03, seen(4.0, 0.0))
            .statement("SELECT n FROM write_lines($1)", 1.0, ms, seen(40.0, 9.0))
            .statement(reset, 1.0, 0.1, [])
            .diagnose();
        found(&diagnosis, D10).gain.as_ref().unwrap().throughput.clone().unwrap().center
    };
    let explained = rise("DISCARD ALL", 0.3);
    assert!(rise("DISCARD ALL", 1.2) > 2.0 * explained, "{explained}");
    // What keeps the plans of functions does not make them plan.
    assert!(rise("RESET ALL", 1.2) <= 1.2 * explained, "{explained}");
}

const DELETE: &str = "DELETE FROM item WHERE order_id = $1";
const AGAIN: &str = "INSERT INTO item (order_id, n) VALUES ($1, $2)";

#[test]
fn children_deleted_and_inserted_again_are_no_queue() {
    let children = plain()
        .statement(DELETE, 1.0, 0.6, [("rows", 4.0), ("wal_bytes", 300.0)])
        .statement(AGAIN, 4.0, 0.1, [("rows", 1.0), ("wal_bytes", 200.0)])
        .diagnose();
    assert_eq!(problems(&children), [D17]);
    let queue = plain()
        .statement("DELETE FROM job WHERE id = $1", 1.0, 0.6, [("rows", 1.0)])
        .statement("INSERT INTO job (payload) VALUES ($1)", 1.0, 0.6, [("rows", 1.0)])
        .diagnose();
    assert!(!queue.findings.iter().any(|f| f.id == D17));
    // Documents are posted and, by other transactions, deleted by the same key.
    let documents = plain()
        .statement("DELETE FROM document WHERE id = $1 AND part = $2", 1.0, 0.6, [("rows", 1.0)])
        .statement("INSERT INTO document (id, part) VALUES ($1, $2)", 1.0, 0.6, [("rows", 1.0)])
        .diagnose();
    assert!(!documents.findings.iter().any(|f| f.id == D17));
}

#[test]
fn updates_of_a_column_to_itself_are_certain_and_upserts_are_not() {
    let itself =
        plain().statement("UPDATE t SET a = a WHERE id = $1", 1.0, 1.0, [("rows", 1.0)]).diagnose();
    assert_eq!(problems(&itself), [D18]);
    let upsert =
        "INSERT INTO t (k, a) VALUES ($1, $2) ON CONFLICT (k) DO UPDATE SET a = excluded.a";
    let of = |script: Option<&str>| {
        upserting(plain().statement(upsert, 1.0, 1.0, [("rows", 1.0)]), script)
    };
    let upserts = of(None);
    assert!(problems(&upserts).is_empty());
    let finding = found(&upserts, D18);
    assert_eq!(finding.kind, Kind::Symptom);
    assert!(!finding.not_observable.is_empty());
    // Where the script is ours it shows that the values follow from the key.
    let head = "INSERT INTO t (k, a) VALUES";
    let tail = "ON CONFLICT (k) DO UPDATE SET a = excluded.a;";
    assert_eq!(problems(&of(Some(&format!("{head} (:k, 'item ' || :k) {tail}")))), [D18]);
    assert!(problems(&of(Some(&format!("{head} (:k, :price) {tail}")))).is_empty());
}

/// Upserts that never insert, from a script of ours.
fn upserting(mut case: Case, script: Option<&str>) -> crate::Diagnosis {
    case.build.record.workload = script.map(|text| WorkloadFacts {
        name: "w".to_owned(),
        scale: 1,
        options: std::collections::BTreeMap::new(),
        scripts: vec![ScriptFacts {
            name: "s".to_owned(),
            weight: 1,
            text: text.to_owned(),
            statements: vec!["INSERT INTO t".to_owned()],
            batch: None,
        }],
        pass_mark: None,
    });
    for s in 0..70 {
        let mut row = walwright_testing::named(
            [("schemaname", "public"), ("relname", "t")],
            [("n_tup_upd", 1_000.0 * f64::from(s)), ("n_tup_ins", 0.0)],
        );
        row.set("relid", 1_i64);
        case.build.sample(f64::from(s), Source::Tables, [row]);
    }
    case.diagnose()
}

#[test]
fn work_that_is_rolled_back() {
    let of = |committed: f64, rolled: f64, writes: f64| {
        plain()
            .flushes(0.5, 0.2)
            .counts(Source::Database, [("xact_commit", committed), ("xact_rollback", rolled)])
            .statement(
                "INSERT INTO t (a) VALUES ($1)",
                writes,
                1.0,
                [("rows", 1.0), ("wal_bytes", 200.0)],
            )
            .statement("SELECT b FROM u WHERE a = $1", 3.0, 0.2, [])
            .diagnose()
    };
    assert_eq!(problems(&of(0.6, 0.4, 1.0)), [D20]);
    assert!(problems(&of(0.99, 0.01, 1.0)).is_empty());
    // Those that roll back have not written: only the others insert.
    assert!(problems(&of(0.6, 0.4, 0.6)).is_empty());
}

#[test]
fn temporary_tables_a_call() {
    let diagnosis = plain()
        .statement("CREATE TEMP TABLE stage (a int) ON COMMIT DROP", 1.0, 1.5, [("wal_bytes", 4e3)])
        .statement("INSERT INTO stage SELECT unnest($1)", 1.0, 0.2, [("rows", 20.0)])
        .diagnose();
    assert_eq!(problems(&diagnosis), [D21]);
}

/// A function that makes a temporary table of so many a call, out of sight of everybody but the
/// catalog.
fn making_tables(reset: Option<f64>) -> crate::Diagnosis {
    let rows = |name: &str, each: f64, done: f64| {
        let mut row = row([("n_tup_ins", each * done), ("n_tup_del", each * done)]);
        row.set("relname", name);
        row
    };
    let mut case = plain().statement(
        "SELECT save($1)",
        1.0,
        1.0,
        [("local_blks_hit", 2.0), ("wal_records", 90.0), ("wal_bytes", 9e3)],
    );
    for s in 0..70_u32 {
        let done = 1_000.0 * f64::from(s);
        let all = [("pg_type", 2.0), ("pg_class", 3.0), ("pg_attribute", 40.0)];
        case.build.sample(f64::from(s), Source::Catalog, all.map(|(n, each)| rows(n, each, done)));
    }
    let case = case.counts(Source::Database, [("xact_commit", 2.0)]);
    match reset {
        Some(records) => {
            case.statement("DISCARD ALL", 1.0, 0.25, [("wal_records", records)]).diagnose()
        }
        None => case.diagnose(),
    }
}

#[test]
fn temporary_tables_that_a_function_makes_are_found_by_the_catalog() {
    let diagnosis = making_tables(None);
    assert_eq!(problems(&diagnosis), [D21]);
    let finding = found(&diagnosis, D21);
    assert!(finding.cause.contains("SELECT save($1)"), "{}", finding.cause);
    assert!(finding.cause.starts_with("1.00 "), "{}", finding.cause);
    assert!(finding.not_observable.iter().any(|s| s.contains("track = all")));
}

#[test]
fn a_reset_is_charged_with_the_tables_it_drops_and_no_others() {
    let dropping = making_tables(Some(34.0));
    assert_eq!(problems(&dropping), [D10]);
    assert_eq!(found(&dropping, D21).parent, Some(D10));
    let gain = |diagnosis: &crate::Diagnosis, id| {
        found(diagnosis, id).gain.as_ref().unwrap().latency.center
    };
    let idle = making_tables(Some(0.0));
    assert_eq!(found(&idle, D21).parent, None);
    assert!(gain(&dropping, D10) > 2.0 * gain(&idle, D10));
    // The two causes are told apart, and what they give together.
    assert_eq!(problems(&idle), [D21, D10]);
    let both = &idle.outlook[1];
    assert_eq!((idle.outlook[0].id, both.id), (D21, D10));
    let rise = |step: &crate::Step| step.throughput.as_ref().unwrap().center;
    assert!(rise(both) > rise(&idle.outlook[0]));
    assert!(idle.verdict.contains("the first two"), "{}", idle.verdict);
}

#[test]
fn spills_get_the_memory_they_need_once() {
    let of = |bytes: f64, work_mem: &str| {
        plain()
            .sized("work_mem", work_mem, "kB", "user")
            .counts(Source::Database, [("temp_bytes", bytes), ("temp_files", 1.0)])
            .statement(
                "SELECT * FROM t ORDER BY a",
                1.0,
                3.0,
                [("temp_blks_written", bytes / 8192.0)],
            )
            .diagnose()
    };
    let diagnosis = of(8e6, "64");
    assert_eq!(problems(&diagnosis), [D29]);
    assert_eq!(commands(found(&diagnosis, D29)), ["ALTER SYSTEM SET work_mem = '16MB';"]);
    assert!(problems(&of(8e3, "64")).is_empty());
}

#[test]
fn compiling_longer_than_running() {
    let times =
        [("jit_functions", 5.0), ("jit_generation_time", 0.4), ("jit_optimization_time", 1.0)];
    let of = |jit: &str| {
        plain().setting("jit", jit).statement("SELECT sum(a) FROM t", 1.0, 2.0, times).diagnose()
    };
    let diagnosis = of("on");
    assert_eq!(problems(&diagnosis), [D43]);
    assert_eq!(commands(found(&diagnosis, D43)), ["ALTER SYSTEM SET jit = 'off';"]);
    // Someone switched it off for all but the sessions seen: not advised again.
    assert!(commands(found(&of("off"), D43)).is_empty());
}

#[test]
fn counting_among_the_work() {
    let diagnosis = plain()
        .statement("SELECT count(*) FROM orders", 0.1, 20.0, [])
        .statement("UPDATE t SET a = $1 WHERE id = $2", 1.0, 0.1, [("wal_bytes", 100.0)])
        .statement("INSERT INTO u VALUES ($1)", 1.0, 0.1, [("wal_bytes", 300.0)])
        .diagnose();
    assert_eq!(problems(&diagnosis), [D30]);
    let wal = found(&diagnosis, D31);
    assert_eq!(wal.kind, Kind::Information);
    assert!(wal.cause.starts_with("75 %"), "{}", wal.cause);
}
