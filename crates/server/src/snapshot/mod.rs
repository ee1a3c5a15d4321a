//! Snapshots of a data directory at rest, and their restoration: what lets
//! every arm of an experiment start from the same bytes.

mod control;
mod tree;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use serde::{Deserialize, Serialize};

use crate::cluster::{Cluster, ClusterError, ClusterSpec};
use control::Control;
use tree::{Copied, Tree, TreeError};

/// The file that makes a directory a snapshot.
const MANIFEST: &str = "snapshot.json";

/// What the manifest's layout is called; another one is refused.
const FORMAT: u32 = 1;

/// Where a restored data directory grows before it takes its place.
const RESTORING: &str = ".restoring-";

/// A copy of a data directory at rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    dir: PathBuf,
    manifest: Manifest,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    format: u32,
    major_version: u32,
    system_identifier: u64,
    files: u64,
    bytes: u64,
}

/// How the bytes of a snapshot or restoration came to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyMethod {
    /// Blocks are shared with the original until one side changes them: no
    /// data was moved, and the page cache holds nothing of the new files.
    Reflink,
    /// The bytes were copied, and have passed through the page cache.
    Copy,
}

/// What taking or restoring a snapshot did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyReport {
    /// How.
    pub method: CopyMethod,
    /// Plain files.
    pub files: u64,
    /// Sum of their sizes.
    pub bytes: u64,
    /// How long it took, the flush to disk included.
    pub elapsed: Duration,
}

/// A snapshot could not be taken, read or restored.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The cluster itself is the trouble.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The data directory is not at rest.
    #[error("{} was not shut down in order, so it cannot be snapshotted: start its server and stop it with a fast shutdown first", .0.display())]
    NotAtRest(PathBuf),
    /// Data lies outside of the data directory.
    #[error("{} leads out of the data directory {}: a snapshot needs all data inside, so drop the tablespace, or move the WAL back", link.display(), data_dir.display())]
    DataOutside {
        /// The link, relative to the data directory.
        link: PathBuf,
        /// The data directory.
        data_dir: PathBuf,
    },
    /// The place for the snapshot is taken.
    #[error("{} exists already, so no snapshot was made there", .0.display())]
    Exists(PathBuf),
    /// The directory is no snapshot, or a damaged one.
    #[error("{} is not a usable snapshot: {what}; take it again", dir.display())]
    Unusable {
        /// The directory.
        dir: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The snapshot is of another major version than the cluster's programs.
    #[error("the snapshot {} is of PostgreSQL {snapshot}, the cluster of {cluster}", dir.display())]
    VersionMismatch {
        /// The snapshot.
        dir: PathBuf,
        /// Its major version.
        snapshot: u32,
        /// The cluster's.
        cluster: u32,
    },
    /// The disk is full.
    #[error("the disk that holds {} is full: free some space there; nothing was changed", .0.display())]
    DiskFull(PathBuf),
    /// A file operation failed.
    #[error("could not {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

impl SnapshotError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| {
            if source.kind() == io::ErrorKind::StorageFull {
                Self::DiskFull(path)
            } else {
                Self::Io { action, path, source }
            }
        }
    }

    fn tree(data_dir: &Path) -> impl FnOnce(TreeError) -> Self + use<> {
        let data_dir = data_dir.to_owned();
        move |error| match error {
            TreeError::LinkOutside(link) => Self::DataOutside { link, data_dir },
            TreeError::Odd(path) => {
                Self::Unusable { dir: data_dir, what: TreeError::Odd(path).to_string() }
            }
            TreeError::Io { path, source } => Self::io("copy", &path)(source),
        }
    }
}

