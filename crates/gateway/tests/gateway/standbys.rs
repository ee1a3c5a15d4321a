//! What durable means where standbys have to confirm commits.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::common::Testbed;
use crate::standby::{alter_system, session_of, standby, until};

/// Barriers that wait for a standby.
const BARRIER_WAITS: &str = "SELECT count(*) > 0 FROM pg_stat_activity \
                             WHERE application_name = 'walwright barrier' AND wait_event = 'SyncRep'";

async fn at_level(testbed: &Testbed, level: &str) -> Client {
    let client = testbed.client().await;
    client.batch_execute(&format!("SET synchronous_commit = {level}")).await.unwrap();
    client
}

async fn insert(client: &Client, value: &str) {
    let sql = format!("INSERT INTO t VALUES ('{value}')");
    let inserted = tokio::time::timeout(Duration::from_secs(30), client.batch_execute(&sql));
    inserted.await.expect(&sql).expect(&sql);
}

/// An insert whose answer is not told, though its row is there.
async fn withheld(direct: &Client, client: Client, value: &'static str) -> JoinHandle<Client> {
    let insert = tokio::spawn(async move {
        insert(&client, value).await;
        client
    });
    until(direct, &format!("SELECT count(*) = 1 FROM t WHERE a = '{value}'")).await;
    until(direct, BARRIER_WAITS).await;
    assert!(!insert.is_finished(), "{value}");
    insert
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_client_waits_for_standbys_as_it_asked() {
    let testbed = Testbed::new(&[("autovacuum", "off")], |_| {});
    let direct = testbed.direct().await;
    direct.batch_execute("CREATE TABLE t (a text)").await.unwrap();
    let base = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut one = standby(&testbed.server, "one", base.path());
    let two = standby(&testbed.server, "two", base.path());
    // A client that is there before anybody has to confirm anything.
    let early = testbed.client().await;
    insert(&early, "early").await;
    alter_system(&direct, "synchronous_standby_names", "ANY 1 (one, two)").await;
    direct.batch_execute("SET synchronous_commit = local").await.unwrap();
    // The flush that finds them named proves nothing of what they have.
    let unknown = early.batch_execute("INSERT INTO t VALUES ('unknown')").await.unwrap_err();
    assert_eq!(unknown.code(), Some(&SqlState::CONNECTION_FAILURE));
    until(&direct, "SELECT count(*) = 2 FROM pg_stat_replication WHERE sync_state = 'quorum'")
        .await;

    // What is applied is what the strictest wait for.
    let (on_one, on_two) = (session_of(&one).await, session_of(&two).await);
    let all = ["remote_apply", "on", "remote_write", "local", "off"];
    let [mut apply, mut on, mut write, local, off] =
        futures_util::future::join_all(all.map(|level| at_level(&testbed, level)))
            .await
            .try_into()
            .unwrap();
    insert(&apply, "applied").await;
    until(&on_one, "SELECT count(*) > 0 FROM t WHERE a = 'applied'").await;
    for standby in [&on_one, &on_two] {
        standby.batch_execute("SELECT pg_wal_replay_pause()").await.unwrap();
        until(standby, "SELECT pg_get_wal_replay_pause_state() = 'paused'").await;
    }
    insert(&on, "flushed").await;
    insert(&write, "written").await;
    let waits = withheld(&direct, apply, "to apply").await;
    on_two.batch_execute("SELECT pg_wal_replay_resume()").await.unwrap();
    apply = waits.await.unwrap();
    let shown = on_two.query_one("SELECT count(*) FROM t WHERE a = 'to apply'", &[]).await;
    assert_eq!(shown.unwrap().get::<_, i64>(0), 1);

    // One of two is enough, none is not; who asks for no standby goes on.
    let cluster = one.cluster().clone();
    drop(on_one);
    tokio::task::block_in_place(|| one.stop_immediately()).unwrap();
    insert(&on, "one of two").await;
    let other = two.cluster().clone();
    drop(on_two);
    tokio::task::block_in_place(|| two.stop_immediately()).unwrap();
    let waiting = [
        withheld(&direct, on, "on alone").await,
        withheld(&direct, write, "write alone").await,
        withheld(&direct, apply, "apply alone").await,
    ];
    insert(&local, "local alone").await;
    insert(&off, "off alone").await;
    assert!(waiting.iter().all(|waits| !waits.is_finished()));
    let two = tokio::task::block_in_place(|| other.start()).unwrap();
    let mut released = futures_util::future::join_all(waiting).await.into_iter();
    on = released.next().unwrap().unwrap();
    write = released.next().unwrap().unwrap();

    // Another rule while the gateway runs.
    alter_system(&direct, "synchronous_standby_names", "FIRST 2 (one, two)").await;
    let waiting = withheld(&direct, on, "first of two").await;
    one = tokio::task::block_in_place(|| cluster.start()).unwrap();
    on = waiting.await.unwrap();
    insert(&on, "both").await;
    insert(&write, "both").await;
    let told: i64 = direct.query_one("SELECT count(DISTINCT a) FROM t", &[]).await.unwrap().get(0);
    assert_eq!(told, 14);
    drop((one, two));
}

/// Who cancels the wait for a standby has the server say that it is done: it warns that it is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_for_standbys_that_is_cancelled_acknowledges_nothing() {
    let testbed = Testbed::new(&[], |_| {});
    let direct = testbed.direct().await;
    direct.batch_execute("CREATE TABLE t (a text)").await.unwrap();
    let client = testbed.client().await;
    direct.batch_execute("SET synchronous_commit = local").await.unwrap();
    alter_system(&direct, "synchronous_standby_names", "nobody").await;
    // The flush that finds it named ends what there was.
    let _ = client.batch_execute("INSERT INTO t VALUES ('unknown')").await;
    let client = testbed.client().await;
    let insert =
        tokio::spawn(async move { client.batch_execute("INSERT INTO t VALUES ('alone')").await });
    until(&direct, BARRIER_WAITS).await;
    let cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity \
                  WHERE application_name = 'walwright barrier' AND wait_event = 'SyncRep'";
    direct.execute(cancel, &[]).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(30), insert).await.expect("it ends");
    let error = ended.unwrap().expect_err("no standby has it");
    assert_eq!(error.code(), Some(&SqlState::CONNECTION_FAILURE));
}
