//! What each connection does: takes batches, writes them, tries again, and answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::batch::{Answer, Batch};
use crate::engine::Engine;
use crate::error::{Refusal, WriteError, tell};
use crate::failure::Failure;
use crate::lane::Record;
use crate::options::{Idempotency, Retry};
use crate::queue::{Cause, Queue};
use crate::row::EncodedRow;
use crate::session::{Connector, Manner, Session};
use crate::sift;

/// One connection of a coalescer.
pub(crate) struct Worker {
    pub(crate) engine: Arc<Engine>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) connector: Connector,
    pub(crate) session: Option<Session>,
    pub(crate) record: Option<Record>,
    /// Whether a batch of the record was given up without an answer.
    pub(crate) record_is_uncertain: bool,
    /// Whether rows of the last batch were refused: those of the next may be, and it is taken
    /// apart at once.
    pub(crate) expects_refusals: bool,
    /// Turns true when nothing is waited for any more.
    pub(crate) giving_up: watch::Receiver<bool>,
}

/// How long the server may take to hear that a statement is to be cancelled.
const CANCEL: Duration = Duration::from_secs(2);

/// What became of the rows of a batch.
struct Outcome {
    /// Of all rows that are not refused.
    answer: Answer,
    refused: BTreeMap<usize, Refusal>,
}

impl Worker {
    /// Works until the queue is closed and empty. Gives back the rows that it could not write
    /// because the coalescer's end did not wait for them.
    pub(crate) async fn work(mut self) -> Vec<EncodedRow> {
        let mut left = Vec::new();
        while let Some((batch, cause)) = self.queue.next().await {
            self.engine.metrics.took(&batch, cause);
            let began = Instant::now();
            let outcome = self.carry_through(&batch).await;
            let given_up = *self.giving_up.borrow() && outcome.answer.is_err();
            if given_up {
                left.extend(
                    (0..batch.rows.len())
                        .filter(|row| !outcome.refused.contains_key(row))
                        .map(|row| batch.encoded(row)),
                );
            }
            self.expects_refusals = !outcome.refused.is_empty();
            let (rows, took) = (batch.rows.len(), began.elapsed());
            self.engine.metrics.flushed(took);
            self.answer(batch, outcome);
            self.queue.done(rows, took);
        }
        if let (Some(record), Some(session)) = (&self.record, &self.session)
            && let Err(error) = record.end(&session.client, &self.engine.all_done()).await
        {
            tracing::debug!(error = tell(&error), "a connection's record stays");
        }
        left
    }

    /// Writes a batch, for as long as it takes and may.
    async fn carry_through(&mut self, batch: &Batch) -> Outcome {
        let mut giving_up = self.giving_up.clone();
        // Where the end does not wait, the attempt is dropped wherever it is.
        let outcome = tokio::select! {
            outcome = self.try_until_it_ends(batch) => Some(outcome),
            _ = giving_up.wait_for(|giving_up| *giving_up) => None,
        };
        if let Some(outcome) = outcome {
            return outcome;
        }
        // Whatever was sent may have been committed.
        self.abandon_session().await;
        self.record_is_uncertain = true;
        Outcome {
            answer: Err(WriteError::Unknown("the coalescer's end did not wait for it".into())),
            refused: BTreeMap::new(),
        }
    }

    /// Gives a connection up, and has the server cancel what it does there: it would go on, and
    /// keep its locks from the next attempt.
    async fn abandon_session(&mut self) {
        if let Some(session) = self.session.take() {
            _ = tokio::time::timeout(CANCEL, self.connector.cancel(&session)).await;
        }
    }

    async fn try_until_it_ends(&mut self, batch: &Batch) -> Outcome {
        let mut refused = BTreeMap::new();
        let mut pause = Pause::new(self.engine.options.retry);
        let mut sifting = self.expects_refusals && batch.rows.len() > 1;
        let mut uncertain = false;
        let mut began = false;
        let batch_timeout = self.engine.options.batch_timeout;
        loop {
            let attempt = self.attempt(batch, &mut began, sifting, uncertain, &mut refused);
            let failure = match tokio::time::timeout(batch_timeout, attempt).await {
                Ok(Ok(())) | Ok(Err(Failure::Written)) => return self.succeeded(batch, refused),
                Ok(Err(failure)) => failure,
                Err(_) => {
                    self.abandon_session().await;
                    Failure::Unknown(format!("no answer within {batch_timeout:?}"))
                }
            };
            if self.session.as_ref().is_some_and(Session::is_closed) {
                self.session = None;
            }
            let cause = match failure {
                Failure::Written => return self.succeeded(batch, refused),
                Failure::Row { refusal, .. }
                    if batch.rows.len() == 1
                        && !self.engine.keeps_dead_letters()
                        && self.record.is_none() =>
                {
                    refused.insert(0, refusal);
                    return Outcome { answer: Ok(()), refused };
                }
                Failure::Row { .. } => {
                    // The rows are taken apart, in a transaction that keeps the good ones.
                    sifting = true;
                    self.engine.metrics.bisections.inc();
                    continue;
                }
                Failure::Statement(_) if batch.by_table().len() > 1 && !sifting => {
                    // Rows of the other tables have no part in it.
                    sifting = true;
                    continue;
                }
                Failure::Statement(refusal) => {
                    self.forget_batch();
                    let error = if uncertain {
                        WriteError::Unknown(refusal.to_string())
                    } else {
                        WriteError::Refused(refusal)
                    };
                    return self.failed(error, refused);
                }
                Failure::NotReplicated => {
                    return Outcome {
                        answer: Err(WriteError::Unknown(
                            "it is committed here, but the wait for a synchronous standby was \
                             cancelled"
                                .into(),
                        )),
                        refused,
                    };
                }
                Failure::Displaced => {
                    let why = "another coalescer writes this source now";
                    return self.failed(WriteError::Failed(why.into()), refused);
                }
                Failure::Stale(cause) => {
                    self.session = None;
                    cause
                }
                Failure::Passing(cause) => cause,
                Failure::Unknown(cause) => {
                    self.session = None;
                    uncertain = true;
                    if matches!(self.engine.options.idempotency, Idempotency::None) {
                        return self.failed(WriteError::Unknown(cause), refused);
                    }
                    cause
                }
            };
            if !pause.wait(&cause).await {
                self.forget_batch();
                let error = if uncertain {
                    self.record_is_uncertain = true;
                    WriteError::Unknown(cause)
                } else {
                    WriteError::Failed(cause)
                };
                return self.failed(error, refused);
            }
            self.engine.metrics.retries.inc();
        }
    }

