//! What the stages of a run share.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use walwright_record::{Schedule, WorkloadFacts};
use walwright_server::Stop;
use walwright_workload::{Plan, Workload};

use super::error::RunError;
use super::plan::RunPlan;
use crate::notes::Notes;

/// What every stage of one run needs.
pub(super) struct Context {
    pub(super) lab: PathBuf,
    pub(super) plan: RunPlan,
    pub(super) workload: Workload,
    pub(super) job: Plan,
    pub(super) notes: Notes,
    pub(super) stop: Stop,
    /// Whether the load has shown anything worth a record.
    pub(super) began: Arc<AtomicBool>,
}

impl Context {
    /// Client connections: as asked, or as the workload is meant to be run.
    pub(super) fn clients(&self) -> u32 {
        self.plan.load.clients.unwrap_or(self.workload.defaults.clients)
    }

    pub(super) async fn unless_stopped<T>(
        &self,
        work: impl Future<Output = Result<T, RunError>>,
    ) -> Result<T, RunError> {
        tokio::select! {
            done = work => done,
            () = self.stop.requested() => Err(RunError::Stopped),
        }
    }

    pub(super) fn record_workload(&self) {
        let facts = WorkloadFacts {
            name: self.workload.name.clone(),
            scale: self.job.scale.into(),
            options: self.job.options.clone(),
            scripts: self.script_facts(),
            pass_mark: self.pass_mark(),
        };
        self.notes.recorder.write(move |writer| writer.workload(&facts));
    }

    /// The workload's mark, where the load is of the kind the mark is for.
    pub(super) fn pass_mark(&self) -> Option<Duration> {
        let mark = self.workload.pass_mark.as_ref()?;
        let clients = mark.clients.is_none_or(|clients| clients == self.clients());
        let closed = matches!(self.plan.load.schedule, Schedule::Closed { think: None, .. });
        (clients && closed && self.plan.load.stages.is_empty()).then_some(mark.mean_latency)
    }

    pub(super) fn script_facts(&self) -> Vec<walwright_record::ScriptFacts> {
        self.workload
            .scripts
            .iter()
            .zip(&self.job.program.scripts)
            .map(|(source, script)| walwright_record::ScriptFacts {
                name: source.name.clone(),
                weight: source.weight,
                text: source.text.clone(),
                statements: script.statements.iter().map(|s| s.label.clone()).collect(),
                batch: script.batch.map(|batch| walwright_record::BatchFacts {
                    form: batch.form.name().to_owned(),
                    rows: batch.rows,
                }),
            })
            .collect()
    }
}

/// Runs blocking work off the asynchronous threads.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, RunError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| RunError::Internal("a blocking stage"))
}
