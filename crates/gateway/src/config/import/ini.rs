//! PgBouncer's configuration file as lines, and what stands in connection strings.

use std::path::{Path, PathBuf};

use super::super::ConfigError;
use super::Surroundings;

/// Files that may include each other in a row, as PgBouncer has it.
const MOST_INCLUDES: usize = 10;

/// A section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// `[pgbouncer]`.
    Main,
    /// `[databases]`.
    Databases,
    /// `[users]`.
    Users,
    /// `[peers]`.
    Peers,
}

/// Where something stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1; 0 for what is nowhere said.
    pub line: usize,
}

impl Place {
    /// An error there.
    pub fn error(&self, what: impl Into<String>) -> ConfigError {
        if self.line == 0 {
            return ConfigError::of_file(&self.file, what);
        }
        ConfigError::in_line(&self.file, self.line, what)
    }
}

/// One `key = value`. It has no `Debug`: connection strings hold passwords.
#[derive(Clone)]
pub struct Entry {
    /// Where it stands.
    pub place: Place,
    /// In which section.
    pub section: Section,
    /// Left of `=`.
    pub key: String,
    /// Right of it.
    pub value: String,
}

/// All that a file and those that it includes say.
#[derive(Default)]
pub struct Entries {
    /// In their order.
    pub entries: Vec<Entry>,
    /// Where `[pgbouncer]` begins once more, at which PgBouncer forgets what was said in it.
    pub again: Vec<Place>,
    section: Option<Section>,
    has_main: bool,
}

impl Entries {
    /// Reads a file and those that it includes.
    ///
    /// # Errors
    /// For the first line that PgBouncer would not take.
    pub fn read(path: &Path, around: &dyn Surroundings) -> Result<Entries, ConfigError> {
        let mut all = Entries::default();
        let text = around.text(path).map_err(|what| ConfigError::of_file(path, what))?;
        all.add(path, &text, 0, around)?;
        if !all.has_main {
            return Err(ConfigError::of_file(
                path,
                "it has no section [pgbouncer]: is it a configuration of PgBouncer?",
            ));
        }
        Ok(all)
    }

    fn add(
        &mut self,
        path: &Path,
        text: &str,
        depth: usize,
        around: &dyn Surroundings,
    ) -> Result<(), ConfigError> {
        for (number, line) in text.split('\n').enumerate() {
            let place = Place { file: path.to_owned(), line: number + 1 };
            let line = line.trim();
            if let Some(file) = included(line) {
                if depth == MOST_INCLUDES {
                    return Err(place.error("files include each other without end"));
                }
                let file = around.place(path, file);
                let text = around.text(&file).map_err(|what| {
                    place.error(format!("{} cannot be included: {what}", file.display()))
                })?;
                self.add(&file, &text, depth + 1, around)?;
            } else if let Some(rest) = line.strip_prefix('[') {
                self.begin(&place, rest)?;
            } else if !line.is_empty() && !line.starts_with(['#', ';']) {
                let (key, value) = pair(line).map_err(|what| place.error(what))?;
                let Some(section) = self.section else {
                    return Err(place.error(
                        "a setting stands before the first section: write [pgbouncer] above it",
                    ));
                };
                self.entries.push(Entry { place, section, key, value: value.to_owned() });
            }
        }
        Ok(())
    }

    fn begin(&mut self, place: &Place, rest: &str) -> Result<(), ConfigError> {
        let Some((name, after)) = rest.split_once(']') else {
            return Err(place.error("a section's name ends with ]"));
        };
        if !after.trim().is_empty() {
            return Err(place.error("write what follows ] on a line of its own"));
        }
        self.section = Some(match name {
            "pgbouncer" => Section::Main,
            "databases" => Section::Databases,
            "users" => Section::Users,
            "peers" => Section::Peers,
            _ => {
                return Err(place.error(format!(
                    "PgBouncer has no section [{name}]: there are pgbouncer, databases, users and peers"
                )));
            }
        });
        if self.section == Some(Section::Main) {
            if self.has_main {
                self.again.push(place.clone());
            }
            self.has_main = true;
        }
        Ok(())
    }
}

