//! The server's settings.

use walwright_record::{Setting, redact};
use walwright_server::{ConnectParams, QueryError, Row};

use crate::ProbeError;

const NAMES: &str = "/* walwright probe */ SELECT name FROM pg_catalog.pg_settings";

const QUERY: &str = "
/* walwright probe */ SELECT name, setting, unit, pg_catalog.current_setting(name, true), boot_val, source,
       CASE WHEN sourcefile IS NOT NULL THEN pg_catalog.concat(sourcefile, ':', sourceline) END,
       context, pending_restart
FROM pg_catalog.pg_settings
WHERE name OPERATOR(pg_catalog.<>) ALL ($1::pg_catalog.text[])
ORDER BY name";

/// Every row of `pg_settings` that this role sees, by name. Settings that may
/// hold secrets ([`redact::names_secret`]: connection strings, shell commands) are left out,
/// and those whose value holds one ([`redact::holds_secret`]).
///
/// The values are those of a session in which walwright sets nothing
/// ([`walwright_server::connect_unchanged`]), as any client of the role and the database
/// has them.
///
/// # Errors
/// When there is no connection or the server refuses the query.
pub async fn settings(params: &ConnectParams) -> Result<Vec<Setting>, ProbeError> {
    let client = walwright_server::connect_unchanged(params).await;
    let client = client.map_err(|error| ProbeError::Connect(error.into()))?;
    let wrong = |source| ProbeError::Query { what: "settings", source };
    let names = client.query(NAMES, &[]).await.map_err(wrong)?;
    // What its name calls secret does not leave the server.
    let mut secret: Vec<String> =
        names.iter().map(|row| row.get(0)).collect::<Result<_, _>>().map_err(wrong)?;
    secret.retain(|name| redact::names_secret(name));
    let rows = client.query(QUERY, &[&secret]).await.map_err(wrong)?;
    let mut settings = rows.iter().map(setting).collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    settings.retain(|setting| !redact::holds_secret(&setting.value));
    // The one thing that is ours in the session.
    settings.retain(|setting| setting.name != "event_triggers" || setting.source != "client");
    Ok(settings)
}

fn setting(row: &Row) -> Result<Setting, QueryError> {
    let value: String = row.get::<Option<String>>(1)?.unwrap_or_default();
    Ok(Setting {
        name: row.get(0)?,
        unit: row.get(2)?,
        shown: row.get::<Option<String>>(3)?.unwrap_or_else(|| value.clone()),
        value,
        boot_value: row.get(4)?,
        source: row.get(5)?,
        source_file: row.get(6)?,
        context: row.get(7)?,
        pending_restart: row.get(8)?,
    })
}
