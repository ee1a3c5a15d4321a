//! Files that someone made to break what reads them, and real ones that got damaged.
//!
//! The memory that a file takes is counted by the allocator of this test.

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use walwright_record::{Timestamp, Window};
use walwright_results::{Format, Printed, ResultsError, join, read};
use walwright_testing::memory::{self, Counting};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What `work` gives, and the megabytes that it took at most.
fn measured<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let (done, most) = memory::alone().measured(work);
    (done, most >> 20)
}

/// A beginning, and then lines made by number.
struct Lines<F> {
    make: F,
    number: u64,
    most: u64,
    rest: io::Cursor<Vec<u8>>,
}

fn lines<F: FnMut(u64) -> String>(head: &str, most: u64, make: F) -> Lines<F> {
    Lines { make, number: 0, most, rest: io::Cursor::new(head.as_bytes().to_vec()) }
}

impl<F: FnMut(u64) -> String> Read for Lines<F> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.rest.read(into)?;
            if read > 0 || self.number == self.most {
                return Ok(read);
            }
            self.rest = io::Cursor::new((self.make)(self.number).into_bytes());
            self.number += 1;
        }
    }
}

/// What is wrong with a file that may take so many megabytes.
fn refused(format: Option<Format>, from: impl Read, megabytes: usize) -> String {
    let (result, took) = measured(|| read("x.log", format, from).map(|_| ()));
    assert!(took < megabytes, "it took {took} MB");
    result.unwrap_err().to_string()
}

#[test]
fn a_line_that_does_not_end_is_refused_with_its_number() {
    let endless = |head: &str| lines(head, 1 << 20, |_| "x".repeat(1 << 10));
    for (head, line) in [
        ("0 1 4533 0 1795132800 12345\n0 2 ", 2),
        ("1649114136 5815 27552565 177846919143 1078 21716\n\n", 3),
        ("time,latency_ms\n1795132800,\"", 2),
        ("metric_name,timestamp,metric_value\nhttp_req_duration,1795132800,3\n\"", 3),
        ("Method,Name,Error,Occurrences\nGET,/a,", 2),
    ] {
        let said = refused(None, endless(head), 16);
        assert!(said.starts_with(&format!("x.log:{line}: ")), "{said}");
        assert!(said.contains("longer than 1 MiB"), "{said}");
    }
    // A field in quotes that goes over many lines, and a header that does.
    let said = refused(None, lines("time,latency_ms\n1,\"", 1 << 20, |_| "x\n".repeat(512)), 16);
    assert!(said.contains("longer than 1 MiB"), "{said}");
    let said = refused(Some(Format::Csv), endless("time,latency_ms"), 16);
    assert!(said.starts_with("x.log:1: ") && said.contains("longer than 1 MiB"), "{said}");
}

#[test]
fn a_packed_file_that_swells_takes_no_more_memory() {
    let mut packed =
        GzEncoder::new(b"time,latency_ms\n1795132800,\"".to_vec(), Compression::best());
    packed.get_mut().clear();
    packed.write_all(b"time,latency_ms\n1795132800,\"").unwrap();
    for _ in 0..256 {
        packed.write_all(&vec![b'a'; 1 << 20]).unwrap();
    }
    let packed = packed.finish().unwrap();
    assert!(packed.len() < 1 << 20);
    let said = refused(None, packed.as_slice(), 16);
    assert!(said.contains("x.log:2: ") && said.contains("longer than 1 MiB"), "{said}");
}

#[test]
fn json_is_small_and_shallow() {
    let said = refused(None, lines("{\"metrics\":[", 1 << 20, |_| "0,".repeat(1 << 9)), 32);
    assert!(said.contains("larger than 2 MiB"), "{said}");
    let deep = lines("{\"metrics\":", 1 << 10, |_| "[".repeat(1 << 10));
    assert!(refused(None, deep, 32).contains("recursion limit"));
}

#[test]
fn moments_all_over_a_year_are_refused() {
    let at = |n: u64| 1_700_000_000 + (n * 7_919) % 31_000_000;
    let said = refused(None, lines("", 1 << 24, |n| format!("0 {n} 1 0 {} 0\n", at(n))), 128);
    assert!(said.contains("two days of seconds"), "{said}");
    let said = refused(None, lines("", 1 << 24, |n| format!("{} 1 2 3 4 5\n", at(n))), 128);
    assert!(said.contains("two days of seconds"), "{said}");
    let history = "Timestamp,User Count,Type,Name,Total Request Count,Total Failure Count,Total Average Response Time\n";
    let rows = lines(history, 1 << 24, |n| format!("{},1,GET,/{n},{n},0,1\n", at(n)));
    let said = refused(None, rows, 128);
    assert!(said.contains("more moments of more operations"), "{said}");
}

