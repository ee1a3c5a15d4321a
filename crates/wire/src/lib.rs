//! PostgreSQL protocol version 3, the client's side: every connection is opened here.
//!
//! Here lives what has to be cheap for the data plane: a [`Scanner`] that finds
//! message boundaries without looking inside, [`Template`]s of Bind and Execute
//! with values patched in, and a [`Stream`] over a unix socket, TCP or TLS that
//! works blocking and non-blocking. Around it: every message by its name
//! ([`frontend`] for what a client sends, [`backend`] for what a server answers),
//! connecting with authentication and TLS as libpq does it ([`Connector`]), and
//! cancelling ([`cancel`]).
//!
//! What does not live here: an event loop, a pool, SQL, types beyond integers.
//! Nothing in this crate trusts a length that came over a socket, and bytes from
//! outside give errors, never panics.

pub mod backend;
pub mod frontend;

mod authenticate;
mod cancel;
mod cancel_key;
mod connection;
mod connector;
mod deadline;
mod error;
mod options;
mod read;
mod require_auth;
mod scanner;
mod scram_keys;
mod secret;
mod stream;
mod tag_set;
mod template;
mod tls;

pub use cancel::cancel;
pub use cancel_key::CancelKey;
pub use connection::Connection;
pub use connector::{Connector, keep_alive};
pub use error::WireError;
pub use options::{
    ChannelBinding, ConnectOptions, Host, RootCert, SslMode, SslNegotiation, TlsOptions,
};
pub use read::Malformed;
pub use require_auth::{RequireAuth, RequireAuthError};
pub use scanner::{Frame, FrameError, Scanner};
pub use scram_keys::ScramKeys;
pub use secret::Secret;
pub use stream::Stream;
pub use tag_set::TagSet;
pub use template::{
    BindTemplate, Format, Piece, Template, Unrenderable, Values, bind_execute_values, parse_message,
};
pub use tls::{TlsError, common_name, server_end_point};
