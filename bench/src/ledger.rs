//! A load whose clients keep book of what they were told, and the audit of those books.
//!
//! Every write carries tokens that no other has. A client notes a write before it is sent, and
//! what it was told of it: that it is committed, that it is refused, or nothing. It also notes
//! what reads and errors told it of what others committed, and that each answer is its own.

use std::collections::{BTreeMap, HashMap};
use std::io::Cursor;

use anyhow::Context;
use futures_util::SinkExt;
use futures_util::future::join_all;
use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, Row, SimpleQueryMessage};

/// Rows that all clients add to.
const HOT_ROWS: usize = 3;
/// Tokens of one client.
const TOKENS: i64 = 1 << 32;
/// Violations that are told of one audit.
const MOST_TOLD: usize = 20;

/// Stands for a SQLSTATE where a connection ended without one.
pub const CLOSED: &str = "closed";

const TABLES: &str = "
DROP TABLE IF EXISTS ledger, hot, claim;
CREATE TABLE ledger (token bigint NOT NULL);
CREATE INDEX ON ledger (token);
CREATE TABLE hot (id int PRIMARY KEY, n bigint NOT NULL);
CREATE TABLE claim (key bigint PRIMARY KEY, token bigint NOT NULL);";
const BEGIN: &str = "
TRUNCATE ledger, hot, claim;
INSERT INTO hot SELECT id, 0 FROM generate_series(0, 2) id;";

const INSERT: &str = "INSERT INTO ledger VALUES ($1) RETURNING token";
const ADD: &str = "UPDATE hot SET n = n + 1 WHERE id = $1 RETURNING n, $2::bigint";
const CLAIM: &str = "INSERT INTO claim VALUES ($1, $2) RETURNING token";
const READ: &str = "SELECT n, (SELECT coalesce(max(token), 0) FROM ledger WHERE token >= $2 AND token < $2 + 4294967296), $3::bigint FROM hot WHERE id = $1";

/// Makes the tables.
///
/// # Errors
/// When the server refuses.
pub async fn create(server: &Client) -> Result<(), Error> {
    server.batch_execute(TABLES).await
}

/// Empties the tables: new books begin.
///
/// # Errors
/// When the server refuses.
pub async fn empty(server: &Client) -> Result<(), Error> {
    server.batch_execute(BEGIN).await
}

/// What a client was told of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Acknowledged,
    /// Also where no COMMIT was sent: it must not be there.
    Refused,
    Unknown,
}

/// One transaction that writes.
#[derive(Debug)]
struct Write {
    /// The first of its tokens, and how many follow.
    first: i64,
    count: i64,
    /// Where it adds one.
    hot: Option<usize>,
    /// What it claims with its token, in place of a row of the ledger.
    key: Option<i64>,
    fate: Fate,
}

/// What one client wrote and was told.
#[derive(Debug)]
pub struct Book {
    number: i64,
    clients: i64,
    next: i64,
    next_key: i64,
    writes: Vec<Write>,
    told_hot: [i64; HOT_ROWS],
    told_tokens: Vec<i64>,
    told_keys: Vec<i64>,
    /// Answers that are another's.
    wrong: Vec<String>,
    /// Whether it cancels its own statements.
    cancels: bool,
    codes: BTreeMap<String, u64>,
}

impl Book {
    /// The empty book of one of so many clients.
    pub fn new(number: i64, clients: i64) -> Book {
        Book {
            number,
            clients,
            next: number * TOKENS + 1,
            next_key: 1,
            writes: Vec::new(),
            told_hot: [0; HOT_ROWS],
            told_tokens: Vec::new(),
            told_keys: Vec::new(),
            wrong: Vec::new(),
            cancels: false,
            codes: BTreeMap::new(),
        }
    }

    /// The same of a client that cancels.
    #[must_use]
    pub fn of_one_that_cancels(self) -> Book {
        Book { cancels: true, ..self }
    }

