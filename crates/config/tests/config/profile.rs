//! Profiles applied to real servers and undone: what is noted, what is in force, and what
//! is left after a crash between two steps.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use walwright_catalog::Profile;
use walwright_config::{
    ApplyError, ApplyPlan, CheckInput, Consent, MachineView, Restart, Standing, UndoError, check,
    make_changes, undo_changes,
};
use walwright_server::{Cluster, Major, Secret, Stop};
use walwright_store::ledger::{Change, Outcome, State};

use crate::testbed::Testbed;

const CHANGES: &str = "VM_SWAPPINESS=1\nVM_DIRTY_BYTES=256MB\nKERNEL_SEM='250 32000 100 128'\n\
    TRANSPARENT_HUGEPAGE_ENABLED=never\nPG_MAX_WAL_SIZE=2GB\nPG_WORK_MEM=9MB\n\
    PG_COMMIT_DELAY=0\nPG_SHARED_BUFFERS=160MB\nDATA_RAID_LEVEL=10\nULIMIT_NOFILE=65535\n";

/// Applies reload and kernel values, reads them back, and brings back what was, to the byte.
fn there_and_back(major: Major) {
    let testbed = Testbed::new(major);
    testbed.execute("ALTER SYSTEM SET work_mem = '5MB'");
    testbed.execute("ALTER SYSTEM SET cluster_name = 'it''s \\ mine'");
    let before = testbed.auto();

    let plan = testbed.plan(CHANGES);
    let titles: Vec<&str> = plan.changes.iter().map(|change| change.title.as_str()).collect();
    let thp = "/sys/kernel/mm/transparent_hugepage/enabled";
    assert_eq!(
        titles,
        ["vm.swappiness", "vm.dirty_bytes", thp, "max_wal_size", "work_mem", "shared_buffers"]
    );
    assert_eq!(plan.same, ["commit_delay"]);
    assert!(plan.skipped.iter().any(|left| left.why.contains("only ever raised")), "{plan:?}");
    assert_eq!(plan.by_hand.len(), 2, "arrays and limits are only named: {plan:?}");
    assert_eq!(plan.missing(&Consent::default()), (Vec::new(), true));
    assert!(testbed.ledger().sets().unwrap().is_empty(), "planning changes nothing");

    // Without a way to restart, what needs one is set and waits.
    let made = testbed.apply(CHANGES, &mut Restart::Never).expect("made");
    assert_eq!((made.id, made.waiting.as_slice()), (1, &["shared_buffers".to_owned()][..]));
    assert_eq!(testbed.kernel("proc/sys/vm/swappiness"), "1");
    assert_eq!(testbed.kernel("proc/sys/vm/dirty_bytes"), "268435456");
    assert_eq!(testbed.kernel("proc/sys/kernel/sem"), "500\t64000\t100\t128");
    assert_eq!(testbed.ask("SELECT current_setting('max_wal_size')"), "2GB");
    assert_eq!(testbed.ask("SELECT current_setting('shared_buffers')"), "128MB");
    assert_eq!(testbed.ledger().set(1).unwrap().unwrap().state, State::Done);
    let again = testbed.plan(CHANGES);
    assert!(again.changes.is_empty(), "what was applied is as wanted: {again:?}");

    let undone = testbed.roll_back(1, &mut Restart::Never);
    assert_eq!(undone.notes, Vec::<String>::new());
    assert!(!undone.restarted && undone.waiting.is_empty(), "{undone:?}");
    assert_eq!(testbed.auto(), before, "the same settings in the same order");
    assert_eq!(testbed.ask("SELECT current_setting('work_mem')"), "5MB");
    assert_eq!(testbed.ask("SELECT current_setting('max_wal_size')"), "1GB");
    assert_eq!(testbed.kernel("proc/sys/vm/swappiness"), "60");
    // The kernel clears one of the pair when the other is written, so the other is written.
    assert_eq!(testbed.kernel("proc/sys/vm/dirty_ratio"), "20");
    let pending = "SELECT string_agg(name, ',') FROM pg_settings WHERE pending_restart";
    assert_eq!(testbed.ask(pending), "cluster_name", "which this test has set itself");
    let set = testbed.ledger().set(1).unwrap().unwrap();
    assert!(matches!(set.state, State::Undone { .. }));
    let (ledger, mut never, mut hold) = (testbed.ledger(), Restart::Never, testbed.hold());
    let twice = undo_changes(&ledger, &set, Some(&mut hold), &mut never);
    assert!(matches!(testbed.runtime.block_on(twice), Err(UndoError::Already(1))));

    // What the server chooses itself is as wanted where nobody has set it; and a setting
    // that holds from the start of a session is read back in a new one.
    assert_eq!(testbed.plan("PG_WAL_BUFFERS=-1\n").same, ["wal_buffers"]);
    let text = "PG_WAL_BUFFERS=2MB\nPG_LOG_DISCONNECTIONS=on\n";
    let made = testbed.apply(text, &mut Restart::Never).expect("made");
    assert_eq!(testbed.ask("SHOW log_disconnections"), "on");
    testbed.roll_back(made.id, &mut Restart::Never);

    // With its owner restarting it, all is in force, and again as before after the way back.
    let made = testbed.apply("PG_SHARED_BUFFERS=160MB\n", &mut testbed.owner()).expect("made");
    assert!(made.waiting.is_empty());
    assert_eq!(testbed.ask("SELECT current_setting('shared_buffers')"), "160MB");
    // When its restart fails, the file is right by then, and the server still to restart.
    let set = ledger.set(made.id).unwrap().unwrap();
    let mut failing = Restart::Command(Secret::new("false"));
    let failed = undo_changes(&ledger, &set, Some(&mut hold), &mut failing);
    assert!(matches!(testbed.runtime.block_on(failed), Err(UndoError::Failed { .. })));
    drop(hold);
    assert_eq!(testbed.auto(), before);
    assert_eq!(testbed.ask("SELECT current_setting('shared_buffers')"), "160MB");
    let undone = testbed.roll_back(made.id, &mut testbed.owner());
    assert!(undone.restarted && undone.restored.is_empty(), "{undone:?}");
    assert!(undone.waiting.is_empty(), "{undone:?}");
    assert_eq!(testbed.ask("SELECT current_setting('shared_buffers')"), "128MB");
    assert_eq!(testbed.auto(), before);
}

