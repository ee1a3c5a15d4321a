//! What load tools print for people: totals when they end, with some of them reports meanwhile.
//!
//! A file of it is read as any other. What a command prints while somebody looks on is taken
//! by [`Printed`] line by line with the moment it came, which lays reports on the clock that
//! tell only how long the test has run. One module a tool.

mod autocannon;
mod benchbase;
mod hammerdb;
mod jmeter;
mod k6;
mod locust;
pub(crate) mod oha;
mod pgbench;
mod sysbench;
mod told;
mod wrk;

use std::borrow::Cow;
use std::fmt;
use std::io::BufRead;
use std::time::Duration;

use walwright_record::Timestamp;

use self::told::Told;
use crate::line::{LARGEST, Source, whole_lines};
use crate::{Format, Results, ResultsError};

/// Reads what one tool prints.
trait Tool: fmt::Debug + Send {
    /// Takes a line without blanks around it and without colours, with the moment it came
    /// where somebody looked on.
    fn line(&mut self, line: &str, came: Option<Timestamp>);

    /// What it told so far; `None` without a figure.
    fn told(&self) -> Option<Told>;
}

/// What each such format is read by.
fn tool(format: Format) -> Option<Box<dyn Tool>> {
    Some(match format {
        Format::PgbenchSummary => Box::new(pgbench::Pgbench::default()),
        Format::SysbenchSummary => Box::new(sysbench::Sysbench::default()),
        Format::HammerDb => Box::new(hammerdb::HammerDb::default()),
        Format::Benchbase => Box::new(benchbase::Benchbase::default()),
        Format::Oha => Box::new(oha::Oha::default()),
        Format::Wrk => Box::new(wrk::Wrk::default()),
        Format::JmeterSummary => Box::new(jmeter::Jmeter::default()),
        Format::AutocannonTable => Box::new(autocannon::Autocannon::default()),
        Format::K6Text => Box::new(k6::K6::default()),
        Format::LocustText => Box::new(locust::Locust::default()),
        _ => return None,
    })
}

/// A file of what a tool printed.
pub(crate) fn read(source: Source<'_>, from: impl BufRead) -> Result<Results, ResultsError> {
    let missing = || source.whole(MISSING);
    let mut tool = tool(source.format).ok_or_else(missing)?;
    whole_lines(source, from, |_, line| {
        tool.line(&plain(line), None);
        Ok(())
    })?;
    Ok(tool.told().ok_or_else(missing)?.results(source))
}

/// What is wrong with a text that holds no figures.
const MISSING: &str = "it does not say how many transactions or requests there were: only what the tool prints when it has ended does";

/// Bytes of the longest line that is looked at.
const LONGEST: usize = 256 * 1024;

/// What a command prints, as it comes.
///
/// Lines are kept only where a tool tells its result in JSON; of the others, what the
/// readers find in them.
#[derive(Debug)]
pub struct Printed {
    tools: Vec<(Format, Box<dyn Tool>)>,
    /// Lines since the last that began an object of JSON.
    json: Vec<u8>,
    /// One line of each stream that has not ended.
    open: Vec<Vec<u8>>,
}

impl Printed {
    /// Nothing printed so far, on as many streams.
    pub fn new(streams: usize) -> Printed {
        let tools = Format::ALL.into_iter().filter_map(|format| Some((format, tool(format)?)));
        Printed { tools: tools.collect(), json: Vec::new(), open: vec![Vec::new(); streams] }
    }

    /// Takes bytes that came on a stream, whole lines or not.
    pub fn take(&mut self, stream: usize, bytes: &[u8], came: Timestamp) {
        let Some(open) = self.open.get_mut(stream) else { return };
        let mut line = std::mem::take(open);
        for piece in bytes.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let (rest, ended) = match piece {
                [rest @ .., b'\n' | b'\r'] => (rest, true),
                rest => (rest, false),
            };
            // One byte more says that the line was too long.
            let room = (LONGEST + 1).saturating_sub(line.len());
            line.extend_from_slice(&rest[..rest.len().min(room)]);
            if ended {
                self.line(&line, came);
                line.clear();
            }
        }
        if let Some(open) = self.open.get_mut(stream) {
            *open = line;
        }
    }

    fn line(&mut self, line: &[u8], came: Timestamp) {
        if line.len() > LONGEST {
            return;
        }
        let text = String::from_utf8_lossy(line);
        if text.starts_with('{') {
            self.json.clear();
        }
        if (text.starts_with('{') || !self.json.is_empty())
            && self.json.len() + line.len() < LARGEST as usize
        {
            self.json.extend_from_slice(line);
            self.json.push(b'\n');
        }
        let text = plain(&text);
        if !text.is_empty() {
            self.tools.iter_mut().for_each(|(_, tool)| tool.line(&text, Some(came)));
        }
    }

    /// The figures of the tool that printed it; `None` where no tool is recognised. They go
    /// by the name `file`.
    pub fn results(mut self, file: &str) -> Option<Results> {
        // What the last lines without an end say is there already.
        for open in std::mem::take(&mut self.open).into_iter().filter(|line| !line.is_empty()) {
            self.line(&open, Timestamp::now());
        }
        let told = self.tools.iter().find_map(|(format, tool)| Some((*format, tool.told()?)));
        match told {
            Some((format, told)) => Some(told.results(Source { file, format })),
            None => json(file, &self.json),
        }
    }
}

