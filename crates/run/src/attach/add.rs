//! Client-side results that join a record afterwards.

use walwright_record::{ClientDetail, ClientFacts, PhaseName, RunId, Window};
use walwright_store::Lab;

use super::plan::LogChoice;
use super::{RecordError, logs};

/// Adds files of client-side results to the record of a load that was not ours. Its
/// window becomes the stretch that the files cover, as it does when they join at the end of
/// recording; a warm-up keeps its length. What the record has of its clients is replaced by
/// files that tell more, as totals that a tool printed are by its log. Returns what is doubtful about the files.
///
/// # Errors
/// When a file cannot be read, the files do not go together or with the record, or it
/// has the clients' side already, told as fully as the files tell it.
pub fn add_results(
    lab: &Lab,
    run: &RunId,
    choices: &[LogChoice],
) -> Result<Vec<walwright_record::Warning>, RecordError> {
    let store = lab.store()?;
    let record = store.load(run)?;
    let has = |what: String| RecordError::HasResults { run: run.to_string(), what };
    let before = record.client.as_ref();
    if let Some(client) = before.filter(|c| c.detail() == Some(ClientDetail::Operations)) {
        return Err(has(results_of(client)));
    }
    if record.load.is_some() {
        return Err(has("the latencies of walwright's own clients".to_owned()));
    }
    let window = record.window().ok_or(RecordError::NoWindow { run: run.to_string() })?;
    let warm_up = record.phase(PhaseName::WarmUp);
    let recorded = Window { start: warm_up.map_or(window.start, |w| w.start), end: window.end };
    let joined = logs::read(choices, None, None, recorded)?;
    if let Some(client) = before.filter(|before| joined.facts.detail() >= before.detail()) {
        return Err(has(results_of(client)));
    }
    let mut writer = store.amend(run)?;
    if before.is_some() {
        writer.forget_client()?;
    }
    logs::write(&joined, &mut writer)?;
    if let Some(covered) = joined.covered {
        let length = warm_up.map(|w| w.length()).unwrap_or_default();
        let start = covered.start.plus(length).min(covered.end);
        if warm_up.is_some() {
            writer.set_phase(PhaseName::WarmUp, covered.start, start)?;
        }
        writer.set_phase(PhaseName::Measure, start, covered.end)?;
    }
    let summary = walwright_figures::summary(&store.load(run)?);
    if let Some(headline) = summary.headline() {
        writer.headline(&headline)?;
    }
    Ok(logs::warnings(&joined))
}

fn results_of(client: &ClientFacts) -> String {
    let files: Vec<&str> = client.logs.iter().map(|log| log.file.as_str()).collect();
    format!("the results of {}", files.join(", "))
}
