//! Whether a server takes settings, asked of its program before there is a cluster.

use std::process::Output;

use strsim::damerau_levenshtein;

use super::error::ClusterError;
use super::settings::SettingError;
use crate::install::Install;

/// Letters that a name may differ in to be told as the one that was meant.
const NEAR: usize = 3;

/// A setting that the server's program does not take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedSetting {
    /// Its name.
    pub name: String,
    /// The value that it was to have.
    pub value: String,
    /// What the program says, in one sentence.
    pub said: String,
}

/// Checks names and values as the server does when it starts. What only shows then, such as
/// a library that is not there or two settings that contradict each other, is not looked at.
///
/// # Errors
/// With every setting that is refused, in the server's own words.
pub fn check_settings(
    install: &Install,
    settings: &[(String, String)],
) -> Result<(), ClusterError> {
    super::settings::check(settings)?;
    let wrong: Vec<String> = refused_settings(install, settings)?
        .into_iter()
        .map(|refused| {
            let mut sentence = format!("{} = {}: {}", refused.name, refused.value, refused.said);
            if refused.said.starts_with("unrecognized")
                && let Some(near) = nearest(install, &refused.name)
            {
                sentence.push_str(&format!("; did you mean {near}?"));
            }
            sentence
        })
        .collect();
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(SettingError::Refused(wrong.join("\n")).into()),
    }
}

/// The settings whose names or values the server's program does not take.
///
/// `postgres -C` reads the command line with the checks of every setting, prints one and
/// ends; it needs a configuration file and no data (src/backend/postmaster/postmaster.c).
///
/// # Errors
/// When there is no room for a temporary directory.
pub fn refused_settings(
    install: &Install,
    settings: &[(String, String)],
) -> Result<Vec<RefusedSetting>, ClusterError> {
    if settings.is_empty() {
        return Ok(Vec::new());
    }
    let directory = std::env::temp_dir();
    let directory = tempfile::tempdir_in(&directory)
        .map_err(ClusterError::io("making a directory in", &directory))?;
    let file = directory.path().join("postgresql.conf");
    std::fs::write(&file, "").map_err(ClusterError::io("writing", &file))?;
    let asked = |settings: &[(String, String)]| -> Option<Output> {
        let mut command = install.command("postgres");
        command.args(["-C", "max_connections", "-D"]).arg(directory.path()).env("LC_ALL", "C");
        settings.iter().for_each(|(name, value)| {
            command.arg("-c").arg(format!("{name}={value}"));
        });
        // A program that cannot be executed is told when the cluster is made.
        command.output().ok()
    };
    let refused = |output: &Output| !output.status.success();
    if !asked(settings).as_ref().is_some_and(refused) {
        return Ok(Vec::new());
    }
    let wrong = settings.iter().filter_map(|setting| {
        let output = asked(std::slice::from_ref(setting)).filter(refused)?;
        let said = told(&String::from_utf8_lossy(&output.stderr));
        let (name, value) = setting.clone();
        Some(RefusedSetting { name, value, said })
    });
    Ok(wrong.collect())
}

/// What the server's log says of a setting.
fn told(log: &str) -> String {
    let part = |mark: &str| {
        log.lines().find_map(|line| line.split_once(mark)).map(|(_, said)| said.trim().to_owned())
    };
    let said = part("FATAL:").unwrap_or_else(|| log.trim().to_owned());
    match part("HINT:") {
        Some(hint) => format!("{said}; {}", hint.trim_end_matches('.')),
        None => said,
    }
}

/// The setting of this version that is spelled most like `name`.
fn nearest(install: &Install, name: &str) -> Option<String> {
    let output = install.command("postgres").arg("--describe-config").output().ok()?;
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    let names = listed.lines().filter_map(|line| line.split('\t').next());
    let (near, distance) = names
        .map(|known| (known, damerau_levenshtein(known, &name.to_ascii_lowercase())))
        .min_by_key(|(_, distance)| *distance)?;
    (distance <= NEAR && distance < name.len()).then(|| near.to_owned())
}
