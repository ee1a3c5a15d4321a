//! Clients that go on whatever happens to them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_postgres::{Client, Error, NoTls};

use crate::ledger::Book;

/// Who is not answered for so long is not answered any more.
const PATIENCE: Duration = Duration::from_secs(60);
/// Who was not let in tries again after so long.
const PAUSE: Duration = Duration::from_millis(2);

/// Clients that go on whatever happens to them.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<Lived>>,
}

/// What a client of the load went through.
#[derive(Debug)]
pub struct Lived {
    /// What it knows.
    pub book: Book,
    /// Connections that it lost.
    pub lost: u64,
    /// Times that it was neither answered nor let go.
    pub hung: u64,
    /// Why it was not let in, by SQLSTATE.
    pub kept_out: BTreeMap<String, u64>,
}

impl Load {
    /// Starts so many clients, which connect at these places in turn. There may be one client
    /// more than the load has.
    pub fn start(
        places: &[PathBuf],
        port: u16,
        clients: i64,
        random: &mut Xoshiro256PlusPlus,
    ) -> Load {
        let stop = Arc::new(AtomicBool::new(false));
        let places = places.iter().cycle().cloned();
        let tasks = (0..clients).zip(places).map(|(number, place)| {
            let random = Xoshiro256PlusPlus::seed_from_u64(random.random());
            tokio::spawn(live(place, port, Book::new(number, clients + 1), random, stop.clone()))
        });
        Load { tasks: tasks.collect(), stop }
    }

    /// Ends it: what its clients know.
    ///
    /// # Errors
    /// When a client panicked.
    pub async fn stop(self) -> anyhow::Result<Vec<Lived>> {
        self.stop.store(true, Ordering::Release);
        let mut lived = Vec::new();
        for task in self.tasks {
            lived.push(task.await?);
        }
        Ok(lived)
    }
}

async fn live(
    place: PathBuf,
    port: u16,
    book: Book,
    mut random: Xoshiro256PlusPlus,
    stop: Arc<AtomicBool>,
) -> Lived {
    let mut lived = Lived { book, lost: 0, hung: 0, kept_out: BTreeMap::new() };
    let goes_on = || !stop.load(Ordering::Acquire);
    while goes_on() {
        let mut client = match timeout(PATIENCE, connect(&place, port, "load")).await {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => {
                let code = error.code().map_or(crate::ledger::CLOSED, |code| code.code());
                *lived.kept_out.entry(code.to_owned()).or_default() += 1;
                sleep(PAUSE).await;
                continue;
            }
            Err(_) => {
                lived.hung += 1;
                continue;
            }
        };
        while goes_on() {
            match timeout(PATIENCE, lived.book.step(&mut client, &mut random)).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => {
                    lived.lost += 1;
                    break;
                }
                Err(_) => {
                    lived.hung += 1;
                    break;
                }
            }
        }
    }
    lived
}

/// A client at a place, which names itself.
///
/// # Errors
/// When it is not let in.
pub async fn connect(place: &Path, port: u16, name: &str) -> Result<Client, Error> {
    connect_to(place, port, "postgres", name).await
}

/// The same to a database.
///
/// # Errors
/// When it is not let in.
pub async fn connect_to(
    place: &Path,
    port: u16,
    database: &str,
    name: &str,
) -> Result<Client, Error> {
    let mut config = tokio_postgres::Config::new();
    config.host_path(place).port(port).user("postgres").dbname(database).application_name(name);
    let (client, connection) = config.connect(NoTls).await?;
    // It ends with its client.
    tokio::spawn(async move { connection.await.ok() });
    Ok(client)
}
