//! `walwright review`.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::Context;
use serde::Serialize;
use walwright_catalog::{Configuration, is_secret};
use walwright_diagnose::{
    Asked, Corrected, Machine, Review, ReviewInput, ReviewItem, Standing, corrected, review,
};
use walwright_probe::{HostScope, TablesOfInterest, TargetDescription};
use walwright_record::{Record, TargetKind};
use walwright_server::{ConnectParams, Installs, Major, refused_settings};
use walwright_store::Lab;

use crate::args::{ReviewArgs, RunName};
use crate::commands::named;
use crate::commands::runtime::runtime;
use crate::commands::write::write_file;
use crate::output::{Output, exit, usage, wrapped};

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
        (Some(subject), _) if is_file(subject) => of_file(&file_of(subject), args)?,
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
    let review = review(&input);
    let failed = review.fails();
    let mut said = Said { review, written: None, left: Vec::new() };
    if let Some(to) = &args.output {
        let Some(subject) = args.subject.as_deref().filter(|subject| is_file(subject)) else {
            return Err(usage("--output takes a configuration file to correct; name one"));
        };
        let corrected = write_corrected(&file_of(subject), to, args.force, &said.review)?;
        said = Said { written: Some(to.clone()), left: corrected.left, ..said };
    }
    output.result(&said, || text(&said, args.all))?;
    Ok(if failed { ExitCode::from(exit::CHECK_FAILED) } else { ExitCode::SUCCESS })
}

/// A review, and the file that was written by it.
#[derive(Serialize)]
struct Said {
    #[serde(flatten)]
    review: Review,
    #[serde(skip_serializing_if = "Option::is_none")]
    written: Option<PathBuf>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left: Vec<String>,
}

fn write_corrected(
    from: &Path,
    to: &Path,
    force: bool,
    review: &Review,
) -> anyhow::Result<Corrected> {
    if to.exists() && !force {
        return Err(usage(format!("{} exists; --force replaces it", to.display())));
    }
    let bytes = std::fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    let text = String::from_utf8_lossy(&bytes);
    let corrected = corrected(&text, &from.display().to_string(), review);
    write_file(to, &corrected.text)?;
    Ok(corrected)
}

fn load(lab: &Lab, run: &str) -> anyhow::Result<Record> {
    named::load(lab, &RunName { run: run.to_owned() })
}

/// Whether a person means a file: one that is there, or what can be no run's name.
fn is_file(subject: &str) -> bool {
    subject.contains(['/', '.']) || Path::new(subject).exists()
}

/// The configuration file that a person names: itself, or that of a data directory.
fn file_of(subject: &str) -> PathBuf {
    let path = Path::new(subject);
    match path.is_dir() {
        true => path.join("postgresql.conf"),
        false => path.to_owned(),
    }
}

fn of_file(path: &Path, args: &ReviewArgs) -> anyhow::Result<ReviewInput<'static>> {
    let configuration = Configuration::read(path)?;
    let major = args.pg.or_else(|| version_beside(path)).unwrap_or(NEWEST);
    // What the file says of another machine is asked for with --memory and
    // --processors; then this machine's kernel has no part in it either.
    let machine = match args.memory.is_none() && args.processors.is_none() {
        true => Machine::of(&this_machine(path.parent())),
        false => Machine::default(),
    };
    let mut input = ReviewInput::of_files(&configuration, major, machine);
    input.asked = asked(&configuration, major)?;
    Ok(input)
}

/// What the server's own program says of a file's settings, where this machine has one of
/// the version.
fn asked(configuration: &Configuration, major: u32) -> anyhow::Result<Option<Asked>> {
    let installs = Installs::open(None)?;
    let install = Major::from_str(&major.to_string()).ok().and_then(|m| installs.at_hand(m));
    let Some(install) = install else { return Ok(None) };
    let settings: Vec<(String, String)> = configuration
        .settings
        .iter()
        .filter(|(name, _)| !of_the_place(name))
        .map(|(name, assignment)| (name.clone(), assignment.value.clone()))
        .collect();
    let refused = refused_settings(&install, &settings)?;
    Ok(Some(Asked {
        by: format!("postgres {}", install.version()),
        names: settings.into_iter().map(|(name, _)| name).collect(),
        refused: refused.into_iter().map(|refused| (refused.name, refused.said)).collect(),
    }))
}

/// Settings that a program is not asked about: what they may be depends on the machine and
/// the files of the server, and command lines are seen by everyone.
fn of_the_place(name: &str) -> bool {
    is_secret(name)
        || name.starts_with("lc_")
        || name.ends_with("_file")
        || name.contains("timezone")
        || ["data_directory", "max_stack_depth"].contains(&name)
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

/// The review as text: what keeps the server from starting, what to change, what does not
/// go together, and what is fine by name alone, or with its reasons.
fn text(said: &Said, all: bool) -> String {
    let review = &said.review;
    let mut verdict = review.verdict.clone();
    verdict[..1].make_ascii_uppercase();
    let mut out = wrapped(&format!("{verdict}."), "");
    let _ = write!(out, "For PostgreSQL {} on {}", review.major, review.machine);
    if let Some(load) = &review.load {
        let _ = write!(out, ", judged by {load}");
    }
    out.push('\n');
    if let Some(asked) = &review.asked {
        let _ = writeln!(out, "Names and values checked by {asked}");
    }
    for (title, standing) in [
        ("The server does not start", Standing::Stops),
        ("Problems", Standing::Problem),
        ("Advice", Standing::Advice),
        ("Fine", Standing::Fine),
    ] {
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
        ("Not judged", &review.not_observable),
        ("Not in the file that was written", &said.left),
    ] {
        if !sentences.is_empty() {
            let _ = write!(out, "\n{title}\n");
            sentences.iter().for_each(|s| out.push_str(&wrapped(s, "  ")));
        }
    }
    if let Some(written) = &said.written {
        let _ = write!(out, "\nWritten: {}\n", written.display());
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
