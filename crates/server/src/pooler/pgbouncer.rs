//! PgBouncer as it is installed: where it lies, what it can, and its files.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{POOL_SIZE, PoolerError, PoolerSpec, plain};
use crate::user::ServerUser;

/// Directories it is installed in that are not in everybody's path.
const PLACES: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/usr/local/bin"];
/// Connections besides those of the clients.
const SPARE_CLIENTS: u32 = 20;
/// The first version that carries prepared statements from session to session.
const TRACKS_STATEMENTS: (u32, u32) = (1, 21);
/// Prepared statements that it keeps of each session then.
const PREPARED_STATEMENTS: u32 = 200;

/// An installed PgBouncer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PgBouncer {
    program: PathBuf,
    version: String,
}

impl PgBouncer {
    /// This program, or the one that is installed.
    ///
    /// # Errors
    /// When there is none, or it is something else.
    pub fn find(program: Option<&Path>) -> Result<PgBouncer, PoolerError> {
        let program = match program {
            Some(program) => program.to_owned(),
            None => installed().ok_or(PoolerError::NotInstalled)?,
        };
        let wrong = |said: String| PoolerError::NotPgBouncer { program: program.clone(), said };
        let output = Command::new(&program).arg("--version").output();
        let output = output.map_err(|error| wrong(error.to_string()))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let said = said.lines().next().unwrap_or_default();
        let version = said.strip_prefix("PgBouncer ").filter(|version| parts(version).is_some());
        let version =
            version.ok_or_else(|| wrong(format!("asked for its version it says '{said}'")))?;
        Ok(PgBouncer { version: version.trim().to_owned(), program })
    }

    /// Its version, such as `1.18.0`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Whether prepared statements of the protocol work in transaction mode.
    pub fn tracks_prepared_statements(&self) -> bool {
        parts(&self.version).is_some_and(|version| version >= TRACKS_STATEMENTS)
    }

    /// Writes its files and makes the command that starts it, as the server's user: it refuses
    /// to run as root.
    pub(super) fn command(&self, spec: &PoolerSpec, port: u16) -> Result<Command, PoolerError> {
        let (dir, user) = (spec.cluster.dir(), spec.cluster.user());
        let (ini, users) = (dir.join("pgbouncer.ini"), dir.join("userlist.txt"));
        let password = spec.server.password().map_or("", |password| password.expose());
        let doubled = |text: &str| text.replace('"', "\"\"");
        let listed = format!("\"{}\" \"{}\"\n", doubled(spec.server.user()), doubled(password));
        write(&users, &listed, user)?;
        write(&ini, &self.ini(spec, port, &users), user)?;
        let mut command = plain(&self.program);
        command.arg(&ini).current_dir(dir);
        user.run_as(&mut command);
        Ok(command)
    }

    fn ini(&self, spec: &PoolerSpec, port: u16, users: &Path) -> String {
        let host = spec.server.host_keyword();
        let listen = match spec.server.socket_path() {
            Some(_) => format!("unix_socket_dir = {host}\nauth_type = trust"),
            None => {
                format!("listen_addr = {host}\nunix_socket_dir =\nauth_type = scram-sha-256")
            }
        };
        let prepared = match self.tracks_prepared_statements() {
            true => format!("max_prepared_statements = {PREPARED_STATEMENTS}\n"),
            false => String::new(),
        };
        format!(
            "[databases]\n\
             * = host='{}' port={}\n\
             \n\
             [pgbouncer]\n\
             {listen}\n\
             listen_port = {port}\n\
             auth_file = {}\n\
             pool_mode = transaction\n\
             default_pool_size = {POOL_SIZE}\n\
             max_client_conn = {}\n\
             query_wait_timeout = 0\n\
             log_connections = 0\n\
             log_disconnections = 0\n\
             {prepared}",
            host.replace('\'', "''"),
            spec.server.port(),
            users.display(),
            spec.clients + SPARE_CLIENTS,
        )
    }
}

/// Where one is installed.
fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(PLACES.iter().map(PathBuf::from));
    directories.map(|directory| directory.join("pgbouncer")).find(|path| path.is_file())
}

/// The first two numbers of a version.
fn parts(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.trim().split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// A file that only the server's user may read.
fn write(path: &Path, text: &str, user: &ServerUser) -> Result<(), PoolerError> {
    let file = fs::File::options().create(true).write(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| user.own(path))
        .map_err(|source| PoolerError::Write { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prepared_statements_need_a_version_that_tracks_them() {
        let of = |version: &str| PgBouncer { program: "".into(), version: version.to_owned() };
        for (version, tracks) in
            [("1.18.0", false), ("1.21.0", true), ("1.25.1", true), ("2.0", true), ("x", false)]
        {
            assert_eq!(of(version).tracks_prepared_statements(), tracks, "{version}");
        }
    }

    #[test]
    fn another_program_is_no_pgbouncer() {
        let wrong = |path: &str| PgBouncer::find(Some(Path::new(path))).unwrap_err().to_string();
        assert!(wrong("/bin/echo").contains("/bin/echo is no PgBouncer"));
        assert!(wrong("/nonexistent/pgbouncer").contains("No such file"));
    }
}