    /// How many writes were acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.writes.iter().filter(|write| write.fate == Fate::Acknowledged).count()
    }

    /// Notes a write that is about to be sent by other means, of which its client learns
    /// nothing: its token.
    pub fn send_blindly(&mut self) -> i64 {
        self.open(1, None, None, Fate::Unknown).1
    }

    /// Notes rows that are about to be sent by other means and not committed: the first of
    /// their tokens.
    pub fn send_uncommitted(&mut self, count: i64) -> i64 {
        self.open(count, None, None, Fate::Refused).1
    }

    /// Errors that it was told, by SQLSTATE, and [`CLOSED`].
    pub fn codes(&self) -> &BTreeMap<String, u64> {
        &self.codes
    }

    /// Whether a token is one of this client.
    pub fn owns(&self, token: i64) -> bool {
        token / TOKENS == self.number
    }

    /// Notes an answer that is not what it must be.
    pub fn note_wrong(&mut self, what: String) {
        self.wrong.push(what);
    }

    /// An insert that takes a while, for its client to cancel: whether it was cancelled.
    ///
    /// # Errors
    /// When the connection is of no use any more.
    pub async fn insert_slowly(&mut self, client: &Client, seconds: f64) -> Result<bool, Error> {
        let (at, token) = self.open(1, None, None, Fate::Unknown);
        let insert = "INSERT INTO ledger SELECT $1::bigint FROM pg_sleep($2) RETURNING token";
        let result = client.query_one(insert, &[&token, &seconds]).await;
        let row = self.settle(at, result)?;
        if let Some(row) = &row {
            self.expect(token, number(row, 0));
        }
        Ok(row.is_none())
    }

    fn token(&mut self) -> i64 {
        self.next += 1;
        self.next - 1
    }

    fn open(
        &mut self,
        count: i64,
        hot: Option<usize>,
        key: Option<i64>,
        fate: Fate,
    ) -> (usize, i64) {
        let first = self.next;
        self.next += count;
        self.writes.push(Write { first, count, hot, key, fate });
        (self.writes.len() - 1, first)
    }

    /// Notes what became of a write.
    ///
    /// # Errors
    /// When the connection is of no use any more.
    fn settle<T>(&mut self, at: usize, result: Result<T, Error>) -> Result<Option<T>, Error> {
        match result {
            Ok(answer) => {
                self.writes[at].fate = Fate::Acknowledged;
                Ok(Some(answer))
            }
            Err(error) => {
                self.survived(error)?;
                self.writes[at].fate = Fate::Refused;
                Ok(None)
            }
        }
    }

    fn expect(&mut self, sent: i64, answered: i64) {
        if sent != answered {
            let number = self.number;
            self.wrong.push(format!("client {number} sent {sent} and was answered {answered}"));
        }
    }

    /// Does one thing that a client may do.
    ///
    /// # Errors
    /// When the connection is of no use any more.
    pub async fn step(
        &mut self,
        client: &mut Client,
        random: &mut Xoshiro256PlusPlus,
    ) -> Result<(), Error> {
        let hot = random.random_range(0..HOT_ROWS);
        match random.random_range(0..13) {
            0 | 1 => self.insert(client).await,
            2 => self.insert_at_once(client).await,
            3 => self.add(client, hot).await,
            4 => self.transact(client, hot, true).await,
            5 => self.transact(client, hot, random.random()).await,
            6 => self.pipeline(client, random.random_range(2..20)).await,
            7 => self.batch(client, hot, random.random_range(0..4) == 0).await,
            8 => self.copy(client, random.random_range(1..300), random.random()).await,
            9 => self.claim(client).await,
            10 => self.read(client, hot, random.random_range(0..self.clients)).await,
            12 => self.chain(client, random.random_range(1..4)).await,
            _ => self.read_twice(client, hot, random.random_range(0..self.clients)).await,
        }
    }

    async fn insert(&mut self, client: &Client) -> Result<(), Error> {
        let (at, token) = self.open(1, None, None, Fate::Unknown);
        let result = client.query_one(INSERT, &[&token]).await;
        if let Some(row) = self.settle(at, result)? {
            self.expect(token, number(&row, 0));
        }
        Ok(())
    }

    /// The same in one message, without a name.
    async fn insert_at_once(&mut self, client: &Client) -> Result<(), Error> {
        let (at, token) = self.open(1, None, None, Fate::Unknown);
        let result = client.query_typed(INSERT, &[(&token, Type::INT8)]).await;
        if let Some(rows) = self.settle(at, result)? {
            self.expect(token, rows.first().map_or(-1, |row| number(row, 0)));
        }
        Ok(())
    }

    async fn add(&mut self, client: &Client, hot: usize) -> Result<(), Error> {
        let token = self.token();
        let (at, _) = self.open(0, Some(hot), None, Fate::Unknown);
        let result = client.query_one(ADD, &[&(hot as i32), &token]).await;
        if let Some(row) = self.settle(at, result)? {
            self.expect(token, number(&row, 1));
            self.told_hot[hot] = self.told_hot[hot].max(number(&row, 0));
        }
        Ok(())
    }

    async fn transact(
        &mut self,
        client: &mut Client,
        hot: usize,
        commits: bool,
    ) -> Result<(), Error> {
        let (at, token) = self.open(2, Some(hot), None, Fate::Refused);
        let within = async {
            let transaction = client.transaction().await?;
            let first = transaction.query_one(INSERT, &[&token]).await?;
            let row = transaction.query_one(ADD, &[&(hot as i32), &token]).await?;
            let second = transaction.query_one(INSERT, &[&(token + 1)]).await?;
            let answers = [
                (token, number(&first, 0)),
                (token, number(&row, 1)),
                (token + 1, number(&second, 0)),
            ];
            Ok((transaction, answers, number(&row, 0)))
        };
        let (transaction, answers, n) = match within.await {
            Ok(done) => done,
            Err(error) => return self.survived(error),
        };
        for (sent, answered) in answers {
            self.expect(sent, answered);
        }
        if !commits {
            return transaction.rollback().await.or_else(|error| self.survived(error));
        }
        self.writes[at].fate = Fate::Unknown;
        let result = transaction.commit().await;
        if self.settle(at, result)?.is_some() {
            self.told_hot[hot] = self.told_hot[hot].max(n);
        }
        Ok(())
    }

    /// Transactions of one insert, each of which begins as the one before it commits; the last is
    /// rolled back.
    async fn chain(&mut self, client: &Client, count: usize) -> Result<(), Error> {
        if let Err(error) = client.batch_execute("BEGIN").await {
            return self.survived(error);
        }
        for _ in 0..count {
            let (at, token) = self.open(1, None, None, Fate::Refused);
            match client.query_one(INSERT, &[&token]).await {
                Ok(row) => self.expect(token, number(&row, 0)),
                Err(error) => {
                    self.survived(error)?;
                    break;
                }
            }
            self.writes[at].fate = Fate::Unknown;
            let result = client.batch_execute("COMMIT AND CHAIN").await;
            if self.settle(at, result)?.is_none() {
                break;
            }
        }
        client.batch_execute("ROLLBACK").await.or_else(|error| self.survived(error))
    }

    /// Several statements on their way at once, each its own transaction.
    async fn pipeline(&mut self, client: &Client, count: usize) -> Result<(), Error> {
        let statement = match client.prepare(INSERT).await {
            Ok(statement) => statement,
            Err(error) => return self.survived(error),
        };
        let opened: Vec<_> = (0..count).map(|_| self.open(1, None, None, Fate::Unknown)).collect();
        let sent = opened.iter().map(|(_, token)| async {
            let row = client.query_one(&statement, &[token]).await?;
            Ok::<i64, Error>(number(&row, 0))
        });
        let mut lost = Ok(());
        for ((at, token), result) in opened.iter().zip(join_all(sent).await) {
            match self.settle(*at, result) {
                Ok(Some(answered)) => self.expect(*token, answered),
                Ok(None) => {}
                Err(error) => lost = Err(error),
            }
        }
        lost
    }

    /// Several statements in one text: one transaction.
    async fn batch(&mut self, client: &Client, hot: usize, fails: bool) -> Result<(), Error> {
        let (at, token) = self.open(2, Some(hot), None, Fate::Unknown);
        let end = if fails { "SELECT 1 / 0" } else { "" };
        let second = token + 1;
        let sql = format!(
            "INSERT INTO ledger VALUES ({token}); UPDATE hot SET n = n + 1 WHERE id = {hot}; \
             INSERT INTO ledger VALUES ({second}); {end}"
        );
        let result = client.batch_execute(&sql).await;
        self.settle(at, result)?;
        Ok(())
    }

    async fn copy(&mut self, client: &Client, count: i64, ends: bool) -> Result<(), Error> {
        let (at, token) = self.open(count, None, None, Fate::Refused);
        let sink = match client.copy_in("COPY ledger FROM STDIN").await {
            Ok(sink) => sink,
            Err(error) => return self.survived(error),
        };
        let mut sink = std::pin::pin!(sink);
        let text: String = (token..token + count).map(|token| format!("{token}\n")).collect();
        if let Err(error) = sink.send(Cursor::new(text.into_bytes())).await {
            return self.survived(error);
        }
        if !ends {
            // Dropped, it tells the server that the copy has failed.
            return Ok(());
        }
        self.writes[at].fate = Fate::Unknown;
        let result = sink.finish().await;
        self.settle(at, result)?;
        Ok(())
    }

    /// Tries for a key that others try for too. Being refused tells that one of them has it.
    async fn claim(&mut self, client: &Client) -> Result<(), Error> {
        let key = self.next_key;
        self.next_key += 1;
        let (at, token) = self.open(1, None, Some(key), Fate::Unknown);
        let result = client.query_one(CLAIM, &[&key, &token]).await;
        if result.as_ref().is_err_and(|error| error.code() == Some(&SqlState::UNIQUE_VIOLATION)) {
            self.told_keys.push(key);
        }
        if let Some(row) = self.settle(at, result)? {
            self.expect(token, number(&row, 0));
        }
        Ok(())
    }

    async fn read(&mut self, client: &Client, hot: usize, of: i64) -> Result<(), Error> {
        let token = self.token();
        match client.query_one(READ, &[&(hot as i32), &(of * TOKENS), &token]).await {
            Ok(row) => {
                self.expect(token, number(&row, 2));
                self.told(hot, number(&row, 0), number(&row, 1));
                Ok(())
            }
            Err(error) => self.survived(error),
        }
    }

    /// Reads in a transaction: what was read counts as told once that is committed.
    async fn read_twice(&mut self, client: &mut Client, hot: usize, of: i64) -> Result<(), Error> {
        let token = self.token();
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
            [&(hot as i32), &(of * TOKENS), &token];
        let read = async {
            let transaction = client.transaction().await?;
            transaction.query_one(READ, &parameters).await?;
            let row = transaction.query_one(READ, &parameters).await?;
            transaction.commit().await?;
            Ok(row)
        };
        match read.await {
            Ok(row) => {
                self.expect(token, number(&row, 2));
                self.told(hot, number(&row, 0), number(&row, 1));
                Ok(())
            }
            Err(error) => self.survived(error),
        }
    }

    /// An error that ends a statement leaves its connection of use.
    fn survived(&mut self, error: Error) -> Result<(), Error> {
        let code = error.code().map_or(CLOSED, SqlState::code);
        *self.codes.entry(code.to_owned()).or_default() += 1;
        if error.code() == Some(&SqlState::QUERY_CANCELED) && !self.cancels {
            self.wrong.push(format!("client {} was cancelled in another's place", self.number));
        }
        let severity = error.as_db_error().and_then(|error| error.parsed_severity());
        if severity == Some(Severity::Error) { Ok(()) } else { Err(error) }
    }

    fn told(&mut self, hot: usize, n: i64, token: i64) {
        self.told_hot[hot] = self.told_hot[hot].max(n);
        if token > 0 {
            self.told_tokens.push(token);
        }
    }
}

