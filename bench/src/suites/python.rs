//! Suites that pytest runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use super::{Outcome, Outcomes, Run, fetch, program};

/// Seconds that one test may take.
const TEST_TIMEOUT: &str = "60";

/// A virtual environment with these packages in a directory: its Python.
///
/// # Errors
/// When it cannot be made.
pub fn environment(directory: &Path, packages: &[&str]) -> anyhow::Result<PathBuf> {
    let place = directory.join("environment");
    let python = place.join("bin/python");
    let done = place.join("fetched");
    let wanted = packages.join("\n");
    if fs::read_to_string(&done).ok().as_ref() != Some(&wanted) {
        fetch(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&place))?;
        let install = ["-m", "pip", "install", "-q", "--disable-pip-version-check"];
        fetch(Command::new(&python).args(install).args(packages))?;
        fs::write(done, wanted)?;
    }
    Ok(python)
}

/// What runs the tests in a directory, each for a limited time.
pub fn pytest(python: &Path, tests: &Path, run: &Run<'_>) -> Command {
    let mut command = program(python);
    command
        .args(["-m", "pytest", "-q", "--timeout", TEST_TIMEOUT, "--timeout-method", "signal"])
        // Deep tracebacks make the other styles fail.
        .arg("--tb=native")
        .arg("--report-log")
        .arg(log(run))
        .args(["-o", &format!("cache_dir={}", run.files.join("cache").display())])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(tests);
    command
}

fn log(run: &Run<'_>) -> PathBuf {
    run.files.join("log")
}

/// A line of pytest's log.
#[derive(Debug, Deserialize)]
struct Entry {
    #[serde(default)]
    nodeid: String,
    when: Option<String>,
    outcome: Option<String>,
    #[serde(default)]
    longrepr: serde_json::Value,
}

/// What pytest has told so far.
///
/// # Errors
/// When its log cannot be read.
pub fn outcomes(run: &Run<'_>) -> anyhow::Result<Outcomes> {
    let path = log(run);
    if !path.exists() {
        return Ok(Outcomes::new());
    }
    Ok(parse(&fs::read_to_string(path)?))
}

/// A test that fails in its setup or its teardown has failed; one that has no teardown told has
/// not ended.
fn parse(log: &str) -> Outcomes {
    let mut running: BTreeMap<String, Outcome> = BTreeMap::new();
    let mut ended = Outcomes::new();
    // A line that is being written is none yet.
    for entry in log.lines().filter_map(|line| serde_json::from_str::<Entry>(line).ok()) {
        let (Some(when), Some(outcome)) = (entry.when, entry.outcome) else { continue };
        let so_far = running.entry(entry.nodeid.clone()).or_insert(Outcome::Passed);
        match outcome.as_str() {
            "failed" if !matches!(so_far, Outcome::Failed(_)) => {
                *so_far = Outcome::Failed(format!("{when}: {}", message(&entry.longrepr)));
            }
            "skipped" if *so_far == Outcome::Passed => *so_far = Outcome::Skipped,
            _ => {}
        }
        if when == "teardown" {
            ended.insert(entry.nodeid.clone(), so_far.clone());
        }
    }
    ended
}

fn message(longrepr: &serde_json::Value) -> String {
    match longrepr.pointer("/reprcrash/message").and_then(|of| of.as_str()) {
        Some(message) => message.to_owned(),
        None => longrepr.as_str().map(str::to_owned).unwrap_or_else(|| longrepr.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_ends_as_the_worst_of_its_parts() {
        let log = r#"{"$report_type": "SessionStart"}
{"nodeid": "a", "when": "setup", "outcome": "passed", "longrepr": null}
{"nodeid": "a", "when": "call", "outcome": "passed", "longrepr": null}
{"nodeid": "a", "when": "teardown", "outcome": "failed", "longrepr": {"reprcrash": {"message": "lost"}}}
{"nodeid": "b", "when": "setup", "outcome": "skipped", "longrepr": ["f", 1, "why"]}
{"nodeid": "b", "when": "teardown", "outcome": "passed", "longrepr": null}
{"nodeid": "c", "when": "setup", "outcome": "passed", "longrepr": null}
{"nodeid": "c", "when": "call", "outc"#;
        let outcomes = parse(log);
        assert_eq!(outcomes["a"], Outcome::Failed("teardown: lost".to_owned()));
        assert_eq!(outcomes["b"], Outcome::Skipped);
        assert!(!outcomes.contains_key("c"));
    }
}
