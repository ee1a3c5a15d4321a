//! Values of the kernel for the length of one run: noted in the ledger of changes before they
//! are written, and brought back after it, also after a crash.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use walwright_catalog::{Entry, Profile};
use walwright_config::{ApplyError, ApplyPlan, MachineView, Restart, make_changes, undo_changes};
use walwright_server::Stop;
use walwright_store::Lab;
use walwright_store::ledger::{ChangeSet, Intent, Ledger, State};

use super::ExperimentError;

/// What the purpose of a run's set in the ledger begins with.
const PURPOSE: &str = "one run of ";

/// Writes the kernel's values for the runs of one bench.
#[derive(Debug)]
pub struct Kernel {
    ledger: Ledger,
    /// Tells its sets in the ledger from all others.
    purpose: String,
    root: PathBuf,
}

impl Kernel {
    /// For the bench called `name`.
    pub fn of(lab: &Lab, name: &str) -> Kernel {
        Kernel::below(Path::new("/"), lab, name)
    }

    /// The same for the machine whose files lie below `root`.
    pub fn below(root: &Path, lab: &Lab, name: &str) -> Kernel {
        Kernel {
            ledger: Ledger::of(lab),
            purpose: format!("{PURPOSE}{name}"),
            root: root.to_owned(),
        }
    }

    /// What writing these values would change; `None` where all are as wanted.
    ///
    /// # Errors
    /// When one of them cannot be written here, or the values are not the machine's own.
    pub(crate) fn intent(
        &self,
        values: &BTreeMap<String, String>,
    ) -> Result<Option<Intent>, ExperimentError> {
        self.unchanged()?;
        if values.is_empty() {
            return Ok(None);
        }
        let mut profile = Profile::default();
        for (name, value) in values {
            let entry = Entry::new(name, value, None);
            profile.set(entry.map_err(|error| ExperimentError::Kernel(error.to_string()))?);
        }
        let plan = ApplyPlan::of(&profile, None, Some(&MachineView::at(&self.root)));
        let not_written = plan.refused.iter().chain(&plan.by_hand).chain(&plan.skipped).next();
        if let Some(one) = not_written {
            return Err(ExperimentError::Kernel(format!("{}: {}", one.title, one.why)));
        }
        let intent = plan.intent(&self.purpose, None, &self.root);
        Ok((!intent.changes.is_empty()).then_some(intent))
    }

    /// Refuses to measure on what a killed run of another bench has left. Values that a run
    /// does not set bear on it too.
    fn unchanged(&self) -> Result<(), ExperimentError> {
        let sets = self.ledger.sets()?;
        let left = sets.iter().find(|set| {
            let intent = &set.intent;
            is_left(set)
                && intent.server.is_none()
                && intent.root == self.root
                && intent.purpose.starts_with(PURPOSE)
                && intent.purpose != self.purpose
        });
        match left {
            None => Ok(()),
            Some(ChangeSet { id, intent, .. }) => Err(ExperimentError::ChangesStand(format!(
                "{} was killed and left kernel values changed: resume it, or undo them with `walwright config rollback {id}`",
                intent.purpose
            ))),
        }
    }

    /// Writes values and reads them back. Gives the set in the ledger, if anything was
    /// changed.
    ///
    /// # Errors
    /// When one cannot be written; then nothing is changed, unless it is said that it is
    /// ([`ExperimentError::KernelLeft`]).
    pub async fn set(
        &self,
        values: &BTreeMap<String, String>,
        stop: &Stop,
    ) -> Result<Option<u64>, ExperimentError> {
        let Some(intent) = self.intent(values)? else { return Ok(None) };
        let made = make_changes(&self.ledger, None, intent, &mut Restart::Never, stop).await;
        made.map(|made| Some(made.id)).map_err(not_made)
    }

    /// Brings back what was before a set.
    ///
    /// # Errors
    /// When that fails; the set stays in the ledger, for `walwright config rollback`.
    pub async fn bring_back(&self, set: Option<u64>) -> Result<(), ExperimentError> {
        let failed = |error: String| ExperimentError::KernelLeft(error);
        let Some(set) = set else { return Ok(()) };
        let set = self.ledger.set(set).map_err(|error| failed(error.to_string()))?;
        let Some(set) = set else { return Ok(()) };
        if matches!(set.state, State::Undone { .. }) {
            return Err(ExperimentError::ChangesStand(format!(
                "someone has undone change set {}, values of the kernel, which a run still needed: that run does not count; resume to make it again",
                set.id
            )));
        }
        let undone = undo_changes(&self.ledger, &set, None, &mut Restart::Never).await;
        undone.map(drop).map_err(|error| failed(error.to_string()))
    }

    /// Brings back what a killed process of this bench left.
    ///
    /// # Errors
    /// When that fails.
    pub async fn recover(&self) -> Result<(), ExperimentError> {
        let sets =
            self.ledger.sets().map_err(|error| ExperimentError::KernelLeft(error.to_string()))?;
        for set in sets.iter().rev().filter(|set| set.intent.purpose == self.purpose) {
            if is_left(set) {
                self.bring_back(Some(set.id)).await?;
            }
        }
        Ok(())
    }
}

/// Whether what a set changed stands, and nobody who lives is at it.
fn is_left(set: &ChangeSet) -> bool {
    (set.state == State::Done && !set.is_in_progress()) || set.is_cut_short()
}

