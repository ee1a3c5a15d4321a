//! What applying a profile would change, with what it takes and may lose.

use std::path::{Path, PathBuf};

use serde::Serialize;
use walwright_catalog::{Apply, DurabilityClass, Entry, Place, Profile, Scope, parameter};
use walwright_store::ledger::{Change, Intent};

use super::auto_conf::AutoConf;
use super::check::{holds, same};
use super::queue::sets_anew;
use super::{MachineView, Reading, ServerView};

/// Settings that decide how the server is reached: changing them cuts the way back.
const OF_THE_WAY: [&str; 2] = ["listen_addresses", "port"];

/// One value that would be changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedChange {
    /// The parameter, with what it is for.
    pub title: String,
    /// Which block device, where there are several.
    pub device: Option<String>,
    /// What is there.
    pub from: String,
    /// What will be.
    pub to: String,
    /// What it can lose.
    pub class: String,
    /// That in words, where it lowers durability.
    pub can_lose: Option<String>,
    /// When it takes effect: reload, restart, live.
    pub apply: String,
    /// The change.
    #[serde(skip)]
    pub change: Change,
}

/// A value that is not applied, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotApplied {
    /// The parameter, with what it is for.
    pub title: String,
    /// What is wanted.
    pub value: String,
    /// Why.
    pub why: String,
}

/// What applying a profile would do.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ApplyPlan {
    /// The changes, in the order in which they would be made.
    pub changes: Vec<PlannedChange>,
    /// Values that are as wanted.
    pub same: Vec<String>,
    /// Values that a person applies: arrays, file systems, limits, schema.
    pub by_hand: Vec<NotApplied>,
    /// Values that cannot be applied here.
    pub skipped: Vec<NotApplied>,
    /// Values for whose sake nothing of the profile is applied.
    pub refused: Vec<NotApplied>,
}

/// What someone has agreed to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Consent {
    /// Changes that lose nothing.
    pub yes: bool,
    /// Names of parameters that may lower durability (class D).
    pub names: Vec<String>,
}

impl ApplyPlan {
    /// Plans a profile for a server and its machine, as far as they are given.
    pub fn of(
        profile: &Profile,
        server: Option<&ServerView>,
        machine: Option<&MachineView>,
    ) -> ApplyPlan {
        let mut plan = ApplyPlan::default();
        // The kernel first: a server that restarts may need its huge pages.
        // And of it schedulers: what belongs to them is planned by whether they are switched.
        let mut kernel: Vec<&Entry> =
            profile.entries.iter().filter(|entry| !entry.parameter.is_setting()).collect();
        kernel.sort_by_key(|entry| entry.parameter.name != "queue/scheduler");
        for entry in kernel {
            plan.kernel(entry, server, machine);
        }
        for entry in profile.settings() {
            plan.setting(entry, server);
        }
        plan
    }

