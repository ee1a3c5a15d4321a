//! The instrument's own ceiling: how fast the driver is when the server costs
//! nothing.

use std::time::{Duration, Instant};

use walwright_record::ClientRules;
use walwright_workload::script::{BatchForm, Program};

use crate::endpoint::Endpoint;
use crate::load::Load;
use crate::outcome::LoadError;
use crate::plan::{Arrival, LoadPlan};
use crate::responder::Responder;

/// What the driver costs by itself on this machine, with these scripts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    /// CPU time of the driver for one transaction.
    pub cpu_per_transaction: Duration,
    /// Transactions a second that one driver thread can drive with a processor
    /// to itself.
    pub per_thread: f64,
    /// The same of all threads of the plan, as far as there are processors.
    pub ceiling: f64,
}

/// Clients that are enough to keep one thread busy.
const CLIENTS: u32 = 64;

/// Whether rows are sent only where a server asks for them, or by something that knows its tables;
/// or a part of an answer is kept that has such a part.
fn needs_server(program: &Program) -> bool {
    let statements = || program.scripts.iter().flat_map(|script| &script.statements);
    let requests = || statements().filter_map(|statement| statement.request.as_ref());
    if requests().any(|of| of.keeps_body() || !of.kept_headers.is_empty()) {
        return true;
    }
    let mut forms = program.scripts.iter().filter_map(|script| script.batch);
    forms.any(|batch| matches!(batch.form, BatchForm::Copy | BatchForm::Coalesce))
}

/// Measures for about `length` what the scripts of a plan cost the driver when
/// every statement is answered at once, by a server inside this process.
///
/// One driver thread runs the plan's scripts with its protocol and mode in a
/// closed loop. Its CPU time is what counts, not its throughput, so that other
/// load on the machine disturbs the figure little. `None` when the scripts do
/// not run without a real server, as those that need a result (`\gset`, `\capture`), are asked for data to
/// copy, or give rows to a coalescer.
///
/// # Errors
/// As [`Load::start`] and [`Load::join`], or when no socket can be made in the
/// directory for temporary files.
pub fn calibrate(plan: &LoadPlan, length: Duration) -> Result<Option<Calibration>, LoadError> {
    if needs_server(&plan.program) {
        return Ok(None);
    }
    let started = match plan.endpoint {
        Endpoint::Postgres(_) => Responder::start(),
        Endpoint::Http(_) => Responder::start_http(),
    };
    let responder = started.map_err(|source| LoadError::System {
        what: "make a socket to measure the driver with",
        source,
    })?;
    let mut alone = plan.clone();
    alone.endpoint = responder.endpoint();
    alone.threads = 1;
    alone.clients = plan.clients.min(CLIENTS);
    alone.arrival = Arrival::Closed { think: None };
    alone.latency_limit = None;
    alone.ramp = Duration::ZERO;
    alone.rules = ClientRules::default();
    alone.stages.clear();
    alone.drain = Duration::from_secs(1);
    let load = Load::start(alone)?;
    let end = Instant::now() + length;
    // Intervals are of no interest but tell when the load is over.
    while let Ok(_) | Err(std::sync::mpsc::RecvTimeoutError::Timeout) =
        load.intervals().recv_timeout(end.saturating_duration_since(Instant::now()))
    {
        if Instant::now() >= end {
            break;
        }
    }
    load.stop();
    let outcome = load.join()?;
    let transactions = outcome.transactions();
    let cpu = (outcome.cpu_user + outcome.cpu_system).as_secs_f64();
    if transactions == 0 || outcome.failures() > 0 || cpu <= 0.0 {
        return Ok(None);
    }
    let per_transaction = cpu / transactions as f64;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = (plan.threads.min(plan.clients) as usize).min(processors);
    Ok(Some(Calibration {
        cpu_per_transaction: Duration::from_secs_f64(per_transaction),
        per_thread: 1.0 / per_transaction,
        ceiling: threads as f64 / per_transaction,
    }))
}
