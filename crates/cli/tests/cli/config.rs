//! `walwright config`: the catalogue told, profiles converted, checked, applied and undone
//! as a person does it.

use std::fs;
use std::process::Command;

use crate::common::{Host, PASSWORD, Place, finish};

const OF_ANOTHER_TEAM: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../catalog/src/config_env/another_team.env");

#[test]
fn the_catalogue_is_listed_and_taught() {
    let place = Place::new();
    let all = place.run(&["config", "list", "--json"]).code(0).json();
    let all = all.as_array().unwrap();
    assert!(all.len() >= 150, "{}", all.len());
    for entry in all {
        for field in ["name", "layer", "what", "apply", "class", "source"] {
            assert!(entry[field].as_str().is_some_and(|text| !text.is_empty()), "{entry}");
        }
    }
    let locked = place.run(&["config", "list", "--class", "x"]).code(0).out();
    assert!(locked.contains("fsync") && locked.contains("full_page_writes"), "{locked}");
    let block = place.run(&["config", "list", "--layer", "block"]).code(0).out();
    assert!(block.contains("queue/read_ahead_kb") && !block.contains("fsync"), "{block}");
    place.run(&["config", "list", "--layer", "nonsense"]).misused(&["layers are", "arrays"]);
    place.run(&["config", "list", "--class", "Z"]).code(2);

    let taught = place.run(&["config", "explain", "WAL_READ_AHEAD_KB"]).code(0).out();
    for words in ["queue/read_ahead_kb", "no effect", "DATA_READ_AHEAD_KB", "class E"] {
        assert!(taught.contains(words), "{words}\n{taught}");
    }
    let taught = place.run(&["config", "explain", "synchronous_commit"]).code(0).out();
    assert!(taught.contains("three wal_writer_delay"), "{taught}");
    let here = place.run(&["config", "explain", "vm.swappiness", "--json"]).code(0).json();
    let value = here["here"][0]["value"].as_str().unwrap();
    let kernel = fs::read_to_string("/proc/sys/vm/swappiness").unwrap();
    assert_eq!(value, kernel.trim());
    place.run(&["config", "explain", "swappines"]).misused(&["similar ones: vm.swappiness"]);
    place.run(&["config", "explain", "fillfactor"]).misused(&["table.fillfactor or"]);
}

#[test]
fn a_profile_of_another_team_is_read_and_written_in_every_form() {
    let place = Place::new();
    let imported = place.run(&["config", "import", OF_ANOTHER_TEAM, "--json"]).code(0).json();
    assert!(imported["entries"].as_array().unwrap().len() >= 104);
    let own = place.path("own.env");
    let own = own.to_str().unwrap();
    place.run(&["config", "import", OF_ANOTHER_TEAM, "-o", own]).code(0).says(&["116 values"]);
    let again = place.run(&["config", "import", own]).code(0).out();
    assert_eq!(again, fs::read_to_string(own).unwrap(), "what was written is read as it is");
    for (form, words) in [
        ("config-env", "PG_SHARED_BUFFERS=20GB"),
        ("postgresql-conf", "shared_buffers = '20GB'"),
        ("alter-system", "ALTER SYSTEM SET shared_buffers = '20GB';"),
        ("sysctl", "vm.swappiness = 1"),
        ("udev", "KERNEL==\"md1\""),
        ("storage", "mkfs.xfs"),
        ("systemd", "LimitNOFILE=65535"),
        ("ansible", "sysctl_settings:"),
        ("cnpg", "shared_buffers: \"20GB\""),
        ("patroni", "shared_buffers: \"20GB\""),
    ] {
        let out = place.run(&["config", "export", own, "--to", form]).code(0).out();
        assert!(out.contains(words), "{form}\n{out}");
    }
    // A shell agrees that the commands are commands, and reads the values as we do.
    let script = place.run(&["config", "export", own, "--to", "storage"]).code(0).out();
    let script = place.file("storage.sh", &script);
    assert!(Command::new("sh").args(["-n", &script]).status().unwrap().success());
    let line = format!(". {own}; echo \"$NET_IPV4_TCP_RMEM|$PG_WAL_BUFFERS\"");
    let read = Command::new("sh").args(["-c", &line]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&read.stdout), "4096 87380 16777216|256MB\n");

    let wrong = place.file("wrong.env", "VM_SWAPPINESS=1\nVM_SWAPINESS=1\n\nPG_WORK_MEM=5ms\n");
    for command in [&["config", "check"][..], &["config", "apply"]] {
        let words = ["line 2: VM_SWAPINESS", "line 4: PG_WORK_MEM=5ms", "no unit"];
        place.run(&[command, &[wrong.as_str()]].concat()).refuses(&words);
    }
    // What fits is imported, the rest told and kept as comments.
    let words = ["left out VM_SWAPINESS: line 2: ", "left out PG_WORK_MEM: line 4: "];
    let imported = place.run(&["config", "import", &wrong]).code(0).says(&words).out();
    assert!(imported.contains("\nVM_SWAPPINESS=1\n") || imported.starts_with("VM_SWAPPINESS=1\n"));
    assert!(imported.contains("# left out: VM_SWAPINESS = 1 (line 2: "), "{imported}");
    assert!(imported.contains("# left out: PG_WORK_MEM = 5ms (line 4: "), "{imported}");
    place.run(&["config", "import", &wrong, "--strict"]).code(1);
    let nothing = place.file("nothing.env", "RESULT_DIR=/tmp\n");
    place.run(&["config", "import", &nothing]).refuses(&["nothing was imported"]);
    place.run(&["config", "export", own, "--to", "xml"]).code(2);
    place.run(&["config", "import", "/no/such/file.env"]).refuses(&["/no/such/file.env"]);
}

