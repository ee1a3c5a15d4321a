//! Loads that run well: what they do in the database and what they count.

use std::time::Duration;

use walwright_driver::{Arrival, Gaps, LoadPlan, Mode, Protocol, ThinkTime};
use walwright_wire::ConnectOptions;

use crate::common::{Ran, Server, number, plan, program, query, run, tpcb, weighted};

/// Money is neither made nor lost, and every transaction left one row.
fn check_breakdown(options: &ConnectOptions, ran: &Ran) {
    let sums = query(
        options,
        "SELECT count(*) FROM (VALUES \
         ((SELECT sum(abalance) FROM pgbench_accounts)), \
         ((SELECT sum(tbalance) FROM pgbench_tellers)), \
         ((SELECT sum(bbalance) FROM pgbench_branches))) AS sums (sum) \
         WHERE sum IS NOT DISTINCT FROM (SELECT sum(delta) FROM pgbench_history)",
    );
    assert_eq!(sums, "3");
    let rows = number(options, "SELECT count(*) FROM pgbench_history");
    assert_eq!(rows as u64, ran.outcome.transactions());
}

/// Intervals, histograms and totals tell the same story.
fn check_counts(ran: &Ran) {
    assert_eq!(ran.outcome.unfinished, 0);
    let transactions = ran.sum(|interval| interval.scripts.iter().map(|s| s.transactions).sum());
    assert_eq!(transactions, ran.outcome.transactions());
    assert_eq!(ran.latency().count(), transactions);
    for pair in ran.intervals.windows(2) {
        assert_eq!(pair[0].start.plus(pair[0].length), pair[1].start, "no gap, no overlap");
    }
}

#[test]
fn every_protocol_and_mode_keeps_the_latency_breakdown() {
    let server = Server::shared();
    let cases = [
        (Protocol::Simple, Mode::Faithful, 1),
        (Protocol::Extended, Mode::Faithful, 2),
        (Protocol::Prepared, Mode::Faithful, 3),
        (Protocol::Prepared, Mode::Lean, 1),
        (Protocol::Prepared, Mode::Lean, 2),
    ];
    for (protocol, mode, threads) in cases {
        let database = server.tpcb_database();
        let mut plan = plan(tpcb(), database.clone());
        plan.clients = 7;
        plan.threads = threads;
        plan.protocol = protocol;
        plan.mode = mode;
        let ran = run(plan, 500);
        assert_eq!(ran.outcome.failures(), 0, "{:?}", ran.outcome.errors);
        check_breakdown(&database, &ran);
        check_counts(&ran);
        let statements = &ran.outcome.transactions();
        for statement in 0..7 {
            let known = ran.sum(|interval| interval.scripts[0].statements[statement].count());
            // In one round trip with others, no statement has a latency of its own.
            let expected = if mode == Mode::Lean { 0 } else { *statements };
            assert_eq!(known, expected, "{protocol:?} {mode:?} statement {statement}");
        }
        assert!(ran.intervals.iter().any(|interval| interval.driver_cpu > Duration::ZERO));
        assert!(ran.intervals.iter().all(|i| i.busiest_thread_cpu <= i.driver_cpu));
    }
}

#[test]
fn lean_mode_keeps_each_transaction_its_own() {
    let server = Server::shared();
    let database = server.database();
    query(&database, "CREATE TABLE t (x xid8, a int8, b int2)");
    let script = "\\set a random(1, 1000000000000)\n\\set b random(-32768, 32767)\n\
        INSERT INTO t VALUES (pg_current_xact_id(), :a, :b);\n\
        INSERT INTO t VALUES (pg_current_xact_id(), :a, :b);\n\
        BEGIN;\nINSERT INTO t VALUES (pg_current_xact_id(), :a, :b);\n\
        INSERT INTO t VALUES (pg_current_xact_id(), :a, :b);\nCOMMIT;\n";
    let mut plan = plan(program(&[script]), database.clone());
    plan.mode = Mode::Lean;
    let done = run(plan, 50).outcome.transactions() as i64;
    assert_eq!(number(&database, "SELECT count(*) FROM t"), 4 * done);
    assert_eq!(number(&database, "SELECT count(DISTINCT x) FROM t"), 3 * done);
}

