//! Loads that run into trouble: errors, lost connections, servers that hang or go.

use std::process::Command;
use std::time::{Duration, Instant};

use walwright_driver::{Arrival, Gaps, Load, LoadError, Mode, PlanError, Protocol, calibrate};
use walwright_record::{LoadInterval, Timestamp};

use crate::common::{
    Server, number, plan, program, query, run, run_until, tpcb, until, until_running,
};

#[test]
fn failures_are_counted_by_sqlstate_and_stay_out_of_latency() {
    let server = Server::shared();
    for (protocol, mode) in [
        (Protocol::Simple, Mode::Faithful),
        (Protocol::Extended, Mode::Faithful),
        (Protocol::Prepared, Mode::Faithful),
        (Protocol::Prepared, Mode::Lean),
    ] {
        let database = server.database();
        query(&database, "CREATE TABLE t (n int PRIMARY KEY); CREATE TABLE good (n int)");
        query(&database, "INSERT INTO t VALUES (1)");
        let script = "\\set n random(1, 2)\nBEGIN;\nINSERT INTO good VALUES (:n);\n\
            INSERT INTO t SELECT 1 WHERE :n = 1;\nEND;\n";
        let mut plan = plan(program(&[script]), database.clone());
        plan.clients = 3;
        plan.protocol = protocol;
        plan.mode = mode;
        let ran = run(plan, 200);
        let script = &ran.outcome.scripts[0];
        assert_eq!(script.failures.keys().collect::<Vec<_>>(), ["23505"]);
        assert!(script.failures["23505"] > 50);
        assert_eq!(ran.latency().count(), script.transactions);
        // What failed was rolled back, what was counted is there.
        let good = number(&database, "SELECT count(*) FROM good WHERE n = 2");
        assert_eq!(good as u64, script.transactions);
        assert_eq!(number(&database, "SELECT count(*) FROM good WHERE n = 1"), 0);
        assert!(ran.outcome.errors.of("23505")[0].contains("duplicate key"));
        assert_eq!(ran.outcome.connections_lost, 0);
        let ends = ran.sum(|interval| interval.scripts[0].statements[3].count());
        assert_eq!(ends, if mode == Mode::Lean { 0 } else { script.transactions });
    }
}

#[test]
fn serialization_failures_are_tried_again_with_the_same_numbers() {
    let server = Server::shared();
    for mode in [Mode::Faithful, Mode::Lean] {
        let database = server.database();
        query(&database, "CREATE TABLE t (n int); INSERT INTO t VALUES (0)");
        query(&database, "CREATE TABLE drawn (client int, n int)");
        // The number is drawn in the transaction, so that each try draws it.
        let script = "BEGIN ISOLATION LEVEL REPEATABLE READ;\n\
            \\set n random(1, 1000000000)\n\
            UPDATE t SET n = n + 1;\n\
            INSERT INTO drawn VALUES (:client_id, :n);\nEND;\n";
        let mut plan = plan(program(&[script]), database.clone());
        plan.clients = 4;
        plan.mode = mode;
        plan.max_tries = 0;
        plan.seed = 5;
        let ran = run(plan.clone(), 200);
        let totals = &ran.outcome.scripts[0];
        // After the stop nothing is tried again.
        assert!(ran.outcome.failures() <= 4, "{totals:?}");
        assert_eq!(number(&database, "SELECT n FROM t") as u64, totals.transactions);
        assert!(totals.retried > 0 && totals.retries["40001"] >= totals.retried, "{totals:?}");
        assert!(totals.retried <= totals.transactions + ran.outcome.failures());

        // A client that conflicts with nobody draws the same numbers.
        let firsts = "SELECT string_agg(n::text, ' ') FROM \
            (SELECT n FROM drawn WHERE client = 0 LIMIT 5) AS x";
        let with_retries = query(&database, firsts);
        query(&database, "TRUNCATE drawn");
        plan.clients = 1;
        let ran = run(plan.clone(), 5);
        assert_eq!(ran.outcome.scripts[0].retried, 0);
        assert_eq!(query(&database, firsts), with_retries);

        // One try only: the failure is final.
        plan.clients = 4;
        plan.max_tries = 1;
        let ran = run_until(plan, |done| done > 100);
        assert!(ran.outcome.scripts[0].retries.is_empty());
        assert!(ran.outcome.scripts[0].failures["40001"] > 0);
    }
}

