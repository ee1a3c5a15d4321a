//! Memory, kernel, buffers, durability and the course of a run.

use std::time::Duration;

use walwright_record::{DiskFacts, Source};

use super::{Case, case, commands, found, problems};
use crate::DiagnosisId::{
    D35, D36, D37, D39, D42, D44, D45, D46, D47, D48, D49, D50, D51, D52, D56, D57, D58,
};
use crate::{Diagnosis, Kind};

fn plain() -> Case {
    case(8, 1_000).waits(&[("active", "", "", 6.0)])
}

#[test]
fn small_buffers_over_much_data() {
    let of = |buffers: &str, reading: f64| {
        case(8, 1_000)
            .waits(&[("active", "", "", 3.0), ("active", "IO", "datafileread", reading)])
            .sized("shared_buffers", buffers, "8kB", "postmaster")
            .counts(Source::Database, [("blks_read", 12.0)])
            .diagnose()
    };
    let diagnosis = of("2048", 3.0);
    assert_eq!(problems(&diagnosis), [D36]);
    // 200 MB of data and a tenth, in steps of 64 MB.
    assert_eq!(commands(found(&diagnosis, D36)), ["ALTER SYSTEM SET shared_buffers = '256MB';"]);
    // All data fits: reads have another reason, and more buffers are no advice.
    let large = of("131072", 3.0);
    assert!(problems(&large).is_empty() && commands(found(&large, D36)).is_empty());
    assert!(!of("2048", 0.05).findings.iter().any(|f| f.id == D36));
}

#[test]
fn contention_on_the_buffer_table() {
    let diagnosis = case(8, 1_000)
        .waits(&[("active", "", "", 3.0), ("active", "LWLock", "buffermapping", 3.0)])
        .diagnose();
    assert_eq!(problems(&diagnosis), [D42]);
}

#[test]
fn lowered_durability_is_said_in_words() {
    let diagnosis = plain().setting("fsync", "off").setting("full_page_writes", "on").diagnose();
    assert_eq!(problems(&diagnosis), [D37]);
    let finding = found(&diagnosis, D37);
    assert!(finding.cause.contains("corrupt"));
    assert!(finding.actions.iter().all(|a| a.rollback.is_none()), "lowering it is never advised");
    assert_eq!(
        found(&plain().setting("synchronous_commit", "off").diagnose(), D37).kind,
        Kind::Information
    );
}

#[test]
fn swapping_and_kills() {
    let swapping = plain()
        .counts(Source::Memory, [("pswpin", 1.0), ("pswpout", 1.0), ("MemAvailable", 1e9)])
        .diagnose();
    assert_eq!(problems(&swapping), [D45]);
    let mut case = plain();
    for s in 0..70 {
        let kills = f64::from(u32::from(s > 40));
        let columns = [("oom_kill", kills), ("pswpin", 0.0), ("pswpout", 0.0)];
        case.build.sample(f64::from(s), Source::Memory, [walwright_testing::row(columns)]);
    }
    assert_eq!(problems(&case.diagnose()), [D47]);
}

#[test]
fn promises_that_memory_cannot_keep() {
    let of = |work_mem: &str| {
        plain()
            .sized("work_mem", work_mem, "kB", "user")
            .sized("shared_buffers", "16384", "8kB", "postmaster")
            .setting("hash_mem_multiplier", "2")
            .diagnose()
    };
    let diagnosis = of("2097152");
    assert_eq!(problems(&diagnosis), [D46]);
    assert_eq!(commands(found(&diagnosis, D46)), ["ALTER SYSTEM SET work_mem = '504MB';"]);
    assert!(problems(&of("4096")).is_empty());
}

#[test]
fn autovacuum_may_take_more_than_there_is() {
    // The diary: gigabytes for maintenance, taken by three workers at once.
    let of = |maintenance: &str, own: &str| {
        plain()
            .sized("work_mem", "4096", "kB", "user")
            .sized("maintenance_work_mem", maintenance, "kB", "user")
            .sized("autovacuum_work_mem", own, "kB", "sighup")
            .setting("autovacuum_max_workers", "3")
            .sized("shared_buffers", "16384", "8kB", "postmaster")
            .diagnose()
    };
    let diagnosis = of("33554432", "-1");
    assert_eq!(problems(&diagnosis), [D46]);
    let finding = found(&diagnosis, D46);
    assert!(finding.cause.contains("3 autovacuum workers"), "{}", finding.cause);
    assert!(commands(finding)[0].contains("SET autovacuum_work_mem ="), "{finding:?}");
    assert!(problems(&of("33554432", "65536")).is_empty());
    assert!(problems(&of("65536", "-1")).is_empty());
}

#[test]
fn large_memory_in_small_pages() {
    let of = |status: &str| {
        plain()
            .sized("shared_buffers", "1048576", "8kB", "postmaster")
            .sized("work_mem", "4096", "kB", "user")
            .setting("huge_pages_status", status)
            .setting("shared_memory_size_in_huge_pages", "4300")
            .diagnose()
    };
    let diagnosis = of("off");
    assert_eq!(problems(&diagnosis), [D48]);
    assert!(commands(found(&diagnosis, D48))[0].contains("vm.nr_hugepages='4300'"));
    assert!(problems(&of("on")).is_empty());
}

