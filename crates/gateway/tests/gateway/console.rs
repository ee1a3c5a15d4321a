//! The console and the metrics.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::time::Duration;

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};
use walwright_gateway::{Gateway, Options};

use crate::common::Testbed;

pub async fn console(testbed: &Testbed, user: &str) -> Result<Client, SqlState> {
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(testbed.port()).user(user).dbname("pgbouncer");
    let connected = config.connect(NoTls).await;
    let (client, connection) = connected.map_err(|error| error.code().expect("a code").clone())?;
    tokio::spawn(async move { connection.await.ok() });
    Ok(client)
}

pub type Rows = Vec<HashMap<String, String>>;

pub async fn show(console: &Client, what: &str) -> Rows {
    let said = console.simple_query(&format!("SHOW {what}")).await.expect("shown");
    let rows = said.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => {
            let named = row.columns().iter().enumerate();
            let value = |(place, column): (usize, &tokio_postgres::SimpleColumn)| {
                (column.name().to_owned(), row.get(place).unwrap_or_default().to_owned())
            };
            Some(named.map(value).collect())
        }
        _ => None,
    });
    rows.collect()
}

fn of<'r>(rows: &'r Rows, column: &str, value: &str) -> &'r HashMap<String, String> {
    rows.iter().find(|row| row[column] == value).unwrap_or_else(|| panic!("{value}: {rows:?}"))
}

async fn refused(console: &Client, command: &str) -> SqlState {
    let error = console.simple_query(command).await.expect_err("refused");
    error.code().unwrap_or_else(|| panic!("{command}: {error}")).clone()
}

fn get(gateway: &Gateway, path: &str) -> String {
    get_as("*/*", gateway, path)
}

