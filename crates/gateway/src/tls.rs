//! TLS towards clients.

use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mio::net::TcpStream;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use thiserror::Error;
use walwright_wire::{common_name, server_end_point};

use crate::rules::ClientCertificate;

/// The application protocol of PostgreSQL, which a client names that begins with TLS at once.
const ALPN: &[u8] = b"postgresql";

/// A certificate with its key, and whether clients on TCP must use TLS.
#[derive(Debug, Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
    end_point: Option<Vec<u8>>,
    required: bool,
    client: ClientCertificate,
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
    /// No authority in a file can be used.
    #[error("clients' certificates cannot be checked: {0}")]
    Authorities(#[from] rustls::server::VerifierBuilderError),
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
        Tls::new((certificate, key), required, None, ClientCertificate::Unneeded)
    }

    /// The same, with a file of authorities whose certificates clients may show, and whether all
    /// clients on TCP must show one.
    ///
    /// # Errors
    /// When a file cannot be read or they do not fit.
    pub fn with_client_authorities(
        (certificate, key): (&Path, &Path),
        required: bool,
        authorities: &Path,
        client: ClientCertificate,
    ) -> Result<Tls, TlsError> {
        let required = required || client != ClientCertificate::Unneeded;
        Tls::new((certificate, key), required, Some(authorities), client)
    }

    fn new(
        (certificate, key): (&Path, &Path),
        required: bool,
        authorities: Option<&Path>,
        client: ClientCertificate,
    ) -> Result<Tls, TlsError> {
        let wrong = |path: &Path, why: String| TlsError::File { path: path.to_owned(), why };
        let chain = certificates(certificate)?;
        let end_point = chain.first().and_then(|own| server_end_point(own));
        let secret =
            PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, error.to_string()))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()?;
        let config = match authorities {
            None => config.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for root in certificates(path)? {
                    roots.add(root).map_err(|error| wrong(path, error.to_string()))?;
                }
                // Who must show one is decided when it is known who comes.
                config.with_client_cert_verifier(
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                        .allow_unauthenticated()
                        .build()?,
                )
            }
        };
        let mut config = config.with_single_cert(chain, secret)?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Tls { config: Arc::new(config), end_point, required, client })
    }

    /// What the certificates of clients on TCP must be.
    pub fn client_certificate(&self) -> ClientCertificate {
        self.client
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

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let wrong = |why: String| TlsError::File { path: path.to_owned(), why };
    let all: Vec<CertificateDer> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| wrong(error.to_string()))?;
    if all.is_empty() {
        return Err(wrong("it has no certificate".to_owned()));
    }
    Ok(all)
}

/// A client's socket with TLS on it; it does not block.
#[derive(Debug)]
pub struct TlsStream {
    /// The socket.
    pub socket: TcpStream,
    session: ServerConnection,
    /// Whether the client began with TLS at once.
    direct: bool,
}

impl TlsStream {
    /// Begins; `early` is what was read of the client's first record.
    ///
    /// # Errors
    /// When it is no TLS.
    pub fn accept(
        socket: TcpStream,
        tls: &Tls,
        mut early: &[u8],
        direct: bool,
    ) -> io::Result<TlsStream> {
        let session = ServerConnection::new(tls.config.clone()).map_err(io::Error::other)?;
        let mut stream = TlsStream { socket, session, direct };
        while !early.is_empty() {
            stream.session.read_tls(&mut early)?;
            stream.process()?;
        }
        Ok(stream)
    }

    /// Whether the client began with TLS at once and did not name PostgreSQL's protocol: it may
    /// have been led here from another one. To be asked once the handshake is over.
    pub fn lacks_alpn(&self) -> bool {
        self.direct && self.session.alpn_protocol() != Some(ALPN)
    }

    /// Whether the client has shown a certificate, which then is of a trusted authority.
    pub fn has_certificate(&self) -> bool {
        self.session.peer_certificates().is_some()
    }

    /// The common name in the client's certificate.
    pub fn certificate_name(&self) -> Option<String> {
        common_name(self.session.peer_certificates()?.first()?)
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
