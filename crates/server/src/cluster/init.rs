//! Making a data directory.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;

use super::error::ClusterError;
use super::guard::die_with_parent;
use super::settings;
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

/// Runs initdb: UTF-8, C locale, trust on the private socket, passwords
/// elsewhere. Everything else is the version's own default (18 has data
/// checksums on).
///
/// Without `sync` the files are not flushed: enough for a data directory that
/// is thrown away after a crash of the machine, and less writing left over for
/// the first run.
pub(crate) fn initdb(
    install: &Install,
    user: &ServerUser,
    dir: &Path,
    data_dir: &Path,
    password: Option<&Secret>,
    sync: bool,
) -> Result<(), ClusterError> {
    let mut command = server_command(install, "initdb", user, dir);
    command
        .arg("--pgdata")
        .arg(data_dir)
        .args(["--username", SUPERUSER])
        .args(["--encoding", "UTF8", "--no-locale"])
        .args(["--auth-local", "trust", "--auth-host", "scram-sha-256"]);
    if !sync {
        command.arg("--no-sync");
    }
    let password_file = dir.join("initial-password");
    if let Some(password) = password {
        let write = || {
            let mut file = fs::File::options()
                .create_new(true)
                .write(true)
                .mode(0o600)
                .open(&password_file)?;
            user.own(&password_file)?;
            writeln!(file, "{}", password.expose())
        };
        write().map_err(ClusterError::io("write", &password_file))?;
        command.arg("--pwfile").arg(&password_file);
    }
    let outcome = run(command, "initdb", user, dir, None);
    if password.is_some() {
        fs::remove_file(&password_file).map_err(ClusterError::io("remove", &password_file))?;
    }
    outcome?;
    settings::include_in(data_dir).map_err(ClusterError::io("write", data_dir))
}

/// Creates the statement statistics extension in the template and the default
/// database, so that every database made from now on has it.
pub(crate) fn create_statistics_extension(
    install: &Install,
    user: &ServerUser,
    dir: &Path,
    data_dir: &Path,
    sync: bool,
) -> Result<(), ClusterError> {
    let sql = format!("CREATE EXTENSION {STATEMENTS}");
    ["template1", "postgres"]
        .into_iter()
        .try_for_each(|database| single_user(install, user, dir, data_dir, database, &sql, sync))
}

/// Gives the superuser of a data directory at rest a password, as initdb does in a new one.
pub(crate) fn set_password(
    install: &Install,
    user: &ServerUser,
    dir: &Path,
    data_dir: &Path,
    password: &Secret,
    sync: bool,
) -> Result<(), ClusterError> {
    let quoted = password.expose().replace('\'', "''");
    let sql = format!("ALTER ROLE {SUPERUSER} PASSWORD '{quoted}'");
    single_user(install, user, dir, data_dir, "postgres", &sql, sync)
}

/// Executes a statement in single-user mode: no socket, no port, no other process.
fn single_user(
    install: &Install,
    user: &ServerUser,
    dir: &Path,
    data_dir: &Path,
    database: &str,
    sql: &str,
    sync: bool,
) -> Result<(), ClusterError> {
    let mut command = server_command(install, "postgres", user, dir);
    command.args(["--single", "-j", "-c", "exit_on_error=on"]);
    // What it says of a statement that fails is told, and the statement may hold a password.
    command.args(["-c", "log_min_error_statement=panic"]);
    // A library that keeps statements would keep it too.
    command.args(["-c", "shared_preload_libraries="]);
    if !sync {
        command.args(["-c", "fsync=off"]);
    }
    command.arg("-D").arg(data_dir).arg(database);
    run(command, "postgres --single", user, dir, Some(&format!("{sql};\n\n")))
}

fn run(
    mut command: Command,
    program: &'static str,
    user: &ServerUser,
    dir: &Path,
    input: Option<&str>,
) -> Result<(), ClusterError> {
    if input.is_some() {
        command.stdin(Stdio::piped());
    }
    let spawn_failed = |source| ClusterError::Spawn {
        program: program.into(),
        user: user.name().to_owned(),
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
        return Err(ClusterError::DiskFull { path: dir.to_owned() });
    }
    Err(ClusterError::Init {
        program,
        dir: dir.to_owned(),
        said: if said.is_empty() { output.status.to_string() } else { said },
    })
}
