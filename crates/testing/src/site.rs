//! Pages on loopback for a browser under test: parts at paths, under a content security policy,
//! and server-sent events.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// What is at each path: its type and its text.
type Parts = Arc<Mutex<BTreeMap<&'static str, (&'static str, String)>>>;

/// A server on loopback; its threads end with the process.
#[derive(Debug)]
pub struct Site {
    /// Where it listens.
    pub address: SocketAddr,
    parts: Parts,
    /// Text of events for whoever listens at `/live`.
    pub events: Sender<String>,
}

impl Site {
    /// One that sends `policy` with everything.
    ///
    /// # Panics
    /// When loopback has no free port.
    pub fn new(policy: &'static str) -> Site {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it has an address");
        let parts: Parts = Arc::default();
        let (events, waiting) = channel();
        let waiting = Arc::new(Mutex::new(waiting));
        let known = Arc::clone(&parts);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (known, waiting) = (Arc::clone(&known), Arc::clone(&waiting));
                // A reader that goes away is none of the server's troubles.
                std::thread::spawn(move || answer(stream, policy, &known, &waiting).ok());
            }
        });
        let site = Site { address, parts, events };
        // Browsers ask for it.
        site.put(
            "/favicon.ico",
            "image/svg+xml",
            "<svg xmlns='http://www.w3.org/2000/svg'/>".to_owned(),
        );
        site
    }

    /// Puts a text of a media type at a path.
    ///
    /// # Panics
    /// Never: no thread of it panics.
    pub fn put(&self, path: &'static str, kind: &'static str, text: String) {
        self.parts.lock().expect("no thread of it panics").insert(path, (kind, text));
    }
}

fn answer(
    stream: TcpStream,
    policy: &str,
    parts: &Mutex<BTreeMap<&'static str, (&'static str, String)>>,
    events: &Mutex<Receiver<String>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut request = String::new();
    reader.read_line(&mut request)?;
    let mut header = String::new();
    while reader.read_line(&mut header)? > 2 {
        header.clear();
    }
    let mut stream = stream;
    let path = request.split(' ').nth(1).unwrap_or_default();
    if path == "/live" {
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")?;
        while let Ok(event) = events.lock().expect("one page listens").recv() {
            write!(stream, "{event}\n\n")?;
        }
        return Ok(());
    }
    let found = parts.lock().expect("no thread of it panics").get(path).cloned();
    let (status, (kind, text)) = match found {
        Some(part) => ("200 OK", part),
        None => ("404 Not Found", ("text/plain", String::new())),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}; charset=utf-8\r\nContent-Length: {}\r\n\
         Content-Security-Policy: {policy}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    )
}
