//! `walwright completion SHELL`.

use std::process::ExitCode;

use clap::CommandFactory;

use crate::args::Cli;
use crate::output::print;

/// Prints the completion script.
pub fn print_for(shell: clap_complete::Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "walwright", &mut script);
    print(&String::from_utf8(script)?)?;
    Ok(ExitCode::SUCCESS)
}
