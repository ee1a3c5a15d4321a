//! The endpoint's limits, over real sockets and a real server.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use walwright_coalesce::{Capacity, Options};
use walwright_ingest::{
    Admission, Destination, Endpoint, HttpLimits, Mapping, Server, TlsFiles, server_config,
};
use walwright_server::{
    Cluster, ClusterSpec, ConnectParams, Hosts, Installs, Major, Places, RunningCluster, Stop,
};

/// A server with a table events(id), and an endpoint before it.
struct Testbed {
    server: RunningCluster,
    params: ConnectParams,
    address: std::net::SocketAddr,
    stop: Stop,
    serving: tokio::task::JoinHandle<()>,
    _base: TempDir,
}

impl Testbed {
    async fn new(options: Options, limits: HttpLimits, tls: Option<TlsFiles>) -> Self {
        let base = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let places = Places::open(Some(base.path().join("cache"))).expect("places");
        let server = tokio::task::spawn_blocking(move || {
            let installs = Installs::open(None).expect("installs");
            let install = installs.ensure(Major::V18, &mut |_| {}).expect("an install");
            let cluster = Cluster::create(ClusterSpec::new(&places, install)).expect("made");
            cluster.start().expect("started")
        });
        let server = server.await.expect("no panic");
        let params = server.connect_params("postgres");
        let hosts = Hosts { params: vec![params.clone()], session_attributes: None, dbname: None };
        let to = Server::of(&hosts).expect("a server");
        let client = to.connect().await.expect("connected");
        client.batch_execute("CREATE TABLE events (id bigint PRIMARY KEY)").await.expect("made");
        let events = Destination::connect(&to, "events", &Mapping::default(), options).await;
        let tables = HashMap::from([("events".to_owned(), events.expect("a destination"))]);
        let stop = Stop::new();
        let endpoint = Endpoint::bind(
            "127.0.0.1:0".parse().expect("an address"),
            tls.map(|files| server_config(&files).expect("files that fit")),
            Admission::by_tokens(""),
            limits,
            tables,
            Arc::default(),
            &stop,
        );
        let endpoint = endpoint.await.expect("bound");
        let address = endpoint.address().expect("an address");
        let serving = tokio::spawn(endpoint.serve(Duration::from_secs(30)));
        Self { server, params, address, stop, serving, _base: base }
    }

    async fn client(&self) -> walwright_server::Client {
        walwright_server::connect_for_workload(&self.params).await.expect("connected")
    }

    async fn post(&self, body: &str) -> String {
        let stream = TcpStream::connect(self.address).await.expect("connected");
        ask(stream, &post(body.len(), body)).await
    }

    async fn end(self) {
        self.stop.request();
        self.serving.await.expect("no panic");
    }
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
}

