//! CPU of server, driver and machine.

use std::time::Duration;

use serde::Serialize;
use walwright_record::{LoadInterval, Record, Row, Source, Window};
use walwright_stats::median;

use crate::not_observable::Gaps;
use crate::seconds::duration;
use crate::window::{intervals_inside, transactions};
use crate::{Difference, Work, WorkUnit, difference, work_between};

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
    /// Time a transaction that the load generator's threads were ready to run and waited
    /// for a processor; `None` where it was not ours or the kernel does not count it.
    #[serde(with = "crate::seconds::option")]
    pub driver_run_delay_per_transaction: Option<Duration>,
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
    /// Time a transaction that its processes were ready to run and waited for a
    /// processor, where the kernel shows it.
    #[serde(with = "crate::seconds::option")]
    pub run_delay_per_transaction: Option<Duration>,
    /// Whether processes of it hold connections to the server.
    pub connected: bool,
}

impl CpuUse {
    /// A process group by name.
    pub fn group(&self, name: &str) -> Option<&GroupCpu> {
        self.groups.iter().find(|g| g.group == name)
    }

    /// walwright's gateway, where one runs on this machine.
    pub fn gateway(&self) -> Option<&GroupCpu> {
        self.group("pooler: walwright gateway")
    }
}

/// The group of the server's client backends.
pub const CLIENT_BACKENDS: &str = "server: client backends";
/// The group of another walwright on the machine, with its server and its load.
pub const OTHER_RUN: &str = "other: another walwright run";
/// The group of the probe's own backends: not a cost of the workload.
pub const PROBE_BACKENDS: &str = "server: walwright probe";

/// The group of what server processes used after they were last seen.
pub const EXITED_PROCESSES: &str = "server: exited processes";

/// Whether a process group is the server at work.
fn is_server(group: &str) -> bool {
    group.starts_with("server: ") && group != PROBE_BACKENDS
}

/// CPU seconds of a row of processes.
pub fn cpu_seconds(row: &Row) -> Option<f64> {
    Some(row.number("user_seconds")? + row.number("system_seconds")?)
}

/// CPU over the window. Everything about processes needs the server on this machine.
pub fn cpu_use(record: &Record, window: Window, gaps: &mut Gaps) -> CpuUse {
    let mut found = CpuUse {
        unit: None,
        server_per_transaction: None,
        driver_per_transaction: of_driver(record, window, |i| Some(i.driver_cpu)),
        driver_run_delay_per_transaction: of_driver(record, window, |i| i.driver_run_delay),
        groups: Vec::new(),
        busy: None,
        steal: None,
        system: None,
    };
    if let Some(processes) =
        gaps.note("CPU by process", difference(record, Source::Processes, window))
    {
        let work = work_between(record, processes.from, processes.to).ok();
        found.unit = work.map(|work| work.unit);
        found.groups = groups(&processes, work);
        let of_server = |row: &Row| row.text("process_group").is_some_and(is_server);
        let server = processes
            .net_where("user_seconds", of_server)
            .and_then(|user| Ok(user + processes.net_where("system_seconds", of_server)?));
        found.server_per_transaction = gaps
            .note("server CPU", server)
            .and_then(|cpu| work.and_then(|work| duration(cpu / work.count)));
    }
    // Read less often, so over a window of their own. Where there are none, no
    // other process took CPU worth listing.
    if let Ok(neighbours) = difference(record, Source::Neighbours, window) {
        let work = work_between(record, neighbours.from, neighbours.to).ok();
        found.groups.extend(groups(&neighbours, work));
    }
    found.groups.sort_by(|a, b| b.processors.total_cmp(&a.processors));
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

/// Share of a processor that the busiest thread of a group took, in the middle reading of
/// the window. Records that do not have it tell the mean of its processes.
pub fn busiest_thread(record: &Record, window: Window, group: &GroupCpu) -> Option<f64> {
    let rows: Vec<&Row> = group.rows(record, window).collect();
    let read: Vec<f64> = rows.iter().filter_map(|row| row.number("busiest_thread")).collect();
    if !read.is_empty() {
        return median(&read);
    }
    let processes = rows.iter().filter_map(|row| row.number("count")).max_by(f64::total_cmp)?;
    Some(group.processors / processes.max(1.0))
}

impl GroupCpu {
    /// Its rows inside a window.
    pub fn rows<'r>(&self, record: &'r Record, window: Window) -> impl Iterator<Item = &'r Row> {
        let name = self.group.clone();
        let samples = record.samples(Source::Neighbours).iter();
        samples
            .chain(record.samples(Source::Processes))
            .filter(move |sample| window.contains(sample.at))
            .flat_map(|sample| &sample.rows)
            .filter(move |row| row.text("process_group") == Some(name.as_str()))
    }
}

