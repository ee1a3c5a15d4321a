//! Experiments: arms against a baseline, block by block, each run from the same data.
//!
//! - A [`PlanFile`] is what a person writes; [`arms()`] makes of it the configurations to run.
//! - A [`Bench`] runs one [`Configuration`] from a restored snapshot, or on someone's
//!   server that a [`Visit`] names, and gives its record and figures. Experiments and searches for a configuration use it alike.
//! - [`begin`] and [`resume`] do an experiment; its state is a directory of the lab
//!   from which a killed experiment goes on (see `folder`).
//! - Judging is not done here but in [`walwright_figures::experiment`]; [`outcome()`]
//!   brings the runs there.

mod arms;
mod at_rest;
mod attached_server;
mod bench;
mod configuration;
mod design;
mod durability;
mod error;
mod event;
mod execute;
mod folder;
pub mod journal;
mod kernel;
mod maintenance;
mod metric;
mod order;
mod origin;
mod outcome;
mod pair;
mod permission;
mod plan;
mod plan_tables;
mod profile;
mod prove;
mod study;
mod units;
mod visit;
mod words;

pub use arms::{ArmPlan, Arms, arms};
pub use at_rest::DataOnDisk;
pub use at_rest::free_bytes;
pub use attached_server::{AttachedServer, left_by};
pub use bench::discard_named;
pub use bench::{Bench, BenchPlan, Measured};
pub use configuration::{Configuration, Postgres};
pub use design::Design;
pub use durability::Consent;
pub use durability::grave_words;
pub use error::{ExperimentError, PlanError};
pub use event::{Estimate, ExperimentEvent, ExperimentObserver};
pub use execute::OVERHEAD;
pub use execute::{Choices, Conducted, begin, estimate, remaining, resume};
pub use folder::{Cell, Header, Listed, list, unreadable};
pub use kernel::Kernel;
pub use maintenance::{OnServer, Remarks};
pub use metric::{Metric, MetricError, metric_names};
pub use origin::found_from;
pub use outcome::{delete, outcome, page_path, proofs};
pub use pair::{Pair, Side};
pub use permission::Permission;
pub use plan::{EXAMPLE, Metrics, PlanFile, SHIPPED};
pub use plan_tables::{
    ArmTable, ArmWorkload, ClaimTable, ClaimedChange, Ddl, JournalEntries, PredictionTable,
    ServerTable, SettingValue, StudyTable, Values, WorkloadTable,
};
pub use prove::{ProveError, provable, prove};
pub use visit::Visit;
/// How a load is driven, as a plan says it.
pub use walwright_driver::Protocol;
/// How a load is driven, as a plan says it.
pub use walwright_run::{Gaps, Length, LoadOptions, MemorySize, Pooler, WarmUp};
