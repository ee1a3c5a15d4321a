//! The built-in workloads on real servers, oldest and newest: their SQL is
//! valid, their data load, and tpcb leaves what `pgbench -i` leaves.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use futures_util::{SinkExt, TryStreamExt, pin_mut};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};
use walwright_server::{Cluster, ClusterSpec, Installs, Major, Places, RunningCluster};
use walwright_workload::workload::{Done, OptionKind, builtin_names};
use walwright_workload::{Plan, Settings, Workload};

async fn client(server: &RunningCluster, database: &str) -> Client {
    let params = server.connect_params(database);
    let mut config = tokio_postgres::Config::new();
    config.host_path(server.socket_dir()).port(params.port()).user(params.user()).dbname(database);
    let (client, connection) = config.connect(NoTls).await.expect("connected");
    tokio::spawn(connection);
    client
}

/// The first column of the first row, as text.
async fn value(client: &Client, sql: &str) -> Option<String> {
    let messages =
        client.simple_query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    })
}

async fn steps(client: &Client, steps: &[walwright_workload::workload::SqlStep]) {
    for step in steps {
        let done = client.simple_query(&step.sql).await;
        done.unwrap_or_else(|error| panic!("{}:{}: {error:?}", step.file, step.line));
    }
}

async fn load(client: &Client, plan: &Plan) {
    steps(client, &plan.before_load).await;
    client.batch_execute("BEGIN").await.unwrap();
    if let Some(truncate) = plan.truncate_statement() {
        client.batch_execute(&truncate).await.unwrap();
    }
    for table in plan.tables.iter().filter(|table| table.rows() > 0) {
        let kind =
            format!("SELECT relkind::text FROM pg_class WHERE oid = '{}'::regclass", table.table());
        let freeze = value(client, &kind).await.as_deref() != Some("p");
        let sink = client.copy_in(&table.copy_statement(freeze)).await.unwrap();
        pin_mut!(sink);
        for mut chunk in table.chunks(2) {
            loop {
                let mut rows = Vec::new();
                if chunk.fill(&mut rows, 64 * 1024).unwrap() == 0 {
                    break;
                }
                sink.send(std::io::Cursor::new(rows)).await.unwrap();
            }
        }
        assert_eq!(sink.finish().await.unwrap(), table.rows(), "{}", table.table());
    }
    client.batch_execute("COMMIT").await.unwrap();
    steps(client, &plan.after_load).await;
    steps(client, &plan.before_run).await;
}

/// A table's rows in their physical order, and its size.
async fn contents(client: &Client, table: &str) -> (Vec<u8>, Option<String>) {
    let stream = client.copy_out(&format!("COPY {table} TO STDOUT")).await.unwrap();
    let parts: Vec<_> = stream.try_collect().await.unwrap();
    let size = value(client, &format!("SELECT pg_relation_size('{table}')")).await;
    (parts.concat(), size)
}

/// Columns, types and storage options of pgbench's tables, and their keys.
const SCHEMA: &str = "SELECT string_agg(d, E'\\n' ORDER BY d) FROM (
    SELECT concat_ws(' ', c.relname, c.reloptions, a.attnum, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull) d
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
     WHERE c.relname LIKE 'pgbench%' AND a.attnum > 0
    UNION ALL SELECT indexdef FROM pg_indexes WHERE tablename LIKE 'pgbench%') s";

async fn same_as_pgbench(server: &RunningCluster, ours: &Client) {
    client(server, "postgres").await.batch_execute("CREATE DATABASE theirs").await.unwrap();
    let done = server
        .cluster()
        .install()
        .command("pgbench")
        .args(["-i", "-q", "-s", "1", "-U", "postgres", "-h"])
        .arg(server.socket_dir())
        .args(["-p", &server.port().to_string(), "theirs"])
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let theirs = client(server, "theirs").await;
    assert_eq!(value(ours, SCHEMA).await, value(&theirs, SCHEMA).await);
    for table in ["accounts", "branches", "tellers", "history"] {
        let table = format!("pgbench_{table}");
        assert_eq!(contents(ours, &table).await, contents(&theirs, &table).await, "{table}");
    }
}

async fn checks_hold(client: &Client, plan: &Plan, before: &[Option<String>]) -> bool {
    let mut all = true;
    for (check, before) in plan.checks.iter().zip(before) {
        all &= value(client, &check.sql(before.as_deref(), Done::default())).await.as_deref()
            == Some("t");
    }
    all
}

