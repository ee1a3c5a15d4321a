use std::time::Duration;

use walwright_record::{InstrumentFacts, Record, RunId, RunState, Source, Warning, WarningCode};
use walwright_stats::ScalingLaw;
use walwright_testing::{Build, closed_loop, row, wait};

use super::*;

/// Runs, read without a diagnosis.
fn read(records: &[Record]) -> Option<Scaling> {
    let summaries: Vec<Summary> = records.iter().map(crate::summary).collect();
    let read = |(record, summary)| SweptRun { record, summary, problem: None };
    scaling("s", &records.iter().zip(&summaries).map(read).collect::<Vec<_>>())
}

/// Seconds of each run.
const LENGTH: u32 = 20;

/// A run of `clients` at `rate` whose transactions flush for 0.2 ms and are on a processor for
/// 0.3 ms; the rest of their time they spend as `kind` and `event` say.
fn run(clients: u32, rate: f64, kind: &str, event: &str, repeat: u32) -> Record {
    let mut build = Build::new();
    let latency = f64::from(clients) / rate;
    for s in 0..LENGTH {
        let each = vec![Duration::from_secs_f64(latency); rate as usize];
        build.interval(f64::from(s), &each).clients = clients;
    }
    build.measure(0.0, f64::from(LENGTH));
    let rest = latency - 0.5e-3;
    for tick in 0..10 * LENGTH {
        // Sampling scatters; what it scatters around is exact.
        let wobble = 1.0 + 0.2 * f64::from(tick % 7) - 0.6;
        let sessions = |seconds: f64| rate * seconds * wobble;
        build.sample(
            f64::from(tick) / 10.0,
            Source::Waits,
            [
                wait("active", "", "", sessions(0.3e-3)),
                wait("active", "IO", "walsync", sessions(0.2e-3)),
                wait("active", kind, event, sessions(rest.max(0.0))),
            ],
        );
    }
    let mut record = build.record;
    record.header.id = RunId(format!("20261120-0000{clients:02}-{repeat:03}"));
    record.load = Some(closed_loop(clients));
    record
}

fn sweep(law: ScalingLaw, kind: &str, event: &str) -> Vec<Record> {
    // In no order, as they are run.
    [8, 1, 32, 2, 16, 4].map(|n| run(n, law.throughput(f64::from(n)), kind, event, 0)).into()
}

/// Peaks at 9.7 clients.
const PEAKED: ScalingLaw = ScalingLaw { single: 1_600.0, contention: 0.06, coherency: 0.01 };
/// Still far from its peak at 32.
const RISING: ScalingLaw = ScalingLaw { single: 1_600.0, contention: 0.02, coherency: 1e-5 };

#[test]
fn the_peak_and_what_bends_the_curve_are_found() {
    let found = read(&sweep(PEAKED, "Lock", "transactionid")).unwrap();
    let peak = found.peak.clone().unwrap();
    assert!((peak.center - 9.7).abs() < 0.5, "{peak:?}");
    let bend = found.bend.as_ref().unwrap();
    assert_eq!((bend.from, bend.to), (1, 16));
    let most = &bend.growths[0];
    assert_eq!(most.resource, ScalingResource::Locks);
    assert!(most.seconds.excludes(0.0) && most.after > 0.8, "{most:?}");
    // Nothing else takes longer, so all of the increase is theirs.
    assert!((most.part_of_increase.unwrap() - 1.0).abs() < 0.05, "{most:?}");
    let clients: Vec<u32> = found.loads.iter().map(|load| load.clients).collect();
    assert_eq!(clients, [1, 2, 4, 8, 16, 32]);
    let said = found.verdict.join(" ");
    assert!(
        said.contains("peaks at 9.7 clients") || said.contains("peaks at 10 clients"),
        "{said}"
    );
    assert!(said.contains("What bends the curve: locks."), "{said}");
}

