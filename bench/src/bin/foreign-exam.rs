//! The diagnosis judged on systems that others wrote.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{SeedableRng, random};
use serde_json::{Value, json};
use walwright_bench::foreign::{
    Arm, ArmTruth, Case, CaseTruth, ForeignFault, Half, Stand, System, Tools,
};
use walwright_bench::{Report, Walwright};
use walwright_probe::this_machine;
use walwright_stats::quantile;

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
/// copies of one database, until the answer is clear. What was measured is kept in --truths and
/// measured once, until the case changes or the rules advise what was not tried; a run that was
/// ended goes on.
///
/// Cases are divided by their names: rules may be mended on one half, and the figures that
/// count are those of the other. Each look at these is a row in looks.csv beside the truths.
#[derive(Parser)]
struct Cli {
    /// Cases by a part of `system: faults`. The default is all.
    only: Vec<String>,
    /// Directory of systems.
    #[arg(long, default_value = "bench/foreign")]
    systems: PathBuf,
    /// Directory of what was measured.
    #[arg(long, default_value = "bench/foreign/measured", value_name = "DIR")]
    truths: PathBuf,
    /// Directory for programs, data and records.
    #[arg(long, default_value = "target/foreign-exam", value_name = "DIR")]
    state: PathBuf,
    /// Measure nothing: judge the records there are with the rules of now.
    #[arg(long)]
    again: bool,
    /// Record every case anew: for rules that read what older records do not have.
    #[arg(long, conflicts_with = "again")]
    record_again: bool,
    /// Measure at most so many cases, then judge.
    #[arg(long, value_name = "N")]
    most: Option<usize>,
    /// Rounds of a case at most. With 0 cases are only recorded.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds measured of each run.
    #[arg(long, default_value_t = 6)]
    seconds: u64,
    /// Seconds recorded for the diagnosis.
    #[arg(long, default_value_t = 15)]
    record: u64,
    /// Cases that are measured and judged.
    #[arg(long, value_enum, default_value = "mended")]
    half: Halves,
    /// Figures as JSON on standard output.
    #[arg(long)]
    json: bool,
}

/// Which cases are measured and judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Halves {
    /// Those that rules may be mended on.
    Mended,
    /// Those that are only looked at.
    Unseen,
    /// Both.
    All,
}

impl Halves {
    fn has(self, half: Half) -> bool {
        match self {
            Halves::All => true,
            Halves::Mended => half == Half::Mended,
            Halves::Unseen => half == Half::Unseen,
        }
    }
}

/// First line of the file of looks.
const LOOKS: &str = "time,cases,first,among three,regret median,regret 90th,false problems,\
                     gains inside,width\n";

