//! The diagnosis judged on systems that others wrote.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{SeedableRng, random};
use serde_json::{Value, json};
use walwright_bench::foreign::{
    Arm, ArmTruth, Case, CaseTruth, ForeignFault, Half, Stand, System, Tools,
};
use walwright_bench::{Report, Walwright};

/// Rounds of a case at least.
const FEWEST_ROUNDS: usize = 3;
/// Findings whose advice is tried.
const ADVICE: usize = 3;
/// A problem whose fix gains less is no problem.
const NOTHING: f64 = 0.01;
/// A case whose best change gains less has no cause to find.
const SOMETHING: f64 = 0.03;

/// Systems from package registries under load of their own kind, with faults that an operator
/// could have made, recorded by `walwright record` and diagnosed.
///
/// What is true of a case is measured: every fault is taken away alone, and every advice among
/// the first three findings that can be executed is followed alone, in rounds of random order on
/// copies of one database, until the answer is clear. What was measured is kept in --state and
/// measured once; a run that was ended goes on.
///
/// Cases are divided by their names: rules may be mended on one half, and the figures that
/// count are those of the other.
#[derive(Parser)]
struct Cli {
    /// Cases by a part of `system: faults`. The default is all.
    only: Vec<String>,
    /// Directory of systems.
    #[arg(long, default_value = "bench/foreign")]
    systems: PathBuf,
    /// Directory for programs, data, records and what was measured.
    #[arg(long, default_value = "target/foreign-exam", value_name = "DIR")]
    state: PathBuf,
    /// Measure nothing: judge what was measured with the rules of now.
    #[arg(long)]
    again: bool,
    /// Measure at most so many cases, then judge.
    #[arg(long, value_name = "N")]
    most: Option<usize>,
    /// Rounds of a case at most.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds measured of each run.
    #[arg(long, default_value_t = 6)]
    seconds: u64,
    /// Seconds recorded for the diagnosis.
    #[arg(long, default_value_t = 15)]
    record: u64,
    /// Cases that are judged.
    #[arg(long, value_enum, default_value = "all")]
    half: Judged,
    /// Figures as JSON on standard output.
    #[arg(long)]
    json: bool,
}

/// Which cases are judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Judged {
    /// Those that rules may be mended on.
    Mended,
    /// Those that are only looked at.
    Unseen,
    /// Both.
    All,
}

/// How a case was judged.
struct Verdict {
    case: String,
    /// Place of the cause with the largest gain; `None` where it was not found.
    rank: Option<usize>,
    /// Whether there is a cause worth finding.
    has_cause: bool,
    /// Best gain less that of the first advice, as a share of the best.
    regret: f64,
    /// Problems whose fix gains nothing.
    wrong: Vec<String>,
    /// Problems that nothing executable could judge.
    unjudged: usize,
    /// For each gain that was predicted and measured, whether it lay inside, and the width of
    /// the prediction as a factor.
    predicted: Vec<(bool, f64)>,
    text: String,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let systems = System::read_all(&cli.systems)?;
    std::fs::create_dir_all(&cli.state)?;
    let walwright = Walwright::find()?.in_lab(cli.state.join("lab"));
    let kept = cli.state.join("measured");
    let wanted = |case: &str| cli.only.is_empty() || cli.only.iter().any(|o| case.contains(o));
    if !cli.again {
        measure_all(&cli, &systems, &walwright, &kept, wanted)?;
    }
    let mut verdicts = Vec::new();
    for (system, case, name) in cases(&systems).filter(|(.., name)| wanted(name)) {
        let judged = match cli.half {
            Judged::All => true,
            Judged::Mended => Half::of(&name) == Half::Mended,
            Judged::Unseen => Half::of(&name) == Half::Unseen,
        };
        if let Some(truth) = CaseTruth::read(&kept, &name).filter(|_| judged) {
            let diagnosis = walwright.printed_json(&["diagnose", &truth.run])?;
            verdicts.push(judge(system, case, &truth, &diagnosis));
        }
    }
    Ok(report(&verdicts).print(cli.json))
}

/// Every case with its system and its name.
fn cases(systems: &[System]) -> impl Iterator<Item = (&System, &Case, String)> {
    systems.iter().flat_map(|system| {
        let named = move |case| (system, case, format!("{}: {}", system.name, Case::name(case)));
        system.cases.iter().map(named)
    })
}

fn measure_all(
    cli: &Cli,
    systems: &[System],
    walwright: &Walwright,
    kept: &Path,
    wanted: impl Fn(&str) -> bool,
) -> anyhow::Result<()> {
    let tools = Tools::open(&cli.state.join("tools"))?;
    let missing: Vec<_> = cases(systems)
        .filter(|(.., name)| wanted(name) && CaseTruth::read(kept, name).is_none())
        .take(cli.most.unwrap_or(usize::MAX))
        .collect();
    let mut stand: Option<(String, Stand)> = None;
    for (place, (system, case, name)) in missing.iter().enumerate() {
        eprintln!("[{} of {}] {name}", place + 1, missing.len());
        if stand.as_ref().is_none_or(|(of, _)| *of != system.name) {
            let opened = Stand::open(&tools, system, &cli.state.join("data"))?;
            stand = Some((system.name.clone(), opened));
        }
        let Some((_, stand)) = &stand else { continue };
        measure(cli, stand, walwright, system, case, name)?.write(kept)?;
    }
    Ok(())
}