fn post(length: usize, body: &str) -> String {
    format!(
        "POST /ingest/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

async fn ask(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    answer
}

fn limits() -> HttpLimits {
    HttpLimits { body: 4_000, time: Duration::from_secs(30) }
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_cap_rows_are_refused_and_told_when_to_come_again() {
    let capacity = Capacity { rows: 2, ..Capacity::default() };
    let testbed = Testbed::new(Options { capacity, ..Options::default() }, limits(), None).await;
    let holder = testbed.client().await;
    holder.batch_execute("BEGIN; LOCK TABLE events").await.expect("locked");
    let three = testbed.post("[{\"id\": 1}, {\"id\": 2}, {\"id\": 3}]");
    let mut three = Box::pin(three);
    let looking = testbed.client().await;
    let waits = async {
        let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted";
        loop {
            let row = looking.query_one(waits, &[]).await.expect("a row");
            if row.get::<i64>(0).expect("a count") > 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        () = waits => {}
        answer = &mut three => panic!("answered before its rows are written: {answer}"),
    }
    let full = testbed.post("{\"id\": 4}").await;
    assert!(full.starts_with("HTTP/1.1 429") && full.contains("retry-after: 1"), "{full}");
    assert!(full.contains("\"status\":\"full\""), "{full}");
    holder.batch_execute("COMMIT").await.expect("unlocked");
    let answer = (&mut three).await;
    drop(three);
    assert!(answer.starts_with("HTTP/1.1 429"), "{answer}");
    assert!(answer.contains("\"rows\":3,\"written\":2"), "{answer}");
    let again = testbed.post("{\"id\": 3}").await;
    assert!(again.starts_with("HTTP/1.1 200"), "{again}");
    drop((holder, looking));

    // Then the server goes away.
    let Testbed { server, address, stop, serving, .. } = testbed;
    let health = async || {
        let stream = TcpStream::connect(address).await.expect("connected");
        ask(stream, &get("/healthz")).await
    };
    let well = health().await;
    assert!(well.starts_with("HTTP/1.1 200") && well.ends_with("\r\n\r\nok\n"), "{well}");
    let stopped = tokio::task::spawn_blocking(|| server.stop_immediately()).await;
    stopped.expect("no panic").expect("stopped");
    loop {
        let ill = health().await;
        if ill.starts_with("HTTP/1.1 503") && ill.contains("no rows can be written: cannot connect")
        {
            break;
        }
        // What is known counts for a second.
        assert!(ill.starts_with("HTTP/1.1 200"), "{ill}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    stop.request();
    serving.await.expect("no panic");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_too_long_or_does_not_come_is_refused() {
    let limits = HttpLimits { time: Duration::from_millis(500), ..limits() };
    let testbed = Testbed::new(Options::default(), limits, None).await;
    let stream = async || TcpStream::connect(testbed.address).await.expect("connected");
    let late = ask(stream().await, &post(9, "{\"id\"")).await;
    assert!(late.starts_with("HTTP/1.1 408"), "{late}");
    let long = ask(stream().await, &post(4_001, "")).await;
    assert!(long.starts_with("HTTP/1.1 413"), "{long}");
    let chunked = format!(
        "POST /ingest/events HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\nfff\r\n{}\r\n0\r\n\r\n",
        " ".repeat(0xfff)
    );
    let long = ask(stream().await, &chunked).await;
    assert!(long.starts_with("HTTP/1.1 413"), "{long}");
    testbed.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_clients_of_a_known_authority_are_heard() {
    let directory = tempfile::tempdir().expect("a directory");
    let write = |name: &str, text: String| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).expect("written");
        path
    };
    let authority = || {
        let mut params = CertificateParams::new(Vec::new()).expect("params");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("signed")
    };
    let (known, stranger) = (authority(), authority());
    let certificate = |issuer: &CertifiedIssuer<'static, KeyPair>| {
        let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("params");
        let key = KeyPair::generate().expect("a key");
        let signed = params.signed_by(&key, issuer).expect("signed");
        (signed.pem(), key.serialize_pem())
    };
    let (own, key) = certificate(&known);
    let files = TlsFiles {
        certificate: write("own.crt", own),
        key: write("own.key", key),
        client_authorities: Some(write("ca.crt", known.pem())),
    };
    let testbed = Testbed::new(Options::default(), limits(), Some(files)).await;
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(known.pem().as_bytes()).expect("a certificate");
    roots.add(root).expect("a root");
    let greet = async |identity: Option<(String, String)>| {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots.clone());
        let config = match identity {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let chain =
                    vec![CertificateDer::from_pem_slice(certificate.as_bytes()).expect("it")];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
                config.with_client_auth_cert(chain, key).expect("fits")
            }
        };
        let stream = TcpStream::connect(testbed.address).await.expect("connected");
        let name = ServerName::try_from("localhost").expect("a name");
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        let mut stream = stream?;
        // TLS 1.3 tells a client only behind its first bytes that it is not wanted.
        let mut answer = String::new();
        let asked = stream.write_all(post(9, "{\"id\": 7}").as_bytes()).await;
        asked.and(stream.read_to_string(&mut answer).await.map(|_| answer))
    };
    assert!(greet(None).await.is_err());
    assert!(greet(Some(certificate(&stranger))).await.is_err());
    let answer = greet(Some(certificate(&known))).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    testbed.end().await;
}
