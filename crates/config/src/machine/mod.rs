//! The machine under a server, as far as parameters of the catalogue are concerned:
//! values of the kernel, disks under data and WAL, limits of the server's processes.
//!
//! Everything is read below a root directory, so that a recorded tree of `/proc` and
//! `/sys` serves as well as this machine. What is not there is "not present", what may
//! not be read is "not observable"; neither is ever a value.

mod disks;
mod storage;

use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use serde::Serialize;
use walwright_catalog::{Disk, KernelVersion, Parameter, Place};

pub use disks::{BlockDevice, DiskView, Mount};

/// What a place holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "reading", content = "text", rename_all = "snake_case")]
pub enum Reading {
    /// A value.
    Value(String),
    /// This machine has no such thing, and why.
    NotPresent(String),
    /// It may be there, but cannot be seen from here, and why.
    NotObservable(String),
}

impl Reading {
    /// The value.
    pub fn value(&self) -> Option<&str> {
        match self {
            Reading::Value(value) => Some(value),
            _ => None,
        }
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reading::Value(value) => f.write_str(value),
            Reading::NotPresent(why) => write!(f, "not present: {why}"),
            Reading::NotObservable(why) => write!(f, "not observable: {why}"),
        }
    }
}

/// One place of a parameter and what it holds. A queue has one for each disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Found {
    /// Which of several places: the name of a block device.
    pub device: Option<String>,
    /// The file that holds it, below the root; `None` where it is worked out of several.
    pub path: Option<PathBuf>,
    /// What it holds.
    pub reading: Reading,
}

/// A machine.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineView {
    root: PathBuf,
    kernel: Option<KernelVersion>,
    postmaster: Option<u32>,
    data: Option<DiskView>,
    wal: Option<DiskView>,
}

impl MachineView {
    /// The machine whose files lie below `root`: `/` is this one.
    pub fn at(root: &Path) -> MachineView {
        let release = read(&root.join("proc/sys/kernel/osrelease"));
        let kernel = release.value().and_then(|release| release.parse().ok());
        MachineView { root: root.to_owned(), kernel, postmaster: None, data: None, wal: None }
    }

    /// With a server on it: its directories and, where it is known, its first process.
    #[must_use]
    pub fn with_server(
        mut self,
        data: Option<&Path>,
        wal: Option<&Path>,
        postmaster: Option<u32>,
    ) -> MachineView {
        self.data = data.and_then(|directory| DiskView::under(&self.root, directory));
        self.wal = wal.and_then(|directory| DiskView::under(&self.root, directory));
        self.postmaster = postmaster;
        self
    }

    /// Where its files lie.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Its kernel.
    pub fn kernel(&self) -> Option<KernelVersion> {
        self.kernel
    }

    /// What lies under the data or the WAL; `None` where its directory is not known or
    /// cannot be entered.
    pub fn disk(&self, disk: Disk) -> Option<&DiskView> {
        match disk {
            Disk::Data => self.data.as_ref(),
            Disk::Wal => self.wal.as_ref(),
        }
    }

    /// A sysctl as a number.
    pub fn number(&self, sysctl: &str) -> Option<f64> {
        read(&self.sysctl(sysctl)).value()?.parse().ok()
    }

