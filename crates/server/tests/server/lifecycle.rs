//! A cluster's life on every major version: made, started, used, stopped.

use walwright_server::{
    Cluster, ClusterSpec, FetchEvent, Installs, Major, StopMode, connect_for_workload,
    connect_versioned,
};

fn each_version(major: Major) {
    let installs = Installs::open(None).expect("a cache");
    let install = installs.ensure(major, &mut |_: &FetchEvent| {}).expect("an install");
    assert_eq!(install.version().major(), major.number());

    let mut spec = ClusterSpec::new(installs.places(), install);
    spec.settings = vec![("max_connections".into(), "37".into())];
    let cluster = Cluster::create(spec).expect("a cluster");
    let dir = cluster.dir().to_owned();
    let server = cluster.start().expect("started");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let params = server.connect_params("postgres");
        let (_, version) = connect_versioned(&params).await.expect("connected");
        let client = connect_for_workload(&params).await.expect("connected");
        assert_eq!(version, cluster.install().version());
        let row = client
            .query_one(
                "select current_setting('max_connections'), current_setting('server_encoding'), \
                 (select datcollate::text from pg_database where datname = 'postgres'), \
                 current_setting('fsync'), \
                 current_setting('track_io_timing'), current_setting('listen_addresses'), \
                 (select count(*) from pg_stat_statements)",
                &[],
            )
            .await
            .expect("settings");
        let settings: Vec<String> = (0..6).map(|i| row.get(i).unwrap()).collect();
        assert_eq!(settings, ["37", "UTF8", "C", "on", "on", ""]);
        client.batch_execute("create table kept as select 1 as a").await.expect("written");
        client.batch_execute("create database bench").await.expect("created");
        let bench = connect_for_workload(&params.with_dbname("bench")).await.expect("connected");
        bench
            .query("select * from pg_stat_statements", &[])
            .await
            .expect("every new database has the extension");
    });
    assert_eq!(server.stop().expect("stopped"), StopMode::Fast);

    // Started again it has what was written, and other settings.
    cluster.set_settings(vec![("max_connections".into(), "41".into())]).expect("valid");
    let server = cluster.start().expect("started again");
    runtime.block_on(async {
        let client =
            connect_for_workload(&server.connect_params("postgres")).await.expect("connected");
        let row = client
            .query_one("select a, current_setting('max_connections') from kept", &[])
            .await
            .expect("kept");
        assert_eq!((row.get::<i32>(0).unwrap(), row.get::<String>(1).unwrap()), (1, "41".into()));
    });
    drop(server);
    drop(cluster);
    assert!(!dir.exists(), "a throw-away cluster leaves nothing behind");
}

#[test]
fn postgresql_14() {
    each_version(Major::V14);
}

#[test]
fn postgresql_15() {
    each_version(Major::V15);
}

#[test]
fn postgresql_16() {
    each_version(Major::V16);
}

#[test]
fn postgresql_17() {
    each_version(Major::V17);
}

#[test]
fn postgresql_18() {
    each_version(Major::V18);
}
