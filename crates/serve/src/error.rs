//! Why the site cannot be.

use std::net::SocketAddr;

use thiserror::Error;

/// Why the site cannot be.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address cannot be had.
    #[error("cannot listen on {address}: {error}{}", hint(error))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        error: std::io::Error,
    },
    /// A token that is easily guessed.
    #[error(
        "a token has at least {} letters: make one with `openssl rand -hex 16`",
        crate::Token::SHORTEST
    )]
    ShortToken,
}

fn hint(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            "; another process listens there: name another port with --listen"
        }
        std::io::ErrorKind::AddrNotAvailable => "; this machine has no such address",
        _ => "",
    }
}
