//! Rows that the server refuses, and their neighbours.

use std::collections::BTreeSet;

use walwright_coalesce::{
    Coalescer, ConnectError, DeadLetters, Idempotency, Lanes, Options, TableOptions, WriteError,
};

use crate::common::Testbed;
use crate::rows::{Event, event};

/// All and only the bad rows are refused, and kept with what was wrong with them.
#[tokio::test(flavor = "multi_thread")]
async fn bad_rows_go_to_the_dead_letters_and_their_neighbours_are_written() {
    let testbed = Testbed::new().await;
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("dead.ndjson");
    let table = DeadLetters::Table { name: "walwright_dead_letters".into(), create: true };
    let lanes = Lanes { table: "walwright_lanes".into(), create: true, source: None };
    let mut written = 0;
    for (dead_letters, idempotency) in [
        (table.clone(), Idempotency::None),
        (DeadLetters::File(file.clone()), Idempotency::None),
        (DeadLetters::None, Idempotency::None),
        (table, Idempotency::Lanes(lanes)),
    ] {
        testbed.client.batch_execute("TRUNCATE events").await.expect("truncated");
        let kept = dead_letters != DeadLetters::None;
        let options = Options { dead_letters, idempotency, ..Options::default() };
        let events = Coalescer::<Event>::connect(&testbed.url(), "events", options)
            .await
            .expect("connected");
        let mut tickets = Vec::new();
        for n in 0..3000 {
            // An empty kind violates a CHECK, a NUL cannot be stored, a repeated id is there.
            let row = match n {
                _ if n % 97 == 3 => Event { kind: String::new(), ..event(n) },
                _ if n % 101 == 5 => Event { kind: "a\0b".into(), ..event(n) },
                _ if n % 251 == 7 => event(n - 1),
                _ => event(n),
            };
            tickets.push((n, events.enqueue(row).await.expect("room")));
        }
        let mut refused = BTreeSet::new();
        for (n, ticket) in tickets {
            match ticket.await {
                Ok(()) => {}
                Err(WriteError::Refused(refusal)) => {
                    assert_eq!(refusal.dead_letter, kept);
                    let (state, constraint) = match n {
                        _ if n % 97 == 3 => ("23514", Some("events_kind_check")),
                        _ if n % 101 == 5 => ("22021", None),
                        _ => ("23505", Some("events_pkey")),
                    };
                    assert_eq!(refusal.sqlstate, state, "{n}: {refusal}");
                    assert_eq!(refusal.constraint.as_deref(), constraint);
                    refused.insert(n);
                }
                Err(error) => panic!("{n}: {error}"),
            }
        }
        let bad = (0..3000).filter(|n| n % 97 == 3 || n % 101 == 5 || n % 251 == 7);
        assert_eq!(refused, bad.collect());
        assert_eq!(testbed.count("events").await, 3000 - refused.len() as i64);
        written = refused.len();
        drop(events);
    }
    // Twice by table, once by file.
    let letters = testbed.count("walwright_dead_letters").await;
    assert_eq!(letters as usize, 2 * written);
    let told = "SELECT count(*) FROM walwright_dead_letters
                WHERE sqlstate = '23514' AND payload->>'kind' = '' AND payload->>'id' ~ '^[0-9]+$'";
    assert_eq!(testbed.one::<i64>(told).await, 2 * (3..3000).step_by(97).count() as i64);
    let lines = std::fs::read_to_string(&file).expect("a file");
    assert_eq!(lines.lines().count(), written);
}

/// What is wrong at the start is said with what to do.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_not_as_named_is_refused_at_the_start() {
    let testbed = Testbed::new().await;
    let connect = |table: &'static str, columns: &'static [&'static str], options| {
        let url = testbed.url();
        async move {
            let connected = Coalescer::<Event>::connect_to(&url, table, columns, options).await;
            connected.err().map(|error: ConnectError| error.to_string()).unwrap_or_default()
        }
    };
    let said = connect("event", &["id"], Options::default()).await;
    assert!(said.contains("table event: relation \"event\" does not exist"), "{said}");
    let said = connect("events", &["id", "nothing"], Options::default()).await;
    assert!(said.contains("has no column nothing; it has id, kind, payload, at"), "{said}");
    let lanes = Lanes { table: "walwright_lanes".into(), create: false, source: None };
    let options = Options { idempotency: Idempotency::Lanes(lanes), ..Options::default() };
    let said = connect("events", &["id"], options).await;
    assert!(said.contains("is not there. Create it:\nCREATE TABLE"), "{said}");
}

/// A table that is dropped takes no rows of another with it.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_other_tables_are_written_when_one_is_gone() {
    let testbed = Testbed::new().await;
    testbed.client.batch_execute("CREATE TABLE gone (LIKE events)").await.expect("a table");
    let options = Options { connections: 1, ..Options::default() };
    let events =
        Coalescer::<Event>::connect(&testbed.url(), "events", options).await.expect("connected");
    let gone = events.table::<Event>("gone", TableOptions::default()).await.expect("a table");
    testbed.client.batch_execute("DROP TABLE gone").await.expect("dropped");
    let mut tickets = Vec::new();
    for n in 0..200 {
        tickets.push((true, events.enqueue(event(n)).await.expect("room")));
        tickets.push((false, gone.enqueue(event(n)).await.expect("room")));
    }
    for (there, ticket) in tickets {
        match ticket.await {
            Ok(()) => assert!(there),
            Err(WriteError::Refused(refusal)) => assert!(!there && refusal.sqlstate == "42P01"),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(testbed.count("events").await, 200);
}

/// A constraint that is checked at the COMMIT refuses rows that a COPY has taken: none of them
/// may be answered before.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_checked_at_the_commit_is_answered_after_it() {
    let testbed = Testbed::new().await;
    let sql = "ALTER TABLE events ADD UNIQUE (kind) DEFERRABLE INITIALLY DEFERRED";
    testbed.client.batch_execute(sql).await.expect("altered");
    let options = Options { connections: 1, ..Options::default() };
    let events =
        Coalescer::<Event>::connect(&testbed.url(), "events", options).await.expect("connected");
    let mut tickets = Vec::new();
    for n in 0..3000 {
        let kind = if n == 1999 { "kind 7".to_owned() } else { event(n).kind };
        tickets.push((n, events.enqueue(Event { kind, ..event(n) }).await.expect("room")));
    }
    let mut refused = Vec::new();
    for (n, ticket) in tickets {
        match ticket.await {
            Ok(()) => {}
            Err(WriteError::Refused(_)) => refused.push(n),
            Err(error) => panic!("row {n}: {error}"),
        }
    }
    let row = testbed.client.query_one("SELECT count(*) FROM events", &[]).await.expect("rows");
    assert_eq!((row.get::<_, i64>(0), refused.len()), (2999, 1), "{refused:?}");
}
