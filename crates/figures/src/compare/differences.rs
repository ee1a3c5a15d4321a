//! What differs between runs besides their figures, and could explain them.

use std::collections::{BTreeMap, BTreeSet};

use walwright_record::{LoadLevel, LoadStage, PoolerFacts, Record, Schedule, TableFacts};

use super::divergence::{Divergence, DivergenceKind, Found};
use super::group::RunGroup;
use super::host_differences;
use crate::Summary;

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
    found.text(kind, "between clients and server", |run| {
        let pooler = &run.load.as_ref()?.pooler;
        Some(pooler.as_ref().map_or("nothing".to_owned(), PoolerFacts::name))
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
            Schedule::Closed { think: None, .. } => "closed".to_owned(),
            Schedule::Closed { think: Some(think), .. } => {
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
