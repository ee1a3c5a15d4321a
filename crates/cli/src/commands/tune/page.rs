//! The page of a tune while it goes on.

use std::sync::Arc;

use walwright_run::Observe;
use walwright_store::Lab;
use walwright_tune::{TuneEvent, TuneObserver, page_path};

use crate::commands::write::write_page;

/// Writes the page anew after each measurement, and passes all on.
pub struct Renewed {
    /// Where it is written.
    pub lab: Lab,
    /// Who else watches.
    pub watcher: Arc<TuneObserver>,
}

impl Observe<TuneEvent<'_>> for Renewed {
    fn event(&self, event: TuneEvent<'_>) {
        if let TuneEvent::SoFar(state) = &event
            && let Ok(objective) = state.plan.objective()
        {
            // What stands in its way at the end is said there.
            let page = walwright_report::tune_document(state, &objective).html();
            let _ = write_page(&self.lab, &page_path(&self.lab, &state.id), &page);
        }
        self.watcher.event(event);
    }
}