#[test]
fn there_and_back_on_14() {
    there_and_back(Major::V14);
}

#[test]
fn there_and_back_on_18() {
    there_and_back(Major::V18);
}

#[test]
fn a_crash_at_any_step_is_recovered() {
    let testbed = Testbed::new(Major::V18);
    testbed.execute("ALTER SYSTEM SET work_mem = '5MB'");
    let before = testbed.auto();
    let text = "VM_SWAPPINESS=1\nPG_WORK_MEM=9MB\nPG_MAX_WAL_SIZE=2GB\n";
    let steps: [&[&str]; 4] = [
        &[],
        &["kernel"],
        &["kernel", "ALTER SYSTEM SET work_mem = '9MB'"],
        &["kernel", "ALTER SYSTEM SET work_mem = '9MB'", "ALTER SYSTEM SET max_wal_size = '2GB'"],
    ];
    for (number, done) in (1_u64..).zip(steps) {
        // As a process leaves it that is killed after these steps.
        let set = testbed.ledger().begin(testbed.intent(text)).expect("noted");
        for step in done {
            match *step {
                "kernel" => {
                    fs::write(testbed.root().join("proc/sys/vm/swappiness"), "1\n").unwrap()
                }
                sql => testbed.execute(sql),
            }
        }
        assert_eq!(set.id, number);
        assert!(set.is_cut_short());
        // Nothing is built on what nobody knows.
        let refused = testbed.apply(text, &mut Restart::Never);
        assert!(matches!(refused, Err(ApplyError::Unfinished { .. })), "{refused:?}");
        assert_eq!(testbed.ledger().next_to_undo().unwrap().unwrap().id, number);
        let undone = testbed.roll_back(number, &mut Restart::Never);
        assert_eq!(undone.restored.len(), done.len(), "{undone:?}");
        assert_eq!(testbed.auto(), before);
        assert_eq!(testbed.kernel("proc/sys/vm/swappiness"), "60");
        assert_eq!(testbed.ledger().next_to_undo().unwrap(), None);
    }
}

