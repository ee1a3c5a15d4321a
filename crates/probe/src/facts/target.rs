//! What is known of the server.

use std::collections::BTreeMap;

use tokio_postgres::{Client, Row};
use walwright_record::{TargetFacts, TargetKind};

use super::locality::local_postmaster;
use super::tables::{TablesOfInterest, table_facts};
use crate::ProbeError;
use crate::error::server_says;

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
    let row = client
        .query_one(IDENTITY, &[])
        .await
        .map_err(|source| ProbeError::Query { what: "what it is", source })?;
    let version: String = row.get(0);
    let version_num = u32::try_from(row.get::<_, i32>(1)).unwrap_or(0);
    if version_num < 140_000 {
        return Err(ProbeError::TooOld(version));
    }
    let superuser: bool = row.get(5);
    let monitor = superuser || (row.get(6) && row.get(7));
    let mut not_observable = doubts(&row, monitor);

    let backend_pid = u32::try_from(row.get::<_, i32>(8)).unwrap_or(0);
    let postmaster_pid = local_postmaster(backend_pid, row.get(9));
    if postmaster_pid.is_none() {
        not_observable.push(
            "the server's machine: its processes are not among this machine's, so processors, memory, disks and other processes cannot be seen"
                .to_owned(),
        );
    }
    let data_directory = row.get::<_, Option<String>>(11).or_else(|| {
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
    let extensions = extensions(client).await?;
    let statements = statements(client, &mut not_observable).await;
    let database_bytes = database_bytes(client, &mut not_observable).await;
    let tables = match table_facts(client, &description.tables).await {
        Ok(tables) => tables,
        Err(ProbeError::Query { source, .. }) if !client.is_closed() => {
            not_observable.push(format!("tables: {}", server_says(&source)));
            Vec::new()
        }
        Err(error) => return Err(error),
    };
    Ok(TargetFacts {
        kind: description.kind,
        address: description.address.clone(),
        version,
        version_num,
        version_text: row.get(2),
        install: description.install.clone(),
        database: row.get(3),
        role: row.get(4),
        superuser,
        monitor,
        local: postmaster_pid.is_some(),
        postmaster_pid,
        data_directory,
        extensions,
        statements,
        database_bytes,
        in_recovery: row.get(10),
        tables,
        not_observable,
    })
}

/// What privileges and settings hide.
fn doubts(row: &Row, monitor: bool) -> Vec<String> {
    let role: String = row.get(4);
    let mut sentences = Vec::new();
    if !monitor {
        sentences.push(format!(
            "sessions and statements of other roles, and some settings: role {role} is not a member of pg_monitor"
        ));
    }
    let setting = |place: usize| row.get::<_, Option<String>>(place);
    let off = |place: usize| setting(place).as_deref() == Some("off");
    if off(12) {
        sentences.push("which statement a session runs: compute_query_id is off".to_owned());
    }
    if off(13) {
        sentences.push("what sessions do: track_activities is off".to_owned());
    }
    if off(14) {
        sentences.push("activity of tables and indexes: track_counts is off".to_owned());
    }
    if off(15) {
        sentences.push("time of reads and writes: track_io_timing is off".to_owned());
    }
    if off(16) {
        sentences.push("time of WAL writes and flushes: track_wal_io_timing is off".to_owned());
    }
    sentences
}

async fn extensions(client: &Client) -> Result<BTreeMap<String, String>, ProbeError> {
    let rows = client
        .query(
            "/* walwright probe */ SELECT extname::text, extversion FROM pg_catalog.pg_extension",
            &[],
        )
        .await
        .map_err(|source| ProbeError::Query { what: "its extensions", source })?;
    Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// Whether `pg_stat_statements` answers; asking is the only way to know whether
/// its library is loaded.
async fn statements(client: &Client, not_observable: &mut Vec<String>) -> bool {
    let schema = client
        .query_opt(
            "/* walwright probe */ SELECT pg_catalog.quote_ident(n.nspname)
             FROM pg_catalog.pg_extension e
             JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace
             WHERE e.extname = 'pg_stat_statements'",
            &[],
        )
        .await;
    let why = match schema {
        Ok(None) => "the extension is not in this database".to_owned(),
        Err(error) => server_says(&error),
        Ok(Some(row)) => {
            let schema: String = row.get(0);
            let asked = client
                .query(
                    &format!("/* walwright probe */ SELECT FROM {schema}.pg_stat_statements(false) LIMIT 1"),
                    &[],
                )
                .await;
            match asked {
                Ok(_) => return true,
                Err(error) => server_says(&error),
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
    match asked {
        Ok(row) => u64::try_from(row.get::<_, i64>(0)).ok(),
        Err(error) => {
            not_observable.push(format!("size of the database: {}", server_says(&error)));
            None
        }
    }
}