/// A number of an answer; of one that is another's perhaps none.
fn number(row: &Row, place: usize) -> i64 {
    row.try_get(place).unwrap_or(i64::MIN)
}

/// What an audit counted.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Audit {
    /// Transactions that were acknowledged.
    pub acknowledged: u64,
    /// Those that were refused, or not committed.
    pub refused: u64,
    /// Those of which nothing was told.
    pub unknown: u64,
    /// Of the unknown, those that are there.
    pub kept: u64,
    /// Values that reads and errors told.
    pub told: u64,
    /// Writes that are lost, doubled, torn or there against what was told.
    pub wrong_writes: u64,
    /// Values that were told and are gone.
    pub gone: u64,
    /// Answers to the wrong client.
    pub wrong_answers: u64,
}

impl Audit {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.wrong_writes + self.gone + self.wrong_answers == 0
    }

    /// Adds the counts of another.
    pub fn add(&mut self, other: &Audit) {
        self.acknowledged += other.acknowledged;
        self.refused += other.refused;
        self.unknown += other.unknown;
        self.kept += other.kept;
        self.told += other.told;
        self.wrong_writes += other.wrong_writes;
        self.gone += other.gone;
        self.wrong_answers += other.wrong_answers;
    }

    /// Counts what a client was told, and says what, if it does not stand any more.
    fn told(&mut self, book: &Book, stands: bool, what: impl Fn() -> String) -> Option<String> {
        self.told += 1;
        self.gone += u64::from(!stands);
        (!stands).then(|| format!("client {} was told {}", book.number, what()))
    }
}

