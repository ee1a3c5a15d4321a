//! `walwright experiment`.

mod live;
mod page;
mod watch;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use serde_json::json;
use walwright_experiment::{
    Choices, Conducted, EXAMPLE, ExperimentError, ExperimentObserver, PlanFile, Remarks, SHIPPED,
    Visit,
};
use walwright_figures::experiment::{Ending, Outcome};
use walwright_report::{List, format};
use walwright_run::Silent;
use walwright_server::Stop;
use walwright_store::Lab;

use crate::args::{ExperimentArgs, ExperimentCommand, NewExperimentArgs, VisitArgs};
use crate::commands::command_line;
use crate::commands::runtime::{Parting, runtime, until_done};
use crate::commands::write::write_page;
use crate::output::{Output, exit, say};
use crate::show::{self, Guard, Style};

/// Does an experiment, or tells of those there are.
pub fn execute(lab: &Lab, args: ExperimentArgs, output: &Output) -> anyhow::Result<ExitCode> {
    match args.command {
        None => run(lab, args.new, output),
        Some(ExperimentCommand::Run(args)) => run(lab, *args, output),
        Some(ExperimentCommand::Resume { experiment, visit, view }) => {
            resume(lab, &experiment, *visit, view.style(), output)
        }
        Some(ExperimentCommand::List) => list(lab, output),
        Some(ExperimentCommand::Show { experiment, html }) => {
            let outcome = walwright_experiment::outcome(lab, &experiment)?;
            show(lab, &outcome, html, output)?;
            Ok(ExitCode::SUCCESS)
        }
        Some(ExperimentCommand::Delete { experiment }) => {
            let id = runtime()?.block_on(walwright_experiment::delete(lab, &experiment))?;
            output.result(&json!({ "deleted": id }), || format!("deleted {id}\n"))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Goes on with an experiment.
fn resume(
    lab: &Lab,
    id: &str,
    visit: VisitArgs,
    style: Style,
    output: &Output,
) -> anyhow::Result<ExitCode> {
    let visit = Visit::from(visit);
    conducted(lab, style, output, &visit.remarks, async |stop, watcher| {
        walwright_experiment::resume(lab, id, &visit, &stop, &watcher).await
    })
}

/// Does the experiment of a plan, or tells what it would take.
fn run(lab: &Lab, args: NewExperimentArgs, output: &Output) -> anyhow::Result<ExitCode> {
    if args.example {
        output.result(&json!({ "plan": EXAMPLE }), || EXAMPLE.to_owned())?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(id) = &args.resume {
        return resume(lab, id, args.visit, args.view.style(), output);
    }
    let visit = Visit::from(args.visit);
    // clap requires a plan where nothing else is asked for.
    let plan = args.plan.unwrap_or_default();
    let text = plan_text(&plan)?;
    let text = match args.quick {
        false => text,
        true => match PlanFile::parse(&text).and_then(|plan| plan.quick().to_toml()) {
            Ok(quick) => quick,
            Err(error) => return Ok(failed(error.into(), output)),
        },
    };
    let origin = plan.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let choices = Choices {
        new: args.new,
        stop_when_clear: args.stop_when_clear,
        blocks: args.blocks.map(|blocks| blocks as usize),
        consent: args.consent,
        command: command_line::command_line(),
        visit,
        made_on: None,
    };
    if args.estimate {
        return match walwright_experiment::estimate(lab, &text, origin, &choices) {
            Ok(estimate) => {
                output.result(&estimate, || watch::estimate_text(&estimate))?;
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => Ok(failed(error, output)),
        };
    }
    begin(lab, &text, origin, &choices, args.view.style(), output)
}

/// The text of a plan: of a file, or of one that comes with walwright.
fn plan_text(plan: &Path) -> anyhow::Result<String> {
    let named = SHIPPED.iter().find(|(name, _)| Path::new(name) == plan && !plan.exists());
    if let Some((_, text)) = named {
        return Ok((*text).to_owned());
    }
    let names: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
    std::fs::read_to_string(plan).with_context(|| {
        let names = names.join(", ");
        format!(
            "cannot read the plan {}; those that come with walwright are: {names}",
            plan.display()
        )
    })
}

/// Begins the experiment of a plan and shows its result.
pub fn begin(
    lab: &Lab,
    text: &str,
    origin: &Path,
    choices: &Choices,
    style: Style,
    output: &Output,
) -> anyhow::Result<ExitCode> {
    conducted(lab, style, output, &choices.visit.remarks, async |stop, watcher| {
        walwright_experiment::begin(lab, text, origin, choices, &stop, &watcher).await
    })
}

/// Works until the experiment has ended or is stopped, and shows what it came to.
fn conducted(
    lab: &Lab,
    style: Style,
    output: &Output,
    remarks: &Remarks,
    work: impl AsyncFnOnce(Stop, Arc<ExperimentObserver>) -> Result<Conducted, ExperimentError>,
) -> anyhow::Result<ExitCode> {
    let done = until_done(Parting::WORKING, async |stop| {
        let (watcher, _terminal) = watcher(lab, style, &stop, output);
        let lab = lab.clone();
        work(stop, Arc::new(page::Renewed { lab, watcher })).await
    })?;
    let ended = shown(lab, style, output, done);
    let code = ended.as_ref().map_or(ExitCode::from(exit::FAILED), |code| *code);
    let code = output.remarked(remarks, code);
    ended.map(|_| code)
}

/// What shows an experiment in a style, and the guard that gives the terminal back.
fn watcher(
    lab: &Lab,
    style: Style,
    stop: &Stop,
    output: &Output,
) -> (Arc<ExperimentObserver>, Option<Guard>) {
    if style == Style::Quiet {
        return (Arc::new(Silent), None);
    }
    show::live_or(
        style,
        || live::start(lab, stop.clone(), output.colour_err),
        || Arc::new(watch::Lines::new()),
    )
}

/// Shows what an experiment came to.
fn shown(
    lab: &Lab,
    style: Style,
    output: &Output,
    done: Result<Conducted, ExperimentError>,
) -> anyhow::Result<ExitCode> {
    let Conducted { outcome, stopped } = match done {
        Ok(done) => done,
        Err(error) => return Ok(failed(error, output)),
    };
    show(lab, &outcome, None, output)?;
    let kept = walwright_experiment::journal::keep_experiment(lab, &outcome)?;
    if style != Style::Quiet {
        match &kept[..] {
            [] => {}
            [entry] => say(&format!("journal entry {}", entry.name())),
            entries => say(&format!("{} journal entries: walwright journal", entries.len())),
        }
    }
    if stopped {
        let id = &outcome.id;
        say(&format!("stopped; `walwright experiment resume {id}` continues it"));
        return Ok(ExitCode::from(exit::INTERRUPTED));
    }
    if outcome.ending == Ending::NoArmLeft {
        anyhow::bail!("every arm of {} failed, so nothing was compared", outcome.id);
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints why it could not be done; a plan that is not right is wrong usage.
pub fn failed(error: ExperimentError, output: &Output) -> ExitCode {
    let code = match &error {
        ExperimentError::Plan(_) | ExperimentError::Unfinished { .. } => {
            Some(ExitCode::from(exit::USAGE))
        }
        error if error.is_interruption() => Some(ExitCode::from(exit::INTERRUPTED)),
        _ => None,
    };
    let printed = output.fail(&error.into());
    code.unwrap_or(printed)
}

/// Prints a result and writes its page.
fn show(
    lab: &Lab,
    outcome: &Outcome,
    html: Option<PathBuf>,
    output: &Output,
) -> anyhow::Result<()> {
    let path = html.unwrap_or_else(|| walwright_experiment::page_path(lab, &outcome.id));
    let document = walwright_report::experiment(outcome);
    let written = write_page(lab, &path, &document.html());
    if output.json {
        output.print_json(outcome)?;
    } else {
        let mut text = document.terminal(&output.style());
        if written.is_ok() {
            text.push_str(&format!("\npage: {}\n", path.display()));
        }
        output.print_painted(&text)?;
    }
    written
}

fn list(lab: &Lab, output: &Output) -> anyhow::Result<ExitCode> {
    for error in walwright_experiment::unreadable(lab)? {
        say(&format!("left out: {error}"));
    }
    let all = walwright_experiment::list(lab)?;
    output.list(&all, || {
        if all.is_empty() {
            return Err(format!(
                "No experiments in {}. `walwright experiment --example` prints a plan to start from.\n",
                lab.directory().display()
            ));
        }
        let mut list = List::new(["experiment", "begun", "state", "runs", "name"]);
        for one in &all {
            let state = match one.header.ending {
                Ending::Unfinished => "unfinished",
                Ending::AllBlocks => "complete",
                Ending::Clear => "ended early: clear",
                Ending::Hopeless => "ended early: will stay open",
                Ending::NoArmLeft => "ended early: no arm left",
            };
            list.row([
                one.header.id.clone(),
                format::moment(one.header.begun),
                state.to_owned(),
                format!("{} of {}", one.done, one.planned),
                one.header.name.clone(),
            ]);
        }
        Ok(list)
    })?;
    Ok(ExitCode::SUCCESS)
}
