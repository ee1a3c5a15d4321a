//! Systems that others wrote, with faults that an operator could have made.

mod stand;
mod system;
mod tools;
mod truth;

pub use stand::{Arm, Seen, Stand};
pub use system::{Case, ForeignFault, System};
pub use tools::Tools;
pub use truth::{ArmTruth, CaseTruth, Half};
