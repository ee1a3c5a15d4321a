//! Commits, WAL and checkpoints.

use walwright_record::Source;

use super::{Case, case, commands, found, problems};
use crate::DiagnosisId::{D1, D2, D3, D4, D5, D6, D9, D32, D33, D34};
use crate::{Kind, Value};

const INSERT: &str = "INSERT INTO t (a) VALUES ($1)";

/// 20 clients, 4,000 a second, 5 ms: most of it in commits.
fn committing() -> Case {
    case(20, 4_000).storage(0.1).waits(&[
        ("active", "", "", 1.0),
        ("active", "IO", "walsync", 1.0),
        ("active", "LWLock", "walwrite", 15.0),
        ("idle in transaction", "Client", "clientread", 0.5),
    ])
}

#[test]
fn one_statement_a_commit_is_a_problem_with_a_gain() {
    let diagnosis = committing()
        .flushes(0.25, 0.2)
        .setting("synchronous_commit", "on")
        .statement(INSERT, 1.0, 0.05, [("rows", 1.0), ("wal_bytes", 150.0)])
        .diagnose();
    assert_eq!(problems(&diagnosis), [D1]);
    let finding = found(&diagnosis, D1);
    let impact = finding.impact.as_ref().unwrap();
    assert!((impact.share.center - 0.75).abs() < 0.01, "{impact:?}");
    let gain = finding.gain.as_ref().unwrap();
    let throughput = gain.throughput.as_ref().unwrap();
    // 20 / (5 − 3.75) ms, with a sixteenth of the flush device's demand left.
    assert!((throughput.center - 3.2).abs() < 0.4, "{throughput:?}");
    assert!(throughput.interval.is_some() && gain.next.is_some());
    let commands: Vec<_> = finding.actions.iter().filter(|a| a.command().is_some()).collect();
    assert_eq!(commands[1].class, crate::DurabilityClass::D);
    assert!(commands[0].command().unwrap().starts_with("--gateway"));
    // As durable as without it, and more than half of what no flush at all would gain.
    assert_eq!(commands[0].class, crate::DurabilityClass::S);
    let gateway = commands[0].gain.as_ref().unwrap().throughput.as_ref().unwrap();
    assert!(gateway.center > 1.5 && gateway.low().unwrap() > 0.2, "{gateway:?}");
    assert_eq!(found(&diagnosis, D5).parent, Some(D1));
    assert_eq!(found(&diagnosis, D4).kind, Kind::Information);
    assert_eq!(found(&diagnosis, D2).kind, Kind::Information);
    assert!(diagnosis.verdict.contains("own transaction"), "{}", diagnosis.verdict);
}

#[test]
fn the_gateway_is_not_advised_where_it_does_not_help() {
    let why = |case: Case, flush: f64| {
        let diagnosis = case
            .flushes(0.9, flush)
            .setting("synchronous_commit", "on")
            .statement(INSERT, 1.0, 0.05, [("rows", 1.0)])
            .diagnose();
        let finding = found(&diagnosis, D1).clone();
        assert!(commands(&finding).iter().all(|of| !of.contains("--gateway")), "{finding:?}");
        finding.ruled_out.iter().find(|of| of.starts_with("walwright gateway")).unwrap().clone()
    };
    let waits = |case: Case, flush: f64, queue: f64| {
        case.waits(&[
            ("active", "", "", 0.2),
            ("active", "IO", "walsync", flush),
            ("active", "LWLock", "walwrite", queue),
        ])
    };
    // One client of 2 ms, nearly all of it its own flush.
    assert!(why(waits(case(1, 500), 0.8, 0.0), 1.6).contains("single client"));
    // Thirty that share each flush of 2 ms and wait for nothing else.
    let shared = why(waits(case(30, 10_000), 1.0, 28.5), 2.0);
    assert!(shared.contains("share their flushes"), "{shared}");
}

