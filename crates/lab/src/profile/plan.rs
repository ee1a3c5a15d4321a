//! What applying a profile would change, with what it takes and may lose.

use std::path::{Path, PathBuf};

use serde::Serialize;
use walwright_catalog::{Apply, DurabilityClass, Entry, Place, Profile, Scope, parameter};

use super::check::same;
use super::{MachineView, Reading, ServerView};
use crate::ledger::{Change, Intent};

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

/// What somebody has agreed to.
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
        for entry in profile.entries.iter().filter(|entry| !entry.parameter.is_setting()) {
            plan.kernel(entry, server, machine);
        }
        for entry in profile.settings() {
            plan.setting(entry, server);
        }
        plan
    }

    /// Names that need consent and do not have it, with what they can lose; and whether
    /// plain consent is missing.
    pub fn missing<'a>(&'a self, consent: &Consent) -> (Vec<&'a PlannedChange>, bool) {
        let given = |change: &PlannedChange| {
            consent.names.iter().any(|name| name.eq_ignore_ascii_case(change.change.name()))
        };
        let by_name = self
            .changes
            .iter()
            .filter(|change| change.can_lose.is_some() && !given(change))
            .collect();
        let plain = self.changes.iter().any(|change| change.can_lose.is_none());
        (by_name, plain && !consent.yes)
    }

    /// The changes as the ledger notes them.
    pub fn intent(&self, purpose: &str, server: Option<&ServerView>, root: &Path) -> Intent {
        let order = server.and_then(|server| server.auto.as_ref()).map(|auto| auto.names());
        Intent {
            purpose: purpose.to_owned(),
            server: server.map(|server| server.identity.clone()),
            root: root.to_owned(),
            changes: self.changes.iter().map(|planned| planned.change.clone()).collect(),
            order: order.unwrap_or_default(),
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
        let Some(setting) = server.setting(name) else {
            return Self::leave(&mut self.skipped, entry, "the server does not show it");
        };
        let apply = parameter.apply(server.major);
        let auto = server.auto.as_ref();
        let before = auto.and_then(|auto| auto.get(name));
        let set_already = before.is_some_and(|before| same(parameter, &entry.value, before));
        if same(parameter, &entry.value, &setting.value) && !setting.pending_restart {
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
            "command line" | "environment variable" | "override" => {
                format!("set by the {}, which ALTER SYSTEM does not change", setting.source)
            }
            "database" | "user" | "database user" => {
                format!("set for this {} (ALTER ROLE, ALTER DATABASE), which comes after ALTER SYSTEM", setting.source)
            }
            _ if auto.is_none() => "this role may not read postgresql.auto.conf, so a change could not be undone: it takes a superuser or pg_read_server_files".to_owned(),
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
            if same(parameter, &entry.value, &found) {
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
