//! What smaller faults take of what the gateway's clients were told: nothing.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use tokio::time::sleep;
use walwright_bench::ledger::{self, Audit, Book};
use walwright_bench::survival::{Ground, GroundRules, Kind, Load, Rules, Terrain, Victim, judge};
use walwright_bench::{GatewayProcess, GatewaySettings, ReadsWait, Report};

/// Cycles of faults at random moments under load through the gateway: clients that go, cancel
/// or are cut off, sessions that are terminated, servers, standbys and gateways that are
/// restarted, a disk that is full, of the tables or of the WAL (a small file system in memory;
/// left out where none may be mounted). After each round of cycles the books of all clients are audited, and nothing may
/// be left open.
#[derive(Parser)]
struct Cli {
    /// Cycles.
    #[arg(long, default_value_t = 10_000)]
    cycles: u64,
    /// Clients of the load.
    #[arg(long, default_value_t = 8)]
    clients: i64,
    /// Cycles between two audits.
    #[arg(long, default_value_t = 100)]
    round: u64,
    /// Only faults of this kind.
    #[arg(long, value_enum)]
    kind: Option<Kind>,
    /// Only on this terrain.
    #[arg(long, value_enum, conflicts_with = "kind")]
    terrain: Option<Terrain>,
    #[command(flatten)]
    rules: Rules<Check>,
}

/// What is broken so that something must be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Check {
    /// Answers to writes leave before their barrier.
    EarlyAnswers,
    /// Answers to reads leave before it.
    EarlyReads,
    /// Answers get to the wrong client.
    CrossedAnswers,
}

/// Memory that the gateway may have.
const MOST_MEMORY: f64 = 128e6;
/// Faults that are told where something is wrong after them.
const LAST_FAULTS: usize = 8;
/// Sentences that are kept.
const MOST_WORDS: usize = 100;

#[derive(Default)]
struct Counts {
    cycles: u64,
    rounds: u64,
    audit: Audit,
    /// How often each kind was tried, and how often it happened.
    kinds: BTreeMap<Kind, (u64, u64)>,
    /// Connections that clients of the load lost.
    lost: u64,
    hung: u64,
    /// What was left open after a round.
    left_open: u64,
    /// Longest until a client was served after a fault.
    slowest: Duration,
    memory: f64,
    /// Times a standby took the server's place.
    promoted: u64,
    codes: BTreeMap<String, u64>,
    kept_out: BTreeMap<String, u64>,
    words: Vec<String>,
}

impl Counts {
    /// Counts what an audit found, and says it with the faults that were the last before it.
    fn judge(&mut self, audit: &Audit, words: Vec<String>, kinds: &[Kind]) {
        self.audit.add(audit);
        if !words.is_empty() {
            self.say(format!("after {:?}:", &kinds[kinds.len().saturating_sub(LAST_FAULTS)..]));
        }
        words.into_iter().for_each(|word| self.say(word));
    }

    fn say(&mut self, what: String) {
        eprintln!("cycle {}: {what}", self.cycles);
        if self.words.len() < MOST_WORDS {
            self.words.push(what);
        }
    }
}

fn main() -> anyhow::Result<ExitCode> {
    GatewayProcess::become_one()?;
    let cli = Cli::parse();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build()?;
    runtime.block_on(run(&cli))
}

async fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    let mut counts = Counts::default();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(cli.rules.seed);
    let reads = if cli.rules.check == Some(Check::EarlyReads) {
        ReadsWait::Off
    } else {
        ReadsWait::Transaction
    };
    let rules = GroundRules {
        settings: GatewaySettings { workers: 2, pool_size: 4, reads, query_wait: 20_000 },
        early_answers: cli.rules.check == Some(Check::EarlyAnswers),
        crosses: cli.rules.check == Some(Check::CrossedAnswers),
    };
    let mut ground = Ground::new(rules).await?;
    let begun = Instant::now();
    while counts.cycles < cli.cycles {
        // A round that does not end is one fault too many.
        round(cli, &mut ground, &mut random, &mut counts).await?;
        counts.rounds += 1;
        if (counts.cycles / cli.round).is_multiple_of(5) || counts.cycles == cli.cycles {
            let each = begun.elapsed().as_secs_f64() * 1e3 / counts.cycles as f64;
            eprintln!("{} of {} cycles, {each:.0} ms each", counts.cycles, cli.cycles);
        }
    }
    Ok(report(cli, &counts))
}

