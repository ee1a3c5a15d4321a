//! `walwright documents serve` as what is measured.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::{Signal, kill_process};
use tempfile::NamedTempFile;

use crate::{Walwright, process};

/// The document service, until it is dropped.
pub struct DocumentService {
    child: Child,
    address: SocketAddr,
    log: NamedTempFile,
}

/// How long it may take to be there, with its tables filled.
const PATIENCE: Duration = Duration::from_secs(120);

impl DocumentService {
    /// Starts it with these options, on a free port, and waits until it is there.
    ///
    /// # Errors
    /// When it is not there in time.
    pub fn start(walwright: &Walwright, options: &[&str]) -> anyhow::Result<DocumentService> {
        let mut service = DocumentService::spawn(walwright, free_address()?, options)?;
        service.until_ready()?;
        Ok(service)
    }

    /// Starts it with these options at an address.
    ///
    /// # Errors
    /// When there is no such program.
    pub fn spawn(
        walwright: &Walwright,
        address: SocketAddr,
        options: &[&str],
    ) -> anyhow::Result<DocumentService> {
        let log = NamedTempFile::new()?;
        let mut command = walwright.command();
        command.args(["documents", "serve", "--listen", &address.to_string()]).args(options);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.reopen()?);
        let child = command.spawn().context("starting the service")?;
        Ok(DocumentService { child, address, log })
    }

    /// Waits until it answers that its server does. Blocks.
    ///
    /// # Errors
    /// When it ends before, or is not there in time; with what it said.
    pub fn until_ready(&mut self) -> anyhow::Result<()> {
        let begun = Instant::now();
        while self.ask("GET", "/healthz", "").is_err() {
            let ended = self.child.try_wait()?;
            let is_late = begun.elapsed() > PATIENCE;
            let said = || std::fs::read_to_string(self.log.path()).unwrap_or_default();
            ensure!(ended.is_none() && !is_late, "the service is not there: {ended:?}\n{}", said());
            sleep(Duration::from_millis(5));
        }
        Ok(())
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

    /// Kills it. Blocks until it is gone.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Asks it to end, and whether it ended well. Blocks until it is gone.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn end(mut self) -> anyhow::Result<bool> {
        kill_process(process(self.child.id())?, Signal::TERM)?;
        Ok(self.child.wait()?.success())
    }
}

impl Drop for DocumentService {
    fn drop(&mut self) {
        // Its number may be another's once it has been waited for.
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        // It ends its server, and waits for that.
        if let Ok(process) = process(self.child.id()) {
            let _ = kill_process(process, Signal::TERM);
        }
        let _ = self.child.wait();
    }
}

/// Free, and nobody else's for as long as it is asked for, most likely: bound and let go.
///
/// # Errors
/// When no port is free.
pub fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?)
}
