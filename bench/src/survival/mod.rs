//! What the gateway has to survive, and the ground on which that is tried.

mod ground;
mod kind;
mod load;
mod small_disk;
mod standby;
mod victim;

pub use ground::{Ground, GroundRules};
pub use kind::Kind;
pub use load::{Lived, Load};
pub use small_disk::SmallDisk;
pub use standby::standby;
pub use victim::Victim;
