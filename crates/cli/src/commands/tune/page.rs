//! The page of a tune, also while it goes on.

use std::path::PathBuf;
use std::sync::Arc;

use walwright_store::Lab;
use walwright_tune::{TuneEvent, TuneState, TuneWatcher, account, page_path};

use crate::commands::write::write_page;

/// Writes the page of a tune, and gives its place.
pub fn write(lab: &Lab, state: &TuneState) -> anyhow::Result<PathBuf> {
    let path = page_path(lab, &state.id);
    let title = format!("Tune {}", state.id);
    write_page(lab, &path, &walwright_report::journal::tune(&title, &account(state)?)?)?;
    Ok(path)
}

/// Writes the page anew after each measurement, and passes all on.
pub struct Renewed {
    /// Where it is written.
    pub lab: Lab,
    /// Who else watches.
    pub watcher: Arc<dyn TuneWatcher>,
}

impl TuneWatcher for Renewed {
    fn event(&self, event: TuneEvent<'_>) {
        if let TuneEvent::SoFar(state) = &event {
            // What stands in its way at the end is said there.
            let _ = write(&self.lab, state);
        }
        self.watcher.event(event);
    }
}
