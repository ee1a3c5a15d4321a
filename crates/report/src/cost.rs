//! What measured rates cost: its page.

use walwright_cost::{Cost, PriceList, Saving, Smaller, Verdict};
use walwright_stats::Interval;

use crate::document::{Block, Column, Document, Reach, Section, Table, Warning};
use crate::format;

/// The page of what capacities cost, the first of which the others are held against.
pub fn cost(costs: &[Cost], prices: &PriceList) -> Document {
    let mut warnings: Vec<&String> =
        costs.iter().flat_map(|cost| &cost.capacity.warnings).collect();
    warnings.sort();
    warnings.dedup();
    let mut sections = vec![compared(costs, prices), bills(costs, prices)];
    if let [base, others @ ..] = costs
        && !others.is_empty()
    {
        sections.insert(1, savings(base, others, prices));
    }
    if costs.iter().any(|cost| !cost.smaller.is_empty()) {
        sections.push(smaller(costs, prices));
    }
    let names = costs.iter().map(|cost| cost.capacity.name.as_str()).collect::<Vec<_>>();
    Document {
        kind: "cost",
        id: costs.iter().flat_map(|cost| &cost.capacity.runs).next().cloned().unwrap_or_default(),
        title: format!("What {} cost", names.join(", ")),
        verdict: costs.last().map(|cost| sentence(costs, cost, prices)),
        sections,
        warnings: warnings.into_iter().map(|warning| Warning::saying(warning)).collect(),
        origin: format!(
            "Prices of {}, read {}. A month has 730 hours. The rates were measured on the machine \
             of the runs: that the priced one does the same is assumed, not shown.",
            prices.source, prices.date
        ),
        ..Document::default()
    }
}

fn sentence(costs: &[Cost], last: &Cost, prices: &PriceList) -> String {
    let unit = last.capacity.unit.name();
    let Some(million) = last.million else {
        return format!(
            "What a million {unit}s cost is not known: a price goes by WAL, which was not observed."
        );
    };
    let p99 = last.capacity.p99.map_or_else(
        || ", at a p99 that is not known".to_owned(),
        |p99| format!(", at a p99 of {}", format::latency(p99)),
    );
    let mut text = format!(
        "A million {unit}s cost {}{}{p99} and {} of the measured rate.",
        money(million, prices),
        between(last.million_interval),
        format::percent(last.utilisation)
    );
    if let [base, .., _] = costs
        && let Some(saving) = last.saving(base)
    {
        text.push_str(&format!(" That is {} than {}.", saved(&saving, prices), base.capacity.name));
    }
    text
}

/// `0.12 USD less (41 %, 35 to 46 %)`.
fn saved(saving: &Saving, prices: &PriceList) -> String {
    let word = if saving.million < 0.0 { "more" } else { "less" };
    let sign = if saving.million < 0.0 { -1.0 } else { 1.0 };
    let range = saving.share_interval.map_or_else(String::new, |ends| {
        let ends = Interval::between(sign * ends.low, sign * ends.high);
        format!(", {:.0} to {:.0} %", 100.0 * ends.low, 100.0 * ends.high)
    });
    let share = format::percent(sign * saving.share);
    format!("{} {word} ({share}{range})", money(saving.million.abs(), prices))
}

fn compared(costs: &[Cost], prices: &PriceList) -> Section {
    let columns = vec![
        Column::text("Runs"),
        Column::number("Rate"),
        Column::number("p99"),
        Column::number(format!("A million, {}", prices.currency)),
        Column::number("95 % interval"),
        Column::number("A million rows written"),
        Column::number("Month"),
    ];
    let unknown = || format::NOT_OBSERVABLE.to_owned();
    let row = |cost: &Cost| {
        [
            cost.capacity.name.clone(),
            format::rate(cost.capacity.rate),
            cost.capacity.p99.map_or_else(unknown, format::latency),
            cost.million.map_or_else(unknown, amount),
            cost.million_interval.map_or_else(String::new, ends),
            cost.million_writes.map_or_else(unknown, amount),
            cost.month.map_or_else(unknown, amount),
        ]
        .map(Into::into)
        .into()
    };
    let month = |cost: &Cost| {
        let servers = match cost.servers {
            1.0 => "one server".to_owned(),
            n => format!("{n:.0} servers, if the load can be split"),
        };
        format!(
            "A month of {} is for {} by {servers}, each used to {}.",
            cost.capacity.name,
            format::rate(cost.rate),
            format::percent(cost.utilisation)
        )
    };
    let table = Table { columns, rows: costs.iter().map(row).collect() };
    let mut blocks = vec![Block::Table(table)];
    blocks.extend(costs.iter().map(month).map(Block::Muted));
    Section::new("cost", "Cost", Reach::Everywhere, blocks)
}

