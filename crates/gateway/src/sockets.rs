//! The sockets that a gateway serves on.

use std::net::TcpListener;

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::AcceptConn;

use crate::{GatewayError, Listen, Options, Socket};

/// The sockets that a gateway serves on.
#[derive(Debug)]
pub struct Sockets {
    /// For clients.
    pub clients: Vec<Socket>,
    /// For metrics.
    pub metrics: Option<TcpListener>,
    /// Whether the paths of unix sockets go when the gateway ends: not where they are somebody
    /// else's.
    pub removes: bool,
}

impl Sockets {
    /// Listens where the options say.
    ///
    /// # Errors
    /// When an address is taken, or the system refuses.
    pub fn bind(options: &Options) -> Result<Sockets, GatewayError> {
        let bind = |place: &Listen| {
            let failed = |source| GatewayError::Listen { place: place.clone(), source };
            place.bind().map_err(failed)
        };
        let clients = options.listen.iter().map(bind).collect::<Result<_, _>>()?;
        let serves = |place| {
            let failed = |source| GatewayError::Metrics { place, source };
            TcpListener::bind(place).map_err(failed)
        };
        let metrics = options.metrics.map(serves).transpose()?;
        Ok(Sockets { clients, metrics, removes: true })
    }
}

impl Socket {
    /// Whether connections can be taken from it.
    pub fn listens(&self) -> bool {
        getsockopt(self, AcceptConn).unwrap_or_default()
    }
}
