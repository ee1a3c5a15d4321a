//! `walwright calibrate`: what the load driver itself can do on this machine.

use std::process::ExitCode;

use walwright_lab::Lab;

use crate::args::CalibrateArgs;
use crate::output::Output;

/// The ceiling measured earlier on this machine, if it was.
pub fn kept_ceiling(_: &Lab) -> Option<f64> {
    None
}

/// Measures the ceiling and keeps it.
pub fn execute(_: &Lab, _: &CalibrateArgs, _: &Output) -> anyhow::Result<ExitCode> {
    anyhow::bail!("not yet")
}
