//! HTML: one file that needs nothing else, on screen and on paper.

mod document;

pub(crate) const STYLE: &str = include_str!("../../templates/report.css");
const SCRIPT: &str = include_str!("../../templates/report.js");
