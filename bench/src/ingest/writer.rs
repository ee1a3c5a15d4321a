//! Writers in a process of their own, which can be killed.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::{Parser, ValueEnum};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use walwright_coalesce::{
    Capacity, Coalescer, ConnectError, DeadLetters, Durability, Flush, Idempotency, Lanes, Options,
    Retry, WriteError,
};

use super::books::Fate;
use super::{Event, Rows};

/// First argument of a process that writes.
const ROLE: &str = "--be-the-writer";
/// Servers of tests come back much sooner.
const RETRY: Duration = Duration::from_secs(30);
/// A connection without an answer is given up after so long.
const BATCH_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the end may take.
const CLOSE: Duration = Duration::from_secs(40);

/// How a batch is written again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Idempotent {
    /// By a record of each connection.
    Lanes,
    /// By the rows' own key.
    Key,
    /// Not at all.
    None,
}

impl Idempotent {
    /// The table that is written.
    pub fn table(self) -> &'static str {
        if self == Idempotent::Key { "keyed" } else { "event" }
    }
}

/// How writers write.
#[derive(Debug, Clone, Copy, Parser)]
pub struct WriterSettings {
    /// How a batch is written again.
    #[arg(long)]
    pub idempotent: Idempotent,
    /// Acknowledges what is not flushed.
    #[arg(long)]
    pub early: bool,
    /// Whether there is a table of dead letters.
    #[arg(long)]
    pub letters: bool,
    /// Connections of the coalescer.
    #[arg(long)]
    pub connections: usize,
    /// Most rows of a batch.
    #[arg(long)]
    pub rows: usize,
    /// Producers.
    #[arg(long)]
    pub producers: i64,
    /// Most rows that one of them has on their way.
    #[arg(long)]
    pub burst: usize,
    /// Of a thousand rows so many are refused.
    #[arg(long)]
    pub bad: u64,
    /// Decides who writes when.
    #[arg(long)]
    pub seed: u64,
}

impl WriterSettings {
    fn options(&self) -> Options {
        let idempotency = match self.idempotent {
            Idempotent::None => Idempotency::None,
            Idempotent::Key => Idempotency::Key(vec!["token".to_owned()]),
            Idempotent::Lanes => Idempotency::Lanes(Lanes {
                table: "walwright_lanes".to_owned(),
                create: false,
                source: None,
            }),
        };
        let letters =
            DeadLetters::Table { name: "walwright_dead_letters".to_owned(), create: false };
        Options {
            connections: self.connections,
            flush: Flush { rows: self.rows, ..Flush::default() },
            capacity: Capacity { rows: 10_000, ..Capacity::default() },
            durability: if self.early { Durability::Off } else { Durability::Session },
            idempotency,
            retry: Retry { within: RETRY, longest: Duration::from_millis(200), ..Retry::default() },
            batch_timeout: BATCH_TIMEOUT,
            dead_letters: if self.letters { letters } else { DeadLetters::None },
            ..Options::default()
        }
    }
}

#[derive(Debug, Parser)]
struct Role {
    /// Directory of the server's socket.
    #[arg(long)]
    directory: PathBuf,
    #[arg(long)]
    port: u16,
    /// Where it writes down what it is told.
    #[arg(long)]
    book: PathBuf,
    #[command(flatten)]
    settings: WriterSettings,
}

impl Role {
    async fn run(self) -> anyhow::Result<()> {
        let url = crate::local_dsn(&self.directory, self.port);
        let events = connect(&url, &self.settings).await?;
        let book = Arc::new(File::options().create(true).append(true).open(&self.book)?);
        let stop = Arc::new(AtomicBool::new(false));
        let producers = (0..self.settings.producers).map(|number| {
            let (events, book, stop) = (events.clone(), book.clone(), stop.clone());
            tokio::spawn(produce(events, book, stop, number, self.settings))
        });
        let producers: Vec<_> = producers.collect();
        println!("ready");
        std::io::stdout().flush()?;
        let stopped = stop.clone();
        // It is to end when who started it says so or has gone. A thread of its own, since a
        // runtime waits for its own.
        std::thread::spawn(move || {
            let _ = std::io::stdin().read(&mut [0]);
            stopped.store(true, Ordering::Release);
        });
        for producer in producers {
            producer.await??;
        }
        let left = events.close(CLOSE).await;
        if !left.is_empty() {
            bail!("{} rows were left, though all were answered", left.len());
        }
        Ok(())
    }
}

