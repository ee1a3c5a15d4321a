//! A server with a certificate, and ways to it.

// Each test file uses its part.
#![allow(dead_code)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;
use walwright_server::{
    Cluster, ClusterSpec, Installs, Major, Places, RunningCluster, Secret, TcpAccess,
};
use walwright_wire::{ConnectOptions, Connection, Connector, Host, RootCert, SslMode, WireError};

pub const PASSWORD: &str = "it's a: s%cret\\";

/// A certificate and its key, in PEM.
pub struct Identity {
    pub certificate: String,
    pub key: String,
}

/// A certificate authority.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub fn new(name: &str) -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("params");
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("key");
        Authority(CertifiedIssuer::self_signed(params, key).expect("signed"))
    }

    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Signs a certificate for an alternative name and a common name.
    pub fn sign(&self, name: &str, common_name: &str) -> Identity {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("params");
        params.distinguished_name.push(DnType::CommonName, common_name);
        let key = KeyPair::generate().expect("key");
        let certificate = params.signed_by(&key, &self.0).expect("signed");
        Identity { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

/// A certificate for `localhost` that nobody else signed, as `openssl req -x509` makes
/// it: its own authority. Valid from 2000 to the end of the given year.
pub fn self_signed(last_year: i32) -> Identity {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("params");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.not_before = rcgen::date_time_ymd(2000, 1, 1);
    params.not_after = rcgen::date_time_ymd(last_year, 12, 31);
    let key = KeyPair::generate().expect("key");
    let certificate = params.self_signed(&key).expect("signed");
    Identity { certificate: certificate.pem(), key: key.serialize_pem() }
}

/// A server on a unix socket and on TCP with TLS, and a directory beside it.
pub struct Testbed {
    pub server: RunningCluster,
    pub base: TempDir,
}

impl Testbed {
    /// With a certificate for `localhost` signed by the authority in `ca.crt`.
    pub fn new() -> Testbed {
        let authority = Authority::new("ours");
        let testbed = Testbed::with(&authority.sign("localhost", "server"), &authority);
        testbed.file("ca.crt", &authority.pem());
        testbed
    }

    /// With a certificate; clients prove who they are by those of the authority.
    pub fn with(own: &Identity, clients: &Authority) -> Testbed {
        let base = tempfile::tempdir_in("/var/tmp").expect("temp dir");
        fs::set_permissions(base.path(), PermissionsExt::from_mode(0o755)).expect("chmod");
        let places = Places::open(Some(base.path().join("cache"))).expect("places");
        let install = Installs::open(None)
            .and_then(|installs| installs.ensure(Major::V18, &mut |_| {}))
            .expect("an install");
        let mut spec = ClusterSpec::new(&places, install);
        spec.tcp = Some(TcpAccess { port: None, password: Secret::new(PASSWORD) });
        spec.settings = [
            ("ssl", "on"),
            ("ssl_cert_file", "own.crt"),
            ("ssl_key_file", "own.key"),
            ("ssl_ca_file", "clients.crt"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
        let cluster = Cluster::create(spec).expect("made");
        for (name, text) in [
            ("own.crt", own.certificate.as_str()),
            ("own.key", &own.key),
            ("clients.crt", &clients.pem()),
            (
                "pg_hba.conf",
                "local all all trust\n\
                 host all md5_user all md5\n\
                 host all clear_user all password\n\
                 host all trusted_user all trust\n\
                 hostssl all certified_user all cert\n\
                 hostnossl all encrypted_user all reject\n\
                 hostssl all open_user all reject\n\
                 host all all all scram-sha-256\n",
            ),
        ] {
            let path = cluster.data_dir().join(name);
            fs::write(&path, text).expect("write");
            fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("chmod");
            cluster.user().own(&path).expect("chown");
        }
        Testbed { server: cluster.start().expect("started"), base }
    }

    /// Writes a file beside the server, and names it as whom to trust.
    pub fn file(&self, name: &str, text: &str) -> RootCert {
        let path = self.base.path().join(name);
        fs::write(&path, text).expect("write");
        RootCert::File(path)
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.base.path().join(name)
    }

    pub fn unix(&self) -> ConnectOptions {
        let host = Host::Unix(self.server.socket_dir().to_owned());
        ConnectOptions::new(host, self.server.port(), "postgres", "postgres")
    }

    pub fn tcp(&self, user: &str, mode: SslMode) -> ConnectOptions {
        let host = Host::Tcp("localhost".into());
        let mut options = ConnectOptions::new(host, self.server.port(), user, "postgres");
        options.hostaddr = Some([127, 0, 0, 1].into());
        options.password = Some(Secret::new(PASSWORD));
        options.tls.mode = mode;
        options
    }

    pub fn authority(&self) -> RootCert {
        RootCert::File(self.base.path().join("ca.crt"))
    }

    /// What the server has logged.
    pub fn log(&self) -> String {
        read(&self.server.cluster().log_file())
    }
}

pub fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub fn connect(options: &ConnectOptions) -> Result<Connection, WireError> {
    Connector::new(options.clone())?.connect()
}

pub fn connected(options: &ConnectOptions) -> Connection {
    connect(options).unwrap_or_else(|error| panic!("{error}"))
}

pub fn failure(options: &ConnectOptions) -> WireError {
    let error = connect(options).expect_err("no way in");
    assert!(!error.to_string().contains(PASSWORD));
    error
}

pub fn one(connection: &mut Connection, sql: &str) -> String {
    connection.query(sql).expect("a query")[0][0].clone().expect("a value")
}

/// Whether the server says that the connection is encrypted.
pub fn encrypted(connection: &mut Connection) -> bool {
    one(connection, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()") == "t"
}
