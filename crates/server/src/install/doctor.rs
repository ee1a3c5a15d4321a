//! What this machine has and lacks for fetching and running PostgreSQL.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::packages::{LIBRARIES, Library, both};
use super::store::Installs;
use super::{fetch, loader, system_installs};
use crate::places::{FileSystem, Places, PlacesError};
use crate::user::{ServerUser, USER_VARIABLE};
use Verdict::{Fine, Missing, Warning};

/// What a major version takes: 40 MB of programs and 40 MB of empty cluster,
/// with room for some data.
const LEAST_SPACE: u64 = 300 << 20;

/// Below this, ordinary runs may fill the disk.
const COMFORTABLE_SPACE: u64 = 5 << 30;

/// Container runtimes give 64 MB of shared memory by default, which is enough
/// for PostgreSQL unless queries run in parallel.
const LEAST_SHM: u64 = 60 << 20;

/// The C library the preferred builds are linked against.
const GLIBC: (u32, u32) = (2, 34);

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// What was looked at.
    pub name: String,
    /// How it stands.
    pub state: CheckState,
    /// What was found.
    pub found: String,
    /// What it is needed for, or what its absence means.
    pub meaning: String,
    /// What to do, where something is to be done: a package or a variable.
    pub remedy: Option<String>,
}

/// How one thing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckState {
    /// As it should be.
    Ok,
    /// It works, with a loss.
    Warning,
    /// Something cannot work.
    Missing,
}

impl Check {
    fn new(name: &str, meaning: &str, verdict: Verdict) -> Self {
        let (state, found, remedy) = match verdict {
            Verdict::Fine(found) => (CheckState::Ok, found, None),
            Verdict::Warning(found, remedy) => (CheckState::Warning, found, Some(remedy)),
            Verdict::Missing(found, remedy) => (CheckState::Missing, found, Some(remedy)),
        };
        Self { name: name.to_owned(), state, found, meaning: meaning.to_owned(), remedy }
    }
}

/// State, what was found, and what to do.
enum Verdict {
    Fine(String),
    Warning(String, String),
    Missing(String, String),
}

/// Looks at everything installs and clusters need. `cache` is the directory
/// given instead of the default one, `lab` the one records are kept in.
///
/// Runs a few programs and fetches nothing; about a second.
pub fn doctor(cache: Option<PathBuf>, lab: Option<&Path>) -> Vec<Check> {
    let mut checks = vec![
        Check::new("processor", "binaries are fetched for x86_64 and aarch64", processor()),
        Check::new(
            "pip or uv",
            "fetches PostgreSQL, by the mirrors and proxies it is set to use",
            python_tools(),
        ),
        Check::new("C library", "the fetched binaries need glibc 2.34 or later", glibc()),
    ];
    checks.extend(LIBRARIES.iter().map(|library| {
        let meaning = format!(
            "PostgreSQL 14 to 17 cannot run without it ({}); 18 falls back to a build without lz4 and zstd",
            library.purpose
        );
        Check::new(library.soname, &meaning, shared_library(library))
    }));
    checks.push(Check::new(
        "time zones",
        "the fetched binaries use the system's; without them only GMT is known",
        time_zones(),
    ));
    checks.push(Check::new(
        "shared memory",
        "PostgreSQL keeps statistics and parallel queries in /dev/shm",
        shared_memory(),
    ));
    checks.push(Check::new(
        "server user",
        "PostgreSQL does not run as root and needs a user with a passwd entry",
        server_user(),
    ));
    match Places::open(cache) {
        Ok(places) => {
            checks.push(Check::new(
                "cache directory",
                "holds the fetched binaries and the clusters; flushes there are what is measured",
                directory(places.root(), "set WALWRIGHT_CACHE to a directory"),
            ));
            checks.extend(cached_installs(&Installs::within(places)));
        }
        // Told by the check of the user already.
        Err(PlacesError::User(_)) => {}
        Err(error) => checks.push(Check::new(
            "cache directory",
            "holds the fetched binaries and the clusters",
            Missing("none".to_owned(), error.to_string()),
        )),
    }
    if let Some(lab) = lab {
        checks.push(Check::new(
            "lab directory",
            "holds the records of runs",
            directory(lab, "choose a lab directory"),
        ));
    }
    checks.push(Check::new(
        "installed PostgreSQL",
        "can be used with --pg-bin; not needed otherwise",
        installed(),
    ));
    checks
}