#[test]
fn results_become_variables_and_decide() {
    let server = Server::shared();
    for mode in [Mode::Faithful, Mode::Lean] {
        let database = server.database();
        query(&database, "CREATE TABLE t (n int, odd bool); CREATE SEQUENCE s");
        let script = "SELECT nextval('s') AS n \\gset my_\n\
            BEGIN;\n\
            \\if :my_n % 2 = 1\n\
            INSERT INTO t VALUES (:my_n, true);\n\
            \\else\n\
            INSERT INTO t VALUES (:my_n, false);\n\
            \\endif\n\
            SELECT count(*) AS c FROM t WHERE n = :my_n \\aset\n\
            \\if :c <> 1\n\
            SELECT 1/0;\n\
            \\endif\n\
            END;\n";
        let mut plan = plan(program(&[script]), database.clone());
        plan.mode = mode;
        plan.clients = 3;
        let ran = run(plan, 100);
        assert_eq!(ran.outcome.failures(), 0, "{:?}", ran.outcome.errors);
        let right = number(&database, "SELECT count(*) FROM t WHERE odd = (n % 2 = 1)");
        assert_eq!(right as u64, ran.outcome.transactions());
        assert_eq!(number(&database, "SELECT count(*) FROM t"), right);
    }
}

#[test]
fn pipelines_are_one_transaction_a_sync() {
    let server = Server::shared();
    for mode in [Mode::Faithful, Mode::Lean] {
        let database = server.database();
        query(&database, "CREATE TABLE t (x xid8)");
        let insert = "INSERT INTO t VALUES (pg_current_xact_id());\n";
        let script = format!(
            "\\startpipeline\n{insert}{insert}\\syncpipeline\n{insert}\\sleep 1 ms\n{insert}\\endpipeline\n"
        );
        for protocol in [Protocol::Extended, Protocol::Prepared] {
            if mode == Mode::Lean && protocol == Protocol::Extended {
                continue;
            }
            query(&database, "TRUNCATE t");
            let mut plan = plan(program(&[&script]), database.clone());
            plan.mode = mode;
            plan.protocol = protocol;
            let done = run(plan, 20).outcome.transactions() as i64;
            assert_eq!(number(&database, "SELECT count(*) FROM t"), 4 * done);
            assert_eq!(number(&database, "SELECT count(DISTINCT x) FROM t"), 2 * done);
        }
    }
}

#[test]
fn weights_choose_scripts_and_scripts_are_counted_apart() {
    let server = Server::shared();
    let database = server.database();
    let program = weighted(&[("SELECT 1;", 3), ("SELECT 2;\nSELECT 3;", 1), ("SELECT 4;", 0)]);
    let mut plan = plan(program, database);
    plan.clients = 2;
    let ran = run(plan, 4000);
    let done: Vec<u64> = ran.outcome.scripts.iter().map(|script| script.transactions).collect();
    let share = done[0] as f64 / (done[0] + done[1]) as f64;
    assert!((share - 0.75).abs() < 0.05, "{done:?}");
    assert_eq!(done[2], 0);
    let statements = ran.sum(|interval| interval.scripts[1].statements[1].count());
    assert_eq!(statements, done[1]);
}

#[test]
fn large_results_and_large_values_pass() {
    let server = Server::shared();
    for mode in [Mode::Faithful, Mode::Lean] {
        let database = server.database();
        query(&database, "CREATE TABLE t (v text)");
        // The socket takes neither in one piece.
        let script = "SELECT repeat('x', 3000000) AS big \\gset\n\
            BEGIN;\nINSERT INTO t VALUES (:big);\nSELECT repeat(v, 3) FROM t;\nDELETE FROM t;\nEND;\n";
        let mut plan = plan(program(&[script]), database);
        plan.mode = mode;
        let ran = run(plan, 3);
        assert_eq!(ran.outcome.failures(), 0, "{:?}", ran.outcome.errors);
    }
}

#[test]
fn thinking_and_sleeping_take_their_time() {
    let server = Server::shared();
    let database = server.database();
    let mut plan = plan(program(&["\\sleep 20 ms\nSELECT 1;"]), database);
    plan.clients = 4;
    plan.arrival = Arrival::Closed { think: Some(ThinkTime::Fixed(Duration::from_millis(30))) };
    let ran = run(plan, 20);
    let lasted = ran.outcome.ended.since(ran.outcome.started);
    let most = 4.0 * (lasted.as_secs_f64() / 0.05).ceil();
    assert!(
        ran.outcome.transactions() as f64 <= most,
        "{} in {lasted:?}",
        ran.outcome.transactions()
    );
    // Sleeping belongs to the transaction, thinking does not.
    let shortest = ran.latency().min().unwrap();
    assert!(shortest >= Duration::from_millis(20), "{shortest:?}");
}

