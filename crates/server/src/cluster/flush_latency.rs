//! Flushes that take at least a chosen time: what slow storage does, on fast storage.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use std::{fs, io};

/// The library that is preloaded into the server (`shim/flush_latency.c`).
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/flush_latency.so"));
/// Its name in the directory of a cluster.
const FILE: &str = "flush_latency.so";

/// Has the server that `command` starts take at least `least` for every fsync and
/// fdatasync. The library is written to `directory`, which the server can read.
pub(super) fn lengthen(command: &mut Command, directory: &Path, least: Duration) -> io::Result<()> {
    let library = directory.join(FILE);
    fs::write(&library, LIBRARY)?;
    fs::set_permissions(&library, fs::Permissions::from_mode(0o644))?;
    let mut preload = library.into_os_string();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(" ");
        preload.push(others);
    }
    command.env("LD_PRELOAD", preload);
    command.env("WALWRIGHT_FLUSH_NS", least.as_nanos().to_string());
    Ok(())
}
