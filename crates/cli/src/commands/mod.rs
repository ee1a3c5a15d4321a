//! One file a command.

pub mod calibrate;
pub mod commit;
pub mod completion;
pub mod diagnose;
pub mod export;
pub mod pg;
pub mod report;
pub mod review;
pub mod run;
pub mod runs;
pub mod welcome;
pub mod workload;
