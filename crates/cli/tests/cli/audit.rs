//! The schema audit and the settings review, seen from outside.

use walwright_diagnose::{DiagnosisId, Finding, Kind, findings};
use walwright_record::Record;
use walwright_store::Store;

use crate::common::{Host, Place};

const WORKLOAD: &str = r#"
name = "schema"
title = "A small application"
description = "Orders that come and go, rows that are seen, keys that are made."

[defaults]
scale = 1
clients = 2
protocol = "prepared"

[sql]
before_load = ["schema.sql"]

[[script]]
file = "work.sql"
"#;

const SOUND: &str = r#"
CREATE TABLE parent (id int PRIMARY KEY, note text);
CREATE TABLE child (id bigserial PRIMARY KEY, parent_id int REFERENCES parent, note text);
CREATE INDEX child_parent ON child (parent_id);
CREATE TABLE seen (id int PRIMARY KEY, name text, at timestamptz) WITH (fillfactor = 50);
CREATE TABLE keyed (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a int, b int);
CREATE INDEX keyed_a ON keyed (a);
INSERT INTO parent SELECT g, 'x' FROM generate_series(1, 2000) g;
INSERT INTO child (parent_id) SELECT 1001 + g % 1000 FROM generate_series(1, 30000) g;
INSERT INTO seen (id, name) SELECT g, 'n' FROM generate_series(1, 20000) g;
VACUUM ANALYZE;
SELECT count(*) FROM keyed WHERE a = 1;
"#;

/// What the same application looks like with five faults in its schema.
fn faulty() -> String {
    let faults = r#"
DROP INDEX child_parent;
CREATE INDEX seen_at ON seen (at);
ALTER TABLE seen REPLICA IDENTITY FULL;
DROP TABLE keyed;
CREATE TABLE keyed (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), a int, b int);
CREATE INDEX keyed_a ON keyed (a);
CREATE INDEX keyed_a_again ON keyed (a);
INSERT INTO keyed (a, b) SELECT g, g FROM generate_series(1, 20000) g;
"#;
    format!("{SOUND}{faults}")
}

const WORK: &str = r"
\set id random(1, 1000)
\set row random(1, 20000)
\set a random(1, 1000000)
BEGIN;
DELETE FROM parent WHERE id = :id;
INSERT INTO parent VALUES (:id, 'y') ON CONFLICT DO NOTHING;
UPDATE seen SET at = clock_timestamp() WHERE id = :row;
INSERT INTO keyed (a, b) VALUES (:a, :row);
SELECT b FROM keyed WHERE a = :a;
COMMIT;
";

fn measured(schema: &str, work: &str, settings: &[&str]) -> Record {
    let place = Place::new();
    std::fs::create_dir(place.path("app")).unwrap();
    place.file("app/workload.toml", WORKLOAD);
    place.file("app/schema.sql", schema);
    place.file("app/work.sql", work);
    let run = ["run", "-w", "./app", "--plain", "--warmup=1s", "--duration=12s", "-q"];
    place.run(&[&run, settings].concat()).code(0);
    let store = Store::open(&place.path("lab")).expect("a store");
    let latest = store.find("latest").expect("a run");
    store.load(&latest.id).expect("a record")
}

fn about<'f>(found: &'f [Finding], id: DiagnosisId, subject: &str) -> &'f Finding {
    let listed: Vec<String> =
        found.iter().map(|f| format!("{} {:?} {:?}", f.id, f.subject, f.kind)).collect();
    found
        .iter()
        .find(|f| f.id == id && f.subject.as_deref().is_some_and(|s| s.contains(subject)))
        .unwrap_or_else(|| panic!("{id} about {subject} not in {listed:#?}"))
}

