//! What the document service's clients are told, whatever is killed: nothing that cannot be.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use clap::{Parser, ValueEnum};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use rustix::process::{Signal, kill_process};
use serde_json::json;
use tokio::task::{JoinHandle, block_in_place};
use tokio::time::sleep;
use tokio_postgres::{Client, NoTls};
use walwright_bench::{
    DocumentService, Report, Walwright, children, free_address, local_dsn, process,
};
use walwright_server::{Cluster, ClusterSpec, Installs, Major, Places, RunningCluster, sweep};
use walwright_testing::documents::{CHECKS, Modelled, Shared, Violation, check_shared};

/// Random requests of many clients of `walwright documents serve` against a model, while the
/// service, its server, their sessions and the clients' connections are killed: no lost update,
/// no dangling reference, no answer that the model forbids.
#[derive(Parser)]
struct Cli {
    /// Requests, about.
    #[arg(long, default_value_t = 1_000_000)]
    operations: u64,
    /// Clients.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=400))]
    clients: u64,
    /// Kills.
    #[arg(long, default_value_t = 200)]
    kills: u64,
    /// Requests that clients leave in the middle, in a thousand.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(..=1000))]
    leaves: u32,
    /// Decides requests, options of the service, kills and moments.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only kills of this kind.
    #[arg(long, value_enum)]
    kind: Option<Kind>,
    /// An option of the workload for the tables, such as references=merge.
    #[arg(short, long, value_name = "NAME=VALUE")]
    option: Vec<String>,
    /// Breaks what is tested: violations must be found then.
    #[arg(long, value_enum)]
    check: Option<Check>,
    /// Figures as JSON on standard output.
    #[arg(long)]
    json: bool,
}

/// What is broken so that violations must be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Check {
    /// The server answers commits that it has not written.
    EarlyCommits,
    /// References have no foreign keys.
    NoForeignKeys,
}

/// What is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Kind {
    /// The service.
    Service,
    /// The service, asked to end.
    ServiceEnded,
    /// One process of the server, which ends its sessions and recovers.
    Session,
    /// All processes of the server.
    Server,
    /// All of both.
    Both,
    /// Sessions, by the server.
    Terminated,
}

impl Kind {
    fn draw(random: &mut Xoshiro256PlusPlus) -> Kind {
        let all = Kind::value_variants();
        all[random.random_range(0..all.len())]
    }
}

/// How long a kill may take to be mended.
const PATIENCE: Duration = Duration::from_secs(60);
/// How the service's sessions are known.
const SESSIONS: &str = "application_name = 'walwright documents'";
/// Violations that are told.
const MOST_TOLD: usize = 50;

#[derive(Default)]
struct Found {
    kills: BTreeMap<Kind, u64>,
    violations: usize,
    /// Services that did not end as they should.
    unclean: u64,
}

impl Found {
    fn say(&mut self, violation: String) {
        self.violations += 1;
        if self.violations <= MOST_TOLD {
            eprintln!("{violation}");
        }
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(run(&cli))
}

async fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(cli.seed);
    let mut ground = Ground::new(cli, &mut random).await?;
    Modelled::make_counter(ground.address).await?;
    let (shared, mut found) = (Arc::new(Shared::default()), Found::default());
    let clients: Vec<_> = (0..cli.clients).map(|n| client(cli, n, &ground, &shared)).collect();
    let (begun, mut told) = (Instant::now(), 0);
    for kill in 1..=cli.kills + 1 {
        let due = cli.operations / (cli.kills + 1) * kill;
        while shared.sent() < due && !clients.iter().all(JoinHandle::is_finished) {
            sleep(Duration::from_millis(2)).await;
        }
        if kill <= cli.kills {
            let kind = cli.kind.unwrap_or_else(|| Kind::draw(&mut random));
            ground.kill(kind, &shared, &mut random, &mut found).await?;
            *found.kills.entry(kind).or_default() += 1;
            if let Some(wrong) = ground.audit().await? {
                found.say(format!("after kill {kill}, {kind:?}: {wrong}"));
            }
        }
        if shared.sent() * 20 / cli.operations.max(1) > told {
            told = shared.sent() * 20 / cli.operations.max(1);
            let seconds = begun.elapsed().as_secs();
            let (sent, wrong) = (shared.sent(), found.violations);
            eprintln!("{sent} requests, {kill} kills, {seconds} s, {wrong} violations");
        }
    }
    let mut ended = Vec::new();
    for client in clients {
        match client.await? {
            Ok(client) => ended.push(client),
            Err(violation) => found.say(violation.to_string()),
        }
    }
    ground.end_service(&mut found).await?;
    ground.start_service(&mut random)?;
    ground.until_ready()?;
    let session = ground.connect().await?;
    for mut client in ended {
        if let Err(violation) = client.end(&session).await {
            found.say(format!("at the end: {violation}"));
        }
    }
    if let Some(wrong) = ground.audit().await? {
        found.say(format!("at the end: {wrong}"));
    }
    ground.end_service(&mut found).await?;
    Ok(report(cli, &shared, &found))
}

