//! PostgreSQL's regression tests through the gateway, line by line as directly.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::Parser;
use serde_json::json;
use walwright_bench::{
    Difference, GatewayProcess, GatewaySettings, MeantDifferences, Report, without_pg_variables,
};
use walwright_server::{Cluster, ClusterSpec, Install, Places, RunningCluster, sweep};

/// Runs PostgreSQL's regression tests by psql on two equal fresh clusters at once, directly on
/// the one and through the gateway on the other, and compares what psql prints.
///
/// The tests are PostgreSQL's own, of the version of the server:
/// `src/test/regress` of its source.
#[derive(Parser)]
struct Cli {
    /// PostgreSQL's source, or its src/test/regress alone.
    #[arg(long, value_name = "DIR")]
    source: PathBuf,
    /// Where postgres, initdb and psql of the same version are.
    #[arg(long, value_name = "DIR")]
    pg_bin: PathBuf,
    /// Only these tests, and what they are built on. The default is all of the schedule.
    only: Vec<String>,
    /// Compares two direct runs, which must be the same: what the tests themselves vary.
    #[arg(long)]
    check: bool,
    /// Seconds that one test may take.
    #[arg(long, default_value_t = 300)]
    timeout: u64,
    /// Keeps both outputs of every test in this directory.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Figures as JSON on standard output.
    #[arg(long)]
    json: bool,
}

/// What others are built on: tables and functions that most tests use.
const BASE: [&str; 13] = [
    "test_setup",
    "copy",
    "create_function_c",
    "create_misc",
    "create_operator",
    "create_procedure",
    "create_table",
    "create_type",
    "create_index",
    "create_view",
    "create_aggregate",
    "create_function_sql",
    "create_cast",
];
const DATABASE: &str = "regression";

fn main() -> anyhow::Result<ExitCode> {
    GatewayProcess::become_one()?;
    let cli = Cli::parse();
    let tests = Tests::find(&cli.source)?;
    let rules = MeantDifferences::parse(include_str!("../../gateway/regress.toml"))?;
    let install = Install::from_bin_dir(&cli.pg_bin)?;
    let places = Places::open(None)?;
    sweep(&places)?;
    let direct = Side::start(&places, &install, &tests, false)?;
    let through = Side::start(&places, &install, &tests, !cli.check)?;
    let mut report = Report::new(&format!(
        "PostgreSQL {}'s regression tests by psql, {}",
        install.version(),
        if cli.check { "directly twice" } else { "through the gateway and directly" }
    ));
    let (mut same, mut meant, mut unmeant, mut expected) = (0, Vec::new(), Vec::new(), 0);
    for test in tests.wanted(&cli.only)? {
        let limit = Duration::from_secs(cli.timeout);
        let (first, second) = thread::scope(|scope| {
            let first = scope.spawn(|| direct.run(&tests, &test, limit));
            let second = through.run(&tests, &test, limit);
            (first.join().unwrap_or_else(|_| bail!("it panicked")), second)
        });
        let (first, second) = (first?, second?);
        if let Some(keep) = &cli.keep {
            fs::create_dir_all(keep)?;
            fs::write(keep.join(format!("{test}.direct")), &first)?;
            fs::write(keep.join(format!("{test}.through")), &second)?;
        }
        expected += usize::from(tests.expect(&test, &first)?);
        let Some(difference) = Difference::between(&first, &second) else {
            same += 1;
            say(&cli, &format!("same     {test}"));
            continue;
        };
        let hunks = difference.hunks.len();
        match rules.why(&test, &difference.lines) {
            Some(why) => {
                let line = format!("meant    {test} ({hunks} hunks): {}", why.join("; "));
                say(&cli, &line);
                meant.push(json!({ "test": test, "hunks": hunks, "why": why }));
            }
            None => {
                say(&cli, &format!("DIFFERS  {test} ({hunks} hunks)\n{}", difference.hunks[0]));
                unmeant.push(json!({ "test": test, "hunks": difference.hunks }));
            }
        }
    }
    report.figure("the same", same.to_string(), json!(same));
    report.figure("as PostgreSQL expects them, directly", expected.to_string(), json!(expected));
    report.figure("different by a documented rule", meant.len().to_string(), json!(meant));
    let shown = unmeant.len().to_string();
    report.bar("different without one", shown, json!(unmeant), "0", unmeant.is_empty());
    Ok(report.print(cli.json))
}

