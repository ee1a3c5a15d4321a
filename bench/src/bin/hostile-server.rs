//! What becomes of walwright's commands when the server, or something before it, misbehaves.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Parser;
use serde_json::json;
use walwright_bench::{
    Draw, Hostile, MISDEEDS, Misdeed, Moment, Report, Strike, Testbed, Walwright, Which,
    without_pg_variables,
};

/// Commands that talk to a server, through something in between that misbehaves on one of
/// their connections, or on one and all after it: it falls silent, dribbles, announces or
/// sends too much, breaks off, sends garbage, resets, or changes what it passes on. Each
/// command must end by itself in time, in little memory, without a panic, with one clear
/// sentence or a record that says what it lacks.
#[derive(Parser)]
struct Cli {
    /// Cases, drawn from all: command, misdeed, moment and connection.
    #[arg(long, default_value_t = 240)]
    cases: usize,
    /// Seed of what is drawn.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Commands at once. Most of the time of a case is waiting.
    #[arg(long, default_value_t = 4)]
    at_once: usize,
    /// Also an experiment, which takes minutes where it cannot bring back what it changed.
    #[arg(long)]
    experiment: bool,
    /// Only commands whose name holds this.
    #[arg(long, default_value = "")]
    only: String,
    /// Only this misdeed, as the table names it.
    #[arg(long)]
    misdeed: Option<String>,
    /// What each command said goes into this directory.
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Figures as JSON on standard output.
    #[arg(long)]
    json: bool,
}

/// Peak resident memory that is promised.
const PEAK: u64 = 100_000_000;
/// How much later than its deadline a command may end.
const LATER: Duration = Duration::from_secs(5);
/// The `connect_timeout` of the connection string.
const TO_CONNECT: Duration = Duration::from_secs(2);
/// How long walwright waits for an answer to a query of its own, and for the server to end a
/// query that it was asked to end.
const TO_ANSWER: Duration = Duration::from_secs(17);
/// The exit code of a run whose workload's checks failed, or could not be made.
const CHECK_FAILED: i32 = 4;
/// When a command is ended that does not end.
const GIVEN_UP: Duration = Duration::from_secs(180);
/// How long an experiment waits for a server that went away to come back, since it has to
/// bring back what it changed there.
const TO_COME_BACK: Duration = Duration::from_secs(120);

/// A command that talks to a server.
struct Subject {
    name: &'static str,
    arguments: &'static [&'static str],
    /// Whether it changes the server, so that it must be alone.
    changes: bool,
    /// Whether the profile is to be applied before, by nobody's hindrance.
    applied: bool,
    /// Whether it waits for a server that went away to come back.
    waits: bool,
}

const DSN: &str = "{dsn}";

