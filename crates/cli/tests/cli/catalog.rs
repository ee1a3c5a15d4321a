//! The parameter catalogue against the servers it speaks of, version by version.

use std::collections::BTreeMap;

use walwright_catalog::{Apply, Configuration, Kind, parameter, parameters};
use walwright_server::{Cluster, ClusterSpec, Installs, Major};

use crate::common::install;

/// Settings whose compiled-in default the build or the platform decides.
const OF_THE_BUILD: [&str; 4] =
    ["shared_buffers", "wal_sync_method", "effective_io_concurrency", "data_checksums"];

fn agrees_with(major: Major, number: u32) {
    let installs = Installs::open(None).expect("a cache");
    let mut spec = ClusterSpec::new(installs.places(), install(major));
    spec.settings = vec![
        ("work_mem".to_owned(), "7MB".to_owned()),
        ("log_line_prefix".to_owned(), "it's \\%m #'".to_owned()),
    ];
    let server = Cluster::create(spec).and_then(|cluster| cluster.start()).expect("a server");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (rows, files) = runtime.block_on(async {
        let client =
            walwright_server::connect_for_workload(&server.connect_params("postgres")).await;
        let client = client.expect("connected");
        for alter in [
            "ALTER SYSTEM SET checkpoint_timeout = '7min'",
            "ALTER SYSTEM SET cluster_name = 'it''s \\ a name'",
        ] {
            client.batch_execute(alter).await.expect(alter);
        }
        let settings = "SELECT name, unit, vartype, context, boot_val, min_val, max_val, enumvals
                        FROM pg_settings";
        let files = "SELECT DISTINCT ON (lower(name)) lower(name), setting
                     FROM pg_file_settings ORDER BY lower(name), seqno DESC";
        (
            client.query(settings, &[]).await.expect("settings"),
            client.query(files, &[]).await.expect("files"),
        )
    });

    let mut seen = 0;
    for row in &rows {
        let name: String = row.get(0).unwrap();
        let Some(parameter) = parameter(&name).filter(|p| p.is_in(number)) else { continue };
        seen += 1;
        let text = |place: usize| row.get::<Option<String>>(place).unwrap();
        // wal_compression and log_connections had another type once; their catalogue
        // entry has the words of both.
        let once_otherwise = ["wal_compression", "log_connections"].contains(&name.as_str());
        assert_eq!(parameter.unit, text(1), "{name}");
        let kind = match row.get::<String>(2).unwrap().as_str() {
            "bool" => Kind::Bool,
            "integer" => Kind::Integer,
            "real" => Kind::Real,
            "enum" => Kind::Enum,
            _ => Kind::String,
        };
        assert!(parameter.kind == kind || once_otherwise, "{name}");
        let apply = match row.get::<String>(3).unwrap().as_str() {
            "postmaster" => Apply::Restart,
            "sighup" => Apply::Reload,
            "internal" => Apply::Recreate,
            _ => Apply::Session,
        };
        assert_eq!(parameter.apply(number), apply, "{name}");
        if !OF_THE_BUILD.contains(&name.as_str()) {
            let default = text(4).unwrap_or_default();
            assert_eq!(parameter.default(number), Some(default.as_str()), "{name}");
        }
        for value in row.get::<Option<Vec<String>>>(7).unwrap().unwrap_or_default() {
            assert!(parameter.read_in(number, &value).is_ok(), "{name} = {value}");
        }
        if let (Some(least), Some(most)) = (text(5), text(6)) {
            assert_eq!(parameter.bounds_in(number), Some(&[least, most]), "{name}");
        }
    }
    let expected = parameters().iter().filter(|p| p.is_setting() && p.is_in(number));
    assert_eq!(seen, expected.count(), "every entry of this version is a setting of the server");

    let read = Configuration::read(&server.data_dir().join("postgresql.conf")).expect("read");
    let ours: BTreeMap<String, String> =
        read.settings.into_iter().map(|(name, assignment)| (name, assignment.value)).collect();
    let theirs: BTreeMap<String, String> =
        files.iter().map(|row| (row.get(0).unwrap(), row.get(1).unwrap())).collect();
    assert!(theirs.contains_key("cluster_name") && theirs.contains_key("work_mem"));
    assert_eq!(ours, theirs, "files are read as the server reads them");
}

#[test]
fn the_catalogue_agrees_with_14() {
    agrees_with(Major::V14, 14);
}

#[test]
fn the_catalogue_agrees_with_15() {
    agrees_with(Major::V15, 15);
}

#[test]
fn the_catalogue_agrees_with_16() {
    agrees_with(Major::V16, 16);
}

#[test]
fn the_catalogue_agrees_with_17() {
    agrees_with(Major::V17, 17);
}

#[test]
fn the_catalogue_agrees_with_18() {
    agrees_with(Major::V18, 18);
}
