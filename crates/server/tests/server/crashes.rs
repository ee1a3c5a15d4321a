//! What happens when walwright or its server dies.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use walwright_server::{
    Cluster, ClusterError, ClusterSpec, ConnectParams, Major, Places, ServerUser, StopMode,
    connect, sweep,
};

use crate::common::{at_home_in, install, lives, open_dir, places, runtime, until};

/// Tells a copy of this test program which cache to make a cluster in.
const OWNER: &str = "WALWRIGHT_TEST_OWNER";
/// The cluster's own directory, if it is to have one.
const OWNED_DIR: &str = "WALWRIGHT_TEST_OWNED_DIR";

/// Not a test of its own: the process that owns a cluster and is killed.
#[test]
fn owner_process() {
    let Some(cache) = std::env::var_os(OWNER) else {
        return;
    };
    let places = Places::open(Some(cache.into())).expect("places");
    let mut spec = ClusterSpec::new(&places, install(Major::V18));
    spec.dir = std::env::var_os(OWNED_DIR).map(PathBuf::from);
    let cluster = Cluster::create(spec).expect("a cluster");
    let server = cluster.start().expect("started");
    println!("\nREADY {} {}", server.postmaster_pid(), cluster.dir().display());
    loop {
        std::thread::park();
    }
}

struct Owner {
    process: Child,
    postmaster: u32,
    dir: PathBuf,
}

impl Owner {
    fn start(base: &Path, dir: Option<&Path>) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command
            .args(["--exact", "crashes::owner_process", "--nocapture"])
            .env(OWNER, base.join("cache"))
            .stdout(Stdio::piped());
        if let Some(dir) = dir {
            command.env(OWNED_DIR, dir);
        }
        let mut process = command.spawn().expect("the owner");
        let stdout = process.stdout.take().expect("piped");
        let ready = BufReader::new(stdout)
            .lines()
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("READY ").map(str::to_owned))
            .expect("the owner got ready");
        let (pid, dir) = ready.split_once(' ').expect("two words");
        Self { process, postmaster: pid.parse().expect("a pid"), dir: dir.into() }
    }

    fn kill(&mut self) {
        self.process.kill().expect("killed");
        self.process.wait().expect("reaped");
    }
}

fn signal(pid: u32, signal: Signal) {
    kill(Pid::from_raw(pid.cast_signed()), signal).expect("signalled");
}

#[test]
fn a_killed_owner_takes_its_server_along_and_the_sweep_cleans_up() {
    let base = open_dir();
    let places = places(base.path());
    let mut owner = Owner::start(base.path(), None);
    let data_dir = owner.dir.join("data");
    assert!(lives(owner.postmaster) && at_home_in(&data_dir).len() > 3);

    let nothing = sweep(&places).expect("swept");
    assert_eq!((nothing.stopped, nothing.removed), (vec![], vec![]));
    assert!(lives(owner.postmaster), "a living owner's server is not touched");

    owner.kill();
    until("the server and all its processes are gone", || at_home_in(&data_dir).is_empty());
    assert!(owner.dir.exists());
    let bystander = places.clusters().join("not-ours");
    fs::create_dir(&bystander).expect("mkdir");
    let stillborn = places.clusters().join("pg18-stillborn");
    fs::create_dir(&stillborn).expect("mkdir");
    let swept = sweep(&places).expect("swept");
    assert_eq!(swept.removed, [owner.dir.clone()]);
    assert!(!owner.dir.exists() && !stillborn.exists());
    assert!(bystander.exists(), "what has no lease is not ours");
}

#[test]
fn a_server_that_slept_through_its_owners_death_is_stopped_by_the_sweep() {
    let base = open_dir();
    let places = places(base.path());
    let mut owner = Owner::start(base.path(), None);
    let data_dir = owner.dir.join("data");
    // A stopped process cannot act on the death signal.
    signal(owner.postmaster, Signal::SIGSTOP);
    owner.kill();
    assert!(lives(owner.postmaster));
    let swept = sweep(&places).expect("swept");
    assert!(swept.stopped.contains(&owner.postmaster), "{swept:?}");
    assert_eq!(swept.removed, [owner.dir.clone()]);
    assert_eq!(swept.failed, []);
    assert!(at_home_in(&data_dir).is_empty());
}

/// What a server has in shared memory beyond its processes: files, and one segment.
fn in_shared_memory(data_dir: &Path) -> (Vec<PathBuf>, u32) {
    let mut files = std::collections::BTreeSet::new();
    for process in at_home_in(data_dir) {
        let maps = fs::read_to_string(process.join("maps")).unwrap_or_default();
        let of = |line: &str| line.find("/dev/shm/PostgreSQL.").map(|at| line[at..].into());
        files.extend(maps.lines().filter_map(of));
    }
    let lock_file = fs::read_to_string(data_dir.join("postmaster.pid")).expect("a lock file");
    let line = lock_file.lines().nth(6).expect("line 7");
    let id = line.split_whitespace().nth(1).expect("key and id").parse().expect("an id");
    (files.into_iter().collect(), id)
}