#[test]
fn faults_of_the_script_are_told_with_their_place() {
    let server = Server::shared();
    let database = server.database();
    for (script, text) in [
        ("\\set a 0\nSELECT 1;\n\\set b 1 / :a\nSELECT :b;", "division by zero"),
        ("SELECT 1 AS a WHERE false \\gset\nSELECT :a;", "\\gset expected one row, got 0"),
        ("BEGIN;\nSELECT 1;", "without ending its transaction"),
        (
            "\\set a 0\n\\startpipeline\nSELECT 1;\n\\syncpipeline\nSELECT 2;\n\\set b 1 / :a\n\\endpipeline",
            "division by zero",
        ),
        (
            "\\set a 0\n\\startpipeline\nSELECT 1;\n\\syncpipeline\nSELECT 2;\n\\sleep 1 us\nSELECT 3;\n\
             \\set b 1 / :a\n\\endpipeline",
            "division by zero",
        ),
    ] {
        for mode in [Mode::Faithful, Mode::Lean] {
            let mut plan = plan(program(&[script]), database.clone());
            plan.mode = mode;
            let ran = run(plan, 3);
            let totals = &ran.outcome.scripts[0];
            assert_eq!(totals.failures.keys().collect::<Vec<_>>(), ["script"], "{script}");
            assert_eq!(totals.transactions, 0);
            let told = &ran.outcome.errors.of("script")[0];
            assert!(told.contains(text), "{told}");
        }
    }
}

#[test]
fn copy_from_stdin_is_declined_not_waited_for() {
    let server = Server::shared();
    let database = server.database();
    query(&database, "CREATE TABLE t (n int)");
    for protocol in [Protocol::Simple, Protocol::Extended, Protocol::Prepared] {
        let mut plan = plan(program(&["COPY t FROM STDIN;"]), database.clone());
        plan.protocol = protocol;
        let ran = run(plan, 5);
        assert_eq!(ran.outcome.scripts[0].failures.keys().collect::<Vec<_>>(), ["57014"]);
    }
}

#[test]
fn a_connection_that_is_killed_is_counted_and_made_anew() {
    let server = Server::shared();
    let database = server.database();
    let mut plan = plan(program(&["SELECT pg_sleep(0.002);"]), database.clone());
    plan.clients = 3;
    let load = Load::start(plan).expect("started");
    until_running(&load);
    let kill = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
        WHERE datname = current_database() AND application_name = 'walwright' \
        AND pid <> pg_backend_pid()";
    let mut killed = 0;
    while killed < 3 {
        killed += number(&database, kill);
    }
    let mut after = 0;
    until("transactions run on all clients again", || {
        while let Ok(interval) = load.intervals().try_recv() {
            after =
                if interval.clients == 3 { after + interval.scripts[0].transactions } else { 0 };
        }
        load.connected() == 3 && after > 50
    });
    load.stop();
    let outcome = load.join().expect("it ran");
    assert_eq!(outcome.connections_lost as i64, killed);
    assert_eq!(outcome.failures() as i64, killed, "{outcome:?}");
    assert_eq!(outcome.scripts[0].failures["57P01"] as i64, killed, "{:?}", outcome.scripts);
    assert_eq!(outcome.server_lost, None);
}

#[test]
fn a_server_that_dies_ends_the_load_within_seconds() {
    let mut server = Server::start();
    let database = server.database();
    let mut plan = plan(program(&["SELECT pg_sleep(0.001);"]), database);
    plan.clients = 4;
    plan.threads = 2;
    let load = Load::start(plan).expect("started");
    until_running(&load);
    load.intervals().recv_timeout(Duration::from_secs(10)).expect("an interval");
    server.cluster.take().expect("running").stop_immediately().expect("stopped");
    let gone = Instant::now();
    let outcome = load.join().expect("it ran");
    assert!(gone.elapsed() < Duration::from_secs(10), "{:?}", gone.elapsed());
    let lost = outcome.server_lost.as_ref().expect("noticed");
    assert!(lost.message.contains("cannot connect"), "{}", lost.message);
    assert!(outcome.transactions() > 0);
    assert!(outcome.connect_failures > 0 && outcome.connections_lost == 4, "{outcome:?}");
}

/// Sends a signal to a server and all its children.
fn signal(name: &str, postmaster: u32) {
    let children = Command::new("pgrep").args(["-P", &postmaster.to_string()]).output();
    let children = String::from_utf8(children.expect("pgrep runs").stdout).expect("numbers");
    let all = children.split_whitespace().map(str::to_owned).chain([postmaster.to_string()]);
    let sent = Command::new("kill").arg(format!("-{name}")).args(all).status();
    assert!(sent.expect("kill runs").success());
}

