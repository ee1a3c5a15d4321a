//! What is seen of server and host: facts before the load, samples while it goes on.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use walwright_probe::{
    Clock, Connector, HostScope, Listening, LoadParts, Probe, ProbeSpec, ProcessName, Rates, Sink,
    TablesOfInterest, TargetDescription,
};
use walwright_record::{SchemaFacts, TargetKind, Warning, WarningCode};
use walwright_server::Client;

use super::context::{Context, blocking};
use super::tables::Found;
use super::target::Target;
use super::{RunError, drive};
use crate::attach::{GatewayMetrics, PoolWait};
use crate::{GatewayChoice, Progress};

/// Time given to measuring flush latency.
const STORAGE_PROBE: Duration = Duration::from_secs(1);
/// Tables described of a server whose workload names none.
const LARGEST_TABLES: u16 = 20;

/// What was seen before the load.
pub(super) struct Seen {
    host: HostScope,
    schema: Option<SchemaFacts>,
}

impl Seen {
    /// Names the process of the pooler, if there is one, so that its CPU is told apart.
    pub fn passes_through(&mut self, pooler: Option<u32>) {
        self.host.pooler = pooler;
    }
}

/// Describes target and machine and measures flush latency and processor speed.
pub(super) async fn describe(
    context: &Context,
    target: &Target,
    client: &Client,
    found: &[Found],
) -> Result<Seen, RunError> {
    let description = TargetDescription {
        kind: target.kind,
        address: target.address.clone(),
        install: target.install.clone(),
        tables: tables(context, found),
    };
    let facts = walwright_probe::target_facts(client, &description).await?;
    let settings = walwright_probe::settings(&target.params).await?;
    let sync_method =
        settings.iter().find(|s| s.name == "wal_sync_method").map(|s| s.value.clone());
    let mut host = HostScope::of(&facts);
    if let Some(application) = &context.plan.load.http {
        let port = application.port();
        let found = blocking(move || walwright_probe::listener(port)).await?;
        host.parts = LoadParts {
            applications: found.map(ProcessName::Pid).into_iter().collect(),
            recognise: true,
            ..LoadParts::default()
        };
        host.listening =
            Listening::of(settings.iter().map(|s| (s.name.as_str(), s.value.as_str())));
    }
    context.notes.recorder.write(move |writer| writer.target(&facts));
    context.notes.recorder.write(move |writer| writer.settings(&settings));
    let mut schema = None;
    if context.plan.probe.is_some() {
        describe_host(context, target, &host, sync_method).await?;
        context.notes.observer.event(Progress::Step("the schema"));
        let facts = walwright_probe::schema_facts(client).await;
        schema = Some(facts.clone());
        context.notes.recorder.write(move |writer| writer.schema(&facts));
    }
    Ok(Seen { host, schema })
}

/// Reads the schema again once the load has ended, with plans of what was run; keeps
/// it where it tells more than before.
pub(super) async fn describe_end(
    context: &Context,
    seen: &Seen,
    client: &Client,
    workload: &Client,
    ours: bool,
) {
    let Some(before) = &seen.schema else { return };
    let mut facts = walwright_probe::schema_facts(client).await;
    walwright_probe::partition_plans(client, workload, ours, &mut facts).await;
    if facts.tells_more_than(before) {
        context.notes.recorder.write(move |writer| writer.schema_end(&facts));
    }
}

fn tables(context: &Context, found: &[Found]) -> TablesOfInterest {
    if context.job.tables.is_empty() {
        TablesOfInterest::Largest(LARGEST_TABLES)
    } else {
        TablesOfInterest::Known(found.iter().map(|table| table.oid).collect())
    }
}

