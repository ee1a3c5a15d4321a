//! Renderings of results: what a person sees.
//!
//! A [`Document`] holds what a page says. It is built once, of a run by
//! [`RunReport::document`], of its findings by [`diagnosis()`], of runs beside each other by
//! [`comparison()`], of an experiment by [`experiment()`], of a tune by [`tune_document`], and drawn by three backends:
//! [`Document::html`], one self-contained page with plots for screen and paper, and
//! [`Document::linked`], the same as a server sends it;
//! [`Document::summary`] and [`Document::terminal`]; and [`Document::markdown`] for a ticket
//! or a chat. Other pages still have a rendering of their own for each:
//!
//! - [`html::scaling`] and [`terminal::scaling`] lay the runs of a sweep beside each other.
//! - [`html::storage`] and [`terminal::storage`] show what disks can do, [`journal`] the
//!   history of experiments and decisions.
//! - [`List`] makes a document of rows, such as the runs of a lab.
//! - [`mod@format`] is how figures are written, for every other rendering too.
//!
//! Figures come from `figures` and `diagnose`, facts from `record`; nothing is computed here
//! but places on paper. Charts are SVG made by pure functions (`svg`).

mod compare;
mod cost;
mod document;
mod experiment;
pub mod format;
mod gateway;
pub mod html;
pub mod journal;
mod lab;
mod limits;
mod list;
mod markdown;
mod run;
mod scaling;
mod settings;
mod storage;
mod svg;
pub mod terminal;
mod tune;
mod what_if;
mod words;

pub use compare::{comparison, comparison_csv, csv_field};
pub use cost::cost;
pub use document::Document;
pub use experiment::words::{experiment_verdict, range as change_range, verdict as arm_verdict};
pub use experiment::{experiment, experiment_under_way, with_proofs};
pub use gateway::{GatewayPin, GatewayPool, GatewaySeen, Spread, gateway};
pub use lab::{
    COMPARED, JobRow, RunOrder, RunRow, ending, experiment_list, job, job_list, notice, run_list,
    tune_list,
};
pub use limits::limit;
pub use list::List;
pub use markdown::PlotFile;
pub use run::commit::commit;
pub use run::{RunReport, diagnosis, explanation, timeline_begins, under_way};
pub use scaling::scaling;
pub use storage::{storage, storage_list};
pub use svg::Series;
pub use tune::{tune_document, tune_entry, tune_stage, tune_verdict, tune_warnings};
pub use what_if::what_if;

/// A relative change with its sign: `+4.1 %`.
pub fn change(share: f64) -> String {
    compare::words::percent(share)
}

/// The value of a compared figure with its unit, as tables write it.
pub fn metric_value(unit: walwright_figures::compare::FigureUnit, value: f64) -> String {
    compare::words::value(unit, Some(value))
}
