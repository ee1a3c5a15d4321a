//! What the integration tests share.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use walwright_server::{Install, Installs, Major, Places};

/// The install of a version, from the cache of the user who runs the tests.
pub fn install(major: Major) -> Install {
    Installs::open(None)
        .and_then(|installs| installs.ensure(major, &mut |_| {}))
        .expect("an install")
}

/// A directory on a real disk that every user can enter.
pub fn open_dir() -> TempDir {
    let dir = tempfile::tempdir_in("/var/tmp").expect("temp dir");
    fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).expect("chmod");
    dir
}

/// Places of their own below a directory.
pub fn places(dir: &Path) -> Places {
    Places::open(Some(dir.join("cache"))).expect("places")
}

/// Waits until a condition holds; fails the test when it never does.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process exists and is not merely waiting to be reaped.
pub fn lives(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z")))
}

/// The processes whose working directory is `dir`.
pub fn at_home_in(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir("/proc")
        .expect("proc")
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|process| fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd == dir))
        .collect()
}

/// A runtime for the asynchronous part of a test.
pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Runtime::new().expect("a runtime")
}
