//! The exam of the diagnosis: causes that are planted, and runs without them.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;
use serde_json::{Value, json};
use walwright_bench::{Busy, Fault, Report, Side, Walwright};

/// Scenarios that each plant one cause, next to a control without it: the rank at which
/// the cause is found, what fixing it was predicted to gain and did, and what is found
/// in the controls that is not there.
#[derive(Parser)]
struct Cli {
    /// Scenarios, by diagnosis (D15) or name. The default is all.
    only: Vec<String>,
    /// Directory of scenarios.
    #[arg(long, default_value = "bench/faults")]
    faults: PathBuf,
    /// Keep the runs in this lab.
    #[arg(long, value_name = "DIR")]
    lab: Option<PathBuf>,
    /// Run nothing: diagnose the runs of --lab once more.
    #[arg(long, requires = "lab")]
    again: bool,
    /// Figures as JSON on standard output.
    #[arg(long)]
    json: bool,
}

/// Planted causes that are found first, of all.
const FIRST: f64 = 0.9;
/// Problems found in a control, on average, that nobody planted.
const FALSE_FINDINGS: f64 = 0.1;
/// Ends of a predicted gain, as a factor of throughput.
const WIDTH: f64 = 1.6;
/// Gains that lie where they were predicted, of all that can be measured.
const PREDICTED: f64 = 0.8;

/// Longest time that diagnosing a recorded run may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// What one scenario came to.
struct Outcome {
    fault: Fault,
    /// Place of the planted cause among the findings, from 1.
    rank: Option<usize>,
    found: Option<Value>,
    /// Relative rise of throughput from the planted side to the control, where both do the
    /// same work.
    measured: Option<Rise>,
    /// Problems found in the control that it does not have.
    false_findings: Vec<String>,
    /// The first problems found in the planted side.
    first: Vec<String>,
    /// The longer of the times that diagnosing its two runs took.
    diagnosing: Duration,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let mut walwright = Walwright::find()?;
    if let Some(lab) = cli.lab {
        walwright = walwright.in_lab(lab);
    }
    let exam = Exam { kept: cli.again.then(|| walwright.labelled_runs()).transpose()?, walwright };
    let faults = Fault::chosen(&cli.faults, &cli.only)?;
    let total = faults.len();
    let mut outcomes = Vec::with_capacity(total);
    for (number, fault) in faults.into_iter().enumerate() {
        eprint!("{} of {total}: {} {}", number + 1, fault.diagnosis, fault.name);
        let outcome = exam.examine(fault)?;
        eprintln!(
            " — rank {}, first {}, control {}",
            outcome.rank.map_or("none".to_owned(), |rank| rank.to_string()),
            outcome.first.join(" "),
            outcome.false_findings.join(" ")
        );
        outcomes.push(outcome);
    }
    Ok(report(&outcomes).print(cli.json))
}

/// How a side is examined: run, or looked up.
struct Exam {
    walwright: Walwright,
    kept: Option<HashMap<String, String>>,
}

impl Exam {
    fn examine(&self, fault: Fault) -> anyhow::Result<Outcome> {
        let (planted, planted_rate, took) = self.diagnose(&fault, &fault.planted, "planted")?;
        let (control, control_rate, beside) = self.diagnose(&fault, &fault.control, "control")?;
        let findings = planted["findings"].as_array().context("no findings in the diagnosis")?;
        let is = |finding: &&Value| finding["id"] == fault.diagnosis.as_str();
        let found = findings.iter().find(is).cloned();
        // Among findings that are at least as grave: information does not compete with problems.
        let rank = found.as_ref().map(|found| {
            let graver = findings.iter().filter(|f| gravity(f) <= gravity(found));
            1 + graver.take_while(|f| f["id"] != fault.diagnosis.as_str()).count()
        });
        let rates = planted_rate.zip(control_rate).filter(|_| fault.comparable);
        let mut false_findings = problems(&control);
        false_findings.retain(|id| !fault.control_has.contains(id));
        Ok(Outcome {
            rank,
            found,
            measured: rates.map(|(planted, control)| Rise::of(planted, control)),
            false_findings,
            first: problems(&planted).into_iter().take(3).collect(),
            diagnosing: took.max(beside),
            fault,
        })
    }

