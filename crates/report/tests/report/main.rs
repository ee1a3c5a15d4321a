//! Renderings of made-up records, whole and damaged.

mod browser;
mod comparison;
mod experiments;
mod hostile;
mod lists;
mod renderings;
mod scaling;
mod storage;
mod synthetic;
mod tunes;
