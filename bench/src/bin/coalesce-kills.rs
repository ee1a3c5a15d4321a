//! What faults take of what the coalescer's writers were told: nothing.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Parser, ValueEnum};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use tempfile::TempDir;
use tokio::task::block_in_place;
use tokio::time::sleep;
use tokio_postgres::{Client, NoTls};
use walwright_bench::Report;
use walwright_bench::ingest::{
    Audit, Books, CuttingLink, Idempotent, Plan, Step, When, WriterProcess, WriterSettings, audit,
    empty,
};
use walwright_server::{
    Cluster, ClusterSpec, Installs, Major, Places, PowerCut, RunningCluster, sweep,
};

/// Cycles of writers in a process of their own, of something that strikes them, their
/// connections or the server, of recovery, and of an audit: what was acknowledged is there
/// exactly once, what was refused or given up is not, what is unknown is there at most once, and
/// each refused row is once among the dead letters. Where a batch is written again by a record or
/// by a key, nothing is unknown.
#[derive(Parser)]
struct Cli {
    /// Cycles.
    #[arg(long, default_value_t = 2000)]
    cycles: u64,
    /// Decides loads, strikes and moments.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only strikes of this kind.
    #[arg(long, value_enum)]
    kind: Option<Kind>,
    /// Only batches that are written again like this.
    #[arg(long, value_enum)]
    idempotent: Option<Idempotent>,
    /// Breaks what is tested: losses must be found then.
    #[arg(long, value_enum)]
    check: Option<Check>,
    /// Figures as JSON on standard output.
    #[arg(long)]
    json: bool,
}

/// What is broken so that losses must be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Check {
    /// The coalescer acknowledges what is not flushed.
    DurabilityOff,
    /// The server flushes nothing.
    NoFsync,
}

/// What strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Kind {
    /// Connections are cut at steps of the protocol.
    Cut,
    /// The server loses its power, and what it has not flushed.
    PowerCut,
    /// The process of the writers is killed.
    WritersKilled,
    /// Both at once.
    BothKilled,
    /// A session's process is killed, and the server restarts all.
    SessionKilled,
    /// Sessions are terminated.
    Terminated,
    /// The server is restarted in order.
    Restarted,
}

impl Kind {
    fn draw(random: &mut Xoshiro256PlusPlus) -> Kind {
        match random.random_range(0..20) {
            0..9 => Kind::Cut,
            9..13 => Kind::PowerCut,
            13..16 => Kind::WritersKilled,
            16 => Kind::BothKilled,
            17 => Kind::SessionKilled,
            18 => Kind::Terminated,
            _ => Kind::Restarted,
        }
    }
}

#[derive(Default)]
struct Counts {
    cycles: u64,
    kinds: BTreeMap<Kind, u64>,
    pages_lost: u64,
    audits: BTreeMap<Idempotent, Audit>,
    /// Rows that were unknown although there was something to tell by.
    unresolved: u64,
    /// Writers that did not come to their end, or left rows.
    hung: u64,
    /// Sessions that stayed behind.
    left_open: u64,
    /// Servers that did not come back.
    broken: u64,
    told: usize,
}

/// Sentences that are told.
const MOST_TOLD: usize = 200;

impl Counts {
    fn say(&mut self, what: &str) {
        self.told += 1;
        if self.told <= MOST_TOLD {
            eprintln!("cycle {}: {what}", self.cycles);
        }
    }

    fn all(&self) -> Audit {
        let mut all = Audit::default();
        self.audits.values().for_each(|audit| all.add(audit));
        all
    }

    fn is_clean(&self) -> bool {
        let others = self.unresolved + self.hung + self.left_open + self.broken;
        self.all().is_clean() && others + self.all().failed == 0
    }
}

/// How long writers may take to hear of all their rows after the last strike.
const PATIENCE: Duration = Duration::from_secs(45);
/// How long the sessions of writers who have gone may stay.
const STAY: Duration = Duration::from_secs(20);
/// How long a cut is waited for that may not come.
const CUT: Duration = Duration::from_millis(60);

fn main() -> anyhow::Result<ExitCode> {
    WriterProcess::become_one()?;
    let cli = Cli::parse();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(run(&cli))
}

async fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    let mut counts = Counts::default();
    let mut cuts = BTreeMap::new();
    let begun = Instant::now();
    let mut ground = None;
    while counts.cycles < cli.cycles {
        let seed = cli.seed.wrapping_mul(1 << 32).wrapping_add(counts.cycles);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let on = match ground.take() {
            Some(on) => on,
            None => Ground::new(cli).await?,
        };
        match cycle(cli, on, &mut random, &mut counts).await {
            Ok(on) => {
                add(&mut cuts, on.link.take_made());
                ground = Some(on);
            }
            Err(error) => {
                counts.broken += 1;
                counts.say(&format!("{error:#}"));
            }
        }
        counts.cycles += 1;
        if counts.cycles.is_multiple_of(50) {
            let each = begun.elapsed().as_secs_f64() / counts.cycles as f64;
            eprintln!("{} of {} cycles, {each:.2} s each", counts.cycles, cli.cycles);
        }
    }
    Ok(report(cli, &counts, &cuts))
}

/// Adds the cuts of a cycle to those of others.
fn add(cuts: &mut BTreeMap<Step, [u64; 3]>, made: BTreeMap<Step, [u64; 3]>) {
    for (step, counts) in made {
        let of = cuts.entry(step).or_default();
        of.iter_mut().zip(counts).for_each(|(of, count)| *of += count);
    }
}

/// A server, and the link through which writers reach it.
struct Ground {
    running: RunningCluster,
    cluster: Cluster,
    link: CuttingLink,
    directory: TempDir,
}

