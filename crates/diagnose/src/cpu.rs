//! CPU of server, driver and machine.

use std::time::Duration;

use serde::Serialize;
use walwright_record::{Record, Row, Source, Window};

use crate::not_observable::Gaps;
use crate::seconds::duration;
use crate::window::{intervals_inside, transactions};
use crate::{WorkUnit, difference, work_between};

/// CPU over the window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CpuUse {
    /// What the figures are per.
    pub unit: Option<WorkUnit>,
    /// CPU of all server processes a transaction; `None` where they cannot be seen.
    #[serde(with = "crate::seconds::option")]
    pub server_per_transaction: Option<Duration>,
    /// CPU of the load generator a transaction; `None` for a load that was not ours.
    #[serde(with = "crate::seconds::option")]
    pub driver_per_transaction: Option<Duration>,
    /// Process groups by CPU, descending.
    pub groups: Vec<GroupCpu>,
    /// Share of all processors' time spent on work, 0 to 1.
    pub busy: Option<f64>,
    /// Share of all processors' time the hypervisor took away, 0 to 1.
    pub steal: Option<f64>,
    /// Share of all processors' time spent in the kernel, 0 to 1.
    pub system: Option<f64>,
}

/// CPU of one process group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupCpu {
    /// The group's name.
    pub group: String,
    /// Processors it kept busy.
    pub processors: f64,
    /// CPU time a transaction.
    #[serde(with = "crate::seconds::option")]
    pub per_transaction: Option<Duration>,
}

/// Whether a process group of the probe is part of the server. The probe's own
/// backends are not: their cost is not the workload's.
fn is_server(group: &str) -> bool {
    group.starts_with("postgres")
}

/// CPU over the window. Everything about processes needs the server on this machine.
pub(crate) fn cpu_use_noting(record: &Record, window: Window, gaps: &mut Gaps) -> CpuUse {
    let mut found = CpuUse {
        unit: None,
        server_per_transaction: None,
        driver_per_transaction: driver_cpu(record, window),
        groups: Vec::new(),
        busy: None,
        steal: None,
        system: None,
    };
    if let Some(processes) =
        gaps.note("CPU by process", difference(record, Source::Processes, window))
    {
        let work = work_between(record, processes.from, processes.to).ok();
        let seconds = processes.length().as_secs_f64();
        let per = |cpu: f64| work.and_then(|work| duration(cpu / work.count));
        found.unit = work.map(|work| work.unit);
        found.groups = processes
            .rows
            .iter()
            .filter_map(|row| {
                let cpu = row.delta("cpu_seconds")?;
                Some(GroupCpu {
                    group: row.last.text("process_group")?.to_owned(),
                    processors: cpu / seconds,
                    per_transaction: per(cpu),
                })
            })
            .collect();
        found.groups.sort_by(|a, b| b.processors.total_cmp(&a.processors));
        let of_server = |row: &Row| row.text("process_group").is_some_and(is_server);
        let server = processes.sum_where("cpu_seconds", of_server);
        found.server_per_transaction = gaps.note("server CPU", server).and_then(per);
    }
    if let Some(machine) = gaps.note("machine CPU", difference(record, Source::Cpu, window)) {
        let sum = |kinds: &[&str]| -> Option<f64> {
            kinds.iter().map(|kind| machine.sum(kind).ok()).sum()
        };
        let total = sum(&KINDS).filter(|total| *total > 0.0);
        let share = |kinds: &[&str]| Some(sum(kinds)? / total?);
        found.busy = share(&NOT_BUSY).map(|rest| 1.0 - rest);
        found.system = share(&IN_KERNEL);
        found.steal = share(&["steal"]);
    }
    found
}

/// CPU over the window.
pub fn cpu_use(record: &Record, window: Window) -> CpuUse {
    cpu_use_noting(record, window, &mut Gaps::default())
}

/// CPU of the driver's threads a transaction.
fn driver_cpu(record: &Record, window: Window) -> Option<Duration> {
    let (cpu, count) = intervals_inside(record, window)
        .fold((0.0, 0), |(cpu, n), i| (cpu + i.driver_cpu.as_secs_f64(), n + transactions(i)));
    if count == 0 { None } else { duration(cpu / count as f64) }
}

/// Kinds of time in `/proc/stat`. `guest` times are part of `user` and `nice`.
const KINDS: [&str; 8] = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];
/// Kinds that are the kernel's.
const IN_KERNEL: [&str; 3] = ["system", "irq", "softirq"];
/// Kinds that are no work of this machine.
const NOT_BUSY: [&str; 3] = ["idle", "iowait", "steal"];
