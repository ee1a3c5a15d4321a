//! Opening connections: socket, TLS, login.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use postgres_protocol::message::frontend::ssl_request;
use rustix::net::{RecvFlags, recv};
use rustls::ClientConfig;
use socket2::{Domain, SockAddr, Socket, TcpKeepalive, Type};

use crate::authenticate::{Channel, Login};
use crate::backend::{self, Authentication, BackendKeyData, ErrorFields, ParameterStatus};
use crate::deadline::{Deadline, Until, is_timeout, name_timeout};
use crate::stream::Transport;
use crate::tls::{TlsStream, client_config};
use crate::{
    ConnectOptions, Connection, Host, Scanner, SslMode, SslNegotiation, Stream, TagSet, TlsError,
    WireError, frontend,
};

/// Longest message before the end of login; libpq allows 30,000 bytes.
const LONGEST_MESSAGE: usize = 64 * 1024;
/// Most bytes a server may send before the end of login.
const LONGEST_LOGIN: usize = 1024 * 1024;
/// Longest piece of an answer that is no PostgreSQL that is shown.
const SHOWN: usize = 120;

/// Opens any number of connections with the same options; what they share
/// (trusted certificates, keys) is read once. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Connector {
    options: Arc<ConnectOptions>,
    tls: Option<Arc<ClientConfig>>,
}

/// How one attempt is encrypted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way<'a> {
    Plain,
    /// TLS, or plain if the server says it has none.
    TlsIfOffered(&'a Arc<ClientConfig>),
    Tls(&'a Arc<ClientConfig>),
}

/// An attempt that failed.
struct Failed {
    error: WireError,
    /// Whether the server had let us in.
    admitted: bool,
    /// Whether it went without TLS, so that going without is no other way.
    plain: bool,
}

impl From<WireError> for Failed {
    fn from(error: WireError) -> Self {
        Failed { error, admitted: false, plain: false }
    }
}

/// Has a host at the other end that is gone show within half a minute, where nothing is sent.
///
/// # Errors
/// When the system refuses.
pub fn keep_alive(socket: &impl AsFd) -> io::Result<()> {
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(15))
        .with_interval(Duration::from_secs(5))
        .with_retries(3);
    socket2::SockRef::from(socket).set_tcp_keepalive(&keepalive)
}

