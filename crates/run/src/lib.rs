//! What happens in a run, in which order.
//!
//! [`run`] is the main job: prepare a target, load data, warm up, measure, collect. It ties
//! server, workload, driver and probe together and shows nothing itself: whoever calls it
//! passes an [`Observer`].
//! [`record`] samples a load that others make, and lets what their clients measured
//! join the record. [`sweep`] does a run at each of several client counts, from the same data.
//! [`study`] does that for an application and a load tool that it starts itself.
//! [`cut_power`] takes from a server what it has not flushed, and audits what it acknowledged.
//! [`measure_storage`] finds what the disks can do.

mod attach;
mod ceiling;
mod length;
mod lifecycle;
mod lifetime;
mod load_options;
mod memory_size;
mod notes;
mod pooler;
mod power_cut;
mod progress;
mod recorder;
mod run;
mod server_address;
mod storage;
mod sweep;

pub use attach::{
    COMMAND_PATIENCE, CommandPlan, GatewayChoice, LogChoice, PoolWaitPlan, Printing, RecordError,
    RecordPlan, Recorded, Until, add_results, guard_command, ignores_hangup, record,
};
pub use ceiling::measure as measure_ceiling;
pub use length::Length;
pub use load_options::{Gaps, LoadOptions, WarmUp};
pub use memory_size::MemorySize;
pub use pooler::Pooler;
pub use power_cut::{CrashAudit, PowerCutPlan, audit, cut_power};
pub use progress::{Observe, Observer, Progress, Silent};
pub use run::{
    ApplicationPlan, Finished, Kept, LoadChoice, ProbePlan, Restored, RunError, RunPlan, StudyLoad,
    StudyPlan, TargetPlan, Window, WorkloadPlan, check_settings, fill, filled, install, run,
    snapshot, study, with_connections,
};
pub use server_address::ServerAddress;
pub use storage::{MeasureStorageError, StorageChoice, measure_storage};
pub use sweep::{SweepObserver, SweepPlan, SweepPoint, Swept, sweep};

/// Named in a [`RecordPlan`].
pub use walwright_probe::{LoadParts, ProcessName};
/// What [`measure_storage`] is told and tells.
pub use walwright_probe::{StoragePlan, StorageStep};
