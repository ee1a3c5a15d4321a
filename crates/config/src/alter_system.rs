//! Settings of a running server: `ALTER SYSTEM`, reload, and the file they are kept in.

use std::time::Duration;

use walwright_server::Client;

use super::auto_conf::{AutoConf, literals};
use super::query::{text, told};

/// How long the server may take to read its configuration again.
const RELOAD: Duration = Duration::from_secs(20);

/// How often it is asked.
const POLL: Duration = Duration::from_millis(20);

/// `ALTER SYSTEM SET`, or `RESET` where there is no value.
pub(super) async fn alter_system(
    client: &Client,
    name: &str,
    value: Option<&str>,
) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    if name.is_empty() || !name.chars().all(plain) {
        return Err(format!("'{name}' is not the name of a setting"));
    }
    let quoted = name.split('.').map(|part| format!("\"{part}\"")).collect::<Vec<_>>().join(".");
    let statement = match value {
        Some(value) => format!("ALTER SYSTEM SET {quoted} = {}", literals(name, value)),
        None => format!("ALTER SYSTEM RESET {quoted}"),
    };
    client.batch_execute(&statement).await.map_err(|error| format!("{name}: {}", told(&error)))
}

/// Has the server read its files again, and waits until this session has seen it.
pub(super) async fn reload(client: &Client) -> Result<(), String> {
    let loaded = "SELECT pg_catalog.pg_conf_load_time()::pg_catalog.text";
    let before = text(client, loaded).await;
    client
        .query_one("SELECT pg_catalog.pg_reload_conf()", &[])
        .await
        .map_err(|error| format!("reload: {}", told(&error)))?;
    let deadline = tokio::time::Instant::now() + RELOAD;
    loop {
        match text(client, loaded).await {
            now @ Some(_) if now != before => return Ok(()),
            None => {
                return Err("the server was lost while it reloaded its configuration".to_owned());
            }
            _ => {}
        }
        if tokio::time::Instant::now() > deadline {
            let query = "SELECT sourcefile || ':' || sourceline || ': ' || error
                         FROM pg_catalog.pg_file_settings
                         WHERE error IS NOT NULL AND error <> 'setting could not be applied' LIMIT 1";
            let why = text(client, query).await.map_or_else(String::new, |why| format!(": {why}"));
            return Err(format!("the server did not accept its configuration{why}"));
        }
        tokio::time::sleep(POLL).await;
    }
}

/// `postgresql.auto.conf` as it lies there.
pub(super) async fn auto_conf(client: &Client) -> Option<AutoConf> {
    let query = "SELECT pg_catalog.pg_read_file('postgresql.auto.conf')";
    text(client, query).await.map(|text| AutoConf::parse(&text))
}
