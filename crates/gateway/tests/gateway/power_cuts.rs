//! What a power cut may take: nothing that a client was told is committed.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio_postgres::Client;
use walwright_gateway::{Authentication, Gateway, Listen, Options};
use walwright_server::{Cluster, PowerCut};
use walwright_wire::{ConnectOptions, Host};

use crate::common::{Testbed, connected, port_of, reload, spec};
use crate::pipelines;
use crate::standby::alter_system;

const WRITERS: i64 = 12;
/// Acknowledged rows of each writer before the cut.
const ENOUGH: i64 = 60;

/// What a writer knows.
#[derive(Default)]
struct Told {
    /// The last row that was acknowledged.
    acknowledged: AtomicI64,
    /// The largest number that any writer was shown by a read of the one row that all update.
    seen: AtomicI64,
}

/// Writes rows, adds to a row that all share, and reads it, until the connection breaks.
async fn write(client: Client, writer: i64, told: Arc<Told>, stop: Arc<AtomicBool>) {
    for number in 1.. {
        if stop.load(Ordering::Acquire) {
            return;
        }
        let insert = "INSERT INTO ledger VALUES ($1, $2)";
        if client.execute(insert, &[&writer, &number]).await.is_err() {
            return;
        }
        told.acknowledged.store(number, Ordering::Release);
        let update = "UPDATE total SET n = n + 1 RETURNING n";
        let read = "SELECT n FROM total";
        for sql in [update, read] {
            let Ok(row) = client.query_one(sql, &[]).await else { return };
            told.seen.fetch_max(row.get(0), Ordering::AcqRel);
        }
    }
}

