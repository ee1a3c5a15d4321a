//! A session that writes: its connection, its prepared statements, and one attempt at a batch.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Bytes, BytesMut};
use futures_util::future::{BoxFuture, join, join4, poll_fn};
use futures_util::{SinkExt, pin_mut};
use postgres_types::{Format as WireFormat, IsNull, ToSql, Type, to_sql_checked};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{
    AsyncMessage, CancelToken, Client, Config, Connection, Error, Socket, Statement,
};

use crate::batch::Batch;
use crate::error::ConnectError;
use crate::failure::Failure;
use crate::lane::Record;
use crate::options::Durability;
use crate::row::Format;
use crate::table::{Path, Table};

/// Makes connections, with TLS or without.
#[derive(Clone)]
pub(crate) struct Connector {
    connect: Arc<dyn Fn() -> BoxFuture<'static, Result<Link, Error>> + Send + Sync>,
    cancel: Arc<dyn Fn(CancelToken) -> BoxFuture<'static, Result<(), Error>> + Send + Sync>,
    durability: Durability,
}

/// A client and what moves its bytes.
struct Link {
    client: Client,
    driver: JoinHandle<()>,
    not_replicated: Arc<AtomicBool>,
}

impl Connector {
    pub(crate) fn new<T>(config: Config, tls: T, durability: Durability) -> Self
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send,
        T::TlsConnect: Send,
        <T::TlsConnect as tokio_postgres::tls::TlsConnect<Socket>>::Future: Send,
    {
        let with = tls.clone();
        let cancel = move |token: CancelToken| -> BoxFuture<'static, Result<(), Error>> {
            let tls = with.clone();
            Box::pin(async move { token.cancel_query(tls).await })
        };
        let connect = move || -> BoxFuture<'static, Result<Link, Error>> {
            let (config, tls) = (config.clone(), tls.clone());
            Box::pin(async move {
                let (client, connection) = config.connect(tls).await?;
                let not_replicated = Arc::new(AtomicBool::new(false));
                let driver = tokio::spawn(drive(connection, Arc::clone(&not_replicated)));
                Ok(Link { client, driver, not_replicated })
            })
        };
        Self { connect: Arc::new(connect), cancel: Arc::new(cancel), durability }
    }

    /// Asks the server to cancel what it does for a session.
    pub(crate) async fn cancel(&self, session: &Session) {
        if let Err(error) = (self.cancel)(session.client.cancel_token()).await {
            tracing::debug!(%error, "a statement could not be cancelled");
        }
    }

    /// A session whose commits mean what was asked for.
    pub(crate) async fn connect(&self) -> Result<Session, Error> {
        let Link { client, driver, not_replicated } = (self.connect)().await?;
        let session = Session {
            client: Arc::new(client),
            driver,
            not_replicated,
            statements: HashMap::new(),
            advance: None,
            as_json: HashMap::new(),
            is_broken: false,
        };
        let level = match self.durability {
            Durability::Session => {
                let row = session.client.query_one("SHOW synchronous_commit", &[]).await?;
                if row.get::<_, &str>(0) != "off" {
                    return Ok(session);
                }
                tracing::warn!(
                    "synchronous_commit is off here; set to on, since an acknowledgement means \
                     durable. Durability::Off leaves it."
                );
                "on"
            }
            Durability::RemoteApply => "remote_apply",
            Durability::On => "on",
            Durability::RemoteWrite => "remote_write",
            Durability::Local => "local",
            Durability::Off => "off",
        };
        session.client.batch_execute(&format!("SET synchronous_commit = {level}")).await?;
        Ok(session)
    }
}

/// Moves the bytes of a connection, and hears what the server says aside.
async fn drive<S, T>(mut connection: Connection<S, T>, not_replicated: Arc<AtomicBool>)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
        match message {
            Ok(AsyncMessage::Notice(notice)) => {
                // A cancelled wait for a standby comes as a warning before a success. The
                // function's name is not translated, as the message is.
                if notice.routine() == Some("SyncRepWaitForLSN") {
                    not_replicated.store(true, Ordering::Release);
                }
                tracing::debug!(%notice, "the server says");
            }
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(%error, "a connection ended");
                return;
            }
        }
    }
}

/// One connection's state.
pub(crate) struct Session {
    pub(crate) client: Arc<Client>,
    driver: JoinHandle<()>,
    not_replicated: Arc<AtomicBool>,
    /// By the table's address, which lives as long as the coalescer.
    statements: HashMap<(usize, Path, bool), Statement>,
    /// [`Record::advance_sql`].
    advance: Option<Statement>,
    /// What reads a row as JSON, by the table's address.
    as_json: HashMap<usize, Statement>,
    /// Whether answers may no longer belong to what was asked.
    is_broken: bool,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// How rows are written in an attempt.
#[derive(Clone, Copy)]
pub(crate) struct Manner {
    /// Rows may be there of an attempt whose outcome was lost.
    pub(crate) again: bool,
}

impl Session {
    pub(crate) fn is_closed(&self) -> bool {
        self.is_broken || self.client.is_closed()
    }