#[test]
fn every_transaction_due_while_the_server_is_frozen_shows_its_wait() {
    const RATE: f64 = 500.0;
    let server = Server::start();
    let database = server.database();
    let mut plan = plan(program(&["SELECT 1;"]), database);
    // Far fewer clients than transactions due meanwhile.
    plan.clients = 8;
    plan.arrival = Arrival::Open { rate: RATE, gaps: Gaps::Even };
    let load = Load::start(plan).expect("started");
    let mut latency = walwright_record::LatencyHistogram::new();
    let mut due = 0;
    let mut take_in = |interval: LoadInterval| {
        interval.scripts[0].latency.add_to(&mut latency);
        due += interval.due;
    };
    take_in(load.intervals().recv_timeout(Duration::from_secs(10)).expect("an interval"));
    let postmaster = server.running().postmaster_pid();
    signal("STOP", postmaster);
    let frozen = Instant::now();
    std::thread::sleep(Duration::from_secs(1));
    let frozen = frozen.elapsed();
    signal("CONT", postmaster);
    let resumed = Instant::now();
    while resumed.elapsed() < Duration::from_secs(1) {
        if let Ok(interval) = load.intervals().recv_timeout(Duration::from_millis(200)) {
            take_in(interval);
        }
    }
    load.stop();
    load.intervals().iter().for_each(take_in);
    let outcome = load.join().expect("it ran");
    assert_eq!(latency.count(), due - outcome.never_begun);
    // Those due in the first half of the freeze waited at least its other half.
    let half = frozen / 2;
    let waited: u64 = latency.buckets().filter(|(at, _)| *at >= half).map(|(_, count)| count).sum();
    let expected = RATE * half.as_secs_f64();
    assert!(waited as f64 >= expected - 8.0, "{waited} waited, {expected} were due");
    assert!(latency.max().expect("some") >= frozen - Duration::from_millis(10));
}

/// Takes intervals in until so many transactions have ended; the end of the last one.
fn until_ended(load: &Load, transactions: u64) -> Timestamp {
    let mut ended = 0;
    loop {
        let interval = load.intervals().recv_timeout(Duration::from_secs(30)).expect("an interval");
        ended += interval.scripts[0].transactions;
        if ended >= transactions {
            return interval.start.plus(interval.length);
        }
    }
}

/// Takes intervals in until one has passed in which nothing ended; the end of the last one.
fn until_still(load: &Load) -> Timestamp {
    loop {
        let interval = load.intervals().recv_timeout(Duration::from_secs(30)).expect("an interval");
        if interval.scripts[0].transactions == 0 {
            return interval.start.plus(interval.length);
        }
    }
}

#[test]
fn a_server_that_is_frozen_when_the_window_ends_shows_in_what_was_under_way() {
    let server = Server::start();
    let database = server.database();
    let postmaster = server.running().postmaster_pid();
    for open in [false, true] {
        let mut plan = plan(program(&["SELECT 1;"]), database.clone());
        plan.clients = 4;
        plan.threads = 2;
        if open {
            plan.arrival = Arrival::Open { rate: 500.0, gaps: Gaps::Even };
        }
        let load = Load::start(plan).expect("started");
        until_ended(&load, 50);
        signal("STOP", postmaster);
        let frozen = Instant::now();
        let end = until_still(&load);
        load.stop_at(end);
        let before = frozen.elapsed();
        // It is frozen as long again.
        std::thread::sleep(before);
        signal("CONT", postmaster);
        let outcome = load.join().expect("it ran");
        let under_way = &outcome.under_way;
        assert_eq!((under_way.unended_count(), under_way.failed_count()), (0, 0), "{under_way:?}");
        assert_eq!((outcome.unfinished, under_way.not_begun.count()), (0, 0), "{under_way:?}");
        let longest = under_way.longest().expect("some were under way");
        assert!(longest + Duration::from_millis(100) >= 2 * before, "{longest:?} of {before:?}");
        if open {
            // All that came due while it was frozen and before the window ended.
            let still = 500.0 * Duration::from_millis(100).as_secs_f64();
            assert!(under_way.ended_count() as f64 >= still - 8.0, "{under_way:?}");
            assert!(under_way.lag.max().expect("some began late") >= before);
        } else {
            assert_eq!(under_way.ended_count(), 4, "each client had one: {under_way:?}");
        }
    }
}

