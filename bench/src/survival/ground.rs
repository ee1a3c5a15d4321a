//! A server, a gateway, and what is between them.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use tokio::task::block_in_place;
use tokio::time::sleep;
use tokio_postgres::error::Severity;
use tokio_postgres::{Client, SimpleQueryMessage};
use walwright_server::{
    Cluster, ClusterSpec, Install, Installs, Major, Places, RunningCluster, sweep,
};

use super::load::{connect, connect_to};
use super::{Kind, SmallDisk, standby};
use crate::{GatewayPlaces, GatewayProcess, GatewaySettings, Link, ledger, resident_bytes};

/// Longest until all is as it was.
const PATIENCE: Duration = Duration::from_secs(30);
/// Name of the sessions that look and judge.
const JUDGE: &str = "judge";
/// Size of the disk that the tables are on, and of the WAL's.
const MEGABYTES: u32 = 48;
const WAL_MEGABYTES: u32 = 160;
/// What keeps the WAL within that.
const SMALL_WAL: [(&str, &str); 3] =
    [("max_wal_size", "64MB"), ("min_wal_size", "32MB"), ("wal_keep_size", "0")];
/// Segments of WAL after which a disk would be full if it could be.
const MOST_SEGMENTS: usize = 100;
/// Which sessions are the gateway's.
const ITS_SESSIONS: &str =
    "FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name <> 'judge'";

/// What a ground is like.
#[derive(Debug, Clone, Copy)]
pub struct GroundRules {
    /// Settings of the gateway.
    pub settings: GatewaySettings,
    /// Commits are told of before they are durable, which must be found.
    pub early_answers: bool,
    /// Answers are given to others than those they are for, which must be found.
    pub crosses: bool,
}

/// A server, a gateway, and what is between them.
pub struct Ground {
    rules: GroundRules,
    base: tempfile::TempDir,
    install: Install,
    server: Option<RunningCluster>,
    /// Between gateway and server.
    link: Link,
    /// Between clients and gateway.
    near_link: Link,
    gateway: GatewayProcess,
    judge: Client,
    standby: Option<RunningCluster>,
    standbys: u32,
    /// The server, while it is lost.
    lost: Option<Cluster>,
    disk: Option<SmallDisk>,
    wal_disk: Option<SmallDisk>,
}