fn processor() -> Verdict {
    let arch = std::env::consts::ARCH;
    match arch {
        "x86_64" | "aarch64" => Fine(arch.to_owned()),
        _ => Missing(
            arch.to_owned(),
            "install PostgreSQL by other means and use --pg-bin DIR".to_owned(),
        ),
    }
}

fn python_tools() -> Verdict {
    let tools = fetch::tools();
    if tools.is_empty() {
        return Missing(
            "neither runs".to_owned(),
            format!("install {}, or uv; or use --pg-bin DIR", both("python3-pip", "python3-pip")),
        );
    }
    let found: Vec<String> =
        tools.iter().map(|tool| format!("{} ({})", tool.name(), tool.version())).collect();
    Fine(found.join(", "))
}

fn glibc() -> Verdict {
    let said = said_by("getconf", &["GNU_LIBC_VERSION"])
        .or_else(|| said_by("ldd", &["--version"]))
        .unwrap_or_default();
    let Some(version) = dotted_version(&said) else {
        return Warning(
            "no glibc was recognized".to_owned(),
            "use a distribution with glibc 2.34 or later (Debian 12, Ubuntu 22.04, Fedora 35, RHEL 9), or --pg-bin DIR".to_owned(),
        );
    };
    let found = format!("glibc {}.{}", version.0, version.1);
    if version >= GLIBC {
        Fine(found)
    } else {
        Warning(
            found,
            "use a newer distribution (Debian 12, Ubuntu 22.04, Fedora 35, RHEL 9), or --pg-bin DIR; PostgreSQL 18 falls back to a build for glibc 2.28".to_owned(),
        )
    }
}

fn shared_library(library: &Library) -> Verdict {
    if let Some(path) = find_library(library.soname) {
        return Fine(path);
    }
    Warning("not found".to_owned(), format!("install {}", library.packages()))
}

/// Where the loader would most likely find a library: its own cache first,
/// then the usual directories.
fn find_library(soname: &str) -> Option<String> {
    let listing = said_by("ldconfig", &["-p"])
        .or_else(|| said_by("/sbin/ldconfig", &["-p"]))
        .unwrap_or_default();
    if let Some(path) = in_loader_cache(&listing, soname) {
        return Some(path);
    }
    let arch = std::env::consts::ARCH;
    let named = std::env::var(loader::LIBRARY_PATH).unwrap_or_default();
    let mut dirs: Vec<PathBuf> =
        named.split(':').filter(|dir| !dir.is_empty()).map(PathBuf::from).collect();
    dirs.extend([
        format!("/lib/{arch}-linux-gnu").into(),
        format!("/usr/lib/{arch}-linux-gnu").into(),
        "/lib64".into(),
        "/usr/lib64".into(),
        "/lib".into(),
        "/usr/lib".into(),
    ]);
    dirs.into_iter()
        .map(|dir| dir.join(soname))
        .find(|path| path.is_file())
        .map(|path| path.display().to_string())
}

/// A line of `ldconfig -p`: "libxml2.so.2 (libc6,x86-64) => /lib/…/libxml2.so.2".
fn in_loader_cache(listing: &str, soname: &str) -> Option<String> {
    listing.lines().find_map(|line| {
        let (name, path) = line.trim().split_once(" => ")?;
        (name.split_whitespace().next() == Some(soname)).then(|| path.to_owned())
    })
}

fn time_zones() -> Verdict {
    let dir = Path::new("/usr/share/zoneinfo");
    if dir.is_dir() {
        Fine(dir.display().to_string())
    } else {
        Warning("not found".to_owned(), format!("install {}", both("tzdata", "tzdata")))
    }
}

fn shared_memory() -> Verdict {
    let small = "give the container a larger /dev/shm (--shm-size)".to_owned();
    match FileSystem::of(Path::new("/dev/shm")) {
        Ok(shm) if shm.available_bytes >= LEAST_SHM => Fine(human(shm.available_bytes)),
        Ok(shm) => Warning(human(shm.available_bytes), small),
        Err(error) => Warning(error.to_string(), small),
    }
}

fn server_user() -> Verdict {
    match ServerUser::detect() {
        Ok(user) if user.is_dropped() => Fine(format!("servers run as {:?}", user.name())),
        Ok(user) => Fine(format!("{:?}, the current user", user.name())),
        Err(error) => Missing("none".to_owned(), format!("{error} ({USER_VARIABLE})")),
    }
}

