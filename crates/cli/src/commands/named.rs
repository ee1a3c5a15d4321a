//! The runs a person means.

use anyhow::bail;
use walwright_record::Record;
use walwright_store::{FindError, Lab, NamedRuns, Store, StoreError};

use crate::args::RunName;

/// The records, for a command that needs one to be there.
pub fn store(lab: &Lab) -> anyhow::Result<Store> {
    match lab.existing_store()? {
        Some(store) if !store.runs()?.is_empty() => Ok(store),
        _ => bail!(
            "there are no runs in {}: `walwright run` makes one, --lab names another lab",
            lab.directory().display()
        ),
    }
}

/// The record a person means.
pub fn load(lab: &Lab, name: &RunName) -> anyhow::Result<Record> {
    let store = store(lab)?;
    let header = named(lab, &store, &name.run)?.one(&name.run)?;
    Ok(store.load(&header.id)?)
}

/// The runs a person means: as the store has it, or by the name that a plan gives its
/// experiment.
pub fn named(lab: &Lab, store: &Store, name: &str) -> anyhow::Result<NamedRuns> {
    let no_such = match store.named(name) {
        Err(StoreError::Find(error @ FindError::NoSuch { .. })) => error,
        found => return Ok(found?),
    };
    let experiments = walwright_experiment::list(lab)?;
    let ids: Vec<&str> = experiments
        .iter()
        .filter(|experiment| experiment.header.name == name)
        .map(|experiment| experiment.header.id.as_str())
        .collect();
    match ids[..] {
        [] => Err(no_such.into()),
        [id] => Ok(store.named(id)?),
        _ => bail!("several experiments are named '{name}': {}; name one of these", ids.join(", ")),
    }
}
