//! Getting in: passwords, TLS, and the sentences for when it does not work.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use walwright_server::{
    Cluster, ClusterSpec, ConnectFailure, ConnectParams, Major, RunningCluster, Secret, TcpAccess,
    connect,
};

use crate::common::{install, open_dir, places, runtime};

const PASSWORD: &str = "it's a: s%cret\\";

/// A cluster that listens on TCP and has had a look at its configuration by
/// `prepare` before the start.
fn listening(
    base: &Path,
    settings: &[(&str, &str)],
    prepare: impl FnOnce(&Cluster),
) -> RunningCluster {
    let mut spec = ClusterSpec::new(&places(base), install(Major::V18));
    spec.tcp = Some(TcpAccess { port: None, password: Secret::new(PASSWORD) });
    spec.settings =
        settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let cluster = Cluster::create(spec).expect("made");
    prepare(&cluster);
    cluster.start().expect("started")
}

fn give_to_server(cluster: &Cluster, name: &str, text: &str) {
    let path = cluster.data_dir().join(name);
    fs::write(&path, text).expect("write");
    fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("chmod");
    cluster.user().own(&path).expect("chown");
}

async fn failure(params: &ConnectParams) -> (ConnectFailure, String) {
    let error = connect(params).await.expect_err("no way in");
    let text = error.to_string();
    assert!(!text.contains(PASSWORD) && !text.contains('\n'), "{text}");
    (error.failure(), text)
}

fn dsn(text: &str) -> ConnectParams {
    // What the tests' own environment says about TLS or passwords must not matter.
    ConnectParams::resolve(Some(text)).expect("valid")
}

#[test]
fn passwords_are_asked_for_and_checked() {
    let base = open_dir();
    let server = listening(base.path(), &[("max_connections", "10")], |_| {});
    let port = server.port();
    let pgpass = base.path().join("pgpass");
    fs::write(
        &pgpass,
        format!("localhost:*:*:*:wrong\n127.0.0.1:{port}:postgres:postgres:it's a\\: s%cret\\\\\n"),
    )
    .expect("write");
    fs::set_permissions(&pgpass, PermissionsExt::from_mode(0o600)).expect("chmod");
    let by_file = format!(
        "host=127.0.0.1 port={port} user=postgres dbname=postgres passfile={}",
        pgpass.display()
    );

    runtime().block_on(async {
        let good = server.tcp_connect_params("postgres").expect("TCP was asked for");
        connect(&good).await.expect("the password is right");
        connect(&dsn(&by_file)).await.expect("the password file has it");

        let wrong = good.clone().with_password(Secret::new("wrong"));
        let (kind, text) = failure(&wrong).await;
        assert_eq!(kind, ConnectFailure::WrongPassword);
        assert!(
            text.contains("as \"postgres\" at 127.0.0.1") && text.contains("PGPASSWORD"),
            "{text}"
        );

        fs::remove_file(&pgpass).expect("remove");
        let (kind, _) = failure(&dsn(&by_file)).await;
        assert_eq!(kind, ConnectFailure::PasswordMissing);

        let (kind, text) = failure(&good.clone().with_dbname("nowhere")).await;
        assert_eq!(kind, ConnectFailure::NoSuchDatabase);
        assert!(text.contains("3D000"), "{text}");

        let local = server.connect_params("postgres");
        let (kind, _) = failure(&local.clone().with_user("stranger")).await;
        assert_eq!(kind, ConnectFailure::NotAuthorized);

        let plain = dsn(&format!("{by_file} sslmode=require password=x"));
        let (kind, text) = failure(&plain).await;
        assert_eq!(kind, ConnectFailure::Tls);
        assert!(text.contains("turn on ssl on the server"), "{text}");

        let mut held = Vec::new();
        let kind = loop {
            match connect(&local).await {
                Ok(client) => held.push(client),
                Err(error) => break error.failure(),
            }
            assert!(held.len() < 20);
        };
        assert_eq!(kind, ConnectFailure::TooManyConnections);
    });

    let params = server.tcp_connect_params("postgres").expect("TCP");
    let socket = server.connect_params("postgres");
    server.stop().expect("stopped");
    runtime().block_on(async {
        assert_eq!(failure(&params).await.0, ConnectFailure::Refused);
        assert_eq!(failure(&socket).await.0, ConnectFailure::NoSocket);
        let nowhere = ConnectParams::tcp("no-such-host.invalid", 5432, "u", "d");
        let (kind, text) = failure(&nowhere).await;
        assert_eq!(kind, ConnectFailure::UnknownHost, "{text}");
    });
}

