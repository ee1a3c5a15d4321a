//! The sockets that a gateway serves on.

use std::io;
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
        let none = Sockets { clients: Vec::new(), metrics: None, removes: true };
        Sockets::bind_beside(options, none)
    }

    /// The same where some of them are there already.
    ///
    /// # Errors
    /// When an address is taken, or the system refuses.
    pub fn bind_beside(options: &Options, there: Sockets) -> Result<Sockets, GatewayError> {
        let Sockets { clients: mut known, metrics, removes } = there;
        let mut bind = |place: &Listen| {
            let is = |socket: &Socket| socket.place().is_ok_and(|of| of == *place);
            match known.iter().position(is) {
                Some(at) => Ok(known.swap_remove(at)),
                None => place
                    .bind()
                    .map_err(|source| GatewayError::Listen { place: place.clone(), source }),
            }
        };
        let clients = options.listen.iter().map(&mut bind).collect::<Result<_, _>>()?;
        let is = |listener: &TcpListener| listener.local_addr().ok() == options.metrics;
        let metrics = match (options.metrics, metrics.filter(is)) {
            (Some(place), None) => {
                let failed = |source| GatewayError::Metrics { place, source };
                Some(TcpListener::bind(place).map_err(failed)?)
            }
            (_, known) => known,
        };
        Ok(Sockets { clients, metrics, removes })
    }

    /// The same sockets once more.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn try_clone(&self) -> io::Result<Sockets> {
        let clone = |socket: &Socket| {
            Ok(match socket {
                Socket::Tcp(listener) => Socket::Tcp(listener.try_clone()?),
                Socket::Unix(listener) => Socket::Unix(listener.try_clone()?),
            })
        };
        Ok(Sockets {
            clients: self.clients.iter().map(clone).collect::<io::Result<_>>()?,
            metrics: self.metrics.as_ref().map(TcpListener::try_clone).transpose()?,
            removes: self.removes,
        })
    }
}

impl Socket {
    /// Whether connections can be taken from it.
    pub fn listens(&self) -> bool {
        getsockopt(self, AcceptConn).unwrap_or_default()
    }
}
