//! The tests of node-postgres, which are in its repository alone.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{
    DATABASE, Outcome, Outcomes, PASSWORD, Run, SUPERUSER, Suite, fetch, printed, program,
};

const VERSION: &str = "8.23.0";
const REPOSITORY: &str = "https://github.com/brianc/node-postgres";
const PACKAGES: [&str; 5] =
    ["pg@8.23.0", "async@2.6.4", "bluebird@3.7.2", "co@4.6.0", "pg-copy-streams@0.3.0"];
/// Each file is a program, as its Makefile has it. None may take longer than half a minute.
const RUN: &str = "for file in $(find test/integration -name '*-tests.js' | sort); do
    echo \"=== $file\"
    timeout 30 node \"$file\"
    echo \"--- $?\"
done";

/// The package `pg` in JavaScript alone.
#[derive(Debug)]
pub struct NodePostgres;

impl Suite for NodePostgres {
    fn name(&self) -> &'static str {
        "node-postgres"
    }

    fn version(&self) -> &'static str {
        VERSION
    }

    fn fetch(&self, directory: &Path) -> anyhow::Result<()> {
        super::clone(REPOSITORY, &format!("pg@{VERSION}"), directory)?;
        let done = directory.join("fetched");
        if !done.exists() {
            let install = ["install", "--no-audit", "--no-fund", "--no-save", "--prefix"];
            fetch(Command::new("npm").args(install).arg(directory).args(PACKAGES))?;
            fs::write(done, "")?;
        }
        Ok(())
    }

    fn command(&self, directory: &Path, run: &Run<'_>) -> anyhow::Result<Command> {
        let mut command = program("sh");
        command
            .args(["-c", RUN])
            .current_dir(directory.join("source/packages/pg"))
            .env("PGHOST", "127.0.0.1")
            .env("PGPORT", run.port.to_string())
            .env("PGUSER", SUPERUSER)
            .env("PGPASSWORD", PASSWORD)
            .env("PGDATABASE", DATABASE);
        Ok(command)
    }

    fn outcomes(&self, _directory: &Path, run: &Run<'_>) -> anyhow::Result<Outcomes> {
        Ok(parse(&String::from_utf8_lossy(&fs::read(printed(run))?)))
    }
}

/// What the files have told so far: each is a test itself, and those that it names.
fn parse(log: &str) -> Outcomes {
    let mut outcomes = Outcomes::new();
    let mut file = "";
    let mut said = String::new();
    for line in log.lines() {
        if let Some(path) = line.strip_prefix("=== ") {
            file = path.strip_prefix("test/integration/").unwrap_or(path);
            said.clear();
        } else if let Some(code) = line.strip_prefix("--- ") {
            let outcome = match code {
                "0" => Outcome::Passed,
                _ => Outcome::Failed(format!("exit status {code}: {}", said.trim())),
            };
            outcomes.insert(file.to_owned(), outcome);
        } else if let Some(test) = line.strip_suffix(" ✔") {
            outcomes.insert(format!("{file}: {}", test.trim()), Outcome::Passed);
        } else if let Some(test) = line.strip_suffix(" ? - SKIPPED") {
            outcomes.insert(format!("{file}: {}", test.trim()), Outcome::Skipped);
        } else {
            said += line;
            said.push('\n');
        }
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_a_test_and_has_tests() {
        let log = "=== test/integration/a-tests.js\na-tests.js\n  reads ✔\n  waits ? - SKIPPED\n\n\
                   --- 0\n=== test/integration/b-tests.js\nb-tests.js\n  lives Message: lost\n\
                   --- 255\n=== test/integration/c-tests.js\n";
        let outcomes = parse(log);
        assert_eq!(outcomes.len(), 4);
        assert_eq!(outcomes["a-tests.js"], Outcome::Passed);
        assert_eq!(outcomes["a-tests.js: reads"], Outcome::Passed);
        assert_eq!(outcomes["a-tests.js: waits"], Outcome::Skipped);
        let Outcome::Failed(said) = &outcomes["b-tests.js"] else { panic!("{outcomes:?}") };
        assert!(said.contains("255") && said.contains("lives Message: lost"), "{said}");
    }
}
