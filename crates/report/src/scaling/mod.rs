//! A sweep over clients: its page.

mod words;

use walwright_figures::scaling::{Growth, Scaling, ScalingLoad};

use crate::document::{Block, Cell, Chart, Column, Document, Reach, Section, Table, Warning};
use crate::format;
use crate::svg::scaling::ink;

/// The page of a sweep: the curve with its band, every run, where the latency goes at each
/// load, and what grows towards the bend.
pub fn scaling(of: &Scaling) -> Document {
    let mut verdict = of.verdict.iter().cloned();
    let (first, rest) = (verdict.next(), verdict.map(Block::Text).collect::<Vec<_>>());
    let left_out = of.left_out.iter().map(|run| format!("left out: {run}"));
    let warnings: Vec<String> = left_out.chain(of.warnings.iter().cloned()).collect();
    Document {
        kind: "sweep",
        id: of.name.clone(),
        title: words::title(of),
        deck: vec![words::deck(of)],
        verdict: first,
        warnings: warnings.iter().map(|warning| Warning::saying(warning)).collect(),
        sections: vec![curve(of, rest), breakdown(of), runs(of)],
        ..Document::default()
    }
}

fn curve(of: &Scaling, told: Vec<Block>) -> Section {
    let mut blocks = told;
    blocks.push(Block::Aside(vec![Block::Lede(
        "Dots are runs, with the precision inside each. The curve is the universal scalability law fitted to them, the band where it lies with 95 % confidence."
            .to_owned(),
    )]));
    blocks.push(Block::Chart(Chart::ScalingThroughput(Box::new(of.clone()))));
    let parameters = words::parameters(of);
    if !parameters.is_empty() {
        let columns = vec![
            Column::text("Fitted"),
            Column::number("Value"),
            Column::number("95 % interval"),
            Column::muted("What it is"),
        ];
        let rows = parameters.into_iter().map(|parameter| {
            vec![
                Cell::from(parameter.name),
                Cell::from(parameter.value),
                Cell::from(parameter.interval),
                Cell::from(parameter.about),
            ]
        });
        blocks.push(Block::Heading("Universal scalability law".to_owned()));
        blocks.push(Block::Table(Table { rows: rows.collect(), columns }));
    }
    Section::new("curve", "Throughput over clients", Reach::Paper, blocks)
}

fn breakdown(of: &Scaling) -> Section {
    let sampled = of.loads.iter().any(|load| !load.times.is_empty());
    let mut blocks = vec![match sampled {
        true => Block::Chart(Chart::ScalingBreakdown(Box::new(of.clone()))),
        false => Block::Missing("Not observable: wait events were not sampled.".to_owned()),
    }];
    blocks.push(Block::Table(loads(of)));
    if let Some(bend) = of.bend.as_ref().filter(|bend| !bend.growths.is_empty()) {
        let to = format::counted(bend.to.into(), "client");
        blocks.push(Block::Heading(format!("What grows from {} to {to}", bend.from)));
        blocks.push(Block::Table(growths(&bend.growths)));
    }
    Section::new("latency-breakdown", "Where the latency goes at each load", Reach::Paper, blocks)
}

/// Each load and the shares of its latency.
fn loads(of: &Scaling) -> Table {
    let resources = words::resources(of);
    let mut columns = vec![
        Column::number("Clients"),
        Column::number("Per second"),
        Column::number("Mean latency"),
        Column::number("p99"),
        Column::number("Busy"),
    ];
    columns.extend(resources.iter().map(|resource| Column::number(words::short(*resource))));
    let row = |load: &ScalingLoad| {
        let figures = [
            load.clients.to_string(),
            format::estimate(&load.throughput, ""),
            load.latency.map_or_else(String::new, format::seconds),
            load.p99.map_or_else(String::new, format::seconds),
            load.busy.map_or_else(String::new, |busy| format!("{:.0} %", busy * 100.0)),
        ];
        let shares = resources.iter().map(|resource| words::share(load, *resource));
        figures.into_iter().chain(shares).map(Cell::from).collect()
    };
    Table { rows: of.loads.iter().map(row).collect(), columns }
}

fn growths(of: &[Growth]) -> Table {
    let columns = vec![
        Column::text("Resource"),
        Column::number("Share before"),
        Column::number("Share after"),
        Column::number("Longer by"),
        Column::number("95 % interval"),
        Column::number("Of the increase"),
    ];
    let row = |growth: &Growth| {
        let interval = growth.seconds.interval;
        let name = growth.resource.label();
        vec![
            Cell { key: Some(ink(growth.resource)), ..Cell::from(name) },
            Cell::from(format::percent(growth.before)),
            Cell::from(format::percent(growth.after)),
            Cell::from(format::seconds(growth.seconds.center)),
            Cell::from(interval.map_or_else(String::new, |ends| {
                format!("{} to {}", format::seconds(ends.low), format::seconds(ends.high))
            })),
            Cell::from(growth.part_of_increase.map_or_else(String::new, format::percent)),
        ]
    };
    Table { rows: of.iter().map(row).collect(), columns }
}

/// The runs of each load, and what each one's diagnosis names first.
fn runs(of: &Scaling) -> Section {
    let columns = vec![
        Column::number("Clients"),
        Column::number("Generator"),
        Column::code("Runs"),
        Column::text("Found first"),
    ];
    let row = |load: &ScalingLoad| {
        let runs: Vec<&str> = load.runs.iter().map(|run| run.0.as_str()).collect();
        let found = load.finding.as_ref();
        vec![
            Cell::from(load.clients.to_string()),
            Cell::from(load.generator.map_or_else(String::new, format::percent)),
            Cell::from(runs.join(", ")),
            Cell::from(found.map_or_else(String::new, |of| format!("{}: {}", of.id, of.cause))),
        ]
    };
    let table = Table { rows: of.loads.iter().map(row).collect(), columns };
    let lede = "Generator is how busy the load generator's busiest thread was.";
    let blocks = vec![Block::Lede(lede.to_owned()), Block::Table(table)];
    Section::new("runs", "Runs", Reach::Page, blocks)
}