fn say(cli: &Cli, line: &str) {
    if cli.json {
        eprintln!("{line}");
    } else {
        println!("{line}");
    }
}

/// The directory with the tests.
struct Tests(PathBuf);

impl Tests {
    fn find(source: &Path) -> anyhow::Result<Tests> {
        let source = std::path::absolute(source)?;
        let found = [source.join("src/test/regress"), source.clone()]
            .into_iter()
            .find(|place| place.join("parallel_schedule").exists() && place.join("sql").is_dir());
        let missing =
            || format!("{} holds no parallel_schedule: give PostgreSQL's source", source.display());
        Ok(Tests(found.with_context(missing)?))
    }

    /// Names in the order of the schedule.
    fn wanted(&self, only: &[String]) -> anyhow::Result<Vec<String>> {
        let schedule = fs::read_to_string(self.0.join("parallel_schedule"))?;
        let names = schedule.lines().filter_map(|line| line.strip_prefix("test:"));
        let all: Vec<&str> = names.flat_map(str::split_whitespace).collect();
        if let Some(unknown) = only.iter().find(|name| !all.contains(&name.as_str())) {
            bail!("the schedule has no test {unknown}");
        }
        let is_wanted = |name: &&str| {
            only.is_empty() || BASE.contains(name) || only.iter().any(|only| only == name)
        };
        Ok(all.into_iter().filter(is_wanted).map(str::to_owned).collect())
    }