fn savings(base: &Cost, others: &[Cost], prices: &PriceList) -> Section {
    let columns = vec![
        Column::text("Instead of ".to_owned() + &base.capacity.name),
        Column::text("A million transactions cost"),
    ];
    let row = |cost: &Cost| {
        let saving = cost
            .saving(base)
            .map_or_else(|| format::NOT_OBSERVABLE.to_owned(), |saving| saved(&saving, prices));
        [cost.capacity.name.clone(), saving].map(Into::into).into()
    };
    let table = Table { columns, rows: others.iter().map(row).collect() };
    Section::new("savings", "What the change saves", Reach::Everywhere, vec![Block::Table(table)])
}

fn bills(costs: &[Cost], prices: &PriceList) -> Section {
    let mut columns = vec![Column::text("A month of one server")];
    columns.extend(costs.iter().map(|cost| Column::number(cost.capacity.name.clone())));
    let items = costs.first().map_or(0, |cost| cost.bill.items.len());
    let rows = (0..items).map(|at| {
        let item = &costs[0].bill.items[at];
        let name = match item.name == item.charge.name() {
            true => item.name.clone(),
            false => format!("{} {}", item.charge.name(), item.name),
        };
        let months = costs.iter().map(|cost| {
            let month = cost.bill.items[at].month;
            month.map_or_else(|| format::NOT_OBSERVABLE.to_owned(), |month| money(month, prices))
        });
        std::iter::once(name).chain(months).map(Into::into).collect::<Vec<_>>()
    });
    let table = Table { columns, rows: rows.collect() };
    Section::new("bill", "The bill", Reach::Everywhere, vec![Block::Table(table)])
}

fn smaller(costs: &[Cost], prices: &PriceList) -> Section {
    let columns = vec![
        Column::text("Instance"),
        Column::number("Processors"),
        Column::number("A month less"),
        Column::number("Needed"),
        Column::number("Counted on"),
        Column::text("It would do"),
    ];
    let claims: Vec<&Smaller> = costs.iter().flat_map(|cost| &cost.smaller).collect();
    let row = |of: &&Smaller| {
        let (does, word) = match &of.verdict {
            Verdict::NotTested { .. } => (String::new(), "not tested".to_owned()),
            Verdict::Tested { by, does, would_do, .. } => {
                let word = match would_do {
                    Some(true) => "yes, as far as tested",
                    Some(false) => "no",
                    None => "cannot be told: the interval is too wide",
                };
                (format::rate(*does), format!("{word} ({by})"))
            }
        };
        [
            of.instance.clone(),
            of.processors.to_string(),
            money(of.month_less, prices),
            format::rate(of.needed),
            does,
            word,
        ]
        .map(Into::into)
        .into()
    };
    let told = |of: &&Smaller| match &of.verdict {
        Verdict::NotTested { to_test } => format!("{}: {to_test}.", of.instance),
        Verdict::Tested { by, machine, not_tested, .. } => {
            let machine = machine.map_or_else(String::new, |all| format!(" of {all}"));
            format!(
                "{}: tested by {by}, whose server might use {}{machine} processors. Not tested: {}.",
                of.instance,
                of.processors,
                not_tested.join("; ")
            )
        }
    };
    let table = Table { columns, rows: claims.iter().map(row).collect() };
    let mut blocks = vec![Block::Table(table)];
    blocks.extend(claims.iter().map(told).map(Block::Muted));
    Section::new("smaller", "Would a cheaper instance do?", Reach::Everywhere, blocks)
}

/// `2,400.00 USD`; small amounts with as many digits as tell them apart.
fn money(value: f64, prices: &PriceList) -> String {
    format!("{} {}", amount(value), prices.currency)
}

fn amount(value: f64) -> String {
    if value >= 0.995 || value == 0.0 {
        let cents = (value * 100.0).round();
        let whole = (cents / 100.0).trunc();
        format!("{}.{:02.0}", format::whole(whole), cents - whole * 100.0)
    } else {
        // Three digits that count.
        let before = value.log10().floor().clamp(-9.0, -1.0);
        format!("{value:.*}", (2.0 - before) as usize)
    }
}

fn ends(interval: Interval) -> String {
    format!("{} to {}", amount(interval.low), amount(interval.high))
}

fn between(interval: Option<Interval>) -> String {
    interval.map_or_else(String::new, |interval| format!(" ({})", ends(interval)))
}
