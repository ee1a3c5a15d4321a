//! The write coalescer against one-row inserts, a bare COPY and what people write themselves.

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use rand::RngExt;
use serde_json::json;
use tokio::runtime::Runtime;
use walwright_bench::ingest::{Event, Load, Meter, Rows, Way, empty, measure, offer};
use walwright_bench::{Blocks, Measured, Options, Report, Testbed, local_dsn, resident_bytes};
use walwright_coalesce::{
    Capacity, Coalescer, DeadLetters, Idempotency, Lanes, Options as Coalesce,
};
use walwright_server::{Cluster, ClusterSpec, Installs, Major, Places, PowerCut};

/// Rows of 64 producers into a table with two indexes, on unix sockets: by inserts, by the
/// coalescer, by COPY, and by two of its peers. All take turns on one server.
#[derive(Parser)]
struct Cli {
    /// Parts by their name: rates, lone, tail, memory, bad, kills. The default is all.
    only: Vec<String>,
    /// A WAL flush at least, such as 2ms; as the storage does it where it is not given.
    #[arg(long, value_name = "TIME", value_parser = walwright_workload::parse_duration)]
    flush_latency: Option<Duration>,
    /// Power cuts for each way of writing.
    #[arg(long, default_value_t = 10)]
    cuts: u32,
    #[command(flatten)]
    options: Options,
}

const PRODUCERS: i64 = 64;
/// Times one-row inserts that rows are to be written at, and that rows are offered at.
const INSERTS: f64 = 4.0;
const OFFERED: f64 = 2.0;
/// Part of a bare COPY's rate.
const OF_COPY: f64 = 0.85;
/// Times a direct INSERT's p50.
const LONE: f64 = 1.15;
/// Microseconds of the client's CPU a row.
const CPU_US: f64 = 3.0;
/// Longest p99 at the offered rate, and in flushes.
const TAIL: Duration = Duration::from_millis(20);
const TAIL_FLUSHES: u32 = 5;
/// Part of the rate without bad rows with one of a thousand.
const WITH_BAD: f64 = 0.8;
/// Part of a rate that has to be served for it to count as reached.
const REACHED: f64 = 0.98;
/// Bytes that a row may take beside its fields while it waits.
const BESIDE: usize = 512;

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let settings = [("max_connections", "100"), ("max_wal_size", "4GB")];
    let testbed = Testbed::with_flushes(1, &settings, cli.flush_latency)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let title = match cli.flush_latency {
        Some(time) => format!("WAL flushes of {time:?} at least"),
        None => "WAL flushes as the storage does them".to_owned(),
    };
    let mut report = Report::new(&format!(
        "{PRODUCERS} producers, two indexes, unix sockets, {title}, {} blocks of {} s",
        cli.options.blocks, cli.options.seconds
    ));
    let bench = Bench { cli, testbed, runtime };
    let parts: [(&str, Part); 6] = [
        ("rates", Bench::rates),
        ("lone", Bench::lone),
        ("tail", Bench::tail),
        ("memory", Bench::memory),
        ("bad", Bench::bad),
        ("kills", Bench::kills),
    ];
    for (name, part) in parts {
        if bench.cli.only.is_empty() || bench.cli.only.iter().any(|only| name.contains(only)) {
            part(&bench, &mut report)?;
        }
    }
    Ok(report.print(bench.cli.options.json))
}

type Part = fn(&Bench, &mut Report) -> anyhow::Result<()>;

struct Bench {
    cli: Cli,
    testbed: Testbed,
    runtime: Runtime,
}

fn rate(measured: &Measured) -> f64 {
    measured.throughput
}

fn p50_us(measured: &Measured) -> f64 {
    measured.latency.map_or(f64::NAN, |latency| latency.p50 * 1e6)
}

fn p99_ms(measured: &Measured) -> f64 {
    measured.latency.map_or(f64::NAN, |latency| latency.p99 * 1e3)
}

