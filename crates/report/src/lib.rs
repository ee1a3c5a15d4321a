//! Renderings of a record: what a person sees.
//!
//! - [`html::page`] is the report: one self-contained HTML page with plots, for
//!   screen (light and dark) and paper.
//! - [`terminal`] is the summary that fits a screen, [`markdown`] the same for a
//!   ticket or a chat.
//! - [`html::comparison`] and [`terminal::comparison`] lay runs beside each other,
//!   [`html::scaling`] and [`terminal::scaling`] those of a sweep over clients.
//! - [`html::storage`] and [`terminal::storage`] show what disks can do, [`journal`] the
//!   history of experiments and decisions.
//! - [`html::experiment`] and [`terminal::experiment`] show what an experiment came to.
//! - [`mod@format`] is how figures are written, for every other rendering too.
//!
//! Figures come from `diagnose`, facts from `record`; nothing is computed here but
//! places on paper. Charts are SVG made by pure functions (`svg`), the page is a
//! template with its own style and script (`templates/`).

mod compared;
mod comparison_text;
mod diagnosis;
mod experimented;
pub mod format;
pub mod html;
pub mod journal;
mod limits;
pub mod markdown;
mod run;
mod scaled;
mod settings;
mod storage;
mod svg;
pub mod terminal;
mod words;

pub use comparison_text::{comparison_csv, comparison_markdown, csv_field};
pub use limits::limit;
pub use run::RunReport;

/// The value of a compared figure with its unit, as tables write it.
pub fn metric_value(unit: walwright_figures::compare::FigureUnit, value: f64) -> String {
    compared::value(unit, Some(value))
}
