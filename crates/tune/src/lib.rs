//! Tuning: from a server and a load to a configuration with a proof of each line, or to
//! the statement that configuration is not what limits.
//!
//! The mathematics lives in `walwright_search`; one configuration is measured by the
//! bench of [`walwright_experiment`]. Here is what lies between and around them:
//!
//! - [`TunePlan`] is what a person asks for; [`Objective`] what is to become better;
//! - `space` names the settings to search, `kernel` the machine's values and `schema`
//!   what may change of tables and indexes, by consent ([`Layer`]); `probe` writes each
//!   and reads it back, `starts` takes first guesses from rules and from the diagnosis;
//! - `on_server` says what of it an attached server allows, in a maintenance window;
//! - `conduct` asks the search, measures and tells, from a state on disk that a killed
//!   tune goes on from ([`begin`], [`resume`]);
//! - `client options` measures what lies outside the configuration, where that is consented to;
//!   `batch` makes scripts that do several transactions in one commit;
//! - `confirm` measures the winner against the baseline again on fresh data, `crash`
//!   kills its server and audits what it had acknowledged;
//! - `promote` writes `config.env`, `schema_file` the statements beside it, `entry` the
//!   journal's account.

mod account;
mod batch;
mod client_options;
mod conduct;
mod conductor;
mod confirm;
mod crash;
mod dropped;
mod embedded;
mod error;
mod event;
#[cfg(any(test, feature = "fixture"))]
pub mod fixture;
mod folder;
mod kernel;
mod layer;
mod made;
mod objective;
mod on_server;
mod plan;
mod probe;
mod promote;
mod schema;
mod schema_file;
mod schema_part;
mod space;
mod starts;
mod state;
mod words;

pub use account::Account;
pub use client_options::{ClientOption, ClientOptionEffect, effects as client_option_effects};
pub use conduct::{begin, delete, resume, show};
pub use confirm::{Confirmation, Confirming, Kept, Open, Questions};
pub use dropped::Dropped;
pub use error::TuneError;
pub use event::{TuneEvent, TuneObserver};
pub use folder::{list, page_path};
pub use layer::Layer;
pub use made::Made;
pub use objective::Objective;
pub use plan::{Budget, TunePlan};
pub use promote::{promote, promoted_schema};
pub use schema_part::{SchemaChange, SchemaKind, SchemaPart};
pub use state::{BestSoFar, Cause, Phase, TuneState};
pub use words::{
    about, again_on, by_what, change, crash as crash_in_words, effect, kept, of_figure as shown,
    percent,
};
