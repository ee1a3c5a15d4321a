//! Programs of the drivers, and their own tests, through the gateway as directly.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Parser;
use serde_json::json;
use walwright_bench::{
    Difference, GatewayProcess, GatewaySettings, MeantDifferences, Report, suites,
    without_pg_variables,
};
use walwright_server::{Cluster, ClusterSpec, Install, Places, sweep};

/// Runs one program per driver (`bench/gateway/drivers`) directly and through the gateway, and
/// compares what they print.
///
/// What the drivers need is fetched by pip, npm, go and mvn once. A driver whose tools are
/// missing is told as not run.
///
/// With `--suites` it is the drivers' own tests, outcome by outcome: twice directly and once
/// through the gateway. `git` fetches those that come with no package.
#[derive(Parser)]
struct Cli {
    /// Where postgres, initdb and pgbench are.
    #[arg(long, value_name = "DIR")]
    pg_bin: PathBuf,
    /// Where what the drivers need is kept.
    #[arg(long, value_name = "DIR")]
    cache: PathBuf,
    /// Only these drivers. The default is all.
    only: Vec<Driver>,
    /// Compares two direct runs, which must be the same: what the programs themselves vary.
    #[arg(long)]
    check: bool,
    /// Runs the drivers' own tests instead: of these drivers, or of all.
    #[arg(long, value_name = "NAME", num_args = 0.., conflicts_with_all = ["only", "check"])]
    suites: Option<Vec<String>>,
    /// Runs a driver's tests directly and through the gateway at the same time: faster, and less
    /// stable.
    #[arg(long, requires = "suites")]
    at_once: bool,
    /// Seconds that one run of a driver's tests may take.
    #[arg(long, default_value_t = 2400)]
    suite_timeout: u64,
    /// Seconds that one program may take.
    #[arg(long, default_value_t = 120)]
    timeout: u64,
    /// Keeps the outputs of every program, or what every run of tests writes, in this directory.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Figures as JSON on standard output.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Driver {
    Psycopg,
    Asyncpg,
    NodePostgres,
    Pgx,
    Pgjdbc,
    Pgbench,
}

impl Driver {
    const ALL: [Driver; 6] = [
        Driver::Psycopg,
        Driver::Asyncpg,
        Driver::NodePostgres,
        Driver::Pgx,
        Driver::Pgjdbc,
        Driver::Pgbench,
    ];

    fn name(self) -> &'static str {
        match self {
            Driver::Psycopg => "psycopg",
            Driver::Asyncpg => "asyncpg",
            Driver::NodePostgres => "node-postgres",
            Driver::Pgx => "pgx",
            Driver::Pgjdbc => "pgjdbc",
            Driver::Pgbench => "pgbench",
        }
    }

    /// The commands that are its program, after it has fetched what they need.
    fn programs(self, cli: &Cli, install: &Install) -> anyhow::Result<Vec<Command>> {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("gateway/drivers");
        match self {
            Driver::Psycopg => {
                let python = python(&cli.cache, "psycopg[binary]==3.3.9")?;
                Ok(vec![script(&python, &sources.join("python/psycopg_program.py"))])
            }
            Driver::Asyncpg => {
                let python = python(&cli.cache, "asyncpg==0.32.0")?;
                Ok(vec![script(&python, &sources.join("python/asyncpg_program.py"))])
            }
            Driver::NodePostgres => {
                let modules = node_modules(&cli.cache)?;
                let mut program = script(Path::new("node"), &sources.join("node/pg_program.js"));
                program.env("NODE_PATH", modules);
                Ok(vec![program])
            }
            Driver::Pgx => {
                let program = go(&cli.cache, &sources.join("go/pgx_program.go"))?;
                Ok(vec![Command::new(program)])
            }
            Driver::Pgjdbc => {
                let jars = jars(&cli.cache, &sources.join("java/pom.xml"))?;
                let mut program = Command::new("java");
                program.arg("-cp").arg(jars.join("*")).arg(sources.join("java/PgjdbcProgram.java"));
                Ok(vec![program])
            }
            Driver::Pgbench => Ok(pgbench(install)),
        }
    }
}

