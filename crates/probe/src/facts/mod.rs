//! What is known of server and machine before the load.

mod host;
mod locality;
mod schema_audit;
mod server_start;
mod settings;
mod tables;
mod target;
pub(crate) mod virtualisation;

pub(crate) use host::disk_facts;
pub use host::host_facts;
pub use schema_audit::{partition_plans, schema_facts};
pub use server_start::{Restart, ServerStart, server_start};
pub use settings::settings;
pub use tables::TablesOfInterest;
pub use target::{TargetDescription, target_facts};
