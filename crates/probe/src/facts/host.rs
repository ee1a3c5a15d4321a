//! What is known of the machine.

use std::collections::BTreeMap;
use std::path::Path;

use walwright_record::{DiskFacts, HostFacts};

use super::virtualisation;
use crate::host::cgroup::Cgroup;
use crate::host::disk::{Device, device_of, mount_of};
use crate::host::read::{processors_online, read_trimmed};

/// Kernel settings that matter to a write path, by their sysctl names.
const SYSCTLS: [&str; 43] = [
    "vm.dirty_ratio",
    "vm.dirty_bytes",
    "vm.dirty_background_ratio",
    "vm.dirty_background_bytes",
    "vm.dirty_expire_centisecs",
    "vm.dirty_writeback_centisecs",
    "vm.swappiness",
    "vm.overcommit_memory",
    "vm.overcommit_ratio",
    "vm.overcommit_kbytes",
    "vm.nr_hugepages",
    "vm.nr_overcommit_hugepages",
    "vm.min_free_kbytes",
    "vm.watermark_scale_factor",
    "vm.vfs_cache_pressure",
    "vm.zone_reclaim_mode",
    "vm.oom_kill_allocating_task",
    "kernel.sched_autogroup_enabled",
    "kernel.sched_rt_runtime_us",
    "kernel.numa_balancing",
    "kernel.sem",
    "kernel.shmmax",
    "kernel.shmall",
    "kernel.io_uring_disabled",
    "kernel.perf_event_paranoid",
    "kernel.task_delayacct",
    "fs.aio-max-nr",
    "fs.file-max",
    "net.core.somaxconn",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.core.netdev_max_backlog",
    "net.core.busy_read",
    "net.core.default_qdisc",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_autocorking",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.ip_local_port_range",
    "net.unix.max_dgram_qlen",
];

/// The same for files of `/sys`.
const SYS_FILES: [&str; 12] = [
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/mm/transparent_hugepage/defrag",
    "/sys/kernel/mm/transparent_hugepage/shmem_enabled",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver",
    "/sys/devices/system/cpu/cpu0/cpufreq/energy_performance_preference",
    "/sys/devices/system/cpu/cpufreq/boost",
    "/sys/devices/system/cpu/intel_pstate/no_turbo",
    "/sys/devices/system/cpu/smt/active",
    "/sys/devices/system/cpu/cpuidle/current_driver",
    "/sys/devices/system/node/online",
];

/// Attributes of a block device's queue that matter to a write path.
const QUEUE: [&str; 20] = [
    "scheduler",
    "write_cache",
    "fua",
    "rotational",
    "read_ahead_kb",
    "nr_requests",
    "wbt_lat_usec",
    "logical_block_size",
    "physical_block_size",
    "max_sectors_kb",
    "max_hw_sectors_kb",
    "atomic_write_unit_max_bytes",
    "rq_affinity",
    "nomerges",
    "io_poll",
    "iostats",
    "stable_writes",
    "zoned",
    "dax",
    "discard_max_bytes",
];

/// Describes this machine and the disks under the two directories. What cannot
/// be read is absent; what matters and is hidden is said in `not_observable`.
pub fn host_facts(data_directory: Option<&Path>, wal_directory: Option<&Path>) -> HostFacts {
    let mut not_observable = Vec::new();
    let mut disk = |directory: Option<&Path>, what: &str| {
        let facts = disk_facts(directory?);
        match &facts {
            None => not_observable.push(format!(
                "the disk under {what}: {} cannot be entered from here",
                directory.unwrap_or(Path::new("?")).display()
            )),
            Some(facts) if facts.device.is_none() => not_observable.push(format!(
                "the device under {what}: {} on {} has none that shows",
                facts.file_system, facts.mount
            )),
            Some(_) => {}
        }
        facts
    };
    let data_disk = disk(data_directory, "the data directory");
    let wal_disk = disk(wal_directory, "the WAL");
    let cgroup = Cgroup::of(std::process::id());
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    HostFacts {
        kernel: read_trimmed("/proc/sys/kernel/osrelease"),
        system: std::fs::read_to_string("/etc/os-release").ok().and_then(|text| pretty_name(&text)),
        cpu_model: std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| cpu_model(&text)),
        processors: processors_online(),
        memory_bytes: meminfo_bytes(&meminfo, "MemTotal"),
        swap_bytes: meminfo_bytes(&meminfo, "SwapTotal"),
        virtualisation: virtualisation::detect(),
        cgroup_cpus: cgroup.cpu_limit(),
        cgroup_memory_bytes: cgroup.memory_limit(),
        data_disk,
        wal_disk,
        kernel_settings: kernel_settings(&meminfo),
        not_observable,
    }
}

