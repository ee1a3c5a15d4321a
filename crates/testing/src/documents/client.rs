//! HTTP/1 over a connection that is kept, as thin as a test can have it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::TcpStream;

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its headers, their names in small letters.
    pub headers: Vec<(String, String)>,
    /// Its body.
    pub text: String,
}

impl Answer {
    /// A header by its name in small letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// Its body as JSON; `null` where it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// The version that its `ETag` says; 0 where it says none.
    pub fn version(&self) -> i32 {
        let etag = self.header("etag").unwrap_or_default();
        etag.trim_matches('"').parse().unwrap_or(0)
    }
}

/// How a client leaves in the middle of a request.
#[derive(Debug, Clone, Copy)]
pub enum Leaving {
    /// With the last byte unsent: the request is none.
    Unsent,
    /// So long after it was sent, without the answer.
    After(Duration),
}

/// A client with a connection that is kept.
pub struct Client {
    address: SocketAddr,
    stream: Option<BufStream<TcpStream>>,
}

impl Client {
    /// One that is not connected yet.
    pub fn new(address: SocketAddr) -> Client {
        Client { address, stream: None }
    }

    /// Connects where it is not connected.
    ///
    /// # Errors
    /// Where nobody listens. Nothing was sent then.
    pub async fn connect(&mut self) -> io::Result<()> {
        if self.stream.is_none() {
            let stream = TcpStream::connect(self.address).await?;
            stream.set_nodelay(true)?;
            self.stream = Some(BufStream::new(stream));
        }
        Ok(())
    }

    async fn connected(&mut self) -> io::Result<BufStream<TcpStream>> {
        self.connect().await?;
        self.stream.take().ok_or_else(|| io::Error::other("not connected"))
    }

    /// Sends a request.
    ///
    /// # Errors
    /// Where the connection ends first: whether it was done is not known.
    pub async fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: &str,
    ) -> io::Result<Answer> {
        let mut stream = self.connected().await?;
        stream.write_all(request(method, path, headers, body).as_bytes()).await?;
        stream.flush().await?;
        let (answer, stays) = read(&mut stream).await?;
        if stays {
            self.stream = Some(stream);
        }
        Ok(answer)
    }

    /// Sends a request and resets the connection before the answer is read.
    ///
    /// # Errors
    /// Where the connection ends first.
    pub async fn leave(
        &mut self,
        method: &str,
        path: &str,
        headers: &str,
        body: &str,
        leaving: Leaving,
    ) -> io::Result<()> {
        let mut stream = self.connected().await?;
        let request = request(method, path, headers, body);
        let sent = match leaving {
            Leaving::Unsent => request.len() - 1,
            Leaving::After(_) => request.len(),
        };
        stream.write_all(&request.as_bytes()[..sent]).await?;
        stream.flush().await?;
        if let Leaving::After(time) = leaving {
            tokio::time::sleep(time).await;
        }
        stream.get_ref().set_zero_linger()
    }

    /// The answer to a request that must have one.
    ///
    /// # Panics
    /// Where it has none.
    pub async fn answer(&mut self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        self.ask(method, path, headers, body).await.expect("an answer")
    }

    /// The answer to a GET, which must have one.
    pub async fn get(&mut self, path: &str) -> Answer {
        self.answer("GET", path, "", "").await
    }

    /// The answer to a POST, which must have one.
    pub async fn post(&mut self, path: &str, body: &str) -> Answer {
        self.answer("POST", path, "", body).await
    }
}

fn request(method: &str, path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nhost: here\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    )
}

/// An answer, and whether its connection stays.
async fn read(stream: &mut BufStream<TcpStream>) -> io::Result<(Answer, bool)> {
    let ended = || io::Error::other("the connection ended");
    let mut line = String::new();
    let mut next = async |stream: &mut BufStream<TcpStream>| -> io::Result<String> {
        line.clear();
        match stream.read_line(&mut line).await? {
            0 => Err(ended()),
            _ => Ok(line.trim_end().to_owned()),
        }
    };
    let first = next(stream).await?;
    let status = first.split(' ').nth(1).and_then(|code| code.parse().ok()).ok_or_else(ended)?;
    let mut headers = Vec::new();
    while let Some((name, value)) = next(stream).await?.split_once(':') {
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut answer = Answer { status, headers, text: String::new() };
    let length = answer.header("content-length").and_then(|length| length.parse().ok());
    let mut text = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut text).await?;
    answer.text = String::from_utf8(text).map_err(io::Error::other)?;
    let stays = answer.header("connection") != Some("close");
    Ok((answer, stays))
}
