//! A client of the protocol that may say anything.

use std::io::{self, ErrorKind};
use std::path::Path;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use walwright_wire::backend::{self, ErrorFields};

/// Longest answer that it takes.
const LONGEST: usize = 64 << 20;

/// What it speaks over.
pub trait Socket: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Socket for T {}

/// A client of the protocol that may say anything.
pub struct RawClient {
    socket: Over,
    /// What cancels on it: process and key.
    pub key: (u32, Vec<u8>),
}

enum Over {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Over {
    fn socket(&mut self) -> &mut dyn Socket {
        match self {
            Over::Unix(socket) => socket,
            Over::Tcp(socket) => socket,
        }
    }
}

impl RawClient {
    /// Connects to a unix socket, and says nothing yet.
    ///
    /// # Errors
    /// When nobody listens there.
    pub async fn connect(directory: &Path, port: u16) -> io::Result<RawClient> {
        let path = directory.join(format!(".s.PGSQL.{port}"));
        Ok(RawClient::on(Over::Unix(UnixStream::connect(path).await?)))
    }

    /// The same on TCP; where it is dropped with answers unread, or `resets`, the other side
    /// is told by a reset.
    ///
    /// # Errors
    /// When nobody listens there.
    pub async fn connect_tcp(port: u16, resets: bool) -> io::Result<RawClient> {
        let socket = TcpStream::connect(("127.0.0.1", port)).await?;
        socket.set_nodelay(true)?;
        if resets {
            socket.set_zero_linger()?;
        }
        Ok(RawClient::on(Over::Tcp(socket)))
    }

    fn on(socket: Over) -> RawClient {
        RawClient { socket, key: (0, Vec::new()) }
    }

    /// The unix socket, where it is on one.
    pub fn into_unix(self) -> Option<UnixStream> {
        match self.socket {
            Over::Unix(socket) => Some(socket),
            Over::Tcp(_) => None,
        }
    }

    /// Logs in as `postgres` without a password, with the parameters that tokio-postgres sends.
    ///
    /// # Errors
    /// When it is not let in; with what it was told.
    pub async fn log_in(&mut self, database: &str) -> io::Result<()> {
        self.send(&startup(database)).await?;
        loop {
            let (tag, body) = self.message().await?;
            match tag {
                backend::READY_FOR_QUERY => return Ok(()),
                backend::BACKEND_KEY_DATA => {
                    if let Some((process, key)) = body.split_first_chunk::<4>() {
                        self.key = (u32::from_be_bytes(*process), key.to_vec());
                    }
                }
                backend::ERROR_RESPONSE => {
                    let said = ErrorFields::parse(&body).map_err(|_| ErrorKind::InvalidData)?;
                    return Err(io::Error::other(said.to_string()));
                }
                _ => {}
            }
        }
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// When the other side has gone.
    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.socket().write_all(bytes).await?;
        self.socket.socket().flush().await
    }

    /// Says that nothing more is sent.
    ///
    /// # Errors
    /// When the other side has gone.
    pub async fn shut_down(&mut self) -> io::Result<()> {
        self.socket.socket().shutdown().await
    }

    /// The next message: its type and its body.
    ///
    /// # Errors
    /// When there is none, since the other side has gone.
    pub async fn message(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.socket.socket().read_exact(&mut head).await?;
        let [tag, length @ ..] = head;
        let length = u32::from_be_bytes(length) as usize;
        if !(4..=LONGEST).contains(&length) {
            return Err(ErrorKind::InvalidData.into());
        }
        let mut body = vec![0; length - 4];
        self.socket.socket().read_exact(&mut body).await?;
        Ok((tag, body))
    }

    /// Reads bytes as they come.
    ///
    /// # Errors
    /// When the other side has gone without saying so.
    pub async fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.socket.socket().read(into).await
    }
}

/// A message of a client.
pub fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap_or(u32::MAX);
    [&[tag][..], &length.to_be_bytes(), body].concat()
}

/// The first packet of `postgres`.
pub fn startup(database: &str) -> Vec<u8> {
    let body = format!("\0\x03\0\0user\0postgres\0client_encoding\0UTF8\0database\0{database}\0\0");
    let length = u32::try_from(body.len() + 4).unwrap_or(u32::MAX);
    [&length.to_be_bytes(), body.as_bytes()].concat()
}

/// The packet that cancels.
pub fn cancel_request(process: u32, key: &[u8]) -> Vec<u8> {
    let length = u32::try_from(key.len() + 12).unwrap_or(u32::MAX);
    [&length.to_be_bytes()[..], &80_877_102_u32.to_be_bytes(), &process.to_be_bytes(), key].concat()
}
