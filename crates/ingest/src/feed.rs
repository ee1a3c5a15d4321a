//! One input into a table: read by a thread, written by a coalescer, answered row by row.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use walwright_coalesce::{Coalescer, TextRow, WriteError};
use walwright_server::Stop;

use crate::answers::{Answer, Answers, Asked, Failure};
use crate::destination::{Destination, NoHandle};
use crate::error::IngestError;
use crate::format::Format;
use crate::input::Input;
use crate::reader::{Item, Read, Reader};
use crate::rejects::{Reason, Rejects};
use crate::summary::Counts;
use crate::table::Mapped;

/// How an input is read.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Its format.
    pub format: Format,
    /// Longest record, in bytes.
    pub longest: usize,
    /// Rows that are read ahead of their answers; some batches for each connection.
    pub ahead: usize,
    /// Whether a later run goes on where this one ends: what was not written for another reason
    /// than its own is then no reject.
    pub resumes: bool,
    /// How long rows that were read may take to be written once a stop is asked for.
    pub farewell: Duration,
}

/// Chunks that wait between the reader and the coalescer.
const WAITING: usize = 4;

/// Reads an input to its end, or to a stop, waits until each of its rows is answered, and closes
/// the destination.
///
/// # Errors
/// Where it cannot be read, or rows are not written for another reason than their own.
pub async fn feed(
    input: Input,
    reading: Reading,
    destination: Destination,
    rejects: Option<&Arc<Rejects>>,
    counts: &Arc<Counts>,
    stop: &Stop,
) -> Result<(), IngestError> {
    let name: Arc<str> = input.name.as_str().into();
    let failure = Arc::new(Failure::default());
    let ended = Stop::new();
    let (send, read) = mpsc::channel(WAITING);
    let reader = Reader {
        input,
        reading,
        table: Arc::clone(&destination.table),
        header: None,
        done: destination.coalescer().positions_done().to_vec(),
        keeps_raw: rejects.is_some(),
        covered: 0,
        counts: Arc::clone(counts),
        send,
    };
    begin(reader, [stop, &failure.told, &ended].map(Stop::clone))?;

    let (ask, asked) = mpsc::channel(reading.ahead);
    let answers = Answers {
        input: Arc::clone(&name),
        rejects: rejects.cloned(),
        resumes: reading.resumes,
        coalescer: destination.coalescer().clone(),
        counts: Arc::clone(counts),
        failure: Arc::clone(&failure),
    };
    let answering = tokio::spawn(answers.collect(asked));
    let carry = async {
        carry(read, &name, &destination, rejects, &failure, ask).await;
        destination.coalescer().flush();
        _ = answering.await;
    };
    let mut carry = std::pin::pin!(carry);
    let give_up = async {
        let late = async {
            stop.requested().await;
            tokio::time::sleep(reading.farewell).await;
        };
        tokio::select! {
            () = failure.told.requested() => {}
            () = late => {}
        }
        destination.coalescer().clone().close(Duration::ZERO).await;
    };
    tokio::select! {
        () = &mut carry => {}
        () = give_up => carry.await,
    }
    ended.request();
    // All rows are answered; what is left is to end the sessions.
    destination.coalescer().clone().close(reading.farewell).await;
    failure.take().map_or(Ok(()), Err)
}

/// Begins to read. It may wait for standard input for ever, where nobody waits for it.
fn begin(reader: Reader, ends: [Stop; 3]) -> Result<(), IngestError> {
    let name = reader.input.name.clone();
    let (wake, waker) = rustix::pipe::pipe()
        .map_err(|errno| IngestError::File { path: "a pipe".into(), error: errno.into() })?;
    std::thread::Builder::new()
        .name("reader".to_owned())
        .spawn(move || reader.run(&wake))
        .map_err(|error| IngestError::Write(format!("no thread to read {name}: {error}")))?;
    tokio::spawn(async move {
        let [stop, failed, ended] = &ends;
        tokio::select! {
            () = stop.requested() => {}
            () = failed.requested() => {}
            () = ended.requested() => {}
        }
        drop(waker);
    });
    Ok(())
}

/// Puts all that is read among the rows that wait, and each row among those whose answer is heard.
async fn carry(
    mut read: mpsc::Receiver<Read>,
    name: &str,
    destination: &Destination,
    rejects: Option<&Arc<Rejects>>,
    failure: &Failure,
    ask: mpsc::Sender<Asked>,
) {
    while let Some(read) = read.recv().await {
        match read {
            Read::Header(header) => {
                if let Some(rejects) = rejects
                    && let Err(error) = rejects.set_header(name, &header)
                {
                    return failure.set(error);
                }
            }
            Read::Failed(error) => return failure.set(error),
            Read::Items(items) => {
                for Item { line, covers, raw, row, ends } in items {
                    let since = Instant::now();
                    let answer = match row {
                        Ok(row) => put(row, covers.clone(), destination).await,
                        Err(reason) => Answer::Rejected(reason),
                    };
                    // The collector ends only behind this sender.
                    _ = ask.send(Asked { line, covers, raw, ends, since, answer }).await;
                }
            }
        }
    }
}

/// Puts a row among those that wait.
async fn put(
    (columns, fields): Mapped,
    covers: std::ops::Range<u64>,
    destination: &Destination,
) -> Answer {
    let rejected = |why| Answer::Rejected(Reason::from(why));
    match destination.handle_patiently(&columns).await {
        Ok(handle) => match handle.enqueue_at(TextRow(fields), covers).await {
            Ok(ticket) => Answer::Awaited(ticket),
            Err(WriteError::Row(why)) => rejected(why),
            Err(error) => Answer::Refused(error),
        },
        Err(NoHandle::Row(why)) => rejected(why),
        Err(NoHandle::Server(why)) => Answer::Refused(WriteError::Failed(why)),
    }
}

impl Destination {
    /// A handle, for which a server that is away is waited for as batches wait for it.
    async fn handle_patiently(&self, columns: &[u16]) -> Result<Coalescer<TextRow>, NoHandle> {
        const PAUSE: Duration = Duration::from_millis(200);
        let began = Instant::now();
        loop {
            match self.handle(columns).await {
                Err(NoHandle::Server(_)) if began.elapsed() < self.patience => {
                    tokio::time::sleep(PAUSE).await;
                }
                done => return done,
            }
        }
    }
}
