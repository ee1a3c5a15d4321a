//! Where walwright keeps what it fetched and what it runs: one directory, with
//! `installs/` and `clusters/` below it.

use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{fs, io};

use nix::sys::statfs::{FsType, TMPFS_MAGIC, statfs};

use crate::user::{ServerUser, UserError};

/// The environment variable that overrides where installs and clusters live.
pub const CACHE_VARIABLE: &str = "WALWRIGHT_CACHE";

/// The file system type of ramfs (statfs(2)), which nix does not name.
const RAMFS_MAGIC: FsType = FsType(0x8584_58f6);

/// Root's cache when root's home is closed to the user servers run as.
const SHARED_CACHE: &str = "/var/cache/walwright";

/// The directory tree walwright owns, and the user its servers run as.
#[derive(Debug, Clone)]
pub struct Places {
    root: PathBuf,
    user: ServerUser,
}

/// A directory that cannot serve as the home of installs and clusters.
#[derive(Debug, thiserror::Error)]
pub enum PlacesError {
    /// No user to run servers as.
    #[error(transparent)]
    User(#[from] UserError),
    /// Neither a home directory nor an override is known.
    #[error(
        "no place for the cache: HOME is not set; set {CACHE_VARIABLE} to a directory on a real disk"
    )]
    NoHome,
    /// The user servers run as cannot enter the directory.
    #[error("the user {user:?}, as whom servers run, may not enter {}, which is on the way to {}: set {CACHE_VARIABLE} to a directory that user can reach", blocked.display(), wanted.display())]
    Unreachable {
        /// The user servers run as.
        user: String,
        /// The directory that shuts the user out.
        blocked: PathBuf,
        /// The directory that was wanted.
        wanted: PathBuf,
    },
    /// The directory could not be created or written.
    #[error("could not create {}: {source}; set {CACHE_VARIABLE} to a directory you can write", path.display())]
    Create {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Places {
    /// Opens, and creates where needed, the tree under `root`; without one,
    /// under `WALWRIGHT_CACHE`, `$XDG_CACHE_HOME/walwright` or
    /// `~/.cache/walwright`. Root uses `/var/cache/walwright` when the user
    /// servers run as cannot reach the last two.
    pub fn open(root: Option<PathBuf>) -> Result<Self, PlacesError> {
        let user = ServerUser::detect()?;
        let named = root.or_else(|| non_empty_var(CACHE_VARIABLE));
        let root = match named {
            Some(root) => absolute(root),
            None => {
                let usual = usual_cache();
                match usual {
                    Some(usual) if user.blocked_at(&usual).is_none() => usual,
                    _ if user.is_dropped() => PathBuf::from(SHARED_CACHE),
                    Some(usual) => usual,
                    None => return Err(PlacesError::NoHome),
                }
            }
        };
        let places = Self { root, user };
        if let Some(blocked) = places.user.blocked_at(&places.clusters()) {
            return Err(PlacesError::Unreachable {
                user: places.user.name().to_owned(),
                blocked,
                wanted: places.root,
            });
        }
        for dir in [places.root.clone(), places.installs(), places.clusters()] {
            create_open_dir(&dir)
                .map_err(|source| PlacesError::Create { path: dir.clone(), source })?;
        }
        Ok(places)
    }

    /// The directory everything else lies in.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where fetched installs are unpacked.
    pub fn installs(&self) -> PathBuf {
        self.root.join("installs")
    }

    /// Where clusters without a directory of their own are made.
    pub fn clusters(&self) -> PathBuf {
        self.root.join("clusters")
    }

    /// The user servers run as.
    pub fn user(&self) -> &ServerUser {
        &self.user
    }
}

/// What kind of file system holds a path, and how much room it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileSystem {
    /// Whether the files live in memory (tmpfs, ramfs), where a flush costs nothing.
    pub in_memory: bool,
    /// Bytes an unprivileged user can still write.
    pub available_bytes: u64,
}

impl FileSystem {
    /// Looks at the file system of `path`, or of its nearest existing ancestor.
    pub fn of(path: &Path) -> io::Result<Self> {
        let here = Path::new(".");
        let candidates =
            path.ancestors().filter(|ancestor| !ancestor.as_os_str().is_empty()).chain([here]);
        for existing in candidates {
            match statfs(existing) {
                Ok(stat) => {
                    let kind: FsType = stat.filesystem_type();
                    return Ok(Self {
                        in_memory: kind == TMPFS_MAGIC || kind == RAMFS_MAGIC,
                        available_bytes: stat
                            .blocks_available()
                            .saturating_mul(u64::try_from(stat.block_size()).unwrap_or(0)),
                    });
                }
                Err(nix::Error::ENOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }
}

/// Creates a directory and its missing parents that everybody may enter,
/// whatever the umask. What existed before keeps its mode.
pub(crate) fn create_open_dir(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    if let Some(parent) = dir.parent() {
        create_open_dir(parent)?;
    }
    match fs::create_dir(dir) {
        Ok(()) => fs::set_permissions(dir, PermissionsExt::from_mode(0o755)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Creates one directory with exactly `mode`, owned by `owner`.
pub(crate) fn create_owned_dir(dir: &Path, mode: u32, owner: &ServerUser) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(dir)?;
    owner.own(dir)?;
    fs::set_permissions(dir, PermissionsExt::from_mode(mode))
}

fn usual_cache() -> Option<PathBuf> {
    // The XDG base directory specification: relative paths are to be ignored.
    if let Some(cache) = non_empty_var("XDG_CACHE_HOME").filter(|path| path.is_absolute()) {
        return Some(cache.join("walwright"));
    }
    let home = std::env::home_dir().filter(|home| home.is_absolute())?;
    Some(home.join(".cache/walwright"))
}

fn non_empty_var(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_file_systems_are_told_apart() {
        let shm = FileSystem::of(Path::new("/dev/shm/not/there/yet")).expect("statfs");
        assert!(shm.in_memory);
        let proc_fs = FileSystem::of(Path::new("/proc")).expect("statfs");
        assert!(!proc_fs.in_memory);
    }
}
