//! What is known of the server.

use std::collections::BTreeMap;

use walwright_record::{TargetFacts, TargetKind};
use walwright_server::{Client, QueryError, Row};

use super::locality::local_postmaster;
use super::tables::{TablesOfInterest, table_facts};
use crate::ProbeError;
use crate::extension::statements_schema;
use crate::host::cgroup::Cgroup;

/// What the caller knows of the target and the server cannot tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetDescription {
    /// Ours or someone's.
    pub kind: TargetKind,
    /// Address without secrets.
    pub address: String,
    /// Where the binaries came from, for an embedded cluster.
    pub install: Option<String>,
    /// Which tables to describe.
    pub tables: TablesOfInterest,
}

const IDENTITY: &str = "
/* walwright probe */ SELECT
    pg_catalog.current_setting('server_version'),
    pg_catalog.current_setting('server_version_num')::int4,
    pg_catalog.version(),
    pg_catalog.current_database()::text,
    current_user::text,
    pg_catalog.current_setting('is_superuser') = 'on',
    pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'),
    pg_catalog.pg_has_role(current_user, 'pg_read_all_settings', 'USAGE'),
    pg_catalog.pg_backend_pid(),
    extract(epoch FROM pg_catalog.pg_postmaster_start_time())::float8,
    pg_catalog.pg_is_in_recovery(),
    CASE WHEN pg_catalog.current_setting('is_superuser') = 'on'
              OR pg_catalog.pg_has_role(current_user, 'pg_read_all_settings', 'USAGE')
         THEN pg_catalog.current_setting('data_directory') END,
    (SELECT setting FROM pg_catalog.pg_settings WHERE name = 'compute_query_id'),
    pg_catalog.current_setting('track_activities'),
    pg_catalog.current_setting('track_counts'),
    pg_catalog.current_setting('track_io_timing'),
    pg_catalog.current_setting('track_wal_io_timing')";

/// Describes the server behind `client`. What this role may not see, or what
/// cannot be seen from here, is in `not_observable`, never an error.
///
/// # Errors
/// When the server is older than 14 or does not answer.
pub async fn target_facts(
    client: &Client,
    description: &TargetDescription,
) -> Result<TargetFacts, ProbeError> {
    let wrong = |source| ProbeError::Query { what: "version and role", source };
    let row = client.query_one(IDENTITY, &[]).await.map_err(wrong)?;
    let identity = Identity::read(&row).map_err(wrong)?;
    if identity.version_num < 140_000 {
        return Err(ProbeError::TooOld(identity.version));
    }
    let mut not_observable = identity.warnings();
    let postmaster_pid = local_postmaster(identity.backend_pid, identity.started);
    if postmaster_pid.is_none() {
        not_observable.push(
            "the server's machine: its processes are not among this machine's, so processors, memory, disks and other processes cannot be seen"
                .to_owned(),
        );
    }
    let data_directory = identity.data_directory.or_else(|| {
        // The postmaster works in its data directory.
        let link = std::fs::read_link(format!("/proc/{}/cwd", postmaster_pid?)).ok()?;
        Some(link.to_str()?.to_owned())
    });
    if data_directory.is_none() {
        not_observable.push(
            "the data directory: only a superuser or a member of pg_read_all_settings may see it, so the disks under it are not known"
                .to_owned(),
        );
    }
    let extensions = extensions(client, &mut not_observable).await;
    let statements = statements(client, &mut not_observable).await;
    let database_bytes = database_bytes(client, &mut not_observable).await;
    let tables = match table_facts(client, &description.tables).await {
        Ok(tables) => tables,
        Err(ProbeError::Query { source, .. }) if !client.is_closed() => {
            not_observable.push(format!("tables: {source}"));
            Vec::new()
        }
        Err(error) => return Err(error),
    };
    Ok(TargetFacts {
        kind: description.kind,
        address: description.address.clone(),
        version: identity.version,
        version_num: identity.version_num,
        version_text: identity.version_text,
        install: description.install.clone(),
        database: identity.database,
        role: identity.role,
        superuser: identity.superuser,
        monitor: identity.monitor,
        local: postmaster_pid.is_some(),
        postmaster_pid,
        processors: postmaster_pid.and_then(usable_processors),
        memory_limit_bytes: postmaster_pid.and_then(|pid| Cgroup::of(pid).memory_limit()),
        data_directory,
        extensions,
        statements,
        database_bytes,
        in_recovery: identity.in_recovery,
        tables,
        not_observable,
    })
}

