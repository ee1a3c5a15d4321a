//! The user a server runs as. PostgreSQL refuses to run as root, so a tool run
//! by root drops to an unprivileged user for everything that is the server's.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::unistd::{Gid, Uid, User};

/// The environment variable that names the user servers run as when walwright
/// itself runs as root.
pub const USER_VARIABLE: &str = "WALWRIGHT_USER";

/// The operating system user that owns the data directories and runs the
/// servers that walwright starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerUser {
    name: String,
    uid: Uid,
    gid: Gid,
    dropped: bool,
}

/// No user to run a server as.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    /// The user named by `WALWRIGHT_USER` is not in the passwd database.
    #[error(
        "{USER_VARIABLE} names the user {0:?}, who has no passwd entry: name an existing unprivileged user"
    )]
    Unknown(String),
    /// The user named by `WALWRIGHT_USER` is root.
    #[error(
        "{USER_VARIABLE} names {0:?}, who has uid 0, and PostgreSQL refuses to run as root: name an unprivileged user"
    )]
    Privileged(String),
    /// Root without anybody to drop to.
    #[error(
        "walwright runs as root, PostgreSQL does not, and neither \"postgres\" nor \"nobody\" has a passwd entry: create a user and name it in {USER_VARIABLE}"
    )]
    Nobody,
    /// The current user id is not in the passwd database, which initdb needs.
    #[error(
        "the current user id {0} has no passwd entry, which PostgreSQL needs: add one to /etc/passwd, or run as a user that has one"
    )]
    NoPasswdEntry(Uid),
    /// The passwd database could not be read.
    #[error("could not read the passwd database: {0}")]
    Passwd(#[source] nix::Error),
}

impl ServerUser {
    /// The current user, or, for root: `WALWRIGHT_USER`, else `postgres`, else
    /// `nobody`.
    ///
    /// `postgres` comes first because no other daemon runs under that name,
    /// while unrelated processes share `nobody` and could reach its files.
    pub fn detect() -> Result<Self, UserError> {
        Self::choose(Uid::effective(), std::env::var(USER_VARIABLE).ok())
    }

    fn choose(current: Uid, wanted: Option<String>) -> Result<Self, UserError> {
        if !current.is_root() {
            let user = User::from_uid(current)
                .map_err(UserError::Passwd)?
                .ok_or(UserError::NoPasswdEntry(current))?;
            return Ok(Self {
                name: user.name,
                uid: current,
                gid: Gid::effective(),
                dropped: false,
            });
        }
        if let Some(name) = wanted.filter(|name| !name.is_empty()) {
            let user = User::from_name(&name)
                .map_err(UserError::Passwd)?
                .ok_or_else(|| UserError::Unknown(name.clone()))?;
            if user.uid.is_root() {
                return Err(UserError::Privileged(name));
            }
            return Ok(Self::dropped_to(user));
        }
        for name in ["postgres", "nobody"] {
            if let Some(user) = User::from_name(name).map_err(UserError::Passwd)?
                && !user.uid.is_root()
            {
                return Ok(Self::dropped_to(user));
            }
        }
        Err(UserError::Nobody)
    }

    fn dropped_to(user: User) -> Self {
        Self { name: user.name, uid: user.uid, gid: user.gid, dropped: true }
    }

    /// The login name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether this is another user than the one walwright runs as.
    pub fn is_dropped(&self) -> bool {
        self.dropped
    }

    /// Makes `command` run as this user, with that user's primary group alone.
    pub fn run_as(&self, command: &mut Command) {
        if self.dropped {
            // For root, std also clears the supplementary groups.
            command.gid(self.gid.as_raw()).uid(self.uid.as_raw());
        }
    }

    /// Gives `path` to this user. Does nothing when walwright runs as that user.
    pub fn own(&self, path: &Path) -> std::io::Result<()> {
        if self.dropped {
            std::os::unix::fs::lchown(path, Some(self.uid.as_raw()), Some(self.gid.as_raw()))?;
        }
        Ok(())
    }

    /// The first directory on the way to `path`, `path` included, that this
    /// user may not enter. Directories that do not exist yet do not count.
    ///
    /// Looks at owner, group and mode only; access control lists are not seen.
    pub fn blocked_at(&self, path: &Path) -> Option<PathBuf> {
        let mut ancestors: Vec<&Path> = path.ancestors().collect();
        ancestors.reverse();
        for dir in ancestors {
            if let Ok(meta) = std::fs::metadata(dir)
                && meta.is_dir()
                && !self.may_search(&meta)
            {
                return Some(dir.to_owned());
            }
        }
        None
    }

    fn may_search(&self, meta: &std::fs::Metadata) -> bool {
        if self.uid.is_root() {
            return true;
        }
        let mode = meta.mode();
        if meta.uid() == self.uid.as_raw() {
            mode & 0o100 != 0
        } else if meta.gid() == self.gid.as_raw() {
            mode & 0o010 != 0
        } else {
            mode & 0o001 != 0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn root_is_never_the_server_user() {
        let root = Uid::from_raw(0);
        assert!(matches!(
            ServerUser::choose(root, Some("root".into())),
            Err(UserError::Privileged(_))
        ));
        assert!(matches!(
            ServerUser::choose(root, Some("no-such-user-here".into())),
            Err(UserError::Unknown(_))
        ));
        let user = ServerUser::choose(root, None).expect("every system has nobody");
        assert!(user.is_dropped());
        assert!(["postgres", "nobody"].contains(&user.name()));
    }

    #[test]
    fn a_closed_directory_on_the_way_is_named() {
        let open = tempfile::tempdir_in("/tmp").expect("temp dir");
        std::fs::set_permissions(open.path(), PermissionsExt::from_mode(0o755)).expect("chmod");
        let closed = open.path().join("closed");
        std::fs::create_dir(&closed).expect("mkdir");
        std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o700)).expect("chmod");
        let stranger = ServerUser {
            name: "stranger".into(),
            uid: Uid::from_raw(4_000_001),
            gid: Gid::from_raw(4_000_001),
            dropped: true,
        };
        assert_eq!(stranger.blocked_at(open.path()), None);
        assert_eq!(stranger.blocked_at(&closed.join("not-there")), Some(closed));
    }
}
