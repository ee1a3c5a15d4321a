//! What others say to a server: a tuner by rules, and postgresqltuner where it is
//! installed.

use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::Value;

/// Relative difference from which a rule asks for a change.
const DIFFERS: f64 = 0.1;

/// A tuner by rules, from a file such as `bench/peers/rules.toml`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    rule: Vec<Rule>,
}

/// What one setting should be.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    setting: String,
    value: Option<String>,
    memory: Option<f64>,
    shared_buffers: Option<f64>,
    each_connection: Option<f64>,
    processors: Option<f64>,
    from_processors: Option<f64>,
    disk: Option<Disk>,
    least: Option<String>,
    most: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Disk {
    ssd: String,
    hdd: String,
}

/// What a rule knows of a machine. Sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    /// Memory.
    pub memory: f64,
    /// Processors.
    pub processors: f64,
    /// Whether its disks rotate.
    pub rotates: bool,
    /// `max_connections` of the server.
    pub connections: f64,
}

impl Machine {
    /// The machine and the connections of a record, as `walwright runs export` prints it.
    ///
    /// # Errors
    /// When the record does not tell memory or processors.
    pub fn of(record: &Value) -> anyhow::Result<Machine> {
        let number = |pointer: &str| record.pointer(pointer).and_then(Value::as_f64);
        let queue = record.pointer("/host/data_disk/queue/rotational").and_then(Value::as_str);
        Ok(Machine {
            memory: number("/host/memory_bytes").context("the record does not tell memory")?,
            processors: number("/host/processors").context("the record tells no processors")?,
            rotates: queue == Some("1"),
            connections: setting(record, "max_connections").unwrap_or(100.0),
        })
    }
}

impl Rules {
    /// Reads the rules.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn read(path: &Path) -> anyhow::Result<Rules> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        toml::from_str(&text).with_context(|| path.display().to_string())
    }

    /// What they would change on the server of a record.
    ///
    /// # Errors
    /// When the record does not tell the machine, or a rule has no value.
    pub fn advice(&self, record: &Value) -> anyhow::Result<Vec<String>> {
        let machine = Machine::of(record)?;
        let mut advice = Vec::new();
        for rule in &self.rule {
            let Some(wanted) = self.wanted(rule, &machine)? else { continue };
            let Some(is) = setting(record, &rule.setting) else { continue };
            if (wanted - is).abs() > DIFFERS * wanted.abs().max(is.abs()) {
                let (name, unit) = (&rule.setting, rule.is_size());
                advice.push(format!("{name} = {} (is {})", shown(wanted, unit), shown(is, unit)));
            }
        }
        Ok(advice)
    }

    fn wanted(&self, rule: &Rule, machine: &Machine) -> anyhow::Result<Option<f64>> {
        if rule.from_processors.is_some_and(|least| machine.processors < least) {
            return Ok(None);
        }
        let shared = || machine.memory * self.share_of_shared_buffers();
        let value = if let Some(text) = &rule.value {
            parsed(text)
        } else if let Some(share) = rule.memory {
            Some(share * machine.memory)
        } else if let Some(share) = rule.shared_buffers {
            Some(share * shared())
        } else if let Some(uses) = rule.each_connection {
            Some((machine.memory - shared()) / (uses * machine.connections))
        } else if let Some(share) = rule.processors {
            Some((share * machine.processors).ceil())
        } else if let Some(disk) = &rule.disk {
            parsed(if machine.rotates { &disk.hdd } else { &disk.ssd })
        } else {
            None
        };
        let Some(mut value) = value else { bail!("the rule of {} has no value", rule.setting) };
        if let Some(least) = rule.least.as_deref().and_then(parsed) {
            value = value.max(least);
        }
        if let Some(most) = rule.most.as_deref().and_then(parsed) {
            value = value.min(most);
        }
        Ok(Some(value))
    }

    fn share_of_shared_buffers(&self) -> f64 {
        let rule = self.rule.iter().find(|rule| rule.setting == "shared_buffers");
        rule.and_then(|rule| rule.memory).unwrap_or(0.25)
    }
}

impl Rule {
    fn is_size(&self) -> bool {
        let sized = |text: &String| text.ends_with('B');
        self.memory.or(self.shared_buffers).or(self.each_connection).is_some()
            || self.value.as_ref().is_some_and(sized)
    }
}

/// A setting of a record as a number; sizes in bytes.
fn setting(record: &Value, name: &str) -> Option<f64> {
    let settings = record["settings"].as_array()?;
    let setting = settings.iter().find(|setting| setting["name"] == name)?;
    let value: f64 = setting["value"].as_str()?.parse().ok()?;
    let unit = match setting["unit"].as_str() {
        Some("8kB") => 8192.0,
        Some("kB") => 1024.0,
        Some("MB") => 1_048_576.0,
        _ => 1.0,
    };
    Some(value * unit)
}