    /// Names that need consent and do not have it, with what they can lose; and whether
    /// plain consent, which any change needs, is missing.
    pub fn missing<'a>(&'a self, consent: &Consent) -> (Vec<&'a PlannedChange>, bool) {
        let given = |change: &PlannedChange| {
            consent.names.iter().any(|name| name.eq_ignore_ascii_case(change.change.name()))
        };
        let by_name = self
            .changes
            .iter()
            .filter(|change| change.can_lose.is_some() && !given(change))
            .collect();
        (by_name, !self.changes.is_empty() && !consent.yes)
    }

    /// The changes as the ledger notes them.
    pub fn intent(&self, purpose: &str, server: Option<&ServerView>, root: &Path) -> Intent {
        let auto = server.and_then(|server| server.auto.as_ref());
        Intent {
            purpose: purpose.to_owned(),
            server: server.map(|server| server.identity.clone()),
            root: root.to_owned(),
            changes: self.changes.iter().map(|planned| planned.change.clone()).collect(),
            order: auto.map(AutoConf::names).unwrap_or_default(),
            by_hand: auto.is_some_and(AutoConf::is_by_hand),
        }
    }

    fn leave(list: &mut Vec<NotApplied>, entry: &Entry, why: impl Into<String>) {
        let (title, value) = (entry.title(), entry.value.clone());
        list.push(NotApplied { title, value, why: why.into() });
    }

    fn setting(&mut self, entry: &Entry, server: Option<&ServerView>) {
        let parameter = entry.parameter;
        let name = parameter.name.as_str();
        if let Some(why) = forbidden(entry) {
            return Self::leave(&mut self.refused, entry, why);
        }
        let Some(server) = server else {
            return Self::leave(&mut self.skipped, entry, "no server was named");
        };
        if !parameter.is_in(server.major) {
            let why = format!("PostgreSQL {} has no {name}", server.major);
            return Self::leave(&mut self.skipped, entry, why);
        }
        if let Err(error) = parameter.read_in(server.major, &entry.value) {
            let why = format!("PostgreSQL {} does not take it: {error}", server.major);
            return Self::leave(&mut self.skipped, entry, why);
        }
        let Some(setting) = server.setting(name) else {
            return Self::leave(&mut self.skipped, entry, "the server does not show it");
        };
        let apply = parameter.apply(server.major);
        let auto = server.auto.as_ref();
        let before = auto.and_then(|auto| auto.get(name));
        let set_already = before.is_some_and(|before| same(parameter, &entry.value, before));
        if holds(parameter, &entry.value, setting) && !setting.pending_restart {
            self.same.push(entry.title());
            return;
        }
        if set_already && setting.pending_restart {
            return Self::leave(&mut self.skipped, entry, "it is set, and waits for a restart");
        }
        if apply == Apply::Recreate {
            return Self::leave(
                &mut self.by_hand,
                entry,
                "decided when the cluster is made (initdb)",
            );
        }
        if OF_THE_WAY.contains(&name) {
            let why =
                "it decides how the server is reached, so a change could not be undone from here";
            return Self::leave(&mut self.by_hand, entry, why);
        }
        let why = match setting.source.as_str() {
            "command line" | "environment variable" => {
                format!("set by the {}, which ALTER SYSTEM does not change", setting.source)
            }
            "global" => {
                "set for all roles (ALTER ROLE ALL), which comes after ALTER SYSTEM".to_owned()
            }
            "database" | "user" | "database user" => {
                format!("set for this {} (ALTER ROLE, ALTER DATABASE), which comes after ALTER SYSTEM", setting.source)
            }
            _ if auto.is_none() => "this role may not read postgresql.auto.conf, so a change could not be undone: it takes a superuser or EXECUTE on pg_read_file(text)".to_owned(),
            _ => String::new(),
        };
        if !why.is_empty() {
            return Self::leave(&mut self.skipped, entry, why);
        }
        self.changes.push(PlannedChange {
            title: entry.title(),
            device: None,
            from: setting.shown.clone(),
            to: entry.value.clone(),
            class: entry.class().to_string(),
            can_lose: parameter.weakness(&entry.value).map(str::to_owned),
            apply: apply.words().to_owned(),
            change: Change::Setting {
                name: name.to_owned(),
                before: before.map(str::to_owned),
                after: Some(entry.value.clone()),
                restart: apply == Apply::Restart,
            },
        });
    }

    fn kernel(
        &mut self,
        entry: &Entry,
        server: Option<&ServerView>,
        machine: Option<&MachineView>,
    ) {
        let parameter = entry.parameter;
        match &parameter.place {
            Place::Sysctl | Place::File(_) | Place::Queue(_) | Place::Md(_) => {}
            Place::Machine => {
                return Self::leave(&mut self.by_hand, entry, "it is what the machine is");
            }
            Place::Limit(directive) => {
                let why = format!(
                    "{directive} in the systemd unit of the server: config export --to systemd"
                );
                return Self::leave(&mut self.by_hand, entry, why);
            }
            Place::Load(_) | Place::StorageProbe(_) => {
                return Self::leave(&mut self.by_hand, entry, "an option of walwright run");
            }
            Place::Table(_) | Place::Index(_) | Place::Ddl(_) => {
                let why = "a change of the schema: config export --to alter-system prints it";
                return Self::leave(&mut self.by_hand, entry, why);
            }
            _ => {
                let why = "made or mounted anew: config export --to storage prints the commands";
                return Self::leave(&mut self.by_hand, entry, why);
            }
        }
        let Some(machine) = machine else {
            let why = match server {
                Some(_) => "the server's machine is not this one",
                None => "no machine was looked at",
            };
            return Self::leave(&mut self.skipped, entry, why);
        };
        let disk = entry.scope.as_ref().and_then(Scope::disk);
        for place in machine.read(parameter, disk) {
            let found = match (&place.reading, &place.path) {
                (Reading::Value(found), Some(_)) => found.clone(),
                (reading, _) => {
                    Self::leave(&mut self.skipped, entry, reading.to_string());
                    continue;
                }
            };
            let Some(path) = place.path else { continue };
            let is_there = same(parameter, &entry.value, &found) && !is_to_be_asked(entry, &found);
            // A switch of the scheduler takes nr_requests away that are as wanted.
            if is_there && !self.changes.iter().any(|planned| sets_anew(&planned.change, &path)) {
                self.same.push(entry.title());
                continue;
            }
            if let Some(why) = forbidden(entry) {
                Self::leave(&mut self.refused, entry, why);
                continue;
            }
            if parameter.class == DurabilityClass::X {
                let why = "it tells what the disk is; walwright does not write it";
                Self::leave(&mut self.by_hand, entry, why);
                continue;
            }
            if parameter.name == "kernel.sem" && lowers(&entry.value, &found) {
                Self::leave(
                    &mut self.skipped,
                    entry,
                    format!("it is only ever raised, and is {found}"),
                );
                continue;
            }
            // Data and WAL on one disk share its queue, and the array's attributes.
            let planned = self.changes.iter().find_map(|planned| match &planned.change {
                Change::Kernel { path: other, after, .. } if *other == path => Some(after.clone()),
                _ => None,
            });
            if let Some(planned) = planned {
                if planned != entry.bare() {
                    let why = format!("data and WAL share this place, which is to hold {planned}");
                    Self::leave(&mut self.skipped, entry, why);
                }
                continue;
            }
            self.changes.push(PlannedChange {
                title: entry.title(),
                device: place.device,
                from: found.clone(),
                to: entry.bare(),
                class: entry.class().to_string(),
                can_lose: parameter.weakness(&entry.value).map(str::to_owned),
                apply: parameter.apply(u32::MAX).words().to_owned(),
                change: Change::Kernel {
                    name: parameter.name.clone(),
                    restore: counterpart(&parameter.name, machine),
                    path,
                    before: found,
                    after: entry.bare(),
                },
            });
        }
    }
}

