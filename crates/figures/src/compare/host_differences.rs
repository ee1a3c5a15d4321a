//! Differences of the machine, and of what else went on there.

use std::collections::BTreeSet;

use walwright_record::{DiskFacts, Record};

use super::divergence::{DivergenceKind, Found};
use crate::{ProcessRole, Summary};

/// Difference of the speed of one processor that a steady machine does not show.
const CPU_SPEED: f64 = 0.03;
/// Difference of the time of a flush, likewise: storage varies more.
const FLUSH: f64 = 0.15;
/// Processors that others may take and not be told.
const QUIET: f64 = 0.05;
/// Share of the processors that the hypervisor may take and not be told.
const STEAL: f64 = 0.01;

/// A size for a person.
pub(super) fn megabytes(bytes: f64) -> String {
    format!("{:.1} MB", bytes / 1024.0 / 1024.0)
}

pub(super) fn machine(found: &mut Found<'_>) {
    let kind = DivergenceKind::Host;
    found.text(kind, "kernel", |run| run.host.as_ref()?.kernel.clone());
    found.text(kind, "system", |run| run.host.as_ref()?.system.clone());
    found.text(kind, "processor", |run| run.host.as_ref()?.cpu_model.clone());
    found.text(kind, "processors", |run| Some(run.host.as_ref()?.processors?.to_string()));
    found.text(kind, "processors the server may use", |run| {
        Some(run.target.as_ref()?.processors?.to_string())
    });
    found.text(kind, "memory", |run| Some(megabytes(run.host.as_ref()?.memory_bytes? as f64)));
    found.text(kind, "virtualisation", |run| run.host.as_ref()?.virtualisation.clone());
    found.text(kind, "CPU quota", |run| Some(run.host.as_ref()?.cgroup_cpus?.to_string()));
    found.text(kind, "data disk", |run| disk(run.host.as_ref()?.data_disk.as_ref()?));
    found.text(kind, "WAL disk", |run| disk(run.host.as_ref()?.wal_disk.as_ref()?));
    let names: BTreeSet<String> = super::windows::all(found.groups())
        .flat_map(|run| run.host.iter().flat_map(|host| host.kernel_settings.keys()))
        .cloned()
        .collect();
    for name in names {
        found.text(kind, &name, |run| run.host.as_ref()?.kernel_settings.get(&name).cloned());
    }
}

fn disk(disk: &DiskFacts) -> Option<String> {
    let device = disk.device.as_deref().unwrap_or("no device");
    Some(format!("{} on {device}, {}", disk.file_system, disk.options))
}

pub(super) fn noise(found: &mut Found<'_>, summaries: &[Vec<Summary>]) {
    let kind = DivergenceKind::Noise;
    found.quantity(
        kind,
        "speed of one processor before the run",
        CPU_SPEED,
        |_, _, run| Some(run.cpu.as_ref()?.rounds_per_second),
        |rounds| format!("{:.1} M rounds/s", rounds / 1e6),
    );
    let micros = |seconds: f64| format!("{:.0} µs", seconds * 1e6);
    found.quantity(
        kind,
        "a flush before the run",
        FLUSH,
        |_, _, run| Some(run.storage.as_ref()?.p50.as_secs_f64()),
        micros,
    );
    let others = |group: usize, run: usize, _: &Record| {
        let cpu = summaries[group][run].cpu.as_ref()?;
        if cpu.groups.is_empty() {
            return None;
        }
        let other = cpu.groups.iter().filter(|g| ProcessRole::of(&g.group) == ProcessRole::Other);
        let sum: f64 = other.map(|group| group.processors).sum();
        // Below what is worth a word all are alike.
        Some(sum.max(QUIET))
    };
    let processors = |count: f64| {
        if count <= QUIET { "hardly any".to_owned() } else { format!("{count:.2} processors") }
    };
    found.quantity(kind, "other processes took", 0.5, others, processors);
    let steal = |group: usize, run: usize, _: &Record| {
        Some(summaries[group][run].cpu.as_ref()?.steal?.max(STEAL))
    };
    let percent = |share: f64| {
        if share <= STEAL { "hardly any".to_owned() } else { format!("{:.1} %", share * 100.0) }
    };
    found.quantity(kind, "the hypervisor took", 0.5, steal, percent);
    let checkpoints = |group: usize, run: usize, _: &Record| {
        Some(summaries[group][run].checkpoints.as_ref()?.completed as f64)
    };
    let completed = |count: f64| format!("{count:.1} a run");
    found.quantity(kind, "checkpoints completed", 0.2, checkpoints, completed);
}