#[test]
fn faults_of_a_schema_are_found_with_the_sql_that_mends_them() {
    let record = measured(&faulty(), WORK, &["--set=wal_level=logical"]);
    let schema = record.schema.as_ref().expect("the schema");
    assert_eq!(schema.incomplete, Vec::<String>::new());
    assert_eq!(record.schema_end, None, "nothing was redefined");
    let found = findings(&record).findings;
    for f in &found {
        eprintln!(
            "{} {:?} {:?} {:?} {} => {:?}",
            f.id,
            f.kind,
            f.subject,
            f.impact.as_ref().map(|i| (i.share.center, i.share.interval)),
            f.cause,
            f.actions.iter().filter_map(|a| a.command()).collect::<Vec<_>>()
        );
    }
    let command = |finding: &Finding| finding.actions[0].command().unwrap_or_default();

    let key = about(&found, DiagnosisId::D15, "child");
    assert_eq!(key.kind, Kind::Problem);
    assert!(command(key).starts_with("CREATE INDEX CONCURRENTLY"), "{}", command(key));
    // 30,000 rows are read for each delete: more than any other fault of this schema.
    let share = |finding: &Finding| finding.impact.as_ref().map_or(0.0, |i| i.share.center);
    let schema = [DiagnosisId::D23, DiagnosisId::D24, DiagnosisId::D25, DiagnosisId::D28];
    let others = found.iter().filter(|f| schema.contains(&f.id));
    assert!(share(key) > 0.01 && others.clone().all(|f| share(f) < share(key)));
    assert!(key.gain.is_some());

    let needless = about(&found, DiagnosisId::D28, "2 indexes of 2 tables");
    let drops = command(needless);
    let mut drops: Vec<&str> = drops.lines().collect();
    drops.sort_unstable();
    let expected = ["keyed_a_again", "seen_at"];
    assert_eq!(drops, expected.map(|index| format!("DROP INDEX CONCURRENTLY public.{index};")));

    let identity = about(&found, DiagnosisId::D25, "seen");
    assert_eq!(command(identity), "ALTER TABLE public.seen REPLICA IDENTITY DEFAULT;");

    let hot = about(&found, DiagnosisId::D24, "seen");
    assert!(hot.cause.contains("seen_at (at)"), "{}", hot.cause);
    assert_eq!(command(hot), "DROP INDEX CONCURRENTLY public.seen_at;");

    let random = about(&found, DiagnosisId::D23, "keyed_pkey");
    assert!(command(random).contains("SET DEFAULT uuidv7()"), "{}", command(random));

    assert!(found.iter().any(|f| f.id == DiagnosisId::D26));
}

#[test]
fn partitions_and_dead_rows_are_found_by_plans_and_counters() {
    let schema = r#"
CREATE TABLE event (id bigint, day date NOT NULL, what text) PARTITION BY RANGE (day);
CREATE TABLE event_1 PARTITION OF event FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE event_2 PARTITION OF event FOR VALUES FROM ('2026-02-01') TO ('2026-03-01');
CREATE TABLE event_3 PARTITION OF event FOR VALUES FROM ('2026-03-01') TO ('2026-04-01');
CREATE TABLE event_4 PARTITION OF event FOR VALUES FROM ('2026-04-01') TO ('2026-05-01');
INSERT INTO event SELECT g, date '2026-01-01' + g % 119, 'x' FROM generate_series(1, 40000) g;
CREATE TABLE staging (id int, note text) WITH (autovacuum_enabled = off);
INSERT INTO staging SELECT g, repeat('x', 50) FROM generate_series(1, 20000) g;
DELETE FROM staging;
CREATE TABLE log (id bigserial, note text);
VACUUM ANALYZE event;
ANALYZE staging;
"#;
    let work = r"
\set id random(1, 40000)
BEGIN;
SELECT what FROM event WHERE id = :id;
SELECT what FROM event WHERE day = '2026-02-07' AND id = :id;
INSERT INTO staging VALUES (:id, 'x');
INSERT INTO log (note) SELECT note FROM staging WHERE id = :id;
DELETE FROM staging WHERE id = :id;
COMMIT;
";
    let record = measured(schema, work, &["--pg=16"]);
    let plans = &record.schema_end.as_ref().expect("plans").plans;
    assert!(plans.iter().any(|p| (p.scanned, p.partitions, p.key_in_conditions) == (4, 4, false)));
    let found = findings(&record).findings;
    let unpruned: Vec<&Finding> = found.iter().filter(|f| f.id == DiagnosisId::D16).collect();
    let [unpruned] = unpruned.as_slice() else { panic!("{unpruned:#?}") };
    assert!(unpruned.cause.contains("RANGE (day)") && !unpruned.cause.contains("$1 AND"));
    assert_eq!(unpruned.kind, Kind::Problem);
    let staging = about(&found, DiagnosisId::D22, "staging");
    assert_eq!(staging.kind, Kind::Problem);
    let commands: Vec<String> = staging.actions.iter().filter_map(|a| a.command()).collect();
    assert!(
        commands.contains(&"ALTER TABLE public.staging RESET (autovacuum_enabled);".to_owned())
    );
    assert!(commands.contains(&"VACUUM (ANALYZE) public.staging;".to_owned()));
}

