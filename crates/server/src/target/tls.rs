//! TLS as libpq does it, on rustls.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use super::params::{ConnectParams, Host, RootCert, SslMode};

/// TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
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
    #[error(
        "sslmode verify-ca and verify-full need a root certificate: give sslrootcert=FILE, or sslrootcert=system for those of the operating system, or put one at ~/.postgresql/root.crt"
    )]
    NoRoot,
    /// A client certificate without its key.
    #[error("the client certificate {} has no key: give sslkey=FILE", .0.display())]
    NoKey(PathBuf),
    /// The operating system's certificates cannot be read.
    #[error("the operating system's root certificates cannot be read: {0}; give sslrootcert=FILE")]
    NoSystemRoots(String),
    /// rustls refuses the configuration.
    #[error("TLS cannot be set up: {0}")]
    Rustls(#[from] Error),
}

/// The TLS configuration for these parameters; `None` where TLS is not used
/// (unix sockets, `sslmode=disable`).
///
/// Reads certificate files. Differences from libpq: the host is looked for in
/// the certificate's subjectAltName only, not in its common name; encrypted
/// keys are not read.
pub fn tls_client_config(params: &ConnectParams) -> Result<Option<Arc<ClientConfig>>, TlsError> {
    if matches!(params.host, Host::Unix(_)) || params.ssl_mode == SslMode::Disable {
        return Ok(None);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Verifier::new(params, &provider)?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let config = match &params.client_cert {
        Some(path) => {
            let chain = certificates("client certificate", path)?;
            let key_path =
                params.client_key.as_ref().ok_or_else(|| TlsError::NoKey(path.clone()))?;
            let key = PrivateKeyDer::from_pem_file(key_path)
                .map_err(|error| unreadable("client key", key_path, &error))?;
            builder.with_client_auth_cert(chain, key)?
        }
        None => builder.with_no_client_auth(),
    };
    Ok(Some(Arc::new(config)))
}

/// How much of the server's certificate is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    Nothing,
    Chain,
    ChainAndName,
}

#[derive(Debug)]
struct Verifier {
    check: Check,
    chain: Option<Arc<WebPkiServerVerifier>>,
    /// The trusted certificates themselves: OpenSSL, and so libpq, accepts a
    /// server that presents one of them, which webpki does not when it is a CA.
    trusted: Vec<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    fn new(
        params: &ConnectParams,
        provider: &Arc<rustls::crypto::CryptoProvider>,
    ) -> Result<Self, TlsError> {
        let check = match (params.ssl_mode, &params.root_cert) {
            (SslMode::VerifyFull, _) => Check::ChainAndName,
            // libpq: with a root certificate, require means verify-ca.
            (SslMode::VerifyCa, _) | (SslMode::Require, RootCert::File(_) | RootCert::System) => {
                Check::Chain
            }
            _ => Check::Nothing,
        };
        let algorithms = provider.signature_verification_algorithms;
        if check == Check::Nothing {
            return Ok(Self { check, chain: None, trusted: Vec::new(), algorithms });
        }
        let trusted = match &params.root_cert {
            RootCert::None => return Err(TlsError::NoRoot),
            RootCert::File(path) => certificates("root certificate", path)?,
            RootCert::System => system_roots()?,
        };
        let mut roots = RootCertStore::empty();
        let (added, _) = roots.add_parsable_certificates(trusted.iter().cloned());
        if added == 0 {
            return Err(match &params.root_cert {
                RootCert::File(path) => {
                    unreadable("root certificate", path, &"no certificate in it can be used")
                }
                _ => TlsError::NoSystemRoots("none can be used".to_owned()),
            });
        }
        let chain =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
                .build()
                .map_err(|error| Error::General(error.to_string()))?;
        Ok(Self { check, chain: Some(chain), trusted, algorithms })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chain) = &self.chain else {
            return Ok(ServerCertVerified::assertion());
        };
        if self.trusted.iter().any(|trusted| trusted == end_entity) {
            if self.check == Check::ChainAndName {
                let parsed = ParsedCertificate::try_from(end_entity)?;
                rustls::client::verify_server_name(&parsed, server_name)?;
            }
            return Ok(ServerCertVerified::assertion());
        }
        match chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The name is looked at last: the chain has been found good.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.check == Check::Chain => Ok(ServerCertVerified::assertion()),
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable(what, path, &error));
    match found {
        Ok(found) if found.is_empty() => Err(unreadable(what, path, &"it holds no certificate")),
        found => found,
    }
}

fn system_roots() -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let loaded = rustls_native_certs::load_native_certs();
    if loaded.certs.is_empty() {
        let said = loaded.errors.first().map_or("there are none".to_owned(), ToString::to_string);
        return Err(TlsError::NoSystemRoots(said));
    }
    Ok(loaded.certs)
}

fn unreadable(what: &'static str, path: &Path, said: &dyn std::fmt::Display) -> TlsError {
    TlsError::File { what, path: path.to_owned(), said: said.to_string() }
}
