//! What differs between runs besides their figures, and could explain them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use walwright_record::{LoadLevel, LoadStage, Record, Schedule, TableFacts};

use super::{RunGroup, host_differences};
use crate::Summary;

/// What a difference is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DivergenceKind {
    /// The work itself.
    Workload,
    /// How it was driven.
    Load,
    /// Version and kind of the server.
    Server,
    /// A server setting.
    Setting,
    /// Tables and indexes.
    Schema,
    /// How much data there is.
    Data,
    /// The machine and its kernel.
    Host,
    /// What the machine did besides, and how fast it was.
    Noise,
}

impl DivergenceKind {
    /// For display.
    pub fn label(self) -> &'static str {
        match self {
            DivergenceKind::Workload => "workload",
            DivergenceKind::Load => "load",
            DivergenceKind::Server => "server",
            DivergenceKind::Setting => "setting",
            DivergenceKind::Schema => "schema",
            DivergenceKind::Data => "data",
            DivergenceKind::Host => "host",
            DivergenceKind::Noise => "noise",
        }
    }
}

/// One difference.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Divergence {
    /// What it is of.
    pub kind: DivergenceKind,
    /// What differs: a setting's name, a table, …
    pub name: String,
    /// How it is in each group, the baseline first; several values where the runs of a
    /// group differ among themselves; `None` where it is not known.
    pub values: Vec<Option<String>>,
}

/// Settings that name places and connections of one server and explain nothing.
const PLACES: [&str; 12] = [
    "data_directory",
    "config_file",
    "hba_file",
    "ident_file",
    "external_pid_file",
    "unix_socket_directories",
    "port",
    "listen_addresses",
    "cluster_name",
    "application_name",
    "transaction_isolation",
    "transaction_read_only",
];
/// Sizes that differ by less than this part are the same size: data grow while runs go on.
const SAME_SIZE: f64 = 0.05;

/// All differences, by kind.
pub(super) fn differences(groups: &[RunGroup], summaries: &[Vec<Summary>]) -> Vec<Divergence> {
    let mut found = Found { groups, all: Vec::new() };
    workload(&mut found);
    load(&mut found);
    server(&mut found);
    settings(&mut found);
    schema(&mut found);
    data(&mut found);
    host_differences::machine(&mut found);
    host_differences::noise(&mut found, summaries);
    found.all.sort_by_key(|divergence| divergence.kind);
    found.all
}

/// Differences found so far.
pub(super) struct Found<'a> {
    groups: &'a [RunGroup],
    pub(super) all: Vec<Divergence>,
}

impl<'a> Found<'a> {
    /// The groups that are compared.
    pub(super) fn groups(&self) -> &'a [RunGroup] {
        self.groups
    }

    /// Notes a fact that should be the same in all runs, if it is not.
    pub(super) fn text(
        &mut self,
        kind: DivergenceKind,
        name: &str,
        of: impl Fn(&Record) -> Option<String>,
    ) {
        let values: Vec<BTreeSet<String>> =
            self.groups.iter().map(|group| group.runs.iter().filter_map(&of).collect()).collect();
        let mut known = values.iter().filter(|values| !values.is_empty());
        let Some(first) = known.next() else { return };
        // Runs of one group that differ among themselves are told as well: they are no
        // repeats of one thing.
        if first.len() == 1 && known.all(|values| values == first) {
            return;
        }
        let shown = |values: &BTreeSet<String>| {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            (!values.is_empty()).then(|| values.join(" / "))
        };
        self.all.push(Divergence {
            kind,
            name: name.to_owned(),
            values: values.iter().map(shown).collect(),
        });
    }

    /// Notes a quantity whose means differ by more than `tolerance`, as a part of the
    /// smaller; `shown` writes it.
    pub(super) fn quantity(
        &mut self,
        kind: DivergenceKind,
        name: &str,
        tolerance: f64,
        of: impl Fn(usize, usize, &Record) -> Option<f64>,
        shown: impl Fn(f64) -> String,
    ) {
        let means: Vec<Option<f64>> = self
            .groups
            .iter()
            .enumerate()
            .map(|(group, runs)| {
                let known: Vec<f64> = runs
                    .runs
                    .iter()
                    .enumerate()
                    .filter_map(|(run, record)| of(group, run, record))
                    .collect();
                (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
            })
            .collect();
        let known = || means.iter().copied().flatten();
        let (low, high) =
            (known().fold(f64::INFINITY, f64::min), known().fold(f64::NEG_INFINITY, f64::max));
        if known().count() > 1 && high - low > tolerance * low.abs() {
            let values = means.iter().map(|mean| mean.map(&shown)).collect();
            self.all.push(Divergence { kind, name: name.to_owned(), values });
        }
    }
}

