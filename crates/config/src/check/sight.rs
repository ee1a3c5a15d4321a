//! What can be seen of server and machine, with what a profile would make of them.

use walwright_catalog::{Disk, Profile, Scope, Value, data_disks, parameter};

use super::input::CheckInput;
use crate::{MachineView, ServerView};

/// Values as they would be with the profile in force, and as they are without one.
pub(super) struct Sight<'a> {
    input: CheckInput<'a>,
}

impl<'a> Sight<'a> {
    pub fn of(input: &CheckInput<'a>) -> Sight<'a> {
        Sight { input: *input }
    }

    pub(super) fn server(&self) -> Option<&'a ServerView> {
        self.input.server
    }

    pub(super) fn machine(&self) -> Option<&'a MachineView> {
        self.input.machine
    }

    pub(super) fn profile(&self) -> Option<&'a Profile> {
        self.input.profile
    }

    /// Room for the WAL on its disk in bytes: what a person tells, else what the disk has
    /// free and the segments that are there, which are taken again; else what the disks have
    /// that the profile names.
    pub(super) fn wal_room(&self) -> Option<f64> {
        let free = || self.machine()?.disk(Disk::Wal)?.free_bytes;
        let there = self.server().and_then(|server| server.wal_bytes).unwrap_or(0.0);
        self.input
            .wal_disk
            .or_else(|| Some(free()? + there))
            .or_else(|| self.wanted_disk(Disk::Wal))
    }

    /// Bytes that the disk or array holds that the profile names for data or WAL.
    fn wanted_disk(&self, disk: Disk) -> Option<f64> {
        let profile = self.profile()?;
        let entry = |name: &str| profile.get(name, Some(&Scope::Disk(disk)));
        let number = |name: &str| entry(name)?.read()?.number();
        let members = match (entry("array.level"), number("array.members")) {
            (Some(level), Some(members)) => data_disks(&level.bare(), members)?,
            // One disk is no array.
            (None, None | Some(1.0)) => 1.0,
            _ => return None,
        };
        Some(number("array.member_size")? * members * 1_073_741_824.0)
    }

    pub(super) fn major(&self) -> Option<u32> {
        self.server().map(|server| server.major)
    }

    /// Whether the profile sets it.
    pub(super) fn wants(&self, name: &str) -> bool {
        self.profile().is_some_and(|profile| profile.get(name, None).is_some())
    }

    /// The value of a parameter that has one place: the profile's, else the one there.
    pub(super) fn value(&self, name: &str) -> Option<Value> {
        let parameter = parameter(name)?;
        if let Some(entry) = self.profile().and_then(|profile| profile.get(name, None)) {
            return entry.read();
        }
        if parameter.is_setting() {
            return parameter.read(&self.server()?.setting(name)?.value).ok();
        }
        let found = self.machine()?.read(parameter, None);
        parameter.read(found.first()?.reading.value()?).ok()
    }

    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.value(name)?.number()
    }

    pub(super) fn bytes(&self, name: &str) -> Option<f64> {
        self.value(name)?.bytes()
    }

    pub(super) fn text(&self, name: &str) -> Option<String> {
        self.value(name)?.text().map(str::to_owned)
    }

    pub(super) fn is_off(&self, name: &str) -> bool {
        self.value(name).is_some_and(|value| value.is_off())
    }

    pub(super) fn is_zero(&self, name: &str) -> bool {
        self.number(name) == Some(0.0)
    }

    /// Memory of the machine: the one at hand, else the one the profile was made for.
    pub(super) fn memory(&self) -> Option<f64> {
        let here = self.machine().and_then(|machine| machine.meminfo("MemTotal"));
        here.or_else(|| {
            let entry = self.profile()?.get("machine.memory_gb", None)?;
            Some(entry.read()?.number()? * 1_073_741_824.0)
        })
    }

    /// Size of a huge page: that of the setting, the kernel's own, or the usual one.
    pub(super) fn huge_page(&self) -> f64 {
        let set = self.bytes("huge_page_size").filter(|bytes| *bytes > 0.0);
        let own = || self.machine()?.meminfo("Hugepagesize");
        set.or_else(own).unwrap_or(2_097_152.0)
    }
}
