//! Values that do not go together, or not with the machine.

use std::fs;

use serde::Serialize;
use walwright_catalog::{Disk, Place, Scope, mount_notes};

use super::sight::Sight;
use crate::machine::BlockDevice;

const MB: f64 = 1_048_576.0;
const GB: f64 = 1_073_741_824.0;
/// Huge pages beyond the need from which the waste is worth a line, as a share of it.
const SPARE: f64 = 0.15;

/// How much a contradiction matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// The server does not start, stops, loses data, or memory lies idle.
    Problem,
    /// It may come to that, or could not be seen to the end.
    Warning,
}

/// Values that do not go together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Contradiction {
    /// How much it matters.
    pub weight: Weight,
    /// What does not go together, with the figures.
    pub what: String,
    /// What to do.
    pub remedy: String,
}

struct List(Vec<Contradiction>);

impl List {
    fn problem(&mut self, what: impl Into<String>, remedy: impl Into<String>) {
        self.0.push(Contradiction {
            weight: Weight::Problem,
            what: what.into(),
            remedy: remedy.into(),
        });
    }

    fn warning(&mut self, what: impl Into<String>, remedy: impl Into<String>) {
        self.0.push(Contradiction {
            weight: Weight::Warning,
            what: what.into(),
            remedy: remedy.into(),
        });
    }
}

pub(super) fn found(sight: &Sight) -> Vec<Contradiction> {
    let mut list = List(Vec::new());
    huge_pages(sight, &mut list);
    commit_limit(sight, &mut list);
    wal_disk(sight, &mut list);
    sessions(sight, &mut list);
    dirty(sight, &mut list);
    write_cache(sight, &mut list);
    shared_disk(sight, &mut list);
    mounts(sight, &mut list);
    asynchronous(sight, &mut list);
    limits(sight, &mut list);
    list.0.sort_by_key(|found| found.weight);
    list.0
}

/// Huge pages that shared memory takes, and whether the server itself says so.
fn huge_pages_needed(sight: &Sight) -> Option<(f64, bool)> {
    let told = sight.server().and_then(|server| server.number("shared_memory_size_in_huge_pages"));
    let resized = ["shared_buffers", "wal_buffers", "max_connections", "huge_page_size"]
        .iter()
        .any(|name| sight.wants(name));
    if let Some(pages) = told.filter(|pages| *pages > 0.0 && !resized) {
        return Some((pages, true));
    }
    // Besides buffers there are locks, sessions and caches: some per cent.
    let buffers = sight.bytes("shared_buffers")?;
    let wal = sight.bytes("wal_buffers").unwrap_or((buffers / 32.0).min(16.0 * MB));
    Some(((1.03 * buffers + wal + 8.0 * MB) / sight.huge_page(), false))
}

fn huge_pages(sight: &Sight, list: &mut List) {
    let Some(mode) = sight.text("huge_pages") else { return };
    let Some(reserved) = sight.number("vm.nr_hugepages") else { return };
    let Some((needed, exact)) = huge_pages_needed(sight) else { return };
    let page = sight.huge_page();
    let needed = needed.ceil();
    let how =
        if exact { "shared_memory_size_in_huge_pages" } else { "shared_buffers and some more" };
    let held = format!("vm.nr_hugepages is {reserved}");
    let surplus = sight
        .machine()
        .and_then(|machine| machine.number("vm.nr_overcommit_hugepages"))
        .unwrap_or(0.0);
    // What is estimated says nothing of a few pages more or less.
    let least = if exact { needed } else { 0.96 * needed };
    if mode != "off" && reserved + surplus < least {
        let need = format!("shared memory needs {needed} huge pages by {how}, and {held}");
        let remedy = format!("vm.nr_hugepages = {needed}, then restart the server");
        match mode.as_str() {
            "on" => list
                .problem(format!("{need}: with huge_pages = on the server does not start"), remedy),
            _ if reserved > 0.0 => list.problem(
                format!(
                    "{need}: with huge_pages = try the server starts without any, and {} lie idle",
                    size(reserved * page)
                ),
                remedy,
            ),
            _ => {}
        }
    } else if mode == "off" && reserved > 0.0 {
        list.problem(
            format!("huge_pages is off, and {held}: {} serve nothing", size(reserved * page)),
            "huge_pages = on, or vm.nr_hugepages = 0",
        );
    } else if reserved > (1.0 + SPARE) * needed && (reserved - needed) * page > 256.0 * MB {
        list.warning(
            format!(
                "{held}, and shared memory needs {needed} by {how}: {} serve nothing else",
                size((reserved - needed) * page)
            ),
            format!("vm.nr_hugepages = {needed}"),
        );
    }
}

