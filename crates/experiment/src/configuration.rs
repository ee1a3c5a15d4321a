//! One configuration of server, schema and client, as a run of a bench has it.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use walwright_server::Major;

use super::{Length, LoadOptions, MemorySize};

/// Which PostgreSQL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Postgres {
    /// A fetched install of this major version.
    Major(String),
    /// Binaries in this directory.
    BinDir(PathBuf),
}

impl Postgres {
    /// The major version that is fetched where no binaries are given, and the binaries that are.
    pub fn parts(of: Option<Postgres>) -> (String, Option<PathBuf>) {
        let default = || Major::default().to_string();
        match of {
            Some(Postgres::Major(major)) => (major, None),
            Some(Postgres::BinDir(directory)) => (default(), Some(directory)),
            None => (default(), None),
        }
    }
}

/// What a run of a bench has different from PostgreSQL's, the workload's and the
/// bench's own defaults. Empty is the bench as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Configuration {
    /// Server settings by name.
    pub settings: BTreeMap<String, String>,
    /// Statements on the restored data before the load, each sent alone.
    pub ddl: Vec<String>,
    /// Those of them that belong to the one before and mean nothing without it.
    pub follow_ups: BTreeSet<String>,
    /// What undoes such a statement, by the statement, where data are not restored.
    pub undo: BTreeMap<String, String>,
    /// Values of the kernel by name, written for the run and brought back after it.
    pub kernel: BTreeMap<String, String>,
    /// Options of the load.
    pub load: LoadOptions,
    /// Options of the workload by name.
    pub options: BTreeMap<String, String>,
    /// Script variables by name.
    pub define: BTreeMap<String, String>,
    /// Scripts in place of the workload's.
    pub files: Option<Vec<String>>,
    /// Values that command lines of a study leave open, by name.
    pub parameters: BTreeMap<String, String>,
    /// Units of work that a transaction of these scripts does, where that is not one; figures
    /// are those of a unit.
    pub units: Option<u32>,
    /// PostgreSQL to run on.
    pub postgres: Option<Postgres>,
    /// Least time of every flush.
    pub flush_latency: Option<Length>,
    /// Processors that the server may use, where not all.
    pub processors: Option<NonZeroU32>,
    /// Memory that the server may use, where not all.
    pub memory: Option<MemorySize>,
    /// Whether the server is reached by TCP on the loopback address, not by its unix socket.
    pub tcp: Option<bool>,
}

impl Configuration {
    /// Only these settings.
    pub fn of_settings<N: Into<String>, V: Into<String>>(
        settings: impl IntoIterator<Item = (N, V)>,
    ) -> Configuration {
        let settings = settings.into_iter().map(|(name, value)| (name.into(), value.into()));
        Configuration { settings: settings.collect(), ..Configuration::default() }
    }

    /// Whether one of its transactions does the work of several.
    pub(super) fn is_batch(&self) -> bool {
        self.units.is_some_and(|units| units > 1)
    }

    /// This configuration with the changes of another on top: its values win, its
    /// statements come after.
    #[must_use]
    pub fn with(&self, changes: &Configuration) -> Configuration {
        let over = |below: &BTreeMap<String, String>, above: &BTreeMap<String, String>| {
            let mut all = below.clone();
            all.extend(above.clone());
            all
        };
        Configuration {
            settings: over(&self.settings, &changes.settings),
            ddl: self.ddl.iter().chain(&changes.ddl).cloned().collect(),
            follow_ups: self.follow_ups.union(&changes.follow_ups).cloned().collect(),
            undo: over(&self.undo, &changes.undo),
            kernel: over(&self.kernel, &changes.kernel),
            load: changes.load.over(&self.load),
            options: over(&self.options, &changes.options),
            define: over(&self.define, &changes.define),
            parameters: over(&self.parameters, &changes.parameters),
            files: changes.files.clone().or_else(|| self.files.clone()),
            // They are of the scripts that they come with.
            units: changes.units.or_else(|| self.units.filter(|_| changes.files.is_none())),
            postgres: changes.postgres.clone().or_else(|| self.postgres.clone()),
            flush_latency: changes.flush_latency.or(self.flush_latency),
            processors: changes.processors.or(self.processors),
            memory: changes.memory.or(self.memory),
            tcp: changes.tcp.or(self.tcp),
        }
    }

