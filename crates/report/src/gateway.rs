//! A gateway: who waits, what is withheld for how long, how many a barrier sets free.

use crate::document::{Block, Cell, Column, Document, Figure, Part, Reach, Section, Table};
use crate::format;

/// What a gateway shows, with what has come since the reading before.
#[derive(Debug, Clone, Default)]
pub struct GatewaySeen {
    /// Where it was read.
    pub address: String,
    /// Clients with something under way.
    pub active: f64,
    /// Clients that wait for a session.
    pub waiting: f64,
    /// Longest that one of them has been waiting, in seconds.
    pub longest_wait: f64,
    /// Answers that wait for a barrier.
    pub answers_withheld: f64,
    /// Transactions that a crash could still take back.
    pub exposed: f64,
    /// Transactions a second.
    pub transactions: Option<f64>,
    /// How long answers were withheld, in seconds.
    pub withheld: Option<Spread>,
    /// How long statements waited for a session, in seconds.
    pub queue: Option<Spread>,
    /// How long barriers took, in seconds.
    pub barrier: Option<Spread>,
    /// Answers that a barrier set free.
    pub per_barrier: Option<Spread>,
    /// Clients that keep a session, by reason.
    pub pins: Vec<GatewayPin>,
    /// Pools.
    pub pools: Vec<GatewayPool>,
    /// Transactions a second over the last readings.
    pub throughput_course: Vec<f64>,
    /// The 99th percentile of the time withheld over the last readings.
    pub withheld_course: Vec<f64>,
}

/// What a histogram has gained.
#[derive(Debug, Clone, Default)]
pub struct Spread {
    /// How many.
    pub count: f64,
    /// Their mean.
    pub mean: f64,
    /// At most this at half of them; infinite beyond the last bound.
    pub p50: f64,
    /// At most this at all but one in a hundred.
    pub p99: f64,
}

/// Clients that keep a session for one reason.
#[derive(Debug, Clone, Default)]
pub struct GatewayPin {
    /// Why.
    pub reason: String,
    /// How many do.
    pub now: f64,
    /// How often one began to.
    pub ever: f64,
}

/// A pool.
#[derive(Debug, Clone, Default)]
pub struct GatewayPool {
    /// Its database.
    pub database: String,
    /// Its role.
    pub user: String,
    /// Clients with something under way.
    pub active: f64,
    /// Clients that wait for a session.
    pub waiting: f64,
    /// Sessions in use.
    pub sessions: f64,
    /// Sessions that wait for work.
    pub idle_sessions: f64,
    /// Answers that wait for a barrier.
    pub withheld: f64,
    /// Transactions a second.
    pub transactions: Option<f64>,
}

/// A gateway as it is.
pub fn gateway(of: &GatewaySeen) -> Document {
    let count = |value: f64| format::number(value);
    let whole = |value: f64| format::count(value.max(0.0) as u64);
    let rate = of.transactions.map(format::rate);
    let waiting = match of.waiting > 0.0 {
        true => format!("the longest for {}", format::seconds(of.longest_wait)),
        false => String::new(),
    };
    let barriers = of.per_barrier.as_ref();
    let exposed = format!("{} transactions a crash could take back", whole(of.exposed));
    let lead = Figure::new("Transactions", Some(rate.unwrap_or_else(|| "not yet".to_owned())));
    let figures = vec![
        Figure { lead: true, ..lead },
        Figure::new("Clients at work", Some(whole(of.active))),
        Figure::new("Waiting for a session", Some(whole(of.waiting))).note(waiting),
        Figure::new("Answers withheld", Some(whole(of.answers_withheld))).note(exposed),
        Figure::new("Clients a barrier", Some(barriers.map_or_else(none, |of| count(of.mean))))
            .note(
                barriers.map_or_else(String::new, |of| format!("{} at p99", bound(of.p99, count))),
            ),
    ];
    let times = [
        ("Time withheld", &of.withheld),
        ("Statements in the queue", &of.queue),
        ("Barriers", &of.barrier),
    ];
    let times = times.map(|(name, spread)| {
        let parts = spread.iter().flat_map(|of| {
            [("mean", of.mean), ("p50", of.p50), ("p99", of.p99)]
                .map(|(label, value)| Part::new(bound(value, format::seconds), label))
        });
        match spread {
            None => Figure::new(name, Some(none())),
            Some(_) => Figure::of(name, parts.collect()),
        }
    });
    let courses = [
        ("Transactions a second", &of.throughput_course),
        ("Time withheld, p99", &of.withheld_course),
    ];
    let courses = courses.map(|(name, course)| {
        vec![Cell::from(name), Cell { course: course.clone(), ..Cell::default() }]
    });
    let pools = of.pools.iter().map(|pool| {
        let numbers = [pool.active, pool.waiting, pool.sessions, pool.idle_sessions, pool.withheld];
        let mut row = vec![Cell::from(&pool.database), Cell::from(&pool.user)];
        row.extend(numbers.map(|value| Cell::from(whole(value))));
        row.push(Cell::from(pool.transactions.map(format::number).unwrap_or_default()));
        row
    });
    let pins = of.pins.iter().map(|pin| {
        vec![Cell::from(&pin.reason), Cell::from(whole(pin.now)), Cell::from(whole(pin.ever))]
    });
    let heads = ["at work", "waiting", "sessions", "idle", "withheld", "per second"];
    let mut columns = vec![Column::text("database"), Column::text("role")];
    columns.extend(heads.map(Column::number));
    let table = |columns, rows: Vec<Vec<Cell>>, missing: &str| match rows.is_empty() {
        true => Block::Missing(missing.to_owned()),
        false => Block::Table(Table { columns, rows }),
    };
    let section =
        |id: &'static str, title: &str, block| Section::new(id, title, Reach::Paper, vec![block]);
    let of_pins = vec![Column::text("reason"), Column::number("now"), Column::number("ever")];
    let over_time = vec![Column::text("figure"), Column::text("over the last readings")];
    Document {
        kind: "gateway",
        id: of.address.clone(),
        title: "Gateway".to_owned(),
        deck: vec!["Times and rates are of the seconds between two readings.".to_owned()],
        figures,
        beside: times.into(),
        sections: vec![
            section("course", "Over time", table(over_time, courses.into(), "")),
            section("pools", "Pools", table(columns, pools.collect(), "There are no pools yet.")),
            section(
                "pins",
                "Clients that keep a session",
                table(of_pins, pins.collect(), "No client keeps a session."),
            ),
        ],
        ..Document::default()
    }
}

fn none() -> String {
    "none".to_owned()
}

/// A bound of a histogram, of which the last has none.
fn bound(value: f64, shown: impl Fn(f64) -> String) -> String {
    if value.is_finite() { shown(value) } else { "more than is counted".to_owned() }
}
