//! What the end-to-end tests share: a place of their own, and a server to visit.

// Each test binary uses its own part of this.
#![allow(dead_code)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use walwright_server::{
    Cluster, ClusterSpec, ConnectParams, Install, Installs, Major, Places, RunningCluster, Secret,
    TcpAccess,
};

/// Longest a command may take before a test gives up on it.
const PATIENCE: Duration = Duration::from_secs(90);

/// Flags of a run that is as short as one can be and still measure.
pub const SHORT: [&str; 4] = ["--plain", "--warmup=1s", "--duration=2s", "--load-jobs=1"];

/// Options of a run in whose window samples of once a second are enough to judge.
pub const LONGER: [&str; 3] = ["--warmup=1s", "--duration=5s", "--plain"];

/// The superuser's password of [`Host`].
pub const PASSWORD: &str = "zephyr-Tangerine-77";

/// A home, a cache and a lab that nobody else uses, on a real disk. Only the fetched
/// binaries are shared with the person who runs the tests.
pub struct Place {
    directory: TempDir,
}

impl Place {
    pub fn new() -> Place {
        let directory = tempfile::tempdir_in("/var/tmp").expect("a directory on a real disk");
        open_to_all(directory.path());
        let place = Place { directory };
        for part in ["home", "cache"] {
            fs::create_dir(place.path(part)).expect("mkdir");
            open_to_all(&place.path(part));
        }
        let shared = Installs::open(None).expect("a cache").places().installs();
        std::os::unix::fs::symlink(shared, place.path("cache/installs")).expect("symlink");
        place
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file and gives its path as an argument.
    pub fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        fs::write(&path, text).expect("write");
        path.display().to_string()
    }

    /// The command with these arguments, as a new user would have it.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("walwright"));
        for (name, _) in std::env::vars_os() {
            let name_text = name.to_string_lossy();
            if ["PG", "WALWRIGHT", "XDG_", "NO_COLOR"].iter().any(|p| name_text.starts_with(p)) {
                command.env_remove(&name);
            }
        }
        command
            .args(args)
            .current_dir(self.directory.path())
            .env("HOME", self.path("home"))
            .env("WALWRIGHT_CACHE", self.path("cache"))
            .env("WALWRIGHT_LAB", self.path("lab"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, args: &[&str]) -> Done {
        finish(self.command(args).spawn().expect("spawn"))
    }

    /// A short measured run with more arguments.
    pub fn measure(&self, args: &[&str]) -> Done {
        self.run(&[&["run"], &SHORT[..], args].concat())
    }

    /// Names of the clusters that lie in the cache.
    pub fn clusters(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("cache/clusters")).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name != ".lock").collect()
    }

    /// Processes that were started in or for this place.
    pub fn processes(&self) -> Vec<String> {
        let place = self.directory.path().display().to_string();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").expect("proc").flatten() {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let home = fs::read_link(entry.path().join("cwd")).unwrap_or_default();
            // The tools of the tests themselves have no business with these.
            let is_server = ["postgres", "pgbouncer"].iter().any(|name| line.contains(name));
            if is_server && (line.contains(&place) || home.starts_with(&place)) {
                found.push(line);
            }
        }
        found
    }

    /// That no cluster and no server is left, once those that are ending have ended.
    pub fn assert_clean(&self) {
        until("no server is left", || self.processes().is_empty());
        assert_eq!(self.clusters(), Vec::<String>::new());
    }

    /// The runs of the lab, oldest first.
    pub fn runs(&self) -> Vec<Value> {
        let runs = self.run(&["runs", "--json"]).code(0).json();
        runs.as_array().expect("a list").clone()
    }
}

/// The value of a setting in an exported record.
pub fn setting(record: &Value, name: &str) -> String {
    let settings = record["settings"].as_array().expect("settings");
    let found = settings.iter().find(|setting| setting["name"] == name).expect("the setting");
    found["value"].as_str().expect("text").to_owned()
}

/// What a command that has ended left.
pub struct Done {
    output: Output,
}