/// A virtual environment with this package: its Python.
fn python(cache: &Path, package: &str) -> anyhow::Result<PathBuf> {
    let name: String = package.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    let place = std::path::absolute(cache.join(name))?;
    let python = place.join("bin/python");
    let done = place.join("fetched");
    if !done.exists() {
        suites::fetch(Command::new("python3").args(["-m", "venv"]).arg(&place))?;
        suites::fetch(Command::new(&python).args(["-m", "pip", "install", "-q", package]))?;
        fs::write(done, "")?;
    }
    Ok(python)
}

/// What node-postgres and what goes with it are.
fn node_modules(cache: &Path) -> anyhow::Result<PathBuf> {
    const PACKAGES: [&str; 4] =
        ["pg@8.23.1", "pg-cursor@2.22.1", "pg-query-stream@4.17.0", "pg-copy-streams@7.0.0"];
    let place = std::path::absolute(cache.join("node"))?;
    let done = place.join("fetched");
    if !done.exists() {
        fs::create_dir_all(&place)?;
        let install = ["install", "--no-audit", "--no-fund", "--no-save", "--prefix"];
        suites::fetch(Command::new("npm").args(install).arg(&place).args(PACKAGES))?;
        fs::write(done, "")?;
    }
    Ok(place.join("node_modules"))
}

/// A program in Go, built: where it is.
fn go(cache: &Path, source: &Path) -> anyhow::Result<PathBuf> {
    let place = std::path::absolute(cache.join("pgx"))?;
    let run =
        |arguments: &[&str]| suites::fetch(Command::new("go").args(arguments).current_dir(&place));
    fs::create_dir_all(&place)?;
    fs::copy(source, place.join("main.go")).context("copying a program")?;
    if !place.join("go.mod").exists() {
        run(&["mod", "init", "pgx_program"])?;
        run(&["get", "github.com/jackc/pgx/v5@v5.12.0"])?;
        run(&["mod", "tidy"])?;
    }
    run(&["build", "-o", "program"])?;
    Ok(place.join("program"))
}

/// What a project in Java depends on: where the files are.
fn jars(cache: &Path, project: &Path) -> anyhow::Result<PathBuf> {
    let jars = std::path::absolute(cache.join("pgjdbc"))?;
    let done = jars.join("fetched");
    if !done.exists() {
        let into = format!("-DoutputDirectory={}", jars.display());
        let copy = ["-q", "dependency:copy-dependencies", "-f"];
        suites::fetch(Command::new("mvn").args(copy).arg(project).arg(into))?;
        fs::write(done, "")?;
    }
    Ok(jars)
}

fn script(runtime: &Path, script: &Path) -> Command {
    let mut command = Command::new(runtime);
    command.arg(script);
    command
}

/// Its own load in each protocol, then what the tables hold.
fn pgbench(install: &Install) -> Vec<Command> {
    let mut programs = Vec::new();
    let mut run = |program: &str, arguments: &[&str]| {
        let mut command = install.command(program);
        command.args(arguments);
        programs.push(command);
    };
    run("pgbench", &["-i", "-q", "-I", "tGvp"]);
    for protocol in ["simple", "extended", "prepared"] {
        let load = ["-n", "-c", "8", "-t", "100", "--random-seed=1", "-M", protocol];
        run("pgbench", &load);
        run("pgbench", &[&load[..], &["-S"]].concat());
        run("pgbench", &[&load[..], &["-C", "-N"]].concat());
        let sums = "SELECT (SELECT sum(abalance) FROM pgbench_accounts), \
                    (SELECT sum(bbalance) FROM pgbench_branches), \
                    (SELECT sum(tbalance) FROM pgbench_tellers), \
                    (SELECT count(*) FROM pgbench_history), \
                    (SELECT sum(delta) FROM pgbench_history)";
        run("psql", &["-XAt", "-c", sums]);
    }
    run("pgbench", &["-i", "-I", "d"]);
    programs
}

