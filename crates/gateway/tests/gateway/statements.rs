//! Every statement has its own result, its own error and its own transaction.

use tokio_postgres::error::SqlState;

use crate::common::Testbed;

#[tokio::test]
async fn statements_transactions_and_errors_are_as_they_are_directly() {
    let testbed = Testbed::new(&[], |_| {});
    let client = testbed.client().await;
    client.batch_execute("CREATE TABLE t (a int PRIMARY KEY, b text)").await.unwrap();
    assert_eq!(client.execute("INSERT INTO t VALUES (1, $1)", &[&"one"]).await.unwrap(), 1);
    let again = client.execute("INSERT INTO t VALUES (1, $1)", &[&"two"]).await.unwrap_err();
    assert_eq!(again.code(), Some(&SqlState::UNIQUE_VIOLATION));
    let row = client.query_one("SELECT b FROM t WHERE a = $1", &[&1]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0), "one");

    let mut other = testbed.client().await;
    let transaction = other.transaction().await.unwrap();
    transaction.execute("INSERT INTO t VALUES (2, 'two')", &[]).await.unwrap();
    let seen = |rows: Vec<tokio_postgres::Row>| rows.len();
    assert_eq!(seen(client.query("SELECT * FROM t", &[]).await.unwrap()), 1);
    transaction.commit().await.unwrap();
    assert_eq!(seen(client.query("SELECT * FROM t", &[]).await.unwrap()), 2);
    let transaction = other.transaction().await.unwrap();
    transaction.execute("INSERT INTO t VALUES (3, 'three')", &[]).await.unwrap();
    assert!(transaction.execute("INSERT INTO t VALUES (3, 'three')", &[]).await.is_err());
    transaction.rollback().await.unwrap();
    assert_eq!(seen(client.query("SELECT * FROM t", &[]).await.unwrap()), 2);

    // How a client wants dates written says nothing of which server it is.
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(testbed.port()).user("postgres").dbname("postgres");
    config.options("-c TimeZone=PST8PDT -c DateStyle=Postgres,MDY");
    let (dated, connection) = config.connect(tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(async move { connection.await.ok() });
    assert_eq!(seen(dated.query("SELECT * FROM t", &[]).await.unwrap()), 2);

    let direct = testbed.direct().await;
    assert_eq!(seen(direct.query("SELECT * FROM t", &[]).await.unwrap()), 2);
}

#[tokio::test]
async fn prepared_statements_follow_their_client_from_session_to_session() {
    let testbed = Testbed::new(&[], |options| options.pooling.size = 3);
    let client = testbed.client().await;
    client.batch_execute("CREATE TABLE t (a int)").await.unwrap();
    let insert = client.prepare("INSERT INTO t VALUES ($1)").await.unwrap();
    let count = client.prepare("SELECT count(*) FROM t").await.unwrap();
    let bad = client.prepare("SELECT nothing FROM nowhere").await.unwrap_err();
    assert_eq!(bad.code(), Some(&SqlState::UNDEFINED_TABLE));
    let several = (0..40).map(|number| {
        let (client, insert) = (&client, &insert);
        async move { client.execute(insert, &[&number]).await.unwrap() }
    });
    let inserted: u64 = futures_util::future::join_all(several).await.into_iter().sum();
    assert_eq!(inserted, 40);
    let counted: i64 = client.query_one(&count, &[]).await.unwrap().get(0);
    assert_eq!(counted, 40);
}

#[tokio::test]
async fn copy_goes_both_ways_and_an_error_in_it_ends_it() {
    use futures_util::{SinkExt, TryStreamExt};
    let testbed = Testbed::new(&[], |_| {});
    let client = testbed.client().await;
    client.batch_execute("CREATE TABLE t (a int)").await.unwrap();
    for (text, expected) in [("1\n2\n3\n", Some(3)), ("4\nfive\n", None)] {
        let sink = client.copy_in("COPY t FROM STDIN").await.unwrap();
        let mut sink = std::pin::pin!(sink);
        sink.send(bytes::Bytes::from(text)).await.unwrap();
        assert_eq!(sink.finish().await.ok(), expected);
    }
    let lines = client.copy_out("COPY t TO STDOUT").await.unwrap();
    let lines: Vec<bytes::Bytes> = lines.try_collect().await.unwrap();
    assert_eq!(lines.concat(), b"1\n2\n3\n");
    let long = "SELECT repeat('x', 100000) FROM generate_series(1, 30)";
    let rows = client.query(long, &[]).await.unwrap();
    assert!(rows.iter().all(|row| row.get::<_, &str>(0).len() == 100_000) && rows.len() == 30);
}

