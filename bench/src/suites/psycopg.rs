//! The tests of psycopg 3, which are in its repository alone.

use std::path::Path;
use std::process::Command;

use super::{DATABASE, Outcomes, PASSWORD, Run, SUPERUSER, Suite, python};

const VERSION: &str = "3.3.4";
const REPOSITORY: &str = "https://github.com/psycopg/psycopg";
const PACKAGES: [&str; 7] = [
    "psycopg[binary,pool]==3.3.4",
    "anyio==4.16.0",
    "dnspython==2.9.2",
    "pproxy==2.7.9",
    "pytest==9.2.0",
    "pytest-reportlog==1.0.0",
    "pytest-timeout==2.4.0",
];

/// psycopg 3 with its C implementation and the libpq that its package brings.
#[derive(Debug)]
pub struct Psycopg;

impl Suite for Psycopg {
    fn name(&self) -> &'static str {
        "psycopg"
    }

    fn version(&self) -> &'static str {
        VERSION
    }

    fn fetch(&self, directory: &Path) -> anyhow::Result<()> {
        super::clone(REPOSITORY, VERSION, directory)?;
        python::environment(directory, &PACKAGES)?;
        Ok(())
    }

    fn command(&self, directory: &Path, run: &Run<'_>) -> anyhow::Result<Command> {
        let python = python::environment(directory, &PACKAGES)?;
        let mut command = python::pytest(&python, &directory.join("source"), run);
        let server = format!(
            "host=127.0.0.1 port={} user={SUPERUSER} password={PASSWORD} dbname={DATABASE}",
            run.port
        );
        // Left out: what looks at the client's memory, types or speed alone, or waits.
        command
            .args(["-k", "not leak and not test_typing", "-m", "not slow and not timing"])
            .args(["--test-dsn", &server, "tests"]);
        Ok(command)
    }

    fn outcomes(&self, _directory: &Path, run: &Run<'_>) -> anyhow::Result<Outcomes> {
        python::outcomes(run)
    }
}
