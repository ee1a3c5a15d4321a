//! TLS as libpq does it: when it is asked for, whom it trusts, and a stream that
//! works non-blocking.

mod end_point;
mod stream;
mod verify;

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use self::verify::{NoVerification, WithoutHostname};
use crate::{RootCertificates, TlsMode, TlsOptions, WireError};

pub(crate) use stream::TlsStream;

/// Makes what every TLS connection with these options shares; `None` when TLS
/// is disabled.
pub(crate) fn client_config(options: &TlsOptions) -> Result<Option<Arc<ClientConfig>>, WireError> {
    if let (Some(config), true) = (&options.config, options.mode != TlsMode::Disable) {
        return Ok(Some(config.clone()));
    }
    let provider = Arc::new(ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match (options.mode, &options.roots) {
        (TlsMode::Disable, _) => return Ok(None),
        (TlsMode::Prefer, _) | (TlsMode::Require, RootCertificates::System) => {
            Arc::new(NoVerification::new(&provider))
        }
        // As libpq: a root file turns `require` into `verify-ca`.
        (TlsMode::Require | TlsMode::VerifyCa, roots) => {
            Arc::new(WithoutHostname::new(web_pki(roots, &provider)?))
        }
        (TlsMode::VerifyFull, roots) => web_pki(roots, &provider)?,
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| WireError::Tls(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let config = match (&options.certificate, &options.key) {
        (Some(certificate), Some(key)) => builder
            .with_client_auth_cert(certificates(certificate)?, private_key(key)?)
            .map_err(|error| {
                WireError::Tls(format!(
                    "the client certificate {} and key {} are of no use: {error}",
                    certificate.display(),
                    key.display()
                ))
            })?,
        (None, None) => builder.with_no_client_auth(),
        _ => {
            return Err(WireError::Options(
                "a client certificate needs its key and a key its certificate; give both".into(),
            ));
        }
    };
    Ok(Some(Arc::new(config)))
}

fn web_pki(
    roots: &RootCertificates,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, WireError> {
    let mut store = RootCertStore::empty();
    let (found, origin) = match roots {
        RootCertificates::System => {
            (rustls_native_certs::load_native_certs().certs, "the system's store".to_owned())
        }
        RootCertificates::File(path) => (certificates(path)?, path.display().to_string()),
    };
    store.add_parsable_certificates(found);
    if store.is_empty() {
        return Err(WireError::Tls(format!("{origin} holds no root certificate that can be used")));
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider.clone())
        .build()
        .map_err(|error| WireError::Tls(format!("{origin}: {error}")))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, WireError> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable("certificate", path, &error))
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, WireError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| unreadable("private key", path, &error))
}

fn unreadable(what: &str, path: &Path, error: &rustls::pki_types::pem::Error) -> WireError {
    WireError::Tls(format!("cannot read the {what} file {}: {error}", path.display()))
}
