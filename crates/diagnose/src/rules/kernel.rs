//! The kernel and the block devices under the server.

use walwright_figures::WaitClass;
use walwright_figures::data_disk_use::{SECTOR, rate};
use walwright_record::{DiskFacts, Source};

use super::commit::COMMIT;
use super::threshold::worth;
use crate::{Action, DiagnosisId, Evidence, Finding, Kind, Reading, Value};

/// Share of the busy time in the kernel that is more than the system calls of a
/// write path: those take a third to a half for short transactions.
const KERNEL: f64 = 0.65;
/// Part of the limit on dirty pages at which writers are made to wait.
const NEARLY: f64 = 0.8;
/// Bytes a second read from the device that are bulk reads.
const BULK: f64 = 20.0 * 1024.0 * 1024.0;
/// Read-ahead that serves bulk reads; less means more and smaller requests.
const READ_AHEAD_KB: f64 = 1024.0;

pub(super) fn findings(reading: &Reading) -> Vec<Finding> {
    [read_ahead(reading), encryption(reading), write_back(reading), system_time(reading)]
        .into_iter()
        .flatten()
        .collect()
}

fn data_disk<'r>(reading: &Reading<'r>) -> Option<&'r DiskFacts> {
    reading.record.host.as_ref().filter(|_| reading.is_local())?.data_disk.as_ref()
}

fn wal_disk<'r>(reading: &Reading<'r>) -> Option<&'r DiskFacts> {
    reading.record.host.as_ref().filter(|_| reading.is_local())?.wal_disk.as_ref()
}

/// D50: bulk reads with little read-ahead.
fn read_ahead(reading: &Reading) -> Option<Finding> {
    let disk = data_disk(reading)?;
    let device = disk.device.as_deref()?;
    let kilobytes: f64 = disk.queue.get("read_ahead_kb")?.parse().ok()?;
    let io = reading.difference(Source::Disk).ok()?;
    let bytes = rate(&io, device, "read_sectors")? * SECTOR;
    if kilobytes >= READ_AHEAD_KB || bytes < BULK {
        return None;
    }
    let time = reading.in_classes(&[WaitClass::Io])?;
    let impact = worth(reading, Some(time))?;
    let path = format!("/sys/block/{device}/queue/read_ahead_kb");
    Some(
        reading
            .finding(
                DiagnosisId::D50,
                Kind::Information,
                format!(
                    "{device} is read at {:.0} MB/s with a read-ahead of {kilobytes:.0} kB: scans and \
                     vacuum ask for small pieces.",
                    bytes / 1048576.0
                ),
            )
            .seen([
                Evidence::new("/proc/diskstats", "read", Value::Bytes(bytes)).per(crate::Per::Second),
                Evidence::new(&path, "read-ahead", Value::Bytes(kilobytes * 1024.0)),
            ])
            .costs(Some(impact))
            .advise(Action::kernel(
                "Read further ahead; random reads do not profit.",
                &path,
                "4096",
                Some(&format!("{kilobytes:.0}")),
            )),
    )
}

/// D51: the WAL goes through dm-crypt.
fn encryption(reading: &Reading) -> Option<Finding> {
    let stack = wal_disk(reading)?.queue.get("stack")?;
    if !stack.contains("crypt") {
        return None;
    }
    let impact = worth(reading, reading.in_classes(&COMMIT))?;
    Some(
        reading
            .finding(
                DiagnosisId::D51,
                Kind::Information,
                "The WAL is written through dm-crypt, whose work queues add to every flush.",
            )
            .seen([Evidence::new("/sys/block", "stack", Value::Text(stack.clone()))])
            .costs(Some(impact))
            .blind_to("What part of a flush the encryption takes.")
            .advise(Action::advice(
                "From Linux 5.9 the queues can be left out: cryptsetup refresh \
                 --perf-no_read_workqueue --perf-no_write_workqueue NAME.",
            )),
    )
}

/// D52: so much is dirty that the kernel makes writers wait.
fn write_back(reading: &Reading) -> Option<Finding> {
    if !reading.is_local() {
        return None;
    }
    let rows = || {
        let samples = reading.record.samples(Source::Memory).iter();
        samples.filter(|s| reading.window.contains(s.at)).flat_map(|s| &s.rows)
    };
    // Pages of 4 kB; the limits of the moment stand beside them.
    let (dirty, limit) = rows()
        .filter_map(|row| {
            let dirty = row.number("nr_dirty")? + row.number("nr_writeback").unwrap_or(0.0);
            Some((dirty, row.number("nr_dirty_threshold").filter(|l| *l > 0.0)?))
        })
        .max_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)))?;
    if dirty < NEARLY * limit {
        return None;
    }
    let settings = &reading.record.host.as_ref()?.kernel_settings;
    let now = settings.get("vm.dirty_background_bytes").map(String::as_str);
    Some(
        reading
            .finding(
                DiagnosisId::D52,
                Kind::Problem,
                format!(
                    "{:.0} MB are dirty in the page cache, {:.0} % of the limit at which the kernel \
                     makes every writer wait: write-back comes in bursts.",
                    dirty * 4096.0 / 1048576.0,
                    100.0 * dirty / limit
                ),
            )
            .seen([
                Evidence::new("/proc/vmstat nr_dirty", "dirty at most", Value::Bytes(dirty * 4096.0)),
                Evidence::new("/proc/vmstat nr_dirty_threshold", "limit", Value::Bytes(limit * 4096.0)),
            ])
            .costs(worth(reading, reading.in_classes(&[WaitClass::Io])))
            .advise(Action::kernel(
                "Begin to write back early and evenly.",
                "vm.dirty_background_bytes",
                "67108864",
                now,
            )),
    )
}

/// D56: most of the busy time is the kernel's.
fn system_time(reading: &Reading) -> Option<Finding> {
    let cpu = reading.summary.cpu.as_ref()?;
    let (system, busy) = (cpu.system?, cpu.busy.filter(|busy| *busy > 0.3)?);
    let share = system / busy;
    if share < KERNEL {
        return None;
    }
    let machine = reading.difference(Source::Cpu).ok()?;
    let switches = machine.sum("ctxt").ok().map(|n| n / machine.length().as_secs_f64());
    Some(
        reading
            .finding(
                DiagnosisId::D56,
                Kind::Symptom,
                format!(
                    "{:.0} % of the busy time is spent in the kernel: system calls, context \
                     switches, page faults.",
                    share * 100.0
                ),
            )
            .seen([Evidence::new(
                "/proc/stat",
                "share of busy time in the kernel",
                Value::Fraction(share),
            )])
            .seen(switches.map(|n| {
                Evidence::new("/proc/stat ctxt", "context switches", Value::Count(n))
                    .per(crate::Per::Second)
            }))
            .advise(Action::advice(
                "Fewer sessions and fewer, larger messages make fewer switches; perf top shows \
                 which calls.",
            )),
    )
}