impl Connector {
    /// Reads certificates and keys where TLS may be used.
    ///
    /// # Errors
    /// When a file cannot be read or options contradict each other.
    pub fn new(options: ConnectOptions) -> Result<Self, WireError> {
        if options.tls.negotiation == SslNegotiation::Direct
            && matches!(options.tls.mode, SslMode::Disable | SslMode::Allow | SslMode::Prefer)
        {
            return Err(WireError::Options(
                "weak sslmode may not be used with sslnegotiation=direct (use \"require\", \
                 \"verify-ca\", or \"verify-full\")"
                    .into(),
            ));
        }
        let tls = match options.host {
            Host::Tcp(_) if options.tls.mode != SslMode::Disable => {
                Some(client_config(&options.tls)?)
            }
            Host::Unix(_) | Host::Tcp(_) => None,
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
    /// Takes no longer than the connect timeout, but for looking up the host's name,
    /// which the system's resolver limits in its own way.
    ///
    /// # Errors
    /// When the server cannot be reached in time, refuses, or speaks something else.
    pub fn connect(&self) -> Result<Connection, WireError> {
        let deadline = Deadline::new(self.options.connect_timeout);
        let (first, second) = self.ways();
        let failed = match self.connect_once(first, deadline) {
            Ok(connection) => return Ok(connection),
            Err(failed) => failed,
        };
        let error = match second {
            Some(way) if worth_another(&failed, way) => match self.connect_once(way, deadline) {
                Ok(connection) => return Ok(connection),
                Err(second) => more_telling(failed.error, second.error),
            },
            _ => failed.error,
        };
        Err(self.name_timeout(error, self.options.connect_timeout))
    }

    /// Opens the socket alone, without TLS and without logging in, for another protocol than
    /// PostgreSQL's. The stream does not block. Takes as long as [`connect`](Connector::connect).
    ///
    /// # Errors
    /// When nobody takes the connection in time.
    pub fn open_socket(&self) -> Result<Stream, WireError> {
        let limit = self.options.connect_timeout;
        let opened = self.open(Way::Plain, Deadline::new(limit)).and_then(|stream| {
            stream.set_nonblocking(true)?;
            Ok(stream)
        });
        opened.map_err(|error| self.name_timeout(error, limit))
    }

    /// As libpq: `allow` and `prefer` have a second way.
    fn ways(&self) -> (Way<'_>, Option<Way<'_>>) {
        let Some(tls) = &self.tls else { return (Way::Plain, None) };
        match self.options.tls.mode {
            SslMode::Disable => (Way::Plain, None),
            SslMode::Allow => (Way::Plain, Some(Way::Tls(tls))),
            SslMode::Prefer => (Way::TlsIfOffered(tls), Some(Way::Plain)),
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => (Way::Tls(tls), None),
        }
    }

    /// How a connection is opened that is not logged in: the way that is tried first.
    pub(crate) fn first_way(&self) -> Way<'_> {
        self.ways().0
    }

    fn connect_once(&self, way: Way<'_>, deadline: Deadline) -> Result<Connection, Failed> {
        let mut stream = self.open(way, deadline)?;
        let options = &*self.options;
        let mut parameters = vec![
            ("user", options.user.as_str()),
            ("database", options.dbname.as_str()),
            ("application_name", options.application_name.as_str()),
            // Scripts and names here are UTF-8, whatever the database's encoding is.
            ("client_encoding", "UTF8"),
        ];
        parameters.extend(options.parameters.iter().map(|(name, value)| (&**name, &**value)));
        let startup = frontend::startup(&parameters)?;
        stream.write_until(&startup, deadline).map_err(WireError::from)?;
        let channel = match stream.transport() {
            Transport::Unix(_) => Channel::Local,
            Transport::Tcp(_) => Channel::Plain,
            Transport::Tls(tls) => Channel::Tls { end_point: tls.server_end_point() },
        };
        let plain = channel == Channel::Plain;
        let login = Login::new(options, channel);
        let mut admitted = false;
        log_in(stream, login, deadline, &options.target(), &mut admitted).map_err(|error| Failed {
            error,
            admitted,
            plain,
        })
    }

    /// Opens the socket and, where wanted and offered, TLS on it.
    pub(crate) fn open(&self, way: Way<'_>, deadline: Deadline) -> Result<Stream, WireError> {
        let host = match &self.options.host {
            Host::Unix(_) => return self.open_unix(deadline),
            Host::Tcp(host) => host,
        };
        let socket = self.open_tcp(host, deadline)?;
        let direct = self.options.tls.negotiation == SslNegotiation::Direct;
        let config = match way {
            Way::Plain => return Ok(Stream::new(Transport::Tcp(socket))),
            Way::Tls(config) if direct => config,
            Way::Tls(config) | Way::TlsIfOffered(config) => {
                if self.offers_tls(&socket, deadline)? {
                    config
                } else if matches!(way, Way::TlsIfOffered(_)) {
                    return Ok(Stream::new(Transport::Tcp(socket)));
                } else {
                    return Err(TlsError::NotOffered.into());
                }
            }
        };
        let tls = TlsStream::handshake(config.clone(), host, socket, deadline)?;
        if direct && !tls.has_alpn() {
            return Err(TlsError::NoAlpn.into());
        }
        Ok(Stream::new(Transport::Tls(Box::new(tls))))
    }

    /// Asks for TLS in PostgreSQL's protocol.
    fn offers_tls(&self, socket: &TcpStream, deadline: Deadline) -> Result<bool, WireError> {
        let mut until = Until::new(socket, deadline);
        let mut request = BytesMut::new();
        ssl_request(&mut request);
        until.write_all(&request)?;
        // One byte and no more: what a third party slipped in behind it must
        // not be taken for something the server said under TLS.
        let mut answer = [0];
        until.read_exact(&mut answer)?;
        match answer[0] {
            b'E' => Err(TlsError::ErrorAnswer.into()),
            answer => {
                // A server waits now. Who goes on talking is none, or not alone.
                let mut more = [0; SHOWN];
                let more = match recv(socket, &mut more, RecvFlags::DONTWAIT) {
                    Ok((count, _)) => &more[..count],
                    Err(_) => &[],
                };
                match answer {
                    b'S' if more.is_empty() => Ok(true),
                    b'N' if more.is_empty() => Ok(false),
                    answer => Err(self.not_postgres(&[&[answer], more].concat())),
                }
            }
        }
    }

    fn not_postgres(&self, answer: &[u8]) -> WireError {
        not_postgres(&self.options.target(), answer)
    }

    fn open_unix(&self, deadline: Deadline) -> Result<Stream, WireError> {
        let connected = || {
            let address = SockAddr::unix(self.options.socket_path())?;
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
            // On a unix socket this limits the wait for a full backlog too.
            socket.set_write_timeout(deadline.remaining()?)?;
            socket.connect(&address)?;
            Ok(UnixStream::from(std::os::fd::OwnedFd::from(socket)))
        };
        connected()
            .map(|socket| Stream::new(Transport::Unix(socket)))
            .map_err(|error| self.connect_error(error))
    }

    fn open_tcp(&self, host: &str, deadline: Deadline) -> Result<TcpStream, WireError> {
        let port = self.options.port;
        let addresses: Vec<SocketAddr> = match self.options.hostaddr {
            Some(address) => vec![(address, port).into()],
            None => (host, port)
                .to_socket_addrs()
                .map_err(|source| WireError::UnknownHost { host: host.to_owned(), source })?
                .collect(),
        };
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for (at, address) in addresses.iter().enumerate() {
            // One that does not answer leaves the others their share of the time.
            let share = u32::try_from(addresses.len() - at).unwrap_or(u32::MAX);
            let connected = || {
                let socket = match deadline.remaining()? {
                    Some(left) => TcpStream::connect_timeout(address, left / share)?,
                    None => TcpStream::connect(address)?,
                };
                socket.set_nodelay(true)?;
                keep_alive(&socket)?;
                Ok(socket)
            };
            match connected() {
                Ok(socket) => return Ok(socket),
                Err(error) => last = error,
            }
        }
        Err(self.connect_error(last))
    }

    fn connect_error(&self, source: io::Error) -> WireError {
        if is_timeout(&source) {
            return WireError::Io(source);
        }
        WireError::Connect { target: self.options.target(), source }
    }

    /// Says whose time ran out, where it did.
    pub(crate) fn name_timeout(&self, error: WireError, limit: Option<Duration>) -> WireError {
        name_timeout(error, limit, || self.options.target())
    }
}

/// Whether to try with or without TLS what failed without or with it, as libpq does: after
/// a handshake that failed, and after an error of the server before it let us in, unless
/// it just cannot take connections now. Unlike libpq, a wrong password is not tried twice:
/// servers lock accounts for less.
fn worth_another(failed: &Failed, way: Way<'_>) -> bool {
    if failed.plain && matches!(way, Way::Plain) {
        return false;
    }
    match &failed.error {
        WireError::Tls(TlsError::Handshake { .. } | TlsError::Broken { .. }) => true,
        WireError::Server(fields) => {
            !failed.admitted && fields.code != CANNOT_CONNECT_NOW && fields.code != INVALID_PASSWORD
        }
        _ => false,
    }
}

/// SQLSTATEs.
const CANNOT_CONNECT_NOW: &str = "57P03";
const INVALID_PASSWORD: &str = "28P01";
/// No line of pg_hba.conf lets this user in this way.
const NOT_AUTHORIZED: &str = "28000";

/// The error of two attempts that tells the cause: the first, unless it says no more than
/// that this way is closed.
fn more_telling(first: WireError, second: WireError) -> WireError {
    let closed = |error: &WireError| {
        error.server_error().is_some_and(|fields| fields.code == NOT_AUTHORIZED)
    };
    let got_further = match &second {
        WireError::Server(_) => !closed(&second),
        WireError::PasswordNeeded { .. }
        | WireError::Authentication { .. }
        | WireError::Refused(_)
        | WireError::Scram(_) => true,
        _ => false,
    };
    if closed(&first) && got_further { second } else { first }
}

/// From the startup packet to the first ReadyForQuery.
fn log_in(
    mut stream: Stream,
    mut login: Login<'_>,
    deadline: Deadline,
    target: &str,
    admitted: &mut bool,
) -> Result<Connection, WireError> {
    let mut scanner = Scanner::backend().with_limit(LONGEST_MESSAGE);
    let mut parameters = Vec::new();
    let mut key = None;
    let mut total = 0;
    // How the answer begins, until it has been a message.
    let mut beginning = Some(Vec::new());
    let mut buffer = vec![0; 8192];
    let mut out = BytesMut::new();
    loop {
        let count = stream.read_until(&mut buffer, deadline)?;
        if count == 0 {
            return Err(match beginning {
                Some(said) if !said.is_empty() => not_postgres(target, &said),
                _ => WireError::Closed,
            });
        }
        total += count;
        if total > LONGEST_LOGIN {
            return Err(WireError::TooMuch { limit: LONGEST_LOGIN });
        }
        let mut input = &buffer[..count];
        if let Some(said) = &mut beginning {
            said.extend(input.iter().take(SHOWN));
        }
        loop {
            let frame = match (scanner.next(&mut input, TagSet::ALL), &beginning) {
                (Ok(Some(frame)), _) => frame,
                (Ok(None), _) => break,
                (Err(_), Some(said)) => return Err(not_postgres(target, said)),
                (Err(error), None) => return Err(error.into()),
            };
            beginning = None;
            let body = frame.body.unwrap_or_default();
            match frame.tag {
                backend::AUTHENTICATION if !*admitted => {
                    *admitted = login.answer(&Authentication::parse(body)?, &mut out)?;
                    if !out.is_empty() {
                        stream.write_until(&out, deadline)?;
                        out.clear();
                    }
                }
                backend::ERROR_RESPONSE => {
                    return Err(WireError::Server(Box::new(ErrorFields::parse(body)?)));
                }
                backend::NOTICE_RESPONSE | backend::NEGOTIATE_PROTOCOL_VERSION => {}
                backend::PARAMETER_STATUS if *admitted => {
                    let status = ParameterStatus::parse(body)?;
                    parameters.push((status.name, status.value));
                }
                backend::BACKEND_KEY_DATA if *admitted => key = Some(BackendKeyData::parse(body)?),
                backend::READY_FOR_QUERY if *admitted => {
                    let rest = input.to_vec();
                    stream.set_timeout(None)?;
                    return Ok(Connection::new(stream, target.to_owned(), rest, parameters, key));
                }
                tag => return Err(WireError::Unexpected { tag, during: "logging in" }),
            }
        }
    }
}

/// The error for an answer that is no message of protocol 3.
fn not_postgres(target: &str, answer: &[u8]) -> WireError {
    let line = |bytes: &[u8]| {
        let bytes = &bytes[..bytes.len().min(SHOWN)];
        let end = bytes.iter().position(|byte| matches!(byte, 0 | b'\r' | b'\n'));
        crate::read::text(&bytes[..end.unwrap_or(bytes.len())])
    };
    let target = target.to_owned();
    match answer {
        // Protocol 2 had the text right behind the type.
        [backend::ERROR_RESPONSE, text @ ..] if text.first().is_some_and(|b| *b >= b' ') => {
            WireError::OldError { target, said: line(text) }
        }
        _ => WireError::NotPostgres { target, said: line(answer) },
    }
}

#[cfg(test)]
mod tests {
    use std::net::Shutdown;

