//! A system under load of its own kind, from a file in `bench/foreign`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};
use serde::Deserialize;

/// A system: how it is installed, filled and put under load, and what can be wrong with it.
/// Commands are of a shell and find the server by PGHOST, PGPORT, PGUSER, PGPASSWORD,
/// PGDATABASE and DATABASE_URL, and their own directory by TOOLS.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// Its name: that of the file.
    #[serde(skip)]
    pub name: String,
    /// What it is, in a few words.
    pub title: String,
    /// Installs it, at a pinned version.
    pub install: String,
    /// Makes its schema and fills it.
    pub prepare: String,
    /// Its load; ended after the measurement.
    pub load: String,
    /// Files that its commands read, by name; they lie in TOOLS.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// SQL that counts the work that was done: one growing number.
    pub work: String,
    /// Settings of the server in all cases.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// What an operator could have got wrong.
    #[serde(rename = "fault")]
    pub faults: Vec<ForeignFault>,
    /// Which of them are planted together.
    #[serde(rename = "case")]
    pub cases: Vec<Case>,
}

/// One thing that is wrong.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ForeignFault {
    /// Its name.
    pub name: String,
    /// The diagnoses that name it.
    pub finds: Vec<String>,
    /// SQL that plants it.
    #[serde(default)]
    pub sql: String,
    /// Settings that plant it.
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// Least time of a WAL flush that plants it: `2ms`.
    pub flush_latency: Option<String>,
    /// The load with it, where that is what is wrong.
    pub load: Option<String>,
    /// Processes that do nothing but take a processor.
    #[serde(default)]
    pub neighbours: u32,
}

/// Faults that are planted together. None of them: a control.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Names of the faults.
    pub faults: Vec<String>,
}

impl Case {
    /// Its name within its system.
    pub fn name(&self) -> String {
        if self.faults.is_empty() { "control".to_owned() } else { self.faults.join("+") }
    }
}

impl System {
    /// Reads all systems of a directory, by name.
    ///
    /// # Errors
    /// When one cannot be read or names a fault that it has not.
    pub fn read_all(directory: &Path) -> anyhow::Result<Vec<System>> {
        let entries = std::fs::read_dir(directory)
            .with_context(|| format!("reading {}", directory.display()))?;
        let mut systems = Vec::new();
        for entry in entries {
            let path = entry?.path();
            if path.extension().is_none_or(|extension| extension != "toml") {
                continue;
            }
            let text = std::fs::read_to_string(&path)?;
            let mut system: System =
                toml::from_str(&text).with_context(|| format!("reading {}", path.display()))?;
            system.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            for fault in system.cases.iter().flat_map(|case| &case.faults) {
                if system.fault(fault).is_none() {
                    bail!("{} has no fault '{fault}'", path.display());
                }
            }
            systems.push(system);
        }
        systems.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(systems)
    }

    /// A fault by name.
    pub fn fault(&self, name: &str) -> Option<&ForeignFault> {
        self.faults.iter().find(|fault| fault.name == name)
    }

    /// All that a case is made of: what was measured of it holds until this changes.
    pub fn made_of(&self, case: &Case) -> String {
        let faults: Vec<&ForeignFault> = self.planted(case).collect();
        let system = (&self.install, &self.prepare, &self.load, &self.files);
        format!("{system:?} {:?} {:?} {faults:?}", self.work, self.settings)
    }

    /// The faults of a case.
    pub fn planted<'a>(&'a self, case: &'a Case) -> impl Iterator<Item = &'a ForeignFault> {
        case.faults.iter().filter_map(|name| self.fault(name))
    }
}
