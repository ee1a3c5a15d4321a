//! The front: what writers hold.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use prometheus_client::registry::Registry;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Config, NoTls, Socket};

use crate::dead_letters::{DeadLetters, ensure_table};
use crate::engine::Engine;
use crate::error::{ConnectError, WriteError};
use crate::lane::{LANES, Record};
use crate::metrics::Metrics;
use crate::options::{Capacity, Idempotency, Options, TableOptions};
use crate::positions::Positions;
use crate::queue::Queue;
use crate::room::Room;
use crate::row::{Encode, EncodedRow, Fields, FieldsOf, Row};
use crate::session::{Connector, Session, configure};
use crate::table::Table;
use crate::threshold;
use crate::ticket::Ticket;
use crate::worker::Worker;

/// Writes rows of type `R` to a table, many at a time, and answers each when it is durable.
///
/// Clones write to the same table over the same connections; they are cheap, and every task may
/// have its own. When the last is dropped, what waits is still written as long as the runtime
/// lives, and a warning says how much it was: [`close`](Self::close) waits for it.
pub struct Coalescer<R> {
    shared: Arc<Shared>,
    table: Arc<Table>,
    rows: PhantomData<fn(R)>,
}

impl<R> Clone for Coalescer<R> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), table: Arc::clone(&self.table), rows: PhantomData }
    }
}

/// What all handles of a coalescer share.
struct Shared {
    engine: Arc<Engine>,
    connector: Connector,
    /// One that all connections take from, or one for each where rows have an order.
    queues: Vec<Arc<Queue>>,
    /// Whose turn it is among rows without an order.
    turn: AtomicUsize,
    workers: Mutex<Vec<JoinHandle<Vec<EncodedRow>>>>,
    give_up: watch::Sender<bool>,
    closed: AtomicBool,
    /// What of the source was written before this coalescer began.
    done_before: Vec<Range<u64>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        let (rows, _) = self.engine.room.taken();
        if rows > 0 && !self.closed.load(Ordering::Acquire) {
            tracing::error!(
                rows,
                "a coalescer was dropped with rows that are not yet written; close() waits for them"
            );
        }
        self.queues.iter().for_each(|queue| queue.close());
    }
}

impl<R: Row> Coalescer<R> {
    /// Connects without TLS, e.g. to `postgres://app@localhost/app`, to write the columns of `R`.
    ///
    /// # Errors
    /// Where the server cannot be reached, or the table has no such columns.
    pub async fn connect(url: &str, table: &str, options: Options) -> Result<Self, ConnectError> {
        Self::connect_with(configure(url)?, NoTls, table, R::COLUMNS, options).await
    }

    /// Writes another type to another table over the same connections, in the same batches.
    ///
    /// # Errors
    /// Where the table has no such columns.
    pub async fn table<S: Row>(
        &self,
        table: &str,
        options: TableOptions,
    ) -> Result<Coalescer<S>, ConnectError> {
        self.table_with(table, S::COLUMNS, options).await
    }
}

impl<R: Encode> Coalescer<R> {
    /// Connects without TLS, to write columns that are known at run time.
    ///
    /// # Errors
    /// Where the server cannot be reached, or the table has no such columns.
    pub async fn connect_to(
        url: &str,
        table: &str,
        columns: &[impl AsRef<str>],
        options: Options,
    ) -> Result<Self, ConnectError> {
        Self::connect_with(configure(url)?, NoTls, table, columns, options).await
    }

    /// Connects as `config` says, with a TLS of the caller's choice.
    ///
    /// # Errors
    /// Where the server cannot be reached, or the table has no such columns.
    pub async fn connect_with<T>(
        config: Config,
        tls: T,
        table: &str,
        columns: &[impl AsRef<str>],
        options: Options,
    ) -> Result<Self, ConnectError>
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send,
        T::TlsConnect: Send,
        <T::TlsConnect as tokio_postgres::tls::TlsConnect<Socket>>::Future: Send,
    {
        check(&options)?;
        let connector = Connector::new(config, tls, options.durability);
        let mut sessions = vec![connector.connect().await?];
        let first = &mut sessions[0];
        let table = find::<R>(first, table, columns, &options.table, &options.idempotency).await?;
        let dead_letters = DeadLetters::open(&first.client, &options.dead_letters).await?;
        let mut records = Vec::new();
        let mut done_before = Vec::new();
        if let Idempotency::Lanes(lanes) = &options.idempotency {
            let client = &first.client;
            ensure_table(client, LANES, "walwright_lanes", &lanes.table, lanes.create).await?;
            for nth in 0..options.connections {
                let (record, done) = Record::begin(client, lanes, nth == 0).await?;
                if nth == 0 {
                    done_before = done;
                }
                records.push(record);
            }
        }
        for _ in 1..options.connections {
            sessions.push(connector.connect().await?);
        }

        let queues = if options.table.order.is_empty() { 1 } else { options.connections };
        let queues = (0..queues).map(|_| Arc::new(Queue::new(options.flush))).collect::<Vec<_>>();
        let mut positions = Positions::default();
        done_before.iter().for_each(|range| positions.add(range));
        let engine = Arc::new(Engine {
            room: Room::new(options.capacity),
            metrics: Metrics::new(),
            dead_letters,
            positions: Mutex::new(positions),
            options,
        });
        let (give_up, giving_up) = watch::channel(false);
        let mut records = records.into_iter();
        let workers = sessions.into_iter().enumerate().map(|(nth, session)| {
            let worker = Worker {
                engine: Arc::clone(&engine),
                queue: Arc::clone(&queues[nth % queues.len()]),
                connector: connector.clone(),
                session: Some(session),
                record: records.next(),
                record_is_uncertain: false,
                expects_refusals: false,
                giving_up: giving_up.clone(),
            };
            tokio::spawn(worker.work())
        });
        let workers = Mutex::new(workers.collect());
        let shared = Shared {
            engine,
            connector,
            queues,
            turn: AtomicUsize::new(0),
            workers,
            give_up,
            closed: AtomicBool::new(false),
            done_before,
        };
        Ok(Self { shared: Arc::new(shared), table, rows: PhantomData })
    }