/// Whether the value asks for a default that what is there may not be.
fn is_to_be_asked(entry: &Entry, found: &str) -> bool {
    // Defaults on disks that do not turn and on those that do (wbt_default_latency_nsec).
    let is_default = ["2000", "75000"].contains(&found);
    entry.parameter.name == "queue/wbt_lat_usec" && entry.value.trim() == "-1" && !is_default
}

/// Why a value is never applied.
fn forbidden(entry: &Entry) -> Option<String> {
    (entry.class() == DurabilityClass::X).then(|| {
        let loss = entry.parameter.weakness(&entry.value).unwrap_or_default();
        format!("class X is never applied. {loss}")
    })
}

/// The file and value that bring back what a write takes away: the kernel sets a ratio to
/// 0 when the same is set in bytes, and the other way round. Only where the other is what
/// holds now; `None` where the file itself brings its value back.
fn counterpart(name: &str, machine: &MachineView) -> Option<(PathBuf, String)> {
    const PAIRS: [(&str, &str); 2] = [
        ("vm.dirty_ratio", "vm.dirty_bytes"),
        ("vm.dirty_background_ratio", "vm.dirty_background_bytes"),
    ];
    let other = PAIRS.iter().find_map(|(ratio, bytes)| match name {
        name if name == *ratio => Some(*bytes),
        name if name == *bytes => Some(*ratio),
        _ => None,
    })?;
    let found = machine.read(parameter(other)?, None).into_iter().next()?;
    let value = found.reading.value()?.to_owned();
    (value != "0").then_some((found.path?, value))
}

