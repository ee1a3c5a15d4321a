//! `walwright completion SHELL`.

use std::process::ExitCode;

use clap::builder::Resettable::Reset;
use clap::{Command, CommandFactory};

use crate::args::Cli;
use crate::output::print;

/// Prints the completion script.
pub fn print_for(shell: clap_complete::Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    // Names of commands live as long as the process.
    let whole: &'static Command = Box::leak(Box::new(Cli::command()));
    clap_complete::generate(shell, &mut without_hidden(whole), "walwright", &mut script);
    print(&String::from_utf8(script)?)?;
    Ok(ExitCode::SUCCESS)
}

/// The same command without what `--help` does not list: the generators list it all.
fn without_hidden(command: &'static Command) -> Command {
    let about = command.get_about().cloned().unwrap_or_default();
    let mut shown = Command::new(command.get_name()).about(about);
    if let Some(version) = command.get_version() {
        shown = shown.version(version);
    }
    let arguments = command.get_arguments().filter(|argument| !argument.is_hide_set());
    // What an argument does not go with is nothing to completion, and may be hidden.
    let arguments = arguments.cloned().map(|argument| {
        argument.conflicts_with(Reset).requires(Reset).required_unless_present(Reset)
    });
    let commands = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown.args(arguments).subcommands(commands.map(without_hidden))
}
