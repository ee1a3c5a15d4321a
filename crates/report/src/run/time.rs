//! Where the time of a transaction went.

use walwright_figures::{Summary, TimePart, TimeSplit, WaitClass};
use walwright_stats::Estimate;

use crate::document::{Block, Cell, Chart, Column, Reach, Section, Share, Table};
use crate::svg::Ink;
use crate::{format, words};

/// The latency of a transaction by what sessions did, or why that is not known.
pub(super) fn time(summary: &Summary) -> Section {
    // Without a window there is nothing that a summary could say of it.
    let reach = if summary.window.is_some() { Reach::Everywhere } else { Reach::Page };
    let section = |title, blocks| Section::new("time", title, reach, blocks);
    let Some(split) = summary.time.as_ref().filter(|split| split.unseen().is_none()) else {
        let missing = vec![Block::Missing(missing(summary))];
        return section("Where the time went".to_owned(), missing);
    };
    let unit = split.unit.name();
    let (title, of) = match split.latency {
        Some(latency) => (
            format!("Where the {} of a {unit} went", format::latency(latency)),
            format!("The mean latency of a {unit}"),
        ),
        None => {
            let place = split.place();
            let whole = format::seconds(split.whole());
            (
                format!("Where the {whole} of a {unit} {place} went"),
                format!("The time a {unit} spends {place}"),
            )
        }
    };
    let rows = rows(split);
    let shares = rows.iter().map(|row| row.share.clone()).collect();
    let ticks = format::counted(split.ticks as u64, "sample");
    let how = match &split.sampled_because {
        None => format!(
            "CPU and the wait for a processor are the kernel's count; {ticks} of wait events \
             divide the rest"
        ),
        Some(why) => {
            format!("{ticks} of wait events; the wait for a processor hides in them, since {why}")
        }
    };
    let mut blocks = vec![
        Block::Lede(format!("{of}, by what sessions in a transaction did: {how}.")),
        Block::Chart(Chart::Shares(shares)),
        Block::Table(Table {
            columns: vec![
                Column::text("Sessions were"),
                Column::number("Share"),
                Column::number("95 % interval"),
                Column::number("Mean sessions"),
                Column::number(format!("Per {unit}")),
                Column::muted("Most of it"),
            ],
            rows: rows.into_iter().map(Row::cells).collect(),
        }),
    ];
    blocks.extend(split.warnings.iter().map(|d| Block::Lede(words::sentence(d))));
    if let Some(counted) = split.counted_flush {
        let sampled = split.part(WaitClass::Flush).map(|p| p.per_transaction.center);
        let sampled = sampled.map_or(format::NOT_OBSERVABLE.to_owned(), format::seconds);
        blocks.push(Block::Lede(format!(
            "By the server's own counters flushes took {} a {unit}, by sampling {sampled}.",
            format::latency(counted)
        )));
    }
    section(title, blocks)
}

struct Row {
    share: Share,
    interval: String,
    sessions: String,
    about: String,
}

impl Row {
    fn cells(self) -> Vec<Cell> {
        let Share { name, share, seconds, ink } = self.share;
        vec![
            Cell { key: Some(ink), ..Cell::from(name) },
            format::percent(share).into(),
            self.interval.into(),
            self.sessions.into(),
            format::seconds(seconds).into(),
            self.about.into(),
        ]
    }
}

