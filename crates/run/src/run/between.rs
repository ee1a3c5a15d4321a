//! What stands between clients and server during a run.

use walwright_record::{PoolerFacts, PoolerKind};
use walwright_server::{ConnectParams, POOL_SIZE, PoolerProgram, PoolerSpec, RunningPooler};

use super::RunError;
use super::context::{Context, blocking};
use super::drive::APPLICATION_NAME;
use super::target::Target;
use crate::{GatewayChoice, Progress};

/// A pooler that runs; ends when dropped.
pub(super) struct Between {
    running: RunningPooler,
    name: &'static str,
    /// What the record says of it.
    pub facts: PoolerFacts,
}

impl Between {
    /// Starts what is to stand between, if anything is. What prepares and checks the load goes to
    /// the server itself.
    pub async fn start(context: &Context, target: &Target) -> Result<Option<Between>, RunError> {
        let Some(program) = context.plan.pooler()? else { return Ok(None) };
        let Some(server) = target.server() else { return Err(RunError::PoolerBeforeAttached) };
        let name = program.name();
        context.notes.observer.event(Progress::Step(&format!("starting the {name}")));
        let facts = facts(&program);
        let spec = PoolerSpec {
            program,
            cluster: server.cluster().clone(),
            server: target.statements().params().clone(),
            application: APPLICATION_NAME.to_owned(),
            clients: context.clients(),
        };
        let running = blocking(move || RunningPooler::start(&spec)).await??;
        Ok(Some(Between { running, name, facts }))
    }

    /// How clients reach the server through it.
    pub fn params(&self) -> &ConnectParams {
        self.running.connect_params()
    }

    /// Whose metrics tell how long it withheld answers; `None` of a pooler that withholds none.
    pub fn gateway(&self) -> Option<GatewayChoice> {
        self.running.metrics()?.parse().ok().map(GatewayChoice::At)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.running.pid()
    }

    /// Why the load lost it, if it has ended by itself.
    pub fn lost(&self) -> Option<RunError> {
        Some(RunError::PoolerLost { name: self.name, why: self.running.end()? })
    }

    /// Ends it. Blocks for a moment at most.
    pub async fn end(self) {
        // It has ended when this fails.
        let _ = blocking(move || drop(self.running)).await;
    }
}

fn facts(program: &PoolerProgram) -> PoolerFacts {
    let (kind, version) = match program {
        PoolerProgram::Gateway(_) => (PoolerKind::Gateway, env!("CARGO_PKG_VERSION")),
        PoolerProgram::PgBouncer(pgbouncer) => (PoolerKind::PgBouncer, pgbouncer.version()),
    };
    PoolerFacts { kind, version: version.to_owned(), pool_size: POOL_SIZE }
}
