//! Whether a cheaper instance would do: a claim that only a run with its processors can bear.

use serde::Serialize;

use crate::price_list::Charge;
use crate::{Cost, Price, PriceList};

/// Hundredths of a processor are no other number of them.
const SAME: f64 = 0.01;

/// What runs say of a cheaper instance.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Smaller {
    /// Its name in the price file.
    pub instance: String,
    /// Its processors.
    pub processors: u32,
    /// What a month of it costs less than a month of the instance that is priced.
    pub month_less: f64,
    /// Transactions a second that it would have to do.
    pub needed: f64,
    /// What was found.
    pub verdict: Verdict,
}

/// Whether a cheaper instance would do.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No run had its processors.
    NotTested {
        /// What to do about it, a sentence.
        to_test: String,
    },
    /// Runs had its processors.
    Tested {
        /// What they are called.
        by: String,
        /// Processors of their machine, of which the server might use no more than the instance
        /// has.
        machine: Option<u32>,
        /// Transactions a second of theirs that are counted on: the utilisation of what they did.
        does: f64,
        /// Whether it would do; `None` where the interval of the rate lies on both sides.
        would_do: Option<bool>,
        /// What they do not show of the instance, each a few words.
        not_tested: Vec<String>,
    },
}

/// Gives each of `costs` the cheaper instances that its runs stand for, and the first also those
/// that none stands for. The first says what has to be done: the rate of its month.
pub fn smaller(costs: &mut [Cost], list: &PriceList, instance: Option<&str>) {
    let Ok(of_server) = list.of_server(instance) else { return };
    let Some((priced, needed)) = of_server.first().zip(costs.first().map(|base| base.rate)) else {
        return;
    };
    let instances = list.prices.iter().filter(|price| price.charge == Charge::Instance);
    for cheaper in instances.filter(|price| price.month() < priced.month()) {
        let Some(processors) = cheaper.processors else { continue };
        let of = |verdict| Smaller {
            instance: cheaper.name().to_owned(),
            processors,
            month_less: priced.month() - cheaper.month(),
            needed,
            verdict,
        };
        let mut is_tested = false;
        for cost in costs.iter_mut().filter(|cost| has(cost, processors)) {
            let verdict = tested(cost, cheaper, needed);
            cost.smaller.push(of(verdict));
            is_tested = true;
        }
        if let Some(base) = costs.first_mut().filter(|_| !is_tested) {
            let to_test = to_test(base, cheaper, processors);
            base.smaller.push(of(Verdict::NotTested { to_test }));
        }
    }
}

fn has(cost: &Cost, processors: u32) -> bool {
    cost.capacity.processors.is_some_and(|had| (had - f64::from(processors)).abs() < SAME)
}

fn tested(cost: &Cost, instance: &Price, needed: f64) -> Verdict {
    let capacity = &cost.capacity;
    let usable = |rate: f64| rate * cost.utilisation;
    let ends = capacity.interval.map(|ends| (usable(ends.low), usable(ends.high)));
    let does = usable(capacity.rate);
    let would_do = match ends.unwrap_or((does, does)) {
        (low, _) if low >= needed => Some(true),
        (_, high) if high < needed => Some(false),
        _ => None,
    };
    let mut not_tested = vec!["how fast its processors are".to_owned()];
    let gigabytes = |bytes: f64| format!("{:.1} GB", bytes / 1e9);
    match (capacity.memory_bytes.map(|bytes| bytes as f64), instance.memory_gb.map(|gb| gb * 1e9)) {
        // As much as is told with a digit after the point.
        (Some(had), Some(has)) if had <= has + 5e7 => {}
        (Some(had), Some(has)) => not_tested.push(format!(
            "its memory of {}, as the runs had {}: `walwright run … --memory {}` holds the server to \
             it, MemoryMax= of its systemd unit one of yours",
            gigabytes(has),
            gigabytes(had),
            megabytes(has)
        )),
        (Some(had), None) => not_tested.push(format!(
            "its memory, which the price file does not tell (memory_gb): the runs had {}",
            gigabytes(had)
        )),
        (None, _) => not_tested.push("its memory".to_owned()),
    }
    not_tested.push("its disk and its network".to_owned());
    Verdict::Tested {
        by: capacity.name.clone(),
        machine: capacity.machine_processors,
        does,
        would_do,
        not_tested,
    }
}

/// So much memory as a command line has it.
fn megabytes(bytes: f64) -> String {
    format!("{:.0}MB", (bytes / 1_048_576.0).floor())
}