#[test]
fn a_change_that_fails_undoes_those_before_it() {
    let testbed = Testbed::new(Major::V18);
    let before = testbed.auto();
    // The catalogue lets it pass; the server knows that there are no such standbys' names.
    let text = "VM_SWAPPINESS=1\nPG_MAX_WAL_SIZE=2GB\nPG_SYNCHRONOUS_STANDBY_NAMES='2 (a'\n";
    let Err(ApplyError::Undone { id, what, .. }) = testbed.apply(text, &mut Restart::Never) else {
        panic!("it cannot be made")
    };
    assert!(what.contains("synchronous_standby_names"), "{what}");
    assert_eq!(testbed.auto(), before);
    assert_eq!(testbed.kernel("proc/sys/vm/swappiness"), "60");
    assert!(matches!(testbed.ledger().set(id).unwrap().unwrap().state, State::Undone { .. }));

    // A restart command that restarts nothing is found out, and all is undone.
    let mut idle = Restart::Command(Secret::new("true"));
    let error = testbed.apply("PG_SHARED_BUFFERS=160MB\n", &mut idle).unwrap_err().to_string();
    assert!(error.contains("was not restarted"), "{error}");
    assert_eq!(testbed.auto(), before);

    // So is an interrupt.
    let stop = Stop::new();
    stop.request();
    let (ledger, mut never, mut hold) = (testbed.ledger(), Restart::Never, testbed.hold());
    let intent = testbed.intent("PG_WORK_MEM=9MB\n");
    let interrupted = make_changes(&ledger, Some(&mut hold), intent, &mut never, &stop);
    let error = testbed.runtime.block_on(interrupted).unwrap_err().to_string();
    assert!(error.contains("interrupted") && error.contains("undone"), "{error}");
    assert_eq!(testbed.auto(), before);
}

#[test]
fn a_server_that_does_not_start_again_is_brought_back() {
    let testbed = Testbed::new(Major::V18);
    // Its line stands before others, of which one is secret.
    for setting in ["shared_buffers = '128MB'", "primary_conninfo = 'password=x'", "jit = off"] {
        testbed.execute(&format!("ALTER SYSTEM SET {setting}"));
    }
    let before = testbed.auto();
    // More memory than any machine has: the restart fails, and nobody can be asked.
    let text = "PG_SHARED_BUFFERS=4TB\n";
    let server = Arc::clone(&testbed.server);
    let kept = Arc::new(Mutex::new(None::<Cluster>));
    let mut owner = Restart::With(Box::new(move || {
        let mut place = server.lock().map_err(|_| "a test failed".to_owned())?;
        let mut kept = kept.lock().map_err(|_| "a test failed".to_owned())?;
        if let Some(running) = place.take() {
            *kept = Some(running.cluster().clone());
            running.stop().map_err(|error| error.to_string())?;
        }
        let cluster = kept.as_ref().ok_or("no cluster")?;
        *place = Some(cluster.start().map_err(|error| error.to_string())?);
        Ok(())
    }));
    let error = testbed.apply(text, &mut owner).unwrap_err();
    assert!(matches!(error, ApplyError::Undone { .. }), "{error}");
    assert_eq!(testbed.auto(), before);
    assert_eq!(testbed.ask("SELECT current_setting('shared_buffers')"), "128MB");
}

