//! `walwright run` with several client counts: a sweep, fitted and told.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use clap::CommandFactory;
use clap::error::ErrorKind;
use serde_json::json;
use walwright_figures::limit::Limit;
use walwright_figures::scaling::{Scaling, scaling};
use walwright_record::{RunHeader, RunId, RunState};
use walwright_report::{RunReport, format};
use walwright_run::{Finished, Observer, SweepObserver, SweepPlan, SweepPoint, Swept};
use walwright_server::Stop;
use walwright_store::{Lab, NamedRuns, Store, StoreError};

use crate::args::{Cli, RunArgs};
use crate::commands::run::{self, plan, style};
use crate::commands::runtime::{Parting, until_done};
use crate::commands::verdict::{judged, verdict};
use crate::commands::{named, write};
use crate::output::{Output, exit, say};
use crate::show::{self, Guard, Style};

/// Does a run at each client count, prints the curve and writes its page.
pub fn execute(lab: &Lab, args: RunArgs, output: &Output) -> anyhow::Result<ExitCode> {
    run::refuse(&args);
    let clients: BTreeSet<u32> = args.clients.iter().copied().collect();
    refuse(&args, clients.len());
    let style = style(&args);
    let limits = args.fail_if.clone();
    let sweep = SweepPlan {
        clients: clients.into_iter().collect(),
        repeats: args.repeats,
        run: plan(args),
    };
    let swept = until_done(Parting::WORKING, async |stop| {
        let watcher = Watcher::new(lab, style, &stop, output)?;
        anyhow::Ok(walwright_run::sweep(lab, sweep, stop.clone(), &watcher).await)
    })??;
    match swept {
        Ok(swept) => conclude(lab, swept, &limits, output),
        Err(error) => Ok(output.ended(error.is_interruption(), error)),
    }
}

/// Leaves with a usage error where a sweep is asked for what only one run can do, or over too
/// few loads.
fn refuse(args: &RunArgs, loads: usize) {
    let why = if loads < 2 {
        "a sweep, and --repeats, need several client counts, such as --clients 1,2,4,8"
    } else if args.load.rate.is_some() {
        "a sweep over clients needs a closed loop: with --rate throughput is given, whatever the clients; leave it out"
    } else if args.transactions.is_some() {
        "a sweep compares loads over the same time: give --duration in place of --transactions"
    } else if !args.stages.is_empty() {
        "a sweep is runs at one load each: leave --stages out"
    } else if args.report_per_command {
        "a sweep has no table of statements: leave -r out; `walwright runs show RUN --json` has them of each run"
    } else if args.metrics.is_some() {
        "metrics are of one run, and a sweep is several: leave --metrics out"
    } else if args.keep {
        "a sweep restores its cluster before each run, so none is left as one run made it: leave --keep out"
    } else {
        return;
    };
    crate::output::refuse(&Cli::command().error(ErrorKind::ArgumentConflict, why));
}

/// Writes the page, prints the curve, and says with the exit code how it went.
fn conclude(
    lab: &Lab,
    swept: Swept,
    limits: &[Limit],
    output: &Output,
) -> anyhow::Result<ExitCode> {
    let store = lab.store()?;
    let runs = reports(&store, swept.runs.iter())?;
    match read_scaling(&swept.name, &runs) {
        Some(found) => {
            let written = runs
                .iter()
                .try_for_each(|run| {
                    write::write_html(lab, run, &lab.report_path(&run.record.header.id))
                })
                .and_then(|()| write_page(lab, &page_path(lab, &found.name), &found));
            print_scaling(lab, &found, output)?;
            written?;
        }
        None => output.result(&json!({ "sweep": null }), || {
            format!("No run of {} measured a throughput.\n", swept.name)
        })?,
    }
    if let Some(error) = swept.error {
        let what = format!("{} ended early; its runs are kept", swept.name);
        let code = output.fail(&anyhow::Error::new(error).context(what));
        return Ok(if swept.interrupted { ExitCode::from(exit::INTERRUPTED) } else { code });
    }
    if swept.interrupted {
        return Ok(ExitCode::from(exit::INTERRUPTED));
    }
    let mut code = ExitCode::SUCCESS;
    for run in &runs {
        let limits = judged(run, limits);
        for limit in limits.iter().filter(|limit| limit.is_failed()) {
            say(&format!("{}: {}", run.record.header.id, walwright_report::limit(limit)));
        }
        if verdict(run, &limits) != ExitCode::SUCCESS {
            code = ExitCode::from(exit::CHECK_FAILED);
        }
    }
    Ok(code)
}

