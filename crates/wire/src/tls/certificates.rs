//! Certificates from files.

use std::path::Path;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::TlsError;

/// The certificates in a PEM file, at least one.
pub(super) fn certificates(
    what: &'static str,
    path: &Path,
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Vec<_> = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| TlsError::unreadable(what, path, &error))?;
    if found.is_empty() {
        return Err(TlsError::unreadable(what, path, &"it holds no certificate"));
    }
    Ok(found)
}
