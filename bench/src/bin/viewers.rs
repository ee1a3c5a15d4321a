//! What it costs a run that people watch it in a browser.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Parser;
use rustix::process::{Signal, kill_process};
use serde_json::json;
use walwright_bench::{Report, Walwright, process};
use walwright_record::{RunHeader, RunState, Timestamp};
use walwright_stats::{Confidence, paired_effect};
use walwright_store::Lab;

/// Throughput of one run while viewers watch it, against that of the stretches between, in
/// pairs of random order. Viewers do what a browser does: they load the page and its figures,
/// listen, and load the page again when they are told that it changed. They run here too, so
/// that their own work counts as the site's.
///
/// The load is one that keeps all processors busy, so that none are left for the site, and that
/// waits for no disk, whose noise would hide a hundredth.
#[derive(Parser)]
struct Cli {
    /// Viewers at once.
    #[arg(long, default_value_t = 20)]
    viewers: usize,
    /// The load.
    #[arg(long, default_value = "select-only")]
    workload: String,
    /// Client connections of the load.
    #[arg(long, default_value_t = 16)]
    clients: u32,
    /// Pairs of stretches.
    #[arg(long, default_value_t = 20)]
    pairs: usize,
    /// Seconds of a stretch, the first two of which are left out.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Figures as JSON on standard output.
    #[arg(long)]
    json: bool,
}

/// What is left out at the beginning of a stretch.
const SETTLES: Duration = Duration::from_secs(2);
/// Longest that something may take to come about.
const PATIENCE: Duration = Duration::from_secs(120);

/// A process that is asked to end when it is no longer needed.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        if let Ok(pid) = process(self.0.id()) {
            let _ = kill_process(pid, Signal::INT);
        }
        let _ = self.0.wait();
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let walwright = Walwright::find()?;
    let directory = tempfile::tempdir()?;
    let lab = Lab::at(Some(directory.path().to_owned()));
    drop(lab.store()?);
    let (site, address) = serve(&walwright, &lab)?;
    let stretch = Duration::from_secs(cli.seconds);
    // Longer than all stretches: it is ended when they are over.
    let length = stretch * u32::try_from(2 * cli.pairs)? + PATIENCE;
    let mut run = walwright.command_in(lab.directory());
    run.args(["run", "--quiet", "--warmup=5s", "--workload"])
        .arg(&cli.workload)
        .arg(format!("--clients={}", cli.clients))
        .arg(format!("--duration={}s", length.as_secs()))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let run = Ended(run.spawn().context("starting the run")?);
    let header = until_measured(&lab)?;
    std::thread::sleep(SETTLES);

    let mut stretches: Vec<(bool, Timestamp, Timestamp)> = Vec::new();
    let (mut watched, mut took) = (Duration::ZERO, Duration::ZERO);
    let seen = Arc::new(AtomicU64::new(0));
    for _ in 0..cli.pairs {
        let first = rand::random::<bool>();
        for is_watched in [first, !first] {
            let before = (Instant::now(), cpu_time(&site)?);
            let viewers = is_watched.then(|| Viewers::come(&cli, &address, &header, &seen));
            std::thread::sleep(SETTLES);
            let from = Timestamp::now();
            std::thread::sleep(stretch.saturating_sub(SETTLES));
            stretches.push((is_watched, from, Timestamp::now()));
            if let Some(viewers) = viewers {
                viewers.go();
                watched += before.0.elapsed();
                took += cpu_time(&site)?.saturating_sub(before.1);
            }
        }
    }
    drop(run);
    drop(site);
    let store = lab.existing_store()?.context("the lab is gone")?;
    let record = store.load(&header.id)?;
    let rate = |(_, from, to): &(bool, Timestamp, Timestamp)| {
        let inside = record
            .intervals
            .iter()
            .filter(|of| of.start >= *from && of.start.plus(of.length) <= *to);
        let (count, time) = inside.fold((0, Duration::ZERO), |(count, time), of| {
            let done: u64 = of.scripts.iter().map(|script| script.transactions).sum();
            (count + done, time + of.length)
        });
        count as f64 / time.as_secs_f64()
    };
    let of = |wanted: bool| -> Vec<f64> {
        stretches.iter().filter(|(watched, ..)| *watched == wanted).map(rate).collect()
    };
    let (without, with) = (of(false), of(true));
    let effect = paired_effect(&without, &with, Confidence::P95, 1)?;
    let lost = effect.change.map(|of| -100.0 * of);
    let ends = lost.interval.context("too few stretches for an interval")?;
    let (low, high) = (ends.low.min(ends.high), ends.low.max(ends.high));
    let mut report = Report::new(&format!(
        "{} viewers of a run of {}, {} clients, {} pairs of stretches of {} s",
        cli.viewers, cli.workload, cli.clients, cli.pairs, cli.seconds
    ));
    let share = took.as_secs_f64() / watched.as_secs_f64();
    let events = seen.load(Ordering::Relaxed);
    report.figure("answers and events that viewers read", events.to_string(), json!(events));
    report.figure(
        "processor time of the site while it is watched",
        format!("{:.2} % of one", 100.0 * share),
        json!(share),
    );
    report.at_most(
        "throughput lost to viewers",
        format!("{:.2} % ({low:.2} to {high:.2} %)", lost.center),
        json!({ "percent": lost.center, "low": low, "high": high }),
        "<= 1 %",
        1.0,
        (low, high),
    );
    Ok(report.print(cli.json))
}

