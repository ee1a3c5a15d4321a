//! `walwright prove`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Parser;
use serde_json::json;
use walwright_diagnose::{Finding, findings};
use walwright_experiment::{Choices, Length, Visit};
use walwright_record::Record;
use walwright_run::RunPlan;
use walwright_store::Lab;

use crate::args::{Cli, Command, ProveArgs, RunName};
use crate::commands::{command_line, experiment as experiments, named, run};
use crate::output::Output;

/// Makes an experiment of a finding's action and does it.
pub fn execute(lab: &Lab, args: ProveArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let record = named::load(lab, &RunName { run: args.run.clone() })?;
    let diagnosis = findings(&record);
    let finding = finding(&record, &diagnosis.findings, &args)?;
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

/// The finding that is meant.
fn finding<'a>(
    record: &Record,
    all: &'a [Finding],
    args: &ProveArgs,
) -> anyhow::Result<&'a Finding> {
    let about = |finding: &&Finding| {
        let subject = finding.subject.as_deref().unwrap_or_default();
        args.subject.as_ref().is_none_or(|wanted| subject.contains(wanted.as_str()))
    };
    let found = all.iter().filter(|finding| finding.id == args.finding).find(about);
    if let Some(finding) = found {
        return Ok(finding);
    }
    let mut known: Vec<String> = all.iter().map(|finding| finding.id.to_string()).collect();
    known.dedup();
    bail!(
        "run {} has no finding {}{}; it has {}",
        record.header.id,
        args.finding,
        args.subject.as_ref().map_or_else(String::new, |text| format!(" about '{text}'")),
        if known.is_empty() { "none".to_owned() } else { known.join(", ") }
    )
}

/// The run once more, from the command line that its record keeps.
fn repeated(record: &Record) -> anyhow::Result<RunPlan> {
    let line = &record.header.command;
    let cannot =
        || format!("run {} cannot be repeated from its command line `{line}`", record.header.id);
    let words = words(line).with_context(cannot)?;
    let typed = Cli::try_parse_from(words)
        .map_err(|error| anyhow::anyhow!("{}", error.kind()))
        .with_context(cannot)?;
    match typed.command {
        Some(Command::Run(args)) => Ok(run::plan(*args)),
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
    fn a_kept_command_line_is_taken_apart_again() {
        let line = r"walwright run --set 'a=b c' -l 'it'\''s' '' x";
        assert_eq!(
            words(line).unwrap(),
            ["walwright", "run", "--set", "a=b c", "-l", "it's", "", "x"]
        );
        assert_eq!(words("run 'open"), None);
    }
}