#[test]
fn the_gateway_frees_a_row_that_is_held_for_each_flush() {
    let diagnosis = case(32, 400)
        .waits(&[
            ("active", "", "", 0.1),
            ("active", "IO", "walsync", 0.8),
            ("active", "Lock", "transactionid", 30.0),
        ])
        .flushes(1.0, 2.0)
        .statement("UPDATE t SET n = n + 1 WHERE id = 1", 1.0, 70.0, [("rows", 1.0)])
        .diagnose();
    let action = &found(&diagnosis, D9).actions[1];
    assert!(action.command().unwrap().starts_with("--gateway"), "{action:?}");
    // 400 a second is a flush after the other; then all share them.
    let rise = action.gain.as_ref().unwrap().throughput.as_ref().unwrap();
    assert!(rise.center > 5.0 && rise.low().unwrap() > 1.0, "{rise:?}");
}

#[test]
fn updates_by_key_on_fast_storage_and_batches_are_no_problem() {
    let update = "UPDATE t SET n = n + 1 WHERE id = $1";
    let of = |text: &str, rows: f64, flush: f64| {
        committing().flushes(0.25, flush).statement(text, 1.0, 0.05, [("rows", rows)]).diagnose()
    };
    let fast = of(update, 1.0, 0.2);
    assert!(problems(&fast).is_empty());
    assert_eq!(found(&fast, D1).kind, Kind::Information);
    assert_eq!(problems(&of(update, 1.0, 1.0)), [D1]);
    assert!(!of(INSERT, 20.0, 1.0).findings.iter().any(|f| f.id == D1));
}

#[test]
fn several_statements_a_commit_are_none() {
    let diagnosis = committing()
        .flushes(0.25, 0.2)
        .statement(INSERT, 3.0, 0.05, [("rows", 1.0)])
        .statement("COMMIT", 1.0, 0.1, [])
        .diagnose();
    assert!(problems(&diagnosis).is_empty(), "{:?}", problems(&diagnosis));
    assert_eq!(found(&diagnosis, D5).parent, None);
}

#[test]
fn a_queue_for_a_flush_that_never_rests_is_the_problem_itself() {
    let diagnosis = |mean_flush: f64| {
        committing()
            .flushes(0.25, mean_flush)
            .setting("synchronous_commit", "on")
            .statement(INSERT, 3.0, 0.05, [("rows", 1.0)])
            .statement("COMMIT", 1.0, 0.1, [])
            .diagnose()
    };
    // 1,000 flushes a second of 0.95 ms; of 0.5 ms there is room for as many again.
    let serial = diagnosis(0.95);
    assert_eq!(problems(&serial), [D5]);
    let commands = commands(found(&serial, D5));
    assert!(commands[0].starts_with("--gateway") && commands[1].contains("synchronous_commit"));
    assert!(problems(&diagnosis(0.5)).is_empty());
}

#[test]
fn a_relaxation_that_is_there_is_not_advised() {
    let diagnosis = committing()
        .flushes(0.25, 0.2)
        .setting("synchronous_commit", "off")
        .statement(INSERT, 1.0, 0.05, [("rows", 1.0)])
        .diagnose();
    assert!(commands(found(&diagnosis, D1)).is_empty());
}

#[test]
fn a_slow_flush_stands_before_the_number_of_commits() {
    let slow = |storage: f64| {
        committing()
            .flushes(0.1, 2.5)
            .storage(storage)
            .statement(INSERT, 1.0, 0.05, [("rows", 1.0)])
            .diagnose()
    };
    let floor = slow(2.2);
    assert_eq!(problems(&floor)[..2], [D6, D1], "both cost alike; the storage gains more");
    assert!(found(&floor, D6).cause.contains("floor"));
    let loaded = slow(0.1);
    assert!(found(&loaded, D6).cause.contains("25 times"), "{}", found(&loaded, D6).cause);
    assert!(!loaded.findings.iter().any(|f| f.id == D4));
}