#[test]
fn autovacuum_that_sessions_wait_for() {
    let of = |processors: f64| {
        plain()
            .processes(
                Source::Processes,
                &[("server: client backends", 2.0, 3e-3), ("server: autovacuum", processors, 0.0)],
            )
            .busy((2.0 + processors) / 4.0, 0.0)
            .diagnose()
    };
    assert_eq!(problems(&of(1.5)), [D39]);
    assert!(problems(&of(0.02)).is_empty());
}

#[test]
fn disks_and_write_back() {
    let disk = |stack: &str| DiskFacts {
        device: Some("vda".to_owned()),
        queue: [
            ("read_ahead_kb".to_owned(), "128".to_owned()),
            ("stack".to_owned(), stack.to_owned()),
        ]
        .into(),
        ..DiskFacts::default()
    };
    let mut scanning = case(8, 1_000)
        .waits(&[("active", "", "", 3.0), ("active", "IO", "datafileread", 3.0)])
        .with(|r| r.host.as_mut().unwrap().data_disk = Some(disk("")));
    for s in 0..70 {
        let mut row = walwright_testing::row([("read_sectors", 200_000.0 * f64::from(s))]);
        row.set("device", "vda");
        scanning.build.sample(f64::from(s), Source::Disk, [row]);
    }
    assert_eq!(found(&scanning.diagnose(), D50).kind, Kind::Information);
    let encrypted = case(8, 1_000)
        .waits(&[("active", "", "", 3.0), ("active", "IO", "walsync", 3.0)])
        .with(|r| r.host.as_mut().unwrap().wal_disk = Some(disk("dm-0 (crypt) > vda")));
    assert_eq!(found(&encrypted.diagnose(), D51).kind, Kind::Information);
    let dirty = |pages: f64| {
        plain().reads(Source::Memory, [("nr_dirty", pages), ("nr_dirty_threshold", 1e5)]).diagnose()
    };
    assert_eq!(problems(&dirty(9e4)), [D52]);
    assert!(problems(&dirty(1e4)).is_empty());
}

#[test]
fn time_in_the_kernel_is_a_symptom() {
    let mut case = plain();
    for s in 0..70 {
        let t = f64::from(s);
        let kinds = [
            ("user", t),
            ("nice", 0.0),
            ("system", 2.5 * t),
            ("idle", 0.5 * t),
            ("iowait", 0.0),
            ("irq", 0.0),
            ("softirq", 0.0),
            ("steal", 0.0),
            ("ctxt", 1e5 * t),
        ];
        case.build.sample(t, Source::Cpu, [walwright_testing::row(kinds)]);
    }
    assert_eq!(found(&case.diagnose(), D56).kind, Kind::Symptom);
}

#[test]
fn parallel_workers_and_observers() {
    let parallel = plain()
        .busy(0.99, 0.0)
        .setting("max_parallel_workers", "8")
        .setting("max_parallel_workers_per_gather", "2")
        .statement(
            "SELECT sum(a) FROM t",
            1.0,
            3.0,
            [("parallel_workers_to_launch", 2.0), ("parallel_workers_launched", 2.0)],
        )
        .diagnose();
    assert_eq!(
        commands(found(&parallel, D57)),
        ["ALTER SYSTEM SET max_parallel_workers_per_gather = '0';"]
    );
    let logged = plain()
        .setting("log_statement", "all")
        .statement("SELECT a FROM t WHERE id = $1", 130.0, 0.05, [])
        .diagnose();
    assert_eq!(problems(&logged), [D58]);
    let explained = plain()
        .setting("auto_explain.log_analyze", "on")
        .setting("auto_explain.log_timing", "on")
        .setting("auto_explain.log_min_duration", "0")
        .statement("SELECT a FROM t WHERE id = $1", 40.0, 0.15, [])
        .diagnose();
    assert_eq!(found(&explained, D58).subject.as_deref(), Some("auto_explain"));
}

#[test]
fn many_connections_of_an_old_version() {
    let diagnosis = plain()
        .with(|r| r.target.as_mut().unwrap().version_num = 130_012)
        .reads(Source::Sessions, [("client_backends", 400.0)])
        .diagnose();
    assert_eq!(problems(&diagnosis), [D44]);
    let newer = plain().reads(Source::Sessions, [("client_backends", 400.0)]).diagnose();
    assert!(problems(&newer).is_empty());
}

/// Seconds at one rate, then at another.
fn course(rates: impl Fn(u32) -> usize) -> Case {
    plain().with(|record| {
        record.intervals.clear();
        let mut build = walwright_testing::Build::new();
        for s in 0..70 {
            build.interval(f64::from(s), &vec![Duration::from_millis(8); rates(s)]);
        }
        record.intervals = build.record.intervals;
    })
}