    use proptest::prelude::*;

    use super::*;
    use crate::Secret;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![tag];
        bytes.extend((body.len() as u32 + 4).to_be_bytes());
        bytes.extend(body);
        bytes
    }

    /// What a server may send: messages of a login, in any order, and anything else.
    fn sent() -> impl Strategy<Value = Vec<u8>> {
        let authentication = |code: u32, rest: &[u8]| {
            message(backend::AUTHENTICATION, &[&code.to_be_bytes(), rest].concat())
        };
        prop_oneof![
            Just(authentication(0, b"")),
            Just(authentication(3, b"")),
            Just(authentication(5, b"salt")),
            Just(authentication(10, b"SCRAM-SHA-256\0\0")),
            Just(authentication(11, b"r=x,s=c2FsdA==,i=1")),
            Just(authentication(12, b"v=x")),
            Just(message(backend::PARAMETER_STATUS, b"server_version\x0018\0")),
            Just(message(backend::BACKEND_KEY_DATA, &[1; 8])),
            Just(message(backend::READY_FOR_QUERY, b"I")),
            Just(message(backend::ERROR_RESPONSE, b"SFATAL\0C28000\0Mno\0\0")),
            Just(message(backend::NOTICE_RESPONSE, b"")),
            (any::<u8>(), prop::collection::vec(any::<u8>(), 0..30))
                .prop_map(|(tag, body)| message(tag, &body)),
            prop::collection::vec(any::<u8>(), 0..30),
        ]
    }

