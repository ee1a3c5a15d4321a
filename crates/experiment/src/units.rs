//! Loads each of whose transactions does the work of several others, such as a batch, or writes
//! many rows: figures that compare are those of one unit of work.

use std::collections::BTreeMap;

use walwright_figures::compare::{FigureUnit, Section, figure_kinds};

use super::Metric;

/// Figures of the load that count or time whole transactions, so that one of several units
/// has no like to compare with: names begin so.
const OF_TRANSACTIONS: [&str; 3] = ["commits", "failed", "rolled_back"];

fn is_of_transactions(figure: &str) -> bool {
    figure.starts_with("latency") || OF_TRANSACTIONS.contains(&figure)
}

/// What a transaction of a load does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Units {
    /// The work of so many transactions of the load that it is compared with.
    Transactions(u32),
    /// It writes so many rows, which are there and acknowledged together: its latency is theirs.
    Rows(u32),
}

impl Units {
    fn count(self) -> u32 {
        match self {
            Units::Transactions(count) | Units::Rows(count) => count,
        }
    }
}

impl Metric {
    /// Whether it is, or is made of, figures of whole transactions.
    pub fn speaks_of_transactions(&self) -> bool {
        self.figures().iter().any(|figure| is_of_transactions(figure))
    }
}

/// Figures of a load per unit of work; without those of whole transactions where one does that
/// of several.
pub(super) fn per_unit(mut figures: BTreeMap<String, f64>, units: Units) -> BTreeMap<String, f64> {
    if units.count() == 1 {
        return figures;
    }
    if matches!(units, Units::Transactions(_)) {
        figures.retain(|figure, _| !is_of_transactions(figure));
    }
    let units = f64::from(units.count());
    for kind in figure_kinds() {
        let Some(value) = figures.get_mut(&kind.key) else { continue };
        // How long a flush takes and how many updates are HOT is no matter of transactions.
        let is_rate = kind.unit == FigureUnit::Share || kind.key == "flush";
        match kind.section {
            Section::Load if kind.key == "throughput" => *value *= units,
            Section::Time | Section::Work if !is_rate => *value /= units,
            _ => {}
        }
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_per_unit_of_work() {
        let figures: BTreeMap<String, f64> = [
            ("throughput", 100.0),
            ("wal_bytes", 2_000.0),
            ("flush", 0.001),
            ("busy", 0.5),
            ("latency_p99", 0.004),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let unit = per_unit(figures.clone(), Units::Transactions(10));
        assert_eq!((unit["throughput"], unit["wal_bytes"]), (1_000.0, 200.0));
        assert_eq!((unit["flush"], unit["busy"]), (0.001, 0.5));
        assert!(!unit.contains_key("latency_p99"), "of a whole transaction");
        assert_eq!(per_unit(figures.clone(), Units::Transactions(1)), figures);
        let row = per_unit(figures.clone(), Units::Rows(10));
        assert_eq!(row["wal_bytes"], unit["wal_bytes"]);
        assert_eq!(row["latency_p99"], figures["latency_p99"], "rows that come together");
        assert_eq!(per_unit(figures.clone(), Units::Rows(1)), figures);
    }

    #[test]
    fn what_is_of_whole_transactions_is_known() {
        let of = |name: &str, cost: Option<&str>| {
            Metric::named(name, cost).unwrap().speaks_of_transactions()
        };
        assert!(of("latency_p95", None) && of("latency_p99_95", None));
        assert!(of("cost", Some(":wal_bytes + :latency_p99")));
        assert!(!of("throughput", None) && !of("wal_bytes", None));
        assert!(!of("cost", Some(":wal_bytes / :throughput")));
    }
}
