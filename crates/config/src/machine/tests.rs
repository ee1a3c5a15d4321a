//! A recorded tree: an array of four disks under the data, a bare disk under the WAL.

use std::os::unix::fs::symlink;

use walwright_catalog::parameter;

use super::*;
use crate::tree::Tree;

fn tree() -> Tree {
    let tree = Tree::new();
    tree.file("proc/sys/kernel/osrelease", "6.1.0-28-amd64\n");
    tree.file("proc/sys/vm/swappiness", "60\n");
    tree.file("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n");
    tree.file("proc/meminfo", "MemTotal:       65843212 kB\nHugePages_Total:     128\n");
    tree.file("proc/cpuinfo", "processor\t: 0\nmodel name\t: x\n\nprocessor\t: 1\n");
    tree.file("proc/77/limits", "Limit  Soft Limit\nMax open files            1024                 524288               files\n");
    tree.file("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    tree.file(
        "proc/self/mountinfo",
        "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
         40 22 9:0 / /data rw,noatime shared:2 - xfs /dev/md0 rw,attr2,logbsize=256k,sunit=128,swidth=512\n\
         41 22 259:3 / /the\\040wal rw,noatime - ext4 /dev/nvme9n1 rw\n",
    );
    tree.array("md0", "raid10", 4, 65536);
    tree.disk("nvme9n1", "259:3");
    tree.disk("sda", "8:0");
    tree.file("sys/block/sda/sda1/partition", "1\n");
    symlink("../../block/sda/sda1", tree.root().join("sys/dev/block/8:1")).unwrap();
    tree
}

fn view(tree: &Tree) -> MachineView {
    let (data, wal) = (Path::new("/data/main"), Path::new("/the wal/pg_wal"));
    MachineView::at(tree.root()).with_server(Some(data), Some(wal), Some(77))
}

fn values(view: &MachineView, name: &str, disk: Option<Disk>) -> Vec<(String, String)> {
    let found = view.read(parameter(name).unwrap(), disk);
    let shown = |found: Found| (found.device.unwrap_or_default(), found.reading.to_string());
    found.into_iter().map(shown).collect()
}

fn value(view: &MachineView, name: &str, disk: Option<Disk>) -> String {
    let found = values(view, name, disk);
    assert_eq!(found.len(), 1, "{name}: {found:?}");
    found[0].1.clone()
}

#[test]
fn values_of_the_kernel_are_read_below_the_root() {
    let tree = tree();
    let view = view(&tree);
    assert_eq!(value(&view, "vm.swappiness", None), "60");
    assert_eq!(value(&view, "net.ipv4.tcp_rmem", None), "4096 131072 6291456");
    assert_eq!(value(&view, "/sys/kernel/mm/transparent_hugepage/enabled", None), "madvise");
    assert_eq!(value(&view, "limit.nofile", None), "1024");
    assert_eq!(value(&view, "machine.processors", None), "2");
    assert_eq!(value(&view, "machine.memory_gb", None), "62.8");
    assert!(value(&view, "vm.dirty_ratio", None).starts_with("not present"));
    // Each kernel has it in its own place.
    let since = value(&view, "sched.base_slice_ns", None);
    assert_eq!(since, "not present: Linux 6.6 and later has it, and this is 6.1");
    assert!(value(&view, "kernel.sched_migration_cost_ns", None).contains("Linux up to 5.12"));
    let debugfs = value(&view, "sched.migration_cost_ns", None);
    assert!(debugfs.starts_with("not observable") && debugfs.contains("debugfs"), "{debugfs}");
    assert_eq!(view.meminfo("HugePages_Total"), Some(128.0));
}

#[test]
fn arrays_are_seen_through() {
    let tree = tree();
    let view = view(&tree);
    let data = Some(Disk::Data);
    assert_eq!(value(&view, "array.device", data), "/dev/md0");
    assert_eq!(value(&view, "array.level", data), "10");
    assert_eq!(value(&view, "array.members", data), "4");
    assert_eq!(value(&view, "array.chunk", data), "64");
    assert_eq!(value(&view, "array.stripe_width", data), "2");
    assert_eq!(value(&view, "array.member_size", data), "50");
    assert_eq!(value(&view, "array.bitmap", data), "internal");
    assert_eq!(value(&view, "xfs.sunit", data), "64");
    assert_eq!(value(&view, "array.mount_point", data), "/data");
    assert!(value(&view, "mount.options", data).contains("noatime,attr2,logbsize=256k"));
    let stripe = value(&view, "md/stripe_cache_size", data);
    assert_eq!(stripe, "not present: raid10 has no such attribute at its level");
    // The scheduler is that of each member, read-ahead that of the array.
    let schedulers = values(&view, "queue/scheduler", data);
    let names: Vec<&str> = schedulers.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["md0m0", "md0m1", "md0m2", "md0m3"]);
    assert!(schedulers.iter().all(|(_, value)| value == "mq-deadline"));
    assert_eq!(values(&view, "queue/read_ahead_kb", data)[0].0, "md0");
    assert_eq!(value(&view, "fs.separate_wal", None), "on");
}

#[test]
fn what_a_disk_is_not_is_not_invented() {
    let tree = tree();
    let view = view(&tree);
    let wal = Some(Disk::Wal);
    assert_eq!(value(&view, "array.level", wal), "not present: no array of md lies under the WAL");
    assert_eq!(value(&view, "xfs.agcount", wal), "not present: no XFS under the WAL, but ext4");
    assert!(value(&view, "xfs.agcount", Some(Disk::Data)).contains("xfs_info /data"));
    assert_eq!(values(&view, "queue/scheduler", wal)[0].0, "nvme9n1");
    let unknown = MachineView::at(tree.root());
    assert!(value(&unknown, "queue/scheduler", wal).starts_with("not observable"));
    assert!(value(&unknown, "limit.nofile", None).starts_with("not observable"));
    assert_eq!(unknown.read(parameter("work_mem").unwrap(), None), []);
    // A partition's queue is its disk's.
    let root = MachineView::at(tree.root()).with_server(Some(Path::new("/var/pg")), None, None);
    assert_eq!(values(&root, "queue/scheduler", Some(Disk::Data))[0].0, "sda");
}

#[test]
fn this_machine_can_be_read() {
    let view = MachineView::at(Path::new("/")).with_server(
        Some(Path::new("/")),
        Some(Path::new("/")),
        Some(std::process::id()),
    );
    assert!(view.kernel().is_some());
    let limit = value(&view, "limit.nofile", None);
    assert!(limit.parse::<u64>().is_ok() || limit == "unlimited", "{limit}");
    for parameter in walwright_catalog::parameters() {
        let disk = parameter.per_disk.then_some(Disk::Wal);
        let _ = view.read(parameter, disk);
    }
    assert!(value(&view, "vm.swappiness", None).parse::<u32>().is_ok());
}
