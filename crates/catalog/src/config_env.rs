//! `config.env`: a profile as a file of shell assignments.
//!
//! ```text
//! # walwright profile: tpcb, 16 clients
//! # machine: 2 processors, 7.7 GB of memory
//! # date: 2026-11-21
//! # durability class: T (moves cost in time: judge over whole checkpoints)
//!
//! # proven by wide-wal: transactions/s +12.30 % [+9.10 %, +15.60 %]; on this machine; 2026-11-21
//! PG_MAX_WAL_SIZE=16GB
//! ```
//!
//! Key names follow a rule, so that a file of another team can be read: sysctls in
//! capitals with dots as underscores, `PG_` before a setting, `DATA_` or `WAL_` before
//! what each disk has. Comments are kept. An unknown key, a value out of range and what
//! only a shell could work out are errors that name their line.

use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;

use crate::profile::{Effect, Entry, Origin, Profile, Proof, Scope};
use crate::shell::{self, ShellLine};
use crate::{Disk, Parameter, holds_password, is_secret, parameters};

const HEAD: &str = "# walwright profile";
const MACHINE: &str = "# machine: ";
const DATE: &str = "# date: ";
const CLASS: &str = "# durability class: ";
const PROOF: &str = "# proven by ";

/// One line that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Line, from 1.
    pub line: usize,
    /// The key that it assigns to; `None` of a line that is no assignment.
    pub key: Option<String>,
    /// The value it assigns; `None` of one that may be a secret.
    pub value: Option<String>,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match (&self.key, &self.value) {
            (Some(key), Some(value)) => write!(f, "{key}={}: {}", shell::quote(value), self.what),
            (Some(key), None) => write!(f, "{key}: {}", self.what),
            (None, _) => f.write_str(&self.what),
        }
    }
}

/// Why a file is no profile: every line that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigEnvError {
    /// The lines, in order.
    pub problems: Vec<Problem>,
}

