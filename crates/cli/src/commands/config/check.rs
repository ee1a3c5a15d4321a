//! `walwright config check`.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use walwright_catalog::DurabilityClass;
use walwright_config::{
    Check, CheckInput, CheckItem, Loss, ServerView, Standing as Stands, Weight, check,
};
use walwright_diagnose::{Machine, Review, ReviewInput, review};

use super::{machine, profile, server};
use crate::args::CheckArgs;
use crate::commands::runtime::runtime;
use crate::output::{Output, exit, wrapped};

/// What a check says, with the review of settings where good practice is the measure.
#[derive(Serialize)]
struct Said {
    #[serde(flatten)]
    check: Check,
    review: Option<Review>,
}

/// Checks and prints what is found.
pub fn execute(args: &CheckArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let profile = args.profile.as_deref().map(profile).transpose()?;
    let server = match &args.dsn {
        Some(dsn) => Some(runtime()?.block_on(server(dsn.expose(), profile.as_ref()))?.1),
        None => None,
    };
    let machine = machine(&args.root, server.as_ref(), profile.as_ref());
    let found = check(&CheckInput {
        profile: profile.as_ref(),
        server: server.as_ref(),
        machine: machine.as_ref(),
        wal_disk: args.wal_disk.map(|bytes| bytes as f64),
    });
    let reviewed = server.as_ref().filter(|_| profile.is_none()).map(|server| {
        let here = args.root == Path::new("/");
        review(&of_server(server, here))
    });
    let agrees = found.agrees();
    let said = Said { check: found, review: reviewed };
    output.result(&said, || text(&said, args.all))?;
    Ok(if agrees { ExitCode::SUCCESS } else { ExitCode::from(exit::CHECK_FAILED) })
}

fn of_server(server: &ServerView, here: bool) -> ReviewInput<'static> {
    let machine = match server.scope.local && here {
        true => Machine::of(&walwright_probe::host_facts(
            server.scope.data_directory.as_deref(),
            server.scope.wal_directory.as_deref(),
        )),
        false => Machine::default(),
    };
    ReviewInput::of_server(&server.settings, server.major, machine)
}

fn text(said: &Said, all: bool) -> String {
    let check = &said.check;
    let mut out = String::new();
    if !check.losses.is_empty() {
        out.push_str("Can lose data\n");
        check.losses.iter().for_each(|loss| out.push_str(&lost(loss)));
        out.push('\n');
    }
    if !check.contradictions.is_empty() {
        out.push_str("Contradictions\n");
        for found in &check.contradictions {
            let mark = if found.weight == Weight::Problem { "!" } else { "?" };
            let block = wrapped(&found.what, "    ");
            let _ = write!(out, "  {mark} {}", block.trim_start());
            out.push_str(&wrapped(&format!("Do: {}", found.remedy), "      "));
        }
        out.push('\n');
    }
    for (title, standing) in [
        ("Drift", Stands::Drift),
        ("Advice", Stands::Advice),
        ("No effect", Stands::NoEffect),
        ("Not present", Stands::NotPresent),
        ("Not observable", Stands::NotObservable),
        ("As wanted", Stands::Agrees),
    ] {
        let items: Vec<&CheckItem> =
            check.items.iter().filter(|item| item.standing == standing).collect();
        if items.is_empty() {
            continue;
        }
        let _ = writeln!(out, "{title} ({})", items.len());
        match standing {
            Stands::Agrees if !all => {
                let mut names: Vec<&str> = items.iter().map(|item| item.name.as_str()).collect();
                names.dedup();
                out.push_str(&wrapped(&names.join(", "), "  "));
            }
            Stands::NotPresent | Stands::NotObservable => out.push_str(&by_reason(&items)),
            _ => items.iter().for_each(|item| out.push_str(&shown(item))),
        }
        out.push('\n');
    }
    if let Some(review) = &said.review {
        out.push_str(&reviewed(review));
    }
    for sentence in &check.not_observable {
        out.push_str(&wrapped(&format!("Not observable: {sentence}"), ""));
    }
    if check.agrees() && check.contradictions.is_empty() && check.items.is_empty() {
        out.push_str("No problems found.\n");
    }
    out
}

/// A value that lowers durability, and what can be lost with it.
fn lost(of: &Loss) -> String {
    let mark = if of.class == DurabilityClass::X { "!" } else { "?" };
    let whose = if of.wanted { "" } else { " on the server, which the profile leaves" };
    let head = format!("  {mark} {} = {}{whose}  [class {}]\n", of.name, of.value, of.class);
    head + &wrapped(&of.loss, "      ")
}

/// Each reason once, with what it holds for.
fn by_reason(items: &[&CheckItem]) -> String {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for item in items {
        let why = item.why.as_deref().unwrap_or("not known");
        let name = match &item.scope {
            Some(scope) => format!("{} ({scope})", item.name),
            None => item.name.clone(),
        };
        match reasons.iter_mut().find(|(reason, _)| *reason == why) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => reasons.push((why, vec![name])),
        }
    }
    let mut out = String::new();
    for (why, names) in reasons {
        out.push_str(&wrapped(&format!("{why}:"), "  "));
        out.push_str(&wrapped(&names.join(", "), "      "));
    }
    out
}

fn shown(item: &CheckItem) -> String {
    let of: Vec<&str> =
        [item.scope.as_deref(), item.device.as_deref()].into_iter().flatten().collect();
    let of = if of.is_empty() { String::new() } else { format!(" ({})", of.join(", ")) };
    let value = match (&item.found, item.standing) {
        (Some(found), Stands::Drift | Stands::Advice | Stands::NoEffect) => {
            format!("{found}, wanted {}", item.wanted)
        }
        (Some(found), _) => found.clone(),
        (None, _) => format!("wanted {}", item.wanted),
    };
    let takes = match item.standing {
        Stands::Drift | Stands::Advice => format!("  [{}, class {}]", item.apply, item.class),
        _ => String::new(),
    };
    let mut out = format!("  {}{of}: {value}{takes}\n", item.name);
    if let Some(why) = &item.why {
        out.push_str(&wrapped(why, "      "));
    }
    out
}

/// What the review has to say of the settings, in short; `walwright review` says it whole.
fn reviewed(review: &Review) -> String {
    use walwright_diagnose::Standing;
    let mut out = String::new();
    let items: Vec<_> =
        review.items.iter().filter(|item| item.standing != Standing::Fine).collect();
    if !items.is_empty() {
        let _ = writeln!(out, "Settings ({}; walwright review says more)", items.len());
        for item in items {
            let value = match &item.advised {
                Some(advised) => format!("{}, better {advised}", item.now),
                None => item.now.clone(),
            };
            let _ =
                writeln!(out, "  {}: {value}  [{}, class {}]", item.name, item.apply, item.class);
            out.push_str(&wrapped(&item.why, "      "));
        }
        out.push('\n');
    }
    if !review.contradictions.is_empty() {
        out.push_str("Settings that do not go together\n");
        review.contradictions.iter().for_each(|said| out.push_str(&wrapped(said, "  ")));
        out.push('\n');
    }
    out
}
