//! A server as a profile sees it: its settings, what `ALTER SYSTEM` has set, and where it
//! lies.

use std::path::PathBuf;

use walwright_catalog::Profile;
use walwright_probe::{HostScope, ProbeError, TablesOfInterest, TargetDescription};
use walwright_record::{Setting, TargetKind};
use walwright_server::{Client, ConnectParams};
use walwright_store::ledger::{Intent, ServerIdentity};

use super::auto_conf::AutoConf;
use super::objects::{self, Objects};
use super::query::text;

/// What a server shows.
#[derive(Clone)]
pub struct ServerView {
    /// Major version.
    pub major: u32,
    /// Who and where it is.
    pub identity: ServerIdentity,
    /// Its settings, as the session sees them.
    pub settings: Vec<Setting>,
    /// Whether it runs on this machine, and where.
    pub scope: HostScope,
    /// Bytes of the WAL that lie on its disk; `None` where this role may not see it.
    pub wal_bytes: Option<f64>,
    /// What `ALTER SYSTEM` has set; `None` where this role may not read it.
    pub auto: Option<AutoConf>,
    /// What tables and indexes have set, as far as they were looked at.
    pub(crate) objects: Objects,
}

impl ServerView {
    /// Asks a server. Changes nothing there.
    ///
    /// # Errors
    /// When its version or settings cannot be read.
    pub async fn of(client: &Client, params: &ConnectParams) -> Result<ServerView, ProbeError> {
        let description = TargetDescription {
            kind: TargetKind::Attached,
            address: params.address(),
            install: None,
            tables: TablesOfInterest::Largest(0),
        };
        let facts = walwright_probe::target_facts(client, &description).await?;
        let settings = walwright_probe::settings(params).await?;
        let scope = HostScope::of(&facts);
        let auto = allowed(
            client,
            "pg_catalog.pg_read_file(pg_catalog.text)",
            "SELECT pg_catalog.pg_read_file('postgresql.auto.conf')",
        );
        let auto = auto.await;
        let identifier =
            "SELECT system_identifier::pg_catalog.text FROM pg_catalog.pg_control_system()";
        let wal = "SELECT pg_catalog.sum(size)::pg_catalog.text FROM pg_catalog.pg_ls_waldir()";
        Ok(ServerView {
            major: facts.version_num / 10_000,
            identity: ServerIdentity {
                address: params.address(),
                system_identifier: text(client, identifier).await,
                data_directory: scope.data_directory.clone(),
            },
            settings,
            wal_bytes: allowed(client, "pg_catalog.pg_ls_waldir()", wal)
                .await
                .and_then(|bytes| bytes.parse().ok()),
            auto: auto.map(|text| AutoConf::parse(&text)),
            scope,
            objects: Objects::new(),
        })
    }

    /// Looks also at the tables and indexes that a profile names, in the database of the
    /// session; `names` is one in which names stand for what role and database say.
    #[must_use]
    pub async fn with_objects(
        mut self,
        client: &Client,
        names: &Client,
        profile: &Profile,
    ) -> ServerView {
        self.objects = objects::found(client, names, profile).await;
        self
    }

    /// A row of `pg_settings`.
    pub fn setting(&self, name: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.name.eq_ignore_ascii_case(name))
    }

    /// A setting as a number, in the unit of `pg_settings`.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.setting(name)?.value.parse().ok()
    }

    /// A setting in bytes, where it has a unit of bytes.
    pub fn bytes(&self, name: &str) -> Option<f64> {
        walwright_catalog::parameter(name)?.read(&self.setting(name)?.value).ok()?.bytes()
    }

    /// Where the WAL lies, on this machine.
    pub fn wal_directory(&self) -> Option<&PathBuf> {
        self.scope.wal_directory.as_ref()
    }
}

/// The same of a query that calls a function which not every role may call. A refusal would
/// be an error in the server's log.
async fn allowed(client: &Client, function: &str, query: &str) -> Option<String> {
    let may = format!(
        "SELECT pg_catalog.has_function_privilege('{function}', 'EXECUTE')::pg_catalog.text"
    );
    match text(client, &may).await?.as_str() {
        "true" => text(client, query).await,
        _ => None,
    }
}

/// Refuses to undo on another server what was done on one.
pub(super) async fn is_the_server(
    intent: &Intent,
    client: &Client,
    params: &ConnectParams,
) -> Result<(), String> {
    let Some(server) = &intent.server else { return Ok(()) };
    let query = "SELECT system_identifier::pg_catalog.text FROM pg_catalog.pg_control_system()";
    let here = text(client, query).await;
    match (&server.system_identifier, here) {
        (Some(there), Some(here)) if *there != here => Err(format!(
            "{} is another server than the one it was made on, {}",
            params.address(),
            server.address
        )),
        _ => Ok(()),
    }
}