    /// Whether an output is one of those that PostgreSQL has for a test.
    fn expect(&self, test: &str, output: &str) -> anyhow::Result<bool> {
        for variant in ["", "_1", "_2", "_3", "_4", "_5"] {
            let path = self.0.join(format!("expected/{test}{variant}.out"));
            if path.exists() && fs::read(path)? == output.as_bytes() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A cluster and how its tests reach it.
struct Side {
    install: Install,
    server: RunningCluster,
    gateway: Option<(GatewayProcess, tempfile::TempDir)>,
    /// Where tests read and write: what `abs_srcdir` and `abs_builddir` mean.
    files: PathBuf,
    library: String,
}

impl Side {
    fn start(
        places: &Places,
        install: &Install,
        tests: &Tests,
        through: bool,
    ) -> anyhow::Result<Side> {
        let mut spec = ClusterSpec::new(places, install.clone());
        // As `pg_regress` has them, and nothing else that tests do not expect.
        spec.settings = [
            ("max_prepared_transactions", "2"),
            ("shared_preload_libraries", ""),
            ("track_functions", "none"),
            ("track_io_timing", "off"),
            ("track_wal_io_timing", "off"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let server = Cluster::create(spec)?.start()?;
        let files = server.cluster().dir().join("regress");
        // The server reads and writes there as its own user.
        let user = server.cluster().user();
        for directory in ["", "results", "testtablespace"] {
            let directory = files.join(directory);
            fs::create_dir(&directory)?;
            user.own(&directory)?;
        }
        for directory in ["data", "sql"] {
            let to = files.join(directory);
            fs::create_dir(&to)?;
            for entry in fs::read_dir(tests.0.join(directory))? {
                let entry = entry?;
                if entry.file_type()?.is_file() {
                    fs::copy(entry.path(), to.join(entry.file_name()))?;
                }
            }
        }
        let library = install.command("pg_config").arg("--pkglibdir").output();
        let library = library.context("asking pg_config for the directory of libraries")?;
        let library = String::from_utf8(library.stdout)?.trim().to_owned();
        let mut side = Side { install: install.clone(), server, gateway: None, files, library };
        side.prepare()?;
        if through {
            let directory = tempfile::tempdir()?;
            let gateway = GatewayProcess::start(
                &side.server,
                directory.path(),
                GatewaySettings::FOR_PROGRAMS,
            )?;
            side.gateway = Some((gateway, directory));
        }
        Ok(side)
    }

    /// Makes the database as `pg_regress` makes it.
    fn prepare(&self) -> anyhow::Result<()> {
        let settings = [
            "lc_messages TO 'C'",
            "lc_monetary TO 'C'",
            "lc_numeric TO 'C'",
            "lc_time TO 'C'",
            "bytea_output TO 'hex'",
            "timezone_abbreviations TO 'Default'",
        ];
        let mut psql = self.psql("postgres");
        psql.args(["-v", "ON_ERROR_STOP=1"]);
        psql.args(["-c", &format!("CREATE DATABASE {DATABASE} TEMPLATE template0")]);
        for setting in settings {
            psql.args(["-c", &format!("ALTER DATABASE {DATABASE} SET {setting}")]);
        }
        let output = psql.stdin(Stdio::null()).output().context("starting psql")?;
        ensure!(output.status.success(), "psql: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    fn place(&self) -> (&Path, u16) {
        match &self.gateway {
            Some((gateway, _)) => gateway.place(),
            None => (self.server.socket_dir(), self.server.port()),
        }
    }

    fn psql(&self, database: &str) -> Command {
        let (directory, port) = self.place();
        let mut command = self.install.command("psql");
        without_pg_variables(&mut command);
        command
            .env("LC_ALL", "C")
            .env_remove("LANGUAGE")
            .env("PGTZ", "PST8PDT")
            .env("PGDATESTYLE", "Postgres, MDY")
            .env("PGOPTIONS", "-c intervalstyle=postgres_verbose")
            .env("PGHOST", directory)
            .env("PGPORT", port.to_string())
            .env("PGUSER", "postgres")
            .env("PG_ABS_SRCDIR", &self.files)
            .env("PG_ABS_BUILDDIR", &self.files)
            .env("PG_LIBDIR", &self.library)
            .env("PG_DLSUFFIX", ".so")
            .current_dir(&self.files)
            .args(["-X", "-a", "-q", "-d", database])
            .args(["-v", "HIDE_TABLEAM=on", "-v", "HIDE_TOAST_COMPRESSION=on"]);
        command
    }

    /// What psql prints of a test, with nothing of where this side is.
    fn run(&self, tests: &Tests, test: &str, limit: Duration) -> anyhow::Result<String> {
        let input = tests.0.join(format!("sql/{test}.sql"));
        let input = File::open(&input).with_context(|| format!("opening {}", input.display()))?;
        let path = self.files.join("output");
        let output = File::create(&path)?;
        let mut command = self.psql(DATABASE);
        command.env("PGAPPNAME", format!("pg_regress/{test}"));
        command.stdin(input).stderr(output.try_clone()?).stdout(output);
        let mut child = command.spawn().context("starting psql")?;
        let until = Instant::now() + limit;
        let mut ended = "";
        while child.try_wait()?.is_none() {
            if Instant::now() > until {
                child.kill()?;
                child.wait()?;
                ended = "it did not end in time\n";
            }
            thread::sleep(Duration::from_millis(5));
        }
        let (directory, port) = self.place();
        let mut text = String::from_utf8_lossy(&fs::read(&path)?).into_owned() + ended;
        let socket = format!("{}/.s.PGSQL.{port}", directory.display());
        let files = self.files.display().to_string();
        for (own, name) in [(socket, "SOCKET"), (files, "FILES")] {
            text = text.replace(&own, name);
        }
        Ok(text)
    }
}
