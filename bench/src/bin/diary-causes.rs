//! The causes of the diary, planted in the document store alone and all together.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, bail, ensure};
use clap::{Parser, ValueEnum};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{SeedableRng, random};
use serde::Deserialize;
use serde_json::{Value, json};
use walwright_bench::foreign::{ArmTruth, CaseTruth};
use walwright_bench::{DocumentService, Report, Walwright, local_dsn};
use walwright_probe::this_machine;
use walwright_server::{Cluster, ClusterSpec, Installs, Major, Places, RunningCluster, sweep};

/// What the diary of a load test found, planted in the workload `documents` or in the service
/// before it: each cause alone and all together, recorded and diagnosed.
///
/// What is true is measured: the option of each cause is flipped alone, in rounds of random order
/// that begin from new data, beside the planted side. It is kept in --truths and measured once,
/// until the case changes; a command that was ended goes on.
#[derive(Parser)]
struct Cli {
    /// Cases, by a part of their name. The default is all.
    only: Vec<String>,
    /// Who makes the load.
    #[arg(long, value_enum, default_value = "scripts")]
    by: By,
    /// The causes.
    #[arg(long, default_value = "bench/diary/causes.toml")]
    causes: PathBuf,
    /// Directory of what was measured.
    #[arg(long, default_value = "bench/diary/measured", value_name = "DIR")]
    truths: PathBuf,
    /// Directory of records.
    #[arg(long, default_value = "target/diary-causes", value_name = "DIR")]
    state: PathBuf,
    /// Judge the records there are with the rules of now.
    #[arg(long)]
    again: bool,
    /// Record every case anew: for rules that read what older records do not have.
    #[arg(long, conflicts_with = "again")]
    record_again: bool,
    /// Rounds of a case at most. With 0 cases are only recorded.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds measured of each run.
    #[arg(long, default_value_t = 6)]
    seconds: u64,
    /// Seconds recorded for the diagnosis.
    #[arg(long, default_value_t = 20)]
    record: u64,
    /// Figures as JSON on standard output.
    #[arg(long)]
    json: bool,
}

/// Who makes the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum By {
    /// The workload's scripts, on the server itself.
    Scripts,
    /// Requests to `walwright documents serve`; the server behind it is sampled by the run.
    Service,
    /// The same requests, of which `walwright record` knows nothing but a command that makes load
    /// and where the application tells how long its pool is waited for: it watches the server. What
    /// is true is what was measured by `service`.
    Record,
}

impl By {
    fn name(self) -> &'static str {
        match self {
            By::Scripts => "scripts",
            By::Service => "service",
            By::Record => "record",
        }
    }
}

/// Rounds of a case at least.
const FEWEST_ROUNDS: usize = 3;
/// A cause whose cure gains less is none on this machine.
const SOMETHING: f64 = 0.03;
/// What may be lost by taking the first advice, of the best gain.
const REGRET: f64 = 0.1;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Diary {
    scale: u32,
    clients: u32,
    /// Options of the workload on all sides.
    options: BTreeMap<String, String>,
    /// Settings of the server on all sides.
    settings: BTreeMap<String, String>,
    #[serde(rename = "cause")]
    causes: Vec<Cause>,
}

/// A cause. The options that plant it are flipped to cure it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cause {
    name: String,
    /// The diagnoses that name it.
    finds: Vec<String>,
    /// Settings of the server.
    #[serde(default)]
    settings: BTreeMap<String, String>,
    /// Options of the workload's tables.
    #[serde(default)]
    options: BTreeMap<String, String>,
    /// Options of its scripts.
    #[serde(default)]
    scripts: BTreeMap<String, String>,
    /// Options of the service.
    #[serde(default)]
    service: Vec<String>,
    /// Whether it takes an option of another cause, and so is not planted with all.
    #[serde(default)]
    alone: bool,
    /// Why its cure gains nothing: it is judged by its place alone.
    without_gain: Option<String>,
}

