//! TLS towards clients and towards servers.

use std::io::Cursor;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::SinkExt;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use walwright_gateway::{Authentication, Tls, Users};
use walwright_wire::{
    ChannelBinding, ConnectOptions, Connector, Host, RootCert, Secret, SslMode, SslNegotiation,
    WireError,
};

use crate::common::{PASSWORD, Testbed};

/// A certificate for `localhost` that is its own authority, with its key: their files.
fn identity(directory: &std::path::Path) -> (PathBuf, PathBuf) {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("params");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let secret = KeyPair::generate().expect("key");
    let own = params.self_signed(&secret).expect("signed");
    let (certificate, key) = (directory.join("own.crt"), directory.join("own.key"));
    std::fs::write(&certificate, own.pem()).expect("written");
    std::fs::write(&key, secret.serialize_pem()).expect("written");
    (certificate, key)
}

#[test]
fn clients_are_encrypted_as_libpq_wants_it() {
    let directory = tempfile::tempdir().expect("temp dir");
    let (certificate, key) = identity(directory.path());
    let tls = Tls::from_files(&certificate, &key, true).expect("fits");
    let testbed = Testbed::over_tcp(|options| {
        options.authentication =
            Authentication::Scram(Arc::new(Users { ask_server: true, ..Users::default() }));
        options.tls = Some(tls);
    });
    let options = |mode: SslMode| {
        let host = Host::Tcp("localhost".to_owned());
        let mut options = ConnectOptions::new(host, testbed.port(), "postgres", "postgres");
        options.hostaddr = Some([127, 0, 0, 1].into());
        options.password = Some(Secret::new(PASSWORD));
        options.tls.mode = mode;
        options
    };
    let one = |options: ConnectOptions| -> Result<String, WireError> {
        let mut connection = Connector::new(options)?.connect()?;
        assert!(connection.stream().is_tls());
        let long = "SELECT repeat('x', 300000)";
        let rows = connection.query(long)?;
        assert_eq!(rows[0][0].as_ref().map(String::len), Some(300_000));
        Ok(connection.query("SELECT current_user")?[0][0].clone().unwrap_or_default())
    };
    for binding in [ChannelBinding::Disable, ChannelBinding::Prefer, ChannelBinding::Require] {
        let mut bound = options(SslMode::Require);
        bound.tls.channel_binding = binding;
        assert_eq!(one(bound).unwrap(), "postgres");
    }
    let mut verified = options(SslMode::VerifyFull);
    verified.tls.roots = RootCert::File(certificate);
    assert_eq!(one(verified.clone()).unwrap(), "postgres");
    verified.tls.negotiation = SslNegotiation::Direct;
    assert_eq!(one(verified.clone()).unwrap(), "postgres");
    verified.password = Some(Secret::new("wrong"));
    let refused = one(verified).unwrap_err();
    assert_eq!(refused.server_error().map(|fields| fields.code.as_str()), Some("28P01"));
    let refused = Connector::new(options(SslMode::Disable)).unwrap().connect().unwrap_err();
    assert_eq!(refused.server_error().map(|fields| fields.code.as_str()), Some("28000"));
}

/// Databases of one server share its barrier, and nothing of how each is connected to.
#[test]
fn each_database_has_its_own_way_to_the_server() {
    let testbed = Testbed::over_tcp(|options| {
        options.authentication = Authentication::Trust;
        let mut encrypted = options.databases[0].clone();
        let mut server = (*encrypted.server).clone();
        server.addresses[0].tls.mode = SslMode::Require;
        encrypted.name = Some("encrypted".to_owned());
        encrypted.dbname = Some("postgres".to_owned());
        encrypted.server = Arc::new(server);
        options.databases.push(encrypted);
    });
    let ask = |database: &str| {
        let host = Host::Tcp("127.0.0.1".to_owned());
        let mut options = ConnectOptions::new(host, testbed.port(), "postgres", database);
        options.tls.mode = SslMode::Disable;
        Connector::new(options)?.connect()?.query("SELECT 1")
    };
    assert!(ask("postgres").is_ok());
    let refused = ask("encrypted").expect_err("the server has no TLS").to_string();
    assert!(refused.contains("TLS"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_long_goes_both_ways_to_a_server_with_tls() {
    let testbed = Testbed::over_tls(|_| {});
    let client = testbed.client().await;
    let all = async {
        let encrypted = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        assert!(client.query_one(encrypted, &[]).await.unwrap().get::<_, bool>(0));
        for length in [300_000_i32, 5_000_000] {
            let long = client.query_one("SELECT repeat('x', $1)", &[&length]).await.unwrap();
            assert_eq!(long.get::<_, &str>(0).len() as i32, length);
        }
        client.batch_execute("CREATE TABLE t (a text)").await.unwrap();
        // The server takes its time to read what is copied.
        let trigger = "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS \
                       'BEGIN PERFORM pg_sleep(0.01); RETURN new; END'; \
                       CREATE TRIGGER wait BEFORE INSERT ON t FOR EACH ROW \
                       EXECUTE FUNCTION wait()";
        client.batch_execute(trigger).await.unwrap();
        let mut sink = Box::pin(client.copy_in("COPY t FROM STDIN").await.unwrap());
        for _ in 0..40 {
            let line = [&[b'x'; 200_000][..], b"\n"].concat();
            sink.send(Cursor::new(line)).await.unwrap();
        }
        assert_eq!(sink.as_mut().finish().await.unwrap(), 40);
        let text = "y".repeat(3_000_000);
        client.execute("INSERT INTO t VALUES ($1)", &[&text]).await.unwrap();
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), all).await.expect("it does not hang");
}
