//! What a power cut takes from a server, and what it may not take.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use tokio::task::JoinHandle;
use walwright_server::{
    Client, Cluster, ClusterError, ClusterSpec, Major, PowerCut, RunningCluster, Unflushed,
    connect_for_workload,
};

use crate::common::{install, open_dir, places, runtime};

/// Sessions that commit and count what was acknowledged.
const WRITERS: i64 = 4;
/// Rows they update, more than the server keeps in memory.
const ROWS: i64 = 20_000;
/// Acknowledged commits of each before the cut.
const ENOUGH: i64 = 150;

const TABLES: &str = "
    CREATE TABLE ledger (writer bigint, number bigint, PRIMARY KEY (writer, number));
    CREATE TABLE page (id bigint PRIMARY KEY, filler text);
    INSERT INTO page SELECT id, repeat('x', 300) FROM generate_series(1, 20000) AS id;
    CHECKPOINT";

/// A cluster that may lose its power, and what was acknowledged since it was made.
struct Audited {
    cluster: Cluster,
    acknowledged: Vec<i64>,
}

/// What a cut took from the ledger.
#[derive(Debug)]
struct Taken {
    unflushed: Unflushed,
    acknowledged: i64,
    lost: i64,
}

impl Audited {
    fn new(major: Major, dir: &std::path::Path, settings: &[(&str, &str)]) -> Self {
        let mut spec = ClusterSpec::new(&places(dir), install(major));
        let small = [("shared_buffers", "2MB"), ("bgwriter_delay", "10ms")];
        let settings = small.iter().chain(settings);
        spec.settings =
            settings.map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let cluster = Cluster::create(spec).expect("made");
        let server = cluster.start().expect("started");
        runtime().block_on(async { session(&server).await.batch_execute(TABLES).await }).unwrap();
        server.stop().expect("stopped");
        Self { cluster, acknowledged: vec![0; WRITERS as usize] }
    }

    /// Loads the server, cuts its power, has it recover and looks for what was acknowledged.
    fn cut(&mut self, cut: PowerCut) -> Taken {
        let server = self.cluster.start_watched().expect("started");
        let runtime = runtime();
        let stop = Arc::new(AtomicBool::new(false));
        let counts: Vec<Arc<AtomicI64>> =
            self.acknowledged.iter().map(|n| Arc::new(AtomicI64::new(*n))).collect();
        let tasks: Vec<_> = (0..)
            .zip(&counts)
            .map(|(writer, count)| {
                let client = runtime.block_on(session(&server));
                runtime.spawn(write(client, writer, Arc::clone(count), Arc::clone(&stop)))
            })
            .collect();
        let aside = runtime.block_on(session(&server));
        for round in 1..=2 {
            let reached = || {
                counts
                    .iter()
                    .zip(&self.acknowledged)
                    .all(|(count, before)| count.load(Ordering::Acquire) >= before + round * ENOUGH)
            };
            while !reached() {
                assert!(!tasks.iter().any(JoinHandle::is_finished), "a writer gave up");
                // Files come and go, checkpoints pass.
                let sql =
                    "CREATE TABLE passing AS SELECT * FROM page LIMIT 2000; DROP TABLE passing";
                runtime.block_on(aside.batch_execute(sql)).expect("a table");
            }
            if round == 1 {
                runtime
                    .block_on(aside.batch_execute("CHECKPOINT; SELECT pg_switch_wal()"))
                    .expect("a checkpoint");
            }
        }
        let unflushed = server.cut_power(cut).expect("cut");
        stop.store(true, Ordering::Release);
        for task in tasks {
            runtime.block_on(task).expect("a writer");
        }
        let server = self.cluster.start().expect("recovers");
        let client = runtime.block_on(session(&server));
        let mut taken = Taken { unflushed, acknowledged: 0, lost: 0 };
        for (index, count) in counts.iter().enumerate() {
            let count = count.load(Ordering::Acquire);
            let sql = "SELECT count(*) FROM ledger WHERE writer = $1 AND number <= $2";
            let row = runtime
                .block_on(client.query_one(sql, &[&(index as i64), &count]))
                .expect("a count");
            taken.acknowledged += count;
            taken.lost += count - row.get::<i64>(0).unwrap();
            self.acknowledged[index] = count;
        }
        drop(client);
        server.stop().expect("stopped");
        taken
    }

