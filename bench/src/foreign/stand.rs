//! A server with a system's data on it, under the system's load.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::Value;
use walwright_server::{
    Client, Cluster, ClusterSpec, Install, Installs, Major, Places, RunningCluster, Secret,
    Snapshot, TcpAccess, connect_for_workload, sweep,
};

use super::{ForeignFault, System, Tools};
use crate::{Busy, Walwright};

/// Load before anything is counted.
const WARM: Duration = Duration::from_secs(3);
/// How long a load may take to begin to work.
const BEGIN: Duration = Duration::from_secs(30);
/// The superuser's password of servers that live for some seconds on the loopback address.
const PASSWORD: &str = "walwright";

/// Where one system is tried.
pub struct Stand<'a> {
    tools: &'a Tools,
    system: &'a System,
    places: Places,
    install: Install,
    snapshot: Snapshot,
    runtime: tokio::runtime::Runtime,
}

/// What one run has of the faults of a case, and what was done against them.
#[derive(Debug, Clone, Default)]
pub struct Arm<'a> {
    /// Faults that are planted.
    pub faults: Vec<&'a ForeignFault>,
    /// Settings that advice gives.
    pub settings: BTreeMap<String, String>,
    /// SQL that advice gives, run after the faults'.
    pub sql: Vec<String>,
}

/// What `record` and `diagnose` said of a run.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The diagnosis.
    pub diagnosis: Value,
    /// The record's name.
    pub run: String,
}

