//! How long an application's requests wait for a session of its pool, as its metrics tell.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use walwright_record::{Row, Sample, Source, Timestamp, Warning, WarningCode};

use crate::notes::Notes;
use crate::page_address::PageAddress;

/// Time between two readings.
const EVERY: Duration = Duration::from_secs(1);
/// How long one reading may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest page that is read.
const LONGEST: u64 = 4 << 20;

/// Where an application tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolWaitPlan {
    /// The address of its metrics, in the text format of Prometheus: `http://…`.
    pub metrics: String,
    /// The histogram or summary of waits in seconds, without `_sum` and `_count`.
    pub name: String,
}

/// Reading under way.
pub(crate) struct PoolWait {
    task: JoinHandle<()>,
    notes: Notes,
    read: Arc<AtomicU64>,
    plan: PoolWaitPlan,
}

impl PoolWait {
    /// Begins to read.
    pub fn begin(plan: &PoolWaitPlan, notes: &Notes) -> PoolWait {
        let read = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&read);
        let (of, to) = (plan.clone(), notes.clone());
        let task = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(EVERY);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
            loop {
                ticks.tick().await;
                let page = tokio::time::timeout(PATIENCE, page(&of.metrics)).await;
                let Ok(Some(page)) = page else { continue };
                if let Some(row) = row(&page, &of.name) {
                    let at = Timestamp::now();
                    to.recorder.sample(Sample { at, source: Source::Application, rows: vec![row] });
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        PoolWait { task, notes: notes.clone(), read, plan: plan.clone() }
    }

    /// Ends it; a page that never told the figure is warned of.
    pub async fn end(self) {
        self.task.abort();
        // It holds on to the record until it is gone.
        let _ = self.task.await;
        if self.read.load(Ordering::Relaxed) == 0 {
            let PoolWaitPlan { metrics, name } = &self.plan;
            let text = format!(
                "{metrics} tells no {name}_sum: how long requests wait for the pool is not known"
            );
            self.notes.warn(
                Warning::new(WarningCode::NotObservable, text)
                    .hint("pool_wait names a histogram or summary there, in seconds"),
            );
        }
    }
}

/// What is at an address; `None` where nobody answers with a page.
async fn page(address: &str) -> Option<String> {
    let address = PageAddress::of(address.strip_prefix("http://")?);
    let mut stream = TcpStream::connect(address.host_and_port()).await.ok()?;
    stream.write_all(address.request().as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    stream.take(LONGEST).read_to_end(&mut answer).await.ok()?;
    let answer = String::from_utf8(answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    head.split(' ').nth(1).filter(|status| *status == "200").map(|_| body.to_owned())
}

/// The sum and count of a histogram over all its labels; `None` where the page has no such sum.
fn row(page: &str, name: &str) -> Option<Row> {
    let sum_of = |suffix: &str| {
        let name = format!("{name}_{suffix}");
        let values = page.lines().filter_map(|line| {
            let rest = line.strip_prefix(name.as_str())?;
            // Labels may hold blanks; the value is behind the last brace.
            let value = match rest.strip_prefix('{') {
                Some(labels) => labels.rsplit_once('}')?.1,
                None => rest.strip_prefix(' ')?,
            };
            value.split_whitespace().next()?.parse::<f64>().ok()
        });
        values.reduce(|a, b| a + b)
    };
    let mut row = Row::new();
    row.set("pool_wait_seconds", sum_of("sum")?);
    if let Some(count) = sum_of("count") {
        row.set("pool_leases", count);
    }
    Some(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_over_all_labels_and_of_no_other_metric() {
        let page = "# TYPE wait_seconds histogram\n\
            wait_seconds_sum{pool=\"a } b\"} 1.5 1700000000\nwait_seconds_sum{pool=\"c\"} 2\n\
            wait_seconds_sums 9\nother_wait_seconds_sum 7\nwait_seconds_count 4\n\
            wait_seconds_bucket{le=\"+Inf\"} 4\n";
        let row = row(page, "wait_seconds").unwrap();
        assert_eq!(row.number("pool_wait_seconds"), Some(3.5));
        assert_eq!(row.number("pool_leases"), Some(4.0));
        assert!(super::row(page, "wait").is_none());
    }
}
