//! Results of real tools.

mod real_tools;
