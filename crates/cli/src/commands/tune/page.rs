//! The page of a tune, also while it goes on.

use std::path::PathBuf;
use std::sync::Arc;

use walwright_report::Document;
use walwright_run::Observe;
use walwright_store::Lab;
use walwright_tune::{TuneEvent, TuneObserver, TuneState, page_path};

use crate::commands::write::write_page;

/// Writes the page of a tune, and gives its place.
pub fn write(lab: &Lab, state: &TuneState, document: &Document) -> anyhow::Result<PathBuf> {
    let path = page_path(lab, &state.id);
    write_page(lab, &path, &document.html())?;
    Ok(path)
}

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
            let _ = write(&self.lab, state, &walwright_report::tune_document(state, &objective));
        }
        self.watcher.event(event);
    }
}
