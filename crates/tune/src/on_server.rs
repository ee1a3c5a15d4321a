//! A tune of an attached server: the settings it has are the baseline, and what cannot be
//! changed there, or could not be taken back, is not searched.
//!
//! How settings get there and back is told by the bench; here is what a search needs to
//! know of such a server before it begins.

use std::collections::BTreeMap;
use std::sync::Arc;

use walwright_catalog::{DurabilityClass, Entry, Parameter, Profile, parameter};
use walwright_config::{ApplyPlan, Imported, ServerView};
use walwright_diagnose::Machine;
use walwright_experiment::{
    AttachedServer, Configuration, ExperimentError, Permission, Postgres, Visit, free_bytes,
    left_by,
};
use walwright_run::RunError;
use walwright_search::{Dimension, Domain};
use walwright_server::Stop;
use walwright_store::Lab;

use super::probe::POSITIONS;
use super::space::{self, Surroundings};
use super::{Dropped, TuneError, TunePlan, TuneState};

/// A setting under which a server without standbys waits for ever.
const OF_STANDBYS: &str = "synchronous_standby_names";

/// Reaches the server that is named, if one is, and takes what it has as the baseline.
/// Changes nothing there.
///
/// # Errors
/// When there is no consent, it cannot be reached, or nothing may be changed there.
pub(super) async fn meet(
    lab: &Lab,
    name: &str,
    plan: &mut TunePlan,
    visit: &Visit,
) -> Result<Option<Arc<AttachedServer>>, TuneError> {
    let Some(agreed) = visit.agreed(None).map_err(ExperimentError::from)? else {
        return Ok(None);
    };
    if !plan.settings.is_empty() {
        return Err(TuneError::Asked(
            "a server of yours is tuned from the settings that it has: leave --set out".to_owned(),
        ));
    }
    let (attached, view) = AttachedServer::visit(lab, &agreed, name).await?;
    settings_alone(plan, view.scope.local)?;
    plan.postgres = Some(Postgres::Major(view.major.to_string()));
    plan.settings = chosen(&view);
    plan.server = Some(attached.kept());
    attached.check(&Configuration::default()).await?;
    let (dimensions, _) = space::dimensions(plan, &surroundings(&view), &BTreeMap::new())?;
    if view.auto.is_none() {
        return Err(TuneError::Asked(
            "this role may not read postgresql.auto.conf, so no change could be undone: it takes a superuser or EXECUTE on pg_read_file(text)".to_owned(),
        ));
    }
    let permission = permission(&attached, &dimensions).await?;
    let missing: Vec<String> =
        dimensions.iter().filter_map(|dimension| permission.missing(&dimension.name)).collect();
    match missing.into_iter().next() {
        Some(why) if dimensions.iter().all(|d| permission.missing(&d.name).is_some()) => {
            return Err(TuneError::Asked(why));
        }
        _ => {}
    }
    restart_first(&attached, possible(dimensions, &attached, &permission, &view));
    Ok(Some(Arc::new(attached)))
}

/// Reaches the server of a tune that goes on, if it has one.
///
/// # Errors
/// When it is not named again, or another one is, or what is searched takes a restart and
/// nothing says how.
pub(super) async fn again(
    lab: &Lab,
    name: &str,
    state: &TuneState,
    visit: &Visit,
) -> Result<Option<Arc<AttachedServer>>, TuneError> {
    let attached = visit.again(lab, name, state.plan.server.as_ref(), None).await;
    let attached = attached.map_err(|error| match left_by(lab, name) {
        // It may be down because of what the killed run left.
        Ok(Some(set)) if matches!(error, ExperimentError::Run(_)) => TuneError::Asked(format!(
            "{error}; a run that was killed left change set {set} on this server: `walwright config rollback {set} --dsn … --restart-command …` brings back what was, also while it is down"
        )),
        _ => error.into(),
    })?;
    let Some(attached) = attached else { return Ok(None) };
    match &state.searcher {
        Some(searcher) => {
            let searched = &searcher.space().dimensions;
            if let Some(one) = searched.iter().find(|of| of.restart)
                && !can_restart(&attached)
            {
                return Err(TuneError::Asked(format!(
                    "this tune searches {}, which takes a restart of the server: give --restart-command again",
                    one.name
                )));
            }
            restart_first(&attached, searched.iter().cloned());
        }
        None => {
            let view = attached.view().await?;
            let around = surroundings(&view);
            let (dimensions, _) = space::dimensions(&state.plan, &around, &BTreeMap::new())?;
            let permission = permission(&attached, &dimensions).await?;
            restart_first(&attached, possible(dimensions, &attached, &permission, &view));
        }
    }
    Ok(Some(attached))
}