impl Cause {
    /// Whether it can be planted under this load.
    fn is_of(&self, by: By) -> bool {
        let tables = !self.options.is_empty() || !self.settings.is_empty();
        match by {
            By::Scripts => tables || !self.scripts.is_empty(),
            By::Service | By::Record => tables || !self.service.is_empty(),
        }
    }
}

/// Causes that are planted together; none of them is the control.
struct Case<'a> {
    name: String,
    causes: Vec<&'a Cause>,
}

impl<'a> Case<'a> {
    /// The sides that are measured beside it: each cause away.
    fn arms(&self) -> BTreeMap<String, Vec<&'a Cause>> {
        let measured = self.causes.iter().filter(|cause| cause.without_gain.is_none());
        let without = |cause: &&&'a Cause| {
            let others = self.causes.iter().filter(|other| other.name != cause.name);
            (cause.name.clone(), others.copied().collect())
        };
        measured.map(|cause| without(&cause)).collect()
    }
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let text = std::fs::read_to_string(&cli.causes)
        .with_context(|| format!("reading {}", cli.causes.display()))?;
    let diary: Diary =
        toml::from_str(&text).with_context(|| format!("reading {}", cli.causes.display()))?;
    std::fs::create_dir_all(&cli.state)?;
    let walwright = Walwright::find()?.in_lab(cli.state.join("lab"));
    let requests = cli.causes.with_file_name("documents.http");
    let exam = Exam { walwright, diary: &diary, requests, cli: &cli };
    let cases = exam.cases();
    if cases.is_empty() {
        bail!("no such case in {}", cli.causes.display());
    }
    let mut judged = Vec::new();
    for (place, case) in cases.iter().enumerate() {
        if !cli.again {
            eprintln!("[{} of {}] {}", place + 1, cases.len(), case.name);
            exam.measure(case)?;
        }
        match exam.judge(case)? {
            Some(verdict) => judged.push((case, verdict)),
            None => eprintln!("{}: not recorded", case.name),
        }
    }
    Ok(report(&judged, cli.by).print(cli.json))
}

struct Exam<'a> {
    walwright: Walwright,
    diary: &'a Diary,
    requests: PathBuf,
    cli: &'a Cli,
}

