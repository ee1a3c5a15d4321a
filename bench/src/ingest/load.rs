//! Loads of rows, written in one way or another.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use tokio::sync::Notify;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{MissedTickBehavior, interval, sleep, sleep_until};
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, NoTls};
use walwright_coalesce::{Coalescer, Options, Ticket, WriteError};
use walwright_stats::quantile;

use super::{Event, Rows};
use crate::{Latency, Measured, cpu_time};

/// Before anything is measured.
const WARM_UP: Duration = Duration::from_secs(1);
/// Rows that a producer has on their way where it does not wait for each.
const WINDOW: usize = 500;
/// Rows of a `multi_insert`, and those at which the plain loop flushes.
const MANY: usize = 1000;
/// How often the plain loop flushes at least.
const TICK: Duration = Duration::from_millis(50);
/// Rows that producers leave with the plain loop, which itself takes any number.
const GATHERED: usize = 100_000;
/// How long a coalescer's end may take.
const CLOSE: Duration = Duration::from_secs(60);

const INSERT: &str = "INSERT INTO event (token, kind, body) VALUES ($1, $2, $3)";
const COPY: &str = "COPY event (token, kind, body) FROM STDIN (FORMAT binary)";

/// How rows are written.
#[derive(Debug, Clone)]
pub enum Way {
    /// By prepared INSERTs, each producer row by row on a connection of its own.
    Insert,
    /// By a coalescer, each producer row by row.
    Write(Options),
    /// By a coalescer, with many rows of each producer on their way, of which so many of a
    /// thousand are refused.
    Enqueue(Options, u64),
    /// By COPY of so many rows, on so many connections.
    Copy {
        /// Connections.
        connections: usize,
        /// Rows of each COPY.
        rows: usize,
    },
    /// By INSERTs of many rows, on so many connections.
    MultiInsert(usize),
    /// By a loop that COPYs what was gathered at 1,000 rows or every 50 ms, and drops a batch that
    /// fails; who adds a row is not told.
    PlainLoop,
    /// Not at all: what it costs to make them.
    Nothing,
}

/// What writers were told, and when they are to stop.
#[derive(Debug, Default)]
pub struct Meter {
    written: AtomicU64,
    refused: AtomicU64,
    stop: AtomicBool,
    is_measuring: AtomicBool,
    /// The rows that were told to be written, where they are kept.
    tokens: Option<Mutex<Vec<i64>>>,
}

impl Meter {
    /// One that keeps which rows were told to be written.
    pub fn that_keeps_rows() -> Meter {
        Meter { tokens: Some(Mutex::default()), ..Meter::default() }
    }

    /// The rows that were told to be written.
    pub fn tokens(&self) -> Vec<i64> {
        let tokens = self.tokens.as_ref();
        tokens.map_or_else(Vec::new, |tokens| {
            tokens.lock().unwrap_or_else(PoisonError::into_inner).clone()
        })
    }

    /// Rows that were refused.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Acquire)
    }

    /// Rows that were told to be written.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    fn told(&self, written: &[i64]) {
        self.written.fetch_add(written.len() as u64, Ordering::AcqRel);
        if let Some(tokens) = &self.tokens {
            tokens.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(written);
        }
    }

    fn answered(&self, token: i64, answer: Result<(), WriteError>) -> Result<(), WriteError> {
        match answer {
            Ok(()) => self.told(&[token]),
            Err(WriteError::Refused(_)) => {
                self.refused.fetch_add(1, Ordering::AcqRel);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Acquire)
    }
}

/// Producers at work.
pub struct Load {
    /// Each gives the latencies that it saw, in seconds.
    tasks: JoinSet<anyhow::Result<Vec<f64>>>,
    coalescer: Option<Coalescer<Event>>,
    meter: Arc<Meter>,
}

