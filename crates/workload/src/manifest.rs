//! The form of `workload.toml`.
//!
//! Only the form: unknown keys and wrong types fail here, with line and column
//! from the TOML parser. What the values mean is checked by
//! [`crate::workload`].

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::protocol::Protocol;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    pub name: String,
    pub title: String,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub defaults: DefaultsEntry,
    #[serde(default)]
    pub options: BTreeMap<String, OptionEntry>,
    #[serde(default)]
    pub texts: BTreeMap<String, String>,
    #[serde(default)]
    pub sql: SqlEntry,
    #[serde(default, rename = "table")]
    pub tables: Vec<TableEntry>,
    #[serde(default, rename = "script")]
    pub scripts: Vec<ScriptEntry>,
    #[serde(default, rename = "check")]
    pub checks: Vec<CheckEntry>,
    pub pass_mark: Option<PassMarkEntry>,
    pub side: Option<SideEntry>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DefaultsEntry {
    #[serde(default = "one")]
    pub scale: u32,
    pub scale_sql: Option<String>,
    #[serde(default = "one")]
    pub clients: u32,
    #[serde(default)]
    pub protocol: Protocol,
}

impl Default for DefaultsEntry {
    fn default() -> Self {
        DefaultsEntry { scale: 1, scale_sql: None, clients: 1, protocol: Protocol::default() }
    }
}

fn one() -> u32 {
    1
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OptionEntry {
    pub description: String,
    pub default: OptionDefault,
    #[serde(default)]
    pub allowed: Vec<String>,
    pub min: Option<i64>,
    pub max: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "a boolean, a whole number or a string")]
pub(crate) enum OptionDefault {
    Boolean(bool),
    Integer(i64),
    Text(String),
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SqlEntry {
    #[serde(default)]
    pub before_load: Vec<String>,
    #[serde(default)]
    pub after_load: Vec<String>,
    #[serde(default)]
    pub before_run: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableEntry {
    pub name: String,
    pub rows: NumberEntry,
    #[serde(default, rename = "variable")]
    pub variables: Vec<VariableEntry>,
    #[serde(default, rename = "column")]
    pub columns: Vec<ColumnEntry>,
}

/// What has a value for each row, before its columns.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VariableEntry {
    pub name: String,
    pub expr: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(
    untagged,
    expecting = "a whole number, or an expression as a string such as \"100000 * :scale\""
)]
pub(crate) enum NumberEntry {
    Number(u64),
    Expression(String),
}

/// One column: a name, exactly one of the generators, and modifiers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ColumnEntry {
    pub name: String,
    pub expr: Option<String>,
    pub text: Option<String>,
    pub choice: Option<BTreeMap<String, NumberEntry>>,
    pub uuid: Option<String>,
    pub timestamp: Option<TimestampEntry>,
    pub letters: Option<String>,
    pub null: Option<bool>,
    pub null_fraction: Option<f64>,
    pub pad: Option<u32>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TimestampEntry {
    pub from: toml::value::Datetime,
    pub to: Option<toml::value::Datetime>,
    pub every: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScriptEntry {
    pub file: String,
    #[serde(default = "one")]
    pub weight: u32,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CheckEntry {
    pub name: String,
    pub before: Option<String>,
    pub sql: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PassMarkEntry {
    pub description: String,
    pub mean_latency: String,
    pub clients: Option<u32>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SideEntry {
    pub name: String,
    #[serde(default)]
    pub description: String,
    pub sql: String,
    pub every: String,
}
