//! `walwright documents`: what can be typed.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use walwright_server::Secret;

use super::load::pair;
use super::values::{duration, some_time};

const HELP: &str = r#"Examples:
  walwright documents serve                         on a server of its own, from nothing
  walwright documents serve --dsn postgres://me@db/app --create --scale 10
  walwright documents serve --pool-size 50 --reset discard_all -o references=merge
  curl -d '{"identity": 17, "references": [3], "body": {"a": 1}}' http://127.0.0.1:8090/data/resource-5
  curl 'http://127.0.0.1:8090/data/resource-5?identity=17'

POST /data/RESOURCE writes the document of an identity, 201 where it is new and 200 where it was
there, with its address and its version (ETag); 409 names references to what does not exist. PUT
/data/RESOURCE/ID wants the version in If-Match: 204, or 412 where it has another. GET and DELETE by
ID; GET /data/RESOURCE?identity=17, or ?limit=25&offset=0, the newest first. 503 is answered where
nothing is written and it may be tried again, 504 where a commit was left unanswered. GET /metrics is
for Prometheus, GET /healthz for probes; -v writes an access log.

SIGTERM and SIGINT (Ctrl-C) end it once what has come is answered."#;

/// `walwright documents`.
#[derive(Debug, Subcommand)]
pub enum DocumentsCommand {
    /// Serve the documents of the workload `documents` by HTTP.
    #[command(after_help = HELP)]
    Serve(ServeDocumentsArgs),
}

/// `walwright documents serve`.
#[derive(Debug, Args)]
pub struct ServeDocumentsArgs {
    /// Connection string of the server: a URI or keywords. PG* variables and .pgpass count too.
    /// Without it, an embedded server with the workload's data, gone at the end.
    #[arg(long, value_name = "DSN", help_heading = "Documents")]
    pub dsn: Option<Secret>,
    /// Create the workload's tables and data on the server of --dsn.
    #[arg(long, requires = "dsn", help_heading = "Documents")]
    pub create: bool,
    /// Table that --create may drop though walwright did not make it; may be repeated.
    #[arg(long, value_name = "TABLE", requires = "create", help_heading = "Documents")]
    pub replace: Vec<String>,
    /// Scale of the data that are made: 10,000 documents each.
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Documents")]
    pub scale: u32,
    /// An option of the workload for the tables that are made, such as references=merge.
    #[arg(short, long, value_name = "NAME=VALUE", value_parser = pair, help_heading = "Documents")]
    pub option: Vec<(String, String)>,
    /// A setting of the embedded server.
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, conflicts_with = "dsn", help_heading = "Documents")]
    pub set: Vec<(String, String)>,
    /// Resources that there are. The default is the workload's: resource-0 to resource-7.
    #[arg(long, value_name = "NAME", value_delimiter = ',', help_heading = "Documents")]
    pub resource: Vec<String>,

    /// Address and port at which it listens.
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "127.0.0.1:8090",
        help_heading = "Requests"
    )]
    pub listen: SocketAddr,
    /// Longest document, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, value_parser = clap::value_parser!(u32).range(16..=1 << 30), help_heading = "Requests")]
    pub longest_body: u32,
    /// Longest that a client may take to send it.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = some_time, help_heading = "Requests")]
    pub body_time: Duration,
    /// Threads that serve. The default is one a processor.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256), help_heading = "Requests")]
    pub threads: Option<u16>,

    /// Connections to the server at most.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=10_000), help_heading = "Pool")]
    pub pool_size: u16,
    /// Longest that a request waits for one.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = some_time, help_heading = "Pool")]
    pub pool_wait: Duration,
    /// What is sent when a request has done with a connection.
    #[arg(long, value_enum, value_name = "WHAT", default_value = "none", help_heading = "Pool")]
    pub reset: ResetChoice,

    /// How statements are sent.
    #[arg(
        long,
        value_enum,
        value_name = "HOW",
        default_value = "prepared",
        help_heading = "Transactions"
    )]
    pub statements: ShapeChoice,
    /// How a document is locked before it is written.
    #[arg(
        long,
        value_enum,
        value_name = "LOCK",
        default_value = "no_key_update",
        help_heading = "Transactions"
    )]
    pub locks: LocksChoice,
    /// How long a transaction that changes a document does nothing before it writes, as one does
    /// that calls another service while it holds its lock.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = duration, help_heading = "Transactions")]
    pub idle: Duration,
    /// Isolation of what writes.
    #[arg(
        long,
        value_enum,
        value_name = "LEVEL",
        default_value = "read_committed",
        help_heading = "Transactions"
    )]
    pub isolation: IsolationChoice,
    /// How often a transaction that met another is tried again: on 40001, 40P01 and 55P03, and on
    /// 23503 and 23505 of a write, which come from a concurrent writer.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(..=1000), help_heading = "Transactions")]
    pub retries: u32,
    /// Longest that a statement may take.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = some_time, help_heading = "Transactions")]
    pub statement_time: Duration,
}

/// What is sent when a request has done with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum ResetChoice {
    /// Nothing.
    None,
    /// DISCARD ALL.
    DiscardAll,
    /// Resets of all but prepared statements.
    Selective,
}

/// How statements are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ShapeChoice {
    /// Prepared once a connection.
    Prepared,
    /// Parsed and planned each time.
    Unprepared,
}

/// How a document is locked before it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum LocksChoice {
    /// FOR NO KEY UPDATE.
    NoKeyUpdate,
    /// FOR KEY SHARE.
    KeyShare,
    /// FOR UPDATE NOWAIT.
    UpdateNowait,
    /// Not.
    None,
}

/// Isolation of what writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum IsolationChoice {
    /// READ COMMITTED.
    ReadCommitted,
    /// REPEATABLE READ.
    RepeatableRead,
    /// SERIALIZABLE.
    Serializable,
}
