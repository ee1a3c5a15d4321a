//! The order in which values of one block device are written.
//!
//! Linux sets `nr_requests` anew whenever it switches the scheduler of a disk
//! (`blk_mq_init_sched`). So the scheduler goes first, also on the way back, and what
//! `nr_requests` was is noted beside a switch, though nobody wanted it changed.

use std::path::{Path, PathBuf};

use walwright_store::ledger::{Change, Intent};

use super::kernel_file::read_kernel;

const SCHEDULER: &str = "queue/scheduler";
const REQUESTS: &str = "queue/nr_requests";

/// The changes with schedulers first and, beside each of them, what `nr_requests` is.
pub(super) fn scheduler_first(mut intent: Intent) -> Intent {
    let noted: Vec<Change> = intent.changes.iter().filter_map(|c| noted(c, &intent)).collect();
    intent.changes.extend(noted);
    // Stable: all else stays in the order in which it was planned.
    intent.changes.sort_by_key(|change| !is_switch(change));
    intent
}

/// `nr_requests` of a disk whose scheduler is switched; `None` where the set changes it
/// itself, or the disk has none.
fn noted(change: &Change, intent: &Intent) -> Option<Change> {
    let path = requests_beside(change)?;
    if intent.changes.iter().any(|other| file(other) == Some(path.as_path())) {
        return None;
    }
    let held = read_kernel(&path).ok()?;
    Some(Change::Kernel {
        name: REQUESTS.to_owned(),
        restore: Some((path.clone(), held.clone())),
        path,
        before: held.clone(),
        after: held,
    })
}

/// Whether the change only notes what its own file held, and writes nothing: under the new
/// scheduler a disk may refuse what it had under the old one.
pub(super) fn is_only_noted(change: &Change) -> bool {
    matches!(change, Change::Kernel { path, restore: Some((other, _)), .. } if other == path)
}

/// The switch of the scheduler that sets the change's file anew; `None` of any other file.
pub(super) fn switch_of<'a>(change: &Change, all: &'a [Change]) -> Option<&'a Change> {
    let path = file(change)?;
    all.iter().find(|other| sets_anew(other, path))
}

/// Whether the change has the kernel set another file anew.
pub(super) fn sets_anew(change: &Change, path: &Path) -> bool {
    requests_beside(change).is_some_and(|requests| requests == path)
}

pub(super) fn is_switch(change: &Change) -> bool {
    matches!(change, Change::Kernel { name, .. } if name == SCHEDULER)
}

fn requests_beside(change: &Change) -> Option<PathBuf> {
    file(change).filter(|_| is_switch(change)).map(|path| path.with_file_name("nr_requests"))
}

fn file(change: &Change) -> Option<&Path> {
    match change {
        Change::Kernel { path, .. } => Some(path),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use walwright_catalog::Profile;

    use super::*;
    use crate::tree::Tree;
    use crate::{ApplyPlan, MachineView, Made, Restart, Undone, make_changes, undo_changes};
    use walwright_server::Stop;
    use walwright_store::Lab;
    use walwright_store::ledger::Ledger;

    fn plan(tree: &Tree, text: &str) -> ApplyPlan {
        tree.file("proc/self/mountinfo", "40 22 8:0 / / rw - ext4 /dev/sda rw\n");
        let machine =
            MachineView::at(tree.root()).with_server(Some(Path::new("/data")), None, None);
        ApplyPlan::of(&Profile::from_config_env(text.as_bytes()).unwrap(), None, Some(&machine))
    }

    fn names(changes: &[Change]) -> Vec<&str> {
        changes.iter().map(Change::name).collect()
    }

    fn held(tree: &Tree, attribute: &str) -> String {
        read_kernel(&tree.root().join("sys/block/sda/queue").join(attribute)).unwrap()
    }

    fn applied(tree: &Tree, ledger: &Ledger, text: &str) -> Made {
        let intent = plan(tree, text).intent("test", None, tree.root());
        let (stop, mut never) = (Stop::new(), Restart::Never);
        let made = make_changes(ledger, None, intent, &mut never, &stop);
        tokio::runtime::Runtime::new().unwrap().block_on(made).unwrap()
    }

    fn undone(ledger: &Ledger, id: u64) -> Undone {
        let set = ledger.set(id).unwrap().unwrap();
        let mut never = Restart::Never;
        let undone = undo_changes(ledger, &set, None, &mut never);
        tokio::runtime::Runtime::new().unwrap().block_on(undone).unwrap()
    }

    #[test]
    fn schedulers_are_switched_first_and_nr_requests_noted_beside_them() {
        let tree = Tree::new();
        tree.disk("sda", "8:0");
        let both = "DATA_NR_REQUESTS=64\nDATA_READ_AHEAD_KB=64\nDATA_SCHEDULER=none\n";
        let intent = scheduler_first(plan(&tree, both).intent("test", None, tree.root()));
        assert_eq!(names(&intent.changes), [SCHEDULER, REQUESTS, "queue/read_ahead_kb"]);
        let one =
            scheduler_first(plan(&tree, "DATA_READ_AHEAD_KB=64\nDATA_SCHEDULER=none\n").intent(
                "test",
                None,
                tree.root(),
            ));
        assert_eq!(names(&one.changes), [SCHEDULER, "queue/read_ahead_kb", REQUESTS]);
        assert!(is_only_noted(&one.changes[2]) && !intent.changes.iter().any(is_only_noted));
        // What is as wanted before the switch is not after it.
        let kept = plan(&tree, "DATA_NR_REQUESTS=256\nDATA_SCHEDULER=none\n");
        assert_eq!((kept.changes.len(), kept.same.len()), (2, 0));
        let alone = plan(&tree, "DATA_NR_REQUESTS=256\n");
        assert_eq!((alone.changes.len(), alone.same.len()), (0, 1));
    }

    #[test]
    fn what_a_switch_took_away_comes_back_with_the_scheduler() {
        let tree = Tree::new();
        tree.disk("sda", "8:0");
        tree.file("sys/block/sda/queue/scheduler", "mq-deadline\n");
        let lab = tempfile::tempdir().unwrap();
        let ledger = Ledger::of(&Lab::at(Some(lab.path().join("lab"))));
        let requests = tree.root().join("sys/block/sda/queue/nr_requests");
        for text in ["DATA_SCHEDULER=none\n", "DATA_SCHEDULER=none\nDATA_NR_REQUESTS=64\n"] {
            let made = applied(&tree, &ledger, text);
            assert_eq!(held(&tree, "scheduler"), "none");
            // As the kernel does when the scheduler is switched.
            fs::write(&requests, "1023\n").unwrap();
            let undone = undone(&ledger, made.id);
            assert_eq!(undone.restored, [SCHEDULER, REQUESTS]);
            assert_eq!(undone.notes, [""; 0]);
            assert_eq!(held(&tree, "scheduler"), "mq-deadline");
            assert_eq!(held(&tree, "nr_requests"), "256");
        }
        // A scheduler that someone else has chosen since stays, and with it its requests.
        let made = applied(&tree, &ledger, "DATA_SCHEDULER=none\n");
        tree.file("sys/block/sda/queue/scheduler", "kyber\n");
        fs::write(&requests, "512\n").unwrap();
        let undone = undone(&ledger, made.id);
        assert_eq!(undone.restored, [""; 0]);
        assert_eq!(undone.notes.len(), 2, "{:?}", undone.notes);
        assert_eq!(held(&tree, "nr_requests"), "512");
    }
}