fn directory(dir: &Path, otherwise: &str) -> Verdict {
    let shown = dir.display();
    let nearest = dir.ancestors().find(|ancestor| ancestor.exists());
    if nearest.is_none_or(|nearest| tempfile::tempfile_in(nearest).is_err()) {
        return Missing(format!("{shown} cannot be written"), format!("{otherwise} you can write"));
    }
    match FileSystem::of(dir) {
        Err(error) => Warning(format!("{shown}: {error}"), otherwise.to_owned()),
        Ok(disk) if disk.in_memory => Warning(
            format!("{shown} is in memory, where flushes are free"),
            format!("{otherwise} on a real disk"),
        ),
        Ok(disk) if disk.available_bytes < LEAST_SPACE => Missing(
            format!("{shown} has {} left", human(disk.available_bytes)),
            format!("free some space, or {otherwise} on a larger disk"),
        ),
        Ok(disk) if disk.available_bytes < COMFORTABLE_SPACE => Warning(
            format!("{shown} has {} left", human(disk.available_bytes)),
            format!("free some space, or {otherwise} on a larger disk"),
        ),
        Ok(disk) => Fine(format!("{shown}, {} left", human(disk.available_bytes))),
    }
}

fn cached_installs(installs: &Installs) -> Vec<Check> {
    installs
        .list()
        .into_iter()
        .filter_map(|cached| {
            let verdict = match cached.present {
                Ok(false) => return None,
                Ok(true) => Fine(format!("{} in {}", cached.package, cached.directory.display())),
                Err(damage) => Warning(
                    format!("{} is damaged: {damage}", cached.package),
                    "nothing to do: it is fetched again when it is next used".to_owned(),
                ),
            };
            let name = format!("PostgreSQL {}", cached.major);
            Some(Check::new(&name, "fetched earlier", verdict))
        })
        .collect()
}

fn installed() -> Verdict {
    let found: Vec<String> = system_installs()
        .iter()
        .map(|install| format!("{} in {}", install.version(), install.bin_dir().display()))
        .collect();
    Fine(if found.is_empty() { "none".to_owned() } else { found.join(", ") })
}

fn said_by(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The last "major.minor" on the first line: both `getconf` and `ldd` of glibc
/// end it with the version.
fn dotted_version(said: &str) -> Option<(u32, u32)> {
    let line = said.lines().next()?;
    // "musl libc" puts its version on another line.
    line.split_whitespace().rev().find_map(|word| {
        let (major, minor) = word.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    })
}

fn human(bytes: u64) -> String {
    if bytes >= 1 << 30 { format!("{} GiB", bytes >> 30) } else { format!("{} MiB", bytes >> 20) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn versions_and_libraries_are_read_from_what_programs_say() {
        assert_eq!(dotted_version("glibc 2.36\n"), Some((2, 36)));
        assert_eq!(
            dotted_version("ldd (Debian GLIBC 2.36-9+deb12u14) 2.36\nCopyright"),
            Some((2, 36))
        );
        assert_eq!(dotted_version("musl libc (x86_64)\nVersion 1.2.5"), None);
        let listing = "\tlibz.so.1 (libc6,x86-64) => /lib/libz.so.1\n";
        assert_eq!(in_loader_cache(listing, "libz.so.1").as_deref(), Some("/lib/libz.so.1"));
        assert_eq!(in_loader_cache(listing, "libz.so"), None);
    }

    #[test]
    fn a_directory_in_memory_is_a_warning_and_one_below_a_file_is_missing() {
        let verdict = directory(Path::new("/dev/shm/walwright"), "set X to a directory");
        assert!(matches!(verdict, Warning(found, _) if found.contains("in memory")));
        let verdict = directory(Path::new("/proc/1/x"), "set X to a directory");
        assert!(matches!(verdict, Missing(_, remedy) if remedy.contains("you can write")));
    }

    #[test]
    fn looking_fetches_nothing() {
        let dir = tempfile::tempdir_in("/var/tmp").expect("temp dir");
        fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).expect("chmod");
        let cache = dir.path().join("cache");
        let checks = doctor(Some(cache.clone()), Some(dir.path()));
        let fetched = fs::read_dir(cache.join("installs")).expect("read").count();
        assert_eq!(fetched, 0);
        for name in ["pip or uv", "libxml2.so.2", "cache directory", "lab directory"] {
            let check = checks.iter().find(|check| check.name == name).expect(name);
            assert_eq!(check.remedy.is_some(), check.state != CheckState::Ok, "{check:?}");
        }
    }
}