/// The file system and device under a directory; `None` where it cannot be entered.
pub(crate) fn disk_facts(directory: &Path) -> Option<DiskFacts> {
    let mount = mount_of(directory)?;
    let device = device_of(directory);
    let free_bytes = nix::sys::statvfs::statvfs(directory)
        .ok()
        .map(|space| space.blocks_available() * space.fragment_size());
    let options: Vec<String> = mount
        .mount_options
        .iter()
        .chain(&mount.super_options)
        .map(|(name, value)| match value {
            Some(value) => format!("{name}={value}"),
            None => name.clone(),
        })
        .collect();
    let options: std::collections::BTreeSet<String> = options.into_iter().collect();
    Some(DiskFacts {
        mount: mount.mount_point.display().to_string(),
        file_system: mount.fs_type,
        options: options.into_iter().collect::<Vec<_>>().join(","),
        queue: device.as_ref().map(queue).unwrap_or_default(),
        device: device.map(|device| device.name),
        free_bytes,
    })
}

/// Attributes of the disk under `device`, and what lies between (`stack`).
fn queue(device: &Device) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let stack = device.stack();
    if stack.len() > 1 || device.mapping().is_some() {
        let names: Vec<String> = stack
            .iter()
            .map(|device| match device.mapping() {
                Some(kind) => format!("{} ({kind})", device.name),
                None => device.name.clone(),
            })
            .collect();
        found.insert("stack".to_owned(), names.join(" > "));
    }
    let disk = device.disk();
    for name in QUEUE {
        if let Some(value) = read_trimmed(disk.sys.join("queue").join(name)) {
            found.insert(name.to_owned(), value);
        }
    }
    for name in ["model", "queue_depth"] {
        if let Some(value) = read_trimmed(disk.sys.join("device").join(name)) {
            found.insert(name.to_owned(), value);
        }
    }
    // Read-ahead of a partition or mapped device is its disk's or its own.
    if let Some(value) = read_trimmed(device.sys.join("queue/read_ahead_kb")) {
        found.insert("read_ahead_kb".to_owned(), value);
    }
    found
}

fn kernel_settings(meminfo: &str) -> BTreeMap<String, String> {
    let sysctls = SYSCTLS.iter().filter_map(|name| {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        let value = read_trimmed(path)?;
        Some(((*name).to_owned(), value.split_whitespace().collect::<Vec<_>>().join(" ")))
    });
    let files = SYS_FILES.iter().filter_map(|path| Some(((*path).to_owned(), read_trimmed(path)?)));
    let huge = ["HugePages_Total", "HugePages_Free", "Hugepagesize"].iter().filter_map(|name| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        Some((format!("meminfo.{name}"), line.trim().to_owned()))
    });
    sysctls.chain(files).chain(huge).collect()
}

fn pretty_name(os_release: &str) -> Option<String> {
    let value = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(value.trim_matches('"').to_owned())
}

/// `model name` on x86; ARM tells numbers only, which are given as they are.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    let field = |name: &str| {
        cpuinfo.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then(|| value.trim().to_owned())
        })
    };
    field("model name").or_else(|| {
        let (implementer, part) = (field("CPU implementer")?, field("CPU part")?);
        Some(format!("ARM implementer {implementer} part {part}"))
    })
}

fn meminfo_bytes(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kilobytes: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described() {
        let facts = host_facts(Some(Path::new("/")), Some(Path::new("/no/such/place")));
        assert!(facts.kernel.is_some() && facts.processors.unwrap() > 0);
        assert!(facts.memory_bytes.unwrap() > 1 << 20);
        assert_eq!(facts.data_disk.unwrap().mount, "/");
        assert_eq!(facts.wal_disk, None);
        assert!(facts.not_observable.iter().any(|s| s.contains("/no/such/place")));
        assert!(facts.kernel_settings.contains_key("vm.dirty_ratio"));
    }

    #[test]
    fn a_memory_file_system_is_told() {
        let shm = Path::new("/dev/shm");
        let Some(facts) = disk_facts(shm) else { return };
        if facts.file_system == "tmpfs" {
            assert_eq!(facts.device, None);
            assert!(facts.queue.is_empty());
        }
    }

    #[test]
    fn processors_name_themselves() {
        assert_eq!(cpu_model("model name\t: Xeon\n").as_deref(), Some("Xeon"));
        assert_eq!(
            cpu_model("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n").as_deref(),
            Some("ARM implementer 0x41 part 0xd0c")
        );
        assert_eq!(
            pretty_name("NAME=x\nPRETTY_NAME=\"Debian 12\"\n").as_deref(),
            Some("Debian 12")
        );
        assert_eq!(meminfo_bytes("MemTotal:  2 kB\n", "MemTotal"), Some(2048));
    }
}