/// Processors that a process may use: those of its affinity, or less by its control group.
fn usable_processors(pid: u32) -> Option<f64> {
    let pid_of = nix::unistd::Pid::from_raw(i32::try_from(pid).ok()?);
    let set = nix::sched::sched_getaffinity(pid_of).ok()?;
    let places = (0..nix::sched::CpuSet::count()).filter(|place| set.is_set(*place) == Ok(true));
    let allowed = places.count() as f64;
    Some(Cgroup::of(pid).cpu_limit().map_or(allowed, |quota| quota.min(allowed)))
}

/// What [`IDENTITY`] answers.
struct Identity {
    version: String,
    version_num: u32,
    version_text: String,
    database: String,
    role: String,
    superuser: bool,
    monitor: bool,
    backend_pid: u32,
    /// Seconds since 1970.
    started: f64,
    in_recovery: bool,
    data_directory: Option<String>,
    /// Settings without which something is not seen, and what that is.
    off: Vec<&'static str>,
}

/// What settings hide while they are off, in the order of [`IDENTITY`].
const HIDDEN: [&str; 5] = [
    "which statement a session runs: compute_query_id is off",
    "what sessions do: track_activities is off",
    "activity of tables and indexes: track_counts is off",
    "time of reads and writes: track_io_timing is off",
    "time of WAL writes and flushes: track_wal_io_timing is off",
];

impl Identity {
    fn read(row: &Row) -> Result<Identity, QueryError> {
        let superuser = row.get(5)?;
        let mut off = Vec::new();
        for (place, hidden) in (12..).zip(HIDDEN) {
            if row.get::<Option<String>>(place)?.as_deref() == Some("off") {
                off.push(hidden);
            }
        }
        Ok(Identity {
            version: row.get(0)?,
            version_num: u32::try_from(row.get::<i32>(1)?).unwrap_or(0),
            version_text: row.get(2)?,
            database: row.get(3)?,
            role: row.get(4)?,
            superuser,
            monitor: superuser || (row.get(6)? && row.get(7)?),
            backend_pid: u32::try_from(row.get::<i32>(8)?).unwrap_or(0),
            started: row.get(9)?,
            in_recovery: row.get(10)?,
            data_directory: row.get(11)?,
            off,
        })
    }

    /// What privileges and settings hide.
    fn warnings(&self) -> Vec<String> {
        let privileges = (!self.monitor).then(|| {
            format!(
                "sessions and statements of other roles, and some settings: role {} is not a member of pg_monitor",
                self.role
            )
        });
        privileges.into_iter().chain(self.off.iter().map(|text| (*text).to_owned())).collect()
    }
}

async fn extensions(client: &Client, not_observable: &mut Vec<String>) -> BTreeMap<String, String> {
    let asked =
        "/* walwright probe */ SELECT extname::text, extversion FROM pg_catalog.pg_extension";
    let rows = client.query(asked, &[]).await;
    let read =
        rows.and_then(|rows| rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect());
    read.unwrap_or_else(|error| {
        not_observable.push(format!("extensions: {error}"));
        BTreeMap::new()
    })
}

/// Whether `pg_stat_statements` answers; asking is the only way to know whether
/// its library is loaded.
async fn statements(client: &Client, not_observable: &mut Vec<String>) -> bool {
    let why = match statements_schema(client).await {
        Err(why) => why,
        Ok(schema) => {
            let asked = format!(
                "/* walwright probe */ SELECT FROM {schema}.pg_stat_statements(false) LIMIT 1"
            );
            match client.query(&asked, &[]).await {
                Ok(_) => return true,
                Err(error) => error.to_string(),
            }
        }
    };
    not_observable.push(format!("statements: pg_stat_statements does not answer: {why}"));
    false
}

async fn database_bytes(client: &Client, not_observable: &mut Vec<String>) -> Option<u64> {
    let asked = client
        .query_one(
            "/* walwright probe */ SELECT pg_catalog.pg_database_size(pg_catalog.current_database())",
            &[],
        )
        .await;
    match asked.and_then(|row| row.get::<i64>(0)) {
        Ok(bytes) => u64::try_from(bytes).ok(),
        Err(error) => {
            not_observable.push(format!("size of the database: {error}"));
            None
        }
    }
}