#[test]
fn what_cannot_be_noted_as_done_is_undone() {
    let testbed = Testbed::new(Major::V18);
    let before = testbed.auto();
    let Restart::With(mut owner) = testbed.owner() else { panic!("it is restarted by its owner") };
    // The ledger goes away between the changes and their end.
    let ledger = testbed.ledger().path().to_owned();
    let kept = ledger.with_extension("kept");
    let (from, to) = (ledger.clone(), kept.clone());
    let mut breaking = Restart::With(Box::new(move || {
        if !to.exists() {
            fs::rename(&from, &to).and_then(|()| fs::create_dir(&from)).unwrap();
        }
        owner()
    }));
    let error = testbed.apply("PG_SHARED_BUFFERS=160MB\n", &mut breaking).unwrap_err();
    assert!(matches!(error, ApplyError::Ledger(_)), "{error}");
    assert_eq!(testbed.auto(), before);
    assert_eq!(testbed.ask("SELECT current_setting('shared_buffers')"), "128MB");
    fs::remove_dir(&ledger).and_then(|()| fs::rename(&kept, &ledger)).unwrap();
    assert!(testbed.ledger().set(1).unwrap().unwrap().is_cut_short());
}

#[test]
fn what_someone_else_changed_since_stays() {
    let testbed = Testbed::new(Major::V18);
    let made = testbed.apply("PG_WORK_MEM=9MB\nPG_MAX_WAL_SIZE=2GB\n", &mut Restart::Never);
    let id = made.expect("made").id;
    testbed.execute("ALTER SYSTEM SET work_mem = '11MB'");
    let undone = testbed.roll_back(id, &mut Restart::Never);
    assert_eq!(undone.restored, ["max_wal_size"]);
    let note = &undone.notes[0];
    assert!(note.contains("work_mem is 11MB") && note.contains("not set) nor"), "{note}");
    assert!(note.contains("9MB") && undone.left == ["work_mem"], "{note}");
    let state = testbed.ledger().set(id).unwrap().unwrap().state;
    assert!(matches!(state, State::Undone { left, .. } if left == ["work_mem"]));
    assert_eq!(testbed.ask("SELECT current_setting('work_mem')"), "11MB");

    // What another set of ours changed since is no someone's: that one goes first.
    let before = testbed.auto();
    let one = testbed.apply("PG_COMMIT_DELAY=100\n", &mut Restart::Never).expect("made").id;
    let two = testbed.apply("PG_COMMIT_DELAY=200\n", &mut Restart::Never).expect("made").id;
    let (ledger, mut never, mut hold) = (testbed.ledger(), Restart::Never, testbed.hold());
    let set = ledger.set(one).unwrap().unwrap();
    let early = undo_changes(&ledger, &set, Some(&mut hold), &mut never);
    let error = testbed.runtime.block_on(early).unwrap_err().to_string();
    assert!(error.contains(&format!("config rollback {two}")), "{error}");
    drop(hold);
    testbed.roll_back(two, &mut Restart::Never);
    testbed.roll_back(one, &mut Restart::Never);
    assert_eq!(testbed.auto(), before);

    // And what was done on one server is not undone on another.
    let other = Testbed::new(Major::V18);
    let id = testbed.apply("PG_COMMIT_SIBLINGS=9\n", &mut Restart::Never).expect("made").id;
    let (ledger, mut never, mut hold) = (testbed.ledger(), Restart::Never, other.hold());
    let set = ledger.set(id).unwrap().unwrap();
    let wrong = undo_changes(&ledger, &set, Some(&mut hold), &mut never);
    let error = other.runtime.block_on(wrong).unwrap_err().to_string();
    assert!(error.contains("another server"), "{error}");
    ledger.end(id, Outcome::Undone { why: "test".to_owned(), left: Vec::new() }).unwrap();
}

