//! `walwright prove`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Parser;
use serde_json::{Value, json};
use walwright_diagnose::{DiagnosisId, Finding, findings};
use walwright_experiment::{Choices, Length, Visit};
use walwright_record::{Record, RunId, TargetKind, redact};
use walwright_run::RunPlan;
use walwright_store::Lab;

use crate::args::{Cli, Command, ProveArgs, RunName};
use crate::commands::{command_line, experiment as experiments, named, run};
use crate::output::{Output, wrapped};

/// Makes an experiment of a finding's action and does it.
pub fn execute(lab: &Lab, args: ProveArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let record = load(lab, &args.run)?;
    let diagnosis = findings(&record);
    let Some(wanted) = args.finding else {
        return list(&record, &diagnosis.findings, &args.consent, output);
    };
    let finding = finding(&record, &diagnosis.findings, wanted, args.subject.as_deref())?;
    let repeated = repeated(&record)?;
    let visit = Visit::from(args.visit);
    let on_server = visit.dsn.is_some();
    let mut plan = walwright_experiment::prove(
        &record,
        &repeated,
        finding,
        args.action,
        &args.consent,
        on_server,
    )?;
    plan.blocks = args.blocks.map(|blocks| blocks as usize);
    if let Some(duration) = args.duration {
        plan.load.duration = Some(Length(duration));
    }
    let text = plan.to_toml()?;
    if args.plan {
        output.result(&json!({ "plan": text }), || text.clone())?;
        return Ok(ExitCode::SUCCESS);
    }
    let choices = Choices {
        new: false,
        stop_when_clear: args.stop_when_clear,
        blocks: None,
        consent: Vec::new(),
        command: command_line::command_line(),
        visit,
        made_on: record.target.clone(),
    };
    experiments::begin(lab, &text, Path::new("."), &choices, args.view.style(), output)
}

/// The run that is meant. `latest` is the last that `run` or `record` made: those of an
/// experiment, an earlier proof or a tune come from its plan, and are no run to begin with.
fn load(lab: &Lab, name: &str) -> anyhow::Result<Record> {
    if !matches!(name, "latest" | "last") {
        return named::load(lab, &RunName { run: name.to_owned() });
    }
    let store = named::store(lab)?;
    let own = |line: &str| matches!(typed(line), Some(Ok(Command::Run(_) | Command::Record(_))));
    match store.runs()?.iter().rev().find(|run| own(&run.command)) {
        Some(run) => Ok(store.load(&run.id)?),
        None => bail!(
            "no run in {} was made by `walwright run`, which `prove latest` begins with; make one, or name a run",
            lab.directory().display()
        ),
    }
}

/// What a kept command line asked for; `None` where it is cut short.
fn typed(line: &str) -> Option<Result<Command, clap::Error>> {
    let command = Cli::try_parse_from(words(line)?).map(|typed| typed.command);
    command.map(|command| command.map(Ok)).unwrap_or_else(|error| Some(Err(error)))
}

