//! A sweep over clients: one run at each client count, every one from the same data.
//!
//! An embedded cluster is filled once and restored before each run, so that points differ in
//! their clients alone. On an attached server the runs go one after another on what is there.
//! Client counts come in random order, anew in each repeat, so that slow drift of the
//! machine does not look like an effect of clients. Each point is an ordinary run; its label
//! says which sweep it belongs to.

use std::sync::Arc;

use rand::seq::SliceRandom;
use walwright_record::{RunHeader, RunId, RunState, Timestamp};
use walwright_server::{Snapshot, Stop};
use walwright_store::Lab;

use crate::run::{
    Finished, Restored, RunError, RunPlan, TargetPlan, blocking, filled, run, with_connections,
};
use crate::{Observer, Progress};

/// Name of the data at rest inside the directory of the cluster that they were loaded into:
/// they go with it, also when walwright is killed.
const DATA: &str = "prepared";

/// What a sweep is asked to do.
#[derive(Debug, Clone)]
pub struct SweepPlan {
    /// The run at each point, whose clients are replaced.
    pub run: RunPlan,
    /// Client counts.
    pub clients: Vec<u32>,
    /// Runs at each of them.
    pub repeats: u32,
}

/// One point of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SweepPoint {
    /// Its place in the order, from 1.
    pub number: u32,
    /// Points in all.
    pub of: u32,
    /// Client connections.
    pub clients: u32,
}

/// What is left of a sweep besides its records.
#[derive(Debug)]
pub struct Swept {
    /// Its name, which is in the label of each of its runs.
    pub name: String,
    /// Its runs, in the order they were done.
    pub runs: Vec<RunId>,
    /// Whether it was stopped before all points were done.
    pub interrupted: bool,
    /// Why it did not end as planned.
    pub error: Option<RunError>,
}

/// Shows a sweep.
pub trait SweepObserver: Send + Sync {
    /// The cluster is about to be filled.
    fn preparing(&self) -> Arc<Observer>;
    /// A point begins; what is returned is told of its run.
    fn begins(&self, point: SweepPoint) -> Arc<Observer>;
    /// A point has ended.
    fn ended(&self, point: SweepPoint, finished: &Finished);
}

/// Does a sweep and keeps the record of each of its runs.
///
/// # Errors
/// Whatever kept the first load from beginning. What goes wrong later ends the sweep;
/// [`Swept::error`] says why.
pub async fn sweep(
    lab: &Lab,
    plan: SweepPlan,
    stop: Stop,
    observer: &dyn SweepObserver,
) -> Result<Swept, RunError> {
    let now = Timestamp::now();
    let id = RunId::new(now, (now.0 as u32).rotate_left(11) ^ std::process::id());
    let name = format!("{}{id}", RunHeader::SWEEP);
    let mut template = plan.run;
    template.label = Some(match &template.label {
        Some(label) => format!("{label} {name}"),
        None => name.clone(),
    });
    // It goes with its directory, in which the data are kept, when the sweep ends.
    let _filled = match &mut template.target {
        TargetPlan::Embedded { settings, .. } => {
            // Points differ in their clients alone.
            let most = plan.clients.iter().copied().max().unwrap_or(1);
            *settings = with_connections(settings, most);
            let watcher = observer.preparing();
            template.check()?;
            let cluster = filled(&template, &stop, &watcher).await?;
            watcher.event(Progress::Step("keeping a copy of the data that every run starts from"));
            let kept = cluster.clone();
            let taken = blocking(move || Snapshot::take(&kept, &kept.dir().join(DATA)));
            let (snapshot, _) = taken.await??;
            if let TargetPlan::Embedded { restored, .. } = &mut template.target {
                *restored = Some(Restored { snapshot, changes: Vec::new() });
            }
            Some(cluster)
        }
        TargetPlan::Attached { .. } | TargetPlan::Unseen => None,
    };
    let order = order(&plan.clients, plan.repeats);
    let mut swept = Swept { name, runs: Vec::new(), interrupted: false, error: None };
    for (place, clients) in order.iter().enumerate() {
        let point =
            SweepPoint { number: place as u32 + 1, of: order.len() as u32, clients: *clients };
        let mut run_plan = template.clone();
        run_plan.load.clients = Some(*clients);
        let finished = match run(lab, run_plan, stop.clone(), observer.begins(point)).await {
            Ok(finished) => finished,
            Err(error) if swept.runs.is_empty() => return Err(error),
            Err(error) => {
                swept.interrupted = error.is_interruption();
                swept.error = Some(error);
                break;
            }
        };
        observer.ended(point, &finished);
        swept.runs.push(finished.id);
        if finished.state != RunState::Complete {
            swept.interrupted = finished.state == RunState::Interrupted;
            swept.error = finished.error;
            break;
        }
        if stop.is_requested() {
            swept.interrupted = place + 1 < order.len();
            break;
        }
        // The tables that the first run filled serve all others.
        if let TargetPlan::Attached { init, .. } = &mut template.target {
            *init = false;
        }
    }
    Ok(swept)
}

/// Client counts in the order they are run: all of them in each repeat, each time in
/// another random order.
fn order(clients: &[u32], repeats: u32) -> Vec<u32> {
    let mut rng = rand::rng();
    let mut block = clients.to_vec();
    let mut order = Vec::new();
    for _ in 0..repeats {
        block.shuffle(&mut rng);
        order.extend_from_slice(&block);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_repeat_has_each_count_once() {
        let clients = [1, 2, 4, 8, 16, 32, 64, 128];
        let order = order(&clients, 3);
        assert_eq!(order.len(), 24);
        for block in order.chunks(8) {
            let mut block = block.to_vec();
            block.sort_unstable();
            assert_eq!(block, clients);
        }
        // One order in 40,320 is the one they were given in; three such in a row is none.
        assert_ne!(order, clients.repeat(3));
    }
}
