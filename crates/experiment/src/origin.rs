//! Paths of a plan, as seen from where the plan lies.

use std::path::{Path, PathBuf};

use walwright_workload::workload::builtin_names;

use super::Postgres;
use super::plan_tables::SettingValue;

/// A path as seen from `origin`, where there is something by this name; else as it stands: a
/// path to be complained about. The name of a built-in workload stands in any case.
pub fn found_from(origin: &Path, name: String) -> String {
    if builtin_names().any(|builtin| builtin == name) {
        return name;
    }
    let path = name.rsplit_once('@').map_or(name.as_str(), |(path, _)| path);
    let exists = origin.join(path).exists() || origin.join(&name).exists();
    if exists { origin.join(&name).display().to_string() } else { name }
}

/// The binaries that a plan or arm names.
pub(super) fn postgres(
    origin: &Path,
    major: Option<&SettingValue>,
    pg_bin: Option<&PathBuf>,
) -> Option<Postgres> {
    match (pg_bin, major) {
        (Some(directory), _) => Some(Postgres::BinDir(origin.join(directory))),
        (None, Some(major)) => Some(Postgres::Major(major.text())),
        (None, None) => None,
    }
}
