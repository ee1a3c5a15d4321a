//! Against a real server: logging in, TLS, queries, cancelling, and streams
//! that do not block.

use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use walwright_server::{
    Cluster, ClusterSpec, Installs, Major, Places, RunningCluster, Secret as ServerSecret,
    TcpAccess,
};
use walwright_wire::backend::{DATA_ROW, READY_FOR_QUERY};
use walwright_wire::frontend::Query;
use walwright_wire::{
    BindTemplate, ChannelBinding, ConnectOptions, Connection, Connector, Format, Host,
    RootCertificates, Secret, TagSet, Template, TlsMode, Values, WireError, cancel,
};

const PASSWORD: &str = "it's a: s%cret\\";

/// A server on a unix socket and on TCP with TLS, with a certificate for
/// `localhost` signed by the authority in `ca.crt`.
struct Bed {
    server: RunningCluster,
    base: TempDir,
}

impl Bed {
    fn new() -> Bed {
        let base = tempfile::tempdir_in("/var/tmp").expect("temp dir");
        fs::set_permissions(base.path(), PermissionsExt::from_mode(0o755)).expect("chmod");
        let places = Places::open(Some(base.path().join("cache"))).expect("places");
        let install = Installs::open(None)
            .and_then(|installs| installs.ensure(Major::V18, &mut |_| {}))
            .expect("an install");
        let mut spec = ClusterSpec::new(&places, install);
        spec.tcp = Some(TcpAccess { port: None, password: ServerSecret::new(PASSWORD) });
        spec.settings = [("ssl", "on"), ("ssl_cert_file", "own.crt"), ("ssl_key_file", "own.key")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec();
        let cluster = Cluster::create(spec).expect("made");

        let mut params = CertificateParams::new(Vec::new()).expect("params");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = KeyPair::generate().expect("key");
        let authority = CertifiedIssuer::self_signed(params, issuer).expect("signed");
        let key = KeyPair::generate().expect("key");
        let names = vec!["localhost".to_owned()];
        let certificate = CertificateParams::new(names).expect("params");
        let certificate = certificate.signed_by(&key, &authority).expect("signed");
        fs::write(base.path().join("ca.crt"), authority.pem()).expect("write");

        for (name, text) in [
            ("own.crt", certificate.pem()),
            ("own.key", key.serialize_pem()),
            (
                "pg_hba.conf",
                "local all all trust\n\
                 host all md5_user all md5\n\
                 host all clear_user all password\n\
                 hostnossl all encrypted_user all reject\n\
                 host all all all scram-sha-256\n"
                    .to_owned(),
            ),
        ] {
            let path = cluster.data_dir().join(name);
            fs::write(&path, text).expect("write");
            fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("chmod");
            cluster.user().own(&path).expect("chown");
        }
        Bed { server: cluster.start().expect("started"), base }
    }

    fn unix(&self) -> ConnectOptions {
        let host = Host::Unix(self.server.socket_dir().to_owned());
        ConnectOptions::new(host, self.server.port(), "postgres", "postgres")
    }

    fn tcp(&self, user: &str, mode: TlsMode) -> ConnectOptions {
        let host = Host::Tcp("localhost".into());
        let mut options = ConnectOptions::new(host, self.server.port(), user, "postgres");
        options.hostaddr = Some([127, 0, 0, 1].into());
        options.password = Some(Secret::new(PASSWORD));
        options.tls.mode = mode;
        options
    }

    fn authority(&self) -> RootCertificates {
        RootCertificates::File(self.base.path().join("ca.crt"))
    }
}

fn connect(options: &ConnectOptions) -> Result<Connection, WireError> {
    Connector::new(options.clone())?.connect()
}

fn connected(options: &ConnectOptions) -> Connection {
    connect(options).unwrap_or_else(|error| panic!("{error}"))
}

fn failure(options: &ConnectOptions) -> WireError {
    let error = connect(options).expect_err("no way in");
    assert!(!error.to_string().contains(PASSWORD));
    error
}

fn one(connection: &mut Connection, sql: &str) -> String {
    connection.query(sql).expect("a query")[0][0].clone().expect("a value")
}

/// Whether the server says that the connection is encrypted.
fn encrypted(connection: &mut Connection) -> bool {
    one(connection, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()") == "t"
}

#[test]
fn every_way_of_logging_in() {
    let bed = Bed::new();
    let mut local = connected(&bed.unix());
    assert!(local.parameter("server_version").expect("reported").starts_with("18"));
    let pid: u32 = one(&mut local, "SELECT pg_backend_pid()").parse().expect("a number");
    assert_eq!(local.backend_process(), Some(pid));
    local
        .query(&format!(
            "SET password_encryption = md5; \
             CREATE ROLE md5_user LOGIN PASSWORD $$secret$$; \
             RESET password_encryption; \
             CREATE ROLE clear_user LOGIN PASSWORD $${PASSWORD}$$; \
             CREATE ROLE encrypted_user LOGIN PASSWORD $${PASSWORD}$$"
        ))
        .expect("roles");

    // Passwords.
    let mut md5 = bed.tcp("md5_user", TlsMode::Disable);
    md5.password = Some(Secret::new("secret"));
    assert_eq!(one(&mut connected(&md5), "SELECT current_user"), "md5_user");
    connected(&bed.tcp("clear_user", TlsMode::Disable));
    let scram = bed.tcp("postgres", TlsMode::Disable);
    assert!(!encrypted(&mut connected(&scram)));
    let mut wrong = scram.clone();
    wrong.password = Some(Secret::new("wrong"));
    assert_eq!(failure(&wrong).server_error().expect("said").code, "28P01");
    wrong.password = None;
    assert!(matches!(failure(&wrong), WireError::PasswordNeeded { .. }));

    // TLS.
    for mode in [TlsMode::Prefer, TlsMode::Require] {
        assert!(encrypted(&mut connected(&bed.tcp("postgres", mode))));
    }
    let mut full = bed.tcp("postgres", TlsMode::VerifyFull);
    full.tls.roots = bed.authority();
    full.tls.channel_binding = ChannelBinding::Require;
    assert!(encrypted(&mut connected(&full)));
    let mut elsewhere = full.clone();
    elsewhere.host = Host::Tcp("elsewhere.example".into());
    assert!(matches!(failure(&elsewhere), WireError::Tls(_)));
    elsewhere.tls.mode = TlsMode::VerifyCa;
    assert!(encrypted(&mut connected(&elsewhere)));
    full.tls.roots = RootCertificates::System;
    assert!(matches!(failure(&full), WireError::Tls(_)), "signed by nobody the system knows");
    full.tls.roots = RootCertificates::File("/nonexistent".into());
    assert!(failure(&full).to_string().contains("/nonexistent"));

    // What is refused without TLS works with it, and says so where it cannot be had.
    connected(&bed.tcp("encrypted_user", TlsMode::Prefer));
    let plain = failure(&bed.tcp("encrypted_user", TlsMode::Disable));
    assert_eq!(plain.server_error().expect("said").code, "28000");
    local.query("ALTER SYSTEM SET ssl = off").expect("set");
    local.query("SELECT pg_reload_conf()").expect("reloaded");
    let deadline = Instant::now() + Duration::from_secs(20);
    while encrypted(&mut connected(&bed.tcp("postgres", TlsMode::Prefer))) {
        assert!(Instant::now() < deadline, "the server still offers TLS");
    }
    let error = failure(&bed.tcp("postgres", TlsMode::Require)).to_string();
    assert!(error.contains("does not offer TLS"), "{error}");
}

#[test]
fn queries_errors_and_types() {
    let bed = Bed::new();
    let mut connection = connected(&bed.unix());
    let rows = connection.query("SELECT 1, NULL UNION ALL SELECT 2, 'x' ORDER BY 1; SELECT 3");
    let text = |value: &str| Some(value.to_owned());
    assert_eq!(
        rows.expect("rows"),
        [vec![text("1"), None], vec![text("2"), text("x")], vec![text("3")]]
    );
    let error = connection.query("SELECT 1; SELECT 1/0").expect_err("division by zero");
    assert_eq!(error.server_error().expect("said").code, "22012");
    let types = connection.parameter_types("SELECT $1::int4, $2::int8, $3::text");
    assert_eq!(types.expect("types"), [23, 20, 25]);
    assert!(connection.parameter_types("SELECT nonsense").is_err());
    assert_eq!(one(&mut connection, "SELECT 'still fine'"), "still fine");
    let big = one(&mut connection, "SELECT repeat('x', 1000000)");
    assert_eq!(big.len(), 1_000_000);
    connection.query("SELECT pg_terminate_backend(pg_backend_pid())").expect_err("ended");
}

#[test]
fn a_query_is_cancelled_from_outside() {
    let bed = Bed::new();
    for options in [bed.unix(), bed.tcp("postgres", TlsMode::Require)] {
        let connector = Connector::new(options).expect("options");
        let mut sleeper = connector.connect().expect("connected");
        let key = sleeper.cancel_key().expect("given");
        let mut watcher = connected(&bed.unix());
        std::thread::scope(|scope| {
            let sleeping = scope.spawn(move || sleeper.query("SELECT pg_sleep(600)"));
            let asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
            while one(&mut watcher, asleep) == "0" {}
            cancel(&connector, &key).expect("asked");
            let error = sleeping.join().expect("no panic").expect_err("cancelled");
            assert_eq!(error.server_error().expect("said").code, "57014");
        });
    }
}

/// One integer.
struct Number(i64);

impl Values for Number {
    fn write_text(&self, _: u32, out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(self.0.to_string().as_bytes());
        true
    }

    fn integer(&self, _: u32) -> Option<i64> {
        Some(self.0)
    }
}

#[test]
fn streams_that_do_not_block_carry_templates_and_large_answers() {
    let bed = Bed::new();
    for options in
        [bed.unix(), bed.tcp("postgres", TlsMode::Disable), bed.tcp("postgres", TlsMode::Require)]
    {
        let mut connection = connected(&options);
        connection
            .query(
                "PREPARE p (int4) AS SELECT g, repeat('y', 1000) FROM generate_series(1, $1) AS g",
            )
            .expect("prepared");
        let (mut stream, mut scanner) = connection.into_nonblocking().expect("non-blocking");
        let template = Template::bind_execute(&BindTemplate {
            statement: "p",
            parameters: &[(0, Format::Int4)],
            describe: true,
        })
        .then_sync();
        let mut out = Vec::new();
        // More than any socket buffer takes at once, in both directions.
        Query { sql: &format!("SELECT '{}'", "z".repeat(3_000_000)) }.write(&mut out);
        template.render(&Number(5000), &mut out).expect("it fits");
        let (mut sent, mut rows, mut ready) = (0, 0, 0);
        let mut blocked = 0_u64;
        let mut buffer = vec![0; 16 * 1024];
        let deadline = Instant::now() + Duration::from_secs(30);
        while ready < 2 {
            assert!(Instant::now() < deadline, "{rows} rows and no end");
            if sent < out.len() || stream.has_unsent() {
                let wrote = if sent < out.len() {
                    stream.write(&out[sent..])
                } else {
                    stream.flush().map(|()| 0)
                };
                match wrote {
                    Ok(count) => sent += count,
                    Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                }
            }
            match stream.read(&mut buffer) {
                Ok(0) => panic!("the server closed the connection"),
                Ok(count) => {
                    let mut input = &buffer[..count];
                    while let Some(frame) = scanner.next(&mut input, TagSet::EMPTY).expect("sound")
                    {
                        rows += usize::from(frame.tag == DATA_ROW);
                        ready += usize::from(frame.tag == READY_FOR_QUERY);
                    }
                }
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    blocked += 1;
                }
            }
        }
        assert_eq!(rows, 5001);
        assert!(blocked > 0 && scanner.at_boundary());
    }
}

fn with_timeout(host: Host, port: u16) -> ConnectOptions {
    let mut options = ConnectOptions::new(host, port, "u", "d");
    options.connect_timeout = Some(Duration::from_millis(100));
    options
}

#[test]
fn who_does_not_answer_is_not_waited_for() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    for mode in [TlsMode::Disable, TlsMode::Require] {
        let mut options = with_timeout(Host::Tcp("127.0.0.1".into()), port);
        options.tls.mode = mode;
        let error = failure(&options);
        assert!(matches!(error, WireError::Timeout { .. }), "{error:?}");
    }
    drop(silent);
    let error = failure(&with_timeout(Host::Tcp("127.0.0.1".into()), port));
    assert!(matches!(error, WireError::Connect { .. }), "{error:?}");
    let nowhere = PathBuf::from("/nonexistent");
    let error = failure(&with_timeout(Host::Unix(nowhere), 5432)).to_string();
    assert!(
        error.contains(&Path::new("/nonexistent/.s.PGSQL.5432").display().to_string()),
        "{error}"
    );
}

#[test]
fn who_speaks_something_else_is_found_out() {
    let chatty = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = chatty.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for stream in chatty.incoming().map_while(Result::ok) {
            let mut stream = stream;
            let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.9\r\n");
        }
    });
    let mut options = with_timeout(Host::Tcp("127.0.0.1".into()), port);
    options.connect_timeout = Some(Duration::from_secs(10));
    options.tls.mode = TlsMode::Disable;
    let error = failure(&options);
    assert!(matches!(error, WireError::Frame(_)), "{error:?}");
}
