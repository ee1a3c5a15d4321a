//! Sessions, locks, errors, and what bounds the load outside the server.

use walwright_record::{LoadFacts, Sample, Source};

use super::{Case, case, commands, found, problems};
use crate::DiagnosisId::{D8, D9, D11, D12, D13, D14, D53, D54, D55, D59};
use crate::Kind;

#[test]
fn clients_that_linger_in_transactions() {
    let of = |gap: f64| {
        case(10, 500)
            .waits(&[
                ("active", "", "", 1.0),
                ("idle in transaction", "Client", "clientread", gap * 2.0 * 500.0),
            ])
            .statement("UPDATE t SET a = $1 WHERE id = $2", 1.0, 0.1, [])
            .statement("COMMIT", 1.0, 0.1, [])
            .diagnose()
    };
    assert_eq!(problems(&of(8e-3)), [D8]);
    // Momentary gaps, although they are a tenth of the latency.
    assert!(!of(1e-3).findings.iter().any(|f| f.id == D8));
}

#[test]
fn clients_that_linger_after_one_statement_of_many() {
    // A tenth of the transactions lets 150 ms go by after a lock; the others are busy.
    let of = |after_lock: f64| {
        let idle = "idle in transaction";
        let mut case = case(10, 500)
            .waits(&[
                ("active", "", "", 1.0),
                (idle, "Client", "clientread", 50.0 * after_lock),
                (idle, "Client", "ClientRead", 0.3),
            ])
            .statement("SELECT a FROM t WHERE id = $1 FOR UPDATE", 0.1, 0.1, [])
            .statement("UPDATE t SET a = $1 WHERE id = $2", 40.0, 0.01, []);
        for sample in case.build.record.samples.get_mut(&Source::Waits).unwrap() {
            sample.rows[1].set("query_id", 1_i64);
            sample.rows[2].set("query_id", 2_i64);
        }
        case.diagnose()
    };
    let diagnosis = of(150e-3);
    assert_eq!(problems(&diagnosis), [D8]);
    let cause = &found(&diagnosis, D8).cause;
    assert!(cause.contains("ms after `SELECT a FROM t"), "{cause}");
    assert!(!of(1e-3).findings.iter().any(|f| f.id == D8));
}

#[test]
fn rows_behind_an_idle_transaction_are_its_symptom() {
    let mut case = case(10, 500).waits(&[
        ("active", "", "", 0.5),
        ("idle in transaction", "Client", "clientread", 1.2),
        ("active", "Lock", "transactionid", 8.0),
    ]);
    for s in 0..70 {
        let mut row = walwright_testing::row([
            ("oldest_idle_in_transaction_seconds", 3.0),
            ("blocking_idle_in_transaction", 1.0),
            ("client_backends", 10.0),
        ]);
        row.set("blocking_pids", "17");
        case.build.sample(f64::from(s), Source::Sessions, [row]);
    }
    let diagnosis = case.diagnose();
    assert_eq!(problems(&diagnosis), [D8]);
    assert_eq!(found(&diagnosis, D9).parent, Some(D8));
}

fn failing(codes: &[(&str, u64)]) -> Case {
    case(10, 500).waits(&[("active", "", "", 9.0)]).with(|record| {
        for interval in &mut record.intervals {
            for (code, n) in codes {
                interval.scripts[0].failures.insert((*code).to_owned(), *n);
            }
        }
    })
}

#[test]
fn failures_are_told_by_their_kind() {
    assert_eq!(problems(&failing(&[("23505", 20)]).diagnose()), [D14]);
    assert_eq!(problems(&failing(&[("26000", 20)]).diagnose()), [D12]);
    assert_eq!(problems(&failing(&[("55P03", 50)]).diagnose()), [D13]);
    assert_eq!(problems(&failing(&[("40001", 50), ("40P01", 10)]).diagnose()), [D9]);
    let seldom = case(10, 5_000).with(|record| {
        record.intervals[20].scripts[0].failures.insert("23505".to_owned(), 1);
    });
    assert_eq!(found(&seldom.diagnose(), D14).kind, Kind::Information);
}