    proptest! {
        #[test]
        fn whatever_a_server_sends_the_password_stays_here_and_nothing_panics(
            sent in prop::collection::vec(sent(), 0..8),
        ) {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            theirs.write_all(&sent.concat()).unwrap();
            theirs.shutdown(Shutdown::Write).unwrap();
            let mut options = ConnectOptions::new(Host::Tcp("db".into()), 5432, "alice", "app");
            options.password = Some(Secret::new("open sesame"));
            let mut admitted = false;
            let connected = log_in(
                Stream::new(Transport::Unix(ours)),
                Login::new(&options, Channel::Plain),
                Deadline::new(Some(Duration::from_secs(20))),
                "db",
                &mut admitted,
            );
            prop_assert!(admitted || connected.is_err());
            drop(connected);
            let mut said = Vec::new();
            theirs.read_to_end(&mut said).unwrap();
            prop_assert!(!said.windows(6).any(|window| window == b"sesame"));
        }
    }

    #[test]
    fn what_is_no_message_is_shown_as_far_as_its_first_line() {
        let said = |answer: &[u8]| not_postgres("db:1", answer).to_string();
        let http = said(b"HTTP/1.1 400 Bad Request\r\nServer: x\r\n");
        assert!(http.contains("db:1") && http.contains("\"HTTP/1.1 400 Bad Request\""), "{http}");
        assert!(!http.contains("Server"), "{http}");
        let fork = b"Ecould not fork new process for connection: Cannot allocate memory\n\0";
        let error = said(fork);
        assert!(error.contains("refused the connection: could not fork"), "{error}");
        assert!(error.ends_with("memory"), "{error}");
        assert!(said(&[b'x'; 5000]).len() < 300);
    }

