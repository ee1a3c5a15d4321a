//! How long walwright's gateway keeps answers back and statements waiting, as its metrics tell.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use walwright_http::{PageAddress, Reading};
use walwright_probe::gateways;
use walwright_record::{Row, Source, Warning, WarningCode};

use super::metrics_reader::{MetricsReader, PATIENCE};
use crate::notes::Notes;

/// Before each of its names.
const PREFIX: &str = "walwright_gateway_";
/// How often a gateway is looked for that is not there yet.
const LOOK: Duration = Duration::from_secs(10);

/// Which gateway's metrics are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GatewayChoice {
    /// Those at this address.
    At(PageAddress),
    /// Those of the one on this machine that stands before the server with this port, if there is
    /// one.
    Before(u16),
}

/// Reading under way.
pub(crate) struct GatewayMetrics {
    reader: MetricsReader,
    notes: Notes,
    choice: GatewayChoice,
    unread: Arc<Mutex<Option<String>>>,
}

impl GatewayMetrics {
    /// Begins to read.
    pub fn begin(choice: GatewayChoice, notes: &Notes) -> GatewayMetrics {
        let unread = Arc::<Mutex<Option<String>>>::default();
        let reader = {
            let (choice, unread) = (choice.clone(), Arc::clone(&unread));
            let mut found = None;
            let mut looked = None::<Instant>;
            let find = move || match &choice {
                GatewayChoice::At(address) => Some(address.clone()),
                GatewayChoice::Before(port) => {
                    if found.is_none() && looked.is_none_or(|looked| looked.elapsed() >= LOOK) {
                        looked = Some(Instant::now());
                        let sought = before(*port);
                        let why = sought.as_ref().err().cloned().flatten();
                        *unread.lock().unwrap_or_else(PoisonError::into_inner) = why;
                        found = sought.ok();
                    }
                    found.clone()
                }
            };
            MetricsReader::begin(find, Source::Gateway, row, notes)
        };
        GatewayMetrics { reader, notes: notes.clone(), choice, unread }
    }

    /// Ends it; what was to be read and told nothing is warned of.
    pub async fn end(self) {
        if self.reader.end().await > 0 {
            return;
        }
        let why = match self.choice {
            GatewayChoice::At(address) => {
                Some(format!("{address} tells no {PREFIX}withheld_seconds_sum"))
            }
            GatewayChoice::Before(_) => {
                self.unread.lock().unwrap_or_else(PoisonError::into_inner).take()
            }
        };
        if let Some(why) = why {
            let text = format!("{why}: how long the gateway kept answers back is not known");
            let hint = "walwright record --gateway-metrics http://HOST:PORT/metrics names the one";
            self.notes.warn(Warning::new(WarningCode::NotObservable, text).hint(hint));
        }
    }
}

/// Where the gateway before the server with this port shows metrics; otherwise why none is read of
/// several. Blocks for [`PATIENCE`] with each that does not answer.
fn before(port: u16) -> Result<PageAddress, Option<String>> {
    let all = gateways();
    let page = |at: SocketAddr| format!("http://{at}/metrics").parse::<PageAddress>().ok();
    let addresses = all.iter().filter_map(|of| Some((of.pid, page(of.metrics?)?)));
    let shown: Vec<(u32, PageAddress)> = addresses
        .filter(|(_, address)| address.read(PATIENCE).is_ok_and(|page| is_before(&page, port)))
        .collect();
    match &shown[..] {
        [(_, address)] => Ok(address.clone()),
        [_, _, ..] => {
            let pids: Vec<String> = shown.iter().map(|(pid, _)| pid.to_string()).collect();
            Err(Some(format!("gateways stand before the server with PID {}", pids.join(" and "))))
        }
        [] => Err(None),
    }
}

/// Whether a gateway has a server with this port; sockets are named by it too.
fn is_before(page: &str, port: u16) -> bool {
    let reading = Reading::of(page, PREFIX);
    let port = port.to_string();
    reading.of_name("server_up").any(|(labels, _)| {
        let servers = labels.get("server").map_or("", String::as_str).split(',');
        servers.filter_map(|server| server.rsplit([':', '.']).next()).any(|named| named == port)
    })
}

/// Counters of all its pools; `None` where the page is none of a gateway.
fn row(page: &str) -> Option<Row> {
    let reading = Reading::of(page, PREFIX);
    let mut row = Row::new();
    row.set("withheld_seconds", reading.sum("withheld_seconds_sum", &[])?);
    for (column, name) in [
        ("withheld", "withheld_seconds_count"),
        ("queue_wait_seconds", "queue_wait_seconds_sum"),
        ("queue_waits", "queue_wait_seconds_count"),
        ("execution_seconds", "execution_seconds_sum"),
        ("transactions", "transactions_total"),
        ("transaction_seconds", "transaction_seconds_total"),
        ("barriers", "barrier_seconds_count"),
        ("barrier_seconds", "barrier_seconds_sum"),
        // One that is started anew counts from zero.
        ("stats_reset", "start_time_seconds"),
    ] {
        if let Some(value) = reading.sum(name, &[]) {
            row.set(column, value);
        }
    }
    Some(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "walwright_gateway_start_time_seconds 1700000000.5\n\
        walwright_gateway_withheld_seconds_sum{database=\"a\",user=\"u\"} 1.5\n\
        walwright_gateway_withheld_seconds_sum{database=\"b\",user=\"u\"} 2\n\
        walwright_gateway_withheld_seconds_count{database=\"a\",user=\"u\"} 7\n\
        walwright_gateway_queue_wait_seconds_sum{database=\"a\",user=\"u\"} 0.25\n\
        walwright_gateway_server_up{server=\"/run/postgresql/.s.PGSQL.5433\"} 1\n\
        walwright_gateway_server_up{server=\"127.0.0.1:5432,db:5434\"} 1\n";

    #[test]
    fn a_gateway_is_read_over_all_its_pools() {
        let row = row(PAGE).unwrap();
        assert_eq!(row.number("withheld_seconds"), Some(3.5));
        assert_eq!(row.number("withheld"), Some(7.0));
        assert_eq!(row.number("queue_wait_seconds"), Some(0.25));
        assert_eq!(row.number("stats_reset"), Some(1_700_000_000.5));
        assert_eq!(row.number("barriers"), None);
        assert!(super::row("walwright_up 1\n").is_none());
    }

    #[test]
    fn it_stands_before_the_servers_that_it_names() {
        for (port, before) in [(5432, true), (5433, true), (5434, true), (543, false)] {
            assert_eq!(is_before(PAGE, port), before, "{port}");
        }
    }
}
