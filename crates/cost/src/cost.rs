//! A rate and prices together.

use serde::Serialize;
use walwright_stats::Interval;

use crate::price_list::{Charge, HOURS, Price, Quantity};
use crate::{Capacity, PriceError, PriceList, Smaller};

const MILLION: f64 = 1e6;
/// A gigabyte of the bill.
const GIGABYTE: f64 = 1e9;

/// How a server is to be used.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Terms {
    /// Part of what a server can do that it is to do, above 0 and at most 1.
    pub utilisation: f64,
    /// Transactions a second that are to be served; the most that may be asked of one server
    /// where it is not given.
    pub rate: Option<f64>,
}

/// What a month of one server costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bill {
    /// Price by price.
    pub items: Vec<Item>,
    /// What does not depend on the rate.
    pub fixed: f64,
    /// What a million transactions cost beside it; `None` where it goes by WAL that was not
    /// observed.
    pub per_million: Option<f64>,
}

/// One price of a bill.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Item {
    /// What it is of.
    pub name: String,
    /// What is charged.
    pub charge: Charge,
    /// A month of it at the rate of the cost; `None` where it goes by what was not observed.
    pub month: Option<f64>,
}

/// What a capacity costs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cost {
    /// What was measured.
    pub capacity: Capacity,
    /// Part of the measured rate that a server is to do: all of it where the rate was offered.
    pub utilisation: f64,
    /// Transactions a second of the month below.
    pub rate: f64,
    /// Servers that the rate takes: more than one only where the load can be split.
    pub servers: f64,
    /// A month of one server.
    pub bill: Bill,
    /// A month of all of them.
    pub month: Option<f64>,
    /// A million transactions at the utilisation.
    pub million: Option<f64>,
    /// Where that lies, from the interval of the rate.
    pub million_interval: Option<Interval>,
    /// A million rows written; `None` where they were not observed.
    pub million_writes: Option<f64>,
    /// Where that lies.
    pub million_writes_interval: Option<Interval>,
    /// What its runs say of cheaper instances.
    pub smaller: Vec<Smaller>,
}

/// What a change saves on a million transactions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Saving {
    /// In the currency; negative where it costs more.
    pub million: f64,
    /// As a part of what it was.
    pub share: f64,
    /// Where the part lies, from the intervals of both rates; `None` where one is not known.
    pub share_interval: Option<Interval>,
}

impl Cost {
    /// What `capacity` costs by the prices of one server.
    ///
    /// # Errors
    /// When the instance is not in the list, or several are and none is named.
    pub fn of(
        mut capacity: Capacity,
        list: &PriceList,
        instance: Option<&str>,
        terms: Terms,
    ) -> Result<Cost, PriceError> {
        let prices = list.of_server(instance)?;
        let of_instance = prices.iter().find_map(|price| Some((price.name(), price.processors?)));
        if let (Some((instance, has)), Some(had)) = (of_instance, capacity.processors)
            && f64::from(has) != had
        {
            capacity.warnings.push(format!(
                "{instance} has {has} processors, the server of {} had {had}: what the instance \
                 can do is not known before it is measured",
                capacity.name
            ));
        }
        // What was offered is not the most that could be done, so no part of it is kept free.
        let utilisation = if capacity.is_offered { 1.0 } else { terms.utilisation };
        let usable = capacity.rate * utilisation;
        let rate = terms.rate.unwrap_or(usable);
        let servers = (rate / usable).ceil().max(1.0);
        let bill = bill(&prices, &capacity, rate / servers);
        let million_at = |measured: f64| {
            let served = measured * utilisation * HOURS * 3600.0;
            bill.per_million.map(|moving| bill.fixed / served * MILLION + moving)
        };
        let million = million_at(capacity.rate);
        let million_interval = capacity.interval.and_then(|ends| {
            Some(Interval::between(million_at(ends.high)?, million_at(ends.low)?))
        });
        let writes = capacity.writes.filter(|writes| *writes > 0.0);
        let each = |of: Option<f64>| of.zip(writes).map(|(million, writes)| million / writes);
        let month = bill.items.iter().map(|item| item.month).sum::<Option<f64>>();
        Ok(Cost {
            utilisation,
            rate,
            servers,
            month: month.map(|month| month * servers),
            million,
            million_interval,
            million_writes: each(million),
            million_writes_interval: million_interval
                .zip(writes)
                .map(|(ends, writes)| Interval::between(ends.low / writes, ends.high / writes)),
            smaller: Vec::new(),
            bill,
            capacity,
        })
    }

    /// What a million transactions cost less here than they do at `base`; `None` where one of
    /// them is not known.
    pub fn saving(&self, base: &Cost) -> Option<Saving> {
        let (before, now) = (base.million?, self.million?);
        let share = 1.0 - now / before;
        // The two rates err apart, each by the logarithm of its ends.
        let error = |cost: &Cost| {
            let ends = cost.million_interval.filter(|ends| ends.low > 0.0)?;
            Some((ends.high / ends.low).ln() / 2.0)
        };
        let share_interval = error(base).zip(error(self)).map(|(one, other)| {
            let half = one.hypot(other);
            Interval::between(1.0 - now / before * half.exp(), 1.0 - now / before / half.exp())
        });
        Some(Saving { million: before - now, share, share_interval })
    }
}