impl Ground {
    async fn new(cli: &Cli) -> anyhow::Result<Ground> {
        let places = Places::open(None)?;
        sweep(&places)?;
        let install = Installs::within(places.clone()).ensure(Major::V18, &mut |_| {})?;
        let mut spec = ClusterSpec::new(&places, install);
        let fsync = if cli.check == Some(Check::NoFsync) { "off" } else { "on" };
        spec.settings = [
            // What is not flushed for a writer's sake is not flushed for a while.
            ("wal_writer_delay", "10s"),
            ("fsync", fsync),
            ("shared_buffers", "16MB"),
            ("max_wal_size", "64MB"),
            ("min_wal_size", "32MB"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let running = block_in_place(|| Cluster::create(spec)?.start_watched())?;
        let cluster = running.cluster().clone();
        let directory = tempfile::tempdir()?;
        let link = CuttingLink::start(directory.path(), running.socket_dir(), running.port())?;
        let ground = Ground { running, cluster, link, directory };
        let direct = ground.connect().await?;
        empty(&direct).await?;
        direct.batch_execute("CHECKPOINT").await?;
        Ok(ground)
    }

    /// A connection that nothing strikes.
    async fn connect(&self) -> anyhow::Result<Client> {
        let mut config = tokio_postgres::Config::new();
        config.host_path(self.running.socket_dir()).port(self.running.port());
        let (client, connection) =
            config.user("postgres").dbname("postgres").connect(NoTls).await?;
        // It ends with its client.
        tokio::spawn(async move { connection.await.ok() });
        Ok(client)
    }

    fn cut_power(self, cut: PowerCut, counts: &mut Counts) -> anyhow::Result<Ground> {
        let Ground { running, cluster, link, directory } = self;
        counts.pages_lost += block_in_place(|| running.cut_power(cut))?.pages_lost;
        let running = block_in_place(|| cluster.start_watched())?;
        Ok(Ground { running, cluster, link, directory })
    }

    fn restart(self) -> anyhow::Result<Ground> {
        let Ground { running, cluster, link, directory } = self;
        block_in_place(|| running.stop())?;
        let running = block_in_place(|| cluster.start_watched())?;
        Ok(Ground { running, cluster, link, directory })
    }

    /// Waits until no session of writers is left. Whether it came to that.
    async fn is_left(&self, direct: &Client) -> anyhow::Result<bool> {
        let begun = Instant::now();
        let sessions = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' \
                        AND pid <> pg_backend_pid()";
        while direct.query_one(sessions, &[]).await?.get::<_, i64>(0) > 0 {
            if begun.elapsed() > STAY {
                return Ok(false);
            }
            sleep(Duration::from_millis(2)).await;
        }
        Ok(true)
    }
}

/// Load, a strike and the end; the ground after it, of whose books nothing that is wrong is left
/// out.
async fn cycle(
    cli: &Cli,
    ground: Ground,
    random: &mut Xoshiro256PlusPlus,
    counts: &mut Counts,
) -> anyhow::Result<Ground> {
    let direct = ground.connect().await?;
    empty(&direct).await?;
    let all = Idempotent::value_variants();
    let idempotent = cli.idempotent.unwrap_or(all[random.random_range(0..all.len())]);
    let (producers, burst) = [(1, 1), (3, 1), (3, 100), (16, 8), (16, 100), (64, 1), (64, 20)]
        [random.random_range(0..7)];
    let settings = WriterSettings {
        idempotent,
        early: cli.check == Some(Check::DurabilityOff),
        letters: random.random_range(0..3) > 0,
        connections: random.random_range(1..=4),
        rows: [20, 500, 5000][random.random_range(0..3)],
        producers,
        burst,
        bad: [0, 0, 1, 10, 100][random.random_range(0..5)],
        seed: random.random::<u64>() >> 24,
    };
    let kind = match cli.check {
        Some(_) => Kind::PowerCut,
        None => cli.kind.unwrap_or_else(|| Kind::draw(random)),
    };
    let book = ground.directory.path().join("book");
    // There may be one of the cycle before.
    let _ = std::fs::remove_file(&book);
    let port = ground.running.port();
    let mut writers =
        block_in_place(|| WriterProcess::start(ground.link.directory(), port, &book, &settings))?;
    sleep(Duration::from_millis(random.random_range(5..150))).await;
    let struck = strike(ground, kind, &mut writers, &direct, random, counts).await;
    *counts.kinds.entry(kind).or_default() += 1;
    let ground = struck.with_context(|| format!("{kind:?}"))?;
    let killed = matches!(kind, Kind::WritersKilled | Kind::BothKilled);
    if killed {
        writers.kill();
    } else {
        sleep(Duration::from_millis(random.random_range(0..60))).await;
        if !block_in_place(|| writers.end(PATIENCE))? {
            counts.hung += 1;
            counts.say(&format!("{kind:?}: writers did not end, or left rows: {settings:?}"));
        }
    }
    drop(direct);
    let direct = ground.connect().await?;
    if !ground.is_left(&direct).await? {
        counts.left_open += 1;
        counts.say(&format!("{kind:?}: sessions stayed behind"));
    }
    let books = Books::read(&book, !killed, settings.bad)?;
    let (audited, words) = audit(&direct, idempotent.table(), &books).await?;
    let resolves = idempotent != Idempotent::None;
    if resolves {
        counts.unresolved += audited.unknown;
    }
    let is_wrong = !audited.is_clean() || audited.failed > 0 || resolves && audited.unknown > 0;
    if is_wrong {
        counts.say(&format!("{kind:?} {settings:?}: {audited:?}"));
        words.iter().chain(books.words()).for_each(|word| counts.say(word));
    }
    counts.audits.entry(idempotent).or_default().add(&audited);
    Ok(ground)
}

/// Something happens to the writers, their connections or the server.
async fn strike(
    ground: Ground,
    kind: Kind,
    writers: &mut WriterProcess,
    direct: &Client,
    random: &mut Xoshiro256PlusPlus,
    counts: &mut Counts,
) -> anyhow::Result<Ground> {
    let cut = match random.random_range(0..2) {
        0 => PowerCut::All,
        _ => PowerCut::Random { seed: random.random() },
    };
    match kind {
        Kind::Cut => {
            for _ in 0..random.random_range(1..12) {
                // Some are cut again while they connect or write again.
                let plans = (0..random.random_range(1..4)).map(|again| Plan {
                    step: Step::draw(random),
                    skip: if again == 0 { random.random_range(0..8) } else { 0 },
                    when: When::draw(random),
                });
                ground.link.cut_at(plans.collect::<Vec<_>>());
                let begun = Instant::now();
                while ground.link.left() > 0 && begun.elapsed() < CUT {
                    sleep(Duration::from_micros(300)).await;
                }
            }
            ground.link.cut_at([]);
            Ok(ground)
        }
        Kind::PowerCut => ground.cut_power(cut, counts),
        Kind::WritersKilled => {
            writers.kill();
            Ok(ground)
        }
        Kind::BothKilled => {
            if random.random() {
                writers.kill();
                return ground.cut_power(cut, counts);
            }
            let ground = ground.cut_power(cut, counts)?;
            // It has gone on, or is about to.
            sleep(Duration::from_millis(random.random_range(0..50))).await;
            writers.kill();
            Ok(ground)
        }
        Kind::SessionKilled => {
            let one = "SELECT pid FROM pg_stat_activity WHERE application_name = \
                       'walwright-coalesce' LIMIT 1";
            if let Some(row) = direct.query_opt(one, &[]).await? {
                let pid = rustix::process::Pid::from_raw(row.get(0)).context("a process")?;
                // It may have ended.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
            ground.wait_until_back().await
        }
        Kind::Terminated => {
            let all = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE \
                       application_name = 'walwright-coalesce'";
            for _ in 0..random.random_range(1..6) {
                direct.query(all, &[]).await?;
                sleep(Duration::from_millis(random.random_range(0..40))).await;
            }
            Ok(ground)
        }
        Kind::Restarted => ground.restart(),
    }
}

impl Ground {
    /// Waits until the server takes connections again.
    async fn wait_until_back(self) -> anyhow::Result<Ground> {
        let begun = Instant::now();
        loop {
            match self.connect().await {
                Ok(_) => return Ok(self),
                Err(error) if begun.elapsed() > PATIENCE => return Err(error),
                Err(_) => sleep(Duration::from_millis(5)).await,
            }
        }
    }
}

fn report(cli: &Cli, counts: &Counts, cuts: &BTreeMap<Step, [u64; 3]>) -> ExitCode {
    let mut report = Report::new(&format!("{} strikes, seed {}", counts.cycles, cli.seed));
    let named = |value: Option<clap::builder::PossibleValue>| {
        value.map(|value| value.get_name().to_owned()).unwrap_or_default()
    };
    for (kind, count) in &counts.kinds {
        report.figure(&named(kind.to_possible_value()), count.to_string(), json!(count));
    }
    for (step, [before, within, after]) in cuts {
        let name = format!("cut at {}", named(step.to_possible_value()));
        let shown = format!("{before} before, {within} within, {after} after");
        report.figure(&name, shown, json!([before, within, after]));
    }
    for (idempotent, audit) in &counts.audits {
        let shown = format!(
            "{} acknowledged, {} refused ({} dead letters), {} unknown, {} of the unknown there",
            audit.acknowledged, audit.refused, audit.dead, audit.unknown, audit.kept
        );
        report.figure(&named(idempotent.to_possible_value()), shown, json!(audit));
    }
    let all = counts.all();
    report.figure(
        "pages of 4 kB lost unflushed",
        counts.pages_lost.to_string(),
        json!(counts.pages_lost),
    );
    let must = cli.check.is_some();
    let mut bar = |name: &str, value: u64| {
        if must {
            return report.figure(name, value.to_string(), json!(value));
        }
        report.bar(name, value.to_string(), json!(value), "0", value == 0);
    };
    bar("acknowledged rows lost", all.lost);
    bar("rows doubled", all.doubled);
    bar("there against what was told", all.against);
    bar("wrongly acknowledged or refused", all.wrong);
    bar("dead letters missing or doubled", all.wrong_letters);
    bar("given up too early", all.failed);
    bar("unknown although there is something to tell by", counts.unresolved);
    bar("writers that hung or left rows", counts.hung);
    bar("sessions left open", counts.left_open);
    bar("servers that did not come back", counts.broken);
    if must {
        let found = !counts.is_clean();
        let shown = if found { "yes" } else { "no" };
        report.bar("losses found", shown.to_owned(), json!(found), "yes", found);
    }
    report.print(cli.json)
}