#[test]
fn a_server_that_stays_frozen_leaves_the_age_of_what_was_under_way() {
    let server = Server::start();
    let database = server.database();
    let postmaster = server.running().postmaster_pid();
    let mut plan = plan(program(&["SELECT 1;"]), database);
    plan.clients = 4;
    plan.arrival = Arrival::Open { rate: 500.0, gaps: Gaps::Even };
    plan.drain = Duration::from_millis(300);
    let drain = plan.drain;
    let load = Load::start(plan).expect("started");
    until_ended(&load, 50);
    signal("STOP", postmaster);
    let end = until_still(&load);
    load.stop_at(end);
    // The channel closes when the threads have ended, before the server is asked anything.
    while load.intervals().recv().is_ok() {}
    signal("CONT", postmaster);
    let outcome = load.join().expect("it ran");
    let under_way = &outcome.under_way;
    assert_eq!((under_way.unended_count(), outcome.unfinished), (4, 4), "{under_way:?}");
    assert_eq!(under_way.ended_count(), 0);
    let ages = &under_way.scripts[0].unended;
    assert!(ages.percentile(0.0).expect("four") >= drain, "{ages:?}");
    let waited = &under_way.not_begun;
    assert!(waited.count() > 0 && waited.count() <= outcome.never_begun, "{outcome:?}");
    assert!(waited.percentile(0.0).expect("some") >= drain, "{waited:?}");
}

#[test]
fn what_was_under_way_is_known_though_the_stop_comes_after_the_window() {
    let server = Server::shared();
    // Slow until some moment, and fast from then on.
    let turn = Timestamp::now().plus(Duration::from_millis(2_200));
    let script = format!(
        "SELECT pg_sleep(CASE WHEN extract(epoch FROM clock_timestamp()) < {}
         THEN 0.3 ELSE 0.005 END);",
        turn.0 as f64 / 1e6
    );
    let mut plan = plan(program(&[&script]), server.database());
    plan.clients = 6;
    plan.threads = 2;
    plan.interval = Duration::from_secs(1);
    let load = Load::start(plan).expect("started");
    let mut end = until_ended(&load, 1);
    while end.plus(Duration::from_secs(1)) < turn {
        end = until_ended(&load, 1);
    }
    // What was under way at the end of the window has ended, and others have begun.
    until("the slow ones have ended", || Timestamp::now() > turn.plus(Duration::from_millis(400)));
    load.stop_at(end);
    let outcome = load.join().expect("it ran");
    let under_way = &outcome.under_way;
    assert_eq!(under_way.ended_count(), 6, "one of each client: {under_way:?}");
    let shortest = under_way.scripts[0].ended.percentile(0.0).expect("six");
    assert!(shortest >= Duration::from_millis(300), "{under_way:?}");
    assert_eq!((under_way.unended_count(), under_way.not_begun.count()), (0, 0));
}

#[test]
fn a_stretch_in_which_nothing_ends_is_an_interval_without_transactions() {
    let server = Server::start();
    let database = server.database();
    let postmaster = server.running().postmaster_pid();
    let mut plan = plan(program(&["SELECT 1;"]), database);
    plan.clients = 2;
    let load = Load::start(plan).expect("started");
    until_ended(&load, 50);
    signal("STOP", postmaster);
    let still = until_still(&load);
    let next = load.intervals().recv_timeout(Duration::from_secs(30)).expect("an interval");
    signal("CONT", postmaster);
    assert_eq!((next.start, next.scripts[0].transactions), (still, 0));
    until_ended(&load, 50);
    load.stop();
    assert_eq!(load.join().expect("it ran").failures(), 0);
}

#[test]
fn clients_are_told_that_a_process_of_the_server_crashed() {
    let server = Server::start();
    let database = server.database();
    let mut plan = plan(program(&["SELECT pg_sleep(0.001);"]), database.clone());
    plan.clients = 3;
    let load = Load::start(plan).expect("started");
    until_ended(&load, 10);
    let writer = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'background writer'";
    let killed = Command::new("kill").args(["-KILL", &query(&database, writer)]).status();
    assert!(killed.expect("kill runs").success());
    until("all clients were told", || load.connected() == 0);
    until_ended(&load, 10);
    load.stop();
    let outcome = load.join().expect("it ran");
    assert_eq!(outcome.connections_lost, 3);
    let told = outcome.errors.of("57P02");
    assert!(told.iter().any(|text| text.contains("crash of another server process")), "{told:?}");
    assert_eq!(outcome.server_lost, None);
}

