//! One input into a table: read by a thread, written by a coalescer, answered row by row.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use walwright_coalesce::{Ticket, WriteError};
use walwright_server::Stop;

use crate::csv;
use crate::destination::{Destination, NoHandle};
use crate::error::IngestError;
use crate::format::Format;
use crate::input::Input;
use crate::records::{Fault, Record, Records};
use crate::rejects::{Reason, Rejects};
use crate::summary::Counts;
use crate::table::{Header, Mapped, Table};
use crate::text;

/// How an input is read.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Its format.
    pub format: Format,
    /// Longest record, in bytes.
    pub longest: usize,
    /// Whether a later run goes on where this one ends: what was not written for another reason
    /// than its own is then no reject.
    pub resumes: bool,
}

/// Bytes asked of an input at once.
const CHUNK: usize = 256 * 1024;
/// Most rows that go from the reader's thread at once, so that the first are on their way while
/// the next are read.
const ROWS: usize = 512;
/// Chunks that wait between the reader and the coalescer.
const WAITING: usize = 4;

/// A row as the reader made it.
struct Item {
    line: u64,
    /// What of the input is done with this row: all since the one before that was read.
    covers: Range<u64>,
    /// As it came, where it may be wanted again.
    raw: Vec<u8>,
    row: Result<Mapped, Reason>,
    /// Whether this is the last piece of its record.
    ends: bool,
}

/// What the reader hands over.
enum Read {
    Header(Vec<u8>),
    Items(Vec<Item>),
    Failed(IngestError),
}

/// Reads an input to its end, or to a stop, and waits until each of its rows is answered.
///
/// # Errors
/// Where it cannot be read, or rows are not written for another reason than their own.
pub async fn feed(
    input: Input,
    reading: Reading,
    destination: &Destination,
    rejects: Option<&Arc<Rejects>>,
    counts: &Arc<Counts>,
    stop: &Stop,
) -> Result<(), IngestError> {
    let name = input.name.clone();
    let (wake, waker) = rustix::pipe::pipe()
        .map_err(|errno| IngestError::File { path: "a pipe".into(), error: errno.into() })?;
    let (send, mut read) = mpsc::channel(WAITING);
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
    // It may wait for standard input for ever, where nobody waits for it.
    std::thread::Builder::new()
        .name("reader".to_owned())
        .spawn(move || reader.run(&wake))
        .map_err(|error| IngestError::Write(format!("no thread to read {name}: {error}")))?;
    let ended = Stop::new();
    let waking = tokio::spawn({
        let (stop, ended) = (stop.clone(), ended.clone());
        async move {
            tokio::select! {
                () = stop.requested() => {}
                () = ended.requested() => {}
            }
            drop(waker);
        }
    });

    let (ask, asked) = mpsc::unbounded_channel();
    let answers = Answers {
        input: name.clone(),
        rejects: rejects.cloned(),
        resumes: reading.resumes,
        counts: Arc::clone(counts),
        failure: Arc::default(),
        ended: ended.clone(),
    };
    let failure = Arc::clone(&answers.failure);
    let answering = tokio::spawn(answers.collect(asked));
    let mut done = Ok(());
    while let Some(read) = read.recv().await {
        let taken = match read {
            Read::Header(header) => match rejects {
                Some(rejects) => rejects.set_header(&name, &header),
                None => Ok(()),
            },
            Read::Failed(error) => Err(error),
            Read::Items(items) => put(items, &name, destination, rejects, counts, &ask).await,
        };
        if taken.is_err() || is_set(&failure) {
            done = taken;
            break;
        }
    }
    drop(read);
    drop(ask);
    destination.coalescer().flush();
    _ = answering.await;
    ended.request();
    _ = waking.await;
    done?;
    let failure = failure.lock().unwrap_or_else(PoisonError::into_inner).take();
    failure.map_or(Ok(()), Err)
}

fn is_set(failure: &Mutex<Option<IngestError>>) -> bool {
    failure.lock().unwrap_or_else(PoisonError::into_inner).is_some()
}

/// A row that is on its way.
struct Asked {
    line: u64,
    raw: Vec<u8>,
    since: Instant,
    ticket: Ticket,
}

