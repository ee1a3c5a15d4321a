//! `walwright gateway`: what can be typed.

mod check;
mod import;
mod limits;
mod run;
mod top;

use clap::{Args, Subcommand};

pub use check::GatewayCheckArgs;
pub use import::GatewayImportArgs;
pub use run::{AuthChoice, GatewayRunArgs, LogFormat};
pub use top::TopArgs;

/// `walwright gateway`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true, after_help = run::HELP)]
pub struct GatewayArgs {
    /// What else to do than to serve.
    #[command(subcommand)]
    pub command: Option<GatewayCommand>,
    /// How to serve.
    #[command(flatten)]
    pub run: GatewayRunArgs,
}

/// What else there is.
#[derive(Debug, Subcommand)]
pub enum GatewayCommand {
    /// Tell what is wrong with a configuration, or what it says.
    Check(GatewayCheckArgs),
    /// Convert a configuration of PgBouncer's into a gateway.toml.
    Import(GatewayImportArgs),
    /// Watch a gateway: rates, waits, pools, barriers, clients that keep their sessions.
    Top(TopArgs),
}
