//! `walwright gateway import`: what can be typed.

use std::path::PathBuf;

use clap::Args;

/// `walwright gateway import`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  walwright gateway import /etc/pgbouncer/pgbouncer.ini --output gateway.toml
  walwright gateway check gateway.toml --connect

Settings that have no counterpart are named on standard error and in comments of the result, with
what that means; those at their defaults are not. The userlist is used where it is. Passwords that
the gateway logs in with go to files beside the result which only their owner may read.

Exit codes: 0 where it was converted, 2 where a line is wrong or something cannot be served.")]
pub struct GatewayImportArgs {
    /// PgBouncer's configuration.
    #[arg(value_name = "PGBOUNCER.INI")]
    pub file: PathBuf,
    /// The userlist, in place of its auth_file.
    #[arg(long, value_name = "FILE")]
    pub users: Option<PathBuf>,
    /// File to write, which must not be there yet; standard output without.
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}
