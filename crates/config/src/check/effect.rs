//! When a value changes nothing: beside other values, or on this machine.

use walwright_catalog::{Entry, Place, Scope, mount_notes};

use super::sight::Sight;

/// Why the value changes nothing; `None` where it does, or where that is not known.
pub(super) fn none(entry: &Entry, sight: &Sight) -> Option<String> {
    let name = entry.parameter.name.as_str();
    let told = match &entry.parameter.place {
        Place::Setting => beside_settings(name, sight),
        Place::Mount(_) if name == "mount.options" => return options(entry, sight),
        Place::Md(_) => levels(sight),
        _ if name.starts_with("net.") => {
            let addresses = sight.text("listen_addresses")?;
            addresses.trim().is_empty().then_some("the server listens on its unix socket alone")
        }
        _ => on_machine(name, sight),
    };
    told.map(str::to_owned)
}

fn beside_settings(name: &str, sight: &Sight) -> Option<&'static str> {
    let without_flush = || {
        if sight.is_off("fsync") {
            Some("fsync is off: nothing is flushed")
        } else if sight.is_off("synchronous_commit") {
            Some("synchronous_commit is off: commits do not wait for flushes")
        } else {
            None
        }
    };
    match name {
        "commit_delay" if !sight.is_zero(name) => without_flush(),
        "commit_siblings" if sight.is_zero("commit_delay") => Some("commit_delay is 0"),
        "wal_sync_method" if sight.is_off("fsync") => Some("fsync is off: nothing is flushed"),
        "wal_skip_threshold" => {
            (sight.text("wal_level")? != "minimal").then_some("wal_level is not minimal")
        }
        "huge_page_size" if sight.is_off("huge_pages") => Some("huge_pages is off"),
        "jit_above_cost" if sight.is_off("jit") => Some("jit is off"),
        "io_workers" => (sight.text("io_method")? != "worker").then_some("io_method is not worker"),
        "archive_timeout" if sight.is_off("archive_mode") => Some("archive_mode is off"),
        "autovacuum_vacuum_cost_limit" if sight.is_zero("autovacuum_vacuum_cost_delay") => {
            Some("autovacuum_vacuum_cost_delay is 0")
        }
        "synchronous_commit" => {
            let standbys = sight.text("synchronous_standby_names")?;
            let value = sight.text(name)?;
            let of_standbys = ["local", "remote_write", "remote_apply"].contains(&value.as_str());
            (standbys.trim().is_empty() && of_standbys)
                .then_some("without a synchronous standby it is the same as on")
        }
        name if name.starts_with("autovacuum_") && sight.is_off("autovacuum") => {
            Some("autovacuum is off")
        }
        _ => None,
    }
}

fn on_machine(name: &str, sight: &Sight) -> Option<&'static str> {
    let one_node = || sight.machine()?.memory_nodes().map(|nodes| nodes <= 1);
    match name {
        "vm.overcommit_ratio" => (sight.number("vm.overcommit_memory")? != 2.0)
            .then_some("vm.overcommit_memory is not 2"),
        "vm.dirty_ratio" if sight.number("vm.dirty_bytes")? > 0.0 => Some("vm.dirty_bytes is set"),
        "vm.dirty_background_ratio" if sight.number("vm.dirty_background_bytes")? > 0.0 => {
            Some("vm.dirty_background_bytes is set")
        }
        "vm.swappiness" => {
            let swap = sight.machine()?.meminfo("SwapTotal")?;
            (swap == 0.0).then_some("the machine has no swap")
        }
        "vm.zone_reclaim_mode" | "kernel.numa_balancing" => {
            one_node()?.then_some("the machine has one node of memory")
        }
        "vm.nr_hugepages" if sight.is_off("huge_pages") => Some("huge_pages is off"),
        "fs.aio-max-nr" => Some("PostgreSQL does not use libaio"),
        "kernel.sem" => Some("PostgreSQL as it is built for Linux uses POSIX semaphores"),
        _ => None,
    }
}

/// The stripe cache belongs to parity.
fn levels(sight: &Sight) -> Option<&'static str> {
    let profile = sight.profile()?;
    let mut levels =
        profile.entries.iter().filter(|e| e.parameter.name == "array.level").peekable();
    levels.peek()?;
    levels
        .all(|level| ["0", "1", "10"].contains(&level.value.as_str()))
        .then_some("levels 0, 1 and 10 have no parity, and no stripe cache")
}

/// What part of the options changes nothing; only where that is all of them, the whole does.
fn options(entry: &Entry, sight: &Sight) -> Option<String> {
    let disk = entry.scope.as_ref().and_then(Scope::disk)?;
    let there = sight.machine().and_then(|machine| machine.disk(disk));
    let system = there
        .map(|view| view.mount.file_system.clone())
        .or_else(|| sight.text("fs.type"))
        .unwrap_or_default();
    let all: Vec<&str> = entry.value.split(',').map(str::trim).collect();
    let idle = |option: &&str| mount_notes(option, &all, &system).is_some();
    all.iter().all(idle).then(|| "each of them is a default or no longer exists".to_owned())
}