impl fmt::Display for ConfigEnvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, problem) in self.problems.iter().enumerate() {
            let feed = if place > 0 { "\n" } else { "" };
            write!(f, "{feed}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigEnvError {}

impl Profile {
    /// Reads a file.
    ///
    /// # Errors
    /// With every line that is wrong.
    pub fn from_config_env(bytes: &[u8]) -> Result<Profile, ConfigEnvError> {
        let (profile, problems) = Profile::read_config_env(bytes);
        match problems.is_empty() {
            true => Ok(profile),
            false => Err(ConfigEnvError { problems }),
        }
    }

    /// Reads what can be read of a file: the profile without the lines that are wrong, and
    /// these.
    pub fn read_config_env(bytes: &[u8]) -> (Profile, Vec<Problem>) {
        let mut reader = Reader::default();
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let end = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        if !end.is_empty() {
            for (place, line) in end.split(|byte| *byte == b'\n').enumerate() {
                match std::str::from_utf8(line) {
                    Ok(line) => reader.line(place + 1, line),
                    Err(_) => reader.wrong(place + 1, "it is not UTF-8".to_owned()),
                }
            }
        }
        reader.profile.trailer = reader.comments;
        (reader.profile, reader.problems)
    }

    /// Writes the file: where it comes from, and each value with its comments and proof.
    pub fn to_config_env(&self) -> String {
        let mut out = String::new();
        let mut line = |text: &str| {
            out.push_str(text);
            out.push('\n');
        };
        if let Some(origin) = &self.origin {
            match one_line(&origin.title) {
                title if title.is_empty() => line(HEAD),
                title => line(&format!("{HEAD}: {title}")),
            }
            for (name, value) in [(MACHINE, &origin.machine), (DATE, &origin.date)] {
                if let Some(value) = value {
                    line(&format!("{name}{}", one_line(value)));
                }
            }
            let class = self.class();
            line(&format!("{CLASS}{class} ({})", class.words()));
            line("");
        }
        for entry in &self.entries {
            entry.comments.iter().for_each(|comment| line(comment));
            if let Some(proof) = &entry.proof {
                line(&written(proof));
            }
            let value = match &entry.scope {
                Some(Scope::Object(name)) => format!("{name}={}", entry.value),
                _ => entry.value.clone(),
            };
            let assignment = format!("{}={}", entry.key(), shell::quote(&value));
            match &entry.remark {
                Some(remark) => line(&format!("{assignment} {remark}")),
                None => line(&assignment),
            }
        }
        self.trailer.iter().for_each(|comment| line(comment));
        out
    }
}

#[derive(Default)]
struct Reader {
    profile: Profile,
    comments: Vec<String>,
    proof: Option<Proof>,
    /// Lines of a head may follow.
    in_head: bool,
    /// Line of each parameter and scope.
    seen: HashMap<(&'static str, Option<Scope>), usize>,
    problems: Vec<Problem>,
}

impl Reader {
    fn wrong(&mut self, line: usize, what: String) {
        self.problems.push(Problem { line, key: None, value: None, what });
    }

    fn line(&mut self, number: usize, line: &str) {
        let line = line.strip_suffix('\r').unwrap_or(line);
        match shell::parse(line) {
            Err(error) => self.wrong(number, unread(line, &error)),
            Ok(ShellLine::Blank) => self.comment(number, line.trim_end()),
            Ok(ShellLine::Assignment { key, value, comment }) => {
                self.in_head = false;
                match self.entry(number, &key, &value) {
                    Ok(entry) => self.profile.entries.push(Entry {
                        proof: self.proof.take(),
                        comments: std::mem::take(&mut self.comments),
                        remark: comment,
                        ..entry
                    }),
                    Err(what) => {
                        let secret = is_secret(&key) || holds_password(&value);
                        let value = (!secret).then_some(value);
                        self.problems.push(Problem { line: number, key: Some(key), value, what });
                    }
                }
            }
        }
    }

    fn comment(&mut self, number: usize, line: &str) {
        if number == 1
            && let Some(rest) = line.strip_prefix(HEAD)
            && (rest.is_empty() || rest.starts_with(": "))
        {
            let title = rest.strip_prefix(": ").unwrap_or_default().trim().to_owned();
            self.profile.origin = Some(Origin { title, ..Origin::default() });
            self.in_head = true;
            return;
        }
        if self.in_head
            && let Some(origin) = &mut self.profile.origin
        {
            if let Some(machine) = line.strip_prefix(MACHINE) {
                origin.machine = Some(machine.trim().to_owned());
                return;
            }
            if let Some(date) = line.strip_prefix(DATE) {
                origin.date = Some(date.trim().to_owned());
                return;
            }
            // What the values say of the class is what counts.
            if line.starts_with(CLASS) {
                return;
            }
            self.in_head = false;
            if line.is_empty() {
                return;
            }
        }
        match proof(line) {
            Some(proof) if self.proof.is_none() => self.proof = Some(proof),
            _ => self.comments.push(line.to_owned()),
        }
    }

    fn entry(&mut self, number: usize, key: &str, text: &str) -> Result<Entry, String> {
        let Some((parameter, disk)) = by_key(key) else {
            return Err(unknown(key));
        };
        let (scope, value) = match disk {
            Some(disk) => (Some(Scope::Disk(disk)), text),
            // At the first: a definition of an index may hold more of them, a name does not.
            None => match text.split_once('=').filter(|_| parameter.is_of_objects()) {
                Some((object, value)) => (Some(Scope::Object(object.to_owned())), value),
                None => (None, text),
            },
        };
        let entry = Entry::of(parameter, value, scope).map_err(|error| error.to_string())?;
        match self.seen.insert((&parameter.name, entry.scope.clone()), number) {
            Some(before) => Err(format!("it is set in line {before} already")),
            None => Ok(entry),
        }
    }
}

/// The parameter and disk that a key names.
fn by_key(key: &str) -> Option<(&'static Parameter, Option<Disk>)> {
    static KEYS: OnceLock<HashMap<String, (&Parameter, Option<Disk>)>> = OnceLock::new();
    let keys = KEYS.get_or_init(|| {
        let mut keys = HashMap::new();
        for parameter in parameters() {
            let disks: &[Option<Disk>] = match parameter.per_disk {
                true => &[Some(Disk::Data), Some(Disk::Wal)],
                false => &[None],
            };
            for disk in disks {
                keys.insert(parameter.config_key(*disk), (parameter, *disk));
                for alias in parameter.alias_keys(*disk) {
                    keys.insert(alias, (parameter, *disk));
                }
            }
        }
        keys
    });
    keys.get(key).copied()
}

impl Parameter {
    /// The parameter that a key of config.env names, and the disk it is for.
    pub fn of_key(key: &str) -> Option<(&'static Parameter, Option<Disk>)> {
        by_key(key)
    }
}

fn unknown(key: &str) -> String {
    match key.strip_prefix("PG_") {
        Some(name) => format!(
            "the catalogue has no setting {}; walwright config list shows those it has",
            name.to_ascii_lowercase()
        ),
        None => "no parameter has this key; walwright config list shows the keys".to_owned(),
    }
}

/// Text without what would break its line.
fn one_line(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.trim().to_owned()
}

/// A part of a proof's line, without the signs that part it.
fn part(text: &str) -> String {
    one_line(&text.replace(';', ",").replace('[', "(").replace(": ", " "))
}

fn written(proof: &Proof) -> String {
    let mut line = format!("{PROOF}{}", part(&proof.experiment).trim_end_matches(':'));
    if let Some(Effect { measure, percent, low, high }) = &proof.effect {
        let measure = part(measure);
        line.push_str(&format!(": {measure} {percent:+.2} % [{low:+.2} %, {high:+.2} %]"));
    }
    if let Some(machine) = &proof.machine {
        line.push_str(&format!("; on {}", part(machine)));
    }
    if let Some(date) = &proof.date {
        line.push_str(&format!("; {}", part(date)));
    }
    line.trim_end().to_owned()
}

/// The proof that a comment tells; `None` of any other comment.
fn proof(line: &str) -> Option<Proof> {
    let mut parts = line.strip_prefix(PROOF)?.split("; ");
    let first = parts.next()?;
    let (experiment, effect) = match first.split_once(": ") {
        Some((experiment, effect)) => (experiment, Some(effect_of(effect)?)),
        None => (first, None),
    };
    let mut proof = Proof { experiment: experiment.to_owned(), effect, ..Proof::default() };
    for part in parts {
        match part.strip_prefix("on ") {
            Some(machine) if proof.machine.is_none() => proof.machine = Some(machine.to_owned()),
            None if proof.date.is_none() => proof.date = Some(part.to_owned()),
            _ => return None,
        }
    }
    // What would not be written as it stands is someone's own comment.
    (written(&proof) == line).then_some(proof)
}

fn effect_of(text: &str) -> Option<Effect> {
    let (left, interval) = text.rsplit_once(" [")?;
    let (measure, percent) = left.strip_suffix(" %")?.rsplit_once(' ')?;
    let (low, high) = interval.strip_suffix(" %]")?.split_once(" %, ")?;
    Some(Effect {
        measure: measure.to_owned(),
        percent: percent.parse().ok()?,
        low: low.parse().ok()?,
        high: high.parse().ok()?,
    })
}

/// What is said of a line that no shell reads: its beginning, unless that may be a secret.
fn unread(line: &str, error: &shell::ShellError) -> String {
    let line = line.trim();
    let key = line.strip_prefix("export ").unwrap_or(line).split('=').next().unwrap_or_default();
    if is_secret(key) || holds_password(line) {
        return format!(
            "{}: it cannot be read as a shell would, and may hold a secret",
            key.trim()
        );
    }
    let shown: String = line.chars().filter(|c| !c.is_control()).take(40).collect();
    format!("{shown}: {error}")
}

#[cfg(test)]
mod tests;