impl<'a> Exam<'a> {
    /// The control, each cause alone, and all together.
    fn cases(&self) -> Vec<Case<'a>> {
        let by = self.cli.by;
        let causes = || self.diary.causes.iter().filter(move |cause| cause.is_of(by));
        let case = |name: &str, causes| Case { name: format!("{}: {name}", by.name()), causes };
        let mut cases = vec![case("control", Vec::new())];
        cases.extend(causes().map(|cause| case(&cause.name, vec![cause])));
        cases.push(case("all together", causes().filter(|cause| !cause.alone).collect()));
        let only = &self.cli.only;
        cases.retain(|case| only.is_empty() || only.iter().any(|part| case.name.contains(part)));
        cases
    }

    fn made_of(&self, case: &Case) -> String {
        let Diary { scale, clients, options, settings, .. } = self.diary;
        format!("{scale} {clients} {options:?} {settings:?} {:?}", case.causes)
    }

    fn truth(&self, case: &Case) -> CaseTruth {
        let made_of = self.made_of(case);
        // Who watches changes nothing of what is true.
        let name = case.name.replacen(By::Record.name(), By::Service.name(), 1);
        CaseTruth::read(&self.cli.truths, &name, &made_of)
            .unwrap_or_else(|| CaseTruth::new(&name, &made_of))
    }

    /// Records a case and measures what its cures gain, unless that is known.
    fn measure(&self, case: &Case) -> anyhow::Result<()> {
        if self.cli.record_again || self.recorded(case)?.is_none() {
            self.run(&case.causes, self.cli.record, &self.label(case))?;
        }
        let mut truth = self.truth(case);
        let arms = case.arms();
        let is_measured = !truth.date.is_empty() || self.cli.by == By::Record;
        if is_measured || arms.is_empty() || self.cli.rounds == 0 {
            return Ok(());
        }
        if !arms.keys().eq(truth.arms.keys()) {
            truth.arms = arms.keys().map(|arm| (arm.clone(), ArmTruth::default())).collect();
        }
        let done = truth.arms.values().map(|arm| arm.rates.len()).min().unwrap_or(0);
        let mut random = StdRng::seed_from_u64(random());
        for round in done..self.cli.rounds {
            if round >= FEWEST_ROUNDS && truth.arms.values().all(ArmTruth::is_clear) {
                break;
            }
            let mut order: Vec<Option<&String>> = arms.keys().map(Some).chain([None]).collect();
            order.shuffle(&mut random);
            let mut base = None;
            for arm in order {
                let causes = arm.map_or(&case.causes, |arm| &arms[arm]);
                let rate = self.run(causes, self.cli.seconds, "measured")?;
                match arm.and_then(|arm| truth.arms.get_mut(arm)) {
                    Some(arm) => arm.rates.push(rate),
                    None => base = Some(rate),
                }
            }
            truth.arms.values_mut().for_each(|arm| arm.planted.extend(base));
            let gains = truth.arms.iter().filter_map(|(name, arm)| Some((name, arm.gain()?)));
            let shown = gains.map(|(name, gain)| format!("{name} {}", percent(gain.0)));
            eprintln!("  round {}: {}", round + 1, shown.collect::<Vec<_>>().join(", "));
            truth.write(&self.cli.truths)?;
        }
        truth.date = jiff::Timestamp::now().strftime("%Y-%m-%d").to_string();
        let machine = this_machine();
        let count = machine.processors.map_or("?".to_owned(), |count| count.to_string());
        truth.machine = format!("{count} x {}", machine.cpu_model.unwrap_or_default());
        truth.write(&self.cli.truths)
    }

    /// How the record of a case is labelled: anew where the case has changed.
    fn label(&self, case: &Case) -> String {
        format!("{} {}", case.name, self.truth(case).made_of)
    }

    /// The record of a case, if there is one.
    fn recorded(&self, case: &Case) -> anyhow::Result<Option<String>> {
        Ok(self.walwright.labelled_runs()?.remove(&self.label(case)))
    }

    /// Transactions, or passes over the requests, a second with these causes; 0 where another
    /// command's load is only watched.
    fn run(&self, causes: &[&Cause], seconds: u64, label: &str) -> anyhow::Result<f64> {
        let (mut settings, mut options) = (self.diary.settings.clone(), self.diary.options.clone());
        for cause in causes {
            settings.extend(cause.settings.clone());
            options.extend(cause.options.clone());
        }
        let (scale, clients) = (self.diary.scale.to_string(), self.diary.clients.to_string());
        let (seconds, warm) = (format!("{seconds}s"), "--warmup=3s");
        let load = ["--clients", &clients, "--duration", &seconds, warm];
        let labelled = ["--label", label];
        let run = match self.cli.by {
            By::Scripts => {
                options.extend(causes.iter().flat_map(|cause| cause.scripts.clone()));
                let mut flags = pairs("--option", &options);
                flags.extend(pairs("--set", &settings));
                let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
                let workload = ["--workload", "documents", "--scale", &scale];
                self.walwright.json(&[&workload[..], &load, &labelled, &flags].concat())?.0
            }
            By::Service | By::Record => {
                let server = start(settings)?;
                let dsn = local_dsn(server.socket_dir(), server.port());
                let mut flags = pairs("--option", &options);
                flags.extend(causes.iter().flat_map(|cause| cause.service.clone()));
                let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
                let tables = ["--dsn", &dsn, "--create", "--scale", &scale];
                let service =
                    DocumentService::start(&self.walwright, &[&tables[..], &flags].concat())?;
                let url = format!("http://{}", service.address());
                let requests = self.requests.to_str().context("a path that is no text")?;
                let asked = ["--http", &url, "--requests", requests];
                let waits = "walwright_documents_pool_wait_seconds";
                if self.cli.by == By::Record {
                    let program = self.walwright.program();
                    let program = program.to_str().context("a path that is no text")?;
                    let lab = self.cli.state.join("lab-of-the-load");
                    let lab = lab.to_str().context("a path that is no text")?;
                    let pool = format!("--pool-wait={url}/metrics#{waits}");
                    let watch = ["record", "--quiet", "--dsn", &dsn, &pool, warm];
                    let command = ["--", program, "--lab", lab, "run", "--quiet"];
                    let all = [&watch[..], &labelled, &command, &asked, &load].concat();
                    self.walwright.printed_json(&all)?;
                    return Ok(0.0);
                }
                let pool = format!("--pool-wait={waits}");
                let seen = ["--dsn", &dsn, &pool];
                self.walwright.json(&[&asked[..], &seen, &load, &labelled].concat())?.0
            }
        };
        let rate = run.pointer("/summary/load/throughput/center").and_then(Value::as_f64);
        let rate = rate.with_context(|| format!("a run without throughput:\n{run:#}"))?;
        ensure!(rate > 0.0, "the load did nothing");
        Ok(rate)
    }

    /// Holds what is said of a case against what was measured; `None` where it has no record.
    fn judge(&self, case: &Case) -> anyhow::Result<Option<Verdict>> {
        let Some(run) = self.recorded(case)? else { return Ok(None) };
        let diagnosis = self.walwright.printed_json(&["diagnose", &run])?;
        let findings = diagnosis["findings"].as_array().context("a diagnosis without findings")?;
        let problems: Vec<String> = findings
            .iter()
            .filter(|finding| finding["kind"] == "problem")
            .filter_map(|finding| finding["id"].as_str().map(str::to_owned))
            .collect();
        let truth = self.truth(case);
        let mut causes: Vec<Judged> = case
            .causes
            .iter()
            .map(|cause| Judged {
                name: cause.name.clone(),
                rank: problems.iter().position(|id| cause.finds.contains(id)).map(|at| at + 1),
                gain: truth.arms.get(&cause.name).and_then(ArmTruth::gain),
                without_gain: cause.without_gain.is_some(),
            })
            .collect();
        causes.sort_by(|a, b| b.center().total_cmp(&a.center()));
        let planted = |id: &String| case.causes.iter().any(|cause| cause.finds.contains(id));
        let others = problems.iter().filter(|id| !planted(id)).cloned().collect();
        Ok(Some(Verdict { causes, problems, others }))
    }
}

