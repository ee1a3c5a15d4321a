//! Where the probe gets its connections from.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use walwright_server::{Client, ConnectError, ConnectParams, SessionSettings};

use crate::APPLICATION_NAME;

/// Why a connection could not be made.
pub type BoxedError = Box<dyn std::error::Error + Send + Sync>;

type Connecting = Pin<Box<dyn Future<Output = Result<Client, BoxedError>> + Send>>;

/// What the probe's sessions set for themselves beside the settings of every session of
/// walwright's own ([`walwright_server::connect`]). Generic plans and no JIT because the
/// same few cheap queries run again and again; read-only because walwright changes nothing unasked;
/// the timeouts so that neither a lock nor a stall holds up sampling for long.
/// A superuser's sessions stay out of statistics and logs.
const SETTINGS: SessionSettings<'static> = SessionSettings {
    all: "-c default_transaction_read_only=on -c jit=off \
        -c max_parallel_workers_per_gather=0 -c plan_cache_mode=force_generic_plan \
        -c statement_timeout=5s -c lock_timeout=100ms -c client_min_messages=error",
    superuser: "-c pg_stat_statements.track=none \
        -c log_min_duration_statement=-1 -c log_statement=none",
};

/// How long one query may take: what the server allows it, and a little for a server
/// that does not keep to it.
const LIMIT: Duration = Duration::from_secs(6);

/// Opens connections to the target, again and again if they are lost. Each call
/// runs on the probe's own runtime, so that the connection lives there.
#[derive(Clone)]
pub struct Connector(Arc<dyn Fn() -> Connecting + Send + Sync>);

impl Connector {
    /// A connector that calls `connect` for each connection. The future must
    /// itself spawn what drives the connection. The probe sets nothing in sessions
    /// that it has not opened itself, so its queries run under their settings.
    pub fn new<F, Fut, E>(connect: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Client, E>> + Send + 'static,
        E: Into<BoxedError>,
    {
        Connector(Arc::new(move || {
            let connecting = connect();
            Box::pin(async move { connecting.await.map_err(Into::into) })
        }))
    }

    /// A connector to a server known by its parameters. The sessions have settings
    /// of the probe's own as far as the server, or a pooler before it, takes them
    /// as options of the connection.
    pub fn to(params: &ConnectParams) -> Self {
        let params = params.clone().with_application_name(APPLICATION_NAME);
        Self::new(move || {
            let params = params.clone();
            async move {
                let client = walwright_server::connect_with(&params, SETTINGS).await?;
                Ok::<_, ConnectError>(client.with_limit(Some(LIMIT)))
            }
        })
    }

    pub(crate) async fn connect(&self) -> Result<Client, BoxedError> {
        (self.0)().await
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What it closes over may hold a password.
        f.write_str("Connector")
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
    use tokio::net::{UnixListener, UnixStream};
    use walwright_server::{Cluster, ClusterSpec, Installs, Major, RunningCluster};

    use super::*;

    fn server() -> RunningCluster {
        let installs = Installs::open(None).expect("a cache");
        let install = installs.ensure(Major::V18, &mut |_| {}).expect("an install");
        let spec = ClusterSpec::new(installs.places(), install);
        Cluster::create(spec).expect("a cluster").start().expect("started")
    }

    /// A setting and where it comes from.
    async fn setting(client: &Client, name: &str) -> (String, String) {
        let row = client
            .query_one("SELECT setting, source FROM pg_settings WHERE name = $1", &[&name])
            .await
            .expect("a setting");
        (row.get(0).unwrap(), row.get(1).unwrap())
    }

    fn from(setting: &str, source: &str) -> (String, String) {
        (setting.to_owned(), source.to_owned())
    }

    /// A pooler that does not know `options`, in the words and SQLSTATE of PgBouncer.
    async fn refuse_options(listener: UnixListener, server: std::path::PathBuf) {
        loop {
            let (mut client, _) = listener.accept().await.expect("a client");
            let mut startup = client.read_u32().await.expect("a length").to_be_bytes().to_vec();
            let length = u32::from_be_bytes([startup[0], startup[1], startup[2], startup[3]]);
            startup.resize(length as usize, 0);
            client.read_exact(&mut startup[4..]).await.expect("a startup packet");
            if startup.windows(9).any(|w| w == b"\0options\0") {
                let fields =
                    b"SFATAL\0C08P01\0Munsupported startup parameter: options\0\0".as_slice();
                client.write_u8(b'E').await.expect("sent");
                client.write_u32(fields.len() as u32 + 4).await.expect("sent");
                client.write_all(fields).await.expect("sent");
                continue;
            }
            let mut upstream = UnixStream::connect(&server).await.expect("the server");
            upstream.write_all(&startup).await.expect("sent");
            tokio::spawn(async move { copy_bidirectional(&mut client, &mut upstream).await });
        }
    }

    #[tokio::test]
    async fn settings_come_with_the_connection_as_far_as_they_are_taken() {
        let server = server();
        let params = server.connect_params("postgres").with_options("-c work_mem=1MB");
        let connector = Connector::to(&params);
        for _ in 0..2 {
            let client = connector.connect().await.expect("connected");
            // What belongs to the connection outlives what a pooler resets.
            client.batch_execute("DISCARD ALL").await.expect("reset");
            assert_eq!(setting(&client, "jit").await, from("off", "client"));
            assert_eq!(setting(&client, "lock_timeout").await, from("100", "client"));
            assert_eq!(setting(&client, "log_statement").await, from("none", "client"));
            assert_eq!(setting(&client, "work_mem").await, from("1024", "client"));
        }
        let admin = walwright_server::connect_for_workload(&params).await.expect("connected");
        admin.batch_execute("CREATE ROLE plain LOGIN").await.expect("a role");
        let plain = Connector::to(&params.clone().with_user("plain"));
        let client = plain.connect().await.expect("connected");
        assert_eq!(setting(&client, "jit").await, from("off", "client"));
        assert_eq!(setting(&client, "log_statement").await, from("none", "default"));

        let dir = tempfile::tempdir().expect("a directory");
        let listener = UnixListener::bind(dir.path().join(".s.PGSQL.5432")).expect("bound");
        let socket = server.connect_params("postgres").socket_path().expect("a socket");
        tokio::spawn(refuse_options(listener, socket));
        let pooler = |dir: &Path| ConnectParams::unix_socket(dir, 5432, "plain", "postgres");
        let pooled = Connector::to(&pooler(dir.path()));
        for _ in 0..2 {
            let client = pooled.connect().await.expect("connected");
            assert_eq!(setting(&client, "jit").await.1, "default");
            assert_eq!(setting(&client, "application_name").await.0, APPLICATION_NAME);
        }
    }
}
