//! Many clients at once.

use crate::common::Testbed;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_many_clients_is_told_its_own_answers() {
    for workers in [1, 2] {
        let testbed = Testbed::new(&[], |options| {
            options.workers = workers;
            options.pooling.size = 6;
        });
        let client = testbed.client().await;
        client
            .batch_execute("CREATE TABLE t (a bigint PRIMARY KEY, n int NOT NULL DEFAULT 0)")
            .await
            .unwrap();
        let tasks = (0..30_i64).map(|number| {
            let testbed = &testbed;
            async move {
                let mut client = testbed.client().await;
                for round in 0..20_i64 {
                    let key = number * 1000 + round;
                    let inserted = client
                        .query_one("INSERT INTO t VALUES ($1) RETURNING a", &[&key])
                        .await
                        .unwrap();
                    assert_eq!(inserted.get::<_, i64>(0), key);
                    assert!(client.execute("INSERT INTO t VALUES ($1)", &[&key]).await.is_err());
                    let transaction = client.transaction().await.unwrap();
                    let update = "UPDATE t SET n = n + 1 WHERE a = $1 RETURNING a";
                    let updated = transaction.query_one(update, &[&key]).await.unwrap();
                    assert_eq!(updated.get::<_, i64>(0), key);
                    transaction.commit().await.unwrap();
                    let read =
                        client.query_one("SELECT a, n FROM t WHERE a = $1", &[&key]).await.unwrap();
                    assert_eq!((read.get::<_, i64>(0), read.get::<_, i32>(1)), (key, 1));
                }
            }
        });
        futures_util::future::join_all(tasks).await;
        let direct = testbed.direct().await;
        let row = direct.query_one("SELECT count(*), sum(n) FROM t", &[]).await.unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (600, 600));
    }
}
