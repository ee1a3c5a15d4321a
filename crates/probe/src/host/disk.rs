//! Which devices lie under a directory, and what they did.

use std::path::{Path, PathBuf};

use procfs::process::{MountInfo, Process};
use walwright_record::Row;

use super::read::read_trimmed;

/// Fields of `/proc/diskstats` after the name, under the kernel's names
/// (Documentation/block/stat.rst). Sectors are 512 bytes, ticks milliseconds.
const FIELDS: [&str; 17] = [
    "read_ios",
    "read_merges",
    "read_sectors",
    "read_ticks",
    "write_ios",
    "write_merges",
    "write_sectors",
    "write_ticks",
    "in_flight",
    "io_ticks",
    "time_in_queue",
    "discard_ios",
    "discard_merges",
    "discard_sectors",
    "discard_ticks",
    "flush_ios",
    "flush_ticks",
];

/// Rows of `/proc/diskstats` for `devices`.
pub(crate) fn stats(text: &str, devices: &[String]) -> Vec<Row> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace().skip(2);
            let name = words.next()?;
            if !devices.iter().any(|device| device == name) {
                return None;
            }
            let mut row = Row::new();
            row.set("device", name);
            // Older kernels have fewer fields; those are then absent.
            for (field, value) in FIELDS.iter().zip(words) {
                row.set(*field, value.parse::<i64>().ok()?);
            }
            Some(row)
        })
        .collect()
}

/// A block device: its name in `/proc/diskstats` and its place in `/sys`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) sys: PathBuf,
}

impl Device {
    /// The device with these numbers.
    pub(crate) fn by_number(major: u64, minor: u64) -> Option<Device> {
        Self::at(&PathBuf::from(format!("/sys/dev/block/{major}:{minor}")))
    }

    /// The device called `name`, as in `/dev/NAME`.
    pub(crate) fn by_name(name: &str) -> Option<Device> {
        Self::at(&Path::new("/sys/class/block").join(name))
    }

    fn at(link: &Path) -> Option<Device> {
        let sys = link.canonicalize().ok()?;
        let name = sys.file_name()?.to_str()?.to_owned();
        Some(Device { name, sys })
    }

    /// The whole disk, for a partition; else the device itself.
    pub(crate) fn disk(&self) -> Device {
        if !self.sys.join("partition").exists() {
            return self.clone();
        }
        self.sys.parent().and_then(Self::at).unwrap_or_else(|| self.clone())
    }

    /// The devices that a mapped or RAID device stands on.
    fn slaves(&self) -> Vec<Device> {
        let Ok(entries) = self.sys.join("slaves").read_dir() else { return Vec::new() };
        entries.filter_map(|entry| Self::at(&entry.ok()?.path())).collect()
    }

    /// What kind of mapping a device-mapper device is: `crypt`, `lvm`, …; or `raid`.
    pub(crate) fn mapping(&self) -> Option<String> {
        if let Some(uuid) = read_trimmed(self.sys.join("dm/uuid")) {
            let kind = uuid.split('-').next().unwrap_or_default().to_ascii_lowercase();
            return Some(if kind.is_empty() { "dm".to_owned() } else { kind });
        }
        if self.sys.join("dm").exists() {
            return Some("dm".to_owned());
        }
        read_trimmed(self.sys.join("md/level"))
    }

    /// This device and all beneath it, from the top: partition, disk, mapped devices.
    pub(crate) fn stack(&self) -> Vec<Device> {
        let mut found = vec![self.clone()];
        let mut next = 0;
        while let Some(device) = found.get(next).cloned() {
            let below = device.slaves().into_iter().chain([device.disk()]);
            for device in below {
                if !found.contains(&device) {
                    found.push(device);
                }
            }
            next += 1;
        }
        found
    }
}

/// The device that holds the file system of `directory`. A file system over
/// several devices (btrfs) or with a made-up number is found by its mount source.
pub(crate) fn device_of(directory: &Path) -> Option<Device> {
    let number = nix::sys::stat::stat(directory).ok()?.st_dev;
    let (major, minor) = (nix::sys::stat::major(number), nix::sys::stat::minor(number));
    Device::by_number(major, minor).or_else(|| {
        let source = mount_of(directory)?.mount_source?;
        let source = Path::new(&source).canonicalize().ok()?;
        let name = source.strip_prefix("/dev").ok()?.to_str()?;
        Device::by_name(&name.replace('/', "!"))
    })
}

/// The mount that `directory` lies on: the longest mount point above it, and of
/// those the newest, which hides the others.
pub(crate) fn mount_of(directory: &Path) -> Option<MountInfo> {
    let directory = directory.canonicalize().ok()?;
    let mounts = Process::myself().ok()?.mountinfo().ok()?;
    mounts
        .into_iter()
        .filter(|mount| directory.starts_with(&mount.mount_point))
        .max_by_key(|mount| mount.mount_point.as_os_str().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_flush_fields_and_only_asked_devices() {
        let text = " 254       0 vda 94796 32479 11985178 65803 105581 43152 7601560 25240 0 23604 94503 11947 63 930824 1156 37898 2303\n   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0\n";
        let rows = stats(text, &["vda".to_owned()]);
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].number("write_ios"), Some(105_581.0));
        assert_eq!(rows[0].number("flush_ios"), Some(37_898.0));
        assert_eq!(rows[0].number("flush_ticks"), Some(2_303.0));
    }

    #[test]
    fn an_old_kernel_has_no_flush_fields() {
        let rows = stats("8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n", &["sda".to_owned()]);
        assert_eq!(rows[0].number("time_in_queue"), Some(11.0));
        assert_eq!(rows[0].number("flush_ios"), None);
    }

    #[test]
    fn the_root_file_system_is_found_in_diskstats_where_it_has_a_device() {
        let Some(device) = device_of(Path::new("/")) else { return };
        let diskstats = std::fs::read_to_string("/proc/diskstats").unwrap_or_default();
        assert_eq!(stats(&diskstats, std::slice::from_ref(&device.name)).len(), 1);
        assert_eq!(device.stack()[0], device);
    }
}
