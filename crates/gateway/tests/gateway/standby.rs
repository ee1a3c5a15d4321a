//! Standbys of a test's server, and ways to wait for what a server does.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tokio_postgres::Client;
use walwright_server::{Cluster, RunningCluster};

use crate::common::{connected, spec};

/// A standby that follows a server, by a name for `synchronous_standby_names`.
pub fn standby(of: &RunningCluster, name: &str, base: &Path) -> RunningCluster {
    let primary = format!(
        "host={} port={} user=postgres application_name={name}",
        of.socket_dir().display(),
        of.port()
    );
    let settings =
        [("primary_conninfo", primary.as_str()), ("wal_retrieve_retry_interval", "50ms")];
    let cluster = Cluster::create(spec(&base.join(name), &settings)).expect("made");
    let data = cluster.data_dir();
    std::fs::remove_dir_all(&data).expect("removed");
    let mut copies = cluster.install().command("pg_basebackup");
    copies.args(["--checkpoint=fast", "--no-sync", "--wal-method=stream", "--username=postgres"]);
    copies.arg("--host").arg(of.socket_dir()).arg("--port").arg(of.port().to_string());
    run(copies.arg("--pgdata").arg(&data));
    std::fs::write(data.join("standby.signal"), "").expect("written");
    run(Command::new("chown").arg("-R").arg("--reference").arg(of.data_dir()).arg(&data));
    cluster.start().expect("a standby")
}

fn run(command: &mut Command) {
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A session of a server itself.
pub async fn session_of(server: &RunningCluster) -> Client {
    connected(&server.socket_dir().display().to_string(), server.port()).await
}

/// Waits until a query gives true.
pub async fn until(client: &Client, query: &str) {
    let holds = async {
        while !client.query_one(query, &[]).await.expect("it is asked").get::<_, bool>(0) {}
    };
    tokio::time::timeout(Duration::from_secs(60), holds).await.expect(query);
}

/// Gives a server another value of a setting.
pub async fn alter_system(client: &Client, name: &str, value: &str) {
    client.batch_execute(&format!("ALTER SYSTEM SET {name} = '{value}'")).await.expect("altered");
    client.batch_execute("SELECT pg_reload_conf()").await.expect("reloaded");
    until(client, &format!("SELECT current_setting('{name}') = '{value}'")).await;
}