/// A certificate authority, and a way to have it sign.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("params");
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("key");
        Self(CertifiedIssuer::self_signed(params, key).expect("signed"))
    }

    /// Certificate and key in PEM, for alternative names and a common name.
    fn sign(&self, names: &[&str], common_name: &str) -> (String, String) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("params");
        params.distinguished_name.push(rcgen::DnType::CommonName, common_name);
        let key = KeyPair::generate().expect("key");
        let cert = params.signed_by(&key, &self.0).expect("signed");
        (cert.pem(), key.serialize_pem())
    }
}

/// What the server says about the connection's encryption.
async fn encrypted(params: &ConnectParams) -> bool {
    let client = connect(params).await.unwrap_or_else(|error| panic!("{error}"));
    client
        .query_one("select ssl from pg_stat_ssl where pid = pg_backend_pid()", &[])
        .await
        .expect("row")
        .get(0)
        .unwrap()
}

#[test]
fn tls_is_used_and_checked_as_libpq_does() {
    let base = open_dir();
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let namesake = Authority::new("ours");
    let (cert, key) = ours.sign(&["127.0.0.1"], "server");
    let (client_cert, client_key) = ours.sign(&[], "postgres");
    let settings = [
        ("ssl", "on"),
        ("ssl_cert_file", "server.crt"),
        ("ssl_key_file", "server.key"),
        ("ssl_ca_file", "ca.crt"),
    ];
    let server = listening(base.path(), &settings, |cluster| {
        give_to_server(cluster, "server.crt", &cert);
        give_to_server(cluster, "server.key", &key);
        give_to_server(cluster, "ca.crt", &ours.0.pem());
        give_to_server(
            cluster,
            "pg_hba.conf",
            "local all all trust\n\
             hostssl certified all all cert\n\
             host all all all scram-sha-256\n",
        );
    });
    for (name, text) in [
        ("ours.crt", &ours.0.pem()),
        ("other.crt", &other.0.pem()),
        ("namesake.crt", &namesake.0.pem()),
        ("server.crt", &cert),
        ("client.crt", &client_cert),
        ("client.key", &client_key),
    ] {
        fs::write(base.path().join(name), text).expect("write");
    }
    let file = |name: &str| base.path().join(name).display().to_string();
    let password = PASSWORD.replace('\\', "\\\\").replace('\'', "\\'");
    let to = |host: &str, rest: &str| {
        dsn(&format!(
            "host={host} hostaddr=127.0.0.1 port={} user=postgres dbname=postgres password='{password}' {rest}",
            server.port()
        ))
    };
    let (ours, other, itself) = (file("ours.crt"), file("other.crt"), file("server.crt"));
    let namesake = file("namesake.crt");

    runtime().block_on(async {
        for (host, rest, expected) in [
            ("127.0.0.1", "sslmode=disable".to_owned(), false),
            ("127.0.0.1", "sslmode=allow".to_owned(), false),
            ("127.0.0.1", "sslmode=prefer".to_owned(), true),
            ("127.0.0.1", "sslmode=require channel_binding=require".to_owned(), true),
            ("127.0.0.1", format!("sslmode=verify-full sslrootcert={ours}"), true),
            ("elsewhere", format!("sslmode=verify-ca sslrootcert={ours}"), true),
            ("elsewhere", format!("sslmode=require sslrootcert={ours}"), true),
            ("127.0.0.1", format!("sslmode=verify-full sslrootcert={itself}"), true),
        ] {
            assert_eq!(encrypted(&to(host, &rest)).await, expected, "{rest}");
        }
        for (host, rest, words) in [
            ("elsewhere", format!("sslmode=verify-full sslrootcert={ours}"), "another host"),
            ("elsewhere", format!("sslmode=verify-full sslrootcert={itself}"), "another host"),
            ("127.0.0.1", format!("sslmode=verify-ca sslrootcert={other}"), "trusted root"),
            ("127.0.0.1", format!("sslmode=verify-ca sslrootcert={namesake}"), "trusted root"),
            // libpq: with a root certificate, require checks it.
            ("127.0.0.1", format!("sslmode=require sslrootcert={other}"), "trusted root"),
            (
                "127.0.0.1",
                "sslmode=verify-full sslrootcert=/nonexistent".to_owned(),
                "/nonexistent",
            ),
        ] {
            let (kind, text) = failure(&to(host, &rest)).await;
            assert_eq!(kind, ConnectFailure::Tls, "{text}");
            assert!(text.contains(words), "{text}");
        }

        // The certificate instead of a password, in a database where it counts.
        let local = connect(&server.connect_params("postgres")).await.expect("connected");
        local.batch_execute("create database certified").await.expect("created");
        let certified = |rest: &str| {
            dsn(&format!(
                "host=127.0.0.1 port={} user=postgres dbname=certified sslmode=require {rest}",
                server.port()
            ))
        };
        let (kind, _) = failure(&certified("")).await;
        assert_eq!(kind, ConnectFailure::NotAuthorized);
        let (cert, key) = (file("client.crt"), file("client.key"));
        assert!(encrypted(&certified(&format!("sslcert={cert} sslkey={key}"))).await);
        let unbound = to("127.0.0.1", "sslmode=disable channel_binding=require");
        assert!(connect(&unbound).await.is_err(), "no channel to bind to");
    });
}

