//! What a client says or asks for may harm itself, and nobody else.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;

use crate::common::Testbed;
use crate::console::{Rows, console, show};

/// What a client that is let in is told after these bytes, until its connection ends.
fn told(port: u16, bytes: &[u8]) -> String {
    let mut client = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    client.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
    let startup =
        b"\0\0\0\x33\0\x03\0\0user\0postgres\0client_encoding\0UTF8\0database\0postgres\0\0";
    let length = u32::try_from(startup.len()).expect("short").to_be_bytes();
    client.write_all(&[&length[..], &startup[4..]].concat()).expect("sent");
    let mut heard = Vec::new();
    let mut piece = [0; 4096];
    while !heard.ends_with(b"Z\0\0\0\x05I") {
        let count = client.read(&mut piece).expect("let in");
        assert!(count > 0, "{}", String::from_utf8_lossy(&heard));
        heard.extend_from_slice(&piece[..count]);
    }
    client.write_all(bytes).expect("sent");
    heard.clear();
    // A connection that is reset has ended too.
    let _ = client.read_to_end(&mut heard);
    String::from_utf8_lossy(&heard).into_owned()
}

/// Adds a message to what is sent.
fn add(bytes: &mut Vec<u8>, tag: u8, body: &str) {
    bytes.push(tag);
    bytes.extend((body.len() as u32 + 4).to_be_bytes());
    bytes.extend(body.as_bytes());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_server_ends_sessions_for_does_not_reach_it() {
    let testbed = Testbed::new(&[], |options| {
        options.pooling.size = 1;
        options.workers = 1;
    });
    let other = testbed.client().await;
    let process = "SELECT pg_backend_pid()";
    let first: i32 = other.query_one(process, &[]).await.unwrap().get(0);
    for tag in *b"CDEHScfp" {
        // It would wait for the rest of a message that it takes.
        let length = 10_001_u32.to_be_bytes();
        let bytes = [&[tag][..], &length].concat();
        let said = tokio::task::block_in_place(|| told(testbed.port(), &bytes));
        assert!(said.contains("C08P01"), "{}: {said}", char::from(tag));
    }
    let proof = [&b"p\0\0\0\x08none"[..], b"S\0\0\0\x04"].concat();
    let said = tokio::task::block_in_place(|| told(testbed.port(), &proof));
    assert!(said.contains("C08P01"), "{said}");
    // The server may forget what was executed before the Query.
    let execute = b"E\0\0\0\x09\0\0\0\0\0";
    let unsynced = [&execute[..], b"Q\0\0\0\x0dSELECT 1\0"].concat();
    let said = tokio::task::block_in_place(|| told(testbed.port(), &unsynced));
    assert!(said.contains("C08P01"), "{said}");
    let then: i32 = other.query_one(process, &[]).await.unwrap().get(0);
    assert_eq!(first, then);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prepared_statements_of_a_client_are_bounded_in_bytes() {
    let testbed = Testbed::new(&[], |_| {});
    let mut bytes = Vec::new();
    for number in 0..70 {
        let body = format!("s{number}\0SELECT '{number}{}'\0\0\0", "x".repeat(1_000_000));
        add(&mut bytes, b'P', &body);
        bytes.extend(b"S\0\0\0\x04");
    }
    let said = tokio::task::block_in_place(|| told(testbed.port(), &bytes));
    assert!(said.contains("C53200") && said.contains("64 MiB"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_names_of_one_short_statement_are_bounded_too() {
    let testbed = Testbed::new(&[], |_| {});
    let mut bytes = Vec::new();
    for number in 0..300_000 {
        let body = format!("{number}\0\0\0\0");
        add(&mut bytes, b'P', &body);
    }
    bytes.extend(b"S\0\0\0\x04");
    let said = tokio::task::block_in_place(|| told(testbed.port(), &bytes));
    assert!(said.contains("C53200") && said.contains("64 MiB"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_of_a_client_are_bounded_in_bytes() {
    let testbed = Testbed::new(&[], |_| {});
    let mut bytes = Vec::new();
    for number in 0..3 {
        let body = format!("SET app.v{number} = '{}'\0", "x".repeat(500_000));
        add(&mut bytes, b'Q', &body);
    }
    let said = tokio::task::block_in_place(|| told(testbed.port(), &bytes));
    assert!(said.contains("C53200") && said.contains("1 MiB"), "{said}");
    testbed.client().await.batch_execute("SELECT 1").await.expect("others go on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_cancels_in_vain_cancels_again() {
    let testbed = Testbed::new(&[], |_| {});
    let client = testbed.client().await;
    let cancels = client.cancel_token();
    let hard = "DO $$ BEGIN PERFORM pg_sleep(300); \
                EXCEPTION WHEN query_canceled THEN PERFORM pg_sleep(300); END $$";
    let runs = client.batch_execute(hard);
    let cancel = async {
        loop {
            cancels.cancel_query(NoTls).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let ended = async {
        tokio::select! {
            ended = runs => ended,
            () = cancel => Ok(()),
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(60), ended).await;
    let error = ended.expect("it is cancelled in the end").unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_cancelled_behind_anothers_statement_ends_when_it_runs() {
    let testbed = Testbed::new(&[], |options| options.pooling.size = 1);
    let direct = testbed.direct().await;
    direct.execute("SELECT pg_advisory_lock(1)", &[]).await.unwrap();
    let (first, second) = (testbed.client().await, testbed.client().await);
    let cancels = second.cancel_token();
    let (lock, sleep) = ("SELECT pg_advisory_xact_lock(1)", "SELECT pg_sleep(300)");
    // Prepared before, so that each is one message to the session that both share.
    let lock = first.prepare(lock).await.unwrap();
    let sleep = second.prepare(sleep).await.unwrap();
    let blocked = tokio::spawn(async move { first.execute(&lock, &[]).await });
    let behind = tokio::spawn(async move { second.execute(&sleep, &[]).await });
    // Whichever comes first.
    let console = console(&testbed, "postgres").await.unwrap();
    let sent = |rows: Rows| rows.iter().filter(|row| row["state"] != "idle").count() == 2;
    while !sent(show(&console, "CLIENTS").await) {}
    cancels.cancel_query(NoTls).await.unwrap();
    direct.execute("SELECT pg_advisory_unlock(1)", &[]).await.unwrap();
    blocked.await.unwrap().expect("it is not meant");
    // Where it came first, the server may not have begun it when the request came.
    let again = async {
        loop {
            tokio::time::sleep(Duration::from_millis(20)).await;
            cancels.cancel_query(NoTls).await.unwrap();
        }
    };
    let ended = async {
        tokio::select! {
            ended = behind => ended.unwrap(),
            () = again => unreachable!("it goes on"),
        }
    };
    let ended = tokio::time::timeout(Duration::from_secs(60), ended).await;
    let error = ended.expect("it is cancelled").unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::QUERY_CANCELED));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_client_is_told_nothing() {
    let testbed = Testbed::new(&[], |_| {});
    for noise in [&b"X\0\0\0\x04"[..], b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x07\0\x03\0"] {
        let mut client = TcpStream::connect(("127.0.0.1", testbed.port())).unwrap();
        client.write_all(noise).unwrap();
        let mut heard = Vec::new();
        // A connection that is reset has ended too.
        let _ = client.read_to_end(&mut heard);
        assert_eq!(String::from_utf8_lossy(&heard), "");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_runs_on_a_session_that_ends_is_told_why_and_who_waits_behind_goes_on() {
    let testbed = Testbed::new(&[], |options| options.pooling.size = 1);
    let direct = testbed.direct().await;
    direct.execute("SELECT pg_advisory_lock(1)", &[]).await.unwrap();
    let (first, second) = (testbed.client().await, testbed.client().await);
    // Prepared before, so that each is one message to the session that both share.
    let lock = first.prepare("SELECT pg_advisory_xact_lock(1)").await.unwrap();
    let behind = second.prepare("SELECT 42").await.unwrap();
    let (blocked, behind) =
        (first.execute(&lock, &[]), async { second.query_one(&behind, &[]).await });
    let ends = async {
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = \
                   'advisory'";
        while direct.execute(end, &[]).await.unwrap() == 0 {}
    };
    let (blocked, behind, ()) = tokio::join!(blocked, behind, ends);
    assert_eq!(blocked.unwrap_err().code(), Some(&SqlState::ADMIN_SHUTDOWN));
    assert_eq!(behind.unwrap().get::<_, i32>(0), 42);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_server_says_to_who_idles_in_a_transaction_is_passed_on() {
    let testbed = Testbed::new(&[], |_| {});
    let sql = b"BEGIN; SET LOCAL idle_in_transaction_session_timeout = 10\0";
    let length = u32::try_from(sql.len() + 4).expect("short").to_be_bytes();
    let query = [b"Q", &length[..], sql].concat();
    let said = tokio::task::block_in_place(|| told(testbed.port(), &query));
    assert!(said.contains("C25P03"), "{said}");
}
