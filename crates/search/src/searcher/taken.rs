//! What an arm of an ablation takes back.

use serde::{Deserialize, Serialize};

/// Values that are taken back in one arm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Taken {
    /// The parameter.
    pub name: String,
    /// What it goes back to.
    pub instead: String,
    /// Whether the baseline's value comes back, to say what it costs, and not the default.
    pub is_harm: bool,
}
