//! What is known before the load.

use std::path::Path;

use walwright_probe::{
    TablesOfInterest, TargetDescription, host_facts, settings, target_facts, wal_directory,
};
use walwright_server::Major;

use crate::bench::{block_on, connect, description, server};

#[test]
fn an_embedded_server_is_known_through_and_through() {
    let server = server(Major::V18, &[("work_mem", "7MB")]);
    block_on(async {
        let client = connect(&server.connect_params("postgres")).await;
        client
            .batch_execute(
                "CREATE SCHEMA app;
                 CREATE TABLE app.\"Order\" (id int PRIMARY KEY, note text) WITH (fillfactor = 80);
                 CREATE INDEX partly ON app.\"Order\" (note) WHERE id > 5;
                 INSERT INTO app.\"Order\" SELECT g, 'x' FROM generate_series(1, 1000) g;
                 ANALYZE app.\"Order\"; CREATE TABLE other (a int)",
            )
            .await
            .expect("tables");
        assert_eq!(client.relation("not_there").await.expect("asked"), None);
        let order = client.relation("app.\"Order\"").await.expect("asked").expect("there");
        let named =
            TargetDescription { tables: TablesOfInterest::Known(vec![order]), ..description() };
        let facts = target_facts(&client, &named).await.expect("facts");
        assert_eq!(facts.version_num / 10_000, 18);
        assert_eq!(facts.postmaster_pid, Some(server.postmaster_pid()));
        assert_eq!(facts.data_directory.as_deref().map(Path::new), Some(&*server.data_dir()));
        assert!(facts.superuser && facts.monitor && facts.local && facts.statements);
        assert!(!facts.in_recovery && facts.database_bytes > Some(1 << 20));
        assert!(facts.extensions.contains_key("pg_stat_statements"));
        assert_eq!(facts.not_observable, Vec::<String>::new());
        let [table] = facts.tables.as_slice() else { panic!("{:?}", facts.tables) };
        assert_eq!((table.schema.as_str(), table.name.as_str()), ("app", "Order"));
        assert_eq!(table.rows, Some(1000));
        assert!(table.bytes >= 8192);
        assert_eq!(table.indexes.len(), 2);
        assert!(table.indexes[1].contains("WHERE (id > 5)"), "{:?}", table.indexes);
        assert_eq!(table.options, ["fillfactor=80"]);

        let params = server.connect_params("postgres");
        let settings = settings(&params).await.expect("settings");
        let work_mem = settings.iter().find(|s| s.name == "work_mem").expect("work_mem");
        assert_eq!((work_mem.value.as_str(), work_mem.shown.as_str()), ("7168", "7MB"));
        assert_eq!(work_mem.unit.as_deref(), Some("kB"));
        assert_eq!(work_mem.boot_value.as_deref(), Some("4096"));
        assert_ne!(work_mem.source, "default");
        assert!(settings.iter().all(|s| s.name != "primary_conninfo"));

        let wal = wal_directory(&server.data_dir());
        let host = host_facts(Some(&server.data_dir()), Some(&wal));
        let (data_disk, wal_disk) =
            (host.data_disk.expect("a disk"), host.wal_disk.expect("a disk"));
        assert_eq!(data_disk.device, wal_disk.device);
        assert!(data_disk.free_bytes > Some(0));
    });
}