fn rows(split: &TimeSplit) -> Vec<Row> {
    let whole = split.whole();
    let outside = |name: &str, share, seconds, about: &str| Row {
        share: Share { name: name.to_owned(), share, seconds, ink: Ink::Outside },
        interval: String::new(),
        sessions: String::new(),
        about: about.to_owned(),
    };
    let queue = split.queue.filter(|q| !q.is_zero()).map(|queue| {
        let seconds = queue.as_secs_f64();
        outside("waiting to begin", seconds / whole, seconds, "lag: due, but no client was free")
    });
    let (rest, about) = match (split.is_withheld, split.asks_http) {
        (true, _) => (
            "withheld, network",
            "answers that waited in the gateway for a session, or until they were durable",
        ),
        (_, true) => (
            "outside, network",
            "network, and queues of the application: its threads serve many requests",
        ),
        _ => (
            "outside, network",
            "outside the transaction: network, the client's own work, what sampling cannot see",
        ),
    };
    let residual = split.residual.as_ref().map(|residual| Row {
        interval: interval(&residual.clone().map(|s| s / whole)),
        ..outside(rest, split.residual_share.unwrap_or(0.0), residual.center, about)
    });
    let pooler = split.pooler.into_iter().flat_map(|pooler| {
        let about = "at least: one message carries answers of several";
        [("pooler CPU", pooler.cpu), ("pooler waiting for CPU", pooler.run_delay)].map(
            |(name, time)| outside(name, time.as_secs_f64() / whole, time.as_secs_f64(), about),
        )
    });
    let driver = split.driver.into_iter().flat_map(|driver| {
        let about = match driver.ours {
            true => ["threads of the load generator", "at least: a thread serves several clients"],
            false => ["processes that hold the connections", "at least: of them in transactions"],
        };
        let times = [driver.cpu, driver.run_delay].map(|time| time.as_secs_f64());
        let lines = driver.labels().into_iter().zip(times).zip(about);
        let lines =
            lines.map(|((name, seconds), about)| outside(name, seconds / whole, seconds, about));
        lines.collect::<Vec<_>>()
    });
    let gateway = split.gateway.into_iter().flat_map(|of| {
        let about =
            ["answers in the gateway, until their flush returned", "for a session of its pool"];
        of.lines().into_iter().zip(about).map(|((name, time), about)| {
            let seconds = time.as_secs_f64();
            outside(name, seconds / whole, seconds, about)
        })
    });
    let application =
        split.application.into_iter().flat_map(|of| of.lines()).map(|(name, time)| {
            let about = match name {
                "wait for the pool" => "for a session of the application's pool, as it tells",
                _ => "at least: a thread serves several requests",
            };
            outside(name, time.as_secs_f64() / whole, time.as_secs_f64(), about)
        });
    let parts = split.parts.iter().map(|of| part(split, of));
    queue
        .into_iter()
        .chain(parts)
        .chain(gateway)
        .chain(application)
        .chain(driver)
        .chain(pooler)
        .chain(residual)
        .collect()
}

fn part(split: &TimeSplit, part: &TimePart) -> Row {
    let events: Vec<String> = part
        .events
        .iter()
        .filter(|_| !matches!(part.class, WaitClass::Cpu | WaitClass::RunQueue))
        .map(|e| format!("{} {}", e.event, format::seconds(e.per_transaction)))
        .collect();
    Row {
        share: Share {
            name: split.label(part.class).to_owned(),
            share: part.share.center,
            seconds: part.per_transaction.center,
            ink: words::ink(part.class),
        },
        interval: interval(&part.share),
        sessions: format::number(part.sessions),
        about: events.join(", "),
    }
}

/// The interval of a share. Nothing is less than none of a whole, or more than all of it.
fn interval(of: &Estimate) -> String {
    of.interval.map(|i| i.map(|share| share.clamp(0.0, 1.0))).map_or_else(String::new, |i| {
        let low = format::percent(i.low);
        format!("{} to {}", low.strip_suffix(" %").unwrap_or(&low), format::percent(i.high))
    })
}

/// Why there is no split.
fn missing(summary: &Summary) -> String {
    if let Some(unseen) = summary.time.as_ref().and_then(TimeSplit::unseen) {
        return words::sentence(&unseen);
    }
    let why = summary.not_observable.iter().find(|n| n.figure == walwright_figures::TIME);
    match why {
        Some(gap) => format!("Not observable, {}.", gap.why),
        None => "Not observable, the run has no measured window.".to_owned(),
    }
}
