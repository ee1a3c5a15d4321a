//! A server before and after each command that walwright can give to an attached server, on every version: nothing of
//! it has changed.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use walwright_server::Major;

use crate::common::{Done, Host, PASSWORD, Place, finish, until};

/// What one looks at: the name of a part, and what it was.
type Parts = BTreeMap<String, String>;

/// An attached server, on which nobody but us is busy: background workers would make files and
/// statistics of their own while we look.
struct Testbed {
    host: Host,
    place: Place,
    /// As the last look found it. Nobody but the next command changes anything.
    seen: RefCell<Parts>,
}

/// Its databases.
const DATABASES: [&str; 3] = ["app", "postgres", "template1"];

/// What a command may change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum May {
    /// Nothing at all: not one transaction ID is taken.
    Nothing,
    /// The rows that the script of the user writes.
    Rows,
    /// What it brings back itself: only the times of files tell.
    Borrow,
}

impl May {
    /// Parts that may differ after.
    fn excuses(self, part: &str) -> bool {
        match self {
            May::Nothing => false,
            May::Rows => part == "transactions" || part.starts_with("rows of the script's"),
            May::Borrow => {
                part == "times of files"
                    || part == "checkpoints asked for"
                    || May::Rows.excuses(part)
            }
        }
    }
}

impl Testbed {
    fn new(major: Major) -> Testbed {
        let settings =
            [("autovacuum", "off"), ("max_prepared_transactions", "5"), ("log_connections", "on")];
        let host = Host::made(major, &settings);
        host.execute("postgres", "CREATE DATABASE app");
        host.execute(
            "postgres",
            "CREATE ROLE watcher LOGIN PASSWORD 'wW1'; GRANT pg_monitor TO watcher;
             CREATE ROLE plain LOGIN PASSWORD 'pP1' CONNECTION LIMIT 50;
             CREATE ROLE chief SUPERUSER LOGIN PASSWORD 'cC1';
             ALTER ROLE plain IN DATABASE app SET work_mem = '3MB';
             ALTER DATABASE app SET commit_siblings = 6",
        );
        for setting in ["work_mem = '5MB'", "commit_delay = 10"] {
            host.execute("postgres", &format!("ALTER SYSTEM SET {setting}"));
        }
        host.execute(
            "app",
            "CREATE TABLE counter (id int PRIMARY KEY, n bigint);
             INSERT INTO counter SELECT g, 0 FROM generate_series(1, 100) g;
             CREATE TABLE kept (id int GENERATED ALWAYS AS IDENTITY, word text);
             INSERT INTO kept (word) SELECT md5(g::text) FROM generate_series(1, 1000) g;
             CREATE VIEW seen AS SELECT count(*) FROM kept;
             CREATE EXTENSION IF NOT EXISTS pg_stat_statements;
             COMMENT ON TABLE kept IS 'somebody''s';
             GRANT SELECT, UPDATE ON counter TO watcher, plain;
             SELECT lo_from_bytea(0, 'x');
             SELECT pg_create_physical_replication_slot('someones')",
        );
        host.execute(
            "app",
            "BEGIN; INSERT INTO kept (word) VALUES ('x'); PREPARE TRANSACTION 'someones'",
        );
        // Maps and statistics are there before anything is compared.
        for database in DATABASES {
            host.execute(database, "VACUUM ANALYZE");
        }
        host.execute("postgres", "SELECT pg_reload_conf()");
        host.execute("postgres", "CHECKPOINT");
        let place = Place::new();
        place.file(
            "count.sql",
            "\\set id random(1, 100)\nUPDATE counter SET n = n + 1 WHERE id = :id;\n",
        );
        place.file("read.sql", "\\set id random(1, 100)\nSELECT n FROM counter WHERE id = :id;\n");
        place.file("config.env", "PG_WORK_MEM=9MB\nPG_COMMIT_DELAY=40\n");
        let testbed = Testbed { host, place, seen: RefCell::default() };
        until("what the server counts is all told", || {
            let now = testbed.look();
            testbed.seen.replace(now.clone()) == now
        });
        testbed
    }

    fn dsn(&self, role: &str) -> String {
        let password = match role {
            "watcher" => "wW1",
            "plain" => "pP1",
            "chief" => "cC1",
            _ => PASSWORD,
        };
        self.host.dsn(role, password, "app")
    }

