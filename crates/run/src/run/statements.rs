//! Sessions for the statements of a workload.

use walwright_server::{
    Client, ConnectParams, FOR_WORKLOAD, OWN_ROLE, QueryError, SessionSettings,
};
use walwright_workload::Plan;
use walwright_workload::workload::Origin;

use super::RunError;
use super::error::failed;

/// How the statements of a workload reach the server.
///
/// Those of a workload of the user's own run as they would anywhere: names stand for what
/// role and database say. On an attached server those of a built-in workload, which we have
/// written and the user has not, look for names in `pg_catalog` and in the one schema in
/// which the workload's tables are: neither the path of the database nor functions beside
/// the tables can put anything else in their place.
#[derive(Debug, Clone)]
pub(crate) struct Statements {
    params: ConnectParams,
    /// The path as an option of the connection, where it is ours to set.
    path: Option<String>,
    /// Whether triggers of the tables do not run, since others may have put them there.
    pub(super) silent: bool,
}

impl Statements {
    /// For a workload on an attached server.
    ///
    /// # Errors
    /// When the server cannot be asked, or has no schema to create tables in.
    pub(crate) async fn on_attached(
        params: &ConnectParams,
        origin: &Origin,
        job: &Plan,
    ) -> Result<Statements, RunError> {
        let own = walwright_server::connect(params).await?;
        if !own.is_direct() {
            // What stands between takes no settings.
            return Ok(Statements::as_they_are(params));
        }
        let params = &params.clone().with_options(FOR_WORKLOAD);
        if *origin != Origin::Builtin {
            return Ok(Statements::as_they_are(params));
        }
        let elsewhere = walwright_server::connect_unchanged(params).await?;
        let schema = schema(&own, &elsewhere, job).await;
        let Some(schema) = schema.map_err(failed("looking for the schema of tables"))? else {
            return Err(RunError::NoSchema { role: params.user().to_owned() });
        };
        let path = walwright_server::setting_option("search_path", &schema);
        let others = others_may_add_triggers(&own, &elsewhere, job).await;
        let others = others.map_err(failed("reading who may add triggers"))?;
        let (quiet, silent) = walwright_server::without_triggers(params, others).await?;
        let path = format!("{path} {OWN_ROLE} {quiet}");
        let params = params.clone().with_options(&path);
        Ok(Statements { params, path: Some(path), silent })
    }

    /// For a workload on a cluster of our own, or one of the user's own.
    pub(crate) fn as_they_are(params: &ConnectParams) -> Statements {
        Statements { params: params.clone(), path: None, silent: false }
    }

    /// The same under another application name.
    pub(super) fn called(&self, name: &str) -> Statements {
        let params = self.params.clone().with_application_name(name);
        Statements { params, path: self.path.clone(), silent: self.silent }
    }

    /// How they connect.
    pub fn params(&self) -> &ConnectParams {
        &self.params
    }

    /// Opens a session, in which they may take as long as they want.
    ///
    /// # Errors
    /// When there is no connection.
    pub(crate) async fn connect(&self) -> Result<Client, RunError> {
        let Some(path) = &self.path else {
            return Ok(walwright_server::connect_for_workload(&self.params).await?);
        };
        let all = format!("{path} -c statement_timeout=0 -c lock_timeout=0");
        let settings = SessionSettings { all: &all, superuser: "" };
        Ok(walwright_server::connect_with(&self.params, settings).await?.with_limit(None))
    }
}

/// Whether a role that is no superuser may put triggers on tables of the workload, or will
/// on those that this role makes: who writes to them then runs its code.
const OTHERS: &str = "WITH granted AS (
        SELECT a.grantee, c.relowner AS owner FROM pg_class c, aclexplode(c.relacl) a
        WHERE c.oid = ANY ($1) AND a.privilege_type = 'TRIGGER'
        UNION ALL
        SELECT a.grantee, d.defaclrole FROM pg_default_acl d, aclexplode(d.defaclacl) a
        WHERE d.defaclobjtype = 'r' AND a.privilege_type = 'TRIGGER'
          AND d.defaclrole = (SELECT r.oid FROM pg_roles r WHERE r.rolname = session_user))
    SELECT EXISTS (SELECT FROM granted LEFT JOIN pg_roles r ON r.oid = granted.grantee
        WHERE granted.grantee <> granted.owner AND r.rolsuper IS NOT TRUE
          AND r.rolname IS DISTINCT FROM session_user)";

async fn others_may_add_triggers(
    own: &Client,
    elsewhere: &Client,
    job: &Plan,
) -> Result<bool, QueryError> {
    let mut oids = Vec::new();
    for table in &job.tables {
        oids.extend(elsewhere.relation(table.table()).await?);
    }
    own.query_one(OTHERS, &[&oids]).await?.get(0)
}

/// The schema of the workload's tables, quoted: where the first is that is there, else
/// where new ones go. `elsewhere` is a session in which names stand for what role and
/// database say.
async fn schema(
    own: &Client,
    elsewhere: &Client,
    job: &Plan,
) -> Result<Option<String>, QueryError> {
    for table in &job.tables {
        if let Some(oid) = elsewhere.relation(table.table()).await? {
            let sql = "SELECT quote_ident(n.nspname) FROM pg_class c
                JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = $1";
            return own.query_one(sql, &[&oid]).await?.get(0);
        }
    }
    let sql = "SELECT pg_catalog.quote_ident(pg_catalog.current_schema())";
    elsewhere.query_one(sql, &[]).await?.get(0)
}
