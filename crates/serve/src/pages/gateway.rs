//! A gateway, by the metrics that it shows.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use bytes::Bytes;
use walwright_http::{PageAddress, Reading};
use walwright_report::html::Links;
use walwright_report::{GatewayPin, GatewayPool, GatewaySeen, Spread, gateway};

use super::above;
use crate::answer::{LINKS, Packed, Refusal, event};
use crate::live::{Seen, Watched};

/// Longest that a gateway may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// Points of the courses: of ten minutes, mostly.
const POINTS: usize = 300;
/// Shortest time between two looks: a page changes every so often.
const EVERY: Duration = Duration::from_secs(2);
/// Before each of its names.
const PREFIX: &str = "walwright_gateway_";

/// What a moment showed.
#[derive(Debug, Default)]
struct Shown(Reading);

impl Shown {
    fn of(text: &str) -> Shown {
        Shown(Reading::of(text, PREFIX))
    }

    /// The sum over all that have these labels; zero where there are none.
    fn sum(&self, name: &str, with: &[(&str, &str)]) -> f64 {
        self.0.sum(name, with).unwrap_or(0.0)
    }

    /// What a counter has gained a second since another reading.
    fn rate(
        &self,
        before: &(Instant, Shown),
        seconds: f64,
        name: &str,
        with: &[(&str, &str)],
    ) -> Option<f64> {
        let gained = self.sum(name, with) - before.1.sum(name, with);
        (seconds > 0.0 && gained >= 0.0).then(|| gained / seconds)
    }

    /// What a histogram has gained since another reading.
    fn spread(&self, before: &Shown, name: &str) -> Option<Spread> {
        let bucket = format!("{name}_bucket");
        let mut gained: BTreeMap<u64, f64> = BTreeMap::new();
        for (sign, reading) in [(1.0, self), (-1.0, before)] {
            for (labels, value) in reading.0.of_name(&bucket) {
                let bound: f64 = labels.get("le")?.parse().ok()?;
                // Bounds are not negative, so their bits are ordered as they are.
                *gained.entry(bound.to_bits()).or_default() += sign * value;
            }
        }
        let count = gained.values().next_back().copied().filter(|count| *count > 0.0)?;
        let at = |share: f64| {
            let found = gained.iter().find(|(_, below)| **below >= share * count);
            found.map_or(f64::INFINITY, |(bound, _)| f64::from_bits(*bound))
        };
        let sum = format!("{name}_sum");
        let mean = (self.sum(&sum, &[]) - before.sum(&sum, &[])) / count;
        Some(Spread { count, mean, p50: at(0.5), p99: at(0.99) })
    }
}

/// A gateway that is watched.
pub(crate) struct WatchedGateway {
    address: PageAddress,
    before: Option<(Instant, Shown)>,
    throughput: VecDeque<f64>,
    withheld: VecDeque<f64>,
    looked: Option<Instant>,
    drawn: u64,
}

impl WatchedGateway {
    pub(crate) fn new(address: PageAddress) -> WatchedGateway {
        WatchedGateway {
            address,
            before: None,
            throughput: VecDeque::new(),
            withheld: VecDeque::new(),
            looked: None,
            drawn: 0,
        }
    }

