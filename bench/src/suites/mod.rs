//! The drivers' own tests, directly and through the gateway: outcome by outcome.
//!
//! A [`Suite`] fetches the tests of one driver and says how they are run; [`judge`] compares
//! what they told. Tests that end differently in two direct runs are not judged.

mod asyncpg;
mod node_postgres;
mod pgjdbc;
mod pgx;
mod psycopg;
mod python;
mod tokio_postgres;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use walwright_server::{Cluster, ClusterSpec, Install, Places, RunningCluster, Secret, TcpAccess};

use crate::without_pg_variables;
use crate::{GatewayPlaces, GatewayProcess, GatewaySettings, MeantDifferences};

/// The superuser's password; [`SUPERUSER`] is its name.
pub const PASSWORD: &str = "secret";
/// Whom tests connect as, where nothing else is said.
pub const SUPERUSER: &str = "postgres";
/// The database that tests are given.
pub const DATABASE: &str = "suite";

/// The suites there are.
pub fn suites() -> Vec<Box<dyn Suite>> {
    vec![
        Box::new(psycopg::Psycopg),
        Box::new(asyncpg::Asyncpg),
        Box::new(node_postgres::NodePostgres),
        Box::new(pgx::Pgx),
        Box::new(pgjdbc::Pgjdbc),
        Box::new(tokio_postgres::TokioPostgres),
    ]
}

/// The tests of one driver.
pub trait Suite: Sync {
    /// The driver, as rules name it.
    fn name(&self) -> &'static str;

    /// Its version.
    fn version(&self) -> &'static str;

    /// Makes the tests and what they need ready in this directory, where they are not yet.
    ///
    /// # Errors
    /// When something cannot be fetched.
    fn fetch(&self, directory: &Path) -> anyhow::Result<()>;

    /// Whether two runs of it at once would disturb each other.
    fn is_alone(&self) -> bool {
        false
    }

    /// What psql is told first, in [`DATABASE`].
    fn setup(&self) -> &'static str {
        ""
    }

    /// The command that runs them, from [`program`]. What it prints goes to [`printed`].
    ///
    /// # Errors
    /// When it cannot be put together.
    fn command(&self, directory: &Path, run: &Run<'_>) -> anyhow::Result<Command>;

    /// How the tests ended that have ended by now.
    ///
    /// # Errors
    /// When what the command wrote cannot be read.
    fn outcomes(&self, directory: &Path, run: &Run<'_>) -> anyhow::Result<Outcomes>;
}

/// Outcomes by the names of tests.
pub type Outcomes = BTreeMap<String, Outcome>;

/// How a test ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Well.
    Passed,
    /// It was not run, or was expected to fail.
    Skipped,
    /// With this.
    Failed(String),
}

impl Outcome {
    fn word(of: Option<&Outcome>) -> &'static str {
        match of {
            Some(Outcome::Passed) => "passed",
            Some(Outcome::Skipped) => "skipped",
            Some(Outcome::Failed(_)) => "failed",
            None => "did not end",
        }
    }
}

/// One run of a suite.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// Port on 127.0.0.1, where [`PASSWORD`] is asked for.
    pub port: u16,
    /// Directory of the unix socket with `socket_port`, where nothing is asked.
    pub socket: &'a Path,
    /// Its port.
    pub socket_port: u16,
    /// A directory for what this run writes.
    pub files: &'a Path,
}

/// A command whose environment names no server.
pub fn program(path: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(path);
    without_pg_variables(&mut command);
    command
}

/// Where a command's output is.
pub fn printed(run: &Run<'_>) -> PathBuf {
    run.files.join("output")
}

/// Runs a command that fetches something.
///
/// # Errors
/// When it fails; with what it said.
pub fn fetch(command: &mut Command) -> anyhow::Result<()> {
    let name = command.get_program().to_owned();
    let output = command.output().with_context(|| format!("starting {}", name.display()))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{}: {}", name.display(), said.trim());
    Ok(())
}

/// Clones a repository as it was at a tag into `source` of a directory, where it is not yet.
///
/// # Errors
/// When git cannot.
pub fn clone(repository: &str, tag: &str, directory: &Path) -> anyhow::Result<()> {
    let source = directory.join("source");
    if source.exists() {
        return Ok(());
    }
    let clone = ["clone", "-q", "--depth", "1", "--branch", tag, repository];
    fetch(Command::new("git").args(clone).arg(source))
}

