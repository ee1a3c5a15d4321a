//! TLS as libpq does it: when it is asked for, whom it trusts, and a stream that
//! works non-blocking.
//!
//! Differences from libpq: the host is looked for in the certificate's
//! subjectAltName only, not in its common name; encrypted keys and revocation
//! lists are not read; a file that is named and cannot be used is an error in
//! every mode but `disable`.

mod certificates;
mod end_point;
mod error;
mod stream;
mod verify;

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;

use self::certificates::certificates;
use self::verify::Verifier;
use crate::TlsOptions;

pub use end_point::{common_name, server_end_point};
pub use error::TlsError;
pub(crate) use stream::TlsStream;

/// What PostgreSQL is called in TLS (ALPN); libpq sends it however TLS begins.
const ALPN: &[u8] = b"postgresql";

impl TlsOptions {
    /// The same for those who begin TLS themselves, to be shared by all their connections. Reads
    /// certificate files.
    ///
    /// # Errors
    /// Where one cannot be read, or they do not fit.
    pub fn client_config(&self) -> Result<Arc<ClientConfig>, TlsError> {
        client_config(self)
    }
}

/// Makes what every TLS connection with these options shares. Reads certificate files.
pub(crate) fn client_config(options: &TlsOptions) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Verifier::new(options.mode, &options.roots, &provider)?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match &options.certificate {
        Some(certificate) => {
            let chain = certificates("client certificate", certificate)?;
            let key = options.key.as_ref().ok_or_else(|| TlsError::NoKey(certificate.clone()))?;
            let key = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| TlsError::unreadable("client key", key, &error))?;
            builder.with_client_auth_cert(chain, key)?
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Arc::new(config))
}
