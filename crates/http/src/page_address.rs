//! The address of a page that a program of this network shows, and the page there.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

/// Most bytes of a page that are read.
const LARGEST: u64 = 4 << 20;

/// `http://HOST[:PORT]/PATH`; port 80 where none is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageAddress {
    host: String,
    path: String,
}

/// What is wrong with an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an address is http://HOST:PORT/PATH")]
pub struct NoPageAddress;

/// Why a page cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// Nobody is reached there, or who is does not answer in time.
    #[error("{0}")]
    Unreached(#[from] io::Error),
    /// What answers does not speak HTTP.
    #[error("what it answers is no HTTP")]
    NoHttp,
    /// It answers that there is no such page, or none now.
    #[error("it answers: {0}")]
    Refused(String),
}

impl FromStr for PageAddress {
    type Err = NoPageAddress;

    fn from_str(text: &str) -> Result<PageAddress, NoPageAddress> {
        let rest = text.strip_prefix("http://").ok_or(NoPageAddress)?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let odd = |letter: char| letter.is_control() || letter == ' ';
        let port = host.rsplit_once(':').map(|(name, port)| !name.is_empty() && is_port(port));
        if host.is_empty() || rest.contains(odd) || port == Some(false) {
            return Err(NoPageAddress);
        }
        Ok(PageAddress { host: host.to_owned(), path: path.to_owned() })
    }
}

/// A number that a port has, or the end of an address of IPv6 without one.
fn is_port(text: &str) -> bool {
    text.ends_with(']') || text.parse::<u16>().is_ok()
}

impl fmt::Display for PageAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}/{}", self.host, self.path)
    }
}

impl PageAddress {
    /// The same with this path where it has none.
    #[must_use]
    pub fn or_path(mut self, path: &str) -> PageAddress {
        if self.path.is_empty() {
            path.clone_into(&mut self.path);
        }
        self
    }

    /// The page. Each of connecting, asking and reading may take so long; blocks.
    ///
    /// # Errors
    /// When there is none, with what came instead.
    pub fn read(&self, patience: Duration) -> Result<String, PageError> {
        let mut answer = Vec::new();
        self.ask(patience)?.take(LARGEST).read_to_end(&mut answer)?;
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").ok_or(PageError::NoHttp)?;
        let first = head.lines().next().unwrap_or_default();
        match status(first) {
            Some(200) => Ok(body.to_owned()),
            Some(_) => Err(PageError::Refused(first.to_owned())),
            None => Err(PageError::NoHttp),
        }
    }

    /// The status that it answers with, by its first bytes alone; blocks as [`read`](Self::read).
    ///
    /// # Errors
    /// When nobody answers, or not by HTTP.
    pub fn status(&self, patience: Duration) -> Result<u16, PageError> {
        let mut first = [0; "HTTP/1.1 200".len()];
        self.ask(patience)?.read_exact(&mut first)?;
        str::from_utf8(&first).ok().and_then(status).ok_or(PageError::NoHttp)
    }

    fn ask(&self, patience: Duration) -> io::Result<TcpStream> {
        let PageAddress { host, path } = self;
        let mut stream = connect(&self.host_and_port(), patience)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        let asked = format!("GET /{path} HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(asked.as_bytes())?;
        Ok(stream)
    }

    fn host_and_port(&self) -> String {
        let has_port = self.host.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
        if has_port { self.host.clone() } else { format!("{}:80", self.host) }
    }
}

/// A connection to `HOST:PORT`, made within this time. Blocks.
///
/// # Errors
/// When none of its addresses is reached.
pub fn connect(host_and_port: &str, patience: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in host_and_port.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, patience) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// That of a line such as `HTTP/1.1 200 OK`.
fn status(line: &str) -> Option<u16> {
    line.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn an_address_is_one_of_a_page() {
        let address = |text: &str| text.parse::<PageAddress>().map(|of| of.to_string());
        for right in ["http://127.0.0.1:9187/metrics", "http://db/a", "http://[::1]:80/"] {
            assert_eq!(address(right).as_deref(), Ok(right));
        }
        assert_eq!(address("http://db:9187").unwrap(), "http://db:9187/");
        for wrong in
            ["https://x:1/", "x:1", "http://", "http://:1/", "http://x:1/a\r\nb", "http://x:y"]
        {
            assert!(address(wrong).is_err(), "{wrong}");
        }
        let named = "http://db:1".parse::<PageAddress>().unwrap().or_path("metrics");
        assert_eq!(named.to_string(), "http://db:1/metrics");
        let ports = ["http://[::1]/", "http://db/", "http://db:8/"];
        let ports = ports.map(|text| text.parse::<PageAddress>().unwrap().host_and_port());
        assert_eq!(ports, ["[::1]:80", "db:80", "db:8"]);
    }

    /// What becomes of a page where this is answered.
    fn answered(with: &'static [u8]) -> Result<String, PageError> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/x", listener.local_addr().unwrap());
        let answers = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 1024];
            let length = stream.read(&mut asked).unwrap();
            stream.write_all(with).unwrap();
            String::from_utf8_lossy(&asked[..length]).into_owned()
        });
        let page = address.parse::<PageAddress>().unwrap().read(Duration::from_secs(10));
        assert!(answers.join().unwrap().starts_with("GET /x HTTP/1.0\r\n"));
        page
    }

    #[test]
    fn only_an_answer_that_is_a_page_is_one() {
        assert_eq!(answered(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\npage\n").unwrap(), "page\n");
        let refused = answered(b"HTTP/1.1 404 Not Found\r\n\r\npage\n").unwrap_err();
        assert_eq!(refused.to_string(), "it answers: HTTP/1.1 404 Not Found");
        for other in [&b""[..], b"E\0\0\0\x08none", b"HTTP/1.1 200 OK", b"SSH-2 200 x\r\n\r\n"] {
            assert!(matches!(answered(other), Err(PageError::NoHttp)), "{other:?}");
        }
    }
}