/// Requests of one client until all have sent enough.
fn client(
    cli: &Cli,
    number: u64,
    ground: &Ground,
    shared: &Arc<Shared>,
) -> JoinHandle<Result<Modelled, Violation>> {
    let leaves = f64::from(cli.leaves) / 1000.0;
    let mut client = Modelled::new(number, cli.clients, leaves, cli.seed, ground.address, shared);
    let (shared, operations) = (Arc::clone(shared), cli.operations);
    tokio::spawn(async move {
        while shared.sent() < operations {
            client.step().await?;
        }
        Ok(client)
    })
}

/// What is wrong of what no server may hold at any time.
async fn check(session: &Client) -> Result<Option<String>, tokio_postgres::Error> {
    for check in CHECKS {
        let wrong: i64 = session.query_one(check, &[]).await?.get(0);
        if wrong > 0 {
            return Ok(Some(format!("{wrong} of {check}")));
        }
    }
    Ok(check_shared(session).await?.err().map(|violation| violation.to_string()))
}

/// A server and a service before it.
struct Ground {
    cluster: Cluster,
    running: Option<RunningCluster>,
    walwright: Walwright,
    service: Option<DocumentService>,
    address: SocketAddr,
}

impl Ground {
    async fn new(cli: &Cli, random: &mut Xoshiro256PlusPlus) -> anyhow::Result<Ground> {
        let walwright = Walwright::find()?;
        let places = Places::open(None)?;
        sweep(&places)?;
        let install = Installs::within(places.clone()).ensure(Major::V18, &mut |_| {})?;
        let mut spec = ClusterSpec::new(&places, install);
        // Killed processes lose nothing that was written, flushed or not.
        let settings = [("fsync", "off"), ("max_connections", "120")];
        spec.settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let running = block_in_place(|| Cluster::create(spec)?.start())?;
        let mut ground = Ground {
            cluster: running.cluster().clone(),
            running: Some(running),
            walwright,
            service: None,
            address: free_address()?,
        };
        let tables = cli.option.iter().flat_map(|option| ["-o", option]);
        ground.spawn(&["--create"].into_iter().chain(tables).collect::<Vec<_>>())?;
        ground.until_ready()?;
        let session = ground.connect().await?;
        match cli.check {
            None => {}
            Some(Check::EarlyCommits) => {
                let early = "ALTER SYSTEM SET synchronous_commit = off";
                session.batch_execute(early).await?;
                session.batch_execute("ALTER SYSTEM SET wal_writer_delay = '10s'").await?;
                session.batch_execute("SELECT pg_reload_conf()").await?;
            }
            Some(Check::NoForeignKeys) => {
                let drop = "DO $$ DECLARE name name; BEGIN
                    FOR name IN SELECT conname FROM pg_constraint WHERE contype = 'f'
                                   AND conrelid = 'reference'::regclass AND conparentid = 0 LOOP
                        EXECUTE format('ALTER TABLE reference DROP CONSTRAINT %I', name);
                    END LOOP; END $$";
                session.batch_execute(drop).await?;
            }
        }
        ground.kill_service().await?;
        ground.start_service(random)?;
        ground.until_ready()?;
        Ok(ground)
    }

    fn running(&self) -> anyhow::Result<&RunningCluster> {
        self.running.as_ref().context("the server is not running")
    }

    fn spawn(&mut self, more: &[&str]) -> anyhow::Result<()> {
        let running = self.running()?;
        let dsn = local_dsn(running.socket_dir(), running.port());
        let options = [&["--dsn", &dsn], more].concat();
        self.service = Some(DocumentService::spawn(&self.walwright, self.address, &options)?);
        Ok(())
    }

