//! A profile: values of parameters of any layer, with what proves them.
//!
//! Its file is `config.env` (see `config_env`).

use std::fmt;

use thiserror::Error;

use crate::{Disk, DurabilityClass, Parameter, Place, Value, ValueError, parameter};

/// What one value is for, where its parameter alone does not say.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The disk of the data or of the WAL.
    Disk(Disk),
    /// A table, index or column.
    Object(String),
}

impl Scope {
    /// The disk, where it is one.
    pub fn disk(&self) -> Option<Disk> {
        match self {
            Scope::Disk(disk) => Some(*disk),
            Scope::Object(_) => None,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scope::Disk(disk) => write!(f, "{disk}"),
            Scope::Object(name) => f.write_str(name),
        }
    }
}

/// An effect with its interval, each in per cent of the baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct Effect {
    /// What was measured: `transactions/s`.
    pub measure: String,
    /// The effect.
    pub percent: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// What proves a value.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Proof {
    /// Name of the experiment.
    pub experiment: String,
    /// Its effect against the baseline; `None` where the value was kept without one.
    pub effect: Option<Effect>,
    /// The machine, in words.
    pub machine: Option<String>,
    /// The day: `2026-11-21`.
    pub date: Option<String>,
}

/// One value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Of what.
    pub parameter: &'static Parameter,
    /// As a person writes it, with a unit where it has one.
    pub value: String,
    /// What it is for.
    pub scope: Option<Scope>,
    /// What proves it.
    pub proof: Option<Proof>,
    /// Comment and blank lines before it, as they stand in the file.
    pub comments: Vec<String>,
    /// The comment behind it, with its `#`.
    pub remark: Option<String>,
}

/// Why a value cannot be part of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EntryError {
    /// No such parameter.
    #[error("the catalogue has no parameter called {0}")]
    Unknown(String),
    /// Not a value of it.
    #[error("{name}: {what}")]
    Value {
        /// Parameter.
        name: String,
        /// What is wrong.
        what: String,
    },
    /// For data or WAL, and not said which; or said where it makes no sense.
    #[error("{name} {what}")]
    Scope {
        /// Parameter.
        name: String,
        /// What is wrong.
        what: &'static str,
    },
}

impl Entry {
    /// A value of the parameter called `name`.
    ///
    /// # Errors
    /// When there is no such parameter, the value is none of it, or the scope does not fit.
    pub fn new(name: &str, value: &str, scope: Option<Scope>) -> Result<Entry, EntryError> {
        let parameter = parameter(name).ok_or_else(|| EntryError::Unknown(name.to_owned()))?;
        Entry::of(parameter, value, scope)
    }

    /// A value of a parameter.
    ///
    /// # Errors
    /// When the value is none of it, or the scope does not fit.
    pub fn of(
        parameter: &'static Parameter,
        value: &str,
        scope: Option<Scope>,
    ) -> Result<Entry, EntryError> {
        let misplaced = |what| EntryError::Scope { name: parameter.name.clone(), what };
        let (value, scope) = match scope {
            Some(Scope::Object(name)) => {
                (value.trim(), Some(Scope::Object(name.trim().to_owned())))
            }
            other => (value, other),
        };
        match &scope {
            Some(Scope::Disk(_)) if !parameter.per_disk => {
                return Err(misplaced("is not set for data and WAL apart"));
            }
            Some(Scope::Object(_)) if !parameter.is_of_objects() => {
                return Err(misplaced("does not belong to a table, index or column"));
            }
            Some(Scope::Object(name)) if name.is_empty() => {
                return Err(misplaced("needs the name of its table, index or column"));
            }
            // config.env parts name and value there.
            Some(Scope::Object(name)) if name.contains('=') => {
                return Err(misplaced("is not kept for a name with an equals sign"));
            }
            None if parameter.is_of_objects() && value.contains('=') => {
                return Err(misplaced("needs the name of its table, index or column"));
            }
            None if parameter.per_disk => {
                return Err(misplaced("is set for the data and for the WAL: say which"));
            }
            _ => {}
        }
        let wrong = |what: String| EntryError::Value { name: parameter.name.clone(), what };
        if value.chars().chain(scope.iter().flat_map(Scope::chars)).any(char::is_control) {
            return Err(wrong("a control character has no place in a value".to_owned()));
        }
        parameter.read(value).map_err(|error: ValueError| wrong(error.to_string()))?;
        Ok(Entry {
            parameter,
            value: value.to_owned(),
            scope,
            proof: None,
            comments: Vec::new(),
            remark: None,
        })
    }

    /// The value read.
    pub fn read(&self) -> Option<Value> {
        self.parameter.read(&self.value).ok()
    }

    /// The value as the kernel and tools take it: a bare number in the parameter's own unit.
    pub fn bare(&self) -> String {
        match self.read() {
            // The digits as written: 9223372036854775807 is more than a float tells apart.
            Some(Value::Number(..)) if is_decimal(&self.value) => self.value.trim().to_owned(),
            Some(Value::Number(number, _)) => Value::Number(number, None).to_string(),
            Some(Value::Bool(on)) => u8::from(on).to_string(),
            Some(Value::Text(text)) => text,
            None => self.value.clone(),
        }
    }

    /// What the value can lose.
    pub fn class(&self) -> DurabilityClass {
        self.parameter.class_of(&self.value)
    }

    /// Its key in config.env.
    pub fn key(&self) -> String {
        self.parameter.config_key(self.scope.as_ref().and_then(Scope::disk))
    }

    /// Name and scope, for people: `queue/scheduler (WAL)`.
    pub fn title(&self) -> String {
        match &self.scope {
            Some(scope) => format!("{} ({scope})", self.parameter.name),
            None => self.parameter.name.clone(),
        }
    }
}

