//! Renderings of results: what a person sees.
//!
//! A [`Document`] holds what a page says. It is built once, of a run by
//! [`RunReport::document`] and of its findings by [`diagnosis()`], and drawn by three backends:
//! [`Document::html`], one self-contained page with plots for screen and paper;
//! [`Document::summary`] and [`Document::terminal`]; and [`Document::markdown`] for a ticket
//! or a chat. Other pages still have a rendering of their own for each:
//!
//! - [`html::comparison`] and [`terminal::comparison`] lay runs beside each other,
//!   [`html::scaling`] and [`terminal::scaling`] those of a sweep over clients.
//! - [`html::storage`] and [`terminal::storage`] show what disks can do, [`journal`] the
//!   history of experiments and decisions.
//! - [`html::experiment`] and [`terminal::experiment`] show what an experiment came to.
//! - [`mod@format`] is how figures are written, for every other rendering too.
//!
//! Figures come from `figures` and `diagnose`, facts from `record`; nothing is computed here
//! but places on paper. Charts are SVG made by pure functions (`svg`).

mod compared;
mod comparison_text;
mod document;
mod experimented;
pub mod format;
pub mod html;
pub mod journal;
mod limits;
mod markdown;
mod run;
mod scaled;
mod settings;
mod storage;
mod svg;
pub mod terminal;
mod words;

pub use comparison_text::{comparison_csv, comparison_markdown, csv_field};
pub use document::Document;
pub use experimented::{experiment_verdict, verdict as arm_verdict};
pub use limits::limit;
pub use run::{RunReport, diagnosis, explanation};

/// A relative change with its sign: `+4.1 %`.
pub fn change(share: f64) -> String {
    compared::percent(share)
}

/// The value of a compared figure with its unit, as tables write it.
pub fn metric_value(unit: walwright_figures::compare::FigureUnit, value: f64) -> String {
    compared::value(unit, Some(value))
}