/// How a case was judged.
struct Verdict {
    case: String,
    /// Place of the cause with the largest gain; `None` where it was not found.
    rank: Option<usize>,
    /// Whether there is a cause worth finding.
    has_cause: bool,
    /// Best gain less that of the first advice that can be executed, as a share of the best.
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
    let exam = Exam {
        walwright: Walwright::find()?.in_lab(cli.state.join("lab")),
        runs: cli.state.join("runs"),
        cli,
    };
    let cli = &exam.cli;
    let wanted = |case: &str| cli.only.is_empty() || cli.only.iter().any(|o| case.contains(o));
    let wanted: Vec<_> =
        cases(&systems).filter(|(.., name)| wanted(name) && cli.half.has(Half::of(name))).collect();
    if !cli.again {
        exam.measure_all(&wanted)?;
    }
    let mut verdicts = Vec::new();
    for (system, case, name) in &wanted {
        let truth = CaseTruth::read(&cli.truths, name, &system.made_of(case));
        if let Some((truth, run)) = truth.zip(exam.run_of(name)) {
            let diagnosis = exam.walwright.printed_json(&["diagnose", &run])?;
            verdicts.push((Half::of(name), judge(system, case, &truth, &diagnosis)));
        }
    }
    let mut met = true;
    for (half, title) in
        [(Half::Mended, "rules were mended on"), (Half::Unseen, "rules have not seen")]
    {
        let of: Vec<&Verdict> =
            verdicts.iter().filter(|(h, _)| *h == half).map(|(_, v)| v).collect();
        if of.is_empty() {
            continue;
        }
        let totals = Totals::of(&of);
        if half == Half::Unseen {
            exam.note_look(&totals)?;
        }
        met &= report(title, &of, &totals).print(cli.json) == ExitCode::SUCCESS;
    }
    Ok(if met { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Every case with its system and its name.
fn cases(systems: &[System]) -> impl Iterator<Item = (&System, &Case, String)> {
    systems.iter().flat_map(|system| {
        let named = move |case| (system, case, format!("{}: {}", system.name, Case::name(case)));
        system.cases.iter().map(named)
    })
}

/// What an exam is made with.
struct Exam {
    cli: Cli,
    walwright: Walwright,
    /// A file for each case that holds the name of its record.
    runs: PathBuf,
}

impl Exam {
    fn measure_all(&self, wanted: &[(&System, &Case, String)]) -> anyhow::Result<()> {
        let tools = Tools::open(&self.cli.state.join("tools"))?;
        let mut stand: Option<(&str, Stand)> = None;
        let (mut measured, mut spent) = (0_usize, Duration::ZERO);
        for (place, (system, case, name)) in wanted.iter().enumerate() {
            if self.cli.most.is_some_and(|most| measured >= most) {
                break;
            }
            if stand.as_ref().is_none_or(|(of, _)| *of != system.name) {
                let opened = Stand::open(&tools, system, &self.cli.state.join("data"))?;
                stand = Some((&system.name, opened));
            }
            let Some((_, stand)) = &stand else { continue };
            let left = match measured {
                0 => String::new(),
                done => {
                    let each = spent.as_secs_f64() / done as f64;
                    let rest = (wanted.len() - place) as f64;
                    format!(", {:.0} min left at most", (rest * each / 60.0).ceil())
                }
            };
            eprintln!("[{} of {}{left}] {name}", place + 1, wanted.len());
            let begun = Instant::now();
            if self.measure(stand, system, case, name)? {
                measured += 1;
                spent += begun.elapsed();
            }
        }
        Ok(())
    }

    /// Records a case and measures those of its arms that were not; whether there was any.
    fn measure(
        &self,
        stand: &Stand,
        system: &System,
        case: &Case,
        name: &str,
    ) -> anyhow::Result<bool> {
        let planted = Arm { faults: system.planted(case).collect(), ..Arm::default() };
        let recorded = self.run_of(name).filter(|_| !self.cli.record_again);
        let diagnosis = match &recorded {
            Some(run) => self.walwright.printed_json(&["diagnose", run])?,
            None => {
                let label = format!("{name} {:08x}", random::<u32>());
                let length = Duration::from_secs(self.cli.record);
                let seen = stand.record(&self.walwright, &planted, &label, length)?;
                std::fs::create_dir_all(&self.runs)?;
                std::fs::write(self.runs.join(name), &seen.run)?;
                seen.diagnosis
            }
        };
        let made_of = system.made_of(case);
        let mut truth = CaseTruth::read(&self.cli.truths, name, &made_of)
            .unwrap_or_else(|| CaseTruth::new(name, &made_of));
        let mut arms = arms(&planted, &diagnosis);
        arms.retain(|arm, _| !truth.arms.contains_key(arm));
        if self.cli.rounds > 0 && (!arms.is_empty() || truth.date.is_empty()) {
            truth.arms.extend(arms.keys().map(|arm| (arm.clone(), ArmTruth::default())));
            self.measure_arms(stand, &planted, &arms, &mut truth)?;
            truth.write(&self.cli.truths)?;
        }
        Ok(recorded.is_none() || !arms.is_empty())
    }

    /// Measures arms beside the case as planted, in rounds of random order.
    fn measure_arms(
        &self,
        stand: &Stand,
        planted: &Arm,
        arms: &BTreeMap<String, Arm>,
        truth: &mut CaseTruth,
    ) -> anyhow::Result<()> {
        let mut random = StdRng::seed_from_u64(random());
        let length = Duration::from_secs(self.cli.seconds);
        for round in 0..self.cli.rounds {
            let is_clear = |arm: &String| truth.arms.get(arm).is_some_and(ArmTruth::is_clear);
            if round >= FEWEST_ROUNDS && arms.keys().all(is_clear) || arms.is_empty() {
                break;
            }
            let mut order: Vec<Option<&String>> = arms.keys().map(Some).chain([None]).collect();
            order.shuffle(&mut random);
            let mut base = None;
            for arm in order {
                let Some(arm) = arm else {
                    base = Some(stand.measure(planted, length)?);
                    continue;
                };
                let Some(found) = truth.arms.get_mut(arm).filter(|arm| arm.failed.is_none()) else {
                    continue;
                };
                match stand.measure(&arms[arm], length) {
                    Ok(rate) => found.rates.push(rate),
                    Err(error) => {
                        eprintln!("  {arm}: {error:#}");
                        found.failed = Some(format!("{error:#}"));
                    }
                }
            }
            for arm in arms.keys() {
                if let Some(arm) = truth.arms.get_mut(arm) {
                    arm.planted.extend(base);
                }
            }
            let measured = arms.keys().filter_map(|arm| Some((arm, truth.arms.get(arm)?.gain()?)));
            let shown = measured.map(|(arm, gain)| format!("{arm} {}", percent(gain.0)));
            let shown = shown.collect::<Vec<_>>().join(", ");
            eprintln!("  round {}: {shown}", round + 1);
        }
        truth.date = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
        truth.machine = processor();
        Ok(())
    }

    /// Name of the record of a case, if there is one.
    fn run_of(&self, case: &str) -> Option<String> {
        std::fs::read_to_string(self.runs.join(case)).ok()
    }

    /// Notes that the half that rules have not seen was looked at.
    fn note_look(&self, totals: &Totals) -> anyhow::Result<()> {
        let path = self.cli.truths.join("looks.csv");
        let mut text = std::fs::read_to_string(&path).unwrap_or_else(|_| LOOKS.to_owned());
        writeln!(
            text,
            "{},{},{:.2},{:.2},{:.2},{:.2},{:.2},{:.2},{:.2}",
            jiff::Timestamp::now().strftime("%Y-%m-%d %H:%M"),
            totals.cases,
            totals.first,
            totals.among_three,
            totals.regret[0],
            totals.regret[1],
            totals.wrong,
            totals.inside(),
            totals.width,
        )?;
        Ok(std::fs::write(path, text)?)
    }
}

/// The changes that are measured against a case: each fault away, and each advice among the
/// first findings that can be executed.
fn arms<'a>(planted: &Arm<'a>, diagnosis: &Value) -> BTreeMap<String, Arm<'a>> {
    let away = planted.faults.iter().map(|fault| {
        let others = planted.faults.iter().filter(|other| other.name != fault.name);
        (without(fault), Arm { faults: others.copied().collect(), ..Arm::default() })
    });
    let advice = problems(diagnosis).take(ADVICE).filter_map(|finding| {
        let mut arm = planted.clone();
        follow(&mut arm, executable(finding)?);
        Some((advised(finding), arm))
    });
    away.chain(advice).collect()
}

/// Model of the processor, and how many there are.
fn processor() -> String {
    let machine = this_machine();
    let count = machine.processors.map_or("?".to_owned(), |count| count.to_string());
    format!("{count} x {}", machine.cpu_model.as_deref().unwrap_or("unknown"))
}

fn percent(share: f64) -> String {
    format!("{:+.0} %", 100.0 * share)
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
        // DROP INDEX CONCURRENTLY runs alone.
        _ => arm.sql.extend(text("sql").lines().map(str::to_owned)),
    }
}

