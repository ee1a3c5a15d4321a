//! Sessions with the server, lent to one request at a time.
//!
//! Of our own, since what is studied here is what pools differ in: what is sent when a session
//! comes back (others send it when it is lent again, in the way of the next request), what that
//! does to prepared statements, and how long a request waits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use futures_util::future::{BoxFuture, join};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Error, Row, Socket, Statement};

use crate::error::{StoreError, tell};
use crate::metrics::Metrics;
use crate::options::{PoolOptions, Reset, Shape};
use crate::sql::Sql;

type Connect = dyn Fn() -> BoxFuture<'static, Result<Client, Error>> + Send + Sync;

/// A pool of sessions.
#[derive(Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

struct Shared {
    connect: Box<Connect>,
    options: PoolOptions,
    room: Arc<Semaphore>,
    idle: Mutex<Vec<Session>>,
    metrics: Arc<Metrics>,
}

struct Session {
    client: Client,
    prepared: HashMap<&'static str, Statement>,
}

impl Pool {
    /// A pool that has no session yet.
    pub fn new<T>(mut config: Config, tls: T, options: PoolOptions) -> Self
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send,
        T::TlsConnect: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        // As options of the connection, so that no reset takes them away.
        let mut own = format!("-c statement_timeout={}", options.statement.as_millis());
        if options.shape == Shape::Prepared {
            // What is prepared looks rows up by key. For one partition the server would plan
            // it anew each time, since a plan over all of them looks costlier than it is.
            own.push_str(" -c plan_cache_mode=force_generic_plan");
        }
        let all = config.get_options().map_or(own.clone(), |given| format!("{given} {own}"));
        config.options(all).application_name("walwright documents");
        let connect = move || -> BoxFuture<'static, Result<Client, Error>> {
            let (config, tls) = (config.clone(), tls.clone());
            Box::pin(async move {
                let (client, connection) = config.connect(tls).await?;
                tokio::spawn(async move {
                    if let Err(error) = connection.await {
                        tracing::warn!(error = tell(&error), "a session ended");
                    }
                });
                Ok(client)
            })
        };
        let shared = Shared {
            connect: Box::new(connect),
            room: Arc::new(Semaphore::new(options.size)),
            idle: Mutex::default(),
            metrics: Arc::new(Metrics::new(options.size)),
            options,
        };
        Self { shared: Arc::new(shared) }
    }

    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.shared.metrics
    }

    /// A session for one request.
    pub(crate) async fn lease(&self) -> Result<Lease, StoreError> {
        let Shared { metrics, options, room, idle, connect } = &*self.shared;
        let asked = Instant::now();
        let permit = tokio::time::timeout(options.wait, Arc::clone(room).acquire_owned()).await;
        let Ok(Ok(permit)) = permit else {
            metrics.pool_exhausted.inc();
            return Err(StoreError::Exhausted);
        };
        let found = loop {
            // The last that came back is the likeliest to be in the caches.
            let last = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match last {
                Some(session) if session.client.is_closed() => {}
                other => break other,
            }
        };
        let session = match found {
            Some(session) => session,
            None => {
                let left = options.wait.saturating_sub(asked.elapsed());
                let client = tokio::time::timeout(left, connect()).await;
                let client = client
                    .map_err(|_| StoreError::Away("it does not answer".to_owned()))?
                    .map_err(|error| StoreError::Away(tell(&error)))?;
                metrics.connections_made.inc();
                Session { client, prepared: HashMap::new() }
            }
        };
        metrics.pool_wait.observe(asked.elapsed().as_secs_f64());
        metrics.pool_in_use.inc();
        Ok(Lease {
            session: Some(session),
            permit: Some(permit),
            shared: Arc::clone(&self.shared),
            in_transaction: false,
        })
    }
}

impl Shared {
    fn take_back(&self, session: Session) {
        if !session.client.is_closed() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(session);
        }
    }
}

/// A session that a request has. It goes back when this is dropped, also where the request was
/// given up in the middle: what was not committed is rolled back then.
pub(crate) struct Lease {
    session: Option<Session>,
    permit: Option<OwnedSemaphorePermit>,
    shared: Arc<Shared>,
    in_transaction: bool,
}

/// Given to a statement.
pub(crate) type Parameter<'a> = &'a (dyn ToSql + Sync);

impl Lease {
    fn session(&self) -> &Session {
        self.session.as_ref().expect("a lease has its session until it is dropped")
    }

    async fn prepare(&mut self, sql: &Sql) -> Result<(), Error> {
        if self.shared.options.shape == Shape::Unprepared
            || self.session().prepared.contains_key(sql.text)
        {
            return Ok(());
        }
        let statement = self.session().client.prepare_typed(sql.text, sql.types).await?;
        if let Some(session) = &mut self.session {
            session.prepared.insert(sql.text, statement);
        }
        Ok(())
    }

    async fn ask(&self, sql: &Sql, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Error> {
        let Session { client, prepared } = self.session();
        match prepared.get(sql.text) {
            Some(statement) => client.query(statement, parameters).await,
            None => {
                let types = sql.types.iter().cloned();
                let typed: Vec<_> = parameters.iter().copied().zip(types).collect();
                client.query_typed(sql.text, &typed).await
            }
        }
    }

    /// The rows of a statement.
    pub(crate) async fn query(
        &mut self,
        sql: &Sql,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, Error> {
        self.prepare(sql).await?;
        self.ask(sql, parameters).await
    }

    /// Begins a transaction and asks its first statement, both in one round trip.
    pub(crate) async fn begin(
        &mut self,
        begin: &str,
        sql: &Sql,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, Error> {
        self.prepare(sql).await?;
        self.in_transaction = true;
        let client = &self.session().client;
        // Sent in this order, as they are polled in it.
        let (begun, rows) = join(client.batch_execute(begin), self.ask(sql, parameters)).await;
        begun?;
        rows
    }

    /// Commits.
    pub(crate) async fn commit(&mut self) -> Result<(), Error> {
        self.session().client.batch_execute("COMMIT").await?;
        self.in_transaction = false;
        Ok(())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.shared.metrics.pool_in_use.dec();
        let (Some(mut session), permit) = (self.session.take(), self.permit.take()) else { return };
        let shared = Arc::clone(&self.shared);
        let reset = shared.options.reset;
        if !self.in_transaction && reset == Reset::None {
            return shared.take_back(session);
        }
        let rollback = self.in_transaction.then_some("ROLLBACK");
        tokio::spawn(async move {
            for sql in [rollback, reset.sql()].into_iter().flatten() {
                // DISCARD ALL is for itself: several statements are a transaction.
                if let Err(error) = session.client.batch_execute(sql).await {
                    // Ended with its client, in whatever state it is.
                    return tracing::warn!(error = tell(&error), sql, "a session is given up");
                }
            }
            if reset == Reset::DiscardAll {
                session.prepared.clear();
            }
            shared.take_back(session);
            drop(permit);
        });
    }
}
