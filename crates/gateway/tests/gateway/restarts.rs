//! How a gateway ends and begins anew while clients are there.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};
use walwright_gateway::Gateway;

use crate::common::Testbed;

/// A client, and how its connection ended.
async fn watched(port: u16) -> (Client, JoinHandle<Option<SqlState>>) {
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(port).user("postgres").dbname("postgres");
    let (client, connection) = config.connect(NoTls).await.expect("connected");
    let ended = async move { connection.await.err().and_then(|error| error.code().cloned()) };
    (client, tokio::spawn(ended))
}

async fn until_drained(gateway: &Gateway) {
    while !gateway.has_drained() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_gateway_that_is_to_end_lets_clients_finish_what_they_have_under_way() {
    // Nobody confirms a commit until the name is taken away.
    let mut testbed = Testbed::new(&[], |options| options.workers = 2);
    let direct = testbed.direct().await;
    direct.batch_execute("CREATE TABLE t (a int)").await.unwrap();
    direct.batch_execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'").await.unwrap();
    direct.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    while direct.query_one("SHOW synchronous_standby_names", &[]).await.unwrap().get::<_, &str>(0)
        != "nobody"
    {}
    let port = testbed.port();
    let (writer, writer_ended) = watched(port).await;
    let (in_transaction, transaction_ended) = watched(port).await;
    let (_idle, idle_ended) = watched(port).await;
    let written =
        tokio::spawn(
            async move { (writer.batch_execute("INSERT INTO t VALUES (1)").await, writer) },
        );
    while direct.query_one("SELECT count(*) FROM t", &[]).await.unwrap().get::<_, i64>(0) == 0 {}
    in_transaction.batch_execute("SET synchronous_commit = local").await.unwrap();
    in_transaction.batch_execute("BEGIN").await.unwrap();

    testbed.gateway.drain(false);
    assert_eq!(idle_ended.await.unwrap(), Some(SqlState::ADMIN_SHUTDOWN));
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err(), "it takes nobody in");
    in_transaction.batch_execute("INSERT INTO t VALUES (2)").await.unwrap();
    in_transaction.batch_execute("COMMIT").await.unwrap();
    assert_eq!(transaction_ended.await.unwrap(), Some(SqlState::ADMIN_SHUTDOWN));
    assert!(!written.is_finished() && !testbed.gateway.has_drained(), "one answer is withheld");

    direct.batch_execute("ALTER SYSTEM RESET synchronous_standby_names").await.unwrap();
    direct.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let (written, _writer) = written.await.unwrap();
    written.unwrap();
    assert_eq!(writer_ended.await.unwrap(), Some(SqlState::ADMIN_SHUTDOWN));
    until_drained(&testbed.gateway).await;
    let sessions = "SELECT count(*) FROM pg_stat_activity \
                    WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    while direct.query_one(sessions, &[]).await.unwrap().get::<_, i64>(0) > 0 {}
}
