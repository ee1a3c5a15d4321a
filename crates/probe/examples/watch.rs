//! Watches a server for a while and prints what was seen and what watching cost:
//! `cargo run --release -p walwright-probe --example watch -- DSN SECONDS [SOURCE]`.
//! With SOURCE, its last rows are printed as JSON.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use walwright_probe::{
    Clock, Connector, HostScope, Observation, Probe, ProbeSpec, Rates, Sink, TablesOfInterest,
    TargetDescription, target_facts,
};
use walwright_record::{Sample, Source, TargetKind};
use walwright_server::ConnectParams;

#[derive(Default)]
struct Seen {
    samples: u64,
    rows: usize,
    bytes: usize,
    last: Option<Sample>,
}

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let dsn = arguments.next().ok_or("which server? give a connection string")?;
    let seconds: u64 = arguments.next().ok_or("for how many seconds?")?.parse()?;
    let wanted = arguments.next().and_then(|name| Source::from_name(&name));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(watch(&dsn, Duration::from_secs(seconds), wanted))
}

async fn watch(dsn: &str, time: Duration, wanted: Option<Source>) -> Result<(), Failure> {
    let params = ConnectParams::resolve(Some(dsn))?;
    let client = walwright_server::connect(&params).await?;
    let description = TargetDescription {
        kind: TargetKind::Attached,
        address: params.address(),
        install: None,
        tables: TablesOfInterest::Largest(20),
    };
    let facts = target_facts(&client, &description).await?;
    drop(client);

    let seen: Arc<Mutex<BTreeMap<&'static str, Seen>>> = Arc::default();
    let store = Arc::clone(&seen);
    let sink: Sink = Arc::new(move |observation| match observation {
        Observation::Event(event) => println!("{}: {}", event.kind, event.text),
        Observation::Sample(sample) => {
            let mut all = store.lock().unwrap_or_else(PoisonError::into_inner);
            let seen = all.entry(sample.source.name()).or_default();
            seen.samples += 1;
            seen.rows += sample.rows.len();
            // Only for what is asked: this thread's time is the probe's cost.
            if wanted == Some(sample.source) {
                seen.bytes += serde_json::to_string(&sample.rows).map_or(0, |text| text.len());
                seen.last = Some(sample);
            }
        }
    });
    let spec = ProbeSpec {
        connector: Connector::to(&params),
        rates: Rates::default(),
        host: HostScope::of(&facts),
        clock: Clock::start(),
    };
    let probe = Probe::start(spec, sink).await?;
    tokio::time::sleep(time).await;
    let report = probe.stop().await?;

    let seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
    for (source, seen) in seen.iter() {
        println!(
            "{source:<18} {:>6} samples {:>7} rows {:>9} bytes of JSON",
            seen.samples, seen.rows, seen.bytes
        );
        if let Some(sample) = &seen.last {
            for row in &sample.rows {
                println!("  {}", serde_json::to_string(row)?);
            }
        }
    }
    for sentence in facts.not_observable.iter().chain(&report.not_observable) {
        println!("not observable: {sentence}");
    }
    for slowed in &report.slowed {
        println!("slowed: {}", slowed.sentence());
    }
    let per_second = |of: Duration| of.as_secs_f64() * 1e3 / report.duration.as_secs_f64();
    println!(
        "{} queries, {:.1} ms/s waiting for answers, {:.2} ms/s of own threads, {} of backends, {} of the machine",
        report.queries,
        per_second(report.query_time),
        per_second(report.own_cpu),
        report
            .backend_cpu
            .map_or("unknown".to_owned(), |cpu| format!("{:.2} ms/s", per_second(cpu))),
        report
            .machine_share()
            .map_or("unknown".to_owned(), |share| format!("{:.2} %", share * 100.0)),
    );
    Ok(())
}