    #[test]
    fn the_second_way_is_tried_where_it_may_help() {
        let server = |code: &str, admitted| Failed {
            error: WireError::Server(Box::new(ErrorFields {
                code: code.into(),
                ..ErrorFields::default()
            })),
            admitted,
            plain: false,
        };
        let worth_another = |failed: &Failed| worth_another(failed, Way::Plain);
        assert!(worth_another(&server("28000", false)));
        assert!(!worth_another(&server("28000", true)));
        assert!(!worth_another(&server("57P03", false)));
        assert!(!worth_another(&server("28P01", false)));
        let broken = io::Error::from(io::ErrorKind::UnexpectedEof);
        let broken = TlsError::Broken { host: "db".into(), said: broken };
        assert!(worth_another(&WireError::from(broken).into()));
        assert!(!worth_another(&WireError::from(TlsError::ErrorAnswer).into()));
        assert!(!worth_another(&WireError::Refused(String::new()).into()));
        assert!(!worth_another(&WireError::Closed.into()));
        assert!(!worth_another(&Failed { plain: true, ..server("28000", false) }));

        let told = |first: Failed, second: Failed| more_telling(first.error, second.error);
        let code = |error: WireError| error.server_error().map(|fields| fields.code.clone());
        assert_eq!(
            code(told(server("28000", false), server("28P01", false))).as_deref(),
            Some("28P01")
        );
        assert_eq!(
            code(told(server("53300", false), server("28000", false))).as_deref(),
            Some("53300")
        );
    }
}
