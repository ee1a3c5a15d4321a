//! A gateway, by the metrics that it shows.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use bytes::Bytes;
use walwright_report::html::Links;
use walwright_report::{GatewayPin, GatewayPool, GatewaySeen, Spread, gateway};

use super::above;
use crate::answer::{LINKS, Packed, Refusal, event};
use crate::live::{Seen, Watched};

/// Longest that a gateway may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// Most bytes of its answer.
const LARGEST: u64 = 4 << 20;
/// Points of the courses: of ten minutes, mostly.
const POINTS: usize = 300;
/// Shortest time between two looks: a page changes every so often.
const EVERY: Duration = Duration::from_secs(2);
/// Before each of its names.
const PREFIX: &str = "walwright_gateway_";

/// Where a gateway shows its metrics: `http://HOST:PORT/metrics`.
#[derive(Debug, Clone)]
pub struct GatewayAddress {
    host: String,
    path: String,
}

impl std::str::FromStr for GatewayAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<GatewayAddress, String> {
        let rest = text.strip_prefix("http://").ok_or("it is http://HOST:PORT/metrics")?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, "metrics"));
        let port = host.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        let odd = |text: &str| text.chars().any(|letter| letter.is_control() || letter == ' ');
        if port.is_none() || odd(rest) {
            return Err("it is http://HOST:PORT/metrics".to_owned());
        }
        let path = if path.is_empty() { "metrics" } else { path };
        Ok(GatewayAddress { host: host.to_owned(), path: format!("/{path}") })
    }
}

impl std::fmt::Display for GatewayAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}{}", self.host, self.path)
    }
}

impl GatewayAddress {
    /// What it shows now.
    fn read(&self) -> Result<String, String> {
        let wrong = |error: std::io::Error| error.to_string();
        let mut addresses = self.host.to_socket_addrs().map_err(wrong)?;
        let address = addresses.next().ok_or("it has no address")?;
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(wrong)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(wrong)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(wrong)?;
        let asked = format!("GET {} HTTP/1.0\r\nHost: {}\r\n\r\n", self.path, self.host);
        stream.write_all(asked.as_bytes()).map_err(wrong)?;
        let mut answer = Vec::new();
        stream.take(LARGEST).read_to_end(&mut answer).map_err(wrong)?;
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").ok_or("its answer is no HTTP")?;
        let first = head.lines().next().unwrap_or_default();
        match first.split(' ').nth(1) {
            Some("200") => Ok(body.to_owned()),
            _ => Err(format!("it answered: {first}")),
        }
    }
}

/// Values by name and labels, as a moment showed them.
#[derive(Debug, Default)]
struct Reading(Vec<(String, BTreeMap<String, String>, f64)>);

impl Reading {
    fn of(text: &str) -> Reading {
        Reading(text.lines().filter_map(line).collect())
    }

