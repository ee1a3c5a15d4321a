//! `walwright documents serve` as what is measured.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::{Signal, kill_process};

use crate::{Walwright, process};

/// The document service, until it is dropped.
pub struct DocumentService {
    child: Child,
    address: SocketAddr,
}

/// How long it may take to be there, with its tables filled.
const PATIENCE: Duration = Duration::from_secs(120);

impl DocumentService {
    /// Starts it with these options, on a free port.
    ///
    /// # Errors
    /// When it is not there in time.
    pub fn start(walwright: &Walwright, options: &[&str]) -> anyhow::Result<DocumentService> {
        let address = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
        let mut command = walwright.command();
        command.args(["documents", "serve", "--listen", &address.to_string()]).args(options);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().context("starting the service")?;
        let mut service = DocumentService { child, address };
        let begun = Instant::now();
        while service.ask("GET", "/healthz", "").is_err() {
            let ended = service.child.try_wait()?;
            ensure!(ended.is_none(), "the service ended before it was there: {command:?}");
            ensure!(begun.elapsed() < PATIENCE, "the service is not there after {PATIENCE:?}");
            sleep(Duration::from_millis(50));
        }
        Ok(service)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it answers, headers and body.
    ///
    /// # Errors
    /// When it cannot be asked, or answers with no status of 200 to 299.
    pub fn ask(&self, method: &str, path: &str, body: &str) -> anyhow::Result<String> {
        let mut stream = TcpStream::connect(self.address)?;
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        match answer.split(' ').nth(1) {
            Some(status) if status.starts_with('2') => Ok(answer),
            _ => bail!("{method} {path} was answered with {answer}"),
        }
    }
}

impl Drop for DocumentService {
    fn drop(&mut self) {
        // It ends its server, and waits for that.
        if let Ok(process) = process(self.child.id()) {
            let _ = kill_process(process, Signal::TERM);
        }
        let _ = self.child.wait();
    }
}
