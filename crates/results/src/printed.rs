//! What pgbench and sysbench print when they end: totals of the whole test.
//!
//! pgbench: `number of transactions actually processed: 1234`, `latency average = 3.2 ms`
//! (src/bin/pgbench/pgbench.c, printResults). sysbench: `transactions: 1234 (…)` and a block
//! `Latency (ms):` (src/lua/internal/sysbench.lua, sb_report_default).

use std::io::BufRead;
use std::time::Duration;

use walwright_record::{ClientDetail, ClientUnit, OperationTotals};

use crate::line::{Source, whole_lines};
use crate::results::empty_log;
use crate::{Format, Results, ResultsError};

pub(crate) fn read(source: Source<'_>, from: impl BufRead) -> Result<Results, ResultsError> {
    let mut totals =
        OperationTotals { name: "transactions".to_owned(), ..OperationTotals::default() };
    whole_lines(source, from, |_, line| {
        match source.format {
            Format::SysbenchSummary => of_sysbench(line.trim(), &mut totals),
            _ => of_pgbench(line.trim(), &mut totals),
        }
        Ok(())
    })?;
    let Some(count) = totals.count else {
        return Err(source.whole("it does not say how many transactions there were: only what the tool prints when it has ended does"));
    };
    let failed = totals.failed.unwrap_or(0);
    // pgbench counts those that failed apart, sysbench among those it repeats.
    totals.count = Some(count.saturating_add(failed));
    let mut log = empty_log(source, ClientDetail::Totals);
    log.succeeded = Some(count);
    if failed > 0 {
        log.failures.insert("failed".to_owned(), failed);
    }
    log.notes.push(
        match source.format {
            Format::SysbenchSummary => {
                "it holds totals of sysbench's whole test: no percentile of the measured window \
                 can be known from it"
            }
            _ => {
                "it holds totals of pgbench's whole test: no percentile can be known from it; \
                 --log tells every transaction"
            }
        }
        .to_owned(),
    );
    log.totals.push(totals);
    let unit = ClientUnit::Transaction;
    Ok(Results { log, unit, operations: Vec::new(), intervals: Vec::new() })
}

/// Whether the beginning of a text is that of what pgbench or sysbench print.
pub(crate) fn recognise(head: &str) -> Option<Format> {
    let any = |starts: &[&str]| {
        head.lines().any(|line| starts.iter().any(|start| line.trim_start().starts_with(start)))
    };
    if any(&["transaction type: ", "pgbench ("]) {
        Some(Format::PgbenchSummary)
    } else if any(&["sysbench "]) && any(&["SQL statistics:", "Running the test with"]) {
        Some(Format::SysbenchSummary)
    } else {
        None
    }
}

fn of_pgbench(line: &str, totals: &mut OperationTotals) {
    if let Some(rest) = line.strip_prefix("number of transactions actually processed: ") {
        // With -t: `900/1000`.
        totals.count = whole(rest.split('/').next());
    } else if let Some(rest) = line.strip_prefix("number of failed transactions: ") {
        totals.failed = whole(rest.split(' ').next());
    } else if let Some(rest) = line.strip_prefix("latency average = ") {
        totals.mean = milliseconds(rest.strip_suffix(" ms"));
    }
}

fn of_sysbench(line: &str, totals: &mut OperationTotals) {
    let Some((name, value)) = line.split_once(':') else { return };
    let value = value.trim();
    match name.trim() {
        "transactions" => totals.count = whole(value.split(' ').next()),
        "min" => totals.min = milliseconds(Some(value)),
        "avg" => totals.mean = milliseconds(Some(value)),
        "max" => totals.max = milliseconds(Some(value)),
        name => {
            let percent = name.strip_suffix(" percentile").and_then(|of| {
                of.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse::<f64>().ok()
            });
            // 0.00 where percentiles were switched off.
            let latency = milliseconds(Some(value)).filter(|latency| !latency.is_zero());
            let known = percent.filter(|percent| (0.0..=100.0).contains(percent)).zip(latency);
            totals.percentiles.extend(known.filter(|_| totals.percentiles.is_empty()));
        }
    }
}

fn whole(text: Option<&str>) -> Option<u64> {
    text?.trim().parse().ok().filter(|count| *count < 1_000_000_000_000_000)
}

fn milliseconds(text: Option<&str>) -> Option<Duration> {
    Duration::try_from_secs_f64(text?.trim().parse::<f64>().ok()? / 1e3).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// pgbench 18.
    const PGBENCH: &str = "pgbench (18.6)\n\
        starting vacuum...end.\n\
        progress: 1.0 s, 620.0 tps, lat 3.211 ms stddev 1.020, 0 failed\n\
        transaction type: <builtin: TPC-B (sort of)>\n\
        scaling factor: 1\n\
        query mode: prepared\n\
        number of clients: 2\n\
        number of threads: 1\n\
        maximum number of tries: 1\n\
        duration: 2 s\n\
        number of transactions actually processed: 1246\n\
        number of failed transactions: 4 (0.320%)\n\
        latency average = 3.208 ms\n\
        latency stddev = 1.011 ms\n\
        initial connection time = 5.441 ms\n\
        tps = 623.395 (without initial connection time)\n";

    /// sysbench 1.0.20.
    const SYSBENCH: &str = "sysbench 1.0.20 (using bundled LuaJIT 2.1.0-beta2)\n\n\
        Running the test with following options:\n\
        Number of threads: 4\n\n\
        SQL statistics:\n\
        \x20   queries performed:\n\
        \x20       read:                            0\n\
        \x20   transactions:                        73925  (7391.41 per sec.)\n\
        \x20   queries:                             73925  (7391.41 per sec.)\n\
        \x20   ignored errors:                      0      (0.00 per sec.)\n\n\
        Latency (ms):\n\
        \x20        min:                                    0.11\n\
        \x20        avg:                                    0.54\n\
        \x20        max:                                   22.08\n\
        \x20        95th percentile:                        1.04\n\
        \x20        sum:                                39933.60\n";

    fn read_as(text: &str) -> Results {
        crate::read("printed.txt", None, text.as_bytes()).unwrap()
    }

    #[test]
    fn what_pgbench_prints_is_read() {
        let log = read_as(PGBENCH).log;
        assert_eq!(log.format, "pgbench summary");
        assert_eq!((log.succeeded, log.failures["failed"]), (Some(1246), 4));
        let totals = &log.totals[0];
        assert_eq!((totals.count, totals.failed), (Some(1250), Some(4)));
        assert_eq!(totals.mean, Some(Duration::from_micros(3208)));
        let fixed = PGBENCH.replace("processed: 1246", "processed: 900/1000");
        assert_eq!(read_as(&fixed).log.succeeded, Some(900));
    }

    #[test]
    fn what_sysbench_prints_is_read() {
        let log = read_as(SYSBENCH).log;
        assert_eq!((log.format.as_str(), log.succeeded), ("sysbench summary", Some(73_925)));
        let totals = &log.totals[0];
        assert_eq!(totals.mean, Some(Duration::from_micros(540)));
        assert_eq!(totals.max, Some(Duration::from_micros(22_080)));
        assert_eq!(totals.percentiles, [(95.0, Duration::from_micros(1_040))]);
    }

    #[test]
    fn a_test_that_did_not_end_is_said() {
        let cut = PGBENCH.split_once("number of transactions").unwrap().0;
        let error = crate::read("cut.txt", None, cut.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("how many transactions"), "{error}");
    }
}
