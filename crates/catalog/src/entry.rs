//! The catalogue's entries.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::{Disk, KernelRange, KernelVersion, Place, Value, ValueError};

/// One file a layer.
const FILES: [&str; 21] = [
    include_str!("../data/os_memory.toml"),
    include_str!("../data/os_limits.toml"),
    include_str!("../data/os_network.toml"),
    include_str!("../data/os_scheduler.toml"),
    include_str!("../data/arrays.toml"),
    include_str!("../data/file_system.toml"),
    include_str!("../data/block_devices.toml"),
    include_str!("../data/pg_memory.toml"),
    include_str!("../data/pg_io.toml"),
    include_str!("../data/pg_wal.toml"),
    include_str!("../data/pg_checkpoint.toml"),
    include_str!("../data/pg_commit.toml"),
    include_str!("../data/pg_background_writer.toml"),
    include_str!("../data/pg_autovacuum.toml"),
    include_str!("../data/pg_parallel.toml"),
    include_str!("../data/pg_observation.toml"),
    include_str!("../data/pg_other.toml"),
    include_str!("../data/pg_cluster.toml"),
    include_str!("../data/schema.toml"),
    include_str!("../data/benchmark.toml"),
    include_str!("../data/machine.toml"),
];

/// What a change can lose. A setting of class X is never advised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DurabilityClass {
    /// Safe: nothing can be lost.
    S,
    /// Committed data or recoverability may be lost; the cluster stays consistent.
    /// Needs consent by name.
    D,
    /// Can corrupt the cluster.
    X,
    /// The environment: kernel, devices, clients; other programs may feel it.
    E,
    /// Moves cost out of the measured window: judge over whole checkpoints or
    /// vacuum cycles.
    T,
}

impl DurabilityClass {
    /// How bad it is beside the others: X is worse than D, and D worse than what only moves
    /// cost or touches the environment.
    pub fn severity(self) -> u8 {
        match self {
            DurabilityClass::S => 0,
            DurabilityClass::E => 1,
            DurabilityClass::T => 2,
            DurabilityClass::D => 3,
            DurabilityClass::X => 4,
        }
    }

    /// In words, for display.
    pub fn words(self) -> &'static str {
        match self {
            DurabilityClass::S => "safe",
            DurabilityClass::D => "may lose committed data",
            DurabilityClass::X => "can corrupt the cluster",
            DurabilityClass::E => "changes the environment",
            DurabilityClass::T => "moves cost in time: judge over whole checkpoints",
        }
    }
}

impl fmt::Display for DurabilityClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = match self {
            DurabilityClass::S => "S",
            DurabilityClass::D => "D",
            DurabilityClass::X => "X",
            DurabilityClass::E => "E",
            DurabilityClass::T => "T",
        };
        f.pad(letter)
    }
}

/// When a change takes effect, or what it takes to make it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Apply {
    /// In one session by `SET`, in all new ones by a reload.
    Session,
    /// By a reload of the configuration.
    Reload,
    /// By a restart of the server.
    Restart,
    /// By writing a kernel value.
    Live,
    /// By mounting the file system anew.
    Remount,
    /// By making the cluster, array or file system anew.
    Recreate,
    /// By restarting a system service.
    Service,
    /// For each run of a load.
    Run,
}

impl Apply {
    /// In a few words.
    pub fn words(self) -> &'static str {
        match self {
            Apply::Session | Apply::Reload => "reload",
            Apply::Restart => "restart",
            Apply::Live => "live",
            Apply::Remount => "remount",
            Apply::Recreate => "recreate",
            Apply::Service => "service restart",
            Apply::Run => "each run",
        }
    }
}

/// The type of a value, as `pg_settings.vartype` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// `on` or `off`.
    Bool,
    /// A whole number, with a unit where there is one.
    Integer,
    /// A fraction.
    Real,
    /// One of some words.
    Enum,
    /// Text.
    String,
    /// Whole numbers with blanks between them, as some values of `sysctl` are.
    List,
}

/// Where a search may look. Bounds are values as a person writes them; a value in
/// `% ram` is a share of the machine's memory.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchRange {
    /// Lowest.
    pub from: String,
    /// Highest.
    pub to: String,
    /// `linear` or `log`.
    pub scale: String,
    /// Values that mean something of their own.
    #[serde(default)]
    pub special: Vec<String>,
}