    fn of_name<'a>(
        &'a self,
        name: &'a str,
    ) -> impl Iterator<Item = (&'a BTreeMap<String, String>, f64)> {
        let named = self.0.iter().filter(move |(called, ..)| called == name);
        named.map(|(_, labels, value)| (labels, *value))
    }

    /// The sum over all that have these labels; zero where there are none.
    fn sum(&self, name: &str, with: &[(&str, &str)]) -> f64 {
        let fits = |labels: &BTreeMap<String, String>| {
            with.iter().all(|(label, value)| labels.get(*label).is_some_and(|has| has == value))
        };
        self.of_name(name).filter(|(labels, _)| fits(labels)).map(|(_, value)| value).sum()
    }

    /// What a counter has gained a second since another reading.
    fn rate(
        &self,
        before: &(Instant, Reading),
        seconds: f64,
        name: &str,
        with: &[(&str, &str)],
    ) -> Option<f64> {
        let gained = self.sum(name, with) - before.1.sum(name, with);
        (seconds > 0.0 && gained >= 0.0).then(|| gained / seconds)
    }

    /// What a histogram has gained since another reading.
    fn spread(&self, before: &Reading, name: &str) -> Option<Spread> {
        let bucket = format!("{name}_bucket");
        let mut gained: BTreeMap<u64, f64> = BTreeMap::new();
        for (sign, reading) in [(1.0, self), (-1.0, before)] {
            for (labels, value) in reading.of_name(&bucket) {
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

/// A line of the text that Prometheus reads: a name, labels, a value.
fn line(text: &str) -> Option<(String, BTreeMap<String, String>, f64)> {
    let text = text.trim().strip_prefix(PREFIX)?;
    let (head, value) = text.rsplit_once(' ')?;
    let (name, labels) = match head.split_once('{') {
        None => (head, BTreeMap::new()),
        Some((name, rest)) => (name, labels(rest.strip_suffix('}')?)?),
    };
    Some((name.to_owned(), labels, value.parse().ok()?))
}

/// Labels between their braces; their values are quoted and may hold anything.
fn labels(text: &str) -> Option<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (name, quoted) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut letters = quoted.char_indices();
        let end = loop {
            match letters.next()? {
                (at, '"') => break at,
                (_, '\\') => match letters.next()?.1 {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                (_, plain) => value.push(plain),
            }
        };
        found.insert(name.trim_start_matches(',').to_owned(), value);
        rest = &quoted[end + 1..];
    }
    Some(found)
}

/// A gateway that is watched.
pub(crate) struct WatchedGateway {
    address: GatewayAddress,
    before: Option<(Instant, Reading)>,
    throughput: VecDeque<f64>,
    withheld: VecDeque<f64>,
    looked: Option<Instant>,
    drawn: u64,
}

impl WatchedGateway {
    pub(crate) fn new(address: GatewayAddress) -> WatchedGateway {
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
        let now = Reading::of(&self.address.read()?);
        let at = Instant::now();
        if now.0.is_empty() {
            return Err("it shows no metrics of a gateway".to_owned());
        }
        let empty = (at, Reading::default());
        let (is_first, before) = match &self.before {
            Some(before) => (false, before),
            None => (true, &empty),
        };
        let seconds = if is_first { 0.0 } else { (at - before.0).as_secs_f64() };
        let rate = |name: &str, with: &[(&str, &str)]| now.rate(before, seconds, name, with);
        let pools = now.of_name("transactions_total").map(|(labels, _)| {
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
            for (labels, value) in now.of_name(name) {
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
        let longest = now.of_name("longest_wait_seconds").map(|(_, value)| value);
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
    fn an_address_is_one_of_metrics() {
        let address = |text: &str| text.parse::<GatewayAddress>().map(|of| of.to_string());
        assert_eq!(
            address("http://127.0.0.1:9187/metrics").unwrap(),
            "http://127.0.0.1:9187/metrics"
        );
        assert_eq!(address("http://db:9187").unwrap(), "http://db:9187/metrics");
        for wrong in ["https://x:1/", "http://x/metrics", "x:1", "http://x:1/a\r\nb"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_a_gateway_shows_is_read_with_any_labels() {
        let text = "# HELP walwright_gateway_clients Clients.\n\
            walwright_gateway_clients{database=\"a,\\\"b\\\\\",user=\"u\",state=\"active\"} 3\n\
            walwright_gateway_clients{database=\"c\",user=\"u\",state=\"active\"} 4\n\
            walwright_gateway_clients{database=\"c\",user=\"u\",state=\"waiting\"} 1\n\
            walwright_gateway_paused 0\n other 1\nwalwright_gateway_torn{a=\"b 2\n";
        let reading = Reading::of(text);
        assert_eq!(reading.sum("clients", &[("state", "active")]), 7.0);
        assert_eq!(reading.sum("clients", &[("database", "a,\"b\\")]), 3.0);
        assert_eq!(reading.sum("nothing", &[]), 0.0);
    }

    #[test]
    fn a_histogram_tells_what_came_between_two_readings() {
        let at = |counts: [u32; 3], sum: f64| {
            let [a, b, c] = counts;
            Reading::of(&format!(
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