/// Ways that are compared, with many rows of each producer on their way where that can be.
fn ways() -> [(&'static str, Way); 6] {
    let options = Coalesce::default();
    let (connections, rows) = (options.connections, options.flush.rows);
    [
        ("one-row inserts", Way::Insert),
        ("coalescer, row by row", Way::Write(options.clone())),
        ("coalescer", Way::Enqueue(options, 0)),
        ("bare COPY", Way::Copy { connections, rows }),
        ("multi_insert", Way::MultiInsert(connections)),
        ("plain loop", Way::PlainLoop),
    ]
}

impl Bench {
    fn empty(&self) -> anyhow::Result<()> {
        let dsn = self.testbed.dsn();
        self.runtime.block_on(async { anyhow::Ok(empty(&connect(&dsn).await?).await?) })?;
        self.testbed.execute("CHECKPOINT")
    }

    fn run(&self, way: &Way, producers: i64) -> anyhow::Result<Measured> {
        self.run_metered(way, producers, Arc::default())
    }

    fn run_metered(
        &self,
        way: &Way,
        producers: i64,
        meter: Arc<Meter>,
    ) -> anyhow::Result<Measured> {
        self.empty()?;
        let dsn = self.testbed.dsn();
        let length = self.cli.options.length();
        self.runtime.block_on(measure(way, &dsn, producers, length, meter))
    }

    /// Rows a second that are durable, and the client's CPU.
    fn rates(&self, report: &mut Report) -> anyhow::Result<()> {
        let ways = ways();
        let mut blocks = Blocks::new();
        for (name, way) in &ways {
            blocks.add(name, || self.run(way, PRODUCERS));
        }
        let making = blocks.add("making rows", || self.run(&Way::Nothing, PRODUCERS));
        blocks.run(self.cli.options.blocks)?;
        let [inserts, written, ours, copy, _, _] = [0, 1, 2, 3, 4, 5];
        for number in 0..ways.len() {
            let shown = format!("{:.0} rows/s", blocks.median(number, rate));
            report.figure(blocks.name(number), shown.clone(), json!(shown));
        }
        for (number, against, bar) in [
            (ours, inserts, Some(INSERTS)),
            (ours, copy, Some(OF_COPY)),
            (written, inserts, None),
            (4, inserts, None),
            (5, inserts, None),
        ] {
            let ratio = blocks.ratio(number, against, rate)?;
            let name = format!("{} / {}", blocks.name(number), blocks.name(against));
            match bar {
                Some(bar) => {
                    let met = ratio.center >= bar;
                    report.bar(&name, ratio.to_string(), ratio.json(), &format!(">= {bar}"), met);
                }
                None => report.figure(&name, ratio.to_string(), ratio.json()),
            }
        }
        let cpu = |of| blocks.median(of, |m| m.cpu_us);
        let used = cpu(ours) - cpu(making);
        let shown = format!("{used:.2} us, and {:.2} us for making it", cpu(making));
        let bar = format!("<= {CPU_US} us");
        report.bar("client's CPU a row", shown, json!(used), &bar, used <= CPU_US);
        let shown = format!("{:.2} us", cpu(copy) - cpu(making));
        report.figure("client's CPU a row, bare COPY", shown, json!(cpu(copy) - cpu(making)));
        Ok(())
    }

    /// Latency of a producer who is alone.
    fn lone(&self, report: &mut Report) -> anyhow::Result<()> {
        let mut blocks = Blocks::new();
        let direct = blocks.add("INSERT", || self.run(&Way::Insert, 1));
        let ours = blocks.add("coalescer", || self.run(&Way::Write(Coalesce::default()), 1));
        blocks.run(self.cli.options.blocks)?;
        let ratio = blocks.ratio(ours, direct, p50_us)?;
        let [direct, ours] = [direct, ours].map(|of| blocks.median(of, p50_us));
        let shown = format!("{ratio}; {ours:.0} us, INSERT {direct:.0} us");
        let met = ratio.center <= LONE;
        report.bar("p50 of a lone producer", shown, ratio.json(), &format!("<= {LONE}"), met);
        Ok(())
    }

    /// p99 of rows that are due at twice the rate of one-row inserts.
    fn tail(&self, report: &mut Report) -> anyhow::Result<()> {
        let mut blocks = Blocks::new();
        let direct = blocks.add("one-row inserts", || self.run(&Way::Insert, PRODUCERS));
        blocks.run(self.cli.options.blocks.min(2))?;
        let offered = OFFERED * blocks.median(direct, rate);
        let mut blocks = Blocks::new();
        let ours = blocks.add("coalescer", || {
            self.empty()?;
            let (dsn, length) = (self.testbed.dsn(), self.cli.options.length());
            self.runtime.block_on(offer(&Coalesce::default(), &dsn, PRODUCERS, offered, length))
        });
        blocks.run(self.cli.options.blocks)?;
        let (p99, p50) = (blocks.median(ours, p99_ms), blocks.median(ours, p50_us) / 1e3);
        let served = blocks.median(ours, rate);
        let limit = TAIL.max(self.cli.flush_latency.unwrap_or_default() * TAIL_FLUSHES);
        let limit = limit.as_secs_f64() * 1e3;
        let shown = format!("{p99:.1} ms, p50 {p50:.1} ms, {served:.0}/s served");
        let met = p99 <= limit && served >= REACHED * offered;
        let name = format!("p99 at {offered:.0} rows/s offered");
        report.bar(&name, shown, json!(p99), &format!("<= {limit} ms"), met);
        Ok(())
    }

    /// Memory while ten times as many rows are offered as the server takes.
    fn memory(&self, report: &mut Report) -> anyhow::Result<()> {
        let options =
            Coalesce { capacity: Capacity { rows: 50_000, bytes: 8 << 20 }, ..Coalesce::default() };
        let taken = self.run(&Way::Enqueue(options.clone(), 0), PRODUCERS)?.throughput;
        self.empty()?;
        let (dsn, length) = (self.testbed.dsn(), self.cli.options.length());
        let capacity = options.capacity;
        let flood = self.runtime.block_on(flood(options, &dsn, 10.0 * taken, length))?;
        let there = self.testbed.number("SELECT count(*) FROM event")?;
        let lost = flood.accepted as f64 - there;
        let bound = (capacity.bytes + capacity.rows * BESIDE) as f64;
        let shown = format!("{:.1} MB above the start", flood.grown / 1e6);
        let bar = format!("<= {:.1} MB", bound / 1e6);
        report.bar("memory at 10 x", shown, json!(flood.grown), &bar, flood.grown <= bound);
        let waited = flood.offered as f64 / flood.accepted as f64;
        let shown = format!(
            "{} offered, {} accepted, at most {} rows waited",
            flood.offered, flood.accepted, flood.most
        );
        report.bar("offered / accepted", shown, json!(waited), "more", waited > 1.0);
        let within = flood.most <= capacity.rows;
        let bar = format!("<= {}", capacity.rows);
        report.bar(
            "most rows that waited",
            flood.most.to_string(),
            json!(flood.most),
            &bar,
            within,
        );
        report.bar("accepted rows lost", format!("{lost}"), json!(lost), "0", lost == 0.0);
        Ok(())
    }

    /// Rates with bad rows, and where those are afterwards.
    fn bad(&self, report: &mut Report) -> anyhow::Result<()> {
        let letters =
            DeadLetters::Table { name: "walwright_dead_letters".to_owned(), create: false };
        let options = Coalesce { dead_letters: letters, ..Coalesce::default() };
        let wrong = std::cell::Cell::new(0.0);
        let mut blocks = Blocks::new();
        for (name, bad) in
            [("no bad rows", 0), ("0.1 % bad", 1), ("1 % bad", 10), ("10 % bad", 100)]
        {
            let (options, wrong) = (options.clone(), &wrong);
            blocks.add(name, move || {
                let meter = Arc::new(Meter::default());
                let way = Way::Enqueue(options.clone(), bad);
                let measured = self.run_metered(&way, PRODUCERS, meter.clone())?;
                wrong.set(wrong.get() + self.wrong(&meter, bad)?);
                Ok(measured)
            });
        }
        blocks.run(self.cli.options.blocks)?;
        for number in 1..4 {
            let ratio = blocks.ratio(number, 0, rate)?;
            let name = format!("{} / none", blocks.name(number));
            let shown = format!("{ratio}; {:.0} rows/s", blocks.median(number, rate));
            if number == 1 {
                let met = ratio.center >= WITH_BAD;
                report.bar(&name, shown, ratio.json(), &format!(">= {WITH_BAD}"), met);
            } else {
                report.figure(&name, shown, ratio.json());
            }
        }
        drop(blocks);
        let wrong = wrong.get();
        report.bar(
            "rows not where they belong",
            format!("{wrong}"),
            json!(wrong),
            "0",
            wrong == 0.0,
        );
        Ok(())
    }

    /// Rows that are not where they belong: in the table, or among the dead letters.
    fn wrong(&self, meter: &Meter, bad: u64) -> anyhow::Result<f64> {
        let written = self.testbed.number("SELECT count(*) FROM event")?;
        let bad_written = self.testbed.number("SELECT count(*) FROM event WHERE kind = ''")?;
        let letters = "SELECT (payload->>'token')::bigint FROM walwright_dead_letters";
        let dsn = self.testbed.dsn();
        let letters: Vec<i64> = self.runtime.block_on(async {
            let rows = connect(&dsn).await?.query(letters, &[]).await?;
            anyhow::Ok(rows.iter().map(|row| row.get(0)).collect())
        })?;
        let good_letters = letters.iter().filter(|token| !Rows::is_bad(**token, bad)).count();
        let missing = (meter.refused() as f64 - letters.len() as f64).abs();
        let lost = (meter.written() as f64 - written).abs();
        Ok(bad_written + good_letters as f64 + missing + lost)
    }

    /// What power cuts take of what writers were told.
    fn kills(&self, report: &mut Report) -> anyhow::Result<()> {
        let lanes = Idempotency::Lanes(Lanes {
            table: "walwright_lanes".to_owned(),
            create: false,
            source: None,
        });
        let options = Coalesce { idempotency: lanes, ..Coalesce::default() };
        let others = ways()
            .into_iter()
            .filter(|(_, way)| !matches!(way, Way::Write(_) | Way::Enqueue(..) | Way::Copy { .. }));
        for (name, way) in [("coalescer", Way::Enqueue(options, 0))].into_iter().chain(others) {
            let [told, lost, doubled] = self.kill(name, &way)?;
            let shown = format!("{told} told, {lost} lost, {doubled} doubled");
            let name = format!("{} power cuts, {name}", self.cli.cuts);
            let value = json!({ "told": told, "lost": lost, "doubled": doubled });
            if matches!(way, Way::Enqueue(..)) {
                report.bar(&name, shown, value, "none lost", lost + doubled == 0);
            } else {
                report.figure(&name, shown, value);
            }
        }
        Ok(())
    }

    /// Power cuts in the middle of loads: rows told to be written, those of them that are gone,
    /// and rows that are there twice.
    fn kill(&self, name: &str, way: &Way) -> anyhow::Result<[u64; 3]> {
        let places = Places::open(None)?;
        let install = Installs::within(places.clone()).ensure(Major::V18, &mut |_| {})?;
        let mut spec = ClusterSpec::new(&places, install);
        spec.settings = vec![("max_connections".to_owned(), "100".to_owned())];
        let mut running = Cluster::create(spec)?.start_watched()?;
        let cluster = running.cluster().clone();
        let mut counts = [0; 3];
        for cut in 1..=self.cli.cuts {
            eprintln!("{name}: power cut {cut} of {}", self.cli.cuts);
            let dsn = local_dsn(running.socket_dir(), running.port());
            let meter = Arc::new(Meter::that_keeps_rows());
            let load = self.runtime.block_on(async {
                empty(&connect(&dsn).await?).await?;
                Load::start(way, &dsn, PRODUCERS, meter.clone()).await
            })?;
            std::thread::sleep(Duration::from_millis(rand::rng().random_range(300..900)));
            running.cut_power(PowerCut::All)?;
            running = cluster.start_watched()?;
            // Those without a coalescer have lost their connections, and said so.
            let ended = self.runtime.block_on(load.end());
            if matches!(way, Way::Enqueue(..)) {
                ended?;
            }
            let dsn = local_dsn(running.socket_dir(), running.port());
            // Counted here: on disk, a hash of all tokens takes the server minutes.
            let mut there: HashMap<i64, u32> = HashMap::new();
            let rows = self.runtime.block_on(async {
                anyhow::Ok(connect(&dsn).await?.query("SELECT token FROM event", &[]).await?)
            })?;
            for row in rows {
                *there.entry(row.get(0)).or_default() += 1;
            }
            let told = meter.tokens();
            let lost = told.iter().filter(|token| !there.contains_key(token)).count();
            let doubled = there.values().filter(|count| **count > 1).count();
            let all = [told.len(), lost, doubled];
            counts.iter_mut().zip(all).for_each(|(count, more)| *count += more as u64);
        }
        Ok(counts)
    }
}

async fn connect(dsn: &str) -> anyhow::Result<tokio_postgres::Client> {
    let (client, connection) = tokio_postgres::connect(dsn, tokio_postgres::NoTls).await?;
    // It ends with its client.
    tokio::spawn(async move { connection.await.ok() });
    Ok(client)
}

/// What more rows than the server takes did.
struct Flood {
    offered: u64,
    accepted: u64,
    /// Most rows that waited or were on their way.
    most: usize,
    /// Resident memory, in bytes, above that of the start.
    grown: f64,
}

/// Offers rows at a rate until the time is over. Nobody waits for tickets, so that nothing but the
/// coalescer takes memory.
async fn flood(options: Coalesce, dsn: &str, rate: f64, length: Duration) -> anyhow::Result<Flood> {
    let events = Coalescer::<Event>::connect(dsn, "event", options).await?;
    let own = std::process::id();
    let before = resident_bytes(own)?;
    let begun = Instant::now();
    let producers = (0..PRODUCERS).map(|number| {
        let (events, rows) = (events.clone(), Rows::of(number, 0));
        tokio::spawn(async move {
            let mut accepted = 0_u64;
            for row in rows {
                let due =
                    begun + Duration::from_secs_f64(accepted as f64 * PRODUCERS as f64 / rate);
                if begun.elapsed() >= length {
                    break;
                }
                if due > Instant::now() {
                    tokio::time::sleep_until(due.into()).await;
                }
                drop(events.enqueue(row).await?);
                accepted += 1;
            }
            anyhow::Ok(accepted)
        })
    });
    let producers: Vec<_> = producers.collect();
    let (mut most, mut grown) = (0, 0.0_f64);
    while begun.elapsed() < length {
        most = most.max(events.waiting().0);
        grown = grown.max(resident_bytes(own)? - before);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let mut accepted = 0;
    for producer in producers {
        accepted += producer.await??;
    }
    let left = events.close(Duration::from_secs(60)).await;
    anyhow::ensure!(left.is_empty(), "{} rows were left", left.len());
    let offered = (rate * length.as_secs_f64()) as u64;
    Ok(Flood { offered, accepted, most, grown })
}