/// Under strict accounting, what the kernel promises in all against what is asked.
fn commit_limit(sight: &Sight, list: &mut List) {
    if sight.number("vm.overcommit_memory") != Some(2.0) {
        return;
    }
    let (Some(memory), Some(ratio)) = (sight.memory(), sight.number("vm.overcommit_ratio")) else {
        return;
    };
    let swap = sight.machine().and_then(|m| m.meminfo("SwapTotal")).unwrap_or(0.0);
    let huge = sight.number("vm.nr_hugepages").unwrap_or(0.0) * sight.huge_page();
    let limit = (memory - huge).max(0.0) * ratio / 100.0 + swap;
    let in_huge_pages = !sight.is_off("huge_pages") && huge > 0.0;
    let buffers = sight.bytes("shared_buffers").filter(|_| !in_huge_pages).unwrap_or(0.0);
    let Some(work) = work(sight) else { return };
    let asked = buffers + work;
    if buffers > limit {
        list.problem(
            format!(
                "vm.overcommit_memory = 2 with vm.overcommit_ratio = {ratio} promises {}, less than shared_buffers of {}: the server does not start",
                size(limit),
                size(buffers)
            ),
            "raise vm.overcommit_ratio",
        );
    } else if asked > limit {
        let pages = if huge > 0.0 {
            format!(" ({} of huge pages do not count)", size(huge))
        } else {
            String::new()
        };
        list.warning(
            format!(
                "vm.overcommit_memory = 2 promises {}{pages}, and sessions with their work_mem may ask for {}: they get \"out of memory\" while memory is free",
                size(limit),
                size(asked)
            ),
            "raise vm.overcommit_ratio, or lower work_mem or max_connections",
        );
    }
}

/// Memory that sessions and vacuums may take at once: work_mem once each.
fn work(sight: &Sight) -> Option<f64> {
    let sessions = sight.number("max_connections")? * sight.bytes("work_mem")?;
    let maintenance = sight.bytes("autovacuum_work_mem").or(sight.bytes("maintenance_work_mem"));
    let workers = sight.number("autovacuum_max_workers").unwrap_or(3.0);
    Some(sessions + workers * maintenance.unwrap_or(0.0))
}

fn sessions(sight: &Sight, list: &mut List) {
    let (Some(memory), Some(work)) = (sight.memory(), work(sight)) else { return };
    let (Some(sessions), Some(each)) = (sight.number("max_connections"), sight.bytes("work_mem"))
    else {
        return;
    };
    let buffers = sight.bytes("shared_buffers").unwrap_or(0.0);
    let huge = sight.number("vm.nr_hugepages").unwrap_or(0.0) * sight.huge_page();
    // Reserved pages are gone from the rest whether shared memory takes them or not.
    let shared = if sight.is_off("huge_pages") { buffers + huge } else { buffers.max(huge) };
    if shared > memory {
        list.problem(
            format!(
                "shared_buffers of {} and huge pages of {} go beyond memory of {}",
                size(buffers),
                size(huge),
                size(memory)
            ),
            "lower shared_buffers or vm.nr_hugepages",
        );
    } else if shared + work > memory {
        list.warning(
            format!(
                "{sessions} sessions with work_mem of {} and the vacuums may take {} beside {} of shared memory, of {} in all: the kernel may kill the server, or swap",
                size(each),
                size(work),
                size(shared),
                size(memory)
            ),
            "lower work_mem or max_connections, or put a pooler in front",
        );
    }
}

