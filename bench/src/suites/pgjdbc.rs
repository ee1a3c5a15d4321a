//! The tests of pgjdbc, which are in its repository alone.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::{Outcome, Outcomes, PASSWORD, Run, SUPERUSER, Suite, fetch, program};

const VERSION: &str = "42.7.13";
const REPOSITORY: &str = "https://github.com/pgjdbc/pgjdbc";
/// What tells of every test that has ended.
const LISTENER: &str = "org.junit.platform.launcher.TestExecutionListener";

/// pgjdbc with its driver and its tests, compiled as they are.
#[derive(Debug)]
pub struct Pgjdbc;

impl Suite for Pgjdbc {
    fn name(&self) -> &'static str {
        "pgjdbc"
    }

    fn version(&self) -> &'static str {
        VERSION
    }

    fn fetch(&self, directory: &Path) -> anyhow::Result<()> {
        super::clone(REPOSITORY, &format!("REL{VERSION}"), directory)?;
        let done = directory.join("fetched");
        if done.exists() {
            return Ok(());
        }
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("gateway/suites");
        let into = format!("-DoutputDirectory={}", jars(directory).display());
        let copy = ["-q", "dependency:copy-dependencies", "-f"];
        fetch(Command::new("mvn").args(copy).arg(own.join("pgjdbc.xml")).arg(into))?;
        compile(directory, &own)?;
        fs::write(done, "")?;
        Ok(())
    }

    fn setup(&self) -> &'static str {
        // As its docker/postgres-server has it.
        "CREATE USER test WITH PASSWORD 'test' REPLICATION;
         CREATE DATABASE test OWNER test;
         CREATE DATABASE test_2 OWNER test;
         \\c test
         CREATE EXTENSION hstore;
         CREATE EXTENSION lo;"
    }

    fn command(&self, directory: &Path, run: &Run<'_>) -> anyhow::Result<Command> {
        let mut command = program("java");
        let set = |name: &str, value: &OsStr| [OsStr::new(name), value].join(OsStr::new("="));
        command
            .arg("-XX:+EnableDynamicAgentLoading")
            .args(["-Dtest.url.PGHOST=127.0.0.1", "-Dtest.url.PGDBNAME=test"])
            .arg(format!("-Dtest.url.PGPORT={}", run.port))
            .args(["-Duser=test", "-Dpassword=test"])
            .arg(format!("-DprivilegedUser={SUPERUSER}"))
            .arg(format!("-DprivilegedPassword={PASSWORD}"))
            .arg(set("-Dbuild.properties.relative.path", directory.join("source").as_os_str()))
            .arg(set("-Doutcomes", told(run).as_os_str()))
            .arg("-cp")
            .arg(classes(directory, &["tests", "driver"]))
            .args(["org.junit.platform.console.ConsoleLauncher", "execute", "--details=none"])
            .arg(set("--scan-classpath", directory.join("tests").as_os_str()))
            .arg("--include-classname=.*")
            // It copies until a process ends that it does not find through a gateway.
            .arg("--exclude-methodname=.*lockReleaseOnCancelFailure.*")
            .args(["--config", "junit.jupiter.extensions.autodetection.enabled=true"])
            .args(["--config", "junit.jupiter.execution.timeout.default=60 s"])
            .current_dir(run.files);
        Ok(command)
    }

    fn outcomes(&self, _directory: &Path, run: &Run<'_>) -> anyhow::Result<Outcomes> {
        match told(run) {
            path if path.exists() => Ok(parse(&String::from_utf8_lossy(&fs::read(path)?))),
            _ => Ok(Outcomes::new()),
        }
    }
}

fn jars(directory: &Path) -> PathBuf {
    directory.join("jars")
}

fn told(run: &Run<'_>) -> PathBuf {
    run.files.join("outcomes")
}

