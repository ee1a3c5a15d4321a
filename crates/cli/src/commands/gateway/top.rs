//! `walwright gateway top`: a gateway while it works.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use ratatui::layout::{Constraint, Layout};
use ratatui::prelude::{Frame, Line};
use ratatui::widgets::Paragraph;
use serde::Serialize;
use walwright_report::format;
use walwright_server::{ConnectParams, Stop};
use walwright_wire::{Connection, Connector};

use crate::args::TopArgs;
use crate::commands::runtime::{Parting, until_measured};
use crate::output::{Output, print};
use crate::show::screen::{self, Paint, View};

/// Longest that the console may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often is looked whether the view is to end.
const LOOK: Duration = Duration::from_millis(50);

/// Shows a gateway until it is told to stop.
pub fn execute(args: &TopArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let params = ConnectParams::resolve(Some(args.gateway.expose()))?.with_dbname("pgbouncer");
    let mut source = Source { params, connection: None };
    let mut before = source.sample()?;
    if args.once || output.json {
        std::thread::sleep(args.interval);
        let figures = Figures::between(&before, &source.sample()?);
        output.result(&figures, || figures.lines().join("\n") + "\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    until_measured(Parting::LOOKING, |stop| {
        let address = source.params.address();
        let view = Arc::new(Mutex::new(Top { address, figures: None, trouble: None }));
        let terminal = std::io::stderr().is_terminal() && std::io::stdin().is_terminal();
        let paint = Paint { colour: output.colour_err };
        let guard = match terminal {
            true => Some(screen::show(Arc::clone(&view), stop.clone(), paint)?),
            false => None,
        };
        while !wait(args.interval, stop) {
            let sampled = source.sample();
            let mut view = view.lock().unwrap_or_else(PoisonError::into_inner);
            match sampled {
                Ok(now) => {
                    let figures = Figures::between(&before, &now);
                    if guard.is_none() {
                        print(&(figures.lines().join("\n") + "\n\n"))?;
                    }
                    (view.figures, view.trouble) = (Some(figures), None);
                    before = now;
                }
                Err(error) if guard.is_some() => view.trouble = Some(format!("{error:#}")),
                Err(error) => return Err(error),
            }
        }
        Ok(ExitCode::SUCCESS)
    })?
}

/// Waits; whether the view is to end.
fn wait(time: Duration, stop: &Stop) -> bool {
    let until = Instant::now() + time;
    while !stop.is_requested() && Instant::now() < until {
        std::thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
    }
    stop.is_requested()
}

/// Where samples come from.
struct Source {
    params: ConnectParams,
    connection: Option<Connection>,
}

type Rows = Vec<HashMap<String, Option<String>>>;

/// What the console says at one moment.
struct Sample {
    at: Instant,
    pools: Rows,
    totals: Rows,
    times: Rows,
    barriers: Rows,
    pins: Rows,
    state: Rows,
}

impl Source {
    fn sample(&mut self) -> anyhow::Result<Sample> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let connected = Connector::new(self.params.wire_options());
                let connected = connected.and_then(|connector| connector.connect());
                let mut connection = connected.with_context(|| {
                    format!("connecting to the gateway's console at {}", self.params.address())
                })?;
                connection.set_time_limit(Some(PATIENCE));
                connection
            }
        };
        let mut show = |what: &str| {
            let asked = connection.query_named(&format!("SHOW {what}"));
            asked.with_context(|| format!("asking the console for {what}"))
        };
        let sample = Sample {
            at: Instant::now(),
            pools: show("POOLS")?,
            totals: show("STATS_TOTALS")?,
            times: show("TIMES")?,
            barriers: show("BARRIERS")?,
            pins: show("PINS")?,
            state: show("STATE")?,
        };
        self.connection = Some(connection);
        Ok(sample)
    }
}

/// A gateway over an interval; times are seconds, rates are a second's.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Figures {
    paused: bool,
    transactions: f64,
    queries: f64,
    received: f64,
    sent: f64,
    pools: Vec<Pool>,
    barriers: Vec<Barriers>,
    pins: Vec<Pins>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Pool {
    database: String,
    user: String,
    clients: u64,
    waiting: u64,
    sessions: u64,
    idle: u64,
    queries: f64,
    queue_wait: f64,
    execution: f64,
    withheld: f64,
    /// Since the gateway began.
    withheld_p99: f64,
}

#[derive(Debug, PartialEq, Serialize)]
struct Barriers {
    server: String,
    state: String,
    /// A second.
    rate: f64,
    /// Clients a barrier.
    clients: f64,
    time: f64,
    withheld: u64,
    exposed: u64,
    lost: u64,
}