/// Puts rows among those that wait.
async fn put(
    items: Vec<Item>,
    name: &str,
    destination: &Destination,
    rejects: Option<&Arc<Rejects>>,
    counts: &Counts,
    ask: &mpsc::UnboundedSender<Asked>,
) -> Result<(), IngestError> {
    // Those that cannot be written are kept before what covers them in the input is marked done.
    let wrong = items.iter().filter_map(|item| Some((item, item.row.as_ref().err()?)));
    let wrong: Vec<_> =
        wrong.map(|(item, why)| (item.line, item.raw.as_slice(), item.ends, why)).collect();
    if !wrong.is_empty() {
        wrong.iter().filter(|(_, _, ends, _)| *ends).for_each(|(line, _, _, why)| {
            counts.rejected.fetch_add(1, Ordering::Relaxed);
            counts.tell(name, *line, &why.message);
        });
        if let Some(rejects) = rejects {
            rejects.add(name, wrong.into_iter())?;
        }
    }
    for Item { line, covers, raw, row, .. } in items {
        let Ok((columns, fields)) = row else { continue };
        let since = Instant::now();
        let refused = match destination.handle_patiently(&columns).await {
            Ok(handle) => {
                match handle.enqueue_at(walwright_coalesce::TextRow(fields), covers).await {
                    Ok(ticket) => {
                        // The collector ends only behind this sender.
                        _ = ask.send(Asked { line, raw, since, ticket });
                        continue;
                    }
                    Err(WriteError::Row(why)) => why,
                    Err(error) => return Err(IngestError::Write(error.to_string())),
                }
            }
            Err(NoHandle::Row(why)) => why,
            Err(NoHandle::Server(why)) => return Err(IngestError::Write(why)),
        };
        counts.rejected.fetch_add(1, Ordering::Relaxed);
        counts.tell(name, line, &refused);
        if let Some(rejects) = rejects {
            rejects.add(name, std::iter::once((line, &raw[..], true, &Reason::from(refused))))?;
        }
    }
    Ok(())
}

/// Hears what became of each row.
struct Answers {
    input: String,
    rejects: Option<Arc<Rejects>>,
    resumes: bool,
    counts: Arc<Counts>,
    failure: Arc<Mutex<Option<IngestError>>>,
    ended: Stop,
}

impl Answers {
    async fn collect(self, mut asked: mpsc::UnboundedReceiver<Asked>) {
        while let Some(Asked { line, raw, since, ticket }) = asked.recv().await {
            let answer = ticket.await;
            let outcome = match &answer {
                Ok(()) => &self.counts.written,
                Err(WriteError::Refused(refusal)) if !is_of_all(&refusal.sqlstate) => {
                    &self.counts.rejected
                }
                Err(WriteError::Row(_)) => &self.counts.rejected,
                Err(WriteError::Unknown(_)) => &self.counts.unknown,
                Err(_) => &self.counts.failed,
            };
            self.counts.answered(outcome, since.elapsed());
            let Err(error) = answer else { continue };
            let is_rejected = std::ptr::eq(outcome, &self.counts.rejected);
            let reason = match &error {
                WriteError::Refused(refusal) => Reason {
                    message: refusal.message.clone(),
                    sqlstate: Some(refusal.sqlstate.clone()),
                    constraint: refusal.constraint.clone(),
                },
                error => Reason::from(error.to_string()),
            };
            self.counts.tell(&self.input, line, &reason.message);
            let kept = match &self.rejects {
                Some(rejects) if is_rejected || !self.resumes => {
                    rejects.add(&self.input, std::iter::once((line, &raw[..], true, &reason)))
                }
                _ => Ok(()),
            };
            if let Err(error) = kept {
                self.fail(error);
            }
            if !is_rejected {
                self.fail(IngestError::Write(format!("line {line} of {}: {error}", self.input)));
            }
        }
    }

    /// Ends the reading; the first failure is told.
    fn fail(&self, error: IngestError) {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.ended.request();
    }
}

/// Whether a refusal is of the statement, and so of every row: no privilege, no such table.
fn is_of_all(sqlstate: &str) -> bool {
    ["42", "0A", "25", "28", "3D", "3F"].iter().any(|class| sqlstate.starts_with(class))
}