/// A class path of these directories and the jars.
fn classes(directory: &Path, of: &[&str]) -> std::ffi::OsString {
    let mut all: Vec<PathBuf> = of.iter().map(|name| directory.join(name)).collect();
    all.push(jars(directory).join("*"));
    std::env::join_paths(all).unwrap_or_default()
}

/// Compiles the driver, its tests and what tells of them.
fn compile(directory: &Path, own: &Path) -> anyhow::Result<()> {
    let source = directory.join("source");
    // Its build writes the version into this.
    let info = Path::new("org/postgresql/util/DriverInfo.java");
    let text = fs::read_to_string(source.join("pgjdbc/src/main/version").join(info))
        .context("the version in the driver's sources")?
        .replace("/*$version$*/", VERSION)
        .replace("/*$jdbc.specification.version$*/", "4.2");
    let version = directory.join("version").join(info);
    fs::create_dir_all(version.parent().context("a directory")?)?;
    fs::write(&version, text)?;
    let javac = |from: &[&Path], against: &[&str], into: &str| {
        let mut files = Vec::new();
        from.iter().try_for_each(|from| java_files(from, &mut files))?;
        let list = directory.join(format!("{into}.files"));
        let lines: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        fs::write(&list, lines.join("\n"))?;
        let mut command = Command::new("javac");
        command.args(["-nowarn", "-proc:none", "-parameters", "-encoding", "UTF-8", "-cp"]);
        command.arg(classes(directory, against)).arg("-d").arg(directory.join(into));
        fetch(command.arg(format!("@{}", list.display())))
    };
    javac(&[&source.join("pgjdbc/src/main/java"), &directory.join("version")], &[], "driver")?;
    let test = source.join("pgjdbc/src/test");
    let all = [&source.join("testkit/src/main/java"), &test.join("java"), &own.join("java")];
    javac(&all.map(PathBuf::as_path), &["driver"], "tests")?;
    for (from, into) in [
        (source.join("pgjdbc/src/main/resources"), "driver"),
        (test.join("resources"), "tests"),
        (test.join("java"), "tests"),
    ] {
        if from.exists() {
            let mut copy = Command::new("cp");
            fetch(copy.arg("-r").arg(from.join(".")).arg(directory.join(into)))?;
        }
    }
    let services = directory.join("tests/META-INF/services");
    fs::create_dir_all(&services)?;
    fs::write(services.join(LISTENER), "Outcomes\n")?;
    Ok(())
}

fn java_files(below: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let entries = fs::read_dir(below).with_context(|| format!("reading {}", below.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            java_files(&path, files)?;
        } else if path.extension() == Some(OsStr::new("java")) {
            files.push(path);
        }
    }
    Ok(())
}

/// What the listener has written so far.
fn parse(told: &str) -> Outcomes {
    let mut outcomes = Outcomes::new();
    // A line that is being written is none yet.
    let whole = told.rfind('\n').map_or("", |end| &told[..end]);
    for line in whole.lines() {
        let mut fields = line.splitn(3, '\t');
        let (Some(ended), Some(test)) = (fields.next(), fields.next()) else { continue };
        let outcome = match ended {
            "passed" => Outcome::Passed,
            "failed" => Outcome::Failed(fields.next().unwrap_or_default().to_owned()),
            _ => Outcome::Skipped,
        };
        outcomes.insert(test.to_owned(), outcome);
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_outcome() {
        let told = "passed\ta.BTest/c()\t\nfailed\ta.BTest/d(int)/#2\tlost: at 1\nskipped\ta.E\t\n\
                    failed\ta.BTest/f()";
        let outcomes = parse(told);
        assert_eq!(outcomes.len(), 3);
        assert_eq!(outcomes["a.BTest/c()"], Outcome::Passed);
        assert_eq!(outcomes["a.BTest/d(int)/#2"], Outcome::Failed("lost: at 1".to_owned()));
        assert_eq!(outcomes["a.E"], Outcome::Skipped);
    }
}
