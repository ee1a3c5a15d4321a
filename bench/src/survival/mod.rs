//! What the gateway has to survive, and the ground on which that is tried.

mod flood;
mod fuzz;
mod fuzzed_link;
mod ground;
mod kind;
mod load;
mod outcome;
mod small_disk;
mod standby;
mod victim;

pub use flood::{FLOODS, flood};
pub use fuzz::{Attack, Fuzz, Outcome, Stage};
pub use fuzzed_link::FuzzedLink;
pub use ground::{Ground, GroundRules};
pub use kind::{Kind, Terrain};
pub use load::{Lived, Load, connect};
pub use outcome::{Rules, judge};
pub use small_disk::SmallDisk;
pub use standby::standby;
pub use victim::Victim;