/// Whether any number of a list is below the one in its place.
fn lowers(wanted: &str, found: &str) -> bool {
    let numbers = |text: &str| -> Vec<u64> {
        text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
    };
    numbers(wanted).iter().zip(numbers(found)).any(|(wanted, found)| *wanted < found)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::tree::Tree;

    /// Plans a profile for a machine with an array under the data and two processors.
    fn plan(tree: &Tree, text: &str) -> ApplyPlan {
        tree.file("proc/self/mountinfo", "40 22 9:0 / /data rw - xfs /dev/md0 rw\n");
        let data = Some(Path::new("/data"));
        let machine = MachineView::at(tree.root()).with_server(data, None, None);
        let profile = Profile::from_config_env(text.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
        ApplyPlan::of(&profile, None, Some(&machine))
    }

    #[test]
    fn each_place_of_a_value_is_a_change() {
        let tree = Tree::new();
        tree.array("md0", "raid10", 4, 65536);
        tree.file("sys/block/md0m2/queue/scheduler", "[none] mq-deadline\n");
        for processor in [0, 1, 10] {
            let file = format!("sys/devices/system/cpu/cpu{processor}/cpufreq/scaling_governor");
            tree.file(&file, "powersave\n");
        }
        let text = "DATA_SCHEDULER=none\nDATA_READ_AHEAD_KB=64\nCPU_SCALING_GOVERNOR=performance\n";
        let plan = plan(&tree, text);
        let places: Vec<&str> = plan.changes.iter().filter_map(|c| c.device.as_deref()).collect();
        assert_eq!(places, ["md0m0", "md0m1", "md0m3", "md0", "cpu0", "cpu1", "cpu10"]);
        assert_eq!(plan.same, ["queue/scheduler (data)"]);
        let Change::Kernel { path, before, after, .. } = &plan.changes[0].change else {
            panic!("a file of the kernel")
        };
        assert!(path.ends_with("sys/block/md0m0/queue/scheduler"), "{}", path.display());
        assert_eq!((before.as_str(), after.as_str()), ("mq-deadline", "none"));
        assert!(plan.changes.iter().all(|change| change.class == "E" && change.can_lose.is_none()));
    }

    #[test]
    fn a_default_is_asked_for_where_another_value_is_there() {
        let tree = Tree::new();
        tree.array("md0", "raid10", 2, 65536);
        tree.file("sys/block/md0m0/queue/wbt_lat_usec", "2000\n");
        tree.file("sys/block/md0m1/queue/wbt_lat_usec", "0\n");
        let plan = plan(&tree, "DATA_WBT_LAT_USEC=-1\n");
        let places: Vec<&str> = plan.changes.iter().filter_map(|c| c.device.as_deref()).collect();
        assert_eq!(places, ["md0m1"]);
    }

    #[test]
    fn a_disk_that_data_and_wal_share_has_one_value() {
        let tree = Tree::new();
        tree.disk("sda", "8:0");
        tree.file("proc/self/mountinfo", "40 22 8:0 / / rw - ext4 /dev/sda rw\n");
        let (data, wal) = (Some(Path::new("/data")), Some(Path::new("/data/pg_wal")));
        let machine = MachineView::at(tree.root()).with_server(data, wal, None);
        let of = |text: &str| {
            let profile = Profile::from_config_env(text.as_bytes()).unwrap();
            ApplyPlan::of(&profile, None, Some(&machine))
        };
        let one = of("DATA_READ_AHEAD_KB=64\nWAL_READ_AHEAD_KB=64\n");
        assert_eq!((one.changes.len(), one.skipped.len()), (1, 0));
        let two = of("DATA_READ_AHEAD_KB=64\nWAL_READ_AHEAD_KB=4096\n");
        assert_eq!((two.changes.len(), two.skipped.len()), (1, 1));
        assert!(two.skipped[0].why.contains("is to hold 64"), "{two:?}");
    }

    #[test]
    fn what_a_disk_says_of_its_cache_is_not_written() {
        let tree = Tree::new();
        tree.array("md0", "raid10", 2, 65536);
        let through = plan(&tree, "DATA_WRITE_CACHE='write through'\n");
        assert_eq!((through.refused.len(), through.changes.len()), (2, 0));
        tree.file("sys/block/md0m0/queue/write_cache", "write through\n");
        let back = plan(&tree, "DATA_WRITE_CACHE='write back'\n");
        assert_eq!((back.by_hand.len(), back.same.len(), back.changes.len()), (1, 1, 0));
    }

    #[test]
    fn what_the_machine_lacks_is_left_out_with_the_reason() {
        let tree = Tree::new();
        tree.array("md0", "raid10", 2, 65536);
        let plan =
            plan(&tree, "WAL_SCHEDULER=none\nMD_STRIPE_CACHE_SIZE=8192\nPG_JIT=off\nVCPU=2\n");
        assert!(plan.changes.is_empty());
        let why: Vec<&str> = plan.skipped.iter().map(|left| left.why.as_str()).collect();
        assert!(why[0].starts_with("not observable: the directory of the WAL"), "{why:?}");
        assert!(why[1].contains("raid10 has no such attribute"), "{why:?}");
        assert!(why.last().unwrap().contains("no server was named"), "{why:?}");
        assert_eq!(plan.by_hand.len(), 1);
    }
}
