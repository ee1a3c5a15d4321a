//! Pool modes, limits of clients, versions of the protocol.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;
use walwright_gateway::{PoolMode, User};

use crate::common::Testbed;
use crate::pipelines;

async fn refused(testbed: &Testbed, user: &str) -> Option<SqlState> {
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(testbed.port()).user(user).dbname("postgres");
    match config.connect(NoTls).await {
        Ok((_, connection)) => {
            tokio::spawn(async move { connection.await.ok() });
            None
        }
        Err(error) => error.code().cloned(),
    }
}

async fn in_time<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), what).await.expect("in time")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_that_connect_and_say_nothing_stop_nobody_who_is_in() {
    let testbed = Testbed::new(&[], |options| {
        options.limits.max_clients = 4;
        options.limits.login_timeout = None;
        options.users.insert("few".to_owned(), User { max_clients: Some(1), ..User::default() });
    });
    let client = testbed.client().await;
    client.batch_execute("CREATE ROLE few LOGIN").await.unwrap();
    {
        let mut config = tokio_postgres::Config::new();
        config.host("127.0.0.1").port(testbed.port()).user("few").dbname("postgres");
        let (first, connection) = config.connect(NoTls).await.unwrap();
        let ended = tokio::spawn(async move { connection.await.ok() });
        first.batch_execute("SELECT 1").await.unwrap();
        let second = refused(&testbed, "few").await;
        assert_eq!(second, Some(SqlState::TOO_MANY_CONNECTIONS));
        drop(first);
        ended.await.unwrap();
    }
    // Some say nothing, some a part of what they have to say.
    let silent: Vec<TcpStream> = (0..200)
        .map(|number| {
            let mut stream = TcpStream::connect(("127.0.0.1", testbed.port())).unwrap();
            let _ = stream.write_all(&b"\0\0\0\x33\0\x03"[..number % 7]);
            stream
        })
        .collect();
    for _ in 0..20 {
        in_time(client.batch_execute("SELECT 1")).await.unwrap();
    }
    let late = refused(&testbed, "postgres").await;
    assert!(late.is_none_or(|code| code == SqlState::TOO_MANY_CONNECTIONS));
    let may_log_in = |time| testbed.reload(|options| options.limits.login_timeout = time);
    may_log_in(Some(Duration::ZERO));
    for mut stream in silent {
        // Each is closed when its time to log in is over.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut heard = Vec::new();
        if let Err(error) = stream.read_to_end(&mut heard) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
    }
    may_log_in(None);
    in_time(testbed.client()).await.batch_execute("SELECT 1").await.unwrap();
}

#[tokio::test]
async fn each_pool_mode_gives_sessions_back_when_it_says() {
    let pooled = |mode| {
        Testbed::new(&[], |options| {
            options.pooling.mode = mode;
            options.pooling.size = 1;
            options.workers = 1;
        })
    };
    let testbed = pooled(PoolMode::Session);
    let keeps = testbed.client().await;
    keeps.batch_execute("SET application_name = 'kept'").await.unwrap();
    let late = testbed.client().await;
    let may_wait = |time| testbed.reload(|options| options.limits.query_wait_timeout = time);
    may_wait(Some(Duration::from_millis(10)));
    let waited = late.batch_execute("SELECT 1").await.unwrap_err();
    assert_eq!(waited.code(), Some(&SqlState::TOO_MANY_CONNECTIONS));
    may_wait(None);
    drop(keeps);
    let next = testbed.client().await;
    let name = next.query_one("SHOW application_name", &[]).await.unwrap();
    assert_ne!(name.get::<_, &str>(0), "kept", "nothing is left to the next");

    let testbed = pooled(PoolMode::Statement);
    let (one, other) = (testbed.client().await, testbed.client().await);
    one.batch_execute("CREATE TABLE t (a int); INSERT INTO t VALUES (1)").await.unwrap();
    other.batch_execute("SELECT 1").await.unwrap();
    let refused = one.batch_execute("BEGIN").await.unwrap_err();
    assert_eq!(refused.code(), Some(&SqlState::PROTOCOL_VIOLATION));
    // An open transaction goes with its session.
    let rows = other.query_one("SELECT count(*) FROM t", &[]).await.unwrap();
    assert_eq!(rows.get::<_, i64>(0), 1);
}

