//! Against what is no server, or a bad one: it may not keep us, nor learn a password.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use walwright_wire::backend::BackendKeyData;
use walwright_wire::{
    ConnectOptions, Connector, Host, Secret, SslMode, SslNegotiation, TlsError, WireError, cancel,
};

const LIMIT: Duration = Duration::from_millis(400);
/// Long enough for a busy machine, and far from for ever.
const PATIENCE: Duration = Duration::from_secs(20);

/// A message of protocol 3.
fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    bytes.extend((body.len() as u32 + 4).to_be_bytes());
    bytes.extend(body);
    bytes
}

fn authentication(code: u32, rest: &[u8]) -> Vec<u8> {
    message(b'R', &[&code.to_be_bytes(), rest].concat())
}

/// Something that listens, and what it heard.
struct Listener {
    port: u16,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<u8>>>,
}

impl Listener {
    /// Serves every connection, one after the other, until nobody wants it any more.
    fn new(serve: impl Fn(&mut TcpStream, &mut Vec<u8>, &AtomicBool) + Send + 'static) -> Listener {
        let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = socket.local_addr().expect("an address").port();
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let mut heard = Vec::new();
            for stream in socket.incoming().map_while(Result::ok) {
                if seen.load(Ordering::Acquire) {
                    break;
                }
                let mut stream = stream;
                stream.set_read_timeout(Some(Duration::from_millis(20))).expect("set");
                serve(&mut stream, &mut heard, &seen);
            }
            heard
        });
        Listener { port, over, thread: Some(thread) }
    }

    /// One that says these pieces, each after hearing something, then says one byte of
    /// `last` at a time, or nothing, as long as the other side stays.
    fn saying(pieces: Vec<Vec<u8>>, last: Option<u8>) -> Listener {
        Listener::new(move |stream, heard, over| {
            for piece in &pieces {
                if !listen(stream, heard, over) || stream.write_all(piece).is_err() {
                    return;
                }
            }
            while !over.load(Ordering::Acquire) {
                if let Some(byte) = last
                    && stream.write_all(&[byte]).is_err()
                {
                    return;
                }
                match stream.read(&mut [0; 4096]) {
                    Ok(0) => return,
                    Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return,
                    _ => {}
                }
            }
        })
    }

    fn options(&self, mode: SslMode) -> ConnectOptions {
        let mut options = ConnectOptions::new(Host::Tcp("127.0.0.1".into()), self.port, "u", "d");
        options.password = Some(Secret::new("open sesame"));
        options.connect_timeout = Some(LIMIT);
        options.tls.mode = mode;
        options
    }

    /// Everything that was said to it.
    fn heard(mut self) -> Vec<u8> {
        self.over.store(true, Ordering::Release);
        // It waits for the next connection.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        self.thread.take().expect("there").join().expect("no panic")
    }
}

/// Waits until something is said; whether the other side is still there.
fn listen(stream: &mut TcpStream, heard: &mut Vec<u8>, over: &AtomicBool) -> bool {
    let mut buffer = [0; 4096];
    while !over.load(Ordering::Acquire) {
        match stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(count) => {
                heard.extend(&buffer[..count]);
                return true;
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return false,
        }
    }
    false
}

