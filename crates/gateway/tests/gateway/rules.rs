//! Who is let in by rules, certificates, the system's user and questions of one's own.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use walwright_gateway::{
    Authentication, ClientCertificate, Listen, Question, Rules, Stored, Tls, UserMaps, Users,
};
use walwright_wire::{
    ConnectOptions, Connection, Connector, Host, Secret, SslMode, SslNegotiation, WireError,
};

use crate::common::{PASSWORD, Testbed, port_of};

/// An authority, and what it signs.
struct Authority {
    directory: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    file: PathBuf,
}

impl Authority {
    fn new(directory: &Path, name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("key");
        let own = params.self_signed(&key).expect("signed");
        let file = directory.join(format!("{name}.crt"));
        std::fs::write(&file, own.pem()).expect("written");
        Authority { directory: directory.to_owned(), issuer: Issuer::new(params, key), file }
    }

    /// A certificate for a name, with its key: their files.
    fn sign(&self, name: &str) -> (PathBuf, PathBuf) {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("params");
        params.distinguished_name.push(DnType::CommonName, name);
        let secret = KeyPair::generate().expect("key");
        let own = params.signed_by(&secret, &self.issuer).expect("signed");
        let file = |end: &str| self.directory.join(format!("{}{end}", name.replace('/', "_")));
        let (certificate, key) = (file(".crt"), file(".key"));
        std::fs::write(&certificate, own.pem()).expect("written");
        std::fs::write(&key, secret.serialize_pem()).expect("written");
        (certificate, key)
    }
}

fn options(host: Host, port: u16, user: &str) -> ConnectOptions {
    let mut options = ConnectOptions::new(host, port, user, "postgres");
    options.tls.mode = SslMode::Disable;
    options
}

/// A session of the server itself.
fn direct(testbed: &Testbed) -> Connection {
    let host = Host::Unix(testbed.server.socket_dir().to_owned());
    let options = options(host, testbed.server.port(), "postgres");
    Connector::new(options).unwrap().connect().unwrap()
}

fn user_of(options: ConnectOptions) -> Result<String, WireError> {
    let mut connection = Connector::new(options)?.connect()?;
    Ok(connection.query("SELECT current_user")?[0][0].clone().unwrap_or_default())
}

fn code(result: Result<String, WireError>) -> String {
    let error = result.expect_err("refused");
    error.server_error().map_or_else(|| error.to_string(), |fields| fields.code.clone())
}

