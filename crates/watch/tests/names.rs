//! No rule and no panel names a metric that does not exist, and each rule speaks of its fault.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use walwright_coalesce::describe_metrics;
use walwright_watch::metric::{self, MetricKind};
use walwright_watch::{dashboard, dashboard_queries, rules, rules_yaml};

/// The names of series by the lines that tell the types of metrics.
fn series(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for line in text.lines() {
        let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        else {
            continue;
        };
        if kind == "histogram" {
            names.extend(["_bucket", "_sum", "_count"].map(|end| format!("{name}{end}")));
        } else {
            names.insert(name.to_owned());
        }
    }
    names
}

/// The metrics of the gateway and of ingest, without values.
fn others() -> String {
    let mut text = walwright_gateway::describe_metrics();
    let mut registry = Registry::with_prefix("walwright_ingest");
    describe_metrics(&mut registry);
    prometheus_client::encoding::prometheus_text::encode(&mut text, &registry).unwrap();
    text
}

fn all() -> BTreeSet<String> {
    let mut names = series(&others());
    for metric in metric::ALL {
        let name = metric.exposed();
        match metric.kind {
            MetricKind::Histogram => {
                names.extend(["_bucket", "_sum", "_count"].map(|end| format!("{name}{end}")));
            }
            _ => {
                names.insert(name);
            }
        }
    }
    names
}

/// The words of a query that can only be metrics.
fn named(query: &str) -> impl Iterator<Item = &str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    query.split(move |c| !is_word(c)).filter(|word| word.starts_with("walwright_"))
}

