//! The server's settings.

use tokio_postgres::Client;
use walwright_catalog::{holds_password, is_secret};
use walwright_record::Setting;

use crate::ProbeError;

const NAMES: &str = "/* walwright probe */ SELECT name FROM pg_catalog.pg_settings";

const QUERY: &str = "
/* walwright probe */ SELECT name, setting, unit, pg_catalog.current_setting(name, true), boot_val, source,
       CASE WHEN sourcefile IS NOT NULL THEN sourcefile || ':' || sourceline END,
       context, pending_restart
FROM pg_catalog.pg_settings
WHERE name <> ALL ($1::text[])
ORDER BY name";

/// Every row of `pg_settings` that this role sees, by name. Settings that may
/// hold secrets ([`is_secret`]: connection strings, shell commands) are left out, and
/// those whose value holds a password ([`holds_password`]).
///
/// The values are those of the connection given: what it sets for itself, or its
/// role or database sets, shows with that source.
///
/// # Errors
/// When the server refuses the query.
pub async fn settings(client: &Client) -> Result<Vec<Setting>, ProbeError> {
    let wrong = |source| ProbeError::Query { what: "its settings", source };
    let names = client.query(NAMES, &[]).await.map_err(wrong)?;
    // What its name calls secret does not leave the server.
    let mut secret: Vec<&str> = names.iter().map(|row| row.get(0)).collect();
    secret.retain(|name| is_secret(name));
    let rows = client.query(QUERY, &[&secret]).await.map_err(wrong)?;
    Ok(rows
        .iter()
        .map(|row| {
            let value: String = row.get::<_, Option<String>>(1).unwrap_or_default();
            Setting {
                name: row.get(0),
                unit: row.get(2),
                shown: row.get::<_, Option<String>>(3).unwrap_or_else(|| value.clone()),
                value,
                boot_value: row.get(4),
                source: row.get(5),
                source_file: row.get(6),
                context: row.get(7),
                pending_restart: row.get(8),
            }
        })
        .filter(|setting| !holds_password(&setting.value))
        .collect())
}