/// What commands print, one after the other, with nothing that takes its time or place.
fn output(
    programs: Vec<Command>,
    (directory, port): (&Path, u16),
    limit: Duration,
) -> anyhow::Result<String> {
    let mut text = String::new();
    let files = tempfile::tempdir()?;
    let path = files.path().join("output");
    let until = Instant::now() + limit;
    for mut program in programs {
        without_pg_variables(&mut program);
        let file = fs::File::create(&path)?;
        program
            .env("LC_ALL", "C.UTF-8")
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("PGHOST", directory)
            .env("PGPORT", port.to_string())
            .env("PGUSER", "postgres")
            .env("PGDATABASE", "postgres")
            .stdin(Stdio::null())
            .stderr(file.try_clone()?)
            .stdout(file);
        let mut child = program.spawn().context("starting a driver's program")?;
        let mut ended = "";
        while child.try_wait()?.is_none() {
            if Instant::now() > until {
                child.kill()?;
                ended = "it did not end in time\n";
            }
            thread::sleep(Duration::from_millis(5));
        }
        text += &String::from_utf8_lossy(&fs::read(&path)?);
        text += ended;
        text += &format!("{}\n", child.wait()?);
    }
    let socket = format!("{}/.s.PGSQL.{port}", directory.display());
    let timed = ["latency ", "tps = ", "initial connection", "average connection", "done in"];
    let lines = text.lines().filter(|line| !timed.iter().any(|start| line.starts_with(start)));
    Ok(lines.map(|line| line.replace(&socket, "SOCKET") + "\n").collect())
}

/// Compares the drivers' own tests.
fn run_suites(
    cli: &Cli,
    only: &[String],
    install: Install,
    places: Places,
) -> anyhow::Result<ExitCode> {
    let rules = MeantDifferences::parse(include_str!("../../gateway/suites.toml"))?;
    let suites = suites::suites();
    if let Some(unknown) = only.iter().find(|name| !suites.iter().any(|of| of.name() == *name)) {
        let names: Vec<&str> = suites.iter().map(|suite| suite.name()).collect();
        bail!("no tests of {unknown} here, but of {}", names.join(", "));
    }
    let mut report = Report::new(&format!(
        "The drivers' own tests before PostgreSQL {}, through the gateway and directly",
        install.version()
    ));
    let bench = suites::Bench {
        install,
        places,
        cache: cli.cache.clone(),
        limit: Duration::from_secs(cli.suite_timeout),
        at_once: cli.at_once,
        keep: cli.keep.clone(),
    };
    for suite in suites.iter().filter(|of| only.is_empty() || only.iter().any(|o| of.name() == o)) {
        let verdict = suites::judge(suite.name(), &bench.run(suite.as_ref())?, &rules);
        for (why, tests) in &verdict.by_rule {
            eprintln!("meant    {}: {why}: {}", suite.name(), tests.join(", "));
        }
        for test in &verdict.unstable {
            eprintln!("unstable {}: {test}", suite.name());
        }
        for (test, how) in &verdict.unexplained {
            eprintln!("DIFFERS  {}: {test}: {how}", suite.name());
        }
        let name = format!("{} {}", suite.name(), suite.version());
        let (passed, failed) = (verdict.passed, verdict.failed);
        let skipped = verdict.same - passed - failed;
        let same = json!({ "passed": passed, "failed": failed, "skipped": skipped });
        let shown =
            format!("{} ({passed} passed, {skipped} skipped, {failed} failed)", verdict.same);
        report.figure(&format!("{name}: the same"), shown, same);
        let meant: usize = verdict.by_rule.values().map(Vec::len).sum();
        let by_rule = json!(verdict.by_rule);
        report.figure(&format!("{name}: different by a rule"), meant.to_string(), by_rule);
        let unstable = verdict.unstable.len().to_string();
        report.figure(&format!("{name}: not stable directly"), unstable, json!(verdict.unstable));
        let unexplained = verdict.unexplained;
        report.bar(
            &format!("{name}: different without a rule"),
            unexplained.len().to_string(),
            json!(unexplained),
            "0",
            unexplained.is_empty() && passed > 0,
        );
    }
    Ok(report.print(cli.json))
}

