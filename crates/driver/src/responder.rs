//! A server that knows nothing and answers at once: what the driver is measured
//! against when its own ceiling is wanted.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;

use walwright_wire::{ConnectOptions, Host, Scanner, TagSet};

use crate::endpoint::{Endpoint, HttpServer};
use crate::system::{Poller, Ready, Waker};

/// AuthenticationOk and ReadyForQuery.
const WELCOME: &[u8] = b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I";
const PARSE_COMPLETE: &[u8] = b"1\0\0\0\x04";
const BIND_COMPLETE: &[u8] = b"2\0\0\0\x04";
const CLOSE_COMPLETE: &[u8] = b"3\0\0\0\x04";
const NO_DATA: &[u8] = b"n\0\0\0\x04";
const COMMAND_COMPLETE: &[u8] = b"C\0\0\0\x0dUPDATE 1\0";
const READY: &[u8] = b"Z\0\0\0\x05I";
/// OID of int8, which every integer of a script fits.
const INT8: u32 = 20;

/// Numbers under which listener and waker are registered.
const LISTENER: u64 = u64::MAX;
const WAKER: u64 = u64::MAX - 1;

/// An answer of HTTP that is nothing but success.
const NO_CONTENT: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";

/// The server, on a thread of its own until it is dropped.
pub(crate) struct Responder {
    /// Of its socket, where that is none of TCP.
    directory: Option<PathBuf>,
    endpoint: Endpoint,
    over: Arc<(AtomicBool, Waker)>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// The port in the name of its socket.
const PORT: u16 = 1;

impl Responder {
    /// Listens in a directory of its own as a PostgreSQL server.
    pub(crate) fn start() -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("walwright-responder-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&directory)?;
        let host = Host::Unix(directory.clone());
        let endpoint = ConnectOptions::new(host, PORT, "nobody", "nothing").into();
        let mut responder = Responder {
            directory: Some(directory.clone()),
            endpoint,
            over: Arc::new((AtomicBool::new(false), Waker::new()?)),
            thread: None,
        };
        let listener = UnixListener::bind(directory.join(format!(".s.PGSQL.{PORT}")))?;
        responder.serve(Listener::Postgres(listener))?;
        Ok(responder)
    }

    /// Listens on a port of its own as an application.
    pub(crate) fn start_http() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let url = format!("http://{}", listener.local_addr()?);
        let server: HttpServer = url.parse().map_err(io::Error::other)?;
        let over = Arc::new((AtomicBool::new(false), Waker::new()?));
        let mut responder =
            Responder { directory: None, endpoint: server.into(), over, thread: None };
        responder.serve(Listener::Http(listener))?;
        Ok(responder)
    }

    fn serve(&mut self, listener: Listener) -> io::Result<()> {
        listener.set_nonblocking()?;
        let over = Arc::clone(&self.over);
        let thread = std::thread::Builder::new()
            .name("responder".into())
            .spawn(move || serve(&listener, &over.0, &over.1))?;
        self.thread = Some(thread);
        Ok(())
    }

    /// How to reach it.
    pub(crate) fn endpoint(&self) -> Endpoint {
        self.endpoint.clone()
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.over.0.store(true, Ordering::Release);
        self.over.1.wake();
        if let Some(thread) = self.thread.take() {
            // Whoever measured against it has seen its failure.
            let _ = thread.join();
        }
        if let Some(directory) = &self.directory {
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}

/// Where it listens.
enum Listener {
    Postgres(UnixListener),
    Http(TcpListener),
}

impl Listener {
    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Listener::Postgres(listener) => listener.set_nonblocking(true),
            Listener::Http(listener) => listener.set_nonblocking(true),
        }
    }

    fn accept(&self) -> io::Result<Peer> {
        match self {
            Listener::Postgres(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                let startup = Some(Vec::new());
                Ok(Peer::Postgres { stream, scanner: Scanner::frontend(), startup })
            }
            Listener::Http(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                Ok(Peer::Http { stream, asked: Vec::new() })
            }
        }
    }
}

impl AsRawFd for Listener {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Listener::Postgres(listener) => listener.as_raw_fd(),
            Listener::Http(listener) => listener.as_raw_fd(),
        }
    }
}

/// One connection.
enum Peer {
    Postgres {
        stream: UnixStream,
        scanner: Scanner,
        /// Bytes of a startup packet that is not whole yet; `None` after it.
        startup: Option<Vec<u8>>,
    },
    Http {
        stream: TcpStream,
        /// Bytes of a request that is not whole yet.
        asked: Vec<u8>,
    },
}

impl AsRawFd for Peer {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Peer::Postgres { stream, .. } => stream.as_raw_fd(),
            Peer::Http { stream, .. } => stream.as_raw_fd(),
        }
    }
}

impl Peer {
    fn read(&mut self, input: &mut [u8]) -> io::Result<usize> {
        match self {
            Peer::Postgres { stream, .. } => stream.read(input),
            Peer::Http { stream, .. } => stream.read(input),
        }
    }

