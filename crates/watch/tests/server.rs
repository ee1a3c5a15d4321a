//! Watching a real server: metrics scraped, a finding that appears, a server that goes and comes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::RangeInclusive;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use walwright_record::{Timestamp, Window};
use walwright_server::{Cluster, ClusterSpec, ConnectParams, Installs, Major, Stop};
use walwright_watch::{
    AlertTo, Entry, EventKind, Keep, Rates, Ring, Told, WatchPlan, ring_directory, watch,
};

/// Longest that anything may take to happen.
const PATIENCE: Duration = Duration::from_secs(60);

fn fast() -> Rates {
    Rates {
        counters: Duration::from_millis(200),
        statements: Duration::from_millis(500),
        tables: Duration::from_millis(500),
        waits: Duration::from_millis(20),
        at_most: None,
    }
}

/// Sessions that all want one row, each for 10 ms.
async fn contend(params: ConnectParams, stop: Stop) {
    let client = walwright_server::connect_for_workload(&params).await.expect("connected");
    client
        .batch_execute("CREATE TABLE one (n int); INSERT INTO one VALUES (0)")
        .await
        .expect("made");
    let sessions = (0..6).map(|_| {
        let (params, stop) = (params.clone(), stop.clone());
        tokio::spawn(async move {
            let client = walwright_server::connect_for_workload(&params).await.expect("connected");
            let work = "BEGIN; UPDATE one SET n = n + 1; SELECT pg_sleep(0.01); COMMIT";
            // The server ends it in the end.
            while !stop.is_requested() && client.batch_execute(work).await.is_ok() {}
        })
    });
    for session in sessions.collect::<Vec<_>>() {
        session.await.expect("a session");
    }
}

fn get(address: SocketAddr, path: &str, accept: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("connected");
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: here\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    (head.to_owned(), body.to_owned())
}

/// The value of a series, or of the first that begins so.
fn value(metrics: &str, series: &str) -> Option<f64> {
    let line = metrics.lines().find(|line| line.starts_with(series))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// The metrics once a series is in a range: what is exposed follows what is told.
fn scraped(address: SocketAddr, series: &str, range: RangeInclusive<f64>) -> String {
    let since = Instant::now();
    loop {
        let (_, metrics) = get(address, "/metrics", "text/plain");
        if value(&metrics, series).is_some_and(|value| range.contains(&value)) {
            return metrics;
        }
        assert!(since.elapsed() < PATIENCE, "{series}\n{metrics}");
        std::thread::yield_now();
    }
}

/// Has promtool look at names, help and types, where it is installed.
fn by_convention(metrics: &str) {
    let mut command = Command::new("promtool");
    let spawned = command.args(["check", "metrics"]).stdin(Stdio::piped()).spawn();
    let Ok(mut child) = spawned else {
        eprintln!("names are not checked: there is no promtool; the package prometheus has it");
        return;
    };
    let mut input = child.stdin.take().expect("an input");
    input.write_all(metrics.as_bytes()).expect("written");
    drop(input);
    assert!(child.wait().expect("ended").success(), "promtool refuses\n{metrics}");
}

fn until(told: &Receiver<Told>, what: &str, mut is_it: impl FnMut(&Told) -> bool) -> Told {
    let until = Instant::now() + PATIENCE;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let next = told.recv_timeout(left).unwrap_or_else(|_| panic!("{what} did not come"));
        if is_it(&next) {
            return next;
        }
    }
}

fn is(told: &Told, kind: EventKind) -> bool {
    matches!(told, Told::Event(event) if event.kind == kind)
}

