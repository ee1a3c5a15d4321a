//! What bytes that nobody should send do to the gateway: nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Parser, ValueEnum};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use tokio::net::{TcpStream, UnixStream};
use tokio::task::block_in_place;
use tokio::time::{sleep, timeout};
use tokio_postgres::Client;
use walwright_bench::ledger::{self, Book};
use walwright_bench::raw_client::{RawClient, message};
use walwright_bench::survival::{FLOODS, Fuzz, FuzzedLink, Outcome, Stage, connect, flood};
use walwright_bench::{
    GatewayPlaces, GatewayProcess, GatewaySettings, OTHER, ReadsWait, Report, resident_bytes,
};
use walwright_server::{Cluster, ClusterSpec, Installs, Major, Places, RunningCluster, sweep};

/// Random bytes and nearly valid ones to the gateway: from clients before they are known, in
/// TLS and SCRAM, in transactions and in COPY, and from a server whose words are changed on
/// their way; floods of connections. Others are served all the while, whose books are audited.
#[derive(Parser)]
struct Cli {
    /// Bytes of each side.
    #[arg(long, default_value_t = 100_000_000)]
    bytes: u64,
    /// Decides bytes and stages.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One side alone.
    #[arg(long, value_enum)]
    side: Option<Side>,
    /// Figures as JSON on standard output.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Side {
    /// Clients.
    Clients,
    /// The server.
    Server,
}

/// Attackers at a time.
const ATTACKERS: u64 = 8;
/// Clients of the server whose words are changed.
const READERS: usize = 8;
/// Memory that a gateway may have.
const MOST_MEMORY: f64 = 256e6;
/// Longest that a client which does nothing wrong may wait for an answer.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// A client of the server whose words are changed waits so long for an answer.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
struct Counts {
    bytes: BTreeMap<&'static str, u64>,
    /// Connections that attacked.
    attacks: u64,
    hung: u64,
    silent: u64,
    codes: BTreeMap<String, u64>,
    /// Errors of clients of the server whose words are changed.
    told: BTreeMap<String, u64>,
    changed: u64,
    floods: u64,
}

impl Counts {
    fn add(&mut self, side: &'static str, outcome: &Outcome) {
        *self.bytes.entry(side).or_default() += outcome.sent;
        self.attacks += 1;
        self.hung += u64::from(outcome.hung);
        self.silent += u64::from(outcome.silent);
        add(&mut self.codes, &outcome.codes);
    }
}

fn add(to: &mut BTreeMap<String, u64>, from: &BTreeMap<String, u64>) {
    for (code, count) in from {
        *to.entry(code.clone()).or_default() += count;
    }
}

fn main() -> anyhow::Result<ExitCode> {
    GatewayProcess::become_one()?;
    let cli = Cli::parse();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build()?;
    runtime.block_on(run(&cli))
}

/// Clients that do nothing wrong.
struct Steady {
    stop: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<(Book, Duration, Vec<String>)>>,
}

impl Steady {
    fn start(place: &Path, port: u16, random: &mut Xoshiro256PlusPlus) -> Steady {
        let stop = Arc::new(AtomicBool::new(false));
        let tasks = (0..2).map(|number| {
            let (place, stop) = (place.to_owned(), stop.clone());
            let random = Xoshiro256PlusPlus::seed_from_u64(random.random());
            tokio::spawn(steady(place, port, Book::new(number, 2), random, stop))
        });
        Steady { tasks: tasks.collect(), stop }
    }

    /// What they know, their longest wait, and what happened to them.
    async fn end(self) -> anyhow::Result<(Vec<Book>, Duration, Vec<String>)> {
        self.stop.store(true, Ordering::Release);
        let (mut books, mut longest, mut disturbed) = (Vec::new(), Duration::ZERO, Vec::new());
        for task in self.tasks {
            let (book, wait, what) = task.await?;
            books.push(book);
            longest = longest.max(wait);
            disturbed.extend(what);
        }
        Ok((books, longest, disturbed))
    }
}

