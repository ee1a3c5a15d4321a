//! Embedded clusters: data directories walwright made, owns and starts.

mod accepted;
mod error;
mod flush_latency;
mod init;
mod lease;
mod memory_group;
mod power_cut;
mod preload;
mod process;
mod processors;
mod running;
mod settings;
mod shared_memory;
mod socket;
mod sweep;

use std::num::NonZeroU32;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{fs, io};

pub use accepted::{RefusedSetting, check_settings, refused_settings};
pub use error::ClusterError;
pub use power_cut::{PowerCut, Unflushed};
pub use running::{RunningCluster, StopMode};
pub(crate) use running::{free_port, tail};
pub use settings::SettingError;
pub use sweep::{Swept, sweep};

use crate::install::Install;
use crate::places::{FileSystem, Places, create_open_dir, create_owned_dir};
use crate::target::Secret;
use crate::user::ServerUser;
use init::DataDirectory;
use lease::{Asked, Lease, LeaseNote};

/// What cluster to make or open.
#[derive(Debug, Clone)]
pub struct ClusterSpec {
    /// The programs.
    pub install: Install,
    /// Where clusters lie and as whom servers run.
    pub places: Places,
    /// The cluster's own directory, which stays afterwards. `None` makes one
    /// under [`Places::clusters`] that is removed when the cluster is dropped,
    /// or swept after a crash.
    pub dir: Option<PathBuf>,
    /// Settings, name and value, on top of the few that walwright adds so that
    /// the server can be observed. A setting named here replaces walwright's:
    /// `shared_preload_libraries` without `pg_stat_statements` means no
    /// statement statistics.
    pub settings: Vec<(String, String)>,
    /// Also listen on the loopback address. `None`: unix socket only.
    pub tcp: Option<TcpAccess>,
    /// Least time of every flush of the server; what storage of that latency does.
    /// `None`: as long as it takes.
    pub flush_latency: Option<Duration>,
    /// Processors that the server may use: the first so many of those that this process may use.
    /// `None`: all of them.
    pub processors: Option<NonZeroU32>,
    /// Bytes of memory that the server may use, its page cache included. `None`: all there is.
    pub memory: Option<u64>,
    /// How long a start may take, crash recovery included.
    pub start_timeout: Duration,
}

/// Access by TCP on 127.0.0.1, with a password (SCRAM).
#[derive(Debug, Clone)]
pub struct TcpAccess {
    /// The port; `None` picks a free one at each start.
    pub port: Option<u16>,
    /// The superuser's password, set when the cluster is made.
    pub password: Secret,
}

impl ClusterSpec {
    /// A throw-away cluster on a unix socket, with default settings.
    pub fn new(places: &Places, install: Install) -> Self {
        Self {
            install,
            places: places.clone(),
            dir: None,
            settings: Vec::new(),
            tcp: None,
            flush_latency: None,
            processors: None,
            memory: None,
            start_timeout: Duration::from_secs(120),
        }
    }
}

/// A cluster we hold the lease of. Cloning gives another handle to the same;
/// the last handle to go releases it and, if it has no directory of its own,
/// removes it.
#[derive(Debug, Clone)]
pub struct Cluster {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    dir: PathBuf,
    install: Install,
    user: ServerUser,
    tcp: Option<TcpAccess>,
    flush_latency: Option<Duration>,
    processors: Option<NonZeroU32>,
    memory: Option<u64>,
    start_timeout: Duration,
    ephemeral: bool,
    settings: Mutex<Vec<(String, String)>>,
    socket_dir: PathBuf,
    running: AtomicBool,
    // Released after the directory is gone (fields drop after Drop::drop).
    _lease: Lease,
}

impl Cluster {
    /// Makes a new cluster (initdb, about half a second).
    ///
    /// Blocks. Nothing stays behind when it fails.
    pub fn create(spec: ClusterSpec) -> Result<Self, ClusterError> {
        let cluster = Self::prepare(&spec)?;
        let made = cluster.init(&spec);
        if let Err(error) = made {
            if spec.dir.is_some() {
                cluster.remove_contents();
            }
            return Err(error);
        }
        Ok(cluster)
    }

    /// A cluster directory without a data directory: the caller puts one there,
    /// as restoring a snapshot does.
    pub(crate) fn prepare(spec: &ClusterSpec) -> Result<Self, ClusterError> {
        settings::check(&spec.settings)?;
        let user = spec.places.user();
        check_reach(user, spec.install.bin_dir())?;
        // Creating and sweeping exclude each other, so that a directory
        // without its lease yet is not taken for a leftover.
        let _registry = sweep::lock_registry(&spec.places)?;
        let (dir, ephemeral) = match &spec.dir {
            Some(dir) => (new_cluster_dir(dir, user)?, false),
            None => (private_cluster_dir(spec)?, true),
        };
        let lease = match Lease::ask(&dir).map_err(ClusterError::io("open the lease in", &dir))? {
            Asked::Granted(lease, _) => lease,
            Asked::Held(note) => return Err(in_use(&dir, note)),
        };
        Self::hold(spec, dir, ephemeral, lease)
    }