    /// One side: its diagnosis, its throughput, and how long diagnosing took.
    fn diagnose(
        &self,
        fault: &Fault,
        side: &Side,
        name: &str,
    ) -> anyhow::Result<(Value, Option<Throughput>, Duration)> {
        let label = format!("{} {name}", fault.name);
        let id = match &self.kept {
            Some(kept) => kept.get(&label).cloned().with_context(|| format!("no run `{label}`"))?,
            None => run(&self.walwright, fault, side, &label)?,
        };
        let begun = Instant::now();
        let diagnosis = self.walwright.printed_json(&["diagnose", &id])?;
        let took = begun.elapsed();
        let shown = self.walwright.printed_json(&["show", &id])?;
        Ok((diagnosis, Throughput::of(&shown), took))
    }
}

/// Runs one side; the name of its run.
fn run(walwright: &Walwright, fault: &Fault, side: &Side, label: &str) -> anyhow::Result<String> {
    let directory = tempfile::tempdir()?;
    fault.write(side, directory.path())?;
    let workload = directory.path().display().to_string();
    let mut arguments =
        vec!["-w", &workload, "--warmup", &fault.warmup, "--duration", &fault.duration];
    arguments.extend(["--label", label]);
    arguments.extend(fault.flags.iter().chain(&side.flags).map(String::as_str));
    let beside: Vec<Busy> = (0..side.beside).map(|_| Busy::start()).collect::<Result<_, _>>()?;
    let (run, _) = walwright.json(&arguments).with_context(|| label.to_owned())?;
    drop(beside);
    let id = run.pointer("/run/id").and_then(Value::as_str).context("a run without a name")?;
    Ok(id.to_owned())
}

/// Transactions a second, and how far off that may be within the run.
#[derive(Clone, Copy)]
struct Throughput {
    center: f64,
    half_width: f64,
}

impl Throughput {
    fn of(shown: &Value) -> Option<Throughput> {
        let throughput = shown.pointer("/summary/load/throughput")?;
        let center = throughput["center"].as_f64().filter(|center| *center > 0.0)?;
        let end = |name| throughput["interval"][name].as_f64();
        let half_width = end("low").zip(end("high")).map_or(0.0, |(low, high)| (high - low) / 2.0);
        Some(Throughput { center, half_width })
    }

    fn relative(self) -> f64 {
        self.half_width / self.center
    }
}

/// A relative rise of throughput; its ends are those that the precision within the two runs
/// leaves. It is one pair: what differs from run to run is not in them.
struct Rise {
    center: f64,
    low: f64,
    high: f64,
}

impl Rise {
    fn of(from: Throughput, to: Throughput) -> Rise {
        let ratio = to.center / from.center;
        let off = from.relative().hypot(to.relative());
        Rise { center: ratio - 1.0, low: ratio * (-off).exp() - 1.0, high: ratio * off.exp() - 1.0 }
    }

    /// Whether it may lie between both ends.
    fn may_lie_within(&self, (least, most): (f64, f64)) -> bool {
        self.low <= most && self.high >= least
    }
}

fn gravity(finding: &Value) -> u8 {
    match finding["kind"].as_str() {
        Some("problem") => 0,
        Some("symptom") => 1,
        _ => 2,
    }
}

fn problems(diagnosis: &Value) -> Vec<String> {
    let findings = diagnosis["findings"].as_array().map_or(&[][..], Vec::as_slice);
    let problems = findings.iter().filter(|f| gravity(f) == 0);
    problems.filter_map(|f| f["id"].as_str().map(str::to_owned)).collect()
}

