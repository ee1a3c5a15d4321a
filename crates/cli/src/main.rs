//! The `walwright` command.

mod args;
mod commands;
mod output;
mod show;

use std::process::ExitCode;

use clap::Parser;
use walwright_store::Lab;

use args::{Cli, Command, LogFormat};
use output::Output;

fn main() -> ExitCode {
    output::tell_of_panics();
    let cli = Cli::try_parse().unwrap_or_else(|error| output::refuse(&error));
    match &cli.command {
        Some(Command::Gateway(args)) => output::log_events(cli.verbose, args.run.log_format),
        Some(
            Command::Ingest(_) | Command::Serve(_) | Command::Documents(_) | Command::Watch(_),
        ) => {
            output::log_events(cli.verbose, LogFormat::Text);
        }
        _ => output::log_to_stderr(cli.verbose),
    }
    let output = Output::new(cli.json, cli.color);
    match execute(cli, &output) {
        Ok(code) => code,
        Err(error) => output.fail(&error),
    }
}

fn execute(cli: Cli, output: &Output) -> anyhow::Result<ExitCode> {
    let lab = Lab::at(cli.lab);
    match cli.command {
        None => commands::welcome::show(output),
        Some(Command::Run(args)) if let Some(after) = args.power_cut_after => {
            commands::power_cut::execute(*args, after, output)
        }
        Some(Command::Run(args)) if args.is_sweep() => {
            commands::sweep::execute(&lab, *args, output)
        }
        Some(Command::Run(args)) => commands::run::execute(&lab, *args, output),
        Some(Command::Record(args)) => commands::record::execute(&lab, *args, output),
        Some(Command::Watch(args)) => commands::watch::execute(&lab, *args, output),
        Some(Command::Compare(args)) => commands::compare::execute(&lab, &args, output),
        Some(Command::Experiment(args)) => commands::experiment::execute(&lab, *args, output),
        Some(Command::Ab(args)) => commands::ab::execute(&lab, *args, output),
        Some(Command::Prove(args)) => commands::prove::execute(&lab, *args, output),
        Some(Command::Guard(args)) => commands::record::guard(&args),
        Some(Command::Tune(args)) => commands::tune::execute(&lab, *args, output),
        Some(Command::Runs(args)) => commands::runs::execute(&lab, *args, output),
        Some(Command::Diagnose(args)) => commands::diagnose::execute(&lab, &args, output),
        Some(Command::WhatIf(args)) => commands::what_if::execute(&lab, &args, output),
        Some(Command::Cost(args)) => commands::cost::execute(&lab, &args, output),
        Some(Command::Commit(name)) => commands::commit::execute(&lab, &name, output),
        Some(Command::Report(args)) => commands::report::write(&lab, &args, output),
        Some(Command::Review(args)) => commands::review::show(&lab, &args, output),
        Some(Command::Config(command)) => commands::config::execute(&lab, command, output),
        Some(Command::Storage(args)) => commands::storage::execute(&lab, args, output),
        Some(Command::Gateway(args)) => commands::gateway::execute(&args, output),
        Some(Command::Ingest(args)) => commands::ingest::execute(*args, output),
        Some(Command::Serve(args)) => commands::serve::execute(&lab, args),
        Some(Command::Documents(command)) => commands::documents::execute(*command, output),
        Some(Command::Journal(args)) => commands::journal::execute(&lab, args, output),
        Some(Command::Pg(command)) => commands::pg::execute(&lab, command, output),
        Some(Command::Workload(command)) => commands::workload::execute(command, output),
        Some(Command::Calibrate(args)) => commands::calibrate::execute(&lab, &args, output),
        Some(Command::List(filter)) => commands::runs::list(&lab, &filter, output),
        Some(Command::Show(name)) => commands::runs::show(&lab, &name, output),
        Some(Command::Export(args)) => commands::export::write(&lab, &args, output),
        Some(Command::Delete(args)) => commands::runs::delete(&lab, &args, output),
        Some(Command::Promote(args)) => commands::tune::promote(&lab, &args, output),
        Some(Command::Completion { shell }) => commands::completion::print_for(shell),
    }
}