async fn steady(
    place: PathBuf,
    port: u16,
    mut book: Book,
    mut random: Xoshiro256PlusPlus,
    stop: Arc<AtomicBool>,
) -> (Book, Duration, Vec<String>) {
    let (mut longest, mut disturbed) = (Duration::ZERO, Vec::new());
    let goes_on = || !stop.load(Ordering::Acquire);
    while goes_on() {
        let begun = Instant::now();
        let mut client = match connect(&place, port, "steady").await {
            Ok(client) => client,
            Err(error) => {
                disturbed.push(format!("not let in: {error}"));
                sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        longest = longest.max(begun.elapsed());
        // Each begins anew now and then.
        for _ in 0..200 {
            let begun = Instant::now();
            let step = book.step(&mut client, &mut random).await;
            longest = longest.max(begun.elapsed());
            if let Err(error) = step {
                let what = error.as_db_error().map_or(error.to_string(), ToString::to_string);

                disturbed.push(format!("disturbed: {what}"));
                break;
            }
            if !goes_on() {
                break;
            }
            sleep(Duration::from_millis(3)).await;
        }
    }
    (book, longest, disturbed)
}

/// Two gateways before a server, one of which wants proof, and what is known of their memory.
struct Ground {
    server: RunningCluster,
    judge: Client,
    open: GatewayProcess,
    proving: GatewayProcess,
    said: [PathBuf; 2],
    link: FuzzedLink,
    peak: Arc<AtomicU64>,
    at_start: f64,
    base: tempfile::TempDir,
}

impl Ground {
    async fn new(random: &mut Xoshiro256PlusPlus) -> anyhow::Result<Ground> {
        let places = Places::open(None)?;
        sweep(&places)?;
        let install = Installs::within(places.clone()).ensure(Major::V18, &mut |_| {})?;
        let mut spec = ClusterSpec::new(&places, install);
        spec.settings.push(("max_connections".to_owned(), "200".to_owned()));
        let server = block_in_place(|| Cluster::create(spec)?.start())?;
        let judge = connect(server.socket_dir(), server.port(), "judge").await?;
        ledger::create(&judge).await?;
        ledger::empty(&judge).await?;
        judge.batch_execute("CREATE TABLE scratch (n int, t text)").await?;
        let base = tempfile::tempdir_in("/var/tmp")?;
        for name in ["open", "proving", "link"] {
            std::fs::create_dir(base.path().join(name))?;
        }
        let link_random = Xoshiro256PlusPlus::seed_from_u64(random.random());
        let link_directory = base.path().join("link");
        let link =
            FuzzedLink::start(&link_directory, server.socket_dir(), server.port(), link_random)?;
        let settings = GatewaySettings {
            workers: 2,
            pool_size: 8,
            reads: ReadsWait::Transaction,
            query_wait: 10_000,
        };
        let said = ["open.said", "proving.said"].map(|name| base.path().join(name));
        let mut of_open = GatewayPlaces::new(&server, &base.path().join("open"));
        of_open.other = Some(link_directory);
        of_open.said = Some(said[0].clone());
        let mut of_proving = GatewayPlaces::new(&server, &base.path().join("proving"));
        of_proving.identity = Some(identity(base.path())?);
        of_proving.said = Some(said[1].clone());
        let (open, proving) = block_in_place(|| {
            let open = GatewayProcess::start_in(&of_open, settings)?;
            anyhow::Ok((open, GatewayProcess::start_in(&of_proving, settings)?))
        })?;
        let (place, port) = open.place();
        connect(place, port, "first").await?.batch_execute("SELECT 1").await?;
        let at_start = resident_bytes(open.pid())?;
        let peak = Arc::new(AtomicU64::new(0));
        let (pids, highest) = ([open.pid(), proving.pid()], peak.clone());
        // It ends with the command.
        tokio::spawn(async move {
            loop {
                for pid in pids {
                    let now = resident_bytes(pid).unwrap_or_default();
                    highest.fetch_max(now as u64, Ordering::Relaxed);
                }
                sleep(Duration::from_millis(50)).await;
            }
        });
        Ok(Ground { server, judge, open, proving, said, link, peak, at_start, base })
    }

    /// Panics and whatever else the gateways said on standard error, in lines.
    fn complaints(&self) -> anyhow::Result<Vec<String>> {
        let mut lines = Vec::new();
        for path in &self.said {
            let said = std::fs::read_to_string(path)?;
            lines.extend(said.lines().map(str::to_owned));
        }
        Ok(lines)
    }
}

/// A certificate with its key, in one file.
fn identity(directory: &Path) -> anyhow::Result<PathBuf> {
    let key = rcgen::KeyPair::generate()?;
    let own = rcgen::CertificateParams::new(vec!["localhost".to_owned()])?.self_signed(&key)?;
    let path = directory.join("identity.pem");
    std::fs::write(&path, own.pem() + &key.serialize_pem())?;
    Ok(path)
}

async fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(cli.seed);
    let mut ground = Ground::new(&mut random).await?;
    let (place, port) = ground.open.place();
    let (place, port) = (place.to_owned(), port);
    let steady = Steady::start(&place, port, &mut random);
    let mut counts = Counts::default();
    if cli.side != Some(Side::Server) {
        eprintln!("bytes of clients");
        attack(cli, &ground, &mut random, &mut counts).await?;
        for (name, of) in FLOODS {
            eprintln!("flood: {name}");
            counts.floods += flood(of, &place, port).await;
        }
        // As it was with nobody there.
        sleep(Duration::from_millis(500)).await;
    }
    if cli.side != Some(Side::Clients) {
        eprintln!("bytes of a server");
        read_from_liar(cli, &ground, &mut counts).await?;
    }
    let (books, longest, disturbed) = steady.end().await?;
    let (audit, mut words) = ledger::audit(&ground.judge, &books).await?;
    words.extend(disturbed.iter().cloned());
    let ended = u64::from(ground.open.has_ended()) + u64::from(ground.proving.has_ended());
    let at_end = resident_bytes(ground.open.pid()).unwrap_or_default();
    let complaints = ground.complaints()?;
    for line in words.iter().take(20).chain(complaints.iter().take(40)) {
        eprintln!("{line}");
    }
    let panics = complaints.iter().filter(|line| line.contains("panicked")).count() as u64 + ended;
    let mut report = Report::new(&format!("bytes that nobody should send, seed {}", cli.seed));
    for (side, bytes) in &counts.bytes {
        let met = *bytes >= cli.bytes;
        report.bar(side, bytes.to_string(), json!(bytes), &format!(">= {}", cli.bytes), met);
    }
    let mut figure = |name: &str, value: u64| report.figure(name, value.to_string(), json!(value));
    figure("connections of clients that attacked", counts.attacks);
    figure("changes to what the server said", counts.changed);
    figure("connections of floods", counts.floods);
    figure("transactions of others acknowledged", audit.acknowledged);
    let listed = |codes: &BTreeMap<String, u64>| {
        let all = codes.iter().map(|(code, count)| format!("{code} {count}"));
        all.collect::<Vec<_>>().join(", ")
    };
    report.figure("errors to attackers", listed(&counts.codes), json!(counts.codes));
    report.figure("errors behind the changed server", listed(&counts.told), json!(counts.told));
    let memory = |bytes: f64| format!("{:.0} MB", bytes / 1e6);
    report.figure("memory at the start", memory(ground.at_start), json!(ground.at_start));
    report.figure("memory at the end", memory(at_end), json!(at_end));
    let peak = ground.peak.load(Ordering::Relaxed) as f64;
    let met = peak <= MOST_MEMORY;
    report.bar("memory at its peak", memory(peak), json!(peak), "<= 256 MB", met);
    let wait = longest.as_secs_f64();
    let met = longest <= LONGEST_WAIT;
    report.bar("longest wait of others", format!("{wait:.2} s"), json!(wait), "<= 5 s", met);
    let mut bar = |name: &str, value: u64| {
        report.bar(name, value.to_string(), json!(value), "0", value == 0);
    };
    bar("panics", panics);
    bar("others that were disturbed", disturbed.len() as u64);
    bar("others' writes lost or doubled, or wrong answers", u64::from(!audit.is_clean()));
    bar("attackers' connections closed without a word", counts.silent);
    bar("attackers that hung", counts.hung);
    drop(ground.server);
    drop(ground.base);
    Ok(report.print(cli.json))
}

/// Sends the bytes of clients.
async fn attack(
    cli: &Cli,
    ground: &Ground,
    random: &mut Xoshiro256PlusPlus,
    counts: &mut Counts,
) -> anyhow::Result<()> {
    let left = Arc::new(AtomicU64::new(cli.bytes));
    let (place, port) = ground.open.place();
    let path = place.join(format!(".s.PGSQL.{port}"));
    let mut tasks = Vec::new();
    for _ in 0..ATTACKERS {
        let (path, left) = (path.clone(), left.clone());
        let proving = ground.proving.tcp_port();
        let mut fuzz = Fuzz(Xoshiro256PlusPlus::seed_from_u64(random.random()));
        tasks.push(tokio::spawn(async move {
            let mut counts = Counts::default();
            while left.load(Ordering::Relaxed) > 0 {
                let stage = Stage::ALL[fuzz.0.random_range(0..Stage::ALL.len())];
                let attack = fuzz.attack(stage);
                let outcome = match stage {
                    Stage::Encryption | Stage::Proof => {
                        let Ok(socket) = TcpStream::connect(("127.0.0.1", proving)).await else {
                            continue;
                        };
                        // What is told of a reset connection may not arrive, and TLS says
                        // what is wrong in words of its own.
                        Outcome { silent: false, ..attack.run(socket).await }
                    }
                    Stage::Startup => {
                        let Ok(socket) = UnixStream::connect(&path).await else { continue };
                        attack.run(socket).await
                    }
                    _ => {
                        let Ok(socket) = let_in(&path).await else { continue };
                        attack.run(socket).await
                    }
                };
                let sent = outcome.sent;
                counts.add("bytes of clients", &outcome);
                let _ = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                    Some(left.saturating_sub(sent))
                });
            }
            counts
        }));
    }
    let begun = Instant::now();
    while left.load(Ordering::Relaxed) > 0 && tasks.iter().any(|task| !task.is_finished()) {
        sleep(Duration::from_secs(1)).await;
        if begun.elapsed().as_secs().is_multiple_of(15) {
            eprintln!("{} MB left", left.load(Ordering::Relaxed) / 1_000_000);
        }
    }
    for task in tasks {
        let of = task.await?;
        for (side, bytes) in of.bytes {
            *counts.bytes.entry(side).or_default() += bytes;
        }
        counts.attacks += of.attacks;
        counts.hung += of.hung;
        counts.silent += of.silent;
        add(&mut counts.codes, &of.codes);
    }
    Ok(())
}