fn failure(options: ConnectOptions) -> WireError {
    let began = Instant::now();
    let error = Connector::new(options).and_then(|connector| connector.connect().map(drop));
    assert!(began.elapsed() < PATIENCE, "{error:?}");
    error.expect_err("no way in")
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn who_falls_silent_or_dribbles_is_left_in_every_phase() {
    let sasl = authentication(10, b"SCRAM-SHA-256\0\0");
    let admitted = [
        authentication(0, b""),
        message(b'S', b"server_version\x0018.0\0"),
        message(b'K', &[7; 8]),
    ]
    .concat();
    // The head of a TLS record that is long in coming, and of messages that are.
    let record = vec![0x16, 3, 3, 0x3f, 0xff];
    let status = [&admitted[..], b"S\0\0\x20\0"].concat();
    let phases: Vec<(&str, SslMode, Vec<Vec<u8>>)> = vec![
        ("the answer about TLS", SslMode::Require, vec![]),
        ("the handshake", SslMode::Require, vec![b"S".to_vec()]),
        ("a record of the handshake", SslMode::Require, vec![b"S".to_vec(), record]),
        ("the startup packet", SslMode::Disable, vec![]),
        ("a message", SslMode::Disable, vec![b"R\0\0\x20\0".to_vec()]),
        ("SASL", SslMode::Disable, vec![sasl]),
        ("admission", SslMode::Disable, vec![admitted]),
        ("a setting after admission", SslMode::Disable, vec![status]),
    ];
    for (phase, mode, pieces) in phases {
        let silent = Listener::saying(pieces.clone(), None);
        let error = failure(silent.options(mode));
        assert!(matches!(error, WireError::Timeout { .. }), "silent after {phase}: {error:?}");
        let heard = silent.heard();
        assert!(!contains(&heard, b"sesame"));
        if pieces.last().is_some_and(|piece| piece.len() == 5 || piece.ends_with(b"\x20\0")) {
            let dribbling = Listener::saying(pieces, Some(b'x'));
            let error = failure(dribbling.options(mode));
            assert!(matches!(error, WireError::Timeout { .. }), "a byte at a time: {error:?}");
        }
    }
}

#[test]
fn endless_messages_are_no_login() {
    // Notices by the thousand, and settings: neither may go on for ever nor fill memory.
    let notice = message(b'N', b"SNOTICE\0C00000\0Mhello\0\0");
    let status = message(b'S', &[&b"a\0"[..], &[b'x'; 8000], b"\0"].concat());
    for flood in [notice, status] {
        let flood = flood.repeat(1 + 2_000_000 / flood.len());
        let listener = Listener::saying(vec![[authentication(0, b""), flood].concat()], None);
        let mut options = listener.options(SslMode::Disable);
        options.connect_timeout = None;
        let error = failure(options);
        assert!(matches!(error, WireError::TooMuch { .. }), "{error:?}");
    }
    // A message that claims more than anybody sends is not waited for.
    let listener = Listener::saying(vec![b"R\x3f\0\0\0".to_vec()], None);
    let mut options = listener.options(SslMode::Disable);
    options.connect_timeout = None;
    let error = failure(options);
    assert!(matches!(error, WireError::NotPostgres { .. }), "{error:?}");
}

#[test]
fn who_speaks_something_else_is_found_out_and_quoted() {
    let http = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";
    let ssh = b"SSH-2.0-OpenSSH_9.9\r\n";
    for (said, shown) in
        [(&http[..], "HTTP/1.1 400 Bad Request"), (&ssh[..], "SSH-2.0-OpenSSH_9.9")]
    {
        for mode in [SslMode::Disable, SslMode::Allow, SslMode::Prefer, SslMode::Require] {
            let listener = Listener::saying(vec![said.to_vec()], None);
            let mut options = listener.options(mode);
            options.connect_timeout = Some(PATIENCE);
            let error = failure(options);
            assert!(matches!(error, WireError::NotPostgres { .. }), "{mode:?}: {error:?}");
            let text = error.to_string();
            assert!(text.contains(&format!("{shown:?}")) && text.contains("check host"), "{text}");
            assert!(!contains(&listener.heard(), b"sesame"));
        }
    }
    // It speaks first, and only a little.
    let brief = Listener::new(|stream, _, _| {
        let _ = stream.write_all(b"hi\n");
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read(&mut [0; 4096]);
    });
    let mut options = brief.options(SslMode::Disable);
    options.connect_timeout = Some(PATIENCE);
    assert!(failure(options).to_string().contains("\"hi\""));
}

#[test]
fn errors_that_are_none_of_protocol_3_are_one_sentence() {
    let fork = b"Ecould not fork new process for connection: Resource temporarily unavailable\n\0";
    let listener = Listener::saying(vec![fork.to_vec()], None);
    let error = failure(listener.options(SslMode::Disable));
    assert!(matches!(error, WireError::OldError { .. }), "{error:?}");
    let error = error.to_string();
    assert!(error.contains("Resource temporarily unavailable") && !error.contains('\n'), "{error}");
    // Before TLS, nobody's words are trusted.
    let listener = Listener::saying(vec![b"Esend your password to mallory\n\0".to_vec()], None);
    for mode in [SslMode::Prefer, SslMode::Require] {
        let error = failure(listener.options(mode));
        assert!(matches!(error, WireError::Tls(TlsError::ErrorAnswer)), "{error:?}");
        assert!(!error.to_string().contains("mallory"));
    }
}

#[test]
fn a_password_is_not_told_to_who_asks_for_it_in_clear_or_asks_twice() {
    let clear = authentication(3, b"");
    let listener = Listener::saying(vec![clear.clone()], None);
    let error = failure(listener.options(SslMode::Disable));
    assert!(matches!(error, WireError::Refused(_)), "{error:?}");
    assert!(error.to_string().contains("require_auth=password"), "{error}");
    assert!(!contains(&listener.heard(), b"sesame"));

    // TLS that is taken off on the way.
    let listener = Listener::saying(vec![b"N".to_vec(), clear.clone()], None);
    let error = failure(listener.options(SslMode::Prefer));
    assert!(matches!(error, WireError::Refused(_)), "{error:?}");
    assert!(!contains(&listener.heard(), b"sesame"));

    // Asked for, it goes once; after that, and after being let in, no more.
    for then in
        [clear.clone(), authentication(5, b"salt"), authentication(10, b"SCRAM-SHA-256\0\0")]
    {
        let listener = Listener::saying(vec![clear.clone(), then], None);
        let mut options = listener.options(SslMode::Disable);
        options.require_auth = "password,md5,scram-sha-256".parse().expect("methods");
        let error = failure(options);
        assert!(matches!(error, WireError::Scram(_)), "{error:?}");
        let heard = listener.heard();
        assert_eq!(heard.windows(6).filter(|window| window == b"sesame").count(), 1);
        assert!(!contains(&heard, b"md5") && !contains(&heard, b"SCRAM"));
    }
    let late = [authentication(0, b""), clear].concat();
    let listener = Listener::saying(vec![late], None);
    let mut options = listener.options(SslMode::Disable);
    options.require_auth = "password,none".parse().expect("methods");
    let error = failure(options);
    assert!(matches!(error, WireError::Unexpected { .. }), "{error:?}");
    assert!(!contains(&listener.heard(), b"sesame"));
}

#[test]
fn a_server_without_tls_that_refuses_is_asked_once() {
    let refusal = message(b'E', b"SFATAL\0C28000\0Mno entry\0\0");
    let listener = Listener::saying(vec![b"N".to_vec(), refusal], None);
    let error = failure(listener.options(SslMode::Prefer));
    assert_eq!(error.server_error().expect("said").code, "28000");
    let heard = listener.heard();
    assert_eq!(heard.windows(8).filter(|window| window == b"database").count(), 1);
}

#[test]
fn direct_tls_needs_someone_who_speaks_it() {
    let listener = Listener::saying(vec![b"N".to_vec()], None);
    let mut options = listener.options(SslMode::Require);
    options.tls.negotiation = SslNegotiation::Direct;
    let error = failure(options);
    assert!(matches!(error, WireError::Tls(_) | WireError::Timeout { .. }), "{error:?}");
    let heard = listener.heard();
    assert_eq!(heard.first(), Some(&0x16), "a handshake at once");
    assert!(contains(&heard, b"postgresql"), "ALPN");
}

#[test]
fn a_cancel_request_does_not_wait_for_ever_either() {
    let greeting = [
        authentication(0, b""),
        message(b'K', &[&7_u32.to_be_bytes()[..], b"key!"].concat()),
        message(b'Z', b"I"),
    ]
    .concat();
    let listener = Listener::saying(vec![greeting], None);
    let connector = Connector::new(listener.options(SslMode::Disable)).expect("options");
    let connection = connector.connect().expect("let in");
    let expected = BackendKeyData { process: 7, key: b"key!".to_vec() };
    assert_eq!(connection.key_data(), Some(&expected));
    let key = connection.cancel_key().expect("given");
    drop(connection);
    // It takes the request for a greeting, and answers: that is not what a server does.
    assert!(matches!(cancel(&connector, &key), Err(WireError::Unexpected { .. })));
    let silent = Listener::saying(vec![], None);
    let connector = Connector::new(silent.options(SslMode::Disable)).expect("options");
    let began = Instant::now();
    assert!(matches!(cancel(&connector, &key), Err(WireError::Timeout { .. })));
    assert!(began.elapsed() < PATIENCE);
}

#[test]
fn who_is_not_there_is_told_from_who_does_not_answer() {
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = closed.local_addr().expect("an address").port();
    drop(closed);
    let to = |host: Host, port| {
        let mut options = ConnectOptions::new(host, port, "u", "d");
        options.connect_timeout = Some(PATIENCE);
        failure(options)
    };
    let kind = |error: WireError| match error {
        WireError::Connect { source, .. } => source.kind(),
        error => panic!("{error:?}"),
    };
    assert_eq!(
        kind(to(Host::Tcp("127.0.0.1".into()), port)),
        std::io::ErrorKind::ConnectionRefused
    );
    let error = to(Host::Unix(PathBuf::from("/nonexistent")), 5432);
    assert!(error.to_string().contains("/nonexistent/.s.PGSQL.5432"), "{error}");
    assert_eq!(kind(error), std::io::ErrorKind::NotFound);
    let error = to(Host::Tcp("no-such-host.invalid".into()), 5432);
    assert!(matches!(error, WireError::UnknownHost { .. }), "{error:?}");
}
