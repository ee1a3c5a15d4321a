//! The lock on a server: who has it, who is refused, and what is done when it is lost.

use walwright_config::{ApplyError, Hold, HoldError, Restart, UndoError, undo_changes};
use walwright_server::{ConnectParams, Major};
use walwright_store::ledger::State;

use crate::testbed::Testbed;

fn in_database(testbed: &Testbed, name: &str) -> ConnectParams {
    let server = testbed.server.lock().unwrap();
    server.as_ref().unwrap().connect_params(name)
}

/// Sessions that hold the lock.
const HOLDERS: &str = "SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory'";
const END_HOLDERS: &str =
    "SELECT pg_terminate_backend(pid, 5000)::text FROM pg_locks WHERE locktype = 'advisory'";

#[test]
fn one_at_a_time_has_a_server_whatever_the_database() {
    let testbed = Testbed::new(Major::V18);
    testbed.execute("CREATE DATABASE other");
    let (here, other) = (in_database(&testbed, "postgres"), in_database(&testbed, "other"));
    let take = |params: &ConnectParams| testbed.runtime.block_on(Hold::take(params));
    for (first, second) in [(&here, &here), (&here, &other), (&other, &here)] {
        let held = take(first).expect("nobody has it");
        let refused = take(second).expect_err("it is taken");
        assert!(matches!(refused, HoldError::Taken(_)), "{refused}");
        let said = refused.to_string();
        let process = format!("process {}", std::process::id());
        for word in ["role postgres", first.dbname(), process.as_str(), "since 2", "Wait until"] {
            assert!(said.contains(word), "{word} is not in: {said}");
        }
        // Neither a set of changes nor undoing one goes on.
        let refused = testbed.apply("PG_WORK_MEM=9MB\n", &mut Restart::Never).unwrap_err();
        assert!(matches!(refused, ApplyError::Hold(HoldError::Taken(_))), "{refused}");
        drop(held);
    }
    assert!(testbed.ledger().sets().unwrap().is_empty(), "nothing was noted");
    let id = testbed.apply("PG_WORK_MEM=9MB\n", &mut Restart::Never).expect("made").id;
    let held = take(&other).expect("nobody has it");
    let (ledger, mut never, mut hold) = (testbed.ledger(), Restart::Never, testbed.hold());
    let set = ledger.set(id).unwrap().unwrap();
    let undone = undo_changes(&ledger, &set, Some(&mut hold), &mut never);
    let refused = testbed.runtime.block_on(undone).unwrap_err();
    assert!(matches!(refused, UndoError::Held { .. }), "{refused}");
    assert_eq!(ledger.set(id).unwrap().unwrap().state, State::Done);
    drop(held);
    testbed.roll_back(id, &mut Restart::Never);
    assert_eq!(testbed.ask(HOLDERS), "0");
}

#[test]
fn of_many_that_come_at_once_never_two_have_it() {
    let testbed = Testbed::new(Major::V18);
    testbed.execute("CREATE DATABASE other");
    let params = [in_database(&testbed, "postgres"), in_database(&testbed, "other")];
    let had: Vec<bool> = testbed.runtime.block_on(async {
        let tasks: Vec<_> = (0..8)
            .map(|number| {
                let params = params[number % 2].clone();
                tokio::spawn(async move {
                    let hold = Hold::take(&params).await;
                    // Kept until all have been answered.
                    (hold.is_ok(), hold)
                })
            })
            .collect();
        let mut had = Vec::new();
        let mut kept = Vec::new();
        for task in tasks {
            let (ok, hold) = task.await.expect("no panic");
            had.push(ok);
            kept.push(hold);
        }
        had
    });
    assert!(had.iter().filter(|had| **had).count() <= 1, "{had:?}");
}

