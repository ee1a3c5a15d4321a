//! Values of the kernel as parameters of a search: which, from where, and whether this
//! machine takes them.
//!
//! Writing and bringing back is the bench's, through the ledger of changes; here they
//! are only chosen and tried.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use walwright_catalog::{Apply, DurabilityClass, Parameter, parameters};
use walwright_config::{MachineView, Reading};
use walwright_experiment::{ExperimentError, Kernel};
use walwright_search::{Dimension, Domain};
use walwright_server::Stop;

use super::layer::{Layer, is_of_kernel};
use super::probe::POSITIONS;
use super::{Dropped, TuneError, TunePlan, words};

/// Values that decide whether programs get memory at all, not how fast they write: consent
/// to the kernel as a whole does not mean them.
const BY_NAME_ALONE: [&str; 2] = ["vm.overcommit_memory", "vm.overcommit_ratio"];
/// The kernel follows one of each pair and sets the other to 0. Bytes are finer, so they
/// are searched unless only the other is named.
const PAIRS: [(&str, &str); 2] = [
    ("vm.dirty_bytes", "vm.dirty_ratio"),
    ("vm.dirty_background_bytes", "vm.dirty_background_ratio"),
];

/// Whether a search may have it, consent given.
pub(super) fn is_candidate(of: &Parameter) -> bool {
    is_of_kernel(of)
        && of.search.is_some()
        && of.class == DurabilityClass::E
        && of.apply(u32::MAX) == Apply::Live
}

/// The values that were consented to, each from what the machine below `root` has now, and
/// those that are not searched.
pub(super) fn dimensions(plan: &TunePlan, root: &Path) -> (Vec<Dimension>, Vec<Dropped>) {
    let (mut dimensions, mut dropped) = (Vec::new(), Vec::new());
    let machine = MachineView::at(root);
    for of in parameters().iter().filter(|of| is_candidate(of)) {
        let name = of.name.as_str();
        let consented = plan.consents(name) || plan.consents_to(Layer::Kernel);
        if !consented || !plan.lets_search(name, Layer::Kernel) {
            continue;
        }
        match dimension(plan, of, &machine, root) {
            Ok(dimension) => dimensions.push(dimension),
            Err(why) => dropped.push(Dropped::of(name, why)),
        }
    }
    (dimensions, dropped)
}

fn dimension(
    plan: &TunePlan,
    of: &'static Parameter,
    machine: &MachineView,
    root: &Path,
) -> Result<Dimension, String> {
    let name = of.name.as_str();
    if of.per_disk {
        return Err("it is set for each disk, which a tune does not search".to_owned());
    }
    if BY_NAME_ALONE.contains(&name) && !plan.consents(name) {
        return Err(format!(
            "it decides whether programs get memory, not how fast they write; --consent {name} searches it anyway"
        ));
    }
    if let Some(other) = preferred(plan, name) {
        return Err(format!("{other} is searched, and the kernel follows only one of the two"));
    }
    if name == "vm.swappiness" && !has_swap(root) {
        return Err("this machine has no swap".to_owned());
    }
    let found = machine.read(of, None).into_iter().next();
    let home = match found.map(|found| found.reading) {
        Some(Reading::Value(value)) => value,
        Some(reading) => return Err(reading.to_string()),
        None => return Err("this machine does not show it".to_owned()),
    };
    let mut dimension = Dimension::at_home(of, &home, None).map_err(|error| error.to_string())?;
    // The kernel refuses a 0 that only stands for the other of a pair; where it stands
    // there now, having it means writing nothing.
    if let Domain::Range(range) = &mut dimension.domain
        && PAIRS.iter().any(|(bytes, _)| *bytes == name)
        && dimension.home != "0"
    {
        range.special.retain(|special| *special != 0.0);
    }
    Ok(dimension)
}

/// The other one of a pair, where it is to be searched instead.
fn preferred(plan: &TunePlan, name: &str) -> Option<&'static str> {
    let named = |name: &str| {
        plan.consents(name) || plan.only.iter().any(|only| only.eq_ignore_ascii_case(name))
    };
    PAIRS.iter().find_map(|(bytes, ratio)| {
        let ratio_alone = named(ratio) && !named(bytes);
        match name {
            name if name == *bytes && ratio_alone => Some(*ratio),
            name if name == *ratio && !ratio_alone => Some(*bytes),
            _ => None,
        }
    })
}

fn has_swap(root: &Path) -> bool {
    // A line of names, then one for each swap space.
    fs::read_to_string(root.join("proc/swaps")).is_ok_and(|text| text.lines().nth(1).is_some())
}