    /// All there is to see.
    fn look(&self) -> Parts {
        let mut parts = Parts::new();
        let mut part = |name: &str, value: String| {
            assert_eq!(parts.insert(name.to_owned(), value), None, "{name} twice");
        };
        for (name, sql) in [
            ("settings", "SELECT string_agg(s::text, E'\\n' ORDER BY name) FROM pg_settings s"),
            (
                "settings of files",
                "SELECT string_agg(s::text, E'\\n' ORDER BY seqno) FROM pg_file_settings s",
            ),
            ("prepared transactions", "SELECT string_agg(p::text, E'\\n') FROM pg_prepared_xacts p"),
            (
                "replication slots",
                "SELECT string_agg(concat_ws(',', slot_name, slot_type, active, restart_lsn), E'\\n')
                   FROM pg_replication_slots",
            ),
            ("advisory locks", "SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory'"),
            (
                "temporary files, sessions lost and transactions deadlocked",
                "SELECT string_agg(concat_ws(',', datname, temp_files, temp_bytes, deadlocks, conflicts,
                    sessions_abandoned, sessions_fatal, sessions_killed), E'\\n' ORDER BY datid)
                   FROM pg_stat_database",
            ),
            ("transactions", "SELECT pg_snapshot_xmax(pg_current_snapshot())::text"),
            (
                "work of vacuum and analyze",
                "SELECT string_agg(concat_ws(',', relname, vacuum_count, analyze_count, last_analyze),
                                   E'\\n' ORDER BY relid)
                   FROM pg_stat_all_tables WHERE vacuum_count + analyze_count > 0",
            ),
            ("checkpoints asked for", self.requested()),
        ] {
            part(name, self.host.ask("app", sql));
        }
        for database in DATABASES {
            part(&format!("moments of reset in {database}"), self.resets(database));
            for (table, rows) in self.tables(database) {
                let whose = if table == "counter" { "the script's " } else { "" };
                part(&format!("rows of {whose}{table} in {database}"), rows);
            }
        }
        let dump = ["--create", "--exclude-table-data=counter", "--restrict-key=x", "app"];
        part("dump", self.host.program("pg_dump", &dump));
        part("globals", self.host.program("pg_dumpall", &["--globals-only", "--restrict-key=x"]));
        let (names, contents, times) = files(&self.host.data_dir());
        part("files", names);
        part("contents of files", contents);
        part("times of files", times);
        parts
    }

    fn requested(&self) -> &'static str {
        let table = "SELECT to_regclass('pg_stat_checkpointer')::text";
        match self.host.ask("postgres", table).is_empty() {
            true => "SELECT checkpoints_req::text FROM pg_stat_bgwriter",
            false => "SELECT num_requested::text FROM pg_stat_checkpointer",
        }
    }

    /// Of every view that tells when it was reset.
    fn resets(&self, database: &str) -> String {
        let views = self.host.ask(
            database,
            "SELECT string_agg(attrelid::regclass::text, ' ' ORDER BY attrelid::regclass::text)
               FROM pg_attribute JOIN pg_class c ON c.oid = attrelid
              WHERE attname = 'stats_reset' AND relkind = 'v'",
        );
        assert!(
            views.contains("pg_stat_bgwriter") && views.contains("pg_stat_database"),
            "{views}"
        );
        let each = views.split(' ').map(|view| {
            format!(
                "SELECT '{view}' || ' ' || coalesce(string_agg(
                     coalesce(stats_reset::text, '-'), ',' ORDER BY stats_reset), '') AS line
                   FROM {view}"
            )
        });
        let each = each.collect::<Vec<_>>().join(" UNION ALL ");
        self.host.ask(database, &format!("SELECT string_agg(line, E'\\n') FROM ({each}) AS lines"))
    }

    /// Every table, the catalogs included: its rows, and the transactions that wrote them.
    fn tables(&self, database: &str) -> Vec<(String, String)> {
        let tables = self.host.ask(
            database,
            "SELECT string_agg(oid::regclass::text, ' ' ORDER BY oid) FROM pg_class
              WHERE relkind IN ('r', 'm') AND relnamespace <> 'information_schema'::regnamespace",
        );
        let tables: Vec<&str> = tables.split(' ').collect();
        assert!(tables.contains(&"pg_db_role_setting") && tables.contains(&"pg_auth_members"));
        let each = tables.iter().enumerate().map(|(place, table)| {
            format!(
                "SELECT {place} AS place, concat_ws(' ', count(*),
                     sum(hashtextextended(t.xmin::text || t::text, 0))) AS line FROM {table} AS t"
            )
        });
        let each = each.collect::<Vec<_>>().join(" UNION ALL ");
        let rows = self.host.ask(
            database,
            &format!("SELECT string_agg(line, E'\\n' ORDER BY place) FROM ({each}) AS lines"),
        );
        let rows: Vec<&str> = rows.lines().collect();
        assert_eq!(rows.len(), tables.len());
        tables.iter().zip(rows).map(|(table, row)| ((*table).to_owned(), row.to_owned())).collect()
    }

    /// Statements that are counted, and calls of them.
    fn counted(&self) -> (u64, u64) {
        let all = self.host.ask(
            "app",
            "SELECT count(*) || ' ' || sum(calls) || ' ' || (SELECT sum(dealloc) FROM pg_stat_statements_info)
               FROM pg_stat_statements",
        );
        let numbers: Vec<u64> = all.split(' ').map(|number| number.parse().unwrap()).collect();
        assert_eq!(numbers[2], 0, "all of them fit");
        (numbers[0], numbers[1])
    }

    /// Does something, and holds what was before against what is after.
    #[track_caller]
    fn stays(&self, what: &str, may: May, work: impl FnOnce()) {
        let (before, counted) = (self.seen.take(), self.counted());
        let logged = self.host.log().len();
        work();
        // The server ends a session a moment after its client has left.
        let sessions = "SELECT count(*)::text FROM pg_stat_activity
            WHERE application_name ~ '^walwright' AND pid <> pg_backend_pid()";
        until("no session is left", || self.host.ask("postgres", sessions) == "0");
        let log = self.host.log()[logged..].to_owned();
        for line in log.lines() {
            let bad =
                ["ERROR:", "FATAL:", "PANIC:", "WARNING:", "unexpected EOF", "could not ", "lost"];
            assert!(!bad.iter().any(|word| line.contains(word)), "{what}:\n{log}");
        }
        let after = self.look();
        for (part, before) in &before {
            let after = after.get(part).map_or("gone", String::as_str);
            if before != after && !may.excuses(part) {
                panic!("{what} changed {part}:\n{}\n{log}", difference(before, after));
            }
        }
        self.seen.replace(after.clone());
        let new: Vec<&String> = after.keys().filter(|part| !before.contains_key(*part)).collect();
        assert!(new.is_empty(), "{what} made {new:?}");
        let now = self.counted();
        assert!(now.0 >= counted.0 && now.1 >= counted.1, "{what}: {counted:?} {now:?}");
    }

    /// Runs a command that ends with one of these codes.
    #[track_caller]
    fn runs(&self, role: &str, codes: &[i32], args: &[&str]) -> Done {
        let mut command = self.place.command(args);
        // That of the plan, which may hold none.
        command.env("PGPASSWORD", PASSWORD);
        let done = finish(command.spawn().expect("spawn"));
        let said = format!("{args:?} as {role}:\n{}\n{}", done.out(), done.err());
        assert!(codes.iter().any(|code| done.ended(*code)), "{said}");
        assert!(!said.contains("panicked"), "{said}");
        done
    }
}

