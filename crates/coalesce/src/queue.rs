//! Rows that wait for a connection, and when they go.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};

use crate::batch::{Answer, Batch};
use crate::options::Flush;
use crate::table::Table;

/// Why a batch went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// No batch was on its way.
    Idle,
    /// It had [`Flush::rows`].
    Rows,
    /// It had [`Flush::bytes`].
    Bytes,
    /// Its oldest row had waited for [`Flush::age`].
    Age,
    /// [`flush`](crate::Coalescer::flush) or [`close`](crate::Coalescer::close) asked for it.
    Asked,
}

/// A queue that one connection or several take batches from.
#[derive(Debug)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

/// What waits, and the rule of when it goes; knows no clock and no connection.
#[derive(Debug)]
struct Waiting {
    flush: Flush,
    /// In the order in which they came; only the last takes further rows.
    batches: VecDeque<Batch>,
    on_their_way: usize,
    /// Batches that were asked for, from the front.
    asked: usize,
    /// The writers who were answered last.
    answered: Option<Answered>,
    /// So many batches are not waited for: few came back for the last that was.
    unawaited: u8,
    closed: bool,
}

/// Writers who were answered, and may write again at once: the next batch waits a little for them,
/// or it would have those alone who came meanwhile, and every row waited for two commits.
#[derive(Clone, Copy, Debug)]
struct Answered {
    rows: usize,
    /// Until when they are waited for.
    until: Instant,
}

/// Batches that are not waited for after one for which few came.
const UNAWAITED: u8 = 16;

impl Waiting {
    fn new(flush: Flush) -> Self {
        Self {
            flush,
            batches: VecDeque::new(),
            on_their_way: 0,
            asked: 0,
            answered: None,
            unawaited: 0,
            closed: false,
        }
    }

    /// Whether the last batch takes no further row.
    fn is_full(&self, batch: &Batch) -> bool {
        batch.rows.len() >= self.flush.rows || batch.bytes() >= self.flush.bytes
    }

    fn last(&mut self) -> &mut Batch {
        if self.batches.back().is_none_or(|last| self.is_full(last)) {
            self.batches.push_back(Batch::default());
        }
        let last = self.batches.len() - 1;
        &mut self.batches[last]
    }

    /// Why the first batch should go now.
    fn due(&self, now: Instant) -> Option<Cause> {
        let first = self.batches.front()?;
        if first.rows.len() >= self.flush.rows {
            Some(Cause::Rows)
        } else if first.bytes() >= self.flush.bytes {
            Some(Cause::Bytes)
        } else if self.on_their_way == 0 && !self.awaits(first, now) {
            Some(Cause::Idle)
        } else if self.asked > 0 || self.closed {
            Some(Cause::Asked)
        } else {
            (self.due_at()? <= now).then_some(Cause::Age)
        }
    }

    /// Whether the first batch waits for those who were answered.
    fn awaits(&self, first: &Batch, now: Instant) -> bool {
        self.answered.is_some_and(|last| first.rows.len() < last.rows && now < last.until)
    }

    /// When the first batch goes, if nothing else comes.
    fn due_at(&self) -> Option<Instant> {
        let aged = self.batches.front()?.rows.first()?.since + self.flush.age;
        match self.answered {
            Some(last) if self.on_their_way == 0 => Some(aged.min(last.until)),
            _ => Some(aged),
        }
    }

    /// A batch of so many rows, which took so long, is answered.
    fn answered(&mut self, rows: usize, took: Duration, now: Instant) {
        self.on_their_way -= 1;
        self.unawaited = self.unawaited.saturating_sub(1);
        let awaited = rows > 1 && self.unawaited == 0;
        self.answered = awaited.then(|| Answered { rows, until: now + took / 4 });
    }