/// What an older version had.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Older<T> {
    until: u32,
    #[serde(flatten)]
    what: T,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct OlderValue {
    value: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct OlderBounds {
    bounds: [String; 2],
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct OlderKind {
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct OlderValues {
    values: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct OlderApply {
    apply: Apply,
}

/// One parameter.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// Name, as the server or the kernel calls it.
    pub name: String,
    /// The layer it belongs to.
    #[serde(skip)]
    pub layer: String,
    /// Where it lives. Files of one place say it once, for the layer.
    #[serde(default = "in_settings")]
    pub place: Place,
    /// Whether it is set for the data and for the WAL each.
    #[serde(default)]
    pub per_disk: bool,
    /// Its key in config.env where no rule makes it from name and place; `{disk}`
    /// stands for `DATA` or `WAL`.
    #[serde(default)]
    key: Option<String>,
    /// Other keys it is known by in configurations of others.
    #[serde(default)]
    aliases: Vec<String>,
    /// One sentence of what it does.
    pub what: String,
    /// Type.
    pub kind: Kind,
    #[serde(default)]
    older_kind: Option<Older<OlderKind>>,
    /// Unit of a bare number, as `pg_settings.unit` writes it: `8kB`, `ms`.
    #[serde(default)]
    pub unit: Option<String>,
    /// The words an enum takes, in the builds that have them all.
    #[serde(default)]
    pub values: Vec<String>,
    #[serde(default)]
    older_values: Option<Older<OlderValues>>,
    /// How many numbers a list has.
    #[serde(default)]
    pub numbers: Option<usize>,
    /// Smallest and largest value the server takes, in `unit`.
    #[serde(default)]
    pub bounds: Option<[String; 2]>,
    #[serde(default)]
    older_bounds: Option<Older<OlderBounds>>,
    #[serde(default)]
    default: Option<String>,
    #[serde(default)]
    older_defaults: Vec<Older<OlderValue>>,
    apply: Apply,
    #[serde(default)]
    older_apply: Option<Older<OlderApply>>,
    /// What a change can lose.
    pub class: DurabilityClass,
    /// First major version that has it; `None` for 14 or earlier.
    #[serde(default)]
    pub since: Option<u32>,
    /// Last major version that has it; `None` for 18 or later.
    #[serde(default)]
    pub until: Option<u32>,
    /// Kernels that have it in its place.
    #[serde(default)]
    pub kernel: KernelRange,
    /// Where a search may look; `None` where it is not to be searched.
    #[serde(default)]
    pub search: Option<SearchRange>,
    /// When it has no effect.
    #[serde(default)]
    pub no_effect: Option<String>,
    /// Values that lower durability, and what can be lost with them, in words.
    #[serde(default)]
    pub weaker: BTreeMap<String, String>,
    /// Where the facts come from.
    pub source: String,
}

impl Parameter {
    /// A setting of the server of which little more is known than its name and type.
    pub(crate) fn plain(
        name: String,
        kind: Kind,
        default: Option<String>,
        apply: Apply,
    ) -> Parameter {
        Parameter {
            name,
            layer: "PostgreSQL: others".to_owned(),
            place: Place::Setting,
            per_disk: false,
            key: None,
            aliases: Vec::new(),
            what: String::new(),
            kind,
            older_kind: None,
            unit: None,
            values: Vec::new(),
            older_values: None,
            numbers: None,
            bounds: None,
            older_bounds: None,
            default,
            older_defaults: Vec::new(),
            apply,
            older_apply: None,
            class: DurabilityClass::S,
            since: None,
            until: None,
            kernel: KernelRange::default(),
            search: None,
            no_effect: None,
            weaker: BTreeMap::new(),
            source: "pg_settings of 14 to 18".to_owned(),
        }
    }

    /// Compiled-in default in a major version, in [`Parameter::unit`].
    pub fn default(&self, major: u32) -> Option<&str> {
        self.older_defaults
            .iter()
            .find(|older| major <= older.until)
            .map(|older| older.what.value.as_str())
            .or(self.default.as_deref())
    }

    /// Smallest and largest value that a major version takes, in [`Parameter::unit`].
    pub fn bounds_in(&self, major: u32) -> Option<&[String; 2]> {
        match &self.older_bounds {
            Some(older) if major <= older.until => Some(&older.what.bounds),
            _ => self.bounds.as_ref(),
        }
    }

    /// The words of an enum that a major version takes.
    pub fn values_in(&self, major: u32) -> &[String] {
        match &self.older_values {
            Some(older) if major <= older.until => &older.what.values,
            _ => &self.values,
        }
    }

    /// The type in a major version.
    fn kind_in(&self, major: u32) -> Kind {
        match &self.older_kind {
            Some(older) if major <= older.until => older.what.kind,
            _ => self.kind,
        }
    }

    /// Reads a value of it as a server of a major version would.
    ///
    /// # Errors
    /// When it is not of the type, unit or range that the version has.
    pub fn read_in(&self, major: u32, text: &str) -> Result<Value, ValueError> {
        let then = Parameter {
            kind: self.kind_in(major),
            bounds: self.bounds_in(major).cloned(),
            values: self.values_in(major).to_vec(),
            ..self.clone()
        };
        Value::read(&then, text)
    }

    /// The value of a major version that is nearest to `text`: itself, or for a number
    /// beyond the range its nearer end. `None` where `text` is no value of it at all.
    pub fn nearest_in(&self, major: u32, text: &str) -> Option<String> {
        match self.read_in(major, text) {
            Ok(_) => Some(text.to_owned()),
            Err(ValueError::Range { .. }) => {
                let [low, high] = self.bounds_in(major)?;
                let (low, high) = (low.parse::<f64>().ok()?, high.parse::<f64>().ok()?);
                let unbounded = Parameter { bounds: None, older_bounds: None, ..self.clone() };
                let Value::Number(number, unit) = unbounded.read_in(major, text).ok()? else {
                    return None;
                };
                Some(Value::Number(number.clamp(low, high), unit).to_string())
            }
            Err(_) => None,
        }
    }

    /// When a change takes effect in a major version.
    pub fn apply(&self, major: u32) -> Apply {
        match &self.older_apply {
            Some(older) if major <= older.until => older.what.apply,
            _ => self.apply,
        }
    }

    /// Whether a major version has it.
    pub fn is_in(&self, major: u32) -> bool {
        self.since.is_none_or(|since| major >= since)
            && self.until.is_none_or(|until| major <= until)
    }

    /// Whether it is a setting of the server, a row of `pg_settings`.
    pub fn is_setting(&self) -> bool {
        self.place == Place::Setting
    }

    /// Whether a kernel has it in its place.
    pub fn is_in_kernel(&self, kernel: KernelVersion) -> bool {
        self.kernel.holds(kernel)
    }

    /// Its key in config.env: sysctls in capitals with dots as underscores, `PG_` before
    /// a setting, `DATA_` or `WAL_` where it is set for each.
    pub fn config_key(&self, disk: Option<Disk>) -> String {
        let capitals = || self.name.replace(['.', '-'], "_").to_ascii_uppercase();
        match (&self.key, &self.place) {
            (Some(key), _) => with_disk(key, disk),
            (None, Place::Setting) => format!("PG_{}", capitals()),
            (None, _) => capitals(),
        }
    }

    /// The other keys it is known by.
    pub fn alias_keys(&self, disk: Option<Disk>) -> impl Iterator<Item = String> {
        self.aliases.iter().map(move |alias| with_disk(alias, disk))
    }

    /// What is lost with a value of it that lowers durability, however it is spelled.
    pub fn weakness(&self, text: &str) -> Option<&str> {
        let value = self.read(text).ok()?;
        let found = self.weaker.iter().find(|(weak, _)| self.read(weak).as_ref() == Ok(&value));
        found.map(|(_, loss)| loss.as_str())
    }

    /// What setting it to a value can lose. A value that keeps durability is safe,
    /// also of a parameter that could lower it.
    pub fn class_of(&self, text: &str) -> DurabilityClass {
        match self.class {
            DurabilityClass::D | DurabilityClass::X if self.weakness(text).is_none() => {
                if self.is_setting() { DurabilityClass::S } else { DurabilityClass::E }
            }
            class => class,
        }
    }

    /// Reads a value of it as the server would, in the newest version.
    ///
    /// # Errors
    /// When it is not of the type, unit or range.
    pub fn read(&self, text: &str) -> Result<Value, ValueError> {
        Value::read(self, text)
    }
}

fn in_settings() -> Place {
    Place::Setting
}

fn with_disk(key: &str, disk: Option<Disk>) -> String {
    key.replace("{disk}", disk.map_or("", Disk::key))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Layer {
    layer: String,
    /// The place of all its parameters, where they have one.
    #[serde(default)]
    place: Option<Place>,
    parameter: Vec<Parameter>,
}

/// All parameters, layer by layer.
pub fn parameters() -> &'static [Parameter] {
    static ALL: OnceLock<Vec<Parameter>> = OnceLock::new();
    ALL.get_or_init(|| {
        FILES
            .iter()
            .flat_map(|text| {
                let layer: Layer =
                    toml::from_str(text).expect("the files are part of the binary and tested");
                let (name, place) = (layer.layer, layer.place);
                layer.parameter.into_iter().map(move |parameter| Parameter {
                    layer: name.clone(),
                    place: match (&parameter.place, &place) {
                        (Place::Setting, Some(place)) => place.clone(),
                        (own, _) => own.clone(),
                    },
                    ..parameter
                })
            })
            .collect()
    })
}

/// The parameter called `name`; case does not matter, as in PostgreSQL.
pub fn parameter(name: &str) -> Option<&'static Parameter> {
    static BY_NAME: OnceLock<HashMap<&str, &Parameter>> = OnceLock::new();
    BY_NAME
        .get_or_init(|| parameters().iter().map(|p| (p.name.as_str(), p)).collect())
        .get(name.to_ascii_lowercase().as_str())
        .copied()
}

#[cfg(test)]
mod tests;
