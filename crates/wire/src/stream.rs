//! Bytes to and from a server: a unix socket, TCP, or TLS over TCP.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::tls::TlsStream;

/// A connected stream, blocking or not.
///
/// A non-blocking TLS stream can hold bytes of its own on both sides: what was
/// written and not yet sent ([`flush`](Write::flush) until it no longer says
/// `WouldBlock`, as [`has_unsent`](Stream::has_unsent) tells), and what was
/// received and not yet read ([`read`](Read::read) until `WouldBlock`, since the
/// socket will not become readable for it).
#[derive(Debug)]
pub enum Stream {
    /// A unix socket.
    Unix(UnixStream),
    /// Plain TCP.
    Tcp(TcpStream),
    /// TLS over TCP.
    Tls(Box<TlsStream>),
}

impl Stream {
    /// Whether calls return `WouldBlock` instead of waiting.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        match self {
            Stream::Unix(socket) => socket.set_nonblocking(nonblocking),
            Stream::Tcp(socket) => socket.set_nonblocking(nonblocking),
            Stream::Tls(tls) => tls.socket().set_nonblocking(nonblocking),
        }
    }

    /// Longest time a blocking read or write may take; `None` is for ever.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn set_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Unix(socket) => {
                socket.set_read_timeout(limit)?;
                socket.set_write_timeout(limit)
            }
            Stream::Tcp(socket) => {
                socket.set_read_timeout(limit)?;
                socket.set_write_timeout(limit)
            }
            Stream::Tls(tls) => {
                tls.socket().set_read_timeout(limit)?;
                tls.socket().set_write_timeout(limit)
            }
        }
    }

    /// Whether bytes that were written wait inside for the socket to take them.
    pub fn has_unsent(&self) -> bool {
        match self {
            Stream::Unix(_) | Stream::Tcp(_) => false,
            Stream::Tls(tls) => tls.has_unsent(),
        }
    }

    /// Whether the stream is encrypted.
    pub fn is_tls(&self) -> bool {
        matches!(self, Stream::Tls(_))
    }

    /// Whether a read can leave bytes behind that the socket does not show.
    pub fn reads_ahead(&self) -> bool {
        self.is_tls()
    }

    /// What SCRAM binds to the channel (`tls-server-end-point`), where there is
    /// a certificate to take it from.
    pub(crate) fn server_end_point(&self) -> Option<Vec<u8>> {
        match self {
            Stream::Unix(_) | Stream::Tcp(_) => None,
            Stream::Tls(tls) => tls.server_end_point(),
        }
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Stream::Unix(socket) => socket.as_raw_fd(),
            Stream::Tcp(socket) => socket.as_raw_fd(),
            Stream::Tls(tls) => tls.socket().as_raw_fd(),
        }
    }
}

/// Reads and writes go to the kernel without the C library between: each of its
/// calls is a place where a thread can be cancelled, and getting ready for that
/// takes a tenth of the load generator's own time.
impl Read for Stream {
    #[inline]
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(socket) => Ok(recv(socket, into, RecvFlags::empty())?.0),
            Stream::Tcp(socket) => Ok(recv(socket, into, RecvFlags::empty())?.0),
            Stream::Tls(tls) => tls.read(into),
        }
    }
}

impl Write for Stream {
    #[inline]
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(socket) => Ok(send(socket, from, SendFlags::NOSIGNAL)?),
            Stream::Tcp(socket) => Ok(send(socket, from, SendFlags::NOSIGNAL)?),
            Stream::Tls(tls) => tls.write(from),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Unix(_) | Stream::Tcp(_) => Ok(()),
            Stream::Tls(tls) => tls.flush(),
        }
    }
}