impl Snapshot {
    /// Copies the data directory of a stopped cluster to `dir`, which must not
    /// exist; it appears whole or not at all.
    ///
    /// Blocks for as long as copying and flushing take.
    pub fn take(cluster: &Cluster, dir: &Path) -> Result<(Self, CopyReport), SnapshotError> {
        let started = Instant::now();
        let _idle = cluster.keep_stopped()?;
        let data_dir = cluster.data_dir();
        let control = Control::read(&data_dir).map_err(SnapshotError::io("read", &data_dir))?;
        if !control.shut_down || data_dir.join("postmaster.pid").exists() {
            return Err(SnapshotError::NotAtRest(data_dir));
        }
        let dir = std::path::absolute(dir).map_err(SnapshotError::io("find", dir))?;
        if fs::symlink_metadata(&dir).is_ok() {
            return Err(SnapshotError::Exists(dir));
        }
        let parent = dir.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(parent).map_err(SnapshotError::io("create", parent))?;
        let staging = tempfile::Builder::new()
            .prefix(".snapshot-")
            .tempdir_in(parent)
            .map_err(SnapshotError::io("create a directory in", parent))?;

        let tree = Tree::scan(&data_dir).map_err(SnapshotError::tree(&data_dir))?;
        let manifest = Manifest {
            format: FORMAT,
            major_version: cluster.install().version().major(),
            system_identifier: control.system_identifier,
            files: tree.files(),
            bytes: tree.bytes(),
        };
        let manifest_path = staging.path().join(MANIFEST);
        let text = serde_json::to_vec_pretty(&manifest)
            .map_err(|error| SnapshotError::io("write", &manifest_path)(error.into()))?;
        fs::write(&manifest_path, text).map_err(SnapshotError::io("write", &manifest_path))?;
        let copy = staging.path().join("data");
        make_data_dir(&copy)?;
        let copied = tree.copy(&data_dir, &copy).map_err(SnapshotError::tree(&data_dir))?;
        fs::rename(staging.path(), &dir).map_err(SnapshotError::io("create", &dir))?;
        // Renamed: there is nothing left under the old name to remove.
        let _ = staging.keep();
        sync_dir(parent)?;
        let report = report(&tree, copied, started);
        Ok((Self { dir, manifest }, report))
    }

    /// Opens a snapshot taken before.
    pub fn open(dir: &Path) -> Result<Self, SnapshotError> {
        let unusable = |what: String| SnapshotError::Unusable { dir: dir.to_owned(), what };
        let text = fs::read(dir.join(MANIFEST))
            .map_err(|error| unusable(format!("its {MANIFEST} cannot be read ({error})")))?;
        let manifest: Manifest = serde_json::from_slice(&text)
            .map_err(|error| unusable(format!("its {MANIFEST} cannot be understood ({error})")))?;
        if manifest.format != FORMAT {
            return Err(unusable(format!("its format is {}", manifest.format)));
        }
        Ok(Self { dir: dir.to_owned(), manifest })
    }

    /// Where it is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The major version of the data.
    pub fn major_version(&self) -> u32 {
        self.manifest.major_version
    }

    /// Sum of the file sizes in bytes.
    pub fn bytes(&self) -> u64 {
        self.manifest.bytes
    }

    /// Replaces the data directory of a stopped cluster by this snapshot's, in
    /// one step: until then the cluster keeps the old one. All is flushed to
    /// disk when this returns, so that no leftover writing disturbs a run.
    ///
    /// Blocks for as long as copying and flushing take.
    pub fn restore(&self, cluster: &Cluster) -> Result<CopyReport, SnapshotError> {
        let _idle = cluster.keep_stopped()?;
        self.put_into(cluster)
    }

    /// Makes a cluster whose data directory is this snapshot's, with the password of the
    /// access by TCP that the cluster is to have.
    ///
    /// Blocks for as long as copying and flushing take.
    pub fn create_cluster(
        &self,
        spec: ClusterSpec,
    ) -> Result<(Cluster, CopyReport), SnapshotError> {
        let cluster = Cluster::prepare(&spec)?;
        match self.put_into(&cluster) {
            Ok(report) => Ok((cluster, report)),
            Err(error) => {
                if spec.dir.is_some() {
                    cluster.remove_contents();
                }
                Err(error)
            }
        }
    }

