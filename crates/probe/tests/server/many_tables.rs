//! A schema of thousands of tables costs the server no more than a small one.

use std::time::Duration;

use walwright_probe::{Clock, Connector, HostScope, Probe, ProbeSpec, Rates};
use walwright_record::Source;
use walwright_server::Major;

use crate::bench::{Collector, block_on, connect, facts, server};

/// Runs `what` with the number of each of 3,000 tables.
fn each_table(what: &str) -> String {
    format!("DO $$ BEGIN FOR i IN 1..3000 LOOP EXECUTE format('{what}', i); END LOOP; END $$")
}

#[test]
fn thousands_of_tables_cost_little_from_the_first_reading_on() {
    let server = server(
        Major::V18,
        &[("max_locks_per_transaction", "4096"), ("autovacuum", "off"), ("fsync", "off")],
    );
    let params = server.connect_params("postgres");
    block_on(async {
        let client = connect(&params).await;
        for what in
            ["CREATE TABLE t%s (id int PRIMARY KEY, v int)", "INSERT INTO t%s VALUES (1, 1)"]
        {
            client.batch_execute(&each_table(what)).await.expect("3,000 tables");
        }
        let host = HostScope::of(&facts(&client).await);
        let seen = Collector::default();
        let spec = ProbeSpec {
            connector: Connector::to(&params),
            rates: Rates::default(),
            host,
            clock: Clock::start(),
        };
        let probe = Probe::start(spec, seen.sink()).await.expect("a probe");
        // All of them are written between any two readings. The full readings at both ends cost
        // the same in a run of any length: half a minute is a short one.
        for _ in 0..30 {
            client.batch_execute(&each_table("UPDATE t%s SET v = v + 1")).await.expect("written");
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let report = probe.stop().await.expect("a report");
        // Of the probe's own part, a build for tests says nothing.
        let spent = report.backend_cpu.expect("the server runs here").as_secs_f64();
        let processors = f64::from(report.processors.expect("this machine's"));
        let share = spent / (report.duration.as_secs_f64() * processors);
        assert!(share <= 0.01, "{:.2} % of the machine: {report:?}", share * 100.0);
        assert!(report.slowed.iter().any(|slowed| slowed.what == "tables and indexes"));
        assert!(report.not_observable.iter().any(|text| text.contains("most active")));
        let followed = seen.samples(Source::Tables);
        assert!(followed.first().is_some_and(|first| first.rows.len() >= 100));
        assert!(followed.len() >= 2, "a beginning and an end");
    });
}
