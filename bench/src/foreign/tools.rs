//! Where foreign programs are installed, and how their commands are started.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};

use super::System;

/// A directory of installed programs.
pub struct Tools {
    directory: PathBuf,
}

/// A command that runs until it is dropped, with all that it started.
pub struct Running(Child);

impl Tools {
    /// Opens the directory, or makes it.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn open(directory: &Path) -> anyhow::Result<Tools> {
        std::fs::create_dir_all(directory)
            .with_context(|| format!("creating {}", directory.display()))?;
        Ok(Tools { directory: directory.canonicalize()? })
    }

    /// Directory of one system.
    pub fn of(&self, system: &System) -> PathBuf {
        self.directory.join(&system.name)
    }

    /// Installs a system unless this version of it is there.
    ///
    /// # Errors
    /// When its command fails.
    pub fn install(&self, system: &System) -> anyhow::Result<()> {
        let directory = self.of(system);
        std::fs::create_dir_all(&directory)?;
        for (name, text) in &system.files {
            std::fs::write(directory.join(name), text)?;
        }
        let marker = directory.join("installed");
        if std::fs::read_to_string(&marker).is_ok_and(|text| text == system.install) {
            return Ok(());
        }
        eprintln!("{}: installing", system.name);
        self.run(system, &system.install, &[])?;
        Ok(std::fs::write(marker, &system.install)?)
    }

    /// Runs a command of a system to its end.
    ///
    /// # Errors
    /// When it fails; with what it printed.
    pub fn run(&self, system: &System, script: &str, env: &[(&str, String)]) -> anyhow::Result<()> {
        let output = self.command(system, script, env).output().context("starting a shell")?;
        if !output.status.success() {
            let said = [output.stdout, output.stderr].concat();
            bail!("{}: `{script}` failed:\n{}", system.name, String::from_utf8_lossy(&said));
        }
        Ok(())
    }

    /// Starts a load. What it prints goes to a file in the system's directory.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(
        &self,
        system: &System,
        script: &str,
        env: &[(&str, String)],
    ) -> anyhow::Result<Running> {
        use std::os::unix::process::CommandExt;
        let said = std::fs::File::create(self.of(system).join("load.log"))?;
        let mut command = self.command(system, script, env);
        command.stdout(said.try_clone()?).stderr(said).process_group(0);
        Ok(Running(command.spawn().context("starting a shell")?))
    }

    fn command(&self, system: &System, script: &str, env: &[(&str, String)]) -> Command {
        let directory = self.of(system);
        let path = std::env::var("PATH").unwrap_or_default();
        let bins = ["bin", "venv/bin", "node_modules/.bin"].map(|bin| directory.join(bin));
        let bins: Vec<String> = bins.iter().map(|bin| bin.display().to_string()).collect();
        let mut command = Command::new("sh");
        command
            .args(["-ec", script])
            .current_dir(&directory)
            .env("TOOLS", &directory)
            .env("PATH", format!("{}:{path}", bins.join(":")))
            .envs(env.iter().map(|(name, value)| (*name, value.as_str())))
            .stdin(Stdio::null());
        command
    }
}

impl Running {
    /// How it ended, if it has.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn ended(&mut self) -> anyhow::Result<bool> {
        Ok(self.0.try_wait()?.is_some())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Ok(group) = i32::try_from(self.0.id())
            && let Some(group) = rustix::process::Pid::from_raw(group)
        {
            // Its group may have ended by itself.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.0.wait();
    }
}
