//! Limits and usage of a process's control group, versions 2 and 1.

use std::path::{Path, PathBuf};

use walwright_record::Row;

use super::read::read_trimmed;

const ROOT: &str = "/sys/fs/cgroup";

/// Where the control groups of a process lie.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cgroup {
    /// Directory in the unified hierarchy.
    v2: Option<PathBuf>,
    /// Directories in the hierarchies of version 1.
    v1_cpu: Option<PathBuf>,
    v1_cpuacct: Option<PathBuf>,
    v1_memory: Option<PathBuf>,
}

impl Cgroup {
    /// The groups of process `pid`.
    pub(crate) fn of(pid: u32) -> Cgroup {
        let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        Self::parse(&text, Path::new(ROOT))
    }

    /// From the text of `/proc/PID/cgroup`. A path that is not there (it is
    /// another namespace's) falls back to the root, which inside a container is
    /// the container's own group.
    pub(super) fn parse(text: &str, root: &Path) -> Cgroup {
        let mut found = Cgroup::default();
        for line in text.lines() {
            let mut parts = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) =
                (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            let under = |hierarchy: PathBuf| {
                let whole = hierarchy.join(path.trim_start_matches('/'));
                if whole.is_dir() { Some(whole) } else { hierarchy.is_dir().then_some(hierarchy) }
            };
            if controllers.is_empty() && root.join("cgroup.controllers").exists() {
                found.v2 = under(root.to_owned());
            }
            for controller in controllers.split(',') {
                match controller {
                    "cpu" => found.v1_cpu = under(root.join("cpu")),
                    "cpuacct" => found.v1_cpuacct = under(root.join("cpuacct")),
                    "memory" => found.v1_memory = under(root.join("memory")),
                    _ => {}
                }
            }
        }
        found
    }

    /// The CPU quota in processors: the tightest on the way to the root.
    pub(crate) fn cpu_limit(&self) -> Option<f64> {
        let v2 = ancestors(self.v2.as_deref()).filter_map(|dir| {
            let text = read_trimmed(dir.join("cpu.max"))?;
            let (quota, period) = text.split_once(' ')?;
            Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
        });
        let v1 = ancestors(self.v1_cpu.as_deref()).filter_map(|dir| {
            let quota: f64 = read_trimmed(dir.join("cpu.cfs_quota_us"))?.parse().ok()?;
            let period: f64 = read_trimmed(dir.join("cpu.cfs_period_us"))?.parse().ok()?;
            (quota > 0.0).then(|| quota / period)
        });
        v2.chain(v1).filter(|limit| limit.is_finite()).reduce(f64::min)
    }

    /// The memory limit in bytes: the tightest on the way to the root.
    pub(crate) fn memory_limit(&self) -> Option<u64> {
        // Version 1 shows "no limit" as the largest multiple of a page.
        const UNLIMITED: u64 = 1 << 62;
        let v2 = ancestors(self.v2.as_deref())
            .filter_map(|dir| read_trimmed(dir.join("memory.max"))?.parse::<u64>().ok());
        let v1 = ancestors(self.v1_memory.as_deref())
            .filter_map(|dir| read_trimmed(dir.join("memory.limit_in_bytes"))?.parse::<u64>().ok());
        v2.chain(v1).filter(|limit| *limit < UNLIMITED).min()
    }

    /// Usage and throttling, under the names of version 2 whichever it is;
    /// `None` where there is none to be read.
    pub(crate) fn sample(&self) -> Option<Row> {
        let mut row = Row::new();
        if let Some(dir) = &self.v2 {
            for name in [
                "usage_usec",
                "user_usec",
                "system_usec",
                "nr_periods",
                "nr_throttled",
                "throttled_usec",
            ] {
                copy(&mut row, name, field(&dir.join("cpu.stat"), name));
            }
            copy(&mut row, "memory.current", number(&dir.join("memory.current")));
            copy(&mut row, "oom_kill", field(&dir.join("memory.events"), "oom_kill"));
        }
        if let Some(dir) = &self.v1_cpu {
            let stat = dir.join("cpu.stat");
            copy(&mut row, "nr_periods", field(&stat, "nr_periods"));
            copy(&mut row, "nr_throttled", field(&stat, "nr_throttled"));
            // Nanoseconds there.
            copy(&mut row, "throttled_usec", field(&stat, "throttled_time").map(|ns| ns / 1000));
        }
        if let Some(dir) = &self.v1_cpuacct {
            copy(&mut row, "usage_usec", number(&dir.join("cpuacct.usage")).map(|ns| ns / 1000));
        }
        if let Some(dir) = &self.v1_memory {
            copy(&mut row, "memory.current", number(&dir.join("memory.usage_in_bytes")));
            copy(&mut row, "oom_kill", field(&dir.join("memory.oom_control"), "oom_kill"));
        }
        (!row.0.is_empty()).then_some(row)
    }
}

fn copy(row: &mut Row, column: &str, value: Option<i64>) {
    if let Some(value) = value {
        row.set(column, value);
    }
}

/// A group's directory and those above it, up to the mount.
fn ancestors(from: Option<&Path>) -> impl Iterator<Item = &Path> {
    from.into_iter().flat_map(Path::ancestors).take_while(|dir| *dir != Path::new("/sys/fs"))
}

fn number(path: &Path) -> Option<i64> {
    read_trimmed(path)?.parse().ok()
}

fn field(path: &Path, name: &str) -> Option<i64> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| {
        line.split_once(' ').filter(|(key, _)| *key == name)?.1.trim().parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    #[test]
    fn version_2_takes_the_tightest_limit_of_the_path() {
        let root = tree(&[
            ("cgroup.controllers", "cpu memory"),
            ("a/cpu.max", "150000 100000"),
            ("a/memory.max", "1000000"),
            ("a/b/cpu.max", "max 100000"),
            ("a/b/memory.max", "max"),
            ("a/b/cpu.stat", "usage_usec 5\nnr_throttled 2\nthrottled_usec 900\n"),
            ("a/b/memory.current", "4096\n"),
        ]);
        let group = Cgroup::parse("0::/a/b\n", root.path());
        assert_eq!(group.cpu_limit(), Some(1.5));
        assert_eq!(group.memory_limit(), Some(1_000_000));
        let row = group.sample().unwrap();
        assert_eq!(row.number("throttled_usec"), Some(900.0));
        assert_eq!(row.number("memory.current"), Some(4096.0));
        assert_eq!(row.number("nr_periods"), None);
    }

    #[test]
    fn version_1_is_told_in_the_words_of_2() {
        let root = tree(&[
            ("cpu/g/cpu.cfs_quota_us", "-1"),
            ("cpu/g/cpu.cfs_period_us", "100000"),
            ("cpu/g/cpu.stat", "nr_periods 3\nnr_throttled 1\nthrottled_time 7000\n"),
            ("memory/memory.limit_in_bytes", "9223372036854771712"),
            ("memory/memory.usage_in_bytes", "12"),
        ]);
        let group = Cgroup::parse("2:cpu,cpuacct:/g\n1:memory:/elsewhere\n0::/\n", root.path());
        assert_eq!(group.cpu_limit(), None);
        assert_eq!(group.memory_limit(), None);
        let row = group.sample().unwrap();
        assert_eq!(row.number("throttled_usec"), Some(7.0));
        assert_eq!(row.number("memory.current"), Some(12.0));
    }

    #[test]
    fn nothing_there_is_absent() {
        let root = tree(&[]);
        let group = Cgroup::parse("0::/x\n", root.path());
        assert_eq!(group.sample(), None);
        assert_eq!(group.cpu_limit(), None);
    }
}
