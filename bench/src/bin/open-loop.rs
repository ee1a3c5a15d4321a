//! Whether an open loop is honest.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Parser;
use serde_json::{Value, json};
use walwright_bench::{Options, Report, Testbed, Walwright, children};

/// An open loop at a fixed rate: how late transactions begin, and whether a server
/// frozen for one second shows in every request that was due in that second.
#[derive(Parser)]
struct Cli {
    /// Transactions due a second.
    #[arg(long, default_value_t = 5000)]
    rate: u32,
    #[command(flatten)]
    options: Options,
}

fn main() -> anyhow::Result<ExitCode> {
    let Cli { rate, options } = Cli::parse();
    let testbed = Testbed::start(options.scale, &[])?;
    let walwright = Walwright::find()?;
    let mut report = Report::new(&format!(
        "open loop at {rate}/s, Poisson arrivals, select-only, 16 clients, {} s",
        options.seconds
    ));
    lag(&testbed, &walwright, rate, &options, &mut report)?;
    freeze(&testbed, &walwright, rate, &options, &mut report)?;
    Ok(report.print(options.json))
}

fn arguments<'a>(dsn: &'a str, scale: &'a str, rate: &'a str, length: &'a str) -> Vec<&'a str> {
    vec![
        "--dsn",
        dsn,
        "--workload",
        "select-only",
        "--scale",
        scale,
        "--clients",
        "16",
        "--rate",
        rate,
        "--warmup",
        "0s",
        "--duration",
        length,
    ]
}

fn number(value: &Value, pointer: &str) -> anyhow::Result<f64> {
    value
        .pointer(pointer)
        .and_then(Value::as_f64)
        .with_context(|| format!("no number at {pointer}"))
}

fn lag(
    testbed: &Testbed,
    walwright: &Walwright,
    rate: u32,
    options: &Options,
    report: &mut Report,
) -> anyhow::Result<()> {
    let (dsn, scale, rate) = (testbed.dsn(), testbed.scale().to_string(), rate.to_string());
    let length = format!("{}s", options.seconds);
    let mut worst = Vec::new();
    for _ in 0..options.blocks {
        let (value, _) = walwright.json(&arguments(&dsn, &scale, &rate, &length))?;
        worst.push(number(&value, "/summary/load/open_loop/lag/p99")? * 1e3);
    }
    worst.sort_by(f64::total_cmp);
    let median = worst[worst.len() / 2];
    report.bar(
        "p99 of lag",
        format!(
            "median {median:.3} ms of {} runs ({:.3} to {:.3})",
            worst.len(),
            worst[0],
            worst[worst.len() - 1]
        ),
        json!({ "median_ms": median, "runs_ms": worst }),
        "< 1 ms",
        median < 1.0,
    );
    Ok(())
}

/// Stops all server processes for one second under the load. Every request that was
/// due while they stood still must show its wait: of R requests due in that second,
/// evenly spread, a fraction 1 - w shows a latency above w seconds.
fn freeze(
    testbed: &Testbed,
    walwright: &Walwright,
    rate: u32,
    options: &Options,
    report: &mut Report,
) -> anyhow::Result<()> {
    let (dsn, scale, rate_text) = (testbed.dsn(), testbed.scale().to_string(), rate.to_string());
    let length = format!("{}s", options.seconds.max(6));
    let mut command = walwright.command();
    let mut child = command
        .args(["--json", "run", "--quiet", "--no-probe"])
        .args(arguments(&dsn, &scale, &rate_text, &length))
        .stdout(std::process::Stdio::null())
        .spawn()?;
    wait_for_load(testbed)?;
    let frozen = Frozen::stop(testbed.server().postmaster_pid())?;
    std::thread::sleep(Duration::from_secs(1));
    let stood_still = frozen.resume();
    if !child.wait()?.success() {
        bail!("the run under the freeze failed");
    }
    let output = walwright.command().args(["export", "latest"]).output()?;
    let run: Value = serde_json::from_slice(&output.stdout)?;
    let mut above = [0_u64; 3];
    let limits = [0.25, 0.5, 0.75];
    let intervals = run["intervals"].as_array().context("the run has intervals")?;
    for bucket in intervals.iter().flat_map(|i| i["latency"][0].as_array().into_iter().flatten()) {
        let (at, count) = (bucket[0].as_f64().unwrap_or(0.0), bucket[1].as_u64().unwrap_or(0));
        for (sum, limit) in above.iter_mut().zip(limits) {
            *sum += if at > limit { count } else { 0 };
        }
    }
    for (count, limit) in above.iter().zip(limits) {
        let due = f64::from(rate) * (stood_still.as_secs_f64() - limit);
        // Poisson counts scatter by their square root; catching up adds, never takes away.
        let least = due - 4.0 * due.sqrt();
        report.bar(
            &format!("server frozen {:.2} s: requests above {limit} s", stood_still.as_secs_f64()),
            format!("{count}, {due:.0} were due"),
            json!({ "count": count, "due": due }),
            &format!(">= {least:.0}"),
            *count as f64 >= least,
        );
    }
    Ok(())
}

fn wait_for_load(testbed: &Testbed) -> anyhow::Result<()> {
    let begun = std::time::Instant::now();
    let sessions =
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'walwright load'";
    while testbed.number(sessions)? < 16.0 {
        if begun.elapsed() > Duration::from_secs(60) {
            bail!("the load did not begin within a minute");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    std::thread::sleep(Duration::from_secs(2));
    Ok(())
}

/// Processes that stand still until resumed or dropped.
struct Frozen {
    pids: Vec<i32>,
    since: std::time::Instant,
}

impl Frozen {
    /// Stops the postmaster's children: the postmaster itself goes on, so that it
    /// still notices the death of whoever started it.
    fn stop(postmaster: u32) -> anyhow::Result<Frozen> {
        let pids = children(postmaster)?.into_iter().map(u32::cast_signed).collect();
        let frozen = Frozen { pids, since: std::time::Instant::now() };
        frozen.signal(libc::SIGSTOP);
        Ok(frozen)
    }

    fn resume(self) -> Duration {
        self.since.elapsed()
    }

    fn signal(&self, signal: i32) {
        for pid in &self.pids {
            // SAFETY: kill has no memory effects; the pids are our server's children,
            // which the postmaster does not reap while they stand still.
            unsafe { libc::kill(*pid, signal) };
        }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        self.signal(libc::SIGCONT);
    }
}