impl Ground {
    /// A new server with a gateway.
    ///
    /// # Errors
    /// When one does not start.
    pub async fn new(rules: GroundRules) -> anyhow::Result<Ground> {
        let places = Places::open(None)?;
        sweep(&places)?;
        let install = Installs::within(places.clone()).ensure(Major::V18, &mut |_| {})?;
        let mut spec = ClusterSpec::new(&places, install.clone());
        spec.settings = [
            // What is not flushed for a client's sake is not flushed for a while.
            ("wal_writer_delay", "10s"),
            ("shared_buffers", "32MB"),
            ("max_wal_size", "256MB"),
            ("wal_keep_size", "512MB"),
            ("autovacuum", "off"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let server = block_in_place(|| Cluster::create(spec)?.start())?;
        let judge = connect(server.socket_dir(), server.port(), JUDGE).await?;
        judge.batch_execute("SET synchronous_commit = local").await?;
        ledger::create(&judge).await?;
        if rules.early_answers {
            judge.batch_execute("ALTER ROLE postgres SET synchronous_commit = off").await?;
        }
        let base = tempfile::tempdir_in("/var/tmp")?;
        for name in ["gateway", "link", "near"] {
            std::fs::create_dir(base.path().join(name))?;
        }
        let disk = match small_disk(&base.path().join("disk"), &judge).await {
            Ok(disk) => Some(disk),
            Err(error) => {
                eprintln!("no disk can be full: {error:#}");
                None
            }
        };
        let link = Link::start(&base.path().join("link"), server.socket_dir(), server.port())?;
        let mut places = GatewayPlaces::new(&server, &base.path().join("gateway"));
        link.directory().clone_into(&mut places.server);
        let gateway = block_in_place(|| GatewayProcess::start_in(&places, rules.settings))?;
        let (place, port) = gateway.place();
        let near = base.path().join("near");
        let near_link = if rules.crosses {
            Link::start_crossing(&near, place, port)?
        } else {
            Link::start(&near, place, port)?
        };
        let standbys = 0;
        let server = Some(server);
        let standby = None;
        Ok(Ground {
            rules,
            base,
            install,
            server,
            link,
            near_link,
            gateway,
            judge,
            standby,
            standbys,
            lost: None,
            disk,
            wal_disk: None,
        })
    }

    /// Where clients connect: at the gateway itself, and where the connection may be cut.
    pub fn places(&self) -> (Vec<PathBuf>, u16) {
        let (place, port) = self.gateway.place();
        (vec![place.to_owned(), self.near_link.directory().to_owned()], port)
    }

    /// The gateway.
    pub fn gateway(&self) -> &GatewayProcess {
        &self.gateway
    }

    /// A session of the server itself.
    pub fn judge(&self) -> &Client {
        &self.judge
    }

    fn server(&self) -> anyhow::Result<&RunningCluster> {
        self.server.as_ref().context("a server")
    }

    /// Whether something of this kind happened; of a kind that happens to no client.
    ///
    /// # Errors
    /// When the gateway or the server does not go on.
    pub async fn strike(
        &mut self,
        kind: Kind,
        random: &mut Xoshiro256PlusPlus,
    ) -> anyhow::Result<bool> {
        let pause = Duration::from_micros(random.random_range(0..30_000));
        match kind {
            Kind::SessionTerminated => self.terminate("<>").await,
            Kind::BarrierTerminated => self.terminate("=").await,
            Kind::ServerLinkCut => self.cut(random, |ground| &ground.link).await,
            Kind::ClientLinkCut => self.cut(random, |ground| &ground.near_link).await,
            Kind::ServerLinksCut => {
                self.link.cut_all();
                Ok(true)
            }
            Kind::ServerRestarted | Kind::ServerCrashed => {
                self.restart_server(kind == Kind::ServerCrashed, pause).await?;
                Ok(true)
            }
            Kind::GatewayKilled | Kind::GatewayRestarted => {
                block_in_place(|| {
                    match kind {
                        Kind::GatewayKilled => self.gateway.kill(),
                        _ => self.gateway.end(),
                    }
                    std::thread::sleep(pause);
                });
                self.start_gateway()?;
                Ok(true)
            }
            Kind::DiskFull => {
                let Some(disk) = &self.disk else { return Ok(false) };
                block_in_place(|| disk.fill())?;
                sleep(4 * pause).await;
                disk.empty()?;
                Ok(true)
            }
            Kind::WalDiskFull => self.fill_wal_disk(pause).await,
            Kind::StandbyLost => {
                let standby = self.standby.take().context("a standby")?;
                let cluster = standby.cluster().clone();
                self.standby = Some(block_in_place(|| {
                    standby.stop_immediately()?;
                    std::thread::sleep(pause);
                    cluster.start()
                })?);
                self.until_confirmed().await?;
                Ok(true)
            }
            Kind::StandbyDismissed => {
                self.name_standbys("").await?;
                sleep(pause).await;
                self.name_standbys("*").await?;
                self.until_confirmed().await?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    async fn terminate(&self, barrier: &str) -> anyhow::Result<bool> {
        let sql = format!(
            "SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid {ITS_SESSIONS} AND \
             application_name {barrier} 'walwright barrier' ORDER BY random() LIMIT 1) s"
        );
        let count: i64 = self.judge.query_one(&sql, &[]).await?.get(0);
        Ok(count > 0)
    }

    async fn cut(
        &self,
        random: &mut Xoshiro256PlusPlus,
        link: impl Fn(&Ground) -> &Link,
    ) -> anyhow::Result<bool> {
        link(self).cut_after(random.random_range(0..5000));
        let begun = Instant::now();
        while !link(self).was_cut() && begun.elapsed() < PATIENCE {
            sleep(Duration::from_micros(500)).await;
        }
        Ok(link(self).was_cut())
    }

    async fn restart_server(&mut self, crashes: bool, pause: Duration) -> anyhow::Result<()> {
        let server = self.server.take().context("a server")?;
        let cluster = server.cluster().clone();
        self.server = Some(block_in_place(|| {
            if crashes { server.stop_immediately() } else { server.stop() }?;
            std::thread::sleep(pause);
            cluster.start()
        })?);
        let server = self.server()?;
        self.judge = connect(server.socket_dir(), server.port(), JUDGE).await?;
        self.judge.batch_execute("SET synchronous_commit = local").await?;
        Ok(())
    }

    /// Has the server write WAL until there is no place for it, then makes place. Whether it
    /// panicked.
    async fn fill_wal_disk(&mut self, pause: Duration) -> anyhow::Result<bool> {
        let Some(disk) = &self.wal_disk else { return Ok(false) };
        block_in_place(|| disk.fill())?;
        let mut panicked = false;
        for _ in 0..MOST_SEGMENTS {
            // Segments that were there before it was full are used up.
            let write = "SELECT pg_logical_emit_message(false, 'full', 'x'), pg_switch_wal()";
            let written = self.judge.batch_execute(write);
            let written = tokio::time::timeout(PATIENCE, written).await.context("WAL")?;
            // An error alone would leave the session.
            let severity = |error: &tokio_postgres::Error| error.as_db_error()?.parsed_severity();
            panicked = written.is_err_and(|error| severity(&error) != Some(Severity::Error));
            if panicked {
                break;
            }
        }
        sleep(4 * pause).await;
        disk.empty()?;
        self.come_back().await?;
        Ok(panicked)
    }

    /// Waits until the server that panicked is there again; it is started where it gave up.
    async fn come_back(&mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            if self.server()?.try_exit().is_some() {
                return self.restart_server(true, Duration::ZERO).await;
            }
            let server = self.server()?;
            let error = match connect(server.socket_dir(), server.port(), JUDGE).await {
                Ok(judge) => {
                    self.judge = judge;
                    let own = "SET synchronous_commit = local";
                    return Ok(self.judge.batch_execute(own).await?);
                }
                Err(error) => error,
            };
            ensure!(begun.elapsed() < PATIENCE, "the server does not come back: {error}");
            sleep(Duration::from_millis(2)).await;
        }
    }

    /// Puts the WAL on a disk that can be full, where one may be mounted.
    ///
    /// # Errors
    /// When the server does not go on there.
    pub async fn confine_wal(&mut self) -> anyhow::Result<()> {
        let disk = match SmallDisk::mount(&self.base.path().join("wal"), WAL_MEGABYTES) {
            Ok(disk) => disk,
            Err(error) => {
                eprintln!("the WAL's disk cannot be full: {error:#}");
                return Ok(());
            }
        };
        open_to_all(self.base.path())?;
        let (install, data) = (self.install.clone(), self.server()?.data_dir());
        let own = data.join("pg_wal");
        let place = disk.path().join("pg_wal");
        self.wal_disk = Some(disk);
        let small = SMALL_WAL.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let moves = || {
            copy_wal(&install, &data, &place)?;
            std::fs::remove_dir_all(&own)?;
            Ok(std::os::unix::fs::symlink(&place, &own)?)
        };
        let settings = |all: Vec<_>| all.into_iter().chain(small).collect();
        self.restart_changed(moves, settings).await
    }

    /// Puts the WAL back beside the tables.
    ///
    /// # Errors
    /// When the server does not go on there.
    pub async fn free_wal(&mut self) -> anyhow::Result<()> {
        if self.wal_disk.is_none() {
            return Ok(());
        }
        let (install, data) = (self.install.clone(), self.server()?.data_dir());
        let own = data.join("pg_wal");
        let moves = || {
            let next = own.with_extension("next");
            copy_wal(&install, &data, &next)?;
            std::fs::remove_file(&own)?;
            Ok(std::fs::rename(&next, &own)?)
        };
        let settings = |all: Vec<_>| {
            let kept = all.len().saturating_sub(SMALL_WAL.len());
            all.into_iter().take(kept).collect()
        };
        self.restart_changed(moves, settings).await?;
        self.wal_disk = None;
        Ok(())
    }

    /// Restarts the server, changed meanwhile.
    async fn restart_changed(
        &mut self,
        change: impl FnOnce() -> anyhow::Result<()>,
        settings: impl FnOnce(Vec<(String, String)>) -> Vec<(String, String)>,
    ) -> anyhow::Result<()> {
        let server = self.server.take().context("a server")?;
        let cluster = server.cluster().clone();
        self.server = Some(block_in_place(|| {
            server.stop()?;
            change()?;
            cluster.set_settings(settings(cluster.settings()))?;
            anyhow::Ok(cluster.start()?)
        })?);
        self.come_back().await
    }

    fn start_gateway(&mut self) -> anyhow::Result<()> {
        let mut places = GatewayPlaces::new(self.server()?, self.gateway.place().0);
        self.link.directory().clone_into(&mut places.server);
        let settings = self.rules.settings;
        self.gateway = block_in_place(|| GatewayProcess::start_in(&places, settings))?;
        Ok(())
    }

    /// A client is let in and its write acknowledged: how long that took.
    ///
    /// # Errors
    /// When it is not.
    pub async fn probe(&self) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        let (place, port) = self.gateway.place();
        let mut last = None;
        while begun.elapsed() < PATIENCE {
            let asks = async {
                let client = connect(place, port, "probe").await?;
                client.batch_execute("DELETE FROM hot WHERE id < 0").await
            };
            match tokio::time::timeout(PATIENCE, asks).await.context("the gateway hangs")? {
                Ok(()) => return Ok(begun.elapsed()),
                Err(error) => last = Some(error),
            }
            sleep(Duration::from_millis(1)).await;
        }
        Err(anyhow::anyhow!("the gateway does not serve: {last:?}"))
    }

    /// Gives the server a synchronous standby.
    ///
    /// # Errors
    /// When it cannot be made.
    pub async fn add_standby(&mut self) -> anyhow::Result<()> {
        self.standbys += 1;
        let (name, place) = ("confirms", format!("standby{}", self.standbys));
        let (base, install) = (self.base.path().join(place), self.install.clone());
        // The small disk is of the server alone.
        self.judge.batch_execute(&tables_to("pg_default")).await?;
        self.judge.batch_execute("CHECKPOINT").await?;
        self.judge.batch_execute("DROP TABLESPACE IF EXISTS small").await?;
        self.disk = None;
        let server = self.server()?;
        self.standby = Some(block_in_place(|| standby(server, name, &base, install))?);
        self.name_standbys("*").await?;
        self.until_confirmed().await
    }

    async fn name_standbys(&self, names: &str) -> anyhow::Result<()> {
        let sql = format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'");
        self.judge.batch_execute(&sql).await?;
        self.judge.batch_execute("SELECT pg_reload_conf()").await?;
        let told = format!("SELECT current_setting('synchronous_standby_names') = '{names}'");
        self.until(&self.judge, &told).await?;
        // Whatever a session has read, commits wait for standbys from when the checkpointer has
        // read it too (SyncRepUpdateSyncStandbysDefined), which it does before each checkpoint.
        // The first of two may have begun when it was signalled.
        for _ in 0..2 {
            self.judge.batch_execute("CHECKPOINT").await?;
        }
        Ok(())
    }

    async fn until_confirmed(&self) -> anyhow::Result<()> {
        self.until(
            &self.judge,
            "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync' AND \
             state = 'streaming'",
        )
        .await
    }

    async fn until(&self, client: &Client, sql: &str) -> anyhow::Result<()> {
        let begun = Instant::now();
        while !client.query_one(sql, &[]).await?.get::<_, bool>(0) {
            ensure!(begun.elapsed() < PATIENCE, "it never came to: {sql}");
            sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    /// The server is lost, and the gateway with it.
    ///
    /// # Errors
    /// When the server does not end.
    pub fn lose(&mut self) -> anyhow::Result<()> {
        let server = self.server.take().context("a server")?;
        self.lost = Some(server.cluster().clone());
        block_in_place(|| server.stop_immediately())?;
        self.gateway.kill();
        Ok(())
    }

    /// The standby takes the place of the server that was lost: a session of it.
    ///
    /// # Errors
    /// When it does not.
    pub async fn promote(&mut self) -> anyhow::Result<Client> {
        let standby = self.standby.as_ref().context("a standby")?;
        let promoted = connect(standby.socket_dir(), standby.port(), JUDGE).await?;
        promoted.batch_execute("SELECT pg_promote(true, 60)").await?;
        Ok(promoted)
    }

    /// The server that was lost is back, without a standby, and so is the gateway.
    ///
    /// # Errors
    /// When one does not start.
    pub async fn recover(&mut self) -> anyhow::Result<()> {
        let cluster = self.lost.take().context("a server that was lost")?;
        self.server = Some(block_in_place(|| cluster.start())?);
        let server = self.server()?;
        self.judge = connect(server.socket_dir(), server.port(), JUDGE).await?;
        self.judge.batch_execute("SET synchronous_commit = local").await?;
        self.start_gateway()?;
        self.name_standbys("").await?;
        self.standby = None;
        self.disk = small_disk(&self.base.path().join("disk"), &self.judge).await.ok();
        Ok(())
    }

    /// Waits until nothing of the load is left: what is left open nevertheless, in words.
    ///
    /// # Errors
    /// When nobody can be asked.
    pub async fn settle(&self) -> anyhow::Result<Vec<String>> {
        let begun = Instant::now();
        loop {
            let left = self.left_open().await?;
            if left.is_empty() || begun.elapsed() > PATIENCE {
                return Ok(left);
            }
            sleep(Duration::from_millis(3)).await;
        }
    }

    async fn left_open(&self) -> anyhow::Result<Vec<String>> {
        let sql = format!(
            "SELECT count(*) FILTER (WHERE application_name <> 'walwright barrier'), \
             count(*) FILTER (WHERE application_name = 'walwright barrier'), \
             count(*) FILTER (WHERE state <> 'idle') {ITS_SESSIONS}"
        );
        let row = self.judge.query_one(&sql, &[]).await?;
        let [sessions, barriers, busy] = [0, 1, 2].map(|place| row.get::<_, i64>(place));
        let GatewaySettings { workers, pool_size, .. } = self.rules.settings;
        let most = i64::try_from(2 * workers * pool_size)?;
        let most_barriers = 4 * i64::try_from(workers)?;
        let mut left = Vec::new();
        let mut note = |holds: bool, what: String| left.extend((!holds).then_some(what));
        note(sessions <= most, format!("{sessions} server sessions, of {most} at most"));
        note(barriers <= most_barriers, format!("{barriers} barrier sessions"));
        note(busy == 0, format!("{busy} server sessions are not idle"));
        let (place, port) = self.gateway.place();
        let Ok(console) = connect_to(place, port, "pgbouncer", JUDGE).await else {
            return Ok(vec!["the console does not answer".to_owned()]);
        };
        let clients = shown(&console, "SHOW CLIENTS", |database| database != "pgbouncer").await?;
        note(clients == 0, format!("SHOW CLIENTS has {clients} clients"));
        let servers = shown(&console, "SHOW SERVERS", |_| true).await?;
        note(servers == sessions, format!("SHOW SERVERS has {servers} of {sessions} sessions"));
        Ok(left)
    }

    /// Bytes of memory that the gateway has.
    ///
    /// # Errors
    /// When it has ended.
    pub fn memory(&self) -> anyhow::Result<f64> {
        resident_bytes(self.gateway.pid())
    }
}

/// How many rows of a table of the console there are with such databases.
async fn shown(console: &Client, what: &str, counts: impl Fn(&str) -> bool) -> anyhow::Result<i64> {
    let mut count = 0;
    for message in console.simple_query(what).await? {
        if let SimpleQueryMessage::Row(row) = message {
            count += i64::from(counts(row.get("database").unwrap_or_default()));
        }
    }
    Ok(count)
}

async fn small_disk(at: &Path, judge: &Client) -> anyhow::Result<SmallDisk> {
    let disk = SmallDisk::mount(at, MEGABYTES)?;
    let (base, place) = (disk.path().parent().context("a directory")?, disk.path().join("tables"));
    // The server's user has to get there.
    open_to_all(base)?;
    std::fs::create_dir(&place)?;
    let data: String = judge.query_one("SHOW data_directory", &[]).await?.get(0);
    give_to_server(&place, Path::new(&data))?;
    let create = format!("CREATE TABLESPACE small LOCATION '{}'", place.display());
    judge.batch_execute(&create).await?;
    judge.batch_execute(&tables_to("small")).await?;
    Ok(disk)
}

/// Copies what a server that has stopped in order needs of its WAL: the segment of its last
/// checkpoint.
fn copy_wal(install: &Install, data: &Path, to: &Path) -> anyhow::Result<()> {
    let control = install.command("pg_controldata").env("LC_ALL", "C").arg(data).output()?;
    let control = String::from_utf8_lossy(&control.stdout);
    let name = "Latest checkpoint's REDO WAL file:";
    let segment = control.lines().find_map(|line| line.strip_prefix(name));
    let segment = segment.context("pg_controldata names no segment")?.trim();
    std::fs::DirBuilder::new().mode(0o700).create(to)?;
    std::fs::copy(data.join("pg_wal").join(segment), to.join(segment))?;
    give_to_server(to, data)
}

/// Gives a directory with what is in it to the user that the server runs as.
fn give_to_server(directory: &Path, data: &Path) -> anyhow::Result<()> {
    let mut owner = std::process::Command::new("chown");
    let given = owner.arg("--recursive").arg("--reference").arg(data).arg(directory).status()?;
    ensure!(given.success(), "a directory cannot be given to the server's user");
    Ok(())
}

fn open_to_all(directory: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mut permissions = std::fs::metadata(directory)?.permissions();
    permissions.set_mode(0o755);
    Ok(std::fs::set_permissions(directory, permissions)?)
}

/// What moves the tables to a tablespace.
fn tables_to(tablespace: &str) -> String {
    let tables = ["ledger", "hot", "claim"]
        .map(|name| format!("ALTER TABLE {name} SET TABLESPACE {tablespace};"));
    tables.concat() + &format!("ALTER INDEX ledger_token_idx SET TABLESPACE {tablespace}")
}
