//! A server that may use so much of the machine's memory, its page cache included: what a smaller
//! machine has.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::ClusterError;

/// Where hierarchies of control groups are mounted.
const ROOT: &str = "/sys/fs/cgroup";
/// What names of groups begin with; the PID of their walwright follows.
const NAME: &str = "walwright-";

/// A control group with a limit of memory. Dropping it removes it; its processes must have ended.
#[derive(Debug)]
pub(super) struct MemoryGroup {
    dir: PathBuf,
}

impl MemoryGroup {
    /// Makes one in which processes may use `limit` bytes together, and no swap where the system
    /// lets swap be limited.
    pub fn make(limit: u64) -> Result<MemoryGroup, ClusterError> {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let (parent, files) = hierarchy(&own, Path::new(ROOT)).ok_or_else(|| {
            refused(limit, "no control group that limits memory is mounted".to_owned())
        })?;
        remove_abandoned(&parent);
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let dir = parent.join(format!("{NAME}{}-{number}", std::process::id()));
        let failed = |what: &Path, error: &io::Error| {
            refused(limit, format!("{} cannot be written: {error}", what.display()))
        };
        fs::create_dir(&dir).map_err(|error| failed(&dir, &error))?;
        let group = MemoryGroup { dir };
        let most = group.dir.join(files.memory);
        fs::write(&most, limit.to_string()).map_err(|error| failed(&most, &error))?;
        // Not every kernel accounts for swap.
        let _ = fs::write(group.dir.join(files.swap), files.no_swap(limit));
        Ok(group)
    }

    /// Takes in a process, and those that it starts from now on.
    pub fn admit(&self, pid: u32) -> io::Result<()> {
        fs::write(self.dir.join("cgroup.procs"), pid.to_string())
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // What cannot be removed now is when the next is made.
        let _ = fs::remove_dir(&self.dir);
    }
}

fn refused(limit: u64, why: String) -> ClusterError {
    ClusterError::MemoryLimit { megabytes: limit >> 20, why }
}

/// The files of a group.
#[derive(Debug, PartialEq, Eq)]
struct Files {
    memory: &'static str,
    swap: &'static str,
}

impl Files {
    const V1: Files =
        Files { memory: "memory.limit_in_bytes", swap: "memory.memsw.limit_in_bytes" };
    const V2: Files = Files { memory: "memory.max", swap: "memory.swap.max" };

    /// What allows no swap: version 1 limits both together.
    fn no_swap(&self, limit: u64) -> String {
        if *self == Files::V1 { limit.to_string() } else { "0".to_owned() }
    }
}

/// The directory in which a group can be made, by the text of `/proc/self/cgroup`.
fn hierarchy(own: &str, root: &Path) -> Option<(PathBuf, Files)> {
    let lines = || {
        own.lines().filter_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            Some((parts.next()?, parts.next()?.trim_start_matches('/')))
        })
    };
    let v1 = lines().find(|(controllers, _)| controllers.split(',').any(|of| of == "memory"));
    if let Some((_, path)) = v1 {
        let mounted = root.join("memory");
        // In a container the path may be that of another name space.
        let places = [mounted.join(path), mounted];
        return Some((places.into_iter().find(|place| place.is_dir())?, Files::V1));
    }
    // A group with processes has none below it that is limited, so it is one further up.
    let (_, path) = lines().find(|(controllers, _)| controllers.is_empty())?;
    let whole = root.join(path);
    let limits = |place: &&Path| {
        let given = fs::read_to_string(place.join("cgroup.subtree_control")).unwrap_or_default();
        given.split_whitespace().any(|controller| controller == "memory")
    };
    let above = whole.ancestors().take_while(|place| place.starts_with(root));
    above.into_iter().find(limits).map(|place| (place.to_owned(), Files::V2))
}

/// Removes groups whose walwright is gone. The system refuses where processes are in them.
fn remove_abandoned(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(NAME)?.split_once('-'));
        if pid.is_some_and(|(pid, _)| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_made_where_memory_is_limited() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let make = |path: &str| fs::create_dir_all(root.join(path)).unwrap();
        make("memory/a/b");
        let v1 = "9:name=systemd:/\n4:cpu,memory:/a/b\n0::/\n";
        assert_eq!(hierarchy(v1, root), Some((root.join("memory/a/b"), Files::V1)));
        let elsewhere = "4:memory:/gone\n";
        assert_eq!(hierarchy(elsewhere, root), Some((root.join("memory"), Files::V1)));
        make("user/session");
        let v2 = "0::/user/session\n";
        assert_eq!(hierarchy(v2, root), None);
        fs::write(root.join("user/cgroup.subtree_control"), "cpu memory pids\n").unwrap();
        assert_eq!(hierarchy(v2, root), Some((root.join("user"), Files::V2)));
        assert_eq!(hierarchy("", root), None);
    }

    #[test]
    fn only_what_is_abandoned_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let mine = format!("{NAME}{}-0", std::process::id());
        for name in ["walwright-4294967295-0", &mine, "walwright-x", "other"] {
            fs::create_dir(parent.path().join(name)).unwrap();
        }
        remove_abandoned(parent.path());
        let left = fs::read_dir(parent.path()).unwrap().count();
        assert_eq!(left, 3);
        assert!(parent.path().join(mine).exists());
    }
}
