//! Queues, arrays, file systems and mounts under data and WAL.

use std::path::Path;

use walwright_catalog::{Disk, OF_THE_FILE_SYSTEM, Parameter, Place, data_disks};

use super::disks::{BlockDevice, DiskView};
use super::{Found, MachineView, Reading, read, read_file, selected};

fn devices_for(view: &DiskView, attribute: &str) -> Vec<BlockDevice> {
    match OF_THE_FILE_SYSTEM.contains(&attribute) {
        true => view.top().map(BlockDevice::disk).into_iter().collect(),
        false => view.leaves().cloned().collect(),
    }
}

fn one(reading: Reading) -> Vec<Found> {
    vec![Found { device: None, path: None, reading }]
}

fn of_disk(machine: &MachineView, parameter: &Parameter, disk: Disk) -> Vec<Found> {
    let Some(view) = machine.disk(disk) else {
        let why = format!("the directory of the {disk} is not known here");
        return one(Reading::NotObservable(why));
    };
    match &parameter.place {
        Place::Queue(attribute) => queue(view, attribute, disk),
        Place::Md(attribute) => md(view, attribute, disk),
        Place::Array(_) => one(array(view, &parameter.name, disk)),
        _ => one(file_system(machine, view, &parameter.name, disk)),
    }
}

/// What the places of a parameter of storage hold.
pub(super) fn places(
    machine: &MachineView,
    parameter: &Parameter,
    disk: Option<Disk>,
) -> Vec<Found> {
    match disk {
        Some(disk) => of_disk(machine, parameter, disk),
        // What is not told apart is read of both, each device once.
        None => {
            let mut found: Vec<Found> = Vec::new();
            for one in Disk::ALL.into_iter().flat_map(|disk| of_disk(machine, parameter, disk)) {
                if !found.contains(&one) {
                    found.push(one);
                }
            }
            found
        }
    }
}

fn queue(view: &DiskView, attribute: &str, disk: Disk) -> Vec<Found> {
    let devices = devices_for(view, attribute);
    if devices.is_empty() {
        return one(Reading::NotPresent(without_device(view, disk)));
    }
    devices
        .into_iter()
        .map(|device| {
            let path = device.sys.join("queue").join(attribute);
            let reading = selected(read_file(&path));
            Found { device: Some(device.name), path: Some(path), reading }
        })
        .collect()
}

fn without_device(view: &DiskView, disk: Disk) -> String {
    format!("{} under the {disk} has no block device that shows", view.mount.file_system)
}

fn without_array(disk: Disk) -> Reading {
    Reading::NotPresent(format!("no array of md lies under the {disk}"))
}

fn md(view: &DiskView, attribute: &str, disk: Disk) -> Vec<Found> {
    let Some(array) = view.array() else { return one(without_array(disk)) };
    let path = array.sys.join("md").join(attribute);
    let reading = match read(&path) {
        Reading::NotPresent(_) => {
            Reading::NotPresent(format!("{} has no such attribute at its level", level(array)))
        }
        other => other,
    };
    vec![Found { device: Some(array.name.clone()), path: Some(path), reading }]
}

/// `raid10`, as the kernel names it.
fn level(array: &BlockDevice) -> String {
    read(&array.sys.join("md/level")).value().unwrap_or("an array of unknown level").to_owned()
}

fn array(view: &DiskView, name: &str, disk: Disk) -> Reading {
    let Some(array) = view.array() else { return without_array(disk) };
    let file = |name: &str| read(&array.sys.join("md").join(name));
    let kilobytes = |text: &str| text.parse::<f64>().ok().map(|bytes| (bytes / 1024.0).to_string());
    match name {
        "array.device" => Reading::Value(format!("/dev/{}", array.name)),
        "array.level" => match level(array).strip_prefix("raid") {
            Some(level) => Reading::Value(level.to_owned()),
            None => Reading::NotPresent(format!("{} is no level of RAID", level(array))),
        },
        "array.members" => file("raid_disks"),
        "array.chunk" => match file("chunk_size") {
            Reading::Value(bytes) => kilobytes(&bytes).map_or_else(
                || Reading::NotObservable(format!("'{bytes}' is no size")),
                Reading::Value,
            ),
            other => other,
        },
        "array.bitmap" => match file("bitmap/location") {
            Reading::Value(none) if none == "none" => Reading::Value(none),
            // A place relative to the superblock.
            Reading::Value(_) => Reading::Value("internal".to_owned()),
            other => other,
        },
        "array.member_size" => {
            let sectors = |device: &BlockDevice| -> Option<f64> {
                read(&device.sys.join("size")).value()?.parse().ok()
            };
            // 512 bytes a sector, whatever the disk's own are.
            let gigabytes = |sectors: f64| (sectors * 512.0 / 1_073_741_824.0).round().to_string();
            view.leaves().filter_map(sectors).reduce(f64::min).map_or_else(
                || Reading::NotObservable("no member tells its size".to_owned()),
                |least| Reading::Value(gigabytes(least)),
            )
        }
        _ => Reading::NotObservable("mdadm --detail tells it".to_owned()),
    }
}

/// Disks that carry data side by side.
fn width(array: &BlockDevice) -> Option<f64> {
    let disks: f64 = read(&array.sys.join("md/raid_disks")).value()?.parse().ok()?;
    data_disks(level(array).strip_prefix("raid")?, disks)
}

fn file_system(machine: &MachineView, view: &DiskView, name: &str, disk: Disk) -> Reading {
    let mount = &view.mount;
    let xfs = mount.file_system == "xfs";
    match name {
        "fs.type" => Reading::Value(mount.file_system.clone()),
        "array.mount_point" => Reading::Value(mount.point.display().to_string()),
        "mount.options" => Reading::Value(mount.options.join(",")),
        "fs.separate_wal" => match (machine.disk(Disk::Data), machine.disk(Disk::Wal)) {
            (Some(data), Some(wal)) => {
                let shared = data.leaves().any(|leaf| wal.leaves().any(|other| leaf == other))
                    || data.mount.point == wal.mount.point;
                Reading::Value(if shared { "off" } else { "on" }.to_owned())
            }
            _ => Reading::NotObservable("the directories of both are not known here".to_owned()),
        },
        "array.stripe_width" => match view.array() {
            None => without_array(disk),
            Some(array) => width(array).map_or_else(
                || Reading::NotObservable("the array's level does not tell it".to_owned()),
                |width| Reading::Value(width.to_string()),
            ),
        },
        _ if !xfs => {
            Reading::NotPresent(format!("no XFS under the {disk}, but {}", mount.file_system))
        }
        "xfs.sunit" => {
            let told = mount.options.iter().find_map(|option| option.strip_prefix("sunit="));
            match told.map(str::parse::<f64>) {
                // Sectors of 512 bytes.
                Some(Ok(sectors)) => Reading::Value((sectors / 2.0).to_string()),
                _ => Reading::Value("0".to_owned()),
            }
        }
        _ => Reading::NotObservable(format!("xfs_info {} tells it", shown(&mount.point))),
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
