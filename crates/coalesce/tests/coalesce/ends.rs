//! Sessions that end, servers that restart, and the coalescer's own end.

use std::time::Duration;

use walwright_coalesce::{
    Coalescer, DeadLetters, Idempotency, Lanes, Options, Registry, Retry, TextRow, WriteError,
};

use crate::common::{Testbed, connect};
use crate::rows::{Event, event};

fn lanes(source: Option<&str>) -> Idempotency {
    Idempotency::Lanes(Lanes {
        table: "walwright_lanes".into(),
        create: true,
        source: source.map(str::to_owned),
    })
}

const TERMINATE: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
    WHERE application_name = 'walwright-coalesce'";

/// Sessions are terminated again and again under the load: with a record or a key every row is
/// written once, without either some may be unknown, and none is doubled.
#[tokio::test(flavor = "multi_thread")]
async fn terminated_sessions_lose_and_double_nothing() {
    let testbed = Testbed::new().await;
    testbed
        .client
        .batch_execute("CREATE TABLE loose (id bigint, kind text, payload jsonb)")
        .await
        .expect("a table");
    for (table, idempotency) in [
        ("loose", lanes(None)),
        ("events", Idempotency::Key(vec!["id".into()])),
        ("loose", Idempotency::None),
    ] {
        testbed.client.batch_execute("TRUNCATE loose, events").await.expect("truncated");
        let known = idempotency != Idempotency::None;
        let options = Options { idempotency, ..Options::default() };
        let events =
            Coalescer::<Event>::connect(&testbed.url(), table, options).await.expect("connected");
        let writers = (0..16).map(|writer| {
            let events = events.clone();
            tokio::spawn(async move {
                let mut unknown = Vec::new();
                for n in 0..200 {
                    let id = writer * 1000 + n;
                    match events.write(event(id)).await {
                        Ok(()) => {}
                        Err(WriteError::Unknown(_)) if !known => unknown.push(id),
                        Err(error) => panic!("{id}: {error}"),
                    }
                }
                unknown
            })
        });
        let writers = writers.collect::<Vec<_>>();
        // Each time some more are written, the sessions end.
        let (mut terminated, mut seen) = (0, 0);
        while writers.iter().any(|writer| !writer.is_finished()) {
            let written = testbed.count(table).await;
            if written >= seen + 150 {
                terminated += testbed.one::<i64>(TERMINATE).await;
                seen = written;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert!(terminated > 0);
        let mut unknown = Vec::new();
        for writer in writers {
            unknown.extend(writer.await.expect("no panic"));
        }
        let doubled = format!("SELECT count(*) - count(DISTINCT id) FROM {table}");
        assert_eq!(testbed.one::<i64>(&doubled).await, 0);
        let sql = format!("SELECT count(*) FROM {table} WHERE id <> ALL ($1)");
        let written = testbed.client.query_one(&sql, &[&unknown]).await.expect("a count");
        assert_eq!(written.get::<_, i64>(0), 16 * 200 - unknown.len() as i64);
    }
}

/// What does not pass within the time for retries is told, and is not in the table.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stays_away_is_told_when_the_time_is_over() {
    let testbed = Testbed::new().await;
    let options = Options {
        idempotency: lanes(None),
        retry: Retry { within: Duration::from_secs(2), ..Retry::default() },
        ..Options::default()
    };
    let events =
        Coalescer::<Event>::connect(&testbed.url(), "events", options).await.expect("connected");
    events.write(event(1)).await.expect("written");
    let Testbed { server, _base, .. } = testbed;
    let cluster = server.cluster().clone();
    tokio::task::spawn_blocking(|| server.stop_immediately())
        .await
        .expect("no panic")
        .expect("stopped");
    let away = events.write(event(2)).await;
    assert!(matches!(away, Err(WriteError::Failed(_) | WriteError::Unknown(_))), "{away:?}");
    let server = tokio::task::spawn_blocking(move || cluster.start()).await;
    let server = server.expect("no panic").expect("started");
    events.write(event(3)).await.expect("written");
    let url = format!(
        "host={} port={} user=postgres dbname=postgres",
        server.socket_dir().display(),
        server.port()
    );
    let sql = "SELECT string_agg(id::text, ' ' ORDER BY id) FROM events";
    let row = connect(&url).await.query_one(sql, &[]).await.expect("rows");
    assert_eq!(row.get::<_, &str>(0), "1 3");
}

/// Positions are marked in the rows' own transactions, whoever comes later learns them, and who
/// wrote before is put off.
#[tokio::test(flavor = "multi_thread")]
async fn positions_say_what_of_a_source_is_written() {
    let testbed = Testbed::new().await;
    let connect = || {
        let options = Options { idempotency: lanes(Some("a file")), ..Options::default() };
        let url = testbed.url();
        async move {
            Coalescer::<TextRow>::connect_to(&url, "events", &["id", "kind"], options)
                .await
                .expect("connected")
        }
    };
    let row = |n: u64| TextRow(vec![Some(n.to_string()), Some("a".into())]);
    let first = connect().await;
    assert!(first.positions_done().is_empty());
    let mut tickets = Vec::new();
    for n in (0..300).chain(400..500) {
        tickets.push(first.enqueue_at(row(n), n * 10..n * 10 + 10).await.expect("room"));
    }
    for ticket in tickets {
        ticket.await.expect("written");
    }
    let second = connect().await;
    assert_eq!(second.positions_done(), [0..3000, 4000..5000]);
    let displaced = first.write(row(1000)).await;
    assert!(matches!(displaced, Err(WriteError::Failed(_))), "{displaced:?}");
    second.enqueue_at(row(300), 3000..4000).await.expect("room").await.expect("written");
    let third = connect().await;
    assert_eq!(third.positions_done(), std::slice::from_ref(&(0..5000)));
    assert_eq!(testbed.count("events").await, 401);
}

/// A row that is refused and kept nowhere is read again by whoever comes later, until its writer
/// says that it need not be.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_row_is_done_when_its_writer_says_so() {
    let testbed = Testbed::new().await;
    let connect = || async {
        let options = Options { idempotency: lanes(Some("a file")), ..Options::default() };
        let columns = ["id", "kind"];
        let events =
            Coalescer::<TextRow>::connect_to(&testbed.url(), "events", &columns, options).await;
        events.expect("connected")
    };
    let row = |id: &str| TextRow(vec![Some(id.into()), Some("a".into())]);
    let first = connect().await;
    let mut tickets = Vec::new();
    for (n, id) in ["1", "x", "2", "1", "3"].into_iter().enumerate() {
        let n = n as u64;
        tickets.push(first.enqueue_at(row(id), n..n + 1).await.expect("room"));
    }
    let mut answers = Vec::new();
    for ticket in tickets {
        answers.push(matches!(ticket.await, Err(WriteError::Refused(_))));
    }
    assert_eq!(answers, [false, true, false, true, false]);
    let second = connect().await;
    assert_eq!(second.positions_done(), [0..1, 2..3, 4..5]);
    second.mark_done(&(1..2));
    second.enqueue_at(row("4"), 5..6).await.expect("room").await.expect("written");
    let third = connect().await;
    assert_eq!(third.positions_done(), [0..3, 4..6]);
    third.mark_done(&(3..4));
    assert!(third.close(Duration::from_secs(60)).await.is_empty());
    assert_eq!(connect().await.positions_done(), std::slice::from_ref(&(0..6)));
}