/// A connection that is let in.
async fn let_in(path: &Path) -> anyhow::Result<UnixStream> {
    let directory = path.parent().context("a directory")?;
    let port = path.extension().and_then(|port| port.to_str()).context("a port")?.parse()?;
    let mut client = RawClient::connect(directory, port).await?;
    timeout(PATIENCE * 10, client.log_in("postgres")).await??;
    client.into_unix().context("a unix socket")
}

/// Reads from a server whose words are changed, until it has said enough.
async fn read_from_liar(cli: &Cli, ground: &Ground, counts: &mut Counts) -> anyhow::Result<()> {
    let (place, port) = ground.open.place();
    let stop = Arc::new(AtomicBool::new(false));
    let tasks: Vec<_> = (0..READERS)
        .map(|number| {
            let (place, stop) = (place.to_owned(), stop.clone());
            tokio::spawn(async move {
                let mut codes = BTreeMap::new();
                while !stop.load(Ordering::Acquire) {
                    read(&place, port, number, &mut codes).await;
                }
                codes
            })
        })
        .collect();
    let begun = Instant::now();
    while ground.link.said() < cli.bytes {
        sleep(Duration::from_secs(1)).await;
        if begun.elapsed().as_secs().is_multiple_of(15) {
            eprintln!("{} MB said", ground.link.said() / 1_000_000);
        }
    }
    stop.store(true, Ordering::Release);
    for task in tasks {
        add(&mut counts.told, &task.await?);
    }
    counts.bytes.insert("bytes of a server", ground.link.said());
    counts.changed = ground.link.changed();
    Ok(())
}

