//! Forms that the operating system reads: `sysctl.d`, udev rules, systemd units.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::{Devices, Exported, proof};
use crate::{Disk, DurabilityClass, Entry, OF_THE_FILE_SYSTEM, Place, Profile, Scope};

pub(super) fn sysctl(profile: &Profile, out: &mut Exported) {
    for entry in &profile.entries {
        match &entry.parameter.place {
            Place::Sysctl => {
                if let Some(proof) = proof(entry) {
                    let _ = writeln!(out.text, "# {proof}");
                }
                let _ = writeln!(out.text, "{} = {}", entry.parameter.name, entry.bare());
            }
            Place::File(path) => out.left_out.push(format!(
                "{}: no sysctl; a line for tmpfiles.d is: w {} - - - - {}",
                entry.title(),
                // Each processor has its own, and tmpfiles.d takes patterns.
                path.replace("/cpu0/", "/cpu[0-9]*/"),
                entry.bare()
            )),
            _ => {}
        }
    }
}

pub(super) fn udev(profile: &Profile, given: &Devices, out: &mut Exported) {
    let wanted = |entry: &&Entry| {
        matches!(entry.parameter.place, Place::Queue(_) | Place::Md(_))
            && entry.parameter.class != DurabilityClass::X
    };
    let mut entries: Vec<&Entry> = profile.entries.iter().filter(wanted).collect();
    // Linux sets nr_requests anew at each switch of the scheduler.
    entries.sort_by_key(|entry| entry.parameter.name != "queue/scheduler");
    tell_facts(profile, out);
    let mut arrays = false;
    for disk in Disk::ALL {
        let mut devices: Vec<String> = array(profile, disk).into_iter().collect();
        devices.extend(given.of(disk).iter().map(|device| bare_name(device).to_owned()));
        devices.dedup();
        let mut of_members = BTreeSet::new();
        let mut members = false;
        for device in &devices {
            if !is_device_name(device) {
                out.left_out.push(format!("'{device}' is no name of a block device"));
                continue;
            }
            let array = device.starts_with("md");
            arrays |= array;
            let passes_on = array || device.starts_with("dm-");
            members |= !passes_on;
            for entry in &entries {
                let attribute = match (&entry.parameter.place, &entry.scope) {
                    (Place::Queue(name), Some(Scope::Disk(of))) if *of == disk => {
                        if passes_on && !OF_THE_FILE_SYSTEM.contains(&name.as_str()) {
                            of_members.insert(name.as_str());
                            continue;
                        }
                        format!("queue/{name}")
                    }
                    // Attributes of arrays are the same for both.
                    (Place::Md(name), _) if array => format!("md/{name}"),
                    _ => continue,
                };
                let _ = writeln!(
                    out.text,
                    "ACTION==\"add|change\", SUBSYSTEM==\"block\", KERNEL==\"{device}\", \
                     ATTR{{{attribute}}}=\"{}\"",
                    entry.bare()
                );
            }
        }
        let option = disk.key().to_ascii_lowercase();
        if !of_members.is_empty() && !members {
            let names: Vec<&str> = of_members.into_iter().collect();
            out.left_out.push(format!(
                "{} of the {disk} disks: they belong to the members of {}; name those with --{option}-device",
                names.join(", "),
                devices.join(", ")
            ));
        }
        let of_disk = |e: &&&Entry| e.scope == Some(Scope::Disk(disk));
        if devices.is_empty() && entries.iter().any(|e| of_disk(&e)) {
            out.left_out.push(format!(
                "queues of the {disk} disks: their devices are not known; name them with --{option}-device"
            ));
        }
    }
    let of_arrays = |e: &&&Entry| matches!(e.parameter.place, Place::Md(_));
    for entry in entries.iter().filter(of_arrays).filter(|_| !arrays) {
        out.left_out.push(format!(
            "{}: no array is known (md0); name it with --data-device or --wal-device",
            entry.title()
        ));
    }
}

/// Says of the values that describe a disk that they are not set.
pub(super) fn tell_facts(profile: &Profile, out: &mut Exported) {
    let facts = profile.entries.iter().filter(|entry| {
        matches!(entry.parameter.place, Place::Queue(_))
            && entry.parameter.class == DurabilityClass::X
    });
    for entry in facts {
        out.left_out.push(format!("{}: it tells what the disk is and is not set", entry.title()));
    }
}

/// The array that the profile names for a disk.
pub(super) fn array(profile: &Profile, disk: Disk) -> Option<String> {
    let entry = profile.get("array.device", Some(&Scope::Disk(disk)))?;
    Some(bare_name(&entry.value).to_owned())
}

/// A device's name as rules and `/sys` have it.
fn bare_name(device: &str) -> &str {
    device.strip_prefix("/dev/").unwrap_or(device)
}

fn is_device_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.!-".contains(c);
    !name.is_empty() && name.len() < 64 && name.chars().all(plain)
}

pub(super) fn systemd(profile: &Profile, out: &mut Exported) {
    let mut lines = String::new();
    for entry in &profile.entries {
        if let Place::Limit(directive) = &entry.parameter.place {
            let _ = writeln!(lines, "{directive}={}", entry.bare());
        }
    }
    if !lines.is_empty() {
        out.text = format!("[Service]\n{lines}");
    }
}
