//! Settings of the server from a file: a profile or a `postgresql.conf`.

use std::collections::BTreeMap;
use std::path::Path;

use walwright_catalog::Configuration;

/// The settings of a file.
///
/// # Errors
/// When it cannot be read, as a sentence.
pub fn settings(path: &Path) -> Result<BTreeMap<String, String>, String> {
    let read = Configuration::read(path).map_err(|error| error.to_string())?;
    Ok(read.settings.into_iter().map(|(name, found)| (name, found.value)).collect())
}