#[test]
fn what_lowers_durability_needs_its_name_and_what_corrupts_is_refused() {
    let testbed = Testbed::new(Major::V18);
    let plan = testbed.plan("PG_SYNCHRONOUS_COMMIT=off\nPG_WORK_MEM=9MB\n");
    let consent = |yes, names: &[&str]| Consent {
        yes,
        names: names.iter().map(|name| (*name).to_owned()).collect(),
    };
    let (by_name, plain) = plan.missing(&consent(true, &[]));
    assert_eq!((by_name.len(), plain), (1, false));
    assert!(by_name[0].can_lose.as_ref().unwrap().contains("wal_writer_delay"));
    assert_eq!(plan.missing(&consent(true, &["Synchronous_Commit"])), (Vec::new(), false));
    assert_eq!(plan.missing(&consent(false, &["synchronous_commit"])), (Vec::new(), true));
    let alone = testbed.plan("PG_SYNCHRONOUS_COMMIT=off\n");
    let named = consent(false, &["synchronous_commit"]);
    assert_eq!(alone.missing(&named), (Vec::new(), true), "a name says what, not that");
    for text in ["PG_FSYNC=off\n", "PG_FULL_PAGE_WRITES=0\n"] {
        let plan = testbed.plan(text);
        assert_eq!((plan.refused.len(), plan.changes.len()), (1, 0), "{text}");
    }
    // What decides how the server is reached, or is set where ALTER SYSTEM cannot reach.
    let plan = testbed.plan("PG_PORT=5999\nPG_WAL_SEGMENT_SIZE=64MB\nPG_LISTEN_ADDRESSES='*'\n");
    assert!(plan.changes.is_empty() && plan.by_hand.len() == 3, "{plan:?}");
    testbed.execute("ALTER ROLE postgres SET work_mem = '7MB'");
    let plan = testbed.plan("PG_WORK_MEM=9MB\n");
    assert!(plan.changes.is_empty() && plan.skipped[0].why.contains("ALTER ROLE"), "{plan:?}");
}

#[test]
fn a_server_is_checked_against_a_profile_and_with_its_machine() {
    let testbed = Testbed::new(Major::V18);
    let view = testbed.view();
    assert!(view.scope.local && view.wal_bytes.is_some_and(|bytes| bytes > 0.0));
    let machine = MachineView::at(Path::new("/")).with_server(
        view.scope.data_directory.as_deref(),
        view.scope.wal_directory.as_deref(),
        view.scope.postmaster_pid,
    );
    let text = "PG_WORK_MEM=4MB\nPG_MAX_WAL_SIZE=2GB\nPG_COMMIT_SIBLINGS=9\nPG_VERSION=18\n\
                WAL_RAID_LEVEL=10\nVM_SWAPPINESS=1\n";
    let profile = Profile::from_config_env(text.as_bytes()).unwrap();
    let found = check(&CheckInput {
        profile: Some(&profile),
        server: Some(&view),
        machine: Some(&machine),
        wal_disk: Some(1e9),
    });
    let standing = |name: &str| found.items.iter().find(|item| item.name == name).unwrap().standing;
    assert_eq!(standing("work_mem"), Standing::Agrees);
    assert_eq!(standing("max_wal_size"), Standing::Drift);
    assert_eq!(standing("commit_siblings"), Standing::NoEffect);
    assert_eq!(standing("cluster.version"), Standing::Agrees);
    assert!(!found.agrees());
    let full = found.contradictions.iter().any(|c| c.what.contains("does not fit the disk"));
    assert!(full, "{:?}", found.contradictions);
    // Files of the kernel that nobody may change are never part of a plan made elsewhere.
    let plan = ApplyPlan::of(&profile, Some(&view), None);
    assert!(plan.changes.iter().all(|c| matches!(c.change, Change::Setting { .. })));
    assert!(plan.skipped.iter().any(|left| left.title == "vm.swappiness"));
}