/// `8GB` in bytes, `0.9` as it is.
fn parsed(text: &str) -> Option<f64> {
    let units = [("kB", 1024.0), ("MB", 1_048_576.0), ("GB", 1_073_741_824.0)];
    for (unit, bytes) in units {
        if let Some(number) = text.strip_suffix(unit) {
            return number.parse::<f64>().ok().map(|number| number * bytes);
        }
    }
    text.parse().ok()
}

fn shown(value: f64, size: bool) -> String {
    match value {
        _ if !size => format!("{value}"),
        bytes if bytes >= 1_048_576.0 => format!("{:.0}MB", bytes / 1_048_576.0),
        bytes => format!("{:.0}kB", bytes / 1024.0),
    }
}

/// What postgresqltuner says to the server on a unix socket in `directory`: its bad marks,
/// warnings and advice; `None` where it is not installed.
///
/// # Errors
/// When it fails.
pub fn postgresqltuner(program: &Path, directory: &str) -> anyhow::Result<Option<Vec<String>>> {
    let mut command = Command::new(program);
    command.args(["--user=postgres", "--database=postgres"]).arg(format!("--host={directory}"));
    // Its colours are those of Term::ANSIColor, which this switches off.
    command.env("ANSI_COLORS_DISABLED", "1");
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).context("starting postgresqltuner"),
    };
    // Bad marks go to standard error, all else to standard output.
    let text = [&output.stderr, &output.stdout].map(|out| String::from_utf8_lossy(out)).concat();
    if !output.status.success() {
        bail!("postgresqltuner ended with {}: {text}", output.status);
    }
    Ok(Some(advice_of(&text)))
}

/// The lines of its report that ask for something, each once.
fn advice_of(report: &str) -> Vec<String> {
    let mut advice: Vec<String> = Vec::new();
    for line in report.lines().map(str::trim) {
        let told = ["[BAD]", "[WARN]", "[URGENT]", "[HIGH]", "[MEDIUM]", "[LOW]"]
            .into_iter()
            .find_map(|mark| line.strip_prefix(mark))
            .map(str::trim);
        if let Some(told) = told.filter(|told| !told.is_empty())
            && !advice.iter().any(|known| known == told)
        {
            advice.push(told.to_owned());
        }
    }
    advice
}

/// The first advice that names one of these words, each as whole words and in any case.
pub fn mention<'a>(advice: &'a [String], words: &[String]) -> Option<&'a str> {
    let names = |line: &String| words.iter().any(|word| holds(line, word));
    advice.iter().find(|line| names(line)).map(String::as_str)
}

fn holds(line: &str, word: &str) -> bool {
    let (line, word) = (line.to_lowercase(), word.to_lowercase());
    let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(&word).any(|(at, found)| {
        !part(line[..at].chars().next_back()) && !part(line[at + found.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rules() -> Rules {
        toml::from_str(include_str!("../peers/rules.toml")).unwrap()
    }

    fn record(max_wal_size: &str) -> Value {
        let setting = |name: &str, value: &str, unit: Option<&str>| json!({ "name": name, "value": value, "unit": unit });
        json!({
            "host": {
                "memory_bytes": 17_179_869_184_u64,
                "processors": 8,
                "data_disk": { "queue": { "rotational": "0" } },
            },
            "settings": [
                setting("max_connections", "100", None),
                setting("shared_buffers", "524288", Some("8kB")),
                setting("max_wal_size", max_wal_size, Some("MB")),
                setting("random_page_cost", "1.1", None),
                setting("work_mem", "4096", Some("kB")),
                setting("max_parallel_workers", "8", None),
            ],
        })
    }

    #[test]
    fn only_what_differs_is_advised() {
        let advice = rules().advice(&record("32")).unwrap();
        // 12 GB that shared_buffers leaves, for three uses of 100 connections.
        assert_eq!(advice, ["work_mem = 41MB (is 4MB)", "max_wal_size = 8192MB (is 32MB)"]);
        assert_eq!(rules().advice(&record("8192")).unwrap().len(), 1);
    }

    #[test]
    fn marks_and_advice_are_read_once_each() {
        let report = "=====  OS information  =====\n[INFO]     OS: linux\n[BAD]      Swap is used\n\
            [OK]       fine\n=====  Configuration advice  =====\n-----  sysctl  -----\n\
            [MEDIUM] Swap is used\n[URGENT] fsync is off: data may be lost\n";
        assert_eq!(advice_of(report), ["Swap is used", "fsync is off: data may be lost"]);
    }

    #[test]
    fn words_are_whole() {
        let advice = ["set block_size".to_owned(), "enable fsync!".to_owned()];
        let words = |word: &str| vec![word.to_owned()];
        assert_eq!(mention(&advice, &words("lock")), None);
        assert_eq!(mention(&advice, &words("Fsync")), Some("enable fsync!"));
        assert_eq!(mention(&advice, &words("size")), None);
    }
}
