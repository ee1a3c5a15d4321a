//! The load path against real servers, whole and in trouble.

mod batch;
mod common;
mod faithful;
mod http;
mod load;
mod rules;
mod trouble;