#[derive(Debug, PartialEq, Serialize)]
struct Pins {
    database: String,
    user: String,
    reason: String,
    clients: u64,
    total: u64,
}

fn text(row: &HashMap<String, Option<String>>, name: &str) -> String {
    row.get(name).cloned().flatten().unwrap_or_default()
}

fn number(row: &HashMap<String, Option<String>>, name: &str) -> u64 {
    text(row, name).parse().unwrap_or_default()
}

/// By how much a column of a row grew since the row that has the same in other columns.
fn growth(now: &HashMap<String, Option<String>>, before: &Rows, keys: &[&str], name: &str) -> f64 {
    let same = |row: &&HashMap<String, Option<String>>| {
        keys.iter().all(|key| row.get(*key) == now.get(*key))
    };
    let old = before.iter().find(same).map_or(0, |row| number(row, name));
    number(now, name).saturating_sub(old) as f64
}

/// Microseconds as seconds.
const MICROS: f64 = 1e-6;

impl Figures {
    fn between(before: &Sample, now: &Sample) -> Figures {
        let seconds = (now.at - before.at).as_secs_f64().max(1e-3);
        let total = |name: &str| {
            let all = now.totals.iter();
            all.map(|row| growth(row, &before.totals, &["database"], name)).sum::<f64>() / seconds
        };
        let pool = |row: &HashMap<String, Option<String>>| {
            let (database, user) = (text(row, "database"), text(row, "user"));
            let keys = ["database", "user", "what"];
            let of = |what: &str| {
                let is = |times: &&HashMap<String, Option<String>>| {
                    text(times, "database") == database
                        && text(times, "user") == user
                        && text(times, "what") == what
                };
                let times = now.times.iter().find(is);
                times.map_or((0.0, 0.0, 0), |times| {
                    let count = growth(times, &before.times, &keys, "count");
                    let time = growth(times, &before.times, &keys, "time");
                    (count, time * MICROS / count.max(1.0), number(times, "p99"))
                })
            };
            let (queries, execution, _) = of("execution");
            let (_, withheld, p99) = of("withheld");
            let idle = number(row, "sv_idle");
            Pool {
                clients: number(row, "cl_active") + number(row, "cl_waiting"),
                waiting: number(row, "cl_waiting"),
                sessions: number(row, "sv_active") + idle,
                idle,
                queries: queries / seconds,
                queue_wait: of("queue_wait").1,
                execution,
                withheld,
                withheld_p99: p99 as f64 * MICROS,
                database,
                user,
            }
        };
        let barriers = |row: &HashMap<String, Option<String>>| {
            let of = |name: &str| growth(row, &before.barriers, &["server"], name);
            let count = of("barriers");
            Barriers {
                server: text(row, "server"),
                state: text(row, "state"),
                rate: count / seconds,
                clients: of("clients") / count.max(1.0),
                time: of("time") * MICROS / count.max(1.0),
                withheld: number(row, "withheld"),
                exposed: number(row, "exposed"),
                lost: number(row, "lost"),
            }
        };
        let pins = |row: &HashMap<String, Option<String>>| Pins {
            database: text(row, "database"),
            user: text(row, "user"),
            reason: text(row, "reason"),
            clients: number(row, "clients"),
            total: number(row, "total"),
        };
        let paused = now.state.iter().find(|row| text(row, "key") == "paused");
        Figures {
            paused: paused.is_some_and(|row| text(row, "value") == "yes"),
            transactions: total("xact_count"),
            queries: total("query_count"),
            received: total("bytes_received"),
            sent: total("bytes_sent"),
            pools: now.pools.iter().map(pool).collect(),
            barriers: now.barriers.iter().map(barriers).collect(),
            pins: now.pins.iter().map(pins).collect(),
        }
    }

