//! The driver against a server that answers with any bytes.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use walwright_driver::{Load, LoadError, LoadPlan, Mode, Protocol};
use walwright_wire::{ConnectOptions, Host};
use walwright_workload::script::{Program, ScriptSource};

use crate::Target;
use crate::wire::{answers, message};

/// A load of one client; each connection is let in, and then answered with the bytes.
pub(crate) const DRIVER: Target = Target { name: "driver", samples, feed: load };

const PORT: u16 = 5432;
/// What a load has of time, and what a read waits for bytes.
const LENGTH: Duration = Duration::from_millis(40);
const PATIENCE: Duration = Duration::from_millis(5);

const SCRIPT: &str = "\\set n random(1, 9)\nBEGIN;\nUPDATE t SET n = n + :n;\n\
    SELECT id, 2 AS b FROM t WHERE n = :n \\gset p_\nEND;\n";
/// What the simple protocol does not have.
const PIPELINE: &str = "\\startpipeline\nSELECT :n;\nSELECT 2;\n\\endpipeline\n";

/// A byte for protocol and mode, then answers.
fn samples() -> Vec<Vec<u8>> {
    let prepared = [message(b'1', b""), message(b'n', b""), message(b'Z', b"I")].concat();
    let executed = [
        message(b'2', b""),
        message(b'T', b"\0\x01id\0\0\0\x40\x01\0\x01\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0"),
        message(b'D', b"\0\x01\0\0\0\x0242"),
        message(b'C', b"SELECT 1\0"),
        message(b'Z', b"T"),
    ]
    .concat();
    let mut all = answers();
    all.push([prepared.repeat(5), executed.repeat(8)].concat());
    all.push(executed.repeat(8));
    (0_u8..).zip(all).map(|(kind, bytes)| [vec![kind], bytes].concat()).collect()
}

fn load(bytes: &[u8]) {
    let [kind, answers @ ..] = bytes else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let over = Arc::new(AtomicBool::new(false));
    let server = serve(directory.path(), answers.to_vec(), Arc::clone(&over));
    let pipeline = if kind % 4 == 2 { "" } else { PIPELINE };
    let text = format!("{SCRIPT}{pipeline}");
    let script = ScriptSource { name: "s.sql".into(), text, weight: 1 };
    let program = Program::compile(&[script], &[]).expect("a script");
    let connect = ConnectOptions::new(Host::Unix(directory.path().to_owned()), PORT, "u", "d");
    let mut plan = LoadPlan::new(Arc::new(program), connect);
    plan.interval = LENGTH;
    plan.drain = PATIENCE;
    plan.max_tries = 3;
    (plan.protocol, plan.mode) = match kind % 4 {
        0 => (Protocol::Extended, Mode::Faithful),
        1 => (Protocol::Prepared, Mode::Faithful),
        2 => (Protocol::Simple, Mode::Faithful),
        _ => (Protocol::Prepared, Mode::Lean),
    };
    if let Ok(load) = Load::start(plan) {
        // Ended by itself, or an interval long.
        let _ = load.intervals().recv_timeout(LENGTH);
        load.stop();
        let ended = load.join();
        assert!(!matches!(ended, Err(LoadError::Panicked)), "a thread of the load panicked");
    }
    over.store(true, Ordering::Release);
    server.join().expect("the server's thread");
}

fn serve(directory: &Path, answers: Vec<u8>, over: Arc<AtomicBool>) -> thread::JoinHandle<()> {
    let path = directory.join(format!(".s.PGSQL.{PORT}"));
    let listener = UnixListener::bind(path).expect("a socket");
    listener.set_nonblocking(true).expect("a socket that does not block");
    thread::spawn(move || {
        let welcome = [message(b'R', b"\0\0\0\0"), message(b'Z', b"I")].concat();
        while !over.load(Ordering::Acquire) {
            match listener.accept() {
                // A client that has gone is no failure of the server's.
                Ok((stream, _)) => drop(answer(stream, &welcome, &answers, &over)),
                Err(_) => thread::sleep(Duration::from_millis(1)),
            }
        }
    })
}

/// Lets a client in, and says a piece after each thing that it says.
fn answer(
    mut stream: UnixStream,
    welcome: &[u8],
    answers: &[u8],
    over: &AtomicBool,
) -> std::io::Result<()> {
    /// Bytes said at once, where there are no more than so many pieces of them.
    const PIECE: usize = 150;
    const PIECES: usize = 50;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut heard = [0; 4096];
    for piece in std::iter::once(welcome).chain(answers.chunks(PIECE.max(answers.len() / PIECES))) {
        match stream.read(&mut heard) {
            Ok(0) => return Ok(()),
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            // It waits for more.
            _ => {}
        }
        if over.load(Ordering::Acquire) {
            return Ok(());
        }
        stream.write_all(piece)?;
    }
    Ok(())
}