/// What to do so that a claim about so many processors can be judged.
fn to_test(base: &Cost, instance: &Price, processors: u32) -> String {
    let capacity = &base.capacity;
    let memory = instance
        .memory_gb
        .map_or_else(String::new, |gigabytes| format!(" --memory {}", megabytes(gigabytes * 1e9)));
    match capacity.machine_processors {
        Some(there) if there < processors => format!(
            "the machine of {} has {there} of the {processors} processors: measure on one that has \
             them",
            capacity.name
        ),
        _ => format!(
            "hold the server to {processors} processors and name that run too: `walwright run … \
             --processors {processors}{memory}`, `processors = {processors}` in an arm of an experiment; a \
             server of yours by AllowedCPUs= of its systemd unit, or taskset. `walwright what-if \
             {} --processors {processors}` predicts it with an interval, for server and load \
             together",
            capacity.runs.first().map_or("RUN", String::as_str)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::tests::capacity;
    use crate::{Capacity, EXAMPLE, Terms};

    /// Runs of these rates and processors, priced as the larger instance of the example.
    fn costs(runs: &[(f64, f64)], memory_gb: Option<f64>) -> Vec<Cost> {
        let mut list = PriceList::read(EXAMPLE).expect("the example");
        list.prices[1].memory_gb = memory_gb;
        let terms = Terms { utilisation: 1.0, rate: Some(800.0) };
        let larger = Some("db.example.4xlarge");
        let of = |&(rate, processors): &(f64, f64)| {
            let measured = Capacity {
                processors: Some(processors),
                machine_processors: Some(16),
                memory_bytes: Some(16_000_000_000),
                ..capacity(rate, Some((rate - 50.0, rate + 50.0)))
            };
            Cost::of(measured, &list, larger, terms).expect("a cost")
        };
        let mut costs: Vec<Cost> = runs.iter().map(of).collect();
        smaller(&mut costs, &list, larger);
        costs
    }

    #[test]
    fn only_a_run_with_its_processors_says_whether_an_instance_would_do() {
        let untested = costs(&[(2000.0, 16.0)], None);
        let [one] = &untested[0].smaller[..] else { panic!("{untested:?}") };
        let Verdict::NotTested { to_test } = &one.verdict else { panic!("{one:?}") };
        assert!(to_test.contains("--processors 4`"), "{to_test}");
        let with_memory = costs(&[(2000.0, 16.0)], Some(16.0));
        let told = format!("{:?}", with_memory[0].smaller);
        assert!(told.contains("--processors 4 --memory 15258MB`"), "{told}");
        for (rate, expected) in [(900.0, Some(true)), (820.0, None), (700.0, Some(false))] {
            let costs = costs(&[(2000.0, 16.0), (rate, 4.0)], None);
            assert!(costs[0].smaller.is_empty(), "{costs:?}");
            let [one] = &costs[1].smaller[..] else { panic!("{costs:?}") };
            let Verdict::Tested { would_do, .. } = &one.verdict else { panic!("{one:?}") };
            assert_eq!(*would_do, expected, "{rate}");
            assert_eq!(one.month_less, 2.25 * 730.0);
        }
    }

    #[test]
    fn what_a_run_does_not_show_is_said() {
        let of = |memory_gb| {
            let costs = costs(&[(900.0, 4.0)], memory_gb);
            match &costs[0].smaller[0].verdict {
                Verdict::Tested { not_tested, .. } => not_tested.join("; "),
                untested => panic!("{untested:?}"),
            }
        };
        assert!(of(None).contains("memory_gb") && of(None).contains("its disk"));
        assert!(of(Some(8.0)).contains("memory of 8.0 GB, as the runs had 16.0 GB"));
        assert!(!of(Some(16.0)).contains("memory"));
    }

    #[test]
    fn a_machine_that_has_fewer_cannot_show_it() {
        let mut list = PriceList::read(EXAMPLE).expect("the example");
        list.prices[1].processors = Some(8);
        let small = Capacity {
            processors: Some(2.0),
            machine_processors: Some(2),
            ..capacity(500.0, None)
        };
        let terms = Terms { utilisation: 1.0, rate: None };
        let larger = Some("db.example.4xlarge");
        let mut costs = vec![Cost::of(small, &list, larger, terms).expect("a cost")];
        smaller(&mut costs, &list, larger);
        let said = format!("{:?}", costs[0].smaller);
        assert!(said.contains("has 2 of the 8 processors"), "{said}");
    }
}
