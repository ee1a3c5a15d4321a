//! Who answers the load.

use std::time::Duration;

use thiserror::Error;
use walwright_wire::{ConnectOptions, Connector, Host, SslMode, TlsOptions, WireError};

use crate::client::{Link, Reading};

/// Who answers the load.
#[derive(Debug, Clone)]
pub enum Endpoint {
    /// A PostgreSQL server.
    Postgres(Box<ConnectOptions>),
    /// An application, asked by HTTP.
    Http(HttpServer),
}

impl From<ConnectOptions> for Endpoint {
    fn from(options: ConnectOptions) -> Endpoint {
        Endpoint::Postgres(Box::new(options))
    }
}

impl From<HttpServer> for Endpoint {
    fn from(server: HttpServer) -> Endpoint {
        Endpoint::Http(server)
    }
}

/// A server of HTTP/1.1 without TLS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpServer {
    host: String,
    port: u16,
    /// Longest time that an answer may take; what is later has failed, with its connection.
    pub timeout: Duration,
}

/// How long an answer may take where nothing is said of it.
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The port of a URL without one.
const DEFAULT_PORT: u16 = 80;

/// A URL that names no server of HTTP that can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HttpServerError {
    /// Another scheme, or none.
    #[error("'{0}' is no address of an application: write http://HOST:PORT")]
    Scheme(String),
    /// TLS.
    #[error(
        "'{0}': https is not spoken here; name the application behind its TLS with http://, which is what is measured"
    )]
    Tls(String),
    /// The host or the port is none.
    #[error("'{0}' has no host, or a port that is none: write http://HOST:PORT")]
    Authority(String),
    /// More than scheme, host and port.
    #[error("'{0}': paths stand in the requests; name scheme, host and port alone")]
    Path(String),
}

impl std::str::FromStr for HttpServer {
    type Err = HttpServerError;

    fn from_str(url: &str) -> Result<HttpServer, HttpServerError> {
        let given = || url.to_owned();
        if url.starts_with("https://") {
            return Err(HttpServerError::Tls(given()));
        }
        let rest = url.strip_prefix("http://").ok_or_else(|| HttpServerError::Scheme(given()))?;
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains(['/', '?', '#']) {
            return Err(HttpServerError::Path(given()));
        }
        // Colons of an IPv6 address stand in brackets.
        let (host, port) = match authority.rsplit_once(':').filter(|(_, port)| !port.contains(']'))
        {
            Some((host, port)) => (host, port.parse().ok().filter(|port| *port > 0)),
            None => (authority, Some(DEFAULT_PORT)),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let sound = |host: &str| {
            !host.is_empty() && host.bytes().all(|b| b.is_ascii_graphic() && b != b'@')
        };
        match port.filter(|_| sound(bare)) {
            Some(port) => Ok(HttpServer { host: bare.to_owned(), port, timeout: TIMEOUT }),
            None => Err(HttpServerError::Authority(given())),
        }
    }
}

impl std::fmt::Display for HttpServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "http://{}", self.authority())
    }
}

impl HttpServer {
    /// Host and port, as a request names them.
    pub(crate) fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// The port on which it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn connector(&self) -> Result<Connector, WireError> {
        let mut options = ConnectOptions::new(Host::Tcp(self.host.clone()), self.port, "", "");
        options.tls = TlsOptions { mode: SslMode::Disable, ..TlsOptions::default() };
        options.connect_timeout = Some(CONNECT_TIMEOUT);
        Connector::new(options)
    }
}

/// What opens connections.
#[derive(Clone)]
pub(crate) enum Dialer {
    Postgres(Connector),
    Http(Connector),
}

impl Dialer {
    pub(crate) fn new(endpoint: &Endpoint) -> Result<Dialer, WireError> {
        Ok(match endpoint {
            Endpoint::Postgres(options) => {
                Dialer::Postgres(Connector::new(ConnectOptions::clone(options))?)
            }
            Endpoint::Http(server) => Dialer::Http(server.connector()?),
        })
    }

    /// Opens one. Blocks.
    pub(crate) fn dial(&self) -> Result<Link, WireError> {
        let (stream, reading, key) = match self {
            Dialer::Postgres(connector) => {
                let connection = connector.connect()?;
                let key = connection.cancel_key();
                let (stream, scanner) = connection.into_nonblocking()?;
                (stream, Reading::Postgres(scanner), key)
            }
            Dialer::Http(connector) => {
                (connector.open_socket()?, Reading::Http(Box::default()), None)
            }
        };
        Ok(Link { stream, reading, key, unsent: Vec::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_scheme_host_and_port() {
        let authority = |url: &str| url.parse::<HttpServer>().map(|server| server.authority());
        assert_eq!(authority("http://127.0.0.1:8080").as_deref(), Ok("127.0.0.1:8080"));
        assert_eq!(authority("http://localhost/").as_deref(), Ok("localhost:80"));
        assert_eq!(authority("http://[::1]:81").as_deref(), Ok("[::1]:81"));
        assert_eq!(authority("http://[::1]").as_deref(), Ok("[::1]:80"));
        for (url, says) in [
            ("127.0.0.1:8080", "write http://"),
            ("https://host", "https is not spoken"),
            ("http://host/data", "paths stand in the requests"),
            ("http://:80", "no host"),
            ("http://host:0", "a port that is none"),
            ("http://host:99999", "a port that is none"),
            ("http://me:secret@host:80", "no host"),
        ] {
            let error = authority(url).expect_err(url).to_string();
            assert!(error.contains(says), "{url}: {error}");
        }
    }
}
