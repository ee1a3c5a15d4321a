//! `/metrics` for Prometheus and `/healthz`, by a thread that no worker waits for.

use std::fmt::{Display, Write as _};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::runtime::Builder;
use walwright_http::{Endpoint, Form};

use crate::console::Overview;
use crate::control::Control;
use crate::report::{PoolReport, ServerReport};
use crate::{Histogram, Pin};

/// How often is looked whether the gateway ends.
const LOOK: Duration = Duration::from_millis(500);
/// A barrier that does not return for so long makes a server ill.
const ILL: Duration = Duration::from_secs(10);
/// Smallest and largest bound of buckets, in bits: 16 µs and 67 s.
const BOUNDS: std::ops::RangeInclusive<u32> = 4..=26;

/// Serves on a socket until the gateway ends; which address that is.
///
/// # Errors
/// When the system refuses.
pub fn serve(listener: TcpListener, control: Control) -> io::Result<SocketAddr> {
    listener.set_nonblocking(true)?;
    let place = listener.local_addr()?;
    let asked = control.clone();
    let metrics = Arc::new(move |form| match Overview::of(&asked, false) {
        Ok(overview) => Ok(exposition(form, &overview, asked.began())),
        Err(silent) => Err(silent.to_string()),
    });
    let asked = control.clone();
    let health = Arc::new(move || health(&asked).err());
    let ends = move || {
        let control = control.clone();
        async move {
            // Another gateway that takes over serves on the same socket.
            while !control.is_closed() && !control.is_handed_over() {
                tokio::time::sleep(LOOK).await;
            }
        }
    };
    let attend = move || {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            Endpoint::on(listener, metrics, health).serve(ends).await;
            io::Result::Ok(())
        })
    };
    std::thread::Builder::new().name("gateway-metrics".to_owned()).spawn(move || {
        if let Err(error) = attend() {
            tracing::error!("metrics are not served: {error}");
        }
    })?;
    Ok(place)
}

/// Whether clients can be served, as far as is known.
///
/// # Errors
/// With what is wrong, as a sentence.
fn health(control: &Control) -> Result<(), String> {
    let overview = Overview::of(control, false).map_err(|silent| silent.to_string())?;
    if overview.reports.is_empty() || overview.reports.iter().any(|report| report.closes) {
        return Err("the gateway takes no new clients: it is about to end".to_owned());
    }
    if overview.reports.len() < control.workers().len() {
        return Err("a worker has ended by a fault: restart the gateway".to_owned());
    }
    for server in overview.servers() {
        if let Some(trouble) = server.trouble {
            return Err(format!("the server at {} cannot be used: {trouble}", server.address));
        }
        if let Some(silent) = server.silent.filter(|silent| *silent > ILL) {
            let seconds = silent.as_secs();
            return Err(format!(
                "the server at {} has not answered a barrier for {seconds} s",
                server.address
            ));
        }
    }
    Ok(())
}

/// Metrics as text.
struct Exposition {
    text: String,
    form: Form,
}

/// Labels with their values.
type Labels<'l> = &'l [(&'l str, &'l str)];

impl Exposition {
    /// Begins a metric; names have a prefix.
    fn metric(&mut self, name: &str, kind: &str, help: &str) {
        // OpenMetrics calls a counter without what its values' names end in.
        let name = match self.form {
            Form::Prometheus => name,
            Form::OpenMetrics => name.strip_suffix("_total").unwrap_or(name),
        };
        // Text takes whatever is written to it.
        let _ = writeln!(
            self.text,
            "# HELP walwright_gateway_{name} {help}\n# TYPE walwright_gateway_{name} {kind}"
        );
    }

