//! `walwright gateway import`: from PgBouncer's configuration to `gateway.toml`.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use walwright_gateway::config::{File, Import, Machine, import};

use super::configuration::meaning;
use crate::args::GatewayImportArgs;
use crate::output::{print, say, usage};

/// Converts.
pub fn execute(args: &GatewayImportArgs) -> anyhow::Result<ExitCode> {
    let output = args.output.as_deref().map(std::path::absolute).transpose()?;
    let directory = output.as_deref().and_then(Path::parent);
    let stem = output.as_deref().and_then(Path::file_stem);
    let stem =
        stem.map_or_else(|| "gateway".to_owned(), |stem| stem.to_string_lossy().into_owned());
    let converted = import(&args.file, args.users.as_deref(), (directory, &stem), &Machine);
    let Import { text, notes, passwords } = converted.map_err(|error| usage(error.to_string()))?;
    for note in &notes {
        say(note);
    }
    let Some(output) = output else {
        validate(&text, &std::env::current_dir()?.join("gateway.toml"))?;
        print(&text)?;
        return Ok(ExitCode::SUCCESS);
    };
    // Nothing is written where something is in the way.
    let all = passwords.iter().map(|(path, _)| path).chain([&output]);
    if let Some(taken) = all.into_iter().find(|path| path.exists()) {
        return Err(usage(format!("{} is there already: move it away", taken.display())));
    }
    let mut written: Vec<PathBuf> = Vec::new();
    let done = (|| {
        for (path, password) in &passwords {
            write(path, password.expose(), 0o600)?;
            written.push(path.clone());
        }
        validate(&text, &output)?;
        write(&output, &text, 0o644)
    })();
    if done.is_err() {
        for path in &written {
            // It was made a moment ago; what is wrong is told.
            let _ = std::fs::remove_file(path);
        }
    }
    done?;
    say(&format!(
        "{} is written; `walwright gateway check {0} --connect` tries it",
        output.display()
    ));
    Ok(ExitCode::SUCCESS)
}

/// Whether `gateway check` takes it.
fn validate(text: &str, output: &Path) -> anyhow::Result<()> {
    let file = File::parse(output, text).map_err(|error| usage(error.to_string()))?;
    meaning(&file, Some((output, text))).context("what it comes to cannot be served")?;
    Ok(())
}

fn write(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let written = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let written = written.and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("writing {}", path.display()))
}