#[test]
fn a_sound_schema_has_no_problem() {
    let record = measured(SOUND, WORK, &[]);
    assert!(record.schema.is_some());
    let family = [
        DiagnosisId::D15,
        DiagnosisId::D16,
        DiagnosisId::D19,
        DiagnosisId::D22,
        DiagnosisId::D23,
        DiagnosisId::D24,
        DiagnosisId::D25,
        DiagnosisId::D26,
        DiagnosisId::D27,
        DiagnosisId::D28,
        DiagnosisId::D38,
        DiagnosisId::D40,
        DiagnosisId::D41,
    ];
    let problems: Vec<Finding> = findings(&record)
        .findings
        .into_iter()
        .filter(|f| family.contains(&f.id) && f.kind == Kind::Problem)
        .collect();
    assert_eq!(problems, []);
}

#[test]
fn a_file_is_reviewed_with_its_includes() {
    let place = Place::new();
    std::fs::create_dir(place.path("conf.d")).unwrap();
    place.file("postgresql.conf", "fsync = on\ninclude_dir 'conf.d'\nshared_buffers = 128MB\n");
    place.file("conf.d/more.conf", "work_mem = 512MB\nmax_connections = 500\nfsync = off\n");
    place.file("postgresql.auto.conf", "# written by ALTER SYSTEM\nsynchronous_commit = 'off'\n");
    let args =
        ["review", "postgresql.conf", "--pg=16", "--memory=32GB", "--processors=8", "--json"];
    let result = place.run(&args).code(4).json();
    let items = result["items"].as_array().unwrap();
    let item = |name: &str| items.iter().find(|i| i["name"] == name).unwrap().clone();
    assert_eq!(result["major"], 16);
    assert_eq!(item("fsync")["standing"], "problem");
    assert!(item("fsync")["place"].as_str().unwrap().ends_with("conf.d/more.conf:3"));
    assert!(item("synchronous_commit")["can_lose"].as_str().unwrap().contains("committed"));
    assert_eq!(item("work_mem")["standing"], "problem");
    assert_eq!(item("shared_buffers")["advised"], "8GB");
    assert_eq!(item("shared_buffers")["apply"], "restart");
    assert!(!items.iter().any(|i| i["name"] == "io_method"), "16 has none");

    let text =
        place.run(&["review", "postgresql.conf", "--memory=32GB", "--processors=8"]).code(4).out();
    for words in
        ["For PostgreSQL 18 on 8 processors, 32 GB", "Problems", "fsync = off -> on", "Not judged"]
    {
        assert!(text.contains(words), "{words:?} is not in\n{text}");
    }
}