/// Holds what was said of a case against what was measured.
fn judge(system: &System, case: &Case, truth: &CaseTruth, diagnosis: &Value) -> Verdict {
    let gain = |arm: &str| truth.arms.get(arm)?.gain();
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
    let first = problems(diagnosis).find_map(gain_of).map_or(0.0, |gain| gain.0);
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

/// Figures over cases.
struct Totals {
    cases: usize,
    first: f64,
    among_three: f64,
    /// Median and 90th percentile.
    regret: [f64; 2],
    /// False problems a case.
    wrong: f64,
    unjudged: usize,
    /// Gains that were predicted and measured, and how many of them lay inside.
    predicted: [usize; 2],
    /// Median width of a prediction, as a factor.
    width: f64,
}

impl Totals {
    fn of(verdicts: &[&Verdict]) -> Totals {
        let with_cause: Vec<&&Verdict> = verdicts.iter().filter(|of| of.has_cause).collect();
        let found = |most: usize| {
            let found = with_cause.iter().filter(|of| of.rank.is_some_and(|rank| rank <= most));
            found.count() as f64 / with_cause.len().max(1) as f64
        };
        let regrets: Vec<f64> = with_cause.iter().map(|of| of.regret).collect();
        let wrong: usize = verdicts.iter().map(|of| of.wrong.len()).sum();
        let quantile = |values: &[f64], share| quantile(values, share).unwrap_or(0.0);
        let predicted: Vec<(bool, f64)> =
            verdicts.iter().flat_map(|of| of.predicted.iter().copied()).collect();
        let inside = predicted.iter().filter(|(inside, _)| *inside).count();
        Totals {
            cases: verdicts.len(),
            first: found(1),
            among_three: found(3),
            regret: [quantile(&regrets, 0.5), quantile(&regrets, 0.9)],
            wrong: wrong as f64 / verdicts.len().max(1) as f64,
            unjudged: verdicts.iter().map(|of| of.unjudged).sum(),
            predicted: [predicted.len(), inside],
            width: quantile(&predicted.iter().map(|(_, width)| *width).collect::<Vec<_>>(), 0.5),
        }
    }

    fn inside(&self) -> f64 {
        self.predicted[1] as f64 / self.predicted[0].max(1) as f64
    }
}

fn report(title: &str, verdicts: &[&Verdict], totals: &Totals) -> Report {
    let mut report = Report::new(&format!("{} cases that {title}", verdicts.len()));
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
    let share = |share: f64| format!("{:.0} %", 100.0 * share);
    let mut bar = |name: &str, shown: String, value: f64, bar: &str, met: bool| {
        report.bar(name, shown, json!(value), bar, met);
    };
    let Totals { first, among_three, regret: [median, tail], wrong, width, .. } = *totals;
    bar("largest cause first", share(first), first, ">= 80 %", first >= 0.8);
    bar(
        "largest cause among three",
        share(among_three),
        among_three,
        ">= 95 %",
        among_three >= 0.95,
    );
    bar("advice regret, median", share(median), median, "<= 5 %", median <= 0.05);
    bar("advice regret, 90th percentile", share(tail), tail, "<= 30 %", tail <= 0.3);
    bar("false problems a case", format!("{wrong:.2}"), wrong, "<= 0.2", wrong <= 0.2);
    let [predicted, inside] = totals.predicted;
    let shown = format!("{inside} of {predicted}");
    bar("gains inside their prediction", shown, totals.inside(), ">= 80 %", totals.inside() >= 0.8);
    bar("median width of a prediction", format!("{width:.2}"), width, "<= 1.6", width <= 1.6);
    let unjudged = totals.unjudged;
    report.figure("problems that nothing could judge", unjudged.to_string(), json!(unjudged));
    report
}
