//! A primary that is lost under load, and its synchronous standby that takes its place.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::{Sender, channel};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};
use walwright_gateway::{
    Authentication, Database, Gateway, Listen, Options, Server, SessionAttributes,
};
use walwright_server::{Cluster, RunningCluster};
use walwright_wire::{ConnectOptions, Host};

use crate::common::{connected, port_of, spec};
use crate::standby::{alter_system, session_of, standby, until};

const WRITERS: i64 = 8;
/// Acknowledged rows of a writer before the primary is lost.
const ENOUGH: i64 = 40;

fn address(server: &RunningCluster) -> ConnectOptions {
    let host = Host::Unix(server.socket_dir().to_owned());
    ConnectOptions::new(host, server.port(), "postgres", "postgres")
}

/// Writes rows of one writer until it is to stop, or its connection is lost. The last that was
/// acknowledged, and what was said when it was lost.
async fn write(
    port: u16,
    writer: i64,
    reached: Sender<()>,
    stop: Arc<AtomicBool>,
) -> (i64, Option<SqlState>) {
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(port).user("postgres").dbname("postgres");
    let (client, connection) = config.connect(NoTls).await.expect("connected");
    tokio::spawn(connection);
    for number in 1.. {
        let insert = format!("INSERT INTO ledger VALUES ({writer}, {number})");
        if let Err(error) = client.batch_execute(&insert).await {
            return (number - 1, error.code().cloned());
        }
        if number == ENOUGH {
            reached.send(()).await.expect("it is waited for");
        }
        if stop.load(Ordering::Acquire) {
            return (number, None);
        }
    }
    unreachable!("numbers do not end")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_standby_has_all_that_was_acknowledged_and_is_gone_on_with() {
    let base = tempfile::tempdir_in("/var/tmp").expect("temp dir");
    let cluster = Cluster::create(spec(&base.path().join("primary"), &[])).expect("made");
    let primary = cluster.start().expect("started");
    let other = standby(&primary, "one", base.path());
    let direct = session_of(&primary).await;
    direct
        .batch_execute(
            "CREATE TABLE ledger (writer bigint, number bigint, PRIMARY KEY (writer, number))",
        )
        .await
        .unwrap();
    alter_system(&direct, "synchronous_standby_names", "one").await;
    until(&direct, "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'").await;

    let mut options = Options::new(address(&primary));
    // Whichever of them takes writes.
    options.databases = vec![Database::any(Server {
        addresses: vec![address(&other), address(&primary)],
        attributes: SessionAttributes::ReadWrite,
    })];
    options.authentication = Authentication::Trust;
    options.listen = vec![Listen::Tcp(([127, 0, 0, 1], 0).into())];
    options.limits.server_login_retry = Duration::from_millis(50);
    let gateway = Gateway::start(options).expect("a gateway");
    let port = port_of(&gateway);

    let (reached, mut all) = channel(8);
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::spawn(write(port, writer, reached.clone(), stop.clone())))
        .collect();
    for _ in 0..WRITERS {
        all.recv().await.expect("a writer goes on");
    }
    // From now on nothing is confirmed, so that an answer is withheld when the primary is lost.
    alter_system(&direct, "synchronous_standby_names", "FIRST 2 (nobody, one)").await;
    until(&direct, "SELECT sync_priority = 2 FROM pg_stat_replication").await;
    until(&direct, "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'SyncRep'").await;
    tokio::task::block_in_place(|| primary.stop_immediately()).expect("stopped");
    // One that comes now waits for the server that takes over.
    let late = tokio::spawn(async move {
        let mut config = tokio_postgres::Config::new();
        config.host("127.0.0.1").port(port).user("postgres").dbname("postgres");
        let (client, connection) = config.connect(NoTls).await.expect("let in");
        tokio::spawn(connection);
        client.batch_execute("INSERT INTO ledger VALUES (-1, 1)").await.map(|()| client)
    });
    let promoted: Client = session_of(&other).await;
    promoted.batch_execute("SELECT pg_promote()").await.expect("promoted");
    let late = tokio::time::timeout(Duration::from_secs(60), late).await.expect("in time");
    let late = late.expect("it ran").expect("the promoted server takes writes");

    stop.store(true, Ordering::Release);
    let mut connections_lost = 0;
    for (writer, of) in (0_i64..).zip(writers) {
        // What had not been sent yet waited too, and went on there.
        let (acknowledged, lost) = of.await.expect("a writer");
        connections_lost += usize::from(lost.is_some());
        assert!(lost.is_none_or(|code| code == SqlState::CONNECTION_FAILURE), "writer {writer}");
        let sql = "SELECT count(*) FROM ledger WHERE writer = $1 AND number <= $2";
        let row = late.query_one(sql, &[&writer, &acknowledged]).await.expect("asked");
        assert_eq!(row.get::<_, i64>(0), acknowledged, "writer {writer}");
    }
    assert!(connections_lost > 0, "nobody was told that an answer is lost");
}

/// Sessions survive a promotion, and tell what is committed behind them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_knew_a_standby_learn_that_it_is_promoted_and_leave_nobody_waiting() {
    let base = tempfile::tempdir_in("/var/tmp").expect("temp dir");
    let cluster = Cluster::create(spec(&base.path().join("primary"), &[])).expect("made");
    let primary = cluster.start().expect("started");
    let other = standby(&primary, "one", base.path());
    session_of(&primary).await.batch_execute("CREATE TABLE t (n int)").await.unwrap();
    let direct = session_of(&other).await;
    until(&direct, "SELECT count(*) = 1 FROM pg_class WHERE relname = 't'").await;

    let mut options = Options::new(address(&other));
    options.authentication = Authentication::Trust;
    options.listen = vec![Listen::Tcp(([127, 0, 0, 1], 0).into())];
    options.workers = 2;
    let gateway = Gateway::start(options).expect("a gateway");
    let port = port_of(&gateway);
    let mut readers = Vec::new();
    for _ in 0..8 {
        let reader = connected("127.0.0.1", port).await;
        assert_eq!(reader.query_one("SELECT 1", &[]).await.unwrap().get::<_, i32>(0), 1);
        readers.push(reader);
    }
    direct.batch_execute("SELECT pg_promote()").await.expect("promoted");
    // One of other parameters takes a session of its own, by which one worker learns it.
    let writes = async {
        loop {
            let mut config = tokio_postgres::Config::new();
            config.host("127.0.0.1").port(port).user("postgres").dbname("postgres");
            let (client, connection) =
                config.options("-c work_mem=5MB").connect(NoTls).await.expect("let in");
            tokio::spawn(connection);
            if client.batch_execute("INSERT INTO t VALUES (1)").await.is_ok() {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), writes).await.expect("it is written to");
    for reader in readers {
        let read = reader.query_one("SELECT count(*) FROM t", &[]);
        match tokio::time::timeout(Duration::from_secs(30), read).await.expect("it is answered") {
            Ok(row) => assert_eq!(row.get::<_, i64>(0), 1),
            Err(error) => assert!(error.is_closed() || error.code().is_some(), "{error}"),
        }
    }
}
