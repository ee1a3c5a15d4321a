//! Clients that do not read, or write faster than the server takes it.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tokio_postgres::Client;

use crate::common::Testbed;
use crate::standby::{alter_system, until};

/// More than sockets and gateway keep together.
const MUCH: usize = 100_000_000;

/// A client of bytes alone, logged in, that has asked this.
fn asking(port: u16, sql: &str) -> TcpStream {
    asking_and(port, sql, b"")
}

/// The same, where more comes in one piece with what it asks.
fn asking_and(port: u16, sql: &str, more: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
    let startup = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0";
    let length = (startup.len() as u32 + 4).to_be_bytes();
    stream.write_all(&[&length[..], startup].concat()).expect("sent");
    let mut said = Vec::new();
    while !said.ends_with(b"Z\0\0\0\x05I") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("let in");
        said.extend(byte);
    }
    let length = (sql.len() as u32 + 5).to_be_bytes();
    let query = [b"Q", &length[..], sql.as_bytes(), b"\0", more].concat();
    stream.write_all(&query).expect("asked");
    stream
}

/// Waits until the server waits so for the client that asked this; its process.
async fn waiting(direct: &Client, wait: &str, like: &str) -> i32 {
    let sql = "SELECT pid FROM pg_stat_activity \
               WHERE wait_event = $1 AND query LIKE $2 AND pid <> pg_backend_pid()";
    loop {
        if let Some(row) = direct.query_opt(sql, &[&wait, &like]).await.expect("asked") {
            return row.get(0);
        }
    }
}