#[test]
fn a_delay_longer_than_a_flush_is_the_cause_of_the_row_locks_behind_it() {
    // Sleeping sessions look as if they were on a processor: 0.2 × 5 ms × 1,000/s.
    let delayed = |delay: &str| {
        case(20, 1_000)
            .storage(0.1)
            .waits(&[
                ("active", "", "", 1.1),
                ("active", "LWLock", "walwrite", 5.0),
                ("active", "IO", "walsync", 0.1),
                ("active", "Lock", "transactionid", 12.0),
            ])
            .flushes(0.2, 0.2)
            .setting("commit_delay", delay)
            .setting("commit_siblings", "0")
            .diagnose()
    };
    let diagnosis = delayed("5000");
    assert_eq!(problems(&diagnosis), [D3]);
    assert_eq!(found(&diagnosis, D9).kind, Kind::Symptom);
    assert_eq!(found(&diagnosis, D9).parent, Some(D3));
    assert_eq!(commands(found(&diagnosis, D3)), ["ALTER SYSTEM SET commit_delay = '0';"]);
    // Half a flush is what the documentation begins with.
    assert!(!delayed("100").findings.iter().any(|f| f.id == D3));
    assert_eq!(problems(&delayed("0")), [D9]);
}

#[test]
fn nobody_sleeps_without_siblings() {
    let diagnosis = case(20, 1_000)
        .waits(&[("active", "", "", 0.1), ("active", "LWLock", "walwrite", 5.0)])
        .flushes(0.5, 0.2)
        .setting("commit_delay", "5000")
        .diagnose();
    assert!(!diagnosis.findings.iter().any(|f| f.id == D3));
}

fn checkpoints(case: Case, completed: f64, requested: f64) -> Case {
    let mut case = case;
    for s in 0..70 {
        let t = f64::from(s);
        let columns = [
            ("num_requested", (requested * t / 60.0).floor()),
            ("num_timed", 0.0),
            ("num_done", (completed * t / 60.0).floor()),
            ("buffers_written", 100.0 * t),
            ("write_time", 100.0 * t),
            ("sync_time", t),
        ];
        case.build.sample(t, Source::Checkpointer, [walwright_testing::row(columns)]);
    }
    case
}

fn with_images(images: f64) -> Case {
    committing()
        .setting("track_wal_io_timing", "on")
        .sized("checkpoint_timeout", "300", "s", "sighup")
        .sized("max_wal_size", "64", "MB", "sighup")
        .counts(
            Source::Wal,
            [
                ("wal_bytes", 1_000.0 + 8_192.0 * images),
                ("wal_records", 5.0),
                ("wal_fpi", images),
                ("wal_buffers_full", 0.0),
                ("wal_sync", 0.25),
                ("wal_sync_time", 0.1),
            ],
        )
}

#[test]
fn checkpoints_forced_by_volume_are_found_and_given_room() {
    let diagnosis = checkpoints(with_images(0.5), 12.0, 12.0).diagnose();
    assert_eq!(problems(&diagnosis)[0], D34);
    let finding = found(&diagnosis, D34);
    let action = finding.actions.iter().find(|a| a.command().is_some()).unwrap();
    assert!(action.command().unwrap().contains("max_wal_size"), "{action:?}");
    assert_eq!(action.class, crate::DurabilityClass::T);
    assert_eq!(found(&diagnosis, D32).parent, Some(D34));
}

#[test]
fn checkpoints_that_walwright_requested_are_not_the_volumes_doing() {
    let mut case = checkpoints(with_images(0.5), 12.0, 12.0);
    let request = |at: f64| walwright_record::Event {
        at: walwright_testing::second(at),
        kind: walwright_record::Event::CHECKPOINT_REQUEST.to_owned(),
        text: String::new(),
    };
    case.build.record.events = (1..12).map(|i| request(5.0 * f64::from(i) + 0.5)).collect();
    let diagnosis = case.diagnose();
    assert!(!diagnosis.findings.iter().any(|f| f.id == D34), "{:?}", problems(&diagnosis));
}

#[test]
fn room_that_is_there_is_not_advised() {
    let mut case = checkpoints(with_images(0.5), 12.0, 12.0);
    case.build.record.settings.retain(|s| s.name != "max_wal_size");
    let diagnosis = case.sized("max_wal_size", "9000000", "MB", "sighup").diagnose();
    assert!(commands(found(&diagnosis, D34)).is_empty());
}

#[test]
fn a_checkpoint_by_the_clock_is_no_problem() {
    let diagnosis = checkpoints(with_images(0.5), 1.0, 0.0).diagnose();
    assert!(!diagnosis.findings.iter().any(|f| f.id == D34));
}