fn segment_exists(id: u32) -> bool {
    let all = fs::read_to_string("/proc/sysvipc/shm").expect("segments");
    let id = id.to_string();
    all.lines().any(|line| line.split_whitespace().nth(1) == Some(&id))
}

/// Kills the server of `data_dir` and all its processes before any can tidy up, while a
/// parallel query has shared memory of its own. Gives what they had.
fn kill_all(postmaster: u32, data_dir: &Path, params: &ConnectParams) -> (Vec<PathBuf>, u32) {
    let runtime = runtime();
    let client = runtime.block_on(connect(params)).expect("connected");
    let parallel = "set debug_parallel_query = on; select pg_sleep(60)";
    runtime.spawn(async move { client.batch_execute(parallel).await.map(drop).ok() });
    let looking = runtime.block_on(connect(params)).expect("connected");
    // By then the server has written down what it made.
    let asleep = "select count(*) from pg_stat_activity
                  where backend_type = 'parallel worker' and wait_event = 'PgSleep'";
    until("a worker sleeps", || {
        let row = runtime.block_on(looking.query_one(asleep, &[])).expect("row");
        row.get::<i64>(0).unwrap() > 0
    });
    let had = in_shared_memory(data_dir);
    assert!(had.0.len() >= 2, "{had:?}");
    // First all stand still, so that none tidies up after another.
    signal(postmaster, Signal::SIGSTOP);
    for sent in [Signal::SIGSTOP, Signal::SIGKILL] {
        for process in at_home_in(data_dir) {
            let pid = process.file_name().and_then(|name| name.to_str()).expect("a pid");
            // Some end by themselves.
            let _ = kill(Pid::from_raw(pid.parse().expect("a pid")), sent);
        }
    }
    until("all are dead", || at_home_in(data_dir).is_empty());
    had
}

#[test]
fn shared_memory_of_a_killed_server_is_taken_away() {
    let base = open_dir();
    let places = places(base.path());
    let is_there = |(files, segment): &(Vec<PathBuf>, u32)| {
        (files.iter().filter(|file| file.exists()).count(), segment_exists(*segment))
    };
    // By its owner, when that is alive.
    let cluster = Cluster::create(ClusterSpec::new(&places, install(Major::V18))).expect("made");
    let server = cluster.start().expect("started");
    let (data_dir, params) = (server.data_dir(), server.connect_params("postgres"));
    let other = Cluster::create(ClusterSpec::new(&places, install(Major::V18))).expect("made");
    let bystander = other.start().expect("started");
    let others = in_shared_memory(&bystander.data_dir());
    let had = kill_all(server.postmaster_pid(), &data_dir, &params);
    assert_eq!(is_there(&had), (had.0.len(), true), "a killed server leaves it: {had:?}");
    server.stop().expect("stopped");
    assert_eq!(is_there(&had), (0, false));
    assert_eq!(is_there(&others), (others.0.len(), true), "a living server keeps its own");
    drop((bystander, other, cluster));

    // By the next start, when the owner was killed as well.
    let mut owner = Owner::start(base.path(), None);
    let data_dir = owner.dir.join("data");
    let socket =
        ConnectParams::unix_socket(&owner.dir.join("socket"), 5432, "postgres", "postgres");
    let had = kill_all(owner.postmaster, &data_dir, &socket);
    owner.kill();
    assert_eq!(is_there(&had), (had.0.len(), true), "a killed server leaves it: {had:?}");
    assert_eq!(sweep(&places).expect("swept").removed, [owner.dir.clone()]);
    assert_eq!(is_there(&had), (0, false));
}

#[test]
fn a_cluster_with_a_directory_of_its_own_outlives_its_owner() {
    let base = open_dir();
    let places = places(base.path());
    let dir = base.path().join("mine");
    let mut owner = Owner::start(base.path(), Some(&dir));
    let mut spec = ClusterSpec::new(&places, install(Major::V18));
    spec.dir = Some(dir.clone());
    let held = Cluster::open(spec.clone()).expect_err("held by the owner");
    assert!(
        matches!(held, ClusterError::InUse { pid, .. } if pid == Some(owner.process.id())),
        "{held}"
    );
    signal(owner.postmaster, Signal::SIGSTOP);
    owner.kill();

    let cluster = Cluster::open(spec.clone()).expect("opened");
    assert!(!lives(owner.postmaster), "opening stops what a crash left");
    let server = cluster.start().expect("recovers");
    assert!(matches!(cluster.start(), Err(ClusterError::Running { .. })));
    assert_eq!(server.stop().expect("stopped"), StopMode::Fast);
    drop(cluster);
    assert!(dir.join("data/PG_VERSION").exists());

    assert!(matches!(Cluster::create(spec), Err(ClusterError::NotEmpty { .. })));
}