#[test]
fn what_takes_most_of_the_increase_is_named_though_its_share_stays() {
    let runs: Vec<Record> = [1, 2, 4, 8, 16, 32]
        .into_iter()
        .map(|n| {
            let rate = RISING.throughput(f64::from(n)).min(4_000.0);
            let mut record = run(n, rate, "Lock", "transactionid", 0);
            // Of what a transaction waits, two thirds for a processor, with one client too.
            for sample in record.samples.get_mut(&Source::Waits).unwrap() {
                let sessions = sample.rows[2].number("sessions").unwrap_or(0.0);
                let cpu = sample.rows[0].number("sessions").unwrap_or(0.0);
                sample.rows[0].set("sessions", cpu + 2.0 / 3.0 * sessions);
                sample.rows[2].set("sessions", sessions / 3.0);
            }
            record
        })
        .collect();
    let found = read(&runs).unwrap();
    let growths = &found.bend.as_ref().unwrap().growths;
    assert_eq!(growths[0].resource, ScalingResource::Processors);
    let grown: Vec<f64> = growths.iter().map(|growth| growth.seconds.center).collect();
    assert!(grown.is_sorted_by(|a, b| a >= b), "the order of the table: {grown:?}");
    let said = found.verdict.join(" ");
    let part = 100.0 * growths[0].part_of_increase.unwrap();
    assert!(said.contains("processors. That part of a transaction"), "{said}");
    assert!(said.contains(&format!("{part:.0} % of all that it takes longer")), "{said}");
    assert!(said.contains("After it: locks, with"), "{said}");
}

#[test]
fn a_flush_that_queues_is_named_with_its_queue() {
    let found = read(&sweep(PEAKED, "LWLock", "WALWrite")).unwrap();
    assert_eq!(found.bend.unwrap().growths[0].resource, ScalingResource::WalFlush);
    let found = read(&sweep(PEAKED, "LWLock", "BufferMapping")).unwrap();
    assert_eq!(found.bend.unwrap().growths[0].resource, ScalingResource::Lwlocks);
}

#[test]
fn a_peak_outside_the_range_is_not_found() {
    let found = read(&sweep(RISING, "Lock", "transactionid")).unwrap();
    assert_eq!(found.peak, None);
    assert_eq!(found.bend.as_ref().unwrap().to, 32);
    let said = found.verdict.join(" ");
    assert!(said.contains("not found: the curve is still rising at 32 clients"), "{said}");
    assert!(said.contains("What grows most so far: locks."), "{said}");
    assert!(!said.contains("peaks at"), "{said}");
}

#[test]
fn a_curve_without_a_peak_tells_what_it_approaches() {
    let law = ScalingLaw { single: 1_600.0, contention: 0.1, coherency: 0.0 };
    // The last one a little above the curve, which no coherence can explain.
    let runs: Vec<Record> = [1, 2, 4, 8, 16, 32]
        .into_iter()
        .map(|n| (n, law.throughput(f64::from(n)) * if n == 32 { 1.02 } else { 1.0 }))
        .map(|(n, rate)| run(n, rate, "Lock", "tuple", 0))
        .collect();
    let found = read(&runs).unwrap();
    assert_eq!((found.peak, found.fit.as_ref().unwrap().law.coherency), (None, 0.0));
    assert!(found.verdict[0].contains("and approaches 16"), "{:?}", found.verdict);
}

#[test]
fn clients_that_wait_are_the_processors_where_those_are_full_and_the_generators_where_it_is() {
    let waiting = || sweep(PEAKED, "Client", "ClientRead");
    let of = |runs: &[Record]| read(runs).unwrap().bend.unwrap().growths[0].resource;
    assert_eq!(of(&waiting()), ScalingResource::Clients);
    let mut full = waiting();
    for record in &mut full {
        let idle = if record.load.as_ref().unwrap().clients == 1 { 1.0 } else { 0.04 };
        let mut build = Build::new();
        for s in 0..LENGTH {
            let t = f64::from(s);
            let cpu = [
                ("user", 2.0 * t - idle * t),
                ("nice", 0.0),
                ("system", 0.0),
                ("idle", idle * t),
                ("iowait", 0.0),
                ("irq", 0.0),
                ("softirq", 0.0),
                ("steal", 0.0),
            ];
            build.sample(t, Source::Cpu, [row(cpu)]);
        }
        record.samples.extend(build.record.samples);
    }
    assert_eq!(of(&full), ScalingResource::Processors);
    let mut limited = waiting();
    for record in &mut limited {
        record.instrument = Some(InstrumentFacts {
            cpu_per_transaction: None,
            ceiling: None,
            busiest_thread: Some(0.95),
        });
    }
    assert_eq!(of(&limited), ScalingResource::Generator);
}

