//! `walwright gateway`: durable commits without the wait.

mod run;

use std::process::ExitCode;

use crate::args::GatewayArgs;

/// Serves, or does what the subcommand says.
pub fn execute(args: &GatewayArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        None => run::execute(&args.run),
        Some(command) => match *command {},
    }
}
