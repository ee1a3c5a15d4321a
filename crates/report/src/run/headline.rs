//! The figures at the top, and those beside them.

use walwright_figures::{LoadSummary, ProcessRole, Summary};
use walwright_record::{Record, StorageProbe};

use super::latency::NAMED;
use crate::document::{Figure, Part};
use crate::{format, words};

/// Throughput, latency and failures.
pub(super) fn headline(summary: &Summary) -> Vec<Figure> {
    let mut figures = match &summary.load {
        Some(load) => load_figures(load),
        None => observed(summary),
    };
    let connections = summary.load.as_ref().and_then(|load| load.connection_time.as_ref());
    figures.extend(connections.map(|time| {
        let opened = format!("{} opened", format::count(time.count));
        let [mean, p50, p99] = [time.mean, time.p50, time.p99].map(format::latency);
        Figure::new("Connections", Some(opened))
            .note(format!("mean {mean}, p50 {p50}, p99 {p99} each"))
    }));
    let totals = summary.client.iter().flat_map(words::client_totals);
    let totals = totals
        .map(|totals| Figure::new("Clients", Some("their own totals".to_owned())).note(totals));
    figures.extend(totals);
    figures
}

fn load_figures(load: &LoadSummary) -> Vec<Figure> {
    let unit = load.unit.name();
    let throughput = load.throughput.as_ref();
    let value = match throughput {
        Some(_) if load.transactions == 0 => "0/s".to_owned(),
        Some(throughput) => format::estimate(throughput, "/s"),
        None => "not known".to_owned(),
    };
    let note = match throughput {
        Some(_) if load.transactions == 0 => format!("no {unit} ended well in the window"),
        Some(throughput) => {
            let warnings: Vec<String> =
                throughput.warnings.iter().map(ToString::to_string).collect();
            match (throughput.interval.is_some(), warnings.is_empty()) {
                (true, true) => format!("{unit}s, 95 % interval within this run"),
                (false, true) if !load.stages.is_empty() => {
                    format!("{unit}s, the mean of all stages")
                }
                (false, true) => format!("{unit}s; too short for an interval"),
                (_, false) => format!("{unit}s; {}", warnings.join("; ")),
            }
        }
        None => "no whole interval in the window".to_owned(),
    };
    let lead = Figure::new("Throughput", Some(value)).note(note);
    let mut figures = vec![Figure { lead: true, ..lead }];
    let rows = load.rows.as_ref().and_then(|rows| Some((rows.each, rows.throughput.as_ref()?)));
    figures.extend(rows.map(|(each, rate)| {
        let note = match each {
            1 => format!("one a {unit}"),
            each => format!("{each} a {unit}, whose latency is theirs"),
        };
        Figure::new("Rows", Some(format::estimate(rate, "/s"))).note(note)
    }));
    figures.extend(load.open_loop.as_ref().map(|open| {
        let reached = format!("reached {}", format::rate(open.reached));
        let lag = open.lag.as_ref().map(|l| format!("lag p99 {}", format::latency(l.p99)));
        let skipped =
            (open.skipped > 0).then(|| format!("{} skipped", format::count(open.skipped)));
        let note: Vec<String> = [Some(reached), lag, skipped].into_iter().flatten().collect();
        Figure::new("Offered", Some(format::rate(open.offered))).note(note.join(", "))
    }));
    figures.push(latency(load));
    figures.extend(load.late.as_ref().map(|late| {
        let ended = late.transactions as f64 / load.transactions.max(1) as f64;
        let share = format::percent(ended);
        let value = format!("{} ({share})", format::count(late.transactions));
        let note = format!("took longer than {}", format::latency(late.limit));
        Figure::new("Late", Some(value)).note(note)
    }));
    let states = load
        .failures
        .iter()
        .map(|(code, n)| format!("{code} {} {}", words::sqlstate(code), format::count(*n)));
    figures.push(
        Figure::new("Failed", Some(words::failed_of(load)))
            .note(states.collect::<Vec<_>>().join(", ")),
    );
    if load.retried > 0 {
        let states = load.retries.iter().map(|(code, n)| format!("{code} {}", format::count(*n)));
        figures.push(
            Figure::new("Retried", Some(format::count(load.retried)))
                .note(states.collect::<Vec<_>>().join(", ")),
        );
    }
    figures
}

fn latency(load: &LoadSummary) -> Figure {
    if let Some(latency) = &load.latency {
        let parts = words::percentiles(latency).into_iter().zip(NAMED);
        let parts = parts.map(|((name, value), (_, ink))| Part {
            value,
            label: name.to_owned(),
            ink: Some(ink),
        });
        let figure = Figure { spread: true, ..Figure::of("Latency", parts.collect()) };
        return figure.note(format!("mean {}", words::mean(latency)));
    }
    match load.mean_latency {
        Some(mean) => Figure::of("Latency", vec![Part::new(format::latency(mean), "mean")])
            .note("the clients' results hold sums: no percentile is known"),
        None if load.transactions > 0 => {
            let none = Part::new("not known".to_owned(), "");
            Figure::of("Latency", vec![none]).note("the clients' results hold rates alone")
        }
        None => {
            let none = format!("no {} ended well", load.unit.name());
            Figure::of("Latency", vec![Part::new(none, "")])
        }
    }
}

