//! `postgresql.conf` with all it includes, and `postgresql.auto.conf`.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::{Line, SyntaxError, parse_line};

/// Files nested deeper than this are a loop (`CONF_FILE_MAX_DEPTH`).
const DEEPEST: usize = 10;
/// A larger file is none of these.
const LARGEST: u64 = 16 << 20;
/// Most files of one configuration: ten files that include each the next a hundred times are
/// never read to their end.
const MOST_FILES: usize = 1_000;
/// What `ALTER SYSTEM` writes, read after everything else.
const AUTO: &str = "postgresql.auto.conf";

/// One assignment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Value, as written.
    pub value: String,
    /// File.
    pub file: PathBuf,
    /// Line, from 1.
    pub line: usize,
}

impl fmt::Display for Assignment {
    /// Its place.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// Settings read from files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Configuration {
    /// The assignment in force of each setting, by its name in lower case.
    pub settings: BTreeMap<String, Assignment>,
    /// Assignments that a later one replaced, in the order they were read.
    pub replaced: Vec<(String, Assignment)>,
    /// The files read, in order.
    pub files: Vec<PathBuf>,
}

/// Why a configuration cannot be read.
#[derive(Debug, Error)]
pub enum ConfigurationError {
    /// A file cannot be read.
    #[error("cannot read {}{}: {source}", path.display(), from(included))]
    Read {
        /// The file.
        path: PathBuf,
        /// Where it is included.
        included: Option<String>,
        /// What the system said.
        source: io::Error,
    },
    /// A line is none.
    #[error("{}:{line}: {source}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        source: SyntaxError,
    },
    /// Files include each other.
    #[error("{}:{line}: files are included more than {DEEPEST} deep; do they include each other?", path.display())]
    Depth {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// Too many files are included.
    #[error("{}:{line}: more than {MOST_FILES} files are included", path.display())]
    Many {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
}

fn from(included: &Option<String>) -> String {
    included.as_ref().map_or_else(String::new, |place| format!(", included in {place}"))
}

impl Configuration {
    /// Reads a file and what it includes, and `postgresql.auto.conf` beside it if
    /// the file is a `postgresql.conf`.
    ///
    /// # Errors
    /// When a file cannot be read, or a line is not what the server would take.
    pub fn read(path: &Path) -> Result<Configuration, ConfigurationError> {
        let mut configuration = Configuration::default();
        configuration.file(path, None, 0)?;
        let beside = path.with_file_name(AUTO);
        let main = path.file_name().is_some_and(|name| name == "postgresql.conf");
        if main && beside.exists() {
            configuration.file(&beside, None, 0)?;
        }
        Ok(configuration)
    }

    fn file(
        &mut self,
        path: &Path,
        included: Option<String>,
        depth: usize,
    ) -> Result<(), ConfigurationError> {
        let text = text(path, included.is_some()).map_err(|source| ConfigurationError::Read {
            path: path.to_owned(),
            included,
            source,
        })?;
        self.files.push(path.to_owned());
        for (place, line) in text.split('\n').enumerate() {
            let number = place + 1;
            let here = || format!("{}:{number}", path.display());
            let parsed = parse_line(line).map_err(|source| ConfigurationError::Syntax {
                path: path.to_owned(),
                line: number,
                source,
            })?;
            let deeper = |target: &str, files: &[PathBuf]| {
                let (path, line) = (path.to_owned(), number);
                if files.len() >= MOST_FILES {
                    return Err(ConfigurationError::Many { path, line });
                }
                match depth < DEEPEST {
                    true => Ok(path.parent().unwrap_or(Path::new("")).join(target)),
                    false => Err(ConfigurationError::Depth { path, line }),
                }
            };
            match parsed {
                Line::Empty => {}
                Line::Setting { name, value } => {
                    let name = name.to_ascii_lowercase();
                    let assignment = Assignment { value, file: path.to_owned(), line: number };
                    if let Some(before) = self.settings.insert(name.clone(), assignment) {
                        self.replaced.push((name, before));
                    }
                }
                Line::Include(target) => {
                    self.file(&deeper(&target, &self.files)?, Some(here()), depth + 1)?
                }
                Line::IncludeIfExists(target) => {
                    let target = deeper(&target, &self.files)?;
                    if target.exists() {
                        self.file(&target, Some(here()), depth + 1)?;
                    }
                }
                Line::IncludeDirectory(target) => {
                    let directory = deeper(&target, &self.files)?;
                    let inside = entries(&directory).map_err(|source| {
                        let path = directory.clone();
                        ConfigurationError::Read { path, included: Some(here()), source }
                    })?;
                    for file in inside {
                        self.file(&file, Some(here()), depth + 1)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The text of a file. What is not UTF-8 (a comment in another encoding) is kept
/// apart from failing.
fn text(path: &Path, included: bool) -> io::Result<String> {
    let meta = std::fs::metadata(path)?;
    if meta.is_dir() {
        return Err(io::Error::other("it is a directory"));
    }
    // A person may name a pipe; a file that names one, or a device, would have us wait for it.
    if included && !meta.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other("it is too large for a configuration file"));
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The files of an include directory: those that end in `.conf` and do not begin
/// with a dot, by name.
fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.ends_with(".conf") && !name.starts_with('.') && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn includes_are_followed_and_the_last_assignment_wins() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        fs::create_dir(dir.path().join("conf.d")).unwrap();
        write(
            "postgresql.conf",
            "fsync = on\ninclude_dir 'conf.d'\ninclude_if_exists 'nothing.conf'\nwork_mem = 8MB\n",
        );
        write("conf.d/10.conf", "Fsync = off\n");
        write("conf.d/20.conf", "max_wal_size = 4GB\n");
        write("conf.d/.hidden.conf", "syntax error here\n");
        write("conf.d/readme.txt", "not a setting\n");
        write("postgresql.auto.conf", "# Do not edit\nwork_mem = '16MB'\n");
        let found = Configuration::read(&dir.path().join("postgresql.conf")).unwrap();
        let value = |name: &str| found.settings[name].value.as_str();
        assert_eq!(
            (value("fsync"), value("work_mem"), value("max_wal_size")),
            ("off", "16MB", "4GB")
        );
        assert!(found.settings["work_mem"].to_string().ends_with("postgresql.auto.conf:2"));
        let replaced: Vec<&str> = found.replaced.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(replaced, ["fsync", "work_mem"]);
        assert_eq!(found.files.len(), 4);
    }

    #[test]
    fn an_error_names_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("my.conf");
        fs::write(&path, "a = 1\n\nwork_mem = 1.5GB\n").unwrap();
        let error = Configuration::read(&path).unwrap_err().to_string();
        assert!(error.contains("my.conf:3: \"GB\" is left over"), "{error}");
        fs::write(&path, "include 'gone.conf'\n").unwrap();
        let error = Configuration::read(&path).unwrap_err().to_string();
        assert!(
            error.contains("gone.conf, included in ") && error.contains("my.conf:1"),
            "{error}"
        );
        fs::write(&path, "x = 1\ninclude 'my.conf'\n").unwrap();
        let error = Configuration::read(&path).unwrap_err().to_string();
        assert!(error.contains("my.conf:2") && error.contains("deep"), "{error}");
        assert!(Configuration::read(dir.path()).is_err());
    }

    #[test]
    fn files_without_end_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("my.conf");
        let said = |text: &str| {
            fs::write(&path, text).unwrap();
            Configuration::read(&path).unwrap_err().to_string()
        };
        let device = said("a = 1\ninclude '/dev/zero'\n");
        assert!(device.contains("my.conf:2") && device.contains("no regular file"), "{device}");
        let error = Configuration::read(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(error.contains("too large"), "{error}");
        for (number, next) in (1..9).zip(2..) {
            let text = format!("include '{next}.conf'\n").repeat(100);
            fs::write(dir.path().join(format!("{number}.conf")), text).unwrap();
        }
        fs::write(dir.path().join("9.conf"), "a = 1\n").unwrap();
        let many = said("include '1.conf'\n");
        assert!(many.contains("8.conf:") && many.contains("more than 1000 files"), "{many}");
    }
}
