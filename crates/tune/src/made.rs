//! One measurement of a tune.

use serde::{Deserialize, Serialize};
use walwright_experiment::Measured;
use walwright_record::RunId;

/// A measurement: what it gave, or why it gave nothing.
pub(super) type Tried = Result<Measured, String>;

/// One measurement that was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Made {
    /// Its record; `None` where it could not begin.
    pub run: Option<RunId>,
    /// Its value of the objective.
    pub value: Option<f64>,
    /// Transactions a second.
    pub throughput: Option<f64>,
    /// Checkpoints completed in its window; `None` where that cannot be seen.
    pub checkpoints: Option<f64>,
    /// Why it has no value.
    pub crashed: Option<String>,
    /// How long it took, in seconds.
    pub seconds: f64,
}
