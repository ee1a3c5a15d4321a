//! Beginning a tune, going on with one, showing and deleting it.

use std::path::Path;
use std::sync::Arc;

use walwright_experiment::{Bench, Configuration, Kernel, Visit};
use walwright_run::Observer;
use walwright_server::Stop;
use walwright_store::Lab;

use super::conductor::{Conductor, bench_name, confirming_name, major_of};
use super::event::Passed;
use super::folder::{self, Folder};
use super::space::{self, Surroundings};
use super::state::Phase;
use super::{Account, TuneError, TuneObserver, TunePlan, TuneState, on_server};

/// Begins a tune and goes on to its end.
///
/// # Errors
/// When what is asked for makes no sense, the baseline cannot be run, or files cannot be
/// written. On the server that `visit` names, when it does not allow it.
/// [`TuneError::is_interruption`] tells a wish to stop, after which [`resume`]
/// goes on.
pub async fn begin(
    lab: &Lab,
    plan: TunePlan,
    visit: &Visit,
    stop: &Stop,
    watcher: &Arc<TuneObserver>,
    account: Account,
) -> Result<TuneState, TuneError> {
    let here = std::env::current_dir().map_err(TuneError::file("find", Path::new(".")))?;
    let mut state = TuneState::new(plan.seen_from(&here));
    let objective = state.plan.objective()?;
    // Refused before anything is made; the size of the machine decides nothing here.
    let major = major_of(&state.plan).await?;
    let any = Surroundings { major, memory: Some(1e12), free_disk: None };
    space::dimensions(&state.plan, &any, &state.hints)?;
    let name = bench_name(&state.id);
    let attached = on_server::meet(lab, &name, &mut state.plan, visit).await?;
    if attached.is_none() {
        let bench = Bench::new(lab, state.plan.bench(&objective, state.plan.window), &name)?;
        let observer: Arc<Observer> = Arc::new(Passed(Arc::clone(watcher)));
        bench.check_settings(&Configuration::default(), &observer).await?;
    }
    let folder = Folder::create(lab, &state.id)?;
    folder.save(&state)?;
    Conductor::new(lab, folder, state, objective, stop, watcher, account)?.on(attached).go().await
}

/// Goes on with a tune that was stopped or killed: the one called `name`, or the latest.
///
/// # Errors
/// As [`begin`], and when there is none, another process runs it, or its server is not
/// named again.
pub async fn resume(
    lab: &Lab,
    name: &str,
    visit: &Visit,
    stop: &Stop,
    watcher: &Arc<TuneObserver>,
    account: Account,
) -> Result<TuneState, TuneError> {
    let id = folder::find(lab, name)?;
    let folder = Folder::open(lab, &id)?;
    let state = folder::read(lab, &id)?;
    let objective = state.plan.objective()?;
    let attached = match state.phase {
        Phase::Done => None,
        _ => on_server::again(lab, &bench_name(&id), &state, visit).await?,
    };
    Conductor::new(lab, folder, state, objective, stop, watcher, account)?.on(attached).go().await
}

/// The state of a tune as it was kept last.
///
/// # Errors
/// When there is none, or it cannot be read.
pub fn show(lab: &Lab, name: &str) -> Result<TuneState, TuneError> {
    folder::read(lab, &folder::find(lab, name)?)
}

/// Deletes a tune and the data at rest that it left. Its records and its entry in the
/// journal stay. Gives its name.
///
/// # Errors
/// When there is none, another process runs it, or it cannot be removed.
pub async fn delete(lab: &Lab, name: &str) -> Result<String, TuneError> {
    let id = folder::find(lab, name)?;
    let folder = Folder::open(lab, &id)?;
    for name in [bench_name(&id), confirming_name(&id)] {
        Kernel::of(lab, &name).recover().await?;
        walwright_experiment::discard_named(lab, &name)?;
    }
    folder.remove()?;
    Ok(id)
}