/// Writes values of each dimension, reads them back and restores what was. Gives those that
/// this machine takes, and those that it does not.
pub(super) async fn probe(
    kernel: &Kernel,
    mut dimensions: Vec<Dimension>,
    stop: &Stop,
) -> Result<(Vec<Dimension>, Vec<Dropped>), TuneError> {
    let mut dropped = Vec::new();
    for position in POSITIONS {
        let mut left = Vec::new();
        for dimension in dimensions {
            let value = dimension.at(position);
            let written = BTreeMap::from([(dimension.name.clone(), value.clone())]);
            match kernel.set(&written, stop).await {
                Ok(set) => {
                    kernel.bring_back(set).await?;
                    left.push(dimension);
                }
                Err(_) if stop.is_requested() => return Err(TuneError::Stopped),
                Err(ExperimentError::Kernel(why)) => dropped.push(Dropped::held_back(
                    dimension.name,
                    format!("{value} cannot be written here: {}", words::reason(&why)),
                )),
                Err(error) => return Err(error.into()),
            }
        }
        dimensions = left;
    }
    Ok((dimensions, dropped))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::plan;
    use walwright_store::Lab;

    /// A machine as files in a directory.
    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    const USUAL: [(&str, &str); 8] = [
        ("proc/sys/kernel/osrelease", "6.18.0\n"),
        ("proc/swaps", "Filename Type Size\n"),
        ("proc/sys/vm/swappiness", "60\n"),
        ("proc/sys/vm/dirty_bytes", "0\n"),
        ("proc/sys/vm/dirty_ratio", "20\n"),
        ("proc/sys/vm/dirty_background_bytes", "67108864\n"),
        ("proc/sys/vm/dirty_background_ratio", "0\n"),
        ("proc/sys/vm/overcommit_memory", "0\n"),
    ];

    fn with(consent: &[&str]) -> TunePlan {
        let consent = consent.iter().map(|name| (*name).to_owned()).collect();
        TunePlan { consent, ..plan() }
    }

    fn names(dimensions: &[Dimension]) -> Vec<&str> {
        dimensions.iter().map(|dimension| dimension.name.as_str()).collect()
    }

    #[test]
    fn only_what_is_consented_to_is_searched_from_what_the_machine_has() {
        let dir = machine(&USUAL);
        assert_eq!(dimensions(&plan(), dir.path()), (Vec::new(), Vec::new()));
        let (all, dropped) = dimensions(&with(&["kernel"]), dir.path());
        assert_eq!(names(&all), ["vm.dirty_background_bytes", "vm.dirty_bytes"]);
        assert_eq!([&*all[0].home, &*all[1].home], ["64MB", "0"]);
        let special = |dimension: &Dimension| match &dimension.domain {
            Domain::Range(range) => range.special.clone(),
            Domain::Words(_) => panic!("a number"),
        };
        assert_eq!((special(&all[0]), special(&all[1])), (vec![], vec![0.0]));
        let why = |name: &str| &dropped.iter().find(|d| d.name == name).unwrap().why;
        assert!(why("vm.swappiness").contains("no swap"));
        assert!(why("vm.dirty_ratio").contains("vm.dirty_bytes is searched"));
        assert!(why("vm.overcommit_memory").contains("--consent vm.overcommit_memory"));
        assert!(why("vm.dirty_expire_centisecs").contains("not present"));
        assert!(why("queue/nr_requests").contains("each disk"));
    }

    #[test]
    fn consent_by_name_means_that_value_alone() {
        let dir = machine(&USUAL);
        let (one, dropped) = dimensions(&with(&["vm.dirty_ratio"]), dir.path());
        assert_eq!((names(&one), dropped.len()), (vec!["vm.dirty_ratio"], 0));
        let rather = with(&["kernel", "vm.dirty_ratio"]);
        let (rather, _) = dimensions(&rather, dir.path());
        assert_eq!(names(&rather), ["vm.dirty_background_bytes", "vm.dirty_ratio"]);
        let both = with(&["vm.dirty_ratio", "vm.dirty_bytes"]);
        assert_eq!(names(&dimensions(&both, dir.path()).0), ["vm.dirty_bytes"]);
        let other = TunePlan { only: vec!["commit_delay".to_owned()], ..with(&["kernel"]) };
        assert_eq!(dimensions(&other, dir.path()).0, Vec::new());
    }

    #[tokio::test]
    async fn what_cannot_be_written_is_not_searched_and_nothing_stays_changed() {
        let dir = machine(&USUAL);
        let lab = Lab::at(Some(dir.path().join("lab")));
        let kernel = Kernel::below(dir.path(), &lab, "test");
        let (found, _) = dimensions(&with(&["kernel"]), dir.path());
        fs::remove_file(dir.path().join("proc/sys/vm/dirty_bytes")).unwrap();
        let (left, dropped) = probe(&kernel, found, &Stop::new()).await.unwrap();
        assert_eq!(names(&left), ["vm.dirty_background_bytes"]);
        assert!(dropped[0].why.contains("cannot be written here"), "{}", dropped[0].why);
        let now = fs::read_to_string(dir.path().join("proc/sys/vm/dirty_background_bytes"));
        assert_eq!(now.unwrap().trim(), "67108864");
    }
}