impl Load {
    /// Sets producers to work.
    ///
    /// # Errors
    /// When the server does not take them.
    pub async fn start(
        way: &Way,
        dsn: &str,
        producers: i64,
        meter: Arc<Meter>,
    ) -> anyhow::Result<Load> {
        let (mut tasks, mut coalescer) = (JoinSet::new(), None);
        match way {
            Way::Insert => {
                for number in 0..producers {
                    let client = connect(dsn).await?;
                    tasks.spawn(insert(client, Rows::of(number, 0), meter.clone()));
                }
            }
            Way::Write(options) => {
                let events = Coalescer::connect(dsn, "event", options.clone()).await?;
                for number in 0..producers {
                    tasks.spawn(write(events.clone(), Rows::of(number, 0), meter.clone()));
                }
                coalescer = Some(events);
            }
            Way::Enqueue(options, bad) => {
                let events = Coalescer::connect(dsn, "event", options.clone()).await?;
                for number in 0..producers {
                    tasks.spawn(enqueue(events.clone(), Rows::of(number, *bad), meter.clone()));
                }
                coalescer = Some(events);
            }
            Way::Copy { connections, rows } => {
                for number in 0..*connections {
                    let (client, from) = (connect(dsn).await?, Rows::of(i64::try_from(number)?, 0));
                    tasks.spawn(copy(client, from, *rows, meter.clone()));
                }
            }
            Way::MultiInsert(connections) => {
                for number in 0..*connections {
                    let (client, from) = (connect(dsn).await?, Rows::of(i64::try_from(number)?, 0));
                    tasks.spawn(multi_insert(client, from, meter.clone()));
                }
            }
            Way::PlainLoop => {
                let gathered = Arc::new(Gathered::default());
                for number in 0..producers {
                    tasks.spawn(add(gathered.clone(), Rows::of(number, 0), meter.clone()));
                }
                tasks.spawn(plain_loop(gathered, dsn.to_owned(), meter.clone()));
            }
            Way::Nothing => {
                for number in 0..producers {
                    tasks.spawn(make(Rows::of(number, 0), meter.clone()));
                }
            }
        }
        Ok(Load { tasks, coalescer, meter })
    }

    /// Has them stop when they are answered; the latencies that they saw.
    ///
    /// # Errors
    /// When one of them failed.
    pub async fn end(mut self) -> anyhow::Result<Vec<f64>> {
        self.meter.stop.store(true, Ordering::Release);
        let mut latencies = Vec::new();
        let mut failed = None;
        while let Some(ended) = self.tasks.join_next().await {
            match ended? {
                Ok(seen) => latencies.extend(seen),
                Err(error) => failed = Some(error),
            }
        }
        if let Some(coalescer) = self.coalescer {
            let left = coalescer.close(CLOSE).await;
            anyhow::ensure!(left.is_empty(), "{} rows were left", left.len());
        }
        failed.map_or(Ok(latencies), Err)
    }
}

/// Loads the server in a closed loop. Rows count when they are durable; CPU is that of this
/// process, which makes the rows too.
///
/// # Errors
/// When a producer fails.
pub async fn measure(
    way: &Way,
    dsn: &str,
    producers: i64,
    length: Duration,
    meter: Arc<Meter>,
) -> anyhow::Result<Measured> {
    let load = Load::start(way, dsn, producers, meter.clone()).await?;
    sleep(WARM_UP).await;
    meter.is_measuring.store(true, Ordering::Release);
    let own = std::process::id();
    let (begun, rows, cpu) = (Instant::now(), meter.written(), cpu_time(own)?);
    sleep(length).await;
    let (took, rows) = (begun.elapsed().as_secs_f64(), (meter.written() - rows) as f64);
    let cpu = cpu_time(own)?.saturating_sub(cpu).as_secs_f64();
    meter.is_measuring.store(false, Ordering::Release);
    let latency = latency(&load.end().await?);
    Ok(Measured { throughput: rows / took, cpu_us: cpu * 1e6 / rows, latency })
}