    /// A service with options by chance.
    fn start_service(&mut self, random: &mut Xoshiro256PlusPlus) -> anyhow::Result<()> {
        let mut one = |of: &[&'static str]| of[random.random_range(0..of.len())];
        let options = [
            ("--pool-size", one(&["4", "10", "32"])),
            (
                "--locks",
                one(&["no_key_update", "no_key_update", "key_share", "update_nowait", "none"]),
            ),
            (
                "--isolation",
                one(&["read_committed", "read_committed", "repeatable_read", "serializable"]),
            ),
            ("--reset", one(&["none", "none", "none", "selective", "discard_all"])),
            ("--statements", one(&["prepared", "prepared", "prepared", "unprepared"])),
        ];
        let options: Vec<&str> = options.iter().flat_map(|(name, value)| [*name, *value]).collect();
        self.spawn(&options)
    }

    /// Waits until the service answers that its server does.
    fn until_ready(&mut self) -> anyhow::Result<()> {
        let service = self.service.as_mut().context("the service is not running")?;
        block_in_place(|| service.until_ready())
    }

    async fn connect(&self) -> anyhow::Result<Client> {
        let running = self.running()?;
        let mut config = tokio_postgres::Config::new();
        config.host_path(running.socket_dir()).port(running.port());
        config.user("postgres").dbname("postgres");
        let begun = Instant::now();
        loop {
            match config.connect(NoTls).await {
                Ok((client, connection)) => {
                    // It ends with its client.
                    tokio::spawn(async move { connection.await.ok() });
                    return Ok(client);
                }
                Err(error) if begun.elapsed() > PATIENCE => return Err(error.into()),
                // It may be in its recovery.
                Err(_) => sleep(Duration::from_millis(5)).await,
            }
        }
    }

    /// What is wrong on the server.
    async fn audit(&self) -> anyhow::Result<Option<String>> {
        let begun = Instant::now();
        loop {
            match check(&self.connect().await?).await {
                Ok(wrong) => return Ok(wrong),
                Err(error) if begun.elapsed() > PATIENCE => return Err(error.into()),
                // The server has ended this session too, for the sake of one that was killed.
                Err(_) => sleep(Duration::from_millis(5)).await,
            }
        }
    }

    /// Waits until the service that has ended has no session left, in which something could
    /// still be committed.
    async fn until_settled(&self) -> anyhow::Result<()> {
        let begun = Instant::now();
        let left = format!("SELECT count(*) FROM pg_stat_activity WHERE {SESSIONS}");
        let session = self.connect().await?;
        while session.query_one(&left, &[]).await?.get::<_, i64>(0) > 0 {
            ensure!(begun.elapsed() < PATIENCE, "sessions of the service that ended stay");
            sleep(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    async fn kill_service(&mut self) -> anyhow::Result<()> {
        if let Some(service) = self.service.take() {
            block_in_place(|| service.kill())?;
        }
        self.until_settled().await
    }

    /// Asks the service to end, and waits for that.
    async fn end_service(&mut self, found: &mut Found) -> anyhow::Result<()> {
        if let Some(service) = self.service.take() {
            found.unclean += u64::from(!block_in_place(|| service.end())?);
        }
        self.until_settled().await
    }

    async fn kill(
        &mut self,
        kind: Kind,
        shared: &Shared,
        random: &mut Xoshiro256PlusPlus,
        found: &mut Found,
    ) -> anyhow::Result<()> {
        match kind {
            Kind::Service => self.kill_service().await?,
            Kind::ServiceEnded => self.end_service(found).await?,
            Kind::Session => {
                let all = children(self.running()?.postmaster_pid())?;
                let one = all.get(random.random_range(0..all.len().max(1)));
                // It may have ended.
                let _ = kill_process(
                    process(*one.context("a server without processes")?)?,
                    Signal::KILL,
                );
            }
            Kind::Server => self.kill_server()?,
            Kind::Both => {
                let service_first: bool = random.random();
                if service_first && let Some(service) = self.service.take() {
                    block_in_place(|| service.kill())?;
                }
                self.kill_server()?;
                self.kill_service().await?;
            }
            Kind::Terminated => {
                let all = format!(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {SESSIONS}"
                );
                let session = self.connect().await?;
                for _ in 0..random.random_range(1..6) {
                    session.query(&all, &[]).await?;
                    sleep(Duration::from_millis(random.random_range(0..40))).await;
                }
            }
        }
        if self.service.is_none() {
            shared.settled();
            self.start_service(random)?;
        }
        self.until_ready()
    }

    /// Kills all of the server, and starts it.
    fn kill_server(&mut self) -> anyhow::Result<()> {
        let running = self.running.take().context("the server is not running")?;
        let children = children(running.postmaster_pid())?;
        // The postmaster first, so that it does not restart what dies.
        kill_process(process(running.postmaster_pid())?, Signal::KILL)?;
        for child in children {
            // It may have seen that.
            let _ = kill_process(process(child)?, Signal::KILL);
        }
        self.running = Some(block_in_place(|| {
            running.stop()?;
            self.cluster.start()
        })?);
        Ok(())
    }
}

fn report(cli: &Cli, shared: &Shared, found: &Found) -> ExitCode {
    let Found { kills, violations, unclean } = found;
    let (sent, unknown) = (shared.sent(), shared.unknown());
    let title = format!("{sent} requests of {} clients, seed {}", cli.clients, cli.seed);
    let mut report = Report::new(&title);
    let mut kinds = BTreeMap::<&str, Vec<(String, u64)>>::new();
    for ((kind, told), count) in shared.counts() {
        kinds.entry(kind).or_default().push((told, count));
    }
    for (kind, answers) in kinds {
        let shown = answers.iter().map(|(told, count)| format!("{told}: {count}"));
        let value = answers.iter().cloned().collect::<BTreeMap<_, _>>();
        report.figure(kind, shown.collect::<Vec<_>>().join(", "), json!(value));
    }
    for (kind, count) in kills {
        let name = kind.to_possible_value().map(|value| value.get_name().to_owned());
        let name = format!("killed: {}", name.unwrap_or_default());
        report.figure(&name, count.to_string(), json!(count));
    }
    report.figure("unknown", unknown.to_string(), json!(unknown));
    let wrong = *violations;
    if cli.check.is_some() {
        report.bar("violations", wrong.to_string(), json!(wrong), "some", wrong > 0);
    } else {
        report.bar("violations", wrong.to_string(), json!(wrong), "0", wrong == 0);
    }
    let clean = *unclean == 0;
    report.bar("ends that were none", unclean.to_string(), json!(unclean), "0", clean);
    report.print(cli.json)
}