#[test]
fn rules_and_panels_name_what_there_is() {
    let names = all();
    let rules = rules();
    let queries: Vec<String> =
        rules.iter().map(|rule| rule.expression.clone()).chain(dashboard_queries()).collect();
    for query in &queries {
        let words: Vec<&str> = named(query).collect();
        assert!(!words.is_empty(), "{query}");
        for word in words {
            assert!(names.contains(word), "{word} is no metric, in {query}");
        }
    }
    let mut alerts = BTreeSet::new();
    for rule in &rules {
        assert!(alerts.insert(rule.name), "{} twice", rule.name);
        assert!(rules_yaml().contains(&format!("- alert: {}\n", rule.name)));
    }
    // Panels have places of their own.
    let page = dashboard();
    let places: BTreeSet<String> = page["panels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|panel| panel["gridPos"].to_string())
        .collect();
    assert_eq!(places.len(), page["panels"].as_array().unwrap().len());
}

/// What promtool says of files in `directory`; `None` where it is not installed.
fn promtool(directory: &Path, arguments: &[&str], input: Stdio) -> Option<Output> {
    let mut command = Command::new("promtool");
    match command.args(arguments).current_dir(directory).stdin(input).output() {
        Ok(output) => Some(output),
        Err(error) => {
            eprintln!("skipped: promtool cannot be run: {error}; the package prometheus has it");
            None
        }
    }
}

fn accepted(output: &Output) {
    let said = [&output.stdout, &output.stderr].map(|out| String::from_utf8_lossy(out));
    assert!(output.status.success(), "{}", said.concat());
}

/// A fault, minute by minute, and what the rule says of it. Until it begins the rule is silent.
struct Planted {
    alert: &'static str,
    /// Series with their values in promtool's notation: `0x9` is 0 and nine more of it, `0+5x9`
    /// rises by 5.
    series: &'static [(&'static str, &'static str)],
    /// Minutes after which nothing is wrong yet.
    sound: u32,
    /// Minutes after which the rule speaks.
    wrong: u32,
    /// Labels of the alert, without its severity.
    labels: &'static [(&'static str, &'static str)],
    says: &'static str,
}

/// Five hundred observations a minute: all at most 0.05 s, then one in fifty between 2 and 4 s
/// and the rest between 0.05 and 2 s.
macro_rules! slow {
    ($name:literal) => {
        &[
            (concat!($name, "_bucket{le=\"0.05\",instance=\"a\"}"), "0+500x29 14500+0x30"),
            (concat!($name, "_bucket{le=\"2\",instance=\"a\"}"), "0+500x29 14500+490x30"),
            (concat!($name, "_bucket{le=\"4\",instance=\"a\"}"), "0+500x29 14500+500x30"),
            (concat!($name, "_bucket{le=\"+Inf\",instance=\"a\"}"), "0+500x29 14500+500x30"),
        ]
    };
}

const PLANTED: &[Planted] = &[
    Planted {
        alert: "WalwrightServerDown",
        series: &[("walwright_up{instance=\"a\"}", "1x4 0x9")],
        sound: 4,
        wrong: 7,
        labels: &[("instance", "a")],
        says: "The server does not answer",
    },
    Planted {
        alert: "WalwrightReplicationLag",
        series: &[("walwright_replication_lag_seconds{standby=\"b\"}", "1x9 90x9")],
        sound: 9,
        wrong: 13,
        labels: &[("standby", "b")],
        says: "Standby b is 1m 30s behind",
    },
    Planted {
        alert: "WalwrightLockWaits",
        series: &[("walwright_lock_wait_longest_seconds", "0.05x9 0.25x9")],
        sound: 9,
        wrong: 12,
        labels: &[],
        says: "Sessions wait for locks, one of them for 250ms",
    },
    Planted {
        alert: "WalwrightWalRateJump",
        series: &[("walwright_wal_bytes_total", "0+125829120x1440 181193932800+629145600x60")],
        sound: 1440,
        wrong: 1470,
        labels: &[],
        says: "WAL is written at three times the rate of the last day: 10MiB/s",
    },
    Planted {
        alert: "WalwrightSlowFlushes",
        series: &[
            ("walwright_wal_flush_seconds_sum", "0+1x19 19+50x40"),
            ("walwright_wal_flush_seconds_count", "0+1000x60"),
        ],
        sound: 19,
        wrong: 40,
        labels: &[],
        says: "A WAL flush takes 50ms on average",
    },
    Planted {
        alert: "WalwrightCheckpointsForced",
        series: &[("walwright_checkpoints_total{cause=\"requested\"}", "0x70 0+1x70")],
        sound: 70,
        wrong: 131,
        labels: &[("cause", "requested")],
        says: "60 checkpoints were forced by WAL volume in an hour",
    },
    Planted {
        alert: "WalwrightVacuumDebt",
        series: &[("walwright_vacuum_debt_ratio{table=\"public.t\"}", "1x9 4.56x60")],
        sound: 9,
        wrong: 50,
        labels: &[("table", "public.t")],
        says: "public.t has 4.6 times the dead rows at which autovacuum comes",
    },
    Planted {
        alert: "WalwrightTransactionIdAge",
        series: &[("walwright_xid_age", "200000000x9 1500000000x30")],
        sound: 9,
        wrong: 30,
        labels: &[],
        says: "The oldest transaction id is 1.5G transactions old; the server stops at 2.1 billion",
    },
    Planted {
        alert: "WalwrightOldTransaction",
        series: &[("walwright_oldest_transaction_seconds", "60x9 5400x30")],
        sound: 9,
        wrong: 20,
        labels: &[],
        says: "A transaction has been open for 1h 30m 0s",
    },
    Planted {
        alert: "WalwrightSlotRetainsWal",
        series: &[("walwright_slot_retained_bytes{slot=\"s\"}", "1e6x9 21474836480x30")],
        sound: 9,
        wrong: 30,
        labels: &[("slot", "s")],
        says: "Slot s holds back 20GiB of WAL",
    },
    Planted {
        alert: "WalwrightFinding",
        series: &[(
            "walwright_finding{id=\"D9\",kind=\"problem\",subject=\"public.t\",title=\"lock waits\"}",
            "_x9 1x30",
        )],
        sound: 9,
        wrong: 30,
        labels: &[
            ("id", "D9"),
            ("kind", "problem"),
            ("subject", "public.t"),
            ("title", "lock waits"),
        ],
        says: "D9 lock waits public.t",
    },
    Planted {
        alert: "WalwrightDiagnosisStale",
        series: &[("walwright_diagnosis_timestamp_seconds", "0+60x9 540x90")],
        sound: 60,
        wrong: 80,
        labels: &[],
        says: "No diagnosis for an hour",
    },
    Planted {
        alert: "WalwrightGatewayServerDown",
        series: &[("walwright_gateway_server_up{server=\"db:5432\"}", "1x9 0x9")],
        sound: 9,
        wrong: 12,
        labels: &[("server", "db:5432")],
        says: "The gateway cannot use the server at db:5432",
    },
    Planted {
        alert: "WalwrightGatewayBarrierSlow",
        series: slow!("walwright_gateway_barrier_seconds"),
        sound: 29,
        wrong: 55,
        labels: &[("instance", "a")],
        says: "One barrier in a hundred takes 3s",
    },
    Planted {
        alert: "WalwrightGatewayClientsWait",
        series: slow!("walwright_gateway_queue_wait_seconds"),
        sound: 29,
        wrong: 55,
        labels: &[("instance", "a")],
        says: "One statement in a hundred waits 3s for a session",
    },
    Planted {
        alert: "WalwrightIngestBatchSlow",
        series: slow!("walwright_ingest_flush_seconds"),
        sound: 29,
        wrong: 55,
        labels: &[("instance", "a")],
        says: "One batch in a hundred takes 3s to be written",
    },
    Planted {
        alert: "WalwrightIngestDeadLetters",
        series: &[("walwright_ingest_dead_letters_total", "0x20 3x20")],
        sound: 20,
        wrong: 25,
        labels: &[],
        says: "3 rows were refused and kept as dead letters",
    },
];

#[test]
fn each_rule_speaks_of_its_fault_and_not_before() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("rules.yml"), rules_yaml()).unwrap();
    let Some(checked) = promtool(directory.path(), &["check", "rules", "rules.yml"], Stdio::null())
    else {
        return;
    };
    accepted(&checked);
    let rules = rules();
    let tests = rules.iter().map(|rule| {
        let planted = PLANTED.iter().find(|planted| planted.alert == rule.name);
        let planted = planted.unwrap_or_else(|| panic!("no fault shows {}", rule.name));
        let mut labels: BTreeMap<&str, &str> = planted.labels.iter().copied().collect();
        labels.insert("severity", rule.severity);
        let id = labels.get("id").copied().unwrap_or_default();
        let description = rule.what_to_do.replace("{{ $labels.id }}", id);
        let at = |minutes: u32, alerts: Value| {
            json!({
                "eval_time": format!("{minutes}m"),
                "alertname": rule.name,
                "exp_alerts": alerts,
            })
        };
        let speaks = json!([{
            "exp_labels": labels,
            "exp_annotations": { "summary": planted.says, "description": description },
        }]);
        let series = planted.series.iter();
        json!({
            "name": rule.name,
            "interval": "1m",
            "input_series": series
                .map(|(series, values)| json!({ "series": series, "values": values }))
                .collect::<Vec<_>>(),
            "alert_rule_test": [at(planted.sound, json!([])), at(planted.wrong, speaks)],
        })
    });
    // JSON is YAML.
    let tests = json!({
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1m",
        "tests": tests.collect::<Vec<_>>(),
    });
    std::fs::write(directory.path().join("tests.yml"), tests.to_string()).unwrap();
    let tested = promtool(directory.path(), &["test", "rules", "tests.yml"], Stdio::null());
    accepted(&tested.unwrap());
}

/// Those of watching itself are checked as a server's watch exposes them.
#[test]
fn names_of_the_gateway_and_of_ingest_are_by_convention() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("metrics");
    // promtool looks at metrics that have a value.
    let valued = others().lines().fold(String::new(), |mut text, line| {
        text += &format!("{line}\n");
        for name in series(line) {
            let bucket = if name.ends_with("_bucket") { "{le=\"+Inf\"}" } else { "" };
            text += &format!("{name}{bucket} 0\n");
        }
        text
    });
    std::fs::write(&path, valued).unwrap();
    let input = File::open(&path).unwrap().into();
    if let Some(checked) = promtool(directory.path(), &["check", "metrics"], input) {
        accepted(&checked);
    }
}
