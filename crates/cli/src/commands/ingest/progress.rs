//! How far an ingest is, on standard error.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use walwright_ingest::Counts;
use walwright_report::format;

use crate::show::lines::ProgressLines;

/// Time between looks.
const LOOK: Duration = Duration::from_millis(500);
/// Time between lines where there is no terminal.
const EVERY: Duration = Duration::from_secs(10);

/// Shows progress until it is dropped.
pub struct Shown(JoinHandle<()>);

impl Drop for Shown {
    fn drop(&mut self) {
        self.0.abort();
        crate::show::begin_line();
    }
}

/// Begins to show how far the inputs are read, of `total` bytes where that is known.
pub fn show(counts: Arc<Counts>, total: Option<u64>) -> Shown {
    let mut lines = ProgressLines::new();
    let began = Instant::now();
    Shown(tokio::spawn(async move {
        let mut before = (0, began);
        loop {
            tokio::time::sleep(LOOK).await;
            let rewrites = lines.may_rewrite();
            if !rewrites && !lines.line_is_due(EVERY) {
                continue;
            }
            let summary = counts.summary(began.elapsed());
            let rate = (summary.written - before.0) as f64 / before.1.elapsed().as_secs_f64();
            before = (summary.written, Instant::now());
            let mut text = format!(
                "{}, {}",
                format::counted(summary.written, "row"),
                format::rate_of(rate, "row")
            );
            if let Some(p99) = summary.latency.p99 {
                text.push_str(&format!(", p99 {}", format::latency(p99)));
            }
            if summary.rejected > 0 {
                text.push_str(&format!(", {} rejected", format::count(summary.rejected)));
            }
            if let Some(left) = total.and_then(|total| left(summary.bytes, total, summary.elapsed))
            {
                text.push_str(&left);
            }
            if rewrites {
                lines.rewrite(&text);
            } else {
                lines.line(&text);
            }
        }
    }))
}

/// The share of the input that is read, and about how long the rest takes.
fn left(read: u64, total: u64, elapsed: Duration) -> Option<String> {
    let share = read as f64 / total as f64;
    if !(0.0..=1.0).contains(&share) || read == 0 {
        return None;
    }
    let left = elapsed.mul_f64((1.0 - share) / share);
    Some(format!(", {} read, about {} left", format::percent(share), format::length(left)))
}