fn main() -> anyhow::Result<ExitCode> {
    GatewayProcess::become_one()?;
    let cli = Cli::parse();
    let install = Install::from_bin_dir(&cli.pg_bin)?;
    let places = Places::open(None)?;
    sweep(&places)?;
    if let Some(only) = &cli.suites {
        return run_suites(&cli, only, install.clone(), places);
    }
    let rules = MeantDifferences::parse(include_str!("../../gateway/drivers.toml"))?;
    let server = Cluster::create(ClusterSpec::new(&places, install.clone()))?.start()?;
    let directory = tempfile::tempdir()?;
    let gateway = GatewayProcess::start(&server, directory.path(), GatewaySettings::FOR_PROGRAMS)?;
    let direct = (server.socket_dir(), server.port());
    let through = if cli.check { direct } else { gateway.place() };
    let limit = Duration::from_secs(cli.timeout);
    let mut report = Report::new(&format!(
        "Drivers before PostgreSQL {}, {}",
        install.version(),
        if cli.check { "directly twice" } else { "through the gateway and directly" }
    ));
    let (mut same, mut meant, mut unmeant, mut not_run) = (vec![], vec![], vec![], vec![]);
    for driver in Driver::ALL {
        let name = driver.name();
        if !cli.only.is_empty() && !cli.only.contains(&driver) {
            continue;
        }
        let programs = || driver.programs(&cli, &install);
        let pair = match (programs(), programs()) {
            (Ok(first), Ok(second)) => (first, second),
            (Err(error), _) | (_, Err(error)) => {
                eprintln!("not run  {name}: {error:#}");
                not_run.push(name);
                continue;
            }
        };
        let first = output(pair.0, direct, limit)?;
        if first.lines().any(|line| line.starts_with("exit status: ") && !line.ends_with(" 0")) {
            eprintln!("FAILED   {name}, directly\n{first}");
            unmeant.push(json!({ "driver": name, "failed": first }));
            continue;
        }
        let second = output(pair.1, through, limit)?;
        if let Some(keep) = &cli.keep {
            fs::create_dir_all(keep)?;
            fs::write(keep.join(format!("{name}.direct")), &first)?;
            fs::write(keep.join(format!("{name}.through")), &second)?;
        }
        let lines = first.lines().count();
        let Some(difference) = Difference::between(&first, &second) else {
            eprintln!("same     {name} ({lines} lines)");
            same.push(json!({ "driver": name, "lines": lines }));
            continue;
        };
        if let Some(why) = rules.why(name, &difference.lines) {
            eprintln!("meant    {name} ({lines} lines): {}", why.join("; "));
            meant.push(json!({ "driver": name, "lines": lines, "why": why }));
        } else {
            eprintln!("DIFFERS  {name} ({lines} lines)\n{}", difference.hunks.concat());
            unmeant.push(json!({ "driver": name, "hunks": difference.hunks }));
        }
    }
    report.figure("the same", same.len().to_string(), json!(same));
    report.figure("different by a documented rule", meant.len().to_string(), json!(meant));
    report.figure("not run", not_run.len().to_string(), json!(not_run));
    let shown = unmeant.len().to_string();
    report.bar("different without one", shown, json!(unmeant), "0", unmeant.is_empty());
    Ok(report.print(cli.json))
}
