//! The tests of asyncpg, which its source distribution holds.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{DATABASE, Outcomes, PASSWORD, Run, SUPERUSER, Suite, fetch, python};

const VERSION: &str = "0.32.0";
const PACKAGES: [&str; 8] = [
    "asyncpg==0.32.0",
    "distro==1.9.0",
    "pytest==9.2.0",
    "pytest-reportlog==1.0.0",
    "pytest-timeout==2.4.0",
    // What the source distribution wants before it is handed out.
    "Cython==3.3.1",
    "packaging==26.4",
    "setuptools==84.2.1",
];

/// asyncpg with the server that `PGHOST` names. Its tests that start servers of their own, to
/// change their `pg_hba.conf`, to stop them or to have standbys, cannot be pointed to another
/// and are skipped.
#[derive(Debug)]
pub struct Asyncpg;

impl Suite for Asyncpg {
    fn name(&self) -> &'static str {
        "asyncpg"
    }

    fn version(&self) -> &'static str {
        VERSION
    }

    fn fetch(&self, directory: &Path) -> anyhow::Result<()> {
        let python = python::environment(directory, &PACKAGES)?;
        let source = directory.join("source");
        if source.exists() {
            return Ok(());
        }
        let package = format!("asyncpg=={VERSION}");
        let download = ["-m", "pip", "download", "-q", "--no-deps", "--no-build-isolation"];
        let from_source = ["--no-binary", "asyncpg", &package, "-d"];
        fetch(Command::new(python).args(download).args(from_source).arg(directory))?;
        // The tests alone: they are to find the installed package.
        let unpacked = directory.join("unpacked");
        fs::create_dir_all(&unpacked)?;
        let name = format!("asyncpg-{VERSION}");
        let archive = directory.join(format!("{name}.tar.gz"));
        let tests = format!("{name}/tests");
        let unpack = ["--strip-components", "1", "-xzf"];
        fetch(Command::new("tar").args(unpack).arg(archive).arg(tests).current_dir(&unpacked))?;
        Ok(fs::rename(unpacked, source)?)
    }

    fn command(&self, directory: &Path, run: &Run<'_>) -> anyhow::Result<Command> {
        let python = python::environment(directory, &PACKAGES)?;
        let mut command = python::pytest(&python, &directory.join("source"), run);
        command
            .env("PGHOST", "127.0.0.1")
            .env("PGPORT", run.port.to_string())
            .env("PGUSER", SUPERUSER)
            .env("PGPASSWORD", PASSWORD)
            .env("PGDATABASE", DATABASE)
            // Left out: what looks at the driver's source alone.
            .args(["--ignore", "tests/test__sourcecode.py", "tests"]);
        Ok(command)
    }

    fn outcomes(&self, _directory: &Path, run: &Run<'_>) -> anyhow::Result<Outcomes> {
        python::outcomes(run)
    }
}
