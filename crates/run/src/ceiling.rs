//! What the load driver itself can do on this machine, measured once and kept.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use walwright_driver::{Calibration, LoadError, LoadPlan, calibrate};
use walwright_store::write_private;

/// Name of the file inside the lab.
const FILE: &str = "ceilings.json";
/// Time a measurement takes.
const LENGTH: Duration = Duration::from_millis(700);

/// CPU the driver takes for one transaction, in seconds, by what was measured.
/// `None` where the scripts cannot run without a real server.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
struct Kept(BTreeMap<String, Option<f64>>);

/// The driver's ceiling with the scripts, protocol, mode and threads of `plan` in
/// transactions a second: the kept one, or measured now and kept. `None` where it
/// cannot be measured.
///
/// # Errors
/// When the driver cannot be started.
pub(crate) fn ceiling(lab: &Path, plan: &LoadPlan) -> Result<Option<f64>, LoadError> {
    let file = lab.join(FILE);
    let key = key(plan);
    let cpu = match read(&file).0.get(&key) {
        Some(kept) => *kept,
        None => measure(lab, plan)?.map(|m| m.cpu_per_transaction.as_secs_f64()),
    };
    Ok(cpu.map(|cpu| threads(plan) / cpu))
}

/// Measures anew and keeps the result.
///
/// # Errors
/// As [`ceiling`].
pub fn measure(lab: &Path, plan: &LoadPlan) -> Result<Option<Calibration>, LoadError> {
    let measured = calibrate(plan, LENGTH)?;
    let file = lab.join(FILE);
    let mut kept = read(&file);
    kept.0.insert(key(plan), measured.map(|m| m.cpu_per_transaction.as_secs_f64()));
    write(&file, &kept);
    Ok(measured)
}

fn threads(plan: &LoadPlan) -> f64 {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    (plan.threads.min(plan.clients) as usize).min(processors) as f64
}

/// What makes two measurements the same: version and kind of build, processor, kernel, scripts and how
/// they travel. The hash may change with the compiler, which only costs a measurement.
fn key(plan: &LoadPlan) -> String {
    let mut hasher = DefaultHasher::new();
    for script in &plan.program.scripts {
        format!("{:?}", script.commands).hash(&mut hasher);
        for statement in &script.statements {
            statement.text_extended.hash(&mut hasher);
            format!("{:?}", statement.request).hash(&mut hasher);
        }
        script.weight.hash(&mut hasher);
    }
    for file in ["/proc/cpuinfo", "/proc/sys/kernel/osrelease"] {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        // Only what names the model: clock speeds change from one reading to the next.
        let named = text.lines().find(|line| line.starts_with("model name"));
        named.unwrap_or_else(|| text.lines().next().unwrap_or("")).hash(&mut hasher);
    }
    plan.clients.min(64).hash(&mut hasher);
    cfg!(debug_assertions).hash(&mut hasher);
    format!(
        "{} {:?} {:?} {:016x}",
        env!("CARGO_PKG_VERSION"),
        plan.protocol,
        plan.mode,
        hasher.finish()
    )
}

fn read(file: &Path) -> Kept {
    // A file that cannot be read costs a measurement, no more.
    std::fs::read(file).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

/// Where it cannot be kept, the next run measures again.
fn write(file: &Path, kept: &Kept) {
    let written = serde_json::to_vec_pretty(kept)
        .map_err(std::io::Error::other)
        .and_then(|text| write_private(file, &text));
    if let Err(error) = written {
        tracing::debug!(%error, "the driver's ceiling could not be kept");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use walwright_driver::Mode;
    use walwright_wire::{ConnectOptions, Host};
    use walwright_workload::{Settings, Workload};

    use super::*;

    #[test]
    fn a_ceiling_is_measured_once_and_another_mode_is_another_ceiling() {
        let lab = tempfile::tempdir().unwrap();
        let workload = Workload::builtin("tpcb").unwrap();
        let program = workload.plan(&Settings::of(&workload)).unwrap().program;
        let nowhere = ConnectOptions::new(Host::Unix("/nonexistent".into()), 1, "u", "d");
        let mut plan = LoadPlan::new(Arc::new(program), nowhere);
        plan.clients = 4;
        let first = ceiling(lab.path(), &plan).unwrap().unwrap();
        assert_eq!(ceiling(lab.path(), &plan).unwrap(), Some(first));
        plan.mode = Mode::Lean;
        let lean = ceiling(lab.path(), &plan).unwrap().unwrap();
        assert!(lean > first, "one round trip a transaction must cost less: {lean} {first}");
        assert_eq!(read(&lab.path().join(FILE)).0.len(), 2);
    }
}
