//! Planted faults: a workload with one cause in it, and the same without.

use std::path::Path;

use anyhow::{Context, bail};
use serde::Deserialize;

/// A scenario of the exam, from a file in `bench/faults`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Its name: that of the file.
    #[serde(skip)]
    pub name: String,
    /// The diagnosis that is planted.
    pub diagnosis: String,
    /// What is wrong, in a few words.
    pub title: String,
    /// Client connections, unless flags give them.
    #[serde(default = "eight")]
    pub clients: u32,
    /// Wire protocol.
    #[serde(default = "prepared")]
    pub protocol: String,
    /// Length of the measured window.
    #[serde(default = "ten_seconds")]
    pub duration: String,
    /// Load before it.
    #[serde(default = "two_seconds")]
    pub warmup: String,
    /// Flags of both sides.
    #[serde(default)]
    pub flags: Vec<String>,
    /// Whether a transaction does the same work on both sides, so that their throughputs
    /// show what the fix gains.
    #[serde(default = "yes")]
    pub comparable: bool,
    /// Problems that the control has in truth, each with its reason in the file.
    #[serde(default)]
    pub control_has: Vec<String>,
    /// Words of which one is in the advice of a tool that names the cause: a setting, a
    /// feature.
    #[serde(default)]
    pub peers_mention: Vec<String>,
    /// SQL of both sides, run once.
    #[serde(default)]
    pub schema: String,
    /// The transaction of both sides, unless they have their own.
    #[serde(default)]
    pub script: String,
    /// With the cause.
    pub planted: Side,
    /// Without it.
    pub control: Side,
}

/// One side of a scenario: what it adds to both.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Side {
    /// More flags of `walwright run`.
    #[serde(default)]
    pub flags: Vec<String>,
    /// More SQL.
    #[serde(default)]
    pub schema: String,
    /// The transaction.
    pub script: Option<String>,
    /// Processes that do nothing but take a processor meanwhile.
    #[serde(default)]
    pub beside: u32,
}

fn eight() -> u32 {
    8
}

fn yes() -> bool {
    true
}

fn prepared() -> String {
    "prepared".to_owned()
}

fn two_seconds() -> String {
    "2s".to_owned()
}

fn ten_seconds() -> String {
    "10s".to_owned()
}

impl Fault {
    /// All scenarios of a directory, by name.
    fn all(directory: &Path) -> anyhow::Result<Vec<Fault>> {
        let mut faults = Vec::new();
        for entry in std::fs::read_dir(directory)
            .with_context(|| format!("reading {}", directory.display()))?
        {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                let text = std::fs::read_to_string(&path)?;
                let mut fault: Fault =
                    toml::from_str(&text).with_context(|| path.display().to_string())?;
                fault.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                faults.push(fault);
            }
        }
        faults.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(faults)
    }

    /// The scenarios of a directory that are named, by diagnosis (D15) or their own name; all
    /// where none is named.
    ///
    /// # Errors
    /// When one cannot be read, or there is none of those names.
    pub fn chosen(directory: &Path, names: &[String]) -> anyhow::Result<Vec<Fault>> {
        let mut faults = Fault::all(directory)?;
        faults.retain(|fault| {
            let is =
                |name: &String| *name == fault.name || name.eq_ignore_ascii_case(&fault.diagnosis);
            names.is_empty() || names.iter().any(is)
        });
        if faults.is_empty() {
            bail!("no such scenario in {}", directory.display());
        }
        Ok(faults)
    }

    /// Writes a workload directory of one side.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, side: &Side, directory: &Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(directory)?;
        let manifest = format!(
            "name = \"{}\"\ntitle = \"{}\"\n\n[defaults]\nclients = {}\nprotocol = \"{}\"\n\n\
             [sql]\nbefore_load = [\"schema.sql\"]\n\n[[script]]\nfile = \"script.sql\"\n",
            self.name, self.title, self.clients, self.protocol
        );
        std::fs::write(directory.join("workload.toml"), manifest)?;
        std::fs::write(directory.join("schema.sql"), format!("{}\n{}", self.schema, side.schema))?;
        let script = side.script.as_ref().unwrap_or(&self.script);
        std::fs::write(directory.join("script.sql"), script)?;
        Ok(())
    }
}