#[test]
fn a_lock_that_is_lost_on_the_way_ends_what_was_to_be_changed() {
    let testbed = Testbed::new(Major::V18);
    let before = testbed.auto();
    // Lost while the server is to be restarted: what was set goes back.
    let ended = testbed.params.clone();
    let mut ends = Restart::With(Box::new(move || {
        let ending = async {
            let client = walwright_server::connect_for_workload(&ended).await.unwrap();
            client.batch_execute(END_HOLDERS).await.unwrap();
        };
        tokio::runtime::Handle::current().block_on(ending);
        Ok(())
    }));
    let error = testbed.apply("PG_SHARED_BUFFERS=160MB\n", &mut ends).unwrap_err();
    assert!(matches!(error, ApplyError::Undone { .. }), "{error}");
    assert_eq!(testbed.auto(), before);

    // Lost to another one: nothing more is done, also not undone, until that has ended.
    let (ended, other) = (testbed.params.clone(), testbed.params.clone());
    let taken = std::sync::Arc::new(std::sync::Mutex::new(None));
    let takes = std::sync::Arc::clone(&taken);
    let mut ends = Restart::With(Box::new(move || {
        let ending = async {
            let client = walwright_server::connect_for_workload(&ended).await.unwrap();
            client.batch_execute(END_HOLDERS).await.unwrap();
            *takes.lock().unwrap() = Some(Hold::take(&other).await.expect("nobody has it"));
        };
        tokio::runtime::Handle::current().block_on(ending);
        Err("it was not restarted".to_owned())
    }));
    let error = testbed.apply("PG_SHARED_BUFFERS=160MB\n", &mut ends).unwrap_err();
    let ApplyError::Stuck { id, why, .. } = &error else { panic!("{error}") };
    assert!(why.contains("another walwright works on it"), "{why}");
    assert_ne!(testbed.auto(), before);
    assert!(testbed.ledger().set(*id).unwrap().unwrap().is_cut_short());
    drop(taken.lock().unwrap().take());
    testbed.roll_back(*id, &mut Restart::Never);
    assert_eq!(testbed.auto(), before);
}

