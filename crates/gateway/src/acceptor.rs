//! The thread that takes new connections.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use mio::net::{TcpListener, UnixListener};
use mio::{Events, Interest, Poll, Token, Waker};
use walwright_wire::keep_alive;

use crate::client::ClientStream;
use crate::gateway::Handle;
use crate::worker::Order;

const WAKE: Token = Token(usize::MAX);
/// After the system refused a connection, for instance since files are used up, the next is
/// tried for so much later.
const PAUSE: Duration = Duration::from_millis(100);

/// Where a gateway listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// An address for TCP.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

impl Listen {
    /// Begins to listen. A unix socket that nobody listens on any more is taken over.
    ///
    /// # Errors
    /// What the system says.
    pub fn bind(&self) -> io::Result<Socket> {
        match self {
            Listen::Tcp(address) => Ok(Socket::Tcp(std::net::TcpListener::bind(address)?)),
            Listen::Unix(path) => {
                remove_stale(path)?;
                let listener = std::os::unix::net::UnixListener::bind(path)?;
                // Whoever proves who it is may come in, as PostgreSQL has it.
                std::fs::set_permissions(path, PermissionsExt::from_mode(0o777))?;
                Ok(Socket::Unix(listener))
            }
        }
    }
}

impl std::str::FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Listen, String> {
        if text.starts_with('/') {
            return Ok(Listen::Unix(text.into()));
        }
        text.parse().map(Listen::Tcp).map_err(|_| {
            format!("\"{text}\" is no place to listen: write an address with its port, such as 127.0.0.1:6432, or the path of a unix socket")
        })
    }
}

impl std::fmt::Display for Listen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Listen::Tcp(address) => write!(f, "{address}"),
            Listen::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Removes a socket that a gateway left behind which was killed.
fn remove_stale(path: &Path) -> io::Result<()> {
    let kind = std::fs::symlink_metadata(path).map(|of| of.file_type());
    if !kind.is_ok_and(|kind| kind.is_socket()) {
        // A file of another kind is not ours to remove: it is in the way, and said to be.
        return Ok(());
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => std::fs::remove_file(path),
        _ => Ok(()),
    }
}

/// A socket that listens.
#[derive(Debug)]
pub enum Socket {
    /// For TCP.
    Tcp(std::net::TcpListener),
    /// On a path.
    Unix(std::os::unix::net::UnixListener),
}

impl Socket {
    /// Where it listens.
    ///
    /// # Errors
    /// What the system says, and for a unix socket without a path.
    pub fn place(&self) -> io::Result<Listen> {
        Ok(match self {
            Socket::Tcp(listener) => Listen::Tcp(listener.local_addr()?),
            Socket::Unix(listener) => {
                let address = listener.local_addr()?;
                let path = address.as_pathname().ok_or(ErrorKind::Unsupported)?;
                Listen::Unix(path.to_owned())
            }
        })
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(listener) => listener.as_fd(),
            Socket::Unix(listener) => listener.as_fd(),
        }
    }
}

/// A socket in the event loop.
#[derive(Debug)]
enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    fn new(socket: Socket) -> io::Result<Listener> {
        Ok(match socket {
            Socket::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                Listener::Tcp(TcpListener::from_std(listener))
            }
            Socket::Unix(listener) => {
                listener.set_nonblocking(true)?;
                Listener::Unix(UnixListener::from_std(listener))
            }
        })
    }

    fn accept(&self) -> io::Result<ClientStream> {
        Ok(match self {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                // Without it small answers wait for acknowledgements; it cannot fail on TCP.
                let _ = stream.set_nodelay(true);
                keep_alive(&stream)?;
                ClientStream::Tcp(stream)
            }
            Listener::Unix(listener) => ClientStream::Unix(listener.accept()?.0),
        })
    }
}

/// The thread that takes new connections, and how it is ended.
#[derive(Debug)]
pub struct Acceptor {
    waker: Arc<Waker>,
    ends: Arc<AtomicBool>,
    /// Whether connections that wait when it ends are another process's.
    leaves: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Acceptor {
    /// Takes connections for workers in turn.
    ///
    /// # Errors
    /// When the system refuses what an event loop needs.
    pub fn start(sockets: Vec<Socket>, workers: Vec<Handle>) -> io::Result<Acceptor> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKE)?);
        let mut listeners = Vec::new();
        for (number, socket) in sockets.into_iter().enumerate() {
            let mut listener = Listener::new(socket)?;
            let (registry, token) = (poll.registry(), Token(number));
            match &mut listener {
                Listener::Tcp(of) => registry.register(of, token, Interest::READABLE)?,
                Listener::Unix(of) => registry.register(of, token, Interest::READABLE)?,
            }
            listeners.push(listener);
        }
        let ends = Arc::new(AtomicBool::new(false));
        let leaves = Arc::new(AtomicBool::new(false));
        let (ended, left) = (ends.clone(), leaves.clone());
        let thread = std::thread::Builder::new()
            .name("gateway-accept".to_owned())
            .spawn(move || accept(poll, &listeners, &workers, (&ended, &left)))?;
        Ok(Acceptor { waker, ends, leaves, thread: Some(thread) })
    }

    /// Takes no connection any more. Those that wait are taken first, unless another process goes
    /// on with the sockets.
    pub fn stop(self, keeps_sockets: bool) {
        self.leaves.store(keeps_sockets, Ordering::SeqCst);
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        if self.waker.wake().is_ok()
            && let Some(thread) = self.thread.take()
        {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

fn accept(
    mut poll: Poll,
    listeners: &[Listener],
    workers: &[Handle],
    (ends, leaves): (&AtomicBool, &AtomicBool),
) {
    let mut events = Events::with_capacity(16);
    let mut workers = workers.iter().cycle();
    let mut wait = None;
    loop {
        if let Err(error) = poll.poll(&mut events, wait)
            && error.kind() != ErrorKind::Interrupted
        {
            return tracing::error!("no connections are taken any more: {error}");
        }
        let ended = ends.load(Ordering::SeqCst);
        if ended && leaves.load(Ordering::SeqCst) {
            return;
        }
        wait = None;
        // All of them: after a pause no event tells.
        for listener in listeners {
            loop {
                match listener.accept() {
                    Ok(stream) => {
                        if let Some(worker) = workers.next() {
                            worker.tell(Order::Client(stream));
                        }
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => {
                        tracing::warn!("a connection could not be taken: {error}");
                        wait = Some(PAUSE);
                        break;
                    }
                }
            }
        }
        if ended {
            return;
        }
    }
}