/// Rows that are due at a rate, written by a coalescer. Latency is from when each was due; it is
/// seen when the rows of its producer before it are answered too.
///
/// # Errors
/// When a row is not written.
pub async fn offer(
    options: &Options,
    dsn: &str,
    producers: i64,
    rate: f64,
    length: Duration,
) -> anyhow::Result<Measured> {
    let events = Coalescer::<Event>::connect(dsn, "event", options.clone()).await?;
    let begun = Instant::now();
    let (measured_from, end) = (begun + WARM_UP, begun + WARM_UP + length);
    let cpu = cpu_time(std::process::id())?;
    let mut tasks = JoinSet::new();
    for number in 0..producers {
        let (events, mut rows) = (events.clone(), Rows::of(number, 0));
        let gap = producers as f64 / rate;
        let first = gap * number as f64 / producers as f64;
        let (sender, mut answers) = tokio::sync::mpsc::unbounded_channel::<(Instant, Ticket)>();
        tasks.spawn(async move {
            let mut latencies = Vec::new();
            while let Some((due, ticket)) = answers.recv().await {
                ticket.await?;
                if due >= measured_from {
                    latencies.push(due.elapsed().as_secs_f64());
                }
            }
            anyhow::Ok(latencies)
        });
        tasks.spawn(async move {
            for nth in 0_u32.. {
                let due = begun + Duration::from_secs_f64(first + gap * f64::from(nth));
                if due >= end {
                    break;
                }
                if due > Instant::now() {
                    sleep_until(due.into()).await;
                }
                let ticket = events.enqueue(rows.next().context("rows")?).await?;
                sender.send((due, ticket))?;
            }
            anyhow::Ok(Vec::new())
        });
    }
    let mut latencies = Vec::new();
    while let Some(ended) = tasks.join_next().await {
        latencies.extend(ended??);
    }
    let took = measured_from.elapsed().as_secs_f64();
    let cpu = cpu_time(std::process::id())?.saturating_sub(cpu).as_secs_f64();
    let written = latencies.len() as f64;
    let latency = latency(&latencies);
    events.close(CLOSE).await;
    Ok(Measured { throughput: written / took, cpu_us: cpu * 1e6 / written, latency })
}

fn latency(seen: &[f64]) -> Option<Latency> {
    Some(Latency { p50: quantile(seen, 0.5)?, p99: quantile(seen, 0.99)? })
}

/// A connection, which ends with its client.
async fn connect(dsn: &str) -> anyhow::Result<Client> {
    let (client, connection) = tokio_postgres::connect(dsn, NoTls).await?;
    tokio::spawn(async move { connection.await.ok() });
    Ok(client)
}

async fn insert(client: Client, mut rows: Rows, meter: Arc<Meter>) -> anyhow::Result<Vec<f64>> {
    let statement = client.prepare(INSERT).await?;
    let mut latencies = Vec::new();
    while meter.goes_on() {
        let row = rows.next().context("rows")?;
        let begun = Instant::now();
        client.execute(&statement, &[&row.token, &row.kind, &row.body]).await?;
        if meter.is_measuring.load(Ordering::Acquire) {
            latencies.push(begun.elapsed().as_secs_f64());
        }
        meter.told(&[row.token]);
    }
    Ok(latencies)
}

async fn write(
    events: Coalescer<Event>,
    mut rows: Rows,
    meter: Arc<Meter>,
) -> anyhow::Result<Vec<f64>> {
    let mut latencies = Vec::new();
    while meter.goes_on() {
        let row = rows.next().context("rows")?;
        let (token, begun) = (row.token, Instant::now());
        let answer = events.write(row).await;
        if meter.is_measuring.load(Ordering::Acquire) {
            latencies.push(begun.elapsed().as_secs_f64());
        }
        meter.answered(token, answer)?;
    }
    Ok(latencies)
}

async fn enqueue(
    events: Coalescer<Event>,
    mut rows: Rows,
    meter: Arc<Meter>,
) -> anyhow::Result<Vec<f64>> {
    let mut tickets = VecDeque::with_capacity(WINDOW);
    while meter.goes_on() {
        if tickets.len() == WINDOW
            && let Some((token, ticket)) = tickets.pop_front()
        {
            let ticket: Ticket = ticket;
            meter.answered(token, ticket.await)?;
        }
        let row = rows.next().context("rows")?;
        tickets.push_back((row.token, events.enqueue(row).await?));
    }
    for (token, ticket) in tickets {
        meter.answered(token, ticket.await)?;
    }
    Ok(Vec::new())
}