fn workload(found: &mut Found<'_>) {
    let kind = DivergenceKind::Workload;
    found.text(kind, "workload", |run| Some(run.header.workload.clone()));
    found.text(kind, "scale", |run| Some(run.workload.as_ref()?.scale.to_string()));
    let options: BTreeSet<String> = names(found, |run| {
        run.workload.iter().flat_map(|workload| workload.options.keys()).cloned().collect()
    });
    for option in options {
        found.text(kind, &option, |run| run.workload.as_ref()?.options.get(&option).cloned());
    }
    found.text(kind, "scripts", |run| {
        let scripts = &run.workload.as_ref()?.scripts;
        let told: Vec<String> =
            scripts.iter().map(|s| format!("{}@{}", s.name, s.weight)).collect();
        Some(told.join(", "))
    });
    let texts: BTreeSet<String> = names(found, |run| {
        run.workload.iter().flat_map(|workload| &workload.scripts).map(|s| s.name.clone()).collect()
    });
    for name in texts {
        let text = |run: &Record| {
            let scripts = &run.workload.as_ref()?.scripts;
            Some(scripts.iter().find(|script| script.name == name)?.text.clone())
        };
        let different: BTreeSet<String> =
            found.groups.iter().flat_map(|group| &group.runs).filter_map(text).collect();
        if different.len() > 1 {
            found.text(kind, &format!("text of script {name}"), |run| {
                let place = different.iter().position(|known| Some(known) == text(run).as_ref())?;
                Some(format!("text {}", place + 1))
            });
        }
    }
}

fn load(found: &mut Found<'_>) {
    let kind = DivergenceKind::Load;
    found.text(kind, "driven by", |run| {
        let by = match (&run.load, &run.client) {
            (Some(_), _) => "walwright",
            (None, Some(_)) => "others, with logs of their clients",
            (None, None) => "others",
        };
        Some(by.to_owned())
    });
    found.text(kind, "clients", |run| Some(run.load.as_ref()?.clients.to_string()));
    found.text(kind, "driver threads", |run| Some(run.load.as_ref()?.threads.to_string()));
    found.text(kind, "protocol", |run| Some(run.load.as_ref()?.protocol.clone()));
    found.text(kind, "mode", |run| Some(run.load.as_ref()?.mode.clone()));
    found.text(kind, "tries", |run| Some(run.load.as_ref()?.max_tries.to_string()));
    found.text(kind, "connections", |run| {
        let each = if run.load.as_ref()?.rules.reconnect { "transaction" } else { "client" };
        Some(format!("one for each {each}"))
    });
    found.text(kind, "transactions of each client", |run| {
        Some(match run.load.as_ref()?.rules.transactions {
            Some(each) => each.to_string(),
            None => "as many as the time allows".to_owned(),
        })
    });
    found.text(kind, "stages", |run| {
        let stages = &run.load.as_ref()?.stages;
        let stage = |stage: &LoadStage| {
            let seconds = stage.length.as_secs_f64();
            match stage.level {
                LoadLevel::Rate(rate) => format!("{seconds} s at {rate}/s"),
                LoadLevel::Clients(clients) => format!("{seconds} s of {clients} clients"),
            }
        };
        Some(match stages.is_empty() {
            true => "none".to_owned(),
            false => stages.iter().map(stage).collect::<Vec<_>>().join(", "),
        })
    });
    found.text(kind, "loop", |run| {
        Some(match run.load.as_ref()?.schedule {
            Schedule::Closed { think: None } => "closed".to_owned(),
            Schedule::Closed { think: Some(think) } => {
                format!("closed, {} ms of think time", think.as_secs_f64() * 1e3)
            }
            Schedule::Open { rate, poisson, .. } => {
                format!("open, {rate}/s, {}", if poisson { "Poisson" } else { "even" })
            }
        })
    });
}