/// The result that a tool printed as JSON: the first whole value, whatever follows.
fn json(file: &str, text: &[u8]) -> Option<Results> {
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<serde_json::Value>();
    let value = values.next()?.ok()?.to_string();
    crate::read(file, None, value.as_bytes()).ok()
}

/// A line without blanks at its ends and without the colours of a terminal.
fn plain(line: &str) -> Cow<'_, str> {
    if !line.contains('\u{1b}') {
        return Cow::Borrowed(line.trim());
    }
    let mut text = String::with_capacity(line.len());
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        if letter != '\u{1b}' {
            text.push(letter);
        } else if letters.next() == Some('[') {
            // A control sequence ends with a letter (ECMA-48, 5.4).
            letters.by_ref().find(|c| ('@'..='~').contains(c));
        }
    }
    Cow::Owned(text.trim().to_owned())
}

/// Whether the beginning of a text is that of what a tool prints.
pub(crate) fn recognise(head: &str) -> Option<Format> {
    let lines = || head.lines().map(plain);
    let any = |starts: &[&str]| lines().any(|l| starts.iter().any(|start| l.starts_with(start)));
    let holds = |text: &str| lines().any(|line| line.contains(text));
    if any(&["transaction type: ", "pgbench ("]) {
        Some(Format::PgbenchSummary)
    } else if any(&["sysbench "]) && any(&["SQL statistics:", "Running the test with"]) {
        Some(Format::SysbenchSummary)
    } else if holds("TEST RESULT : System achieved ") || any(&[">>>>> ", "HammerDB CLI "]) {
        Some(Format::HammerDb)
    } else if holds("measuredRequests=") || holds("com.oltpbenchmark.") {
        Some(Format::Benchbase)
    } else {
        // Their own words come at the end, so what they tell decides.
        let all = [
            Format::PgbenchSummary,
            Format::SysbenchSummary,
            Format::Oha,
            Format::Wrk,
            Format::JmeterSummary,
            Format::AutocannonTable,
            Format::K6Text,
            Format::LocustText,
        ];
        all.into_iter().find(|format| {
            let Some(mut tool) = tool(*format) else { return false };
            // Any moment does.
            lines().for_each(|line| tool.line(&line, Some(Timestamp(0))));
            tool.told().is_some()
        })
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
    use walwright_record::OperationTotals;

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

    fn totals(text: &str) -> (String, OperationTotals) {
        let log = read_as(text).log;
        (log.format, log.totals[0].clone())
    }

    #[test]
    fn what_hammerdb_prints_is_read() {
        // 4.8; 3.2 said the same the other way round.
        for text in [
            "Vuser 1:TEST RESULT : System achieved 17099 NOPM from 39188 PostgreSQL TPM\n",
            "Vuser 1:TEST RESULT : System achieved 39188 PostgreSQL TPM at 17099 NOPM\n",
        ] {
            let log = read_as(text).log;
            assert_eq!((log.format.as_str(), log.totals.len()), ("HammerDB result", 2));
            assert!((log.totals[0].throughput.unwrap() * 60.0 - 39_188.0).abs() < 1e-6);
            assert!((log.totals[1].throughput.unwrap() * 60.0 - 17_099.0).abs() < 1e-6);
        }
        // Those of one virtual user stand before those of all; older ones call them otherwise.
        let times = ">>>>> VIRTUAL USER 2 : ELAPSED TIME : 120522ms\n\
            >>>>> PROC: NEWORD\n\
            CALLS: 9\tMIN: 1.0ms\tAVG: 2.0ms\tMAX: 3.0ms\tTOTAL: 18.0ms\n\
            P99: 3.0ms\tP95: 3.0ms\tP50: 2.0ms\tSD: 0.5ms\tRATIO: 50.0%\n\
            >>>>> SUMMARY OF 2 ACTIVE VIRTUAL USERS : MEDIAN ELAPSED TIME : 127146ms\n\
            >>>>> PROC: NEWORD\n\
            CALLS: 3427\tMIN: 1.730ms\tAVG: 36.332ms\tMAX: 1220.165ms\tTOTAL: 124508.229ms\n";
        assert_eq!((totals(times).1.count, read_as(times).log.totals.len()), (Some(3_427), 1));
        let times = ">>>>> COMBINED METRICS ACROSS ALL USERS\n\
            >>>>> PROC: PAYMENT\n\
            CALLS: 648402     MIN: 0.833ms    AVG: 52.601ms  MAX: 1257.365ms TOTAL: 34106475.135ms\n\
            P99: 413.035ms  P95: 167.278ms  P50: 27.633ms   SD: 76878.831  RATIO: 71.729%\n";
        let (_, payment) = totals(times);
        assert_eq!((payment.name.as_str(), payment.count), ("PAYMENT", Some(648_402)));
        assert_eq!(payment.percentiles[2], (99.0, Duration::from_micros(413_035)));
    }

    #[test]
    fn what_benchbase_prints_is_read() {
        // OLTP-Bench, and BenchBase by its source.
        let old = "18:01:57,149 (DBWorkload.java:895) INFO  - Rate limited reqs/s: Results(nanoSeconds=1800000367051, measuredRequests=85376) = 47.43110143909266 requests/sec\n";
        let (format, of) = totals(old);
        assert_eq!((format.as_str(), of.count), ("BenchBase result", Some(85_376)));
        assert!((of.throughput.unwrap() - 47.431).abs() < 1e-3);
        let new = "[INFO ] Rate limited reqs/s: Results(state=EXIT, nanoSeconds=60000083167, measuredRequests=201) = 3.349995356515603 requests/sec (throughput), 3.2999954258213404 requests/sec (goodput)\n";
        assert_eq!(read_as(new).log.succeeded, Some(198));
    }

    #[test]
    fn what_wrk2_prints_is_read() {
        let text = "Running 2m test @ http://localhost:19234\n\
            \x20 16 threads and 64 connections\n\
            \x20 Thread calibration: mean lat.: 3975.827ms, rate sampling interval: 12935ms\n\
            \x20 Thread Stats   Avg      Stdev     Max   +/- Stdev\n\
            \x20   Latency    42.05s    21.13s    1.31m    56.90%\n\
            \x20   Req/Sec   656.26     37.83   715.00     75.00%\n\
            \x20 Latency Distribution (HdrHistogram - Recorded Latency)\n\
            \x2050.000%   42.60s \n\
            \x2075.000%    1.01m \n\n\
            \x20 Detailed Percentile spectrum:\n\
            \x20   6844.415     0.000000            2         1.00\n\
            #[Mean    =    42047.306, StdDeviation   =    21129.818]\n\
            \x20 1247129 requests in 2.00m, 79.69MB read\n\
            Requests/sec:  10392.34\n";
        let (format, of) = totals(text);
        assert_eq!((format.as_str(), of.count), ("wrk summary", Some(1_247_129)));
        assert_eq!(of.mean, Some(Duration::from_millis(42_050)));
        assert_eq!(of.percentiles.len(), 2);
        assert_eq!(of.percentiles[1], (75.0, Duration::from_millis(60_600)));
    }

    #[test]
    fn what_oha_prints_is_read() {
        let text = "Summary:\n\x20 Success rate:\t100.00%\n\x20 Total:\t4.4720 secs\n\
            \x20 Slowest:\t0.0367 secs\n\x20 Fastest:\t0.0004 secs\n\
            \x20 Average:\t0.0011 secs\n\x20 Requests/sec:\t4472.2547\n\n\
            Response time histogram:\n\x20 0.000 [1]     |\n\x20 0.004 [19970] |■■■■■■■\n\n\
            Response time distribution:\n\x20 50.00% in 0.0011 secs\n\
            \x20 99.00% in 0.0017 secs\n\n\
            Status code distribution:\n\x20 [200] 19970 responses\n\x20 [503] 25 responses\n\n\
            Error distribution:\n\x20 [5] aborted due to deadline\n";
        let log = read_as(text).log;
        assert_eq!((log.format.as_str(), log.succeeded), ("oha summary", Some(19_970)));
        assert_eq!((log.failures["HTTP 503"], log.failures["aborted due to deadline"]), (25, 5));
        let of = &log.totals[0];
        assert_eq!(
            (of.count, of.failed, of.throughput),
            (Some(20_000), Some(30), Some(4_472.254_7))
        );
        assert_eq!(of.percentiles[1], (99.0, Duration::from_micros(1_700)));
        let json = r#"{"summary":{"successRate":1.0,"total":4.472,"slowest":0.0367,"fastest":0.0004,
            "average":0.0011,"requestsPerSec":4472.2547},"metrics":{"success_rate":1.0},
            "latencyPercentiles":{"p50":0.0011,"p99":0.0017},
            "statusCodeDistribution":{"200":19970,"503":25},
            "errorDistribution":{"aborted due to deadline":5}}"#;
        let same = read_as(json).log;
        assert_eq!((&same.totals, &same.failures), (&log.totals, &log.failures));
    }

    #[test]
    fn what_jmeter_prints_is_read() {
        let text = "Creating summariser <summary>\n\
            summary +  10119 in 00:00:13 =  791.4/s Avg:     7 Min:     2 Max:    59 Err:     0 (0.00%) Active: 0 Started: 1 Finished: 1\n\
            summary =  10120 in 00:00:13 =  781.2/s Avg:     7 Min:     2 Max:    59 Err:     3 (0.03%)\n";
        let (format, of) = totals(text);
        assert_eq!(
            (format.as_str(), of.count, of.failed),
            ("JMeter summary", Some(10_120), Some(3))
        );
        assert_eq!((of.throughput, of.mean), (Some(781.2), Some(Duration::from_millis(7))));
    }

    #[test]
    fn what_k6_prints_is_read() {
        // Before 1.0 with a threshold, and since.
        let old = "     http_req_blocked...............: avg=1.23ms   min=1µs     med=4µs      max=123ms\n\
            \x20  ✓ http_req_duration..............: avg=3.01ms   min=704.27µs med=2.9ms    max=18.6ms   p(90)=3.73ms   p(95)=4.12ms\n\
            \x20      { expected_response:true }...: avg=1.01ms   min=704.27µs med=2.9ms    max=18.6ms   p(90)=3.73ms   p(95)=4.12ms\n\
            \x20  ✓ http_req_failed................: 0.86%  ✓ 16        ✗ 1802\n\
            \x20    http_reqs......................: 1818   15.091157/s\n\
            \x20    iteration_duration.............: avg=1s       min=1s       med=1s       max=1.02s    p(90)=1s       p(95)=1s\n\
            \x20    iterations.....................: 1818   15.091157/s\n";
        let log = read_as(old).log;
        assert_eq!((log.format.as_str(), log.failures["failed"]), ("k6 summary", 16));
        let of = &log.totals[0];
        assert_eq!((of.count, of.throughput), (Some(1_818), Some(15.091_157)));
        assert_eq!(
            (of.mean, of.min),
            (Some(Duration::from_micros(3_010)), Some(Duration::from_nanos(704_270)))
        );
        assert_eq!(of.percentiles[2], (95.0, Duration::from_micros(4_120)));
        let new = "    http_req_duration..............: avg=759.38ms min=9.08ms med=78.24ms max=1m0s   p(90)=126.57ms p(95)=187.29ms\n\
            \x20   http_req_failed................: 0.86% 281 out of 32621\n\
            \x20   http_reqs......................: 32621 62.739816/s\n";
        let log = read_as(new).log;
        assert_eq!((log.succeeded, log.failures["failed"]), (Some(32_340), 281));
        assert_eq!(log.totals[0].max, Some(Duration::from_secs(60)));
    }

    #[test]
    fn colours_and_lines_drawn_anew_do_not_matter() {
        let mut printed = Printed::new(2);
        let text =
            "run 1\r\u{1b}[2K\u{1b}[32m✓\u{1b}[0m http_reqs...: \u{1b}[36m18\u{1b}[0m 1.5/s\nx";
        // In pieces, on two streams that do not mix.
        for (at, byte) in text.bytes().enumerate() {
            printed.take(0, &[byte], Timestamp(at as i64));
            printed.take(1, b"-", Timestamp(at as i64));
        }
        assert_eq!(printed.results("o").unwrap().log.totals[0].count, Some(18));
    }

    #[test]
    fn a_test_that_did_not_end_is_said() {
        let cut = PGBENCH.split_once("number of transactions").unwrap().0;
        let form = Some(Format::PgbenchSummary);
        let error = crate::read("cut.txt", form, cut.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("how many transactions"), "{error}");
    }
}
