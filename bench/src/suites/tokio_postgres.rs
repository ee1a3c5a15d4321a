//! The tests of tokio-postgres and of postgres, which wraps it; both are in one repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::{Outcome, Outcomes, PASSWORD, Run, Suite, printed, program};

const VERSION: &str = "0.7.13";
const REPOSITORY: &str = "https://github.com/sfackler/rust-postgres";
const TEST: [&str; 7] = [
    "test",
    "--all-features",
    "--lib",
    "--tests",
    "--no-fail-fast",
    "--package=tokio-postgres",
    "--package=postgres",
];
/// Where it is told where the tests connect, and as whom.
const PLACES: [&str; 2] = ["tokio-postgres/tests/test", "postgres/src/test.rs"];

/// tokio-postgres with all its types, and postgres.
#[derive(Debug)]
pub struct TokioPostgres;

impl TokioPostgres {
    /// Writes the port and the password into the tests, which have others.
    fn aim(&self, directory: &Path, port: u16) -> anyhow::Result<()> {
        let source = directory.join("source");
        let mut restore = Command::new("git");
        restore.args(["checkout", "-q", "--"]).args(PLACES).current_dir(&source);
        super::fetch(&mut restore)?;
        let mut files = Vec::new();
        for place in PLACES {
            files_below(&source.join(place), &mut files)?;
        }
        for file in files {
            let text = fs::read_to_string(&file)?
                .replace("user=postgres", &format!("user=postgres password={PASSWORD}"))
                .replace("5433", &port.to_string());
            fs::write(file, text)?;
        }
        Ok(())
    }
}

impl Suite for TokioPostgres {
    fn name(&self) -> &'static str {
        "tokio-postgres"
    }

    fn version(&self) -> &'static str {
        VERSION
    }

    fn fetch(&self, directory: &Path) -> anyhow::Result<()> {
        super::clone(REPOSITORY, &format!("tokio-postgres-v{VERSION}"), directory)?;
        let mut build = Command::new("cargo");
        build.args(TEST).arg("--no-run").current_dir(directory.join("source"));
        super::fetch(&mut build)
    }

    fn is_alone(&self) -> bool {
        // Their port is in its sources.
        true
    }

    fn setup(&self) -> &'static str {
        // As its docker/sql_setup.sh has it.
        "\\c postgres
         CREATE ROLE pass_user PASSWORD 'password' LOGIN;
         CREATE ROLE md5_user PASSWORD 'password' LOGIN;
         CREATE ROLE scram_user PASSWORD 'password' LOGIN;
         CREATE ROLE ssl_user LOGIN;
         CREATE EXTENSION hstore;
         CREATE EXTENSION citext;
         CREATE EXTENSION ltree;"
    }

    fn command(&self, directory: &Path, run: &Run<'_>) -> anyhow::Result<Command> {
        self.aim(directory, run.port)?;
        let mut command = program("cargo");
        command.args(TEST).current_dir(directory.join("source"));
        let home =
            std::env::home_dir().context("no home directory, where cargo has what it has")?;
        for (name, place) in [("CARGO_HOME", ".cargo"), ("RUSTUP_HOME", ".rustup")] {
            command.env(name, std::env::var_os(name).unwrap_or_else(|| home.join(place).into()));
        }
        Ok(command)
    }

    fn outcomes(&self, _directory: &Path, run: &Run<'_>) -> anyhow::Result<Outcomes> {
        Ok(parse(&String::from_utf8_lossy(&fs::read(printed(run))?)))
    }
}

/// This file, or those of this directory.
fn files_below(place: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if !place.is_dir() {
        files.push(place.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(place).with_context(|| format!("reading {}", place.display()))? {
        files_below(&entry?.path(), files)?;
    }
    Ok(())
}

/// What the test programs have told so far, and below it why tests failed.
fn parse(log: &str) -> Outcomes {
    let mut outcomes = Outcomes::new();
    let mut program = String::new();
    let mut failed: Option<String> = None;
    for line in log.lines() {
        if let Some(of) = line.trim_start().strip_prefix("Running ") {
            program = of.split_once(" (").map_or(of, |(name, _)| name).to_owned();
        } else if let Some((test, ended)) =
            line.strip_prefix("test ").and_then(|line| line.rsplit_once(" ... "))
        {
            let outcome = match ended {
                "ok" => Outcome::Passed,
                "FAILED" => Outcome::Failed(String::new()),
                _ => Outcome::Skipped,
            };
            outcomes.insert(format!("{program}: {test}"), outcome);
        } else if let Some(test) = line.strip_prefix("---- ") {
            failed = test.strip_suffix(" stdout ----").map(|test| format!("{program}: {test}"));
        } else if let Some(Outcome::Failed(said)) =
            failed.as_ref().and_then(|test| outcomes.get_mut(test))
        {
            said.push_str(line);
            said.push('\n');
        }
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_named_by_their_program_and_tell_why_they_failed() {
        let log = "     Running tests/test/main.rs (target/debug/deps/test-0)\n\
                   test types::int ... ok\ntest notices ... FAILED\ntest a::b ... ignored\n\n\
                   failures:\n\n---- notices stdout ----\nleft: 1\n\nfailures:\n    notices\n\n\
                   test result: FAILED. 1 passed; 1 failed\n\
                   Running unittests src/lib.rs (target/debug/deps/postgres-0)\n\
                   test test::prepare ... ok\n";
        let outcomes = parse(log);
        assert_eq!(outcomes.len(), 4);
        assert_eq!(outcomes["tests/test/main.rs: types::int"], Outcome::Passed);
        assert_eq!(outcomes["tests/test/main.rs: a::b"], Outcome::Skipped);
        assert_eq!(outcomes["unittests src/lib.rs: test::prepare"], Outcome::Passed);
        let Outcome::Failed(said) = &outcomes["tests/test/main.rs: notices"] else { panic!() };
        assert!(said.contains("left: 1"), "{said}");
    }
}