#[test]
fn hot_rows_with_what_is_behind_them() {
    let with = |working: f64| {
        case(16, 2_000)
            .waits(&[
                ("active", "", "", working),
                ("active", "Lock", "transactionid", 9.0),
                ("active", "Lock", "tuple", 2.0),
                ("idle in transaction", "Client", "clientread", 4.0 - working),
            ])
            .processes(Source::Processes, &[("server: client backends", 3.0, 0.0)])
            .busy(0.8, 0.0)
            .diagnose()
    };
    let rise = |working: f64| {
        let diagnosis = with(working);
        assert_eq!(problems(&diagnosis), [D9]);
        assert_eq!(commands(found(&diagnosis, D9)), ["--lean"], "an experiment can try it");
        let gain = found(&diagnosis, D9).gain.clone().unwrap();
        assert_eq!(gain.next.unwrap().name, "processors");
        gain.throughput.unwrap().center
    };
    // Three of four processors, and a little that others use: they allow no more than that,
    // whatever the locks would.
    assert!((0.2..0.55).contains(&rise(3.0)), "{}", rise(3.0));
    // Seen at work on two of them only: the third went with the waits.
    assert!((0.6..1.6).contains(&rise(2.0)), "{}", rise(2.0));
}

#[test]
fn commits_that_notify_queue_for_one_lock_of_the_cluster() {
    let diagnosis = case(10, 1_000)
        .waits(&[("active", "", "", 1.0), ("active", "Lock", "object", 8.0)])
        .diagnose();
    let finding = found(&diagnosis, D9);
    assert_eq!(finding.subject.as_deref(), Some("notifications"));
    assert!(finding.cause.contains("NOTIFY"), "{}", finding.cause);
}

#[test]
fn an_application_that_works_elsewhere() {
    let of = |busy: f64, on_server: f64| {
        case(20, 1_000)
            .waits(&[("active", "", "", on_server)])
            .processes(Source::Processes, &[("server: client backends", 0.5, 0.0)])
            .busy(busy, 0.0)
            .diagnose()
    };
    let diagnosis = of(0.3, 2.0);
    assert_eq!(problems(&diagnosis), [D53]);
    assert!(diagnosis.verdict.starts_with("Not bound by the database"), "{}", diagnosis.verdict);
    assert!(!of(0.3, 15.0).findings.iter().any(|f| f.id == D53));
    let full = of(0.98, 2.0);
    assert!(problems(&full).is_empty());
    assert_eq!(found(&full, D59).kind, Kind::Information);
    assert!(full.verdict.contains("bound by the processors"), "{}", full.verdict);
}

#[test]
fn a_pool_that_requests_wait_for_is_no_work_of_the_application() {
    // Of 20 ms a request waits so much for a session; on the server it is for 1 ms.
    let of = |wait: f64| {
        case(20, 1_000)
            .waits(&[("active", "", "", 1.0)])
            .processes(Source::Processes, &[("server: client backends", 0.9, 0.0)])
            .busy(0.3, 0.0)
            .counts(Source::Application, [("pool_wait_seconds", wait)])
            .with(|record| record.load.as_mut().unwrap().protocol = LoadFacts::HTTP.to_owned())
            .diagnose()
    };
    let diagnosis = of(0.018);
    assert_eq!(problems(&diagnosis), [D53]);
    let pool = found(&diagnosis, D53);
    assert!(pool.cause.contains("18.0 ms for a session"), "{}", pool.cause);
    let rise = pool.gain.as_ref().unwrap().throughput.clone().unwrap();
    assert!((1.0..9.0).contains(&rise.center), "a tenth of the latency is left: {rise:?}");
    let elsewhere = of(0.002);
    assert!(found(&elsewhere, D53).cause.starts_with("Not bound by the database"));
}