/// WAL between two checkpoints, and what is kept besides, against its disk.
fn wal_disk(sight: &Sight, list: &mut List) {
    let Some(most) = sight.bytes("max_wal_size") else { return };
    let kept = sight.bytes("wal_keep_size").unwrap_or(0.0);
    let Some(room) = sight.wal_room() else { return };
    let asked = most + kept;
    if asked > room {
        list.problem(
            format!(
                "max_wal_size of {}{} does not fit the disk of the WAL, which has room for {}: a full disk stops the server",
                size(most),
                if kept > 0.0 { format!(" and wal_keep_size of {}", size(kept)) } else { String::new() },
                size(room)
            ),
            format!("max_wal_size = {}GB at most", (0.8 * room / GB).floor().max(1.0)),
        );
    } else if asked > 0.8 * room {
        list.warning(
            format!(
                "max_wal_size of {} leaves little of the {} that the WAL's disk has: it is a soft limit, and a busy server goes beyond it",
                size(most),
                size(room)
            ),
            format!("max_wal_size = {}GB at most", (0.8 * room / GB).floor().max(1.0)),
        );
    }
}

fn dirty(sight: &Sight, list: &mut List) {
    for (background, foreground) in [
        ("vm.dirty_background_ratio", "vm.dirty_ratio"),
        ("vm.dirty_background_bytes", "vm.dirty_bytes"),
    ] {
        if let (Some(low), Some(high)) = (sight.number(background), sight.number(foreground))
            && high > 0.0
            && low >= high
        {
            list.problem(
                format!("{background} = {low} is not below {foreground} = {high}: writers are stopped before the kernel begins to write by itself"),
                format!("{background} below {foreground}"),
            );
        }
    }
    for (ratio, bytes) in [
        ("vm.dirty_ratio", "vm.dirty_bytes"),
        ("vm.dirty_background_ratio", "vm.dirty_background_bytes"),
    ] {
        let set = |name: &str| {
            let entry = sight.profile().and_then(|profile| profile.get(name, None));
            entry.and_then(|entry| entry.read()?.number()).is_some_and(|number| number > 0.0)
        };
        if set(ratio) && set(bytes) {
            list.problem(
                format!("{ratio} and {bytes} are both set: the kernel keeps the one written last"),
                format!("leave one of them out; {bytes} is the finer"),
            );
        }
    }
}

/// A disk whose cache forgets, and a kernel that does not flush it.
fn write_cache(sight: &Sight, list: &mut List) {
    let Some(machine) = sight.machine() else { return };
    let mut seen: Vec<String> = Vec::new();
    for disk in Disk::ALL {
        let leaves = machine.disk(disk).into_iter().flat_map(|view| view.leaves());
        for device in leaves {
            if seen.contains(&device.name) {
                continue;
            }
            seen.push(device.name.clone());
            let queue = device.sys.join("queue/write_cache");
            let Ok(kernel) = fs::read_to_string(queue) else { continue };
            let kernel = kernel.trim();
            let told = told_by_device(device);
            if kernel == "write through"
                && told.as_deref().is_some_and(|own| own.starts_with("write back"))
            {
                list.problem(
                    format!(
                        "{} under the {disk} says it has a write cache (write back), and the kernel takes it to have none (write through): flushes never reach the disk, so a loss of power loses commits and can corrupt the cluster",
                        device.name
                    ),
                    format!("echo 'write back' > /sys/block/{}/queue/write_cache, and find what sets it", device.name),
                );
            }
        }
    }
}

