//! The server that contenders share.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use walwright_server::{
    Client, Cluster, ClusterSpec, ConnectParams, Install, Installs, Major, Places, PoolerProgram,
    PoolerSpec, RunningCluster, RunningPooler, connect_for_workload, sweep,
};

use crate::process::run_measured;

/// An embedded cluster with pgbench's tables, made by pgbench.
pub struct Testbed {
    server: RunningCluster,
    install: Install,
    scale: u32,
    runtime: tokio::runtime::Runtime,
}

impl Testbed {
    /// Makes the cluster and fills it with `pgbench -i`.
    ///
    /// # Errors
    /// When a step fails.
    pub fn start(scale: u32, settings: &[(&str, &str)]) -> anyhow::Result<Testbed> {
        Testbed::with_flushes(scale, settings, None)
    }

    /// The same with WAL flushes that take so long at least.
    ///
    /// # Errors
    /// When a step fails.
    pub fn with_flushes(
        scale: u32,
        settings: &[(&str, &str)],
        flush: Option<Duration>,
    ) -> anyhow::Result<Testbed> {
        let places = Places::open(None)?;
        sweep(&places)?;
        let install = Installs::within(places.clone()).ensure(Major::V18, &mut |_| {})?;
        let mut spec = ClusterSpec::new(&places, install.clone());
        spec.settings = settings.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        spec.flush_latency = flush;
        let server = Cluster::create(spec)?.start()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let testbed = Testbed { server, install, scale, runtime };
        testbed.reload()?;
        testbed.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")?;
        Ok(testbed)
    }

    /// Makes and fills pgbench's tables anew.
    ///
    /// # Errors
    /// When pgbench fails.
    pub fn reload(&self) -> anyhow::Result<()> {
        run_measured(self.program("pgbench").args(["-i", "-q", "-s", &self.scale.to_string()]))?;
        self.execute("CHECKPOINT")
    }

    /// Scale of the tables.
    pub fn scale(&self) -> u32 {
        self.scale
    }

    /// The server.
    pub fn server(&self) -> &RunningCluster {
        &self.server
    }

    /// How it is reached.
    pub fn params(&self) -> ConnectParams {
        self.server.connect_params("postgres")
    }

    /// A pooler before the server, for `clients` and those who look after them.
    ///
    /// # Errors
    /// When it does not start.
    pub fn pooler(&self, program: PoolerProgram, clients: u32) -> anyhow::Result<RunningPooler> {
        let spec = PoolerSpec {
            program,
            cluster: self.server.cluster().clone(),
            server: self.params(),
            application: "walwright bench".to_owned(),
            clients,
        };
        Ok(RunningPooler::start(&spec)?)
    }

    /// Its connection string.
    pub fn dsn(&self) -> String {
        local_dsn(self.server.socket_dir(), self.server.port())
    }

    /// A client program of the same install, pointed at the server.
    pub fn program(&self, name: &str) -> Command {
        let mut command = self.install.command(name);
        command
            .env("PGHOST", self.server.socket_dir())
            .env("PGPORT", self.server.port().to_string())
            .env("PGUSER", "postgres")
            .env("PGDATABASE", "postgres");
        command
    }

    /// Brings the data to the state every measurement starts from: what pgbench does
    /// before a run, and a checkpoint, so that each pays for its own full-page images.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn settle(&self) -> anyhow::Result<()> {
        self.execute("VACUUM pgbench_branches")?;
        self.execute("VACUUM pgbench_tellers")?;
        self.execute("TRUNCATE pgbench_history")?;
        self.execute("CHECKPOINT")
    }

    /// Whether the server writes full-page images from now on.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn full_page_writes(&self, on: bool) -> anyhow::Result<()> {
        let value = if on { "on" } else { "off" };
        self.execute(&format!("ALTER SYSTEM SET full_page_writes = {value}"))?;
        self.execute("SELECT pg_reload_conf()")?;
        let shown = "SELECT (current_setting('full_page_writes')::bool)::int";
        while self.number(shown)? != f64::from(u8::from(on)) {
            std::thread::sleep(Duration::from_millis(10));
        }
        // The checkpointer takes it over; the checkpoint waits for that.
        self.execute("CHECKPOINT")
    }

    /// Runs SQL.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn execute(&self, sql: &str) -> anyhow::Result<()> {
        self.with_client(async |client| Ok(client.batch_execute(sql).await?))
            .with_context(|| sql.to_owned())
    }

    /// One number from the server.
    ///
    /// # Errors
    /// When the server refuses or answers something else.
    pub fn number(&self, sql: &str) -> anyhow::Result<f64> {
        let sql = format!("SELECT ({sql})::float8");
        self.with_client(async |client| Ok(client.query_one(&sql, &[]).await?.get(0)?))
            .with_context(|| sql.clone())
    }

    /// Works with a connection of its own.
    ///
    /// # Errors
    /// What the work returns.
    pub fn with_client<T>(
        &self,
        work: impl AsyncFnOnce(&Client) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        self.runtime.block_on(async {
            let client = connect_for_workload(&self.params()).await?;
            work(&client).await
        })
    }
}

/// The connection string of what listens on a socket in a directory.
pub fn local_dsn(directory: &Path, port: u16) -> String {
    format!("host={} port={port} user=postgres dbname=postgres", directory.display())
}