#[test]
fn a_profile_makes_the_way_to_a_server_and_back() {
    let (place, host) = (Place::new(), Host::new());
    let dsn = host.superuser("postgres");
    host.execute("postgres", "ALTER SYSTEM SET primary_conninfo = 'host=x password=hush'");
    host.execute("postgres", "ALTER SYSTEM SET work_mem = '5MB'");
    host.execute("postgres", "ALTER DATABASE postgres SET app.target = 'redis://:hush@cache'");
    host.execute("postgres", "ALTER DATABASE postgres SET commit_siblings = 7");
    host.execute("postgres", "SELECT pg_reload_conf()");
    let auto = "SELECT pg_read_file('postgresql.auto.conf')";
    let before = host.ask("postgres", auto);

    // What is there, without what is secret or of this database alone.
    let there = place.path("there.env");
    let there = there.to_str().unwrap();
    let import = place.run(&["config", "import", "--dsn", &dsn, "-o", there]).code(0);
    let import = import.says(&["left out"]);
    let text = fs::read_to_string(there).unwrap();
    assert!(text.contains("PG_WORK_MEM=5MB # postgresql.auto.conf"), "{text}");
    let of_database = "# left out: commit_siblings = 7 (set for this database";
    assert!(text.contains(of_database) && !text.contains("PG_COMMIT_SIBLINGS"), "{text}");
    for said in [&text, &import.err()] {
        assert!(!said.contains("hush") && !said.contains(PASSWORD), "{said}");
    }
    let checked = place.run(&["config", "check", there, "--dsn", &dsn, "--json"]).json();
    let drift = |checked: &serde_json::Value| -> Vec<String> {
        let items = checked["items"].as_array().unwrap();
        let drift = items.iter().filter(|item| item["standing"] == "drift");
        drift.map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(drift(&checked), Vec::<String>::new(), "a server agrees with itself");

    // Nothing is changed without consent, and what corrupts never is.
    host.execute("postgres", "CREATE TABLE branches (id int) WITH (fillfactor = 90)");
    let wanted = place.file(
        "wanted.env",
        "PG_WORK_MEM=9MB\nPG_SYNCHRONOUS_COMMIT=off\nTABLE_FILLFACTOR=branches=50\n",
    );
    let apply = ["config", "apply", &wanted, "--dsn", &dsn, "--no-kernel"];
    let with = |more: &[&str]| place.run(&[&apply[..], more].concat());
    with(&[]).code(2).says(&["--consent synchronous_commit --yes", "nothing was changed"]);
    with(&["--yes"]).code(2).says(&["wal_writer_delay", "--consent synchronous_commit"]);
    let unsafe_one = place.file("unsafe.env", "PG_WORK_MEM=9MB\nPG_FSYNC=off\n");
    let refused = ["config", "apply", &unsafe_one, "--dsn", &dsn, "--yes", "--consent", "fsync"];
    place.run(&refused).code(1).says(&["fsync = off is refused", "class X"]);
    assert_eq!(host.ask("postgres", auto), before);
    let dangers = place.run(&["config", "check", &unsafe_one, "--dsn", &dsn]).code(4).out();
    assert!(dangers.starts_with("Can lose data\n  ! fsync = off  [class X]\n"), "{dangers}");
    place.run(&["config", "export", &unsafe_one, "--to", "cnpg"]).code(0).says(&["warning: fsync"]);
    place.run(&["config", "rollback", "--list"]).code(0);
    assert!(!place.path("lab/changes.jsonl").exists());

    let check = ["config", "check", &wanted, "--dsn", &dsn, "--json"];
    let checked = place.run(&check).code(4).json();
    assert_eq!(drift(&checked), ["work_mem", "synchronous_commit", "table.fillfactor"]);
    let applied = with(&["--yes", "--consent", "synchronous_commit"]).code(0).out();
    assert!(applied.contains("change set 1") && applied.contains("By hand"), "{applied}");
    assert_eq!(host.ask("postgres", "SHOW work_mem"), "9MB");
    assert_eq!(host.ask("postgres", "SHOW synchronous_commit"), "off");
    host.execute("postgres", "ALTER TABLE branches SET (fillfactor = 50)");
    place.run(&check).code(0);
    let undone = place.run(&["config", "rollback", "--dsn", &dsn, "--json"]).code(0).json();
    assert_eq!(undone["restored"], serde_json::json!(["synchronous_commit", "work_mem"]));
    assert_eq!(host.ask("postgres", auto), before);
    assert_eq!(host.ask("postgres", "SHOW synchronous_commit"), "on");
    let nothing = place.run(&["config", "rollback", "--dsn", &dsn]).code(0).out();
    assert!(nothing.contains("Nothing to undo"), "{nothing}");
    let ledger = fs::read_to_string(place.path("lab/changes.jsonl")).unwrap();
    assert!(!ledger.contains("hush") && !ledger.contains(PASSWORD), "{ledger}");
}

#[test]
fn what_a_killed_apply_leaves_is_rolled_back() {
    let (place, host) = (Place::new(), Host::new());
    let dsn = host.superuser("postgres");
    let auto = "SELECT pg_read_file('postgresql.auto.conf')";
    let before = host.ask("postgres", auto);
    let wanted = place.file("wanted.env", "PG_WORK_MEM=9MB\nPG_SHARED_BUFFERS=160MB\n");
    let apply = ["config", "apply", &wanted, "--dsn", &dsn, "--yes", "--no-kernel"];
    // The command that should restart the server kills the one that asked for it.
    let killer = [&apply[..], &["--restart-command", "kill -9 $PPID"]].concat();
    let done = finish(place.command(&killer).spawn().expect("spawn"));
    assert!(!done.out().contains("read back"), "{}", done.out());
    assert_ne!(host.ask("postgres", auto), before, "the settings were written");
    let list = place.run(&["config", "rollback", "--list"]).code(0).out();
    assert!(list.contains("cut short") && list.contains("shared_buffers"), "{list}");
    let other = place.file("other.env", "PG_COMMIT_SIBLINGS=9\n");
    let other = ["config", "apply", &other, "--dsn", &dsn, "--yes", "--no-kernel"];
    place.run(&other).code(1).says(&["was cut short", "config rollback 1"]);
    place.run(&["config", "rollback"]).refuses(&["name it with --dsn"]);
    place.run(&["config", "rollback", "--dsn", &dsn]).code(0);
    assert_eq!(host.ask("postgres", auto), before);
    assert_eq!(host.ask("postgres", "SHOW work_mem"), "4MB");
    // After that it can be applied again.
    let again = place.run(&apply).code(0).out();
    assert!(
        again.contains("takes effect after a server restart") && again.contains("change set 2"),
        "{again}"
    );
    place.run(&["config", "rollback", "7", "--dsn", &dsn]).refuses(&["no change set 7"]);
}

#[test]
fn who_may_not_see_or_change_is_told_so() {
    let (place, host) = (Place::new(), Host::new());
    host.execute("postgres", "CREATE ROLE guest LOGIN PASSWORD 'guest-pass'");
    let dsn = host.dsn("guest", "guest-pass", "postgres");
    let wanted = place.file("wanted.env", "PG_WORK_MEM=9MB\nPG_MAX_WAL_SIZE=2GB\n");
    let plan = place.run(&["config", "apply", &wanted, "--dsn", &dsn, "--yes"]).code(0).out();
    assert!(plan.contains("Nothing to change") && plan.contains("pg_read_file(text)"), "{plan}");
    let checked = place.run(&["config", "check", &wanted, "--dsn", &dsn]).code(4).out();
    assert!(checked.contains("max_wal_size: 1GB, wanted 2GB"), "{checked}");
    let all = place.run(&["config", "check", "--dsn", &dsn]);
    assert!(!all.err().contains("error"), "{}", all.err());
}