/// The connection is lost at the COMMIT of a batch that was taken apart: that it is found written
/// says nothing of the row that it left out, and does not keep that row's dead letter twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_row_is_refused_whatever_becomes_of_the_commit() {
    let testbed = Testbed::new().await;
    let standby = async |sql: &str| {
        testbed.client.batch_execute(sql).await.expect("altered");
        testbed.client.batch_execute("SELECT pg_reload_conf()").await.expect("reloaded");
    };
    let terminate = format!("{TERMINATE} AND wait_event = 'SyncRep'");
    for idempotency in [lanes(None), Idempotency::Key(vec!["id".into()])] {
        let dead_letters = DeadLetters::Table { name: "dead".into(), create: true };
        let options = Options { idempotency, dead_letters, ..Options::default() };
        let columns = ["id", "kind"];
        let events =
            Coalescer::<TextRow>::connect_to(&testbed.url(), "events", &columns, options).await;
        let events = events.expect("connected");
        // Each COMMIT waits for a standby that there is not.
        standby("ALTER SYSTEM SET synchronous_standby_names = 'nobody'").await;
        // They do once the checkpointer has read of it, which a commit of another session shows.
        let other = connect(&testbed.url()).await;
        let commits = tokio::spawn(async move {
            let commit = "SELECT pg_logical_emit_message(true, '', '')";
            while other.batch_execute(commit).await.is_ok() {}
        });
        let waits = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
            WHERE wait_event = 'SyncRep'";
        while testbed.one::<i64>(waits).await == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        commits.await.expect("ended");
        let row = TextRow(vec![Some("x".into()), Some("a".into())]);
        let ticket = events.enqueue(row).await.expect("room");
        while testbed.one::<i64>(&terminate).await == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        standby("ALTER SYSTEM RESET synchronous_standby_names").await;
        let told = ticket.await;
        assert!(matches!(told, Err(WriteError::Refused(_))), "{told:?}");
        assert_eq!(
            testbed
                .one::<i64>("WITH d AS (DELETE FROM dead RETURNING 1) SELECT count(*) FROM d")
                .await,
            1
        );
    }
}

