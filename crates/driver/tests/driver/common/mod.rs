//! What the integration tests share: servers, databases, and loads run to an end.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use walwright_driver::{Load, LoadOutcome, LoadPhase, LoadPlan};
use walwright_record::{LatencyHistogram, LoadInterval};
use walwright_server::{Cluster, ClusterSpec, Installs, Major, Places, RunningCluster};
use walwright_wire::{ConnectOptions, Connection, Connector, Host};
use walwright_workload::script::{Program, ScriptSource};
use walwright_workload::{Settings, Workload};

/// A server of our own. It stops when the last test lets go of it.
pub struct Server {
    pub cluster: Option<RunningCluster>,
    _base: TempDir,
}

impl Server {
    /// A server nobody else uses.
    pub fn start() -> Server {
        let base = tempfile::tempdir_in("/var/tmp").expect("temp dir");
        fs::set_permissions(base.path(), PermissionsExt::from_mode(0o755)).expect("chmod");
        let places = Places::open(Some(base.path().join("cache"))).expect("places");
        let install = Installs::open(None)
            .and_then(|installs| installs.ensure(Major::V18, &mut |_| {}))
            .expect("an install");
        let mut spec = ClusterSpec::new(&places, install);
        let settings = [
            ("max_connections", "60"),
            ("synchronous_commit", "off"),
            ("deadlock_timeout", "50ms"),
        ];
        spec.settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let cluster = Cluster::create(spec).expect("a cluster").start().expect("started");
        Server { cluster: Some(cluster), _base: base }
    }

    /// The server that the tests of this binary share.
    pub fn shared() -> Arc<Server> {
        static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Server::start());
            *shared = Arc::downgrade(&server);
            server
        })
    }

    pub fn running(&self) -> &RunningCluster {
        self.cluster.as_ref().expect("not stopped")
    }

    /// How to reach a database.
    pub fn options(&self, dbname: &str) -> ConnectOptions {
        let cluster = self.running();
        options(cluster.socket_dir(), cluster.port(), dbname)
    }

    /// A new, empty database.
    pub fn database(&self) -> ConnectOptions {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("test_{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        query(&self.options("postgres"), &format!("CREATE DATABASE {name}"));
        self.options(&name)
    }

    /// A new database with pgbench's tables at scale 1.
    pub fn tpcb_database(&self) -> ConnectOptions {
        let options = self.database();
        let done = self
            .running()
            .cluster()
            .install()
            .command("pgbench")
            .args(["-i", "-s", "1", "-q", "-U", "postgres", "-h"])
            .arg(self.running().socket_dir())
            .args(["-p", &options.port.to_string(), &options.dbname])
            .output()
            .expect("pgbench runs");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        options
    }
}

pub fn options(socket_dir: &Path, port: u16, dbname: &str) -> ConnectOptions {
    ConnectOptions::new(Host::Unix(socket_dir.to_owned()), port, "postgres", dbname)
}

pub fn connection(options: &ConnectOptions) -> Connection {
    Connector::new(options.clone()).and_then(|connector| connector.connect()).expect("connected")
}

/// Runs SQL; the first column of the first row, or nothing.
pub fn query(options: &ConnectOptions, sql: &str) -> String {
    let mut connection = connection(options);
    let rows = connection.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    rows.into_iter().next().and_then(|row| row.into_iter().next()).flatten().unwrap_or_default()
}

pub fn number(options: &ConnectOptions, sql: &str) -> i64 {
    query(options, sql).parse().expect("a number")
}

pub fn program(scripts: &[&str]) -> Arc<Program> {
    weighted(&scripts.iter().map(|script| (*script, 1)).collect::<Vec<_>>())
}

pub fn weighted(scripts: &[(&str, u32)]) -> Arc<Program> {
    let sources: Vec<ScriptSource> = scripts
        .iter()
        .map(|(text, weight)| ScriptSource {
            name: "test.sql".into(),
            text: (*text).into(),
            weight: *weight,
        })
        .collect();
    Arc::new(Program::compile(&sources, &[]).unwrap_or_else(|error| panic!("{error}")))
}

pub fn tpcb() -> Arc<Program> {
    let workload = Workload::builtin("tpcb").expect("built in");
    Arc::new(workload.plan(&Settings::of(&workload)).expect("a plan").program)
}

/// A plan for a script on a database, with short intervals.
pub fn plan(program: Arc<Program>, options: ConnectOptions) -> LoadPlan {
    let mut plan = LoadPlan::new(program, options);
    plan.interval = Duration::from_millis(100);
    plan
}

/// All that came of a load.
pub struct Ran {
    pub outcome: LoadOutcome,
    pub intervals: Vec<LoadInterval>,
}

impl Ran {
    /// Latency of all successful transactions.
    pub fn latency(&self) -> LatencyHistogram {
        let mut all = LatencyHistogram::new();
        for script in self.intervals.iter().flat_map(|interval| &interval.scripts) {
            script.latency.add_to(&mut all);
        }
        all
    }

    pub fn sum(&self, of: impl Fn(&LoadInterval) -> u64) -> u64 {
        self.intervals.iter().map(of).sum()
    }
}

/// Runs a load until `enough` says so, given the transactions so far, failed
/// ones included; then stops it and waits for its end.
pub fn run_until(plan: LoadPlan, enough: impl Fn(u64) -> bool) -> Ran {
    let load = Load::start(plan).expect("a plan that can be driven");
    let mut intervals = Vec::new();
    let mut done = 0;
    let deadline = Instant::now() + Duration::from_secs(60);
    while let Ok(interval) = load.intervals().recv_timeout(Duration::from_secs(30)) {
        for script in &interval.scripts {
            done += script.transactions + script.failures.values().sum::<u64>();
        }
        intervals.push(interval);
        assert!(Instant::now() < deadline, "the load did not come to {done} transactions in time");
        if enough(done) {
            load.stop();
        }
    }
    Ran { outcome: load.join().expect("a load that ran"), intervals }
}

/// Runs a load until at least so many transactions are done.
pub fn run(plan: LoadPlan, transactions: u64) -> Ran {
    run_until(plan, |done| done >= transactions)
}

/// Waits until a condition holds; fails the test when it never does.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until transactions run.
pub fn until_running(load: &Load) {
    until("the load runs", || load.phase() == LoadPhase::Running);
}
