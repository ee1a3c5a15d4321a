//! `walwright ingest`: what can be typed.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use walwright_server::Secret;

use super::values::{duration, some_time};

const HELP: &str = r#"Examples:
  walwright ingest --dsn postgres://me@db/app --table events < events.ndjson
  producer | walwright ingest --dsn … --table events
  walwright ingest --dsn … --table events --create-tables events-*.csv
  walwright ingest --dsn … --table events --http 127.0.0.1:8080
  curl -d '{"id": 1, "kind": "click"}' http://127.0.0.1:8080/ingest/events
  walwright ingest --embedded                   a demonstration, from nothing

Rows are gathered while a commit is on its way and go by COPY; each counts as written only when it
is durable. A field goes to the column of its name; columns without a field take their default.

A file that was interrupted goes on where it was when it is ingested again: which of its bytes are
written is kept in the table walwright_lanes, in the same transaction as the rows. What was there is
known by its first bytes: a file that has grown goes on, another in its place is read from its
beginning.

With --http, POST /ingest/TABLE takes a JSON document, an array of them, or one a line
(application/x-ndjson), and is answered when they are durable, with what became of each row:
200 all are written, 422 some were rejected, 429 there was no room, 503 the server is away: what did
not become "written" or "rejected" may be sent again. GET /metrics is for Prometheus, GET /healthz
for probes.

SIGTERM and SIGINT (Ctrl-C) end the reading; what was read is written, then it exits with 0.
Exits with 4 when rows were rejected, with 1 when rows could not be written."#;

