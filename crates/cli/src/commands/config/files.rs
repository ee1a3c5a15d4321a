//! `walwright config import` and `export`: profiles from and to files.

use std::path::Path;
use std::process::ExitCode;

use serde_json::json;
use walwright_catalog::{Configuration, Devices, Profile, export as written};
use walwright_config::{Imported, LeftOut, losses};
use walwright_server::Secret;

use super::{profile, read, server};
use crate::args::{ConfigExportArgs, ImportArgs};
use crate::commands::runtime::runtime;
use crate::commands::write::write_file;
use crate::output::{Output, print, say};

/// Makes a profile of what is there.
pub fn import(args: &ImportArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let imported = match (&args.file, &args.dsn) {
        (Some(file), _) if is_configuration(file) => {
            Imported::of_configuration(&Configuration::read(file)?)
        }
        (Some(file), _) => Imported::of_config_env(&read(file)?),
        (None, dsn) => {
            let dsn = dsn.as_ref().map_or("", Secret::expose);
            let (_, view) = runtime()?.block_on(server(dsn, None))?;
            Imported::of_server(&view)
        }
    };
    for LeftOut { name, why, .. } in &imported.left_out {
        say(&format!("left out {name}: {why}"));
    }
    let left_out = imported.left_out.clone();
    if imported.profile.entries.is_empty() && !left_out.is_empty() {
        anyhow::bail!("nothing was imported: no line assigns to a key of the catalogue");
    }
    let profile = imported.with_comments();
    warn(&profile);
    let text = profile.to_config_env();
    if let Some(path) = &args.output {
        write_file(path, &text)?;
    }
    if output.json {
        output.print_json(&json!({
            "entries": entries(&profile),
            "class": profile.class(),
            "left_out": left_out,
            "text": text,
            "output": args.output,
        }))?;
    } else if let Some(path) = &args.output {
        say(&format!("{} values written to {}", profile.entries.len(), path.display()));
    } else {
        print(&text)?;
    }
    // A file that fits in part is imported in part; whoever needs all of it asks for that.
    Ok(if args.strict && !left_out.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Names what can lose data: a file is soon installed where nobody has read it.
fn warn(profile: &Profile) {
    for loss in losses(profile) {
        say(&format!(
            "warning: {} = {}: {} (class {})",
            loss.name, loss.value, loss.loss, loss.class
        ));
    }
}

fn entries(profile: &Profile) -> Vec<serde_json::Value> {
    profile
        .entries
        .iter()
        .map(|entry| {
            json!({
                "name": entry.parameter.name,
                "scope": entry.scope.as_ref().map(ToString::to_string),
                "key": entry.key(),
                "value": entry.value,
                "class": entry.class(),
            })
        })
        .collect()
}

/// Whether a file is one of the server's own, by its name.
fn is_configuration(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "conf")
}

/// Writes a profile in another form.
pub fn export(args: &ConfigExportArgs, output: &Output) -> anyhow::Result<ExitCode> {
    let devices = Devices { data: args.data_device.clone(), wal: args.wal_device.clone() };
    let profile = profile(&args.profile)?;
    warn(&profile);
    let made = written(&profile, args.format, &devices);
    for said in &made.left_out {
        say(&format!("left out {said}"));
    }
    if made.text.is_empty() {
        say(&format!("the profile holds nothing that {} could take", args.format.name()));
    }
    if let Some(path) = &args.output {
        write_file(path, &made.text)?;
    }
    if output.json {
        output.print_json(&json!({
            "form": args.format.name(),
            "text": made.text,
            "left_out": made.left_out,
            "output": args.output,
        }))?;
    } else if args.output.is_none() {
        print(&made.text)?;
    }
    Ok(ExitCode::SUCCESS)
}
