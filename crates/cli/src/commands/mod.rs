//! One file a command.

pub mod ab;
pub mod calibrate;
pub mod command_line;
pub mod commit;
pub mod compare;
pub mod completion;
pub mod config;
pub mod diagnose;
pub mod experiment;
pub mod export;
pub mod journal;
pub mod pg;
pub mod prove;
pub mod record;
pub mod report;
pub mod review;
pub mod run;
pub mod runs;
pub mod runtime;
pub mod stages;
pub mod storage;
pub mod sweep;
pub mod tune;
pub mod welcome;
pub mod workload;