#[test]
fn the_death_of_a_server_is_reported_with_its_last_words() {
    let base = open_dir();
    let places = places(base.path());
    let cluster = Cluster::create(ClusterSpec::new(&places, install(Major::V18))).expect("made");
    let server = cluster.start().expect("started");
    let mut watch = server.exit_watch();
    let runtime = runtime();
    runtime.block_on(async {
        let client = connect(&server.connect_params("postgres")).await.expect("connected");
        let busy = tokio::spawn(async move {
            client.batch_execute("do $$ begin loop null; end loop; end $$").await
        });
        signal(server.postmaster_pid(), Signal::SIGKILL);
        watch.changed().await.expect("told");
        assert_eq!(watch.borrow().map(|exit| exit.signal), Some(Some(9)));
        assert_eq!(
            server.try_exit().map(|exit| exit.to_string()).as_deref(),
            Some("was killed by SIGKILL")
        );
        busy.abort();
    });
    assert!(server.log_tail(50).iter().any(|line| line.contains("ready to accept connections")));
    let data_dir = server.data_dir();
    server.stop().expect("cleaned up");
    assert!(at_home_in(&data_dir).is_empty(), "also the backend that was busy");
    let again = cluster.start().expect("recovers");
    drop(again);
    assert!(at_home_in(&data_dir).is_empty());
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let base = open_dir();
    let places = places(base.path());
    let mut spec = ClusterSpec::new(&places, install(Major::V18));
    spec.settings = vec![("shared_buffers".into(), "1TB".into())];
    let cluster = Cluster::create(spec).expect("made");
    let error = cluster.start().expect_err("too much memory").to_string();
    assert!(
        error.contains("lower shared_buffers") && error.contains("exited with code 1"),
        "{error}"
    );
    cluster.set_settings(vec![("no_such_setting".into(), "1".into())]).expect("a valid name");
    let error = cluster.start().expect_err("unknown").to_string();
    assert!(error.contains("does not know one of the settings"), "{error}");
    assert!(error.contains("no_such_setting"), "{error}");
    assert!(!error.contains("Cannot allocate"), "only this start's log: {error}");
    cluster.set_settings(Vec::new()).expect("valid");
    cluster.start().expect("starts after all").stop().expect("stopped");
}

#[test]
fn two_clusters_run_side_by_side_and_a_long_path_is_no_obstacle() {
    let base = open_dir();
    let deep = base.path().join("a-rather-long-name-for-a-directory".repeat(3));
    let places = places(&deep);
    let spec = ClusterSpec::new(&places, install(Major::V18));
    let (one, two) =
        (Cluster::create(spec.clone()).expect("made"), Cluster::create(spec).expect("made"));
    let (first, second) = (one.start().expect("started"), two.start().expect("started"));
    let socket_dir = first.socket_dir().to_owned();
    assert!(!socket_dir.starts_with(one.dir()), "a short directory elsewhere");
    runtime().block_on(async {
        for server in [&first, &second] {
            let client = connect(&server.connect_params("postgres")).await.expect("connected");
            let row = client
                .query_one("select current_setting('data_directory')", &[])
                .await
                .expect("row");
            assert_eq!(row.get::<String>(0).unwrap(), server.data_dir().display().to_string());
        }
    });
    assert_eq!(second.stop_immediately().expect("stopped"), StopMode::Immediate);
    drop((first, one));
    assert!(!socket_dir.exists());
}

/// As root the tests run servers as another user; this one runs all of
/// walwright as an ordinary user.
#[test]
fn an_ordinary_user_can_do_it_all() {
    let base = open_dir();
    let user = ServerUser::detect().expect("a user");
    if !user.is_dropped() {
        return;
    }
    let program = base.path().join("test-program");
    fs::copy(std::env::current_exe().expect("this program"), &program).expect("copied");
    let cache = base.path().join("cache");
    fs::create_dir(&cache).expect("mkdir");
    user.own(&cache).expect("chown");
    let meta = fs::metadata(&cache).expect("stat");
    let mut process = Command::new(&program)
        .args(["--exact", "crashes::ordinary_user_process", "--nocapture"])
        .env(ORDINARY, &cache)
        .env("WALWRIGHT_TEST_BIN", install(Major::V18).bin_dir())
        .env("HOME", "/nonexistent")
        .current_dir("/")
        .gid(meta.gid())
        .uid(meta.uid())
        .spawn()
        .expect("spawned");
    assert!(process.wait().expect("ended").success());
}

/// Tells a copy of this test program to go through a cluster's life.
const ORDINARY: &str = "WALWRIGHT_TEST_ORDINARY";

#[test]
fn ordinary_user_process() {
    let Some(cache) = std::env::var_os(ORDINARY) else {
        return;
    };
    let places = Places::open(Some(cache.into())).expect("places");
    assert!(!places.user().is_dropped());
    let bin = PathBuf::from(std::env::var_os("WALWRIGHT_TEST_BIN").expect("set"));
    let install = walwright_server::Install::from_bin_dir(&bin).expect("runs");
    let cluster = Cluster::create(ClusterSpec::new(&places, install)).expect("made");
    let server = cluster.start().expect("started");
    runtime().block_on(async {
        connect(&server.connect_params("postgres")).await.expect("connected");
    });
    server.stop().expect("stopped");
    let snapshot = cluster.dir().with_extension("snapshot");
    walwright_server::Snapshot::take(&cluster, &snapshot)
        .and_then(|(snapshot, _)| snapshot.restore(&cluster))
        .expect("snapshot and back");
    cluster.start().expect("starts").stop().expect("stopped");
}