/// The runs of the sweep that a person means by its name or the beginning of it; `None`
/// where it is not a sweep's name.
pub fn find(
    lab: &Lab,
    store: &Store,
    name: &str,
) -> anyhow::Result<Option<(String, Vec<RunHeader>)>> {
    Ok(match named::named(lab, store, name)? {
        NamedRuns::Series(name, runs) if name.starts_with(RunHeader::SWEEP) => Some((name, runs)),
        _ => None,
    })
}

/// A sweep read from its records.
pub fn read(store: &Store, name: &str, runs: &[RunHeader]) -> anyhow::Result<Scaling> {
    let ended = runs.iter().filter(|run| run.state != RunState::Running);
    let runs = reports(store, ended.map(|run| &run.id))?;
    read_scaling(name, &runs).with_context(|| format!("no run of {name} measured a throughput"))
}

fn reports<'r>(
    store: &Store,
    runs: impl Iterator<Item = &'r RunId>,
) -> Result<Vec<RunReport>, StoreError> {
    runs.map(|id| store.load(id).map(RunReport::new)).collect()
}

fn read_scaling(name: &str, runs: &[RunReport]) -> Option<Scaling> {
    scaling(name, &runs.iter().map(RunReport::swept).collect::<Vec<_>>())
}

/// Prints a sweep and where its page is.
pub fn print_scaling(lab: &Lab, found: &Scaling, output: &Output) -> anyhow::Result<()> {
    let page = page_path(lab, &found.name);
    let page = page.exists().then_some(page);
    if output.json {
        return output.print_json(&json!({ "sweep": found, "report": page }));
    }
    let mut text = walwright_report::scaling(found).terminal(&output.style());
    if let Some(page) = page {
        text.push_str(&format!("\nreport: {}\n", page.display()));
    }
    output.print_painted(&text)
}

/// Renders the page of a sweep to `path`.
pub fn write_page(lab: &Lab, path: &Path, found: &Scaling) -> anyhow::Result<()> {
    write::write_page(lab, path, &walwright_report::scaling(found).html())
}

/// Where the page of a sweep is written unless told otherwise.
pub fn page_path(lab: &Lab, name: &str) -> PathBuf {
    lab.directory().join("reports").join(format!("{name}.html"))
}

/// Shows each run of a sweep as a run of its own, and a line when it has ended.
struct Watcher<'a> {
    store: Mutex<Store>,
    style: Style,
    stop: &'a Stop,
    output: &'a Output,
    /// The view of the run that goes on; it has the terminal.
    view: Mutex<Option<Guard>>,
}

impl<'a> Watcher<'a> {
    fn new(
        lab: &Lab,
        style: Style,
        stop: &'a Stop,
        output: &'a Output,
    ) -> anyhow::Result<Watcher<'a>> {
        let store = Mutex::new(lab.store()?);
        Ok(Watcher { store, style, stop, output, view: Mutex::new(None) })
    }

    fn view(&self) -> Arc<Observer> {
        let mut view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
        // The last one gives the terminal back before the next one takes it.
        *view = None;
        let (observer, guard) = show::observer(self.style, self.stop, self.output);
        *view = guard;
        observer
    }

    fn say(&self, line: &str) {
        *self.view.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if self.style != Style::Quiet {
            say(line);
        }
    }
}

impl SweepObserver for Watcher<'_> {
    fn preparing(&self) -> Arc<Observer> {
        self.say("filling the cluster that every run starts from");
        self.view()
    }

    fn begins(&self, point: SweepPoint) -> Arc<Observer> {
        self.say(&format!(
            "run {} of {}: {}",
            point.number,
            point.of,
            format::counted(point.clients.into(), "client")
        ));
        self.view()
    }

    fn ended(&self, point: SweepPoint, finished: &Finished) {
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        let headline =
            store.headlines().ok().and_then(|headlines| headlines.get(&finished.id.0).copied());
        let said = headline.map_or_else(
            || "nothing measured".to_owned(),
            |h| format!("{}, p99 {}", format::rate(h.throughput), format::seconds(h.p99)),
        );
        self.say(&format!(
            "run {} of {}: {}: {said}  {}",
            point.number,
            point.of,
            format::counted(point.clients.into(), "client"),
            finished.id
        ));
    }
}
