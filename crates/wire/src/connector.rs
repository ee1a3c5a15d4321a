//! Opening connections: socket, TLS, login.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use socket2::{Domain, SockAddr, Socket, TcpKeepalive, Type};

use crate::authenticate::Login;
use crate::backend::{self, Authentication, BackendKeyData, ErrorFields, ParameterStatus};
use crate::frontend::{SslRequest, Startup};
use crate::tls::{TlsStream, client_config};
use crate::{ConnectOptions, Connection, Host, Scanner, Stream, TagSet, TlsMode, WireError};

/// Opens any number of connections with the same options; what they share
/// (trusted certificates, keys) is read once. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Connector {
    options: Arc<ConnectOptions>,
    tls: Option<Arc<ClientConfig>>,
}

impl Connector {
    /// Reads certificates and keys where TLS may be used.
    ///
    /// # Errors
    /// When a file cannot be read or options contradict each other.
    pub fn new(options: ConnectOptions) -> Result<Self, WireError> {
        let tls = match options.host {
            Host::Unix(_) => None,
            Host::Tcp(_) => client_config(&options.tls)?,
        };
        Ok(Connector { options: Arc::new(options), tls })
    }

    /// The options.
    pub fn options(&self) -> &ConnectOptions {
        &self.options
    }

    /// Connects and logs in, blocking; the stream is blocking and without a
    /// time limit afterwards.
    ///
    /// # Errors
    /// When the server cannot be reached in time, refuses, or speaks something else.
    pub fn connect(&self) -> Result<Connection, WireError> {
        let deadline = Deadline::new(self.options.connect_timeout);
        match self.connect_once(self.tls.as_ref(), deadline) {
            // As libpq: what TLS was refused for may work without it.
            Err(error) if self.tls.is_some() && self.may_go_without_tls(&error) => {
                self.connect_once(None, deadline).map_err(|_| error)
            }
            done => done,
        }
        .map_err(|error| self.name_timeout(error))
    }

    fn may_go_without_tls(&self, error: &WireError) -> bool {
        self.options.tls.mode == TlsMode::Prefer
            && match error {
                WireError::Tls(_) => true,
                // invalid_authorization_specification: no pg_hba.conf entry.
                WireError::Server(fields) => fields.code == "28000",
                _ => false,
            }
    }

    fn connect_once(
        &self,
        tls: Option<&Arc<ClientConfig>>,
        deadline: Deadline,
    ) -> Result<Connection, WireError> {
        let mut stream = self.open(tls, deadline)?;
        let options = &*self.options;
        let mut parameters = vec![
            ("user", options.user.as_str()),
            ("database", options.dbname.as_str()),
            ("application_name", options.application_name.as_str()),
        ];
        parameters.extend(options.parameters.iter().map(|(name, value)| (&**name, &**value)));
        let startup = Startup { parameters: &parameters };
        if let Some(name) = startup.check() {
            return Err(WireError::Options(format!("parameter \"{name}\" cannot be sent")));
        }
        let mut out = Vec::new();
        startup.write(&mut out);
        stream.write_all(&out)?;
        let end_point = stream.is_tls().then(|| stream.server_end_point());
        let connection = log_in(stream, Login::new(options, end_point), deadline)?;
        connection.stream().set_timeout(None)?;
        Ok(connection)
    }

    /// Opens the socket and, where wanted and offered, TLS on it.
    pub(crate) fn open(
        &self,
        tls: Option<&Arc<ClientConfig>>,
        deadline: Deadline,
    ) -> Result<Stream, WireError> {
        let host = match &self.options.host {
            Host::Unix(_) => return self.open_unix(deadline),
            Host::Tcp(host) => host,
        };
        let mut socket = self.open_tcp(host, deadline)?;
        let Some(config) = tls else { return Ok(Stream::Tcp(socket)) };
        let mut out = Vec::new();
        SslRequest.write(&mut out);
        socket.write_all(&out)?;
        // One byte and no more: what a third party slipped in behind it must
        // not be taken for something the server said under TLS.
        let mut answer = [0];
        socket.read_exact(&mut answer)?;
        match answer[0] {
            b'S' => {
                let tls = TlsStream::handshake(config.clone(), host, socket)?;
                Ok(Stream::Tls(Box::new(tls)))
            }
            b'N' if self.options.tls.mode == TlsMode::Prefer => Ok(Stream::Tcp(socket)),
            b'N' => Err(WireError::Tls(format!(
                "{} does not offer TLS; set ssl = on there, or use sslmode=prefer or disable",
                self.options.target()
            ))),
            tag => Err(WireError::Unexpected { tag, during: "TLS was asked for" }),
        }
    }