#[test]
fn names_kinds_and_clients_without_end_are_summed_or_refused() {
    let rows =
        |n: u64| format!("1795132800,{n}{},1,broken {n}{}\n", "n".repeat(900), "k".repeat(900));
    let (result, took) = measured(|| {
        read("x.csv", None, lines("time,operation,latency_ms,status\n", 100_000, rows)).unwrap()
    });
    assert!(took < 32, "it took {took} MB");
    assert!(result.operations.len() <= 101 && result.log.failures.len() <= 101);
    assert_eq!(result.log.failures.values().sum::<u64>(), 100_000);
    let said = refused(None, lines("", 1 << 20, |n| format!("{n} 1 1 0 1795132800 0\n")), 64);
    assert!(said.contains("more than 100,000 clients"), "{said}");
    let stats = "Type,Name,Request Count,Failure Count,Average Response Time,Min Response Time,Max Response Time,50%\n";
    let said = refused(None, lines(stats, 1 << 20, |n| format!("GET,/{n},1,0,1,1,1,1\n")), 64);
    assert!(said.contains("more than 10,000 requests"), "{said}");
}

#[test]
fn what_is_printed_without_end_takes_no_more_memory() {
    let reports = |n: u64| format!("progress: {n}.0 s, 9.0 tps, lat 1.0 ms stddev 0.1, 0 failed\n");
    let others = |_: u64| format!("{{ [9] x\n[{0}] {0}\n>>>>> PROC: {0}\n", "y".repeat(900));
    let endless = |_: u64| "x".repeat(1 << 10);
    let (printed, took) = measured(|| {
        let mut printed = Printed::new(3);
        for n in 0..200_000 {
            let came = Timestamp(1_795_132_800_000_000 + n as i64 * 1_000_000);
            printed.take(0, reports(n).as_bytes(), came);
            if n < 5_000 {
                printed.take(1, others(n).as_bytes(), came);
                printed.take(2, endless(n).as_bytes(), came);
            }
        }
        printed.results("output").unwrap()
    });
    assert!(took < 150, "it took {took} MB");
    assert_eq!(printed.intervals.len(), 2 * 86_400);
}

#[test]
fn a_long_busy_log_is_counted_as_it_is_read() {
    // Ten minutes of twenty thousand transactions a second.
    let line = |n: u64| {
        let (second, micros) = (1_795_132_800 + n / 20_000, n % 20_000 * 50);
        format!("{} {} {} 0 {second} {micros}\n", n % 64, n / 64, 300 + n * n % 9_000)
    };
    let (result, took) = measured(|| read("x.log", None, lines("", 12_000_000 / 8, line)).unwrap());
    assert!(took < 100, "it took {took} MB");
    assert_eq!(result.log.succeeded, Some(1_500_000));
    let counted: u64 = result.intervals.iter().map(|i| i.scripts[0].transactions).sum();
    assert_eq!(counted, 1_500_000);
}

const REAL: [&[u8]; 15] = [
    include_bytes!("results/real/autocannon.json"),
    include_bytes!("results/real/autocannon_table.txt"),
    include_bytes!("results/real/autocannon_timeouts.json"),
    include_bytes!("results/real/k6.csv"),
    include_bytes!("results/real/k6_export.json"),
    include_bytes!("results/real/k6_micro.csv"),
    include_bytes!("results/real/k6_summary_data.json"),
    include_bytes!("results/real/locust.txt"),
    include_bytes!("results/real/locust_failures.csv"),
    include_bytes!("results/real/locust_full_history.csv"),
    include_bytes!("results/real/locust_stats.csv"),
    include_bytes!("results/real/locust_stats_history.csv"),
    include_bytes!("results/real/pgbench_progress.txt"),
    include_bytes!("results/real/sysbench.txt"),
    include_bytes!("results/real/wrk.txt"),
];

/// A change of some bytes: where, how many go, and what comes.
fn changes() -> impl Strategy<Value = Vec<(f64, usize, Vec<u8>)>> {
    let word = prop_oneof![
        Just(b"9223372036854775807".to_vec()),
        Just(b"18446744073709551615".to_vec()),
        Just(b"-1".to_vec()),
        Just(b"1e308".to_vec()),
        Just(b"NaN".to_vec()),
        Just(b"\"".to_vec()),
        Just(b",".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"{".to_vec()),
        Just(b"null".to_vec()),
        prop::collection::vec(any::<u8>(), 0..6),
    ];
    prop::collection::vec((0.0..1.0_f64, 0_usize..12, word), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_damaged_file_is_read_or_refused(
        file in 0..REAL.len(),
        changes in changes(),
        other in 0..REAL.len(),
    ) {
        let mut bytes = REAL[file].to_vec();
        for (place, length, word) in changes {
            let at = (bytes.len() as f64 * place) as usize;
            let end = (at + length).min(bytes.len());
            bytes.splice(at..end, word);
        }
        let forms = [None, Some(Format::ALL[file % Format::ALL.len()])];
        let read_as = |bytes: &[u8], form| -> Result<_, ResultsError> { read("f", form, bytes) };
        let mut files: Vec<_> = forms.iter().filter_map(|f| read_as(&bytes, *f).ok()).collect();
        files.extend(read_as(REAL[other], None));
        let all = Window { start: Timestamp(i64::MIN), end: Timestamp(i64::MAX) };
        let _ = join(files, all);
    }
}
