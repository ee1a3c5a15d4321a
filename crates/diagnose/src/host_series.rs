//! Curves of the host: CPU by process group, disks.

use walwright_record::{Record, Row, Source};

use crate::series::ratios;
use crate::{Series, Unit};

/// Processors kept busy by each process group over time.
pub(crate) fn cpu_by_group(record: &Record) -> Vec<Series> {
    by_key(
        record,
        Source::Processes,
        "process_group",
        |group| {
            let name = format!("cpu_{}", group.replace([' ', ':'], "_"));
            Series::new(name, group, Unit::Processors)
        },
        |row| Some((row.number("cpu_seconds")?, None)),
    )
}

/// Share of time each disk had requests in flight.
pub(crate) fn disk_busy(record: &Record) -> Vec<Series> {
    by_key(
        record,
        Source::Disk,
        "device",
        |device| {
            Series::new(format!("disk_busy_{device}"), format!("{device} busy"), Unit::Fraction)
        },
        |row| Some((row.number("io_ms")? / 1e3, None)),
    )
}

/// Mean latency of writes and of flushes of each disk.
pub(crate) fn disk_latency(record: &Record) -> Vec<Series> {
    let of = |what: &'static str, time: &'static str, count: &'static str| {
        by_key(
            record,
            Source::Disk,
            "device",
            move |device| {
                Series::new(
                    format!("disk_{what}_{device}"),
                    format!("{device} {what}"),
                    Unit::Seconds,
                )
            },
            move |row| Some((row.number(time)? / 1e3, Some(row.number(count)?))),
        )
    };
    let mut plot = of("write", "write_ms", "writes");
    plot.extend(of("flush", "flush_ms", "flushes"));
    plot
}

/// One series for each row of a keyed source, in order of first appearance.
fn by_key(
    record: &Record,
    source: Source,
    key: &str,
    series: impl Fn(&str) -> Series,
    counters: impl Fn(&Row) -> Option<(f64, Option<f64>)>,
) -> Vec<Series> {
    let mut keys: Vec<&str> = Vec::new();
    for row in record.samples(source).iter().flat_map(|s| &s.rows) {
        if let Some(name) = row.text(key).filter(|name| !keys.contains(name)) {
            keys.push(name);
        }
    }
    keys.into_iter()
        .map(|name| Series {
            points: ratios(record, source, |rows| {
                counters(rows.iter().find(|row| row.text(key) == Some(name))?)
            }),
            ..series(name)
        })
        .collect()
}
