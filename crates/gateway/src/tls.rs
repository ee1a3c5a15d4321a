//! TLS towards clients.

use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mio::net::TcpStream;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection};
use thiserror::Error;
use walwright_wire::server_end_point;

/// The application protocol of PostgreSQL, which a client names that begins with TLS at once.
const ALPN: &[u8] = b"postgresql";

/// A certificate with its key, and whether clients on TCP must use TLS.
#[derive(Debug, Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
    end_point: Option<Vec<u8>>,
    required: bool,
}

/// Why TLS cannot be offered.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file cannot be read, or is no PEM.
    #[error("{}: {why}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Certificate and key do not fit.
    #[error("certificate and key cannot be used: {0}")]
    Unfit(#[from] rustls::Error),
}

impl Tls {
    /// Reads a chain of certificates and its key, both PEM.
    ///
    /// # Errors
    /// When one cannot be read or they do not fit.
    pub fn from_files(certificate: &Path, key: &Path, required: bool) -> Result<Tls, TlsError> {
        let wrong = |path: &Path, why: String| TlsError::File { path: path.to_owned(), why };
        let chain: Vec<CertificateDer> = CertificateDer::pem_file_iter(certificate)
            .and_then(Iterator::collect)
            .map_err(|error| wrong(certificate, error.to_string()))?;
        let Some(own) = chain.first() else {
            return Err(wrong(certificate, "it has no certificate".to_owned()));
        };
        let end_point = server_end_point(own);
        let secret =
            PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, error.to_string()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, secret)?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Tls { config: Arc::new(config), end_point, required })
    }

    /// Whether clients on TCP must use it.
    pub fn is_required(&self) -> bool {
        self.required
    }

    /// What clients bind SCRAM to, where the certificate gives it.
    pub fn end_point(&self) -> Option<&Vec<u8>> {
        self.end_point.as_ref()
    }
}

/// A client's socket with TLS on it; it does not block.
#[derive(Debug)]
pub struct TlsStream {
    /// The socket.
    pub socket: TcpStream,
    session: ServerConnection,
}

impl TlsStream {
    /// Begins; `early` is what was read of the client's first record.
    ///
    /// # Errors
    /// When it is no TLS.
    pub fn accept(socket: TcpStream, tls: &Tls, mut early: &[u8]) -> io::Result<TlsStream> {
        let session = ServerConnection::new(tls.config.clone()).map_err(io::Error::other)?;
        let mut stream = TlsStream { socket, session };
        while !early.is_empty() {
            stream.session.read_tls(&mut early)?;
            stream.process()?;
        }
        Ok(stream)
    }

    /// Whether the client named PostgreSQL's protocol.
    pub fn has_alpn(&self) -> bool {
        self.session.alpn_protocol() == Some(ALPN)
    }

    /// Version and cipher.
    pub fn version(&self) -> String {
        let version = self.session.protocol_version().and_then(|version| version.as_str());
        let suite = self.session.negotiated_cipher_suite();
        let suite = suite.and_then(|suite| suite.suite().as_str());
        version.into_iter().chain(suite).collect::<Vec<_>>().join("/")
    }

    /// Whether something waits for the socket to take it.
    pub fn wants_write(&self) -> bool {
        self.session.wants_write()
    }

    fn process(&mut self) -> io::Result<()> {
        let processed = self.session.process_new_packets();
        // Answers of the handshake, and the alert that says what is wrong.
        let pushed = self.push();
        processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        match pushed {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    fn push(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}

impl Read for TlsStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.session.reader().read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                done => return done,
            }
            if self.session.read_tls(&mut self.socket)? == 0 {
                return Ok(0);
            }
            self.process()?;
        }
    }
}

impl Write for TlsStream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.push()?;
        match self.session.writer().write(from)? {
            0 if !from.is_empty() => Err(ErrorKind::WouldBlock.into()),
            taken => {
                match self.push() {
                    Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
                    _ => {}
                }
                Ok(taken)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.push()
    }
}
