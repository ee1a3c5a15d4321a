//! A file system that is soon full.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

/// A file system in memory of a few megabytes. It is gone when this is dropped.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one there.
    ///
    /// # Errors
    /// Where nothing may be mounted.
    pub fn mount(at: &Path, megabytes: u32) -> anyhow::Result<SmallDisk> {
        fs::create_dir_all(at)?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={megabytes}m,mode=777"), "none"]);
        let output = mount.arg(at).output().context("mount")?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        anyhow::ensure!(output.status.success(), "a small disk cannot be mounted: {said}");
        Ok(SmallDisk(at.to_owned()))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Fills it to the last byte.
    ///
    /// # Errors
    /// When it does not get full.
    pub fn fill(&self) -> anyhow::Result<()> {
        let mut ballast = File::options().create(true).append(true).open(self.ballast())?;
        let mut piece = &[0; 1 << 20][..];
        while !piece.is_empty() {
            if ballast.write_all(piece).is_err() {
                piece = &piece[..piece.len() / 2];
            }
        }
        Ok(())
    }

    /// Gives the place back that was filled.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn empty(&self) -> anyhow::Result<()> {
        fs::remove_file(self.ballast()).context("emptying a small disk")
    }

    fn ballast(&self) -> PathBuf {
        self.0.join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // At the latest it goes when nothing on it is open any more.
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