impl<'a> Stand<'a> {
    /// Installs the system and fills its database, once for each version of its file.
    ///
    /// # Errors
    /// When a step fails.
    pub fn open(tools: &'a Tools, system: &'a System, data: &Path) -> anyhow::Result<Stand<'a>> {
        tools.install(system)?;
        let places = Places::open(None)?;
        sweep(&places)?;
        let install = Installs::within(places.clone()).ensure(Major::V18, &mut |_| {})?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let directory: PathBuf = data.join(&system.name);
        let made_by = data.join(format!("{}.prepared", system.name));
        let prepared = format!("{}\n{}\n{:?}", system.install, system.prepare, system.files);
        let current = std::fs::read_to_string(&made_by).is_ok_and(|text| text == prepared);
        if !current && directory.exists() {
            std::fs::remove_dir_all(&directory)?;
        }
        if !directory.exists() {
            eprintln!("{}: preparing its data", system.name);
            let spec = spec(&places, &install, BTreeMap::new(), None)?;
            let server = Cluster::create(spec)?.start()?;
            tools.run(system, &system.prepare, &environment(&server)?)?;
            let cluster = server.cluster().clone();
            server.stop()?;
            std::fs::create_dir_all(data)?;
            Snapshot::take(&cluster, &directory)?;
            std::fs::write(&made_by, prepared)?;
        }
        let snapshot = Snapshot::open(&directory)?;
        Ok(Stand { tools, system, places, install, snapshot, runtime })
    }

    /// Work a second under an arm.
    ///
    /// # Errors
    /// When a step fails, or the load does nothing.
    pub fn measure(&self, arm: &Arm, length: Duration) -> anyhow::Result<f64> {
        self.under_load(arm, |server| {
            let (before, begun) = (self.work(server)?, Instant::now());
            std::thread::sleep(length);
            let (after, seconds) = (self.work(server)?, begun.elapsed().as_secs_f64());
            let rate = (after - before) / seconds;
            if rate <= 0.0 {
                bail!("{}: its load did no work", self.system.name);
            }
            Ok(rate)
        })
    }

    /// Records the load under an arm, as a person would, and has it diagnosed.
    ///
    /// # Errors
    /// When a step fails.
    pub fn record(
        &self,
        walwright: &Walwright,
        arm: &Arm,
        label: &str,
        length: Duration,
    ) -> anyhow::Result<Seen> {
        self.under_load(arm, |server| {
            let dsn = format!(
                "host={} port={} user=postgres dbname=postgres",
                server.socket_dir().display(),
                server.port()
            );
            let length = format!("{}s", length.as_secs());
            let arguments = ["record", "--quiet", "--dsn", &dsn, "--for", &length, "-l", label];
            walwright.printed_json(&arguments)?;
            let run =
                walwright.labelled_runs()?.remove(label).context("the record is not there")?;
            let diagnosis = walwright.printed_json(&["diagnose", &run])?;
            Ok(Seen { diagnosis, run })
        })
    }

    /// Starts a server with the data and an arm's faults, puts it under load, waits until that
    /// works, and does something.
    fn under_load<T>(
        &self,
        arm: &Arm,
        work: impl FnOnce(&RunningCluster) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        let mut settings = self.system.settings.clone();
        for fault in &arm.faults {
            settings.extend(fault.settings.clone());
        }
        settings.extend(arm.settings.clone());
        let flush = arm.faults.iter().find_map(|fault| fault.flush_latency.as_deref());
        let spec = spec(&self.places, &self.install, settings, flush)?;
        let (cluster, _) = self.snapshot.create_cluster(spec)?;
        let server = cluster.start()?;
        let planted = arm.faults.iter().map(|fault| fault.sql.as_str());
        let given = arm.sql.iter().map(String::as_str);
        for sql in planted.chain(given).filter(|sql| !sql.trim().is_empty()) {
            self.execute(&server, sql)?;
        }
        self.execute(&server, "CHECKPOINT")?;
        let script = arm.faults.iter().find_map(|fault| fault.load.as_deref());
        let script = script.unwrap_or(&self.system.load);
        let neighbours: u32 = arm.faults.iter().map(|fault| fault.neighbours).sum();
        let _busy: Vec<Busy> =
            (0..neighbours).map(|_| Busy::start()).collect::<anyhow::Result<_>>()?;
        let environment = environment(&server)?;
        let idle = self.work(&server)?;
        let mut load = self.tools.start(self.system, script, &environment)?;
        let begun = Instant::now();
        while self.work(&server)? <= idle {
            if load.ended()? || begun.elapsed() > BEGIN {
                let log = self.tools.of(self.system).join("load.log");
                let said = std::fs::read_to_string(log).unwrap_or_default();
                bail!("{}: its load does nothing:\n{said}", self.system.name);
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        std::thread::sleep(WARM);
        let done = work(&server)?;
        if load.ended()? {
            bail!("{}: its load ended before it was measured", self.system.name);
        }
        drop(load);
        server.stop_immediately()?;
        Ok(done)
    }

    /// Work done so far.
    fn work(&self, server: &RunningCluster) -> anyhow::Result<f64> {
        let sql = format!("SELECT ({})::float8", self.system.work);
        self.with_client(server, async |client| {
            Ok(client.query_one(&sql, &[]).await?.get::<Option<f64>>(0)?.unwrap_or(0.0))
        })
        .with_context(|| sql.clone())
    }

    fn execute(&self, server: &RunningCluster, sql: &str) -> anyhow::Result<()> {
        self.with_client(server, async |client| Ok(client.batch_execute(sql).await?))
            .with_context(|| sql.to_owned())
    }

    fn with_client<T>(
        &self,
        server: &RunningCluster,
        work: impl AsyncFnOnce(&Client) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        self.runtime.block_on(async {
            let client = connect_for_workload(&server.connect_params("postgres")).await?;
            work(&client).await
        })
    }
}

fn spec(
    places: &Places,
    install: &Install,
    settings: BTreeMap<String, String>,
    flush: Option<&str>,
) -> anyhow::Result<ClusterSpec> {
    let mut spec = ClusterSpec::new(places, install.clone());
    spec.settings = settings.into_iter().collect();
    spec.tcp = Some(TcpAccess { port: None, password: Secret::new(PASSWORD) });
    spec.flush_latency = flush
        .map(walwright_workload::parse_duration)
        .transpose()
        .map_err(|why| anyhow::anyhow!("flush_latency: {why}"))?;
    Ok(spec)
}

/// How a foreign program finds the server.
fn environment(server: &RunningCluster) -> anyhow::Result<Vec<(&'static str, String)>> {
    let port = server.port().to_string();
    let url = format!("postgres://postgres:{PASSWORD}@127.0.0.1:{port}/postgres?sslmode=disable");
    Ok(vec![
        ("PGHOST", "127.0.0.1".to_owned()),
        ("PGPORT", port),
        ("PGUSER", "postgres".to_owned()),
        ("PGPASSWORD", PASSWORD.to_owned()),
        ("PGDATABASE", "postgres".to_owned()),
        ("DATABASE_URL", url),
    ])
}