#[test]
fn a_server_is_watched_through_a_finding_a_restart_and_a_changed_setting() {
    let installs = Installs::open(None).expect("a cache");
    let install = installs.ensure(Major::V18, &mut |_| {}).expect("an install");
    let mut spec = ClusterSpec::new(installs.places(), install);
    spec.settings = vec![("track_wal_io_timing".into(), "on".into())];
    let cluster = Cluster::create(spec).expect("a cluster");
    let server = cluster.start().expect("started");
    let params = server.connect_params("postgres");
    let lab = tempfile::tempdir().expect("a directory");
    let (sent, told) = channel();
    let sent = Mutex::new(sent);
    let (stop, load) = (Stop::new(), Stop::new());
    let plan = WatchPlan {
        params: params.clone(),
        ring: ring_directory(lab.path(), &params.address()),
        keep: Keep::default(),
        rates: fast(),
        slot: Duration::from_millis(500),
        diagnose: Duration::from_secs(2),
        metrics: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
        alerts: AlertTo::default(),
        command: "walwright watch".to_owned(),
    };
    let ring = Ring::at(plan.ring.clone());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let watching = runtime.spawn(watch(
        plan,
        stop.clone(),
        Arc::new(move |told| {
            let _ = sent.lock().expect("no panic").send(told);
        }),
    ));
    let Told::Begun { metrics: Some(address), .. } =
        until(&told, "the beginning", |told| matches!(told, Told::Begun { .. }))
    else {
        panic!("no metrics")
    };
    let loading = runtime.spawn(contend(params.clone(), load.clone()));

    let Told::Event(event) = until(&told, "waiting for locks", |told| {
        matches!(told, Told::Event(event)
            if event.kind == EventKind::FindingAppeared
                && event.finding.as_ref().is_some_and(|of| of.id == "D9"))
    }) else {
        panic!("an event")
    };
    let window = event.window.expect("a window");
    assert!(window.length() >= Duration::from_secs(2), "{window:?}");
    let metrics = scraped(address, "walwright_events_total{kind=\"finding_appeared\"}", 1.0..=99.0);
    for (series, least) in [
        ("walwright_up", 1.0),
        ("walwright_commits_total", 10.0),
        ("walwright_wal_bytes_total", 1000.0),
        ("walwright_wal_flush_seconds_count", 10.0),
        ("walwright_wait_seconds_total{class=\"lock\"}", 1.0),
        ("walwright_xid_age", 1.0),
        ("walwright_finding{id=\"D9\",kind=\"", 1.0),
        ("walwright_finding_cost_ratio{id=\"D9\"", 0.05),
        ("walwright_events_total{kind=\"finding_appeared\"}", 1.0),
        ("walwright_watch_cpu_seconds_total{where=\"here\"}", 0.0001),
        ("walwright_watch_resident_bytes", 1e6),
    ] {
        assert!(value(&metrics, series).is_some_and(|v| v >= least), "{series}\n{metrics}");
    }
    by_convention(&metrics);
    let (head, open) = get(address, "/metrics", "application/openmetrics-text; version=1.0.0");
    assert!(head.contains("application/openmetrics-text") && open.ends_with("# EOF\n"), "{head}");
    assert!(get(address, "/healthz", "*/*").0.starts_with("HTTP/1.1 200"));

    server.stop().expect("stopped");
    until(&told, "the loss", |told| is(told, EventKind::ServerLost));
    until(&told, "a stretch without a server", |told| {
        matches!(told, Told::Slot(slot)
            if slot.figure("up").and_then(|up| up.mean()) == Some(0.0))
    });
    scraped(address, "walwright_up", 0.0..=0.0);
    assert!(get(address, "/healthz", "*/*").0.starts_with("HTTP/1.1 503"));

    cluster.set_settings(vec![("max_wal_size".into(), "2GB".into())]).expect("set");
    let server = cluster.start().expect("started again");
    until(&told, "the return", |told| is(told, EventKind::ServerBack));
    until(&told, "the restart", |told| is(told, EventKind::ServerRestarted));
    let changed = until(&told, "the setting", |told| {
        matches!(told, Told::Event(event)
            if event.kind == EventKind::SettingChanged && event.text.starts_with("max_wal_size"))
    });
    let Told::Event(changed) = changed else { panic!("an event") };
    assert_eq!(changed.text, "max_wal_size was 1GB and is 2GB");
    until(&told, "a finding that is gone", |told| is(told, EventKind::FindingGone));

    load.request();
    stop.request();
    runtime.block_on(loading).expect("the load");
    runtime.block_on(watching).expect("no panic").expect("watched");
    runtime.block_on(walwright_server::all_left());
    let (mut slots, mut kinds) = (0, Vec::new());
    let ever = Window { start: Timestamp(0), end: Timestamp(i64::MAX) };
    ring.read(ever, |entry| match entry {
        Entry::Slot(_) => slots += 1,
        Entry::Event(event) => kinds.push(event.kind),
        Entry::Findings(_) => {}
    })
    .expect("read");
    assert!(slots > 10, "{slots}");
    for kind in [
        EventKind::Watching,
        EventKind::FindingAppeared,
        EventKind::ServerLost,
        EventKind::ServerBack,
        EventKind::ServerRestarted,
        EventKind::SettingChanged,
        EventKind::FindingGone,
    ] {
        assert!(kinds.contains(&kind), "{kind:?} is not kept: {kinds:?}");
    }
    server.stop().expect("stopped");
}
