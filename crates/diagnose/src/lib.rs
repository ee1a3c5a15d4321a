//! What an expert says about a record or a configuration.
//!
//! Pure functions, as the figures they read ([`walwright_figures`]).
//!
//! - [`findings`] names causes, what each costs, what fixing it can gain, what to type
//!   ([`Diagnosis`]). The rules are in `rules`.
//! - [`review`] judges settings, of a file, a server or a record ([`Review`]).
//! - [`commit_anatomy`] takes a commit apart.

mod action;
mod commit_anatomy;
mod diagnosis;
mod explain;
mod finding;
mod gain;
mod id;
mod outlook;
mod reading;
mod review;
mod rules;

pub use action::{Action, Change, DurabilityClass, Needs};
pub use commit_anatomy::{CommitAnatomy, DelayOutlook, Station, Writer, commit_anatomy};
pub use diagnosis::{Diagnosis, diagnose, findings, findings_with};
pub use explain::Explanation;
pub use finding::{Evidence, Finding, Impact, Kind, Per, Value};
pub use gain::{Bottleneck, Gain, Relief};
pub use id::{DiagnosisId, UnknownDiagnosis};
pub use outlook::Step;
pub use reading::{Execution, Reading};
pub use review::{
    Asked, Corrected, Given, Machine, Review, ReviewInput, ReviewItem, Standing, corrected, review,
};
pub use rules::GatewayOutlook;