/// Processor time of a process, of threads that have ended too.
fn cpu_time(of: &Ended) -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", of.0.id()))?;
    let (_, fields) = stat.rsplit_once(')').context("its /proc/PID/stat has no name")?;
    // utime and stime, fields 14 and 15.
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
    let ticks: u64 = ticks.sum::<Result<u64, _>>()?;
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// Starts the site; where it is.
fn serve(walwright: &Walwright, lab: &Lab) -> anyhow::Result<(Ended, String)> {
    let mut command = walwright.command_in(lab.directory());
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut site = command.spawn().context("starting the site")?;
    let said = site.stderr.take().context("what it says")?;
    let site = Ended(site);
    let mut line = String::new();
    BufReader::<ChildStderr>::new(said).read_line(&mut line)?;
    let address = line.split("http://").nth(1).and_then(|rest| rest.split('/').next());
    let address = address.with_context(|| format!("the site said: {line}"))?;
    Ok((site, address.to_owned()))
}

/// Waits until the run is being measured.
fn until_measured(lab: &Lab) -> anyhow::Result<RunHeader> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let store = lab.existing_store()?.context("the lab is gone")?;
        if let Some(run) = store.runs()?.pop() {
            if run.state != RunState::Running {
                bail!("the run ended: {}", run.error.unwrap_or_default());
            }
            if store.load(&run.id)?.window().is_some() {
                return Ok(run);
            }
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    bail!("nothing was measured in {} s", PATIENCE.as_secs())
}

/// Those who watch.
struct Viewers {
    gone: Arc<AtomicBool>,
    threads: Vec<JoinHandle<anyhow::Result<()>>>,
}

impl Viewers {
    fn come(cli: &Cli, address: &str, run: &RunHeader, seen: &Arc<AtomicU64>) -> Viewers {
        let gone = Arc::new(AtomicBool::new(false));
        let watch = |_| {
            let (gone, seen) = (Arc::clone(&gone), Arc::clone(seen));
            let (address, page) = (address.to_owned(), format!("/runs/{}", run.id));
            std::thread::spawn(move || watch(&address, &page, &gone, &seen))
        };
        let threads = (0..cli.viewers).map(watch).collect();
        Viewers { gone, threads }
    }

    fn go(self) {
        self.gone.store(true, Ordering::Relaxed);
        for viewer in self.threads {
            if let Ok(Err(error)) = viewer.join() {
                eprintln!("warning: a viewer: {error:#}");
            }
        }
    }
}

/// Does what a browser does with the page of a run.
fn watch(address: &str, page: &str, gone: &AtomicBool, seen: &AtomicU64) -> anyhow::Result<()> {
    let ask = |path: &str| -> anyhow::Result<TcpStream> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_millis(500)))?;
        let head = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nAccept-Encoding: gzip\r\n\r\n"
        );
        stream.write_all(head.as_bytes())?;
        Ok(stream)
    };
    let load = |path: &str| -> anyhow::Result<()> {
        let mut stream = ask(path)?;
        let mut answer = Vec::new();
        while !gone.load(Ordering::Relaxed) {
            match stream.read_to_end(&mut answer) {
                Ok(_) => break,
                Err(error) if is_silence(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        seen.fetch_add(1, Ordering::Relaxed);
        Ok(())
    };
    load(page)?;
    load(&format!("{page}/series"))?;
    let mut events = BufReader::new(ask(&format!("{page}/events"))?);
    let mut line = Vec::new();
    while !gone.load(Ordering::Relaxed) {
        match events.read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) => {
                if line.starts_with(b"event: ") {
                    seen.fetch_add(1, Ordering::Relaxed);
                }
                if line.starts_with(b"event: page") {
                    load(page)?;
                }
                line.clear();
            }
            Err(error) if is_silence(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn is_silence(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
}
