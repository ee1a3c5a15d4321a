//! What Locust prints without its web interface (stats.py): a table with a row `Aggregated`
//! of `# reqs # fails | Avg Min Max Med | req/s failures/s`, now and then and at its end, and
//! then one of percentiles. Times are milliseconds.

use walwright_record::{ClientUnit, OperationTotals, Timestamp};

use super::told::Told;
use super::{Tool, milliseconds, whole};

#[derive(Debug, Default)]
pub(super) struct Locust {
    /// Which table's rows follow.
    table: Table,
    /// The percentiles of its columns.
    percents: Vec<f64>,
    totals: Option<OperationTotals>,
}

#[derive(Debug, Default, PartialEq)]
enum Table {
    #[default]
    None,
    Requests,
    Percentiles,
}

impl Tool for Locust {
    fn line(&mut self, line: &str, _: Option<Timestamp>) {
        if line.starts_with("Type ") && line.contains("# reqs") {
            if line.contains("# fails") {
                self.table = Table::Requests;
            } else {
                self.table = Table::Percentiles;
                let words = line.split_ascii_whitespace();
                let percents = words.filter_map(|word| word.strip_suffix('%')?.parse().ok());
                self.percents = percents.take(50).filter(|p| (0.0..=100.0).contains(p)).collect();
            }
        } else if let Some(row) = line.strip_prefix("Aggregated ") {
            match self.table {
                Table::Requests => self.totals = totals(row).or(self.totals.take()),
                Table::Percentiles => {
                    if let Some(totals) = &mut self.totals {
                        let times = row.split_ascii_whitespace().map(|w| milliseconds(Some(w)));
                        let pairs = self.percents.iter().copied().zip(times);
                        totals.percentiles =
                            pairs.filter_map(|(percent, time)| Some((percent, time?))).collect();
                    }
                }
                Table::None => {}
            }
        }
    }

    fn told(&self) -> Option<Told> {
        let note = "it holds totals of Locust's whole test in rounded milliseconds, failed requests in \
             its times; --csv PREFIX tells its history";
        Some(Told::of_whole(ClientUnit::Request, self.totals.clone()?, note))
    }
}

/// `222     8(3.60%) |     46       3     149     44 |   63.02        2.27`
fn totals(row: &str) -> Option<OperationTotals> {
    let mut parts = row.split('|').map(|part| part.split_ascii_whitespace().collect::<Vec<_>>());
    let (counts, times, rates) = (parts.next()?, parts.next()?, parts.next()?);
    let number = |text: Option<&&str>| whole(text?.split('(').next());
    let time = |place: usize| milliseconds(times.get(place).copied());
    let rate = rates.first().and_then(|rate| rate.parse().ok());
    Some(OperationTotals {
        name: "requests".to_owned(),
        count: Some(number(counts.first())?),
        failed: number(counts.get(1)),
        throughput: rate.filter(|rate: &f64| rate.is_finite() && *rate > 0.0),
        mean: time(0),
        min: time(1),
        max: time(2),
        percentiles: time(3).map(|median| (50.0, median)).into_iter().collect(),
        ..OperationTotals::default()
    })
}
