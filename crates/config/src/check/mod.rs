//! A machine and a server against a profile, or against good practice.
//!
//! - Losses: values that lower durability.
//! - Drift: a value that is not the one wanted, place by place.
//! - No effect: a value that changes nothing beside others, or here.
//! - Contradictions: values that do not go together, or not with the machine.
//!
//! Pure but for reading the machine's files. Whether a setting is a good one under a load
//! is the review's affair (`diagnose`).

mod contradictions;
mod effect;
mod input;
mod loss;
mod practice;
mod sight;

#[cfg(test)]
mod tests;

use serde::Serialize;
use walwright_catalog::{Disk, DurabilityClass, Entry, Parameter, Place, Scope, Value};
use walwright_record::Setting;

use super::Reading;

pub use contradictions::{Contradiction, Weight};
pub use input::CheckInput;
pub use loss::{Loss, losses};
use sight::Sight;

/// How a value stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Another value is there.
    Drift,
    /// Another value would serve better on any machine like this.
    Advice,
    /// It is as wanted or not, and changes nothing.
    NoEffect,
    /// This machine or server has no such thing.
    NotPresent,
    /// It cannot be seen from here.
    NotObservable,
    /// It is as wanted.
    Agrees,
}

/// One value at one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckItem {
    /// The parameter.
    pub name: String,
    /// What it is for: data, WAL, a table.
    pub scope: Option<String>,
    /// Which block device, where there are several.
    pub device: Option<String>,
    /// Its layer.
    pub layer: String,
    /// How it stands.
    pub standing: Standing,
    /// What is wanted.
    pub wanted: String,
    /// What is there.
    pub found: Option<String>,
    /// Why it stands so.
    pub why: Option<String>,
    /// What setting it as wanted can lose.
    pub class: String,
    /// What setting it takes.
    pub apply: String,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    /// What can lose data, of the profile and beside it, the worst first.
    pub losses: Vec<Loss>,
    /// Each value, drift first.
    pub items: Vec<CheckItem>,
    /// What does not go together, what matters most first.
    pub contradictions: Vec<Contradiction>,
    /// What could not be checked and why, each a sentence.
    pub not_observable: Vec<String>,
}

impl Check {
    /// Whether all is as wanted and nothing can corrupt, as far as could be seen.
    pub fn agrees(&self) -> bool {
        !self.losses.iter().any(|loss| loss.class == DurabilityClass::X)
            && !self.items.iter().any(|item| item.standing == Standing::Drift)
            && !self.contradictions.iter().any(|found| found.weight == Weight::Problem)
    }
}

/// Checks.
pub fn check(input: &CheckInput) -> Check {
    let sight = Sight::of(input);
    let mut items: Vec<CheckItem> = match input.profile {
        Some(profile) => profile.entries.iter().flat_map(|entry| compared(entry, &sight)).collect(),
        None => practice::items(&sight),
    };
    items.sort_by_key(|item| item.standing);
    let mut not_observable = Vec::new();
    if input.server.is_none() {
        not_observable.push("the server: name it with --dsn".to_owned());
    }
    match input.machine {
        None => not_observable.push(
            "the server's machine: it is not this one, or its processes cannot be seen".to_owned(),
        ),
        Some(machine) => {
            let hidden = Disk::ALL.into_iter().filter(|disk| machine.disk(*disk).is_none());
            not_observable.extend(hidden.map(|disk| {
                let key = disk.key();
                format!("the disk under the {disk}: the server tells which it is, or PG_{key}_DIR or {key}_MOUNT of a profile")
            }));
        }
    }
    if sight.bytes("max_wal_size").is_some() && sight.wal_room().is_none() {
        not_observable.push(
            "room for the WAL, for max_wal_size: name it with --wal-disk, or the profile's disks with WAL_DISK_SIZE_GB".to_owned(),
        );
    }
    Check {
        losses: loss::found(&sight),
        items,
        contradictions: contradictions::found(&sight),
        not_observable,
    }
}