/// Lines of which there are more in one than in the other.
fn difference(before: &str, after: &str) -> String {
    let (old, new): (BTreeSet<&str>, BTreeSet<&str>) =
        (before.lines().collect(), after.lines().collect());
    let gone = old.difference(&new).map(|line| format!("- {line}"));
    let come = new.difference(&old).map(|line| format!("+ {line}"));
    gone.chain(come).take(40).collect::<Vec<_>>().join("\n")
}

/// Names of all files of a data directory but those that a server makes and removes all by
/// itself; what is in its configuration; and when that was written.
fn files(data: &Path) -> (String, String, String) {
    const OWN: [&str; 3] = ["pg_wal", "pg_stat_tmp", "pg_subtrans"];
    let (mut names, mut contents, mut times) = (Vec::new(), String::new(), String::new());
    let mut left = vec![data.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory).expect("a data directory").flatten() {
            let path = entry.path();
            let name = path.strip_prefix(data).unwrap().display().to_string();
            if path.is_dir() {
                if !OWN.contains(&name.as_str()) {
                    names.push(format!("{name}/"));
                    left.push(path);
                }
            } else if !name.contains("pg_internal.init") {
                if !name.contains('/') {
                    let text = fs::read_to_string(&path).unwrap_or_default();
                    contents += &format!("{name}: {text}\n");
                    let of = fs::metadata(&path).expect("a file");
                    times += &format!("{name}: {} {} {}\n", of.mtime(), of.mtime_nsec(), of.ino());
                }
                names.push(name);
            }
        }
    }
    names.sort();
    assert!(contents.contains("postgresql.auto.conf: ") && contents.contains("pg_hba.conf: "));
    (names.join("\n"), contents, times)
}