/// Values for data and WAL each, where both lie on one disk that can have one.
fn shared_disk(sight: &Sight, list: &mut List) {
    let (Some(machine), Some(profile)) = (sight.machine(), sight.profile()) else { return };
    let (data, wal) = (Scope::Disk(Disk::Data), Scope::Disk(Disk::Wal));
    for entry in &profile.entries {
        let is_queue = matches!(entry.parameter.place, Place::Queue(_));
        if !is_queue || entry.scope.as_ref() != Some(&data) {
            continue;
        }
        let Some(other) = profile.get(&entry.parameter.name, Some(&wal)) else { continue };
        if entry.read() == other.read() {
            continue;
        }
        let of = |disk| machine.read(entry.parameter, Some(disk));
        let (here, there) = (of(Disk::Data), of(Disk::Wal));
        let shared = here.iter().find(|place| place.path.is_some() && there.contains(place));
        if let Some(device) = shared.and_then(|place| place.device.as_ref()) {
            list.problem(
                format!(
                    "{} is wanted as {} for the data and {} for the WAL, and both lie on {device}, which can have one",
                    entry.parameter.name, entry.value, other.value
                ),
                "leave one of them out, or give the WAL a disk of its own",
            );
        }
    }
}

/// What the disk itself says of its cache, where its driver shows it: SCSI and virtio.
fn told_by_device(device: &BlockDevice) -> Option<String> {
    if let Ok(text) = fs::read_to_string(device.sys.join("cache_type")) {
        return Some(text.trim().to_owned());
    }
    let entries = fs::read_dir(device.sys.join("device/scsi_disk")).ok()?;
    entries
        .flatten()
        .find_map(|entry| fs::read_to_string(entry.path().join("cache_type")).ok())
        .map(|text| text.trim().to_owned())
}

/// Mount options that make a mount fail, or flushes void.
fn mounts(sight: &Sight, list: &mut List) {
    for disk in Disk::ALL {
        let there = sight.machine().and_then(|machine| machine.disk(disk));
        let system = there
            .map(|view| view.mount.file_system.clone())
            .or_else(|| sight.text("fs.type"))
            .unwrap_or_default();
        let scope = Scope::Disk(disk);
        let wanted = sight.profile().and_then(|profile| profile.get("mount.options", Some(&scope)));
        let wanted = wanted.map(|entry| entry.value.clone());
        let mounted = there.map(|view| view.mount.options.join(","));
        let Some(options) = wanted.or(mounted) else { continue };
        let all: Vec<&str> = options.split(',').map(str::trim).collect();
        for option in &all {
            if let Some(note) = mount_notes(option, &all, &system).filter(|note| note.refused) {
                list.problem(
                    format!("mount option {option} of the {disk}: {}", note.why),
                    format!("leave {option} out"),
                );
            }
        }
        if system == "tmpfs" || system == "ramfs" {
            list.problem(
                format!("the {disk} lies in memory ({system}): nothing in it survives a reboot"),
                "move it to a disk",
            );
        }
    }
}

fn asynchronous(sight: &Sight, list: &mut List) {
    let disabled = sight.machine().and_then(|machine| machine.number("kernel.io_uring_disabled"));
    if sight.text("io_method").as_deref() == Some("io_uring")
        && let Some(disabled) = disabled.filter(|disabled| *disabled > 0.0)
    {
        list.problem(
            format!("io_method = io_uring, and kernel.io_uring_disabled is {disabled}: the server does not start"),
            "kernel.io_uring_disabled = 0, or io_method = worker",
        );
    }
}

fn limits(sight: &Sight, list: &mut List) {
    if let (Some(limit), Some(files)) =
        (sight.number("limit.nofile"), sight.number("max_files_per_process"))
        && limit < files
    {
        list.warning(
            format!("a process may open {limit} files, and max_files_per_process is {files}: the server lowers it"),
            format!("LimitNOFILE={} in its systemd unit", 2.0 * files),
        );
    }
}

/// Bytes for a sentence.
fn size(bytes: f64) -> String {
    if bytes >= 10.0 * GB {
        format!("{:.0} GB", bytes / GB)
    } else if bytes >= GB {
        format!("{:.1} GB", bytes / GB)
    } else {
        format!("{:.0} MB", bytes / MB)
    }
}
