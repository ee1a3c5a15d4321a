//! walwright killed at random moments while it changes an attached server, and what is left
//! there after `walwright config rollback`.
//!
//! A test of the command is made of this file too, so it needs nothing of its neighbours.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::Value;
use walwright_server::{Cluster, ClusterSpec, ConnectParams, Install, Places, RunningCluster};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked at.
const POLL: Duration = Duration::from_millis(10);
/// Rollbacks that are tried before one that fails is told.
const TRIES: usize = 6;

/// What stands in `postgresql.auto.conf` before: what is changed, and what makes it hard to
/// bring the lines back in their order.
const STANDING: [&str; 8] = [
    "work_mem = '5MB'",
    "shared_preload_libraries = 'pg_stat_statements', 'auto_explain'",
    "wal_writer_delay = '150ms'",
    "primary_conninfo = 'host=x password=hush'",
    "search_path = \"$user\", public",
    "commit_siblings = 7",
    "archive_command = 'copy \\ it''s'",
    "jit = off",
];

/// Lines of profiles that are applied.
const PROFILE: [&str; 7] = [
    "PG_WORK_MEM=9MB",
    "PG_MAX_WAL_SIZE=2GB",
    "PG_COMMIT_DELAY=3000",
    "PG_COMMIT_SIBLINGS=3",
    "PG_WAL_WRITER_DELAY=300ms",
    "PG_CHECKPOINT_TIMEOUT=10min",
    "PG_JIT=on",
];

/// Arms of experiments.
const ARMS: [&str; 4] = [
    "settings = { commit_delay = 3000, commit_siblings = 0, work_mem = \"9MB\" }",
    "ddl = [{ sql = \"CREATE INDEX extra ON counter (n)\", undo = \"DROP INDEX extra\" }]",
    "ddl = [{ sql = \"CREATE INDEX CONCURRENTLY beside ON counter (n)\", undo = \"DROP INDEX beside\" }]",
    "settings = { wal_writer_delay = \"400ms\" }\nddl = [{ sql = \"ALTER TABLE counter SET (fillfactor = 60)\", undo = \"ALTER TABLE counter RESET (fillfactor)\" }]",
];

/// All that is to be as it was, a line each.
const STATE: &str = "
    SELECT concat('setting ', name, ' = ', setting, ' of ', source, ' line ',
                  CASE WHEN context <> 'postmaster' THEN sourceline END, ' pending ', pending_restart)
      FROM pg_settings WHERE name !~ '^transaction'
    UNION ALL SELECT concat('role ', r, ' ', s.setconfig)
      FROM pg_authid r LEFT JOIN pg_db_role_setting s ON s.setrole = r.oid
    UNION ALL SELECT concat('relation ', c.oid::regclass, ' ', relkind, ' ', relpersistence, ' ',
                            reloptions, ' ', relowner::regrole)
      FROM pg_class c WHERE relnamespace <> 'pg_toast'::regnamespace
    UNION ALL SELECT concat('index ', pg_get_indexdef(indexrelid), ' valid ', indisvalid)
      FROM pg_index WHERE indrelid >= 16384
    UNION ALL SELECT concat('database ', datname, ' ', datconnlimit) FROM pg_database
    UNION ALL SELECT concat('extension ', extname) FROM pg_extension
    UNION ALL SELECT concat('reset ', datname, ' ', stats_reset) FROM pg_stat_database
    UNION ALL SELECT concat('reset wal ', stats_reset) FROM pg_stat_wal
    UNION ALL SELECT concat('reset writer ', stats_reset) FROM pg_stat_bgwriter
    UNION ALL SELECT concat('reset archiver ', stats_reset) FROM pg_stat_archiver
    ORDER BY 1";

/// Sessions and locks of walwright.
const AT_IT: &str = "SELECT concat('session ', pid, ' ', application_name, ' ', query)
      FROM pg_stat_activity WHERE application_name ~ '^walwright' AND pid <> pg_backend_pid()
    UNION ALL SELECT concat('lock of ', pid) FROM pg_locks WHERE locktype = 'advisory'";