    /// Forgets what was prepared, which the table's change made stale.
    pub(crate) fn forget(&mut self) {
        self.statements.clear();
        self.advance = None;
        self.as_json.clear();
    }

    async fn statement(
        &mut self,
        table: &Table,
        path: Path,
        manner: Manner,
    ) -> Result<Statement, Error> {
        let key = (std::ptr::from_ref(table).addr(), path, manner.again);
        if let Some(statement) = self.statements.get(&key) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(&table.sql(path, manner.again)).await?;
        self.statements.insert(key, statement.clone());
        Ok(statement)
    }

    /// Writes a batch in one transaction.
    pub(crate) async fn write(
        &mut self,
        batch: &Batch,
        record: Option<&Record>,
        manner: Manner,
    ) -> Result<(), Failure> {
        self.not_replicated.store(false, Ordering::Release);
        let tables = batch.by_table();
        match (tables.as_slice(), record) {
            ([(table, rows)], None) => {
                // The statement is its own transaction.
                self.put(table, batch, rows, manner, true).await?;
            }
            ([(table, rows)], Some(record))
                if table.path(rows.len(), manner.again) != Path::Copy =>
            {
                self.write_at_once(table, batch, rows, record, manner).await?;
            }
            _ => {
                let written = self.write_tables(&tables, batch, record, manner).await;
                self.end(written).await?;
            }
        }
        self.is_replicated()
    }

    async fn write_tables(
        &mut self,
        tables: &[(Arc<Table>, Vec<usize>)],
        batch: &Batch,
        record: Option<&Record>,
        manner: Manner,
    ) -> Result<(), Failure> {
        self.begin(record).await?;
        for (table, rows) in tables {
            self.put(table, batch, rows, manner, false).await?;
        }
        self.commit().await
    }

    /// Leaves no transaction open behind one that failed.
    pub(crate) async fn end(&self, written: Result<(), Failure>) -> Result<(), Failure> {
        if written.is_err() && !self.is_closed() {
            // Where this fails the connection is lost, which the next attempt finds.
            _ = self.client.batch_execute("ROLLBACK").await;
        }
        written
    }

    /// The whole transaction in one round trip.
    async fn write_at_once(
        &mut self,
        table: &Arc<Table>,
        batch: &Batch,
        rows: &[usize],
        record: &Record,
        manner: Manner,
    ) -> Result<(), Failure> {
        let path = table.path(rows.len(), manner.again);
        let statement = self
            .statement(table, path, manner)
            .await
            .map_err(|error| Failure::of(&error, false))?;
        let advance =
            self.advance_statement(record).await.map_err(|error| Failure::of(&error, false))?;
        let client = &self.client;
        let parameters = parameters(table, batch, rows, path);
        // Each is sent when it is first polled, in this order.
        let (begun, advanced, put, committed) = join4(
            client.batch_execute(BEGIN),
            record.advance(client, &advance, true),
            client.execute_raw(&statement, &parameters),
            client.batch_execute("COMMIT"),
        )
        .await;
        begun.map_err(|error| Failure::of(&error, true))?;
        // What fails takes the rest with it, and the COMMIT rolls back.
        advanced?;
        put.map_err(|error| Failure::of(&error, true))?;
        committed.map_err(|error| Failure::of(&error, true))
    }

    pub(crate) async fn begin(&mut self, record: Option<&Record>) -> Result<(), Failure> {
        let not_committing = |error: Error| Failure::of(&error, false);
        let Some(record) = record else {
            return self.client.batch_execute(BEGIN).await.map_err(not_committing);
        };
        let advance = self.advance_statement(record).await.map_err(not_committing)?;
        let client = &self.client;
        let (begun, advanced) =
            join(client.batch_execute(BEGIN), record.advance(client, &advance, false)).await;
        begun.map_err(not_committing)?;
        advanced
    }

    pub(crate) async fn commit(&mut self) -> Result<(), Failure> {
        self.client.batch_execute("COMMIT").await.map_err(|error| Failure::of(&error, true))?;
        self.is_replicated()
    }

    fn is_replicated(&self) -> Result<(), Failure> {
        if self.not_replicated.swap(false, Ordering::AcqRel) {
            return Err(Failure::NotReplicated);
        }
        Ok(())
    }