#[tokio::test]
async fn settings_follow_their_client_and_nobody_else() {
    let testbed = Testbed::new(&[], |options| {
        options.pooling.size = 2;
        options.spread = 1;
    });
    let (first, second) = (testbed.client().await, testbed.client().await);
    let plain = second.query_one("SHOW work_mem", &[]).await.unwrap().get::<_, String>(0);
    first.batch_execute("SET work_mem = '3MB'").await.unwrap();
    first.batch_execute("SET TIME ZONE 'Asia/Tokyo'").await.unwrap();
    assert!(first.batch_execute("SET nothing_like_it = 1").await.is_err());
    let shown = async |client: &tokio_postgres::Client, name: &str| {
        let sql = format!("SHOW {name}");
        client.query_one(&sql, &[]).await.unwrap().get::<_, String>(0)
    };
    for _ in 0..5 {
        assert_eq!(shown(&first, "work_mem").await, "3MB");
        assert_eq!(shown(&second, "work_mem").await, plain);
        assert_eq!(shown(&first, "timezone").await, "Asia/Tokyo");
    }
    first.batch_execute("RESET work_mem").await.unwrap();
    assert_eq!(shown(&first, "work_mem").await, plain);

    // Among other statements too.
    first.batch_execute("SET work_mem = '5MB'; SELECT 1").await.unwrap();
    assert_eq!(shown(&first, "work_mem").await, "5MB");
    assert_eq!(shown(&second, "work_mem").await, plain);
    assert_eq!(shown(&first, "timezone").await, "Asia/Tokyo");
    first.batch_execute("DISCARD ALL").await.unwrap();
    assert_ne!(shown(&first, "timezone").await, "Asia/Tokyo");
}

/// What a comment or a quote seems to hide changes the session of its client alone.
#[tokio::test]
async fn what_is_hidden_from_a_careless_reader_is_no_other_client_s() {
    let testbed = Testbed::new(&[], |options| {
        (options.pooling.size, options.spread, options.workers) = (3, 1, 1);
    });
    let other = testbed.client().await;
    let mut plain = Vec::new();
    for hides in ["SELECT 1 -- it's\n;", "--\r", "SELECT E'\\'';", "SELECT $$'$$;", ";", ""] {
        for sets in [
            "SET synchronous_commit = off",
            "SET search_path = x",
            "SET ROLE pg_monitor",
            "UPDATE pg_settings SET setting = 'x' WHERE name = 'search_path'",
            "DO 'BEGIN SET synchronous_commit = off; END'",
        ] {
            let client = testbed.client().await;
            client.batch_execute(&format!("{hides}{sets}")).await.unwrap();
            let mut shown = Vec::new();
            // Each kind of session.
            for sql in ["SHOW synchronous_commit", "SHOW search_path", "SHOW role"] {
                shown.push(other.query_one(sql, &[]).await.unwrap().get::<_, String>(0));
            }
            let sql = "WITH a AS (SELECT 1) SELECT current_setting('search_path')";
            shown.push(other.query_one(sql, &[]).await.unwrap().get::<_, String>(0));
            if plain.is_empty() {
                plain = shown.clone();
                assert_eq!(plain, ["on", "\"$user\", public", "none", "\"$user\", public"]);
            }
            assert_eq!(shown, plain, "{hides}{sets}");
        }
    }
}