    fn open_unix(&self, deadline: Deadline) -> Result<Stream, WireError> {
        let connected = || {
            let address = SockAddr::unix(self.options.socket_path())?;
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
            // On a unix socket this limits the wait for a full backlog too.
            socket.set_write_timeout(deadline.remaining()?)?;
            socket.connect(&address)?;
            socket.set_read_timeout(deadline.remaining()?)?;
            Ok(UnixStream::from(std::os::fd::OwnedFd::from(socket)))
        };
        connected().map(Stream::Unix).map_err(|error| self.connect_error(error))
    }

    fn open_tcp(&self, host: &str, deadline: Deadline) -> Result<TcpStream, WireError> {
        let port = self.options.port;
        let addresses: Vec<SocketAddr> = match self.options.hostaddr {
            Some(address) => vec![(address, port).into()],
            None => {
                (host, port).to_socket_addrs().map_err(|error| self.connect_error(error))?.collect()
            }
        };
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in addresses {
            let connected = || {
                let socket = match deadline.remaining()? {
                    Some(limit) => TcpStream::connect_timeout(&address, limit)?,
                    None => TcpStream::connect(address)?,
                };
                socket.set_nodelay(true)?;
                // A host that is gone shows within half a minute.
                let keepalive = TcpKeepalive::new()
                    .with_time(Duration::from_secs(15))
                    .with_interval(Duration::from_secs(5))
                    .with_retries(3);
                socket2::SockRef::from(&socket).set_tcp_keepalive(&keepalive)?;
                socket.set_read_timeout(deadline.remaining()?)?;
                socket.set_write_timeout(deadline.remaining()?)?;
                Ok(socket)
            };
            match connected() {
                Ok(socket) => return Ok(socket),
                Err(error) => last = error,
            }
        }
        Err(self.connect_error(last))
    }

    /// The TLS configuration, for connections that are opened without a login.
    pub(crate) fn tls(&self) -> Option<&Arc<ClientConfig>> {
        self.tls.as_ref()
    }

    fn connect_error(&self, source: io::Error) -> WireError {
        if is_timeout(&source) {
            return WireError::Io(source);
        }
        WireError::Connect { target: self.options.target(), source }
    }

    /// Says whose time ran out, where it did.
    pub(crate) fn name_timeout(&self, error: WireError) -> WireError {
        match (error, self.options.connect_timeout) {
            (WireError::Io(error), Some(limit)) if is_timeout(&error) => {
                WireError::Timeout { target: self.options.target(), limit }
            }
            (error, _) => error,
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// The end of the time allowed, if there is one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        Deadline(limit.and_then(|limit| Instant::now().checked_add(limit)))
    }

    /// Time that remains; an error when there is none.
    fn remaining(self) -> io::Result<Option<Duration>> {
        let Some(end) = self.0 else { return Ok(None) };
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

/// From the startup packet to the first ReadyForQuery.
fn log_in(
    mut stream: Stream,
    mut login: Login<'_>,
    deadline: Deadline,
) -> Result<Connection, WireError> {
    // Before login nothing long is due; libpq allows 30,000 bytes.
    let mut scanner = Scanner::backend().with_limit(64 * 1024);
    let mut parameters = Vec::new();
    let mut key = None;
    let mut admitted = false;
    let mut buffer = vec![0; 8192];
    let mut out = Vec::new();
    loop {
        stream.set_timeout(deadline.remaining()?)?;
        let count = match stream.read(&mut buffer) {
            Ok(0) => return Err(WireError::Closed),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        let mut input = &buffer[..count];
        while let Some(frame) = scanner.next(&mut input, TagSet::ALL)? {
            let body = frame.body.unwrap_or_default();
            match frame.tag {
                backend::AUTHENTICATION if !admitted => {
                    admitted = login.answer(&Authentication::parse(body)?, &mut out)?;
                    if !out.is_empty() {
                        stream.write_all(&out)?;
                        out.clear();
                    }
                }
                backend::ERROR_RESPONSE => {
                    return Err(WireError::Server(Box::new(ErrorFields::parse(body)?)));
                }
                backend::NOTICE_RESPONSE | backend::NEGOTIATE_PROTOCOL_VERSION => {}
                backend::PARAMETER_STATUS if admitted => {
                    let status = ParameterStatus::parse(body)?;
                    parameters.push((status.name, status.value));
                }
                backend::BACKEND_KEY_DATA if admitted => key = Some(BackendKeyData::parse(body)?),
                backend::READY_FOR_QUERY if admitted => {
                    let rest = input.to_vec();
                    return Ok(Connection::new(stream, Scanner::backend(), rest, parameters, key));
                }
                tag => return Err(WireError::Unexpected { tag, during: "logging in" }),
            }
        }
    }
}
