//! Which parameters are searched, and why others are not.

use std::collections::BTreeMap;

use walwright_catalog::{Apply, DurabilityClass, Kind, Parameter, parameter, parameters};
use walwright_search::{Dimension, Domain};
use walwright_workload::script::closest;

use super::layer::{self, Layer};
use super::schema_part::SEARCHED;
use super::{Dropped, TuneError, TunePlan, kernel, schema};

/// Settings that price or read plans of large queries, or that only maintenance uses: a
/// load of short writes neither gains nor loses by them, and each would cost the search
/// measurements. They are searched when the baseline sets them, the diagnosis names
/// them, or a person asks for them.
const NOT_OF_WRITES: [&str; 13] = [
    "work_mem",
    "hash_mem_multiplier",
    "maintenance_work_mem",
    "random_page_cost",
    "effective_io_concurrency",
    "maintenance_io_concurrency",
    "io_workers",
    "io_combine_limit",
    "max_parallel_workers_per_gather",
    "max_parallel_maintenance_workers",
    "jit_above_cost",
    "vacuum_buffer_usage_limit",
    "autovacuum_max_workers",
];
/// Share of the free disk that WAL may be let to take.
const WAL_SHARE: f64 = 1.0 / 3.0;

/// The machine and version a search is for.
pub(super) struct Surroundings {
    /// Major version.
    pub major: u32,
    /// Memory, where it is known.
    pub memory: Option<f64>,
    /// Free bytes on the disk of the clusters.
    pub free_disk: Option<f64>,
}

/// The dimensions of a search, and what was left out.
///
/// # Errors
/// When a person asks for what is never searched.
pub(super) fn dimensions(
    plan: &TunePlan,
    surroundings: &Surroundings,
    hints: &BTreeMap<String, String>,
) -> Result<(Vec<Dimension>, Vec<Dropped>), TuneError> {
    refuse(plan)?;
    let asked = |name: &str| plan.only.iter().any(|only| only.eq_ignore_ascii_case(name));
    let set = |name: &str| plan.settings.keys().any(|key| key.eq_ignore_ascii_case(name));
    let (mut dimensions, mut dropped) = (Vec::new(), Vec::new());
    for of in parameters().iter().filter(|p| p.is_in(surroundings.major)) {
        let name = of.name.as_str();
        if !is_setting(of, surroundings.major) || (!plan.only.is_empty() && !asked(name)) {
            continue;
        }
        if of.class == DurabilityClass::D && plan.consents(name) {
            dimensions.extend(weaker(of, surroundings.major));
            continue;
        }
        let searched =
            of.search.is_some() && matches!(of.class, DurabilityClass::S | DurabilityClass::T);
        if !searched {
            continue;
        }
        let wanted = asked(name) || set(name) || hints.contains_key(name);
        if NOT_OF_WRITES.contains(&name) && !wanted {
            let why = "writes rarely use it; --only searches it anyway";
            dropped.push(Dropped::of(name, why));
            continue;
        }
        match Dimension::of(of, surroundings.major, surroundings.memory) {
            Ok(mut dimension) => {
                if name == "max_wal_size" {
                    bound_by_disk(&mut dimension, surroundings.free_disk);
                }
                let hint = hints.get(name).and_then(|hint| dimension.nearest(hint).ok());
                dimension.trial = hint.filter(|hint| *hint != dimension.home);
                dimensions.push(dimension);
            }
            Err(why) => dropped.push(Dropped::held_back(name, why.to_string())),
        }
    }
    // What is not a setting is found on the machine and in the baseline's record.
    for name in plan.only.iter().filter(|name| Layer::meant(name) == Layer::Setting) {
        if !dimensions.iter().any(|dimension| dimension.name.eq_ignore_ascii_case(name)) {
            return Err(TuneError::Asked(format!(
                "{name} cannot be searched: it has no range in the catalogue, is not in this version, or needs --consent {name}"
            )));
        }
    }
    Ok((dimensions, dropped))
}

/// Whether a server takes a new value of it at the latest with a restart.
fn is_setting(of: &Parameter, major: u32) -> bool {
    of.is_setting() && matches!(of.apply(major), Apply::Session | Apply::Reload | Apply::Restart)
}

