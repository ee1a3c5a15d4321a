//! `walwright storage`: what disks can do.

use std::cell::Cell;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::json;
use walwright_record::StorageMeasurement;
use walwright_report::format;
use walwright_run::{StorageChoice, StorageStep, measure_storage};
use walwright_store::{Lab, StorageMeasurements};

use crate::args::{MeasureArgs, StorageArgs, StorageCommand};
use crate::commands::runtime::{Parting, until_measured};
use crate::commands::write;
use crate::output::{Output, exit, say};
use crate::show::lines;

/// Time between lines of progress where they cannot be written over.
const EVERY: Duration = Duration::from_secs(5);

/// Measures, lists or shows.
pub fn execute(lab: &Lab, args: StorageArgs, output: &Output) -> anyhow::Result<ExitCode> {
    match args.command {
        None => measure(lab, args.measure, output),
        Some(StorageCommand::List) => {
            let all = StorageMeasurements::of(lab).all()?;
            output.painted_result(&all, || {
                walwright_report::storage_list(&all).terminal(&output.style())
            })?;
            Ok(ExitCode::SUCCESS)
        }
        Some(StorageCommand::Show { name, html }) => {
            let found = StorageMeasurements::of(lab).find(&name)?;
            if let Some(path) = &html {
                write_page(lab, &found, path)?;
            }
            show(&found, html.as_deref(), output)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn measure(lab: &Lab, args: MeasureArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let quiet = args.quiet;
    let choice =
        StorageChoice { wal: args.wal_dir, data: args.data_dir, each: args.each, size: args.size };
    let plan = choice.plan()?;
    if !quiet {
        say(&format!(
            "measuring {} for about {}",
            plan.wal.display(),
            format::length(plan.estimate())
        ));
    }
    let progress = Progress::new(quiet);
    let measured = until_measured(Parting::LOOKING, |stop| {
        let measured = measure_storage(lab, &plan, stop, &|step| progress.show(&step));
        progress.end();
        measured
    })??;
    if !measured.complete {
        show(&measured, None, output)?;
        return Ok(ExitCode::from(exit::INTERRUPTED));
    }
    let page = lab.directory().join("reports").join(format!("storage-{}.html", measured.id));
    // The figures are worth more than the page: a full disk must not take them away.
    let written = write_page(lab, &measured, &page);
    show(&measured, written.is_ok().then_some(page.as_path()), output)?;
    written?;
    Ok(ExitCode::SUCCESS)
}

fn write_page(lab: &Lab, of: &StorageMeasurement, path: &Path) -> anyhow::Result<()> {
    write::write_page(lab, path, &walwright_report::storage(of).html())
}

fn show(of: &StorageMeasurement, page: Option<&Path>, output: &Output) -> anyhow::Result<()> {
    if output.json {
        return output.print_json(&json!({ "storage": of, "page": page }));
    }
    let mut text = walwright_report::storage(of).terminal(&output.style());
    if let Some(page) = page {
        text.push_str(&format!("\nplots: {}\n", page.display()));
    }
    output.print_painted(&text)
}

/// Progress on standard error: one line that is written over on a terminal, else a line
/// every few seconds.
struct Progress {
    quiet: bool,
    terminal: bool,
    last: Cell<Option<Instant>>,
}

impl Progress {
    fn new(quiet: bool) -> Progress {
        Progress { quiet, terminal: std::io::stderr().is_terminal(), last: Cell::new(None) }
    }

    fn show(&self, step: &StorageStep) {
        if self.quiet {
            return;
        }
        let line = format!("{:>3} of {}  {}", step.done + 1, step.of, step.what);
        if self.terminal {
            lines::rewrite(&line);
        } else if self.last.get().is_none_or(|last| last.elapsed() >= EVERY) {
            self.last.set(Some(Instant::now()));
            say(&line);
        }
    }

    fn end(&self) {
        if self.terminal && !self.quiet {
            lines::erase();
        }
    }
}
