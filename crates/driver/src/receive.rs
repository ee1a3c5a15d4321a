//! Taking in what the server answers.

use std::io::{self, Read};
use std::rc::Rc;
use std::sync::atomic::Ordering;

use walwright_wire::backend::{self, ErrorFields, TransactionStatus};
use walwright_wire::frontend::{NOTHING_TO_COPY, SYNC};
use walwright_wire::{TagSet, WireError};

use crate::client::{Client, Failure, Reading, State, Waiting};
use crate::clock::Moment;
use crate::compile::Effect;
use crate::engine::{Engine, Next};
use crate::execute::copy;
use crate::plan::Protocol;
use crate::tally::{CONNECTION, Histogram, SCRIPT, add};

/// Messages whose inside matters.
const ALWAYS: TagSet =
    TagSet::of(&[backend::READY_FOR_QUERY, backend::ERROR_RESPONSE, backend::NOTICE_RESPONSE]);
/// What a notice's SQLSTATE begins with when the server takes its leave: 57P01 and 57P02
/// are warnings where it stops at once or one of its processes crashed.
const LEAVES: &str = "57P0";
/// The same while a result is to become variables.
const CAPTURING: TagSet = ALWAYS.union(TagSet::of(&[backend::ROW_DESCRIPTION, backend::DATA_ROW]));

/// What some bytes of an answer amount to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Taken {
    /// The server owes nothing any more.
    pub(crate) answered: bool,
    /// It wants data for a COPY.
    pub(crate) wants_copy: bool,
    /// It takes nothing more on this connection.
    pub(crate) closes: bool,
}