#[test]
fn a_ramp_lets_clients_begin_one_after_the_other() {
    let server = Server::shared();
    let mut plan = plan(program(&["SELECT 1;"]), server.database());
    plan.clients = 10;
    plan.threads = 2;
    plan.ramp = Duration::from_secs(1);
    let ran = run(plan, 5000);
    let clients: Vec<u32> = ran.intervals.iter().map(|interval| interval.clients).collect();
    assert!(clients[0] <= 2, "{clients:?}");
    let rising = clients.iter().take(10).zip(1..).all(|(clients, nth)| *clients <= nth);
    assert!(rising, "no sooner than planned: {clients:?}");
}

#[test]
fn the_same_seed_draws_the_same_numbers() {
    let server = Server::shared();
    let drawn = |threads| {
        let database = server.database();
        query(&database, "CREATE TABLE t (id serial, client int, n int)");
        let script =
            "\\set n random(1, 1000000)\nINSERT INTO t (client, n) VALUES (:client_id, :n);";
        let mut plan: LoadPlan = plan(program(&[script]), database.clone());
        plan.clients = 3;
        plan.threads = threads;
        plan.seed = 42;
        run(plan, 100);
        query(
            &database,
            "SELECT string_agg(first, ' ' ORDER BY client) FROM (SELECT client, \
             (array_agg(n ORDER BY id))[:5]::text AS first FROM t GROUP BY client) AS x",
        )
    };
    assert_eq!(drawn(1), drawn(3));
}

#[test]
fn an_open_loop_accounts_for_every_transaction_that_was_due() {
    let server = Server::shared();
    let database = server.database();
    for (gaps, limit) in [
        (Gaps::Even, None),
        (Gaps::Poisson, None),
        (Gaps::Poisson, Some(Duration::from_millis(30))),
    ] {
        let mut plan = plan(program(&["SELECT pg_sleep(0.01);"]), database.clone());
        plan.clients = 2;
        plan.threads = 2;
        // Twice what two clients can do.
        plan.arrival = Arrival::Open { rate: 400.0, gaps };
        plan.latency_limit = limit;
        // Too short for what has queued up.
        plan.drain = Duration::from_millis(100);
        let ran = run(plan, 100);
        let outcome = &ran.outcome;
        let accounted = outcome.transactions()
            + outcome.failures()
            + outcome.skipped
            + outcome.never_begun
            + outcome.unfinished;
        assert_eq!(outcome.due, accounted, "{outcome:?}");
        assert_eq!(ran.sum(|interval| interval.due), outcome.due);
        let begun = outcome.transactions() + outcome.unfinished;
        assert_eq!(ran.sum(|interval| interval.lag.count()), begun);
        let waiting = outcome.under_way.not_begun.count();
        assert!(waiting <= outcome.never_begun && outcome.never_begun - waiting <= 2);
        let span = outcome.stopped.since(outcome.started).as_secs_f64();
        let expected = 400.0 * span;
        let spread = if gaps == Gaps::Even { 2.0 } else { 5.0 * expected.sqrt() };
        assert!((outcome.due as f64 - expected).abs() <= spread, "{} in {span} s", outcome.due);
        match limit {
            None => assert!(outcome.never_begun > 0 && outcome.skipped == 0, "{outcome:?}"),
            Some(limit) => {
                assert!(outcome.skipped > 0, "{outcome:?}");
                let latency = ran.latency();
                // Buckets are named by their upper edge, at most 0.1 % above.
                let late = latency.buckets().filter(|(at, _)| *at > limit * 1002 / 1000);
                assert!(late.map(|(_, count)| count).sum::<u64>() <= outcome.late);
            }
        }
    }
}

#[test]
fn nothing_in_flight_is_lost_when_a_load_stops() {
    let server = Server::shared();
    let database = server.database();
    query(&database, "CREATE TABLE t (a int)");
    let script = "BEGIN;\nINSERT INTO t VALUES (1);\nSELECT pg_sleep(0.005);\nEND;";
    for _ in 0..3 {
        query(&database, "TRUNCATE t");
        let mut plan = plan(program(&[script]), database.clone());
        plan.clients = 8;
        plan.threads = 2;
        let ran = run(plan, 30);
        let rows = number(&database, "SELECT count(*) FROM t");
        assert_eq!(rows as u64, ran.outcome.transactions());
    }
}