/// Refuses what a search may change of clusters of our own, but not of an attached server.
fn settings_alone(plan: &TunePlan, local: bool) -> Result<(), TuneError> {
    let named = |name: &str| {
        plan.consent.iter().chain(&plan.only).any(|one| one.eq_ignore_ascii_case(name))
    };
    let of_the_machine = |name: &String| parameter(name).is_some_and(|of| !of.is_setting());
    let kernel = named("kernel") || plan.consent.iter().chain(&plan.only).any(of_the_machine);
    match (named("schema"), kernel && !local) {
        (true, _) => Err(TuneError::Asked(
            "the schema of a server of yours is not searched, as its data are not restored: try changes as arms of an experiment, each with its undo".to_owned(),
        )),
        (_, true) => Err(TuneError::Asked(
            "values of the kernel are searched where the server is: it is not on this machine".to_owned(),
        )),
        _ => Ok(()),
    }
}

/// The dimensions that may be changed there, as far as asking shows.
fn possible(
    dimensions: Vec<Dimension>,
    attached: &AttachedServer,
    permission: &Permission,
    view: &ServerView,
) -> impl Iterator<Item = Dimension> {
    dimensions.into_iter().filter(move |dimension| {
        permission.missing(&dimension.name).is_none()
            && in_the_way(attached, dimension, view).is_none()
    })
}

/// Where settings that take a restart are searched, every measurement has one, the
/// baseline's too; where none is, no measurement has.
fn restart_first(attached: &AttachedServer, mut searched: impl Iterator<Item = Dimension>) {
    if searched.any(|dimension| dimension.restart) && can_restart(attached) {
        attached.restart_before_runs();
    }
}

/// Whether it can be restarted, and what it does not start with taken out of its files.
fn can_restart(attached: &AttachedServer) -> bool {
    attached.can_restart() && attached.is_within_reach()
}

/// What someone has chosen for the server, as far as it may be searched or decides what a
/// crash loses.
fn chosen(view: &ServerView) -> BTreeMap<String, String> {
    let bears = |of: &Parameter| {
        let grave = matches!(of.class, DurabilityClass::D | DurabilityClass::X);
        (of.search.is_some() || grave) && of.name != OF_STANDBYS
    };
    let imported = Imported::of_server(view);
    let entries = imported.profile.settings().filter(|entry| bears(entry.parameter));
    entries.map(|entry| (entry.parameter.name.clone(), entry.value.clone())).collect()
}

/// The server's version, and its machine where that is this one.
pub(super) fn surroundings(view: &ServerView) -> Surroundings {
    let local = view.scope.local;
    let memory = || Machine::of(&walwright_probe::host_facts(None, None)).memory;
    let wal = view.wal_directory().filter(|_| local);
    Surroundings {
        major: view.major,
        memory: local.then(memory).flatten(),
        free_disk: wal.and_then(|directory| free_bytes(directory).map(|free| free as f64)),
    }
}

async fn permission(attached: &AttachedServer, of: &[Dimension]) -> Result<Permission, TuneError> {
    let names: Vec<&str> = of.iter().map(|dimension| dimension.name.as_str()).collect();
    Ok(Permission::of(attached.params(), &names).await?)
}

