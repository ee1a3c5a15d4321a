//! What a server process does, told from its title.

use walwright_record::Row;

/// The groups that server processes are summed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Role {
    ClientBackends,
    ParallelWorkers,
    Checkpointer,
    Walwriter,
    BackgroundWriter,
    Autovacuum,
    IoWorkers,
    Walsenders,
    /// Backends that serve the probe itself.
    Probe,
    Other,
}

impl Role {
    /// The stored name of the group.
    pub(crate) fn group(self) -> &'static str {
        match self {
            Role::ClientBackends => "server: client backends",
            Role::ParallelWorkers => "server: parallel workers",
            Role::Checkpointer => "server: checkpointer",
            Role::Walwriter => "server: walwriter",
            Role::BackgroundWriter => "server: background writer",
            Role::Autovacuum => "server: autovacuum",
            Role::IoWorkers => "server: io workers",
            Role::Walsenders => "server: walsenders",
            Role::Probe => "server: walwright probe",
            Role::Other => "server: other",
        }
    }

    /// The role in a process title such as `postgres: [cluster: ]checkpointer `,
    /// or `None` for one that has not set its title yet.
    pub(crate) fn from_title(title: &str) -> Option<Role> {
        const FIXED: [(&str, Role); 14] = [
            ("checkpointer", Role::Checkpointer),
            ("walwriter", Role::Walwriter),
            ("background writer", Role::BackgroundWriter),
            ("autovacuum launcher", Role::Autovacuum),
            ("autovacuum worker", Role::Autovacuum),
            ("io worker", Role::IoWorkers),
            ("walsender", Role::Walsenders),
            ("parallel worker", Role::ParallelWorkers),
            ("logical replication", Role::Other),
            ("walreceiver", Role::Other),
            ("startup", Role::Other),
            ("archiver", Role::Other),
            ("stats collector", Role::Other),
            ("logger", Role::Other),
        ];
        let rest = title.strip_prefix("postgres: ")?;
        // With cluster_name set it stands between.
        let known = [Some(rest), rest.split_once(": ").map(|(_, rest)| rest)]
            .into_iter()
            .flatten()
            .find_map(|text| FIXED.iter().find(|(name, _)| text.starts_with(name)));
        Some(match known {
            Some((_, role)) => *role,
            // A client backend says where its client is: user, database, host.
            None if rest.split(' ').any(is_client_host) => Role::ClientBackends,
            None => Role::Other,
        })
    }
}

/// Whether a word of a title is `[local]` or `address(port)`.
fn is_client_host(word: &str) -> bool {
    word == "[local]" || (word.ends_with(')') && word.contains('('))
}

/// Totals of a group of processes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Usage {
    pub(crate) user_seconds: f64,
    pub(crate) system_seconds: f64,
    pub(crate) run_delay_seconds: Option<f64>,
    /// Times that it went to sleep.
    pub(crate) sleeps: Option<u64>,
    pub(crate) read_bytes: Option<u64>,
    pub(crate) write_bytes: Option<u64>,
}

impl Usage {
    /// Adds another process or group. What is unknown in one is left out of the sum.
    pub(crate) fn add(&mut self, other: &Usage) {
        fn sum<T: std::ops::Add<Output = T>>(a: Option<T>, b: Option<T>) -> Option<T> {
            match (a, b) {
                (Some(a), Some(b)) => Some(a + b),
                (one, other) => one.or(other),
            }
        }
        self.user_seconds += other.user_seconds;
        self.system_seconds += other.system_seconds;
        self.run_delay_seconds = sum(self.run_delay_seconds, other.run_delay_seconds);
        self.sleeps = sum(self.sleeps, other.sleeps);
        self.read_bytes = sum(self.read_bytes, other.read_bytes);
        self.write_bytes = sum(self.write_bytes, other.write_bytes);
    }

    /// Processor seconds.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }

    /// The row of the group.
    pub(crate) fn row(&self, group: &str, count: Option<usize>, memory: Option<Memory>) -> Row {
        let mut row = Row::new();
        row.set("process_group", group)
            .set("user_seconds", self.user_seconds)
            .set("system_seconds", self.system_seconds);
        if let Some(count) = count {
            row.set("count", count as u64);
        }
        if let Some(delay) = self.run_delay_seconds {
            row.set("run_delay_seconds", delay);
        }
        if let Some(sleeps) = self.sleeps {
            row.set("voluntary_switches", sleeps);
        }
        if let Some(bytes) = self.read_bytes {
            row.set("read_bytes", bytes);
        }
        if let Some(bytes) = self.write_bytes {
            row.set("write_bytes", bytes);
        }
        if let Some(memory) = memory {
            row.set("rss_bytes", memory.resident).set("private_bytes", memory.private);
        }
        row
    }
}

/// Memory of a group: resident with everything shared counted for each process,
/// and resident without what is shared (`/proc/PID/statm`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) resident: u64,
    pub(crate) private: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_of_14_to_18() {
        for (title, role) in [
            ("postgres: checkpointer ", Role::Checkpointer),
            ("postgres: main: background writer ", Role::BackgroundWriter),
            ("postgres: autovacuum worker bench", Role::Autovacuum),
            ("postgres: io worker 2", Role::IoWorkers),
            ("postgres: stats collector ", Role::Other),
            ("postgres: parallel worker for PID 12", Role::ParallelWorkers),
            ("postgres: pg_cron launcher ", Role::Other),
            ("postgres: postgres bench [local] idle", Role::ClientBackends),
            ("postgres: main: app bench 10.0.0.1(5000) COMMIT", Role::ClientBackends),
        ] {
            assert_eq!(Role::from_title(title), Some(role), "{title}");
        }
        assert_eq!(Role::from_title("/usr/lib/postgresql/18/bin/postgres -D x"), None);
    }

    #[test]
    fn what_one_process_hides_does_not_hide_the_others() {
        let mut sum = Usage { read_bytes: Some(5), ..Usage::default() };
        sum.add(&Usage { user_seconds: 1.0, ..Usage::default() });
        sum.add(&Usage { read_bytes: Some(2), ..Usage::default() });
        let row = sum.row("g", Some(3), None);
        assert_eq!(row.number("read_bytes"), Some(7.0));
        assert_eq!(row.number("write_bytes"), None);
        assert_eq!(row.number("rss_bytes"), None);
    }
}