#[tokio::test]
async fn what_a_session_remembers_stays_with_its_client() {
    let testbed = Testbed::new(&[], |options| options.pooling.size = 3);
    let (first, second) = (testbed.client().await, testbed.client().await);
    first.batch_execute("CREATE TEMP TABLE mine (a int)").await.unwrap();
    first.batch_execute("PREPARE own AS SELECT 7").await.unwrap();
    for _ in 0..5 {
        first.execute("INSERT INTO mine VALUES (1)", &[]).await.unwrap();
        assert!(second.execute("INSERT INTO mine VALUES (1)", &[]).await.is_err());
    }
    let seven: i32 = first.query_one("EXECUTE own", &[]).await.unwrap().get(0);
    assert_eq!(seven, 7);
    // The statement that the client prepared by the protocol goes with the others.
    let prepared = first.prepare("SELECT 8").await.unwrap();
    first.batch_execute("DISCARD ALL").await.unwrap();
    assert!(first.execute("INSERT INTO mine VALUES (1)", &[]).await.is_err());
    assert!(first.query_one(&prepared, &[]).await.is_err());
    let again: i32 = first.query_one("SELECT 9", &[]).await.unwrap().get(0);
    assert_eq!(again, 9);
}

#[tokio::test]
async fn a_transaction_that_only_reads_keeps_its_client_and_its_session() {
    let testbed = Testbed::new(&[], |options| options.pooling.size = 2);
    let mut client = testbed.client().await;
    client.batch_execute("CREATE TABLE t (a int); INSERT INTO t VALUES (1)").await.unwrap();
    let mut sessions = std::collections::HashSet::new();
    for _ in 0..10 {
        let transaction = client.transaction().await.unwrap();
        let row = transaction.query_one("SELECT a, pg_backend_pid() FROM t", &[]).await.unwrap();
        assert_eq!(row.get::<_, i32>(0), 1);
        sessions.insert(row.get::<_, i32>(1));
        transaction.commit().await.unwrap();
    }
    assert!(sessions.len() <= 2, "sessions are not made anew: {sessions:?}");
    // A function may write where no keyword tells.
    client
        .batch_execute(
            "CREATE FUNCTION put(int) RETURNS void LANGUAGE sql AS 'INSERT INTO t VALUES ($1)'",
        )
        .await
        .unwrap();
    let transaction = client.transaction().await.unwrap();
    transaction.execute("SELECT put(2)", &[]).await.unwrap();
    transaction.commit().await.unwrap();
    let direct = testbed.direct().await;
    let count: i64 = direct.query_one("SELECT count(*) FROM t", &[]).await.unwrap().get(0);
    assert_eq!(count, 2);
}

#[tokio::test]
async fn a_statement_can_be_prepared_while_transactions_have_all_sessions() {
    let testbed = Testbed::new(&[], |options| options.pooling.size = 1);
    let (mut first, second) = (testbed.client().await, testbed.client().await);
    let transaction = first.transaction().await.unwrap();
    // pgbench waits for each of these before it goes on with any other client.
    let begin = second.prepare("BEGIN").await.unwrap();
    transaction.rollback().await.unwrap();
    second.execute(&begin, &[]).await.unwrap();
    second.batch_execute("COMMIT").await.unwrap();
}

/// A client that prepares a statement once more after its table has changed gets the new columns,
/// as it does directly.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_is_prepared_anew_where_its_columns_have_changed() {
    let testbed = Testbed::new(&[], |options| options.pooling.size = 1);
    let client = testbed.client().await;
    client.batch_execute("CREATE TABLE t (a int); INSERT INTO t VALUES (1)").await.unwrap();
    let sql = "SELECT * FROM t";
    let old = client.prepare(sql).await.unwrap();
    assert_eq!(client.query_one(&old, &[]).await.unwrap().len(), 1);
    client.batch_execute("ALTER TABLE t ADD COLUMN b int").await.unwrap();
    let error = client.query_one(&old, &[]).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::FEATURE_NOT_SUPPORTED));
    let new = client.prepare(sql).await.unwrap();
    assert_eq!(client.query_one(&new, &[]).await.unwrap().len(), 2);
}