    /// For people, a line each; titles begin at the margin.
    fn lines(&self) -> Vec<String> {
        let time = |seconds: f64| match seconds {
            0.0 => "-".to_owned(),
            _ => format::latency(Duration::from_secs_f64(seconds)),
        };
        let mut lines = vec![format!(
            "{}{} transactions/s   {} queries/s   in {}   out {}",
            if self.paused { "paused   " } else { "" },
            format::number(self.transactions),
            format::number(self.queries),
            format::byte_rate(self.received),
            format::byte_rate(self.sent),
        )];
        lines.push(String::new());
        let mut table = vec![
            ["database", "user", "clients", "waiting", "sessions", "idle", "queries/s"]
                .map(str::to_owned)
                .to_vec(),
        ];
        let times = ["wait", "execution", "withheld", "p99"];
        table[0].extend(times.map(str::to_owned));
        for pool in &self.pools {
            let counts = [pool.clients, pool.waiting, pool.sessions, pool.idle];
            let mut row = vec![pool.database.clone(), pool.user.clone()];
            row.extend(counts.map(|count| count.to_string()));
            row.push(format::number(pool.queries));
            let times = [pool.queue_wait, pool.execution, pool.withheld, pool.withheld_p99];
            row.extend(times.map(time));
            table.push(row);
        }
        lines.extend(aligned(&table, 2));
        lines.push(String::new());
        let mut table = vec![
            [
                "server",
                "state",
                "barriers/s",
                "clients each",
                "time",
                "withheld",
                "exposed",
                "lost",
            ]
            .map(str::to_owned)
            .to_vec(),
        ];
        for of in &self.barriers {
            table.push(vec![
                of.server.clone(),
                of.state.clone(),
                format::number(of.rate),
                format!("{:.1}", of.clients),
                time(of.time),
                of.withheld.to_string(),
                of.exposed.to_string(),
                of.lost.to_string(),
            ]);
        }
        lines.extend(aligned(&table, 2));
        if !self.pins.is_empty() {
            lines.push(String::new());
            let mut table = vec![
                ["database", "user", "keeps its session for", "clients", "in all"]
                    .map(str::to_owned)
                    .to_vec(),
            ];
            for pin in &self.pins {
                let names = [&pin.database, &pin.user, &pin.reason].map(String::clone);
                let counts = [pin.clients, pin.total].map(|count| count.to_string());
                table.push(names.into_iter().chain(counts).collect());
            }
            lines.extend(aligned(&table, 3));
        }
        lines
    }
}

/// Rows with their columns below each other; the first `texts` of them begin at the left.
fn aligned(rows: &[Vec<String>], texts: usize) -> Vec<String> {
    let count = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if column < texts { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// The view on a terminal.
struct Top {
    address: String,
    figures: Option<Figures>,
    trouble: Option<String>,
}

impl View for Top {
    fn draw(&self, frame: &mut Frame<'_>, stopping: bool, paint: Paint) {
        let rows =
            Layout::vertical([Constraint::Length(2), Constraint::Fill(1), Constraint::Length(1)])
                .split(frame.area());
        let title = format!("walwright gateway: {}", self.address);
        frame.render_widget(Paragraph::new(Line::from(paint.title(&title))), rows[0]);
        let mut lines = match &self.figures {
            Some(figures) => figures.lines(),
            None => vec!["measuring".to_owned()],
        };
        if let Some(trouble) = &self.trouble {
            lines.insert(0, trouble.clone());
        }
        // Names are those of databases and users: whatever they hold is shown, not acted on.
        let lines = lines
            .into_iter()
            .map(|line| Line::from(walwright_report::terminal::printable(&line).into_owned()));
        frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), rows[1]);
        let keys = if stopping { "ending" } else { "q ends" };
        frame.render_widget(Paragraph::new(Line::styled(keys, paint.faint())), rows[2]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pairs: &[(&str, &str)]) -> HashMap<String, Option<String>> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned()))).collect()
    }

    fn sample(at: Instant, count: &str, time: &str) -> Sample {
        let pool = [("database", "d"), ("user", "u")];
        let times = [&pool[..], &[("what", "execution"), ("count", count), ("time", time)]];
        Sample {
            at,
            pools: vec![row(&[&pool[..], &[("cl_active", "3"), ("cl_waiting", "1")]].concat())],
            totals: vec![row(&[("database", "d"), ("xact_count", count)])],
            times: vec![row(&times.concat())],
            barriers: vec![row(&[("server", "s"), ("barriers", count), ("clients", time)])],
            pins: Vec::new(),
            state: vec![row(&[("key", "paused"), ("value", "no")])],
        }
    }

    #[test]
    fn rates_are_those_between_two_samples() {
        let begin = Instant::now();
        let before = sample(begin, "100", "1000");
        let now = sample(begin + Duration::from_secs(2), "300", "5000");
        let figures = Figures::between(&before, &now);
        assert_eq!(figures.transactions, 100.0);
        let pool = &figures.pools[0];
        assert_eq!((pool.clients, pool.waiting, pool.queries), (4, 1, 100.0));
        assert!((pool.execution - 20e-6).abs() < 1e-9, "{pool:?}");
        assert_eq!((figures.barriers[0].rate, figures.barriers[0].clients), (100.0, 20.0));
        let lines = figures.lines().join("\n");
        assert!(lines.contains("100 transactions/s") && lines.contains("20.0"), "{lines}");
    }
}
