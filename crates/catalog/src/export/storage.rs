//! Arrays and file systems as commands for a person to read and run.

use std::fmt::Write;

use super::Exported;
use crate::shell::quote;
use crate::{Disk, Entry, Profile, Scope};

/// What is to be said of one mount option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MountNote {
    /// Why it changes nothing, or is refused.
    pub why: &'static str,
    /// Whether a mount with it fails.
    pub refused: bool,
}

/// Disks of an array of a level (`0`, `5`, `10`) that carry data side by side; `None` where
/// so many disks make no such array. Level 10 keeps two copies, as mdadm does by default.
pub fn data_disks(level: &str, disks: f64) -> Option<f64> {
    let width = match level {
        "0" => disks,
        "1" => 1.0,
        "10" => (disks / 2.0).floor(),
        "4" | "5" => disks - 1.0,
        "6" => disks - 2.0,
        _ => return None,
    };
    (width >= 1.0).then_some(width)
}

/// What is to be said of a mount option beside the others, on a file system.
pub fn mount_notes(option: &str, all: &[&str], file_system: &str) -> Option<MountNote> {
    let note = |why, refused| Some(MountNote { why, refused });
    match option {
        "nodiratime" if all.contains(&"noatime") => note("noatime implies it", false),
        "inode64" if file_system == "xfs" => note("it is the default since Linux 3.7", false),
        "barrier" | "nobarrier" if file_system == "xfs" => {
            note("XFS refuses it since Linux 4.19", true)
        }
        "nobarrier" | "barrier=0" => {
            note("flushes would not reach the disk: commits would not be durable", true)
        }
        "defaults" if all.len() > 1 => note("it means nothing beside others", false),
        _ => None,
    }
}

pub(super) fn commands(profile: &Profile, out: &mut Exported) {
    let mut body = String::new();
    for disk in Disk::ALL {
        let made = disk_commands(profile, disk, out);
        if !made.is_empty() {
            let _ = write!(body, "\n# {disk}\n{made}");
        }
    }
    for entry in profile.entries.iter().filter(|entry| entry.scope.is_none()) {
        let why = match entry.parameter.name.as_str() {
            "xfs.log_sunit" if system(profile).as_deref() != Some("xfs") => NOT_XFS,
            "fs.separate_wal" => "where the WAL lies is told to initdb (--waldir)",
            _ => continue,
        };
        out.left_out.push(format!("{}: {why}", entry.title()));
    }
    if body.is_empty() {
        return;
    }
    out.text.push_str(
        "#!/bin/sh\n# Read before you run it: mdadm --create and mkfs destroy what is on the disks.\nset -eu\n",
    );
    out.text.push_str(&body);
}

/// Why what only XFS has is in no command.
const NOT_XFS: &str = "FS_TYPE does not say that an XFS is made";

/// The file system that is made on both disks.
fn system(profile: &Profile) -> Option<String> {
    profile.get("fs.type", None).map(|entry| entry.value.to_ascii_lowercase())
}

fn disk_commands(profile: &Profile, disk: Disk, out: &mut Exported) -> String {
    let scope = Scope::Disk(disk);
    let entry = |name: &str| profile.get(name, Some(&scope));
    let mut made = String::new();
    let device = entry("array.device").map_or_else(
        || format!("\"${{{}_DEVICE:?name the device}}\"", disk.key()),
        |entry| quote(&entry.value),
    );
    if let (Some(level), Some(members)) = (entry("array.level"), entry("array.members")) {
        let count = members.bare();
        let _ = write!(
            made,
            "mdadm --create {device} --level={} --raid-devices={count}",
            quote(&level.bare())
        );
        if let Some(chunk) = entry("array.chunk") {
            let _ = write!(made, " --chunk={}K", chunk.bare());
        }
        if let Some(bitmap) = entry("array.bitmap") {
            let _ = write!(made, " --bitmap={}", bitmap.bare());
        }
        let size = entry("array.member_size")
            .map_or_else(String::new, |size| format!(" of {} GB", size.bare()));
        let _ = writeln!(made, " ${{{}_MEMBERS:?name the {count} disks{size}}}", disk.key());
    }
    let system = system(profile);
    let width = width(&entry);
    match system.as_deref() {
        Some("xfs") => made.push_str(&mkfs_xfs(profile, &entry, width, &device)),
        Some("ext4") => made.push_str(&mkfs_ext4(&entry, width, &device)),
        Some(other) => out.left_out.push(format!("a {other} file system is made by other tools")),
        None => {}
    }
    if let Some(mount) = entry("array.mount_point") {
        let options = entry("mount.options").map(|entry| entry.value.as_str());
        made.push_str(&mount_command(
            &device,
            &mount.value,
            options,
            system.as_deref().unwrap_or("auto"),
        ));
    }
    for unused in profile.entries.iter().filter(|entry| entry.scope.as_ref() == Some(&scope)) {
        let why = not_written(unused, disk, system.as_deref(), &entry, made.is_empty());
        out.left_out.extend(why.map(|why| format!("{}: {why}", unused.title())));
    }
    made
}