/// Who prepares a statement does not get one that was prepared before, by itself or another, when
/// its text meant something else: within a transaction an error would be the end of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_means_what_it_does_when_it_is_prepared() {
    let testbed = Testbed::new(&[], |options| options.pooling.size = 1);
    let mut client = testbed.client().await;
    client
        .batch_execute(
            "CREATE SCHEMA a CREATE TABLE t (a int); CREATE SCHEMA b CREATE TABLE t (a int, b int)",
        )
        .await
        .unwrap();
    let sql = "SELECT * FROM t";
    for path in ["a", "b"] {
        let other = testbed.client().await;
        other.batch_execute(&format!("SET search_path = {path}")).await.unwrap();
        let columns = other.prepare(sql).await.unwrap().columns().len();
        assert_eq!(columns, if path == "a" { 1 } else { 2 });
    }
    let transaction = client.transaction().await.unwrap();
    for (change, columns) in [
        ("SET LOCAL search_path = b", 2),
        ("SET LOCAL search_path = a", 1),
        ("ALTER TABLE a.t ADD COLUMN c int", 2),
        ("ALTER TABLE a.t ADD COLUMN d int", 3),
    ] {
        transaction.batch_execute(change).await.unwrap();
        let statement = transaction.prepare(sql).await.expect(change);
        assert_eq!(statement.columns().len(), columns, "{change}");
        transaction.query(&statement, &[]).await.expect(change);
    }
    transaction.rollback().await.unwrap();
}

/// `RESET` refuses settings of one transaction, and a session that is not as it should be is lost.
#[tokio::test]
async fn a_setting_of_one_transaction_does_not_follow_its_client() {
    let testbed = Testbed::new(&[], |options| options.pooling.size = 1);
    let (a, b) = (testbed.client().await, testbed.client().await);
    let process = "SELECT pg_backend_pid()";
    let before: i32 = b.query_one(process, &[]).await.unwrap().get(0);
    a.batch_execute("SET transaction_isolation = 'serializable'").await.unwrap();
    b.batch_execute("SELECT 1").await.unwrap();
    assert_eq!(b.query_one(process, &[]).await.unwrap().get::<_, i32>(0), before);
}

/// What a sequence gave is told within its transaction; elsewhere another client may have had the
/// session since.
#[tokio::test]
async fn nobody_is_told_what_a_sequence_gave_to_another() {
    let testbed = Testbed::new(&[], |options| options.pooling.size = 1);
    let (first, mut second) = (testbed.client().await, testbed.client().await);
    first.batch_execute("CREATE SEQUENCE s").await.unwrap();
    first.batch_execute("CREATE TABLE t (a bigint DEFAULT nextval('s'))").await.unwrap();
    first.batch_execute("INSERT INTO t DEFAULT VALUES").await.unwrap();
    // Nobody has asked before.
    let transaction = second.transaction().await.unwrap();
    let error = transaction.query_one("SELECT lastval()", &[]).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE));
    // In a block that has failed it is refused as any other, and the connection stays.
    let error = transaction.query_one("SELECT lastval()", &[]).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::IN_FAILED_SQL_TRANSACTION));
    transaction.rollback().await.unwrap();
    second.batch_execute("DISCARD ALL").await.unwrap();
    for sql in ["SELECT currval('s')", "SELECT lastval()"] {
        let error = second.query_one(sql, &[]).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE), "{sql}");
        second.batch_execute("DISCARD ALL").await.unwrap();
    }
    let transaction = second.transaction().await.unwrap();
    transaction.batch_execute("INSERT INTO t DEFAULT VALUES").await.unwrap();
    let given = transaction.query_one("SELECT currval('s')", &[]).await.unwrap();
    assert_eq!(given.get::<_, i64>(0), 2);
    transaction.commit().await.unwrap();
    let given = second.query_one("SELECT lastval()", &[]).await.unwrap();
    assert_eq!(given.get::<_, i64>(0), 2);
}