async fn copy(
    client: Client,
    mut rows: Rows,
    many: usize,
    meter: Arc<Meter>,
) -> anyhow::Result<Vec<f64>> {
    while meter.goes_on() {
        let batch: Vec<_> = rows.by_ref().take(many).collect();
        copy_once(&client, &batch).await?;
        meter.told(&tokens(&batch));
    }
    Ok(Vec::new())
}

fn tokens(rows: &[Event]) -> Vec<i64> {
    rows.iter().map(|row| row.token).collect()
}

async fn copy_once(client: &Client, rows: &[Event]) -> anyhow::Result<()> {
    let sink = client.copy_in(COPY).await?;
    let writer = BinaryCopyInWriter::new(sink, &[Type::INT8, Type::TEXT, Type::TEXT]);
    let mut writer = std::pin::pin!(writer);
    for row in rows {
        writer.as_mut().write(&[&row.token, &row.kind, &row.body]).await?;
    }
    writer.finish().await?;
    Ok(())
}

async fn multi_insert(
    client: Client,
    mut rows: Rows,
    meter: Arc<Meter>,
) -> anyhow::Result<Vec<f64>> {
    let values =
        (0..MANY).map(|row| format!("(${}, ${}, ${})", row * 3 + 1, row * 3 + 2, row * 3 + 3));
    let values = values.collect::<Vec<_>>().join(", ");
    let statement =
        client.prepare(&format!("INSERT INTO event (token, kind, body) VALUES {values}")).await?;
    while meter.goes_on() {
        let batch: Vec<_> = rows.by_ref().take(MANY).collect();
        let values = batch.iter().flat_map(|row| {
            let values: [&(dyn ToSql + Sync); 3] = [&row.token, &row.kind, &row.body];
            values
        });
        client.execute(&statement, &values.collect::<Vec<_>>()).await?;
        meter.told(&tokens(&batch));
    }
    Ok(Vec::new())
}

/// What the plain loop has to write.
#[derive(Default)]
struct Gathered {
    rows: Mutex<Vec<Event>>,
    full: Notify,
}

/// Adds rows, which is all that its producers know of them.
async fn add(
    gathered: Arc<Gathered>,
    mut rows: Rows,
    meter: Arc<Meter>,
) -> anyhow::Result<Vec<f64>> {
    while meter.goes_on() {
        let row = rows.next().context("rows")?;
        let token = row.token;
        let gathered_rows = {
            let mut batch = gathered.rows.lock().unwrap_or_else(PoisonError::into_inner);
            batch.push(row);
            batch.len()
        };
        if gathered_rows >= MANY {
            gathered.full.notify_one();
        }
        if meter.tokens.is_some() {
            meter.told(&[token]);
        }
        if gathered_rows > GATHERED {
            sleep(Duration::from_millis(1)).await;
        } else if token % 64 == 0 {
            yield_now().await;
        }
    }
    Ok(Vec::new())
}

async fn plain_loop(
    gathered: Arc<Gathered>,
    dsn: String,
    meter: Arc<Meter>,
) -> anyhow::Result<Vec<f64>> {
    let mut client = Some(connect(&dsn).await?);
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        let is_last = !meter.goes_on();
        tokio::select! {
            () = gathered.full.notified() => {}
            _ = ticks.tick() => {}
        }
        let batch =
            std::mem::take(&mut *gathered.rows.lock().unwrap_or_else(PoisonError::into_inner));
        if client.as_ref().is_none_or(Client::is_closed) {
            client = connect(&dsn).await.ok();
        }
        // What fails is dropped.
        if let Some(client) = &client
            && copy_once(client, &batch).await.is_ok()
            && meter.tokens.is_none()
        {
            meter.told(&tokens(&batch));
        }
        if is_last {
            return Ok(Vec::new());
        }
    }
}

async fn make(mut rows: Rows, meter: Arc<Meter>) -> anyhow::Result<Vec<f64>> {
    while meter.goes_on() {
        let row = rows.next().context("rows")?;
        let token = row.token;
        std::hint::black_box(row);
        meter.told(&[token]);
        if token % 64 == 0 {
            yield_now().await;
        }
    }
    Ok(Vec::new())
}