fn measure(
    cli: &Cli,
    stand: &Stand,
    walwright: &Walwright,
    system: &System,
    case: &Case,
    name: &str,
) -> anyhow::Result<CaseTruth> {
    let planted = Arm { faults: system.planted(case).collect(), ..Arm::default() };
    let label = format!("{name} {:08x}", random::<u32>());
    let seen = stand.record(walwright, &planted, &label, Duration::from_secs(cli.record))?;
    let mut arms: BTreeMap<String, Arm> = BTreeMap::new();
    for fault in &planted.faults {
        let others = planted.faults.iter().filter(|other| other.name != fault.name);
        let arm = Arm { faults: others.copied().collect(), ..Arm::default() };
        arms.insert(without(fault), arm);
    }
    for finding in problems(&seen.diagnosis).take(ADVICE) {
        let mut arm = planted.clone();
        if let Some(change) = executable(finding) {
            follow(&mut arm, change);
            arms.insert(advised(finding), arm);
        }
    }
    let mut truth = CaseTruth {
        case: name.to_owned(),
        run: seen.run,
        planted: Vec::new(),
        arms: arms.keys().map(|arm| (arm.clone(), ArmTruth::default())).collect(),
    };
    let mut random = StdRng::seed_from_u64(random());
    let length = Duration::from_secs(cli.seconds);
    for round in 0..cli.rounds {
        if round >= FEWEST_ROUNDS && truth.is_clear() || arms.is_empty() {
            break;
        }
        let mut order: Vec<Option<&String>> = arms.keys().map(Some).chain([None]).collect();
        order.shuffle(&mut random);
        for arm in order {
            let Some(arm) = arm else {
                truth.planted.push(stand.measure(&planted, length)?);
                continue;
            };
            let Some(found) = truth.arms.get_mut(arm).filter(|arm| arm.failed.is_none()) else {
                continue;
            };
            match stand.measure(&arms[arm], length) {
                Ok(rate) => found.rates.push(rate),
                Err(error) => {
                    eprintln!("{name}: {arm}: {error:#}");
                    found.failed = Some(format!("{error:#}"));
                }
            }
        }
        eprintln!("{name}: round {}", round + 1);
    }
    Ok(truth)
}

fn without(fault: &ForeignFault) -> String {
    format!("without {}", fault.name)
}

fn advised(finding: &Value) -> String {
    let subject = finding["subject"].as_str().unwrap_or_default();
    format!("advice {} {subject}", finding["id"].as_str().unwrap_or_default()).trim().to_owned()
}

/// The problems of a diagnosis, in order.
fn problems(diagnosis: &Value) -> impl Iterator<Item = &Value> {
    let findings = diagnosis["findings"].as_array().into_iter().flatten();
    findings.filter(|finding| finding["kind"] == "problem")
}

/// The first change among a finding's actions that a program can make on the server.
fn executable(finding: &Value) -> Option<&Value> {
    let actions = finding["actions"].as_array()?.iter();
    // What lowers durability is no fix.
    let harmless = actions.filter(|action| matches!(action["class"].as_str(), Some("S" | "T")));
    let mut changes = harmless.map(|action| &action["change"]);
    changes.find(|change| matches!(change["how"].as_str(), Some("setting" | "sql" | "ddl")))
}

fn follow(arm: &mut Arm, change: &Value) {
    let text = |name: &str| change[name].as_str().unwrap_or_default().to_owned();
    match change["how"].as_str() {
        Some("setting") => drop(arm.settings.insert(text("name"), text("value"))),
        _ => arm.sql.push(text("sql")),
    }
}