    /// Opens a cluster made earlier in a directory of its own. If a crash left
    /// its server running, that is stopped first.
    ///
    /// Blocks.
    pub fn open(spec: ClusterSpec) -> Result<Self, ClusterError> {
        settings::check(&spec.settings)?;
        let Some(dir) = &spec.dir else {
            return Self::create(spec);
        };
        let dir = absolute(dir)?;
        let data_dir = dir.join("data");
        if !lease::is_present(&dir) || !data_dir.join("PG_VERSION").is_file() {
            return Err(ClusterError::NotACluster { dir });
        }
        check_reach(spec.places.user(), &data_dir)?;
        check_reach(spec.places.user(), spec.install.bin_dir())?;
        check_version(&data_dir, &spec.install)?;
        let lease = match Lease::ask(&dir).map_err(ClusterError::io("open the lease in", &dir))? {
            Asked::Granted(lease, note) => {
                sweep::stop_leftovers(&dir, note.as_ref())?;
                lease
            }
            Asked::Held(note) => return Err(in_use(&dir, note)),
        };
        Self::hold(&spec, dir, false, lease)
    }

    fn hold(
        spec: &ClusterSpec,
        dir: PathBuf,
        ephemeral: bool,
        mut lease: Lease,
    ) -> Result<Self, ClusterError> {
        let user = spec.places.user();
        let (socket_dir, outside) = socket::make(&dir, user)?;
        let note = LeaseNote { outside_socket_dir: outside, ..LeaseNote::mine(ephemeral) };
        lease.write(&note).map_err(ClusterError::io("write the lease in", &dir))?;
        Ok(Self {
            inner: Arc::new(Inner {
                dir,
                install: spec.install.clone(),
                user: user.clone(),
                tcp: spec.tcp.clone(),
                flush_latency: spec.flush_latency,
                processors: spec.processors,
                memory: spec.memory,
                start_timeout: spec.start_timeout,
                ephemeral,
                settings: Mutex::new(spec.settings.clone()),
                socket_dir,
                running: AtomicBool::new(false),
                _lease: lease,
            }),
        })
    }

    fn init(&self, spec: &ClusterSpec) -> Result<(), ClusterError> {
        let data_dir = self.data_dir();
        create_owned_dir(&data_dir, 0o700, &self.inner.user)
            .map_err(ClusterError::io("create", &data_dir))?;
        let at_rest = self.at_rest(&data_dir);
        at_rest.init(spec.tcp.as_ref().map(|tcp| &tcp.password))?;
        if self.statistics_library().is_some() {
            at_rest.create_statistics_extension()?;
        }
        Ok(())
    }

    /// Gives the superuser of data that were put here the password of access by TCP, if
    /// there is such access.
    pub(crate) fn set_password(&self) -> Result<(), ClusterError> {
        let Some(tcp) = &self.inner.tcp else { return Ok(()) };
        self.at_rest(&self.data_dir()).set_password(&tcp.password)
    }

    fn at_rest<'a>(&'a self, path: &'a Path) -> DataDirectory<'a> {
        let Inner { dir, user, install, ephemeral, .. } = &*self.inner;
        DataDirectory { install, user, dir, path, sync: !ephemeral }
    }

    /// The library to preload for statement statistics, where it is installed.
    fn statistics_library(&self) -> Option<&'static str> {
        (self.inner.install.has_library(init::STATEMENTS) != Some(false))
            .then_some(init::STATEMENTS)
    }

    /// The cluster's directory: data directory, socket, log, lease.
    pub fn dir(&self) -> &Path {
        &self.inner.dir
    }

    /// The data directory (`PGDATA`).
    pub fn data_dir(&self) -> PathBuf {
        self.inner.dir.join("data")
    }

    /// The programs it runs with.
    pub fn install(&self) -> &Install {
        &self.inner.install
    }

    /// The user its server runs as.
    pub fn user(&self) -> &ServerUser {
        &self.inner.user
    }

    /// The file its server logs to.
    pub fn log_file(&self) -> PathBuf {
        self.inner.dir.join("server.log")
    }

    /// The file system that holds the data: in memory means flushes are free,
    /// and measured latencies mean nothing.
    pub fn file_system(&self) -> io::Result<FileSystem> {
        FileSystem::of(&self.inner.dir)
    }

    /// The settings given so far.
    pub fn settings(&self) -> Vec<(String, String)> {
        self.lock_settings().clone()
    }

    /// Replaces all the settings given so far. They take effect at the next
    /// start; [`RunningCluster::reload`] applies those that need no restart.
    pub fn set_settings(&self, settings: Vec<(String, String)>) -> Result<(), ClusterError> {
        settings::check(&settings)?;
        *self.lock_settings() = settings;
        Ok(())
    }

    fn lock_settings(&self) -> std::sync::MutexGuard<'_, Vec<(String, String)>> {
        self.inner.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_settings(&self) -> Result<(), ClusterError> {
        let settings = self.settings();
        let data_dir = self.data_dir();
        settings::write(&data_dir, self.statistics_library(), &settings, &self.inner.user)
            .map_err(ClusterError::io("write the settings in", &data_dir))
    }

    /// Keeps the server from being started until the guard is dropped.
    pub(crate) fn keep_stopped(&self) -> Result<Idle<'_>, ClusterError> {
        if self.inner.running.swap(true, Ordering::AcqRel) {
            return Err(ClusterError::Running { dir: self.inner.dir.clone() });
        }
        Ok(Idle(&self.inner.running))
    }

    /// Takes away what a failed creation left in a directory that is not ours
    /// to remove.
    pub(crate) fn remove_contents(&self) {
        for entry in fs::read_dir(&self.inner.dir).into_iter().flatten().flatten() {
            let path = entry.path();
            let removed =
                if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            if let Err(error) = removed {
                tracing::warn!(path = %path.display(), %error, "could not remove what a failed initdb left");
            }
        }
    }
}

