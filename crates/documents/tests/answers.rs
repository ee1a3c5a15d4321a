//! Each answer of the service, on a real server.

mod common;

use std::time::Duration;

use common::Database;
use walwright_documents::{Isolation, Locks, Options, PoolOptions, Reset, Shape};
use walwright_testing::documents::Client;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_request_has_the_answer_that_its_user_expects() {
    let database = Database::new(&[]).await;
    let served = database.serve(&Options::default()).await;
    let mut client = Client::new(served.address);

    // A document that the workload has made.
    let row = database.session().await;
    let row = row.query_one("SELECT uuid::text FROM document WHERE id = 7", &[]).await.unwrap();
    let path = format!("/data/resource-0/{}", row.get::<_, &str>(0));
    let found = client.get(&path).await;
    assert_eq!((found.status, found.version()), (200, 1));
    assert_eq!(found.json()["body"]["number"], 7);
    assert_eq!(client.get(&path.replace("-0/", "-6/")).await.status, 404);
    let same = client.get("/data/resource-0?identity=7").await;
    assert_eq!((same.status, same.text), (200, found.text));

    let post = r#"{"identity": "ä/1", "references": [7, 15, 7], "body": {"a": 1.50}}"#;
    let made = client.post("/data/resource-1", post).await;
    assert_eq!((made.status, made.version()), (201, 1), "{}", made.text);
    let path = made.header("location").expect("an address").to_owned();
    let found = client.get("/data/resource-1?identity=%C3%A4%2F1").await;
    assert_eq!(found.json()["body"].to_string(), r#"{"a":1.5}"#);
    assert_eq!(path, format!("/data/resource-1/{}", found.json()["id"].as_str().unwrap()));
    let again = client.post("/data/resource-1", &post.replace("1.50", "2")).await;
    assert_eq!((again.status, again.version()), (200, 2));
    let other = client.post("/data/resource-2", post).await;
    assert_eq!(other.status, 409, "{}", other.text);
    assert!(other.text.contains("resource-1"), "{}", other.text);

    let missing = r#"{"identity": 7777777, "references": [7, 99999999, "none"], "body": {}}"#;
    let missing = client.post("/data/resource-1", missing).await;
    assert_eq!(missing.status, 409);
    assert_eq!(missing.json()["missing"].to_string(), r#"[99999999,"none"]"#);
    assert_eq!(client.get("/data/resource-5?identity=20077").await.status, 404);

    // PUT: only of the version that its sender has seen.
    let body = r#"{"references": [1], "body": {"b": 1}}"#;
    assert_eq!(client.answer("PUT", &path, "", body).await.status, 428);
    assert_eq!(client.answer("PUT", &path, "if-match: \"1\"\r\n", body).await.status, 412);
    assert_eq!(client.answer("PUT", &path, "if-match: x\r\n", body).await.status, 412);
    let put = client.answer("PUT", &path, "if-match: \"2\"\r\n", body).await;
    assert_eq!((put.status, put.version()), (204, 3));
    let any = client.answer("PUT", &path, "if-match: *\r\n", body).await;
    assert_eq!((any.status, any.version()), (204, 4));
    let nobody = "/data/resource-1/00000000-0000-0000-0000-00000000dead";
    assert_eq!(client.answer("PUT", nobody, "if-match: *\r\n", body).await.status, 404);
    let named = r#"{"identity": 1, "body": {}}"#;
    assert_eq!(client.answer("PUT", &path, "if-match: *\r\n", named).await.status, 400);

    // DELETE: not what others refer to; what only refers to itself goes.
    let itself = r#"{"identity": "self", "references": ["self", "ä/1"], "body": {}}"#;
    let made = client.post("/data/resource-3", itself).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let refused = client.answer("DELETE", &path, "", "").await;
    assert_eq!(refused.status, 409, "{}", refused.text);
    let itself = made.header("location").expect("an address");
    assert_eq!(client.answer("DELETE", itself, "", "").await.status, 204);
    assert_eq!(client.answer("DELETE", &path, "", "").await.status, 204);
    assert_eq!(client.answer("DELETE", &path, "", "").await.status, 404);
    assert_eq!(client.get(&path).await.status, 404);

    let page = client.get("/data/resource-4?limit=3&offset=1").await;
    assert_eq!((page.status, page.json().as_array().map(Vec::len)), (200, Some(3)));

    for wrong in ["", "{", "[1]", r#"{"identity": 1}"#, r#"{"body": {}}"#] {
        let answer = client.post("/data/resource-1", wrong).await;
        assert_eq!(answer.status, 400, "{wrong}: {}", answer.text);
    }
    for wrong in [r#"{"x": "\u0000"}"#, r#"{"x": "\ud800"}"#, r#"{"x": 1e999999}"#] {
        let post = format!(r#"{{"identity": 1, "body": {wrong}}}"#);
        let answer = client.post("/data/resource-0", &post).await;
        assert_eq!(answer.status, 400, "{wrong}: {}", answer.text);
    }
    assert_eq!(client.get("/data/resource-1?limit=x").await.status, 400);
    assert_eq!(client.get("/data/resource-1/1").await.status, 404);
    assert_eq!(client.get("/data/nothing").await.status, 404);
    assert_eq!(client.get("/nothing").await.status, 404);
    assert_eq!(client.answer("PATCH", &path, "", "").await.status, 405);
    let large = format!(r#"{{"identity": 1, "body": {{"x": "{}"}}}}"#, "x".repeat(1 << 20));
    // Whether all of it was sent before the answer came or not.
    if let Ok(answer) = client.ask("POST", "/data/resource-1", "", &large).await {
        assert_eq!(answer.status, 413, "{}", answer.text);
    }

    let mut client = Client::new(served.address);
    assert_eq!(client.get("/healthz").await.text, "ok\n");
    let metrics = client.get("/metrics").await.text;
    for line in [
        r#"requests_total{method="POST",route="/data/{resource}",status="201"} 2"#,
        r#"request_seconds_count{method="DELETE",route="/data/{resource}/{id}"} 4"#,
        r#"references_total{path="inserted"} 5"#,
        r#"references_total{path="unchanged"} 3"#,
        "walwright_documents_pool_size 10",
        "pool_wait_seconds_count",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn clients_that_post_one_identity_at_once_make_one_document() {
    let database = Database::new(&[("references", "staging_temp")]).await;
    for (locks, isolation, reset, shape) in [
        (Locks::NoKeyUpdate, Isolation::ReadCommitted, Reset::None, Shape::Prepared),
        (Locks::KeyShare, Isolation::RepeatableRead, Reset::DiscardAll, Shape::Prepared),
        (Locks::UpdateNowait, Isolation::ReadCommitted, Reset::Selective, Shape::Unprepared),
        (Locks::None, Isolation::Serializable, Reset::Selective, Shape::Prepared),
    ] {
        let options = Options {
            locks,
            isolation,
            // Each may meet all the others again and again.
            retries: 200,
            pool: PoolOptions {
                reset,
                shape,
                wait: Duration::from_secs(30),
                ..PoolOptions::default()
            },
            ..Options::default()
        };
        let served = database.serve(&options).await;
        let identity = format!("{locks:?}");
        let clients = (0..16).map(|number| {
            let mut client = Client::new(served.address);
            let post = format!(
                r#"{{"identity": "{identity}", "references": [{}, 3], "body": {{"of": {number}}}}}"#,
                number + 1
            );
            tokio::spawn(async move {
                let mut answers = Vec::new();
                for _ in 0..4 {
                    let answer = client.post("/data/resource-0", &post).await;
                    assert!([200, 201].contains(&answer.status), "{}", answer.text);
                    answers.push((answer.status, answer.version(), answer.json()["id"].to_string()));
                }
                answers
            })
        });
        let mut answers = Vec::new();
        for client in clients.collect::<Vec<_>>() {
            answers.extend(client.await.expect("no panic"));
        }
        answers.sort_unstable_by_key(|answer| answer.1);
        let versions: Vec<i32> = answers.iter().map(|answer| answer.1).collect();
        assert_eq!(versions, (1..=64).collect::<Vec<_>>(), "{locks:?}");
        assert_eq!(answers.iter().filter(|answer| answer.0 == 201).count(), 1);
        assert!(answers.iter().all(|answer| answer.2 == answers[0].2), "{answers:?}");
        served.end().await;
    }
    let session = database.session().await;
    let twice =
        "SELECT count(*) FROM (SELECT FROM alias GROUP BY referential_id HAVING count(*) > 1) AS x";
    assert_eq!(session.query_one(twice, &[]).await.unwrap().get::<_, i64>(0), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_pool_that_is_exhausted_says_when_to_come_again() {
    let database = Database::new(&[]).await;
    let pool = PoolOptions { size: 1, wait: Duration::from_millis(100), ..PoolOptions::default() };
    let options = Options { pool, ..Options::default() };
    let served = database.serve(&options).await;
    let mut client = Client::new(served.address);
    let post = r#"{"identity": 3, "references": [1], "body": {"held": true}}"#;
    let mut session = database.session().await;
    let holding = session.transaction().await.unwrap();
    holding.execute("SELECT FROM document WHERE id = 3 FOR UPDATE", &[]).await.unwrap();
    let address = served.address;
    let waiting =
        tokio::spawn(async move { Client::new(address).post("/data/resource-0", post).await });
    // The only session waits for the lock from here on.
    let blocked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    while holding.query_one(blocked, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let refused = client.get("/data/resource-0?identity=3").await;
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    holding.commit().await.unwrap();
    assert_eq!(waiting.await.unwrap().status, 200);

    // A client that leaves in the middle leaves no transaction behind, and the pool whole.
    let holding = session.transaction().await.unwrap();
    holding.execute("SELECT FROM document WHERE id = 3 FOR UPDATE", &[]).await.unwrap();
    let leaving =
        tokio::spawn(async move { Client::new(address).post("/data/resource-0", post).await });
    while holding.query_one(blocked, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    leaving.abort();
    _ = leaving.await;
    holding.commit().await.unwrap();
    loop {
        let found = client.get("/data/resource-0?identity=3").await;
        if found.status == 200 {
            break;
        }
        assert_eq!(found.status, 503);
    }
    let left = "SELECT count(*) FROM pg_stat_activity WHERE state ~ 'idle in transaction'";
    while session.query_one(left, &[]).await.unwrap().get::<_, i64>(0) > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    served.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reference_to_what_another_deletes_meanwhile_is_refused() {
    for way in ["equality_first", "delete_insert", "merge", "staging_temp", "pure_insert"] {
        let database = Database::new(&[("references", way)]).await;
        let served = database.serve(&Options::default()).await;
        let mut client = Client::new(served.address);
        let target = r#"{"identity": "goes", "body": {}}"#;
        assert_eq!(client.post("/data/resource-1", target).await.status, 201);
        // What is posted finds its target, and then waits to refer to it.
        let mut session = database.session().await;
        let deleting = session.transaction().await.unwrap();
        let lock = "LOCK TABLE reference IN ACCESS EXCLUSIVE MODE";
        deleting.execute(lock, &[]).await.unwrap();
        let address = served.address;
        let post = r#"{"identity": "stays", "references": [3, "goes"], "body": {}}"#;
        let posting =
            tokio::spawn(async move { Client::new(address).post("/data/resource-1", post).await });
        let blocked = "SELECT count(*) FROM pg_locks WHERE NOT granted";
        while deleting.query_one(blocked, &[]).await.unwrap().get::<_, i64>(0) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let delete =
            "DELETE FROM document WHERE id = (SELECT max(id) FROM document WHERE id > 10000
                                                          AND resource = 'resource-1')";
        assert_eq!(deleting.execute(delete, &[]).await.unwrap(), 1);
        deleting.commit().await.unwrap();
        let answer = posting.await.unwrap();
        assert_eq!(answer.status, 409, "{way}: {}", answer.text);
        assert_eq!(answer.json()["missing"].to_string(), r#"["goes"]"#, "{way}");
        served.end().await;
    }
}