/// What is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `config apply`.
    Apply,
    /// The same while the server is restarted for it.
    ApplyWithRestart,
    /// `config rollback`, several times.
    Rollback,
    /// `experiment`.
    Experiment,
    /// `tune`.
    Tune,
    /// Two labs that come at once.
    TwoLabs,
    /// One of these, and its owner restarts the server in between.
    ServerRestarted,
}

impl Kind {
    /// All, of which those that take long come less often.
    pub const ALL: [Kind; 10] = [
        Kind::Apply,
        Kind::Rollback,
        Kind::Experiment,
        Kind::TwoLabs,
        Kind::ApplyWithRestart,
        Kind::Rollback,
        Kind::ServerRestarted,
        Kind::TwoLabs,
        Kind::Tune,
        Kind::Apply,
    ];
}

/// What one cycle showed.
#[derive(Debug)]
pub struct Cycle {
    /// What was killed.
    pub kind: Kind,
    /// What the server did not have as before, a line each.
    pub differences: Vec<String>,
    /// Change sets that were rolled back.
    pub rolled_back: usize,
    /// Rollbacks that were killed before they had ended.
    pub cut: usize,
    /// What was said by those that failed before they were killed: refused, most of them,
    /// since another lab was first, or the server was away.
    pub ended: Vec<String>,
}

/// Numbers that a seed decides (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn millis(&mut self, most: usize) -> Duration {
        Duration::from_millis(self.below(most) as u64)
    }

    /// Some of these, one at least, in their order.
    fn some<'a>(&mut self, of: &[&'a str]) -> Vec<&'a str> {
        let always = self.below(of.len());
        let bits = self.next();
        let chosen = of.iter().enumerate();
        chosen.filter(|(at, _)| *at == always || bits >> at & 1 == 1).map(|(_, one)| *one).collect()
    }
}

/// How long a command takes when nobody kills it, so that kills meet all of it.
#[derive(Clone, Copy)]
struct Taken(Duration);

impl Taken {
    fn learn(&mut self, took: Duration) {
        self.0 = self.0.mul_f64(0.7) + took.mul_f64(0.3);
    }

    fn within(self, random: &mut Random) -> Duration {
        Duration::from_micros(random.next() % (1 + self.0.as_micros() as u64))
    }
}

/// An attached server, restarted by its owner when a file asks for it.
struct Owned {
    running: Arc<Mutex<Option<RunningCluster>>>,
    done: Arc<AtomicBool>,
    owner: Option<JoinHandle<()>>,
    wish: PathBuf,
    data: PathBuf,
    params: ConnectParams,
    dsn: String,
    runtime: tokio::runtime::Runtime,
}

