//! `walwright gateway top`: what can be typed.

use std::time::Duration;

use clap::Args;
use walwright_wire::Secret;

use crate::args::some_time;

/// `walwright gateway top`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  walwright gateway top                              the gateway at 127.0.0.1:6432, as postgres
  walwright gateway top postgres://me@db:6432 --once
  walwright gateway top --json | jq '.barriers[0].clients'

It asks the gateway's console, so the user must be one of its admin_users or stats_users.")]
pub struct TopArgs {
    /// Connection string of the gateway; the database is that of its console.
    #[arg(value_name = "DSN", default_value = "postgres://postgres@127.0.0.1:6432")]
    pub gateway: Secret,
    /// Time that rates are measured over.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = some_time)]
    pub interval: Duration,
    /// Print once and end, as --json does.
    #[arg(long)]
    pub once: bool,
}
