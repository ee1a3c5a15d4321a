//! What other tools say to the planted faults of the exam.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use clap::Parser;
use serde_json::{Value, json};
use walwright_bench::{Busy, Fault, Report, Rules, Side, Walwright, mention, postgresqltuner};

/// Runs each scenario of the exam, planted and without its fault, and asks other tools about
/// the server afterwards: what they advise, and whether the planted cause is among it.
#[derive(Parser)]
struct Cli {
    /// Scenarios, by diagnosis (D15) or name. The default is all.
    only: Vec<String>,
    /// Directory of scenarios.
    #[arg(long, default_value = "bench/faults")]
    faults: PathBuf,
    /// The tuner by rules.
    #[arg(long, default_value = "bench/peers/rules.toml")]
    rules: PathBuf,
    /// postgresqltuner, if you have it.
    #[arg(long, default_value = "postgresqltuner")]
    postgresqltuner: PathBuf,
    /// Run nothing: ask about the runs that `planted-faults --lab` kept. Tools that want a
    /// server are not asked.
    #[arg(long, value_name = "DIR")]
    lab: Option<PathBuf>,
    /// Figures as JSON on standard output.
    #[arg(long)]
    json: bool,
}

/// What one tool says to both sides of a scenario; `None` where it was not asked.
type Said = Option<[Vec<String>; 2]>;

