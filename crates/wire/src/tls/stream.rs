//! rustls over a TCP socket, blocking or not.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use super::end_point::server_end_point;
use crate::WireError;

/// A TLS session on a TCP socket.
#[derive(Debug)]
pub struct TlsStream {
    session: ClientConnection,
    socket: TcpStream,
}

impl TlsStream {
    /// Shakes hands on a blocking socket.
    pub(crate) fn handshake(
        config: Arc<ClientConfig>,
        host: &str,
        mut socket: TcpStream,
    ) -> Result<Self, WireError> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            WireError::Tls(format!("\"{host}\" is neither a host name nor an address"))
        })?;
        let mut session = ClientConnection::new(config, name)
            .map_err(|error| WireError::Tls(error.to_string()))?;
        while session.is_handshaking() {
            session.complete_io(&mut socket).map_err(|error| match error.kind() {
                io::ErrorKind::InvalidData => {
                    WireError::Tls(format!("handshake with {host}: {error}"))
                }
                _ => WireError::from(error),
            })?;
        }
        Ok(TlsStream { session, socket })
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub(crate) fn has_unsent(&self) -> bool {
        self.session.wants_write()
    }

    pub(crate) fn server_end_point(&self) -> Option<Vec<u8>> {
        server_end_point(self.session.peer_certificates()?.first()?)
    }

    /// Sends what is encrypted and waits, as far as the socket takes it.
    fn send(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            if self.session.write_tls(&mut self.socket)? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }
}

impl Read for TlsStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(into) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            // A server that closes without a TLS goodbye is one that closed.
            if self.session.read_tls(&mut self.socket)? == 0 {
                return Ok(0);
            }
            self.session
                .process_new_packets()
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            // Answers of TLS itself, such as to a key update; what cannot go
            // now goes with the next write.
            match self.send() {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
        }
    }
}

impl Write for TlsStream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        loop {
            let taken = self.session.writer().write(from)?;
            match self.send() {
                // Its buffer was full and is empty now.
                Ok(()) if taken == 0 && !from.is_empty() => {}
                Ok(()) => return Ok(taken),
                // The bytes are taken and will go with `flush`; only when none
                // could be taken is this a wait.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && taken > 0 => {
                    return Ok(taken);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}