/// Host facts, and the two short probes that tell one day of a machine from another.
async fn describe_host(
    context: &Context,
    target: &Target,
    host: &HostScope,
    sync_method: Option<String>,
) -> Result<(), RunError> {
    let (data, wal) = (host.data_directory.clone(), host.wal_directory.clone());
    let facts =
        blocking(move || walwright_probe::host_facts(data.as_deref(), wal.as_deref())).await?;
    let mount = facts.wal_disk.as_ref().map(|disk| PathBuf::from(&disk.mount));
    context.notes.recorder.write(move |writer| writer.host(&facts));
    if !host.local {
        return Ok(());
    }
    let known = mount.and_then(|mount| crate::storage::known_at(&context.lab, &mount));
    if let Some(known) = known {
        context.notes.recorder.write(move |writer| writer.storage_measured(&known));
    }
    context.notes.observer.event(Progress::Step("processor speed"));
    let cpu = blocking(walwright_probe::cpu_probe).await?;
    context.notes.recorder.write(move |writer| writer.cpu(&cpu));
    // Beside the data directory, on the WAL's file system, never inside it.
    let beside = host.data_directory.as_deref().and_then(Path::parent).map(Path::to_owned);
    let directory = match (&context.plan.storage_dir, target.kind) {
        (Some(chosen), _) => Some(chosen.clone()),
        (None, TargetKind::Embedded) => beside,
        // Writing beside someone's WAL is not done unasked.
        (None, TargetKind::Attached) => {
            context.notes.warn(
                Warning::new(
                    WarningCode::NotObservable,
                    "flush latency of the disk under the WAL: measuring it writes to that disk, which walwright does not do unasked",
                )
                .hint("--storage-dir names a directory on that disk to measure in"),
            );
            None
        }
    };
    if let (Some(directory), Some(method)) = (directory, sync_method) {
        context.notes.observer.event(Progress::Step("flush latency of the disk under the WAL"));
        probe_storage(context, directory, method, target.flush_latency).await?;
    }
    Ok(())
}

async fn probe_storage(
    context: &Context,
    beside: PathBuf,
    method: String,
    least: Option<Duration>,
) -> Result<(), RunError> {
    let least = least.unwrap_or_default();
    let probe = move || walwright_probe::storage_probe(&beside, &method, least, STORAGE_PROBE);
    match blocking(probe).await? {
        Ok(storage) => context.notes.recorder.write(move |writer| writer.storage(&storage)),
        Err(error) => {
            context.notes.warn(Warning::new(WarningCode::NotObservable, error.to_string()));
        }
    }
    Ok(())
}

/// How long sessions of a load are given to end.
const LEAVING: Duration = Duration::from_secs(1);

/// Waits for the sessions of the load to end: what they counted last is in the server's
/// statistics only then, and the last reading sets all of it against what the clients did.
pub(super) async fn load_has_left(client: &Client) {
    let left = async {
        let sql = format!(
            "SELECT count(*) FROM pg_stat_get_activity(NULL) WHERE application_name = '{}'",
            drive::APPLICATION_NAME
        );
        while let Ok(row) = client.query_one(&sql, &[]).await
            && row.get::<i64>(0).is_ok_and(|sessions| sessions > 0)
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    // The figures do without it.
    let _ = tokio::time::timeout(LEAVING, left).await;
}

/// Sampling under way, unless it was not wanted.
pub(super) struct Observation {
    probe: Option<Probe>,
    pool_wait: Option<PoolWait>,
    gateway: Option<GatewayMetrics>,
}

impl Observation {
    /// Begins to sample.
    pub async fn begin(
        context: &Context,
        target: &Target,
        seen: &Seen,
        gateway: Option<GatewayChoice>,
    ) -> Result<Observation, RunError> {
        let Some(choice) = context.plan.probe else {
            return Ok(Observation { probe: None, pool_wait: None, gateway: None });
        };
        let connector = Connector::to(&target.params);
        let rates =
            Rates { waits: Duration::from_secs(1) / choice.waits_hz.max(1), ..Rates::default() };
        let spec = ProbeSpec { connector, rates, host: seen.host.clone(), clock: Clock::start() };
        let notes = context.notes.clone();
        let sink: Sink = Arc::new(move |seeing| notes.seen(seeing));
        let probe = Some(Probe::start(spec, sink).await?);
        let pool_wait = context.plan.load.pool_wait.as_ref();
        let pool_wait = pool_wait.map(|plan| PoolWait::begin(plan, &context.notes));
        let gateway = gateway.map(|choice| GatewayMetrics::begin(choice, &context.notes));
        Ok(Observation { probe, pool_wait, gateway })
    }

    /// Takes a last reading and keeps what the probe knows of itself.
    pub async fn end(self, context: &Context) {
        if let Some(pool_wait) = self.pool_wait {
            pool_wait.end().await;
        }
        if let Some(gateway) = self.gateway {
            gateway.end().await;
        }
        let Some(probe) = self.probe else { return };
        // Of a load that never began there is nothing to compare its cost with.
        let began = context.began.load(Ordering::Acquire);
        context.notes.probe_ended(probe.stop().await, began);
    }
}