/// What is answered to a startup packet, up to ReadyForQuery: type and body.
fn answered(mut stream: impl Read + Write, minor: u8, option: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let body = [&[0, 3, 0, minor], &b"user\0postgres\0database\0postgres\0"[..], option, b"\0"];
    let body = body.concat();
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    stream.write_all(&[&length[..], &body].concat()).unwrap();
    let mut messages = Vec::new();
    while messages.last().is_none_or(|(tag, _)| *tag != b'Z') {
        let mut header = [0; 5];
        stream.read_exact(&mut header).unwrap();
        let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
        let mut body = vec![0; length - 4];
        stream.read_exact(&mut body).unwrap();
        messages.push((header[0], body));
    }
    messages
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_of_the_protocol_are_negotiated_as_the_server_does() {
    let testbed = Testbed::new(&[], |_| {});
    let server = &testbed.server;
    let socket = server.socket_dir().join(format!(".s.PGSQL.{}", server.port()));
    let asks = |minor, option| {
        let gateway = TcpStream::connect(("127.0.0.1", testbed.port())).unwrap();
        gateway.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let direct = UnixStream::connect(&socket).unwrap();
        let of = |messages: Vec<(u8, Vec<u8>)>| {
            let find = |of: u8| messages.iter().find(|(tag, _)| *tag == of).cloned();
            (find(b'v'), find(b'K').map(|(_, body)| body.len()))
        };
        (of(answered(gateway, minor, option)), of(answered(direct, minor, option)))
    };
    tokio::task::block_in_place(|| {
        for minor in [0, 2, 3, 255] {
            for option in [&b""[..], b"_pq_.new\0on\0"] {
                let (gateway, server) = asks(minor, option);
                assert_eq!(gateway, server, "3.{minor}");
            }
        }
    });
}

/// One session for everybody.
fn one_session() -> Testbed {
    Testbed::new(&[], |options| (options.pooling.size, options.workers) = (1, 1))
}

/// What a query of one value gives.
async fn value(client: &tokio_postgres::Client, sql: &str) -> String {
    let messages = client.simple_query(sql).await.expect("an answer");
    let row = messages.iter().find_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    row.expect("a row")
}

/// What SHOW gives a client.
fn shown(client: &mut pipelines::Client, name: &str) -> String {
    client.query(&format!("SHOW {name}"));
    client.send();
    let rows = std::iter::from_fn(|| Some(client.receive()).filter(|(tag, _)| *tag != b'Z'));
    let row = rows.filter(|(tag, _)| *tag == b'D').last().expect("a row").1;
    // The number of columns, and the length of the only one.
    String::from_utf8(row[6..].to_vec()).expect("UTF-8")
}

#[test]
fn a_setting_that_was_bound_and_not_run_is_as_it_was() {
    let testbed = one_session();
    let mut client = pipelines::Client::connect(testbed.port(), 1);
    let mut other = pipelines::Client::connect(testbed.port(), 2);
    client.query("SET search_path = elsewhere");
    client.send();
    client.answer();
    client.message(b'P', b"\0RESET search_path\0\0\0");
    client.message(b'B', b"\0\0\0\0\0\0\0\0");
    client.sync();
    client.send();
    assert!(client.answer().commands.is_empty());
    // On the same session, as it is the only one.
    assert_eq!(shown(&mut other, "search_path"), "\"$user\", public");
    assert_eq!(shown(&mut client, "search_path"), "elsewhere");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_of_how_dates_look_is_nobody_elses() {
    let testbed = Testbed::new(&[], |options| (options.pooling.size, options.workers) = (2, 1));
    let (one, other) = (testbed.client().await, testbed.client().await);
    let day = "SELECT date '2026-11-27'";
    one.batch_execute("SET datestyle = 'SQL'").await.unwrap();
    other.batch_execute("SET datestyle = 'DMY'").await.unwrap();
    for _ in 0..2 {
        assert_eq!(value(&one, day).await, "11/27/2026");
        assert_eq!(value(&other, day).await, "2026-11-27");
    }
    let (third, fourth) = (testbed.client().await, testbed.client().await);
    third.batch_execute("SET datestyle = 'SQL, DMY'").await.unwrap();
    assert_eq!(value(&third, day).await, "27/11/2026");
    assert_eq!(value(&fourth, day).await, "2026-11-27");
    assert_eq!(value(&third, day).await, "27/11/2026", "what is whole follows its client");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_nothing_undoes_goes_with_its_session() {
    let testbed = one_session();
    let keeps = "LISTEN something; SELECT pg_backend_pid()";
    for sql in ["SELECT setseed(0)", "LOAD 'plpgsql'"] {
        let one = testbed.client().await;
        one.batch_execute(sql).await.unwrap();
        let process = value(&one, "SELECT pg_backend_pid()").await;
        // Not even what forgets everything gives it back.
        one.batch_execute("DISCARD ALL").await.unwrap();
        assert_eq!(value(&one, "SELECT pg_backend_pid()").await, process, "{sql}");
        drop(one);
        let other = testbed.client().await;
        let next = value(&other, keeps).await;
        assert_ne!(next, process, "{sql}");
        drop(other);
        // What else there is, is undone.
        let other = testbed.client().await;
        assert_eq!(value(&other, keeps).await, next, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_follow_their_database_when_it_is_another_after_a_reload() {
    let testbed = one_session();
    testbed.direct().await.batch_execute("CREATE DATABASE moved").await.unwrap();
    let client = testbed.client().await;
    let database = "SELECT current_database()";
    assert_eq!(value(&client, database).await, "postgres");
    testbed.reload(|options| options.databases[0].dbname = Some("moved".to_owned()));
    assert_eq!(value(&client, database).await, "moved");
    let write = "CREATE TABLE here (); SELECT current_database()";
    assert_eq!(value(&client, write).await, "moved");
}

const UPDATE: &str = "UPDATE r SET n = n + 1";
const INSERT: &str = "INSERT INTO log VALUES (1)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_waits_for_a_lock_makes_way_for_those_behind_it() {
    let testbed = Testbed::new(&[], |options| (options.pooling.size, options.workers) = (8, 1));
    let holder = testbed.client().await;
    holder
        .batch_execute("CREATE TABLE r (n int); INSERT INTO r VALUES (0); CREATE TABLE log (n int)")
        .await
        .unwrap();
    for number in 1..=5 {
        holder.batch_execute("BEGIN; UPDATE r SET n = n + 1").await.unwrap();
        tokio::task::block_in_place(|| {
            let mut clients: Vec<_> =
                (1..=3).map(|of| pipelines::Client::connect(testbed.port(), of)).collect();
            for (client, sql) in clients.iter_mut().zip([UPDATE, UPDATE, INSERT]) {
                client.query(sql);
            }
            clients.iter_mut().for_each(pipelines::Client::send);
            // Whoever holds the lock gives it back only after this.
            assert_eq!(clients[2].answer().commands, ["INSERT 0 1"]);
            tokio::runtime::Handle::current()
                .block_on(holder.batch_execute("COMMIT"))
                .expect("committed");
            for client in &mut clients[..2] {
                assert_eq!(client.answer().commands, ["UPDATE 1"]);
            }
        });
        assert_eq!(value(&holder, "SELECT n FROM r").await, (3 * number).to_string());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_runs_for_long_makes_way_for_those_behind_it() {
    let testbed = Testbed::new(&[], |options| options.pooling.size = 2);
    let all = tokio::task::block_in_place(|| {
        let mut long = pipelines::Client::connect(testbed.port(), 1);
        let mut others: Vec<_> =
            (2..6).map(|number| pipelines::Client::connect(testbed.port(), number)).collect();
        long.query("SELECT pg_sleep(600)");
        long.send();
        for other in &mut others {
            other.query("SELECT 7");
            other.send();
        }
        others.iter_mut().map(|other| other.answer().rows).collect::<Vec<_>>()
    });
    assert!(all.iter().all(|rows| *rows == ["7"]), "{all:?}");
}

/// Those that read and write at once are served though so few sessions may be open.
async fn few_sessions_serve_all(workers: usize, most: usize) {
    let testbed = Testbed::new(&[], |options| {
        options.workers = workers;
        options.limits.max_database_connections = Some(most);
    });
    testbed.direct().await.batch_execute("CREATE TABLE t (n int)").await.unwrap();
    let mut all = Vec::new();
    for number in 0..6 {
        let client = testbed.client().await;
        all.push(tokio::spawn(async move {
            for _ in 0..10 {
                let sql = if number % 2 == 0 { "SELECT 1" } else { "INSERT INTO t VALUES (1)" };
                client.simple_query(sql).await.expect("served");
            }
        }));
    }
    for one in all {
        in_time(one).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_of_sessions_leaves_room_for_each_kind() {
    few_sessions_serve_all(1, 1).await;
    few_sessions_serve_all(1, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_of_sessions_leaves_room_for_each_worker() {
    few_sessions_serve_all(2, 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_dismissed_with_something_under_way_is_told_that_its_end_is_not_known() {
    let testbed = Testbed::new(&[], |options| {
        options.limits.transaction_timeout = Some(Duration::from_millis(300));
    });
    let client = testbed.client().await;
    client.batch_execute("BEGIN").await.unwrap();
    let lost = in_time(client.batch_execute("SELECT pg_sleep(600); COMMIT")).await.unwrap_err();
    assert_eq!(lost.code(), Some(&SqlState::CONNECTION_FAILURE));
}