const fn subject(name: &'static str, arguments: &'static [&'static str]) -> Subject {
    Subject { name, arguments, changes: false, applied: false, waits: false }
}

const fn alone(name: &'static str, arguments: &'static [&'static str]) -> Subject {
    Subject { name, arguments, changes: true, applied: false, waits: false }
}

const APPLY: [&str; 7] = ["config", "apply", "{profile}", "--yes", "--no-kernel", "--dsn", DSN];

const SUBJECTS: [Subject; 9] = [
    subject("record --for 2s", &["record", "--plain", "--for", "2s", "--dsn", DSN]),
    subject("record -- sleep 2", &["record", "--plain", "--dsn", DSN, "--", "sleep", "2"]),
    subject(
        "run -w tpcb",
        &[
            "run", "--plain", "-w", "tpcb", "-s", "1", "-c", "2", "-T", "2s", "--warmup", "0s",
            "--dsn", DSN,
        ],
    ),
    subject(
        "run --file",
        &[
            "run", "--plain", "--file", "{script}", "-c", "2", "-T", "2s", "--warmup", "0s",
            "--dsn", DSN,
        ],
    ),
    subject("review", &["review", "--dsn", DSN]),
    subject("config import", &["config", "import", "--dsn", DSN]),
    subject("config check", &["config", "check", "{profile}", "--dsn", DSN]),
    alone("config apply", &APPLY),
    Subject { applied: true, ..alone("config rollback", &["config", "rollback", "--dsn", DSN]) },
];

/// One more that takes longer.
const EXPERIMENT: Subject = Subject {
    waits: true,
    ..alone("experiment", &["experiment", "{plan}", "--new", "--maintenance", "--dsn", DSN])
};

const SCRIPT: &str = "UPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE bid = 1;\n";
const PROFILE: &str = "PG_WORK_MEM=5MB\nPG_COMMIT_SIBLINGS=6\n";
const PLAN: &str = "blocks = 1\nseed = 5\n[workload]\nfiles = [\"script.sql\"]\n\
    [load]\nclients = 2\nduration = \"1s\"\nwarmup = \"0s\"\n\
    [[arm]]\nname = \"siblings\"\nsettings = { commit_siblings = 6 }\n";

/// How a command does without hindrance.
#[derive(Debug, Clone, Copy)]
struct Clean {
    took: Duration,
    connections: usize,
    /// 1 where `config check` finds differences.
    code: Option<i32>,
}

/// What became of a command.
struct Ended {
    /// `None` where it had to be ended, or a signal ended it.
    code: Option<i32>,
    took: Duration,
    peak: u64,
    struck: Option<Duration>,
    connections: usize,
    said: String,
}

/// Where commands find what they need.
struct Scene {
    testbed: Mutex<Testbed>,
    socket: PathBuf,
    walwright: Walwright,
    directory: tempfile::TempDir,
    next: AtomicUsize,
}

impl Scene {
    fn new() -> anyhow::Result<Scene> {
        let settings =
            [("max_connections", "200"), ("shared_preload_libraries", "pg_stat_statements")];
        let testbed = Testbed::start(1, &settings)?;
        let socket = testbed.params().socket_path().context("the server has a socket")?;
        let directory = tempfile::tempdir_in("/var/tmp")?;
        for (name, text) in [("script.sql", SCRIPT), ("wanted.env", PROFILE), ("plan.toml", PLAN)] {
            std::fs::write(directory.path().join(name), text)?;
        }
        let walwright = Walwright::find()?;
        Ok(Scene {
            testbed: Mutex::new(testbed),
            socket,
            walwright,
            directory,
            next: AtomicUsize::new(0),
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A command with a lab, without what the environment says of servers.
    fn command(&self, subject: &Subject, lab: &Path, port: u16) -> Command {
        let dsn = format!(
            "host=127.0.0.1 port={port} user=postgres dbname=postgres sslmode=disable connect_timeout={}",
            TO_CONNECT.as_secs()
        );
        let mut command = self.walwright.command_in(lab);
        without_pg_variables(&mut command);
        command.env("RUST_BACKTRACE", "1").current_dir(self.directory.path());
        for argument in subject.arguments {
            match *argument {
                "{dsn}" => command.arg(&dsn),
                "{script}" => command.arg(self.path("script.sql")),
                "{profile}" => command.arg(self.path("wanted.env")),
                "{plan}" => command.arg(self.path("plan.toml")),
                other => command.arg(other),
            };
        }
        command
    }

    /// Runs it; alone where it changes the server.
    fn run(&self, subject: &Subject, strike: Option<Strike>) -> anyhow::Result<Ended> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let directory = self.path(&format!("case-{number}"));
        std::fs::create_dir(&directory)?;
        let lab = directory.join("lab");
        copy(&self.path("lab"), &lab)?;
        let alone =
            subject.changes.then(|| self.testbed.lock().unwrap_or_else(PoisonError::into_inner));
        if subject.applied {
            let straight = Hostile::before(&self.socket, None)?;
            let apply =
                self.command(&Subject { arguments: &APPLY, ..*subject }, &lab, straight.port());
            let applied = watched(apply, &directory, &straight)?;
            if applied.code != Some(0) {
                bail!("the profile cannot be applied:\n{}", applied.said);
            }
        }
        let hostile = Hostile::before(&self.socket, strike)?;
        let ended = watched(self.command(subject, &lab, hostile.port()), &directory, &hostile);
        drop(hostile);
        if let Some(testbed) = alone {
            testbed.execute("ALTER SYSTEM RESET ALL")?;
            testbed.execute("SELECT pg_reload_conf()")?;
        }
        std::fs::remove_dir_all(&directory)?;
        ended
    }

    /// How it does without hindrance; a first run has made what is made once.
    fn clean(&self, subject: &Subject) -> anyhow::Result<Clean> {
        let ended = self.run(subject, None)?;
        if ended.code.is_none() || errors(&ended.said) > 0 {
            bail!("{} fails on a server that does well:\n{}", subject.name, ended.said);
        }
        eprintln!(
            "{}: {:.1} s, {} connections, {:.0} MB",
            subject.name,
            ended.took.as_secs_f64(),
            ended.connections,
            ended.peak as f64 / 1e6
        );
        Ok(Clean { took: ended.took, connections: ended.connections, code: ended.code })
    }
}

fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(to)?;
    let Ok(entries) = std::fs::read_dir(from) else { return Ok(()) };
    for entry in entries {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            std::fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

/// Waits for the end of a command, and ends it where it does not come.
fn watched(mut command: Command, directory: &Path, hostile: &Hostile) -> anyhow::Result<Ended> {
    let said = directory.join("said");
    let file = File::create(&said)?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
    let begun = Instant::now();
    let mut child = command.spawn()?;
    let status_file = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        peak = peak.max(highest(&status_file).unwrap_or(0));
        if begun.elapsed() > GIVEN_UP {
            end(&mut child)?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    Ok(Ended {
        code: status.and_then(|status| status.code()),
        took: begun.elapsed(),
        peak,
        struck: hostile.struck().map(|struck| struck.saturating_duration_since(begun)),
        connections: hostile.connections(),
        said: String::from_utf8_lossy(&std::fs::read(said)?).into_owned(),
    })
}

fn end(child: &mut Child) -> anyhow::Result<()> {
    child.kill()?;
    child.wait()?;
    Ok(())
}

/// The highest resident memory so far.
fn highest(status_file: &str) -> Option<u64> {
    let status = std::fs::read_to_string(status_file).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// One command and what is done to it.
#[derive(Clone, Copy)]
struct Case {
    subject: usize,
    strike: Strike,
}

/// A case that is over.
struct Done {
    case: Case,
    ended: Ended,
    missed: Vec<String>,
}

fn name(misdeed: Misdeed) -> String {
    format!("{misdeed:?}").to_lowercase()
}

impl Case {
    fn named(&self, subjects: &[&Subject]) -> String {
        let strike = self.strike;
        let when = match strike.moment {
            Moment::Start => "at the start".to_owned(),
            Moment::Login => "after login".to_owned(),
            Moment::Bytes(bytes) => format!("{bytes} bytes after login"),
        };
        let which = match strike.which {
            Which::Only(one) => format!("connection {one}"),
            Which::From(first) => format!("connections {first} and on"),
        };
        format!(
            "{}: {} {when}, {which}, seed {}",
            subjects[self.subject].name,
            name(strike.misdeed),
            strike.seed
        )
    }

    /// All there are of these commands, in a drawn order.
    fn drawn(cli: &Cli, cleans: &[Clean]) -> Vec<Case> {
        let mut draw = Draw(cli.seed);
        let mut all = Vec::new();
        for (subject, clean) in cleans.iter().enumerate() {
            for misdeed in MISDEEDS {
                if cli.misdeed.as_ref().is_some_and(|wanted| *wanted != name(misdeed)) {
                    continue;
                }
                for connection in 1..=clean.connections {
                    for which in [Which::Only(connection), Which::From(connection)] {
                        let some = Moment::Bytes(draw.below(3_000));
                        let more = Moment::Bytes(draw.below(60_000));
                        for moment in [Moment::Start, Moment::Login, some, more] {
                            let seed = draw.below(1 << 30) as u64;
                            let strike = Strike { misdeed, moment, which, seed };
                            all.push(Case { subject, strike });
                        }
                    }
                }
            }
        }
        // Each command gets its share, however many connections it has.
        let mut by_subject: Vec<Vec<Case>> = vec![Vec::new(); cleans.len()];
        while !all.is_empty() {
            let case = all.swap_remove(draw.below(all.len()));
            by_subject[case.subject].push(case);
        }
        let longest = by_subject.iter().map(Vec::len).max().unwrap_or(0);
        let mut cases = Vec::new();
        for place in 0..longest {
            cases.extend(by_subject.iter().filter_map(|cases| cases.get(place)));
        }
        cases.truncate(cli.cases);
        cases
    }

    /// When it has to have ended, from its beginning.
    fn deadline(&self, subject: &Subject, clean: Clean, struck: Duration) -> Duration {
        let limit = match self.strike.moment {
            _ if subject.waits && matches!(self.strike.which, Which::From(_)) => {
                TO_ANSWER + TO_COME_BACK
            }
            Moment::Start => TO_CONNECT,
            // What was changed is to be undone, which is tried once more.
            _ if subject.changes => 2 * TO_ANSWER,
            Moment::Login | Moment::Bytes(_) => TO_ANSWER,
        };
        clean.took.max(struck) + limit
    }
}

/// Which bars a case misses.
fn missed(case: &Case, subject: &Subject, clean: Clean, ended: &Ended) -> Vec<String> {
    let mut missed = Vec::new();
    let Some(struck) = ended.struck else { return missed };
    let deadline = case.deadline(subject, clean, struck);
    if ended.took > deadline + LATER {
        missed.push(format!(
            "ended after {:.1} s, {:.1} s past its deadline",
            ended.took.as_secs_f64(),
            (ended.took - deadline).as_secs_f64()
        ));
    }
    if ended.peak >= PEAK {
        missed.push(format!("took {:.0} MB", ended.peak as f64 / 1e6));
    }
    if ["panicked", "stack backtrace", "internal fault"]
        .iter()
        .any(|word| ended.said.contains(word))
    {
        missed.push("panicked".to_owned());
    }
    match (ended.code, errors(&ended.said)) {
        (None, _) => missed.push("did not end by itself".to_owned()),
        (code, 0) if [Some(0), Some(CHECK_FAILED), clean.code].contains(&code) => {}
        (Some(0), _) => missed.push("an error and code 0".to_owned()),
        (Some(_), 1) => {}
        (Some(code), errors) => missed.push(format!("code {code} and {errors} errors")),
    }
    missed
}

fn errors(said: &str) -> usize {
    said.lines().filter(|line| line.starts_with("error: ")).count()
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let scene = Scene::new()?;
    let subjects: Vec<&Subject> = SUBJECTS
        .iter()
        .chain(cli.experiment.then_some(&EXPERIMENT))
        .filter(|subject| subject.name.contains(&cli.only))
        .collect();
    if subjects.is_empty() {
        bail!("no command has {:?} in its name", cli.only);
    }
    // What the load driver can do is measured once in a lab.
    scene.prime()?;
    let cleans: Vec<Clean> =
        subjects.iter().map(|subject| scene.clean(subject)).collect::<Result<_, _>>()?;
    let cases = Case::drawn(&cli, &cleans);
    if let Some(keep) = &cli.keep {
        std::fs::create_dir_all(keep)?;
    }
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let work = || -> anyhow::Result<()> {
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let ended = scene.run(subjects[case.subject], Some(case.strike))?;
            let missed = missed(case, subjects[case.subject], cleans[case.subject], &ended);
            let named = case.named(&subjects);
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            if !missed.is_empty() {
                eprintln!("NOT MET {named}: {}", missed.join("; "));
            }
            if let Some(keep) = &cli.keep {
                let head = format!(
                    "{named}\ncode {:?}, {:.1} s, struck {:?}, {} MB, {} connections, missed {missed:?}\n\n",
                    ended.code,
                    ended.took.as_secs_f64(),
                    ended.struck,
                    ended.peak / 1_000_000,
                    ended.connections
                );
                std::fs::write(keep.join(format!("{:04}", done.len())), head + &ended.said)?;
            }
            done.push(Done { case: *case, ended, missed });
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let working: Vec<_> = (0..cli.at_once.max(1)).map(|_| scope.spawn(work)).collect();
        working
            .into_iter()
            .try_for_each(|one| one.join().map_err(|_| anyhow::anyhow!("panicked"))?)
    })?;
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(told(&cli, &subjects, &cleans, &done).print(cli.json))
}

impl Scene {
    fn prime(&self) -> anyhow::Result<()> {
        let straight = Hostile::before(&self.socket, None)?;
        let command = self.command(&SUBJECTS[2], &self.path("lab"), straight.port());
        let primed = watched(command, self.directory.path(), &straight)?;
        if primed.code != Some(0) {
            bail!("a first run fails:\n{}", primed.said);
        }
        Ok(())
    }
}

fn told(cli: &Cli, subjects: &[&Subject], cleans: &[Clean], done: &[Done]) -> Report {
    let mut report = Report::new(&format!(
        "{} cases, seed {}: commands on a server that misbehaves. Time is that after the deadline of the case ({} s to connect, {} s to answer), negative before it",
        done.len(),
        cli.seed,
        TO_CONNECT.as_secs(),
        TO_ANSWER.as_secs()
    ));
    let mut groups: BTreeMap<String, Vec<&Done>> = BTreeMap::new();
    for one in done {
        groups.entry(name(one.case.strike.misdeed)).or_default().push(one);
        groups.entry(subjects[one.case.subject].name.to_owned()).or_default().push(one);
    }
    let late = |Done { case, ended, .. }: &Done| {
        let deadline = case.deadline(subjects[case.subject], cleans[case.subject], ended.struck?);
        Some(ended.took.as_secs_f64() - deadline.as_secs_f64())
    };
    for (name, group) in &groups {
        let struck = group.iter().filter(|one| one.ended.struck.is_some()).count();
        let latest = group.iter().filter_map(|one| late(one)).fold(f64::MIN, f64::max);
        let peak = group.iter().map(|one| one.ended.peak).max().unwrap_or(0);
        let failed = group.iter().filter(|one| one.ended.code != Some(0)).count();
        let missed = group.iter().filter(|one| !one.missed.is_empty()).count();
        report.bar(
            name,
            format!(
                "{struck} struck, {failed} ended with an error, latest {latest:+.1} s, at most {:.0} MB, {missed} missed",
                peak as f64 / 1e6
            ),
            json!({ "struck": struck, "failed": failed, "latest": latest, "peak": peak, "missed": missed }),
            "≤ 5 s after the deadline, < 100 MB, one sentence",
            missed == 0,
        );
    }
    report
}
