//! What is written is what was given, on each path.

use std::time::{Duration, SystemTime};

use postgres_types::{Json, ToSql};
use serde_json::{Value, json};
use walwright_coalesce::{
    Coalescer, Conflict, Durability, Idempotency, Lanes, Options, TableOptions, TextRow, Values,
};
use walwright_server::Major;

use crate::common::Testbed;

pub struct Event {
    pub id: i64,
    pub kind: String,
    pub payload: Option<Json<Value>>,
}

walwright_coalesce::row!(Event { id, kind, payload });

pub fn event(id: i64) -> Event {
    Event { id, kind: format!("kind {id}"), payload: Some(Json(json!({ "n": id }))) }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_row_is_there_when_it_is_answered() {
    let testbed = Testbed::new().await;
    let events = Coalescer::<Event>::connect(&testbed.url(), "events", Options::default())
        .await
        .expect("connected");
    events.write(event(-1)).await.expect("written");
    assert_eq!(testbed.count("events").await, 1);
    let writers = (0..64).map(|writer| {
        let events = events.clone();
        tokio::spawn(async move {
            for n in 0..50 {
                events.write(event(writer * 1000 + n)).await.expect("written");
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("no panic");
    }
    assert_eq!(testbed.count("events").await, 1 + 64 * 50);
    let wrong = "SELECT count(*) FROM events
                 WHERE kind <> 'kind ' || id OR payload <> jsonb_build_object('n', id)";
    assert_eq!(testbed.one::<i64>(wrong).await, 0);
    // Fewer transactions than rows, or nothing was coalesced.
    let transactions = "SELECT count(DISTINCT xmin::text) FROM events";
    assert!(testbed.one::<i64>(transactions).await < 64 * 25);
    assert!(events.close(Duration::from_secs(10)).await.is_empty());
}

const TYPES: &str = "
    CREATE TYPE mood AS ENUM ('fine', 'grim');
    CREATE DOMAIN positive AS int CHECK (VALUE > 0);
    CREATE TYPE pair AS (a int, b text);
    CREATE TABLE typed (
        n bigint GENERATED ALWAYS AS IDENTITY, gone int,
        uuid uuid, text text, code char(4), short varchar(8), flag bool, small smallint,
        real real, bytes bytea, json json, jsonb jsonb, at timestamptz, day date,
        number numeric, mood mood, positive positive, ints int[], texts text[], moods mood[],
        pair pair, twice int GENERATED ALWAYS AS (positive * 2) STORED, made text DEFAULT 'here'
    );
    ALTER TABLE typed DROP COLUMN gone";

const TYPED: [&str; 19] = [
    "uuid", "text", "code", "short", "flag", "small", "real", "bytes", "json", "jsonb", "at",
    "day", "number", "mood", "positive", "ints", "texts", "moods", "pair",
];

fn typed() -> TextRow {
    let fields = [
        "5a5a5a5a-5a5a-4a5a-8a5a-5a5a5a5a5a5a",
        "a\tb\\c\nd\u{fc}",
        "ab",
        "12345678",
        "t",
        "-7",
        "1.5",
        "\\x0001ff",
        "{\"a\": 1}",
        "{\"b\": [1, 2]}",
        "2024-02-29 01:02:03.456789+00",
        "2024-02-29",
        "123456789012345678901234567890.5",
        "grim",
        "7",
        "{1,NULL,3}",
        "{a,\"b,c\"}",
        "{fine,grim}",
        "(1,\"x y\")",
    ];
    TextRow(fields.iter().map(|field| Some((*field).to_owned())).collect())
}

/// As text, by each path, and NULLs.
#[tokio::test(flavor = "multi_thread")]
async fn every_type_can_be_written_as_text() {
    let testbed = Testbed::new().await;
    testbed.client.batch_execute(TYPES).await.expect("types");
    let typed_rows = Coalescer::<TextRow>::connect_to(
        &testbed.url(),
        "typed",
        &TYPED,
        Options { connections: 1, ..Options::default() },
    )
    .await
    .expect("connected");
    let nulls = || TextRow(vec![None; TYPED.len()]);
    // One by INSERT, some by unnest, many by COPY.
    typed_rows.write(typed()).await.expect("written");
    for rows in [6, 3000] {
        let mut tickets = Vec::new();
        for n in 0..rows {
            let row = if n % 2 == 0 { typed() } else { nulls() };
            tickets.push(typed_rows.enqueue(row).await.expect("room"));
        }
        for ticket in tickets {
            ticket.await.expect("written");
        }
    }
    let distinct = "SELECT count(*) FROM (SELECT to_jsonb(t) - 'n' FROM typed t GROUP BY 1) g";
    assert_eq!(testbed.one::<i64>(distinct).await, 2);
    let row: String = testbed.one("SELECT (to_jsonb(t) - 'n')::text FROM typed t LIMIT 1").await;
    let row: Value = serde_json::from_str(&row).expect("JSON");
    assert_eq!(row["text"], "a\tb\\c\nd\u{fc}");
    assert_eq!(row["code"], "ab  ");
    assert_eq!(row["ints"], json!([1, null, 3]));
    assert_eq!(row["pair"], json!({ "a": 1, "b": "x y" }));
    assert_eq!(row["twice"], 14);
    assert_eq!(row["made"], "here");
}

fn values(n: i32) -> Values {
    let number: Option<i32> = (n % 3 != 0).then_some(n);
    let values: Vec<Box<dyn ToSql + Sync + Send>> = vec![
        Box::new(format!("text {n}")),
        Box::new("ab"),
        Box::new(n % 2 == 0),
        Box::new(SystemTime::UNIX_EPOCH),
        Box::new(n + 1),
        Box::new(vec![Some(n), None]),
        Box::new(vec!["a", "b"]),
        Box::new(number.map(|n| n as i16)),
    ];
    Values(values)
}

/// Arrays and domains in binary, which `unnest` would take apart.
#[tokio::test(flavor = "multi_thread")]
async fn values_are_written_in_binary_with_arrays_and_domains() {
    let testbed = Testbed::new().await;
    testbed.client.batch_execute(TYPES).await.expect("types");
    let columns = ["text", "code", "flag", "at", "positive", "ints", "texts", "small"];
    let rows = Coalescer::<Values>::connect_to(
        &testbed.url(),
        "typed",
        &columns,
        Options { connections: 1, ..Options::default() },
    )
    .await
    .expect("connected");
    rows.write(values(0)).await.expect("written");
    let mut tickets = Vec::new();
    for n in 1..=2500 {
        // Six that wait behind the first go by unnest, the rest by COPY.
        if n == 8 {
            for ticket in tickets.drain(..) {
                let ticket: walwright_coalesce::Ticket = ticket;
                ticket.await.expect("written");
            }
        }
        tickets.push(rows.enqueue(values(n)).await.expect("room"));
    }
    for ticket in tickets {
        ticket.await.expect("written");
    }
    let right = "SELECT count(*) FROM typed
                 WHERE text = 'text ' || (positive - 1) AND flag = ((positive - 1) % 2 = 0)
                 AND ints = ARRAY[positive - 1, NULL] AND texts = '{a,b}' AND code = 'ab'
                 AND small IS NOT DISTINCT FROM CASE WHEN (positive - 1) % 3 <> 0
                     THEN positive - 1 END AND at = 'epoch' AND made = 'here'";
    assert_eq!(testbed.one::<i64>(right).await, 2501);
}

/// Upserts: the last of a batch wins, and rows that are there stay where that was asked for.
#[tokio::test(flavor = "multi_thread")]
async fn conflicts_are_ignored_or_update() {
    let testbed = Testbed::new().await;
    testbed
        .client
        .batch_execute("CREATE TABLE latest (LIKE events INCLUDING ALL)")
        .await
        .expect("a table");
    let options = |conflict| Options {
        connections: 1,
        table: TableOptions { conflict, order: vec!["id".into()] },
        ..Options::default()
    };
    let url = testbed.url();
    let key = || vec!["id".to_owned()];
    for (table, conflict, kept) in
        [("latest", Conflict::Update(key()), "last"), ("events", Conflict::Ignore(key()), "first")]
    {
        let events =
            Coalescer::<Event>::connect(&url, table, options(conflict)).await.expect("connected");
        events.write(Event { kind: "first".into(), ..event(0) }).await.expect("written");
        let mut tickets = Vec::new();
        for n in 0..5000 {
            let kind = match n {
                0..500 => "first",
                4500.. => "last",
                _ => "middle",
            };
            let row = Event { kind: kind.into(), ..event(n % 500) };
            tickets.push(events.enqueue(row).await.expect("room"));
        }
        for ticket in tickets {
            ticket.await.expect("written");
        }
        let right = format!("SELECT count(*) FROM {table} WHERE kind = '{kept}'");
        assert_eq!(testbed.one::<i64>(&right).await, 500, "{table}");
        assert_eq!(testbed.count(table).await, 500);
    }
}

/// Several tables in one transaction, on each version, with a record for each connection.
#[tokio::test(flavor = "multi_thread")]
async fn one_coalescer_writes_many_tables_on_every_version() {
    for major in [Major::V14, Major::V15, Major::V16, Major::V17, Major::V18] {
        let testbed = Testbed::of(major, &[]).await;
        testbed
            .client
            .batch_execute(
                "CREATE TABLE parts (LIKE events INCLUDING DEFAULTS) PARTITION BY HASH (id);
                 CREATE TABLE parts_0 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 0);
                 CREATE TABLE parts_1 PARTITION OF parts FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
            )
            .await
            .expect("tables");
        let lanes = Lanes { table: "walwright_lanes".into(), create: true, source: None };
        let options = Options { idempotency: Idempotency::Lanes(lanes), ..Options::default() };
        let events = Coalescer::<Event>::connect(&testbed.url(), "events", options)
            .await
            .expect("connected");
        let parts = events.table::<Event>("parts", TableOptions::default()).await.expect("a table");
        let mut tickets = Vec::new();
        for n in 0..1000 {
            tickets.push(events.enqueue(event(n)).await.expect("room"));
            tickets.push(parts.enqueue(event(n)).await.expect("room"));
        }
        for ticket in tickets {
            ticket.await.expect("written");
        }
        assert_eq!(testbed.count("events").await, 1000);
        assert_eq!(testbed.count("parts").await, 1000);
        drop(parts);
        assert!(events.close(Duration::from_secs(10)).await.is_empty());
        assert_eq!(testbed.count("walwright_lanes").await, 0);
    }
}

/// An acknowledgement means durable unless the opposite was asked for by name.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_does_not_wait_for_flushes_is_made_to() {
    let testbed = Testbed::new().await;
    testbed
        .client
        .batch_execute(
            "ALTER ROLE postgres SET synchronous_commit = off;
             CREATE TABLE levels (level text DEFAULT current_setting('synchronous_commit'), n int)",
        )
        .await
        .expect("a role");
    for (durability, level) in [
        (Durability::Session, "on"),
        (Durability::Off, "off"),
        (Durability::RemoteApply, "remote_apply"),
    ] {
        let options = Options { durability, ..Options::default() };
        let rows = Coalescer::<Values>::connect_to(&testbed.url(), "levels", &["n"], options)
            .await
            .expect("connected");
        rows.write(Values(vec![Box::new(1)])).await.expect("written");
        let last = "SELECT level FROM levels ORDER BY ctid DESC LIMIT 1";
        assert_eq!(testbed.one::<String>(last).await, level);
    }
}

/// COPY cannot be had where rows have a policy.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_with_row_security_is_written_without_copy() {
    let testbed = Testbed::new().await;
    testbed
        .client
        .batch_execute(
            "CREATE ROLE app LOGIN; GRANT INSERT ON events TO app;
             ALTER TABLE events ENABLE ROW LEVEL SECURITY;
             CREATE POLICY small ON events FOR INSERT TO app WITH CHECK (id <> 1500)",
        )
        .await
        .expect("a policy");
    let url = testbed.url().replace("user=postgres", "user=app");
    let events =
        Coalescer::<Event>::connect(&url, "events", Options::default()).await.expect("connected");
    let mut tickets = Vec::new();
    for n in 0..3000 {
        tickets.push((n, events.enqueue(event(n)).await.expect("room")));
    }
    for (n, ticket) in tickets {
        let told = ticket.await;
        assert_eq!(told.is_ok(), n != 1500, "{n}: {told:?}");
    }
    assert_eq!(testbed.count("events").await, 2999);
}
