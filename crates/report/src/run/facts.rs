//! What does not change during a run, as rows of names and values.

use walwright_figures::Summary;
use walwright_record::{
    DiskFacts, HostFacts, InstrumentFacts, PoolerKind, Record, Setting, TableFacts, TargetKind,
};

use crate::document::{Block, Cell, Column, Field, Table};
use crate::{format, settings, words};

/// The server.
pub(super) fn server(record: &Record) -> Vec<Field> {
    let Some(target) = &record.target else { return Vec::new() };
    let kind = match target.kind {
        TargetKind::Embedded => "embedded cluster, made for this run",
        TargetKind::Attached => "attached server",
    };
    let mut facts = vec![
        Field::new("PostgreSQL", &target.version),
        Field::new("Build", &target.version_text),
        Field::new("Target", kind),
        Field::code("Address", &target.address),
        Field::new("Database", &target.database)
            .note(target.database_bytes.map(size_at_start).unwrap_or_default()),
        Field::new("Role", &target.role).note(match (target.superuser, target.monitor) {
            (true, _) => "superuser",
            (false, true) => "sees all statistics",
            (false, false) => "sees its own statistics only",
        }),
    ];
    if let Some(install) = &target.install {
        facts.push(Field::new("Binaries", install));
    }
    facts.push(match &target.data_directory {
        Some(path) => Field::code("Data directory", path),
        None => Field::known("Data directory", None),
    });
    if target.in_recovery {
        facts.push(Field::new("Role in replication", "standby"));
    }
    let extensions: Vec<String> =
        target.extensions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    if !extensions.is_empty() {
        facts.push(Field::new("Extensions", extensions.join(", ")));
    }
    facts
}

fn size_at_start(bytes: u64) -> String {
    format!("{} when the load began", format::bytes(bytes as f64))
}

/// The machine.
pub(super) fn host(host: &HostFacts, record: &Record) -> Vec<Field> {
    let mut facts = vec![
        Field::known("System", host.system.clone()),
        Field::known("Kernel", host.kernel.clone()),
        Field::known("Processor", host.cpu_model.clone()),
        Field::known("Processors online", host.processors.map(|n| n.to_string())),
        Field::known("Memory", host.memory_bytes.map(|b| format::bytes(b as f64))),
        Field::known("Swap", host.swap_bytes.map(|b| format::bytes(b as f64))),
    ];
    if let Some(kind) = &host.virtualisation {
        facts.push(Field::new("Virtualisation", kind));
    }
    if let Some(cpus) = host.cgroup_cpus {
        facts.push(Field::new(
            "CPU quota of the cgroup",
            format!("{} processors", format::number(cpus)),
        ));
    }
    if let Some(bytes) = host.cgroup_memory_bytes {
        facts.push(Field::new("Memory limit of the cgroup", format::bytes(bytes as f64)));
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
        facts.push(Field::new("CPU probe", rounds).note(spread));
    }
    facts
}