/// What one connection to the changed server is told.
async fn read(place: &Path, port: u16, number: usize, codes: &mut BTreeMap<String, u64>) {
    let mut note = |what: &str| *codes.entry(what.to_owned()).or_default() += 1;
    let Ok(mut client) = RawClient::connect(place, port).await else { return };
    match timeout(PATIENCE, client.log_in(OTHER)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            // "FATAL: …", or that it ended.
            return note(&format!("not let in ({:?})", error.kind()));
        }
        Err(_) => return note("not let in in time"),
    }
    let query = |sql: &str| message(b'Q', format!("{sql}\0").as_bytes());
    let rows = "SELECT n, repeat('x', 1000) FROM generate_series(1, 200) n";
    let says = [
        query(rows),
        query("INSERT INTO scratch VALUES (3, 'z') RETURNING n"),
        query("COPY (SELECT repeat('y', 500) FROM generate_series(1, 100)) TO STDOUT"),
        [
            message(b'P', format!("s\0{rows}\0\0\0").as_bytes()),
            message(b'D', b"Ss\0"),
            message(b'B', b"\0s\0\0\0\0\0\0\0"),
            message(b'E', b"\0\0\0\0\0"),
            message(b'S', b""),
        ]
        .concat(),
        query("DO $$ BEGIN RAISE NOTICE 'noted'; END $$"),
        [query("BEGIN"), query("SELECT 1 / 0"), query("ROLLBACK")].concat(),
    ];
    for turn in 0.. {
        let say = &says[(number + turn) % says.len()];
        if client.send(say).await.is_err() {
            return note("closed");
        }
        let mut ready = if (number + turn) % says.len() == 5 { 3 } else { 1 };
        let answers = async {
            loop {
                match client.message().await {
                    Ok((b'Z', _)) => {
                        ready -= 1;
                        if ready == 0 {
                            return None;
                        }
                    }
                    Ok((b'E', body)) => {
                        let said = walwright_wire::backend::ErrorFields::parse(&body);
                        let said = said.map(|said| (said.is_fatal(), said.code));
                        match said {
                            Ok((true, code)) => return Some(code),
                            Ok((false, _)) => {}
                            Err(_) => return Some("changed".to_owned()),
                        }
                    }
                    Ok(_) => {}
                    Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                        return Some("changed".to_owned());
                    }
                    Err(_) => return Some("closed".to_owned()),
                }
            }
        };
        match timeout(PATIENCE, answers).await {
            Ok(None) => {}
            Ok(Some(code)) => return note(&code),
            Err(_) => return note("no answer in time"),
        }
    }
}