/// A server with nothing in it.
fn start(settings: BTreeMap<String, String>) -> anyhow::Result<RunningCluster> {
    let places = Places::open(None)?;
    sweep(&places)?;
    let install = Installs::within(places.clone()).ensure(Major::V18, &mut |_| {})?;
    let mut spec = ClusterSpec::new(&places, install);
    spec.settings = settings.into_iter().collect();
    Ok(Cluster::create(spec)?.start()?)
}

fn pairs(flag: &str, values: &BTreeMap<String, String>) -> Vec<String> {
    let pair = |(name, value)| [flag.to_owned(), format!("{name}={value}")];
    values.iter().flat_map(pair).collect()
}

fn percent(share: f64) -> String {
    format!("{:+.0} %", 100.0 * share)
}

/// A planted cause: where it is named, and what its cure gains.
struct Judged {
    name: String,
    /// Its place among the problems, from 1; `None` where it is not named.
    rank: Option<usize>,
    /// With the ends of its interval.
    gain: Option<(f64, f64, f64)>,
    without_gain: bool,
}

impl Judged {
    fn center(&self) -> f64 {
        self.gain.map_or(0.0, |gain| gain.0)
    }

    /// Whether there is something to name.
    fn counts(&self) -> bool {
        self.without_gain || self.center() >= SOMETHING
    }