impl Destination {
    /// A handle, for which a server that is away is waited for as batches wait for it.
    async fn handle_patiently(
        &self,
        columns: &[u16],
    ) -> Result<walwright_coalesce::Coalescer<walwright_coalesce::TextRow>, NoHandle> {
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

/// Reads an input in a thread of its own.
struct Reader {
    input: Input,
    reading: Reading,
    table: Arc<Table>,
    /// Of a format whose records do not name their fields.
    header: Option<Header>,
    /// What an earlier run has written.
    done: Vec<Range<u64>>,
    keeps_raw: bool,
    /// Up to where the input is covered by rows.
    covered: u64,
    counts: Arc<Counts>,
    send: mpsc::Sender<Read>,
}

impl Reader {
    fn run(mut self, wake: &OwnedFd) {
        if let Err(error) = self.read(wake) {
            // Who does not listen any more has an error of their own.
            _ = self.send.blocking_send(Read::Failed(error));
        }
    }

    fn read(&mut self, wake: &OwnedFd) -> Result<(), IngestError> {
        if self.reading.format == Format::Text {
            let header = self.table.positional();
            self.header = Some(header.map_err(|reason| self.wrong_header(reason))?);
        }
        let mut records = Records::new(self.reading.format, self.reading.longest);
        let mut chunk = vec![0; CHUNK];
        loop {
            let count = self.input.read(&mut chunk, wake).map_err(|error| IngestError::File {
                path: self.input.name.clone().into(),
                error,
            })?;
            if count == 0 {
                records.end();
            }
            self.counts.bytes.fetch_add(count as u64, Ordering::Relaxed);
            records.push(&chunk[..count]);
            loop {
                let mut items = Vec::with_capacity(ROWS);
                while items.len() < ROWS
                    && let Some(record) = records.next_record()
                {
                    if self.ends_data(&record) {
                        return self.hand_over(items).map(|_| ());
                    }
                    if let Some(item) = self.item(&record)? {
                        items.push(item);
                    }
                }
                if items.is_empty() {
                    break;
                }
                if !self.hand_over(items)? {
                    return Ok(());
                }
            }
            if count == 0 {
                return Ok(());
            }
        }
    }

    /// `false` where nobody takes them any more.
    fn hand_over(&self, items: Vec<Item>) -> Result<bool, IngestError> {
        Ok(self.send.blocking_send(Read::Items(items)).is_ok())
    }

    /// Whether this is the mark that ends data in COPY's text format.
    fn ends_data(&self, record: &Record<'_>) -> bool {
        self.reading.format == Format::Text && record.bytes == b"\\."
    }

    fn wrong_header(&self, reason: String) -> IngestError {
        IngestError::Header { input: self.input.name.clone(), reason }
    }

    /// What a record is; none where it is no row, or an earlier run has written it.
    fn item(&mut self, record: &Record<'_>) -> Result<Option<Item>, IngestError> {
        const MARK: &[u8] = "\u{feff}".as_bytes();
        let mut bytes = record.bytes;
        if record.range.start == 0 && self.reading.format != Format::Text {
            bytes = bytes.strip_prefix(MARK).unwrap_or(bytes);
        }
        if self.reading.format == Format::Csv && self.header.is_none() {
            let header = match (record.fault, str::from_utf8(bytes)) {
                (None, Ok(text)) => {
                    let fields = csv::fields(text);
                    self.table.header(fields.iter().map(|field| &*field.text))
                }
                (Some(fault), _) => Err(self.told(fault)),
                (None, Err(_)) => Err("it is not UTF-8".to_owned()),
            };
            self.header = Some(header.map_err(|reason| self.wrong_header(reason))?);
            _ = self.send.blocking_send(Read::Header(bytes.to_vec()));
            return Ok(None);
        }
        let blank = bytes.trim_ascii().is_empty() && self.reading.format != Format::Text;
        if blank && record.fault.is_none() {
            return Ok(None);
        }
        let ends = record.fault != Some(Fault::TooLong { last: false });
        if self
            .done
            .iter()
            .any(|done| done.start <= record.range.start && record.range.end <= done.end)
        {
            self.counts.before.fetch_add(1, Ordering::Relaxed);
            self.covered = record.range.end;
            return Ok(None);
        }
        if ends {
            self.counts.rows.fetch_add(1, Ordering::Relaxed);
        }
        let row = match record.fault {
            Some(fault) => Err(self.told(fault)),
            None => row(&self.table, self.header.as_ref(), self.reading.format, bytes),
        };
        let covers = self.covered..record.range.end;
        if row.is_ok() {
            self.covered = record.range.end;
        }
        let raw = if self.keeps_raw { record.bytes.to_vec() } else { Vec::new() };
        Ok(Some(Item { line: record.line, covers, raw, row: row.map_err(Reason::from), ends }))
    }

    fn told(&self, fault: Fault) -> String {
        match fault {
            Fault::TooLong { .. } => {
                format!("it is longer than {} bytes", self.reading.longest)
            }
            Fault::OpenQuote => "a quote that begins in it is not closed".to_owned(),
        }
    }
}

/// A record as a row of a table.
pub(crate) fn row(
    table: &Table,
    header: Option<&Header>,
    format: Format,
    bytes: &[u8],
) -> Result<Mapped, String> {
    let text = str::from_utf8(bytes)
        .map_err(|error| format!("it is not UTF-8: byte {} of it", error.valid_up_to() + 1))?;
    let row = match (format, header) {
        (Format::Csv, Some(header)) => {
            let fields = csv::fields(text).into_iter();
            header.row(fields.map(|field| {
                (field.quoted || !field.text.is_empty()).then(|| field.text.into_owned())
            }))
        }
        (Format::Text, Some(header)) => header.row(text::fields(text)?.into_iter()),
        _ => table.of_document(text),
    }?;
    if row.1.iter().flatten().any(|field| field.contains('\0')) {
        return Err("it has a NUL, which no text of the server holds".to_owned());
    }
    Ok(row)
}