/// Disks that carry data side by side: as the profile says, else as its array has them.
fn width<'a>(entry: &impl Fn(&str) -> Option<&'a Entry>) -> Option<f64> {
    let number = |name: &str| entry(name)?.read()?.number();
    number("array.stripe_width")
        .or_else(|| data_disks(&entry("array.level")?.bare(), number("array.members")?))
}

/// Why the commands for a disk do not hold one of its values; `None` where they do, or
/// the value is not of storage. `nothing_made` says that there is no command for it.
fn not_written<'a>(
    unused: &Entry,
    disk: Disk,
    system: Option<&str>,
    entry: &impl Fn(&str) -> Option<&'a Entry>,
    nothing_made: bool,
) -> Option<String> {
    let key = disk.key();
    let array = entry("array.level").is_some() && entry("array.members").is_some();
    match unused.parameter.name.as_str() {
        "array.level" | "array.members" | "array.member_size" | "array.chunk" | "array.bitmap"
            if !array =>
        {
            Some(format!(
                "an array is made only where {key}_RAID_LEVEL and {key}_DISK_COUNT are set"
            ))
        }
        "array.device" if nothing_made => Some("no command here is about it".to_owned()),
        "array.stripe_width" => match system {
            Some("xfs") => {
                let unit = entry("xfs.sunit").is_some_and(|unit| unit.bare() != "0");
                (!unit).then(|| format!("mkfs.xfs takes it beside XFS_{key}_SUNIT alone"))
            }
            Some("ext4") => entry("array.chunk")
                .is_none()
                .then(|| format!("mkfs.ext4 takes it beside {key}_RAID_CHUNK alone")),
            _ => Some("FS_TYPE does not say that an XFS or ext4 is made".to_owned()),
        },
        "xfs.sunit" | "xfs.agcount" if system != Some("xfs") => Some(NOT_XFS.to_owned()),
        "xfs.sunit" if unused.bare() != "0" && width(entry).is_none() => Some(format!(
            "mkfs.xfs takes it beside a width alone, which {key}_STRIPE_WIDTH, or {key}_RAID_LEVEL and {key}_DISK_COUNT of an array, would tell"
        )),
        "mount.options" if entry("array.mount_point").is_none() => {
            Some(format!("nothing is mounted where {key}_MOUNT does not say where"))
        }
        _ => None,
    }
}

fn mkfs_xfs<'a>(
    profile: &'a Profile,
    entry: &impl Fn(&str) -> Option<&'a Entry>,
    width: Option<f64>,
    device: &str,
) -> String {
    let mut data = Vec::new();
    let unit = entry("xfs.sunit").map(Entry::bare).filter(|unit| unit != "0");
    // Without a width the unit is refused, and a wrong one lays out every file wrongly.
    if let (Some(unit), Some(width)) = (unit, width) {
        data.push(format!("su={unit}k,sw={width}"));
    }
    if let Some(count) = entry("xfs.agcount") {
        data.push(format!("agcount={}", count.bare()));
    }
    let mut command = "mkfs.xfs".to_owned();
    if !data.is_empty() {
        let _ = write!(command, " -d {}", data.join(","));
    }
    if let Some(unit) =
        profile.get("xfs.log_sunit", None).map(Entry::bare).filter(|unit| unit != "0")
    {
        let _ = write!(command, " -l su={unit}k");
    }
    format!("{command} {device}\n")
}

fn mkfs_ext4<'a>(
    entry: &impl Fn(&str) -> Option<&'a Entry>,
    width: Option<f64>,
    device: &str,
) -> String {
    /// What ext4 takes on disks of this size.
    const BLOCK: f64 = 4096.0;
    let stride = entry("array.chunk")
        .and_then(|entry| entry.read()?.bytes())
        .map(|bytes| (bytes / BLOCK).max(1.0));
    match (stride, width) {
        (Some(stride), Some(width)) => format!(
            "mkfs.ext4 -b 4096 -E stride={stride},stripe_width={} {device}\n",
            stride * width
        ),
        _ => format!("mkfs.ext4 {device}\n"),
    }
}

fn mount_command(device: &str, mount: &str, options: Option<&str>, system: &str) -> String {
    let options = options.into_iter().flat_map(|text| text.split(','));
    let all: Vec<&str> = options.map(str::trim).filter(|option| !option.is_empty()).collect();
    let mut made = String::new();
    let mut kept = Vec::new();
    for option in all.iter().copied() {
        match mount_notes(option, &all, system) {
            Some(note) => {
                let _ = writeln!(made, "# left out {option}: {}", note.why);
            }
            None => kept.push(option),
        }
    }
    let options =
        if kept.is_empty() { String::new() } else { format!(" -o {}", quote(&kept.join(","))) };
    let mount = quote(mount);
    let _ = writeln!(made, "mkdir -p {mount}\nmount{options} {device} {mount}");
    made
}