#[test]
fn a_file_that_is_none_is_refused_with_its_place() {
    let place = Place::new();
    place.file("bad.conf", "fsync = on\nwork_mem 1.5GB\n");
    place.run(&["review", "bad.conf"]).refuses(&["bad.conf:2: \"GB\" is left over"]);
    place.run(&["review", "gone.conf"]).refuses(&["cannot read gone.conf"]);
    place.file("loop.conf", "include 'loop.conf'\n");
    place.run(&["review", "loop.conf"]).refuses(&["loop.conf:1", "include each other"]);
    place.run(&["review"]).refuses(&["there are no runs"]);
    place.file("odd.conf", "work_mem = 5 parsecs\n");
    place.run(&["review", "odd.conf"]).refuses(&["odd.conf:1"]);
    place.file("unit.conf", "work_mem = 5s\n");
    let out = place.run(&["review", "unit.conf"]).code(4).out();
    assert!(out.contains("unit.conf:1") && out.contains("for parameter \"work_mem\""), "{out}");
}

#[test]
fn what_stops_the_server_comes_first_and_a_corrected_file_starts_it() {
    let place = Place::new();
    place.file(
        "bad.conf",
        "# ours\nshared_bufers = 21GB # much\nwal_compression = lz5\nwal_level = minimal\n\
         archive_mode = on\narchive_command = 'cp %p /archive/%f'\nstatement_timeout = 10\n\
         my.extension = 'x'\n",
    );
    let args = ["review", "bad.conf", "--memory=32GB", "--processors=8", "--output=good.conf"];
    let text = place.run(&args).code(4).out();
    let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words:?} not in\n{text}"));
    assert!(text.starts_with("The server does not start with 3 settings;"), "{text}");
    assert!(at("did you mean shared_buffers?") < at("\nProblems\n"));
    assert!(at("\"wal_compression\": \"lz5\"") < at("\nProblems\n"), "the server's own word");
    assert!(at("max_wal_senders = 10 and archive_mode = on cannot") < at("\nProblems\n"));
    assert!(at("was a unit left out?") > at("\nProblems\n"));
    let good = std::fs::read_to_string(place.path("good.conf")).unwrap();
    assert!(good.starts_with("# ours\nshared_buffers = 8GB  # much  # walwright: was"), "{good}");
    assert!(good.contains("\nstatement_timeout = 10s") && good.contains("\nmy.extension = 'x'\n"));
    let before = std::fs::read_to_string(place.path("bad.conf")).unwrap();
    assert!(before.contains("shared_bufers"), "it is as it was");

    place.run(&args).misused(&["good.conf exists; --force"]);
    let again = ["review", "good.conf", "--memory=32GB", "--processors=8", "--json"];
    let result = place.run(&again).code(0).json();
    let advised: Vec<_> =
        result["items"].as_array().unwrap().iter().filter(|i| !i["advised"].is_null()).collect();
    assert!(advised.is_empty(), "{advised:?}");
    assert!(result["asked"].as_str().unwrap().starts_with("postgres 18"), "{result}");
    place.run(&["review", "latest", "--output=x.conf"]).code(1);
}

#[test]
fn a_server_is_reviewed_as_it_runs() {
    let (place, host) = (Place::new(), Host::new());
    host.execute("postgres", "ALTER SYSTEM SET commit_delay = 100");
    host.execute("postgres", "SELECT pg_reload_conf()");
    let dsn = host.superuser("postgres");
    let result = place.run(&["review", "--dsn", &dsn, "--json"]).code(0).json();
    let items = result["items"].as_array().unwrap();
    let delay = items.iter().find(|i| i["name"] == "commit_delay").unwrap();
    assert!(["100", "0"].contains(&delay["now"].as_str().unwrap()));
    let level = items.iter().find(|i| i["name"] == "max_wal_size").unwrap();
    assert_eq!(level["now"], "1GB");
    assert!(result["machine"].as_str().unwrap().contains("processors"));
}