    /// A field of `/proc/meminfo`, in bytes or, for counts, as it is.
    pub fn meminfo(&self, field: &str) -> Option<f64> {
        let text = fs::read_to_string(self.root.join("proc/meminfo")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
        let mut words = line.split_ascii_whitespace();
        let number: f64 = words.next()?.parse().ok()?;
        Some(if words.next() == Some("kB") { number * 1024.0 } else { number })
    }

    /// Processors, as `/proc/cpuinfo` counts them.
    pub fn processors(&self) -> Option<f64> {
        let text = fs::read_to_string(self.root.join("proc/cpuinfo")).ok()?;
        let count = text.lines().filter(|line| line.starts_with("processor")).count();
        (count > 0).then_some(count as f64)
    }

    /// Nodes of memory.
    pub fn memory_nodes(&self) -> Option<usize> {
        let entries = fs::read_dir(self.root.join("sys/devices/system/node")).ok()?;
        let names = entries.flatten().map(|entry| entry.file_name());
        let node = |name: &str| {
            name.strip_prefix("node")
                .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
        };
        Some(names.filter(|name| node(&name.to_string_lossy())).count())
    }

    /// What the places of a parameter hold. Empty where a machine has no say in it:
    /// settings, schema and load.
    pub fn read(&self, parameter: &Parameter, disk: Option<Disk>) -> Vec<Found> {
        let one =
            |path: Option<PathBuf>, reading: Reading| vec![Found { device: None, path, reading }];
        if let Some(kernel) = self.kernel.filter(|kernel| !parameter.is_in_kernel(*kernel)) {
            let why = format!("{} has it, and this is {kernel}", parameter.kernel);
            return one(None, Reading::NotPresent(why));
        }
        match &parameter.place {
            Place::Sysctl => {
                let path = self.sysctl(&parameter.name);
                one(Some(path.clone()), read(&path))
            }
            Place::File(file) => self
                .each_processor(self.below(Path::new(file)))
                .into_iter()
                .map(|(device, path)| {
                    let reading = selected(read_file(&path));
                    Found { device, path: Some(path), reading }
                })
                .collect(),
            Place::Limit(directive) => one(None, self.limit(directive)),
            Place::Machine => one(None, self.of_machine(&parameter.name)),
            Place::Queue(_) | Place::Md(_) | Place::Array(_) | Place::Mkfs(_) | Place::Mount(_) => {
                storage::places(self, parameter, disk)
            }
            Place::Setting
            | Place::Cluster(_)
            | Place::Table(_)
            | Place::Index(_)
            | Place::Ddl(_)
            | Place::Load(_)
            | Place::StorageProbe(_) => Vec::new(),
        }
    }

    fn below(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    fn sysctl(&self, name: &str) -> PathBuf {
        self.root.join("proc/sys").join(name.replace('.', "/"))
    }

    /// A file, or one of each processor where it is that of the first.
    fn each_processor(&self, path: PathBuf) -> Vec<(Option<String>, PathBuf)> {
        let all = self.root.join("sys/devices/system/cpu");
        let Ok(rest) = path.strip_prefix(all.join("cpu0")) else { return vec![(None, path)] };
        let number = |name: &str| name.strip_prefix("cpu")?.parse::<u32>().ok();
        let mut found: Vec<(u32, PathBuf)> = fs::read_dir(&all)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let file = entry.path().join(rest);
                Some((number(&entry.file_name().to_string_lossy())?, file))
            })
            .filter(|(_, file)| file.exists())
            .collect();
        if found.is_empty() {
            return vec![(None, path)];
        }
        found.sort();
        found.into_iter().map(|(number, file)| (Some(format!("cpu{number}")), file)).collect()
    }

    /// The soft limit that the server's processes inherit.
    fn limit(&self, directive: &str) -> Reading {
        let title = match directive {
            "LimitNOFILE" => "Max open files",
            "LimitNPROC" => "Max processes",
            other => return Reading::NotObservable(format!("{other} is not looked at")),
        };
        let Some(pid) = self.postmaster else {
            return Reading::NotObservable("the server's processes are not known here".to_owned());
        };
        let limits = read_lines(&self.root.join(format!("proc/{pid}/limits")));
        let Reading::Value(text) = &limits else { return limits };
        let soft = text
            .lines()
            .find_map(|line| line.strip_prefix(title))
            .and_then(|rest| rest.split_ascii_whitespace().next());
        match soft {
            Some(soft) => Reading::Value(soft.to_owned()),
            None => Reading::NotObservable(format!("/proc/{pid}/limits does not tell it")),
        }
    }

    fn of_machine(&self, name: &str) -> Reading {
        let told = match name {
            "machine.processors" => self.processors().map(|n| n.to_string()),
            "machine.memory_gb" => {
                self.meminfo("MemTotal").map(|bytes| format!("{:.1}", bytes / 1_073_741_824.0))
            }
            _ => return Reading::NotObservable("only its vendor tells it".to_owned()),
        };
        told.map_or_else(
            || Reading::NotObservable("/proc does not tell it".to_owned()),
            Reading::Value,
        )
    }
}

/// A file of one line, with single blanks.
fn read(path: &Path) -> Reading {
    match read_file(path) {
        Reading::Value(text) => {
            Reading::Value(text.split_whitespace().collect::<Vec<_>>().join(" "))
        }
        other => other,
    }
}

/// A file of one line.
fn read_file(path: &Path) -> Reading {
    match read_lines(path) {
        Reading::Value(text) => Reading::Value(text.trim().to_owned()),
        other => other,
    }
}

fn read_lines(path: &Path) -> Reading {
    match fs::read_to_string(path) {
        Ok(text) => Reading::Value(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // debugfs shows nothing at all to who may not enter it.
            let hidden = path.ancestors().any(|part| part.ends_with("sys/kernel/debug"));
            match hidden {
                true => Reading::NotObservable(
                    "it lies in debugfs, which is not mounted here or for root alone".to_owned(),
                ),
                false => Reading::NotPresent("this kernel has no such value".to_owned()),
            }
        }
        Err(error) => Reading::NotObservable(error.to_string()),
    }
}

/// The choice in brackets, of files that list all: `always [madvise] never`.
fn selected(reading: Reading) -> Reading {
    let Reading::Value(text) = &reading else { return reading };
    match text.split_once('[').and_then(|(_, rest)| rest.split_once(']')) {
        Some((chosen, _)) => Reading::Value(chosen.to_owned()),
        None => reading,
    }
}

#[cfg(test)]
mod tests;
