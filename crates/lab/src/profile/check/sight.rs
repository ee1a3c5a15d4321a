//! What can be seen of server and machine, with what a profile would make of them.

use walwright_catalog::{Profile, Value, parameter};

use super::CheckInput;
use crate::profile::{MachineView, ServerView};

/// Values as they would be with the profile in force, and as they are without one.
pub(super) struct Sight<'a> {
    input: CheckInput<'a>,
}

impl<'a> Sight<'a> {
    pub(super) fn of(input: &CheckInput<'a>) -> Sight<'a> {
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

    pub(super) fn wal_disk(&self) -> Option<f64> {
        self.input.wal_disk
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