    fn write_all(&mut self, out: &[u8]) -> io::Result<()> {
        match self {
            Peer::Postgres { stream, .. } => stream.write_all(out),
            Peer::Http { stream, .. } => stream.write_all(out),
        }
    }
}

fn serve(listener: &Listener, over: &AtomicBool, waker: &Waker) -> io::Result<()> {
    let mut poller = Poller::new()?;
    poller.add(listener.as_raw_fd(), LISTENER, false)?;
    poller.add(waker.as_raw_fd(), WAKER, false)?;
    let mut peers: HashMap<u64, Peer> = HashMap::new();
    let mut next = 0;
    let mut ready = Vec::new();
    let mut input = vec![0; 64 * 1024];
    let mut out = Vec::new();
    while !over.load(Ordering::Acquire) {
        poller.wait(None, &mut ready)?;
        for Ready { token, closed } in ready.iter().copied() {
            if token == LISTENER {
                while let Ok(peer) = listener.accept() {
                    poller.add(peer.as_raw_fd(), next, false)?;
                    peers.insert(next, peer);
                    next += 1;
                }
            } else if let Some(peer) = peers.get_mut(&token)
                && !answer(peer, closed, &mut input, &mut out)
            {
                peers.remove(&token);
            }
        }
    }
    Ok(())
}

/// Answers what has come in; whether the connection is still of use.
fn answer(peer: &mut Peer, closed: bool, input: &mut [u8], out: &mut Vec<u8>) -> bool {
    loop {
        let count = match peer.read(input) {
            Ok(0) => return false,
            Ok(count) => count,
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        };
        out.clear();
        let bytes = &input[..count];
        let sound = match peer {
            Peer::Postgres { scanner, startup, .. } => take_in(scanner, startup, bytes, out),
            Peer::Http { asked, .. } => {
                asked.extend_from_slice(bytes);
                take_requests(asked, out);
                true
            }
        };
        // The driver always reads what it is owed, so the socket takes it.
        if !sound || (!out.is_empty() && peer.write_all(out).is_err()) {
            return false;
        }
        if count < input.len() && !closed {
            return true;
        }
    }
}

/// Answers messages; whether they are some.
fn take_in(
    scanner: &mut Scanner,
    startup: &mut Option<Vec<u8>>,
    mut bytes: &[u8],
    out: &mut Vec<u8>,
) -> bool {
    if let Some(packet) = startup {
        packet.extend_from_slice(bytes);
        bytes = &[];
        let whole = packet.first_chunk().map(|length| u32::from_be_bytes(*length) as usize);
        if whole.is_some_and(|length| packet.len() >= length) {
            *startup = None;
            out.extend_from_slice(WELCOME);
        }
    }
    loop {
        match scanner.next(&mut bytes, TagSet::of(b"PD")) {
            Ok(Some(frame)) => reply(frame.tag, frame.body.unwrap_or_default(), out),
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Answers the requests that are whole, as the driver writes them: a length, where there is one,
/// is the last field of the head.
fn take_requests(asked: &mut Vec<u8>, out: &mut Vec<u8>) {
    const END: &[u8] = b"\r\n\r\n";
    const LENGTH: &[u8] = b"Content-Length: ";
    while let Some(head) = asked.windows(END.len()).position(|bytes| bytes == END) {
        let last = asked[..head].rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        let length = last.strip_prefix(LENGTH).and_then(|digits| str::from_utf8(digits).ok());
        let whole = head + END.len() + length.and_then(|text| text.parse().ok()).unwrap_or(0);
        if asked.len() < whole {
            return;
        }
        asked.drain(..whole);
        out.extend_from_slice(NO_CONTENT);
    }
}

fn reply(tag: u8, body: &[u8], out: &mut Vec<u8>) {
    match tag {
        b'P' => out.extend_from_slice(PARSE_COMPLETE),
        b'B' => out.extend_from_slice(BIND_COMPLETE),
        b'C' => out.extend_from_slice(CLOSE_COMPLETE),
        b'D' => {
            if body.first() == Some(&b'S') {
                // Enough parameters for any statement; more than it has do no harm.
                out.extend_from_slice(b"t");
                out.extend_from_slice(&(6 + 4 * DESCRIBED as u32).to_be_bytes());
                out.extend_from_slice(&DESCRIBED.to_be_bytes());
                for _ in 0..DESCRIBED {
                    out.extend_from_slice(&INT8.to_be_bytes());
                }
            }
            out.extend_from_slice(NO_DATA);
        }
        b'E' => out.extend_from_slice(COMMAND_COMPLETE),
        b'S' => out.extend_from_slice(READY),
        b'Q' => {
            out.extend_from_slice(COMMAND_COMPLETE);
            out.extend_from_slice(READY);
        }
        _ => {}
    }
}

/// Parameters every statement is said to have.
const DESCRIBED: u16 = 64;