    /// A COPY was refused before its data. tokio-postgres ends it with a second Sync, whose answer
    /// nobody expects, so the session is of no more use. Where COPY cannot be had (row security,
    /// a view), or the table is gone, `unnest` is tried, whose answer counts.
    fn cannot_copy(&mut self, table: &Table, error: &Error) -> Failure {
        self.is_broken = true;
        match Failure::of(error, false) {
            Failure::Statement(refusal) => {
                table.set_threshold(usize::MAX);
                Failure::Stale(refusal.to_string())
            }
            Failure::Row { refusal, .. } => Failure::Stale(refusal.to_string()),
            failure => failure,
        }
    }

    /// [`Table::as_json`], prepared.
    pub(crate) async fn as_json(&mut self, table: &Table) -> Result<Statement, Error> {
        let key = std::ptr::from_ref(table).addr();
        if let Some(statement) = self.as_json.get(&key) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(&table.as_json()).await?;
        self.as_json.insert(key, statement.clone());
        Ok(statement)
    }

    async fn advance_statement(&mut self, record: &Record) -> Result<Statement, Error> {
        if let Some(statement) = &self.advance {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(record.advance_sql()).await?;
        Ok(self.advance.insert(statement).clone())
    }

    /// Writes rows of one table; `alone` says that the statement is its own transaction.
    pub(crate) async fn put(
        &mut self,
        table: &Table,
        batch: &Batch,
        rows: &[usize],
        manner: Manner,
        alone: bool,
    ) -> Result<(), Failure> {
        let path = table.path(rows.len(), manner.again);
        let statement = self
            .statement(table, path, manner)
            .await
            .map_err(|error| Failure::of(&error, false))?;
        let client = &self.client;
        if path == Path::Copy {
            // A COPY has its CommandComplete before it is committed, at the Sync behind it, and
            // whoever waits for that alone takes for written what a server that ends rolls back.
            // So it stands in a transaction, whose COMMIT answers. Each is sent when it is first
            // polled, in this order.
            let begin = async {
                match alone {
                    true => client.batch_execute(BEGIN).await,
                    false => Ok(()),
                }
            };
            let (begun, sink) = join(begin, client.copy_in(&statement)).await;
            let sink = match (begun, sink) {
                (Ok(()), Ok(sink)) => sink,
                (Err(error), _) => return Err(Failure::of(&error, false)),
                (Ok(()), Err(error)) => return Err(self.cannot_copy(table, &error)),
            };
            pin_mut!(sink);
            let data = batch.copy_data(table, rows);
            // A refusal while data is on its way shows as a closed sink: finish() brings it.
            let sent = sink.send(data).await;
            let commit = async {
                match alone {
                    true => client.batch_execute("COMMIT").await,
                    false => Ok(()),
                }
            };
            // What fails takes the rest with it, and the COMMIT rolls back.
            let (finished, committed) = join(sink.finish(), commit).await;
            return match (sent, finished, committed) {
                (Ok(()), Ok(_), Ok(())) => Ok(()),
                (Ok(()), Ok(_), Err(error)) => Err(Failure::of(&error, true)),
                (_, Err(error), _) | (Err(error), ..) => Err(Failure::of(&error, alone)),
            };
        }
        client
            .execute_raw(&statement, &parameters(table, batch, rows, path))
            .await
            .map(|_| ())
            .map_err(|error| Failure::of(&error, alone))
    }
}

/// Repeatable reads would refuse what another session did to the connection's record.
pub(crate) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

fn parameters(table: &Table, batch: &Batch, rows: &[usize], path: Path) -> Vec<Parameter> {
    match (path, rows) {
        (Path::Insert, [row]) => {
            let text = table.format == Format::Text;
            let value = |field: Option<&[u8]>| field.map(Bytes::copy_from_slice);
            batch.fields(*row).map(|field| Parameter { value: value(field), text }).collect()
        }
        _ => batch
            .arrays(table, rows)
            .into_iter()
            .map(|array| Parameter { value: Some(array), text: false })
            .collect(),
    }
}

/// A parameter that is encoded already.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) value: Option<Bytes>,
    pub(crate) text: bool,
}

impl ToSql for Parameter {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        match &self.value {
            None => Ok(IsNull::Yes),
            Some(value) => {
                out.extend_from_slice(value);
                Ok(IsNull::No)
            }
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, _: &Type) -> WireFormat {
        if self.text { WireFormat::Text } else { WireFormat::Binary }
    }

    to_sql_checked!();
}

/// What is wrong with a connection string, or the server, at the start.
pub(crate) fn configure(url: &str) -> Result<Config, ConnectError> {
    let mut config: Config = url.parse().map_err(ConnectError::Url)?;
    if config.get_application_name().is_none() {
        config.application_name("walwright-coalesce");
    }
    Ok(config)
}