    fn put_into(&self, cluster: &Cluster) -> Result<CopyReport, SnapshotError> {
        let started = Instant::now();
        let major = cluster.install().version().major();
        if self.manifest.major_version != major {
            return Err(SnapshotError::VersionMismatch {
                dir: self.dir.clone(),
                snapshot: self.manifest.major_version,
                cluster: major,
            });
        }
        let source = self.dir.join("data");
        let tree = Tree::scan(&source).map_err(SnapshotError::tree(&source))?;
        let found = (tree.files(), tree.bytes());
        let expected = (self.manifest.files, self.manifest.bytes);
        if found != expected {
            return Err(SnapshotError::Unusable {
                dir: self.dir.clone(),
                what: format!(
                    "it has {} files of {} bytes instead of {} of {}",
                    found.0, found.1, expected.0, expected.1
                ),
            });
        }
        remove_unfinished(cluster.dir());
        let staging = tempfile::Builder::new()
            .prefix(RESTORING)
            .permissions(PermissionsExt::from_mode(0o700))
            .tempdir_in(cluster.dir())
            .map_err(SnapshotError::io("create a directory in", cluster.dir()))?;
        let copy = staging.path().join("data");
        make_data_dir(&copy)?;
        cluster.user().own(&copy).map_err(SnapshotError::io("change the owner of", &copy))?;
        let copied = tree.copy(&source, &copy).map_err(SnapshotError::tree(&source))?;
        take_the_place_of(&copy, &cluster.data_dir())?;
        // The old data directory, if there was one, is in here now.
        let path = staging.path().to_owned();
        staging.close().map_err(SnapshotError::io("remove", &path))?;
        sync_dir(cluster.dir())?;
        let report = report(&tree, copied, started);
        cluster.set_password()?;
        Ok(report)
    }
}

/// PostgreSQL starts only on a data directory closed to others.
fn make_data_dir(dir: &Path) -> Result<(), SnapshotError> {
    fs::create_dir(dir)
        .and_then(|()| fs::set_permissions(dir, PermissionsExt::from_mode(0o700)))
        .map_err(SnapshotError::io("create", dir))
}

/// Puts `new` where `old` is, and `old`, if it exists, where `new` was.
fn take_the_place_of(new: &Path, old: &Path) -> Result<(), SnapshotError> {
    if !old.exists() {
        return fs::rename(new, old).map_err(SnapshotError::io("create", old));
    }
    match renameat2(AT_FDCWD, new, AT_FDCWD, old, RenameFlags::RENAME_EXCHANGE) {
        Ok(()) => Ok(()),
        // Some file systems (NFS, old overlays) cannot exchange.
        Err(nix::Error::EINVAL | nix::Error::ENOSYS) => {
            let aside = new.with_extension("old");
            fs::rename(old, &aside)
                .and_then(|()| fs::rename(new, old))
                .map_err(SnapshotError::io("replace", old))
        }
        Err(error) => Err(SnapshotError::io("replace", old)(error.into())),
    }
}

/// Removes what a restoration left that was killed.
fn remove_unfinished(cluster_dir: &Path) {
    for entry in fs::read_dir(cluster_dir).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(RESTORING)
            && let Err(error) = fs::remove_dir_all(entry.path())
        {
            tracing::warn!(path = %entry.path().display(), %error, "could not remove an unfinished restoration");
        }
    }
}

fn sync_dir(dir: &Path) -> Result<(), SnapshotError> {
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(SnapshotError::io("flush", dir))
}

fn report(tree: &Tree, copied: Copied, started: Instant) -> CopyReport {
    CopyReport {
        method: if copied.copied == 0 && copied.shared > 0 {
            CopyMethod::Reflink
        } else {
            CopyMethod::Copy
        },
        files: tree.files(),
        bytes: tree.bytes(),
        elapsed: started.elapsed(),
    }
}