async fn try_workload(server: &RunningCluster, name: &str) {
    let database = name.replace('-', "_");
    let create = format!("CREATE DATABASE {database}");
    client(server, "postgres").await.batch_execute(&create).await.unwrap();
    let client = client(server, &database).await;
    let workload = Workload::builtin(name).unwrap();
    let plan = workload.plan(&Settings { scale: 1, ..Settings::of(&workload) }).unwrap();
    load(&client, &plan).await;
    if name == "tpcb" {
        same_as_pgbench(server, &client).await;
    }
    // Loading again must work too: it starts from nothing.
    if ["events", "documents"].contains(&name) {
        load(&client, &plan).await;
    }

    for statement in plan.program.scripts.iter().flat_map(|script| &script.statements) {
        let prepared = client.prepare(&statement.text_extended).await;
        let prepared = prepared.unwrap_or_else(|error| panic!("{}: {error:?}", statement.label));
        assert_eq!(prepared.params().len(), statement.params.len(), "{}", statement.label);
    }

    let mut before = Vec::new();
    for check in &plan.checks {
        before.push(match &check.before {
            Some(sql) => value(&client, sql).await,
            None => None,
        });
    }
    assert!(!plan.checks.is_empty(), "{name} checks nothing");
    assert!(checks_hold(&client, &plan, &before).await, "{name}");
    let damage = match name {
        "autocommit" => "INSERT INTO autocommit_probe (client_id, payload) VALUES (1, 'short')",
        // A row that no client was told of.
        "events" => "INSERT INTO events (user_id, type) VALUES (gen_random_uuid(), 'view')",
        "documents" => "DELETE FROM alias WHERE document_id = 10000",
        "tpcc" => "UPDATE tpcc_customer SET c_balance = c_balance + 1 WHERE c_id = 1",
        _ => "UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = 1",
    };
    client.batch_execute(damage).await.unwrap();
    assert!(!checks_hold(&client, &plan, &before).await, "{name} overlooks: {damage}");
}

fn try_all(major: Major) {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let places = Places::open(Some(dir.path().join("cache"))).unwrap();
    let install = Installs::open(None).and_then(|installs| installs.ensure(major, &mut |_| {}));
    let cluster = Cluster::create(ClusterSpec::new(&places, install.unwrap())).unwrap();
    let server = cluster.start().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for name in builtin_names() {
        runtime.block_on(try_workload(&server, name));
    }
    drop(runtime);
    server.stop().unwrap();
}

#[test]
fn built_in_workloads_run_on_postgresql_18() {
    try_all(Major::V18);
}

#[test]
fn built_in_workloads_run_on_postgresql_14() {
    try_all(Major::V14);
}

/// What a call of `write_references` tells.
async fn written(client: &Client, targets: &[u32], is_new: bool) -> [i32; 5] {
    let uuids: Vec<String> =
        targets.iter().map(|target| format!("00000000-0000-0000-0000-{target:012x}")).collect();
    let sql = format!(
        "SELECT unchanged, inserted, updated, deleted, invalid FROM write_references(
             (SELECT partition_key FROM document WHERE id = 5002), 5002, '{{{}}}', {is_new})",
        uuids.join(",")
    );
    let row = client.query_one(&sql, &[]).await.unwrap();
    std::array::from_fn(|column| row.get(column))
}

/// Every way to write references leaves the same ones, and tells what it took.
#[test]
fn references_of_documents_are_the_same_in_every_way() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    std::fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let places = Places::open(Some(dir.path().join("cache"))).unwrap();
    let install = Installs::open(None).and_then(|i| i.ensure(Major::V18, &mut |_| {}));
    let cluster = Cluster::create(ClusterSpec::new(&places, install.unwrap())).unwrap();
    let server = cluster.start().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let workload = Workload::builtin("documents").unwrap();
    let option = workload.options.iter().find(|option| option.name == "references").unwrap();
    let OptionKind::Text { allowed: ways } = &option.kind else { panic!("{option:?}") };
    assert_eq!(ways.len(), 7);
    runtime.block_on(async {
        let client = client(&server, "postgres").await;
        for way in ways {
            let options = BTreeMap::from([("references".to_owned(), way.clone())]);
            let settings = Settings { scale: 1, options, ..Settings::of(&workload) };
            load(&client, &workload.plan(&settings).unwrap()).await;
            let there = async |client: &Client| {
                let sql = "SELECT string_agg(alias_id::text, ' ' ORDER BY alias_id) FROM reference
                            WHERE parent_id = 5002";
                value(client, sql).await.unwrap_or_default()
            };
            // Document 5002 has been loaded without a reference.
            assert_eq!(written(&client, &[7, 3, 7], true).await, [0, 2, 0, 0, 0], "{way}");
            assert_eq!(there(&client).await, "3 7", "{way}");
            // What does not exist is told, so that all is kept as it was.
            client.batch_execute("BEGIN").await.unwrap();
            assert_eq!(written(&client, &[3, 900_000], false).await[4], 1, "{way}");
            client.batch_execute("ROLLBACK").await.unwrap();
            assert_eq!(there(&client).await, "3 7", "{way}");
            let again = written(&client, &[3, 7], false).await;
            let expected = match way.as_str() {
                "delete_insert" => [0, 2, 0, 2, 0],
                "equality_first" | "merge" => [2, 0, 0, 0, 0],
                _ => [0, 0, 2, 0, 0],
            };
            assert_eq!(again, expected, "{way}");
            let changed = written(&client, &[7, 8, 9], false).await;
            let expected = match way.as_str() {
                "delete_insert" => [0, 3, 0, 2, 0],
                "merge" => [1, 2, 0, 1, 0],
                _ => [0, 2, 1, 1, 0],
            };
            assert_eq!(changed, expected, "{way}");
            assert_eq!(there(&client).await, "7 8 9", "{way}");
            assert_eq!(written(&client, &[], false).await[3..], [3, 0], "{way}");
            assert_eq!(there(&client).await, "", "{way}");
        }
    });
    drop(runtime);
    server.stop().unwrap();
}