/// Someone else's load as the server counts it.
fn observed(summary: &Summary) -> Vec<Figure> {
    let load = summary.server_load.as_ref();
    let rate = load.and_then(|load| load.commits_per_second.as_ref());
    let figure = load.zip(rate).map(|(load, rate)| Figure {
        lead: true,
        ..Figure::new("Throughput", Some(format::estimate(rate, "/s")))
            .note(words::commits_note(load))
    });
    figure.into_iter().collect()
}

/// What stands beside throughput and latency: what the server did for it, and measures taken
/// apart from the load.
pub(super) fn beside(record: &Record, summary: &Summary) -> Vec<Figure> {
    let mut figures = Vec::new();
    // Without a window there is nothing these figures could be of.
    if summary.window.is_some() {
        figures.push(Figure::of("WAL", wal(summary)));
        figures.push(Figure::of("Checkpoints", checkpoints(summary)));
        figures.push(Figure::of("CPU", cpu(summary)));
    }
    figures.extend(record.storage.as_ref().map(storage));
    let pieces = |pieces: Vec<String>| pieces.into_iter().map(|text| Part::new(text, "")).collect();
    let disk = summary.storage.as_ref().map(words::storage_figures);
    figures.extend(disk.map(|disk| Figure::of("Disk", pieces(disk))));
    // Without a measurement the rates alone say little.
    let data = summary.data_disk.as_ref().filter(|used| used.writes.least_share.is_some());
    let data = data.map(words::data_disk_figures);
    figures.extend(data.map(|data| Figure::of("Data disk", pieces(data))));
    figures.extend(record.side_measures.iter().map(|(name, seconds)| {
        Figure::new(words::side_measure(name), Some(format::seconds(*seconds)))
            .note(words::SIDE_MEASURE)
    }));
    figures
}

/// WAL and flushes.
fn wal(summary: &Summary) -> Vec<Part> {
    let Some(of) = &summary.wal else { return Vec::new() };
    let unit = of.unit.name();
    let per = format!("per {unit}");
    [
        of.bytes_per_transaction.map(|n| Part::new(format::bytes(n), &per)),
        of.flushes_per_transaction.map(|n| Part::new(format::number(n), format!("flushes {per}"))),
        of.transactions_per_flush
            .map(|n| Part::new(format::number(n), format!("{unit}s per flush"))),
        of.mean_flush.map(|d| Part::new(format::latency(d), "a flush")),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Checkpoints inside the window.
fn checkpoints(summary: &Summary) -> Vec<Part> {
    let Some(seen) = &summary.checkpoints else { return Vec::new() };
    let completed = match seen.completed {
        0 => Part::new("none", "completed in the window"),
        n => Part::new(format::count(n), "completed"),
    };
    let written = seen.buffers_written.filter(|n| *n > 0);
    let written = written.map(|n| Part::new(format::count(n), "buffers written"));
    let writing = seen.write_time.filter(|d| !d.is_zero());
    let writing = writing.map(|d| Part::new(format::length(d), "of writing"));
    [Some(completed), written, writing].into_iter().flatten().collect()
}

/// The storage probe before the run.
fn storage(probe: &StorageProbe) -> Figure {
    let how = format!("{} of {}", probe.method, format::bytes(probe.block_bytes.into()));
    let parts = vec![
        Part::new(format::latency(probe.p50), "a flush before the run"),
        Part::new(format::latency(probe.p99), "p99"),
        Part::new(how, ""),
    ];
    Figure::of("Storage", parts)
}

/// CPU of server, driver and machine.
fn cpu(summary: &Summary) -> Vec<Part> {
    let Some(cpu) = &summary.cpu else { return Vec::new() };
    let unit = cpu.unit.map_or("transaction", |u| u.name());
    let server = cpu
        .server_per_transaction
        .map(|d| Part::new(format::latency(d), format!("per {unit} in the server")));
    let driver = cpu.driver_per_transaction.map(|d| Part::new(format::latency(d), "in the driver"));
    let roles = [
        (ProcessRole::Application, "application"),
        (ProcessRole::Generator, "load generator"),
        (ProcessRole::Pooler, "pooler"),
    ];
    let roles = roles.into_iter().filter_map(|(role, name)| {
        let of_role = cpu.groups.iter().filter(|group| ProcessRole::of(&group.group) == role);
        let used: Vec<f64> = of_role.map(|group| group.processors).collect();
        let used = (!used.is_empty()).then(|| format::number(used.iter().sum()))?;
        Some(Part::new(format!("{used} processors"), format!("in the {name}")))
    });
    let busy = cpu.busy.map(|share| Part::new(format::percent(share), "of the machine busy"));
    let stolen = cpu.steal.filter(|share| *share >= 0.005);
    let stolen = stolen.map(|share| Part::new(format::percent(share), "stolen"));
    server.into_iter().chain(driver).chain(roles).chain(busy).chain(stolen).collect()
}
