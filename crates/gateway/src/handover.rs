//! How a gateway hands its sockets to the next one, which takes over while it drains.
//!
//! The listening sockets themselves are handed over: a connection that waits in a socket's queue
//! belongs to the socket and not to a process, so none is refused or reset, as those in the queue
//! of a listener with SO_REUSEPORT are when it closes.
//!
//! The next gateway asks for `sockets` and gets them; when it is ready it says `take`, whereupon
//! the first accepts no more and says `yours`, and takes it all back unless it hears `serving`.
//! From then on the next passes on cancel requests for clients it does not know, and the first
//! says `drained` when nothing of it can reach the server any more.

use std::io::{self, BufRead, BufReader, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::unistd::geteuid;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::acceptor::Acceptor;
use crate::control::Control;
use crate::gateway::Handle;
use crate::{Exposures, Socket, Sockets};

/// Longest that the other side may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often is looked whether the gateway has ended.
const LOOK: Duration = Duration::from_millis(200);
/// Most sockets that are handed over.
const MOST: usize = 64;
/// Longest line.
const LONGEST: u64 = 1024;

/// The gateway that was there before, and is asked for its sockets.
#[derive(Debug)]
pub struct Predecessor {
    stream: UnixStream,
}

impl Predecessor {
    /// The gateway that hands over at a path, if there is one, and its sockets.
    ///
    /// # Errors
    /// When it does not hand them over.
    pub fn at(path: &Path) -> io::Result<Option<(Predecessor, Sockets)>> {
        let stream = match UnixStream::connect(path) {
            Ok(stream) => stream,
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        refuse_others(&stream)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        (&stream).write_all(b"sockets\n")?;
        let sockets = receive(&stream)?;
        Ok(Some((Predecessor { stream }, sockets)))
    }

    /// It accepts no more from here on.
    ///
    /// # Errors
    /// When it does not say so.
    pub fn take(&self) -> io::Result<()> {
        (&self.stream).write_all(b"take\n")?;
        let mut answer = [0; 6];
        (&self.stream).read_exact(&mut answer)?;
        (&answer == b"yours\n").then_some(()).ok_or_else(|| ErrorKind::InvalidData.into())
    }

    /// Its sockets are served. `drained` is called when nothing of it can reach the server any
    /// more, `gone` when it has ended in any way; what cancels at it is returned.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn follow(
        self,
        drained: impl FnOnce() + Send + 'static,
        gone: impl FnOnce() + Send + 'static,
    ) -> io::Result<Canceller> {
        (&self.stream).write_all(b"serving\n")?;
        self.stream.set_read_timeout(None)?;
        let canceller = Canceller(Arc::new(Mutex::new(self.stream.try_clone()?)));
        std::thread::Builder::new().name("gateway-before".to_owned()).spawn(move || {
            let mut said = String::new();
            let heard = BufReader::new(self.stream).take(LONGEST).read_line(&mut said);
            if heard.is_ok() && said == "drained\n" {
                drained();
            } else {
                tracing::warn!(
                    "the gateway before this one ended without having drained: reads go on waiting for a flush"
                );
            }
            gone();
        })?;
        Ok(canceller)
    }
}

/// Passes cancel requests on to the gateway that was there before.
#[derive(Debug, Clone)]
pub struct Canceller(Arc<Mutex<UnixStream>>);

impl Canceller {
    /// Passes one on.
    pub fn cancel(&self, process: u32, key: &[u8]) {
        let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        let stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A gateway that has ended has nothing left to cancel.
        let _ = (&*stream).write_all(format!("cancel {process} {key}\n").as_bytes());
    }

    /// Nobody follows any more.
    pub fn close(&self) {
        let stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
}

/// What a gateway accepts clients with, which it stops when another takes over.
#[derive(Debug)]
pub struct Accepting {
    acceptor: Mutex<Option<Acceptor>>,
    /// The same sockets, as long as it may go on with them or hand them over.
    sockets: Mutex<Option<Sockets>>,
    workers: Vec<Handle>,
    taken: AtomicBool,
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Accepting {
    /// Takes connections for workers.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn start(sockets: Sockets, workers: Vec<Handle>) -> io::Result<Accepting> {
        let acceptor = Acceptor::start(sockets.try_clone()?.clients, workers.clone())?;
        Ok(Accepting {
            acceptor: Mutex::new(Some(acceptor)),
            sockets: Mutex::new(Some(sockets)),
            workers,
            taken: AtomicBool::new(false),
        })
    }

    /// Whether another gateway has taken over.
    pub fn is_taken(&self) -> bool {
        self.taken.load(Ordering::SeqCst)
    }

    /// Takes no connection any more, and lets the sockets go.
    pub fn end(&self, keeps_sockets: bool) {
        if let Some(acceptor) = lock(&self.acceptor).take() {
            acceptor.stop(keeps_sockets);
        }
        *lock(&self.sockets) = None;
    }

    fn pause(&self) {
        if let Some(acceptor) = lock(&self.acceptor).take() {
            acceptor.stop(true);
        }
    }

    fn resume(&self) -> io::Result<()> {
        let sockets = lock(&self.sockets).as_ref().map(Sockets::try_clone).transpose()?;
        if let Some(sockets) = sockets {
            *lock(&self.acceptor) = Some(Acceptor::start(sockets.clients, self.workers.clone())?);
        }
        Ok(())
    }
}

/// Where a gateway waits for the next.
#[derive(Debug)]
pub struct Handover {
    path: PathBuf,
    accepting: Arc<Accepting>,
    successor: Arc<Mutex<Option<UnixStream>>>,
}

impl Handover {
    /// Waits at a path.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn at(
        path: &Path,
        accepting: Arc<Accepting>,
        control: Control,
        exposures: Vec<Exposures>,
    ) -> io::Result<Handover> {
        // Whoever was there hands over no more. A file of another kind is not ours to remove.
        let there = std::fs::symlink_metadata(path);
        if there.is_ok_and(|of| of.file_type().is_socket()) {
            std::fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        let successor = Arc::new(Mutex::new(None));
        let (of, to) = (accepting.clone(), successor.clone());
        std::thread::Builder::new().name("gateway-handover".to_owned()).spawn(move || {
            while !control.is_closed() && !of.is_taken() {
                match listener.accept() {
                    Ok((stream, _)) => {
                        if let Err(error) = hand_over(&stream, &of, &control, &exposures, &to) {
                            tracing::warn!("another gateway did not take over: {error}");
                        }
                    }
                    Err(_) => std::thread::sleep(LOOK / 10),
                }
            }
        })?;
        Ok(Handover { path: path.to_owned(), accepting, successor })
    }

    /// The gateway ends: the next is told if nothing of it can reach the server any more.
    pub fn end(&self, drained: bool) {
        if !self.accepting.is_taken() {
            // Whoever removed it already did the same.
            let _ = std::fs::remove_file(&self.path);
        }
        if let Some(stream) = lock(&self.successor).take() {
            if drained {
                // One that has gone has no use for it.
                let _ = (&stream).write_all(b"drained\n");
            }
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

fn hand_over(
    stream: &UnixStream,
    accepting: &Accepting,
    control: &Control,
    exposures: &[Exposures],
    successor: &Mutex<Option<UnixStream>>,
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    refuse_others(stream)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut lines = BufReader::new(stream);
    expect(&mut lines, "sockets\n")?;
    // One that ends has none any more, and the other hears the end of the stream.
    let Some(sockets) = lock(&accepting.sockets).as_ref().map(Sockets::try_clone).transpose()?
    else {
        return Ok(());
    };
    send(stream, &sockets)?;
    drop(sockets);
    // It may take long to become ready.
    stream.set_read_timeout(None)?;
    expect(&mut lines, "take\n")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    // From here on the other commits what is not flushed and this one's clients can see.
    exposures.iter().for_each(Exposures::share);
    accepting.pause();
    let mut writer = stream;
    let taken = writer.write_all(b"yours\n").and_then(|()| expect(&mut lines, "serving\n"));
    if let Err(error) = taken {
        // What it may have committed stays exposed.
        accepting.resume()?;
        return Err(error);
    }
    *lock(successor) = Some(stream.try_clone()?);
    accepting.taken.store(true, Ordering::SeqCst);
    accepting.end(true);
    control.hand_over();
    stream.set_read_timeout(Some(LOOK))?;
    let mut line = Vec::new();
    while !control.is_closed() {
        match lines.by_ref().take(LONGEST).read_until(b'\n', &mut line) {
            Ok(0) => return Ok(()),
            Ok(_) => {
                if let Some((process, key)) = cancel_request(&line) {
                    control.cancel(process, key);
                }
                line.clear();
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn expect(lines: &mut impl BufRead, line: &str) -> io::Result<()> {
    let mut heard = String::new();
    lines.take(LONGEST).read_line(&mut heard)?;
    if heard == line {
        return Ok(());
    }
    let what = format!("it said {heard:?} in place of {:?}", line.trim_end());
    Err(io::Error::new(ErrorKind::InvalidData, what))
}

fn cancel_request(line: &[u8]) -> Option<(u32, Vec<u8>)> {
    let line = std::str::from_utf8(line).ok()?;
    let (process, key) = line.strip_suffix('\n')?.strip_prefix("cancel ")?.split_once(' ')?;
    let digits = key.as_bytes().chunks(2);
    let key = digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    Some((process.parse().ok()?, key.collect::<Option<_>>()?))
}

/// Only the same user, and root, have a part in it.
fn refuse_others(stream: &UnixStream) -> io::Result<()> {
    let uid = getsockopt(stream, PeerCredentials)?.uid();
    if uid == geteuid().as_raw() || uid == 0 {
        return Ok(());
    }
    Err(io::Error::new(
        ErrorKind::PermissionDenied,
        format!("the process at the other end belongs to the user {uid}"),
    ))
}

fn send(stream: &UnixStream, sockets: &Sockets) -> io::Result<()> {
    let mut line = String::from(if sockets.removes { "removes" } else { "keeps" });
    let mut fds: Vec<BorrowedFd<'_>> = Vec::new();
    for socket in &sockets.clients {
        line.push_str(match socket {
            Socket::Tcp(_) => " tcp",
            Socket::Unix(_) => " unix",
        });
        fds.push(socket.as_fd());
    }
    if let Some(metrics) = &sockets.metrics {
        line.push_str(" metrics");
        fds.push(metrics.as_fd());
    }
    line.push('\n');
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&fds)) {
        let what = format!("more than {MOST} sockets cannot be handed over");
        return Err(io::Error::new(ErrorKind::InvalidInput, what));
    }
    sendmsg(stream, &[IoSlice::new(line.as_bytes())], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn receive(stream: &UnixStream) -> io::Result<Sockets> {
    let mut bytes = [0; LONGEST as usize];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(&mut bytes)];
    let count = recvmsg(stream, &mut into, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?.bytes;
    if count == 0 {
        let what = "it is ending: start this one when it has ended";
        return Err(io::Error::new(ErrorKind::ConnectionAborted, what));
    }
    let mut fds = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(of) = message {
            fds.extend(of);
        }
    }
    let damaged = || io::Error::new(ErrorKind::InvalidData, "its sockets did not arrive");
    let line = std::str::from_utf8(&bytes[..count]).ok().and_then(|line| line.strip_suffix('\n'));
    let mut words = line.ok_or_else(damaged)?.split(' ');
    let removes = words.next() == Some("removes");
    let mut sockets = Sockets { clients: Vec::new(), metrics: None, removes };
    let mut fds = fds.into_iter();
    for word in words {
        let fd: OwnedFd = fds.next().ok_or_else(damaged)?;
        match word {
            "tcp" => sockets.clients.push(Socket::Tcp(fd.into())),
            "unix" => sockets.clients.push(Socket::Unix(fd.into())),
            "metrics" => sockets.metrics = Some(TcpListener::from(fd)),
            _ => return Err(damaged()),
        }
    }
    Ok(sockets)
}

#[cfg(test)]
mod tests {
    use super::cancel_request;

    #[test]
    fn a_cancel_request_is_read_as_it_was_written() {
        assert_eq!(cancel_request(b"cancel 16777216 00ff10\n"), Some((1 << 24, vec![0, 255, 16])));
        for damaged in ["cancel 1 0g\n", "cancel x 00\n", "cancel 1\n", "cancel 1 00", "serving\n"]
        {
            assert_eq!(cancel_request(damaged.as_bytes()), None, "{damaged}");
        }
    }
}
