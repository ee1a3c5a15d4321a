//! Rows from files, pipes and HTTP into PostgreSQL tables.
//!
//! [`Records`] cuts what comes in into records, whatever they hold; a [`Table`] says which of
//! their fields goes to which column; a [`Destination`] writes them through a coalescer, with a
//! handle for each set of columns that rows bring; [`feed`] carries one input through it, and an
//! [`Endpoint`] what comes by HTTP. Where
//! batches and acknowledgements come from is `walwright-coalesce`; what is typed and shown is the
//! command's.

mod answers;
mod connect;
mod csv;
mod destination;
mod error;
mod feed;
mod format;
mod http;
mod input;
mod json;
mod reader;
mod records;
mod rejects;
mod source;
mod summary;
mod table;
mod text;

pub use connect::{Server, Tls};
pub use destination::Destination;
pub use error::IngestError;
pub use feed::{Reading, feed};
pub use format::Format;
pub use http::{Admission, Endpoint, HttpLimits, TlsFiles, server_config};
pub use input::Input;
pub use records::{Fault, Record, Records};
pub use rejects::{Reason, Rejects};
pub use source::source;
pub use summary::{Counts, Latency, Summary};
pub use table::{Mapping, Table};
