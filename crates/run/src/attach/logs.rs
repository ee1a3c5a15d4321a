//! Files of client-side results: found, read, and put into a record.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use walwright_record::{Timestamp, Warning, WarningCode, Window};
use walwright_results::{Joined, Results, join};
use walwright_store::{RunWriter, StoreError};

use super::RecordError;
use super::plan::LogChoice;

/// Clocks of file systems step; a file written right after the beginning may look older.
const CLOCK_STEP: Duration = Duration::from_secs(2);

/// Reads the files and puts them together. Of a pattern's files those count that were
/// written since `since`, because logs of earlier tests often lie beside.
pub(super) fn read(
    choices: &[LogChoice],
    since: Option<Timestamp>,
    recorded: Window,
) -> Result<Joined, RecordError> {
    let mut files = Vec::new();
    for choice in choices {
        for path in expand(&choice.path, since)? {
            files.push(read_one(&path, choice)?);
        }
    }
    Ok(join(files, recorded)?)
}

fn read_one(path: &Path, choice: &LogChoice) -> Result<Results, RecordError> {
    let file = File::open(path).map_err(|source| match source.kind() {
        std::io::ErrorKind::NotFound => RecordError::NoLog { path: path.to_owned() },
        _ => RecordError::Log { path: path.to_owned(), source },
    })?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(walwright_results::read(&name, choice.format, file)?)
}

/// The files that a path means.
fn expand(path: &Path, since: Option<Timestamp>) -> Result<Vec<PathBuf>, RecordError> {
    let name = path.file_name().unwrap_or_default();
    if !name.to_string_lossy().contains('*') {
        return Ok(vec![path.to_owned()]);
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let entries = std::fs::read_dir(directory)
        .map_err(|source| RecordError::Log { path: directory.to_owned(), source })?;
    let fresh = |path: &Path| {
        let Some(since) = since else { return true };
        let written = path.metadata().and_then(|meta| meta.modified()).ok();
        let written = written.and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
        written.is_none_or(|at| (at + CLOCK_STEP).as_micros() as i64 >= since.0)
    };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_file() && path.file_name().is_some_and(|file| fits(name, file)))
        .filter(|path| fresh(path))
        .collect();
    found.sort();
    if found.is_empty() {
        return Err(RecordError::NoLog { path: path.to_owned() });
    }
    Ok(found)
}

/// Whether a name fits a pattern in which `*` stands for any letters.
fn fits(pattern: &OsStr, name: &OsStr) -> bool {
    let (pattern, name) = (pattern.to_string_lossy(), name.to_string_lossy());
    let parts: Vec<&str> = pattern.split('*').collect();
    let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return false };
    let Some(rest) = name.strip_prefix(first) else { return false };
    if parts.len() == 1 {
        return rest.is_empty();
    }
    let Some(mut rest) = rest.strip_suffix(last) else { return false };
    for part in &parts[1..parts.len() - 1] {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// Writes what the clients said.
pub(super) fn write(joined: &Joined, writer: &mut RunWriter) -> Result<(), StoreError> {
    writer.client(&joined.facts)?;
    for interval in &joined.intervals {
        writer.interval(interval)?;
    }
    for warning in warnings(joined) {
        writer.warning(&warning)?;
    }
    Ok(())
}

/// What is doubtful about the files.
pub(super) fn warnings(joined: &Joined) -> Vec<Warning> {
    let of_files = joined.facts.logs.iter().flat_map(|log| {
        log.notes.iter().map(move |note| format!("{} ({}): {note}", log.file, log.format))
    });
    joined
        .warnings
        .iter()
        .cloned()
        .chain(of_files)
        .map(|text| Warning::new(WarningCode::ClientLog, text))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_letters() {
        let fits = |pattern: &str, name: &str| fits(OsStr::new(pattern), OsStr::new(name));
        assert!(fits("pgbench_log.*", "pgbench_log.812.3"));
        assert!(fits("*_stats*.csv", "run_stats_history.csv"));
        assert!(fits("*", "x") && fits("a*b*c", "abc"));
        assert!(!fits("pgbench_log.*", "other.1") && !fits("a*b", "ab.c") && !fits("ab*b", "ab"));
    }

    #[test]
    fn of_a_pattern_only_files_of_this_test_count() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, "x").unwrap();
            path
        };
        let old = file("log.1");
        let past = SystemTime::now() - Duration::from_secs(3_600);
        File::options().write(true).open(&old).unwrap().set_modified(past).unwrap();
        let new = file("log.2");
        let pattern = directory.path().join("log.*");
        let fresh = expand(&pattern, Some(Timestamp::now())).unwrap();
        assert_eq!(fresh, std::slice::from_ref(&new));
        assert_eq!(expand(&pattern, None).unwrap(), [old, new]);
        let none = expand(&directory.path().join("no.*"), None).unwrap_err();
        assert!(matches!(none, RecordError::NoLog { .. }));
    }
}
