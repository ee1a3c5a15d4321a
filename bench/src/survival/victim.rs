//! A client to which things happen.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use tokio::time::{sleep, timeout};
use tokio_postgres::{Client, NoTls};
use walwright_wire::backend;

use super::Kind;
use super::load::connect;
use crate::ledger::Book;
use crate::raw_client::{RawClient, cancel_request, message};

/// Longest that anything may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// A statement that is cancelled while it runs would run so long, in seconds.
const LONG: f64 = 60.0;
/// How long it is waited until a statement is cancelled once more.
const AGAIN: Duration = Duration::from_millis(50);

/// A client to which things happen.
pub struct Victim {
    book: Book,
    place: PathBuf,
    port: u16,
    tcp_port: u16,
    /// One that cancels.
    client: Option<Client>,
}

impl Victim {
    /// One with an empty book.
    pub fn new(book: Book, (place, port): (&Path, u16), tcp_port: u16) -> Victim {
        let book = book.of_one_that_cancels();
        Victim { book, place: place.to_owned(), port, tcp_port, client: None }
    }

    /// The gateway has another port now.
    pub fn moves(&mut self, tcp_port: u16) {
        self.tcp_port = tcp_port;
        self.client = None;
    }

    /// It leaves: what it knows.
    pub fn leaves(self) -> Book {
        self.book
    }

    /// Whether something of this kind happened; not where nobody was let in.
    ///
    /// # Errors
    /// When the gateway does not keep what it promises.
    pub async fn suffer(
        &mut self,
        kind: Kind,
        random: &mut Xoshiro256PlusPlus,
    ) -> anyhow::Result<bool> {
        let suffers = async {
            match kind {
                Kind::Cancel => self.cancel(random).await,
                Kind::CancelLate => self.cancel_late(random).await,
                Kind::CancelWrongKey => self.cancel_wrongly(random).await,
                _ => self.leave(kind, random).await,
            }
        };
        timeout(PATIENCE, suffers).await.with_context(|| format!("{kind:?} took too long"))?
    }

    async fn leave(&mut self, kind: Kind, random: &mut Xoshiro256PlusPlus) -> anyhow::Result<bool> {
        let by_tcp = kind == Kind::ClientResets || random.random();
        let connected = if by_tcp {
            RawClient::connect_tcp(self.tcp_port, kind == Kind::ClientResets).await
        } else {
            RawClient::connect(&self.place, self.port).await
        };
        let Ok(mut client) = connected else { return Ok(false) };
        if client.log_in("postgres").await.is_err() {
            return Ok(false);
        }
        let mut script = self.script(random);
        if kind == Kind::ClientBreaksOff {
            script.truncate(random.random_range(1..script.len()));
        }
        if client.send(&script).await.is_err() {
            return Ok(false);
        }
        if kind != Kind::ClientHalfCloses {
            sleep(Duration::from_micros(random.random_range(0..1500))).await;
            // So that some of the answers are on their way, and some are read.
            if random.random_range(0..3) == 0 {
                let read = timeout(Duration::from_micros(500), client.message()).await;
                drop(read);
            }
            return Ok(true);
        }
        if client.shut_down().await.is_err() {
            return Ok(false);
        }
        while let Ok((tag, body)) = client.message().await {
            if tag == backend::DATA_ROW {
                let length = usize::from(body.get(5).copied().unwrap_or_default());
                let token = body.get(6..6 + length).unwrap_or_default();
                let token = std::str::from_utf8(token).unwrap_or_default().parse().unwrap_or(-1);
                if !self.book.owns(token) {
                    self.book.note_wrong(format!("the victim was answered {token}"));
                }
            }
        }
        Ok(true)
    }

