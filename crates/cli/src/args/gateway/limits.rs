//! `walwright gateway`: pooling and limits, as `gateway.toml` has them.

use clap::{Args, ValueEnum};
use walwright_gateway::config::Time;
use walwright_gateway::{PoolMode, Reads};

/// Pooling and limits.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Pooling and limits (times as 500ms, 120s, 5min; 0 is no limit)")]
pub struct GatewayLimitArgs {
    /// Server sessions of each kind (relaxed and not), for a user, database and thread, at most.
    /// The default is 20.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub pool_size: Option<u16>,
    /// When a server session is given back.
    #[arg(long, value_enum)]
    pub pool_mode: Option<PoolModeChoice>,
    /// Which answers wait until what they may have seen is durable.
    #[arg(long, value_enum)]
    pub reads: Option<ReadsChoice>,
    /// Clients in all. The default is 10000.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub max_clients: Option<u32>,
    /// Server sessions in one database.
    #[arg(long, value_name = "N")]
    pub max_database_connections: Option<usize>,
    /// Server sessions of one user.
    #[arg(long, value_name = "N")]
    pub max_user_connections: Option<usize>,
    /// From connecting to being let in. The default is 60s.
    #[arg(long, value_name = "TIME")]
    pub login_timeout: Option<Time>,
    /// Longest wait of a statement for a server session. The default is 120s.
    #[arg(long, value_name = "TIME")]
    pub query_wait_timeout: Option<Time>,
    /// Longest run of a statement.
    #[arg(long, value_name = "TIME")]
    pub query_timeout: Option<Time>,
    /// Longest a transaction may go on.
    #[arg(long, value_name = "TIME")]
    pub transaction_timeout: Option<Time>,
    /// Longest a transaction may wait for its client.
    #[arg(long, value_name = "TIME")]
    pub idle_transaction_timeout: Option<Time>,
    /// Longest a client may be idle outside a transaction.
    #[arg(long, value_name = "TIME")]
    pub client_idle_timeout: Option<Time>,
    /// A server session that nobody needed for so long is closed. The default is 10min.
    #[arg(long, value_name = "TIME")]
    pub server_idle_timeout: Option<Time>,
    /// A server session so old is not used any more. The default is 1h.
    #[arg(long, value_name = "TIME")]
    pub server_lifetime: Option<Time>,
}

/// When a server session is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PoolModeChoice {
    /// After each transaction; the default.
    Transaction,
    /// When the client leaves.
    Session,
    /// After each statement: transactions of several are refused.
    Statement,
}

impl From<PoolModeChoice> for PoolMode {
    fn from(choice: PoolModeChoice) -> PoolMode {
        match choice {
            PoolModeChoice::Transaction => PoolMode::Transaction,
            PoolModeChoice::Session => PoolMode::Session,
            PoolModeChoice::Statement => PoolMode::Statement,
        }
    }
}

/// Which answers wait for a barrier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ReadsChoice {
    /// Those of statements outside a transaction and of every COMMIT; the default.
    Transaction,
    /// Those within transactions too.
    Strict,
    /// Those of writes alone: a read may tell of what a crash takes back.
    Off,
}

impl From<ReadsChoice> for Reads {
    fn from(choice: ReadsChoice) -> Reads {
        match choice {
            ReadsChoice::Transaction => Reads::Transaction,
            ReadsChoice::Strict => Reads::Strict,
            ReadsChoice::Off => Reads::Off,
        }
    }
}
