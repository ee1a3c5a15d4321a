//! Whom TLS trusts, against real servers with certificates of all kinds.

use crate::common::{
    Authority, Bed, Identity, connect, connected, encrypted, failure, self_signed,
};
use walwright_wire::{ConnectOptions, Host, RootCert, SslMode, TlsError, WireError};

fn named(bed: &Bed, host: &str, mode: SslMode, roots: &RootCert) -> ConnectOptions {
    let mut options = bed.tcp("postgres", mode);
    options.host = Host::Tcp(host.into());
    options.tls.roots = roots.clone();
    options
}

/// The hint of a handshake that failed.
fn hint(options: &ConnectOptions) -> &'static str {
    match failure(options) {
        WireError::Tls(error @ TlsError::Handshake { .. }) => error.hint(),
        error => panic!("{error:?}"),
    }
}

#[test]
fn a_server_that_signed_its_own_certificate_is_trusted_where_that_certificate_is() {
    let (own, clients) = (self_signed(2999), Authority::new("clients"));
    let bed = Bed::with(&own, &clients);
    let itself = bed.file("own.crt", &own.certificate);
    let other = bed.file("other.crt", &self_signed(2999).certificate);
    for mode in [SslMode::Require, SslMode::VerifyCa, SslMode::VerifyFull] {
        assert!(encrypted(&mut connected(&named(&bed, "localhost", mode, &itself))), "{mode:?}");
        let hint = hint(&named(&bed, "localhost", mode, &other));
        assert!(hint.contains("not a trusted root"), "{hint}");
    }
    assert!(connect(&named(&bed, "elsewhere", SslMode::VerifyCa, &itself)).is_ok());
    let full = named(&bed, "elsewhere", SslMode::VerifyFull, &itself);
    assert!(hint(&full).contains("another host"));
    assert!(connect(&named(&bed, "localhost", SslMode::Require, &RootCert::None)).is_ok());
    // As libpq: what cannot be trusted is not used for TLS, and "prefer" goes without.
    let prefer = named(&bed, "localhost", SslMode::Prefer, &other);
    assert!(!encrypted(&mut connected(&prefer)));
}

#[test]
fn a_server_with_an_expired_certificate_is_refused_though_it_is_the_one_that_is_trusted() {
    let (own, clients) = (self_signed(2001), Authority::new("clients"));
    let bed = Bed::with(&own, &clients);
    let itself = bed.file("own.crt", &own.certificate);
    for mode in [SslMode::VerifyCa, SslMode::VerifyFull] {
        assert!(hint(&named(&bed, "localhost", mode, &itself)).contains("expired"));
    }
    assert!(connect(&named(&bed, "localhost", SslMode::Require, &RootCert::None)).is_ok());
}

#[test]
fn a_server_with_a_signed_certificate_is_trusted_by_its_root_and_name() {
    let ours = Authority::new("ours");
    let bed = Bed::with(&ours.sign("localhost", "server"), &ours);
    let root = bed.file("ours.crt", &ours.pem());
    let namesake = bed.file("namesake.crt", &Authority::new("ours").pem());
    for mode in [SslMode::Require, SslMode::VerifyCa, SslMode::VerifyFull] {
        assert!(encrypted(&mut connected(&named(&bed, "localhost", mode, &root))), "{mode:?}");
        assert!(hint(&named(&bed, "localhost", mode, &namesake)).contains("trusted root"));
    }
    assert!(connect(&named(&bed, "elsewhere", SslMode::VerifyCa, &root)).is_ok());
    assert!(hint(&named(&bed, "elsewhere", SslMode::VerifyFull, &root)).contains("another host"));
    let empty = bed.file("empty.crt", "nothing here\n");
    let error = failure(&named(&bed, "localhost", SslMode::Prefer, &empty)).to_string();
    assert!(error.contains("empty.crt: it holds no certificate"), "{error}");
}

#[test]
fn a_client_proves_itself_by_its_certificate() {
    let ours = Authority::new("ours");
    let bed = Bed::with(&ours.sign("localhost", "server"), &ours);
    connected(&bed.unix()).query("CREATE ROLE certified_user LOGIN").expect("a role");
    let Identity { certificate, key } = ours.sign("client", "certified_user");
    bed.file("client.crt", &certificate);
    bed.file("client.key", &key);
    let mut options = bed.tcp("certified_user", SslMode::Require);
    assert_eq!(failure(&options).server_error().expect("said").code, "28000");
    options.tls.certificate = Some(bed.path("client.crt"));
    let error = failure(&options);
    assert!(matches!(error, WireError::Tls(TlsError::NoKey(_))), "{error:?}");
    options.tls.key = Some(bed.path("client.key"));
    assert!(encrypted(&mut connected(&options)));
    // The server asked for nothing more than the certificate.
    options.require_auth = "none".parse().expect("a method");
    assert!(encrypted(&mut connected(&options)));
    options.tls.key = Some(bed.path("client.crt"));
    assert!(failure(&options).to_string().contains("could not read the client key"));
}