    /// What a client sends before something happens to it.
    fn script(&mut self, random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
        let query = |sql: &str| message(b'Q', format!("{sql}\0").as_bytes());
        let insert = |token: i64| format!("INSERT INTO ledger VALUES ({token}) RETURNING token");
        let extended = |token: i64, end: u8| {
            [
                message(b'P', format!("\0{}\0\0\0", insert(token)).as_bytes()),
                message(b'B', b"\0\0\0\0\0\0\0\0"),
                message(b'E', b"\0\0\0\0\0"),
                message(end, b""),
            ]
            .concat()
        };
        match random.random_range(0..8) {
            0 => query(&insert(self.book.send_blindly())),
            1 => [query("BEGIN"), query(&insert(self.book.send_uncommitted(1)))].concat(),
            2 => (0..random.random_range(1..12))
                .flat_map(|_| extended(self.book.send_blindly(), b'S'))
                .collect(),
            3 => {
                let count = random.random_range(1..2000);
                let first = self.book.send_uncommitted(count);
                let rows: String =
                    (first..first + count).map(|token| format!("{token}\n")).collect();
                [query("COPY ledger FROM STDIN"), message(b'd', rows.as_bytes())].concat()
            }
            4 => {
                let token = self.book.send_blindly();
                query(&format!("SELECT {token}, pg_sleep(0.003)"))
            }
            5 => {
                let token = self.book.send_blindly();
                [query("BEGIN"), query(&insert(token)), query("COMMIT")].concat()
            }
            // An INSERT commits at its Sync.
            6 => extended(self.book.send_uncommitted(1), b'H'),
            _ => {
                let (first, second) = (self.book.send_blindly(), self.book.send_blindly());
                [query(&insert(first)), query("SELECT 1 / 0"), query(&insert(second))].concat()
            }
        }
    }

    async fn client(&mut self) -> Option<Client> {
        let client = self.client.take().filter(|client| !client.is_closed());
        match client {
            Some(client) => Some(client),
            None => connect(&self.place, self.port, "victim").await.ok(),
        }
    }

    async fn cancel(&mut self, random: &mut Xoshiro256PlusPlus) -> anyhow::Result<bool> {
        let Some(client) = self.client().await else { return Ok(false) };
        let token = client.cancel_token();
        let is_long = random.random_range(0..4) == 0;
        let seconds = if is_long { LONG } else { random.random_range(0.0..0.004) };
        let wait = Duration::from_micros(random.random_range(0..4000));
        let insert = self.book.insert_slowly(&client, seconds);
        let cancel = async {
            sleep(wait).await;
            loop {
                // The gateway may be away.
                let _ = token.cancel_query(NoTls).await;
                if !is_long {
                    return std::future::pending::<()>().await;
                }
                sleep(AGAIN).await;
            }
        };
        let cancelled = tokio::select! {
            cancelled = insert => cancelled,
            () = cancel => return Ok(false),
        };
        // One that comes late may hit the next statement of its own client.
        Ok(cancelled.unwrap_or(false))
    }

    async fn cancel_late(&mut self, random: &mut Xoshiro256PlusPlus) -> anyhow::Result<bool> {
        let Some(mut client) = self.client().await else { return Ok(false) };
        let token = client.cancel_token();
        if self.book.step(&mut client, random).await.is_err() {
            return Ok(false);
        }
        let sent = token.cancel_query(NoTls).await.is_ok();
        self.client = Some(client);
        Ok(sent)
    }

    async fn cancel_wrongly(&mut self, random: &mut Xoshiro256PlusPlus) -> anyhow::Result<bool> {
        let lengths = [0, 1, 4, 4, 4, 32, 256, 2000];
        for _ in 0..4 {
            let length = lengths[random.random_range(0..lengths.len())];
            let key: Vec<u8> = (0..length).map(|_| random.random()).collect();
            // As the gateway numbers its clients.
            let process = random.random_range(0..2) << 24 | random.random_range(0..24);
            let Ok(mut client) = RawClient::connect(&self.place, self.port).await else {
                return Ok(false);
            };
            if client.send(&cancel_request(process, &key)).await.is_err() {
                return Ok(false);
            }
            let told = client.read(&mut [0]).await.unwrap_or(0);
            anyhow::ensure!(told == 0, "a cancel request was answered");
        }
        Ok(true)
    }
}
