//! Options: values that a user may choose and SQL and scripts may read.

use super::plan::{UNKNOWN, WRITTEN};
use crate::error::WorkloadError;
use crate::manifest::{OptionDefault, OptionEntry};
use crate::script::{AUTOMATIC, closest, is_valid_name};

/// Something about a workload that can be chosen for a run, such as whether an
/// index exists. Its value is a variable of that name in SQL files, scripts,
/// row counts and columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadOption {
    /// The name, which is also that of the variable.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What values it takes.
    pub kind: OptionKind,
    /// The value when none is chosen.
    pub default: String,
}

/// What values an option takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptionKind {
    /// `true` or `false`.
    Boolean,
    /// A whole number.
    Integer {
        /// Smallest.
        min: i64,
        /// Largest.
        max: i64,
    },
    /// One of these texts; any text when the list is empty.
    Text {
        /// The texts.
        allowed: Vec<String>,
    },
}

impl WorkloadOption {
    pub(crate) fn from_entry(name: &str, entry: &OptionEntry) -> Result<Self, String> {
        let taken = ["row", "before", WRITTEN, UNKNOWN];
        if !is_valid_name(name) || AUTOMATIC.contains(&name) || taken.contains(&name) {
            return Err(
                "an option is named with letters, digits and underscores, and not like an automatic variable".into(),
            );
        }
        let (kind, default) = match &entry.default {
            OptionDefault::Boolean(value) => (OptionKind::Boolean, value.to_string()),
            OptionDefault::Integer(value) => (
                OptionKind::Integer {
                    min: entry.min.unwrap_or(i64::MIN),
                    max: entry.max.unwrap_or(i64::MAX),
                },
                value.to_string(),
            ),
            OptionDefault::Text(value) => {
                (OptionKind::Text { allowed: entry.allowed.clone() }, value.clone())
            }
        };
        let is_integer = matches!(kind, OptionKind::Integer { .. });
        if !is_integer && (entry.min.is_some() || entry.max.is_some()) {
            return Err("min and max are for options whose default is a whole number".into());
        }
        if !matches!(kind, OptionKind::Text { .. }) && !entry.allowed.is_empty() {
            return Err("allowed is for options whose default is a string".into());
        }
        let option = WorkloadOption {
            name: name.to_owned(),
            description: entry.description.clone(),
            kind,
            default,
        };
        option.parse(&option.default).map_err(|message| format!("default: {message}"))?;
        Ok(option)
    }

    /// Checks a value and brings it into the form that scripts see.
    pub(crate) fn parse(&self, value: &str) -> Result<String, String> {
        match &self.kind {
            OptionKind::Boolean => match value.to_ascii_lowercase().as_str() {
                "true" | "on" | "yes" | "1" => Ok("true".into()),
                "false" | "off" | "no" | "0" => Ok("false".into()),
                _ => Err(format!("\"{value}\" is neither true nor false")),
            },
            OptionKind::Integer { min, max } => match value.parse::<i64>() {
                Ok(number) if (min..=max).contains(&&number) => Ok(number.to_string()),
                _ => Err(format!("\"{value}\" is not a whole number from {min} to {max}")),
            },
            OptionKind::Text { allowed } if allowed.is_empty() => Ok(value.to_owned()),
            OptionKind::Text { allowed } if allowed.iter().any(|text| text == value) => {
                Ok(value.to_owned())
            }
            OptionKind::Text { allowed } => {
                Err(format!("\"{value}\" is not allowed; the values are {}", allowed.join(", ")))
            }
        }
    }
}

/// Finds an option by name among those of a workload.
pub(crate) fn find<'o>(
    workload: &str,
    options: &'o [WorkloadOption],
    name: &str,
) -> Result<&'o WorkloadOption, WorkloadError> {
    options.iter().find(|option| option.name == name).ok_or_else(|| {
        let names: Vec<&str> = options.iter().map(|option| option.name.as_str()).collect();
        let message = match closest(name, names.iter().copied()) {
            Some(near) => format!("there is no such option; did you mean {near}?"),
            None if names.is_empty() => "this workload has no options".to_owned(),
            None => format!("there is no such option; the options are {}", names.join(", ")),
        };
        WorkloadError::Option { workload: workload.to_owned(), option: name.to_owned(), message }
    })
}
