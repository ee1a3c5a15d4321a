//! No file makes a parser panic, whatever is in it.

use proptest::prelude::*;

use walwright_record::Timestamp;

use crate::{Format, Printed, read};

/// Beginnings that take a parser past its first check.
const HEADS: [&str; 24] = [
    "pgbench (18.6)\nnumber of transactions actually processed: ",
    "sysbench 1.0.20\nSQL statistics:\n    transactions: 7 (\n95th percentile: ",
    "progress: 1.0 s, 620.0 tps, lat 3.211 ms stddev 1.020, 0 failed\nprogress: 1795132800.5 s, ",
    "[ 10s ] thds: 8 tps: 623.34 qps: 12478.80 lat (ms,95%): 4.03 err/s: 0.00\n[ ",
    "Vuser 1:TEST RESULT : System achieved 17099 NOPM from 39188 PostgreSQL TPM ",
    ">>>>> COMBINED METRICS ACROSS ALL USERS\n>>>>> PROC: PAYMENT\nCALLS: 1 P99: ",
    "Results(state=EXIT, nanoSeconds=60000083167, measuredRequests=201) = 3.3 requests/sec ",
    "  Success rate:\t1%\n  Requests/sec:\t4472.2547\n  50.00% in 0.0011 secs\n[200] 9 responses\n[",
    "Thread Stats   Avg   Max\nLatency Distribution\n3 requests in 3s\nSocket errors: read 3, ",
    "summary = 10120 in 00:00:13 = 781.2/s Avg: 7 Min: 2 Max: 59 Err: 0 (0.00%)\nsummary = ",
    "│ Stat │ 50% │ Avg │ Max │\n│ Latency │ 5 ms │ 6 ms │ 7 ms │\n9 requests in 3s\n",
    "http_reqs....: 1818 15.09/s\nhttp_req_duration...: avg=3ms p(90)=4ms max=",
    "Type Name # reqs # fails | Avg\nAggregated 5 1(2%) | 46 3 9 4 | 63.0 2.2\nAggregated ",
    "timeStamp,elapsed,label,responseCode,success\n1499876018809,",
    "{\"summary\":{},\"latencyPercentiles\":{\"p50\":",
    "0 1 4533 0 1795132800 12345\n",
    "1649114136 5815 27552565 177846919143 1078 21716 0 0 0 0 0 0 0 0 0\n",
    "Type,Name,Request Count,Failure Count,Median Response Time,Average Response Time,Min Response Time,Max Response Time,50%,99%\n",
    "Timestamp,User Count,Type,Name,Total Request Count,Total Failure Count,Total Average Response Time\n",
    "Method,Name,Error,Occurrences\n",
    "metric_name,timestamp,metric_value,error,error_code,status,name\nhttp_req_duration,",
    "{\"metrics\":{\"http_req_duration\":",
    "{\"latency\":{\"p50\":",
    "time,operation,latency_ms,status\n",
];

/// Text of the letters that these files are made of.
fn likely() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        "[0-9]{1,20}",
        "-?[0-9]{1,4}\\.[0-9]{0,3}",
        Just("1795132800".to_owned()),
        Just("9223372036854775807".to_owned()),
        Just("1e308".to_owned()),
        Just("NaN".to_owned()),
        Just("skipped".to_owned()),
        Just("http_req_duration".to_owned()),
        Just("Aggregated".to_owned()),
        "[\"{}:\\[\\]]",
        ".{0,5}",
    ];
    let between = prop_oneof![Just(" "), Just(","), Just("\n"), Just("\"")];
    prop::collection::vec((word, between), 0..60)
        .prop_map(|words| words.into_iter().map(|(word, between)| word + between).collect())
}

/// Hears it in pieces, at moments that hardly differ or very much.
fn listen(bytes: &[u8]) {
    for moment in [1, i64::MAX / 1_000, i64::MIN / 1_000] {
        let mut printed = Printed::new(2);
        for (at, piece) in (0..).zip(bytes.chunks(7)) {
            printed.take(at as usize % 2, piece, Timestamp(moment * at.min(999)));
        }
        let _ = printed.results("f");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn on_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = read("f", None, bytes.as_slice());
        listen(&bytes);
        for format in Format::ALL {
            let _ = read("f", Some(format), bytes.as_slice());
        }
    }

    #[test]
    fn on_likely_text(head in prop::sample::select(&HEADS[..]), text in likely()) {
        let file = format!("{head}{text}");
        let _ = read("f", None, file.as_bytes());
        listen(file.as_bytes());
        for format in Format::ALL {
            let _ = read("f", Some(format), file.as_bytes());
        }
    }
}
