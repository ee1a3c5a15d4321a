//! The private directory of a cluster's unix socket.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::error::ClusterError;
use crate::places::create_owned_dir;
use crate::user::ServerUser;

/// The port a cluster without TCP uses: part of the socket's file name only,
/// and each cluster has a directory of its own.
pub(crate) const SOCKET_PORT: u16 = 5432;

/// The longest path a unix socket can have on Linux: `sun_path` has 108 bytes,
/// the last a NUL (unix(7)).
const LONGEST_SOCKET_PATH: usize = 107;

/// The longest name PostgreSQL gives a socket.
const LONGEST_NAME: &str = ".s.PGSQL.65535";

/// Makes the socket directory: in the cluster directory, or, where that makes
/// the path too long, in the temporary directory. The second value is set in
/// the latter case.
///
/// Its mode is 0700 and the server's user owns it, so nobody else can connect
/// (root can, as to everything).
pub(crate) fn make(
    cluster_dir: &Path,
    user: &ServerUser,
) -> Result<(PathBuf, Option<PathBuf>), ClusterError> {
    let inside = cluster_dir.join("socket");
    if fits(&inside) {
        match create_owned_dir(&inside, 0o700, user) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            made => made.map_err(ClusterError::io("create", &inside))?,
        }
        return Ok((inside, None));
    }
    let usual = std::env::temp_dir();
    // Room for the random name of the directory itself.
    let base = if fits(&usual.join("walwright-xxxxxxxx")) && user.blocked_at(&usual).is_none() {
        usual
    } else {
        PathBuf::from("/tmp")
    };
    let outside = tempfile::Builder::new()
        .prefix("walwright-")
        .permissions(PermissionsExt::from_mode(0o700))
        .tempdir_in(&base)
        .map_err(ClusterError::io("create a directory in", &base))?
        .keep();
    user.own(&outside).map_err(ClusterError::io("change the owner of", &outside))?;
    Ok((outside.clone(), Some(outside)))
}

/// Removes an outside socket directory a crash left: only one that is named
/// like ours and holds nothing but a server's socket and its lock file.
pub(crate) fn remove_leftover(dir: &Path) {
    let ours = dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with("walwright-"));
    let Ok(entries) = fs::read_dir(dir) else {
        return;
    };
    if !ours {
        return;
    }
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(".s.PGSQL.") {
            // What stays keeps the directory from being removed below.
            let _ = fs::remove_file(entry.path());
        }
    }
    if let Err(error) = fs::remove_dir(dir) {
        tracing::warn!(path = %dir.display(), %error, "could not remove a socket directory");
    }
}

fn fits(dir: &Path) -> bool {
    dir.as_os_str().as_bytes().len() + 1 + LONGEST_NAME.len() <= LONGEST_SOCKET_PATH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_path_gets_a_short_socket_directory() {
        let user = ServerUser::detect().expect("a user");
        let dir = tempfile::tempdir_in("/tmp").expect("temp dir");
        let (socket, outside) = make(dir.path(), &user).expect("made");
        assert_eq!((socket, outside), (dir.path().join("socket"), None));

        let deep = dir.path().join("d".repeat(100));
        fs::create_dir(&deep).expect("mkdir");
        let (socket, outside) = make(&deep, &user).expect("made");
        assert_eq!(outside.as_ref(), Some(&socket));
        assert!(fits(&socket));
        let mode = fs::metadata(&socket).expect("stat").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        fs::write(socket.join(".s.PGSQL.5432.lock"), "").expect("write");
        remove_leftover(&socket);
        assert!(!socket.exists());
    }
}
