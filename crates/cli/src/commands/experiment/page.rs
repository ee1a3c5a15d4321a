//! The page of an experiment while it goes on.

use std::sync::Arc;

use walwright_experiment::{ExperimentEvent, ExperimentObserver, page_path};
use walwright_run::Observe;
use walwright_store::Lab;

use crate::commands::write::write_page;

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
            let page = walwright_report::experiment(outcome).html();
            let _ = write_page(&self.lab, &page_path(&self.lab, &outcome.id), &page);
        }
        self.watcher.event(event);
    }
}
