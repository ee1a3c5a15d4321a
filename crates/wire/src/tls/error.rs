//! Why there is no TLS.

use std::io;
use std::path::{Path, PathBuf};

use rustls::{CertificateError, Error, InvalidMessage};
use thiserror::Error as ThisError;

/// TLS cannot be set up or agreed on.
#[derive(Debug, ThisError)]
pub enum TlsError {
    /// A certificate or key file cannot be read.
    #[error("could not read the {what} {}: {said}", path.display())]
    File {
        /// What the file should hold.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        said: String,
    },
    /// The mode asks for verification and nothing is trusted.
    #[error("sslmode verify-ca and verify-full need a root certificate")]
    NoRoot,
    /// A client certificate without its key.
    #[error("the client certificate {} has no key", .0.display())]
    NoKey(PathBuf),
    /// The operating system's certificates cannot be read.
    #[error("the operating system's root certificates cannot be read: {0}")]
    NoSystemRoots(String),
    /// rustls refuses the configuration.
    #[error("TLS cannot be set up: {0}")]
    Setup(#[from] Error),
    /// The host cannot be the name of a certificate.
    #[error("{0:?} is neither a host name nor an address")]
    Name(String),
    /// The server does not do TLS.
    #[error("the server does not support TLS, but TLS was required")]
    NotOffered,
    /// The server answered the request for TLS with an error. Its text is not shown: it
    /// came over a channel that TLS was to make trustworthy.
    #[error("the server sent an error response when TLS was asked for")]
    ErrorAnswer,
    /// The two could not agree, or one found the other's certificate wanting.
    #[error("the TLS handshake with {host} failed: {said}")]
    Handshake {
        /// The name that was connected to.
        host: String,
        /// Why.
        said: Error,
    },
    /// The connection broke in the handshake.
    #[error("the connection to {host} broke in the TLS handshake: {said}")]
    Broken {
        /// The name that was connected to.
        host: String,
        /// What the system said.
        said: io::Error,
    },
    /// `sslnegotiation=direct`, and the server did not say that PostgreSQL is what it
    /// speaks inside TLS.
    #[error("direct TLS was established without the protocol \"postgresql\" (ALPN)")]
    NoAlpn,
}

impl TlsError {
    /// What the person can do.
    pub fn hint(&self) -> &'static str {
        match self {
            TlsError::NoRoot => {
                "give sslrootcert=FILE, or sslrootcert=system for those of the operating system, or put one at ~/.postgresql/root.crt"
            }
            TlsError::NoKey(_) => "give sslkey=FILE",
            TlsError::NoSystemRoots(_) => "give sslrootcert=FILE",
            TlsError::NotOffered => "turn on ssl on the server, or use sslmode=prefer or disable",
            TlsError::ErrorAnswer => "see the server's log",
            TlsError::Broken { .. } | TlsError::NoAlpn => {
                "see the server's log; sslnegotiation=direct needs PostgreSQL 17 or later"
            }
            TlsError::Handshake { said, .. } => hint(said),
            TlsError::File { .. } | TlsError::Setup(_) | TlsError::Name(_) => GENERAL,
        }
    }

    pub(super) fn unreadable(
        what: &'static str,
        path: &Path,
        said: &dyn std::fmt::Display,
    ) -> TlsError {
        TlsError::File { what, path: path.to_owned(), said: said.to_string() }
    }
}

const GENERAL: &str =
    "check sslmode, sslrootcert, sslcert and sslkey, and the server's ssl settings";

fn hint(error: &Error) -> &'static str {
    use CertificateError as C;
    match error {
        // A bad signature is what a root of the same name with another key gives.
        Error::InvalidCertificate(C::UnknownIssuer | C::BadSignature) => {
            "the server's certificate is not signed by a trusted root: name the right one in sslrootcert"
        }
        Error::InvalidCertificate(C::NotValidForName | C::NotValidForNameContext { .. }) => {
            "the certificate is for another host: connect by the name in its subjectAltName, or use sslmode=verify-ca"
        }
        Error::InvalidCertificate(C::Expired | C::ExpiredContext { .. }) => {
            "the server's certificate has expired: renew it"
        }
        Error::InvalidCertificate(C::Other(other))
            if other.to_string().contains("CaUsedAsEndEntity") =>
        {
            "the server's certificate signed itself and is not a trusted root: name it in sslrootcert"
        }
        Error::InvalidCertificate(C::Other(other))
            if other.to_string().contains("UnsupportedCertVersion") =>
        {
            "the server's certificate is of X.509 version 1: make it anew with a subjectAltName"
        }
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "what answered does not speak TLS: check host and port"
        }
        _ => GENERAL,
    }
}