    fn value(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        let _ = write!(self.text, "walwright_gateway_{name}");
        for (place, (label, value)) in labels.iter().enumerate() {
            let open = if place == 0 { '{' } else { ',' };
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.text, "{open}{label}=\"{value}\"");
        }
        let close = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{close} {value}");
    }

    /// A histogram; what was counted times `unit` is what is told.
    fn histogram(&mut self, name: &str, labels: Labels<'_>, of: &Histogram, unit: f64) {
        let bucket = format!("{name}_bucket");
        for (below, count) in of.powers() {
            if BOUNDS.contains(&below.ilog2()) || unit >= 1.0 && below <= 1 << 16 {
                // Values are whole: those below a bound are at most one less.
                let bound = if unit >= 1.0 { below - 1 } else { below };
                let bound = (bound as f64 * unit).to_string();
                self.value(&bucket, &[labels, &[("le", &bound)]].concat(), count);
            }
        }
        let count = of.count();
        self.value(&bucket, &[labels, &[("le", "+Inf")]].concat(), count);
        self.value(&format!("{name}_sum"), labels, of.sum() as f64 * unit);
        self.value(&format!("{name}_count"), labels, count);
    }
}

/// Microseconds as seconds.
const MICROS: f64 = 1e-6;

/// The metrics of pools and servers, of none: what they are called.
pub fn describe() -> String {
    let mut out = Exposition { text: String::new(), form: Form::Prometheus };
    of_pools(&mut out, &[]);
    of_servers(&mut out, &[]);
    out.text
}

fn exposition(form: Form, overview: &Overview, began: SystemTime) -> String {
    let mut out = Exposition { text: String::new(), form };
    let began = began.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    out.metric("start_time_seconds", "gauge", "When the gateway began, since 1970.");
    out.value("start_time_seconds", &[], began.as_secs_f64());
    out.metric("clients_logging_in", "gauge", "Clients that are not let in yet.");
    out.value("clients_logging_in", &[], overview.logging_in());
    out.metric("paused", "gauge", "Whether all databases are paused.");
    out.value("paused", &[], u8::from(overview.paused.all));
    of_pools(&mut out, &overview.pools());
    of_servers(&mut out, &overview.servers());
    if form == Form::OpenMetrics {
        out.text.push_str("# EOF\n");
    }
    out.text
}

/// Values of a pool, each with a label more if need be.
type Values = Vec<(Option<(&'static str, &'static str)>, f64)>;

fn of_pools(out: &mut Exposition, pools: &[PoolReport]) {
    let labels =
        |pool: &'_ PoolReport| [("database", pool.database.clone()), ("user", pool.user.clone())];
    let mut each = |name: &str, kind: &str, help: &str, values: &dyn Fn(&PoolReport) -> Values| {
        out.metric(name, kind, help);
        for pool in pools {
            let own = labels(pool);
            for (more, value) in values(pool) {
                let labels: Vec<(&str, &str)> =
                    own.iter().map(|(name, value)| (*name, value.as_str())).chain(more).collect();
                out.value(name, &labels, value);
            }
        }
    };
    let state = |name: &'static str, count: usize| (Some(("state", name)), count as f64);
    each("clients", "gauge", "Clients.", &|of| {
        vec![state("active", of.active), state("waiting", of.waiting)]
    });
    each("server_sessions", "gauge", "Server sessions.", &|of| {
        vec![
            state("active", of.used),
            state("idle", of.idle),
            state("login", of.opening),
            state("being_canceled", of.cancelling),
        ]
    });
    each(
        "longest_wait_seconds",
        "gauge",
        "Longest that a client has been waiting for a session.",
        &|of| vec![(None, of.longest.as_secs_f64())],
    );
    each("answers_withheld", "gauge", "Answers that wait for a barrier.", &|of| {
        vec![(None, of.withheld as f64)]
    });
    each("clients_pinned", "gauge", "Clients that keep a session, by reason.", &|of| {
        let pin = |pin: Pin| (Some(("reason", pin.name())), of.pinned[pin as usize] as f64);
        Pin::ALL.map(pin).to_vec()
    });
    each(
        "pins_total",
        "counter",
        "Times that a client began to keep its session, by reason.",
        &|of| {
            let pin = |pin: Pin| (Some(("reason", pin.name())), of.stats.pins[pin as usize] as f64);
            Pin::ALL.map(pin).to_vec()
        },
    );
    each("logins_total", "counter", "Clients that were let in.", &|of| {
        vec![(None, of.stats.logins as f64)]
    });
    each("transactions_total", "counter", "Transactions that ended.", &|of| {
        vec![(None, of.stats.xacts as f64)]
    });
    each("transaction_seconds_total", "counter", "Time in transactions.", &|of| {
        vec![(None, of.stats.xact_time as f64 * MICROS)]
    });
    each("received_bytes_total", "counter", "Bytes that clients sent.", &|of| {
        vec![(None, of.stats.received as f64)]
    });
    each("sent_bytes_total", "counter", "Bytes that clients were sent.", &|of| {
        vec![(None, of.stats.sent as f64)]
    });
    each("parses_total", "counter", "Parse messages of clients, and to the server.", &|of| {
        let (client, server) = (of.stats.client_parses as f64, of.stats.server_parses as f64);
        vec![(Some(("side", "client")), client), (Some(("side", "server")), server)]
    });
    each("binds_total", "counter", "Bind messages of clients.", &|of| {
        vec![(None, of.stats.binds as f64)]
    });
    type Of = fn(&PoolReport) -> &Histogram;
    let times: [(&str, &str, Of); 3] = [
        ("queue_wait_seconds", "How long statements waited for a session.", |of| {
            &of.stats.queue_wait
        }),
        ("execution_seconds", "From sending a statement until its answer.", |of| {
            &of.stats.execution
        }),
        ("withheld_seconds", "How long answers waited for their barrier.", |of| &of.stats.withheld),
    ];
    for (name, help, of) in times {
        out.metric(name, "histogram", help);
        for pool in pools {
            let own = labels(pool);
            let own = own.each_ref().map(|(name, value)| (*name, value.as_str()));
            out.histogram(name, &own, of(pool), MICROS);
        }
    }
}