fn disk(name: &str, disk: &DiskFacts) -> Vec<Field> {
    let device = disk.device.as_ref().map_or("no block device".to_owned(), |d| d.clone());
    let free = disk.free_bytes.map(|b| format!(", {} free", format::bytes(b as f64)));
    let mut facts = vec![
        Field::new(
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
        facts.push(Field::new(format!("Queue of {device}"), queue.join(", ")));
    }
    facts
}

/// Kernel settings in two columns.
pub(super) fn kernel(host: &HostFacts) -> Vec<Vec<Block>> {
    let all: Vec<Field> =
        host.kernel_settings.iter().map(|(name, value)| Field::code(name, value)).collect();
    let halves = all.chunks(all.len().div_ceil(2).max(1));
    halves.map(|half| vec![Block::Fields(half.to_vec())]).collect()
}

/// How the load was driven.
pub(super) fn load(record: &Record) -> Vec<Field> {
    let Some(load) = &record.load else { return Vec::new() };
    let mut facts = vec![
        Field::new("Schedule", words::schedule(&load.schedule)),
        Field::new("Clients", format::count(load.clients.into())),
        Field::new("Driver threads", load.threads.to_string()),
        Field::new("Protocol", &load.protocol),
        Field::new("Mode", &load.mode).note(match load.mode.as_str() {
            "faithful" => "the same messages on the wire as pgbench",
            "lean" => "fewer messages than pgbench: figures compare only with other lean runs",
            _ => "",
        }),
        Field::new("Tries per transaction", load.max_tries.to_string()),
        Field::new("Random seed", load.seed.to_string()),
    ];
    if let Some(pooler) = &load.pooler {
        let note = match pooler.kind {
            PoolerKind::Gateway => "answers leave when the flush that covers them has returned",
            PoolerKind::PgBouncer => "transaction mode",
        };
        facts.push(Field::new("Between clients and server", pooler.name()).note(note));
        facts.push(Field::new("Pool size", pooler.pool_size.to_string()));
    }
    if !load.ramp.is_zero() {
        facts.insert(3, Field::new("Ramp", format::length(load.ramp)));
    }
    if let Some(workload) = &record.workload {
        facts.insert(
            0,
            Field::new("Workload", &workload.name).note(format!("scale {}", workload.scale)),
        );
        facts.extend(workload.options.iter().map(|(k, v)| Field::new(format!("Option {k}"), v)));
    }
    facts
}

/// The instrument on itself.
pub(super) fn instrument(instrument: Option<&InstrumentFacts>) -> Vec<Field> {
    let of = |f: fn(&InstrumentFacts) -> Option<String>| instrument.and_then(f);
    vec![
        Field::known(
            "Driver CPU per transaction",
            of(|i| Some(format::latency(i.cpu_per_transaction?))),
        ),
        Field::known("Driver ceiling with this script", of(|i| Some(format::rate(i.ceiling?)))),
        Field::known(
            "Busiest driver thread",
            of(|i| Some(format!("{} of a processor", format::percent(i.busiest_thread?)))),
        ),
    ]
}

/// Settings whose value is not the compiled-in default.
pub(super) fn settings(record: &Record) -> Table {
    let row = |(setting, default): (&Setting, String)| {
        let pending = setting.pending_restart.then(|| "waits for a restart".to_owned());
        let source = match &setting.source_file {
            Some(file) => format!("{} ({file})", setting.source),
            None => setting.source.clone(),
        };
        let value = Cell { note: pending, ..Cell::from(&setting.shown) };
        vec![Cell::from(&setting.name), value, default.into(), source.into()]
    };
    Table {
        columns: vec![
            Column::code("Setting"),
            Column::code("Value"),
            Column::code("Default"),
            Column::muted("Set by"),
        ],
        rows: settings::changed(record).into_iter().map(row).collect(),
    }
}

/// Tables when the load began.
pub(super) fn tables(record: &Record) -> Table {
    let tables = record.target.iter().flat_map(|t| &t.tables);
    let row = |table: &TableFacts| {
        let name = match table.schema.as_str() {
            "public" => table.name.clone(),
            schema => format!("{schema}.{}", table.name),
        };
        let rows = table.rows.map_or_else(|| "never analysed".to_owned(), format::count);
        let options =
            (!table.options.is_empty()).then(|| format!("WITH ({})", table.options.join(", ")));
        let details: Vec<String> = table.indexes.iter().cloned().chain(options).collect();
        vec![
            Cell::from(name),
            rows.into(),
            format::bytes(table.bytes as f64).into(),
            details.join("\n").into(),
        ]
    };
    Table {
        columns: vec![
            Column::code("Table"),
            Column::number("Rows, estimated"),
            Column::number("Heap"),
            Column::code("Indexes and options"),
        ],
        rows: tables.map(row).collect(),
    }
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
pub(super) fn cpu(summary: &Summary) -> Vec<Field> {
    let Some(cpu) = &summary.cpu else { return Vec::new() };
    let unit = cpu.unit.map_or("transaction", |u| u.name());
    let mut facts = vec![
        Field::known(
            format!("Server CPU per {unit}"),
            cpu.server_per_transaction.map(format::latency),
        ),
        Field::known(
            format!("Driver CPU per {unit}"),
            cpu.driver_per_transaction.map(format::latency),
        ),
        Field::known("All processors busy", cpu.busy.map(format::percent)),
        Field::known("in the kernel", cpu.system.map(format::percent)),
        Field::known("taken by the hypervisor", cpu.steal.map(format::percent)),
    ];
    facts.extend(cpu.groups.iter().map(|group| {
        let per = group.per_transaction.map(|d| format!("{} per {unit}", format::latency(d)));
        Field::new(&group.group, format!("{} processors", format::number(group.processors)))
            .note(per.unwrap_or_default())
    }));
    facts
}