/// A coalescer, however often its first connections are cut.
async fn connect(url: &str, settings: &WriterSettings) -> anyhow::Result<Coalescer<Event>> {
    let begun = Instant::now();
    loop {
        let table = settings.idempotent.table();
        match Coalescer::connect(url, table, settings.options()).await {
            Ok(events) => return Ok(events),
            Err(ConnectError::Server(_)) if begun.elapsed() < RETRY => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

async fn produce(
    events: Coalescer<Event>,
    book: Arc<File>,
    stop: Arc<AtomicBool>,
    number: i64,
    settings: WriterSettings,
) -> anyhow::Result<()> {
    let seed = settings.seed.wrapping_mul(1 << 20).wrapping_add(number.cast_unsigned());
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut rows = Rows::of(number, settings.bad);
    while !stop.load(Ordering::Acquire) {
        let many = random.random_range(1..=settings.burst);
        let mut tickets = Vec::new();
        for row in rows.by_ref().take(many) {
            let token = row.token;
            match events.enqueue(row).await {
                Ok(ticket) => tickets.push((token, ticket)),
                Err(error) => tell(&book, token, &Err(error))?,
            }
        }
        for (token, ticket) in tickets {
            tell(&book, token, &ticket.await)?;
        }
        if random.random_range(0..4) == 0 {
            tokio::time::sleep(Duration::from_micros(random.random_range(0..5000))).await;
        }
    }
    Ok(())
}

/// Writes down what was told, at once: a killed process's system still has it.
fn tell(mut book: &File, token: i64, answer: &Result<(), WriteError>) -> std::io::Result<()> {
    let (fate, why) = match answer {
        Ok(()) => (Fate::Acknowledged, String::new()),
        Err(WriteError::Refused(refusal)) if refusal.dead_letter => (Fate::Dead, String::new()),
        Err(WriteError::Refused(_)) => (Fate::Refused, String::new()),
        Err(WriteError::Unknown(why)) => (Fate::Unknown, format!(" unknown: {why}")),
        Err(error) => (Fate::Failed, format!(" given up: {error}")),
    };
    let letter = char::from(fate as u8);
    book.write_all(format!("{letter} {token}{}\n", why.replace('\n', " ")).as_bytes())
}

/// A process of writers. It ends when it is dropped, and with the process that started it.
#[derive(Debug)]
pub struct WriterProcess {
    child: Child,
}

impl WriterProcess {
    /// Makes this process one of writers where it was started as one; it does not return then.
    ///
    /// # Errors
    /// When they cannot begin, or leave something.
    pub fn become_one() -> anyhow::Result<()> {
        if std::env::args().nth(1).as_deref() != Some(ROLE) {
            return Ok(());
        }
        let role = Role::parse_from(std::env::args().skip(1));
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(role.run())?;
        std::process::exit(0);
    }

    /// Starts one, which connects in this directory; returns when it writes.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(
        directory: &Path,
        port: u16,
        book: &Path,
        settings: &WriterSettings,
    ) -> anyhow::Result<WriterProcess> {
        let idempotent = settings.idempotent.to_possible_value().context("a value")?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(ROLE).arg("--directory").arg(directory).arg("--book").arg(book);
        for (name, value) in [
            ("--port", port.to_string()),
            ("--idempotent", idempotent.get_name().to_owned()),
            ("--connections", settings.connections.to_string()),
            ("--rows", settings.rows.to_string()),
            ("--producers", settings.producers.to_string()),
            ("--burst", settings.burst.to_string()),
            ("--bad", settings.bad.to_string()),
            ("--seed", settings.seed.to_string()),
        ] {
            command.arg(name).arg(value);
        }
        command.args(settings.early.then_some("--early"));
        command.args(settings.letters.then_some("--letters"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("starting writers")?;
        let output = child.stdout.take().context("their output")?;
        let mut said = String::new();
        BufReader::new(output).read_line(&mut said)?;
        if said.trim() != "ready" {
            bail!("the writers did not begin");
        }
        Ok(WriterProcess { child })
    }

    /// Has them stop when they are answered. Whether they did within this time, and left nothing.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn end(mut self, patience: Duration) -> anyhow::Result<bool> {
        drop(self.child.stdin.take());
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status.success());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(false)
    }

    /// Kills them (SIGKILL).
    pub fn kill(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for WriterProcess {
    fn drop(&mut self) {
        self.kill();
    }
}
