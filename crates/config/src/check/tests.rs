//! Checks of recorded machines, without a server.

use std::path::Path;

use walwright_catalog::Profile;

use super::*;
use crate::MachineView;
use crate::tree::Tree;

/// A machine of 64 GB with an array under the data and a SCSI disk under the WAL.
fn tree() -> Tree {
    let tree = Tree::new();
    tree.file("proc/sys/kernel/osrelease", "6.1.0\n");
    tree.file(
        "proc/meminfo",
        "MemTotal:       67108864 kB\nSwapTotal:       1048576 kB\nHugepagesize:       2048 kB\n",
    );
    tree.file("proc/cpuinfo", &"processor\t: 0\n".repeat(8));
    for (name, value) in [
        ("vm/nr_hugepages", "0"),
        ("vm/overcommit_memory", "0"),
        ("vm/overcommit_ratio", "50"),
        ("vm/swappiness", "60"),
        ("vm/dirty_background_ratio", "10"),
        ("vm/dirty_background_bytes", "0"),
        ("vm/dirty_ratio", "20"),
        ("vm/dirty_bytes", "0"),
    ] {
        tree.file(&format!("proc/sys/{name}"), &format!("{value}\n"));
    }
    tree.file("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n");
    tree.file("sys/devices/system/node/node0/x", "");
    tree.file(
        "proc/self/mountinfo",
        "40 22 9:0 / /data rw,noatime - xfs /dev/md0 rw,logbsize=256k\n\
         41 22 8:16 / /wal rw,noatime - ext4 /dev/sdb rw\n",
    );
    tree.array("md0", "raid10", 4, 65536);
    tree.disk("sdb", "8:16");
    tree
}

fn view(tree: &Tree) -> MachineView {
    MachineView::at(tree.root()).with_server(
        Some(Path::new("/data")),
        Some(Path::new("/wal")),
        None,
    )
}