/// What a group has waited for a processor. Threads of clients are counted from the first look
/// at them, which knows no more than that.
fn run_delay(row: &Row) -> Option<f64> {
    let used = row.number("user_seconds")? + row.number("system_seconds")?;
    row.number("run_delay_seconds").or_else(|| (used == 0.0).then_some(0.0))
}

fn groups(processes: &Difference, work: Option<Work>) -> Vec<GroupCpu> {
    let seconds = processes.length().as_secs_f64();
    let per = |cpu: f64| work.and_then(|work| duration(cpu / work.count));
    processes
        .rows
        .iter()
        .filter_map(|row| {
            let cpu = row.delta("user_seconds")? + row.delta("system_seconds")?;
            Some(GroupCpu {
                group: row.last.text("process_group")?.to_owned(),
                processors: cpu / seconds,
                per_transaction: per(cpu),
                run_delay_per_transaction: row.moved(run_delay).and_then(per),
                connected: row.last.number("connected").is_some_and(|count| count > 0.0),
            })
        })
        .collect()
}

/// Time of the driver's threads a transaction; the clients of someone else's load do not
/// tell theirs. `None` where an interval does not have it.
fn of_driver(
    record: &Record,
    window: Window,
    time: impl Fn(&LoadInterval) -> Option<Duration>,
) -> Option<Duration> {
    if record.client.is_some() {
        return None;
    }
    let mut inside = intervals_inside(record, window);
    let (sum, count) = inside.try_fold((0.0, 0), |(sum, n), i| {
        Some((sum + time(i)?.as_secs_f64(), n + transactions(i)))
    })?;
    if count == 0 { None } else { duration(sum / count as f64) }
}

/// Kinds of time in `/proc/stat`. `guest` times are part of `user` and `nice`.
const KINDS: [&str; 8] = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];
/// Kinds that are the kernel's.
const IN_KERNEL: [&str; 3] = ["system", "irq", "softirq"];
/// Kinds that are no work of this machine.
const NOT_BUSY: [&str; 3] = ["idle", "iowait", "steal"];

#[cfg(test)]
mod tests {
    use super::*;
    use walwright_testing::{Build, named, row, second};

    const WINDOW: (f64, f64) = (5.0, 25.0);

    fn build() -> Build {
        let mut build = Build::new();
        build.load(0, 30, 1_000);
        for s in 0..30 {
            let t = f64::from(s);
            let group = |name: &str, user: f64, system: f64| {
                named(
                    [("process_group", name)],
                    [
                        ("user_seconds", 100.0 + user * t),
                        ("system_seconds", system * t),
                        ("run_delay_seconds", 0.1 * t),
                    ],
                )
            };
            let groups = vec![
                group(CLIENT_BACKENDS, 0.5, 0.3),
                group("server: walwriter", 0.05, 0.05),
                group(PROBE_BACKENDS, 0.01, 0.01),
                group("walwright", 0.1, 0.1),
            ];
            build.sample(t, Source::Processes, groups);
            if s % 5 == 1 {
                let seen = (s > 15).then(|| group("other: backup", 1.0, 0.0));
                build.sample(t, Source::Neighbours, seen);
            }
            build.sample(
                t,
                Source::Cpu,
                [row([
                    ("user", 0.8 * t),
                    ("nice", 0.0),
                    ("system", 0.4 * t),
                    ("idle", 0.5 * t),
                    ("iowait", 0.1 * t),
                    ("irq", 0.0),
                    ("softirq", 0.1 * t),
                    ("steal", 0.1 * t),
                    ("guest", 0.8 * t),
                ])],
            );
        }
        build
    }