fn compared(entry: &Entry, sight: &Sight) -> Vec<CheckItem> {
    let parameter = entry.parameter;
    let item = |standing, device: Option<String>, found: Option<String>, why: Option<String>| {
        let major = sight.major().unwrap_or(u32::MAX);
        CheckItem {
            name: parameter.name.clone(),
            scope: entry.scope.as_ref().map(ToString::to_string),
            device,
            layer: parameter.layer.clone(),
            standing,
            wanted: entry.value.clone(),
            found,
            why,
            class: entry.class().to_string(),
            apply: parameter.apply(major).words().to_owned(),
        }
    };
    let idle = effect::none(entry, sight);
    if parameter.is_setting() || matches!(parameter.place, Place::Cluster(_)) {
        let (standing, found, why) = of_server(entry, sight);
        return vec![match idle {
            // What is absent or hidden is that before anything else.
            Some(why) if matches!(standing, Standing::Drift | Standing::Agrees) => {
                item(Standing::NoEffect, None, found, Some(why))
            }
            _ => item(standing, None, found, why),
        }];
    }
    if parameter.is_of_objects() {
        return vec![match of_object(entry, sight) {
            Reading::Value(found) => {
                let agrees = same(parameter, &entry.value, &found);
                let standing = if agrees { Standing::Agrees } else { Standing::Drift };
                item(standing, None, Some(found), None)
            }
            Reading::NotPresent(why) => item(Standing::NotPresent, None, None, Some(why)),
            Reading::NotObservable(why) => item(Standing::NotObservable, None, None, Some(why)),
        }];
    }
    if matches!(parameter.place, Place::Load(_) | Place::StorageProbe(_)) {
        let why = "it belongs to a load, not to a machine".to_owned();
        return vec![item(Standing::NotObservable, None, None, Some(why))];
    }
    let Some(machine) = sight.machine() else {
        let why = "the server's machine cannot be seen from here".to_owned();
        return vec![item(Standing::NotObservable, None, None, Some(why))];
    };
    let disk = entry.scope.as_ref().and_then(Scope::disk);
    let places = machine.read(parameter, disk);
    places
        .into_iter()
        .map(|place| match place.reading {
            Reading::NotPresent(why) => item(Standing::NotPresent, place.device, None, Some(why)),
            Reading::NotObservable(why) => {
                item(Standing::NotObservable, place.device, None, Some(why))
            }
            Reading::Value(found) => {
                let standing = if same(parameter, &entry.value, &found) {
                    Standing::Agrees
                } else {
                    Standing::Drift
                };
                match &idle {
                    Some(why) => {
                        item(Standing::NoEffect, place.device, Some(found), Some(why.clone()))
                    }
                    None => item(standing, place.device, Some(found), None),
                }
            }
        })
        .collect()
}

/// What a table or an index has set.
fn of_object(entry: &Entry, sight: &Sight) -> Reading {
    let Some(Scope::Object(object)) = &entry.scope else {
        return Reading::NotObservable("it does not name its table or index".to_owned());
    };
    let Some(server) = sight.server() else {
        return Reading::NotObservable("no server was asked".to_owned());
    };
    let found = server.objects.get(&(entry.parameter.name.clone(), object.clone()));
    let unseen = || Reading::NotObservable("it was not looked at".to_owned());
    found.cloned().unwrap_or_else(unseen)
}

/// How a setting, or what was chosen for the cluster, stands.
fn of_server(entry: &Entry, sight: &Sight) -> (Standing, Option<String>, Option<String>) {
    let parameter = entry.parameter;
    let unseen = |why: &str| (Standing::NotObservable, None, Some(why.to_owned()));
    let Some(server) = sight.server() else { return unseen("no server was asked") };
    let name = match parameter.name.as_str() {
        "cluster.version" => "server_version",
        "cluster.data_directory" => "data_directory",
        "cluster.wal_directory" => {
            let Some(found) = server.wal_directory() else {
                return unseen("the server is not on this machine");
            };
            let found = found.display().to_string();
            let standing = if found == entry.value { Standing::Agrees } else { Standing::Drift };
            return (standing, Some(found), None);
        }
        name => name,
    };
    if parameter.is_setting() && !parameter.is_in(server.major) {
        let why = format!("PostgreSQL {} has no {name}", server.major);
        return (Standing::NotPresent, None, Some(why));
    }
    let Some(setting) = server.setting(name) else {
        return match name.contains('.') {
            true => (Standing::NotPresent, None, Some("its extension is not loaded".to_owned())),
            false => unseen("this role may not see it"),
        };
    };
    let why = if setting.pending_restart {
        Some("a change of it waits for a restart".to_owned())
    } else {
        match setting.source.as_str() {
            "global" => Some("set for all roles (ALTER ROLE ALL), not in a file".to_owned()),
            "user" | "database" | "database user" => {
                Some(format!("set for this {}, not in a file", setting.source))
            }
            "command line" | "environment variable" => {
                Some(format!("set by the {}: no file changes it", setting.source))
            }
            _ => None,
        }
    };
    let standing = match holds(parameter, &entry.value, setting) {
        true => Standing::Agrees,
        false => Standing::Drift,
    };
    (standing, Some(setting.shown.clone()), why)
}

