//! The life of a record: begun, filled by a run or by looking on, ended, and read back.

use std::sync::Arc;

use walwright_figures::Summary;
use walwright_record::{Record, RunHeader, RunState, Timestamp};
use walwright_store::{Lab, StoreError};

use crate::Observer;
use crate::notes::{Ending, Notes};
use crate::recorder::Recorder;

/// What filling a record came to.
pub(crate) struct Filled<T> {
    pub(crate) result: T,
    pub(crate) state: RunState,
    /// Why it did not end as planned.
    pub(crate) why: Option<String>,
    /// Whether it holds anything.
    pub(crate) is_worth_keeping: bool,
}

/// Begins a record, has it filled and ends it. A record that holds nothing is deleted; any
/// other is given back with its figures.
///
/// # Errors
/// When the record cannot be begun, written, or read back.
pub(crate) async fn filled<T>(
    lab: &Lab,
    header: &RunHeader,
    observer: Arc<Observer>,
    fill: impl AsyncFnOnce(Notes) -> Filled<T>,
) -> Result<(T, Option<(Record, Summary)>), StoreError> {
    let store = lab.store()?;
    let (recorder, thread) = Recorder::start(store.begin(header)?);
    let notes = Notes { recorder, observer };
    let Filled { result, state, why, is_worth_keeping } = fill(notes.clone()).await;
    let ending = Ending { at: Timestamp::now(), state, error: why };
    let whole = match is_worth_keeping {
        true => Some(notes.whole(&store, &header.id, &ending).await),
        false => None,
    };
    notes.finish(ending);
    // The writer's thread ends with the last sender.
    drop(notes);
    let written = tokio::task::spawn_blocking(move || thread.finish())
        .await
        .unwrap_or(Err(StoreError::WriterEnded));
    let Some(whole) = whole else {
        if let Err(kept) = store.delete(&header.id) {
            tracing::warn!(error = %kept, "the record of nothing stays");
        }
        return Ok((result, None));
    };
    // A write that failed says more than what could not be read back after it.
    written?;
    Ok((result, Some(whole?)))
}
