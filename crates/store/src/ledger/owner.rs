//! Which process is at a set of changes, and whether it still lives.

use serde::{Deserialize, Serialize};

/// A process, told from a later one of the same number by its start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    pub(crate) pid: u32,
    /// Clock ticks between boot and its start.
    started: Option<u64>,
    /// The boot that these count from.
    boot: Option<String>,
}

impl Owner {
    pub(crate) fn me() -> Owner {
        Owner::of(std::process::id())
    }

    pub fn of(pid: u32) -> Owner {
        Owner { pid, started: started(pid), boot: boot() }
    }

    /// Whether it is a process other than this one that runs.
    pub(crate) fn is_another_that_lives(&self) -> bool {
        self.pid != std::process::id()
            && self.boot == boot()
            && self.started.is_some()
            && started(self.pid) == self.started
    }
}

/// Field 22 of `/proc/PID/stat`; `None` of a process that is gone or only waits to be
/// reaped.
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in brackets may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    if ["Z", "X"].contains(&state) {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

fn boot() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_a_later_one_of_its_number() {
        let me = Owner::me();
        assert!(me.started.is_some() && !me.is_another_that_lives());
        let mut child =
            std::process::Command::new("sleep").arg("60").spawn().expect("sleep is everywhere");
        let pid = child.id();
        let other = Owner::of(pid);
        assert!(other.is_another_that_lives());
        let later = Owner { started: other.started.map(|ticks| ticks + 1), ..other.clone() };
        assert!(!later.is_another_that_lives());
        let of_another_boot = Owner { boot: Some("another".to_owned()), ..other.clone() };
        assert!(!of_another_boot.is_another_that_lives());
        child.kill().expect("killed");
        child.wait().expect("reaped");
        assert!(!other.is_another_that_lives());
    }
}
