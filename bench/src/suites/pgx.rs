//! The tests of pgx, which its module holds.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::{DATABASE, Outcome, Outcomes, PASSWORD, Run, SUPERUSER, Suite, printed, program};

const VERSION: &str = "5.12.0";
const MODULE: &str = "github.com/jackc/pgx/v5";
/// Time that the tests of one package may take, as go has it.
const PACKAGE_TIMEOUT: &str = "8m";

/// pgx with everything that its module tests by itself.
#[derive(Debug)]
pub struct Pgx;

impl Suite for Pgx {
    fn name(&self) -> &'static str {
        "pgx"
    }

    fn version(&self) -> &'static str {
        VERSION
    }

    fn fetch(&self, directory: &Path) -> anyhow::Result<()> {
        let module = module()?;
        let mut build = Command::new("go");
        // It compiles them, and runs none.
        build.args(["test", "-vet=off", "-run", "^$", "./..."]).current_dir(module);
        build.env("GOCACHE", directory.join("built"));
        super::fetch(&mut build)
    }

    fn setup(&self) -> &'static str {
        // As its page for contributors has it, and its testsetup/postgresql_setup.sql.
        "CREATE EXTENSION hstore;
         CREATE EXTENSION ltree;
         CREATE DOMAIN uint64 AS numeric(20, 0);
         CREATE ROLE pgx_scram SUPERUSER LOGIN PASSWORD 'secret';
         CREATE ROLE \" tricky, ' } \"\" \\ test user \" SUPERUSER LOGIN PASSWORD 'secret';"
    }

    fn command(&self, directory: &Path, run: &Run<'_>) -> anyhow::Result<Command> {
        let server = |host: &str, port: u16, user: &str| {
            format!("host={host} port={port} user={user} password={PASSWORD} dbname={DATABASE}")
        };
        let tcp = server("127.0.0.1", run.port, SUPERUSER);
        let socket = server(&run.socket.display().to_string(), run.socket_port, SUPERUSER);
        let mut command = program("go");
        command
            .args(["test", "-json", "-vet=off", "-count=1", "-p=1", "-timeout", PACKAGE_TIMEOUT])
            .arg("./...")
            .current_dir(module()?)
            .env("GOPATH", asked("GOPATH")?)
            .env("GOCACHE", directory.join("built"))
            .env("PGX_TEST_DATABASE", &tcp)
            .env("PGX_TEST_TCP_CONN_STRING", &tcp)
            .env("PGX_TEST_PGBOUNCER_CONN_STRING", &tcp)
            .env("PGX_TEST_UNIX_SOCKET_CONN_STRING", socket)
            .env("PGX_TEST_SCRAM_PASSWORD_CONN_STRING", server("127.0.0.1", run.port, "pgx_scram"));
        Ok(command)
    }

    fn outcomes(&self, _directory: &Path, run: &Run<'_>) -> anyhow::Result<Outcomes> {
        Ok(parse(&fs::read_to_string(printed(run))?))
    }
}

/// Where the module is, after it has been fetched.
fn module() -> anyhow::Result<PathBuf> {
    #[derive(Deserialize)]
    struct Downloaded {
        #[serde(rename = "Dir")]
        directory: PathBuf,
    }
    let wanted = format!("{MODULE}@v{VERSION}");
    let output = Command::new("go").args(["mod", "download", "-json", &wanted]).output();
    let output = output.context("starting go")?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "go mod download {wanted}: {said}");
    Ok(serde_json::from_str::<Downloaded>(&said)?.directory)
}

/// What go says of one of its variables.
fn asked(variable: &str) -> anyhow::Result<String> {
    let output = Command::new("go").args(["env", variable]).output().context("starting go")?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// A line of what `go test -json` prints.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Event {
    action: String,
    #[serde(default)]
    package: String,
    test: Option<String>,
    #[serde(default)]
    output: String,
}

/// What go has told so far. A package whose tests do not end in time takes those with it that
/// have not ended.
fn parse(log: &str) -> Outcomes {
    let mut outcomes = Outcomes::new();
    let mut said = std::collections::BTreeMap::<String, String>::new();
    for event in log.lines().filter_map(|line| serde_json::from_str::<Event>(line).ok()) {
        let Some(test) = event.test else { continue };
        let package = event.package.strip_prefix(MODULE).unwrap_or(&event.package);
        let name = format!("{}.{test}", package.trim_start_matches('/'));
        let outcome = match event.action.as_str() {
            "pass" => Outcome::Passed,
            "skip" => Outcome::Skipped,
            "fail" => Outcome::Failed(said.remove(&name).unwrap_or_default()),
            "output" => {
                let is_told = ["=== ", "--- "];
                if !is_told.iter().any(|start| event.output.trim_start().starts_with(start)) {
                    *said.entry(name).or_default() += &event.output;
                }
                continue;
            }
            _ => continue,
        };
        outcomes.insert(name, outcome);
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_outcomes_by_package_and_test() {
        let log = r#"{"Action":"run","Package":"github.com/jackc/pgx/v5/pgconn","Test":"TestA"}
{"Action":"output","Package":"github.com/jackc/pgx/v5/pgconn","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"github.com/jackc/pgx/v5/pgconn","Test":"TestA","Output":"lost\n"}
{"Action":"fail","Package":"github.com/jackc/pgx/v5/pgconn","Test":"TestA","Elapsed":0.1}
{"Action":"pass","Package":"github.com/jackc/pgx/v5","Test":"TestB/sub"}
{"Action":"skip","Package":"github.com/jackc/pgx/v5","Test":"TestC"}
{"Action":"fail","Package":"github.com/jackc/pgx/v5"}
{"Action":"pa"#;
        let outcomes = parse(log);
        assert_eq!(outcomes.len(), 3);
        assert_eq!(outcomes["pgconn.TestA"], Outcome::Failed("lost\n".to_owned()));
        assert_eq!(outcomes[".TestB/sub"], Outcome::Passed);
        assert_eq!(outcomes[".TestC"], Outcome::Skipped);
    }
}
