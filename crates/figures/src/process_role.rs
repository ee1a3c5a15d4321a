//! What a group of processes is, told from its stored name.

use serde::Serialize;

/// Whose processes a group holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProcessRole {
    /// The server at work.
    Server,
    /// The server's backends that serve walwright's probe.
    Probe,
    /// walwright itself: driver and probe.
    Walwright,
    /// The application under test (`--app`).
    Application,
    /// What generates the load, where it is not walwright (`--generator`).
    Generator,
    /// A pooler between clients and server (`--pooler`).
    Pooler,
    /// Threads of the kernel.
    Kernel,
    /// Anything else on the machine.
    Other,
}

impl ProcessRole {
    /// The role of a group, by the name the probe stored it under.
    pub fn of(group: &str) -> ProcessRole {
        match group {
            "server: walwright probe" => ProcessRole::Probe,
            "walwright" => ProcessRole::Walwright,
            "kernel threads" => ProcessRole::Kernel,
            _ if group.starts_with("server: ") => ProcessRole::Server,
            _ if group.starts_with("application: ") => ProcessRole::Application,
            _ if group.starts_with("load generator: ") => ProcessRole::Generator,
            _ if group.starts_with("pooler: ") => ProcessRole::Pooler,
            _ => ProcessRole::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_names_tell_the_role() {
        for (group, role) in [
            ("server: client backends", ProcessRole::Server),
            ("server: walwright probe", ProcessRole::Probe),
            ("walwright", ProcessRole::Walwright),
            ("application: gunicorn", ProcessRole::Application),
            ("load generator: pgbench", ProcessRole::Generator),
            ("pooler: pgbouncer", ProcessRole::Pooler),
            ("kernel threads", ProcessRole::Kernel),
            ("other: backup", ProcessRole::Other),
        ] {
            assert_eq!(ProcessRole::of(group), role, "{group}");
        }
    }
}