/// Rows that were acknowledged and are gone, and by how much a read was ahead of what is left.
async fn cut(level: &str, cut: PowerCut) -> (i64, i64) {
    let base = tempfile::tempdir_in("/var/tmp").expect("temp dir");
    // What is not flushed for a client's sake is not flushed for a while.
    let cluster = Cluster::create(spec(base.path(), &[("wal_writer_delay", "10s")])).expect("made");
    let server = cluster.start_watched().expect("started");
    let socket = server.socket_dir().to_owned();
    let direct = connected(&socket.display().to_string(), server.port()).await;
    direct
        .batch_execute(&format!(
            "CREATE TABLE ledger (writer bigint, number bigint, PRIMARY KEY (writer, number)); \
             CREATE TABLE total (n bigint); INSERT INTO total VALUES (0); \
             ALTER ROLE postgres SET synchronous_commit = {level}; CHECKPOINT"
        ))
        .await
        .unwrap();
    let to = ConnectOptions::new(Host::Unix(socket), server.port(), "postgres", "postgres");
    let mut options = Options::new(to);
    options.authentication = Authentication::Trust;
    options.listen = vec![Listen::Tcp(([127, 0, 0, 1], 0).into())];
    let gateway = Gateway::start(options.clone()).expect("a gateway");
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let told = Arc::new(Told::default());
        let client = connected("127.0.0.1", port_of(&gateway)).await;
        let task = tokio::spawn(write(client, writer, told.clone(), stop.clone()));
        writers.push((told, task));
    }
    let reached = |(told, _): &(Arc<Told>, _)| told.acknowledged.load(Ordering::Acquire) >= ENOUGH;
    while !writers.iter().all(reached) {
        assert!(!writers.iter().any(|(_, task)| task.is_finished()), "a writer gave up");
        tokio::task::yield_now().await;
    }
    tokio::task::block_in_place(|| server.cut_power(cut)).expect("cut");
    stop.store(true, Ordering::Release);
    // The server does not come back while the gateway is there.
    reload(&gateway, &Arc::new(Mutex::new(options)), |options| {
        options.limits.query_wait_timeout = Some(Duration::ZERO);
    });
    let mut told = Vec::new();
    for (of, task) in writers {
        task.await.expect("a writer");
        told.push(of);
    }
    drop(gateway);
    let server = tokio::task::block_in_place(|| cluster.start()).expect("recovers");
    let direct = connected(&server.socket_dir().display().to_string(), server.port()).await;
    let (mut lost, mut seen) = (0, 0);
    for (writer, of) in (0_i64..).zip(&told) {
        let acknowledged = of.acknowledged.load(Ordering::Acquire);
        seen = seen.max(of.seen.load(Ordering::Acquire));
        let sql = "SELECT count(*) FROM ledger WHERE writer = $1 AND number <= $2";
        let row = direct.query_one(sql, &[&writer, &acknowledged]).await.unwrap();
        lost += acknowledged - row.get::<_, i64>(0);
    }
    let left: i64 = direct.query_one("SELECT n FROM total", &[]).await.unwrap().get(0);
    (lost, (seen - left).max(0))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_takes_nothing_that_was_told() {
    for how in [PowerCut::All, PowerCut::Random { seed: 7 }] {
        assert_eq!(cut("on", how).await, (0, 0), "{how:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_finds_what_is_lost_where_clients_ask_not_to_wait() {
    let (lost, ahead) = cut("off", PowerCut::All).await;
    assert!(lost > 0 && ahead >= 0, "{lost} {ahead}");
}

/// A read through the gateway tells of a row that was written by a statement whose barrier was
/// lost while it ran; then the power is cut. Whether the row is left.
async fn cut_after_a_stray() -> bool {
    let base = tempfile::tempdir_in("/var/tmp").expect("temp dir");
    let cluster = Cluster::create(spec(base.path(), &[("wal_writer_delay", "10s")])).expect("made");
    let server = cluster.start_watched().expect("started");
    let socket = server.socket_dir().to_owned();
    let direct = connected(&socket.display().to_string(), server.port()).await;
    direct.batch_execute("CREATE TABLE t (n int); CHECKPOINT").await.unwrap();
    direct.execute("SELECT pg_advisory_lock(1)", &[]).await.unwrap();
    let to = ConnectOptions::new(Host::Unix(socket), server.port(), "postgres", "postgres");
    let mut options = Options::new(to);
    options.authentication = Authentication::Trust;
    options.listen = vec![Listen::Tcp(([127, 0, 0, 1], 0).into())];
    let gateway = Gateway::start(options).expect("a gateway");
    let (writer, reader) = (
        connected("127.0.0.1", port_of(&gateway)).await,
        connected("127.0.0.1", port_of(&gateway)).await,
    );
    let write = tokio::spawn(async move {
        writer.execute("INSERT INTO t SELECT 1 FROM pg_advisory_xact_lock(1)", &[]).await
    });
    let runs = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory'";
    while direct.query_one(runs, &[]).await.unwrap().get::<_, i64>(0) == 0 {}
    let ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                WHERE application_name = 'walwright barrier'";
    direct.execute(ends, &[]).await.unwrap();
    assert!(write.await.unwrap().is_err(), "it cannot be known whether it is committed");
    direct.execute("SELECT pg_advisory_unlock(1)", &[]).await.unwrap();
    loop {
        let count = "SELECT count(*) FROM t";
        let Ok(row) = reader.query_one(count, &[]).await else { panic!("the reader was lost") };
        if row.get::<_, i64>(0) == 1 {
            break;
        }
    }
    tokio::task::block_in_place(|| server.cut_power(PowerCut::All)).expect("cut");
    drop(gateway);
    let server = tokio::task::block_in_place(|| cluster.start()).expect("recovers");
    let direct = connected(&server.socket_dir().display().to_string(), server.port()).await;
    direct.query_one("SELECT count(*) FROM t", &[]).await.unwrap().get::<_, i64>(0) == 1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_commits_after_its_barrier_was_lost_is_not_told_of_before_it_is_durable() {
    assert!(cut_after_a_stray().await);
}

/// Has the server commit a row in a way that the gateway could miss, most of them before what is
/// sent in one go has ended, and waits until it is told.
type Commits = fn(&mut pipelines::Client, number: i64);

const INSERT: &str = "INSERT INTO t VALUES";

/// Sends a Query and reads until a message of this type, of a command with this tag.
fn query_until(client: &mut pipelines::Client, sql: &str, tag: u8, command: &str) {
    client.query(sql);
    client.send();
    loop {
        let (of, body) = client.receive();
        assert_ne!(of, b'E', "{}", String::from_utf8_lossy(&body));
        if of == tag && body.starts_with(command.as_bytes()) {
            return;
        }
    }
}

fn begin_and_insert(client: &mut pipelines::Client, number: i64) {
    for sql in ["BEGIN", &format!("{INSERT} ({number})")] {
        query_until(client, sql, b'Z', "T");
    }
}

/// Writes as the only client does, whose session flushes by itself, until it is told not to.
fn opt_out(client: &mut pipelines::Client, sql: &str, number: i64) {
    for _ in 0..12 {
        query_until(client, "INSERT INTO t VALUES (-1)", b'Z', "I");
    }
    begin_and_insert(client, -1);
    for sql in [sql, &format!("{INSERT} ({number})")] {
        query_until(client, sql, b'Z', "T");
    }
    query_until(client, "COMMIT", b'Z', "I");
}

const WAYS: [(&str, Commits); 28] = [
    ("a COMMIT AND CHAIN", |client, number| {
        begin_and_insert(client, number);
        query_until(client, "COMMIT AND CHAIN", b'Z', "T");
    }),
    ("a COMMIT and another BEGIN", |client, number| {
        begin_and_insert(client, number);
        query_until(client, "COMMIT; BEGIN", b'Z', "T");
    }),
    ("a chained transaction that is rolled back", |client, number| {
        begin_and_insert(client, number);
        client.query("COMMIT AND CHAIN");
        query_until(client, "ROLLBACK", b'Z', "I");
    }),
    ("a COMMIT before a Flush", |client, number| {
        for sql in ["BEGIN", &format!("{INSERT} ({number})"), "COMMIT"] {
            client.execute("", sql);
        }
        client.message(b'H', b"");
        client.send();
        while client.receive() != (b'C', b"COMMIT\0".to_vec()) {}
    }),
    ("a COMMIT before a long answer", |client, number| {
        let sql = format!(
            "BEGIN; {INSERT} ({number}); COMMIT; \
             SELECT repeat('x', 1000) FROM generate_series(1, 1000); SELECT pg_sleep(600)"
        );
        query_until(client, &sql, b'C', "COMMIT");
    }),
    ("a COMMIT behind a long answer", |client, number| {
        let sql = format!("BEGIN; {INSERT} ({number}); SELECT repeat('x', 100000); COMMIT");
        query_until(client, &sql, b'Z', "I");
    }),
    ("a COMMIT AND CHAIN of a lone writer who has read it", |client, number| {
        for sql in ["BEGIN", "COMMIT"].repeat(12) {
            query_until(client, sql, b'Z', if sql == "BEGIN" { "T" } else { "I" });
        }
        query_until(client, "BEGIN", b'Z', "T");
        let mut writer = pipelines::Client::connect(client.port(), 2);
        query_until(&mut writer, "SET synchronous_commit = off", b'Z', "I");
        query_until(&mut writer, &format!("{INSERT} ({number})"), b'Z', "I");
        query_until(client, &format!("SELECT n FROM t WHERE n = {number}"), b'Z', "T");
        query_until(client, "COMMIT AND CHAIN", b'Z', "T");
    }),
    ("a procedure", |client, number| {
        query_until(client, &format!("CALL save({number})"), b'N', "");
    }),
    ("a procedure on a session of its client", |client, number| {
        query_until(client, "CREATE TEMP TABLE own ()", b'Z', "I");
        query_until(client, &format!("CALL save({number})"), b'N', "");
    }),
    ("a procedure before a Flush", |client, number| {
        client.execute("", &format!("CALL save({number})"));
        client.message(b'H', b"");
        client.send();
        while client.receive().0 != b'N' {}
    }),
    ("a procedure behind the ROLLBACK of a block", |client, number| {
        query_until(client, "BEGIN", b'Z', "T");
        for sql in ["ROLLBACK", &format!("CALL save_and_end({number})"), "BEGIN"] {
            client.execute("", sql);
        }
        client.sync();
        client.send();
        assert_eq!(client.answer().commands, ["ROLLBACK", "CALL", "BEGIN"]);
    }),
    ("a portal that is left behind the ROLLBACK of a block", |client, number| {
        query_until(client, "BEGIN", b'Z', "T");
        client.execute("", "ROLLBACK");
        let insert = format!("\0{INSERT} ({number}), (-2) RETURNING n\0\0\0");
        client.message(b'P', insert.as_bytes());
        client.message(b'B', b"\0\0\0\0\0\0\0\0");
        client.message(b'E', b"\0\0\0\0\x01");
        client.sync();
        client.send();
        assert_eq!(client.answer().commands, ["ROLLBACK"]);
    }),
    ("who is told by NOTIFY", |client, number| {
        let mut listener = pipelines::Client::connect(client.port(), 2);
        query_until(&mut listener, "LISTEN committed", b'Z', "I");
        query_until(client, "SET synchronous_commit = off", b'Z', "I");
        client.query(&format!("{INSERT} ({number}); NOTIFY committed"));
        client.send();
        while listener.receive().0 != b'A' {}
    }),
    ("who is shown it in a long answer", |client, number| {
        let mut reader = pipelines::Client::connect(client.port(), 2);
        query_until(client, "SET synchronous_commit = off", b'Z', "I");
        query_until(client, &format!("{INSERT} ({number})"), b'Z', "I");
        // The second row does not come.
        let sql = format!(
            "COPY (SELECT n || repeat('x', 100000), pg_sleep((i - 1) * 600) \
                   FROM (VALUES (1), (2)) AS v (i), t WHERE n = {number}) TO STDOUT"
        );
        query_until(&mut reader, &sql, b'd', "");
    }),
    ("a procedure that fails after its COMMIT, before a Flush", |client, number| {
        query_until(client, "CREATE TEMP TABLE own ()", b'Z', "I");
        client.execute("", &format!("CALL save_and_fail({number})"));
        client.message(b'H', b"");
        client.send();
        while client.receive().0 != b'E' {}
    }),
    ("a cursor that outlives its transaction", |client, number| {
        query_until(client, "BEGIN", b'Z', "T");
        let declares = format!("DECLARE c CURSOR WITH HOLD FOR SELECT save_one({number})");
        query_until(client, &declares, b'Z', "T");
        query_until(client, "COMMIT", b'Z', "I");
    }),
    ("a lone writer that opts out for a transaction", |client, number| {
        opt_out(client, "SET LOCAL synchronous_commit = off", number);
    }),
    ("a lone writer that opts out", |client, number| {
        opt_out(client, "SET synchronous_commit = off", number);
    }),
    ("who asks to wait again on a session of its own", |client, number| {
        query_until(client, "SET synchronous_commit = off", b'Z', "I");
        query_until(client, "CREATE TEMP TABLE own ()", b'Z', "I");
        query_until(client, "RESET synchronous_commit", b'Z', "I");
        query_until(client, &format!("{INSERT} ({number})"), b'Z', "I");
    }),
    ("who asks to wait again beside a comment", |client, number| {
        query_until(client, "SET synchronous_commit = off", b'Z', "I");
        query_until(client, "RESET ALL -- back to defaults", b'Z', "I");
        query_until(client, &format!("{INSERT} ({number})"), b'Z', "I");
    }),
    ("who asks to wait again in a block", |client, number| {
        query_until(client, "SET synchronous_commit = off", b'Z', "I");
        begin_and_insert(client, number);
        query_until(client, "SET LOCAL synchronous_commit = DEFAULT", b'Z', "T");
        query_until(client, "COMMIT", b'Z', "I");
    }),
    ("a lone writer that opts out in a pipeline", |client, number| {
        for _ in 0..12 {
            query_until(client, "INSERT INTO t VALUES (-1)", b'Z', "I");
        }
        query_until(client, "BEGIN", b'Z', "T");
        for sql in ["SET synchronous_commit = off", &format!("{INSERT} ({number})")] {
            client.execute("", sql);
        }
        client.sync();
        client.send();
        assert_eq!(client.answer().commands, ["SET", "INSERT 0 1"]);
        query_until(client, "COMMIT", b'Z', "I");
    }),
    ("others, on a session for which a RESET was bound and not run", |client, number| {
        query_until(client, "SET synchronous_commit = off", b'Z', "I");
        client.message(b'P', b"\0RESET synchronous_commit\0\0\0");
        client.message(b'B', b"\0\0\0\0\0\0\0\0");
        client.sync();
        client.send();
        assert!(client.answer().commands.is_empty());
        let mut other = pipelines::Client::connect(client.port(), 2);
        // Nothing is left that a barrier would have to cover.
        query_until(&mut other, "SELECT 1", b'Z', "I");
        query_until(&mut other, &format!("SELECT save_one({number})"), b'Z', "I");
    }),
    ("who reads it before a Flush", |client, number| {
        let mut reader = pipelines::Client::connect(client.port(), 2);
        query_until(client, "SET synchronous_commit = off", b'Z', "I");
        query_until(client, &format!("{INSERT} ({number})"), b'Z', "I");
        reader.execute("", &format!("SELECT n FROM t WHERE n = {number}"));
        reader.message(b'H', b"");
        reader.send();
        while reader.receive() != (b'C', b"SELECT 1\0".to_vec()) {}
    }),
    ("a portal from before that is run with the COMMIT", |client, number| {
        query_until(client, "BEGIN", b'Z', "T");
        client.message(b'P', format!("\0SELECT save_one({number})\0\0\0").as_bytes());
        client.message(b'B', b"one\0\0\0\0\0\0\0\0");
        client.sync();
        client.send();
        client.answer();
        client.message(b'E', b"one\0\0\0\0\0");
        client.execute("", "COMMIT");
        client.sync();
        client.send();
        assert_eq!(client.answer().commands, ["SELECT 1", "COMMIT"]);
    }),
    ("a function behind another's that stopped waiting", |client, number| {
        let mut other = pipelines::Client::connect(client.port(), 2);
        for _ in 0..3 {
            query_until(&mut other, "SELECT innocent()", b'Z', "I");
        }
        query_until(client, &format!("SELECT save_one({number})"), b'Z', "I");
    }),
    ("one that another reads who waits for nothing", |client, number| {
        let mut other = pipelines::Client::connect(client.port(), 2);
        query_until(&mut other, "SET synchronous_commit = off", b'Z', "I");
        client.query(&format!("{INSERT} ({number})"));
        client.send();
        loop {
            other.query(&format!("SELECT n FROM t WHERE n = {number}"));
            other.send();
            if !other.answer().rows.is_empty() {
                return;
            }
        }
    }),
    ("another that sets what only the COMMIT makes possible", |client, number| {
        begin_and_insert(client, number);
        query_until(client, "CREATE TEXT SEARCH CONFIGURATION mine (COPY = simple)", b'Z', "T");
        let mut other = pipelines::Client::connect(client.port(), 2);
        client.query("COMMIT");
        client.send();
        loop {
            other.query("SET default_text_search_config = 'mine'");
            other.send();
            if other.answer().errors.is_empty() {
                return;
            }
        }
    }),
];

/// Where the server asks nobody to wait.
const WAYS_TO_ASK: [(&str, Commits); 3] = [
    ("who asks to wait and names the setting in what it writes", |client, number| {
        query_until(client, "SET synchronous_commit = on", b'Z', "I");
        let insert = format!("{INSERT} ({number} + 0 * length('synchronous_commit'))");
        query_until(client, &insert, b'Z', "I");
    }),
    ("who asks to wait and sets something else in a block", |client, number| {
        query_until(client, "SET synchronous_commit = on", b'Z', "I");
        query_until(client, "BEGIN", b'Z', "T");
        query_until(client, "SELECT set_config('app.tenant', '7', true)", b'Z', "T");
        query_until(client, &format!("{INSERT} ({number})"), b'Z', "T");
        query_until(client, "COMMIT", b'Z', "I");
    }),
    ("a lone writer that may wait no more", |client, number| {
        query_until(client, "SET synchronous_commit = on", b'Z', "I");
        for _ in 0..12 {
            query_until(client, "INSERT INTO t VALUES (-1)", b'Z', "I");
        }
        begin_and_insert(client, number);
        query_until(client, "SELECT 1; RESET ALL", b'Z', "T");
        query_until(client, "COMMIT", b'Z', "I");
    }),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_way_something_is_committed_it_is_told_when_it_is_durable() {
    each_is_durable(&[], &WAYS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_to_wait_where_others_do_not_is_told_when_it_is_durable() {
    each_is_durable(&[("synchronous_commit", "off")], &WAYS_TO_ASK).await;
}

async fn each_is_durable(settings: &[(&str, &str)], ways: &[(&str, Commits)]) {
    let base = tempfile::tempdir_in("/var/tmp").expect("temp dir");
    let settings = [settings, &[("wal_writer_delay", "10s")]].concat();
    let cluster = Cluster::create(spec(base.path(), &settings)).expect("made");
    let mut server = cluster.start_watched().expect("started");
    let socket = server.socket_dir().to_owned();
    let direct = connected(&socket.display().to_string(), server.port()).await;
    direct
        .batch_execute(
            "CREATE TABLE t (n bigint); \
             CREATE PROCEDURE save(n bigint) LANGUAGE plpgsql AS $$ BEGIN \
                 INSERT INTO t VALUES (n); COMMIT; \
                 RAISE NOTICE 'saved'; PERFORM pg_sleep(600); END $$; \
             CREATE PROCEDURE save_and_end(n bigint) LANGUAGE plpgsql AS $$ BEGIN \
                 INSERT INTO t VALUES (n); COMMIT; END $$; \
             CREATE PROCEDURE save_and_fail(n bigint) LANGUAGE plpgsql AS $$ BEGIN \
                 INSERT INTO t VALUES (n); COMMIT; RAISE EXCEPTION 'saved'; END $$; \
             CREATE FUNCTION innocent() RETURNS void LANGUAGE plpgsql AS $$ BEGIN \
                 PERFORM set_config('synchronous_' || 'commit', 'off', false); END $$; \
             CREATE FUNCTION save_one(n bigint) RETURNS void LANGUAGE sql \
                 AS 'INSERT INTO t VALUES (n)'; \
             CHECKPOINT",
        )
        .await
        .unwrap();
    drop(direct);
    for (number, (what, commits)) in (0..).zip(ways) {
        let socket = server.socket_dir().to_owned();
        let to = ConnectOptions::new(Host::Unix(socket), server.port(), "postgres", "postgres");
        let mut options = Options::new(to);
        options.authentication = Authentication::Trust;
        options.listen = vec![Listen::Tcp(([127, 0, 0, 1], 0).into())];
        let gateway = Gateway::start(options).expect("a gateway");
        let port = port_of(&gateway);
        server = tokio::task::block_in_place(|| {
            let mut client = pipelines::Client::connect(port, 1);
            commits(&mut client, number);
            server.cut_power(PowerCut::All).expect("cut");
            drop(gateway);
            cluster.start_watched().expect("recovers")
        });
        let direct = connected(&server.socket_dir().display().to_string(), server.port()).await;
        let sql = "SELECT count(*) FROM t WHERE n = $1";
        let left: i64 = direct.query_one(sql, &[&number]).await.unwrap().get(0);
        assert_eq!(left, 1, "{what}");
        // What is left of WAL from before does not make the next row durable.
        direct.batch_execute("CHECKPOINT").await.unwrap();
    }
}

/// Whether what a client of the gateway inserts is flushed when it is acknowledged.
async fn is_flushed(client: &Client, direct: &Client) -> bool {
    client.batch_execute("INSERT INTO t VALUES (1)").await.expect("inserted");
    let sql = "SELECT pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn()";
    direct.query_one(sql, &[]).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_wait_again_when_the_server_is_told_that_they_are_to() {
    let settings =
        [("wal_writer_delay", "10s"), ("synchronous_commit", "off"), ("autovacuum", "off")];
    let testbed = Testbed::new(&settings, |_| {});
    let (client, direct) = (testbed.client().await, testbed.direct().await);
    direct.batch_execute("CREATE TABLE t (n int)").await.unwrap();
    let mut flushed = Vec::new();
    for _ in 0..50 {
        flushed.push(is_flushed(&client, &direct).await);
    }
    assert!(flushed.contains(&false), "nobody waits");
    alter_system(&direct, "synchronous_commit", "on").await;
    let learnt = async {
        let mut in_a_row = 0;
        while in_a_row < 50 {
            in_a_row = if is_flushed(&client, &direct).await { in_a_row + 1 } else { 0 };
        }
    };
    tokio::time::timeout(Duration::from_secs(60), learnt).await.expect("they wait");
}
