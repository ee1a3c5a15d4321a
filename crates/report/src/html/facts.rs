//! What does not change during a run, as rows of names and values.

use walwright_figures::Summary;
use walwright_record::{DiskFacts, HostFacts, InstrumentFacts, Record, TargetKind};

use super::page::{Fact, SettingRow, TableRow};
use crate::{format, settings, words};

/// The server.
pub(super) fn server(record: &Record) -> Vec<Fact> {
    let Some(target) = &record.target else { return Vec::new() };
    let kind = match target.kind {
        TargetKind::Embedded => "embedded cluster, made for this run",
        TargetKind::Attached => "attached: attached server",
    };
    let mut facts = vec![
        Fact::new("PostgreSQL", &target.version),
        Fact::new("Build", &target.version_text),
        Fact::new("Target", kind),
        Fact::code("Address", &target.address),
        Fact::new("Database", &target.database)
            .note(target.database_bytes.map(size_at_start).unwrap_or_default()),
        Fact::new("Role", &target.role).note(match (target.superuser, target.monitor) {
            (true, _) => "superuser",
            (false, true) => "sees all statistics",
            (false, false) => "sees its own statistics only",
        }),
    ];
    if let Some(install) = &target.install {
        facts.push(Fact::new("Binaries", install));
    }
    facts.push(match &target.data_directory {
        Some(path) => Fact::code("Data directory", path),
        None => Fact::known("Data directory", None),
    });
    if target.in_recovery {
        facts.push(Fact::new("Role in replication", "standby"));
    }
    let extensions: Vec<String> =
        target.extensions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    if !extensions.is_empty() {
        facts.push(Fact::new("Extensions", extensions.join(", ")));
    }
    facts
}

fn size_at_start(bytes: u64) -> String {
    format!("{} when the load began", format::bytes(bytes as f64))
}

/// The machine.
pub(super) fn host(host: &HostFacts, record: &Record) -> Vec<Fact> {
    let mut facts = vec![
        Fact::known("System", host.system.clone()),
        Fact::known("Kernel", host.kernel.clone()),
        Fact::known("Processor", host.cpu_model.clone()),
        Fact::known("Processors online", host.processors.map(|n| n.to_string())),
        Fact::known("Memory", host.memory_bytes.map(|b| format::bytes(b as f64))),
        Fact::known("Swap", host.swap_bytes.map(|b| format::bytes(b as f64))),
    ];
    if let Some(kind) = &host.virtualisation {
        facts.push(Fact::new("Virtualisation", kind));
    }
    if let Some(cpus) = host.cgroup_cpus {
        facts.push(Fact::new(
            "CPU quota of the cgroup",
            format!("{} processors", format::number(cpus)),
        ));
    }
    if let Some(bytes) = host.cgroup_memory_bytes {
        facts.push(Fact::new("Memory limit of the cgroup", format::bytes(bytes as f64)));
    }
    match (&host.data_disk, &host.wal_disk) {
        (Some(data), Some(wal)) if data == wal => facts.extend(disk("Data and WAL", data)),
        (data, wal) => {
            facts.extend(data.iter().flat_map(|d| disk("Data", d)));
            facts.extend(wal.iter().flat_map(|d| disk("WAL", d)));
        }
    }
    if let Some(cpu) = &record.cpu {
        let rounds = format!("{} rounds/s", format::about(cpu.rounds_per_second));
        let spread = format!("{}, spread {}", cpu.method, format::percent(cpu.spread));
        facts.push(Fact::new("CPU probe", rounds).note(spread));
    }
    facts
}

fn disk(name: &str, disk: &DiskFacts) -> Vec<Fact> {
    let device = disk.device.as_ref().map_or("no block device".to_owned(), |d| d.clone());
    let free = disk.free_bytes.map(|b| format!(", {} free", format::bytes(b as f64)));
    let mut facts = vec![
        Fact::new(
            format!("{name} on"),
            format!(
                "{} on {device}, mounted at {}{}",
                disk.file_system,
                disk.mount,
                free.unwrap_or_default()
            ),
        )
        .note(&disk.options),
    ];
    if !disk.queue.is_empty() {
        let queue: Vec<String> = disk.queue.iter().map(|(k, v)| format!("{k} {v}")).collect();
        facts.push(Fact::new(format!("Queue of {device}"), queue.join(", ")));
    }
    facts
}

/// Kernel settings in two columns.
pub(super) fn kernel(host: &HostFacts) -> Vec<Vec<Fact>> {
    let all: Vec<Fact> =
        host.kernel_settings.iter().map(|(name, value)| Fact::code(name, value)).collect();
    all.chunks(all.len().div_ceil(2).max(1)).map(<[Fact]>::to_vec).collect()
}