impl Done {
    /// Its standard output.
    pub fn out(&self) -> String {
        String::from_utf8(self.output.stdout.clone()).expect("UTF-8")
    }

    /// Its standard error.
    pub fn err(&self) -> String {
        String::from_utf8(self.output.stderr.clone()).expect("UTF-8")
    }

    /// Whether it ended with this code.
    pub fn ended(&self, code: i32) -> bool {
        self.output.status.code() == Some(code)
    }

    /// Fails the test unless it ended with this code.
    #[track_caller]
    pub fn code(self, code: i32) -> Done {
        let found = self.output.status.code();
        assert_eq!(found, Some(code), "\n{}\n{}", self.out(), self.err());
        self
    }

    /// Its exit code; `None` where a signal ended it.
    pub fn exit_code(&self) -> Option<i32> {
        self.output.status.code()
    }

    /// Its standard output, which must be one JSON value and nothing else.
    #[track_caller]
    pub fn json(&self) -> Value {
        let out = self.out();
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}:\n{out}\n{}", self.err()))
    }

    /// Fails the test unless its standard error holds all of these.
    #[track_caller]
    pub fn says(self, words: &[&str]) -> Done {
        let err = self.err();
        for word in words {
            assert!(err.contains(word), "{word:?} is not in\n{err}");
        }
        self
    }

    /// Fails the test unless it ended with code 1 after one `error:` that says these.
    #[track_caller]
    pub fn refuses(self, words: &[&str]) -> Done {
        self.fails(1, words)
    }

    /// The same with code 2, of wrong usage.
    #[track_caller]
    pub fn misused(self, words: &[&str]) -> Done {
        self.fails(2, words)
    }

    #[track_caller]
    fn fails(self, code: i32, words: &[&str]) -> Done {
        let done = self.code(code).says(words);
        assert_eq!(done.out(), "");
        let errors = done.err().lines().filter(|line| line.starts_with("error: ")).count();
        assert_eq!(errors, 1, "{}", done.err());
        done
    }
}

/// Waits for the end of a process; ends it when it takes too long.
pub fn finish(child: Child) -> Done {
    let pid = child.id();
    let (sender, receiver) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let output = child.wait_with_output();
        let _ = sender.send(());
        output
    });
    if receiver.recv_timeout(PATIENCE).is_err() {
        signal(pid, libc::SIGKILL);
    }
    Done { output: reader.join().expect("no panic").expect("the output") }
}

/// Sends a signal to a process we started.
pub fn signal(pid: u32, signal: i32) {
    // SAFETY: kill takes no pointers; at worst it fails.
    unsafe { libc::kill(pid.cast_signed(), signal) };
}

/// Waits until a condition holds; fails the test when it never does.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until a command that writes to this file has said something.
pub fn until_said(log: &Path, words: &str) {
    until(words, || fs::read_to_string(log).is_ok_and(|text| text.contains(words)));
}

/// What a command's log says after some words, up to a character.
pub fn said(place: &Place, log: &str, words: &str, end: char) -> String {
    let mut found = None;
    until(words, || {
        let text = fs::read_to_string(place.path(log)).unwrap_or_default();
        let rest = text.split_once(words).map(|(_, rest)| rest.to_owned());
        found = rest.and_then(|rest| Some(rest.split_once(end)?.0.to_owned()));
        found.is_some()
    });
    found.unwrap_or_default()
}

/// An install from the cache of the person who runs the tests.
pub fn install(major: Major) -> Install {
    let installs = Installs::open(None).expect("a cache");
    installs.ensure(major, &mut |_| {}).expect("an install")
}

fn open_to_all(directory: &Path) {
    fs::set_permissions(directory, PermissionsExt::from_mode(0o755)).expect("chmod");
}

/// An attached server: with a password, by TCP, in a place of its own.
pub struct Host {
    runtime: tokio::runtime::Runtime,
    server: RunningCluster,
    // Removed after the server has stopped.
    _place: TempDir,
}

impl Host {
    pub fn new() -> Host {
        Host::made(Major::V18, &[])
    }

    /// One of another version.
    pub fn of(major: Major) -> Host {
        Host::made(major, &[])
    }