#[test]
fn rules_certificates_and_the_systems_user_decide() {
    let directory = tempfile::tempdir().expect("temp dir");
    let ours = Authority::new(directory.path(), "ours");
    let theirs = Authority::new(directory.path(), "theirs");
    let (certificate, key) = ours.sign("gateway");
    let (app_certificate, app_key) = ours.sign("app");
    let (foreign_certificate, foreign_key) = theirs.sign("foreign/app");
    let me = nix::unistd::User::from_uid(nix::unistd::Uid::effective()).unwrap().unwrap().name;
    let rules = "local all postgres peer map=admins\n\
                 local all app peer\n\
                 hostssl all app 127.0.0.1/32 cert\n\
                 hostssl all renamed 127.0.0.1/32 cert map=certs clientcert=verify-full\n\
                 hostssl all postgres all scram-sha-256 clientcert=verify-ca\n\
                 host all banned all reject\n\
                 hostnossl all postgres all scram-sha-256";
    let maps = format!("admins {me} postgres\ncerts app renamed");
    let rules = Rules::parse(rules).unwrap().with_maps(UserMaps::parse(&maps).unwrap());
    let known = ["postgres", "app", "renamed", "banned"]
        .map(|name| (name.to_owned(), Stored::Password(Secret::new(PASSWORD))));
    let users = Users { known: known.into(), ..Users::default() };
    let tls = Tls::with_client_authorities(
        (&certificate, &key),
        false,
        &ours.file,
        ClientCertificate::Unneeded,
    );
    let socket = directory.path().join(".s.PGSQL.6432");
    let listen = Listen::Unix(socket.clone());
    let testbed = Testbed::over_tcp_and(listen, |options| {
        options.authentication = Authentication::Rules(Arc::new(rules), Arc::new(users));
        options.tls = Some(tls.expect("fits"));
    });
    let mut direct = direct(&testbed);
    for name in ["app", "renamed", "banned"] {
        let password = PASSWORD.replace('\'', "''");
        direct.query(&format!("CREATE ROLE {name} LOGIN PASSWORD '{password}'")).unwrap();
    }

    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o777, "whoever proves who it is may come");
    let local = |user: &str| options(Host::Unix(directory.path().to_owned()), 6432, user);
    assert_eq!(user_of(local("postgres")).unwrap(), "postgres");
    assert_eq!(code(user_of(local("app"))), "28000", "{me} is not app");
    assert_eq!(code(user_of(local("banned"))), "28000");

    let plain = |user: &str| {
        let mut options = options(Host::Tcp("127.0.0.1".to_owned()), testbed.port(), user);
        options.password = Some(Secret::new(PASSWORD));
        options
    };
    assert_eq!(user_of(plain("postgres")).unwrap(), "postgres");
    assert_eq!(code(user_of(plain("banned"))), "28000");
    assert_eq!(code(user_of(plain("app"))), "28000", "without TLS no rule fits");

    let encrypted = |user: &str, shown: Option<(&PathBuf, &PathBuf)>| {
        let mut options = plain(user);
        options.tls.mode = SslMode::Require;
        options.tls.certificate = shown.map(|(certificate, _)| certificate.clone());
        options.tls.key = shown.map(|(_, key)| key.clone());
        options
    };
    let app = Some((&app_certificate, &app_key));
    let mut without_password = encrypted("app", app);
    without_password.password = None;
    assert_eq!(user_of(without_password).unwrap(), "app");
    assert_eq!(user_of(encrypted("renamed", app)).unwrap(), "renamed");
    assert_eq!(code(user_of(encrypted("app", None))), "28000");
    assert_eq!(code(user_of(encrypted("postgres", None))), "28000", "clientcert=verify-ca");
    assert_eq!(user_of(encrypted("postgres", app)).unwrap(), "postgres");
    let mut wrong = encrypted("postgres", app);
    wrong.password = Some(Secret::new("wrong"));
    assert_eq!(code(user_of(wrong)), "28P01", "a certificate is no password");
    assert!(user_of(encrypted("app", Some((&foreign_certificate, &foreign_key)))).is_err());
    let mut at_once = encrypted("app", app);
    at_once.tls.negotiation = SslNegotiation::Direct;
    assert_eq!(user_of(at_once).unwrap(), "app");
}

#[test]
fn who_names_no_database_asks_for_that_of_its_name() {
    let rules = Rules::parse("host app all all reject\nhost all all all trust").unwrap();
    let testbed = Testbed::over_tcp(|options| {
        let users = Arc::new(Users::default());
        options.authentication = Authentication::Rules(Arc::new(rules), users);
    });
    let mut asks = options(Host::Tcp("127.0.0.1".to_owned()), testbed.port(), "app");
    for name in ["app", ""] {
        asks.dbname = name.to_owned();
        assert_eq!(code(user_of(asks.clone())), "28000", "{name:?}");
    }
}

#[test]
fn a_certificate_of_every_client_may_have_to_name_it() {
    let directory = tempfile::tempdir().expect("temp dir");
    let ours = Authority::new(directory.path(), "ours");
    let (certificate, key) = ours.sign("postgres");
    let (other_certificate, other_key) = ours.sign("other");
    let tls = Tls::with_client_authorities(
        (&certificate, &key),
        false,
        &ours.file,
        ClientCertificate::VerifyFull,
    );
    let testbed = Testbed::over_tcp(|options| options.tls = Some(tls.expect("fits")));
    let shows = |mode: SslMode, certificate: &Path, key: &Path| {
        let host = Host::Tcp("127.0.0.1".to_owned());
        let mut options = options(host, testbed.port(), "postgres");
        options.password = Some(Secret::new(PASSWORD));
        options.tls.mode = mode;
        options.tls.certificate = Some(certificate.to_owned());
        options.tls.key = Some(key.to_owned());
        options
    };
    assert_eq!(user_of(shows(SslMode::Require, &certificate, &key)).unwrap(), "postgres");
    assert_eq!(code(user_of(shows(SslMode::Require, &other_certificate, &other_key))), "28000");
    assert_eq!(code(user_of(shows(SslMode::Disable, &certificate, &key))), "28000");
}

