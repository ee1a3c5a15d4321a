//! A session of walwright's own with a server, or one for the statements of a workload.

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::task::AbortHandle;
use tokio_postgres::types::ToSql;
use tokio_postgres::{CopyInSink, SimpleQueryMessage};
use walwright_wire::{CancelKey, Connector};

use super::query_error::{QueryError, deepest};
use super::row::Row;

/// How long the server has to end a query that is late, once it was asked to.
const TO_CANCEL: Duration = Duration::from_secs(2);
/// How long sessions that nobody uses any more have to end.
const TO_LEAVE: Duration = Duration::from_secs(1);
/// How often they are looked at meanwhile.
const LOOK: Duration = Duration::from_millis(2);
/// Letters of a query that name it in an error.
const NAMED_BY: usize = 60;

/// A session. What it runs ends in time, and is ended on the server when nobody waits
/// for it any more; what it is answered is read with care.
///
/// Functions, operators, types and relations of a session of walwright's own are those
/// of `pg_catalog` only, as `pg_dump` has it (CVE-2018-1058): what is elsewhere is
/// named with its schema.
pub struct Client {
    inner: tokio_postgres::Client,
    limit: Option<Duration>,
    names: Names,
    /// Whether a transaction was begun by [`begin`](Client::begin).
    in_transaction: AtomicBool,
    /// Whether a query was late: whoever is late twice is not waited for a third time.
    was_late: AtomicBool,
    /// Why the connection ended, where it did.
    ended: Arc<OnceLock<String>>,
    serving: AbortHandle,
    cancel: Option<(Connector, CancelKey)>,
}

/// Where a session looks for names without a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    /// In `pg_catalog`, from the session's start.
    Pinned,
    /// The same, set in each transaction anew: something in between does not take
    /// settings of a session.
    PinnedByTransaction,
    /// Where role and database say: for statements of a workload.
    AsTheyAre,
}

/// Begins a transaction that looks for names in `pg_catalog` only.
const PINNED: &str = "BEGIN; SET LOCAL search_path = pg_catalog, pg_temp; SET LOCAL ROLE NONE";

/// A prepared query.
#[derive(Debug, Clone)]
pub struct Statement {
    inner: tokio_postgres::Statement,
    named: String,
}

impl Statement {
    /// Names of the columns that it answers with.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.inner.columns().iter().map(tokio_postgres::Column::name)
    }
}

impl Client {
    pub(super) fn new(
        inner: tokio_postgres::Client,
        names: Names,
        limit: Option<Duration>,
        ended: Arc<OnceLock<String>>,
        serving: AbortHandle,
        cancel: Option<(Connector, CancelKey)>,
    ) -> Client {
        let (in_transaction, was_late) = (AtomicBool::new(false), AtomicBool::new(false));
        Client { inner, limit, names, in_transaction, was_late, ended, serving, cancel }
    }

    /// The same with another limit for each query; `None` is without end.
    #[must_use]
    pub fn with_limit(mut self, limit: Option<Duration>) -> Client {
        self.limit = limit;
        self
    }

