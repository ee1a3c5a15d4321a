//! Making a data directory.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;

use super::error::ClusterError;
use super::settings;
use crate::guard::die_with_parent;
use crate::install::Install;
use crate::target::Secret;
use crate::user::ServerUser;

/// The superuser of embedded clusters.
pub(crate) const SUPERUSER: &str = "postgres";

/// The library that counts statements.
pub(crate) const STATEMENTS: &str = "pg_stat_statements";

/// A command for a program of the install that runs as the server's user, in
/// `dir`, with no PostgreSQL variable of the caller's environment.
pub(crate) fn server_command(
    install: &Install,
    program: &str,
    user: &ServerUser,
    dir: &Path,
) -> Command {
    let mut command = install.command(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PG") {
            command.env_remove(name);
        }
    }
    command.env("LC_ALL", "C").env_remove("LANGUAGE").current_dir(dir).stdin(Stdio::null());
    user.run_as(&mut command);
    command
}

/// A data directory at rest, and what works on it: programs of an install that run as the
/// server's user.
pub(crate) struct DataDirectory<'a> {
    pub install: &'a Install,
    pub user: &'a ServerUser,
    /// The cluster's directory.
    pub dir: &'a Path,
    /// The data directory in it.
    pub path: &'a Path,
    /// Whether files are flushed. Not flushed is enough for what is thrown away after a crash
    /// of the machine, and leaves less to write for the first run.
    pub sync: bool,
}

impl DataDirectory<'_> {
    /// Runs initdb: UTF-8, C locale, trust on the private socket, passwords
    /// elsewhere. Everything else is the version's own default (18 has data
    /// checksums on).
    pub fn init(&self, password: Option<&Secret>) -> Result<(), ClusterError> {
        let mut command = self.command("initdb");
        command
            .arg("--pgdata")
            .arg(self.path)
            .args(["--username", SUPERUSER])
            .args(["--encoding", "UTF8", "--no-locale"])
            .args(["--auth-local", "trust", "--auth-host", "scram-sha-256"]);
        if !self.sync {
            command.arg("--no-sync");
        }
        let password_file = self.dir.join("initial-password");
        if let Some(password) = password {
            let write = || {
                let mut file = fs::File::options()
                    .create_new(true)
                    .write(true)
                    .mode(0o600)
                    .open(&password_file)?;
                self.user.own(&password_file)?;
                writeln!(file, "{}", password.expose())
            };
            write().map_err(ClusterError::io("write", &password_file))?;
            command.arg("--pwfile").arg(&password_file);
        }
        let outcome = self.run(command, "initdb", None);
        if password.is_some() {
            fs::remove_file(&password_file).map_err(ClusterError::io("remove", &password_file))?;
        }
        outcome?;
        settings::include_in(self.path).map_err(ClusterError::io("write", self.path))
    }

    /// Creates the statement statistics extension in the template and the default
    /// database, so that every database made from now on has it.
    pub fn create_statistics_extension(&self) -> Result<(), ClusterError> {
        let sql = format!("CREATE EXTENSION {STATEMENTS}");
        ["template1", "postgres"]
            .into_iter()
            .try_for_each(|database| self.single_user(database, &sql))
    }

    /// Gives the superuser a password, as initdb does in a new one.
    pub fn set_password(&self, password: &Secret) -> Result<(), ClusterError> {
        let quoted = password.expose().replace('\'', "''");
        self.single_user("postgres", &format!("ALTER ROLE {SUPERUSER} PASSWORD '{quoted}'"))
    }

    /// Executes a statement in single-user mode: no socket, no port, no other process.
    fn single_user(&self, database: &str, sql: &str) -> Result<(), ClusterError> {
        let mut command = self.command("postgres");
        command.args(["--single", "-j", "-c", "exit_on_error=on"]);
        // What it says of a statement that fails is told, and the statement may hold a password.
        command.args(["-c", "log_min_error_statement=panic"]);
        // A library that keeps statements would keep it too.
        command.args(["-c", "shared_preload_libraries="]);
        if !self.sync {
            command.args(["-c", "fsync=off"]);
        }
        command.arg("-D").arg(self.path).arg(database);
        self.run(command, "postgres --single", Some(&format!("{sql};\n\n")))
    }

    fn command(&self, program: &str) -> Command {
        server_command(self.install, program, self.user, self.dir)
    }

    fn run(
        &self,
        mut command: Command,
        program: &'static str,
        input: Option<&str>,
    ) -> Result<(), ClusterError> {
        if input.is_some() {
            command.stdin(Stdio::piped());
        }
        let spawn_failed = |source| ClusterError::Spawn {
            program: program.into(),
            user: self.user.name().to_owned(),
            source,
        };
        die_with_parent(&mut command, Signal::SIGTERM);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(spawn_failed)?;
        if let (Some(input), Some(mut stdin)) = (input, child.stdin.take()) {
            // A child that ended early says why itself.
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = child.wait_with_output().map_err(spawn_failed)?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        // The second is PostgreSQL's hint on a write that was cut short.
        if said.contains("No space left on device") || said.contains("Check free disk space") {
            return Err(ClusterError::DiskFull { path: self.dir.to_owned() });
        }
        Err(ClusterError::Init {
            program,
            dir: self.dir.to_owned(),
            said: if said.is_empty() { output.status.to_string() } else { said },
        })
    }
}
