//! Good practice for the machine of a database that is written to: the few values that
//! are wrong nearly everywhere.

use walwright_catalog::{Disk, parameter};

use super::sight::Sight;
use super::{CheckItem, Standing};

/// From how many dirty bytes on a burst of writing holds up every flush.
const BURST: f64 = 1_073_741_824.0;

pub(super) fn items(sight: &Sight) -> Vec<CheckItem> {
    let mut items = Vec::new();
    let Some(machine) = sight.machine() else { return items };
    let known = Known {
        memory: sight.memory(),
        swap: machine.meminfo("SwapTotal"),
        dirty_background: machine.number("vm.dirty_background_ratio"),
        several_nodes: machine.memory_nodes().is_some_and(|nodes| nodes > 1),
    };
    for (name, judge) in judges() {
        let Some(parameter) = parameter(name) else { continue };
        let disks: &[Option<Disk>] = match parameter.per_disk {
            true => &[Some(Disk::Data), Some(Disk::Wal)],
            false => &[None],
        };
        for disk in disks {
            for place in machine.read(parameter, *disk) {
                let Some(found) = place.reading.value() else { continue };
                let Some((wanted, why)) = judge(found, &known) else { continue };
                let item = CheckItem {
                    name: name.to_owned(),
                    scope: disk.map(|disk| disk.to_string()),
                    device: place.device.clone(),
                    layer: parameter.layer.clone(),
                    standing: Standing::Advice,
                    wanted,
                    found: Some(found.to_owned()),
                    why: Some(why),
                    class: parameter.class.to_string(),
                    apply: parameter.apply(u32::MAX).words().to_owned(),
                };
                // Data and WAL may share a disk.
                let known =
                    |other: &CheckItem| other.name == item.name && other.device == item.device;
                if !items.iter().any(known) {
                    items.push(item);
                }
            }
        }
    }
    items
}

struct Known {
    memory: Option<f64>,
    swap: Option<f64>,
    /// In per cent; 0 where it is set in bytes.
    dirty_background: Option<f64>,
    several_nodes: bool,
}

/// What is wanted instead of a value found, and why.
type Judge = fn(&str, &Known) -> Option<(String, String)>;

fn judges() -> [(&'static str, Judge); 9] {
    fn say(wanted: &str, why: &str) -> Option<(String, String)> {
        Some((wanted.to_owned(), why.to_owned()))
    }
    [
        ("/sys/kernel/mm/transparent_hugepage/enabled", |found, _| {
            (found == "always").then_some(())?;
            say("madvise", "compaction for huge pages nobody asked for can stall a session")
        }),
        ("vm.zone_reclaim_mode", |found, known| {
            (found != "0" && known.several_nodes).then_some(())?;
            say("0", "cached files of one node are dropped while another has room")
        }),
        ("kernel.numa_balancing", |found, known| {
            (found != "0" && known.several_nodes).then_some(())?;
            say("0", "shared memory is used from all nodes: moving it makes sessions fault")
        }),
        ("vm.swappiness", |found, known| {
            (found.parse::<f64>().ok()? > 10.0 && known.swap? > 0.0).then_some(())?;
            say("1", "sessions and shared memory are swapped out to keep files cached")
        }),
        ("vm.dirty_background_bytes", |found, known| {
            let bytes = known.dirty_background? / 100.0 * known.memory?;
            (found == "0" && bytes > BURST).then_some(())?;
            let why = format!(
                "up to {:.1} GB may be dirty before the kernel begins to write, and flushes then wait behind it",
                bytes / BURST
            );
            say("256MB", &why)
        }),
        ("cpufreq.scaling_governor", |found, _| {
            (found == "powersave" || found == "ondemand").then_some(())?;
            say("performance", "a processor that waits for flushes lowers its clock")
        }),
        ("queue/scheduler", |found, _| {
            (found == "bfq").then_some(())?;
            say("none", "it shares a disk between programs fairly, which a database alone pays for")
        }),
        ("queue/nomerges", |found, _| {
            (found == "2").then_some(())?;
            say("0", "adjoining writes go to the disk one by one")
        }),
        ("mount.options", |found, _| {
            let strict = found.split(',').any(|option| option == "strictatime");
            strict.then_some(())?;
            say("noatime", "each read of a file is a write of its time")
        }),
    ]
}
