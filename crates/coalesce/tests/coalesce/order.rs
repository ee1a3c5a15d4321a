//! Order by key, and the caps.

use std::time::Duration;

use walwright_coalesce::{Capacity, Coalescer, Conflict, Flush, Options, TableOptions, WriteError};

use crate::common::Testbed;
use crate::rows::{Event, event};

/// The last that was given of each key is the last that was written, over several connections.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_one_key_are_written_in_their_order() {
    let testbed = Testbed::new().await;
    testbed
        .client
        .batch_execute("CREATE TABLE seen (n bigserial, id bigint, kind text, payload jsonb)")
        .await
        .expect("a table");
    let options = Options {
        connections: 4,
        flush: Flush { rows: 7, ..Flush::default() },
        table: TableOptions { conflict: Conflict::Error, order: vec!["id".into()] },
        ..Options::default()
    };
    let seen =
        Coalescer::<Event>::connect(&testbed.url(), "seen", options).await.expect("connected");
    let mut tickets = Vec::new();
    for n in 0..4000_i64 {
        let row = Event { kind: format!("{n:05}"), ..event(n % 13) };
        tickets.push(seen.enqueue(row).await.expect("room"));
    }
    for ticket in tickets {
        ticket.await.expect("written");
    }
    let overtaken = "SELECT count(*) FROM (
        SELECT kind < lag(kind) OVER (PARTITION BY id ORDER BY n) AS wrong FROM seen) w WHERE wrong";
    assert_eq!(testbed.one::<i64>(overtaken).await, 0);
    assert_eq!(testbed.count("seen").await, 4000);
}

/// At the cap `try_write` refuses, `write_within` gives up, `write` waits, and nothing is lost.
#[tokio::test(flavor = "multi_thread")]
async fn at_the_cap_writers_wait_or_are_refused() {
    let testbed = Testbed::new().await;
    let options = Options {
        connections: 1,
        capacity: Capacity { rows: 10, bytes: 1 << 20 },
        ..Options::default()
    };
    let events =
        Coalescer::<Event>::connect(&testbed.url(), "events", options).await.expect("connected");
    // The server takes nothing while the table is locked.
    testbed.client.batch_execute("BEGIN; LOCK TABLE events").await.expect("locked");
    let mut tickets = Vec::new();
    for n in 0..10 {
        tickets.push(events.try_enqueue(event(n)).expect("room"));
    }
    let refused = events.try_write(event(10)).await;
    assert!(matches!(refused, Err(WriteError::Full { rows: 10, .. })), "{refused:?}");
    let refused = events.write_within(event(10), Duration::from_millis(20)).await;
    assert!(matches!(refused, Err(WriteError::Full { .. })), "{refused:?}");
    let waiting = tokio::spawn({
        let events = events.clone();
        async move { events.write(event(10)).await }
    });
    testbed.client.batch_execute("COMMIT").await.expect("unlocked");
    waiting.await.expect("no panic").expect("written");
    for ticket in tickets {
        ticket.await.expect("written");
    }
    assert_eq!(testbed.count("events").await, 11);
    assert_eq!(events.waiting(), (0, 0));
    let large = Event { kind: "x".repeat(2 << 20), ..event(11) };
    let refused = events.write(large).await;
    assert!(matches!(refused, Err(WriteError::Row(_))), "{refused:?}");
}
