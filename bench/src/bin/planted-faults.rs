//! The exam of the diagnosis: causes that are planted, and runs without them.

use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use clap::Parser;
use serde_json::{Value, json};
use walwright_bench::{Fault, Report, Side, Walwright};

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
    /// Figures as JSON on standard output.
    #[arg(long)]
    json: bool,
}

/// Planted causes that are found first, of all.
const FIRST: f64 = 0.9;
/// Problems found in a control, on average, that nobody planted.
const FALSE_FINDINGS: f64 = 0.1;
/// Gains that lie where they were predicted, of all that can be measured.
const PREDICTED: f64 = 0.8;

/// What one scenario came to.
struct Outcome {
    fault: Fault,
    /// Place of the planted cause among the findings, from 1.
    rank: Option<usize>,
    found: Option<Value>,
    /// Relative rise of throughput from the planted side to the control.
    measured: Option<f64>,
    /// Problems found in the control.
    false_findings: Vec<String>,
    /// The first problems found in the planted side.
    first: Vec<String>,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let walwright = Walwright::find()?;
    let wanted = |fault: &Fault| {
        let is = |word: &String| *word == fault.name || word.eq_ignore_ascii_case(&fault.diagnosis);
        cli.only.is_empty() || cli.only.iter().any(is)
    };
    let faults: Vec<Fault> = Fault::all(&cli.faults)?.into_iter().filter(wanted).collect();
    if faults.is_empty() {
        bail!("no such scenario in {}", cli.faults.display());
    }
    let total = faults.len();
    let mut outcomes = Vec::with_capacity(total);
    for (number, fault) in faults.into_iter().enumerate() {
        eprint!("{} of {total}: {} {}", number + 1, fault.diagnosis, fault.name);
        let outcome = examine(&walwright, fault)?;
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

fn examine(walwright: &Walwright, fault: Fault) -> anyhow::Result<Outcome> {
    let (planted, planted_rate) = diagnose(walwright, &fault, &fault.planted)?;
    let (control, control_rate) = diagnose(walwright, &fault, &fault.control)?;
    let findings = planted["findings"].as_array().context("no findings in the diagnosis")?;
    let is = |finding: &&Value| finding["id"] == fault.diagnosis.as_str();
    let found = findings.iter().find(is).cloned();
    // Among findings that are at least as grave: information does not compete with problems.
    let rank = found.as_ref().map(|found| {
        let graver = findings.iter().filter(|f| gravity(f) <= gravity(found));
        1 + graver.take_while(|f| f["id"] != fault.diagnosis.as_str()).count()
    });
    Ok(Outcome {
        rank,
        found,
        measured: planted_rate.zip(control_rate).map(|(p, c)| c / p - 1.0),
        false_findings: problems(&control),
        first: problems(&planted).into_iter().take(3).collect(),
        fault,
    })
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

/// Runs one side; its diagnosis and its throughput.
fn diagnose(
    walwright: &Walwright,
    fault: &Fault,
    side: &Side,
) -> anyhow::Result<(Value, Option<f64>)> {
    let directory = tempfile::tempdir()?;
    fault.write(side, directory.path())?;
    let workload = directory.path().display().to_string();
    let mut arguments = vec!["-w", &workload, "--warmup", "2s", "--duration", &fault.duration];
    arguments.extend(fault.flags.iter().chain(&side.flags).map(String::as_str));
    let beside: Vec<Busy> = (0..side.beside).map(|_| Busy::start()).collect::<Result<_, _>>()?;
    let (run, _) = walwright.json(&arguments).with_context(|| fault.name.clone())?;
    drop(beside);
    let id = run.pointer("/run/id").and_then(Value::as_str).context("a run without a name")?;
    let diagnosis = walwright.printed_json(&["diagnose", id])?;
    let rate = run.pointer("/summary/load/throughput/center").and_then(Value::as_f64);
    Ok((diagnosis, rate))
}

/// A process that takes a processor until it is dropped.
struct Busy(Child);

impl Busy {
    fn start() -> anyhow::Result<Busy> {
        let child = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .stdin(Stdio::null())
            .spawn()
            .context("starting a busy neighbour")?;
        Ok(Busy(child))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // It may have been ended from outside.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn report(outcomes: &[Outcome]) -> Report {
    let mut report =
        Report::new(&format!("{} planted faults, each beside a control", outcomes.len()));
    let (mut predicted, mut measurable) = (0, 0);
    for outcome in outcomes {
        let gain = outcome.found.as_ref().map(|found| &found["gain"]["throughput"]);
        let bound = gain.and_then(bound);
        let within = bound.zip(outcome.measured).map(|((least, most), g)| least <= g && g <= most);
        measurable += usize::from(within.is_some());
        predicted += usize::from(within == Some(true));
        let rank = outcome.rank.map_or("not found".to_owned(), |rank| format!("rank {rank}"));
        let impact = outcome
            .found
            .as_ref()
            .and_then(|found| found.pointer("/impact/share/center")?.as_f64())
            .map_or(String::new(), |share| format!(", impact {:.0} %", share * 100.0));
        let gain = match (bound, outcome.measured) {
            (Some((least, most)), Some(measured)) => format!(
                ", gain predicted {:.0} to {:.0} %, measured {:.0} %",
                least * 100.0,
                most * 100.0,
                measured * 100.0
            ),
            (None, Some(measured)) => format!(", gain measured {:.0} %", measured * 100.0),
            _ => String::new(),
        };
        let false_findings = match outcome.false_findings.as_slice() {
            [] => String::new(),
            some => format!(", in the control {}", some.join(" ")),
        };
        report.figure(
            &format!("{} {}", outcome.fault.diagnosis, outcome.fault.name),
            format!("{rank}{impact}{gain}{false_findings}"),
            json!({
                "rank": outcome.rank,
                "finding": outcome.found,
                "gain_measured": outcome.measured,
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
    let share = if measurable == 0 { 0.0 } else { predicted as f64 / measurable as f64 };
    report.bar(
        "measured gains inside their prediction",
        format!("{} of {measurable}", predicted),
        json!(share),
        ">= 80 %",
        share >= PREDICTED,
    );
    report
}

/// The ends of a predicted gain.
fn bound(gain: &Value) -> Option<(f64, f64)> {
    let most = gain.pointer("/most/interval/high").or_else(|| gain.pointer("/most/center"))?;
    Some((gain["least"].as_f64()?, most.as_f64()?))
}