/// Whether a setting of a server is as wanted.
pub(super) fn holds(parameter: &Parameter, wanted: &str, setting: &Setting) -> bool {
    let automatic = || {
        // In their place the server shows what it has chosen.
        AUTOMATIC.contains(&parameter.name.as_str())
            && setting.source != "configuration file"
            && parameter.default(u32::MAX).is_some_and(|default| same(parameter, wanted, default))
    };
    same(parameter, wanted, &setting.value) || automatic()
}

/// Settings whose default (-1 or 0) has the server choose a value when it starts.
const AUTOMATIC: [&str; 5] = [
    "wal_buffers",
    "transaction_buffers",
    "subtransaction_buffers",
    "commit_timestamp_buffers",
    "io_max_concurrency",
];

/// Whether two values of a parameter mean the same.
pub(super) fn same(parameter: &Parameter, wanted: &str, found: &str) -> bool {
    match parameter.name.as_str() {
        // More than was wanted is there.
        "mount.options" => {
            let found: Vec<&str> = found.split(',').collect();
            wanted
                .split(',')
                .map(str::trim)
                .filter(|option| !["", "defaults"].contains(option))
                .all(|option| {
                    is_default_option(option)
                        || found.iter().any(|there| same_option(option, there))
                })
        }
        // -1 asks for the default, in whose place the kernel shows what that is on this disk,
        // or 0 where something else keeps it off.
        "queue/wbt_lat_usec" if wanted.trim() == "-1" => true,
        "cluster.version" => {
            // "17" means any 17.
            let of = |text: &str| text.split(' ').next().unwrap_or_default().to_owned();
            match wanted.contains('.') {
                true => of(found) == wanted,
                false => of(found).split('.').next() == Some(wanted),
            }
        }
        // What the kernel keeps for itself is not there to be seen.
        "machine.memory_gb" => match (wanted.parse::<f64>(), found.parse::<f64>()) {
            (Ok(wanted), Ok(found)) => (found - wanted).abs() <= 0.12 * wanted,
            _ => false,
        },
        _ if found == "unlimited" => true,
        _ => match (parameter.read(wanted), parameter.read(found)) {
            (Ok(Value::Text(wanted)), Ok(Value::Text(found))) => wanted.trim() == found.trim(),
            (Ok(wanted), Ok(found)) => wanted == found,
            _ => false,
        },
    }
}

/// Whether two mount options are the same. A kernel shows a size in a unit of its own.
fn same_option(wanted: &str, found: &str) -> bool {
    let size = |text: &str| -> Option<u64> {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let unit: u64 = match text[end..].to_ascii_lowercase().as_str() {
            "" => 1,
            "k" => 1 << 10,
            "m" => 1 << 20,
            "g" => 1 << 30,
            _ => return None,
        };
        text[..end].parse::<u64>().ok()?.checked_mul(unit)
    };
    wanted == found
        || wanted.split_once('=').zip(found.split_once('=')).is_some_and(|(wanted, found)| {
            let (one, other) = (size(wanted.1), size(found.1));
            wanted.0 == found.0 && one.is_some() && one == other
        })
}

/// Options that a mount has without showing them.
fn is_default_option(option: &str) -> bool {
    ["nodiratime", "inode64", "logbufs=8", "rw", "suid", "dev", "exec", "auto", "nouser", "async"]
        .contains(&option)
}
