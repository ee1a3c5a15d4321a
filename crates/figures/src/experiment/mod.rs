//! Arms of an experiment against its baseline: by how much, how sure, and why.
//!
//! Pure functions over the figures of runs, block by block. [`judge()`] gives every
//! arm its effect with interval, test and verdict against the noise floor that the
//! baseline against itself shows; [`contrasts`] does so for the factors of a factorial
//! design; [`reasons`] tells what else changed with an arm; [`outlook`] says
//! what precision more blocks will buy, and [`Looks`] when a person may look and stop
//! without being fooled. [`Outcome`] is all of it, for whoever shows or keeps it.
//!
//! Which runs are made, in which order and on what is not decided here but in the crate `experiment`.

mod claim;
mod contrasts;
mod judge;
mod looks;
mod outcome;
mod outlook;
mod reasons;
mod study;

pub use claim::{ClaimHeld, ClaimMet};
pub use contrasts::contrasts;
pub use judge::{Arm, Judged, JudgedArm, MetricKind, NoRatio, blocks_to_prove, judge};
pub use looks::{Look, Looks};
pub use outcome::{ArmOutcome, Ending, Held, Outcome, Prediction, PredictionMet};
pub use outlook::{Outlook, Prospect, blocks_to_settle, outlook};
pub use reasons::{Reason, TimeBook, latency_breakdowns, reasons};
pub use study::{
    MeanOfBlocks, OUTSIDE_TIME, POOL_WAIT, SERVER_TIME, Study, StudyCell, StudyGroup, StudyLimit,
    StudyTable, is_noise, study_figures, study_kinds,
};
