//! `walwright gateway`: durable commits without the wait.

mod check;
mod configuration;
mod import;
mod run;
pub mod systemd;
mod top;

use std::process::ExitCode;

use crate::args::{GatewayArgs, GatewayCommand};
use crate::output::Output;

/// Serves, or does what the subcommand says.
pub fn execute(args: &GatewayArgs, output: &Output) -> anyhow::Result<ExitCode> {
    match &args.command {
        None => run::execute(&args.run),
        Some(GatewayCommand::Check(args)) => check::execute(args, output),
        Some(GatewayCommand::Import(args)) => import::execute(args),
        Some(GatewayCommand::Top(args)) => top::execute(args, output),
    }
}
