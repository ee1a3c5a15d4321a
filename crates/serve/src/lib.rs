//! The pages of a lab, in a browser, while it works.
//!
//! Every page is a [`Document`](walwright_report::Document) of the report, drawn here anew when
//! something asks for it. Nothing is kept but what was drawn last.
//!
//! - `admission` decides who may ask for what: by the names of the site, by where a request
//!   comes from, by a token;
//! - `pages` makes the documents of runs, experiments, tunes, the journal, a gateway;
//! - `live` follows what goes on: whatever the number of its viewers, a record is read and drawn
//!   once, and not more often than it may cost;
//! - `jobs` starts commands of walwright and ends them with the site.

mod actions;
mod admission;
mod answer;
mod error;
mod forms;
mod jobs;
mod live;
mod pages;
mod site;

pub use admission::{Admission, Token};
pub use error::ServeError;
pub use jobs::Program;
pub use site::{Options, Site};