/// What a client prepares is of the tables and types that are there then, whoever prepared the
/// same text before.
#[tokio::test]
async fn a_statement_is_prepared_anew_after_its_tables_and_types_have_changed() {
    let testbed = Testbed::new(&[], |options| (options.workers, options.pooling.size) = (2, 1));
    let changes = [
        "CREATE TYPE kind AS ENUM ('one'); CREATE TABLE t (a int, b kind)",
        "ALTER TABLE t ADD COLUMN c int",
        "BEGIN; DROP TABLE t; DROP TYPE kind; CREATE TYPE kind AS ENUM ('one'); \
         CREATE TABLE t (b kind); COMMIT",
        "DO $$ BEGIN ALTER TABLE t ADD COLUMN d text; END $$",
    ];
    let change = testbed.client().await;
    for (place, (sql, columns)) in changes.iter().zip([2, 3, 1, 2]).enumerate() {
        change.batch_execute(sql).await.unwrap();
        // One on each worker.
        for _ in 0..2 {
            let client = testbed.client().await;
            client.execute("INSERT INTO t (b) VALUES ($1::text::kind)", &[&"one"]).await.unwrap();
            let row = client.query_one("SELECT * FROM t LIMIT 1", &[]).await.unwrap();
            assert_eq!(row.len(), columns, "after change {place}");
            let kind = client.prepare("SELECT $1::kind").await.unwrap();
            let oid = client.query_one("SELECT 'kind'::regtype::oid", &[]).await.unwrap();
            assert_eq!(kind.params()[0].oid(), oid.get::<_, u32>(0), "after change {place}");
        }
    }
}

/// Whatever session executes it: one may have prepared the same text when its types were others.
#[tokio::test]
async fn what_is_prepared_after_a_type_was_made_anew_runs_on_every_session() {
    let testbed = Testbed::new(&[], |options| options.pooling.size = 2);
    for _ in 0..2 {
        let mut client = testbed.client().await;
        client.batch_execute("DROP TYPE IF EXISTS e; CREATE TYPE e AS ENUM ('a')").await.unwrap();
        let statement = client.prepare("SELECT $1::e::text").await.unwrap();
        let asked = |of: tokio_postgres::Row| of.get::<_, String>(0);
        let row = client.query_one(&statement, &[&Mood]).await.unwrap();
        assert_eq!(asked(row), "a");
        // A transaction that writes has another session.
        let transaction = client.transaction().await.unwrap();
        let row = transaction.query_one(&statement, &[&Mood]).await.unwrap();
        assert_eq!(asked(row), "a");
        transaction.commit().await.unwrap();
    }
}

/// Whatever session executes it, a statement gives what its client was told when it was described,
/// or the server's error: also where somebody has changed its table who is not the gateway's
/// client.
#[tokio::test]
async fn a_statement_never_gives_other_columns_than_its_client_was_told() {
    let testbed = Testbed::new(&[], |options| options.pooling.size = 1);
    let (mut client, direct) = (testbed.client().await, testbed.direct().await);
    direct.batch_execute("CREATE TABLE t (a int); INSERT INTO t VALUES (1)").await.unwrap();
    let read = client.prepare("SELECT * FROM t").await.unwrap();
    let write = client.prepare("INSERT INTO t VALUES (2) RETURNING *").await.unwrap();
    let gone = client.prepare("SELECT a FROM t WHERE a < 2").await.unwrap();
    assert_eq!(client.query_one(&read, &[]).await.unwrap().len(), 1);

    direct.batch_execute("ALTER TABLE t ADD COLUMN b int").await.unwrap();
    // What writes has another session than where these were prepared, and so has a transaction.
    let error = client.query(&write, &[]).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::FEATURE_NOT_SUPPORTED));
    let transaction = client.transaction().await.unwrap();
    let error = transaction.query(&read, &[]).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::FEATURE_NOT_SUPPORTED));
    let error = transaction.query("SELECT 1", &[]).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::IN_FAILED_SQL_TRANSACTION));
    transaction.rollback().await.unwrap();

    // What is prepared once more is what it is now.
    let now = client.prepare("SELECT * FROM t").await.unwrap();
    let transaction = client.transaction().await.unwrap();
    assert_eq!(transaction.query(&now, &[]).await.unwrap().len(), 1, "nothing was inserted");
    assert_eq!(transaction.query_one(&now, &[]).await.unwrap().len(), 2);
    transaction.rollback().await.unwrap();

    // And what is again as it was runs again.
    direct.batch_execute("ALTER TABLE t DROP COLUMN b").await.unwrap();
    let transaction = client.transaction().await.unwrap();
    assert_eq!(transaction.query_one(&read, &[]).await.unwrap().len(), 1);
    transaction.rollback().await.unwrap();

    direct.batch_execute("DROP TABLE t").await.unwrap();
    let transaction = client.transaction().await.unwrap();
    let error = transaction.query(&gone, &[]).await.unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::UNDEFINED_TABLE));
    transaction.rollback().await.unwrap();
}