    /// Writes other columns, or another table, over the same connections.
    ///
    /// # Errors
    /// Where the table has no such columns, or an order is asked for that the coalescer, whose
    /// first table has none, cannot keep.
    pub async fn table_with<S: Encode>(
        &self,
        table: &str,
        columns: &[impl AsRef<str>],
        options: TableOptions,
    ) -> Result<Coalescer<S>, ConnectError> {
        if !options.order.is_empty()
            && self.shared.queues.len() < self.shared.engine.options.connections
        {
            return Err(ConnectError::Options(format!(
                "table {table} asks for an order, which the table that the coalescer was \
                 connected to does not: with several connections the first table must"
            )));
        }
        let mut session = self.shared.connector.connect().await?;
        let idempotency = &self.shared.engine.options.idempotency;
        let table = find::<S>(&mut session, table, columns, &options, idempotency).await?;
        Ok(Coalescer { shared: Arc::clone(&self.shared), table, rows: PhantomData })
    }

    /// Writes a row, and returns when it is durable, or says why not. Waits for room.
    ///
    /// A caller that stops waiting does not take the row back.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub async fn write(&self, row: R) -> Result<(), WriteError> {
        self.enqueue(row).await?.await
    }

    /// Puts a row among those that wait; waits only for room. The ticket tells what became of it.
    ///
    /// # Errors
    /// Where the row does not fit the table, or the coalescer is closed.
    pub async fn enqueue(&self, row: R) -> Result<Ticket, WriteError> {
        self.enqueue_encoded(self.encode(&row)?, None).await
    }

    /// Like [`enqueue`](Self::enqueue), for a row that was made of these positions of the source
    /// (say, bytes of a file): they are marked as done in the row's own transaction.
    ///
    /// # Errors
    /// As there.
    pub async fn enqueue_at(&self, row: R, position: Range<u64>) -> Result<Ticket, WriteError> {
        self.enqueue_encoded(self.encode(&row)?, Some(position)).await
    }

    /// Like [`enqueue`](Self::enqueue), but never waits.
    ///
    /// # Errors
    /// As there, and [`WriteError::Full`].
    pub fn try_enqueue(&self, row: R) -> Result<Ticket, WriteError> {
        let fields = self.encode(&row)?;
        self.shared.engine.room.try_take(fields.len())?;
        self.push(&fields, None)
    }

    /// Like [`write`](Self::write), but does not wait for room.
    ///
    /// # Errors
    /// As there, and [`WriteError::Full`].
    pub async fn try_write(&self, row: R) -> Result<(), WriteError> {
        self.try_enqueue(row)?.await
    }

    /// Like [`write`](Self::write), but waits no longer than `patience` for room.
    ///
    /// # Errors
    /// As there, and [`WriteError::Full`].
    pub async fn write_within(&self, row: R, patience: Duration) -> Result<(), WriteError> {
        let fields = self.encode(&row)?;
        let queued = self.enqueue_encoded(fields, None);
        let ticket = tokio::time::timeout(patience, queued).await.unwrap_or_else(|_| {
            let (rows, bytes) = self.shared.engine.room.taken();
            Err(WriteError::Full { rows, bytes })
        })?;
        ticket.await
    }

    /// Sends off what waits now, as soon as a connection is free. Does not wait for it: the tickets
    /// tell.
    pub fn flush(&self) {
        self.shared.queues.iter().for_each(|queue| queue.flush());
    }

    /// What of the source was written before this coalescer began.
    #[must_use]
    pub fn positions_done(&self) -> &[Range<u64>] {
        &self.shared.done_before
    }

    /// Says that what was made of these positions of the source is not to be written, or is kept
    /// elsewhere, say a row that was refused: the next batch, or [`close`](Self::close), marks
    /// them as done. A refused row is not marked by its batch unless it is a dead letter, since
    /// its writer may end before it hears of it.
    pub fn mark_done(&self, position: &Range<u64>) {
        self.shared.engine.mark_done(position);
    }

    /// Rows that wait or are on their way, and their bytes.
    #[must_use]
    pub fn waiting(&self) -> (usize, usize) {
        self.shared.engine.room.taken()
    }

    /// Adds the coalescer's metrics to a registry: rows, batches and what sent them off, batch
    /// sizes, queue age, flush and acknowledgement latency, retries, bisections, dead letters. Call
    /// [`observe`](Self::observe) before it is encoded.
    pub fn register(&self, registry: &mut Registry) {
        self.shared.engine.metrics.register(registry);
    }

    /// Brings the metrics of what waits up to date.
    pub fn observe(&self) {
        let (rows, bytes) = self.waiting();
        let metrics = &self.shared.engine.metrics;
        metrics.waiting_rows.set(i64::try_from(rows).unwrap_or(i64::MAX));
        metrics.waiting_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    }

    /// Takes no further rows, writes what waits, and gives back what could not be written by
    /// `deadline`. Of those that were on their way then it is not known whether they were written;
    /// their tickets say so.
    pub async fn close(self, deadline: Duration) -> Vec<EncodedRow> {
        let shared = &self.shared;
        shared.closed.store(true, Ordering::Release);
        shared.engine.room.close();
        shared.queues.iter().for_each(|queue| queue.close());
        let mut workers =
            std::mem::take(&mut *shared.workers.lock().unwrap_or_else(PoisonError::into_inner));
        let end = Instant::now() + deadline;
        let mut left = Vec::new();
        for worker in &mut workers {
            let patience = end.saturating_duration_since(Instant::now());
            let ended = match tokio::time::timeout(patience, &mut *worker).await {
                Ok(ended) => ended,
                Err(_) => {
                    for batch in shared.queues.iter().flat_map(|queue| queue.give_up()) {
                        left.extend((0..batch.rows.len()).map(|row| batch.encoded(row)));
                        shared.engine.room.give_back(batch.rows.len(), batch.bytes());
                        for row in batch.rows {
                            _ = row.writer.send(Err(WriteError::Closed));
                        }
                    }
                    shared.give_up.send_replace(true);
                    worker.await
                }
            };
            left.extend(ended.unwrap_or_default());
        }
        left
    }

    fn encode(&self, row: &R) -> Result<BytesMut, WriteError> {
        let mut buffer = BytesMut::with_capacity(128);
        let mut fields = Fields::new(&self.table.columns, &mut buffer);
        row.encode(&mut fields)?;
        fields.finish()?;
        Ok(buffer)
    }

    async fn enqueue_encoded(
        &self,
        fields: BytesMut,
        position: Option<Range<u64>>,
    ) -> Result<Ticket, WriteError> {
        self.shared.engine.room.take(fields.len()).await?;
        self.push(&fields, position)
    }

    /// Room is taken.
    fn push(&self, fields: &[u8], position: Option<Range<u64>>) -> Result<Ticket, WriteError> {
        let (writer, answer) = oneshot::channel();
        let queue = self.queue(fields);
        if !queue.push(&self.table, fields, position, Instant::now(), writer) {
            self.shared.engine.room.give_back(1, fields.len());
            return Err(WriteError::Closed);
        }
        Ok(Ticket(answer))
    }

    fn queue(&self, fields: &[u8]) -> &Queue {
        let queues = &self.shared.queues;
        if let [queue] = queues.as_slice() {
            return queue;
        }
        if self.table.order.is_empty() {
            return &queues[self.shared.turn.fetch_add(1, Ordering::Relaxed) % queues.len()];
        }
        let fields = FieldsOf(fields).collect::<Vec<_>>();
        let mut hasher = DefaultHasher::new();
        self.table.order.iter().for_each(|at| fields[*at].hash(&mut hasher));
        &queues[usize::try_from(hasher.finish() % queues.len() as u64).unwrap_or(0)]
    }
}

async fn find<R: Encode>(
    session: &mut Session,
    table: &str,
    columns: &[impl AsRef<str>],
    options: &TableOptions,
    idempotency: &Idempotency,
) -> Result<Arc<Table>, ConnectError> {
    let columns = columns.iter().map(|column| column.as_ref().to_owned()).collect::<Vec<_>>();
    let table =
        Table::find(&session.client, table, &columns, R::FORMAT, options, idempotency).await?;
    let table = Arc::new(table);
    threshold::measure(session, &table).await;
    Ok(table)
}

fn check(options: &Options) -> Result<(), ConnectError> {
    let wrong = |what: &str| Err(ConnectError::Options(what.to_owned()));
    let Capacity { rows, bytes } = options.capacity;
    if options.connections == 0 {
        return wrong("a coalescer needs a connection");
    }
    if options.flush.rows == 0 || options.flush.bytes == 0 {
        return wrong("a batch needs at least one row and one byte");
    }
    if rows == 0 || bytes == 0 {
        return wrong("a capacity of nothing would let nobody write");
    }
    if rows.max(bytes) > tokio::sync::Semaphore::MAX_PERMITS {
        return wrong("the capacity is larger than can be counted");
    }
    Ok(())
}
