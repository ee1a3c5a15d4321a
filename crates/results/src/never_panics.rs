//! No file makes a parser panic, whatever is in it.

use proptest::prelude::*;

use crate::{Format, read};

/// Beginnings that take a parser past its first check.
const HEADS: [&str; 11] = [
    "pgbench (18.6)\nnumber of transactions actually processed: ",
    "sysbench 1.0.20\nSQL statistics:\n    transactions: 7 (\n95th percentile: ",
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn on_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = read("f", None, bytes.as_slice());
        for format in Format::ALL {
            let _ = read("f", Some(format), bytes.as_slice());
        }
    }

    #[test]
    fn on_likely_text(head in prop::sample::select(&HEADS[..]), text in likely()) {
        let file = format!("{head}{text}");
        let _ = read("f", None, file.as_bytes());
        for format in Format::ALL {
            let _ = read("f", Some(format), file.as_bytes());
        }
    }
}
