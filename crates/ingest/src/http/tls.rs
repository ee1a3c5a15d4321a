//! TLS towards those who send rows.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::error::IngestError;

/// PEM files.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificate, and those that lead to its authority.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Authorities, one of which must have signed each client's certificate.
    pub client_authorities: Option<PathBuf>,
}

/// Reads the files.
///
/// # Errors
/// Where one cannot be read, or they do not fit.
pub fn server_config(files: &TlsFiles) -> Result<Arc<ServerConfig>, IngestError> {
    let wrong = |path: &PathBuf, why: String| IngestError::Certificate { path: path.clone(), why };
    let read = |path: &PathBuf| {
        let all = CertificateDer::pem_file_iter(path)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| wrong(path, error.to_string()))?;
        if all.is_empty() {
            return Err(wrong(path, "it has no certificate".to_owned()));
        }
        Ok(all)
    };
    let TlsFiles { certificate, key, client_authorities } = files;
    let unfit = |error: rustls::Error| wrong(certificate, error.to_string());
    let chain = read(certificate)?;
    let secret =
        PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(unfit)?;
    let config = match client_authorities {
        None => config.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for root in read(path)? {
                roots.add(root).map_err(|error| wrong(path, error.to_string()))?;
            }
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            config.with_client_cert_verifier(
                verifier.map_err(|error| wrong(path, error.to_string()))?,
            )
        }
    };
    let mut config = config.with_single_cert(chain, secret).map_err(unfit)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
