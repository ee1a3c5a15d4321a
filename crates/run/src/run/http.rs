//! An application asked by HTTP, with nothing of what is behind it known.

use std::sync::Arc;

use tokio::sync::Notify;
use walwright_driver::Endpoint;
use walwright_record::{PhaseName, Warning, WarningCode};

use super::context::Context;
use super::{Ended, RunError, calibrate, drive};

/// Drives the load of a run that sees nothing but its own clients.
pub(super) async fn alone(context: &Context) -> Result<Ended, RunError> {
    let Some(application) = context.plan.load.http.clone() else {
        return Err(RunError::Internal("a load without a server"));
    };
    context.notes.warn(
        Warning::new(
            WarningCode::NotObservable,
            "the server behind the application is not named, so nothing is seen but the clients",
        )
        .hint("--dsn names it: then its waits, its commits and its processes are sampled too"),
    );
    context.record_workload();
    let load = drive::load_plan(context, Endpoint::Http(application));
    context.unless_stopped(calibrate(context, &load)).await?;
    let driven = drive::drive(context, load, None, Arc::new(Notify::new())).await?;
    context.notes.phase(PhaseName::Collect);
    match driven.nothing {
        Some(nothing) => Err(nothing),
        None if driven.stopped_early => Ok(Ended::Stopped),
        None => Ok(Ended::AsPlanned),
    }
}