const SHORT: [&str; 5] = ["--plain", "--warmup=1s", "--duration=1s", "--load-jobs=1", "-c2"];

/// What reads only, as a role.
fn nothing_is_changed_by_looking(testbed: &Testbed, role: &str) {
    let dsn = testbed.dsn(role);
    let dsn = ["--dsn", dsn.as_str()];
    let with = |command: &[&'static str], more: &[&'static str]| -> Vec<String> {
        [command, &dsn, more].concat().into_iter().map(str::to_owned).collect()
    };
    let commands = [
        (with(&["record", "--plain"], &["--for", "1s"]), &[0][..]),
        (with(&["record", "--plain"], &["--", "sleep", "1"]), &[0]),
        (with(&["run"], &[&["--file", "read.sql"], &SHORT[..]].concat()), &[0]),
        (with(&["review"], &[]), &[0]),
        (with(&["config", "import"], &[]), &[0]),
        (with(&["config", "check", "config.env"], &[]), &[4]),
        (with(&["config", "explain", "work_mem"], &[]), &[0]),
        (with(&["config", "apply", "config.env"], &["--no-kernel"]), &[0, 1, 2]),
    ];
    for (args, codes) in commands {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        testbed.stays(&format!("{args:?} as {role}"), May::Nothing, || {
            testbed.runs(role, codes, &args);
        });
    }
    let run = [&["run"], &dsn[..], &["--file", "count.sql"], &SHORT[..]].concat();
    testbed.stays(&format!("{run:?} as {role}"), May::Rows, || {
        testbed.runs(role, &[0], &run);
    });
}

fn an_attached_server_keeps(major: Major) {
    let testbed = Testbed::new(major);
    for role in ["postgres", "watcher", "plain"] {
        nothing_is_changed_by_looking(&testbed, role);
    }
    // Once more as a superuser whose name does not say so.
    let chief = testbed.dsn("chief");
    testbed.stays("record as another superuser", May::Nothing, || {
        testbed.runs("chief", &[0], &["record", "--plain", "--dsn", &chief, "--for", "1s"]);
    });

    let dsn = testbed.dsn("postgres");
    let apply = ["config", "apply", "config.env", "--dsn", &dsn, "--no-kernel", "--yes"];
    testbed.stays("apply and rollback", May::Borrow, || {
        testbed.runs("postgres", &[0], &apply);
        assert_eq!(testbed.host.ask("postgres", "SHOW commit_delay"), "40");
        testbed.runs("postgres", &[0], &["config", "rollback", "--dsn", &dsn]);
    });
    let plan = format!(
        "blocks = 1\nseed = 5\n[workload]\nfiles = [\"count.sql\"]\n\
         [load]\nclients = 2\nduration = \"1s\"\nwarmup = \"1s\"\n\
         [server]\ndsn = \"host=127.0.0.1 port={} user=postgres dbname=app\"\n\
         [[arm]]\nname = \"delay\"\nsettings = {{ commit_delay = 3000 }}\n",
        testbed.host.port()
    );
    let plan = testbed.place.file("plan.toml", &plan);
    testbed.stays("an experiment", May::Borrow, || {
        testbed.runs("postgres", &[0], &["experiment", &plan, "--maintenance"]);
    });

    // What only reads records has no business with the server.
    let logged = testbed.host.log().len();
    for command in ["show", "report", "diagnose", "runs", "export", "commit"] {
        testbed.runs("postgres", &[0], &[command]);
    }
    let log = testbed.host.log()[logged..].to_owned();
    assert!(!log.contains("connection"), "{log}");
}

#[test]
fn an_attached_server_keeps_version_14_as_it_was() {
    an_attached_server_keeps(Major::V14);
}

#[test]
fn an_attached_server_keeps_version_15_as_it_was() {
    an_attached_server_keeps(Major::V15);
}

#[test]
fn an_attached_server_keeps_version_16_as_it_was() {
    an_attached_server_keeps(Major::V16);
}

#[test]
fn an_attached_server_keeps_version_17_as_it_was() {
    an_attached_server_keeps(Major::V17);
}

#[test]
fn an_attached_server_keeps_version_18_as_it_was() {
    an_attached_server_keeps(Major::V18);
}
