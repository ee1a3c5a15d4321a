//! The page of an experiment, also while it goes on.

use std::path::Path;
use std::sync::Arc;

use walwright_experiment::{ExperimentEvent, ExperimentObserver, page_path};
use walwright_figures::experiment::Outcome;
use walwright_run::Observe;
use walwright_store::Lab;

use crate::commands::write::write_page;

/// Writes the page of what an experiment came to.
pub fn write(lab: &Lab, outcome: &Outcome, path: &Path) -> anyhow::Result<()> {
    write_page(lab, path, &walwright_report::experiment(outcome).html())
}

/// Writes the page anew after each run, and passes all on.
pub struct Renewed {
    /// Where it is written.
    pub lab: Lab,
    /// Who else watches.
    pub watcher: Arc<ExperimentObserver>,
}

impl Observe<ExperimentEvent<'_>> for Renewed {
    fn event(&self, event: ExperimentEvent<'_>) {
        if let ExperimentEvent::SoFar(outcome) = &event {
            // The page at the end says what stands in its way.
            let _ = write(&self.lab, outcome, &page_path(&self.lab, &outcome.id));
        }
        self.watcher.event(event);
    }
}