#[test]
fn a_server_that_fills_the_processors_it_is_held_to_waits_for_itself() {
    let of = |held: f64| {
        case(20, 1_000)
            .waits(&[("active", "", "", 8.0)])
            .processes(Source::Processes, &[("server: client backends", 0.97, 0.5)])
            .processes(Source::Neighbours, &[("other: make", 0.9, 0.0)])
            .busy(0.5, 0.0)
            .with(|record| record.target.as_mut().expect("a target").processors = Some(held))
            .diagnose()
    };
    let diagnosis = of(1.0);
    let cause = &found(&diagnosis, D59).cause;
    assert!(cause.contains("all that the server may use, are 97 % busy"), "{cause}");
    assert!(!diagnosis.findings.iter().any(|f| f.id == D55));
    assert!(!of(4.0).findings.iter().any(|f| f.id == D59));
}

#[test]
fn a_generator_at_its_limit_stands_first() {
    let of = |busiest: f64, ceiling: f64| {
        case(20, 1_000)
            .waits(&[("active", "", "", 2.0)])
            .busy(0.4, 0.0)
            .instrument(busiest, ceiling)
            .diagnose()
    };
    for diagnosis in [of(0.97, 1e6), of(0.5, 1_100.0)] {
        assert_eq!(problems(&diagnosis)[0], D54);
        assert!(!diagnosis.findings.iter().any(|f| f.id == D53));
        assert!(diagnosis.verdict.contains("Nothing else here can be trusted"));
    }
    assert!(!problems(&of(0.3, 1e6)).contains(&D54));
}

/// A load that someone else makes, at 1,000 commits a second: what the server's sessions do,
/// process groups with processors, busiest thread, and how many hold connections.
fn recorded(on_server: f64, busy: f64, groups: &[(&str, f64, f64, f64)]) -> Case {
    let mut case = case(20, 1_000)
        .waits(&[("active", "", "", on_server)])
        .processes(Source::Processes, &[("server: client backends", on_server, 0.0)])
        .busy(busy, 0.0)
        .with(|record| {
            record.intervals.clear();
            record.load = None;
        });
    for s in 0..70 {
        let t = f64::from(s);
        let commits =
            walwright_testing::row([("xact_commit", 1_000.0 * t), ("xact_rollback", 0.0)]);
        case.build.sample(t, Source::Database, [commits]);
        let rows = groups.iter().map(|(name, processors, thread, connected)| {
            walwright_testing::named(
                [("process_group", *name)],
                [
                    ("user_seconds", processors * t),
                    ("system_seconds", 0.0),
                    ("count", 4.0),
                    ("busiest_thread", *thread),
                    ("connected", *connected),
                ],
            )
        });
        case.build.sample(t, Source::Neighbours, rows);
    }
    case
}

#[test]
fn an_application_that_takes_the_cpu_is_said_without_a_log_of_its_clients() {
    let app = |processors: f64| [("application: node", processors, 0.97, 4.0)];
    let diagnosis = recorded(0.3, 0.35, &app(1.0)).diagnose();
    assert_eq!(problems(&diagnosis), [D53]);
    let finding = found(&diagnosis, D53);
    assert_eq!(finding.subject.as_deref(), Some("node"));
    assert!(
        finding.cause.contains("the application (node) takes the CPU, 1.00 ms a commit")
            && finding.cause.contains("rise by 30 % at most")
            && finding.cause.contains("busiest thread uses 97 %"),
        "{}",
        finding.cause
    );
    let quiet = |case: Case| !case.diagnose().findings.iter().any(|f| f.id == D53 || f.id == D54);
    // The server works longer; or the application hardly works at all.
    assert!(quiet(recorded(2.5, 0.9, &app(1.0))));
    assert!(quiet(recorded(0.05, 0.1, &app(0.2))));
    // Someone else takes the CPU.
    assert!(quiet(recorded(0.3, 0.5, &[("other: backup", 1.0, 1.0, 0.0)])));
}

