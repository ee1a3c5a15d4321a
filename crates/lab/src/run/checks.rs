//! What must be true before and after the load.

use tokio_postgres::{Client, SimpleQueryMessage};
use walwright_record::{Warning, WarningCode};
use walwright_workload::Plan;

use super::load_data::failed;
use super::target::Target;
use super::{Context, RunError};

/// Connections the tool itself uses beside the clients: control, two of the probe, side measure.
const OWN_CONNECTIONS: u32 = 4;

/// Whether the server has room for the clients.
pub(super) async fn enough_connections(
    clients: u32,
    client: &Client,
    target: &Target,
) -> Result<(), RunError> {
    const SQL: &str = "SELECT current_setting('max_connections')::int
        - current_setting('superuser_reserved_connections')::int
        - (SELECT count(*) FROM pg_stat_activity
           WHERE backend_type = 'client backend' AND pid <> pg_backend_pid())::int";
    let free: i32 =
        client.query_one(SQL, &[]).await.map_err(failed("reading max_connections"))?.get(0);
    let needed = clients + OWN_CONNECTIONS;
    let allowed = u32::try_from(free).unwrap_or(0);
    if needed <= allowed {
        return Ok(());
    }
    Err(RunError::TooManyClients {
        wanted: clients,
        needed,
        allowed,
        target: target.params.address(),
    })
}

/// Whether a guest's tables are there, so that the answer is a sentence and not
/// an error a client sees.
pub(super) async fn tables_exist(
    context: &Context,
    client: &Client,
    target: &Target,
) -> Result<(), RunError> {
    for table in &context.job.tables {
        let name = table.table();
        let found = client
            .query_one("SELECT to_regclass($1) IS NOT NULL", &[&name])
            .await
            .map_err(failed("looking for the workload's tables"))?;
        if !found.get::<_, bool>(0) {
            return Err(RunError::NotLoaded {
                workload: context.workload.name.clone(),
                table: name.to_owned(),
                target: target.params.address(),
            });
        }
    }
    Ok(())
}

/// The values that the checks after the run compare with.
pub(super) async fn before(job: &Plan, client: &Client) -> Result<Vec<Option<String>>, RunError> {
    let mut values = Vec::with_capacity(job.checks.len());
    for check in &job.checks {
        values.push(match &check.before {
            Some(sql) => first_value(client, &check.name, sql).await?,
            None => None,
        });
    }
    Ok(values)
}

/// Runs the checks; one that does not hold is a doubt on the record.
pub(super) async fn after(
    context: &Context,
    client: &Client,
    before: Vec<Option<String>>,
) -> Result<(), RunError> {
    for (check, before) in context.job.checks.iter().zip(before) {
        let holds = first_value(client, &check.name, &check.sql(before.as_deref())).await?;
        if holds.as_deref() == Some("t") {
            context.event("check", format!("holds: {}", check.name));
        } else {
            context.warn(
                Warning::new(
                    WarningCode::CheckFailed,
                    format!("a check of the workload does not hold: {}", check.name),
                )
                .hint(
                    "the data after the run are not what its transactions should have made of them",
                ),
            );
        }
    }
    Ok(())
}

async fn first_value(client: &Client, name: &str, sql: &str) -> Result<Option<String>, RunError> {
    let messages = client.simple_query(sql).await.map_err(failed(&format!("check '{name}'")))?;
    Ok(messages
        .iter()
        .find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row.get(0).map(str::to_owned)),
            _ => None,
        })
        .flatten())
}
