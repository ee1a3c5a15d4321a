//! Libraries of ours that are preloaded into an embedded server.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::{fs, io};

/// A library, and its name in the directory of a cluster.
pub(super) struct Library {
    pub name: &'static str,
    pub content: &'static [u8],
}

/// Has the server that `command` starts load `libraries`, each of which calls those behind
/// it, before what the environment preloads. They are written to `directory`, which the
/// server can read.
pub(super) fn preload(
    command: &mut Command,
    directory: &Path,
    libraries: &[Library],
) -> io::Result<()> {
    let mut all = Vec::new();
    for Library { name, content } in libraries {
        let path = directory.join(name);
        fs::write(&path, content)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
        all.push(path.into_os_string());
    }
    if all.is_empty() {
        return Ok(());
    }
    all.extend(std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()));
    command.env("LD_PRELOAD", all.join(std::ffi::OsStr::new(" ")));
    Ok(())
}