#[test]
fn a_generator_of_others_is_the_limit_where_one_of_its_threads_is() {
    let of = |name: &str, processors: f64, thread: f64, connected: f64| {
        recorded(1.5, 0.6, &[(name, processors, thread, connected)]).diagnose()
    };
    let diagnosis = of("load generator: pgbench", 0.95, 0.95, 1.0);
    assert_eq!(problems(&diagnosis)[0], D54);
    assert!(found(&diagnosis, D54).cause.contains("the busiest thread of pgbench uses 95 %"));
    assert!(diagnosis.verdict.contains("Nothing else here can be trusted"));
    // Four threads that use half a processor each have room.
    let threads = of("load generator: k6", 2.0, 0.5, 0.0);
    assert!(!threads.findings.iter().any(|f| f.id == D54 || f.id == D53), "{:?}", threads.findings);
    // A full thread of the application is not the generator's.
    assert!(!of("application: node", 0.95, 0.95, 1.0).findings.iter().any(|f| f.id == D54));
}

#[test]
fn a_client_that_works_more_than_the_server_is_told_from_a_generator_of_requests() {
    let of = |connected: f64| {
        recorded(0.3, 0.3, &[("load generator: python3", 0.7, 0.7, connected)]).diagnose()
    };
    let direct = of(1.0);
    assert!(found(&direct, D53).cause.contains("the client (python3) takes the CPU"));
    assert!(!of(0.0).findings.iter().any(|f| f.id == D53));
}

#[test]
fn a_neighbour_costs_what_is_waited_for() {
    let of = |processors: f64, delay: f64| {
        case(20, 1_000)
            .waits(&[("active", "", "", 15.0)])
            .processes(
                Source::Processes,
                &[("server: client backends", 1.5, delay), ("walwright", 0.2, 0.0)],
            )
            .processes(Source::Neighbours, &[("other: backup", processors, 0.0)])
            .busy((1.7 + processors) / 4.0, 0.0)
            .diagnose()
    };
    let diagnosis = of(2.0, 8e-3);
    assert_eq!(problems(&diagnosis), [D55]);
    assert_eq!(found(&diagnosis, D55).subject.as_deref(), Some("backup"));
    // Loud, but nobody waits for it; or hardly there.
    assert!(problems(&of(2.0, 1e-5)).is_empty());
    assert!(problems(&of(0.05, 8e-3)).is_empty());
    // What runs in other containers shows in the machine's total alone.
    let hidden = |case: Case| {
        case.waits(&[("active", "", "", 15.0)])
            .processes(Source::Processes, &[("server: client backends", 1.5, 8e-3)])
            .busy(0.95, 0.0)
            .diagnose()
    };
    let looked = hidden(case(20, 1_000).processes(Source::Neighbours, &[]));
    assert_eq!(problems(&looked), [D55]);
    assert_eq!(found(&looked, D55).subject.as_deref(), Some("unseen"));
    // Two looks name only who was there at both.
    let seldom = hidden(case(20, 1_000).with(|record| {
        let of = |t: f64| {
            let (at, source) = (walwright_testing::second(t), Source::Neighbours);
            Sample { at, source, rows: Vec::new() }
        };
        record.samples.insert(Source::Neighbours, vec![of(15.0), of(65.0)]);
    }));
    assert_eq!(found(&seldom, D55).subject.as_deref(), Some("not sampled long enough"));
    let cause = &found(&seldom, D55).cause;
    assert!(cause.contains("not sampled long enough to be named"), "{cause}");
    // Where nobody looked, what was not seen may well have been in sight.
    assert!(problems(&hidden(case(20, 1_000))).is_empty());
}

#[test]
fn time_taken_by_the_hypervisor() {
    let diagnosis = case(20, 1_000).waits(&[("active", "", "", 15.0)]).busy(0.6, 0.2).diagnose();
    assert_eq!(problems(&diagnosis), [D55]);
}

#[test]
fn a_crowd_at_the_processors() {
    let of = |delay: f64| {
        case(200, 5_000)
            .waits(&[("active", "", "", 150.0)])
            .processes(Source::Processes, &[("server: client backends", 3.8, delay)])
            .busy(0.99, 0.0)
            .diagnose()
    };
    // 5,000/s × 30 ms: 150 ready for 4 processors.
    let diagnosis = of(30e-3);
    assert_eq!(problems(&diagnosis), [D11]);
    assert_eq!(found(&diagnosis, D11).gain, None);
    assert!(problems(&of(1e-3)).is_empty());
}