#[test]
fn full_wal_buffers_are_found_by_what_they_cost() {
    let full = |waiting: f64| {
        case(20, 2_000)
            .storage(0.1)
            .waits(&[
                ("active", "LWLock", "walbufmapping", waiting),
                ("active", "LWLock", "walwrite", 1.0),
                ("active", "IO", "walwrite", 0.2),
                ("active", "", "", 9.0),
            ])
            .sized("wal_buffers", "8", "8kB", "postmaster")
            .counts(
                Source::Wal,
                [
                    ("wal_bytes", 20_000.0),
                    ("wal_buffers_full", 2.0),
                    ("wal_sync", 0.5),
                    ("wal_sync_time", 0.1),
                ],
            )
            .diagnose()
    };
    let diagnosis = full(6.0);
    assert_eq!(problems(&diagnosis)[0], D33);
    let finding = found(&diagnosis, D33);
    assert_eq!(commands(finding), ["ALTER SYSTEM SET wal_buffers = '16MB';"]);
    assert_eq!(finding.actions[0].needs, crate::Needs::Restart);
    assert!(finding.evidence.iter().any(|e| e.value == Value::Bytes(65_536.0)));
}

/// A branch of pgbench on two processors that are nearly full: a transaction takes 0.27 ms of CPU.
fn branches_on_full_processors() -> Case {
    case(16, 5_500)
        .waits(&[
            ("active", "", "", 6.5),
            ("active", "IO", "walsync", 0.46),
            ("active", "LWLock", "walwrite", 1.16),
            ("active", "Lock", "transactionid", 2.87),
            ("idle in transaction", "Client", "clientread", 3.48),
        ])
        .storage(0.13)
        .flushes(0.35, 0.24)
        .processes(
            Source::Processes,
            &[("server: client backends", 1.49, 0.91e-3), ("walwright", 0.24, 0.1e-3)],
        )
        .busy(0.475, 0.0)
        .with(|record| record.host.as_mut().unwrap().processors = Some(2))
        .statement("UPDATE t SET n = n + $1 WHERE id = $2", 3.0, 0.1, [("rows", 1.0)])
        .statement("END", 1.0, 0.3, [])
}

#[test]
fn what_waits_for_rows_gains_no_more_than_the_processors_allow() {
    let diagnosis = branches_on_full_processors().diagnose();
    let rise = found(&diagnosis, D9).gain.as_ref().unwrap().throughput.as_ref().unwrap();
    // 1.73 of two processors are busy.
    assert!(rise.center > 0.0 && rise.center < 2.0 / 1.73 - 1.0, "{rise:?}");
}

#[test]
fn the_gateway_frees_no_row_whose_holder_does_not_wait_for_a_flush() {
    // Clients that commit share the server with others that wait for a row.
    let of = |committing: f64| {
        let mut case = case(32, 400)
            .waits(&[
                ("active", "", "", 1.0),
                ("active", "IO", "walsync", 1.0),
                ("active", "LWLock", "walwrite", 9.0),
                ("active", "Lock", "transactionid", 20.0),
            ])
            .flushes(0.5, 2.0)
            .statement("UPDATE t SET n = n + 1 WHERE id = 1", 3.0, 20.0, [("rows", 1.0)])
            .statement("COMMIT", 1.0, 2.0, []);
        for s in 0..70 {
            let mut row = walwright_testing::row([
                ("blocking_waiting_for_lock", 0.0),
                ("blocking_committing", committing),
            ]);
            row.set("blocking_pids", "17,18,19");
            case.build.sample(f64::from(s), Source::Sessions, [row]);
        }
        found(&case.diagnose(), D9).clone()
    };
    let advised = of(3.0);
    assert!(commands(&advised).iter().any(|of| of.starts_with("--gateway")), "{advised:?}");
    // What the gateway gains elsewhere is no reason to advise it here.
    for (committing, part) in [(0.75, "25 % of the time"), (0.0, "")] {
        let executing = of(committing);
        assert!(!commands(&executing).iter().any(|of| of.starts_with("--gateway")));
        let mut out = executing.ruled_out.iter();
        assert!(out.any(|of| of.starts_with("walwright gateway") && of.contains(part)), "{out:?}");
    }
}
