//! What is written down of a tune for people to read later.

use walwright_store::Lab;
use walwright_store::journal::{Entry, Journal, Origin};

use super::{Objective, TuneError, TuneState};

/// Words the journal's entry of a tune that has ended.
pub type Account = fn(&TuneState, &Objective) -> Entry;

/// Appends the entry of a tune, unless it is there already, and gives its name.
pub(super) fn append(
    lab: &Lab,
    state: &TuneState,
    objective: &Objective,
    account: Account,
) -> Result<String, TuneError> {
    let journal = Journal::of(lab);
    // Killed between appending and keeping its name: it is there.
    let told = journal.read()?.entries.into_iter();
    let mut these = told
        .filter(|entry| entry.origin == Origin::Tuning && entry.experiments.contains(&state.id));
    if let Some(entry) = these.next_back() {
        return Ok(entry.name().to_owned());
    }
    let entry = journal.append(account(state, objective), walwright_probe::this_machine())?;
    Ok(entry.name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::ended;

    #[test]
    fn a_tune_has_one_entry_however_often_it_ends() {
        let directory = tempfile::tempdir().unwrap();
        let lab = Lab::at(Some(directory.path().to_owned()));
        let state = ended();
        let objective = state.plan.objective().unwrap();
        let account: Account = |state, _| Entry {
            origin: Origin::Tuning,
            experiments: vec![state.id.clone()],
            ..Entry::asking("What is best?".to_owned())
        };
        let name = append(&lab, &state, &objective, account).unwrap();
        assert_eq!(append(&lab, &state, &objective, account).unwrap(), name);
        assert_eq!(Journal::of(&lab).read().unwrap().entries.len(), 1);
    }
}