    /// Whether the connection is gone.
    pub fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }

    /// Whether the session has the settings that it was opened with. Where not, a pooler
    /// or the like stands between, which does not take them.
    pub fn is_direct(&self) -> bool {
        self.names != Names::PinnedByTransaction
    }

    /// Asks one query and gives its rows.
    ///
    /// # Errors
    /// When the server refuses, is late or gone.
    pub async fn query(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, QueryError> {
        let asked = self.pinned(async { self.inner.query(sql, parameters).await });
        Ok(self.in_time(sql, asked).await?.into_iter().map(Row).collect())
    }

    /// Asks one query that gives one row.
    ///
    /// # Errors
    /// As [`query`](Client::query), and where there is not one row.
    pub async fn query_one(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Row, QueryError> {
        let row = self.query_opt(sql, parameters).await?;
        row.ok_or_else(|| QueryError::Rows(format!("no row in answer to: {}", named(sql))))
    }

    /// Asks one query that gives a row or none.
    ///
    /// # Errors
    /// As [`query`](Client::query), and where there are several rows.
    pub async fn query_opt(
        &self,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, QueryError> {
        let mut rows = self.query(sql, parameters).await?;
        match rows.len() {
            0 | 1 => Ok(rows.pop()),
            count => Err(QueryError::Rows(format!("{count} rows in answer to: {}", named(sql)))),
        }
    }

    /// Prepares a query.
    ///
    /// # Errors
    /// As [`query`](Client::query).
    pub async fn prepare(&self, sql: &str) -> Result<Statement, QueryError> {
        let prepared = self.pinned(async { self.inner.prepare(sql).await });
        let inner = self.in_time(sql, prepared).await?;
        Ok(Statement { inner, named: named(sql) })
    }

    /// Asks prepared queries in one go, so that they are answered close together.
    ///
    /// # Errors
    /// Where the connection is gone or late; what the server says of one query is in its
    /// place.
    pub async fn query_prepared(
        &self,
        statements: &[(&Statement, &[&(dyn ToSql + Sync)])],
    ) -> Result<Vec<Result<Vec<Row>, QueryError>>, QueryError> {
        let asked = async {
            let all = statements.iter().map(|(statement, parameters)| async {
                self.inner.query(&statement.inner, parameters).await
            });
            Ok(futures_util::future::join_all(all).await)
        };
        let name = statements.first().map_or("", |(statement, _)| statement.named.as_str());
        let answers = self.in_time(name, self.pinned(asked)).await?;
        let rows = |answer: Result<Vec<tokio_postgres::Row>, _>| match answer {
            Ok(rows) => Ok(rows.into_iter().map(Row).collect()),
            Err(error) => Err(self.explained(&error)),
        };
        Ok(answers.into_iter().map(rows).collect())
    }

    /// Runs statements by the simple protocol and gives what they answer, as text.
    ///
    /// # Errors
    /// As [`query`](Client::query).
    pub async fn simple_query(&self, sql: &str) -> Result<Vec<SimpleQueryMessage>, QueryError> {
        self.in_time(sql, self.pinned(async { self.inner.simple_query(sql).await })).await
    }

    /// Runs statements, none of which needs names beyond `pg_catalog` unless the session
    /// is for those of a workload.
    ///
    /// # Errors
    /// As [`query`](Client::query).
    pub async fn batch_execute(&self, sql: &str) -> Result<(), QueryError> {
        self.in_time(sql, self.inner.batch_execute(sql)).await
    }

    /// Begins a transaction with statements that begin with `BEGIN`, which ends with
    /// [`end`](Client::end).
    ///
    /// # Errors
    /// As [`query`](Client::query).
    pub async fn begin(&self, sql: &str) -> Result<(), QueryError> {
        self.batch_execute(sql).await?;
        if self.names == Names::PinnedByTransaction {
            self.batch_execute("SET LOCAL search_path = pg_catalog, pg_temp; SET LOCAL ROLE NONE")
                .await?;
        }
        self.in_transaction.store(true, Ordering::Release);
        Ok(())
    }

    /// Ends the transaction: `COMMIT` or `ROLLBACK`.
    ///
    /// # Errors
    /// As [`query`](Client::query).
    pub async fn end(&self, sql: &str) -> Result<(), QueryError> {
        self.in_transaction.store(false, Ordering::Release);
        self.batch_execute(sql).await
    }

    /// The relation that a name stands for in this session, as in `regclass` input
    /// (`events`, `app."Order"`). Asked so that nothing but `pg_catalog` is called,
    /// whatever the session's path.
    ///
    /// # Errors
    /// As [`query`](Client::query).
    pub async fn relation(&self, name: &str) -> Result<Option<u32>, QueryError> {
        let sql = "SELECT pg_catalog.to_regclass($1)::pg_catalog.oid";
        self.query_one(sql, &[&name]).await?.get(0)
    }

    /// Begins a COPY from here.
    ///
    /// # Errors
    /// As [`query`](Client::query).
    pub async fn copy_in(&self, sql: &str) -> Result<CopyInSink<Bytes>, QueryError> {
        self.in_time(sql, self.inner.copy_in(sql)).await
    }

    /// Runs `work` in a transaction that looks for names in `pg_catalog` only, where the
    /// session does not do so by itself.
    async fn pinned<T>(
        &self,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, tokio_postgres::Error> {
        let by_itself = self.names != Names::PinnedByTransaction;
        if by_itself || self.in_transaction.load(Ordering::Acquire) {
            return work.await;
        }
        self.inner.batch_execute(PINNED).await?;
        let done = work.await;
        let ended = self.inner.batch_execute("COMMIT").await;
        let done = done?;
        ended?;
        Ok(done)
    }

    /// Waits for `work` as long as the limit allows. What nobody waits for any more, late
    /// or dropped, is ended on the server.
    async fn in_time<T>(
        &self,
        sql: &str,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, QueryError> {
        let mut under_way = UnderWay { client: self, over: false };
        let mut work = pin!(work);
        let Some(limit) = self.limit else {
            let done = work.await;
            under_way.over = true;
            return self.read(done).await;
        };
        if let Ok(done) = tokio::time::timeout(limit, &mut work).await {
            under_way.over = true;
            return self.read(done).await;
        }
        under_way.over = true;
        self.cancel();
        let ended = tokio::time::timeout(TO_CANCEL, &mut work).await.is_ok();
        if !ended || self.was_late.swap(true, Ordering::AcqRel) {
            // What it still sends would be taken for the answer to the next query.
            let _ = self.ended.set(format!("it did not answer within {} s", limit.as_secs_f64()));
            self.serving.abort();
        }
        Err(QueryError::Late { query: named(sql), limit })
    }

    /// What came of a query. Why a connection is gone is known once what served it has
    /// ended, a moment after those who waited were told that it is.
    async fn read<T>(&self, done: Result<T, tokio_postgres::Error>) -> Result<T, QueryError> {
        let error = match done {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        if error.is_closed() {
            let deadline = tokio::time::Instant::now() + TO_LEAVE;
            while !self.serving.is_finished() && tokio::time::Instant::now() < deadline {
                tokio::time::sleep(LOOK).await;
            }
        }
        Err(self.explained(&error))
    }

    /// Asks the server to end what the session runs, without waiting for it.
    pub(super) fn cancel(&self) {
        let Some((connector, key)) = self.cancel.clone() else { return };
        let ask = move || {
            // Nobody is left to hear of a failure: the server ends it by itself then, as
            // soon as it sees that its client is gone.
            let _ = walwright_wire::cancel(&connector, &key);
        };
        if let Ok(asking) = std::thread::Builder::new().name("cancel".to_owned()).spawn(ask) {
            CANCELLING.with(asking);
        }
    }

    /// What an error of the library means, from a sink of [`copy_in`](Client::copy_in).
    pub fn explained(&self, error: &tokio_postgres::Error) -> QueryError {
        if let Some(said) = error.as_db_error() {
            return QueryError::Refused(Box::new(said.clone()));
        }
        if error.is_closed() || self.is_closed() {
            let why = self.ended.get().map_or("the server closed it", String::as_str);
            return QueryError::Lost(why.to_owned());
        }
        QueryError::Nonsense(deepest(error))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("names", &self.names).finish_non_exhaustive()
    }
}

/// The beginning of a query on one line, without walwright's mark.
fn named(sql: &str) -> String {
    let sql = sql.trim_start();
    let sql = match sql.strip_prefix("/*") {
        Some(rest) => rest.split_once("*/").map_or(rest, |(_, after)| after),
        None => sql,
    };
    let words = sql.split_whitespace().collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(NAMED_BY) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}

/// A query that someone waits for.
struct UnderWay<'a> {
    client: &'a Client,
    over: bool,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if !self.over && !self.client.is_closed() {
            self.client.cancel();
        }
    }
}

/// Connections whose client is gone, and that hear the last answers and say goodbye.
static LEAVING: Mutex<Vec<AbortHandle>> = Mutex::new(Vec::new());

fn leaving() -> MutexGuard<'static, Vec<AbortHandle>> {
    let mut all = LEAVING.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|one| !one.is_finished());
    all
}

impl Drop for Client {
    fn drop(&mut self) {
        leaving().push(self.serving.clone());
    }
}

/// Waits until sessions that nobody uses any more have ended, for a second at most. For the
/// end of a runtime, which breaks off what still goes on in it: a server logs the loss of a
/// client that it has something to say to, and counts it (`sessions_abandoned`).
pub async fn all_left() {
    let deadline = tokio::time::Instant::now() + TO_LEAVE;
    while !leaving().is_empty() && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(LOOK).await;
    }
}

/// Requests to cancel that are under way.
static CANCELLING: Cancelling = Cancelling(Mutex::new(Vec::new()));

struct Cancelling(Mutex<Vec<std::thread::JoinHandle<()>>>);

impl Cancelling {
    fn with(&self, asking: std::thread::JoinHandle<()>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|one| !one.is_finished());
        all.push(asking);
    }
}

/// Waits until servers have been asked to cancel what was under way; each request has a
/// time limit of its own. For the end of a program.
pub fn cancelled() {
    let mut all = CANCELLING.0.lock().unwrap_or_else(PoisonError::into_inner);
    for asking in all.drain(..) {
        // A thread that panicked has asked nothing.
        let _ = asking.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_named_by_its_beginning() {
        assert_eq!(named("/* walwright probe */ SELECT 1\n  FROM t"), "SELECT 1 FROM t");
        let long = named(&"x ".repeat(100));
        assert_eq!(long.chars().count(), NAMED_BY + 1);
        assert!(long.ends_with('…'));
    }
}