    fn take(&mut self, now: Instant) -> Option<(Batch, Cause)> {
        let cause = self.due(now)?;
        let batch = self.batches.pop_front()?;
        self.asked = self.asked.saturating_sub(1);
        if let Some(last) = self.answered.take()
            && now >= last.until
            && batch.rows.len() < last.rows
        {
            self.unawaited = UNAWAITED;
        }
        self.on_their_way += 1;
        Some((batch, cause))
    }
}

impl Queue {
    pub(crate) fn new(flush: Flush) -> Self {
        Self { waiting: Mutex::new(Waiting::new(flush)), changed: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a row; `false` where the queue is closed.
    pub(crate) fn push(
        &self,
        table: &Arc<Table>,
        fields: &[u8],
        position: Option<Range<u64>>,
        now: Instant,
        writer: oneshot::Sender<Answer>,
    ) -> bool {
        let mut waiting = self.lock();
        if waiting.closed {
            return false;
        }
        let last = waiting.last();
        last.push(Arc::clone(table), fields, position, now, writer);
        let rows = last.rows.len();
        let is_full = waiting.batches.back().is_some_and(|last| waiting.is_full(last));
        let are_back = waiting.answered.is_some_and(|last| last.rows == rows);
        drop(waiting);
        // A connection is told of what may change its mind: something to wait for, or to take. The
        // one that waited least, so that a lone writer always has the same.
        if rows == 1 || is_full || are_back {
            self.changed.notify_last();
        }
        true
    }

    /// The next batch, when it is due; none when the queue is closed and empty.
    pub(crate) async fn next(&self) -> Option<(Batch, Cause)> {
        loop {
            let wait = {
                let now = Instant::now();
                let mut waiting = self.lock();
                if let Some(taken) = waiting.take(now) {
                    // Another connection may find the next one due, or must learn its time.
                    if !waiting.batches.is_empty() {
                        self.changed.notify_one();
                    }
                    return Some(taken);
                }
                if waiting.closed && waiting.batches.is_empty() {
                    // The others learn it from each other.
                    self.changed.notify_one();
                    return None;
                }
                waiting.due_at().map(|at| at.saturating_duration_since(now))
            };
            match wait {
                Some(wait) => {
                    // Lateness of a millisecond is the timer's own.
                    _ = tokio::time::timeout(
                        wait.max(Duration::from_micros(1)),
                        self.changed.notified(),
                    )
                    .await;
                }
                None => self.changed.notified().await,
            }
        }
    }

    /// A batch of so many rows that was taken, and took so long, is answered.
    pub(crate) fn done(&self, rows: usize, took: Duration) {
        let mut waiting = self.lock();
        waiting.answered(rows, took, Instant::now());
        let more = !waiting.batches.is_empty();
        drop(waiting);
        if more {
            self.changed.notify_one();
        }
    }

    /// What waits now goes as soon as a connection is free.
    pub(crate) fn flush(&self) {
        let mut waiting = self.lock();
        waiting.asked = waiting.batches.len();
        drop(waiting);
        self.changed.notify_one();
    }

    /// Takes no further rows; what waits goes.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_one();
    }

    /// What waits, for good.
    pub(crate) fn give_up(&self) -> Vec<Batch> {
        let mut waiting = self.lock();
        waiting.closed = true;
        let batches = waiting.batches.drain(..).collect();
        drop(waiting);
        self.changed.notify_one();
        batches
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::row::Format;

    const FLUSH: Flush = Flush { rows: 4, bytes: 100, age: Duration::from_millis(5) };

    fn waiting() -> Waiting {
        Waiting::new(FLUSH)
    }

    fn push(waiting: &mut Waiting, table: &Arc<Table>, bytes: usize, now: Instant) {
        let writer = oneshot::channel().0;
        waiting.last().push(Arc::clone(table), &vec![0; bytes], None, now, writer);
    }

    #[test]
    fn a_row_goes_at_once_only_while_nothing_is_on_its_way() {
        let (now, table) = (Instant::now(), Arc::new(Table::unknown(Format::Text)));
        let mut waiting = waiting();
        push(&mut waiting, &table, 1, now);
        assert_eq!(waiting.take(now).map(|taken| taken.1), Some(Cause::Idle));
        push(&mut waiting, &table, 1, now);
        assert!(waiting.take(now).is_none());
        assert_eq!(waiting.due_at(), Some(now + FLUSH.age));
        assert_eq!(waiting.due(now + FLUSH.age), Some(Cause::Age));
        waiting.on_their_way = 0;
        assert_eq!(waiting.due(now), Some(Cause::Idle));
    }

    #[test]
    fn a_full_batch_goes_although_others_are_on_their_way() {
        let (now, table) = (Instant::now(), Arc::new(Table::unknown(Format::Text)));
        let mut waiting = waiting();
        waiting.on_their_way = 1;
        for _ in 0..5 {
            push(&mut waiting, &table, 1, now);
        }
        assert_eq!(
            waiting.take(now).map(|(batch, cause)| (batch.rows.len(), cause)),
            Some((4, Cause::Rows))
        );
        push(&mut waiting, &table, 120, now);
        assert_eq!(
            waiting.take(now).map(|(batch, cause)| (batch.rows.len(), cause)),
            Some((2, Cause::Bytes))
        );
        push(&mut waiting, &table, 1, now);
        assert!(waiting.take(now).is_none());
        waiting.asked = waiting.batches.len();
        assert_eq!(waiting.take(now).map(|taken| taken.1), Some(Cause::Asked));
    }

    #[test]
    fn a_batch_waits_for_those_who_were_answered_as_long_as_they_come() {
        let (now, table) = (Instant::now(), Arc::new(Table::unknown(Format::Text)));
        let (took, mut waiting) = (Duration::from_millis(4), waiting());
        waiting.on_their_way = 1;
        push(&mut waiting, &table, 1, now);
        waiting.answered(2, took, now);
        assert!(waiting.take(now).is_none());
        assert_eq!(waiting.due_at(), Some(now + took / 4));
        push(&mut waiting, &table, 1, now);
        assert_eq!(waiting.take(now).map(|taken| taken.0.rows.len()), Some(2));
        // They do not come: the next batches do not wait.
        waiting.answered(2, took, now);
        push(&mut waiting, &table, 1, now);
        assert!(waiting.take(now).is_none());
        assert_eq!(waiting.take(now + took / 4).map(|taken| taken.1), Some(Cause::Idle));
        waiting.answered(2, took, now);
        push(&mut waiting, &table, 1, now);
        assert_eq!(waiting.take(now).map(|taken| taken.1), Some(Cause::Idle));
        // Who is alone waits for nobody.
        waiting.unawaited = 0;
        waiting.answered(1, took, now);
        push(&mut waiting, &table, 1, now);
        assert_eq!(waiting.take(now).map(|taken| taken.1), Some(Cause::Idle));
    }

    proptest! {
        /// Whatever comes and goes: no row is lost or overtakes another, no batch is too large, and
        /// while nothing is on its way nothing waits.
        #[test]
        fn rows_leave_in_the_order_in_which_they_came(steps in prop::collection::vec(0..4_u8, 1..200)) {
            let (start, table) = (Instant::now(), Arc::new(Table::unknown(Format::Text)));
            let mut waiting = waiting();
            let (mut now, mut came, mut left) = (start, 0_usize, 0_usize);
            for step in steps {
                match step {
                    0 | 1 => {
                        // A row's number is its length, so that its order can be told.
                        push(&mut waiting, &table, came % 50, now);
                        came += 1;
                    }
                    2 => now += Duration::from_millis(3),
                    _ => waiting.on_their_way = waiting.on_their_way.saturating_sub(1),
                }
                while let Some((batch, _)) = waiting.take(now) {
                    prop_assert!(batch.rows.len() <= FLUSH.rows);
                    for row in &batch.rows {
                        prop_assert_eq!(row.fields.len(), left % 50);
                        left += 1;
                    }
                }
                prop_assert!(waiting.on_their_way > 0 || left == came);
            }
        }
    }
}