/// What can corrupt is refused by name, and so is consent that means nothing.
fn refuse(plan: &TunePlan) -> Result<(), TuneError> {
    for (name, value) in &plan.settings {
        let Some(parameter) = parameter(name) else { continue };
        let read = parameter.read(value);
        if let Err(why) = read {
            return Err(TuneError::Asked(format!("{name}: {why}")));
        }
        if parameter.class == DurabilityClass::X && parameter.class_of(value) == DurabilityClass::X
        {
            return Err(TuneError::Asked(format!(
                "no server with {name} = {value} is tuned: a crash can corrupt its cluster"
            )));
        }
    }
    let names_kernel = plan.only.iter().any(|name| Layer::named(name) == Some(Layer::Kernel));
    let consents = plan.consent.iter().any(|name| Layer::meant(name) == Layer::Kernel);
    if names_kernel && !consents {
        return Err(TuneError::Asked(
            "values of the kernel affect every process on this machine: --consent kernel lets them be searched; they are restored after each run"
                .to_owned(),
        ));
    }
    let names = plan.consent.iter().chain(&plan.only);
    for name in names.filter(|name| Layer::named(name).is_none()) {
        let of = parameter(name);
        if let Some(of) = of.filter(|of| layer::is_of_kernel(of)) {
            if !kernel::is_candidate(of) {
                return Err(TuneError::Asked(format!(
                    "{name} cannot be searched: the catalogue has no range for it, or it is not written while the machine runs"
                )));
            }
            if !plan.consents(name) && !plan.consents_to(Layer::Kernel) {
                return Err(TuneError::Asked(format!(
                    "{name} affects every process on this machine: --consent {name} lets it be searched; it is restored after each run"
                )));
            }
        }
        match of.map(|p| p.class) {
            Some(DurabilityClass::X) => {
                return Err(TuneError::Asked(format!(
                    "{name} is never tuned: a crash with it switched off can corrupt the cluster"
                )));
            }
            Some(_) => {}
            None => {
                let known = parameters().iter().map(|parameter| parameter.name.as_str());
                let meant = closest(name, known.chain(["kernel", "schema"]))
                    .map_or_else(String::new, |near| format!(" (did you mean {near}?)"));
                return Err(TuneError::Asked(format!(
                    "the catalogue has no parameter called {name}{meant}; besides parameters there are the layers kernel and schema"
                )));
            }
        }
    }
    schema_as_a_whole(plan)
}

/// Parts of the schema are named by the data that a load finds, so consent is to all of it.
fn schema_as_a_whole(plan: &TunePlan) -> Result<(), TuneError> {
    let all = plan.consent.iter().chain(&plan.only);
    let meant: Vec<&String> = all.filter(|name| Layer::meant(name) == Layer::Schema).collect();
    for name in meant.iter().filter(|name| Layer::named(name).is_none()) {
        if !schema::is_searched(name) {
            return Err(TuneError::Asked(format!(
                "{name} cannot be searched: of the schema, a tune searches {} of tables and the set of indexes",
                SEARCHED
            )));
        }
    }
    if !meant.is_empty() && !plan.consents_to(Layer::Schema) {
        return Err(TuneError::Asked(
            "the schema is searched with --consent schema: tables are rewritten and indexes left out, in restored data alone"
                .to_owned(),
        ));
    }
    Ok(())
}

/// The dimension of a setting that may lower durability: its default and what is weaker.
fn weaker(of: &Parameter, major: u32) -> Option<Dimension> {
    if !matches!(of.kind, Kind::Enum | Kind::Bool) || of.weaker.is_empty() {
        return None;
    }
    let home = of.read(of.default(major)?).ok()?.to_string();
    let mut words = vec![home.clone()];
    words.extend(of.weaker.keys().cloned());
    Some(Dimension {
        name: of.name.clone(),
        group: of.layer.clone(),
        domain: Domain::Words(words),
        home,
        trial: of.weaker.contains_key("off").then(|| "off".to_owned()),
        restart: of.apply(major) == Apply::Restart,
    })
}

