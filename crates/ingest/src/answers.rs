//! What became of the rows of an input, in their order.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::mpsc;
use walwright_coalesce::{Coalescer, TextRow, Ticket, WriteError};
use walwright_server::Stop;

use crate::error::IngestError;
use crate::rejects::{Reason, Reject, Rejects};
use crate::summary::Counts;

/// Most rows whose rejects are flushed together.
const GROUP: usize = 4_096;
/// Most rows that may be rejected and kept nowhere, of an input that a later run goes on with:
/// it would have to read each again.
const MOST_LOST: u64 = 1_000;

/// A row that is on its way, or is not to go.
pub(crate) struct Asked {
    pub(crate) line: u64,
    pub(crate) covers: Range<u64>,
    pub(crate) raw: Vec<u8>,
    pub(crate) ends: bool,
    pub(crate) since: Instant,
    pub(crate) answer: Answer,
}

/// Where a row's answer comes from.
pub(crate) enum Answer {
    Awaited(Ticket),
    /// It cannot be written as it is.
    Rejected(Reason),
    /// It is not taken.
    Refused(WriteError),
}

/// Hears what became of each row.
pub(crate) struct Answers {
    pub(crate) input: Arc<str>,
    pub(crate) rejects: Option<Arc<Rejects>>,
    /// Whether a later run goes on where this one ends.
    pub(crate) resumes: bool,
    pub(crate) coalescer: Coalescer<TextRow>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) failure: Arc<Failure>,
}

/// The first reason to end an input's reading.
#[derive(Default)]
pub(crate) struct Failure {
    error: Mutex<Option<IngestError>>,
    pub(crate) told: Stop,
}

impl Failure {
    pub(crate) fn set(&self, error: IngestError) {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        self.told.request();
    }

    pub(crate) fn take(&self) -> Option<IngestError> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What becomes of a row that is not written.
enum NotWritten {
    /// It is rejected; `kept` says that it is among the dead letters.
    Rejected { reason: Reason, kept: bool },
    /// Something else than the row is wrong.
    Failed(WriteError),
}

impl Answers {
    pub(crate) async fn collect(self, mut asked: mpsc::Receiver<Asked>) {
        let mut group = Vec::with_capacity(GROUP);
        let mut lost = 0;
        while asked.recv_many(&mut group, GROUP).await > 0 {
            let mut kept = Vec::new();
            for Asked { line, covers, raw, ends, since, answer } in group.drain(..) {
                let Some(not_written) = self.hear(answer, since, ends).await else { continue };
                let (reason, keep) = match not_written {
                    NotWritten::Rejected { reason, kept } => {
                        if self.resumes && self.rejects.is_none() && !kept {
                            lost += 1;
                        }
                        (reason, true)
                    }
                    // A later run reads it again.
                    NotWritten::Failed(error) => {
                        let what = format!("line {line} of {}: {error}", self.input);
                        self.failure.set(IngestError::Write(what));
                        (Reason::from(error.to_string()), !self.resumes)
                    }
                };
                if ends {
                    self.counts.tell(&self.input, line, &reason.message);
                }
                if keep && self.rejects.is_some() {
                    kept.push((Reject { line, raw, ends, reason }, covers));
                }
            }
            self.keep(kept).await;
            if lost >= MOST_LOST {
                self.failure.set(IngestError::TooManyLost(MOST_LOST));
            }
        }
    }

    /// What became of a row; none where it is written.
    async fn hear(&self, answer: Answer, since: Instant, ends: bool) -> Option<NotWritten> {
        let counts = &self.counts;
        let error = match answer {
            Answer::Rejected(reason) => {
                if ends {
                    Counts::add(&counts.rejected);
                }
                return Some(NotWritten::Rejected { reason, kept: false });
            }
            Answer::Refused(error) => {
                Counts::add(&counts.failed);
                return Some(NotWritten::Failed(error));
            }
            Answer::Awaited(ticket) => match ticket.await {
                Ok(()) => {
                    counts.answered(&counts.written, since.elapsed());
                    return None;
                }
                Err(error) => error,
            },
        };
        let (count, not_written) = match error {
            WriteError::Refused(refusal) if !is_of_all(&refusal.sqlstate) => {
                let kept = refusal.dead_letter;
                let reason = Reason {
                    message: refusal.message,
                    sqlstate: Some(refusal.sqlstate),
                    constraint: refusal.constraint,
                };
                (&counts.rejected, NotWritten::Rejected { reason, kept })
            }
            error @ WriteError::Unknown(_) => (&counts.unknown, NotWritten::Failed(error)),
            error => (&counts.failed, NotWritten::Failed(error)),
        };
        counts.answered(count, since.elapsed());
        Some(not_written)
    }

    /// Keeps rejects, after which what they were made of need not be read again.
    async fn keep(&self, kept: Vec<(Reject, Range<u64>)>) {
        let Some(rejects) = self.rejects.clone().filter(|_| !kept.is_empty()) else { return };
        let (rows, positions): (Vec<Reject>, Vec<Range<u64>>) = kept.into_iter().unzip();
        let input = Arc::clone(&self.input);
        match tokio::task::spawn_blocking(move || rejects.add(&input, &rows)).await {
            Ok(Ok(())) => positions.iter().for_each(|at| self.coalescer.mark_done(at)),
            Ok(Err(error)) => self.failure.set(error),
            Err(error) => self.failure.set(IngestError::Write(error.to_string())),
        }
    }
}

/// Whether a refusal is of the statement, and so of every row: no privilege, no such table.
fn is_of_all(sqlstate: &str) -> bool {
    ["42", "0A", "25", "28", "3D", "3F"].iter().any(|class| sqlstate.starts_with(class))
}