/// Waits until a process of the server has ended.
async fn gone(direct: &Client, process: i32) {
    let sql = "SELECT FROM pg_stat_activity WHERE pid = $1";
    while direct.query_opt(sql, &[&process]).await.expect("asked").is_some() {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_read_makes_the_server_wait_and_nobody_else() {
    let testbed = Testbed::new(&[], |_| {});
    let (direct, other) = (testbed.direct().await, testbed.client().await);
    let mut slow = asking(testbed.port(), &format!("SELECT repeat('x', {MUCH})"));
    let process = waiting(&direct, "ClientWrite", "SELECT repeat%").await;
    assert_eq!(other.query_one("SELECT 1", &[]).await.unwrap().get::<_, i32>(0), 1);
    direct.execute("SELECT pg_terminate_backend($1)", &[&process]).await.unwrap();
    // A backend that can go on sending does so before it ends.
    gone(&direct, process).await;
    let mut got = Vec::new();
    let ended = slow.read_to_end(&mut got);
    assert!(ended.is_ok() || ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset));
    assert!((1..MUCH).contains(&got.len()), "{}", got.len());
    // An error would be taken for a part of the row that it interrupts.
    let row = got.iter().position(|byte| *byte == b'x').expect("a row has begun");
    assert!(got[row..].iter().all(|byte| *byte == b'x'));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_server_does_not_take_is_not_taken_from_its_client() {
    let testbed = Testbed::new(&[], |_| {});
    let (direct, other) = (testbed.direct().await, testbed.client().await);
    direct
        .batch_execute(
            "CREATE TABLE t (a text); \
             CREATE FUNCTION waits() RETURNS trigger LANGUAGE plpgsql AS \
             'BEGIN PERFORM pg_sleep(600); RETURN NEW; END'; \
             CREATE TRIGGER waits BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION waits()",
        )
        .await
        .unwrap();
    let mut copies = asking(testbed.port(), "COPY t FROM STDIN");
    copies.set_write_timeout(Some(Duration::from_secs(3))).unwrap();
    let row = [&[b'x'; 65535][..], b"\n"].concat();
    let length = (row.len() as u32 + 4).to_be_bytes();
    let message = [b"d", &length[..], &row].concat();
    let sent = (0..MUCH / row.len()).take_while(|_| copies.write_all(&message).is_ok()).count();
    assert!(sent < MUCH / row.len(), "all of it is kept");
    assert_eq!(other.query_one("SELECT 1", &[]).await.unwrap().get::<_, i32>(0), 1);
    let process = waiting(&direct, "PgSleep", "COPY%").await;
    direct.execute("SELECT pg_terminate_backend($1)", &[&process]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_copied_before_the_server_asks_for_it_is_not_lost() {
    let testbed = Testbed::new(&[], |_| {});
    let direct = testbed.direct().await;
    direct.batch_execute("CREATE TABLE t (a text)").await.unwrap();
    for rows in 1..=20 {
        let data = b"d\0\0\0\x06x\nc\0\0\0\x04";
        let mut copies = asking_and(testbed.port(), "COPY t FROM STDIN", data);
        let mut said = Vec::new();
        while !said.ends_with(b"Z\0\0\0\x05I") {
            let mut byte = [0];
            copies.read_exact(&mut byte).expect("an answer");
            said.extend(byte);
        }
        let count = direct.query_one("SELECT count(*) FROM t", &[]).await.unwrap();
        assert_eq!(count.get::<_, i64>(0), rows);
    }
}

/// Bytes that are taken of a client before nothing more of it is, for a second.
fn taken(mut stream: TcpStream, bytes: &[u8]) -> usize {
    stream.set_nonblocking(true).expect("set");
    let (mut sent, mut in_vain) = (0, 0);
    while sent < bytes.len() && in_vain < 200 {
        match stream.write(&bytes[sent..]) {
            Ok(count) => (sent, in_vain) = (sent + count, 0),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                in_vain += 1;
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => panic!("it is not disconnected: {error}"),
        }
    }
    sent
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_behind_a_statement_is_bounded_in_bytes() {
    let testbed = Testbed::new(&[], |_| {});
    let client = asking(testbed.port(), "SELECT pg_sleep(600)");
    let text = format!("SELECT '{}'", "x".repeat(4_000_000));
    let length = (text.len() as u32 + 5).to_be_bytes();
    let query = [b"Q", &length[..], text.as_bytes(), b"\0"].concat();
    let all = query.repeat(20);
    let taken = tokio::task::block_in_place(|| taken(client, &all));
    assert!(taken < all.len() / 2, "{taken} of {}", all.len());
}

/// Sends and reads as fast as the gateway does, until the guard is dropped or nobody listens.
struct Flood {
    stream: TcpStream,
}

impl Flood {
    fn of(stream: TcpStream, bytes: Vec<u8>) -> Flood {
        let (mut reader, mut writer) = (stream.try_clone().unwrap(), stream.try_clone().unwrap());
        std::thread::spawn(move || while writer.write_all(&bytes).is_ok() {});
        std::thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while reader.read(&mut buffer).is_ok_and(|count| count > 0) {}
        });
        Flood { stream }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_never_stops_asking_leaves_others_their_turn() {
    let testbed = Testbed::new(&[], |options| options.workers = 1);
    let other = testbed.client().await;
    let syncs = b"S\0\0\0\x04".repeat(1 << 14);
    let _floods: Vec<Flood> =
        (0..2).map(|_| Flood::of(asking(testbed.port(), "SELECT 1"), syncs.clone())).collect();
    let answers = async {
        for _ in 0..20 {
            other.query_one("SELECT 1", &[]).await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(60), answers).await.expect("answered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_withheld_of_a_long_answer_is_bounded() {
    let testbed = Testbed::new(&[], |_| {});
    let direct = testbed.direct().await;
    direct.batch_execute("CREATE TABLE t (n int)").await.unwrap();
    direct.batch_execute("SET synchronous_commit = local").await.unwrap();
    // No flush counts until somebody confirms it.
    alter_system(&direct, "synchronous_standby_names", "nobody").await;
    let writer = testbed.client().await;
    let insert =
        tokio::spawn(async move { writer.batch_execute("INSERT INTO t VALUES (1)").await });
    let waits = "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    until(&direct, waits).await;
    let reader = asking(testbed.port(), "SELECT repeat('x', 1000) FROM generate_series(1, 100000)");
    let stalled = async {
        let sql = "SELECT count(*) FROM pg_stat_activity \
                   WHERE wait_event = 'ClientWrite' AND query LIKE 'SELECT repeat%'";
        let mut in_a_row = 0;
        while in_a_row < 200 {
            let waits: i64 = direct.query_one(sql, &[]).await.expect("asked").get(0);
            in_a_row = if waits == 1 { in_a_row + 1 } else { 0 };
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), stalled).await.expect("the server keeps it");
    alter_system(&direct, "synchronous_standby_names", "").await;
    insert.await.unwrap().expect("it is durable");
    // What was withheld is told, and the rest after it.
    let mut reader = reader;
    let (mut got, mut piece) = (0, vec![0; 1 << 16]);
    while got < MUCH {
        match tokio::task::block_in_place(|| reader.read(&mut piece)).expect("it goes on") {
            0 => break,
            count => got += count,
        }
    }
    assert!(got >= MUCH, "{got}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn notifications_that_nobody_reads_are_left_to_the_server() {
    let testbed = Testbed::new(&[], |_| {});
    let listener = asking(testbed.port(), "LISTEN news");
    let direct = testbed.direct().await;
    let listens = "SELECT count(*) FROM pg_stat_activity WHERE query = 'LISTEN news'";
    while direct.query_one(listens, &[]).await.unwrap().get::<_, i64>(0) == 0 {}
    // 160 MB, of which the server keeps what is not read.
    let notify = "SELECT count(pg_notify('news', n || repeat('x', 7900))) \
                  FROM generate_series(1, 2000) AS n";
    for _ in 0..10 {
        direct.query_one(notify, &[]).await.unwrap();
    }
    let usage = "SELECT pg_notification_queue_usage()";
    let kept = tokio::time::timeout(Duration::from_secs(60), async {
        // What the gateway took it would have taken by now, or goes on to take.
        let mut last = -1.0;
        loop {
            let now: f64 = direct.query_one(usage, &[]).await.unwrap().get(0);
            if now == last {
                return now;
            }
            last = now;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    });
    assert!(kept.await.expect("it settles") > 0.0, "the gateway has all of it");
    drop(listener);
}