    /// One with settings of its own.
    pub fn with(settings: &[(&str, &str)]) -> Host {
        Host::made(Major::V18, settings)
    }

    /// One of another version with settings of its own.
    pub fn made(major: Major, settings: &[(&str, &str)]) -> Host {
        let place = tempfile::tempdir_in("/var/tmp").expect("a directory on a real disk");
        open_to_all(place.path());
        let places = Places::open(Some(place.path().join("cache"))).expect("places");
        let mut spec = ClusterSpec::new(&places, install(major));
        spec.tcp = Some(TcpAccess { port: None, password: Secret::new(PASSWORD) });
        let settings = settings.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        spec.settings.extend(settings);
        let server = Cluster::create(spec).and_then(|cluster| cluster.start()).expect("a server");
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        Host { runtime, server, _place: place }
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// The directory of its unix socket.
    pub fn socket_dir(&self) -> PathBuf {
        self.server.socket_dir().to_owned()
    }

    /// Its data directory.
    pub fn data_dir(&self) -> PathBuf {
        self.server.data_dir()
    }

    /// What the server has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.server.cluster().log_file()).expect("its log")
    }

    /// The connection string of a role, with its password.
    pub fn dsn(&self, role: &str, password: &str, database: &str) -> String {
        format!("postgres://{role}:{password}@127.0.0.1:{}/{database}", self.port())
    }

    /// The connection string of the superuser.
    pub fn superuser(&self, database: &str) -> String {
        self.dsn("postgres", PASSWORD, database)
    }

    /// Runs statements as the superuser.
    pub fn execute(&self, database: &str, sql: &str) {
        self.runtime.block_on(async {
            let client = walwright_server::connect_for_workload(&self.params(database))
                .await
                .expect("connect");
            client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        });
    }

    /// Runs a statement in a transaction that stays open until what is given back is dropped.
    pub fn hold(&self, database: &str, sql: &str) -> walwright_server::Client {
        self.runtime.block_on(async {
            let client = walwright_server::connect_for_workload(&self.params(database)).await;
            let client = client.expect("connect");
            client.batch_execute(&format!("BEGIN; {sql}")).await.expect("held");
            client
        })
    }

    /// The text that a query of one row and column gives, empty for NULL.
    pub fn ask(&self, database: &str, sql: &str) -> String {
        self.runtime.block_on(async {
            let client = walwright_server::connect_for_workload(&self.params(database))
                .await
                .expect("connect");
            let row = client.query_one(sql, &[]).await;
            let row = row.unwrap_or_else(|error| panic!("{sql}: {error}"));
            row.get::<Option<String>>(0).unwrap().unwrap_or_default()
        })
    }

    /// What a program of the install gives that connects as the superuser.
    pub fn program(&self, name: &str, args: &[&str]) -> String {
        let mut command = self.server.cluster().install().command(name);
        command.args(args).env("PGHOST", self.socket_dir()).env("PGPORT", self.port().to_string());
        command.env("PGUSER", "postgres").env("PGPASSWORD", PASSWORD);
        let output = command.output().unwrap_or_else(|error| panic!("{name}: {error}"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{name} {args:?}: {said}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Runs statements in a session of walwright's own, whose names are those of `pg_catalog`.
    pub fn execute_safely(&self, database: &str, sql: &str) {
        self.runtime.block_on(async {
            let client = walwright_server::connect_without_limit(&self.params(database)).await;
            let done = client.expect("connect").batch_execute(sql).await;
            done.unwrap_or_else(|error| panic!("{error}"));
        });
    }

    /// Asks in a session of walwright's own.
    pub fn ask_safely(&self, database: &str, sql: &str) -> String {
        self.runtime.block_on(async {
            let client = walwright_server::connect(&self.params(database)).await.expect("connect");
            let row = client.query_one(sql, &[]).await;
            let row = row.unwrap_or_else(|error| panic!("{sql}: {error}"));
            row.get::<Option<String>>(0).unwrap().unwrap_or_default()
        })
    }

    fn params(&self, database: &str) -> ConnectParams {
        self.server.connect_params(database)
    }
}
