//! What a review is made of: settings from anywhere, the machine, and a load.

use std::collections::{BTreeMap, BTreeSet};

use walwright_catalog::{Configuration, Value, parameter, settings};
use walwright_record::{HostFacts, Record, Setting};

use super::bytes::in_words;
use super::evidence::Evidence;
use super::refused::{Refused, refused};

/// A setting as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// Its value: as written, or in the unit of `pg_settings`.
    pub value: String,
    /// Where it is set: `file:line`, or the source that `pg_settings` names.
    pub place: String,
}

/// What is known of the server's machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Machine {
    /// Memory in bytes.
    pub memory: Option<f64>,
    /// Processors.
    pub processors: Option<f64>,
    /// Everything else, where it was looked at.
    pub host: Option<HostFacts>,
}

impl Machine {
    /// A machine that was looked at; its control group's limits count.
    pub fn of(host: &HostFacts) -> Machine {
        let smaller = |all: Option<f64>, limit: Option<f64>| match (all, limit) {
            (Some(all), Some(limit)) => Some(all.min(limit)),
            (all, limit) => all.or(limit),
        };
        let bytes = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64);
        Machine {
            memory: smaller(bytes(host.memory_bytes), bytes(host.cgroup_memory_bytes)),
            processors: smaller(host.processors.map(f64::from), host.cgroup_cpus),
            host: Some(host.clone()),
        }
    }
}

/// What the server's own program says of the settings of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Asked {
    /// Which program, in words.
    pub by: String,
    /// The settings it was asked about, by name in lower case.
    pub names: BTreeSet<String>,
    /// What it says of those that it refuses, by name in lower case.
    pub refused: BTreeMap<String, String>,
}

/// What is reviewed.
#[derive(Debug, Clone)]
pub struct ReviewInput<'a> {
    /// Settings by name in lower case. One that is not there has its default.
    pub settings: BTreeMap<String, Given>,
    /// Major version of the server.
    pub major: u32,
    /// Whether the settings are a running server's, which has taken them.
    pub running: bool,
    /// What the server's program says of them, where one was asked.
    pub asked: Option<Asked>,
    /// Its machine.
    pub machine: Machine,
    /// A load that was recorded under these settings, or ones like them.
    pub record: Option<&'a Record>,
}

impl<'a> ReviewInput<'a> {
    /// Settings of files.
    pub fn of_files(configuration: &Configuration, major: u32, machine: Machine) -> Self {
        let settings = configuration
            .settings
            .iter()
            .map(|(name, assignment)| {
                let place = assignment.to_string();
                (name.clone(), Given { value: assignment.value.clone(), place })
            })
            .collect();
        ReviewInput { settings, major, running: false, asked: None, machine, record: None }
    }

    /// Settings of a server, as `pg_settings` shows them.
    pub fn of_server(settings: &[Setting], major: u32, machine: Machine) -> Self {
        let settings = settings
            .iter()
            .map(|setting| {
                let place = match (&setting.source_file, setting.source.as_str()) {
                    (Some(file), _) => file.clone(),
                    (None, source) => source.to_owned(),
                };
                (setting.name.to_lowercase(), Given { value: setting.value.clone(), place })
            })
            .collect();
        ReviewInput { settings, major, running: true, asked: None, machine, record: None }
    }

    /// Settings and load of a record; `None` where it does not hold them.
    pub fn of_record(record: &'a Record) -> Option<Self> {
        if record.settings.is_empty() {
            return None;
        }
        let target = record.target.as_ref()?;
        let machine = match &record.host {
            Some(host) if target.local => Machine::of(host),
            _ => Machine::default(),
        };
        let mut input = Self::of_server(&record.settings, target.version_num / 10_000, machine);
        input.record = Some(record);
        Some(input)
    }
}

/// The input read, with what follows from it.
pub(super) struct Subject<'a> {
    pub(super) major: u32,
    pub(super) ram: Option<f64>,
    pub(super) processors: Option<f64>,
    pub(super) evidence: Evidence,
    pub(super) refused: Vec<Refused>,
    pub(super) unread: Vec<String>,
    pub(super) record: Option<&'a Record>,
    host: Option<&'a HostFacts>,
    values: BTreeMap<&'static str, Value>,
    places: BTreeMap<&'static str, String>,
}

impl<'a> Subject<'a> {
    pub(super) fn of(input: &'a ReviewInput<'a>) -> Subject<'a> {
        let (refused, meant) = refused(input);
        let mut subject = Subject {
            major: input.major,
            ram: input.machine.memory,
            processors: input.machine.processors,
            evidence: input.record.map(Evidence::of).unwrap_or_default(),
            refused,
            unread: Vec::new(),
            record: input.record,
            host: input.machine.host.as_ref(),
            values: BTreeMap::new(),
            places: BTreeMap::new(),
        };
        for setting in settings().filter(|p| p.is_in(input.major)) {
            let name = setting.name.to_lowercase();
            let given = input.settings.get(&name).or_else(|| meant.get(&name).copied());
            let value = match given {
                // A server that does not show a setting may not want to.
                None if input.running && parameter(&setting.name).is_none() => None,
                None => setting.default(input.major).and_then(|d| setting.read(d).ok()),
                Some(given) => {
                    subject.places.insert(&setting.name, given.place.clone());
                    setting.read_in(input.major, &given.value).ok()
                }
            };
            match value {
                Some(value) => {
                    subject.values.insert(&setting.name, value);
                }
                None if given.is_some() => subject.unread.push(setting.name.clone()),
                None => {}
            }
        }
        let told: Vec<&str> = subject.refused.iter().map(|refused| refused.name.as_str()).collect();
        subject.unread.retain(|name| !told.contains(&name.as_str()));
        subject
    }

    pub(super) fn value(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    pub(super) fn place(&self, name: &str) -> String {
        self.places.get(name).cloned().unwrap_or_else(|| "default".to_owned())
    }

    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.value(name)?.number()
    }

    pub(super) fn bytes(&self, name: &str) -> Option<f64> {
        self.value(name)?.bytes()
    }

    pub(super) fn seconds(&self, name: &str) -> Option<f64> {
        Some(self.value(name)?.duration()?.as_secs_f64())
    }

    pub(super) fn is_on(&self, name: &str) -> bool {
        self.value(name).is_some_and(Value::is_on)
    }

    pub(super) fn is_off(&self, name: &str) -> bool {
        self.value(name).is_some_and(Value::is_off)
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.value(name)?.text()
    }

    pub(super) fn host(&self) -> Option<&'a HostFacts> {
        self.host
    }

    /// A value of the kernel.
    pub(super) fn kernel(&self, name: &str) -> Option<&'a str> {
        self.host?.kernel_settings.get(name).map(String::as_str)
    }

    pub(super) fn machine_in_words(&self) -> String {
        let processors = self.processors.map(|n| format!("{n} processors"));
        let memory = self.ram.map(|bytes| format!("{} of memory", in_words(bytes)));
        let known: Vec<String> = processors.into_iter().chain(memory).collect();
        if known.is_empty() { "a machine that is not known".to_owned() } else { known.join(", ") }
    }
}