/// Parameters have the types that a client was told: it sends bytes that mean something else to
/// others.
#[tokio::test]
async fn parameters_keep_the_types_that_a_client_was_told() {
    let testbed = Testbed::new(&[], |options| options.pooling.size = 1);
    let (client, direct) = (testbed.client().await, testbed.direct().await);
    direct.batch_execute("CREATE TABLE t (a int8)").await.unwrap();
    let write = client.prepare("INSERT INTO t VALUES ($1)").await.unwrap();
    direct.batch_execute("ALTER TABLE t ALTER COLUMN a TYPE float8").await.unwrap();
    client.execute(&write, &[&5_i64]).await.unwrap();
    let written: f64 = direct.query_one("SELECT a FROM t", &[]).await.unwrap().get(0);
    assert_eq!(written, 5.0);
}

/// Clients to whom the same text means something else share a session.
#[tokio::test]
async fn a_text_gives_each_client_what_it_means_to_it() {
    let testbed = Testbed::new(&[], |options| options.pooling.size = 1);
    let direct = testbed.direct().await;
    direct
        .batch_execute(
            "CREATE SCHEMA a CREATE TABLE t (a int); CREATE SCHEMA b CREATE TABLE t (a int, b int);
             INSERT INTO a.t VALUES (1); INSERT INTO b.t VALUES (1, 2)",
        )
        .await
        .unwrap();
    let mut all = Vec::new();
    for (path, columns) in [("a", 1), ("b", 2)] {
        let client = testbed.client().await;
        client.batch_execute(&format!("SET search_path = {path}")).await.unwrap();
        all.push((client, columns));
    }
    let mut prepared = Vec::new();
    for (client, columns) in &all {
        prepared.push((client, client.prepare("SELECT * FROM t").await.unwrap(), *columns));
    }
    for _ in 0..2 {
        for (client, statement, columns) in &prepared {
            assert_eq!(client.query_one(statement, &[]).await.unwrap().len(), *columns);
        }
    }
}

/// A value of a type of the server's users.
#[derive(Debug)]
struct Mood;

impl tokio_postgres::types::ToSql for Mood {
    fn to_sql(
        &self,
        _: &tokio_postgres::types::Type,
        out: &mut bytes::BytesMut,
    ) -> Result<tokio_postgres::types::IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(b"a");
        Ok(tokio_postgres::types::IsNull::No)
    }

    fn accepts(of: &tokio_postgres::types::Type) -> bool {
        of.name() == "e"
    }

    tokio_postgres::types::to_sql_checked!();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_setting_whose_name_is_a_word_of_sql_is_taken_back_for_the_next_client() {
    let testbed = Testbed::new(&[], |options| options.pooling.size = 1);
    let (one, other) = (testbed.client().await, testbed.client().await);
    let asks = "SELECT pg_catalog.current_setting('app.user', true)";
    for name in ["\"app.user\"", "app.mode"] {
        one.batch_execute(&format!("SET {name} = '42'")).await.unwrap();
    }
    for _ in 0..3 {
        let row = one.query_one(asks, &[]).await.unwrap();
        assert_eq!(row.get::<_, Option<&str>>(0), Some("42"));
        let row = other.query_one(asks, &[]).await.expect("its session is of use");
        assert_ne!(row.get::<_, Option<&str>>(0), Some("42"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_is_told_what_a_sequence_gave_to_itself() {
    let testbed = Testbed::new(&[], |options| options.pooling.size = 1);
    let mut client = testbed.client().await;
    client.batch_execute("CREATE SEQUENCE s").await.unwrap();
    let transaction = client.transaction().await.unwrap();
    transaction.batch_execute("SELECT nextval('s')").await.unwrap();
    // The first to ask of all.
    let given = transaction.query_one("SELECT currval('s')", &[]).await.unwrap();
    assert_eq!(given.get::<_, i64>(0), 1);
    transaction.commit().await.unwrap();
}