/// Servers to run suites on, and for how long.
#[derive(Debug)]
pub struct Bench {
    /// Of the servers.
    pub install: Install,
    /// Where they lie.
    pub places: Places,
    /// Where suites are kept.
    pub cache: PathBuf,
    /// Time that one run of a suite may take.
    pub limit: Duration,
    /// Has the three runs of a suite go at once.
    pub at_once: bool,
    /// Where what runs write is kept.
    pub keep: Option<PathBuf>,
}

impl Bench {
    /// Runs a suite twice directly and once through the gateway, each on a fresh cluster; all
    /// three at once where that is wanted and the suite can.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn run(&self, suite: &dyn Suite) -> anyhow::Result<[Outcomes; 3]> {
        let directory = std::path::absolute(self.cache.join(suite.name()))?;
        fs::create_dir_all(&directory)?;
        suite.fetch(&directory)?;
        let pass = |name, through| self.pass(suite, &directory, name, through);
        if !self.at_once || suite.is_alone() {
            return Ok([pass("direct", false)?, pass("again", false)?, pass("through", true)?]);
        }
        thread::scope(|scope| {
            let [direct, again, through] = [("direct", false), ("again", false), ("through", true)]
                .map(|(name, through)| scope.spawn(move || pass(name, through)));
            let ended = |thread: thread::ScopedJoinHandle<'_, anyhow::Result<Outcomes>>| {
                thread.join().unwrap_or_else(|_| bail!("a run of {} panicked", suite.name()))
            };
            Ok([ended(direct)?, ended(again)?, ended(through)?])
        })
    }

    fn pass(
        &self,
        suite: &dyn Suite,
        directory: &Path,
        name: &str,
        through: bool,
    ) -> anyhow::Result<Outcomes> {
        let server = self.server()?;
        tell(&server, suite.setup())?;
        let temporary = tempfile::tempdir()?;
        let kept = self.keep.as_ref().map(|keep| keep.join(suite.name()).join(name));
        let files = std::path::absolute(kept.unwrap_or_else(|| temporary.path().join("files")))?;
        if files.exists() {
            fs::remove_dir_all(&files)?;
        }
        fs::create_dir_all(&files)?;
        let mut gateway = None;
        if through {
            let mut places = GatewayPlaces::new(&server, temporary.path());
            places.asks = true;
            places.said = Some(files.join("gateway"));
            gateway = Some(GatewayProcess::start_in(&places, GatewaySettings::FOR_PROGRAMS)?);
        }
        let (socket, socket_port, port) = match &gateway {
            Some(gateway) => (gateway.place().0, gateway.place().1, gateway.tcp_port()),
            None => (server.socket_dir(), server.port(), server.port()),
        };
        let run = Run { port, socket, socket_port, files: &files };
        let outcomes = self.supervise(suite, directory, &run, name)?;
        if let Some(gateway) = &mut gateway {
            ensure!(!gateway.has_ended(), "the gateway has ended: {}", files.display());
        }
        Ok(outcomes)
    }

    fn server(&self) -> anyhow::Result<RunningCluster> {
        let mut spec = ClusterSpec::new(&self.places, self.install.clone());
        spec.settings = [
            ("max_prepared_transactions", "10"),
            ("max_connections", "200"),
            ("shared_preload_libraries", ""),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        spec.tcp = Some(TcpAccess { port: None, password: Secret::new(PASSWORD) });
        let server = Cluster::create(spec)?.start()?;
        Ok(server)
    }

    fn supervise(
        &self,
        suite: &dyn Suite,
        directory: &Path,
        run: &Run<'_>,
        name: &str,
    ) -> anyhow::Result<Outcomes> {
        let output = File::create(printed(run))?;
        let mut command = suite.command(directory, run)?;
        command
            .env("LC_ALL", "C.UTF-8")
            .env("HOME", run.files)
            .stdin(Stdio::null())
            .stderr(output.try_clone()?)
            .stdout(output)
            .process_group(0);
        let started = Instant::now();
        let mut told = started;
        let mut child = command.spawn().with_context(|| format!("starting {}", suite.name()))?;
        let group = Pid::from_child(&child);
        while child.try_wait()?.is_none() {
            thread::sleep(Duration::from_millis(50));
            if told.elapsed() > Duration::from_secs(15) {
                told = Instant::now();
                let ended = suite.outcomes(directory, run)?.len();
                let seconds = started.elapsed().as_secs();
                eprintln!("{} {name}: {ended} tests in {seconds} s", suite.name());
            }
            if started.elapsed() > self.limit {
                eprintln!("{} {name}: it did not end in time", suite.name());
                break;
            }
        }
        // What it started and left goes too.
        let _ = kill_process_group(group, Signal::KILL);
        child.wait()?;
        let outcomes = suite.outcomes(directory, run)?;
        let printed = fs::read(printed(run))?;
        let end = String::from_utf8_lossy(&printed[printed.len().saturating_sub(2000)..]);
        ensure!(!outcomes.is_empty(), "no test of {} ended:\n{end}", suite.name());
        Ok(outcomes)
    }
}