/// Holds what was said of a case against what was measured.
fn judge(system: &System, case: &Case, truth: &CaseTruth, diagnosis: &Value) -> Verdict {
    let gain = |arm: &str| truth.gain(truth.arms.get(arm)?);
    let id = |finding: &Value| finding["id"].as_str().unwrap_or_default().to_owned();
    let gain_of = |finding: &Value| {
        let fault = system.planted(case).filter(|fault| fault.finds.contains(&id(finding)));
        let gains = fault.filter_map(|fault| gain(&without(fault)));
        gains.chain(gain(&advised(finding))).max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let best = truth.arms.keys().filter_map(|arm| gain(arm)).map(|gain| gain.0);
    let best = best.fold(0.0, f64::max);
    let largest = system
        .planted(case)
        .filter_map(|fault| Some((fault, gain(&without(fault))?.0)))
        .filter(|(_, gain)| *gain >= SOMETHING)
        .max_by(|a, b| a.1.total_cmp(&b.1));
    let rank = largest.and_then(|(fault, _)| {
        problems(diagnosis).position(|finding| fault.finds.contains(&id(finding)))
    });
    let first = problems(diagnosis).next().and_then(gain_of).map_or(0.0, |gain| gain.0);
    let regret = if best < SOMETHING { 0.0 } else { ((best - first) / best).clamp(0.0, 1.0) };
    let mut verdict = Verdict {
        case: truth.case.clone(),
        rank: rank.map(|place| place + 1),
        has_cause: largest.is_some(),
        regret,
        wrong: Vec::new(),
        unjudged: 0,
        predicted: Vec::new(),
        text: String::new(),
    };
    let percent = |share: f64| format!("{:+.0} %", 100.0 * share);
    let mut told: Vec<String> = system
        .planted(case)
        .map(|fault| {
            let gain = gain(&without(fault));
            let gain = gain.map_or("not measured".to_owned(), |gain| percent(gain.0));
            format!("{} {gain}", fault.name)
        })
        .collect();
    let mut said = Vec::new();
    for finding in problems(diagnosis) {
        let measured = gain_of(finding);
        let ends =
            |end: &str| finding.pointer(&format!("/gain/throughput/interval/{end}"))?.as_f64();
        let predicted = ends("low").zip(ends("high"));
        let shown = predicted.map_or(String::new(), |(low, high)| {
            format!(" (predicted {} to {})", percent(low), percent(high))
        });
        let truth = match measured {
            Some((center, low, high)) => {
                if let Some((least, most)) = predicted {
                    let inside = low <= most && high >= least;
                    verdict.predicted.push((inside, (1.0 + most) / (1.0 + least)));
                }
                if center < NOTHING && low < NOTHING {
                    verdict.wrong.push(id(finding));
                }
                percent(center)
            }
            None => {
                verdict.unjudged += 1;
                "not judged".to_owned()
            }
        };
        said.push(format!("{} {truth}{shown}", id(finding)));
    }
    told.retain(|fault| !fault.is_empty());
    verdict.text = format!("true: [{}], said: [{}]", told.join(", "), said.join(", "));
    verdict
}

fn report(verdicts: &[Verdict]) -> Report {
    let mut report = Report::new(&format!("{} cases on systems of others", verdicts.len()));
    for of in verdicts {
        let rank = match (of.has_cause, of.rank) {
            (false, _) => "no cause".to_owned(),
            (true, Some(rank)) => format!("rank {rank}"),
            (true, None) => "not found".to_owned(),
        };
        let shown = format!("{rank}, regret {:.0} %; {}", 100.0 * of.regret, of.text);
        let value = json!({ "rank": of.rank, "regret": of.regret, "wrong": of.wrong });
        report.figure(&of.case, shown, value);
    }
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let with_cause: Vec<&Verdict> = verdicts.iter().filter(|of| of.has_cause).collect();
    let found = |most: usize| {
        let found = with_cause.iter().filter(|of| of.rank.is_some_and(|rank| rank <= most));
        found.count() as f64 / with_cause.len().max(1) as f64
    };
    report.bar(
        "largest cause first",
        percent(found(1)),
        json!(found(1)),
        ">= 80 %",
        found(1) >= 0.8,
    );
    report.bar(
        "largest cause among three",
        percent(found(3)),
        json!(found(3)),
        ">= 95 %",
        found(3) >= 0.95,
    );
    let quantile = |mut values: Vec<f64>, share: f64| -> f64 {
        values.sort_by(f64::total_cmp);
        let place = ((values.len() as f64 * share) as usize).min(values.len().saturating_sub(1));
        values.get(place).copied().unwrap_or(0.0)
    };
    let regrets: Vec<f64> = with_cause.iter().map(|of| of.regret).collect();
    for (name, share, bar) in
        [("advice regret, median", 0.5, 0.05), ("advice regret, 90th percentile", 0.9, 0.3)]
    {
        let regret = quantile(regrets.clone(), share);
        let text = format!("<= {}", percent(bar));
        report.bar(name, percent(regret), json!(regret), &text, regret <= bar);
    }
    let wrong: usize = verdicts.iter().map(|of| of.wrong.len()).sum();
    let wrong = wrong as f64 / verdicts.len().max(1) as f64;
    let shown = format!("{wrong:.2}");
    report.bar("false problems a case", shown, json!(wrong), "<= 0.2", wrong <= 0.2);
    let unjudged: usize = verdicts.iter().map(|of| of.unjudged).sum();
    report.figure("problems that nothing could judge", unjudged.to_string(), json!(unjudged));
    let predicted: Vec<(bool, f64)> =
        verdicts.iter().flat_map(|of| of.predicted.iter().copied()).collect();
    let inside = predicted.iter().filter(|(inside, _)| *inside).count();
    let share = inside as f64 / predicted.len().max(1) as f64;
    let shown = format!("{inside} of {}", predicted.len());
    report.bar("gains inside their prediction", shown, json!(share), ">= 80 %", share >= 0.8);
    let width = quantile(predicted.into_iter().map(|(_, width)| width).collect(), 0.5);
    let shown = format!("{width:.2}");
    report.bar("median width of a prediction", shown, json!(width), "<= 1.6", width <= 1.6);
    report
}
