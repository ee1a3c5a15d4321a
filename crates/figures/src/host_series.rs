//! Curves of the host: CPU by process group, disks.

use walwright_record::{Record, Row, Source};

use crate::cpu::cpu_seconds;
use crate::series::ratios;
use crate::{Series, Unit};

/// Processors kept busy by each process group over time.
///
/// Neighbours are read less often than the server's processes; their curves are
/// given at the moments of the others, so that all can be stacked.
pub fn cpu_by_group(record: &Record) -> Vec<Series> {
    let mut plot = groups(record, Source::Processes);
    let moments: Vec<f64> =
        plot.first().map_or_else(Vec::new, |s| s.points.iter().map(|(t, _)| *t).collect());
    for mut neighbour in groups(record, Source::Neighbours) {
        let read: Vec<f64> = record
            .samples(Source::Neighbours)
            .iter()
            .map(|sample| sample.at.seconds_from(record.header.started))
            .collect();
        let at = |moment: f64| {
            let step = read.windows(2).position(|pair| pair[0] <= moment && moment <= pair[1])?;
            neighbour.points.get(step)?.1
        };
        neighbour.points = moments.iter().map(|t| (*t, at(*t))).collect();
        plot.push(neighbour);
    }
    plot
}

fn groups(record: &Record, source: Source) -> Vec<Series> {
    keys(record, source, "process_group")
        .into_iter()
        .map(|group| {
            let name = format!("cpu_{}", group.replace([' ', ':'], "_"));
            let series = Series::new(name, group, Unit::Processors);
            of_key(record, source, ("process_group", group), series, |row| {
                Some((cpu_seconds(row)?, None))
            })
        })
        .collect()
}

/// Share of time each disk had requests in flight.
pub fn disk_busy(record: &Record) -> Vec<Series> {
    devices(record)
        .into_iter()
        .map(|device| {
            let name = format!("disk_busy_{device}");
            let series = Series::new(name, format!("{device} busy"), Unit::Fraction);
            of_key(record, Source::Disk, ("device", device), series, |row| {
                Some((row.number("io_ticks")? / 1e3, None))
            })
        })
        .collect()
}

/// Mean latency of reads, writes and flushes of each disk.
pub fn disk_latency(record: &Record) -> Vec<Series> {
    let mut plot = Vec::new();
    for device in devices(record) {
        for what in ["read", "write", "flush"] {
            let (ios, ticks) = (format!("{what}_ios"), format!("{what}_ticks"));
            let name = format!("disk_{what}_{device}");
            let series = Series::new(name, format!("{device} {what}"), Unit::Seconds);
            plot.push(of_key(record, Source::Disk, ("device", device), series, |row| {
                Some((row.number(&ticks)? / 1e3, Some(row.number(&ios)?)))
            }));
        }
    }
    plot
}

/// The devices under data and WAL; all sampled ones where the record does not
/// name them. A disk below them would tell the same twice.
fn devices(record: &Record) -> Vec<&str> {
    let all = keys(record, Source::Disk, "device");
    let named: Vec<&str> = record
        .host
        .iter()
        .flat_map(|host| [&host.data_disk, &host.wal_disk])
        .filter_map(|disk| disk.as_ref()?.device.as_deref())
        .collect();
    let of_server: Vec<&str> = all.iter().copied().filter(|d| named.contains(d)).collect();
    if of_server.is_empty() { all } else { of_server }
}

/// The values of a key column, in order of first appearance.
fn keys<'r>(record: &'r Record, source: Source, column: &str) -> Vec<&'r str> {
    let mut keys: Vec<&str> = Vec::new();
    for row in record.samples(source).iter().flat_map(|s| &s.rows) {
        if let Some(name) = row.text(column).filter(|name| !keys.contains(name)) {
            keys.push(name);
        }
    }
    keys
}

/// The series of one row of a keyed source.
fn of_key(
    record: &Record,
    source: Source,
    (column, key): (&str, &str),
    series: Series,
    counters: impl Fn(&Row) -> Option<(f64, Option<f64>)>,
) -> Series {
    let points = ratios(record, source, |rows| {
        counters(rows.iter().find(|row| row.text(column) == Some(key))?)
    });
    Series { points, ..series }
}

#[cfg(test)]
mod tests {
    use walwright_record::{DiskFacts, HostFacts};

    use super::*;
    use walwright_testing::{Build, named};

    #[test]
    fn processors_by_group() {
        let mut build = Build::new();
        for s in 0..4 {
            let t = f64::from(s);
            let group = |name, cpu| {
                named(
                    [("process_group", name)],
                    [("user_seconds", cpu), ("system_seconds", 0.1 * t)],
                )
            };
            build.sample(t, Source::Processes, [group("server: client backends", 0.5 * t)]);
            if s % 2 == 1 {
                build.sample(t, Source::Neighbours, [group("other: backup", 9.0 + 0.8 * t)]);
            }
        }
        let series = cpu_by_group(&build.record);
        assert_eq!(series[0].name, "cpu_server__client_backends");
        assert_eq!(series[0].label, "server: client backends");
        assert!(series[0].points.iter().all(|(_, v)| (v.unwrap() - 0.6).abs() < 1e-9));
        // Read at 1 and 3 s, and given at the moments of the server's processes.
        let neighbour: Vec<(f64, Option<f64>)> = series[1].points.clone();
        assert_eq!(neighbour.iter().map(|p| p.0).collect::<Vec<_>>(), [0.5, 1.5, 2.5]);
        assert_eq!(neighbour[0].1, None);
        assert!((neighbour[1].1.unwrap() - 0.9).abs() < 1e-9, "{neighbour:?}");
        assert!((neighbour[2].1.unwrap() - 0.9).abs() < 1e-9, "{neighbour:?}");
    }

    #[test]
    fn disks_show_busy_share_and_latency() {
        let mut build = Build::new();
        for s in 0..3 {
            let t = f64::from(s);
            let disk = |device| {
                named(
                    [("device", device)],
                    [
                        ("io_ticks", 400.0 * t),
                        ("write_ios", 100.0 * t),
                        ("write_ticks", 50.0 * t),
                        ("read_ios", 0.0),
                        ("read_ticks", 0.0),
                    ],
                )
            };
            build.sample(t, Source::Disk, [disk("vda1"), disk("vda")]);
        }
        assert_eq!(disk_busy(&build.record).len(), 2);
        let facts = DiskFacts { device: Some("vda1".to_owned()), ..DiskFacts::default() };
        build.record.host = Some(HostFacts { data_disk: Some(facts), ..HostFacts::default() });
        let busy = disk_busy(&build.record);
        assert_eq!(busy.len(), 1);
        assert_eq!(busy[0].points, [(0.5, Some(0.4)), (1.5, Some(0.4))]);
        let latency = disk_latency(&build.record);
        let of = |name: &str| latency.iter().find(|s| s.name == name).unwrap();
        assert_eq!(of("disk_write_vda1").points[0], (0.5, Some(0.0005)));
        // Nothing was read, and old kernels do not count flushes.
        assert!(of("disk_read_vda1").is_empty() && of("disk_flush_vda1").is_empty());
    }
}
