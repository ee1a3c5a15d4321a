//! The end of the time something may take as a whole. A socket's own limit counts for
//! each call alone, so a peer that sends a byte now and then would never reach it.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::WireError;

/// The end of the time allowed, if there is one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        Deadline(limit.and_then(|limit| Instant::now().checked_add(limit)))
    }

    /// Time that remains, `None` for ever; an error when there is none.
    pub(crate) fn remaining(self) -> io::Result<Option<Duration>> {
        let Some(end) = self.0 else { return Ok(None) };
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

/// Whether the error says that time ran out.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// A blocking socket whose calls can be limited.
pub(crate) trait Limited: Copy + AsFd {
    fn limit_read(&self, limit: Option<Duration>) -> io::Result<()>;
    fn limit_write(&self, limit: Option<Duration>) -> io::Result<()>;
}

impl Limited for &TcpStream {
    fn limit_read(&self, limit: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(limit)
    }

    fn limit_write(&self, limit: Option<Duration>) -> io::Result<()> {
        self.set_write_timeout(limit)
    }
}

impl Limited for &UnixStream {
    fn limit_read(&self, limit: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(limit)
    }

    fn limit_write(&self, limit: Option<Duration>) -> io::Result<()> {
        self.set_write_timeout(limit)
    }
}

/// A blocking socket that is read and written until a deadline. Leaves limits on the
/// socket.
pub(crate) struct Until<S> {
    socket: S,
    deadline: Deadline,
}

impl<S: Limited> Until<S> {
    pub(crate) fn new(socket: S, deadline: Deadline) -> Self {
        Until { socket, deadline }
    }
}

impl<S: Limited> Read for Until<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            self.socket.limit_read(self.deadline.remaining()?)?;
            match recv(self.socket, &mut *into, RecvFlags::empty()).map_err(io::Error::from) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok((count, _)) => return Ok(count),
                Err(error) => return Err(named(error)),
            }
        }
    }
}

impl<S: Limited> Write for Until<S> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        loop {
            self.socket.limit_write(self.deadline.remaining()?)?;
            match send(self.socket, from, SendFlags::NOSIGNAL).map_err(io::Error::from) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done.map_err(named),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A blocking socket says `WouldBlock` when its time is up, which others take for a
/// reason to come again.
fn named(error: io::Error) -> io::Error {
    if is_timeout(&error) { io::ErrorKind::TimedOut.into() } else { error }
}

/// Says whose time ran out, where it did.
pub(crate) fn name_timeout(
    error: WireError,
    limit: Option<Duration>,
    target: impl FnOnce() -> String,
) -> WireError {
    match (error, limit) {
        (WireError::Io(error), Some(limit)) if is_timeout(&error) => {
            WireError::Timeout { target: target(), limit }
        }
        (error, _) => error,
    }
}
