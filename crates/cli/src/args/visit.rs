//! Arguments that name a server of a person's own to experiment on.

use clap::Args;
use walwright_experiment::Visit;
use walwright_server::Secret;

/// A server of yours, in a maintenance window.
#[derive(Debug, Args)]
#[command(next_help_heading = "On a server of yours")]
pub struct VisitArgs {
    /// Connection string of a server of yours: a URI or keywords. PG* variables and .pgpass count
    /// too; --dsn '' takes all from them.
    #[arg(long, value_name = "DSN")]
    pub dsn: Option<Secret>,
    /// Agree that settings of the server are changed for each run and restored after it.
    #[arg(long)]
    pub maintenance: bool,
    /// Shell command that restarts the server, for settings that take a restart. If any change needs
    /// one, every run begins with one.
    #[arg(long, value_name = "COMMAND")]
    pub restart_command: Option<Secret>,
    /// Let the workload create its tables there and fill them before every run.
    #[arg(long)]
    pub init: bool,
    /// Table that --init may drop though walwright did not make it; may be repeated.
    #[arg(long, value_name = "TABLE", requires = "init")]
    pub replace: Vec<String>,
}

impl From<VisitArgs> for Visit {
    fn from(args: VisitArgs) -> Visit {
        let VisitArgs { dsn, maintenance, restart_command, init, replace } = args;
        Visit { dsn, maintenance, restart_command, init, replace, ..Visit::default() }
    }
}