    /// One attempt, with a session that is made where there is none.
    async fn attempt(
        &mut self,
        batch: &Batch,
        began: &mut bool,
        sifting: bool,
        again: bool,
        refused: &mut BTreeMap<usize, Refusal>,
    ) -> Result<(), Failure> {
        self.ready().await?;
        let Some(session) = &mut self.session else {
            return Err(Failure::Passing("there is no connection".into()));
        };
        if let Some(record) = &mut self.record
            && !*began
        {
            record.next(&self.engine.positions_of(batch));
        }
        *began = true;
        let record = self.record.as_ref();
        let manner = Manner { again };
        let written = if sifting {
            sift::write(&self.engine, session, batch, record, manner, refused).await
        } else {
            session.write(batch, record, manner).await
        };
        match (written, record) {
            (Err(Failure::Displaced), Some(record)) => {
                match record.is_written(&session.client).await {
                    Ok(true) if again => Err(Failure::Written),
                    Ok(_) if record.is_private() && again => {
                        Err(Failure::Unknown("the connection's record is gone".into()))
                    }
                    Ok(_) if record.is_private() => {
                        self.record_is_uncertain = true;
                        *began = false;
                        Err(Failure::Passing("the connection's record is gone".into()))
                    }
                    Ok(_) => Err(Failure::Displaced),
                    Err(error) => Err(Failure::of(&error, again)),
                }
            }
            (written, _) => written,
        }
    }

    /// A session, with a record that is certain.
    async fn ready(&mut self) -> Result<(), Failure> {
        if self.session.as_ref().is_none_or(Session::is_closed) {
            let session = self.connector.connect().await;
            self.session = Some(session.map_err(|error| Failure::Passing(tell(&error)))?);
        }
        if let (Some(session), Some(record), true) =
            (&self.session, &mut self.record, self.record_is_uncertain)
        {
            record
                .replace(&session.client)
                .await
                .map_err(|error| Failure::Passing(tell(&error)))?;
            self.record_is_uncertain = false;
        }
        Ok(())
    }

    /// The batch's number was not used.
    fn forget_batch(&mut self) {
        if self.record.is_some() {
            self.record_is_uncertain = true;
        }
    }

    fn succeeded(&self, batch: &Batch, refused: BTreeMap<usize, Refusal>) -> Outcome {
        self.engine.done(batch, &refused);
        Outcome { answer: Ok(()), refused }
    }

    /// No row is known to be written; those that were refused are so only where a file has kept
    /// them, whatever became of the transaction.
    fn failed(&self, error: WriteError, mut refused: BTreeMap<usize, Refusal>) -> Outcome {
        if !self.engine.dead_letters.is_file() {
            refused.clear();
        }
        Outcome { answer: Err(error), refused }
    }

    fn answer(&self, batch: Batch, mut outcome: Outcome) {
        let (rows, bytes) = (batch.rows.len(), batch.bytes());
        self.engine.room.give_back(rows, bytes);
        self.engine.metrics.answered(&batch, &outcome.answer, &outcome.refused);
        for (at, row) in batch.rows.into_iter().enumerate() {
            let answer = match outcome.refused.remove(&at) {
                Some(refusal) => Err(WriteError::Refused(refusal)),
                None => outcome.answer.clone(),
            };
            // Who does not wait for the answer does not want it.
            _ = row.writer.send(answer);
        }
    }
}

/// The pauses between attempts: each twice the one before, shortened at random.
struct Pause {
    retry: Retry,
    next: Duration,
    until: Option<Instant>,
}

impl Pause {
    fn new(retry: Retry) -> Self {
        Self { retry, next: retry.first, until: None }
    }

    /// Waits; `false` when the time for retries is over.
    async fn wait(&mut self, cause: &str) -> bool {
        let now = Instant::now();
        let until = *self.until.get_or_insert(now + self.retry.within);
        if now >= until {
            return false;
        }
        let pause = self.next.mul_f64(0.5 + fastrand::f64() / 2.0).min(until - now);
        tracing::warn!(cause, ?pause, "a batch is tried again");
        self.next = (self.next * 2).min(self.retry.longest);
        tokio::time::sleep(pause).await;
        true
    }
}

impl From<Cause> for &'static str {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Idle => "idle",
            Cause::Rows => "rows",
            Cause::Bytes => "bytes",
            Cause::Age => "age",
            Cause::Asked => "asked",
        }
    }
}
