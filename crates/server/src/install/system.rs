//! Installs that are already on the system.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Install, InstallSource};

/// PostgreSQL 14 or later as distributions install it, and what `pg_config` on
/// the PATH points to; newest first. What does not run is left out.
///
/// Runs each candidate once (a few milliseconds each).
pub fn system_installs() -> Vec<Install> {
    let mut bins = BTreeSet::new();
    // Debian and Ubuntu; the PostgreSQL project's RPMs; Alpine.
    for (parent, prefix) in
        [("/usr/lib/postgresql", ""), ("/usr", "pgsql-"), ("/usr/libexec", "postgresql")]
    {
        for name in names_in(Path::new(parent)) {
            if name.starts_with(prefix) {
                let dir = Path::new(parent).join(&name);
                let bin = dir.join("bin");
                bins.insert(if bin.is_dir() { bin } else { dir });
            }
        }
    }
    bins.insert(PathBuf::from("/usr/local/pgsql/bin"));
    bins.extend(pg_config_bindir());
    let mut installs: Vec<Install> = bins
        .into_iter()
        .filter(|bin| bin.join("postgres").is_file())
        .filter_map(|bin| Install::at(&bin, InstallSource::System).ok())
        .collect();
    installs.sort_by_key(|install| std::cmp::Reverse(install.version()));
    installs
}

fn names_in(dir: &Path) -> Vec<String> {
    fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect()
}

fn pg_config_bindir() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").stdin(Stdio::null()).output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    let dir = PathBuf::from(said.trim());
    (output.status.success() && dir.is_absolute()).then_some(dir)
}