/// A month of one server that does `rate` transactions a second.
fn bill(prices: &[&Price], capacity: &Capacity, rate: f64) -> Bill {
    let mut bill = Bill { items: Vec::new(), fixed: 0.0, per_million: Some(0.0) };
    let millions = rate * HOURS * 3600.0 / MILLION;
    for price in prices {
        let month = match (price.charge, price.quantity) {
            (_, Quantity::Of(_)) => {
                let each = capacity.wal_bytes.map(|b| b * MILLION / GIGABYTE * price.unit_price);
                bill.per_million = bill.per_million.zip(each).map(|(sum, each)| sum + each);
                each.map(|each| each * millions)
            }
            (Charge::Instance, Quantity::Units(_)) => Some(price.month()),
            (_, Quantity::Units(units)) => Some(units * price.unit_price),
        };
        if !matches!(price.quantity, Quantity::Of(_)) {
            bill.fixed += month.unwrap_or_default();
        }
        bill.items.push(Item { name: price.name().to_owned(), charge: price.charge, month });
    }
    bill
}

#[cfg(test)]
pub(crate) mod tests {
    use walwright_figures::WorkUnit;

    use super::*;

    /// One run of this rate, of which nothing else is known but its writes and WAL.
    pub(crate) fn capacity(rate: f64, interval: Option<(f64, f64)>) -> Capacity {
        Capacity {
            name: "a".to_owned(),
            runs: vec!["a".to_owned()],
            unit: WorkUnit::Transaction,
            rate,
            interval: interval.map(|(low, high)| Interval { low, high }),
            is_offered: false,
            p99: None,
            wal_bytes: Some(1000.0),
            writes: Some(4.0),
            processors: None,
            machine_processors: None,
            memory_bytes: None,
            warnings: Vec::new(),
        }
    }

    /// An instance for 1 an hour, 100 GB for 0.1 each, transfer of WAL for 0.01 a GB.
    fn list() -> PriceList {
        PriceList::read(
            "BillingCurrency = 'EUR'
             date = 'today'
             source = 'made up'
             [[price]]
             charge = 'instance'
             ListUnitPrice = 1.0
             PricingUnit = 'Hours'
             [[price]]
             charge = 'storage'
             ListUnitPrice = 0.1
             PricingUnit = 'GB-Months'
             PricingQuantity = 100
             [[price]]
             charge = 'transfer'
             ListUnitPrice = 0.01
             PricingUnit = 'GB'
             PricingQuantity = 'wal'",
        )
        .expect("prices")
    }

    const HALF: Terms = Terms { utilisation: 0.5, rate: None };

    #[test]
    fn a_month_and_a_million_are_the_same_money() {
        let cost = Cost::of(capacity(1000.0, None), &list(), None, HALF).expect("a cost");
        assert_eq!(cost.bill.fixed, 740.0);
        let month = cost.month.expect("a month");
        // 500/s for 730 hours are 1,314 million transactions, with 1 GB of WAL each.
        assert!((month - (740.0 + 13.14)).abs() < 1e-9, "{month}");
        let million = cost.million.expect("a million");
        assert!((million * 1314.0 - month).abs() < 1e-9, "{million}");
        assert_eq!(cost.million_writes, Some(million / 4.0));
    }

    #[test]
    fn the_interval_of_the_rate_goes_through_and_what_scales_with_it_does_not() {
        let cost = Cost::of(capacity(1000.0, Some((500.0, 2000.0))), &list(), None, HALF);
        let cost = cost.expect("a cost");
        let ends = cost.million_interval.expect("an interval");
        let fixed = cost.million.expect("a million") - 0.01;
        assert!((ends.high - 0.01 - 2.0 * fixed).abs() < 1e-12);
        assert!((ends.low - 0.01 - fixed / 2.0).abs() < 1e-12);
    }

    #[test]
    fn a_rate_above_the_usable_part_takes_more_servers() {
        let terms = Terms { utilisation: 0.5, rate: Some(1200.0) };
        let cost = Cost::of(capacity(1000.0, None), &list(), None, terms).expect("a cost");
        assert_eq!(cost.servers, 3.0);
        let month = cost.month.expect("a month");
        assert!((month - (3.0 * 740.0 + 1200.0 * 2.628 * 0.01)).abs() < 1e-6, "{month}");
    }

    #[test]
    fn what_is_not_observed_is_not_free() {
        let blind = Capacity { wal_bytes: None, ..capacity(1000.0, None) };
        let cost = Cost::of(blind, &list(), None, HALF).expect("a cost");
        assert_eq!((cost.million, cost.month, cost.million_writes), (None, None, None));
        assert_eq!(cost.bill.fixed, 740.0);
    }

    #[test]
    fn another_machine_than_the_measured_one_is_warned_of() {
        let mut list = list();
        list.prices[0].processors = Some(16);
        let with = |processors| {
            let measured = Capacity { processors, ..capacity(1000.0, None) };
            Cost::of(measured, &list, None, HALF).expect("a cost").capacity.warnings.len()
        };
        assert_eq!((with(Some(16.0)), with(Some(2.0)), with(None)), (0, 1, 0));
    }

    #[test]
    fn a_saving_has_the_errors_of_both() {
        let base = Cost::of(capacity(1000.0, Some((900.0, 1100.0))), &list(), None, HALF);
        let twice = Cost::of(capacity(2000.0, Some((1800.0, 2200.0))), &list(), None, HALF);
        let (base, twice) = (base.expect("a cost"), twice.expect("a cost"));
        let saving = twice.saving(&base).expect("a saving");
        assert!(saving.share > 0.49 && saving.share < 0.5, "{saving:?}");
        let ends = saving.share_interval.expect("an interval");
        assert!(ends.low < 0.45 && ends.high > 0.53 && ends.contains(saving.share), "{ends:?}");
        assert_eq!(base.saving(&base).map(|saving| saving.million), Some(0.0));
    }
}
