//! Records built to invite the mistakes of the source documents: none is made.

use std::time::Duration;

use walwright_record::{RunState, ScriptInterval, Source};
use walwright_testing::histogram;

use super::{case, found, problems, stored};
use crate::DiagnosisId::{D1, D5, D6, D25, D32, D35, D37, D53};
use crate::{Kind, findings};

/// E1: 942.7 s of fsync over 2,167,991 requests is 0.435 ms of 7.38 ms: not the throttle.
#[test]
fn e1_flushes_that_are_six_percent_are_not_called_the_throttle() {
    // 9 clients, 1,200/s: 0.5 sessions in flushes, 1.5 elsewhere on the server.
    let diagnosis = case(9, 1_200)
        .waits(&[
            ("active", "IO", "walsync", 0.52),
            ("active", "", "", 1.0),
            ("idle in transaction", "Client", "clientread", 0.5),
        ])
        .flushes(1.0, 0.435)
        .storage(0.4)
        .busy(0.5, 0.0)
        .statement("UPDATE t SET a = $1 WHERE id = $2", 1.0, 0.3, [])
        .diagnose();
    assert_eq!(problems(&diagnosis)[0], D53, "{}", diagnosis.verdict);
    assert!(diagnosis.verdict.starts_with("Not bound by the database"));
    for finding in &diagnosis.findings {
        if [D1, D5, D6].contains(&finding.id)
            && let Some(rise) = finding.gain.as_ref().and_then(|g| g.throughput.as_ref())
        {
            assert!(rise.center < 0.08, "{finding:?}");
        }
    }
}

/// E2: totals over unequal windows. Twice the window, the same findings and figures.
#[test]
fn e2_the_length_of_the_window_changes_no_figure() {
    let of = |from: f64| {
        let mut record = case(20, 2_000)
            .waits(&[("active", "IO", "walsync", 2.0), ("active", "LWLock", "walwrite", 14.0)])
            .flushes(0.3, 0.3)
            .storage(0.1)
            .build
            .record;
        record.phases[0].start = walwright_testing::second(from);
        findings(&record)
    };
    let (long, short) = (of(10.0), of(40.0));
    assert_eq!(super::ids(&long), super::ids(&short));
    for (a, b) in long.findings.iter().zip(&short.findings) {
        for (a, b) in a.evidence.iter().zip(&b.evidence) {
            let number = |v: &crate::Value| match v {
                crate::Value::Count(n) | crate::Value::Seconds(n) | crate::Value::Bytes(n) => *n,
                _ => 0.0,
            };
            let (a, b) = (number(&a.value), number(&b.value));
            assert!((a - b).abs() <= 0.02 * a.abs().max(1e-6), "{a} and {b}");
        }
    }
}

/// E3: `local` without a synchronous standby is `on`.
#[test]
fn e3_local_is_neither_advised_nor_called_a_relaxation() {
    let diagnosis = case(20, 2_000)
        .waits(&[("active", "LWLock", "walwrite", 18.0)])
        .flushes(0.3, 0.3)
        .with(|record| {
            record.settings.push(stored("synchronous_commit", "local"));
            record.settings.push(stored("synchronous_standby_names", ""));
        })
        .statement("INSERT INTO t (a) VALUES ($1)", 1.0, 0.05, [("rows", 1.0)])
        .diagnose();
    let finding = found(&diagnosis, D37);
    assert_eq!(finding.kind, Kind::Information);
    assert!(finding.cause.contains("same as on"), "{}", finding.cause);
    for action in diagnosis.findings.iter().flat_map(|f| &f.actions) {
        assert!(!action.command().is_some_and(|c| c.contains("local")), "{action:?}");
    }
}

/// E4: images follow checkpoints, not replica identity.
#[test]
fn e4_page_images_are_not_blamed_on_replica_identity() {
    let mut case = case(20, 2_000).waits(&[("active", "LWLock", "walwrite", 10.0)]).counts(
        Source::Wal,
        [("wal_bytes", 9_000.0), ("wal_records", 5.0), ("wal_fpi", 1.0), ("wal_sync", 0.3)],
    );
    for s in 0..70 {
        let mut row = walwright_testing::named(
            [("schemaname", "public"), ("relname", "t"), ("relreplident", "d")],
            [("n_tup_upd", 2_000.0 * f64::from(s)), ("n_tup_hot_upd", 2_000.0 * f64::from(s))],
        );
        row.set("relid", 1_i64);
        case.build.sample(f64::from(s), Source::Tables, [row]);
        let done = f64::from(u32::from(s > 30));
        let columns = [("num_timed", done), ("num_requested", 0.0), ("num_done", done)];
        case.build.sample(f64::from(s), Source::Checkpointer, [walwright_testing::row(columns)]);
    }
    let diagnosis = case.diagnose();
    let finding = found(&diagnosis, D32);
    assert!(finding.cause.contains("checkpoint"), "{}", finding.cause);
    assert!(!diagnosis.findings.iter().any(|f| f.id == D25));
}

/// E7: no cliff in a short run without a checkpoint says nothing about cliffs.
#[test]
fn e7_a_run_without_a_checkpoint_is_not_called_free_of_cliffs() {
    let diagnosis = case(20, 2_000)
        .waits(&[("active", "", "", 10.0)])
        .reads(
            Source::Checkpointer,
            [("num_timed", 3.0), ("num_requested", 1.0), ("num_done", 3.0)],
        )
        .diagnose();
    assert!(!diagnosis.findings.iter().any(|f| f.id == D35));
    assert!(
        diagnosis.not_observable.iter().any(|s| s.contains("D35") && s.contains("no checkpoint")),
        "{:?}",
        diagnosis.not_observable
    );
}

#[test]
fn there_is_something_to_fix_where_nothing_completes_or_all_queues() {
    let hung = case(4, 1).waits(&[("active", "Lock", "transactionid", 4.0)]).with(|record| {
        for interval in &mut record.intervals {
            interval.scripts[0] = ScriptInterval::default();
        }
    });
    let verdict = hung.diagnose().verdict;
    assert!(verdict.starts_with("No transaction ended well"), "{verdict}");
    let queued = case(4, 10).waits(&[("active", "", "", 0.1)]).with(|record| {
        for interval in &mut record.intervals {
            interval.lag = histogram(&[Duration::from_millis(300); 10]);
        }
    });
    let verdict = queued.diagnose().verdict;
    assert!(verdict.starts_with("Transactions came due faster than they were done"), "{verdict}");
}

#[test]
fn what_cannot_be_seen_is_named_and_never_passed() {
    let remote = case(20, 2_000).with(|record| {
        record.target.as_mut().unwrap().local = false;
        record.host = None;
    });
    let diagnosis = remote.diagnose();
    assert!(diagnosis.not_observable.iter().any(|s| s.contains("D45")));
    assert!(diagnosis.not_observable.iter().any(|s| s.contains("D43")));
    assert!(diagnosis.verdict.contains("most checks were skipped"), "{}", diagnosis.verdict);
    let mut build = walwright_testing::Build::new();
    build.record.header.state = RunState::Failed;
    let nothing = findings(&build.record);
    assert!(nothing.findings.is_empty() && nothing.verdict.contains("no measured window"));
}
