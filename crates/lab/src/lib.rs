//! The laboratory: what happens in a run, in which order, and where it is kept.
//!
//! [`run`] is the main job: prepare a target, load data, warm up, measure,
//! collect. It ties the rooms together (server, workload, driver, probe, record)
//! and shows nothing itself: whoever calls it passes an [`Observer`].
//! [`experiment`] compares arms with a baseline, run by run from the same data.
//! [`profile`] compares and applies configurations of every layer; [`ledger`] notes what
//! is changed outside clusters of our own, so that it can be undone.
//! [`tune`] looks for a configuration and proves it.
//! [`record`] samples a load that others make, and lets what their clients measured
//! join the record. [`sweep`] does a run at each of several client counts, from the same data.

mod attach;
mod ceiling;
pub mod experiment;
pub mod journal;
mod lab_dir;
pub mod ledger;
mod lifetime;
mod notes;
pub mod profile;
mod progress;
mod recorder;
mod run;
mod stop;
mod storage;
mod sweep;
#[cfg(test)]
mod test_header;
pub mod tune;
mod whole_file;

pub use attach::{
    COMMAND_PATIENCE, CommandPlan, LogChoice, RecordError, RecordPlan, Recorded, Until,
    add_results, guard_command, ignores_hangup, record,
};
pub use ceiling::measure as measure_ceiling;
pub use lab_dir::Lab;
pub use progress::{Observer, Progress, Silent};
pub use run::{
    Finished, Kept, LoadChoice, ProbePlan, Restored, RunError, RunPlan, TargetPlan, Window,
    WorkloadPlan, run,
};
pub use stop::Stop;
pub use storage::{
    StorageChoice, StorageError, find_storage, measure_storage, storage_measurements,
};
pub use sweep::{SweepObserver, SweepPlan, SweepPoint, Swept, sweep, sweep_of};
pub use whole_file::write_whole;

/// Named in a [`RecordPlan`].
pub use walwright_probe::{LoadParts, ProcessName};
/// What [`measure_storage`] is told and tells.
pub use walwright_probe::{StoragePlan, StorageStep};