/// Compares books with what the server has; what is wrong in words too, the first of it.
///
/// # Errors
/// When the server does not answer.
pub async fn audit(server: &Client, books: &[Book]) -> anyhow::Result<(Audit, Vec<String>)> {
    let mut rows = pairs(server, "SELECT token, count(*) FROM ledger GROUP BY token").await?;
    let claims = pairs(server, "SELECT key, token FROM claim").await?;
    let hot = pairs(server, "SELECT id, n FROM hot").await?;
    let (mut audit, mut words) = (Audit::default(), Vec::new());
    let mut sums = [(0, 0); HOT_ROWS];
    for book in books {
        for token in &book.told_tokens {
            let what = || format!("of token {token}, which is gone");
            words.extend(audit.told(book, rows.contains_key(token), what));
        }
    }
    for book in books {
        for write in &book.writes {
            let (least, most, count) = match write.fate {
                Fate::Acknowledged => (1, 1, &mut audit.acknowledged),
                Fate::Refused => (0, 0, &mut audit.refused),
                Fate::Unknown => (0, 1, &mut audit.unknown),
            };
            *count += 1;
            if let Some(hot) = write.hot {
                sums[hot].0 += least;
                sums[hot].1 += most;
            }
            let there: Vec<i64> = match write.key {
                Some(key) => vec![i64::from(claims.get(&key) == Some(&write.first))],
                None => (write.first..write.first + write.count)
                    .map(|token| rows.remove(&token).unwrap_or(0))
                    .collect(),
            };
            let Some(&first) = there.first() else { continue };
            if write.fate == Fate::Unknown && first > 0 {
                audit.kept += 1;
            }
            let torn = there.iter().any(|&of| of != first);
            if torn || !(least..=most).contains(&first) {
                audit.wrong_writes += 1;
                words.push(format!(
                    "client {}: {write:?} is there so often: {there:?}",
                    book.number
                ));
            }
        }
        for key in &book.told_keys {
            let what = || format!("that key {key} is taken, which is gone");
            words.extend(audit.told(book, claims.contains_key(key), what));
        }
        audit.wrong_answers += book.wrong.len() as u64;
        words.extend(book.wrong.iter().cloned());
        for (place, &told) in book.told_hot.iter().enumerate() {
            let n = hot.get(&(place as i64)).copied().unwrap_or(-1);
            let what = || format!("that row {place} has {told}; it has {n}");
            words.extend(audit.told(book, told <= n, what));
        }
    }
    for (token, count) in rows {
        audit.wrong_writes += 1;
        words.push(format!("token {token} is there {count} times, which nobody wrote"));
    }
    for (place, (least, most)) in sums.into_iter().enumerate() {
        let n = hot.get(&(place as i64)).copied().unwrap_or(-1);
        if !(least..=most).contains(&n) {
            audit.wrong_writes += 1;
            words.push(format!("row {place} has {n}, not between {least} and {most}"));
        }
    }
    words.truncate(MOST_TOLD);
    Ok((audit, words))
}

async fn pairs(server: &Client, sql: &str) -> anyhow::Result<HashMap<i64, i64>> {
    let mut found = HashMap::new();
    for message in server.simple_query(sql).await.with_context(|| sql.to_owned())? {
        if let SimpleQueryMessage::Row(row) = message {
            let value = |place| row.get(place).unwrap_or_default().parse::<i64>();
            found.insert(value(0)?, value(1)?);
        }
    }
    Ok(found)
}
