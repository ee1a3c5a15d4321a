//! A site on a port of its own, and a client that says what it likes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::oneshot;
use walwright_record::{PhaseName, Record, RunState};
use walwright_serve::{Admission, Options, Program, Site, Token};
use walwright_store::{Lab, RunWriter, Store};
use walwright_testing::Build;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

pub const TOKEN: &str = "a-token-nobody-guesses";

/// Who may do what.
#[derive(Clone, Copy, Default)]
pub struct Rules {
    /// Reading needs the token too.
    pub reading: bool,
    pub actions: bool,
}

/// A site that serves until it is dropped.
pub struct Served {
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Served {
    pub fn start(lab: &Path, rules: Rules) -> Served {
        let lab = Lab::at(Some(lab.to_owned()));
        let (stop, stopped) = oneshot::channel();
        let (told, address) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let listener = Site::listen(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
                let address = listener.local_addr().unwrap();
                told.send(address).unwrap();
                let token = Token::chosen(TOKEN).unwrap();
                let names = vec!["lab.example.com".to_owned()];
                let admission = Admission::new(
                    address.port(),
                    Some(&token),
                    rules.reading,
                    rules.actions,
                    names,
                );
                // Nothing is started here: the command line's own tests do.
                let program = Program { file: "/nonexistent".into(), words: Vec::new() };
                let workloads = vec!["tpcb".to_owned()];
                let site = Site::new(
                    listener,
                    Options { lab, admission, program, workloads, share: 0.5, gateway: None },
                );
                let stop = async move { _ = stopped.await };
                site.serve(stop, PATIENCE).await;
            });
        });
        Served { address: address.recv().unwrap(), stop: Some(stop), thread: Some(thread) }
    }

    /// Asks it to end, and waits until it has.
    pub fn end(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// A request as it stands on the wire.
    pub fn send(&self, request: &str) -> Reply {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        Reply::read(stream)
    }

    /// Gets a page as a browser does that was given its address.
    pub fn get(&self, path: &str) -> Reply {
        self.get_with(path, "")
    }

    pub fn get_with(&self, path: &str, headers: &str) -> Reply {
        let host = self.address;
        self.send(&format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n"
        ))
    }

    /// Posts a form with these headers.
    pub fn post(&self, path: &str, headers: &str, form: &str) -> Reply {
        let (host, length) = (self.address, form.len());
        self.send(&format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n{form}"
        ))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.end();
    }
}

/// What came back.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn read(stream: TcpStream) -> Reply {
        let mut reader = BufReader::new(stream);
        let head = head(&mut reader);
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).unwrap();
        let status = head.split(' ').nth(1).unwrap_or_default().parse().unwrap_or(0);
        Reply { status, head, body: rest }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(called, _)| called.eq_ignore_ascii_case(name)).map(|(_, text)| text).next()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// The head of an answer.
pub fn head(reader: &mut impl BufRead) -> String {
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap() == 0 || line == "\r\n" {
            return head;
        }
        head.push_str(&line);
    }
}

/// A lab with nothing in it yet.
pub fn lab() -> TempDir {
    let lab = tempfile::tempdir().unwrap();
    drop(Store::open(lab.path()).unwrap());
    lab
}

/// A run of half a minute.
pub fn record(id: &str, label: Option<&str>, per_second: u64) -> Record {
    let mut build = Build::new();
    build.load(0, 30, per_second).measure(5.0, 30.0);
    let mut record = build.record;
    record.header.id.0 = id.to_owned();
    record.header.label = label.map(str::to_owned);
    record
}

/// Begins to write it: all but its intervals and its end.
pub fn begin(lab: &Path, record: &Record) -> RunWriter {
    let store = Store::open(lab).unwrap();
    let mut writer = store.begin(&record.header).unwrap();
    if let Some(target) = &record.target {
        writer.target(target).unwrap();
    }
    if let Some(load) = &record.load {
        writer.load(load).unwrap();
    }
    if let Some(workload) = &record.workload {
        writer.workload(workload).unwrap();
    }
    writer.phase(PhaseName::Measure, record.window().unwrap().start).unwrap();
    writer
}

/// Writes it whole.
pub fn keep(lab: &Path, record: &Record) {
    let mut writer = begin(lab, record);
    for interval in &record.intervals {
        writer.interval(interval).unwrap();
    }
    writer.finish(RunState::Complete, record.window().unwrap().end, None).unwrap();
}