    /// Fails where a page, an index or a table is damaged.
    fn check(&self) {
        let server = self.cluster.start().expect("started");
        let indexes = "CREATE EXTENSION IF NOT EXISTS amcheck;
            SELECT bt_index_check(indexrelid, true) FROM pg_index JOIN pg_class ON oid = indexrelid
            WHERE relam = 403 AND relpersistence = 'p'";
        let tables = "SELECT count(*) FROM pg_class, verify_heapam(oid) WHERE relkind = 'r'";
        let client = runtime().block_on(async {
            let client = session(&server).await;
            client.batch_execute(indexes).await.expect("sound indexes");
            let damaged = client.query_one(tables, &[]).await.expect("readable tables");
            assert_eq!(damaged.get::<i64>(0).unwrap(), 0);
            client
        });
        drop(client);
        server.stop().expect("stopped");
        let mut checksums = self.cluster.install().command("pg_checksums");
        self.cluster.user().run_as(&mut checksums);
        let checked =
            checksums.arg("--check").arg("-D").arg(self.cluster.data_dir()).output().expect("ran");
        let said = String::from_utf8_lossy(&checked.stderr);
        // Off by default before 18.
        assert!(checked.status.success() || said.contains("not enabled"), "{said}");
    }
}

async fn session(server: &RunningCluster) -> Client {
    connect_for_workload(&server.connect_params("postgres")).await.expect("connected")
}

/// Commits number after number; the last one before a cut may be there unacknowledged.
async fn write(client: Client, writer: i64, count: Arc<AtomicI64>, stop: Arc<AtomicBool>) {
    let mut number = count.load(Ordering::Acquire);
    while !stop.load(Ordering::Acquire) {
        number += 1;
        let id = (writer * 2_503 + number * 7_919) % ROWS + 1;
        let sql = format!(
            "BEGIN; UPDATE page SET filler = repeat(md5('{number}'), 9) WHERE id = {id};
             INSERT INTO ledger VALUES ({writer}, {number}) ON CONFLICT DO NOTHING; COMMIT"
        );
        match client.batch_execute(&sql).await {
            Ok(_) => count.store(number, Ordering::Release),
            Err(_) => return,
        }
    }
}

/// Fails where a cut takes something that was acknowledged, or damages what is left.
fn nothing_is_lost(major: Major, settings: &[(&str, &str)], cuts: &[PowerCut]) {
    let base = open_dir();
    let mut audited = Audited::new(major, base.path(), settings);
    for cut in cuts {
        let taken = audited.cut(*cut);
        assert!(taken.acknowledged > 0 && taken.lost == 0, "{cut:?}: {taken:?}");
        assert!(taken.unflushed.pages_lost > 0, "{cut:?}: {taken:?}");
        audited.check();
    }
}

#[test]
fn nothing_acknowledged_is_lost_where_commits_are_flushed() {
    let random = |seed| PowerCut::Random { seed };
    nothing_is_lost(Major::V18, &[], &[PowerCut::All, random(1), random(2), PowerCut::All]);
}

#[test]
fn a_write_that_returns_when_it_is_durable_counts_as_a_flush() {
    let settings = [("wal_sync_method", "open_datasync")];
    nothing_is_lost(Major::V14, &settings, &[PowerCut::All, PowerCut::Random { seed: 3 }]);
}

#[test]
fn losses_are_found_where_nothing_is_flushed() {
    let base = open_dir();
    let taken = Audited::new(Major::V18, base.path(), &[("fsync", "off")]).cut(PowerCut::All);
    assert_eq!(taken.lost, taken.acknowledged, "all since the start: {taken:?}");
    let late = [("synchronous_commit", "off"), ("wal_writer_delay", "10s")];
    let taken = Audited::new(Major::V18, base.path(), &late).cut(PowerCut::All);
    assert!(taken.lost > 0 && taken.lost < taken.acknowledged, "the latest: {taken:?}");
}

#[test]
fn a_power_cut_needs_writes_that_are_seen() {
    let base = open_dir();
    let mut spec = ClusterSpec::new(&places(base.path()), install(Major::V18));
    spec.settings = vec![("IO_method".into(), "IO_uring".into())];
    let cluster = Cluster::create(spec).expect("made");
    assert!(matches!(cluster.start_watched(), Err(ClusterError::UnseenWrites)));
    cluster.set_settings(Vec::new()).expect("valid");
    let cut = cluster.start().expect("started").cut_power(PowerCut::All);
    assert!(matches!(cut, Err(ClusterError::Unknowable { .. })), "{cut:?}");
}
