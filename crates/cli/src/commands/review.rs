//! `walwright review`.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use walwright_catalog::Configuration;
use walwright_diagnose::{Machine, Review, ReviewInput, ReviewItem, Standing, review};
use walwright_probe::{HostScope, TablesOfInterest, TargetDescription};
use walwright_record::{Record, TargetKind};
use walwright_server::ConnectParams;
use walwright_store::Lab;

use crate::args::{ReviewArgs, RunName};
use crate::commands::named;
use crate::commands::runtime::runtime;
use crate::output::{Output, usage, wrapped};

/// Version that a file without a data directory around it is taken to be for.
const NEWEST: u32 = 18;

/// Reviews settings and prints what is found.
pub fn show(lab: &Lab, args: &ReviewArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let record = match (&args.run, &args.subject, &args.dsn) {
        (Some(run), _, _) => Some(load(lab, run)?),
        (None, Some(subject), _) if !is_file(subject) => Some(load(lab, subject)?),
        (None, None, None) => Some(load(lab, "latest")?),
        _ => None,
    };
    let mut input = match (&args.subject, &args.dsn) {
        (Some(subject), _) if is_file(subject) => of_file(Path::new(subject), args)?,
        (_, Some(dsn)) => of_server(dsn.expose())?,
        _ => of_record(record.as_ref())?,
    };
    input.record = record.as_ref();
    if let Some(memory) = args.memory {
        input.machine.memory = Some(memory as f64);
    }
    if let Some(processors) = args.processors {
        input.machine.processors = Some(f64::from(processors));
    }
    let found = review(&input);
    output.result(&found, || text(&found, args.all))?;
    Ok(ExitCode::SUCCESS)
}

fn load(lab: &Lab, run: &str) -> anyhow::Result<Record> {
    named::load(lab, &RunName { run: run.to_owned() })
}

/// Whether a person means a file: one that is there, or what can be no run's name.
fn is_file(subject: &str) -> bool {
    subject.contains(['/', '.']) || Path::new(subject).exists()
}

fn of_file(path: &Path, args: &ReviewArgs) -> anyhow::Result<ReviewInput<'static>> {
    let path = match path.is_dir() {
        // A data directory.
        true => path.join("postgresql.conf"),
        false => path.to_owned(),
    };
    let configuration = Configuration::read(&path)?;
    let major = args.pg.or_else(|| version_beside(&path)).unwrap_or(NEWEST);
    // What the file says of another machine is asked for with --memory and
    // --processors; then this machine's kernel has no part in it either.
    let machine = match args.memory.is_none() && args.processors.is_none() {
        true => Machine::of(&this_machine(path.parent())),
        false => Machine::default(),
    };
    Ok(ReviewInput::of_files(&configuration, major, machine))
}

/// `PG_VERSION` of the data directory that holds the file.
fn version_beside(path: &Path) -> Option<u32> {
    let text = std::fs::read_to_string(path.with_file_name("PG_VERSION")).ok()?;
    text.trim().parse().ok().filter(|major| (14..=NEWEST).contains(major))
}

fn this_machine(directory: Option<&Path>) -> walwright_record::HostFacts {
    let data = directory.filter(|directory| directory.join("PG_VERSION").exists());
    let wal = data.map(walwright_probe::wal_directory);
    walwright_probe::host_facts(data, wal.as_deref())
}

fn of_server(dsn: &str) -> anyhow::Result<ReviewInput<'static>> {
    let params = ConnectParams::resolve(Some(dsn))?;
    runtime()?.block_on(async {
        let client = walwright_server::connect(&params).await?;
        let description = TargetDescription {
            kind: TargetKind::Attached,
            address: params.address(),
            install: None,
            tables: TablesOfInterest::Largest(0),
        };
        let facts = walwright_probe::target_facts(&client, &description).await?;
        let settings = walwright_probe::settings(&params).await?;
        let scope = HostScope::of(&facts);
        let machine = match scope.local {
            true => Machine::of(&walwright_probe::host_facts(
                scope.data_directory.as_deref(),
                scope.wal_directory.as_deref(),
            )),
            false => Machine::default(),
        };
        Ok(ReviewInput::of_server(&settings, facts.version_num / 10_000, machine))
    })
}

fn of_record(record: Option<&Record>) -> anyhow::Result<ReviewInput<'_>> {
    let Some(record) = record else {
        return Err(usage("name a file, a run, or a server with --dsn"));
    };
    ReviewInput::of_record(record).with_context(|| {
        format!("run {} holds no settings: it ended before they were read", record.header.id)
    })
}

/// The review as text: what to change, what does not go together, and what is fine
/// by name alone, or with its reasons.
fn text(review: &Review, all: bool) -> String {
    let mut out = format!("For PostgreSQL {} on {}", review.major, review.machine);
    if let Some(load) = &review.load {
        let _ = write!(out, ", judged by {load}");
    }
    out.push('\n');
    for (title, standing) in
        [("Problems", Standing::Problem), ("Advice", Standing::Advice), ("Fine", Standing::Fine)]
    {
        let items: Vec<&ReviewItem> =
            review.items.iter().filter(|item| item.standing == standing).collect();
        if items.is_empty() {
            continue;
        }
        let _ = write!(out, "\n{title}\n");
        if standing == Standing::Fine && !all {
            let names: Vec<&str> = items.iter().map(|item| item.name.as_str()).collect();
            out.push_str(&wrapped(&names.join(", "), "  "));
            continue;
        }
        items.iter().for_each(|item| out.push_str(&shown(item)));
    }
    for (title, sentences) in [
        ("Do not go together", &review.contradictions),
        ("Not valid", &review.invalid),
        ("Not judged", &review.not_observable),
    ] {
        if !sentences.is_empty() {
            let _ = write!(out, "\n{title}\n");
            sentences.iter().for_each(|s| out.push_str(&wrapped(s, "  ")));
        }
    }
    out
}

fn shown(item: &ReviewItem) -> String {
    let value = match &item.advised {
        Some(advised) => format!("{} -> {advised}", item.now),
        None => item.now.clone(),
    };
    let mut out = format!(
        "  {} = {value}  [{}, class {}; {}]\n",
        item.name, item.apply, item.class, item.place
    );
    out.push_str(&wrapped(&item.why, "      "));
    if let Some(loss) = item.can_lose.as_ref().filter(|loss| !item.why.contains(loss.as_str())) {
        out.push_str(&wrapped(&format!("Can lose: {loss}"), "      "));
    }
    out
}