/// What no value is to blame for ends the work.
fn not_made(error: ApplyError) -> ExperimentError {
    match error {
        ApplyError::Stuck { what, why, .. } => {
            ExperimentError::KernelLeft(format!("{why} (after {what})"))
        }
        ApplyError::Ledger(error) => ExperimentError::Ledger(error),
        error @ ApplyError::Unfinished { .. } => ExperimentError::ChangesStand(error.to_string()),
        error => ExperimentError::Kernel(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const SWAPPINESS: &str = "proc/sys/vm/swappiness";

    /// A machine as files in a directory.
    fn machine() -> (tempfile::TempDir, Kernel) {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in [(SWAPPINESS, "60\n"), ("proc/sys/kernel/osrelease", "6.18.0\n")] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let lab = Lab::at(Some(dir.path().join("lab")));
        let kernel = Kernel::below(dir.path(), &lab, "test");
        (dir, kernel)
    }

    fn values(of: &[(&str, &str)]) -> BTreeMap<String, String> {
        of.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[tokio::test]
    async fn a_value_is_there_for_the_run_and_gone_after_it() {
        let (dir, kernel) = machine();
        let now = || fs::read_to_string(dir.path().join(SWAPPINESS)).unwrap().trim().to_owned();
        let set = kernel.set(&values(&[("vm.swappiness", "1")]), &Stop::new()).await.unwrap();
        assert_eq!((now().as_str(), set.is_some()), ("1", true));
        kernel.bring_back(set).await.unwrap();
        assert_eq!(now(), "60");
        let undone = kernel.bring_back(set).await.unwrap_err();
        assert!(undone.to_string().contains("someone has undone change set 1"), "{undone}");
        // What is as wanted is not written, and nothing is to be brought back.
        let same = kernel.set(&values(&[("vm.swappiness", "60")]), &Stop::new()).await.unwrap();
        assert_eq!(same, None);
        assert_eq!(kernel.set(&values(&[]), &Stop::new()).await.unwrap(), None);
    }

    #[tokio::test]
    async fn what_a_killed_process_left_is_brought_back() {
        let (dir, kernel) = machine();
        kernel.set(&values(&[("vm.swappiness", "1")]), &Stop::new()).await.unwrap();
        kernel.recover().await.unwrap();
        assert_eq!(fs::read_to_string(dir.path().join(SWAPPINESS)).unwrap().trim(), "60");
        kernel.recover().await.unwrap();
    }

    #[tokio::test]
    async fn what_a_killed_run_of_another_bench_left_is_not_built_on() {
        let (dir, kernel) = machine();
        let lab = Lab::at(Some(dir.path().join("lab")));
        let other = Kernel::below(dir.path(), &lab, "other");
        other.set(&values(&[("vm.swappiness", "1")]), &Stop::new()).await.unwrap();
        // Also where the run sets nothing, or just what was left.
        let nothing: &[(&str, &str)] = &[];
        for wanted in [nothing, &[("vm.swappiness", "1")]] {
            let refused = kernel.set(&values(wanted), &Stop::new()).await.unwrap_err();
            assert!(refused.is_of_the_lab());
            assert!(refused.to_string().contains("walwright config rollback 1"), "{refused}");
        }
        other.recover().await.unwrap();
        kernel.set(&values(&[("vm.swappiness", "1")]), &Stop::new()).await.unwrap();
    }

    #[tokio::test]
    async fn what_is_not_the_fault_of_a_value_ends_the_work() {
        let (dir, kernel) = machine();
        let wanted = values(&[("vm.swappiness", "1")]);
        let intent = kernel.intent(&wanted).unwrap().unwrap();
        let applied = Intent { purpose: "apply mine.env".to_owned(), ..intent };
        kernel.ledger.begin(applied).unwrap();
        let refused = kernel.set(&wanted, &Stop::new()).await.unwrap_err();
        assert!(matches!(refused, ExperimentError::ChangesStand(_)), "{refused}");
        assert!(refused.to_string().contains("walwright config rollback 1"), "{refused}");

        let path = dir.path().join("lab/changes.jsonl");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let refused = kernel.set(&wanted, &Stop::new()).await.unwrap_err();
        assert!(matches!(refused, ExperimentError::Ledger(_)), "{refused}");

        let text = || "x".to_owned();
        let left = not_made(ApplyError::Stuck { id: 1, what: text(), why: text() });
        assert!(matches!(left, ExperimentError::KernelLeft(_)) && left.is_of_the_lab());
        let refused = not_made(ApplyError::Refused(text()));
        assert!(matches!(refused, ExperimentError::Kernel(_)) && !refused.is_of_the_lab());
    }

    #[test]
    fn what_cannot_be_written_is_told_before_anything_is() {
        let (_dir, kernel) = machine();
        let why = |name: &str, value: &str| {
            kernel.intent(&values(&[(name, value)])).unwrap_err().to_string()
        };
        assert!(why("vm.nothing", "1").contains("vm.nothing"));
        assert!(why("vm.dirty_ratio", "10").contains("vm.dirty_ratio"), "it is not there");
        assert!(why("max_wal_size", "1GB").contains("max_wal_size"), "it is no kernel value");
    }
}