/// Whether a text is a whole number without a unit, as the kernel reads it too: not
/// octal, which begins with 0.
fn is_decimal(text: &str) -> bool {
    let text = text.trim();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits && (text == "0" || !text.starts_with('0'))
}

impl Scope {
    fn chars(&self) -> std::str::Chars<'_> {
        match self {
            Scope::Object(name) => name.chars(),
            Scope::Disk(_) => "".chars(),
        }
    }
}

impl Parameter {
    /// Whether its values belong to a table, an index or a column.
    pub fn is_of_objects(&self) -> bool {
        matches!(self.place, Place::Table(_) | Place::Index(_) | Place::Ddl(_))
    }
}

/// Where a profile comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// What it is for, in one line.
    pub title: String,
    /// The machine it was proved on.
    pub machine: Option<String>,
    /// The day.
    pub date: Option<String>,
}

/// Values of parameters, in the order of their file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Profile {
    /// Where it comes from; `None` of a file that does not say.
    pub origin: Option<Origin>,
    /// The values. No parameter stands twice for one scope.
    pub entries: Vec<Entry>,
    /// Comment and blank lines after the last value.
    pub trailer: Vec<String>,
}

impl Profile {
    /// Adds a value, in place of one of the same parameter and scope. The comments of the
    /// one replaced stay unless the new one has its own.
    pub fn set(&mut self, mut entry: Entry) {
        let same =
            |e: &&mut Entry| e.parameter.name == entry.parameter.name && e.scope == entry.scope;
        match self.entries.iter_mut().find(same) {
            Some(place) => {
                if entry.comments.is_empty() {
                    entry.comments = std::mem::take(&mut place.comments);
                }
                *place = entry;
            }
            None => self.entries.push(entry),
        }
    }

    /// The value of a parameter for a scope.
    pub fn get(&self, name: &str, scope: Option<&Scope>) -> Option<&Entry> {
        let wanted = |e: &&Entry| e.parameter.name == name && e.scope.as_ref() == scope;
        self.entries.iter().find(wanted)
    }

    /// The values that are settings of the server.
    pub fn settings(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.parameter.is_setting())
    }

    /// What the whole can lose: the worst of its values.
    pub fn class(&self) -> DurabilityClass {
        let classes = self.entries.iter().map(Entry::class);
        classes.max_by_key(|class| class.severity()).unwrap_or(DurabilityClass::S)
    }

    /// The values that lower durability.
    pub fn weaker(&self) -> impl Iterator<Item = &Entry> {
        self.entries
            .iter()
            .filter(|entry| matches!(entry.class(), DurabilityClass::D | DurabilityClass::X))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_has_to_fit() {
        let data = || Some(Scope::Disk(Disk::Data));
        assert!(Entry::new("queue/scheduler", "none", data()).is_ok());
        assert!(matches!(
            Entry::new("queue/scheduler", "none", None),
            Err(EntryError::Scope { .. })
        ));
        assert!(matches!(Entry::new("work_mem", "8MB", data()), Err(EntryError::Scope { .. })));
        let table = Some(Scope::Object("pgbench_branches".to_owned()));
        let entry = Entry::new("table.fillfactor", "50", table.clone()).unwrap();
        assert_eq!(entry.title(), "table.fillfactor (pgbench_branches)");
        assert!(Entry::new("work_mem", "8MB", table).is_err());
        let object = |name: &str| Some(Scope::Object(name.to_owned()));
        let entry = Entry::new("table.fillfactor", " 50 ", object(" a table ")).unwrap();
        assert_eq!(
            (entry.title().as_str(), entry.value.as_str()),
            ("table.fillfactor (a table)", "50")
        );
        for (value, scope) in [("50", object("a=b")), ("50", object(" ")), ("a=b", None)] {
            let refused = Entry::new("table.indexes", value, scope);
            assert!(matches!(refused, Err(EntryError::Scope { .. })), "{value}");
        }
        assert!(matches!(Entry::new("nothing", "1", None), Err(EntryError::Unknown(_))));
        assert!(Entry::new("cluster.data_directory", "/a\nb", None).is_err());
    }

    #[test]
    fn the_kernel_gets_the_digits_that_were_written() {
        let bare = |name: &str, value: &str| Entry::new(name, value, None).unwrap().bare();
        assert_eq!(bare("fs.file-max", "9223372036854775807"), "9223372036854775807");
        assert_eq!(bare("fs.file-max", "9007199254740993"), "9007199254740993");
        assert_eq!(bare("fs.file-max", "0x7fffffffffffffff"), "9223372036854775807");
        assert_eq!(bare("fs.file-max", "0100"), "64");
        assert_eq!(bare("vm.dirty_bytes", "256MB"), "268435456");
        assert_eq!(bare("vm.dirty_bytes", " 268435456 "), "268435456");
        assert_eq!(bare("commit_delay", "1e3"), "1000");
    }

    #[test]
    fn the_class_of_the_whole_is_its_worst() {
        let mut profile = Profile::default();
        assert_eq!(profile.class(), DurabilityClass::S);
        profile.set(Entry::new("work_mem", "8MB", None).unwrap());
        profile.set(Entry::new("max_wal_size", "8GB", None).unwrap());
        assert_eq!(profile.class(), DurabilityClass::T);
        profile.set(Entry::new("synchronous_commit", "off", None).unwrap());
        assert_eq!(profile.class(), DurabilityClass::D);
        profile.set(Entry::new("synchronous_commit", "on", None).unwrap());
        assert_eq!((profile.class(), profile.entries.len()), (DurabilityClass::T, 3));
        profile.set(Entry::new("fsync", "0", None).unwrap());
        assert_eq!(profile.class(), DurabilityClass::X);
    }
}