    fn shown(&self) -> String {
        let rank = self.rank.map_or("not named".to_owned(), |rank| format!("named {}.", rank));
        let gain = match self.gain {
            Some((center, low, high)) => {
                format!("{} ({} to {})", percent(center), percent(low), percent(high))
            }
            None if self.without_gain => "no gain to measure".to_owned(),
            None => "not measured".to_owned(),
        };
        format!("{rank}, its cure {gain}")
    }
}

struct Verdict {
    /// The largest measured gain first.
    causes: Vec<Judged>,
    /// The problems named, in order.
    problems: Vec<String>,
    /// Those of them that were not planted.
    others: Vec<String>,
}

impl Verdict {
    /// Best gain less that of the first cause that is named, as a share of the best.
    fn regret(&self) -> f64 {
        let best = self.causes.iter().map(Judged::center).fold(0.0, f64::max);
        let named = self.causes.iter().filter(|cause| cause.rank.is_some());
        let first = named.min_by_key(|cause| cause.rank).map_or(0.0, Judged::center);
        if best < SOMETHING { 0.0 } else { ((best - first) / best).clamp(0.0, 1.0) }
    }

    /// Pairs of causes whose gains differ beyond doubt, and how many are named in that order.
    fn pairs(&self) -> [usize; 2] {
        let measured: Vec<_> = self.causes.iter().filter(|cause| cause.counts()).collect();
        let mut pairs = [0, 0];
        for (place, larger) in measured.iter().enumerate() {
            for smaller in &measured[place + 1..] {
                let (Some(a), Some(b)) = (larger.gain, smaller.gain) else { continue };
                if a.1 > b.2 {
                    let rank = |of: &Judged| of.rank.unwrap_or(usize::MAX);
                    pairs[0] += 1;
                    pairs[1] += usize::from(rank(larger) < rank(smaller));
                }
            }
        }
        pairs
    }
}

fn report(judged: &[(&Case, Verdict)], by: By) -> Report {
    let how = match by {
        By::Scripts => "the workload's scripts",
        By::Service => "requests to the service",
        By::Record => "requests to the service that are only watched",
    };
    let mut report = Report::new(&format!("the diary's causes in the document store, by {how}"));
    let (mut alone, mut first) = (0, 0);
    for (case, verdict) in judged {
        let problems = verdict.problems.join(" ");
        let others = verdict.others.join(" ");
        match verdict.causes.as_slice() {
            [] => report.figure(&case.name, format!("problems: [{problems}]"), json!(problems)),
            [cause] => {
                let not = if cause.counts() { "" } else { "; no cause here" };
                alone += usize::from(cause.counts());
                first += usize::from(cause.counts() && cause.rank == Some(1));
                let shown = format!("{}{not}; besides: [{others}]", cause.shown());
                report.figure(&case.name, shown, json!({ "rank": cause.rank, "gain": cause.gain }));
            }
            all => {
                for cause in all {
                    report.figure(
                        &format!("{}: {}", case.name, cause.name),
                        cause.shown(),
                        json!({ "rank": cause.rank, "gain": cause.gain }),
                    );
                }
                report.figure(&case.name, format!("besides: [{others}]"), json!(verdict.others));
                let [pairs, ordered] = verdict.pairs();
                let shown = format!("{ordered} of {pairs} pairs");
                report.bar("in the order of the gains", shown, json!(ordered), "all", {
                    ordered == pairs
                });
                let regret = verdict.regret();
                let shown = format!("{:.0} %", 100.0 * regret);
                report.bar("regret of the first", shown, json!(regret), "<= 10 %", {
                    regret <= REGRET
                });
            }
        }
    }
    if alone > 0 {
        let shown = format!("{first} of {alone}");
        report.bar("named first when alone", shown, json!(first), "all", first == alone);
    }
    report
}