    fn used(build: &Build) -> (CpuUse, Gaps) {
        let mut gaps = Gaps::default();
        let window = Window { start: second(WINDOW.0), end: second(WINDOW.1) };
        (cpu_use(&build.record, window, &mut gaps), gaps)
    }

    #[test]
    fn cpu_is_stated_per_transaction() {
        let (cpu, gaps) = used(&build());
        let near = |of: Option<Duration>, micros: f64| {
            (of.unwrap().as_secs_f64() * 1e6 - micros).abs() < 0.5
        };
        // 0.8 + 0.1 processors over 1,000 a second; the probe's backends left out.
        assert!(near(cpu.server_per_transaction, 900.0), "{cpu:?}");
        assert!(near(cpu.driver_per_transaction, 50.0));
        let backends = cpu.group(CLIENT_BACKENDS).unwrap();
        assert!((backends.processors - 0.8).abs() < 1e-9);
        assert!(near(backends.per_transaction, 800.0));
        assert!(near(backends.run_delay_per_transaction, 100.0));
        let order: Vec<&str> = cpu.groups.iter().map(|g| g.group.as_str()).take(2).collect();
        assert_eq!(order, ["other: backup", CLIENT_BACKENDS]);
        // Appeared at 16 s with what it had used since the probe began; neighbours
        // are read every five seconds, here at 6, 11, 16 and 21 s.
        assert!((cpu.group("other: backup").unwrap().processors - 121.0 / 15.0).abs() < 1e-9);
        assert!(gaps.0.is_empty());
    }

    #[test]
    fn a_process_that_changes_its_group_is_counted_once() {
        let mut build = build();
        // A backend of 3 CPU seconds is first taken for another kind of process.
        for (s, sample) in
            build.record.samples.get_mut(&Source::Processes).unwrap().iter_mut().enumerate()
        {
            let (other, shift) = if s < 10 { (3.0, 0.0) } else { (0.0, 3.0) };
            sample.rows.push(named(
                [("process_group", "server: other")],
                [("user_seconds", other), ("system_seconds", 0.0)],
            ));
            let before = sample.rows[0].number("user_seconds").unwrap();
            sample.rows[0].set("user_seconds", before + shift);
        }
        let (cpu, _) = used(&build);
        let micros = cpu.server_per_transaction.unwrap().as_secs_f64() * 1e6;
        assert!((micros - 900.0).abs() < 0.5, "{micros}");
    }

    #[test]
    fn shares_of_the_machine_add_up_without_guest_time() {
        let (cpu, _) = used(&build());
        assert!((cpu.busy.unwrap() - 0.65).abs() < 1e-9);
        assert!((cpu.system.unwrap() - 0.25).abs() < 1e-9);
        assert!((cpu.steal.unwrap() - 0.05).abs() < 1e-9);
    }

    #[test]
    fn a_remote_server_shows_no_processes() {
        let mut build = Build::new();
        build.load(0, 30, 1_000);
        let (cpu, gaps) = used(&build);
        assert_eq!((cpu.server_per_transaction, cpu.busy), (None, None));
        assert!(cpu.driver_per_transaction.is_some());
        let figures: Vec<&str> = gaps.0.iter().map(|g| g.figure.as_str()).collect();
        assert_eq!(figures, ["CPU by process", "machine CPU"]);
    }
}