fn checked(tree: &Tree, text: &str) -> Check {
    let profile = Profile::from_config_env(text.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
    let machine = view(tree);
    check(&CheckInput {
        profile: Some(&profile),
        server: None,
        machine: Some(&machine),
        wal_disk: None,
    })
}

fn said(check: &Check) -> String {
    check.contradictions.iter().map(|c| format!("{:?}: {}\n", c.weight, c.what)).collect()
}

#[test]
fn each_value_stands_as_it_is() {
    let found = checked(
        &tree(),
        "VM_SWAPPINESS=60\nVM_DIRTY_RATIO=4\nVM_OVERCOMMIT_RATIO=80\nVM_ZONE_RECLAIM_MODE=0\n\
         DATA_RAID_LEVEL=10\nDATA_RAID_CHUNK=256K\nWAL_RAID_CHUNK=256K\nDATA_SCHEDULER=none\n\
         MD_STRIPE_CACHE_SIZE=8192\nXFS_WAL_AGCOUNT=8\nXFS_DATA_AGCOUNT=16\nVCPU=8\nRAM_GB=64\n\
         XFS_MOUNT_OPTS_DATA=defaults,noatime,nodiratime,logbsize=256k,inode64\n\
         XFS_MOUNT_OPTS_WAL=noatime,discard\nPG_WORK_MEM=8MB\nPGBENCH_SCALE=100\n",
    );
    let of = |name: &str, scope: Option<&str>| -> Vec<Standing> {
        let wanted = |item: &&CheckItem| item.name == name && item.scope.as_deref() == scope;
        found.items.iter().filter(wanted).map(|item| item.standing).collect()
    };
    use Standing::*;
    assert_eq!(of("vm.swappiness", None), [Agrees]);
    assert_eq!(of("vm.dirty_ratio", None), [Drift]);
    assert_eq!(of("vm.overcommit_ratio", None), [NoEffect]);
    assert_eq!(of("vm.zone_reclaim_mode", None), [NotPresent]);
    assert_eq!(of("array.level", Some("data")), [Agrees]);
    assert_eq!(of("array.chunk", Some("data")), [Drift]);
    assert_eq!(of("array.chunk", Some("WAL")), [NotPresent]);
    assert_eq!(of("queue/scheduler", Some("data")), [Drift; 4], "each member");
    assert!(of("md/stripe_cache_size", None).iter().all(|s| *s == NotPresent));
    assert_eq!(of("xfs.agcount", Some("WAL")), [NotPresent]);
    assert_eq!(of("xfs.agcount", Some("data")), [NotObservable]);
    assert_eq!(of("mount.options", Some("data")), [Agrees], "what it implies counts");
    assert_eq!(of("mount.options", Some("WAL")), [Drift]);
    assert_eq!(of("machine.processors", None), [Agrees]);
    assert_eq!(of("machine.memory_gb", None), [Agrees]);
    assert_eq!(of("work_mem", None), [NotObservable]);
    assert_eq!(of("load.scale", None), [NotObservable]);
    assert!(!found.agrees());
    assert!(found.items.is_sorted_by_key(|item| item.standing), "drift first");
}

#[test]
fn what_can_lose_data_is_named_however_it_is_spelled_the_worst_first() {
    let found = checked(&tree(), "PG_SYNCHRONOUS_COMMIT=off\nPG_FSYNC=0\nPG_COMMIT_DELAY=10\n");
    let said: Vec<(&str, &str, DurabilityClass)> =
        found.losses.iter().map(|l| (l.name.as_str(), l.value.as_str(), l.class)).collect();
    assert_eq!(
        said,
        [("fsync", "0", DurabilityClass::X), ("synchronous_commit", "off", DurabilityClass::D)]
    );
    assert!(!found.agrees(), "no profile that corrupts is as it should be");
    let durable = checked(&tree(), "PG_SYNCHRONOUS_COMMIT=on\nPG_FSYNC=on\n");
    assert!(durable.losses.is_empty() && durable.agrees());
    let weaker = checked(&tree(), "PG_SYNCHRONOUS_COMMIT=off\n");
    assert!(weaker.agrees(), "it may have been agreed to");
}

#[test]
fn a_value_that_reads_back_in_other_words_is_as_wanted() {
    let of = |name: &str, wanted: &str, found: &str| {
        same(walwright_catalog::parameter(name).unwrap(), wanted, found)
    };
    let shown = "rw,noatime,attr2,logbsize=256k,allocsize=65536k,prjquota";
    assert!(of("mount.options", "noatime, allocsize=64m,logbsize=262144", shown));
    assert!(!of("mount.options", "allocsize=32m", shown));
    assert!(!of("mount.options", "allocsize", shown));
    assert!(!of("mount.options", "data=ordered", "rw,data=journal"));
    // -1 asks for the default, which the kernel shows in its place.
    assert!(of("queue/wbt_lat_usec", "-1", "75000") && of("queue/wbt_lat_usec", "-1", "0"));
    assert!(!of("queue/wbt_lat_usec", "2000", "75000"));
}

#[test]
fn huge_pages_are_counted_against_shared_memory() {
    let tree = tree();
    let of = |text: &str| said(&checked(&tree, text));
    let start = of("PG_SHARED_BUFFERS=16GB\nPG_HUGE_PAGES=on\n");
    assert!(start.contains("does not start") && start.contains("vm.nr_hugepages is 0"), "{start}");
    let idle = of("PG_SHARED_BUFFERS=16GB\nPG_HUGE_PAGES=try\nVM_NR_HUGEPAGES=4000\n");
    assert!(idle.contains("7.8 GB lie idle"), "{idle}");
    let off = of("PG_SHARED_BUFFERS=16GB\nPG_HUGE_PAGES=off\nVM_NR_HUGEPAGES=4000\n");
    assert!(off.contains("serve nothing"), "{off}");
    let spare = of("PG_SHARED_BUFFERS=16GB\nPG_HUGE_PAGES=on\nVM_NR_HUGEPAGES=11000\n");
    assert!(spare.starts_with("Warning") && spare.contains("serve nothing else"), "{spare}");
    assert_eq!(of("PG_SHARED_BUFFERS=16GB\nPG_HUGE_PAGES=on\nVM_NR_HUGEPAGES=8600\n"), "");
}

#[test]
fn memory_is_counted_against_sessions_and_promises() {
    let tree = tree();
    let of = |text: &str| said(&checked(&tree, text));
    let sessions = "PG_SHARED_BUFFERS=16GB\nPG_MAX_CONNECTIONS=1000\nPG_WORK_MEM=64MB\n";
    assert!(of(sessions).contains("1000 sessions with work_mem of 64 MB"), "{}", of(sessions));
    let modest = sessions.replace("64MB", "8MB");
    assert_eq!(of(&modest), "");
    // Under strict accounting half of memory and swap is promised, less huge pages.
    let strict = format!("{modest}VM_OVERCOMMIT_MEMORY=2\n");
    assert_eq!(of(&strict), "");
    let pages = format!("{strict}VM_NR_HUGEPAGES=26000\nPG_HUGE_PAGES=on\n");
    assert!(of(&pages).contains("huge pages do not count"), "{}", of(&pages));
    let large = "PG_SHARED_BUFFERS=40GB\nPG_MAX_CONNECTIONS=10\nPG_WORK_MEM=4MB\n\
                 VM_OVERCOMMIT_MEMORY=2\n";
    assert!(of(large).contains("less than shared_buffers of 40 GB"), "{}", of(large));
}

#[test]
fn the_disk_of_the_wal_has_to_hold_it() {
    let tree = tree();
    let profile = Profile::from_config_env(b"PG_MAX_WAL_SIZE=100GB\n").unwrap();
    let machine = view(&tree);
    let with = |gigabytes: f64| {
        let found = check(&CheckInput {
            profile: Some(&profile),
            server: None,
            machine: Some(&machine),
            wal_disk: Some(gigabytes * 1_073_741_824.0),
        });
        said(&found)
    };
    assert!(with(60.0).starts_with("Problem") && with(60.0).contains("does not fit"));
    assert!(with(110.0).starts_with("Warning"), "{}", with(110.0));
    assert_eq!(with(200.0), "");
    // Without a word of it, what the profile says of its disks counts.
    let of = |text: &str| {
        let found = checked(&tree, &format!("PG_MAX_WAL_SIZE=100GB\n{text}"));
        (said(&found), found.not_observable)
    };
    let array = "WAL_RAID_LEVEL=10\nWAL_DISK_COUNT=8\n";
    let small = of(&format!("{array}WAL_DISK_SIZE_GB=20\n"));
    assert!(small.0.contains("which has room for 80 GB"), "{small:?}");
    assert_eq!(of(&format!("{array}WAL_DISK_SIZE_GB=50\n")).0, "");
    assert!(of("WAL_DISK_SIZE_GB=90\n").0.contains("which has room for 90 GB"));
    let unknown = |text: &str| of(text).1.iter().any(|what| what.contains("--wal-disk"));
    assert!(!unknown("WAL_DISK_SIZE_GB=90\n"));
    assert!(unknown("") && unknown("WAL_DISK_SIZE_GB=90\nWAL_DISK_COUNT=8\n"));
    // Free bytes of a recorded tree are not those of the machine that reads it.
    assert_eq!(machine.disk(walwright_catalog::Disk::Wal).unwrap().free_bytes, None);
}

#[test]
fn a_cache_that_is_not_flushed_is_found() {
    let tree = tree();
    tree.file("sys/block/sdb/device/scsi_disk/0:0:0:0/cache_type", "write back\n");
    assert_eq!(said(&checked(&tree, "")), "");
    tree.file("sys/block/sdb/queue/write_cache", "write through\n");
    let found = checked(&tree, "");
    assert!(
        said(&found).contains("sdb under the WAL says it has a write cache"),
        "{}",
        said(&found)
    );
    assert!(!found.agrees());
    // A disk that says it has none is believed.
    tree.file("sys/block/sdb/device/scsi_disk/0:0:0:0/cache_type", "write through\n");
    assert_eq!(said(&checked(&tree, "")), "");
    // So it is with virtio.
    tree.file("sys/block/md0m1/cache_type", "write back\n");
    tree.file("sys/block/md0m1/queue/write_cache", "write through\n");
    assert!(said(&checked(&tree, "")).contains("md0m1 under the data"));
}

#[test]
fn what_cannot_be_together_is_named() {
    let tree = tree();
    let of = |text: &str| said(&checked(&tree, text));
    assert!(of("VM_DIRTY_BACKGROUND_RATIO=20\nVM_DIRTY_RATIO=4\n").contains("is not below"));
    assert!(of("VM_DIRTY_RATIO=4\nVM_DIRTY_BYTES=1GB\n").contains("are both set"));
    assert!(of("XFS_MOUNT_OPTS_DATA=noatime,nobarrier\n").contains("XFS refuses it"));
    assert!(of("XFS_MOUNT_OPTS_WAL=noatime,nobarrier\n").contains("not be durable"));
    let apart = "DATA_READ_AHEAD_KB=64\nWAL_READ_AHEAD_KB=4096\n";
    assert_eq!(of(apart), "");
    let mountinfo = "40 22 8:16 / / rw,noatime - ext4 /dev/sdb rw\n";
    let before = std::fs::read_to_string(tree.root().join("proc/self/mountinfo")).unwrap();
    tree.file("proc/self/mountinfo", mountinfo);
    assert!(of(apart).contains("both lie on sdb"), "{}", of(apart));
    tree.file("proc/self/mountinfo", &before);
    tree.file("proc/sys/kernel/io_uring_disabled", "2\n");
    assert!(of("PG_IO_METHOD=io_uring\n").contains("kernel.io_uring_disabled is 2"));
    assert_eq!(of("PG_IO_METHOD=worker\n"), "");
}

#[test]
fn without_a_profile_good_practice_is_the_measure() {
    let tree = tree();
    let machine = view(&tree);
    let input = CheckInput { profile: None, server: None, machine: Some(&machine), wal_disk: None };
    let found = check(&input);
    let names: Vec<&str> = found.items.iter().map(|item| item.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "/sys/kernel/mm/transparent_hugepage/enabled",
            "vm.swappiness",
            "vm.dirty_background_bytes"
        ]
    );
    assert!(found.agrees(), "advice is no drift");
    tree.file("proc/meminfo", "MemTotal: 4194304 kB\nSwapTotal: 0 kB\n");
    tree.file("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    assert!(check(&input).items.is_empty(), "{:?}", check(&input).items);
    let known = check(&input).not_observable;
    assert_eq!(known.len(), 1, "the disks are known without a server: {known:?}");
    let bare = MachineView::at(tree.root());
    let hidden = check(&CheckInput { machine: Some(&bare), ..input }).not_observable;
    assert!(hidden[1].contains("under the data") && hidden[2].contains("under the WAL"));
    let nothing = check(&CheckInput { machine: None, ..input });
    assert_eq!(nothing.items, []);
    assert_eq!(nothing.not_observable.len(), 2);
}

#[test]
fn what_is_idle_beside_other_values_is_told() {
    let tree = tree();
    let idle = |text: &str, name: &str| {
        let profile = Profile::from_config_env(text.as_bytes()).unwrap();
        let machine = view(&tree);
        let input = CheckInput {
            profile: Some(&profile),
            server: None,
            machine: Some(&machine),
            wal_disk: None,
        };
        let entry = profile.entries.iter().find(|entry| entry.parameter.name == name).unwrap();
        effect::none(entry, &Sight::of(&input)).is_some()
    };
    for (text, name, expected) in [
        ("PG_COMMIT_SIBLINGS=9\nPG_COMMIT_DELAY=0\n", "commit_siblings", true),
        ("PG_COMMIT_SIBLINGS=9\nPG_COMMIT_DELAY=100\n", "commit_siblings", false),
        ("PG_COMMIT_DELAY=100\nPG_SYNCHRONOUS_COMMIT=off\n", "commit_delay", true),
        ("PG_COMMIT_DELAY=100\nPG_SYNCHRONOUS_COMMIT=on\n", "commit_delay", false),
        ("PG_WAL_SKIP_THRESHOLD=1MB\nPG_WAL_LEVEL=replica\n", "wal_skip_threshold", true),
        ("PG_WAL_SKIP_THRESHOLD=1MB\n", "wal_skip_threshold", false),
        ("PG_IO_WORKERS=9\nPG_IO_METHOD=sync\n", "io_workers", true),
        ("NET_CORE_SOMAXCONN=4096\nPG_LISTEN_ADDRESSES=\n", "net.core.somaxconn", true),
        ("NET_CORE_SOMAXCONN=4096\nPG_LISTEN_ADDRESSES='*'\n", "net.core.somaxconn", false),
        ("VM_OVERCOMMIT_RATIO=80\nVM_OVERCOMMIT_MEMORY=2\n", "vm.overcommit_ratio", false),
        ("VM_NR_HUGEPAGES=80\nPG_HUGE_PAGES=off\n", "vm.nr_hugepages", true),
        ("MD_STRIPE_CACHE_SIZE=8192\nDATA_RAID_LEVEL=10\n", "md/stripe_cache_size", true),
        ("MD_STRIPE_CACHE_SIZE=8192\nDATA_RAID_LEVEL=5\n", "md/stripe_cache_size", false),
    ] {
        assert_eq!(idle(text, name), expected, "{text}");
    }
}