/// How the load was driven.
pub(super) fn load(record: &Record) -> Vec<Fact> {
    let Some(load) = &record.load else { return Vec::new() };
    let mut facts = vec![
        Fact::new("Schedule", words::schedule(&load.schedule)),
        Fact::new("Clients", format::count(load.clients.into())),
        Fact::new("Driver threads", load.threads.to_string()),
        Fact::new("Protocol", &load.protocol),
        Fact::new("Mode", &load.mode).note(match load.mode.as_str() {
            "faithful" => "the same messages on the wire as pgbench",
            "lean" => "fewer messages than pgbench: figures compare only with other lean runs",
            _ => "",
        }),
        Fact::new("Tries per transaction", load.max_tries.to_string()),
        Fact::new("Random seed", load.seed.to_string()),
    ];
    if !load.ramp.is_zero() {
        facts.insert(3, Fact::new("Ramp", format::length(load.ramp)));
    }
    if let Some(workload) = &record.workload {
        facts.insert(
            0,
            Fact::new("Workload", &workload.name).note(format!("scale {}", workload.scale)),
        );
        facts.extend(workload.options.iter().map(|(k, v)| Fact::new(format!("Option {k}"), v)));
    }
    facts
}

/// The instrument on itself.
pub(super) fn instrument(instrument: Option<&InstrumentFacts>) -> Vec<Fact> {
    let of = |f: fn(&InstrumentFacts) -> Option<String>| instrument.and_then(f);
    vec![
        Fact::known(
            "Driver CPU per transaction",
            of(|i| Some(format::latency(i.cpu_per_transaction?))),
        ),
        Fact::known("Driver ceiling with this script", of(|i| Some(format::rate(i.ceiling?)))),
        Fact::known(
            "Busiest driver thread",
            of(|i| Some(format!("{} of a processor", format::percent(i.busiest_thread?)))),
        ),
    ]
}

/// Settings whose value is not the compiled-in default.
pub(super) fn settings(record: &Record) -> Vec<SettingRow> {
    settings::changed(record)
        .into_iter()
        .map(|(setting, default)| SettingRow {
            name: setting.name.clone(),
            value: setting.shown.clone(),
            default,
            source: match &setting.source_file {
                Some(file) => format!("{} ({file})", setting.source),
                None => setting.source.clone(),
            },
            pending: setting.pending_restart,
        })
        .collect()
}

/// Tables when the load began.
pub(super) fn tables(record: &Record) -> Vec<TableRow> {
    let tables = record.target.iter().flat_map(|t| &t.tables);
    tables
        .map(|table| TableRow {
            name: if table.schema == "public" {
                table.name.clone()
            } else {
                format!("{}.{}", table.schema, table.name)
            },
            rows: table.rows.map_or_else(|| "never analysed".to_owned(), format::count),
            bytes: format::bytes(table.bytes as f64),
            details: table
                .indexes
                .iter()
                .cloned()
                .chain(
                    (!table.options.is_empty())
                        .then(|| format!("WITH ({})", table.options.join(", "))),
                )
                .collect(),
        })
        .collect()
}

/// What could not be seen, in the words of whoever looked.
pub(super) fn not_observable(record: &Record, summary: &Summary) -> Vec<String> {
    let target = record.target.iter().flat_map(|t| &t.not_observable);
    let host = record.host.iter().flat_map(|h| &h.not_observable);
    let figures = summary.not_observable.iter();
    let figures = figures.map(|n| words::sentence(&format!("{}: {}", n.figure, n.why)));
    target.chain(host).map(|text| words::sentence(text)).chain(figures).collect()
}

/// CPU over the window.
pub(super) fn cpu(summary: &Summary) -> Vec<Fact> {
    let Some(cpu) = &summary.cpu else { return Vec::new() };
    let unit = cpu.unit.map_or("transaction", |u| u.name());
    let mut facts = vec![
        Fact::known(
            format!("Server CPU per {unit}"),
            cpu.server_per_transaction.map(format::latency),
        ),
        Fact::known(
            format!("Driver CPU per {unit}"),
            cpu.driver_per_transaction.map(format::latency),
        ),
        Fact::known("All processors busy", cpu.busy.map(format::percent)),
        Fact::known("in the kernel", cpu.system.map(format::percent)),
        Fact::known("taken by the hypervisor", cpu.steal.map(format::percent)),
    ];
    facts.extend(cpu.groups.iter().map(|group| {
        let per = group.per_transaction.map(|d| format!("{} per {unit}", format::latency(d)));
        Fact::new(&group.group, format!("{} processors", format::number(group.processors)))
            .note(per.unwrap_or_default())
    }));
    facts
}