impl Engine {
    /// The client's socket is ready; `closed` by the server perhaps.
    pub(crate) fn on_ready(&mut self, client: &mut Client, closed: bool) {
        let Some(link) = &client.link else { return };
        if (!link.unsent.is_empty() || link.stream.has_unsent())
            && let Err(error) = self.post_rest(client)
        {
            let now = self.clock.now();
            return self.lose(client, &error, now);
        }
        loop {
            let Some(link) = &mut client.link else { return };
            let read = link.stream.read(&mut self.input);
            // The socket is reported again only for what is still to come. A
            // short read took all bytes there were, but not the end behind them;
            // an encrypted stream may hold more in any case.
            let more = closed
                || link.stream.reads_ahead()
                || matches!(read, Ok(count) if count == self.input.len());
            let now = self.clock.now();
            let taken = match read {
                Ok(0) => self.take_end(client),
                Ok(count) => self.take_in(client, count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => Err(error),
            };
            match taken {
                Ok(Taken { answered, wants_copy, closes }) => {
                    if closes {
                        self.shared.connected.fetch_sub(1, Ordering::Relaxed);
                        client.link = None;
                    }
                    if wants_copy {
                        self.give_copy(client);
                    }
                    if answered {
                        self.answered(client, now);
                    }
                }
                Err(error) => return self.lose(client, &error, now),
            }
            if !more {
                return;
            }
        }
    }

    /// Takes in the first `count` bytes of the input.
    fn take_in(&mut self, client: &mut Client, count: usize) -> io::Result<Taken> {
        match client.link.as_ref().map(|link| &link.reading) {
            None => Ok(Taken::default()),
            Some(Reading::Postgres(_)) => {
                self.take_messages(client, count).map_err(io::Error::other)
            }
            Some(Reading::Http(_)) => self.take_answer(client, count).map_err(io::Error::other),
        }
    }

    /// The same of messages of PostgreSQL.
    fn take_messages(&mut self, client: &mut Client, count: usize) -> Result<Taken, WireError> {
        let mut taken = Taken::default();
        let Some(Reading::Postgres(scanner)) = client.link.as_mut().map(|link| &mut link.reading)
        else {
            return Ok(taken);
        };
        let mut input = &self.input[..count];
        let wanted = if client.capture.is_some() { CAPTURING } else { ALWAYS };
        while let Some(frame) = scanner.next(&mut input, wanted)? {
            match (frame.tag, frame.body) {
                (backend::READY_FOR_QUERY, Some(body)) => {
                    client.status = TransactionStatus::parse(body)?;
                    client.owed = client.owed.checked_sub(1).ok_or_else(unasked)?;
                    taken.answered = client.owed == 0;
                }
                (backend::ERROR_RESPONSE, Some(body)) => {
                    let fields = ErrorFields::parse(body)?;
                    let place = match client.owed {
                        0 => &mut client.farewell,
                        _ => &mut client.failure,
                    };
                    place.get_or_insert_with(|| Failure {
                        message: fields.to_string(),
                        kind: fields.code,
                    });
                }
                (backend::NOTICE_RESPONSE, Some(body)) => {
                    if let Ok(fields) = ErrorFields::parse(body)
                        && fields.code.starts_with(LEAVES)
                    {
                        client.farewell =
                            Some(Failure { message: fields.to_string(), kind: fields.code });
                    }
                }
                (backend::PARSE_COMPLETE, _) => {
                    if let Some(statement) = client.parsing.pop() {
                        client.prepared[statement] = true;
                    }
                }
                (backend::COPY_IN_RESPONSE, _) => taken.wants_copy = true,
                (tag, body) => {
                    let Some(capture) = &mut client.capture else { continue };
                    match (tag, body) {
                        (backend::ROW_DESCRIPTION, Some(body)) => {
                            let program = &self.job.plan.program;
                            capture.describe(body, program, &mut self.columns)?;
                        }
                        (backend::DATA_ROW, Some(body)) => capture.row(body)?,
                        (backend::COMMAND_COMPLETE, _) => capture.complete(),
                        _ => {}
                    }
                }
            }
        }
        Ok(taken)
    }

    /// The server wants data to copy. A statement that has none is to fail, not to wait.
    fn give_copy(&mut self, client: &mut Client) {
        let out = self.send_queue.open();
        match client.to_copy.take() {
            // They were sent with the statement.
            Some(data) if data.is_empty() => return,
            Some(data) => copy(&data, out),
            None => out.extend_from_slice(&NOTHING_TO_COPY),
        }
        if self.job.plan.protocol != Protocol::Simple {
            // The server has ignored the Sync that came while it expected data.
            self.send_queue.open().extend_from_slice(&SYNC);
        }
        self.send(client, Waiting::Executing);
    }

    /// All that was asked is answered.
    fn answered(&mut self, client: &mut Client, now: Moment) {
        let State::Waiting(waiting) = client.state else { return };
        let next = match (waiting, client.failure.take()) {
            (Waiting::RollingBack, failure) => {
                let failure = failure.unwrap_or_else(|| script_failure("rolled back"));
                if client.status != TransactionStatus::Idle {
                    let error = io::Error::other("a transaction could not be rolled back");
                    return self.lose(client, &error, now);
                }
                self.fail(client, &failure, now)
            }
            (_, Some(failure)) => self.give_up(client, failure, now),
            (Waiting::Preparing, None) => Next::Go,
            (Waiting::Executing, None) => self.executed(client, now),
        };
        if next == Next::Go {
            self.drive(client, now);
        }
    }

    /// The coalescer has answered the row that a client gave it.
    pub(crate) fn written(&mut self, client: &mut Client, number: u64, failure: Option<Failure>) {
        if client.written == number && client.is_busy() {
            client.failure = failure;
            let now = self.clock.now();
            self.answered(client, now);
        }
    }

    /// Statements were executed without an error.
    fn executed(&mut self, client: &mut Client, now: Moment) -> Next {
        if client.burst.parts == 1 {
            self.cut_intervals(now);
            let (script, statement) = (client.transaction.script, client.burst.last);
            let histogram = Histogram::Statement(script as u16, statement as u16);
            self.counts.record(histogram, now.nanos_since(client.burst.sent));
        }
        let sent = self.job.wire.get(client.transaction.script);
        if sent
            .and_then(|of| of.get(client.burst.last))
            .is_some_and(|sent| sent.effect == Effect::Forgets)
        {
            client.prepared.fill(false);
        }
        if let Some(capture) = client.capture.take()
            && let Err(rows) = capture.apply(&mut client.variables)
        {
            let job = Rc::clone(&self.job);
            let script = &job.program().scripts[client.transaction.script];
            let line = script.statements.get(client.burst.last).map_or(0, |s| s.line);
            let message = format!("{}:{line}: \\gset expected one row, got {rows}", script.name);
            return self.give_up(client, script_failure(&message), now);
        }
        Next::Go
    }

    /// The connection is gone, or of no more use.
    pub(crate) fn lose(&mut self, client: &mut Client, error: &io::Error, now: Moment) {
        self.read_last_words(client);
        let Some(_) = client.link else { return };
        self.cut_intervals(now);
        self.totals.connections_lost += 1;
        self.shared.connected.fetch_sub(1, Ordering::Relaxed);
        if client.started {
            self.running -= 1;
        }
        let told = client.failure.take().or(client.farewell.take());
        let failure = told.unwrap_or_else(|| Failure {
            kind: CONNECTION.into(),
            message: match error.kind() {
                io::ErrorKind::UnexpectedEof => "the server closed the connection".into(),
                _ => format!("the connection broke: {error}"),
            },
        });
        self.errors.keep(&failure.kind, || failure.message.clone());
        if client.is_busy() {
            let script = &mut self.counts.scripts[client.transaction.script];
            add(&mut script.failures, &failure.kind, 1);
            script.retried += u64::from(client.transaction.tries > 1);
            self.straddled(client, Some(&failure.kind), now);
        }
        client.unlink();
        client.state = State::Offline;
        if self.stopping || self.has_done_all(client) || self.is_last(&failure) {
            self.finish(client);
        } else {
            self.plan_reconnect(client, now);
        }
    }

    /// A server that ends a connection says why, if one still listens.
    fn read_last_words(&mut self, client: &mut Client) {
        while client.failure.is_none() && client.farewell.is_none() {
            let Some(link) = &mut client.link else { return };
            match link.stream.read(&mut self.input) {
                Ok(count) if count > 0 => {
                    if self.take_in(client, count).is_err() {
                        return;
                    }
                }
                _ => return,
            }
        }
    }
}

#[cold]
fn unasked() -> WireError {
    WireError::Unexpected { tag: backend::READY_FOR_QUERY, during: "nothing was asked" }
}

fn script_failure(message: &str) -> Failure {
    Failure { kind: SCRIPT.into(), message: message.into() }
}