/// What cannot be written by the deadline is given back.
#[tokio::test(flavor = "multi_thread")]
async fn close_writes_what_waits_and_gives_back_the_rest() {
    let testbed = Testbed::new().await;
    let events = || async {
        let options = Options { connections: 1, ..Options::default() };
        Coalescer::<Event>::connect(&testbed.url(), "events", options).await.expect("connected")
    };
    let closed = events().await;
    let mut registry = Registry::default();
    closed.register(&mut registry);
    let tickets = [closed.enqueue(event(1)).await, closed.enqueue(event(2)).await];
    let after = closed.clone();
    assert!(closed.close(Duration::from_secs(60)).await.is_empty());
    for ticket in tickets {
        ticket.expect("room").await.expect("written");
    }
    assert_eq!(after.write(event(3)).await, Err(WriteError::Closed));

    let stuck = events().await;
    testbed.client.batch_execute("BEGIN; LOCK TABLE events").await.expect("locked");
    let mut tickets = Vec::new();
    for n in 10..20 {
        tickets.push(stuck.enqueue(event(n)).await.expect("room"));
    }
    let left = stuck.close(Duration::from_millis(100)).await;
    assert_eq!(left.len(), 10);
    let ids = left.iter().map(|row| row.fields[0].clone().expect("an id"));
    let ids = ids.map(|id| i64::from_be_bytes(id.try_into().expect("eight bytes")));
    let mut ids = ids.collect::<Vec<_>>();
    ids.sort_unstable();
    assert_eq!(ids, (10..20).collect::<Vec<_>>());
    for ticket in tickets {
        let told = ticket.await;
        assert!(matches!(told, Err(WriteError::Unknown(_) | WriteError::Closed)), "{told:?}");
    }
    testbed.client.batch_execute("COMMIT").await.expect("unlocked");
}

/// A batch that is given up while it waits for a lock waits no longer at the server either: its
/// transaction would keep what the next attempt needs.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_is_given_up_is_cancelled_at_the_server() {
    let testbed = Testbed::new().await;
    let options = Options { batch_timeout: Duration::from_millis(200), ..Options::default() };
    let events =
        Coalescer::<Event>::connect(&testbed.url(), "events", options).await.expect("connected");
    let other = connect(&testbed.url()).await;
    other.batch_execute("BEGIN; LOCK TABLE events").await.expect("locked");
    assert!(matches!(events.write(event(1)).await, Err(WriteError::Unknown(_))));
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    let ended = async {
        while testbed.one::<i64>(waiting).await > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), ended).await.expect("cancelled");
    other.batch_execute("COMMIT").await.expect("unlocked");
    assert_eq!(testbed.count("events").await, 0);
}
