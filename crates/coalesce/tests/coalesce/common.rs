//! A server to write to.

use std::time::Duration;

use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};
use walwright_server::{Cluster, ClusterSpec, Installs, Major, Places, RunningCluster};

/// A server with a table `events`.
pub struct Testbed {
    pub server: RunningCluster,
    pub client: Client,
    pub _base: TempDir,
}

pub const EVENTS: &str = "CREATE TABLE events (
    id bigint PRIMARY KEY,
    kind text NOT NULL CHECK (kind <> ''),
    payload jsonb,
    at timestamptz NOT NULL DEFAULT now()
)";

impl Testbed {
    pub async fn new() -> Self {
        Self::of(Major::V18, &[]).await
    }

    pub async fn of(major: Major, settings: &[(&str, &str)]) -> Self {
        let base = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let places = Places::open(Some(base.path().join("cache"))).expect("places");
        let install = Installs::open(None)
            .and_then(|installs| installs.ensure(major, &mut |_| {}))
            .expect("an install");
        let mut spec = ClusterSpec::new(&places, install);
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        spec.settings = settings.iter().map(own).collect();
        let server = tokio::task::spawn_blocking(|| {
            Cluster::create(spec).expect("made").start().expect("started")
        });
        let server = server.await.expect("no panic");
        let client = connect(&url(&server)).await;
        client.batch_execute(EVENTS).await.expect("a table");
        Self { server, client, _base: base }
    }

    pub fn url(&self) -> String {
        url(&self.server)
    }

    pub async fn count(&self, table: &str) -> i64 {
        self.one(&format!("SELECT count(*) FROM {table}")).await
    }

    pub async fn one<T: for<'a> tokio_postgres::types::FromSql<'a>>(&self, sql: &str) -> T {
        self.client.query_one(sql, &[]).await.expect(sql).get(0)
    }
}

fn url(server: &RunningCluster) -> String {
    format!(
        "host={} port={} user=postgres dbname=postgres",
        server.socket_dir().display(),
        server.port()
    )
}

pub async fn connect(url: &str) -> Client {
    let mut config: tokio_postgres::Config = url.parse().expect("a connection string");
    config.connect_timeout(Duration::from_secs(10));
    let (client, connection) = config.connect(NoTls).await.expect("connected");
    // It ends with its client.
    tokio::spawn(async move { connection.await.ok() });
    client
}