/// While this exists the cluster's server does not run.
#[derive(Debug)]
pub(crate) struct Idle<'a>(&'a AtomicBool);

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let mut doomed = Vec::new();
        if !self.socket_dir.starts_with(&self.dir) {
            doomed.push(&self.socket_dir);
        }
        if self.ephemeral {
            doomed.push(&self.dir);
        }
        for dir in doomed {
            if let Err(error) = fs::remove_dir_all(dir)
                && error.kind() != io::ErrorKind::NotFound
            {
                tracing::warn!(path = %dir.display(), %error, "could not remove a cluster's directory");
            }
        }
    }
}

fn in_use(dir: &Path, note: Option<LeaseNote>) -> ClusterError {
    ClusterError::InUse { dir: dir.to_owned(), pid: note.map(|note| note.pid) }
}

/// A directory under the clusters directory. The server's user may pass
/// through it, and lists nothing.
fn private_cluster_dir(spec: &ClusterSpec) -> Result<PathBuf, ClusterError> {
    let clusters = spec.places.clusters();
    create_open_dir(&clusters).map_err(ClusterError::io("create", &clusters))?;
    let dir = tempfile::Builder::new()
        .prefix(&format!("pg{}-", spec.install.version().major()))
        .tempdir_in(&clusters)
        .map_err(ClusterError::io("create a directory in", &clusters))?
        .keep();
    fs::set_permissions(&dir, PermissionsExt::from_mode(dir_mode(spec.places.user())))
        .map_err(ClusterError::io("set the mode of", &dir))?;
    Ok(dir)
}

fn new_cluster_dir(dir: &Path, user: &ServerUser) -> Result<PathBuf, ClusterError> {
    let dir = absolute(dir)?;
    // Before anything is created.
    check_reach(user, &dir)?;
    if let Some(parent) = dir.parent() {
        create_open_dir(parent).map_err(ClusterError::io("create", parent))?;
    }
    match fs::DirBuilder::new().mode(0o700).create(&dir) {
        Ok(()) => fs::set_permissions(&dir, PermissionsExt::from_mode(dir_mode(user)))
            .map_err(ClusterError::io("set the mode of", &dir))?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let mut entries = fs::read_dir(&dir).map_err(ClusterError::io("read", &dir))?;
            if entries.next().is_some() {
                return Err(ClusterError::NotEmpty { dir });
            }
        }
        Err(error) => return Err(ClusterError::io("create", &dir)(error)),
    }
    Ok(dir)
}

fn dir_mode(user: &ServerUser) -> u32 {
    if user.is_dropped() { 0o711 } else { 0o700 }
}

fn check_reach(user: &ServerUser, path: &Path) -> Result<(), ClusterError> {
    match user.blocked_at(path) {
        Some(blocked) => Err(ClusterError::Unreachable {
            user: user.name().to_owned(),
            blocked,
            wanted: path.to_owned(),
        }),
        None => Ok(()),
    }
}

fn check_version(data_dir: &Path, install: &Install) -> Result<(), ClusterError> {
    let path = data_dir.join("PG_VERSION");
    let found = fs::read_to_string(&path).map_err(ClusterError::io("read", &path))?;
    let found = found.trim();
    let install = install.version().major();
    if found == install.to_string() {
        return Ok(());
    }
    Err(ClusterError::VersionMismatch {
        data_dir: data_dir.to_owned(),
        found: found.to_owned(),
        install,
    })
}

fn absolute(dir: &Path) -> Result<PathBuf, ClusterError> {
    std::path::absolute(dir).map_err(ClusterError::io("find", dir))
}