/// Some cycles, and the audit after them.
async fn round(
    cli: &Cli,
    ground: &mut Ground,
    random: &mut Xoshiro256PlusPlus,
    counts: &mut Counts,
) -> anyhow::Result<()> {
    let only = cli.terrain.or(cli.kind.map(Kind::terrain));
    let terrain = only.unwrap_or_else(|| Terrain::of_round(counts.rounds));
    let standby = terrain == Terrain::Standby;
    let ages = !counts.rounds.is_multiple_of(3);
    ledger::empty(ground.judge()).await?;
    match terrain {
        Terrain::Plain => {}
        Terrain::Standby => ground.add_standby().await?,
        Terrain::SmallWal => ground.confine_wal().await?,
    }
    let (places, port) = ground.places();
    let load = Load::start(&places, port, cli.clients, random);
    let book = Book::new(cli.clients, cli.clients + 1);
    let mut kinds = Vec::new();
    let mut victim = Victim::new(book, ground.gateway().place(), ground.gateway().tcp_port());
    for _ in 0..cli.round.min(cli.cycles - counts.cycles) {
        let mut kind = cli.kind.unwrap_or_else(|| Kind::draw(random, terrain, ages));
        let early = matches!(cli.rules.check, Some(Check::EarlyAnswers | Check::EarlyReads));
        if early && !standby && random.random_range(0..10) == 0 {
            // It takes what is not flushed.
            kind = Kind::ServerCrashed;
        }
        sleep(Duration::from_micros(random.random_range(0..3000))).await;
        let happened = if kind.strikes_a_client() {
            victim.suffer(kind, random).await
        } else {
            let struck = ground.strike(kind, random).await;
            victim.moves(ground.gateway().tcp_port());
            struck
        };
        kinds.push(kind);
        let of = counts.kinds.entry(kind).or_default();
        of.0 += 1;
        match happened {
            Ok(happened) => of.1 += u64::from(happened),
            Err(error) if kind.strikes_a_client() => {
                counts.hung += 1;
                counts.say(format!("{error:#}"));
            }
            Err(error) => return Err(error),
        }
        if !kind.strikes_a_client() {
            match ground.probe().await {
                Ok(took) => counts.slowest = counts.slowest.max(took),
                Err(error) => {
                    counts.hung += 1;
                    counts.say(format!("after {kind:?}: {error:#}"));
                }
            }
        }
        counts.cycles += 1;
    }
    if standby {
        ground.lose()?;
    }
    let mut books = vec![victim.leaves()];
    for lived in load.stop().await? {
        counts.lost += lived.lost;
        counts.hung += lived.hung;
        add(&mut counts.kept_out, &lived.kept_out);
        books.push(lived.book);
    }
    for book in &books {
        add(&mut counts.codes, book.codes());
    }
    if standby {
        // What the server that was lost has beyond it is nobody's.
        let promoted = ground.promote().await?;
        counts.promoted += 1;
        let (audit, words) = ledger::audit(&promoted, &books).await?;
        counts.judge(&audit, words, &kinds);
        drop(promoted);
        ground.recover().await?;
    }
    for left in ground.settle().await? {
        counts.left_open += 1;
        counts.say(format!("left open: {left}"));
    }
    if !standby {
        let (audit, words) = ledger::audit(ground.judge(), &books).await?;
        counts.judge(&audit, words, &kinds);
    }
    ground.free_wal().await?;
    counts.memory = counts.memory.max(ground.memory()?);
    Ok(())
}

fn add(to: &mut BTreeMap<String, u64>, from: &BTreeMap<String, u64>) {
    for (code, count) in from {
        *to.entry(code.clone()).or_default() += count;
    }
}

fn report(cli: &Cli, counts: &Counts) -> ExitCode {
    let Counts { cycles, audit, .. } = counts;
    let mut report = Report::new(&format!("{cycles} faults, seed {}", cli.rules.seed));
    for (kind, (tried, happened)) in &counts.kinds {
        let name = kind.to_possible_value().map(|value| value.get_name().to_owned());
        let shown = format!("{tried}, of which it came about {happened} times");
        report.figure(&name.unwrap_or_default(), shown, json!([tried, happened]));
    }
    let codes = |codes: &BTreeMap<String, u64>| {
        let all = codes.iter().map(|(code, count)| format!("{code} {count}"));
        all.collect::<Vec<_>>().join(", ")
    };
    report.figure("errors by SQLSTATE", codes(&counts.codes), json!(counts.codes));
    report.figure("not let in, by SQLSTATE", codes(&counts.kept_out), json!(counts.kept_out));
    let mut figure = |name: &str, value: u64| report.figure(name, value.to_string(), json!(value));
    figure("connections lost by others", counts.lost);
    figure("standbys that took the server's place", counts.promoted);
    let slowest = counts.slowest.as_secs_f64();
    report.figure("slowest to serve after a fault", format!("{slowest:.2} s"), json!(slowest));
    let others = [
        ("sessions or clients left open", counts.left_open),
        ("clients or faults that hung", counts.hung),
    ];
    judge(&mut report, audit, &others, cli.rules.check.is_some());
    let memory = format!("{:.0} MB", counts.memory / 1e6);
    let met = counts.memory <= MOST_MEMORY;
    report.bar("resident memory of the gateway", memory, json!(counts.memory), "<= 128 MB", met);
    report.print(cli.rules.json)
}
