//! How long an application's requests wait for a session of its pool, as its metrics tell.

use walwright_http::{PageAddress, Reading};
use walwright_record::{Row, Source, Warning, WarningCode};

use super::metrics_reader::MetricsReader;
use crate::notes::Notes;

/// Where an application tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolWaitPlan {
    /// The address of its metrics, in the text format of Prometheus.
    pub metrics: PageAddress,
    /// The histogram or summary of waits in seconds, without `_sum` and `_count`.
    pub name: String,
}

/// Reading under way.
pub(crate) struct PoolWait {
    reader: MetricsReader,
    notes: Notes,
    plan: PoolWaitPlan,
}

impl PoolWait {
    /// Begins to read.
    pub fn begin(plan: &PoolWaitPlan, notes: &Notes) -> PoolWait {
        let PoolWaitPlan { metrics, name } = plan.clone();
        let find = move || Some(metrics.clone());
        let row = move |page: &str| row(page, &name);
        let reader = MetricsReader::begin(find, Source::Application, row, notes);
        PoolWait { reader, notes: notes.clone(), plan: plan.clone() }
    }

    /// Ends it; a page that never told the figure is warned of.
    pub async fn end(self) {
        if self.reader.end().await == 0 {
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

/// The sum and count of a histogram over all its labels; `None` where the page has no such sum.
fn row(page: &str, name: &str) -> Option<Row> {
    let reading = Reading::of(page, name);
    let mut row = Row::new();
    row.set("pool_wait_seconds", reading.sum("_sum", &[])?);
    if let Some(count) = reading.sum("_count", &[]) {
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