/// Lists what an experiment can try of each finding, and why it cannot try the rest.
fn list(
    record: &Record,
    findings: &[Finding],
    consent: &[String],
    output: &Output,
) -> anyhow::Result<ExitCode> {
    let id = &record.header.id;
    let findings: Vec<&Finding> =
        findings.iter().filter(|finding| !finding.actions.is_empty()).collect();
    let attached = record.target.as_ref().is_some_and(|of| of.kind == TargetKind::Attached);
    let tried = |finding: &Finding| walwright_experiment::provable(finding, consent, attached);
    let listed: Vec<(&Finding, Tried)> =
        findings.into_iter().map(|finding| (finding, tried(finding))).collect();
    let told: Vec<Value> = listed.iter().map(|(finding, tried)| told(finding, tried)).collect();
    output.result(&json!({ "run": id, "findings": told }), || match &listed[..] {
        [] => format!("Run {id} has no finding to prove.\n"),
        _ => listed
            .iter()
            .map(|(finding, tried)| {
                let same = listed.iter().filter(|(other, _)| other.id == finding.id).count();
                lines(id, finding, tried, same > 1)
            })
            .collect(),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What an experiment tries of each action of a finding, or why it cannot.
type Tried = Vec<Result<String, String>>;

fn told(finding: &Finding, tried: &Tried) -> Value {
    let actions = finding.actions.iter().zip(tried).enumerate().map(|(place, (of, tried))| {
        let (arm, why) = (tried.as_ref().ok(), tried.as_ref().err());
        json!({ "action": place + 1, "text": of.text, "arm": arm, "why_not": why })
    });
    json!({
        "finding": finding.id,
        "title": finding.id.title(),
        "subject": finding.subject,
        "actions": actions.collect::<Vec<_>>(),
    })
}

/// A finding and its actions: the command that proves each, or why there is none. The command
/// says what it is about where the finding is one of `several` of its id.
fn lines(run: &RunId, finding: &Finding, tried: &Tried, several: bool) -> String {
    let id = finding.id;
    let subject = finding.subject.as_ref().map(|subject| format!(": {subject}"));
    let mut text = format!("{id} {}{}\n", id.title(), subject.unwrap_or_default());
    for (place, (action, tried)) in finding.actions.iter().zip(tried).enumerate() {
        let number = place + 1;
        text.push_str(&match tried {
            Ok(arm) => {
                let about = finding.subject.as_deref().filter(|_| several);
                format!("  {number}. {arm}\n     {}\n", proving(run, id, about, number))
            }
            Err(why) => wrapped(
                &format!("{number}. {} (not by an experiment: {why})", action.text.trim()),
                "  ",
            ),
        });
    }
    text
}

/// The command that tries an action of a finding.
fn proving(run: &RunId, id: DiagnosisId, about: Option<&str>, action: usize) -> String {
    let mut words = vec!["walwright".to_owned(), "prove".to_owned(), run.to_string()];
    words.push(id.to_string());
    words.extend(about.into_iter().flat_map(|about| ["--subject".to_owned(), about.to_owned()]));
    words.extend(["--action".to_owned(), action.to_string()]);
    redact::command(words)
}

/// The finding that is meant.
fn finding<'a>(
    record: &Record,
    all: &'a [Finding],
    id: DiagnosisId,
    about: Option<&str>,
) -> anyhow::Result<&'a Finding> {
    let is_meant = |finding: &&Finding| {
        let subject = finding.subject.as_deref().unwrap_or_default();
        about.is_none_or(|wanted| subject.contains(wanted))
    };
    let found = all.iter().filter(|finding| finding.id == id).find(is_meant);
    if let Some(finding) = found {
        return Ok(finding);
    }
    let mut known: Vec<String> = all.iter().map(|finding| finding.id.to_string()).collect();
    known.dedup();
    bail!(
        "run {} has no finding {}{}; it has {}",
        record.header.id,
        id,
        about.map_or_else(String::new, |text| format!(" about '{text}'")),
        if known.is_empty() { "none".to_owned() } else { known.join(", ") }
    )
}

/// The run once more, from the command line that its record keeps.
fn repeated(record: &Record) -> anyhow::Result<RunPlan> {
    let line = &record.header.command;
    let cannot =
        || format!("run {} cannot be repeated from its command line `{line}`", record.header.id);
    let typed = typed(line).with_context(cannot)?;
    match typed.map_err(|error| anyhow::anyhow!("{}", error.kind())).with_context(cannot)? {
        Command::Run(args) => Ok(run::plan(*args)),
        _ => bail!(
            "run {} was not made by `walwright run` but by `{line}`; make one that shows the finding and prove that",
            record.header.id
        ),
    }
}

/// A command line taken apart as a shell does, as far as [`command_line`] quotes.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next()? {
                        '\'' => break,
                        inside => word.push(inside),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(letters.next()?),
            plain => word.get_or_insert_default().push(plain),
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_what_it_proves() {
        let run = RunId("r1".to_owned());
        let id: DiagnosisId = "D15".parse().unwrap();
        assert_eq!(proving(&run, id, None, 2), "walwright prove r1 D15 --action 2");
        let line = proving(&run, id, Some("it's a table"), 1);
        let typed = Cli::try_parse_from(words(&line).unwrap()).unwrap();
        let Some(Command::Prove(args)) = typed.command else { panic!("{line}") };
        assert_eq!(args.subject.as_deref(), Some("it's a table"));
        assert_eq!((args.finding, args.action), (Some(id), Some(1)));
    }

    #[test]
    fn a_kept_command_line_is_taken_apart_again() {
        let line = r"walwright run --set 'a=b c' -l 'it'\''s' '' x";
        assert_eq!(
            words(line).unwrap(),
            ["walwright", "run", "--set", "a=b c", "-l", "it's", "", "x"]
        );
        assert_eq!(words("run 'open"), None);
    }
}
