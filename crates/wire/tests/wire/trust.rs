//! Whom TLS trusts, against real servers with certificates of all kinds.

use walwright_wire::{ConnectOptions, Host, RootCert, SslMode, TlsError, WireError};

use crate::common::{
    Authority, Identity, Testbed, connect, connected, encrypted, failure, self_signed,
};

fn named(testbed: &Testbed, host: &str, mode: SslMode, roots: &RootCert) -> ConnectOptions {
    let mut options = testbed.tcp("postgres", mode);
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
    let testbed = Testbed::with(&own, &clients);
    let itself = testbed.file("own.crt", &own.certificate);
    let other = testbed.file("other.crt", &self_signed(2999).certificate);
    for mode in [SslMode::Require, SslMode::VerifyCa, SslMode::VerifyFull] {
        assert!(
            encrypted(&mut connected(&named(&testbed, "localhost", mode, &itself))),
            "{mode:?}"
        );
        let hint = hint(&named(&testbed, "localhost", mode, &other));
        assert!(hint.contains("not a trusted root"), "{hint}");
    }
    assert!(connect(&named(&testbed, "elsewhere", SslMode::VerifyCa, &itself)).is_ok());
    let full = named(&testbed, "elsewhere", SslMode::VerifyFull, &itself);
    assert!(hint(&full).contains("another host"));
    assert!(connect(&named(&testbed, "localhost", SslMode::Require, &RootCert::None)).is_ok());
    // As libpq: what cannot be trusted is not used for TLS, and "prefer" goes without.
    let prefer = named(&testbed, "localhost", SslMode::Prefer, &other);
    assert!(!encrypted(&mut connected(&prefer)));
}

#[test]
fn a_server_with_an_expired_certificate_is_refused_though_it_is_the_one_that_is_trusted() {
    let (own, clients) = (self_signed(2001), Authority::new("clients"));
    let testbed = Testbed::with(&own, &clients);
    let itself = testbed.file("own.crt", &own.certificate);
    for mode in [SslMode::VerifyCa, SslMode::VerifyFull] {
        assert!(hint(&named(&testbed, "localhost", mode, &itself)).contains("expired"));
    }
    assert!(connect(&named(&testbed, "localhost", SslMode::Require, &RootCert::None)).is_ok());
}

#[test]
fn a_server_with_a_signed_certificate_is_trusted_by_its_root_and_name() {
    let ours = Authority::new("ours");
    let testbed = Testbed::with(&ours.sign("localhost", "server"), &ours);
    let root = testbed.file("ours.crt", &ours.pem());
    let namesake = testbed.file("namesake.crt", &Authority::new("ours").pem());
    for mode in [SslMode::Require, SslMode::VerifyCa, SslMode::VerifyFull] {
        assert!(encrypted(&mut connected(&named(&testbed, "localhost", mode, &root))), "{mode:?}");
        assert!(hint(&named(&testbed, "localhost", mode, &namesake)).contains("trusted root"));
    }
    assert!(connect(&named(&testbed, "elsewhere", SslMode::VerifyCa, &root)).is_ok());
    assert!(
        hint(&named(&testbed, "elsewhere", SslMode::VerifyFull, &root)).contains("another host")
    );
    let empty = testbed.file("empty.crt", "nothing here\n");
    let error = failure(&named(&testbed, "localhost", SslMode::Prefer, &empty)).to_string();
    assert!(error.contains("empty.crt: it holds no certificate"), "{error}");
}

#[test]
fn a_client_proves_itself_by_its_certificate() {
    let ours = Authority::new("ours");
    let testbed = Testbed::with(&ours.sign("localhost", "server"), &ours);
    connected(&testbed.unix()).query("CREATE ROLE certified_user LOGIN").expect("a role");
    let Identity { certificate, key } = ours.sign("client", "certified_user");
    testbed.file("client.crt", &certificate);
    testbed.file("client.key", &key);
    let mut options = testbed.tcp("certified_user", SslMode::Require);
    assert_eq!(failure(&options).server_error().expect("said").code, "28000");
    options.tls.certificate = Some(testbed.path("client.crt"));
    let error = failure(&options);
    assert!(matches!(error, WireError::Tls(TlsError::NoKey(_))), "{error:?}");
    options.tls.key = Some(testbed.path("client.key"));
    assert!(encrypted(&mut connected(&options)));
    // The server asked for nothing more than the certificate.
    options.require_auth = "none".parse().expect("a method");
    assert!(encrypted(&mut connected(&options)));
    options.tls.key = Some(testbed.path("client.crt"));
    assert!(failure(&options).to_string().contains("could not read the client key"));
}
