//! A configuration from a file: a profile kept as `config.env`, or a `postgresql.conf`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use walwright_catalog::{Configuration as ServerFile, Place, Profile, Scope, parameter};

use super::durability::KERNEL;
use super::plan_tables::ArmTable;
use super::{Configuration, Consent, PlanError};

/// Settings that decide where a server lives, which every cluster decides for itself.
const PLACES: [&str; 5] =
    ["listen_addresses", "port", "unix_socket_directories", "data_directory", "config_file"];

/// What a file says, as far as a cluster of our own can have it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FromFile {
    /// Settings of the server, values of the kernel, and storage parameters of tables and
    /// indexes as DDL.
    pub configuration: Configuration,
    /// Names of what an embedded cluster cannot have: values of single devices and of storage, of
    /// how the cluster was made, and settings that the catalogue does not know.
    pub left_out: Vec<String>,
    /// Names of values of the kernel that there is no consent to; no run has them.
    pub without_consent: Vec<String>,
}

impl FromFile {
    /// Leaves out the values of the kernel that there is no consent to. A profile is made for a
    /// whole machine, and whoever tries its settings need not want the rest: it is no error.
    fn under(mut self, consent: &Consent) -> FromFile {
        let all = std::mem::take(&mut self.configuration.kernel).into_iter();
        let (covered, rest): (BTreeMap<_, _>, BTreeMap<_, _>) =
            all.partition(|(name, _)| consent.covers(name) || consent.covers(KERNEL));
        self.configuration.kernel = covered;
        self.without_consent = rest.into_keys().collect();
        self
    }
}

/// The profiles that a plan names, by the paths it names them with.
///
/// They are read once and kept with the experiment: whoever edits such a file meanwhile would
/// else have runs of two configurations taken for one arm.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Profiles(BTreeMap<PathBuf, FromFile>);

impl Profiles {
    /// Reads those that a plan names, each with its arm. Relative paths are seen from `origin`. Values of the kernel are
    /// taken with `consent` alone.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn read<'p>(
        named: impl Iterator<Item = (&'p str, &'p Path)>,
        origin: &Path,
        consent: &Consent,
    ) -> Result<Profiles, PlanError> {
        let mut profiles = BTreeMap::new();
        for (arm, path) in named {
            let found = read(&origin.join(path));
            let found = found.map_err(|what| PlanError::value(arm, "profile", what))?;
            profiles.insert(path.to_owned(), found.under(consent));
        }
        Ok(Profiles(profiles))
    }

    /// The one that `arm` names so.
    pub fn of(&self, arm: &str, path: &Path) -> Result<&FromFile, PlanError> {
        let missing = || PlanError::value(arm, "profile", "it is not among those that were read");
        self.0.get(path).ok_or_else(missing)
    }

    /// Refuses an arm's profile of which all is left out for lack of consent.
    pub(super) fn holds_something(&self, arm: &ArmTable) -> Result<(), PlanError> {
        let Some(path) = &arm.profile else { return Ok(()) };
        if self.of(&arm.name, path)?.without_consent.is_empty() {
            return Ok(());
        }
        let what = "what it holds changes this machine while the arm runs, so it needs your consent: write consent = [\"kernel\"] in the plan, or --consent kernel";
        Err(PlanError::value(&arm.name, "profile", what))
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Reads a file: a profile where its name ends in `.env`, else a server's configuration with all
/// it includes.
///
/// # Errors
/// When it cannot be read, as a sentence with the lines that are wrong.
pub fn read(path: &Path) -> Result<FromFile, String> {
    if path.extension().is_some_and(|extension| extension == "env") {
        let cannot = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
        let bytes = std::fs::read(path).map_err(|error| cannot(&error))?;
        return Profile::from_config_env(&bytes)
            .map(|profile| of_profile(&profile))
            .map_err(|error| cannot(&error));
    }
    let read = ServerFile::read(path).map_err(|error| error.to_string())?;
    let settings = read.settings.into_iter().map(|(name, found)| (name, found.value));
    let (known, unknown): (BTreeMap<_, _>, BTreeMap<_, _>) =
        settings.partition(|(name, _)| is_ours_to_set(name));
    let configuration = Configuration { settings: known, ..Configuration::default() };
    let left_out = unknown.into_keys().collect();
    Ok(FromFile { configuration, left_out, without_consent: Vec::new() })
}

fn is_ours_to_set(name: &str) -> bool {
    let lives = PLACES.iter().any(|place| place.eq_ignore_ascii_case(name));
    parameter(name).is_some_and(|parameter| parameter.is_setting()) && !lives
}

fn of_profile(profile: &Profile) -> FromFile {
    let mut found = FromFile::default();
    for entry in &profile.entries {
        let name = &entry.parameter.name;
        match (&entry.parameter.place, &entry.scope) {
            (Place::Setting, _) if is_ours_to_set(name) => {
                found.configuration.settings.insert(name.clone(), entry.value.clone());
            }
            (Place::Sysctl | Place::File(_), None) => {
                found.configuration.kernel.insert(name.clone(), entry.value.clone());
            }
            (Place::Table(option), Some(Scope::Object(table))) => {
                let (table, value) = (quoted(table), entry.bare());
                let sql = format!("ALTER TABLE {table} SET ({option} = {value})");
                found.configuration.ddl.push(sql);
            }
            (Place::Index(option), Some(Scope::Object(index))) => {
                let (index, value) = (quoted(index), entry.bare());
                let sql = format!("ALTER INDEX {index} SET ({option} = {value})");
                found.configuration.ddl.push(sql);
                // Pages that are there already are packed anew.
                let packed = format!("REINDEX INDEX {index}");
                found.configuration.follow_ups.insert(packed.clone());
                found.configuration.ddl.push(packed);
            }
            _ => found.left_out.push(entry.title()),
        }
    }
    found
}

/// A name with its schema, if it has one, as SQL needs it.
fn quoted(name: &str) -> String {
    name.split('.').map(walwright_record::quoted_identifier).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> Result<FromFile, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        read(&path)
    }

    #[test]
    fn a_profile_gives_what_a_cluster_can_have_and_names_the_rest() {
        let text = "# a comment\nPG_MAX_WAL_SIZE=8GB\nVM_SWAPPINESS=1\nULIMIT_NOFILE=4096\n";
        let found = file("config.env", text).unwrap();
        assert_eq!(found.configuration.settings["max_wal_size"], "8GB");
        assert_eq!(found.configuration.settings.len(), 1);
        assert_eq!(found.configuration.kernel["vm.swappiness"], "1");
        assert_eq!(found.left_out, ["limit.nofile"]);
        let wrong = file("config.env", "PG_MAX_WAL_SIZE=8GB\nPG_NOTHING=1\n").unwrap_err();
        assert!(wrong.contains("config.env: line 2") && wrong.contains("PG_NOTHING"), "{wrong}");
    }

    #[test]
    fn a_servers_own_file_gives_settings_but_not_where_it_lives() {
        let text = "port = 5433\nmax_wal_size = 8GB\nhba_file = '/etc/pg_hba.conf'\n";
        let found = file("postgresql.conf", text).unwrap();
        assert_eq!(found.configuration, Configuration::of_settings([("max_wal_size", "8GB")]));
        assert_eq!(found.left_out, ["hba_file", "port"]);
    }
}