/// What PgBouncer's CVE-2025-2291 (passwords that are no longer valid) and CVE-2025-12819
/// (a `search_path` of the client's in the session that asks for passwords) were.
#[test]
fn questions_for_passwords_are_safe_from_those_who_ask_to_be_let_in() {
    let question = Question {
        query: Some("SELECT usename, passwd FROM safe.user_lookup($1)".to_owned()),
        ..Question::default()
    };
    let users = Users { ask_server: true, question, ..Users::default() };
    let testbed = Testbed::over_tcp(|options| {
        options.authentication = Authentication::Scram(Arc::new(users));
    });
    let mut direct = direct(&testbed);
    direct
        .query(
            "CREATE SCHEMA safe; CREATE SCHEMA evil; GRANT ALL ON SCHEMA evil TO public; \
             CREATE FUNCTION safe.user_lookup(name text) \
               RETURNS TABLE (usename name, passwd text) LANGUAGE sql SECURITY DEFINER AS \
               $$ SELECT usename, passwd FROM pg_shadow WHERE usename = $1 $$; \
             CREATE ROLE app LOGIN PASSWORD 'open sesame'; \
             CREATE ROLE late LOGIN PASSWORD 'x' VALID UNTIL '2001-01-01'; \
             CREATE ROLE hashed LOGIN; \
             UPDATE pg_authid SET rolpassword = 'md5' || md5('x') WHERE rolname = 'hashed'; \
             CREATE VIEW evil.pg_shadow AS SELECT 'app'::name AS usename, 'mine'::text AS passwd; \
             CREATE FUNCTION evil.pg_postmaster_start_time() RETURNS timestamptz \
               LANGUAGE sql AS 'SELECT ''2001-01-01''::timestamptz'; \
             CREATE FUNCTION evil.pg_is_in_recovery() RETURNS bool LANGUAGE sql AS 'SELECT true'; \
             CREATE FUNCTION evil.eq(name, name) RETURNS bool LANGUAGE sql AS 'SELECT true'; \
             CREATE OPERATOR evil.= (FUNCTION = evil.eq, LEFTARG = name, RIGHTARG = name)",
        )
        .unwrap();
    let attempt = |user: &str, password: &str, startup: &[(&str, &str)]| {
        let host = Host::Tcp("127.0.0.1".to_owned());
        let mut options = options(host, testbed.port(), user);
        options.password = Some(Secret::new(password));
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        options.parameters = startup.iter().map(own).collect();
        user_of(options)
    };
    assert_eq!(attempt("app", "open sesame", &[]).unwrap(), "app");
    assert_eq!(attempt("app", "open sesame", &[("search_path", "evil")]).unwrap(), "app");
    // Nor do functions of the client's own make the server look like another one.
    let shadows = [("search_path", "evil, pg_catalog")];
    assert_eq!(attempt("app", "open sesame", &shadows).unwrap(), "app");
    for (user, password) in [
        ("late", "x"),
        ("hashed", "x"),
        ("missing", "x"),
        ("a'); DROP SCHEMA safe CASCADE; --", "x"),
    ] {
        assert_eq!(code(attempt(user, password, &[])), "28P01", "{user}");
    }
    for startup in [
        ("search_path", "evil, pg_catalog"),
        ("options", "-c search_path=evil,pg_catalog"),
        ("SEARCH_PATH", "evil, pg_catalog"),
    ] {
        assert_eq!(code(attempt("app", "mine", &[startup])), "28P01", "{startup:?}");
    }
    // Nor is it the role's or the database's that leads elsewhere.
    direct.query("ALTER ROLE postgres SET search_path = evil, pg_catalog").unwrap();
    assert_eq!(code(attempt("app", "mine", &[])), "28P01");
    assert_eq!(attempt("app", "open sesame", &[]).unwrap(), "app");
    direct.query("ALTER ROLE app VALID UNTIL '2001-01-01'").unwrap();
    assert_eq!(code(attempt("app", "open sesame", &[])), "28P01", "it was let in before");
}

/// A packet of a client that is let in by its password: type, length, body.
fn packet(tag: Option<u8>, body: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = tag.into_iter().collect();
    out.extend((body.len() as u32 + 4).to_be_bytes());
    out.extend(body);
    out
}