    /// Every change alone, for a design that takes a profile apart. Statements stay with those
    /// that they follow.
    pub fn parts(&self) -> Vec<Configuration> {
        let mut parts = Vec::new();
        let none = Configuration::default;
        for (name, value) in &self.settings {
            parts.push(Configuration::of_settings([(name, value)]));
        }
        for statements in self.ddl.chunk_by(|_, next| self.follow_ups.contains(next)) {
            let undo = statements.iter().filter_map(|sql| self.undo.get_key_value(sql));
            let undo = undo.map(|(sql, undo)| (sql.clone(), undo.clone())).collect();
            let follow_ups = self.follow_ups.iter().filter(|sql| statements.contains(sql));
            let follow_ups = follow_ups.cloned().collect();
            parts.push(Configuration { ddl: statements.to_vec(), follow_ups, undo, ..none() });
        }
        for (name, value) in &self.kernel {
            let kernel = BTreeMap::from([(name.clone(), value.clone())]);
            parts.push(Configuration { kernel, ..none() });
        }
        if self.load != LoadOptions::default() {
            parts.push(Configuration { load: self.load.clone(), ..none() });
        }
        for (name, value) in &self.options {
            let options = BTreeMap::from([(name.clone(), value.clone())]);
            parts.push(Configuration { options, ..none() });
        }
        for (name, value) in &self.define {
            let define = BTreeMap::from([(name.clone(), value.clone())]);
            parts.push(Configuration { define, ..none() });
        }
        for (name, value) in &self.parameters {
            let parameters = BTreeMap::from([(name.clone(), value.clone())]);
            parts.push(Configuration { parameters, ..none() });
        }
        if self.files.is_some() {
            let (files, units) = (self.files.clone(), self.units);
            parts.push(Configuration { files, units, ..none() });
        }
        if self.postgres.is_some() {
            parts.push(Configuration { postgres: self.postgres.clone(), ..none() });
        }
        if self.flush_latency.is_some() {
            parts.push(Configuration { flush_latency: self.flush_latency, ..none() });
        }
        if self.processors.is_some() {
            parts.push(Configuration { processors: self.processors, ..none() });
        }
        if self.memory.is_some() {
            parts.push(Configuration { memory: self.memory, ..none() });
        }
        if self.tcp.is_some() {
            parts.push(Configuration { tcp: self.tcp, ..none() });
        }
        parts
    }

    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        *self == Configuration::default()
    }

    /// What is changed, each in words.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        words.extend(self.postgres.iter().map(|postgres| match postgres {
            Postgres::Major(major) => format!("PostgreSQL {major}"),
            Postgres::BinDir(directory) => format!("PostgreSQL of {}", directory.display()),
        }));
        words.extend(self.settings.iter().map(|(name, value)| format!("{name} = {value}")));
        words.extend(self.ddl.iter().map(|sql| sql.trim().trim_end_matches(';').to_owned()));
        words.extend(self.kernel.iter().map(|(name, value)| format!("{name} = {value}")));
        words.extend(self.load.words());
        words.extend(self.options.iter().map(|(name, value)| format!("option {name} = {value}")));
        words.extend(self.define.iter().map(|(name, value)| format!("variable {name} = {value}")));
        words.extend(self.parameters.iter().map(|(name, value)| format!("{name} = {value}")));
        words.extend(self.files.iter().map(|files| format!("scripts {}", files.join(", "))));
        words.extend(self.units.map(|units| format!("{units} units of work a transaction")));
        words.extend(self.flush_latency.map(|least| format!("flushes of at least {least}")));
        words.extend(self.processors.map(|count| format!("server on {count} processors")));
        words.extend(self.memory.map(|size| format!("server with {size} of memory")));
        let way = |tcp| if tcp { "reached by TCP" } else { "reached by its unix socket" };
        words.extend(self.tcp.map(way).map(str::to_owned));
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_win_and_parts_make_the_whole() {
        let base = Configuration {
            ddl: vec!["CREATE INDEX".to_owned()],
            ..Configuration::of_settings([("max_wal_size", "1GB"), ("jit", "off")])
        };
        let changes = Configuration {
            ddl: vec!["DROP INDEX".to_owned()],
            undo: [("DROP INDEX".to_owned(), "CREATE INDEX".to_owned())].into(),
            load: LoadOptions { clients: Some(8), ..LoadOptions::default() },
            postgres: Some(Postgres::Major("17".to_owned())),
            tcp: Some(true),
            ..Configuration::of_settings([("max_wal_size", "64MB")])
        };
        let both = base.with(&changes);
        assert_eq!(both.settings["max_wal_size"], "64MB");
        assert_eq!(both.settings["jit"], "off");
        assert_eq!(both.ddl, ["CREATE INDEX", "DROP INDEX"]);
        let parts = changes.parts();
        assert_eq!(parts.len(), 5);
        let whole = parts.iter().fold(Configuration::default(), |all, part| all.with(part));
        assert_eq!(whole, changes);
        assert!(Configuration::default().is_empty() && !changes.is_empty());
        assert_eq!(
            changes.words(),
            ["PostgreSQL 17", "max_wal_size = 64MB", "DROP INDEX", "clients = 8", "reached by TCP"]
        );
    }
}