#[test]
fn repeats_are_one_load_with_the_interval_between_them() {
    let mut runs = sweep(PEAKED, "Lock", "tuple");
    runs.extend([1, 2].map(|repeat| {
        let rate = PEAKED.throughput(4.0) * (1.0 + 0.01 * f64::from(repeat));
        run(4, rate, "Lock", "tuple", repeat)
    }));
    let found = read(&runs).unwrap();
    assert_eq!((found.points.len(), found.loads.len()), (8, 6));
    let four = found.loads.iter().find(|load| load.clients == 4).unwrap();
    assert_eq!(four.runs.len(), 3);
    let expected = PEAKED.throughput(4.0) * 1.01;
    // Whole transactions a second are counted.
    assert!((four.throughput.center - expected).abs() < 2.0);
    assert!(four.throughput.interval.unwrap().half_width() > 0.01 * expected);
    assert!(!found.warnings.iter().any(|warning| warning.contains("one run a client count")));
}

#[test]
fn runs_that_scatter_give_no_peak() {
    let rates = [1_200.0, 1_150.0, 1_100.0, 2_100.0, 2_600.0, 1_350.0];
    let runs: Vec<Record> = [1, 2, 4, 8, 16, 32]
        .into_iter()
        .zip(rates)
        .map(|(clients, rate)| run(clients, rate, "Lock", "tuple", 0))
        .collect();
    let found = read(&runs).unwrap();
    assert_eq!(found.peak, None, "{:?}", found.fit.map(|fit| fit.peak_clients));
    assert!(found.verdict[0].contains("cannot be told from these runs"), "{:?}", found.verdict);
    assert!(found.warnings[0].contains("off the fitted curve"), "{:?}", found.warnings);
}

#[test]
fn few_loads_are_told_without_a_curve() {
    let runs: Vec<Record> = sweep(PEAKED, "Lock", "tuple").into_iter().take(3).collect();
    let found = read(&runs).unwrap();
    assert_eq!(found.fit, None);
    assert!(found.not_fitted.unwrap().contains("at least 4 different client counts, not 3"));
    assert!(found.verdict[0].starts_with("No curve was fitted"), "{:?}", found.verdict);
    assert_eq!(found.loads.len(), 3);
    // What grew is told all the same.
    assert_eq!(found.bend.unwrap().growths[0].resource, ScalingResource::Locks);
}

#[test]
fn a_run_that_was_interrupted_is_left_out_and_named() {
    let mut runs = sweep(PEAKED, "Lock", "tuple");
    runs[0].header.state = RunState::Interrupted;
    runs[1].warnings.push(Warning::new(WarningCode::Steal, "5 % stolen"));
    let found = read(&runs).unwrap();
    assert_eq!(found.points.len(), 5);
    assert!(found.left_out[0].contains("interrupted"), "{:?}", found.left_out);
    assert!(found.warnings.iter().any(|warning| warning.contains("5 % stolen")));
    assert!(read(&[]).is_none());
}

#[test]
fn without_samples_the_bend_is_not_observable() {
    let mut runs = sweep(PEAKED, "Lock", "tuple");
    runs.iter_mut().for_each(|run| run.samples.clear());
    let found = read(&runs).unwrap();
    assert!(found.peak.is_some());
    assert_eq!(found.bend, None);
    assert!(found.verdict.iter().any(|said| said.contains("not observable")));
}
