//! What the journal keeps of an experiment, and what its entries show over time.

mod change_text;
mod decision;
mod effect;
mod of_arms;
mod of_experiment;
mod trend;

pub use effect::effect;
pub use of_experiment::keep_experiment;
pub use trend::{Scope, trends};
