//! A server that knows nothing and answers at once: what the driver is measured
//! against when its own ceiling is wanted.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;

use walwright_wire::{ConnectOptions, Host, Scanner, TagSet};

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

/// The server, on a thread of its own until it is dropped.
pub(crate) struct Responder {
    directory: PathBuf,
    over: Arc<(AtomicBool, Waker)>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// The port in the name of its socket.
const PORT: u16 = 1;

impl Responder {
    /// Listens in a directory of its own.
    pub(crate) fn start() -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("walwright-responder-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&directory)?;
        let over = Arc::new((AtomicBool::new(false), Waker::new()?));
        let mut responder = Responder { directory, over, thread: None };
        let listener = UnixListener::bind(responder.directory.join(format!(".s.PGSQL.{PORT}")))?;
        listener.set_nonblocking(true)?;
        let over = Arc::clone(&responder.over);
        let thread = std::thread::Builder::new()
            .name("responder".into())
            .spawn(move || serve(&listener, &over.0, &over.1))?;
        responder.thread = Some(thread);
        Ok(responder)
    }

    /// How to connect to it.
    pub(crate) fn options(&self) -> ConnectOptions {
        ConnectOptions::new(Host::Unix(self.directory.clone()), PORT, "nobody", "nothing")
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
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// One connection.
struct Peer {
    stream: UnixStream,
    scanner: Scanner,
    /// Bytes of a startup packet that is not whole yet; `None` after it.
    startup: Option<Vec<u8>>,
}

fn serve(listener: &UnixListener, over: &AtomicBool, waker: &Waker) -> io::Result<()> {
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
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    poller.add(stream.as_raw_fd(), next, false)?;
                    let scanner = Scanner::frontend();
                    peers.insert(next, Peer { stream, scanner, startup: Some(Vec::new()) });
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
        let count = match peer.stream.read(input) {
            Ok(0) => return false,
            Ok(count) => count,
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        };
        out.clear();
        let mut bytes = &input[..count];
        if let Some(startup) = &mut peer.startup {
            startup.extend_from_slice(bytes);
            bytes = &[];
            let whole = startup.first_chunk().map(|length| u32::from_be_bytes(*length) as usize);
            if whole.is_some_and(|length| startup.len() >= length) {
                peer.startup = None;
                out.extend_from_slice(WELCOME);
            }
        }
        loop {
            match peer.scanner.next(&mut bytes, TagSet::of(b"PD")) {
                Ok(Some(frame)) => reply(frame.tag, frame.body.unwrap_or_default(), out),
                Ok(None) => break,
                Err(_) => return false,
            }
        }
        // The driver always reads what it is owed, so the socket takes it.
        if !out.is_empty() && peer.stream.write_all(out).is_err() {
            return false;
        }
        if count < input.len() && !closed {
            return true;
        }
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