/// The file that a line includes.
fn included(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("%include")?;
    rest.starts_with([' ', '\t']).then(|| rest.trim())
}

/// Key and value of a line.
fn pair(line: &str) -> Result<(String, &str), &'static str> {
    let no_value = "it is no setting: write name = value";
    let (key, rest) = match line.chars().next() {
        Some(quote @ ('\'' | '"')) => {
            quoted(&line[1..], quote).ok_or("the quote around the name is never closed")?
        }
        _ => {
            let ends = |c: char| !(c.is_ascii_alphanumeric() || "_.-*".contains(c));
            let (key, rest) = line.split_at(line.find(ends).unwrap_or(line.len()));
            (key.to_owned(), rest)
        }
    };
    let value = rest.trim_start().strip_prefix('=').ok_or(match key.is_empty() {
        true => "a name is of letters, digits, _ . - and *, or stands in quotes",
        false => no_value,
    })?;
    if key.is_empty() {
        return Err(no_value);
    }
    Ok((key, value.trim()))
}

/// What stands before a closing quote, where two are one, and what follows it.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut found = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        if c != quote {
            found.push(c);
        } else if text[at + 1..].starts_with(quote) {
            found.push(quote);
            chars.next();
        } else {
            return Some((found, &text[at + 1..]));
        }
    }
    None
}

/// The pairs of a connection string as PgBouncer reads it.
///
/// # Errors
/// With what is wrong, in which nothing of the string stands but names.
pub fn pairs(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut found = Vec::new();
    let mut rest = text.trim_start_matches(' ');
    while !rest.is_empty() {
        let wrong = || match found.last() {
            None => "the connection string does not begin with name=value".to_owned(),
            Some((name, _)) => {
                format!(
                    "the connection string goes on after {name} with what is not name=value; a value with spaces stands in single quotes"
                )
            }
        };
        let (name, after) = rest.split_once('=').ok_or_else(wrong)?;
        let name = name.trim_end_matches(' ');
        if name.is_empty() || name.contains(' ') {
            return Err(wrong());
        }
        let after = after.trim_start_matches(' ');
        let (value, after) = match after.strip_prefix('\'') {
            Some(inside) => quoted(inside, '\'')
                .ok_or_else(|| format!("the quote around the value of {name} is never closed"))?,
            None => {
                let (value, after) = after.split_at(after.find(' ').unwrap_or(after.len()));
                (value.to_owned(), after)
            }
        };
        if value.is_empty() {
            return Err(format!("{name} has no value: leave it out"));
        }
        found.push((name.to_owned(), value));
        rest = after.trim_start_matches(' ');
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_strings_are_read_as_pgbouncer_reads_them() {
        let own = |all: &[(&str, &str)]| {
            let own = |(a, b): &(&str, &str)| ((*a).to_owned(), (*b).to_owned());
            Ok(all.iter().map(own).collect::<Vec<_>>())
        };
        assert_eq!(pairs(""), own(&[]));
        assert_eq!(
            pairs("host=a  port = 5 connect_query='set x to ''y''' user=u"),
            own(&[("host", "a"), ("port", "5"), ("connect_query", "set x to 'y'"), ("user", "u")])
        );
        for wrong in ["host", "host=", "host=a hunter2", "= b", "password='hunter2", "a b=hunter2"]
        {
            let what = pairs(wrong).unwrap_err();
            assert!(!what.contains("hunter2"), "{what}");
        }
    }

    #[test]
    fn names_may_stand_in_quotes() {
        assert_eq!(pair("'test key' = 'v'"), Ok(("test key".to_owned(), "'v'")));
        assert_eq!(pair("\"a\"\"b\"=c d "), Ok(("a\"b".to_owned(), "c d")));
        assert_eq!(pair("* ="), Ok(("*".to_owned(), "")));
        for wrong in ["a b", "a", "= b", "'a = b", "ä = b", "''=x"] {
            assert!(pair(wrong).is_err(), "{wrong}");
        }
    }
}
