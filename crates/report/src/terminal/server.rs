//! Figures of the server, each list a line of the summary. Empty where nothing is known.

use walwright_figures::{ProcessRole, Summary};
use walwright_record::StorageProbe;

use crate::format;

/// WAL and flushes.
pub(super) fn wal(summary: &Summary) -> Vec<String> {
    let Some(of) = &summary.wal else { return Vec::new() };
    let unit = of.unit.name();
    let bytes = of.bytes_per_transaction.map(format::bytes);
    let flushes = of.flushes_per_transaction.map(|n| format!("{} flushes", format::number(n)));
    let cost: Vec<String> = [bytes, flushes].into_iter().flatten().collect();
    let mut figures = Vec::new();
    if !cost.is_empty() {
        figures.push(format!("{} per {unit}", cost.join(" and ")));
    }
    figures.extend(
        of.transactions_per_flush.map(|n| format!("{} {unit}s per flush", format::number(n))),
    );
    figures.extend(of.mean_flush.map(|d| format!("{} a flush", format::latency(d))));
    figures
}

/// Checkpoints inside the window.
pub(super) fn checkpoints(summary: &Summary) -> Vec<String> {
    let Some(seen) = &summary.checkpoints else { return Vec::new() };
    let mut figures = vec![match seen.completed {
        0 => "none completed in the window".to_owned(),
        n => format!("{} completed", format::count(n)),
    }];
    let written = seen.buffers_written.filter(|n| *n > 0);
    figures.extend(written.map(|n| format!("{} buffers written", format::count(n))));
    let writing = seen.write_time.filter(|d| !d.is_zero());
    figures.extend(writing.map(|d| format!("writing for {}", format::length(d))));
    figures
}

/// The storage probe before the run.
pub(super) fn storage(probe: &StorageProbe) -> Vec<String> {
    vec![
        format!("a flush took {} before the run", format::latency(probe.p50)),
        format!("p99 {}", format::latency(probe.p99)),
        format!("{} of {}", probe.method, format::bytes(probe.block_bytes.into())),
    ]
}

/// CPU of server, driver and machine.
pub(super) fn cpu(summary: &Summary) -> Vec<String> {
    let Some(cpu) = &summary.cpu else { return Vec::new() };
    let unit = cpu.unit.map_or("transaction", |u| u.name());
    let mut figures = Vec::new();
    figures.extend(
        cpu.server_per_transaction.map(|d| format!("server {} per {unit}", format::latency(d))),
    );
    figures.extend(cpu.driver_per_transaction.map(|d| format!("driver {}", format::latency(d))));
    for (role, name) in [
        (ProcessRole::Application, "application"),
        (ProcessRole::Generator, "load generator"),
        (ProcessRole::Pooler, "pooler"),
    ] {
        let of_role = cpu.groups.iter().filter(|group| ProcessRole::of(&group.group) == role);
        let used: Vec<f64> = of_role.map(|group| group.processors).collect();
        if !used.is_empty() {
            let used = format::number(used.iter().sum());
            figures.push(format!("{name} {used} processors"));
        }
    }
    figures.extend(cpu.busy.map(|share| format!("machine {} busy", format::percent(share))));
    figures.extend(
        cpu.steal.filter(|s| *s >= 0.005).map(|share| format!("{} stolen", format::percent(share))),
    );
    figures
}