#[test]
fn what_keeps_a_load_from_starting_is_said() {
    // Of its own, since it is filled up.
    let server = Server::start();
    let start = |dbname: &str, clients| {
        let mut plan = plan(program(&["SELECT 1;"]), server.options(dbname));
        plan.clients = clients;
        Load::start(plan).expect("a sound plan").join().expect_err("cannot connect").to_string()
    };
    let error = start("nowhere", 3);
    assert!(error.contains("3D000") && error.contains("of 3 could not connect"), "{error}");
    let error = start("postgres", 100);
    assert!(error.contains("53300"), "{error}");

    let mut plan = plan(program(&["SELECT ':a';\n\\set a 1"]), server.options("postgres"));
    let quoted = Load::start(plan.clone()).expect_err("a variable in quotes");
    assert!(matches!(quoted, LoadError::Plan(PlanError::Script(_))), "{quoted}");
    plan.protocol = Protocol::Simple;
    plan.clients = 0;
    assert!(matches!(plan.check(), Err(PlanError::Clients(0))));
    plan.clients = 1;
    plan.mode = Mode::Lean;
    assert!(matches!(plan.check(), Err(PlanError::LeanNeedsPrepared)));
}

#[test]
fn stopping_waits_for_what_is_in_flight_but_not_for_ever() {
    let server = Server::shared();
    let mut plan = plan(program(&["SELECT pg_sleep(60);"]), server.options("postgres"));
    plan.clients = 2;
    plan.drain = Duration::from_millis(200);
    let load = Load::start(plan.clone()).expect("started");
    until_running(&load);
    load.intervals().recv_timeout(Duration::from_secs(10)).expect("an interval");
    load.stop();
    let outcome = load.join().expect("it ran");
    assert_eq!((outcome.unfinished, outcome.transactions()), (2, 0));
    assert!(outcome.ended.since(outcome.stopped) >= Duration::from_millis(190));

    plan.drain = Duration::from_secs(60);
    let load = Load::start(plan).expect("started");
    load.intervals().recv_timeout(Duration::from_secs(10)).expect("an interval");
    load.abort();
    assert_eq!(load.join().expect("it ran").unfinished, 2);
}

#[test]
fn the_driver_alone_has_a_ceiling_that_grows_with_its_threads() {
    let mut plan = plan(tpcb(), Server::shared().options("postgres"));
    plan.clients = 8;
    for mode in [Mode::Faithful, Mode::Lean] {
        plan.mode = mode;
        plan.threads = 1;
        let one = calibrate(&plan, Duration::from_millis(200)).expect("it runs");
        let one = one.expect("tpcb needs no results");
        assert!((one.ceiling / one.per_thread - 1.0).abs() < 1e-9, "{one:?}");
        let cost = 1.0 / one.cpu_per_transaction.as_secs_f64();
        assert!((one.per_thread / cost - 1.0).abs() < 0.01, "{one:?}");
        plan.threads = 1000;
        let all = calibrate(&plan, Duration::from_millis(200)).expect("it runs").expect("some");
        let processors = std::thread::available_parallelism().map_or(1, usize::from).min(8);
        assert!((all.ceiling / all.per_thread - processors as f64).abs() < 1e-9, "{all:?}");
    }
}

#[test]
fn what_needs_results_cannot_be_calibrated() {
    let plan =
        plan(program(&["SELECT 1 AS a \\gset\nSELECT :a;"]), Server::shared().options("postgres"));
    assert_eq!(calibrate(&plan, Duration::from_millis(100)).expect("it runs"), None);
}

#[test]
fn scripts_that_never_wait_for_the_server_can_be_stopped() {
    let server = Server::shared();
    for script in ["\\set x 1 + 1\n", "\\sleep 0 us\nSELECT 1;\n", "\\sleep 0 us\n"] {
        let mut plan = plan(program(&[script]), server.database());
        plan.clients = 2;
        let ran = run(plan, 100);
        assert!(ran.outcome.transactions() >= 100, "{script:?}: {:?}", ran.outcome);
        assert_eq!(ran.outcome.failures(), 0);
    }
}

#[test]
fn statements_that_a_cut_leaves_running_are_cancelled() {
    let server = Server::shared();
    let database = server.database();
    let mut plan = plan(program(&["SELECT pg_sleep(600);\n"]), database.clone());
    plan.clients = 3;
    plan.drain = Duration::from_millis(100);
    let asleep = "SELECT count(*) FROM pg_stat_activity
        WHERE state = 'active' AND query LIKE 'SELECT pg_sleep(600%'
          AND datname = current_database()";
    let load = Load::start(plan).expect("a plan that can be driven");
    until("all clients sleep", || number(&database, asleep) == 3);
    load.stop();
    assert_eq!(load.join().expect("a load that ran").unfinished, 3);
    until("none sleeps", || number(&database, asleep) == 0);
}
