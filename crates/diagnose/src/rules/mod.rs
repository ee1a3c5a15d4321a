//! The rules: pure functions from a [`Reading`] to findings, one file a family.
//!
//! A rule reports only what the record shows, with a threshold that follows from
//! a cost; it advises nothing that is there already and nothing that the load does
//! not justify. What a rule cannot look for it leaves to [`not_observable`].

mod bounds;
mod buffers;
mod burner;
mod commit;
mod commit_delay;
mod control;
mod course;
mod course_waits;
mod durability;
mod errors;
mod executor;
mod forgotten_plans;
mod gateway;
mod holding;
mod kernel;
mod locks;
mod memory;
mod outside;
mod relations;
mod schema;
mod script;
mod sessions;
mod sight;
mod temporary_tables;
#[cfg(test)]
mod tests;
mod threshold;
mod verdict;
mod waiters;
mod wal;
mod workers;
mod writes;

use crate::{Finding, Reading};

pub use gateway::GatewayOutlook;
pub(crate) use gateway::{advise as advise_gateway, outlook as gateway_outlook};
pub(crate) use memory::fair_to_autovacuum;
pub(crate) use relations::relate;
pub(crate) use sight::not_observable;
pub(crate) use verdict::verdict;
pub(crate) use wal::image_share;

/// A family of rules.
type Family = fn(&Reading) -> Vec<Finding>;

/// All families. The order does not matter: findings are ranked afterwards.
pub(crate) const FAMILIES: &[Family] = &[
    bounds::findings,
    buffers::findings,
    commit::findings,
    commit_delay::findings,
    course::findings,
    durability::findings,
    errors::findings,
    executor::findings,
    kernel::findings,
    locks::findings,
    memory::findings,
    outside::findings,
    schema::findings,
    sessions::findings,
    temporary_tables::findings,
    wal::findings,
    workers::findings,
    writes::findings,
];
