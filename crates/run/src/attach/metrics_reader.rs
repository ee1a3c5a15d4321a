//! Reads the metrics of a program that has a part in the load, once a second.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use walwright_http::PageAddress;
use walwright_record::{Row, Sample, Source, Timestamp};

use crate::notes::Notes;

/// Time between two readings.
const EVERY: Duration = Duration::from_secs(1);
/// How long each step of one may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// Reading under way.
pub(super) struct MetricsReader {
    task: JoinHandle<()>,
    read: Arc<AtomicU64>,
}

impl MetricsReader {
    /// Begins to read the page at the address that `find` gives, which may not be known at once and
    /// may block to look; what `row` makes of the page is a sample of `source`.
    pub fn begin(
        mut find: impl FnMut() -> Option<PageAddress> + Send + 'static,
        source: Source,
        row: impl Fn(&str) -> Option<Row> + Send + 'static,
        notes: &Notes,
    ) -> MetricsReader {
        let read = Arc::<AtomicU64>::default();
        let (counted, notes) = (Arc::clone(&read), notes.clone());
        let task = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(EVERY);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
            loop {
                ticks.tick().await;
                let looked = tokio::task::spawn_blocking(move || {
                    let page = find().and_then(|address| address.read(PATIENCE).ok());
                    (find, page)
                });
                let Ok((again, page)) = looked.await else { return };
                find = again;
                if let Some(row) = page.and_then(|page| row(&page)) {
                    notes.recorder.sample(Sample { at: Timestamp::now(), source, rows: vec![row] });
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        MetricsReader { task, read }
    }

    /// Ends it. How many readings there were.
    pub async fn end(self) -> u64 {
        self.task.abort();
        // It holds on to the record until it is gone.
        let _ = self.task.await;
        self.read.load(Ordering::Relaxed)
    }
}
