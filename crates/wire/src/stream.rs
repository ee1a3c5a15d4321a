//! Bytes to and from a server: a unix socket, TCP, or TLS over TCP.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::deadline::{Deadline, Until};
use crate::frontend::TERMINATE;
use crate::tls::TlsStream;

/// A connected stream, blocking or not.
///
/// A non-blocking TLS stream can hold bytes of its own on both sides: what was
/// written and not yet sent ([`flush`](Write::flush) until it no longer says
/// `WouldBlock`, as [`has_unsent`](Stream::has_unsent) tells), and what was
/// received and not yet read ([`read`](Read::read) until `WouldBlock`, since the
/// socket will not become readable for it).
///
/// Dropped, a TLS stream ends its session as TLS asks; where the server should hear
/// the protocol's own goodbye too, call [`terminate`](Stream::terminate) before.
#[derive(Debug)]
pub struct Stream {
    transport: Transport,
    /// Whether to say goodbye when dropped.
    says_goodbye: bool,
}

#[derive(Debug)]
pub(crate) enum Transport {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(Box<TlsStream>),
}

impl Stream {
    pub(crate) fn new(transport: Transport) -> Self {
        Stream { transport, says_goodbye: false }
    }

    /// Whether calls return `WouldBlock` instead of waiting.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        match &self.transport {
            Transport::Unix(socket) => socket.set_nonblocking(nonblocking),
            Transport::Tcp(socket) => socket.set_nonblocking(nonblocking),
            Transport::Tls(tls) => tls.socket().set_nonblocking(nonblocking),
        }
    }

    /// Longest time a blocking read or write may take; `None` is for ever.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn set_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        match &self.transport {
            Transport::Unix(socket) => {
                socket.set_read_timeout(limit)?;
                socket.set_write_timeout(limit)
            }
            Transport::Tcp(socket) => {
                socket.set_read_timeout(limit)?;
                socket.set_write_timeout(limit)
            }
            Transport::Tls(tls) => {
                tls.socket().set_read_timeout(limit)?;
                tls.socket().set_write_timeout(limit)
            }
        }
    }

    /// Whether bytes that were written wait inside for the socket to take them.
    pub fn has_unsent(&self) -> bool {
        match &self.transport {
            Transport::Unix(_) | Transport::Tcp(_) => false,
            Transport::Tls(tls) => tls.has_unsent(),
        }
    }

    /// Whether the stream is encrypted.
    pub fn is_tls(&self) -> bool {
        matches!(self.transport, Transport::Tls(_))
    }

    /// Whether a read can leave bytes behind that the socket does not show.
    pub fn reads_ahead(&self) -> bool {
        self.is_tls()
    }

    /// Says goodbye, so that the server logs no lost connection. For a stream on which
    /// whole messages were sent, and which is dropped next. Never waits: what the
    /// socket does not take at once stays unsaid.
    pub fn terminate(&mut self) {
        self.says_goodbye = false;
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        // The connection is closed next, whether or not this arrives.
        let _ = match &mut self.transport {
            Transport::Unix(socket) => send(socket, &TERMINATE, flags),
            Transport::Tcp(socket) => send(socket, &TERMINATE, flags),
            Transport::Tls(tls) => {
                tls.end(&TERMINATE);
                Ok(0)
            }
        };
    }

    /// Whether dropping the stream says goodbye as [`terminate`](Stream::terminate) does.
    pub(crate) fn set_says_goodbye(&mut self, says_goodbye: bool) {
        self.says_goodbye = says_goodbye;
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }

    /// Reads until a deadline; leaves a limit on the socket.
    pub(crate) fn read_until(&mut self, into: &mut [u8], deadline: Deadline) -> io::Result<usize> {
        match &mut self.transport {
            Transport::Unix(socket) => Until::new(&*socket, deadline).read(into),
            Transport::Tcp(socket) => Until::new(&*socket, deadline).read(into),
            Transport::Tls(tls) => tls.read_until(into, deadline),
        }
    }

    /// Writes everything until a deadline; leaves a limit on the socket.
    pub(crate) fn write_until(&mut self, from: &[u8], deadline: Deadline) -> io::Result<()> {
        match &mut self.transport {
            Transport::Unix(socket) => Until::new(&*socket, deadline).write_all(from),
            Transport::Tcp(socket) => Until::new(&*socket, deadline).write_all(from),
            Transport::Tls(tls) => tls.write_until(from, deadline),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.says_goodbye {
            self.terminate();
        }
    }
}

impl AsRawFd for Stream {
    fn as_raw_fd(&self) -> RawFd {
        match &self.transport {
            Transport::Unix(socket) => socket.as_raw_fd(),
            Transport::Tcp(socket) => socket.as_raw_fd(),
            Transport::Tls(tls) => tls.socket().as_raw_fd(),
        }
    }
}

/// Reads and writes go to the kernel without the C library between: each of its
/// calls is a place where a thread can be cancelled, and getting ready for that
/// takes a tenth of the load generator's own time.
impl Read for Stream {
    #[inline]
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match &mut self.transport {
            Transport::Unix(socket) => Ok(recv(socket, into, RecvFlags::empty())?.0),
            Transport::Tcp(socket) => Ok(recv(socket, into, RecvFlags::empty())?.0),
            Transport::Tls(tls) => tls.read(into),
        }
    }
}

impl Write for Stream {
    #[inline]
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        match &mut self.transport {
            Transport::Unix(socket) => Ok(send(socket, from, SendFlags::NOSIGNAL)?),
            Transport::Tcp(socket) => Ok(send(socket, from, SendFlags::NOSIGNAL)?),
            Transport::Tls(tls) => tls.write(from),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.transport {
            Transport::Unix(_) | Transport::Tcp(_) => Ok(()),
            Transport::Tls(tls) => tls.flush(),
        }
    }
}