fn of_servers(out: &mut Exposition, servers: &[ServerReport]) {
    let mut each = |name: &str, kind: &str, help: &str, value: &dyn Fn(&ServerReport) -> f64| {
        out.metric(name, kind, help);
        for server in servers {
            out.value(name, &[("server", &server.address)], value(server));
        }
    };
    each("server_up", "gauge", "Whether nothing bad is known of the server.", &|of| {
        f64::from(u8::from(of.trouble.is_none()))
    });
    each(
        "transactions_exposed",
        "gauge",
        "Transactions that a crash could still take back.",
        &|of| of.exposed as f64,
    );
    each("barrier_sessions_lost_total", "counter", "Barrier sessions that were lost.", &|of| {
        of.stats.lost as f64
    });
    out.metric("barrier_seconds", "histogram", "From sending a barrier until it returned.");
    for server in servers {
        out.histogram(
            "barrier_seconds",
            &[("server", &server.address)],
            &server.stats.time,
            MICROS,
        );
    }
    out.metric("barrier_clients", "histogram", "Answers that a barrier gave free.");
    for server in servers {
        out.histogram(
            "barrier_clients",
            &[("server", &server.address)],
            &server.stats.clients,
            1.0,
        );
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::sync::mpsc::channel;

    use mio::{Poll, Token, Waker};
    use walwright_wire::{ConnectOptions, Host};

    use super::*;
    use crate::Options;
    use crate::gateway::Handle;
    use crate::report::Report;
    use crate::worker::Order;

    /// The health of a gateway with two workers, of which so many have not ended.
    fn health_with(live: usize) -> Result<(), String> {
        let poll = Poll::new().expect("a poll");
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).expect("a waker"));
        let worker = |number: usize| {
            let (orders, taken) = channel();
            if number < live {
                std::thread::spawn(move || {
                    while let Ok(Order::Report(ask)) = taken.recv() {
                        ask.answer.send((number, Report::default())).expect("it waits");
                    }
                });
            }
            Handle { orders, waker: waker.clone() }
        };
        let workers = Arc::new(OnceLock::from(vec![worker(0), worker(1)]));
        let server = ConnectOptions::new(Host::Tcp("h".to_owned()), 1, "u", "d");
        health(&Control::new(workers, Arc::new(Options::new(server))))
    }

    #[test]
    fn a_worker_that_has_ended_is_missed() {
        assert_eq!(health_with(2), Ok(()));
        assert!(health_with(1).is_err_and(|why| why.contains("a worker has ended")));
    }
}