/// `walwright ingest`.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub struct IngestArgs {
    /// Files to read, one after the other. The default, and -, is standard input.
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Connection string of the server: a URI or keywords. PG* variables and .pgpass count too.
    #[arg(long, value_name = "DSN", required_unless_present = "embedded")]
    pub dsn: Option<Secret>,
    /// A demonstration: a server of its own with a table events (id, at, kind, payload), gone at the
    /// end. Without FILE and --http it makes up rows.
    #[arg(long, conflicts_with = "dsn")]
    pub embedded: bool,
    /// Rows that the demonstration makes up.
    #[arg(long, value_name = "N", default_value_t = 500_000, requires = "embedded", conflicts_with_all = ["files", "http"])]
    pub rows: u64,
    /// The table, with its schema where the search path does not find it; with --http it may be
    /// repeated, and only these are written.
    #[arg(long, value_name = "TABLE", required_unless_present = "embedded", value_delimiter = ',')]
    pub table: Vec<String>,
    /// Address and port at which rows are taken by HTTP. See --help.
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["files", "format", "rejects"])]
    pub http: Option<SocketAddr>,
    /// Format of the rows. The default is what a file's name says, else NDJSON.
    #[arg(long, value_enum)]
    pub format: Option<FormatChoice>,

    /// Column that a field of another name goes to.
    #[arg(long, value_name = "FIELD=COLUMN", value_parser = renamed, value_delimiter = ',', help_heading = "Fields and columns")]
    pub map: Vec<(String, String)>,
    /// Leave out fields that have no column, instead of rejecting their rows.
    #[arg(long, help_heading = "Fields and columns")]
    pub ignore_unknown: bool,
    /// The only columns that are written; for PostgreSQL text those of its fields, in their order.
    #[arg(long, value_name = "COLUMN", value_delimiter = ',', help_heading = "Fields and columns")]
    pub columns: Vec<String>,

    /// What becomes of a row whose key is in the table.
    #[arg(long, value_enum, default_value = "error", value_name = "WHAT", help_heading = "Rows")]
    pub on_conflict: ConflictChoice,
    /// Columns of a unique index. With it, rows whose COMMIT was left unanswered are written again
    /// and none twice, also without walwright_lanes.
    #[arg(long, value_name = "COLUMN", value_delimiter = ',', help_heading = "Rows")]
    pub key: Vec<String>,
    /// Columns whose equal values are written in the order in which they came.
    #[arg(long, value_name = "COLUMN", value_delimiter = ',', help_heading = "Rows")]
    pub order_by: Vec<String>,
    /// File for rows that are not written, as they came: to be mended and ingested again. Why is in
    /// FILE.reasons, a line of JSON for each.
    #[arg(long, value_name = "FILE", help_heading = "Rows")]
    pub rejects: Option<PathBuf>,
    /// Keep rows that the server refuses in the table walwright_dead_letters.
    #[arg(long, help_heading = "Rows")]
    pub dead_letters: bool,
    /// Create walwright_lanes and walwright_dead_letters where they are missing.
    #[arg(long, help_heading = "Rows")]
    pub create_tables: bool,
    /// Read files from their beginning, and keep no account of what is written.
    #[arg(long, help_heading = "Rows")]
    pub no_resume: bool,
    /// Longest row, in bytes; longer ones are rejected.
    #[arg(long, value_name = "BYTES", default_value_t = 16 << 20, value_parser = clap::value_parser!(u32).range(16..=1 << 30), help_heading = "Rows")]
    pub longest_row: u32,

    /// Connections that write.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256), help_heading = "Batches")]
    pub connections: u16,
    /// Most rows of a batch.
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = "Batches")]
    pub batch_rows: u32,
    /// Most rows that wait or are on their way; a reader waits for room, and by HTTP further rows
    /// are answered with 429.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000), help_heading = "Batches")]
    pub waiting_rows: u32,
    /// Longest that a row waits for others while a connection is free.
    #[arg(long, value_name = "TIME", default_value = "5ms", value_parser = duration, help_heading = "Batches")]
    pub age: Duration,
    /// What an acknowledgement means: synchronous_commit of the sessions. The default is the
    /// server's, or on where that is off.
    #[arg(long, value_enum, value_name = "LEVEL", help_heading = "Batches")]
    pub durability: Option<DurabilityChoice>,
    /// How long a server that is away, or refuses for a while, is tried again.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration, help_heading = "Batches")]
    pub retry_for: Duration,

    /// File of bearer tokens, one a line, one of which a request must bring.
    #[arg(long, value_name = "FILE", requires = "http", help_heading = "HTTP")]
    pub http_token_file: Option<PathBuf>,
    /// PEM file with the certificate for TLS, and those that lead to its authority.
    #[arg(long, value_name = "FILE", requires_all = ["http", "http_tls_key"], help_heading = "HTTP")]
    pub http_tls_cert: Option<PathBuf>,
    /// PEM file with the certificate's key.
    #[arg(long, value_name = "FILE", requires = "http_tls_cert", help_heading = "HTTP")]
    pub http_tls_key: Option<PathBuf>,
    /// PEM file with authorities, one of which must have signed each client's certificate.
    #[arg(long, value_name = "FILE", requires = "http_tls_cert", help_heading = "HTTP")]
    pub http_client_ca: Option<PathBuf>,
    /// Longest body of a request, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 16 << 20, value_parser = clap::value_parser!(u32).range(16..=1 << 30), requires = "http", help_heading = "HTTP")]
    pub http_longest_body: u32,
    /// Longest that a client may take to send it.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = some_time, requires = "http", help_heading = "HTTP")]
    pub http_body_time: Duration,

    /// No progress.
    #[arg(short, long)]
    pub quiet: bool,
}

/// A format of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormatChoice {
    /// JSON objects, one a line.
    Ndjson,
    /// Comma-separated values under a header; an empty field is NULL, "" an empty text.
    Csv,
    /// PostgreSQL's text format of COPY.
    Text,
}

/// What becomes of a row whose key is in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ConflictChoice {
    /// It is rejected.
    Error,
    /// The table stays as it is.
    Ignore,
    /// The row takes the place of the one that is there; needs --key.
    Update,
}

/// What an acknowledgement means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DurabilityChoice {
    /// Visible on the synchronous standbys.
    RemoteApply,
    /// Flushed here and on the synchronous standbys.
    On,
    /// Flushed here, written on the synchronous standbys.
    RemoteWrite,
    /// Flushed here.
    Local,
    /// Not flushed: a crash of the server loses rows that count as written.
    Off,
}

/// Reads `field=column`.
fn renamed(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((field, column)) if !field.is_empty() && !column.is_empty() => {
            Ok((field.to_owned(), column.to_owned()))
        }
        _ => Err(format!("'{text}' names no field and column: write field=column")),
    }
}
