//! What clients do beside running their scripts: when they are done, what an error ends, and
//! connections for single transactions.

use std::collections::BTreeMap;
use std::time::Duration;

use walwright_driver::{Arrival, Gaps, LoadLevel, LoadStage, Mode, OnError, PlanError};

use crate::common::{Server, number, plan, program, query, run_until};

#[test]
fn clients_that_have_done_their_transactions_end_the_load() {
    let server = Server::shared();
    for arrival in
        [Arrival::Closed { think: None }, Arrival::Open { rate: 500.0, gaps: Gaps::Even }]
    {
        for reconnect in [false, true] {
            let database = server.database();
            query(&database, "CREATE TABLE done (client int, pid int)");
            let script = "INSERT INTO done VALUES (:client_id, pg_backend_pid());\n";
            let mut plan = plan(program(&[script]), database.clone());
            plan.clients = 5;
            plan.threads = 2;
            plan.arrival = arrival;
            plan.rules.transactions = Some(20);
            plan.rules.reconnect = reconnect;
            // Nobody stops it.
            let ran = run_until(plan, |_| false);
            assert_eq!(ran.outcome.transactions(), 100, "{:?}", ran.outcome);
            assert_eq!((ran.outcome.failures(), ran.outcome.unfinished), (0, 0));
            assert_eq!(ran.sum(|interval| interval.scripts[0].transactions), 100);
            let each = "SELECT count(*) FROM (SELECT 1 FROM done GROUP BY client
                HAVING count(*) = 20) c";
            assert_eq!(number(&database, each), 5);
            let sessions = number(&database, "SELECT count(DISTINCT pid) FROM done");
            assert_eq!(sessions, if reconnect { 100 } else { 5 });
            // The first of each client runs on the connection that the load began with.
            let opened = if reconnect { 95 } else { 0 };
            assert_eq!(ran.outcome.connection_time.count(), opened);
            assert_eq!(ran.outcome.connections_lost, 0);
        }
    }
}

#[test]
fn latency_leaves_out_the_time_to_connect_unless_transactions_were_due() {
    let server = Server::shared();
    let mut plan = plan(program(&["SELECT 1;\n"]), server.database());
    plan.rules.transactions = Some(50);
    plan.rules.reconnect = true;
    let closed = run_until(plan.clone(), |_| false);
    // One client does one thing after the other: what it took cannot come to more than there was.
    let opened = &closed.outcome.connection_time;
    let opening = opened.mean().expect("some were opened").as_secs_f64() * opened.count() as f64;
    let running = closed.latency().mean().expect("some ended").as_secs_f64() * 50.0;
    let elapsed = closed.outcome.ended.since(closed.outcome.started).as_secs_f64();
    assert!(opening + running <= 1.02 * elapsed, "{opening} + {running} in {elapsed}");
    // All due at once: what comes later waits for all connections before it.
    plan.arrival = Arrival::Open { rate: 1e6, gaps: Gaps::Even };
    let open = run_until(plan, |_| false);
    let opening = open.outcome.connection_time.mean().expect("some were opened");
    assert!(open.latency().mean().expect("some ended") > opening);
}

#[test]
fn an_error_ends_its_client_or_the_load_where_that_is_asked() {
    let server = Server::shared();
    // Client 2 fails at once, and client 0 never.
    let script = "\\set n 1\n\\if :client_id = 2\n\\set n 0\n\\endif\nSELECT 1 / :n;\n";
    let of = |on_error| {
        let mut plan = plan(program(&[script]), server.database());
        plan.clients = 3;
        plan.rules.on_error = on_error;
        plan
    };
    let failed = |ran: &crate::common::Ran| ran.outcome.scripts[0].failures.clone();

    let ran = run_until(of(OnError::Continue), |done| done >= 300);
    assert!(failed(&ran)["22012"] > 1);
    assert_eq!((ran.outcome.clients_stopped, &ran.outcome.stopped_by), (0, &None));

    let ran = run_until(of(OnError::StopClient), |done| done >= 300);
    assert_eq!(failed(&ran), BTreeMap::from([("22012".to_owned(), 1)]));
    assert_eq!((ran.outcome.clients_stopped, &ran.outcome.stopped_by), (1, &None));
    assert!(ran.outcome.transactions() >= 299);

    // Nobody stops it but the error.
    let ran = run_until(of(OnError::Stop), |_| false);
    assert_eq!(failed(&ran), BTreeMap::from([("22012".to_owned(), 1)]));
    assert_eq!(ran.outcome.stopped_by.as_deref(), Some("22012"));
}

#[test]
fn a_load_without_clients_left_ends_and_serialization_failures_stop_none() {
    let server = Server::shared();
    let mut all = plan(program(&["SELECT 1 / 0;\n"]), server.database());
    all.clients = 4;
    all.threads = 2;
    all.rules.on_error = OnError::StopClient;
    let ran = run_until(all, |_| false);
    assert_eq!((ran.outcome.clients_stopped, ran.outcome.failures()), (4, 4));

    let script = "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '40001'; END $$;\n";
    let mut plan = plan(program(&[script]), server.database());
    plan.rules.on_error = OnError::StopClient;
    plan.drain = Duration::from_secs(5);
    let ran = run_until(plan, |done| done >= 10);
    assert_eq!(ran.outcome.clients_stopped, 0);
    assert!(ran.outcome.failures() >= 10);
}

#[test]
fn clients_rest_in_the_stages_that_are_without_them() {
    let server = Server::shared();
    let mut plan = plan(program(&["SELECT :client_id;\n"]), server.database());
    plan.clients = 3;
    plan.threads = 2;
    plan.interval = Duration::from_millis(100);
    let stage = |tenths: u64, clients| LoadStage {
        length: Duration::from_millis(100 * tenths),
        level: LoadLevel::Clients(clients),
    };
    plan.stages = vec![stage(4, 1), stage(4, 3), stage(4, 2)];
    let mut wrong = plan.clone();
    wrong.stages.push(stage(1, 4));
    assert!(matches!(wrong.check(), Err(PlanError::Stages)));
    let load = walwright_driver::Load::start(plan).expect("a plan that can be driven");
    let intervals: Vec<_> = load.intervals().iter().take(14).collect();
    load.stop();
    let outcome = load.join().expect("a load that ran");
    // At the end of an interval inside a stage its clients run, and no other.
    let clients: Vec<u32> = intervals.iter().map(|interval| interval.clients).collect();
    assert_eq!((clients[2], clients[6], clients[10], clients[13]), (1, 3, 2, 2), "{clients:?}");
    assert_eq!((outcome.failures(), outcome.unfinished, outcome.connections_lost), (0, 0, 0));
}

#[test]
fn what_a_session_has_forgotten_is_prepared_anew() {
    let server = Server::shared();
    for mode in [Mode::Faithful, Mode::Lean] {
        let mut plan = plan(program(&["SELECT :client_id;\nDISCARD ALL;\n"]), server.database());
        plan.mode = mode;
        plan.rules.transactions = Some(20);
        let ran = run_until(plan, |_| false);
        assert_eq!(ran.outcome.failures(), 0, "{mode:?}: {:?}", ran.outcome);
        assert_eq!(ran.outcome.transactions(), 20, "{mode:?}");
    }
}