#[test]
fn a_cliff_is_explained_by_what_changed_with_it() {
    let mut case =
        course(
            |s| if s < 30 { 1_000 + (s % 3) as usize * 10 } else { 500 + (s % 3) as usize * 10 },
        );
    for s in 0..70 {
        let t = f64::from(s);
        let read = if s < 30 { 10.0 * t } else { 300.0 + 5_000.0 * (t - 30.0) };
        case.build.sample(t, Source::Database, [walwright_testing::row([("blks_read", read)])]);
    }
    let diagnosis = case.diagnose();
    assert_eq!(problems(&diagnosis), [D35]);
    let finding = found(&diagnosis, D35);
    assert!(
        finding.cause.contains("20 s") && finding.cause.contains("pages read"),
        "{}",
        finding.cause
    );
    let level = course(|s| 1_000 + (s % 7) as usize * 10);
    assert!(problems(&level.diagnose()).is_empty());
}

#[test]
fn a_cliff_of_waits_names_them_and_what_happened_then() {
    let falls = |s: u32| if s < 30 { 1_000 } else { 500 } + (s % 3) as usize * 10;
    let mut case = course(falls);
    for tick in 0..700_u32 {
        let sway = if tick % 2 == 0 { 0.9 } else { 1.1 };
        let waiting = if tick < 300 { 0.1 } else { 6.0 };
        let row = |kind, event, n: f64| walwright_testing::wait("active", kind, event, n * sway);
        let rows = [row("", "", 1.0), row("Lock", "relation", waiting)];
        case.build.sample(f64::from(tick) / 10.0, Source::Waits, rows);
    }
    case.build.record.events.push(walwright_record::Event {
        at: walwright_testing::second(29.0),
        kind: "log".to_owned(),
        text: "ALTER TABLE began".to_owned(),
    });
    let diagnosis = case.diagnose();
    let finding = found(&diagnosis, D35);
    assert!(finding.cause.contains("in lock (Lock:relation) instead of"), "{}", finding.cause);
    assert!(!finding.cause.contains("Nothing that is sampled"), "{}", finding.cause);
    let told = |text: &str| {
        finding.evidence.iter().any(|e| e.value == crate::Value::Text(text.to_owned()))
    };
    assert!(told("ALTER TABLE began"), "{:?}", finding.evidence);
}

#[test]
fn a_dip_costs_what_it_lasts() {
    let low = |s: u32| (30..45).contains(&s);
    let dip = course(|s| if low(s) { 400 } else { 1_000 } + (s % 3) as usize * 10).diagnose();
    let finding = found(&dip, D35);
    assert!(
        finding.cause.contains("at 20 s into the window and comes back 15 s later"),
        "{}",
        finding.cause
    );
    // 60 % of 15 of 60 seconds.
    let share = finding.impact.as_ref().unwrap().share.center;
    assert!((share - 0.15).abs() < 0.01, "{share}");
}

#[test]
fn a_finding_of_the_course_says_in_which_stretch_it_was_seen() {
    let sway = |s: u32| (s % 3) as usize * 10;
    let stretch = |diagnosis: &Diagnosis, id| {
        let window = found(diagnosis, id).window;
        let at = |moment: walwright_record::Timestamp| {
            moment.seconds_from(walwright_testing::second(0.0))
        };
        (at(window.start), at(window.end))
    };
    let dip = course(|s| if (30..45).contains(&s) { 400 } else { 1_000 } + sway(s)).diagnose();
    assert_eq!(stretch(&dip, D35), (30.0, 45.0));
    let cliff = course(|s| if s < 30 { 1_000 } else { 400 } + sway(s)).diagnose();
    assert_eq!(stretch(&cliff, D35), (30.0, 70.0));
    let level_in_the_end = course(|s| 500 + s.min(40) as usize * 15 + sway(s)).diagnose();
    let (from, to) = stretch(&level_in_the_end, D49);
    assert!(from == 10.0 && (35.0..50.0).contains(&to), "{from} to {to}");
    let rises = course(|s| 500 + s as usize * 10).diagnose();
    assert_eq!(stretch(&rises, D49), (10.0, 70.0));
}

#[test]
fn a_cliff_shows_in_commits_where_the_clients_are_not_in_the_record() {
    let mut case = plain().with(|record| record.intervals.clear());
    let mut commits = 0.0;
    for s in 0..70 {
        commits += if s < 30 { 1_000.0 } else { 500.0 } + f64::from(s % 3) * 10.0;
        let row = walwright_testing::row([("xact_commit", commits), ("xact_rollback", 0.0)]);
        case.build.sample(f64::from(s), Source::Database, [row]);
    }
    for tick in 0..700_u32 {
        let rows = [walwright_testing::wait("active", "", "", 2.0 + f64::from(tick % 2))];
        case.build.sample(f64::from(tick) / 10.0, Source::Waits, rows);
    }
    let diagnosis = case.diagnose();
    assert!(found(&diagnosis, D35).cause.contains("falls by 50 %"), "{:?}", found(&diagnosis, D35));
}

#[test]
fn a_run_that_rises_to_its_end_is_warm_up() {
    let diagnosis = course(|s| 500 + s as usize * 10).diagnose();
    assert_eq!(problems(&diagnosis), [D49]);
}
