//! Snapshots of real data directories.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use walwright_server::{
    Cluster, ClusterError, ClusterSpec, Major, Places, Secret, Snapshot, SnapshotError, TcpAccess,
    connect_for_workload,
};

use crate::common::{install, open_dir, places, runtime};

fn spec(places: &Places) -> ClusterSpec {
    ClusterSpec::new(places, install(Major::V18))
}

/// Path, mode, owner and content of everything below a directory.
type Contents = BTreeMap<PathBuf, (u32, u32, u32, Vec<u8>)>;

fn contents(root: &Path) -> Contents {
    let mut all = Contents::new();
    let mut pending = vec![root.to_owned()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(&dir).expect("read") {
            let path = entry.expect("entry").path();
            let meta = fs::symlink_metadata(&path).expect("stat");
            let bytes = if meta.is_dir() {
                pending.push(path.clone());
                Vec::new()
            } else {
                fs::read(&path).expect("read")
            };
            let relative = path.strip_prefix(root).expect("below").to_owned();
            all.insert(relative, (meta.mode(), meta.uid(), meta.gid(), bytes));
        }
    }
    all
}

/// Runs SQL on the cluster and stops it in order; gives the last row's number.
fn run_sql(cluster: &Cluster, sql: &str, number: &str) -> i64 {
    let server = cluster.start().expect("started");
    let found = runtime().block_on(async {
        let client =
            connect_for_workload(&server.connect_params("postgres")).await.expect("connected");
        client.batch_execute(sql).await.expect("sql");
        client.query_one(number, &[]).await.expect("row").get(0).unwrap()
    });
    server.stop().expect("stopped");
    found
}

#[test]
fn a_restored_cluster_is_the_same_in_every_byte_and_starts() {
    let base = open_dir();
    let places = places(base.path());
    let cluster = Cluster::create(spec(&places)).expect("a cluster");
    let count = "select count(*) from t";
    let fill = "create table t as select generate_series(1, 20000) as a";
    assert_eq!(run_sql(&cluster, fill, count), 20_000);

    let at_rest = contents(&cluster.data_dir());
    let dir = base.path().join("snapshots/prepared");
    let (snapshot, report) = Snapshot::take(&cluster, &dir).expect("taken");
    assert!(report.files > 900 && report.bytes > 20_000_000, "{report:?}");
    assert_eq!(contents(&dir.join("data")), at_rest);
    assert_eq!(Snapshot::open(&dir).expect("opens"), snapshot);
    assert!(matches!(Snapshot::take(&cluster, &dir), Err(SnapshotError::Exists(_))));
    assert_eq!(
        fs::read_dir(base.path().join("snapshots")).expect("read").count(),
        1,
        "nothing half-made is left"
    );

    assert_eq!(run_sql(&cluster, "delete from t where a > 5", count), 5);
    snapshot.restore(&cluster).expect("restored");
    assert_eq!(contents(&cluster.data_dir()), at_rest);
    assert_eq!(run_sql(&cluster, "", count), 20_000);

    let (twin, _) = snapshot.create_cluster(spec(&places)).expect("a second cluster");
    assert_eq!(contents(&twin.data_dir()), at_rest);
    assert_eq!(run_sql(&twin, "", count), 20_000);
    let names: Vec<_> = fs::read_dir(twin.dir())
        .expect("read")
        .map(|entry| entry.expect("entry").file_name())
        .collect();
    assert!(
        names.iter().all(|name| !name.to_string_lossy().starts_with(".restoring")),
        "{names:?}"
    );
}

#[test]
fn restored_data_are_reached_by_tcp_with_the_password_of_the_new_cluster() {
    let base = open_dir();
    let places = places(base.path());
    let cluster = Cluster::create(spec(&places)).expect("a cluster without TCP");
    run_sql(&cluster, "", "select 1::bigint");
    let (snapshot, _) = Snapshot::take(&cluster, &base.path().join("snapshot")).expect("taken");

    let password = Secret::new("it's \\ new");
    let tcp = Some(TcpAccess { port: None, password });
    let spec = ClusterSpec { tcp, ..spec(&places) };
    let (twin, _) = snapshot.create_cluster(spec).expect("a cluster with TCP");
    let server = twin.start().expect("started");
    let good = server.tcp_connect_params("postgres").expect("TCP was asked for");
    let wrong = good.clone().with_password(Secret::new("it's new"));
    runtime().block_on(async {
        let client = connect_for_workload(&good).await.expect("the password is right");
        let kept = "select count(*) from pg_stat_statements where query ilike 'alter role%'";
        let kept: i64 = client.query_one(kept, &[]).await.expect("row").get(0).unwrap();
        assert_eq!(kept, 0, "no statement with a password is kept");
        connect_for_workload(&wrong).await.expect_err("another password");
    });
}

#[test]
fn what_is_not_at_rest_or_not_whole_is_refused() {
    let base = open_dir();
    let places = places(base.path());
    let cluster = Cluster::create(spec(&places)).expect("a cluster");
    let dir = base.path().join("snapshot");

    let server = cluster.start().expect("started");
    let running = Snapshot::take(&cluster, &dir);
    assert!(matches!(running, Err(SnapshotError::Cluster(ClusterError::Running { .. }))));
    server.stop_immediately().expect("stopped");
    assert!(matches!(Snapshot::take(&cluster, &dir), Err(SnapshotError::NotAtRest(_))));

    run_sql(&cluster, "", "select 1::bigint");
    let link = cluster.data_dir().join("pg_tblspc/16385");
    std::os::unix::fs::symlink(base.path(), &link).expect("link");
    let outside = Snapshot::take(&cluster, &dir).expect_err("a tablespace");
    assert!(outside.to_string().contains("pg_tblspc/16385"), "{outside}");
    fs::remove_file(&link).expect("remove");
    assert!(!dir.exists());

    let (snapshot, _) = Snapshot::take(&cluster, &dir).expect("taken");
    fs::remove_file(dir.join("data/PG_VERSION")).expect("remove");
    let before = contents(&cluster.data_dir());
    let damaged = snapshot.restore(&cluster).expect_err("a file is gone");
    assert!(matches!(damaged, SnapshotError::Unusable { .. }));
    assert_eq!(contents(&cluster.data_dir()), before, "nothing was changed");
    fs::write(dir.join("snapshot.json"), "{").expect("write");
    assert!(matches!(Snapshot::open(&dir), Err(SnapshotError::Unusable { .. })));
}