#[test]
fn a_restart_that_waits_for_all_clients_to_leave_gets_by() {
    let testbed = Testbed::new(Major::V18);
    let server = std::sync::Arc::clone(&testbed.server);
    let mut smart = Restart::With(Box::new(move || {
        let mut place = server.lock().map_err(|_| "a test failed".to_owned())?;
        let running = place.take().ok_or("it does not run")?;
        let pid = nix::unistd::Pid::from_raw(running.postmaster_pid().cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM)
            .map_err(|e| e.to_string())?;
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while running.try_exit().is_none() {
            if std::time::Instant::now() > deadline {
                return Err("a session keeps it from stopping".to_owned());
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let cluster = running.cluster().clone();
        drop(running);
        *place = Some(cluster.start().map_err(|error| error.to_string())?);
        Ok(())
    }));
    let made = testbed.apply("PG_SHARED_BUFFERS=160MB\n", &mut smart).expect("made");
    assert!(made.waiting.is_empty());
    assert_eq!(testbed.ask("SHOW shared_buffers"), "160MB");
    assert_eq!(testbed.ask(HOLDERS), "0");
}

#[test]
fn the_file_of_alter_system_comes_back_to_the_byte_whatever_stands_there() {
    let testbed = Testbed::new(Major::V18);
    for setting in [
        "work_mem = '5MB'",
        "shared_preload_libraries = 'pg_stat_statements', 'auto_explain'",
        "\"TimeZone\" = 'UTC'",
        "primary_conninfo = 'host=x password=hush-Marmalade'",
        "search_path = \"$user\", public",
        "archive_command = 'copy \\ it''s'",
        "jit = off",
    ] {
        testbed.execute(&format!("ALTER SYSTEM SET {setting}"));
    }
    let before = testbed.auto();
    let text = "PG_WORK_MEM=9MB\nPG_MAX_WAL_SIZE=2GB\n";
    let id = testbed.apply(text, &mut Restart::Never).expect("made").id;
    assert_ne!(testbed.auto(), before);
    let undone = testbed.roll_back(id, &mut Restart::Never);
    assert_eq!((undone.file, undone.left), (None, Vec::new()));
    assert_eq!(testbed.auto(), before);

    // A rollback that was killed at any step, and another one after it.
    let names: Vec<&str> = ["shared_preload_libraries", "search_path", "jit"].to_vec();
    for cut in 0..=names.len() {
        let id = testbed.apply(text, &mut Restart::Never).expect("made").id;
        let reset = ["RESET max_wal_size", "SET work_mem = '5MB'"];
        reset.iter().for_each(|sql| testbed.execute(&format!("ALTER SYSTEM {sql}")));
        for name in &names[..cut] {
            let again = match *name {
                "shared_preload_libraries" => "'pg_stat_statements', 'auto_explain'",
                "search_path" => "\"$user\", public",
                _ => "off",
            };
            testbed.execute(&format!("ALTER SYSTEM SET {name} = {again}"));
        }
        testbed.roll_back(id, &mut Restart::Never);
        assert_eq!(testbed.auto(), before, "after {cut} steps");
    }

    // What someone has written by hand is told.
    let path = testbed.data.join("postgresql.auto.conf");
    let by_hand = format!("# ours\n{before}");
    std::fs::write(&path, by_hand).unwrap();
    let id = testbed.apply(text, &mut Restart::Never).expect("made").id;
    let undone = testbed.roll_back(id, &mut Restart::Never);
    assert!(undone.file.unwrap().contains("edited by hand"));
    assert_eq!(testbed.auto(), before, "all but the comment");
    let ledger = std::fs::read_to_string(testbed.ledger().path()).unwrap();
    assert!(!ledger.contains("hush"), "{ledger}");
}

#[test]
fn a_secret_that_is_set_once_more_is_written_down_nowhere() {
    let testbed = Testbed::new(Major::V18);
    testbed.execute("ALTER SYSTEM SET shared_preload_libraries = 'pg_stat_statements'");
    testbed.execute("ALTER SYSTEM SET log_statement = 'all'");
    testbed.execute("ALTER SYSTEM SET log_min_duration_statement = 0");
    let restart = testbed.owner();
    if let Restart::With(mut restart) = restart {
        restart().unwrap();
    }
    testbed.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements");
    testbed.execute("ALTER SYSTEM SET work_mem = '5MB'");
    // As a standby has it that was made a server.
    let path = testbed.data.join("postgresql.auto.conf");
    let secret = "primary_conninfo = 'host=x password=hush-Marmalade'\n";
    std::fs::write(&path, testbed.auto() + secret).unwrap();
    let before = testbed.auto();
    let id = testbed.apply("PG_WORK_MEM=9MB\n", &mut Restart::Never).expect("made").id;
    let undone = testbed.roll_back(id, &mut Restart::Never);
    assert_eq!(undone.file, None);
    assert_eq!(testbed.auto(), before);
    let kept = "SELECT count(*)::text FROM pg_stat_statements WHERE query LIKE '%hu' || 'sh%'";
    assert_eq!(testbed.ask(kept), "0");
    let mut logged = 0;
    for entry in walk(testbed.data.parent().unwrap()) {
        if entry.extension().is_some_and(|of| of == "log") || entry.ends_with("log") {
            let text = String::from_utf8_lossy(&std::fs::read(&entry).unwrap()).into_owned();
            logged += text.matches("ALTER SYSTEM").count();
            let told = text.lines().find(|line| {
                // The server's own word when it reads its files.
                line.contains("hush") && !line.contains(" changed to ")
            });
            assert_eq!(told, None, "in {}", entry.display());
        }
    }
    assert!(logged > 0, "its log was found, and holds the other statements");
}

fn walk(directory: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() { files.extend(walk(&path)) } else { files.push(path) }
    }
    files
}
