//! Which mount and which block devices lie under a directory.

use std::fs;
use std::path::{Path, PathBuf};

/// A line of `/proc/self/mountinfo`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Where.
    pub point: PathBuf,
    /// File-system type.
    pub file_system: String,
    /// Options of the mount and of the file system.
    pub options: Vec<String>,
    /// What is mounted: `/dev/md0`.
    pub source: String,
    number: String,
}

/// A block device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockDevice {
    /// Name, as in `/dev`.
    pub name: String,
    /// Its directory in `/sys`, below the root.
    pub sys: PathBuf,
}

/// What lies under a directory.
#[derive(Debug, Clone, PartialEq)]
pub struct DiskView {
    /// The directory.
    pub directory: PathBuf,
    /// Its mount.
    pub mount: Mount,
    /// The device of the file system and all below it, from the top; empty where it has
    /// none that shows.
    pub devices: Vec<BlockDevice>,
    /// Free bytes; `None` of a recorded tree.
    pub free_bytes: Option<f64>,
}

impl DiskView {
    /// What lies under `directory` of the machine below `root`.
    pub(super) fn under(root: &Path, directory: &Path) -> Option<DiskView> {
        let inside = root.join(directory.strip_prefix("/").unwrap_or(directory));
        // Links are followed where the directory is there; a recorded tree has none.
        let resolved = match (inside.canonicalize(), root.canonicalize()) {
            (Ok(path), Ok(root)) => {
                path.strip_prefix(&root).map_or(path.clone(), |rest| Path::new("/").join(rest))
            }
            _ => directory.to_owned(),
        };
        let text = fs::read_to_string(root.join("proc/self/mountinfo")).ok()?;
        // The longest mount point above it, and of those the newest, which hides the others.
        let mount = text
            .lines()
            .filter_map(mount)
            .filter(|mount| resolved.starts_with(&mount.point))
            .max_by_key(|mount| mount.point.as_os_str().len())?;
        let space = (root == Path::new("/")).then(|| nix::sys::statvfs::statvfs(&resolved).ok());
        Some(DiskView {
            devices: top(root, &mount).map(stack).unwrap_or_default(),
            free_bytes: space
                .flatten()
                .map(|space| space.blocks_available() as f64 * space.fragment_size() as f64),
            directory: directory.to_owned(),
            mount,
        })
    }

    /// The device of the file system.
    pub fn top(&self) -> Option<&BlockDevice> {
        self.devices.first()
    }

    /// The array among the devices.
    pub fn array(&self) -> Option<&BlockDevice> {
        self.devices.iter().find(|device| device.sys.join("md").is_dir())
    }

    /// The disks at the bottom.
    pub fn leaves(&self) -> impl Iterator<Item = &BlockDevice> {
        self.devices.iter().filter(|device| device.is_disk() && device.below().is_empty())
    }
}

impl BlockDevice {
    fn at(link: &Path) -> Option<BlockDevice> {
        let sys = link.canonicalize().ok()?;
        let name = sys.file_name()?.to_str()?.to_owned();
        Some(BlockDevice { name, sys })
    }

    fn is_disk(&self) -> bool {
        !self.sys.join("partition").exists()
    }

    /// The whole disk of a partition; else the device itself.
    pub fn disk(&self) -> BlockDevice {
        match self.is_disk() {
            true => self.clone(),
            false => self.sys.parent().and_then(BlockDevice::at).unwrap_or_else(|| self.clone()),
        }
    }

    /// The devices that a mapped device or an array stands on.
    fn below(&self) -> Vec<BlockDevice> {
        let entries = fs::read_dir(self.sys.join("slaves")).into_iter().flatten().flatten();
        let mut below: Vec<_> = entries.filter_map(|entry| Self::at(&entry.path())).collect();
        below.sort_by(|a, b| a.name.cmp(&b.name));
        below
    }
}

/// The device that a mount names, by its number or, where that is made up, by its source.
fn top(root: &Path, mount: &Mount) -> Option<BlockDevice> {
    BlockDevice::at(&root.join("sys/dev/block").join(&mount.number)).or_else(|| {
        let name = mount.source.strip_prefix("/dev/")?;
        BlockDevice::at(&root.join("sys/class/block").join(name.replace('/', "!")))
    })
}

/// A device and all beneath it, from the top.
fn stack(device: BlockDevice) -> Vec<BlockDevice> {
    let mut found = vec![device];
    let mut next = 0;
    while let Some(device) = found.get(next).cloned() {
        for device in device.below().into_iter().chain([device.disk()]) {
            if !found.contains(&device) {
                found.push(device);
            }
        }
        next += 1;
    }
    found
}

fn mount(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let left: Vec<&str> = left.split(' ').collect();
    let mut right = right.split(' ');
    let (file_system, source) = (right.next()?.to_owned(), unescaped(right.next()?));
    let mut options: Vec<String> = Vec::new();
    for option in left.get(5)?.split(',').chain(right.next().unwrap_or_default().split(',')) {
        if !option.is_empty() && !options.iter().any(|known| known == option) {
            options.push(unescaped(option));
        }
    }
    Some(Mount {
        point: PathBuf::from(unescaped(left.get(4)?)),
        number: (*left.get(2)?).to_owned(),
        file_system,
        options,
        source,
    })
}

/// Blanks and the like stand as three octal digits behind a backslash.
fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let code = after.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code.filter(u8::is_ascii) {
            Some(code) => {
                out.push(char::from(code));
                rest = &after[3..];
            }
            None => {
                out.push('\\');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}
