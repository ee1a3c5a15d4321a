//! Files of client-side results: found, read, and put into a record.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use walwright_record::{Timestamp, Warning, WarningCode, Window};
use walwright_results::{Joined, Results, join};
use walwright_store::{RunWriter, StoreError};

use super::RecordError;
use super::input::{self, Input};
use super::plan::LogChoice;

/// Clocks of file systems step; a file written right after the beginning may look older.
const CLOCK_STEP: Duration = Duration::from_secs(2);

/// Reads the files and puts them together. Of a pattern's files those count that were
/// written since `since`, because logs of earlier tests often lie beside. `input` is standard
/// input where it was taken meanwhile.
pub(super) fn read(
    choices: &[LogChoice],
    since: Option<Timestamp>,
    mut input: Option<Input>,
    recorded: Window,
) -> Result<Joined, RecordError> {
    let mut files = Vec::new();
    for choice in choices {
        if input::is_input(&choice.path) {
            files.push(match input.take() {
                Some(input) => input.results(choice.format)?,
                None => input::read(choice.format)?,
            });
            continue;
        }
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

/// Clocks of files are as coarse as a tick of the kernel's timer.
const TICK: Duration = Duration::from_millis(20);

/// The logs that a command's pgbench wrote while it was recorded (`-l`): `pgbench_log.PID` and
/// `pgbench_log.PID.THREAD` in the working directory, or with the prefix that its words name.
pub(super) fn of_pgbench(words: &[OsString], recorded: Window) -> Vec<LogChoice> {
    let mut found: Vec<PathBuf> = prefixes(words)
        .iter()
        .flat_map(|prefix| {
            let name = prefix.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let directory = prefix.parent().filter(|parent| !parent.as_os_str().is_empty());
            let directory = directory.unwrap_or(Path::new("."));
            let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
            let paths = entries.map(|entry| entry.path());
            let paths = paths.filter(|path| writer(path, &name).is_some_and(has_ended));
            paths.filter(|path| is_made_in(path, recorded)).collect::<Vec<_>>()
        })
        .collect();
    found.sort();
    found.dedup();
    let format = None;
    found.into_iter().map(|path| LogChoice { path, format }).collect()
}

/// The default and what `--log-prefix` names, also in the words of a shell's script.
fn prefixes(words: &[OsString]) -> Vec<PathBuf> {
    let all: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let all = all.join(" ");
    let named = all.split("--log-prefix").skip(1).filter_map(|rest| {
        let rest = rest.strip_prefix(['=', ' '])?;
        let end = rest.find(|c: char| c.is_whitespace() || ";&|)".contains(c));
        let name = rest[..end.unwrap_or(rest.len())].trim_matches(['\'', '"']);
        (!name.is_empty()).then(|| PathBuf::from(name))
    });
    std::iter::once(PathBuf::from("pgbench_log")).chain(named).collect()
}

/// The PID in the name of such a log.
fn writer(path: &Path, prefix: &str) -> Option<u32> {
    let name = path.file_name()?.to_str()?;
    let rest = name.strip_prefix(prefix)?.strip_prefix('.')?;
    let (pid, thread) = rest.split_once('.').unwrap_or((rest, "0"));
    thread.parse::<u32>().ok()?;
    pid.parse().ok().filter(|_| path.is_file())
}

/// Whether nobody has the PID any more: another pgbench may still write beside.
fn has_ended(pid: u32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

/// Whether a file was made while the command ran; where a file system does not say, whether
/// it was written to then.
fn is_made_in(path: &Path, recorded: Window) -> bool {
    let made = path.metadata().and_then(|meta| meta.created().or_else(|_| meta.modified()));
    let made = made.ok().and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    made.is_some_and(|at| {
        let began = (at + TICK).as_micros() as i64 >= recorded.start.0;
        began && at.as_micros() as i64 <= recorded.end.0
    })
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
    fn logs_of_pgbench_are_those_made_meanwhile_by_what_has_ended() {
        let directory = tempfile::tempdir().unwrap();
        let prefix = directory.path().join("mine");
        let words = [
            "sh".into(),
            "-c".into(),
            format!("pgbench -l --log-prefix={}; true", prefix.display()).into(),
        ];
        let began = Timestamp::now();
        // No process has so high a number (PID_MAX_LIMIT is 2^22).
        let ours = ["mine.5000000", "mine.5000000.1"];
        let own = format!("mine.{}", std::process::id());
        let others = ["mine.txt", "mine.5000000.x", "mined.5000000", &own];
        for name in ours.iter().chain(&others) {
            std::fs::write(directory.path().join(name), "x").unwrap();
        }
        let found = |start: Timestamp, end: Timestamp| -> Vec<String> {
            let found = of_pgbench(&words, Window { start, end });
            let name =
                |log: LogChoice| log.path.file_name().unwrap().to_string_lossy().into_owned();
            found.into_iter().map(name).collect()
        };
        let (second, now) = (Duration::from_secs(1), Timestamp::now());
        assert_eq!(found(began, now.plus(second)), ours);
        assert_eq!(found(now.plus(second), now.plus(2 * second)), [""; 0]);
        assert_eq!(found(Timestamp(0), Timestamp(began.0 - 1_000_000)), [""; 0]);
        assert_eq!(
            prefixes(&["pgbench".into(), "--log-prefix".into(), "a b".into()])[1..],
            ["a"].map(PathBuf::from)
        );
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