fn server(found: &mut Found<'_>) {
    let kind = DivergenceKind::Server;
    found.text(kind, "version", |run| Some(run.target.as_ref()?.version.clone()));
    found.text(kind, "server", |run| {
        let target = run.target.as_ref()?;
        Some(target.install.clone().unwrap_or_else(|| target.address.clone()))
    });
    found.text(kind, "walwright", |run| Some(run.header.walwright_version.clone()));
    let extensions: BTreeSet<String> = names(found, |run| {
        run.target.iter().flat_map(|target| target.extensions.keys()).cloned().collect()
    });
    for name in extensions {
        found.text(kind, &format!("extension {name}"), |run| {
            let version = run.target.as_ref()?.extensions.get(&name);
            Some(version.map_or_else(|| "none".to_owned(), Clone::clone))
        });
    }
}

fn settings(found: &mut Found<'_>) {
    let all: BTreeSet<String> =
        names(found, |run| run.settings.iter().map(|setting| setting.name.clone()).collect());
    for name in all.iter().filter(|name| !PLACES.contains(&name.as_str())) {
        // A setting that one version has and another has not is said by the version.
        found.text(DivergenceKind::Setting, name, |run| {
            Some(run.setting(name)?.shown.clone()).filter(|_| !run.settings.is_empty())
        });
    }
}

fn tables(run: &Record) -> BTreeMap<String, &TableFacts> {
    let tables = run.target.iter().flat_map(|target| &target.tables);
    tables.map(|table| (format!("{}.{}", table.schema, table.name), table)).collect()
}

fn schema(found: &mut Found<'_>) {
    let all: BTreeSet<String> = names(found, |run| tables(run).into_keys().collect());
    for name in all {
        found.text(DivergenceKind::Schema, &format!("table {name}"), |run| {
            let target = run.target.as_ref()?;
            let there = tables(run).contains_key(&name);
            (!target.tables.is_empty())
                .then(|| if there { "there" } else { "not there" }.to_owned())
        });
        found.text(DivergenceKind::Schema, &format!("indexes of {name}"), |run| {
            let mut indexes = tables(run).get(&name)?.indexes.clone();
            indexes.sort();
            Some(if indexes.is_empty() { "none".to_owned() } else { indexes.join("; ") })
        });
        found.text(DivergenceKind::Schema, &format!("options of {name}"), |run| {
            let options = &tables(run).get(&name)?.options;
            Some(if options.is_empty() { "none".to_owned() } else { options.join(", ") })
        });
    }
}

fn data(found: &mut Found<'_>) {
    let kind = DivergenceKind::Data;
    let bytes = host_differences::megabytes;
    found.quantity(
        kind,
        "database",
        SAME_SIZE,
        |_, _, run| Some(run.target.as_ref()?.database_bytes? as f64),
        bytes,
    );
    let all: BTreeSet<String> = names(found, |run| tables(run).into_keys().collect());
    for name in all {
        found.quantity(
            kind,
            &format!("heap of {name}"),
            SAME_SIZE,
            |_, _, run| Some(tables(run).get(&name)?.bytes as f64),
            bytes,
        );
    }
}

/// Names that occur in any run.
fn names(found: &Found<'_>, of: impl Fn(&Record) -> Vec<String>) -> BTreeSet<String> {
    found.groups.iter().flat_map(|group| &group.runs).flat_map(of).collect()
}