    fn seen(&mut self) -> Result<GatewaySeen, String> {
        let page = self.address.read(PATIENCE).map_err(|error| error.to_string())?;
        let now = Shown::of(&page);
        let at = Instant::now();
        if now.0.is_empty() {
            return Err("it shows no metrics of a gateway".to_owned());
        }
        let empty = (at, Shown::default());
        let (is_first, before) = match &self.before {
            Some(before) => (false, before),
            None => (true, &empty),
        };
        let seconds = if is_first { 0.0 } else { (at - before.0).as_secs_f64() };
        let rate = |name: &str, with: &[(&str, &str)]| now.rate(before, seconds, name, with);
        let pools = now.0.of_name("transactions_total").map(|(labels, _)| {
            let [database, user] =
                ["database", "user"].map(|label| labels.get(label).cloned().unwrap_or_default());
            let with = [("database", database.as_str()), ("user", user.as_str())];
            let state =
                |name: &str, state: &str| now.sum(name, &[with[0], with[1], ("state", state)]);
            GatewayPool {
                active: state("clients", "active"),
                waiting: state("clients", "waiting"),
                sessions: state("server_sessions", "active"),
                idle_sessions: state("server_sessions", "idle"),
                withheld: now.sum("answers_withheld", &with),
                transactions: rate("transactions_total", &with),
                database: database.clone(),
                user: user.clone(),
            }
        });
        let pools: Vec<GatewayPool> = pools.collect();
        let mut pins: BTreeMap<String, GatewayPin> = BTreeMap::new();
        for (name, is_now) in [("clients_pinned", true), ("pins_total", false)] {
            for (labels, value) in now.0.of_name(name) {
                let reason = labels.get("reason").cloned().unwrap_or_default();
                let pin = pins.entry(reason.clone()).or_insert_with(|| GatewayPin {
                    reason,
                    now: 0.0,
                    ever: 0.0,
                });
                *(if is_now { &mut pin.now } else { &mut pin.ever }) += value;
            }
        }
        let spread = |name: &str| (!is_first).then(|| now.spread(&before.1, name)).flatten();
        let longest = now.0.of_name("longest_wait_seconds").map(|(_, value)| value);
        let throughput = rate("transactions_total", &[]);
        let withheld = spread("withheld_seconds");
        self.throughput.extend(throughput);
        self.withheld.extend(withheld.as_ref().map(|of| of.p99).filter(|of| of.is_finite()));
        for course in [&mut self.throughput, &mut self.withheld] {
            while course.len() > POINTS {
                course.pop_front();
            }
        }
        let seen = GatewaySeen {
            address: self.address.to_string(),
            active: now.sum("clients", &[("state", "active")]),
            waiting: now.sum("clients", &[("state", "waiting")]),
            longest_wait: longest.fold(0.0, f64::max),
            answers_withheld: now.sum("answers_withheld", &[]),
            exposed: now.sum("transactions_exposed", &[]),
            transactions: throughput,
            withheld,
            queue: spread("queue_wait_seconds"),
            barrier: spread("barrier_seconds"),
            per_barrier: spread("barrier_clients"),
            pins: pins.into_values().filter(|pin| pin.now > 0.0 || pin.ever > 0.0).collect(),
            pools,
            throughput_course: self.throughput.iter().copied().collect(),
            withheld_course: self.withheld.iter().copied().collect(),
        };
        self.before = Some((at, now));
        Ok(seen)
    }
}

impl Watched for WatchedGateway {
    fn look(&mut self) -> Option<Seen> {
        if self.looked.is_some_and(|looked| looked.elapsed() < EVERY) {
            return None;
        }
        self.looked = Some(Instant::now());
        let page = match self.seen() {
            Ok(seen) => {
                let above = above("/gateway", "");
                let links = Links { live: Some("/gateway/events"), above: &above, ..LINKS };
                Ok(Packed::page(&gateway(&seen), &links))
            }
            Err(why) => {
                let said = format!("the gateway at {} cannot be read: {why}", self.address);
                Err(Arc::new(Refusal::new(StatusCode::BAD_GATEWAY, said)))
            }
        };
        self.drawn += 1;
        // One that does not answer is asked again by who opens the page again.
        let ended = page.is_err();
        let mut told = event("page", "{}").to_vec();
        if ended {
            told.extend(event("end", "{}"));
        }
        Some(Seen { page, series: None, told: Bytes::from(told), drawn: self.drawn, ended })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_tells_what_came_between_two_readings() {
        let at = |counts: [u32; 3], sum: f64| {
            let [a, b, c] = counts;
            Shown::of(&format!(
                "walwright_gateway_withheld_seconds_bucket{{le=\"0.001\"}} {a}\n\
                 walwright_gateway_withheld_seconds_bucket{{le=\"0.01\"}} {b}\n\
                 walwright_gateway_withheld_seconds_bucket{{le=\"+Inf\"}} {c}\n\
                 walwright_gateway_withheld_seconds_sum {sum}\n"
            ))
        };
        let (before, now) = (at([100, 100, 100], 5.0), at([190, 198, 200], 5.5));
        let spread = now.spread(&before, "withheld_seconds").unwrap();
        assert_eq!((spread.count, spread.p50, spread.p99), (100.0, 0.001, f64::INFINITY));
        assert!((spread.mean - 0.005).abs() < 1e-9);
        assert!(now.spread(&now, "withheld_seconds").is_none(), "nothing came");
    }
}