impl Owned {
    fn new(places: &Places, install: Install, place: &Path) -> anyhow::Result<Owned> {
        let cluster = Cluster::create(ClusterSpec::new(places, install))?;
        let running = cluster.start()?;
        let (params, data) = (running.connect_params("postgres"), running.data_dir());
        let (socket, port) = (running.socket_dir().display().to_string(), running.port());
        let (wish, done) = (place.join("wish"), Arc::new(AtomicBool::new(false)));
        let running = Arc::new(Mutex::new(Some(running)));
        let owner = std::thread::spawn({
            let (running, done, wish) = (Arc::clone(&running), Arc::clone(&done), wish.clone());
            move || {
                while !done.load(Ordering::Acquire) {
                    if wish.exists() {
                        let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
                        if let Some(running) = running.take()
                            && let Err(error) = running.stop()
                        {
                            eprintln!("the server did not stop: {error}");
                        }
                        match cluster.start() {
                            Ok(started) => *running = Some(started),
                            Err(error) => eprintln!("the server did not start: {error}"),
                        }
                        let _ = fs::remove_file(&wish);
                    }
                    std::thread::sleep(POLL);
                }
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let dsn = format!("host={socket} port={port} user=postgres dbname=postgres");
        let owner = Some(owner);
        Ok(Owned { running, done, owner, wish, data, params, dsn, runtime })
    }

    /// The command that restarts it.
    fn restart(&self) -> String {
        let wish = self.wish.display();
        format!(": > {wish}; while [ -e {wish} ]; do sleep 0.02; done")
    }

    /// The rows of one column that a query gives.
    fn ask(&self, sql: &str) -> anyhow::Result<Vec<String>> {
        self.runtime.block_on(async {
            let params = self.params.clone().with_application_name("its owner");
            let client = walwright_server::connect_for_workload(&params).await?;
            let rows = client.query(sql, &[]).await.with_context(|| sql.to_owned())?;
            Ok(rows.iter().map(|row| row.get(0)).collect::<Result<_, _>>()?)
        })
    }

    fn execute(&self, sql: &str) -> anyhow::Result<()> {
        self.runtime.block_on(async {
            let client = walwright_server::connect_for_workload(&self.params).await?;
            client.batch_execute(sql).await.with_context(|| sql.to_owned())
        })
    }

    /// All that is to be as it was.
    fn state(&self) -> anyhow::Result<Vec<String>> {
        let file = fs::read_to_string(self.data.join("postgresql.auto.conf"))?;
        let file = file.lines().enumerate().map(|(at, line)| format!("file {:3} {line}", at + 1));
        Ok(file.chain(self.ask(STATE)?).collect())
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Release);
        if let Some(owner) = self.owner.take() {
            let _ = owner.join();
        }
        drop(self.running.lock().map(|mut running| running.take()));
    }
}

/// The command with a lab of its own and its arguments.
type Walwright = Box<dyn Fn(&Path, &[&str]) -> Command>;

/// Cycles on one server.
pub struct Kills {
    server: Owned,
    walwright: Walwright,
    random: Random,
    place: PathBuf,
    cycles: usize,
    /// Of an apply, of one with a restart, and of a rollback.
    taken: [Taken; 3],
}

impl Kills {
    /// A server in `place`, which `walwright` is to change and be killed at.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(
        places: &Places,
        install: Install,
        place: &Path,
        seed: u64,
        walwright: Walwright,
    ) -> anyhow::Result<Kills> {
        let server = Owned::new(places, install, place)?;
        for setting in STANDING {
            server.execute(&format!("ALTER SYSTEM SET {setting}"))?;
        }
        server.execute("CREATE TABLE counter (id int PRIMARY KEY, n bigint)")?;
        server.execute("INSERT INTO counter SELECT g, 0 FROM generate_series(1, 100) g")?;
        let kills = Kills {
            server,
            walwright,
            random: Random(seed),
            place: place.to_owned(),
            cycles: 0,
            taken: [150, 1_000, 150].map(|ms| Taken(Duration::from_millis(ms))),
        };
        kills.restart()?;
        let script = "\\set id random(1, 100)\nUPDATE counter SET n = n + 1 WHERE id = :id;\n";
        fs::write(place.join("count.sql"), script)?;
        Ok(kills)
    }

    /// Has its owner restart the server.
    fn restart(&self) -> anyhow::Result<()> {
        fs::write(&self.server.wish, "")?;
        self.settled()
    }

    /// Waits until nothing is under way.
    fn settled(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.server.wish.exists() {
            if Instant::now() > deadline {
                bail!("the server is not restarted");
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Kills once, rolls back, and compares.
    ///
    /// # Errors
    /// When the server cannot be asked, or the command not be run.
    pub fn cycle(&mut self, kind: Kind) -> anyhow::Result<Cycle> {
        self.cycles += 1;
        let before = self.server.state()?;
        let labs: Vec<PathBuf> = (0..if kind == Kind::TwoLabs { 2 } else { 1 })
            .map(|lab| self.place.join(format!("lab-{}-{lab}", self.cycles)))
            .collect();
        let begun_at = Instant::now();
        let (mut children, mut ended) = (Vec::new(), Vec::new());
        for lab in &labs {
            let begun = self.chosen(kind);
            children.push((lab.clone(), begun, self.begin(begun, lab)?));
        }
        if kind == Kind::ServerRestarted && self.random.below(2) == 0 {
            std::thread::sleep(self.random.millis(1_500));
            fs::write(&self.server.wish, "")?;
        }
        if kind == Kind::Rollback {
            for (_, begun, child) in &mut children {
                finish(child)?;
                self.taken[usize::from(*begun == Kind::ApplyWithRestart)].learn(begun_at.elapsed());
            }
        } else {
            let chosen = self.random.below(children.len());
            let (lab, begun, child) = &mut children[chosen];
            self.moment(lab, *begun, child)?;
        }
        for (_, _, child) in &mut children {
            ended.extend(end(child)?);
            if self.random.below(2) == 0 {
                std::thread::sleep(self.random.millis(30));
            }
        }
        if kind == Kind::ServerRestarted && self.random.below(2) == 0 {
            fs::write(&self.server.wish, "")?;
            std::thread::sleep(self.random.millis(700));
        }
        let mut differences = Vec::new();
        let (mut rolled_back, mut cut) = (0, 0);
        let mut labs = labs;
        // What one built on the other's goes first.
        labs.sort_by_key(|lab| std::cmp::Reverse(self.last_begun(lab)));
        for lab in &labs {
            if kind == Kind::Rollback || self.random.below(4) == 0 {
                for _ in 0..=self.random.below(4) {
                    let mut child = self.rollback(lab)?;
                    std::thread::sleep(self.taken[2].within(&mut self.random));
                    cut += usize::from(child.try_wait()?.is_none());
                    end(&mut child)?;
                }
            }
            match self.roll_back(lab) {
                Ok(sets) => rolled_back += sets,
                Err(error) => differences.push(format!("rollback: {error:#}")),
            }
        }
        self.settled()?;
        differences.extend(self.left()?);
        let after = self.server.state()?;
        let gone = before.iter().filter(|line| !after.contains(line));
        differences.extend(gone.map(|line| format!("- {line}")));
        let new = after.iter().filter(|line| !before.contains(line));
        differences.extend(new.map(|line| format!("+ {line}")));
        Ok(Cycle { kind, differences, rolled_back, cut, ended })
    }

    /// What of walwright is still there when it should be gone.
    fn left(&self) -> anyhow::Result<Vec<String>> {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let left = self.server.ask(AT_IT)?;
            if left.is_empty() || Instant::now() > deadline {
                return Ok(left);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// What of a kind is begun.
    fn chosen(&mut self, kind: Kind) -> Kind {
        let all: &[Kind] = match kind {
            Kind::TwoLabs | Kind::ServerRestarted => {
                &[Kind::Apply, Kind::ApplyWithRestart, Kind::Experiment]
            }
            Kind::Rollback => &[Kind::Apply, Kind::Apply, Kind::ApplyWithRestart],
            _ => return kind,
        };
        all[self.random.below(all.len())]
    }

    /// Waits until what was begun is to be killed.
    fn moment(&mut self, lab: &Path, begun: Kind, child: &mut Child) -> anyhow::Result<()> {
        let after = match begun {
            Kind::Experiment | Kind::Tune => {
                let lines = 1 + self.random.below(12);
                await_lines(&lab.join("changes.jsonl"), lines, child)?;
                let within = if self.random.below(5) == 0 { 2_000 } else { 40 };
                self.random.millis(within)
            }
            begun => {
                self.taken[usize::from(begun == Kind::ApplyWithRestart)].within(&mut self.random)
            }
        };
        std::thread::sleep(after);
        Ok(())
    }

    /// Starts what is to be killed.
    fn begin(&mut self, kind: Kind, lab: &Path) -> anyhow::Result<Child> {
        let (dsn, restart) = (self.server.dsn.clone(), self.server.restart());
        let file = lab.with_extension("plan");
        let path = file.display().to_string();
        match kind {
            Kind::Experiment => {
                let mut text = "blocks = 1\n[workload]\nfiles = [\"count.sql\"]\n[load]\n\
                    clients = 2\nduration = \"1s\"\nwarmup = \"1s\"\n"
                    .to_owned();
                for (at, arm) in self.random.some(&ARMS).iter().enumerate() {
                    text.push_str(&format!("[[arm]]\nname = \"arm {at}\"\n{arm}\n"));
                }
                fs::write(&file, text)?;
                self.spawn(lab, &["experiment", &path, "--dsn", &dsn, "--maintenance"])
            }
            Kind::Tune => {
                let script = self.place.join("count.sql").display().to_string();
                let load = ["--clients=2", "--duration=1s", "--warmup=1s", "--runs=8", "--seed=3"];
                let only =
                    ["--only=commit_delay", "--only=commit_siblings", "--only=wal_writer_delay"];
                let there = ["tune", "--file", &script, "--dsn", &dsn, "--maintenance"];
                self.spawn(lab, &[&there[..], &load, &only].concat())
            }
            kind => {
                let mut lines = self.random.some(&PROFILE);
                let restarts = kind == Kind::ApplyWithRestart;
                if restarts {
                    lines.push("PG_SHARED_BUFFERS=160MB");
                }
                fs::write(&file, lines.join("\n") + "\n")?;
                let apply = ["config", "apply", &path, "--dsn", &dsn, "--yes", "--no-kernel"];
                let with = ["--restart-command", &restart];
                let with = if restarts { &with[..] } else { &[] };
                self.spawn(lab, &[&apply[..], with].concat())
            }
        }
    }

    fn rollback(&self, lab: &Path) -> anyhow::Result<Child> {
        let (dsn, restart) = (&self.server.dsn, self.server.restart());
        let args = ["--json", "config", "rollback", "--dsn", dsn, "--restart-command", &restart];
        self.spawn(lab, &args)
    }

    /// When the last change set of a lab was begun.
    fn last_begun(&self, lab: &Path) -> u64 {
        let text = fs::read_to_string(lab.join("changes.jsonl")).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let begun = lines.filter(|event| event["event"] == "begin");
        begun.filter_map(|event| event["at"].as_u64()).max().unwrap_or(0)
    }

    /// Rolls back until nothing is left; how many sets it were.
    fn roll_back(&mut self, lab: &Path) -> anyhow::Result<usize> {
        let (mut sets, mut failed) = (0, 0);
        loop {
            let begun = Instant::now();
            let output = self.rollback(lab)?.wait_with_output()?;
            let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            match (output.status.code(), answer.get("undone")) {
                (Some(0), Some(Value::Null)) => return Ok(sets),
                // 5: of a statement that was cut short nobody can tell. What is there tells.
                (Some(0 | 5), _) => {
                    sets += 1;
                    self.taken[2].learn(begun.elapsed());
                }
                _ if failed < TRIES => failed += 1,
                _ => bail!("{}", String::from_utf8_lossy(&output.stderr).trim()),
            }
        }
    }

    fn spawn(&self, lab: &Path, args: &[&str]) -> anyhow::Result<Child> {
        let mut command = (self.walwright)(lab, args);
        command.current_dir(&self.place).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command.spawn()?)
    }
}

/// Waits until a file has as many lines, or the process has ended.
fn await_lines(file: &Path, lines: usize, child: &mut Child) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while fs::read_to_string(file).unwrap_or_default().lines().count() < lines {
        if child.try_wait()?.is_some() || Instant::now() > deadline {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Waits for the end of a process.
fn finish(child: &mut Child) -> anyhow::Result<()> {
    child.wait()?;
    Ok(())
}

/// Kills a process, unless it has ended; what it said where it failed by itself.
fn end(child: &mut Child) -> anyhow::Result<Option<String>> {
    // SIGKILL, as Child does it.
    let _ = child.kill();
    let status = child.wait()?;
    if status.code().is_none_or(|code| code == 0) {
        return Ok(None);
    }
    let mut said = String::new();
    if let Some(mut errors) = child.stderr.take() {
        errors.read_to_string(&mut said)?;
    }
    Ok(Some(said.trim().to_owned()))
}
