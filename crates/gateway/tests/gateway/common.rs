//! A server, a gateway before it, and ways to both.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};
use walwright_gateway::{Authentication, Gateway, Listen, Options};
use walwright_server::{Cluster, ClusterSpec, Installs, Major, Places, RunningCluster, TcpAccess};
use walwright_wire::{ConnectOptions, Host, Secret, SslMode};

/// The superuser's password of servers on TCP.
pub const PASSWORD: &str = "it's a: s%cret\\";

/// A server with a gateway before it.
pub struct Testbed {
    pub gateway: Gateway,
    pub server: RunningCluster,
    /// What it is told when it reads its options once more.
    pub options: Arc<Mutex<Options>>,
    _base: TempDir,
}

impl Testbed {
    /// The gateway reaches the server by its unix socket, and trusts its clients.
    pub fn new(settings: &[(&str, &str)], adjust: impl FnOnce(&mut Options)) -> Testbed {
        Testbed::start(settings, None, None, |server| {
            let host = Host::Unix(server.socket_dir().to_owned());
            let to = ConnectOptions::new(host, server.port(), "postgres", "postgres");
            let mut options = Options::new(to);
            options.authentication = Authentication::Trust;
            adjust(&mut options);
            options
        })
    }

    /// The gateway reaches the server by TCP, where it asks for passwords.
    pub fn over_tcp(adjust: impl FnOnce(&mut Options)) -> Testbed {
        Testbed::over_tcp_and(None, adjust)
    }

    /// The same, where the gateway listens at another place too.
    pub fn over_tcp_and(
        listen: impl Into<Option<Listen>>,
        adjust: impl FnOnce(&mut Options),
    ) -> Testbed {
        let access = TcpAccess { port: None, password: Secret::new(PASSWORD) };
        Testbed::start(&[], Some(access), listen.into(), |server| {
            let host = Host::Tcp("127.0.0.1".to_owned());
            let mut to = ConnectOptions::new(host, server.port(), "postgres", "postgres");
            to.password = Some(Secret::new(PASSWORD));
            let mut options = Options::new(to);
            adjust(&mut options);
            options
        })
    }

    /// The gateway reaches the server by TCP with TLS.
    pub fn over_tls(adjust: impl FnOnce(&mut Options)) -> Testbed {
        let settings = [("ssl", "on"), ("ssl_cert_file", "own.crt"), ("ssl_key_file", "own.key")];
        let access = TcpAccess { port: None, password: Secret::new(PASSWORD) };
        Testbed::start(&settings, Some(access), None, |server| {
            let host = Host::Tcp("127.0.0.1".to_owned());
            let mut to = ConnectOptions::new(host, server.port(), "postgres", "postgres");
            to.password = Some(Secret::new(PASSWORD));
            to.tls.mode = SslMode::Require;
            let mut options = Options::new(to);
            options.authentication = Authentication::Trust;
            adjust(&mut options);
            options
        })
    }

    fn start(
        settings: &[(&str, &str)],
        tcp: Option<TcpAccess>,
        listen: Option<Listen>,
        options: impl FnOnce(&RunningCluster) -> Options,
    ) -> Testbed {
        let base = tempfile::tempdir_in("/var/tmp").expect("temp dir");
        let mut spec = spec(base.path(), settings);
        spec.tcp = tcp;
        let cluster = Cluster::create(spec).expect("made");
        if settings.contains(&("ssl", "on")) {
            certify(&cluster);
        }
        let server = cluster.start().expect("started");
        let mut options = options(&server);
        options.listen = vec![Listen::Tcp(([127, 0, 0, 1], 0).into())];
        options.listen.extend(listen);
        let gateway = Gateway::start(options.clone()).expect("a gateway");
        let options = Arc::new(Mutex::new(options));
        Testbed { gateway, server, options, _base: base }
    }

    pub fn port(&self) -> u16 {
        port_of(&self.gateway)
    }

    /// Other options from now on.
    pub fn reload(&self, adjust: impl FnOnce(&mut Options)) {
        reload(&self.gateway, &self.options, adjust);
    }

    /// A client of the gateway.
    pub async fn client(&self) -> Client {
        connected("127.0.0.1", self.port()).await
    }

    /// A client of the server itself.
    pub async fn direct(&self) -> Client {
        connected(&self.server.socket_dir().display().to_string(), self.server.port()).await
    }
}

/// Gives a server a certificate.
fn certify(cluster: &Cluster) {
    let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).expect("params");
    let key = KeyPair::generate().expect("key");
    let own = params.self_signed(&key).expect("signed");
    for (name, text) in [("own.crt", own.pem()), ("own.key", key.serialize_pem())] {
        let path = cluster.data_dir().join(name);
        std::fs::write(&path, text).expect("written");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("private");
        cluster.user().own(&path).expect("the server's");
    }
}

/// A server of this version with settings, below a directory.
pub fn spec(base: &Path, settings: &[(&str, &str)]) -> ClusterSpec {
    let places = Places::open(Some(base.join("cache"))).expect("places");
    let install = Installs::open(None)
        .and_then(|installs| installs.ensure(Major::V18, &mut |_| {}))
        .expect("an install");
    let mut spec = ClusterSpec::new(&places, install);
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    spec.settings = settings.iter().map(own).collect();
    spec
}

/// Has a gateway go on by other options. Its first are to be given each time.
pub fn reload(gateway: &Gateway, options: &Arc<Mutex<Options>>, adjust: impl FnOnce(&mut Options)) {
    adjust(&mut options.lock().expect("options"));
    let reread = options.clone();
    gateway.on_reload(move || Ok(reread.lock().expect("options").clone()));
    gateway.reload().expect("reloaded");
}

/// The port of a gateway that listens on one.
pub fn port_of(gateway: &Gateway) -> u16 {
    let port = |place: &Listen| match place {
        Listen::Tcp(address) => Some(address.port()),
        Listen::Unix(_) => None,
    };
    gateway.places().find_map(port).expect("it listens")
}

pub async fn connected(host: &str, port: u16) -> Client {
    let mut config = tokio_postgres::Config::new();
    config.host(host).port(port).user("postgres").dbname("postgres");
    config.connect_timeout(Duration::from_secs(60));
    let (client, connection) = config.connect(NoTls).await.expect("connected");
    // It ends with its client.
    tokio::spawn(async move { connection.await.ok() });
    client
}