/// Makes [`DATABASE`] and has psql say this there.
fn tell(server: &RunningCluster, script: &str) -> anyhow::Result<()> {
    let mut psql = server.cluster().install().command("psql");
    without_pg_variables(&mut psql);
    psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-U", SUPERUSER, "-d", "postgres", "-f", "-"])
        .arg("-h")
        .arg(server.socket_dir())
        .args(["-p", &server.port().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = psql.spawn().context("starting psql")?;
    let mut input = child.stdin.take().context("its input")?;
    write!(input, "CREATE DATABASE {DATABASE};\n\\c {DATABASE}\n{script}")?;
    drop(input);
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "psql: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// What the runs of a suite say together.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Tests that ended alike.
    pub same: usize,
    /// Of those: passed.
    pub passed: usize,
    /// Of those: failed, directly too.
    pub failed: usize,
    /// Differences by rules: the reason, and the tests.
    pub by_rule: BTreeMap<String, Vec<String>>,
    /// Tests that end differently from one direct run to the next.
    pub unstable: Vec<String>,
    /// Differences that no rule explains: the test, and how it ended.
    pub unexplained: Vec<(String, String)>,
}

/// Compares two direct runs and one through the gateway.
pub fn judge(
    suite: &str,
    [direct, again, through]: &[Outcomes; 3],
    rules: &MeantDifferences,
) -> Verdict {
    let mut verdict = Verdict::default();
    let mut names: Vec<&String> = direct.keys().chain(again.keys()).chain(through.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let [first, second, third] = [direct, again, through].map(|run| run.get(name));
        let [word, second, other] = [first, second, third].map(Outcome::word);
        if word != second {
            verdict.unstable.push(name.clone());
        } else if word == other {
            verdict.same += 1;
            verdict.passed += usize::from(first == Some(&Outcome::Passed));
            verdict.failed += usize::from(matches!(first, Some(Outcome::Failed(_))));
        } else if let Some(why) = rules.why(suite, std::slice::from_ref(name)) {
            verdict.by_rule.entry(why.join("; ")).or_default().push(name.clone());
        } else {
            let said = [first, third].into_iter().flatten().find_map(|of| match of {
                Outcome::Failed(said) => Some(said.as_str()),
                _ => None,
            });
            let shown = format!("{word} directly, {other} through: {}", said.unwrap_or_default());
            verdict.unexplained.push((name.clone(), shown));
        }
    }
    verdict
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_judged_where_direct_runs_agree() {
        use Outcome::{Passed, Skipped};
        let failed = || Outcome::Failed("no".to_owned());
        let run = |of: [Option<Outcome>; 6]| -> Outcomes {
            let names = ["both", "never", "flaky", "listen[1]", "worse", "hangs"];
            names
                .map(str::to_owned)
                .into_iter()
                .zip(of)
                .filter_map(|(n, o)| Some((n, o?)))
                .collect()
        };
        let passed = || Some(Passed);
        let direct = run([passed(), Some(failed()), passed(), passed(), Some(Skipped), passed()]);
        let again =
            run([passed(), Some(failed()), Some(failed()), passed(), Some(Skipped), passed()]);
        let through = run([passed(), Some(failed()), passed(), Some(failed()), passed(), None]);
        let rules = "[[rule]]\nof = 'driver'\nlines = ['listen[']\nwhy = 'pooled'";
        let rules = MeantDifferences::parse(rules).unwrap();
        let verdict = judge("driver", &[direct, again, through], &rules);
        assert_eq!((verdict.same, verdict.passed, verdict.failed), (2, 1, 1));
        assert_eq!(verdict.by_rule["pooled"], ["listen[1]"]);
        assert_eq!(verdict.unstable, ["flaky"]);
        let unexplained: Vec<&str> =
            verdict.unexplained.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(unexplained, ["hangs", "worse"]);
    }
}