/// A tool: its name, and what it said.
type Tool = (&'static str, fn(&Outcome) -> &Said);

/// What the tools say to one scenario.
struct Outcome {
    fault: Fault,
    tuner: Said,
    rules: Said,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let mut walwright = Walwright::find()?;
    let kept = match cli.lab {
        Some(lab) => {
            walwright = walwright.in_lab(lab);
            Some(walwright.labelled_runs()?)
        }
        None => None,
    };
    let rules = Rules::read(&cli.rules)?;
    let faults = Fault::chosen(&cli.faults, &cli.only)?;
    let total = faults.len();
    let mut outcomes = Vec::with_capacity(total);
    for (number, fault) in faults.into_iter().enumerate() {
        eprintln!("{} of {total}: {} {}", number + 1, fault.diagnosis, fault.name);
        let ask = |side: &Side, name: &str| -> anyhow::Result<Answers> {
            let Some(kept) = &kept else {
                return ask(&walwright, &rules, &cli.postgresqltuner, &fault, side);
            };
            let label = format!("{} {name}", fault.name);
            let id = kept.get(&label).with_context(|| format!("no run `{label}`"))?;
            let record = walwright.printed_json(&["export", id])?;
            Ok(Answers { tuner: None, rules: rules.advice(&record)? })
        };
        let planted = ask(&fault.planted, "planted")?;
        let control = ask(&fault.control, "control")?;
        outcomes.push(Outcome {
            tuner: planted.tuner.zip(control.tuner).map(|(planted, control)| [planted, control]),
            rules: Some([planted.rules, control.rules]),
            fault,
        });
    }
    Ok(report(&outcomes).print(cli.json))
}

/// What the tools say to one side.
struct Answers {
    tuner: Option<Vec<String>>,
    rules: Vec<String>,
}

/// Runs one side, keeps its cluster, and asks about it.
fn ask(
    walwright: &Walwright,
    rules: &Rules,
    tuner: &Path,
    fault: &Fault,
    side: &Side,
) -> anyhow::Result<Answers> {
    let directory = tempfile::tempdir()?;
    fault.write(side, directory.path())?;
    let workload = directory.path().display().to_string();
    let mut arguments =
        vec!["-w", &workload, "--warmup", &fault.warmup, "--duration", &fault.duration, "--keep"];
    arguments.extend(fault.flags.iter().chain(&side.flags).map(String::as_str));
    let beside = (0..side.beside).map(|_| Busy::start()).collect::<Result<Vec<_>, _>>()?;
    let (run, _) = walwright.json(&arguments).with_context(|| fault.name.clone())?;
    drop(beside);
    let kept = Kept::of(&run)?;
    let id = run.pointer("/run/id").and_then(Value::as_str).context("a run without a name")?;
    let record = walwright.printed_json(&["export", id])?;
    kept.start()?;
    let said = postgresqltuner(tuner, &kept.socket);
    drop(kept);
    Ok(Answers { tuner: said?, rules: rules.advice(&record)? })
}

/// A cluster that a run kept; stopped and removed when dropped.
struct Kept {
    directory: PathBuf,
    start: String,
    stop: String,
    socket: String,
}

impl Kept {
    fn of(run: &Value) -> anyhow::Result<Kept> {
        let text = |name: &str| {
            let found = run["kept_cluster"][name].as_str();
            found.map(str::to_owned).with_context(|| format!("the kept cluster has no {name}"))
        };
        let connect = text("connect")?;
        let socket = connect.split_once(" -h ").and_then(|(_, rest)| rest.split(' ').next());
        Ok(Kept {
            directory: text("directory")?.into(),
            start: text("start")?,
            stop: text("stop")?,
            socket: socket.context("no socket in the connect command")?.to_owned(),
        })
    }

    fn start(&self) -> anyhow::Result<()> {
        if !shell(&self.start)? {
            bail!("the kept cluster did not start: {}", self.start);
        }
        Ok(())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // It may not have been started.
        let _ = shell(&self.stop);
        if let Err(error) = std::fs::remove_dir_all(&self.directory) {
            eprintln!("{}: {error}", self.directory.display());
        }
    }
}

fn shell(command: &str) -> anyhow::Result<bool> {
    let status = Command::new("sh").args(["-c", command]).stdout(Stdio::null()).status()?;
    Ok(status.success())
}

/// Advice to the planted side, what of it names the cause, and whether the control hears
/// the same.
fn told(said: &Said, words: &[String]) -> (String, Value) {
    let Some([planted, control]) = said else { return ("not asked".to_owned(), Value::Null) };
    let named = mention(planted, words);
    let also = named.is_some_and(|_| mention(control, words).is_some());
    let verdict = match (named, also) {
        (None, _) => "not named",
        (Some(_), true) => "named, and to the control too",
        (Some(_), false) => "named",
    };
    let shown = format!("{} advices, {verdict}", planted.len());
    let value = json!({
        "advice": planted,
        "advice_to_control": control,
        "names_the_cause": named,
        "names_it_to_the_control": also,
    });
    (shown, value)
}

fn report(outcomes: &[Outcome]) -> Report {
    let mut report = Report::new(&format!(
        "what other tools say to {} planted faults, and to the controls without them",
        outcomes.len()
    ));
    let tools: [Tool; 2] =
        [("postgresqltuner", |outcome| &outcome.tuner), ("rules", |outcome| &outcome.rules)];
    for outcome in outcomes {
        let name = format!("{} {}", outcome.fault.diagnosis, outcome.fault.name);
        let mut shown = Vec::new();
        let mut values = serde_json::Map::new();
        for (tool, said) in tools {
            let (text, value) = told(said(outcome), &outcome.fault.peers_mention);
            shown.push(format!("{tool}: {text}"));
            values.insert(tool.to_owned(), value);
        }
        report.figure(&name, shown.join("; "), values.into());
    }
    for (tool, said) in tools {
        let asked: Vec<&Outcome> = outcomes.iter().filter(|o| said(o).is_some()).collect();
        let named = |control_too: bool| {
            let counts = asked.iter().filter(|outcome| {
                let Some([planted, control]) = said(outcome) else { return false };
                let words = &outcome.fault.peers_mention;
                mention(planted, words).is_some()
                    && (control_too || mention(control, words).is_none())
            });
            counts.count()
        };
        let shown = match asked.len() {
            0 => "not asked".to_owned(),
            all => format!(
                "{} of {all}, and {} of them to the planted side alone",
                named(true),
                named(false)
            ),
        };
        report.figure(
            &format!("{tool} names the cause"),
            shown,
            json!({ "of": asked.len(), "named": named(true), "named_to_planted_alone": named(false) }),
        );
    }
    report
}