/// What PgBouncer's CVE-2026-6664 to 6667 were: a client that has proved nothing ends the
/// process, or reads beyond its message, by what it says during SCRAM.
#[test]
fn nothing_said_during_scram_does_more_than_end_its_own_connection() {
    let known = [("app".to_owned(), Stored::Password(Secret::new("x")))];
    let testbed = Testbed::over_tcp(|options| {
        let users = Users { known: known.into(), ..Users::default() };
        options.authentication = Authentication::Scram(Arc::new(users));
    });
    let initial = |mechanism: &[u8], length: u32, message: &[u8]| {
        packet(Some(b'p'), &[mechanism, b"\0", &length.to_be_bytes(), message].concat())
    };
    let good = b"n,,n=app,r=abcdefgh";
    let begin = || initial(b"SCRAM-SHA-256", good.len() as u32, good);
    let long = [b"n,,n=,r=".as_slice(), &[b'x'; 3000]].concat();
    let exchanges: Vec<Vec<Vec<u8>>> = vec![
        vec![packet(Some(b'p'), b"")],
        vec![packet(Some(b'p'), b"SCRAM-SHA-256")],
        vec![packet(Some(b'p'), b"SCRAM-SHA-256\0")],
        vec![packet(Some(b'p'), b"SCRAM-SHA-256\0\xff\xff\xff\xff")],
        vec![initial(b"SCRAM-SHA-256", u32::MAX, good)],
        vec![initial(b"SCRAM-SHA-256", 0x7fff_ffff, good)],
        vec![initial(b"SCRAM-SHA-256", 5, good)],
        vec![initial(b"SCRAM-SHA-256", long.len() as u32, &long)],
        vec![initial(b"SCRAM-SHA-256-PLUS", good.len() as u32, good)],
        vec![initial(b"PLAIN", 3, b"a\0b")],
        vec![initial(b"SCRAM-SHA-256", 3, b"n,,")],
        vec![initial(b"SCRAM-SHA-256", 4, b"\xff\xfe\0,")],
        vec![initial(b"SCRAM-SHA-256", 12, b"p=x,,n=,r=ab")],
        vec![initial(b"SCRAM-SHA-256", 11, b"n,a=b,n=,r=")],
        vec![begin(), packet(Some(b'p'), b"")],
        vec![begin(), packet(Some(b'p'), b"c=biws,r=,p=")],
        vec![begin(), packet(Some(b'p'), b"c=!!!!,r=abcdefgh,p=AAAA")],
        vec![begin(), packet(Some(b'p'), &[b'=', 0, 255, 254].repeat(900))],
        vec![begin(), begin(), begin()],
        vec![packet(Some(b'Q'), b"SELECT 1\0")],
        vec![vec![b'p', 0, 0, 0, 0], vec![b'p', 0xff, 0xff, 0xff, 0xff]],
        vec![b"p\0\0".to_vec()],
    ];
    for (number, exchange) in exchanges.iter().enumerate() {
        let mut stream = TcpStream::connect(("127.0.0.1", testbed.port())).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let startup = b"\0\x03\0\0user\0app\0database\0postgres\0\0";
        stream.write_all(&packet(None, startup)).unwrap();
        for message in exchange {
            // The gateway may have closed by now.
            let _ = stream.write_all(message);
        }
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        let is_in = said.windows(9).any(|bytes| bytes == b"R\0\0\0\x08\0\0\0\0");
        assert!(!is_in, "{number} was let in");
    }
    let mut options = options(Host::Tcp("127.0.0.1".to_owned()), testbed.port(), "app");
    options.password = Some(Secret::new("not x"));
    assert_eq!(code(user_of(options)), "28P01", "it goes on as it should");
}

/// What a client sends while the server is asked for its password is not kept without an end.
#[test]
fn who_is_not_let_in_yet_cannot_fill_the_memory() {
    // It takes connections and says nothing.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = silent.local_addr().expect("bound").port();
    let server = options(Host::Tcp("127.0.0.1".to_owned()), port, "postgres");
    let mut options = walwright_gateway::Options::new(server);
    options.listen = vec![Listen::Tcp(([127, 0, 0, 1], 0).into())];
    let gateway = walwright_gateway::Gateway::start(options).expect("a gateway");
    let mut stream = TcpStream::connect(("127.0.0.1", port_of(&gateway))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(&packet(None, b"\0\x03\0\0user\0app\0\0")).unwrap();
    let kept = (0..512).take_while(|_| stream.write_all(&[0; 64 * 1024]).is_ok()).count();
    assert!(kept < 512, "32 MB of it are kept");
    // Encryption that is declined is asked for of each kind once.
    let mut stream = TcpStream::connect(("127.0.0.1", port_of(&gateway))).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(&[0, 0, 0, 8, 4, 210, 22, 48].repeat(5)).unwrap();
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    assert!(said.windows(5).any(|bytes| bytes == b"08P01"), "{}", String::from_utf8_lossy(&said));
    // Less than one buffer is too much already.
    let mut stream = TcpStream::connect(("127.0.0.1", port_of(&gateway))).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let startup = packet(None, b"\0\x03\0\0user\0other\0\0");
    stream.write_all(&[startup, vec![0; 5000]].concat()).unwrap();
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    assert!(said.windows(5).any(|bytes| bytes == b"08P01"), "{}", String::from_utf8_lossy(&said));
}
