//! Where a parameter lives, and which of two disks it is meant for.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};

/// Attributes of a queue that matter at the device of the file system; others at the disks
/// that do the work, since arrays and mapped devices pass requests on.
pub const OF_THE_FILE_SYSTEM: [&str; 2] = ["read_ahead_kb", "rotational"];

/// Where a parameter lives: what it is written to, or which option carries it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// A setting of the server: `postgresql.conf`, `ALTER SYSTEM`.
    Setting,
    /// Decided when the cluster is made: an option of `initdb`, or the binaries.
    Cluster(String),
    /// A value of `sysctl`; its name is the parameter's.
    Sysctl,
    /// A file of the kernel.
    File(String),
    /// An attribute in `/sys/block/{device}/queue`.
    Queue(String),
    /// An attribute in `/sys/block/{device}/md`, of arrays only.
    Md(String),
    /// A limit of the server's processes, by its systemd directive.
    Limit(String),
    /// What an array is made of, by its option of `mdadm --create`.
    Array(String),
    /// Decided when the file system is made, by its option of `mkfs`.
    Mkfs(String),
    /// Decided when the file system is mounted.
    Mount(String),
    /// A storage parameter of a table.
    Table(String),
    /// A storage parameter of an index.
    Index(String),
    /// A definition of a table, its columns or indexes.
    Ddl(String),
    /// An option of the load.
    Load(String),
    /// An option of the storage probe.
    StorageProbe(String),
    /// What the machine is; nothing that could be set.
    Machine,
}

/// One of the two places that storage serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disk {
    /// The data directory.
    Data,
    /// The WAL.
    Wal,
}

impl Disk {
    /// Both.
    pub const ALL: [Disk; 2] = [Disk::Data, Disk::Wal];

    /// As in a key of config.env: `DATA`, `WAL`.
    pub fn key(self) -> &'static str {
        match self {
            Disk::Data => "DATA",
            Disk::Wal => "WAL",
        }
    }
}

impl fmt::Display for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Disk::Data => "data",
            Disk::Wal => "WAL",
        })
    }
}

/// Major and minor number of a kernel release, which is how its interfaces are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelVersion(pub u32, pub u32);

impl FromStr for KernelVersion {
    type Err = String;

    /// Reads `6.6`, or the beginning of a release such as `6.1.0-28-amd64`.
    fn from_str(text: &str) -> Result<KernelVersion, String> {
        let wrong = || format!("'{text}' is not a kernel release");
        let (major, rest) = text.split_once('.').ok_or_else(wrong)?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        match (major.parse(), rest[..end].parse()) {
            (Ok(major), Ok(minor)) => Ok(KernelVersion(major, minor)),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

impl<'de> Deserialize<'de> for KernelVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The kernels that have a parameter in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelRange {
    /// First that has it; `None` for all that matter (5.4 and later).
    pub since: Option<KernelVersion>,
    /// Last that has it; `None` for all to this day.
    pub until: Option<KernelVersion>,
}

impl KernelRange {
    /// Whether a kernel has it.
    pub fn holds(self, kernel: KernelVersion) -> bool {
        self.since.is_none_or(|since| kernel >= since)
            && self.until.is_none_or(|until| kernel <= until)
    }
}

impl fmt::Display for KernelRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.since, self.until) {
            (Some(since), Some(until)) => write!(f, "Linux {since} to {until}"),
            (Some(since), None) => write!(f, "Linux {since} and later"),
            (None, Some(until)) => write!(f, "Linux up to {until}"),
            (None, None) => f.write_str("Linux"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_major_and_minor() {
        let release: KernelVersion = "6.1.0-28-amd64".parse().unwrap();
        assert_eq!(release, KernelVersion(6, 1));
        assert!("4.19-rc1".parse::<KernelVersion>().unwrap() < KernelVersion(5, 4));
        assert!(KernelVersion(5, 10) > KernelVersion(5, 4));
        for wrong in ["", "6", "six.one", ".", "6."] {
            assert!(wrong.parse::<KernelVersion>().is_err(), "{wrong}");
        }
        let range = KernelRange { since: Some(KernelVersion(6, 6)), until: None };
        assert!(range.holds(KernelVersion(6, 12)) && !range.holds(release));
        assert_eq!(range.to_string(), "Linux 6.6 and later");
    }
}