fn bound_by_disk(dimension: &mut Dimension, free: Option<f64>) {
    let (Domain::Range(range), Some(free)) = (&mut dimension.domain, free) else { return };
    // Megabytes, the parameter's unit.
    let most = (WAL_SHARE * free / 1_048_576.0).floor();
    range.high = range.high.min(most.max(2.0 * range.low));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::plan;

    fn surroundings() -> Surroundings {
        Surroundings { major: 18, memory: Some(8e9), free_disk: Some(30e9) }
    }

    fn names(plan: &TunePlan) -> Vec<String> {
        let (dimensions, _) = dimensions(plan, &surroundings(), &BTreeMap::new()).unwrap();
        dimensions.into_iter().map(|dimension| dimension.name).collect()
    }

    #[test]
    fn durability_is_searched_only_by_consent_and_corruption_never() {
        let free = names(&plan());
        assert!(free.contains(&"commit_delay".to_owned()));
        for never in ["synchronous_commit", "fsync", "full_page_writes", "wal_level", "autovacuum"]
        {
            assert!(!free.contains(&never.to_owned()), "{never}");
        }
        let consented = TunePlan { consent: vec!["synchronous_commit".to_owned()], ..plan() };
        assert!(names(&consented).contains(&"synchronous_commit".to_owned()));
        let only = TunePlan { only: vec!["commit_delay".to_owned()], ..consented };
        assert_eq!(names(&only), ["commit_delay"], "and no others");
        for wrong in ["fsync", "full_page_writes", "no_such", "vm.nr_hugepages"] {
            let plan = TunePlan { consent: vec![wrong.to_owned()], ..plan() };
            let refused = dimensions(&plan, &surroundings(), &BTreeMap::new()).unwrap_err();
            assert!(refused.to_string().contains(wrong), "{refused}");
        }
    }

    #[test]
    fn what_reads_use_is_left_out_unless_it_was_set_or_asked_for() {
        assert!(!names(&plan()).contains(&"work_mem".to_owned()));
        let mut with = plan();
        with.settings.insert("work_mem".to_owned(), "1MB".to_owned());
        assert!(names(&with).contains(&"work_mem".to_owned()));
        let only = TunePlan { only: vec!["work_mem".to_owned()], ..plan() };
        assert_eq!(names(&only), ["work_mem"]);
    }

    #[test]
    fn the_machine_and_the_schema_are_searched_with_consent_alone() {
        let why = |only: &str| {
            let plan = TunePlan { only: vec![only.to_owned()], ..plan() };
            dimensions(&plan, &surroundings(), &BTreeMap::new()).unwrap_err().to_string()
        };
        assert!(why("vm.swappiness").contains("--consent vm.swappiness"));
        assert!(why("schema").contains("--consent schema"));
        assert!(why("table.fillfactor").contains("--consent schema"));
        assert!(why("table.partitions").contains("cannot be searched"));
        assert!(why("wal_bufers").contains("did you mean wal_buffers?"));
        for (only, consent) in
            [("vm.swappiness", "kernel"), ("schema", "schema"), ("table.fillfactor", "schema")]
        {
            let of = |name: &str| vec![name.to_owned()];
            let plan = TunePlan { only: of(only), consent: of(consent), ..plan() };
            assert!(names(&plan).is_empty(), "no setting is meant");
        }
        let both = TunePlan { consent: vec!["kernel".to_owned(), "schema".to_owned()], ..plan() };
        assert_eq!(names(&both), names(&plan()));
    }

    #[test]
    fn wal_is_bounded_by_the_disk() {
        for (advised, tried) in [("4GB", "4GB"), ("60GB", "9536MB")] {
            let hints = BTreeMap::from([("max_wal_size".to_owned(), advised.to_owned())]);
            let (dimensions, _) = dimensions(&plan(), &surroundings(), &hints).unwrap();
            let wal = dimensions.iter().find(|d| d.name == "max_wal_size").unwrap();
            let Domain::Range(range) = &wal.domain else { panic!("a number") };
            assert!(range.high < 10_000.0, "{range:?}");
            assert_eq!(wal.trial.as_deref(), Some(tried), "{range:?}");
        }
    }
}
