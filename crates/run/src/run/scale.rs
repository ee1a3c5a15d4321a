//! The scale of tables that someone filled before.

use walwright_server::Stop;
use walwright_workload::Workload;
use walwright_workload::workload::Origin;

use super::error::failed;
use super::statements::Statements;
use super::{RunError, RunPlan, TargetPlan, tables};

/// The scale that the workload's tables on an attached server were filled at, where
/// the workload says how to tell; `None` leaves the default.
///
/// # Errors
/// When the server cannot be reached. Tables that are not there are told later, by
/// name.
pub(super) async fn of_tables(
    plan: &RunPlan,
    workload: &Workload,
    stop: &Stop,
) -> Result<Option<u32>, RunError> {
    let (TargetPlan::Attached { server, .. }, Some(sql)) = (&plan.target, workload.scale_sql())
    else {
        return Ok(None);
    };
    let params = server.params()?;
    let asked = async {
        let job = plan.job(workload)?;
        let statements = Statements::on_attached(&params, &workload.origin, &job).await?;
        let client = statements.connect().await?;
        if workload.origin == Origin::Builtin {
            let own = walwright_server::connect(&params).await?;
            tables::are_plain(&tables::found(&job, &own, &client).await?)?;
        }
        match client.query_one(sql, &[]).await {
            Ok(row) => scale(row.get(0).map_err(failed("reading the scale"))?),
            Err(_) => Ok(None),
        }
    };
    tokio::select! {
        scale = asked => scale,
        () = stop.requested() => Err(RunError::Stopped),
    }
}

/// The scale in a count of rows.
fn scale(rows: i64) -> Result<Option<u32>, RunError> {
    match u32::try_from(rows) {
        Ok(rows) if rows > 0 => Ok(Some(rows)),
        _ => Err(RunError::NoScale { rows }),
    }
}
