//! rustls over a TCP socket, blocking or not.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustix::net::{SendFlags, send};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use super::TlsError;
use super::end_point::server_end_point;
use crate::WireError;
use crate::deadline::{Deadline, Until};

/// A TLS session on a TCP socket. Dropped, it says its end to the other side.
#[derive(Debug)]
pub struct TlsStream {
    session: ClientConnection,
    socket: TcpStream,
}

impl TlsStream {
    /// Shakes hands on a blocking socket until the deadline.
    pub(crate) fn handshake(
        config: Arc<ClientConfig>,
        host: &str,
        socket: TcpStream,
        deadline: Deadline,
    ) -> Result<Self, WireError> {
        let name =
            ServerName::try_from(host.to_owned()).map_err(|_| TlsError::Name(host.to_owned()))?;
        let session = ClientConnection::new(config, name).map_err(TlsError::Setup)?;
        let mut stream = TlsStream { session, socket };
        while stream.session.is_handshaking() {
            let mut until = Until::new(&stream.socket, deadline);
            stream.session.complete_io(&mut until).map_err(|error| broken(host, error))?;
        }
        Ok(stream)
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

    /// Whether the server said that it speaks PostgreSQL's protocol in here.
    pub(crate) fn has_alpn(&self) -> bool {
        self.session.alpn_protocol().is_some()
    }

    /// Reads until the deadline, however slowly a record arrives.
    pub(crate) fn read_until(&mut self, into: &mut [u8], deadline: Deadline) -> io::Result<usize> {
        read(&mut self.session, &mut Until::new(&self.socket, deadline), into)
    }

    /// Writes until the deadline.
    pub(crate) fn write_until(&mut self, from: &[u8], deadline: Deadline) -> io::Result<()> {
        let mut until = Until::new(&self.socket, deadline);
        let mut from = from;
        while !from.is_empty() {
            let taken = write(&mut self.session, &mut until, from)?;
            from = &from[taken..];
        }
        push(&mut self.session, &mut until)
    }

    /// Sends what goes at once, then says that nothing follows.
    pub(crate) fn end(&mut self, last: &[u8]) {
        let mut at_once = AtOnce(&self.socket);
        // The connection is closed next, whether or not this arrives.
        let _ = self.session.writer().write(last);
        self.session.send_close_notify();
        let _ = push(&mut self.session, &mut at_once);
    }
}

impl Drop for TlsStream {
    fn drop(&mut self) {
        self.end(&[]);
    }
}

fn broken(host: &str, error: io::Error) -> WireError {
    if crate::deadline::is_timeout(&error) {
        return WireError::Io(error);
    }
    let host = host.to_owned();
    match error.downcast::<rustls::Error>() {
        Ok(said) => TlsError::Handshake { host, said },
        Err(said) => TlsError::Broken { host, said },
    }
    .into()
}

/// A socket that takes what it can without waiting.
struct AtOnce<'a>(&'a TcpStream);

impl Write for AtOnce<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        Ok(send(self.0, from, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends what is encrypted and waits, as far as the socket takes it.
fn push(session: &mut ClientConnection, socket: &mut impl Write) -> io::Result<()> {
    while session.wants_write() {
        if session.write_tls(socket)? == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
    }
    Ok(())
}

fn read(
    session: &mut ClientConnection,
    socket: &mut (impl Read + Write),
    into: &mut [u8],
) -> io::Result<usize> {
    loop {
        match session.reader().read(into) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            done => return done,
        }
        // A server that closes without a TLS goodbye is one that closed.
        if session.read_tls(socket)? == 0 {
            return Ok(0);
        }
        session
            .process_new_packets()
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        // Answers of TLS itself, such as to a key update; what cannot go
        // now goes with the next write.
        match push(session, socket) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
    }
}

fn write(
    session: &mut ClientConnection,
    socket: &mut impl Write,
    from: &[u8],
) -> io::Result<usize> {
    loop {
        let taken = session.writer().write(from)?;
        match push(session, socket) {
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

impl Read for TlsStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        read(&mut self.session, &mut self.socket, into)
    }
}

impl Write for TlsStream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        write(&mut self.session, &mut self.socket, from)
    }

    fn flush(&mut self) -> io::Result<()> {
        push(&mut self.session, &mut self.socket)
    }
}
