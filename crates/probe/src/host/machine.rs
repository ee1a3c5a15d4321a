//! Readings of the whole machine: processors, pressure, memory, network.

use walwright_record::Row;

/// `/proc/stat`: seconds by kind over all processors, and kernel-wide counters.
pub(crate) fn cpu(text: &str, ticks_per_second: f64) -> Option<Row> {
    const KINDS: [&str; 10] = [
        "user",
        "nice",
        "system",
        "idle",
        "iowait",
        "irq",
        "softirq",
        "steal",
        "guest",
        "guest_nice",
    ];
    let mut row = Row::new();
    let mut processors = 0_i64;
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        match words.next()? {
            "cpu" => {
                for (kind, ticks) in KINDS.iter().zip(words) {
                    row.set(*kind, ticks.parse::<u64>().ok()? as f64 / ticks_per_second);
                }
            }
            name @ ("ctxt" | "processes" | "procs_running" | "procs_blocked") => {
                row.set(name, words.next()?.parse::<i64>().ok()?);
            }
            name if name.starts_with("cpu") => processors += 1,
            _ => {}
        }
    }
    row.set("processors", processors);
    row.number("user").map(|_| row)
}

/// One file of `/proc/pressure`: a row for `some` and one for `full`. `total` is
/// in microseconds of stall, `avg10` the kernel's percentage over ten seconds.
pub(crate) fn pressure(resource: &str, text: &str) -> Vec<Row> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let kind = words.next()?;
            let mut row = Row::new();
            row.set("resource", resource).set("kind", kind);
            for word in words {
                match word.split_once('=') {
                    Some(("avg10", value)) => row.set("avg10", value.parse::<f64>().ok()?),
                    Some(("total", value)) => row.set("total", value.parse::<i64>().ok()?),
                    _ => continue,
                };
            }
            row.number("total").map(|_| row)
        })
        .collect()
}

/// Lines of `/proc/meminfo` that a sample keeps, in the kernel's kB.
const MEMINFO: [&str; 17] = [
    "MemTotal",
    "MemFree",
    "MemAvailable",
    "Buffers",
    "Cached",
    "SwapCached",
    "Active",
    "Inactive",
    "SwapTotal",
    "SwapFree",
    "Dirty",
    "Writeback",
    "AnonPages",
    "Mapped",
    "Shmem",
    "Slab",
    "PageTables",
];

/// Counters of `/proc/vmstat` that a sample keeps; pages unless events.
const VMSTAT: [&str; 16] = [
    "pswpin",
    "pswpout",
    "pgpgin",
    "pgpgout",
    "pgfault",
    "pgmajfault",
    "nr_dirty",
    "nr_writeback",
    "nr_dirtied",
    "nr_written",
    "nr_dirty_threshold",
    "nr_dirty_background_threshold",
    "oom_kill",
    "allocstall_normal",
    "compact_stall",
    "pgscan_direct",
];

/// `/proc/meminfo` and `/proc/vmstat`.
pub(crate) fn memory(meminfo: &str, vmstat: &str) -> Row {
    let mut row = Row::new();
    for line in meminfo.lines() {
        let Some((name, rest)) = line.split_once(':') else { continue };
        let value = rest.split_ascii_whitespace().next().and_then(|v| v.parse::<i64>().ok());
        if let (true, Some(value)) =
            (MEMINFO.contains(&name) || name.starts_with("HugePages"), value)
        {
            row.set(name, value);
        }
    }
    for line in vmstat.lines() {
        let Some((name, value)) = line.split_once(' ') else { continue };
        if let (true, Ok(value)) = (VMSTAT.contains(&name), value.parse::<i64>()) {
            row.set(name, value);
        }
    }
    row
}

/// `/proc/net/dev`: interfaces that carried something, under the kernel's names.
pub(crate) fn network(dev: &str) -> Vec<Row> {
    const COLUMNS: [(usize, &str); 8] = [
        (0, "rx_bytes"),
        (1, "rx_packets"),
        (2, "rx_errors"),
        (3, "rx_dropped"),
        (8, "tx_bytes"),
        (9, "tx_packets"),
        (10, "tx_errors"),
        (11, "tx_dropped"),
    ];
    dev.lines()
        .filter_map(|line| {
            let (name, rest) = line.split_once(':')?;
            let values: Vec<i64> =
                rest.split_ascii_whitespace().map_while(|v| v.parse().ok()).collect();
            let mut row = Row::new();
            row.set("interface", name.trim());
            for (place, column) in COLUMNS {
                row.set(column, *values.get(place)?);
            }
            (values[0] > 0 || values[8] > 0).then_some(row)
        })
        .collect()
}

/// The TCP line of `/proc/net/snmp`, as the row of an interface named `tcp`.
pub(crate) fn tcp(snmp: &str) -> Option<Row> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let mut row = Row::new();
    row.set("interface", "tcp");
    for (name, value) in names.split_ascii_whitespace().zip(values.split_ascii_whitespace()) {
        if matches!(name, "InSegs" | "OutSegs" | "RetransSegs" | "CurrEstab" | "InErrs" | "OutRsts")
        {
            row.set(name, value.parse::<i64>().ok()?);
        }
    }
    row.number("RetransSegs").map(|_| row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_in_seconds() {
        let text = "cpu  250 0 100 1000 50 0 10 7 0 0\ncpu0 125 0 50 500 25 0 5 3 0 0\nintr 5 1 2\nctxt 99\nprocesses 12\nprocs_running 3\nprocs_blocked 0\n";
        let row = cpu(text, 100.0).unwrap();
        assert_eq!(row.number("user"), Some(2.5));
        assert_eq!(row.number("steal"), Some(0.07));
        assert_eq!(row.number("ctxt"), Some(99.0));
        assert_eq!(row.number("processors"), Some(1.0));
        assert_eq!(cpu("", 100.0), None);
    }

    #[test]
    fn pressure_has_a_row_for_each_kind() {
        let rows = pressure(
            "io",
            "some avg10=1.50 avg60=0.00 avg300=0.00 total=123\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=45\n",
        );
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].text("kind"), Some("some"));
        assert_eq!(rows[0].number("avg10"), Some(1.5));
        assert_eq!(rows[1].number("total"), Some(45.0));
    }

    #[test]
    fn memory_keeps_the_kernels_names() {
        let row = memory(
            "MemTotal:       24683816 kB\nDirty:  12 kB\nHugePages_Total:  3\nNoise: 1 kB\n",
            "pswpin 4\nnr_dirty 9\nunrelated 1\n",
        );
        assert_eq!(row.number("MemTotal"), Some(24_683_816.0));
        assert_eq!(row.number("HugePages_Total"), Some(3.0));
        assert_eq!(row.number("pswpin"), Some(4.0));
        assert_eq!(row.0.len(), 5);
    }

    #[test]
    fn silent_interfaces_are_left_out() {
        let dev = "Inter-|   Receive    |  Transmit\n face |bytes ...\n    lo: 10 1 0 0 0 0 0 0 10 1 0 0 0 0 0 0\n  eth0: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
        let rows = network(dev);
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].text("interface"), Some("lo"));
        assert_eq!(rows[0].number("tx_packets"), Some(1.0));
        let snmp = "Ip: A\nIp: 1\nTcp: RtoAlgorithm RetransSegs OutSegs\nTcp: 1 7 100\n";
        assert_eq!(tcp(snmp).unwrap().number("RetransSegs"), Some(7.0));
    }
}
