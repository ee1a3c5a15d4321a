//! `walwright gateway check`: what can be typed.

use std::path::PathBuf;

use clap::Args;

/// `walwright gateway check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 where it can be served, 2 where something in it is wrong, 1 where --connect finds a
server that does not let the gateway in.")]
pub struct GatewayCheckArgs {
    /// The configuration.
    #[arg(value_name = "FILE", default_value = "gateway.toml")]
    pub file: PathBuf,
    /// Log in at each server, too.
    #[arg(long)]
    pub connect: bool,
    /// Print a configuration with every key instead.
    #[arg(long, conflicts_with_all = ["connect", "file"])]
    pub example: bool,
}