fn get_as(form: &str, gateway: &Gateway, path: &str) -> String {
    let place = gateway.metrics().expect("metrics");
    let mut stream = std::net::TcpStream::connect(place).expect("connected");
    let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nAccept: {form}\r\nConnection: close");
    write!(stream, "{head}\r\n\r\n").expect("asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer
}

fn with_metrics(options: &mut Options) {
    options.metrics = Some(([127, 0, 0, 1], 0).into());
    options.stats_users = vec!["watcher".to_owned()];
    options.limits.max_clients = 2;
}

#[tokio::test]
async fn what_clients_did_is_shown_and_counted() {
    let testbed = Testbed::new(&[], with_metrics);
    let (one, two) = (testbed.client().await, testbed.client().await);
    // It is not one of the two that may be there.
    let console = console(&testbed, "postgres").await.expect("let in");
    one.batch_execute("CREATE TABLE t (id int)").await.unwrap();
    for id in 0..10_i32 {
        one.execute("INSERT INTO t VALUES ($1)", &[&id]).await.unwrap();
    }
    two.batch_execute("CREATE TEMP TABLE mine (id int)").await.unwrap();
    two.batch_execute("BEGIN; SELECT 1").await.unwrap();

    let stats = show(&console, "STATS").await;
    let stats = of(&stats, "database", "postgres");
    let count = |name: &str| stats[name].parse::<u64>().unwrap();
    // Preparing takes a trip of its own.
    assert_eq!((count("total_client_parse_count"), count("total_bind_count")), (10, 10));
    assert_eq!(count("total_query_count"), 1 + 20 + 2);
    assert_eq!(count("total_xact_count"), 1 + 20 + 1, "one is open");
    assert!(count("total_server_parse_count") >= 1 && count("total_received") > 300, "{stats:?}");
    assert!(count("total_sent") > 300 && count("total_query_time") > 0, "{stats:?}");

    let pools = show(&console, "POOLS").await;
    let pool = of(&pools, "database", "postgres");
    assert_eq!((pool["user"].as_str(), pool["cl_active"].as_str()), ("postgres", "2"));
    assert_eq!((pool["sv_active"].as_str(), pool["cl_waiting"].as_str()), ("1", "0"));
    let clients = show(&console, "CLIENTS").await;
    assert_eq!(clients.len(), 2);
    let keeper = of(&clients, "state", "active");
    let servers = show(&console, "SERVERS").await;
    assert_eq!(of(&servers, "link", &keeper["ptr"])["ptr"], keeper["link"]);
    let pins = show(&console, "PINS").await;
    let pin = of(&pins, "reason", "temporary");
    assert_eq!((pin["clients"].as_str(), pin["total"].as_str()), ("1", "1"));
    let barriers = show(&console, "BARRIERS").await;
    assert_eq!((barriers.len(), barriers[0]["state"].as_str()), (1, "up"));
    // Who writes alone for long needs none.
    assert!(barriers[0]["clients"].parse::<u64>().unwrap() >= 8, "{barriers:?}");
    let databases = show(&console, "DATABASES").await;
    assert_eq!(of(&databases, "name", "postgres")["current_client_connections"], "2");
    let lists = show(&console, "LISTS").await;
    assert_eq!(of(&lists, "list", "used_clients")["items"], "2");
    for what in ["VERSION", "CONFIG", "USERS", "TOTALS", "STATS_TOTALS", "STATS_AVERAGES"] {
        assert!(!show(&console, what).await.is_empty(), "{what}");
    }
    for what in ["MEM", "STATE", "SOCKETS", "ACTIVE_SOCKETS", "TIMES"] {
        assert!(!show(&console, what).await.is_empty(), "{what}");
    }
    assert!(show(&console, "HELP").await.is_empty(), "it is a notice");

    // As drivers ask, in binary.
    let rows = console.query("SHOW POOLS", &[]).await.unwrap();
    let row = rows.iter().find(|row| row.get::<_, &str>("database") == "postgres").unwrap();
    assert_eq!(row.get::<_, i32>("cl_active"), 2);
    let failed = console.query("SHOW FDS", &[]).await.unwrap_err();
    assert_eq!(failed.code(), Some(&SqlState::FEATURE_NOT_SUPPORTED));
    assert_eq!(console.query("SHOW STATE", &[]).await.unwrap().len(), 3, "it goes on");

    let metrics = get(&testbed.gateway, "/metrics");
    let pool = "{database=\"postgres\",user=\"postgres\"";
    for line in [
        format!("walwright_gateway_clients{pool},state=\"active\"}} 2\n"),
        format!("walwright_gateway_pins_total{pool},reason=\"temporary\"}} 1\n"),
        format!("walwright_gateway_execution_seconds_count{pool}}} 23\n"),
        format!("walwright_gateway_withheld_seconds_bucket{pool},le=\"+Inf\"}} "),
        "walwright_gateway_barrier_clients_count{server=".to_owned(),
    ] {
        assert!(metrics.contains(&line), "{line} is not in {metrics}");
    }
    assert!(get(&testbed.gateway, "/healthz").starts_with("HTTP/1.1 200 "));
    assert!(get(&testbed.gateway, "/other").starts_with("HTTP/1.1 404 "));
    assert!(get(&testbed.gateway, "/metrics").starts_with("HTTP/1.1 200 "));
    assert!(metrics.contains("# TYPE walwright_gateway_logins_total counter\n"));
    let open = get_as("application/openmetrics-text", &testbed.gateway, "/metrics");
    assert!(open.contains("application/openmetrics-text") && open.ends_with("\n# EOF\n"), "{open}");
    assert!(open.contains("# TYPE walwright_gateway_logins counter\n"), "{open}");
}

/// Waits until there is a barrier session of another process than this.
async fn barrier(direct: &Client, other_than: i32) -> i32 {
    let sql = "SELECT pid FROM pg_stat_activity \
               WHERE application_name = 'walwright barrier' AND pid <> $1";
    loop {
        if let Some(row) = direct.query_opt(sql, &[&other_than]).await.expect("asked") {
            return row.get(0);
        }
    }
}

#[tokio::test]
async fn commands_do_what_their_names_say() {
    let testbed = Testbed::new(&[], |options| {
        with_metrics(options);
        options.limits.max_clients = 10;
    });
    let client = testbed.client().await;
    let console = console(&testbed, "postgres").await.expect("let in");
    assert!(console.simple_query("RELOAD").await.is_err(), "nobody says how");
    client.batch_execute("CREATE TABLE t (id int); INSERT INTO t VALUES (0)").await.unwrap();

    // A pause lets transactions end, then closes all that leads to the server.
    client.batch_execute("BEGIN; UPDATE t SET id = 1").await.unwrap();
    let (paused, ()) = tokio::join!(console.simple_query("PAUSE"), async {
        let other = self::console(&testbed, "postgres").await.expect("let in");
        while of(&show(&other, "STATE").await, "key", "paused")["value"] != "yes" {}
        client.batch_execute("COMMIT").await.unwrap();
    });
    paused.expect("paused");
    assert_eq!(of(&show(&console, "POOLS").await, "database", "postgres")["sv_idle"], "0");
    assert_eq!(show(&console, "BARRIERS").await[0]["sessions"], "0");
    let direct = testbed.direct().await;
    let others = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' \
                  AND pid <> pg_backend_pid()";
    while direct.query_one(others, &[]).await.unwrap().get::<_, i64>(0) > 0 {}
    assert_eq!(refused(&console, "PAUSE").await, SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE);
    let (waited, resumed) = tokio::join!(client.batch_execute("UPDATE t SET id = 2"), async {
        while of(&show(&console, "POOLS").await, "database", "postgres")["cl_waiting"] != "1" {}
        // Longer than a statement may wait otherwise.
        let may_wait = |time| testbed.reload(|options| options.limits.query_wait_timeout = time);
        may_wait(Some(Duration::ZERO));
        tokio::time::sleep(Duration::from_millis(50)).await;
        may_wait(None);
        console.simple_query("RESUME").await
    });
    waited.expect("it waited as long as the pause took");
    resumed.expect("resumed");

    // Sessions are opened anew, the barrier's too.
    let process = "SELECT pg_backend_pid()";
    let before: i32 = client.query_one(process, &[]).await.unwrap().get(0);
    let flusher = barrier(&direct, 0).await;
    console.simple_query("RECONNECT").await.unwrap();
    console.simple_query("WAIT_CLOSE").await.unwrap();
    assert_ne!(client.query_one(process, &[]).await.unwrap().get::<_, i32>(0), before);
    barrier(&direct, flusher).await;

    // A client is ended, and a database.
    let mut clients = show(&console, "CLIENTS").await;
    let id = clients.pop().expect("a client").remove("id").expect("an id");
    console.simple_query(&format!("KILL_CLIENT {id}")).await.unwrap();
    assert!(client.batch_execute("SELECT 1").await.is_err());
    let unknown = refused(&console, &format!("KILL_CLIENT {id}")).await;
    assert_eq!(unknown, SqlState::INVALID_PARAMETER_VALUE);
    console.simple_query("DISABLE postgres").await.unwrap();
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(testbed.port()).user("postgres").dbname("postgres");
    let disabled = config.connect(NoTls).await.err().expect("disabled");
    assert_eq!(disabled.code(), Some(&SqlState::CANNOT_CONNECT_NOW));
    console.simple_query("ENABLE postgres").await.unwrap();
    for (kill, resume) in [("KILL postgres", "RESUME postgres"), ("KILL", "RESUME")] {
        let client = testbed.client().await;
        client.batch_execute("SELECT 1").await.unwrap();
        console.simple_query(kill).await.unwrap();
        assert!(client.batch_execute("SELECT 1").await.is_err(), "{kill}");
        console.simple_query(resume).await.unwrap();
        testbed.client().await.batch_execute("SELECT 1").await.unwrap();
    }

    // Options are read once more.
    testbed.options.lock().expect("options").stats_users.clear();
    let watcher = self::console(&testbed, "watcher").await.expect("let in");
    assert!(!show(&watcher, "POOLS").await.is_empty());
    assert_eq!(refused(&watcher, "PAUSE").await, SqlState::INSUFFICIENT_PRIVILEGE);
    console.simple_query("RELOAD").await.expect("reloaded");
    let error = self::console(&testbed, "watcher").await.expect_err("not any more");
    assert_eq!(error, SqlState::INVALID_AUTHORIZATION_SPECIFICATION);

    // The last one.
    let client = testbed.client().await;
    console.simple_query("SHUTDOWN WAIT_FOR_CLIENTS").await.unwrap();
    assert!(get(&testbed.gateway, "/healthz").starts_with("HTTP/1.1 503 "));
    client.batch_execute("SELECT 1").await.expect("it is let finish");
    drop(client);
    while !testbed.gateway.has_drained() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn health_tells_of_a_server_that_is_gone() {
    let testbed = Testbed::new(&[], with_metrics);
    testbed.client().await.batch_execute("SELECT 1").await.unwrap();
    assert!(get(&testbed.gateway, "/healthz").starts_with("HTTP/1.1 200 "));
    let Testbed { gateway, server, .. } = testbed;
    server.stop_immediately().expect("stopped");
    loop {
        let answer = get(&gateway, "/healthz");
        if answer.starts_with("HTTP/1.1 503 ") && answer.contains("cannot be used") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A server that ends idle sessions ends those of the pools alone.
#[tokio::test]
async fn a_barrier_session_is_never_idle_for_too_long() {
    let testbed = Testbed::new(&[("idle_session_timeout", "1s")], |_| {});
    testbed.client().await.batch_execute("SELECT 1").await.unwrap();
    let console = console(&testbed, "postgres").await.expect("let in");
    while !show(&console, "SERVERS").await.is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let barrier = show(&console, "BARRIERS").await.remove(0);
    assert_eq!((&*barrier["sessions"], &*barrier["lost"]), ("1", "0"));
}
