//! How much of a server's certificate is checked: libpq's modes on rustls.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::TlsError;
use super::certificates::certificates;
use crate::{RootCert, SslMode};

/// Checks the server's certificate. The handshake's signature is always checked, so the
/// channel is at least one with the certificate's owner.
#[derive(Debug)]
pub(super) struct Verifier {
    /// `None` where any certificate will do.
    chain: Option<Chain>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// Whom a certificate must come from.
#[derive(Debug)]
struct Chain {
    verifier: Arc<WebPkiServerVerifier>,
    /// The trusted certificates themselves: OpenSSL, and so libpq, accepts a
    /// server that presents one of them, which webpki does not when it is a CA.
    trusted: Vec<CertificateDer<'static>>,
    /// Whether it must name the host as well.
    with_name: bool,
}

impl Verifier {
    pub(super) fn new(
        mode: SslMode,
        roots: &RootCert,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, TlsError> {
        let trusted = match (roots, mode) {
            (RootCert::None, SslMode::VerifyCa | SslMode::VerifyFull) => {
                return Err(TlsError::NoRoot);
            }
            (RootCert::None, _) => None,
            (RootCert::File(path), _) => Some(certificates("root certificate", path)?),
            (RootCert::System, _) => Some(system_roots()?),
        };
        let chain = match trusted {
            None => None,
            Some(trusted) => Some(Chain {
                verifier: web_pki(&trusted, roots, provider)?,
                trusted,
                with_name: mode == SslMode::VerifyFull,
            }),
        };
        Ok(Self { chain, algorithms: provider.signature_verification_algorithms })
    }
}

fn web_pki(
    trusted: &[CertificateDer<'static>],
    from: &RootCert,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(trusted.iter().cloned());
    if added == 0 {
        return Err(match from {
            RootCert::File(path) => {
                let said = "no certificate in it can be used";
                TlsError::unreadable("root certificate", path, &said)
            }
            RootCert::None | RootCert::System => TlsError::NoSystemRoots("none can be used".into()),
        });
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
        .build()
        .map_err(|error| TlsError::Setup(Error::General(error.to_string())))
}

fn system_roots() -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let loaded = rustls_native_certs::load_native_certs();
    if loaded.certs.is_empty() {
        let said = loaded.errors.first().map_or("there are none".to_owned(), ToString::to_string);
        return Err(TlsError::NoSystemRoots(said));
    }
    Ok(loaded.certs)
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
        use CertificateError as C;
        let Some(chain) = &self.chain else {
            return Ok(ServerCertVerified::assertion());
        };
        let verdict = chain.verifier.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verdict {
            // The name is looked at last: the chain has been found good.
            Err(Error::InvalidCertificate(
                C::NotValidForName | C::NotValidForNameContext { .. },
            )) if !chain.with_name => Ok(ServerCertVerified::assertion()),
            // The dates are looked at first: anything else is about the chain.
            Err(Error::InvalidCertificate(
                C::Expired
                | C::ExpiredContext { .. }
                | C::NotValidYet
                | C::NotValidYetContext { .. },
            )) => verdict,
            Err(Error::InvalidCertificate(_)) if chain.trusted.contains(end_entity) => {
                if chain.with_name {
                    let parsed = ParsedCertificate::try_from(end_entity)?;
                    rustls::client::verify_server_name(&parsed, server_name)?;
                }
                Ok(ServerCertVerified::assertion())
            }
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