/// Leaves out what this server cannot be given or could not be rid of, and writes the rest
/// and reads it back; what takes a restart is not tried before it is measured.
pub(super) async fn probe(
    attached: &AttachedServer,
    plan: &TunePlan,
    dimensions: Vec<Dimension>,
    stop: &Stop,
) -> Result<(Vec<Dimension>, Vec<Dropped>), TuneError> {
    let view = attached.view().await?;
    let permission = permission(attached, &dimensions).await?;
    let known = known_words(attached).await?;
    let free_disk = surroundings(&view).free_disk;
    let (mut left, mut dropped) = (Vec::new(), Vec::new());
    for mut dimension in dimensions {
        if let (Domain::Words(mine), Some(known)) =
            (&mut dimension.domain, known.get(&dimension.name))
        {
            mine.retain(|word| known.contains(word));
            let hint = dimension.trial.take();
            dimension.trial = hint.filter(|hint| mine.contains(hint));
        }
        let asked = plan.only.iter().any(|only| only.eq_ignore_ascii_case(&dimension.name));
        let unbounded = dimension.name == "max_wal_size" && free_disk.is_none() && !asked;
        let why = match permission.missing(&dimension.name) {
            Some(why) => Some(why),
            None if unbounded => Some(
                "the free space of the disk under the WAL cannot be seen from here; --only max_wal_size searches it anyway".to_owned(),
            ),
            None => in_the_way(attached, &dimension, &view),
        };
        match why {
            Some(why) => dropped.push(Dropped::held_back(dimension.name, why)),
            None => left.push(dimension),
        }
    }
    for position in POSITIONS {
        let reloaded = || left.iter().filter(|dimension| !dimension.restart);
        let all = at(reloaded(), position);
        if all.settings.is_empty() || attached.takes(&all, stop).await?.is_ok() {
            continue;
        }
        // One of them is not taken: each alone tells which.
        let mut refused = BTreeMap::new();
        for dimension in reloaded() {
            let alone = at(std::iter::once(dimension), position);
            if let Err(why) = attached.takes(&alone, stop).await? {
                refused.insert(dimension.name.clone(), why);
            }
        }
        left.retain(|dimension| !refused.contains_key(&dimension.name));
        dropped.extend(refused.into_iter().map(|(name, why)| Dropped::held_back(name, why)));
    }
    Ok((left, dropped))
}

fn at<'a>(dimensions: impl Iterator<Item = &'a Dimension>, position: f64) -> Configuration {
    Configuration::of_settings(dimensions.map(|d| (d.name.clone(), d.at(position))))
}

/// Why a dimension cannot be searched there, as far as asking shows.
fn in_the_way(
    attached: &AttachedServer,
    dimension: &Dimension,
    view: &ServerView,
) -> Option<String> {
    if dimension.restart && !attached.can_restart() {
        return Some("it takes a restart: --restart-command says how".to_owned());
    }
    if dimension.restart && !attached.is_within_reach() {
        return Some(
            "it takes a restart, and a value that the server does not start with could not be taken out of its files from here".to_owned(),
        );
    }
    POSITIONS.into_iter().find_map(|position| {
        let mut profile = Profile::default();
        match Entry::new(&dimension.name, &dimension.at(position), None) {
            Ok(entry) => profile.set(entry),
            Err(error) => return Some(error.to_string()),
        }
        let plan = ApplyPlan::of(&profile, Some(view), None);
        let left_out = plan.refused.into_iter().chain(plan.by_hand).chain(plan.skipped);
        left_out.map(|one| one.why).next()
    })
}

/// The words that this build knows, of settings whose values are words.
async fn known_words(
    attached: &AttachedServer,
) -> Result<BTreeMap<String, Vec<String>>, TuneError> {
    let client = walwright_server::connect(attached.params()).await.map_err(RunError::from)?;
    let query = "SELECT name, enumvals FROM pg_catalog.pg_settings WHERE enumvals IS NOT NULL";
    let rows = client.query(query, &[]).await;
    let read = rows.and_then(|rows| {
        rows.iter().map(|row| Ok((row.get(0)?, row.get(1)?))).collect::<Result<_, _>>()
    });
    read.map_err(|source| TuneError::Sql { what: "reading the settings", source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::plan;

    #[test]
    fn what_cannot_be_taken_back_or_reached_is_refused_by_name() {
        let asked = |consent: &str, only: &str, local| {
            let of = |name: &str| match name {
                "" => Vec::new(),
                name => vec![name.to_owned()],
            };
            let plan = TunePlan { consent: of(consent), only: of(only), ..plan() };
            settings_alone(&plan, local).map_err(|error| error.to_string())
        };
        assert!(asked("synchronous_commit", "commit_delay", false).is_ok());
        assert!(asked("schema", "", true).unwrap_err().contains("not restored"));
        for (consent, only) in [("kernel", ""), ("vm.swappiness", ""), ("", "vm.swappiness")] {
            assert!(asked(consent, only, true).is_ok());
            assert!(asked(consent, only, false).unwrap_err().contains("not on this machine"));
        }
    }
}