#[test]
fn a_password_in_clear_text_goes_to_nobody_unasked_and_requirements_hold_for_every_session() {
    let base = open_dir();
    let server = listening(base.path(), &[], |cluster| {
        give_to_server(
            cluster,
            "pg_hba.conf",
            "local all all trust\n\
             host clear all all password\n\
             host open all all trust\n\
             host all all all scram-sha-256\n",
        );
    });
    runtime().block_on(async {
        let local = connect(&server.connect_params("postgres")).await.expect("connected");
        for name in ["clear", "open"] {
            local.batch_execute(&format!("create database {name}")).await.expect("created");
        }
        let password = PASSWORD.replace('\\', "\\\\").replace('\'', "\\'");
        let to = |database: &str, rest: &str| {
            dsn(&format!(
                "host=127.0.0.1 port={} user=postgres dbname={database} password='{password}' {rest}",
                server.port()
            ))
        };
        let refused = async |database: &str, rest: &str| {
            let (kind, text) = failure(&to(database, rest)).await;
            assert_eq!(kind, ConnectFailure::NotAsRequired, "{text}");
            text
        };
        let text = refused("clear", "").await;
        assert!(text.contains("clear") && text.contains("require_auth=password"), "{text}");
        assert!(connect(&to("clear", "require_auth=password")).await.is_ok());
        assert!(connect(&to("postgres", "require_auth=scram-sha-256")).await.is_ok());
        refused("postgres", "require_auth=!scram-sha-256").await;
        // A server that asks for nothing may not be the one that knows the password.
        assert!(connect(&to("open", "")).await.is_ok());
        refused("open", "require_auth=scram-sha-256").await;
        assert!(connect(&to("open", "require_auth=none")).await.is_ok());
        refused("open", "channel_binding=require").await;
    });
}