fn report(outcomes: &[Outcome]) -> Report {
    let mut report =
        Report::new(&format!("{} planted faults, each beside a control", outcomes.len()));
    let (mut inside, mut measurable) = (0, 0);
    for outcome in outcomes {
        let gain = outcome.found.as_ref().map(|found| &found["gain"]["throughput"]);
        let bound = gain.and_then(bound);
        let measured = outcome.measured.as_ref();
        let within = bound.zip(measured).map(|(bound, rise)| rise.may_lie_within(bound));
        measurable += usize::from(within.is_some());
        inside += usize::from(within == Some(true));
        let rank = outcome.rank.map_or("not found".to_owned(), |rank| format!("rank {rank}"));
        let impact = outcome
            .found
            .as_ref()
            .and_then(|found| impact(&found["impact"]["share"]))
            .unwrap_or_default();
        let predicted = bound.map_or(String::new(), |(least, most)| {
            let about = gain.and_then(|gain| gain["center"].as_f64()).unwrap_or(f64::NAN);
            format!(
                ", gain predicted {:.0} % ({:.0} to {:.0} %)",
                about * 100.0,
                least * 100.0,
                most * 100.0
            )
        });
        let gain = measured.map_or(String::new(), |rise| {
            format!(
                ", measured {:.0} % ({:.0} to {:.0} %)",
                rise.center * 100.0,
                rise.low * 100.0,
                rise.high * 100.0
            )
        });
        let outside = if within == Some(false) { ", outside" } else { "" };
        let false_findings = match outcome.false_findings.as_slice() {
            [] => String::new(),
            some => format!(", in the control {}", some.join(" ")),
        };
        report.figure(
            &format!("{} {}", outcome.fault.diagnosis, outcome.fault.name),
            format!("{rank}{impact}{predicted}{gain}{outside}{false_findings}"),
            json!({
                "rank": outcome.rank,
                "finding": outcome.found,
                "gain_measured": measured.map(|rise| json!({
                    "center": rise.center, "low": rise.low, "high": rise.high,
                })),
                "gain_inside": within,
                "false_findings": outcome.false_findings,
                "first": outcome.first,
            }),
        );
    }
    let count = outcomes.len() as f64;
    let within = |most: usize| {
        outcomes.iter().filter(|o| o.rank.is_some_and(|rank| rank <= most)).count() as f64 / count
    };
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    report.bar("found first", percent(within(1)), json!(within(1)), ">= 90 %", within(1) >= FIRST);
    report.bar("found among three", percent(within(3)), json!(within(3)), "all", within(3) >= 1.0);
    let wrong: usize = outcomes.iter().map(|o| o.false_findings.len()).sum();
    let wrong = wrong as f64 / count;
    report.bar(
        "problems found in a control",
        format!("{wrong:.2}"),
        json!(wrong),
        "<= 0.1",
        wrong <= FALSE_FINDINGS,
    );
    let share = if measurable == 0 { 0.0 } else { inside as f64 / measurable as f64 };
    report.bar(
        "measured gains inside their prediction",
        format!("{inside} of {measurable}"),
        json!(share),
        ">= 80 %",
        share >= PREDICTED,
    );
    let mut widths: Vec<f64> = outcomes
        .iter()
        .filter(|outcome| outcome.measured.is_some())
        .filter_map(|outcome| bound(&outcome.found.as_ref()?["gain"]["throughput"]))
        .map(|(low, high)| (1.0 + high) / (1.0 + low))
        .collect();
    widths.sort_by(f64::total_cmp);
    if let Some(width) = widths.get(widths.len() / 2) {
        report.bar(
            "median width of a predicted gain, as a factor of throughput",
            format!("{width:.2}"),
            json!(width),
            "<= 1.6",
            *width <= WIDTH,
        );
    }
    let longest = outcomes.iter().map(|o| o.diagnosing).max().unwrap_or_default();
    report.bar(
        "diagnosing a recorded run, at most",
        format!("{:.2} s", longest.as_secs_f64()),
        json!(longest.as_secs_f64()),
        "< 1 s",
        longest < PATIENCE,
    );
    report
}

/// A share of the latency, with its interval.
fn impact(share: &Value) -> Option<String> {
    let percent = |value: &Value| value.as_f64().map(|share| share * 100.0);
    let ends = percent(&share["interval"]["low"]).zip(percent(&share["interval"]["high"]));
    let ends = ends.map_or(String::new(), |(low, high)| format!(" ({low:.0} to {high:.0} %)"));
    Some(format!(", impact {:.0} %{ends}", percent(&share["center"])?))
}

/// The ends of a predicted gain.
fn bound(gain: &Value) -> Option<(f64, f64)> {
    let end = |name: &str| gain.pointer(&format!("/interval/{name}"))?.as_f64();
    Some((end("low")?, end("high")?))
}
